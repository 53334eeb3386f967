//! A chain of crashes on one disk: open, compare, commit further, crash, and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use sprag::testkit::{FaultKind, FaultMode, SimDisk};
use sprag::{Error, Level, ManualClock, Options, Store};

use super::dice::Dice;
use super::evidence::{Call, keep};
use super::frames::Layout;
use super::ledger::{Ledger, Past};
use super::tally::{Kind, Tally, digest};
use super::trap::{Capture, Image, Phase, Target, Trap};
use super::work::{self, Stamp};

/// Crashes of a chain from which on its images count.
const CRASHES_MIN: u64 = 3;
/// Of so many images one is walked by a check as well.
const CHECKED_ONE_IN: u64 = 8;
/// Crashes of one chain.
const CRASHES: u64 = 24;
const HALF_BYTES: u64 = 16 << 10;

/// How the stores of a chain are run.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub name: &'static str,
    pub level: Level,
    /// Of a hundred lives, how many have a thread for checkpoints.
    pub background_percent: u64,
    pub threads_max: u64,
    /// Calls of the disk fail.
    pub faults: bool,
}

/// One chain.
pub struct Chain<'a> {
    mode: Mode,
    tally: &'a Tally,
    dice: Dice,
    /// For messages: what makes the same chain again.
    label: String,
    pad: usize,
    clock: ManualClock,
    /// Sequence of commit 0.
    sequence: u64,
    layout: Layout,
    disk: SimDisk,
    /// The same when the life began.
    began: SimDisk,
    past: Past,
    crashes: u64,
    /// Behind the end lie frames of the same lap, with which the next ones may line up.
    dead_ahead: bool,
}

impl<'a> Chain<'a> {
    /// Makes a store and runs a whole chain of crashes on it.
    pub fn run(mode: Mode, seed: u64, tally: &'a Tally) {
        let mut dice = Dice::new(seed);
        let pad = 150 + dice.below(1000) as usize;
        let clock = ManualClock::new();
        let disk = SimDisk::new();
        let store = options(mode, false, &clock)
            .log_half_bytes(HALF_BYTES)
            .create_on(Arc::new(disk.clone()))
            .unwrap();
        let salt = work::salt(dice.any(), false);
        work::found(&store, salt, pad).unwrap();
        let sequence = store.stats().unwrap().sequence;
        store.sync().unwrap();
        drop(store);
        let label = format!("mode={} chain_seed={seed} pad={pad}", mode.name);
        let past = Past {
            history: vec![salt],
            ..Past::default()
        };
        let layout = Layout::of(&disk);
        let mut chain = Chain {
            mode,
            tally,
            dice,
            label,
            pad,
            clock,
            sequence,
            layout,
            disk: disk.kill(),
            began: disk,
            past,
            crashes: 0,
            dead_ahead: false,
        };
        while chain.crashes < CRASHES {
            chain.live();
        }
    }

    /// One life of the store, up to its crash, and the images of that.
    fn live(&mut self) {
        let ledger = Arc::new(Ledger::new(self.past.clone(), self.mode.level == Level::Sync));
        let threads = 1 + self.dice.below(self.mode.threads_max);
        let background = self.dice.below(100) < self.mode.background_percent;
        let target = self.target(threads, true);
        let holds = (threads > 1, background);
        let trap = Trap::new(target, holds, self.dice.split(), Arc::clone(&ledger), self.layout);
        let trap = Arc::new(trap);
        self.began = self.disk.kill();
        let watching = Arc::clone(&trap);
        self.disk.on_event(move |event, disk| watching.meet(event, disk));
        if self.mode.faults {
            self.arm_faults();
        }
        match options(self.mode, background, &self.clock).open_on(Arc::new(self.disk.clone())) {
            Ok(store) => self.work(store, &trap, threads),
            Err(_) if trap.fired() => {}
            Err(_) if self.disk.faults_fired() > 0 => trap.rest(&self.disk),
            Err(cause) => panic!("an image does not open: {cause:?}, {}", self.label()),
        }
        self.disk.stop_observing();
        let capture = trap.take().unwrap();
        self.crashes += 1;
        self.judge(capture);
    }

    fn label(&self) -> String {
        format!("{} crash={}", self.label, self.crashes)
    }

    /// What is to be hit, and how many such calls pass before.
    fn target(&mut self, threads: u64, with_open: bool) -> (Target, u64) {
        let per_half = HALF_BYTES / (self.pad as u64 + 350);
        if self.dead_ahead && self.dice.one_in(2) {
            return (Target::Log, 1 + self.dice.below(2));
        }
        match self.dice.below(20) {
            0..=3 if with_open => (Target::Open, self.dice.below(6)),
            0..=4 => (Target::HalfStart, self.dice.below(3)),
            5..=9 => (Target::Base, self.dice.below(60)),
            10 => (Target::Rest, 0),
            11..=15 if threads > 1 => (Target::Group, self.dice.below(4)),
            11..=14 => (Target::Log, self.dice.below(3)),
            _ => (Target::Log, self.dice.below(per_half + per_half / 2)),
        }
    }

