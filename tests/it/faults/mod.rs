//! Faults: whichever call of the disk fails, once or for ever, every call of the store answers, what callers were told is
//! true, and the same handle works again when the disk does.
//!
//! A workload is run again and again, each time with the next call of one kind failing, until it runs through untouched.
//! After each failure, and at the end, the process is killed and the power cut, and what is left is opened and compared. The
//! ordinary trial takes every n-th place, from one that `SPRAG_SEED` draws; `SPRAG_TRIALS=all` takes all of them.

mod life;
mod second;
mod told;
mod work;

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use sprag::testkit::{FaultKind, FaultMode, SimDisk};
use sprag::{Level, ManualClock};

use crate::common::{shared, small_with};
use crate::random::{Random, in_full, seed};
use life::{Fault, Figures, Life, World};

/// No life takes longer, or something hangs.
const WATCHDOG: Duration = Duration::from_secs(30);

const KINDS: [FaultKind; 11] = [
    FaultKind::Len,
    FaultKind::Read,
    FaultKind::Write,
    FaultKind::WriteShort,
    FaultKind::WriteSynced,
    FaultKind::WriteSyncedShort,
    FaultKind::WriteSyncedLost,
    FaultKind::WriteSyncedLanded,
    FaultKind::Sync,
    FaultKind::SyncLanded,
    FaultKind::SetLen,
];
const MODES: [FaultMode; 2] = [FaultMode::FailOnce, FaultMode::FailForever];
const ERRORS: [io::ErrorKind; 3] = [
    io::ErrorKind::Other,
    io::ErrorKind::StorageFull,
    io::ErrorKind::ReadOnlyFilesystem,
];

impl World {
    fn new(level: Level, seed: u64, says: mpsc::Sender<String>) -> World {
        let disk = SimDisk::new();
        let store = small_with(&ManualClock::new()).create_on(shared(&disk));
        drop(store.expect("a store"));
        World {
            level,
            seed,
            made: disk.kill(),
            steps: work::draw(&mut Random::new(seed)),
            says,
        }
    }
}

/// A fault by the number of its place.
type Placed = Box<dyn Fn(u64) -> Fault>;

/// Every fault there is, with its name.
fn faults() -> Vec<(String, Placed)> {
    let calls = KINDS.iter().flat_map(|kind| {
        MODES.map(|mode| {
            let fault = move |n| Fault::Calls(*kind, mode, n);
            (format!("{kind:?} {mode:?}"), Box::new(fault) as Placed)
        })
    });
    calls
        .chain([("no room".to_owned(), Box::new(Fault::Room) as Placed)])
        .collect()
}

/// Runs `trial` on a thread that says what it is about to do, and fails if nothing is heard of it for long.
fn watched(trial: impl FnOnce(mpsc::Sender<String>) + Send + 'static) {
    let (says, hears) = mpsc::channel();
    let thread = std::thread::spawn(move || trial(says));
    let mut last = String::new();
    loop {
        match hears.recv_timeout(WATCHDOG) {
            Ok(what) => last = what,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {last}"),
        }
    }
    if let Err(panic) = thread.join() {
        println!("last: {last}");
        std::panic::resume_unwind(panic);
    }
}

/// Every place of every fault in three workloads, or every `stride`-th of one. In one life of so many the openings of what
/// it leaves are struck as well.
fn every_place(level: Level, stride: u64, one_in: u64) {
    let seed = seed();
    let (worlds, stride, one_in) = if in_full() { (3, 1, 40) } else { (1, stride, one_in) };
    watched(move |says| {
        let mut random = Random::new(seed);
        let mut all = Figures::default();
        for _ in 0..worlds {
            let world = World::new(level, random.below(u64::MAX), says.clone());
            for (name, fault) in faults() {
                let begin = random.below(stride);
                let lives = (begin..).step_by(stride as usize);
                let struck = lives.take_while(|n| one_life(&world, &name, fault(*n), *n, one_in, &mut all));
                println!("{level:?}, {name}: places={}", struck.count());
            }
        }
        println!("{level:?}: {all:?}");
    });
}

/// Says whether the fault struck.
fn one_life(world: &World, name: &str, fault: Fault, n: u64, one_in: u64, all: &mut Figures) -> bool {
    let error = ERRORS[(n % 3) as usize];
    let label = format!("{:?}, {name}, n={n}, error={error:?}", world.level);
    world.says(&label);
    let mut life = Life::new(world, fault, error, world.seed ^ n);
    if all.places % one_in == one_in - 1 {
        life = life.with_second(if in_full() { 5 } else { 11 });
    }
    let struck = life.run().unwrap_or_else(|what| panic!("{label}: {what}"));
    all.places += u64::from(struck);
    all.images += life.figures.images;
    all.failed += life.figures.failed;
    all.in_doubt += life.figures.in_doubt;
    all.second += life.figures.second;
    struck
}

#[test]
fn whatever_call_fails_what_was_told_is_true_and_the_handle_works_again_at_level_sync() {
    every_place(Level::Sync, 7, 40);
}

#[test]
fn whatever_call_fails_what_was_told_is_true_and_the_handle_works_again_at_level_buffered() {
    every_place(Level::Buffered, 7, 40);
}
