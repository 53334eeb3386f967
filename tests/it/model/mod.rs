//! Random operations against a reference model, with reopens at random points.
//!
//! Each world is one store of a sort (a file, memory, a simulated disk that is killed or loses its power) at one level.
//! Small log halves make checkpoints happen all the time, so reads go through memory, the frozen table and the base.
//! The seed is printed, and taken back from `SPRAG_SEED`.

mod draw;
mod layers;
pub mod reference;
pub mod subject;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sprag::testkit::{CrashPlan, RamDisk, SimDisk};
use sprag::{Error, ErrorKind, Level, ManualClock, Options, Store};

use crate::common::{folder, shared, small_with};
use crate::random::{Random, seed};
use draw::in_percent;
use reference::{Answer, Key, Op, Range, Reference, Scan};
use subject::Stop;

const STEPS: u64 = 2500;

/// Where the bytes of a world are while its store is closed.
enum Place {
    File(PathBuf),
    Memory(Arc<RamDisk>),
    Simulated(SimDisk),
}

struct World {
    place: Place,
    level: Level,
    clock: ManualClock,
    store: Option<Store>,
    reference: Reference,
    random: Random,
    /// What happened, by name: a trial in which something never happens shows nothing about it.
    seen: BTreeMap<&'static str, u64>,
}

/// A simulated disk is there for one order of events, so nothing runs beside it.
fn options_of(place: &Place, clock: &ManualClock, level: Level) -> Options {
    let options = small_with(clock).level(level);
    match place {
        Place::Simulated(_) => options.checkpoints_in_line(),
        Place::File(_) | Place::Memory(_) => options,
    }
}

/// The steps that these bytes decide, on a disk that is killed and loses its power, and everything compared at the end.
pub fn follow(bytes: &[u8]) {
    let mut random = Random::of_bytes(bytes);
    let level = if random.below(2) == 0 {
        Level::Sync
    } else {
        Level::Buffered
    };
    let mut world = World::new(Place::Simulated(SimDisk::new()), level, random);
    let mut step = 0;
    while !world.random.is_over() {
        world.step(step);
        step += 1;
    }
    world.reopen(step);
}