    fn arm_faults(&mut self) {
        let kinds = [
            FaultKind::Write,
            FaultKind::WriteShort,
            FaultKind::WriteSynced,
            FaultKind::WriteSyncedShort,
            FaultKind::WriteSyncedLost,
            FaultKind::WriteSyncedLost,
            FaultKind::WriteSyncedLanded,
            FaultKind::Sync,
            FaultKind::Sync,
            FaultKind::SyncLanded,
            FaultKind::SetLen,
            FaultKind::Read,
        ];
        for _ in 0..=self.dice.below(2) {
            let kind = kinds[self.dice.below(kinds.len() as u64) as usize];
            let passing = self.dice.below(40);
            let mode = match self.dice.below(2) {
                0 => FaultMode::FailOnce,
                _ => FaultMode::FailForever,
            };
            self.disk.fail(kind, passing, mode, std::io::ErrorKind::Other);
        }
    }

    fn work(&mut self, store: Store, trap: &Arc<Trap>, threads: u64) {
        if trap.fired() {
            return;
        }
        let ledger = &trap.ledger;
        match work::verify(&store, &ledger.past().history, self.pad) {
            Ok(number) => ledger.opened(number),
            Err(_) if self.disk.faults_fired() > 0 => return trap.rest(&self.disk),
            Err(what) => panic!("{what}, {}", self.label()),
        }
        trap.retarget(self.target(threads, false));
        trap.watch(Some(store.clone()));
        trap.enter(Phase::Run);
        self.commit(&store, trap, threads);
        trap.watch(None);
        if !trap.fired() && self.dice.one_in(4) {
            trap.enter(Phase::Close);
            let acked = ledger.acked();
            if store.close().is_ok() && !trap.fired() {
                ledger.synced(acked);
            }
            trap.rest(&self.disk);
        } else {
            trap.rest(&self.disk);
            drop(store);
        }
    }

    /// Commits on several threads until the trap is sprung or enough was done.
    fn commit(&mut self, store: &Store, trap: &Arc<Trap>, threads: u64) {
        let most = if self.dice.one_in(4) { 3 } else { 120 };
        let left = AtomicI64::new(1 + self.dice.below(most) as i64);
        let heals_at = if self.dice.one_in(2) {
            1 + self.dice.below(6)
        } else {
            u64::MAX
        };
        trap.ledger.begin_work(threads);
        let all: Vec<Dice> = (0..threads).map(|_| self.dice.split()).collect();
        let (disk, pad) = (&self.disk, self.pad);
        let worker = |dice| Worker {
            store,
            trap,
            disk,
            dice,
            pad,
            left: &left,
            heals_at,
        };
        let mut workers = all.into_iter().map(worker);
        if threads == 1
            && let Some(worker) = workers.next()
        {
            worker.run();
            return;
        }
        std::thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.run());
            }
        });
    }

    /// Judges every image of a crash, and goes on with one of them.
    fn judge(&mut self, capture: Capture) {
        let on = self.dice.below(capture.images.len() as u64) as usize;
        let mut next = None;
        self.dead_ahead = false;
        for (at, image) in capture.images.iter().enumerate() {
            let digest = digest(&image.disk, image.killed);
            let past = after(&capture.past, image.killed);
            let number = self.judge_one(image, &past, &capture.calls);
            let kinds = self.kinds(&capture, image, number);
            if self.crashes >= CRASHES_MIN {
                self.tally.add(digest, &kinds);
            }
            let dead = kinds.contains(&Kind::Dead);
            if dead || (at == on && !self.dead_ahead) {
                self.dead_ahead = dead;
                next = Some((image.disk.clone(), past));
            }
        }
        (self.disk, self.past) = next.unwrap();
    }

    /// Opens a copy of the image, compares, commits once more and sometimes closes and opens again.
    fn judge_one(&mut self, image: &Image, past: &Past, calls: &[Call]) -> u64 {
        let disk = image.disk.kill();
        let label = self.label();
        let background = self.dice.below(100) < self.mode.background_percent;
        let open = || match options(self.mode, background, &self.clock).open_on(Arc::new(disk.clone())) {
            Ok(store) => store,
            Err(cause) => {
                let kept = keep(&label.replace(' ', "-"), &self.began, calls, &image.disk);
                panic!(
                    "an image does not open: {cause:?}, killed={}, {label}, kept={kept}, past={past:?}",
                    image.killed
                )
            }
        };
        let verify = |store: &Store, history: &[u64]| match work::verify(store, history, self.pad) {
            Ok(number) => number,
            Err(what) => panic!("{what}, killed={}, {label}", image.killed),
        };
        if self.dice.below(CHECKED_ONE_IN) == 0 {
            let checked = options(self.mode, background, &self.clock).check_on(Arc::new(disk.clone()), |_| ());
            let checked = checked.expect("a look at an image");
            assert!(checked.is_sound(), "{checked:?}, killed={}, {label}", image.killed);
        }
        let store = open();
        let number = verify(&store, &past.history);
        let told = if image.killed { past.cached } else { past.durable };
        assert!(
            number >= told,
            "commit {told} is lost, found={number}, killed={}, {label}",
            image.killed
        );
        let mut history = past.history[..=number as usize].to_vec();
        let refused = history.iter().find_map(|salt| past.refused.get(salt));
        assert_eq!(
            refused, None,
            "a commit that was refused is there, found={number}, {label}"
        );
        assert_eq!(store.stats().unwrap().sequence, self.sequence + number, "{label}");
        if self.dice.one_in(4) {
            for _ in 0..=self.dice.below(3) {
                let stamp = Stamp {
                    number: history.len() as u64,
                    salt: work::salt(self.dice.any(), history.len() as u64 == number + 1),
                };
                store.write(|tx| work::apply(tx, stamp, self.pad)).unwrap();
                history.push(stamp.salt);
            }
            if self.dice.one_in(2) {
                store.close().unwrap();
            } else {
                drop(store);
            }
            assert_eq!(verify(&open(), &history), history.len() as u64 - 1, "{label}");
        }
        number
    }

    fn kinds(&self, capture: &Capture, image: &Image, number: u64) -> Vec<Kind> {
        let last = self.sequence + number;
        let log = self.layout.read_log(&image.disk);
        let (a, b) = log.split_at(log.len() / 2);
        let halves = [self.layout.frames(a), self.layout.frames(b)];
        let dead = halves.iter().flatten().any(|frame| frame.sequence > last);
        let next = halves.iter().any(|half| {
            half.windows(2).any(|pair| {
                pair[0].sequence == last && pair[1].at == pair[0].at + pair[0].len && pair[1].sequence == last + 1
            })
        });
        let kinds = [
            (Kind::Survived, number > capture.past.cached),
            (Kind::Dropped, capture.handed.is_some_and(|handed| handed > last)),
            (Kind::Torn, image.torn),
            (Kind::Dead, dead),
            (Kind::DeadNext, next),
            (Kind::Checkpoint, capture.in_checkpoint),
            (Kind::Beside, capture.beside_checkpoint),
            (Kind::Reused, capture.reuses_half),
            (Kind::Recovery, capture.phase == Phase::Open),
            (Kind::Killed, image.killed),
        ];
        kinds.into_iter().filter(|(_, is)| *is).map(|(kind, _)| kind).collect()
    }
}

/// What of the past still holds after a crash.
fn after(past: &Past, killed: bool) -> Past {
    let mut past = past.clone();
    if !killed {
        past.cached = past.durable;
    }
    past
}

fn options(mode: Mode, background: bool, clock: &ManualClock) -> Options {
    let options = Options::new()
        .level(mode.level)
        .cache_bytes(64 << 10)
        .verify_values(false)
        .clock(Arc::new(clock.clone()));
    if background {
        options
    } else {
        options.checkpoints_in_line()
    }
}

/// One thread of a run.
struct Worker<'a> {
    store: &'a Store,
    trap: &'a Trap,
    disk: &'a SimDisk,
    dice: Dice,
    pad: usize,
    left: &'a AtomicI64,
    /// Errors after which the disk is well again.
    heals_at: u64,
}

impl Worker<'_> {
    fn run(mut self) {
        while !self.trap.fired() && self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            match self.dice.below(10) {
                0 => self.deliver_again(),
                1 => self.sync(),
                _ => self.commit(),
            }
            if self.trap.ledger.errors() >= self.heals_at && !self.trap.fired() {
                self.disk.heal();
            }
        }
        self.trap.ledger.end_work();
    }

    fn commit(&mut self) {
        let ledger = &self.trap.ledger;
        let any = self.dice.any();
        let mut staged = None;
        let result: Result<(), Error> = self.store.write(|tx| {
            let stamp = ledger.stage(work::number(tx)? + 1, any);
            work::apply(tx, stamp, self.pad)?;
            staged = Some(stamp);
            ledger.decided();
            Ok(())
        });
        match (&result, staged) {
            (Ok(()), Some(stamp)) => ledger.acknowledged(stamp.number),
            (Ok(()), None) => unreachable!("a closure that returned has staged"),
            (Err(cause), _) => ledger.failed(staged.map(|stamp| stamp.salt), cause),
        }
        if staged.is_some() {
            ledger.returned();
        }
    }

    fn deliver_again(&mut self) {
        let ledger = &self.trap.ledger;
        let (number, salt) = ledger.newest();
        if number == 0 {
            return;
        }
        let mut decided = false;
        let answer = work::deliver_again(self.store, number, || {
            decided = true;
            ledger.decided();
        });
        match answer {
            // Another salt: what was newest then has been dropped and staged again since.
            Ok(Some(found)) if found == salt => ledger.acknowledged(number),
            Ok(_) => {}
            Err(cause) => ledger.failed(None, &cause),
        }
        if decided {
            ledger.returned();
        }
    }

    fn sync(&mut self) {
        let acked = self.trap.ledger.acked();
        match self.store.sync() {
            Ok(()) => self.trap.ledger.synced(acked),
            Err(cause) => self.trap.ledger.failed(None, &cause),
        }
    }
}