impl World {
    fn new(place: Place, level: Level, random: Random) -> World {
        let clock = ManualClock::new();
        let options = options_of(&place, &clock, level);
        let store = match &place {
            Place::File(path) => options.create_new(path),
            Place::Memory(disk) => options.create_on(disk.clone()),
            Place::Simulated(disk) => options.create_on(shared(disk)),
        };
        World {
            place,
            level,
            clock,
            store: Some(store.expect("a new store")),
            reference: Reference::default(),
            random,
            seen: BTreeMap::new(),
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open between two steps")
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn step(&mut self, step: u64) {
        match self.random.below(100) {
            0..=54 => self.write(step),
            55..=64 => self.once(step),
            65..=84 => self.read(step),
            85..=95 => self.pass_time(),
            96 | 97 => self.store().sync().expect("synced"),
            _ => self.reopen(step),
        }
    }

    fn run(&mut self) {
        for step in 0..STEPS {
            self.step(step);
        }
        self.reopen(STEPS);
        for must in [
            "closed",
            "dropped or died",
            "committed",
            "aborted",
            "panicked",
            "too large",
            "unchanged",
            "conflict",
            "refused",
            "already there",
            "first",
            "undone",
            "repeat",
            "mismatch",
            "invalid",
            "records",
            "checkpoints",
        ] {
            assert!(self.seen.contains_key(must), "never happened: {must}; {:?}", self.seen);
        }
    }

    /// Both hands move, also while the store is closed.
    fn pass_time(&mut self) {
        let ms = [1, 10, 500, 3000][self.random.below(4) as usize] + self.random.below(3);
        self.clock.advance(Duration::from_millis(ms));
        self.reference.now_ms += ms;
    }

    fn agree(&mut self, step: u64, ops: &[Op], answers: &[Answer], expected: &[Answer]) {
        for (op, (answer, expected)) in ops.iter().zip(answers.iter().zip(expected)) {
            assert_eq!(answer, expected, "step {step}: {op:?}");
        }
        assert_eq!(answers.len(), expected.len(), "step {step}");
        for answer in answers {
            self.note(answer);
        }
    }

    fn note(&mut self, answer: &Answer) {
        let inner = match answer {
            Answer::Unchanged(_) => return self.saw("unchanged"),
            Answer::Conflict(_) => return self.saw("conflict"),
            Answer::Refused(..) => return self.saw("refused"),
            Answer::AlreadyThere(_) => return self.saw("already there"),
            Answer::Repeat(..) => return self.saw("repeat"),
            Answer::Failed(ErrorKind::Mismatch) => return self.saw("mismatch"),
            Answer::Failed(ErrorKind::Invalid) => return self.saw("invalid"),
            Answer::Records(records) if records.len() > 3 => return self.saw("records"),
            Answer::First(inner, _) => {
                self.saw("first");
                inner
            }
            Answer::Undone(inner) => {
                self.saw("undone");
                inner
            }
            _ => return,
        };
        for answer in inner {
            self.note(answer);
        }
    }

    /// A write of some operations that ends in one of three ways.
    fn write(&mut self, step: u64) {
        let ops: Vec<Op> = (0..=self.random.below(8))
            .map(|_| draw::op(&mut self.random, 0))
            .collect();
        let before = self.reference.clone();
        let expected = self.reference.all(&ops);
        let mut answers = Vec::new();
        let (aborts, panics) = (in_percent(&mut self.random, 10), in_percent(&mut self.random, 3));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.store().write(|tx| {
                answers = subject::write_all(tx, &ops);
                if panics {
                    // Not by a call of panic!, which would print.
                    std::panic::resume_unwind(Box::new("wanted"));
                }
                if aborts { Err(Stop::Wanted) } else { Ok(()) }
            })
        }));
        self.agree(step, &ops, &answers, &expected);
        let end = match outcome {
            Ok(Ok(())) => return self.saw("committed"),
            Err(panic) if panics => {
                assert_eq!(
                    panic.downcast_ref(),
                    Some(&"wanted"),
                    "step {step}: another panic came out"
                );
                "panicked"
            }
            Ok(Err(Stop::Wanted)) if aborts => "aborted",
            Ok(Err(Stop::Store(error))) => {
                assert_eq!(error.kind(), ErrorKind::TooLarge, "step {step}: {error:?}");
                "too large"
            }
            other => panic!("step {step}: {other:?}"),
        };
        self.reference = before;
        self.saw(end);
    }

    /// The same as a call of its own, which looks at durable keys first and needs no write then.
    fn once(&mut self, step: u64) {
        let once = draw::once(&mut self.random, 0);
        let before = self.reference.clone();
        let op = [Op::Once(once.clone())];
        let expected = self.reference.all(&op);
        let mut answers = Vec::new();
        let outcome = self
            .store()
            .once(&subject::key_of(&once), |tx| subject::work(tx, &once, &mut answers));
        let answer = subject::once_answer(outcome, answers);
        if answer == Answer::Failed(ErrorKind::TooLarge) {
            self.reference = before;
            return self.saw("too large");
        }
        self.agree(step, &op, &[answer], &expected);
    }

    fn read(&mut self, step: u64) {
        let ops: Vec<Op> = (0..=self.random.below(6))
            .map(|_| draw::reading(&mut self.random))
            .collect();
        let expected = self.reference.clone().all(&ops);
        let answers = self
            .store()
            .read(|tx| Ok::<_, Error>(subject::read_all(tx, &ops)))
            .expect("a read");
        self.agree(step, &ops, &answers, &expected);
    }

    /// Closes in one of the ways there are, lets time pass, opens, and compares everything.
    fn reopen(&mut self, step: u64) {
        let store = self.store.take().expect("open between two steps");
        if store.stats().expect("figures").checkpoints > 0 {
            self.saw("checkpoints");
        }
        let dies = in_percent(&mut self.random, 50);
        match &mut self.place {
            Place::Simulated(disk) if dies => {
                // At Buffered what was answered survives a kill, at Sync also a power loss.
                let plan = [
                    CrashPlan::DropAll,
                    CrashPlan::KeepAll,
                    CrashPlan::TearOne,
                    CrashPlan::Any,
                ];
                let plan = plan[self.random.below(4) as usize];
                let after = match self.level {
                    Level::Buffered => disk.kill(),
                    Level::Sync => disk.power_loss(self.random.below(u64::MAX), plan),
                };
                drop(store);
                *disk = after;
                self.saw("dropped or died");
            }
            _ if dies => {
                drop(store);
                self.saw("dropped or died");
            }
            _ => {
                store.close().expect("closed");
                self.saw("closed");
            }
        }
        if in_percent(&mut self.random, 50) {
            self.pass_time();
        }
        if in_percent(&mut self.random, 30) {
            self.clock.reboot();
        }
        self.level = if in_percent(&mut self.random, 50) {
            Level::Sync
        } else {
            Level::Buffered
        };
        let options = options_of(&self.place, &self.clock, self.level);
        let opened = match &self.place {
            Place::File(path) => options.open(path),
            Place::Memory(disk) => options.open_on(disk.clone()),
            Place::Simulated(disk) => options.open_on(shared(disk)),
        };
        self.store = Some(opened.expect("opened again"));
        self.compare_all(step);
    }

    fn compare_all(&mut self, step: u64) {
        let scan = |table, reverse| {
            Op::Scan(Scan {
                table,
                range: Range::All,
                reverse,
            })
        };
        let mut ops: Vec<Op> = (0..Key::TABLES)
            .flat_map(|table| [scan(table, false), scan(table, true)])
            .collect();
        ops.extend((0..12).map(Op::Remembered));
        let expected = self.reference.clone().all(&ops);
        let answers = self
            .store()
            .read(|tx| Ok::<_, Error>(subject::read_all(tx, &ops)))
            .expect("a read");
        self.agree(step, &ops, &answers, &expected);
    }
}

#[test]
fn a_file_agrees_with_the_reference() {
    let folder = folder();
    World::new(
        Place::File(folder.path().join("t.sprag")),
        Level::Buffered,
        Random::new(seed()),
    )
    .run();
}

#[test]
fn a_store_in_memory_agrees_with_the_reference() {
    World::new(
        Place::Memory(Arc::new(RamDisk::new())),
        Level::Sync,
        Random::new(seed()),
    )
    .run();
}

#[test]
fn a_store_that_is_killed_and_loses_its_power_agrees_with_the_reference() {
    World::new(Place::Simulated(SimDisk::new()), Level::Sync, Random::new(seed())).run();
}

/// The reference itself can disagree: a model that accepts every answer shows nothing.
#[test]
fn the_reference_notices_a_version_that_is_one_too_high() {
    let mut world = World::new(
        Place::Memory(Arc::new(RamDisk::new())),
        Level::Sync,
        Random::new(seed()),
    );
    let put = |value| [Op::Put(Key::Number(1), reference::Condition::Any, vec![value])];
    world.reference.all(&put(1));
    world
        .store()
        .write(|tx| Ok::<_, Error>(subject::write_all(tx, &put(1))))
        .expect("written");
    world.compare_all(0);
    world
        .store()
        .write(|tx| Ok::<_, Error>(subject::write_all(tx, &put(2))))
        .expect("written");
    assert!(catch_unwind(AssertUnwindSafe(|| world.compare_all(1))).is_err());
}
