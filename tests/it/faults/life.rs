//! One life of a store on a disk that fails at one place: whatever it was told stays true.

use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sprag::testkit::{CrashPlan, FaultKind, FaultMode, SimDisk};
use sprag::{ErrorKind, Keys, Level, ManualClock, Options, State, Store};

use crate::common::small_with;
use crate::model::reference::{Answer, Condition, Key, Op};
use crate::model::subject::OrderState;
use crate::random::Random;

use super::second::{self, Left};
use super::told::Told;
use super::work::{ORDERS, STATES, Step, everything, run};

/// Steps of one life after which images are judged, of those in which the fault struck or that sync what a fault met.
const LOOKS_MAX: u64 = 3;

/// What fails.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Calls of one kind, after so many that go well.
    Calls(FaultKind, FaultMode, u64),
    /// Growth beyond so many blocks more than the file has.
    Room(u64),
}

impl Fault {
    pub fn arm(self, disk: &SimDisk, error: io::ErrorKind) {
        match self {
            Fault::Calls(kind, mode, passing) => disk.fail(kind, passing, mode, error),
            Fault::Room(blocks) => disk.set_capacity(Some(disk.cache_image().len() as u64 + blocks * 4096)),
        }
    }

    /// Whether reads must go on: no call fails that a read makes.
    pub fn spares_reads(self) -> bool {
        !matches!(self, Fault::Calls(FaultKind::Len | FaultKind::Read, ..))
    }

    pub fn stays(self) -> bool {
        matches!(self, Fault::Room(_) | Fault::Calls(_, FaultMode::FailForever, _))
    }

    /// The kind that a caller must hear if this system error is the cause.
    pub fn kind(self, error: io::ErrorKind) -> ErrorKind {
        match (self, error) {
            (Fault::Room(_), _) | (_, io::ErrorKind::StorageFull) => ErrorKind::Full,
            (_, io::ErrorKind::ReadOnlyFilesystem) => ErrorKind::ReadOnly,
            _ => ErrorKind::Io,
        }
    }
}

/// A store that was made by nobody's fault, and what is the same for all its lives.
pub struct World {
    pub level: Level,
    pub seed: u64,
    pub made: SimDisk,
    pub steps: Vec<Step>,
    /// Somebody hears that the trial goes on.
    pub says: mpsc::Sender<String>,
}

impl World {
    pub fn says(&self, what: &str) {
        // Who does not listen any more has failed already.
        let _ = self.says.send(what.to_owned());
    }
}

/// What a life met and was asked.
#[derive(Debug, Default)]
pub struct Figures {
    /// Fault places: a call that failed, and how.
    pub places: u64,
    /// Images judged.
    pub images: u64,
    /// Calls of the store that were told an error, and of them those that were in doubt.
    pub failed: u64,
    pub in_doubt: u64,
    /// Openings that met a second fault.
    pub second: u64,
}

pub struct Life<'a> {
    world: &'a World,
    fault: Fault,
    error: io::ErrorKind,
    random: Random,
    disk: SimDisk,
    clock: ManualClock,
    told: Told,
    store: Option<Store>,
    /// Failed steps after which the disk is well again.
    heals_after: u64,
    healed: bool,
    pub figures: Figures,
    /// A second fault strikes at every so many places of each opening of an image.
    second: Option<u64>,
}

pub fn options(world: &World, clock: &ManualClock) -> Options {
    small_with(clock).level(world.level).checkpoints_in_line()
}

/// Whether a check finds an image sound, and it opens, and all that it shows. The one place that judges an image.
pub fn checked(disk: &SimDisk, options: Options) -> Result<Vec<Answer>, String> {
    let checked = options.clone().check_on(Arc::new(disk.clone()), |_| ());
    match checked {
        Ok(checked) if checked.is_sound() => {}
        other => return Err(format!("is not sound: {other:?}")),
    }
    let store = options
        .open_on(Arc::new(disk.clone()))
        .map_err(|error| format!("does not open: {error:?}"))?;
    shown(&store).map_err(|kind| format!("cannot be read: {kind:?}"))
}

/// All that a store shows. The look-up by state and its counts must be those of a scan of all records.
pub fn shown(store: &Store) -> Result<Vec<Answer>, ErrorKind> {
    let answers = run(&Step::Read(everything()), store)?;
    let by_state = store.read(|tx| {
        let mut all = Vec::new();
        for item in tx.scan(ORDERS, Keys::all())? {
            let (key, record) = item?;
            all.push((record.state.name(), key));
        }
        all.sort_unstable();
        let (mut listed, mut counted) = (Vec::new(), 0);
        for state in STATES.map(OrderState::of) {
            let keys = tx
                .in_state(ORDERS, state)?
                .map(|item| item.map(|(key, _)| (state.name(), key)));
            listed.extend(keys.collect::<Result<Vec<_>, sprag::Error>>()?);
            counted += tx.count_in_state(ORDERS, state)?;
        }
        listed.sort_unstable();
        Ok::<_, sprag::Error>((all, listed, counted))
    });
    let (all, listed, counted) = by_state.map_err(|error| error.kind())?;
    assert_eq!(listed, all, "the index of states");
    assert_eq!(counted, all.len() as u64, "the counts of states");
    Ok(answers)
}

impl<'a> Life<'a> {
    pub fn new(world: &'a World, fault: Fault, error: io::ErrorKind, seed: u64) -> Life<'a> {
        let mut random = Random::new(seed);
        Life {
            world,
            fault,
            error,
            disk: world.made.kill(),
            clock: ManualClock::new(),
            told: Told::new(),
            store: None,
            heals_after: [1, 3, 8, u64::MAX][random.below(4) as usize],
            random,
            healed: false,
            figures: Figures::default(),
            second: None,
        }
    }

    pub fn with_second(mut self, stride: u64) -> Life<'a> {
        self.second = Some(stride);
        self
    }

    /// Runs the workload. Says whether the fault struck.
    pub fn run(&mut self) -> Result<bool, String> {
        self.fault.arm(&self.disk, self.error);
        self.open().map_err(|what| format!("the first opening: {what}"))?;
        let mut looks = 0;
        for (at, step) in self.world.steps.iter().enumerate() {
            let failed = |what| format!("step {at}, {}: {what}", step.name());
            let before = (self.disk.faults_fired(), self.figures.failed);
            self.step(step).map_err(failed)?;
            let struck = before != (self.disk.faults_fired(), self.figures.failed);
            if looks < LOOKS_MAX && (struck || (self.struck() && matches!(step, Step::Sync))) {
                looks += 1;
                self.images("after it").map_err(failed)?;
            }
        }
        let struck = self.struck();
        self.images("at the end")?;
        self.heal();
        self.same_handle_works()?;
        self.images("after the disk was well")?;
        let store = self.store.take().expect("open");
        store
            .close()
            .map_err(|error| format!("a close on a well disk: {error:?}"))?;
        self.told.synced();
        self.images("after the close")?;
        Ok(struck)
    }

    fn struck(&self) -> bool {
        self.disk.faults_fired() > 0 || self.figures.failed > 0
    }

    fn heal(&mut self) {
        self.disk.heal();
        self.healed = true;
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open between two steps")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Pass(ms) => {
                self.clock.advance(Duration::from_millis(*ms));
                self.told.pass(*ms);
                Ok(())
            }
            Step::Reopen { closes } => {
                self.end(*closes)?;
                self.open()
            }
            _ => match run(step, self.store()) {
                Ok(answers) => self.answered(step, &answers),
                Err(kind) => {
                    if kind == ErrorKind::InDoubt {
                        self.figures.in_doubt += 1;
                        self.told.in_doubt(step);
                    }
                    self.failed(kind)
                }
            },
        }
    }

    fn answered(&mut self, step: &Step, answers: &[Answer]) -> Result<(), String> {
        match step {
            Step::Sync => self.told.synced(),
            Step::Sweep => {
                self.told.settled_as_applied();
                self.told.synced();
            }
            _ => self.told.answered(step, answers)?,
        }
        if self.world.level == Level::Sync {
            self.told.synced();
        }
        Ok(())
    }

    /// A call failed: the error must say what is so, and reads must go on.
    fn failed(&mut self, kind: ErrorKind) -> Result<(), String> {
        self.figures.failed += 1;
        if self.healed || !self.struck_ever() {
            return Err(format!("nothing is wrong with the disk, and the answer is {kind:?}"));
        }
        if kind != self.fault.kind(self.error) && kind != ErrorKind::InDoubt {
            return Err(format!("the disk says {:?} and the answer is {kind:?}", self.error));
        }
        if kind == ErrorKind::InDoubt && !self.fault.stays() {
            return Err("in doubt after a single failure".to_owned());
        }
        if self.fault.spares_reads() && !self.fault.stays() && self.store.is_some() {
            return Err(format!("a single failure was told, {kind:?}"));
        }
        if self.fault.spares_reads() && self.store.is_some() {
            let some = Step::Read(everything());
            let answers =
                run(&some, self.store()).map_err(|kind| format!("a read beside a failing write: {kind:?}"))?;
            self.told.answered(&some, &answers)?;
        }
        if self.figures.failed >= self.heals_after {
            self.heal();
        }
        Ok(())
    }

    fn struck_ever(&self) -> bool {
        self.disk.faults_fired() > 0 || matches!(self.fault, Fault::Room(_))
    }

    fn end(&mut self, closes: bool) -> Result<(), String> {
        let store = self.store.take().expect("open between two steps");
        if !closes {
            drop(store);
            return Ok(());
        }
        match store.close() {
            Ok(()) => {
                self.told.settled_as_applied();
                self.told.synced();
                Ok(())
            }
            Err(error) => self.failed(error.kind()),
        }
    }

    /// Opens, also after the disk is well if it must be.
    fn open(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            match options(self.world, &self.clock).open_on(Arc::new(self.disk.clone())) {
                Ok(store) => {
                    let seen = match shown(&store) {
                        Ok(seen) => seen,
                        Err(kind) => {
                            self.failed(kind)?;
                            self.heal();
                            shown(&store).map_err(|kind| format!("a read on a well disk: {kind:?}"))?
                        }
                    };
                    self.told.found(true, &seen)?;
                    self.store = Some(store);
                    return Ok(());
                }
                Err(error) => self.failed(error.kind())?,
            }
            if self.figures.failed > 1 {
                self.heal();
            }
        }
        Err("a well disk does not open".to_owned())
    }

    /// The handle that met the failures goes on by itself.
    fn same_handle_works(&mut self) -> Result<(), String> {
        let put = Step::Write(vec![Op::Put(Key::Number(999), Condition::Any, vec![9; 500])]);
        for step in [put, Step::Sweep, Step::Read(everything())] {
            let answers =
                run(&step, self.store()).map_err(|kind| format!("{} on a well disk: {kind:?}", step.name()))?;
            self.answered(&step, &answers)?;
        }
        if self.told.is_in_doubt() {
            return Err("something is in doubt on a well disk".to_owned());
        }
        Ok(())
    }

    /// Kills the process and cuts the power here, and judges what is left.
    fn images(&mut self, when: &str) -> Result<(), String> {
        let plan = [CrashPlan::DropAll, CrashPlan::Any][self.random.below(2) as usize];
        let cut = self.disk.power_loss(self.random.below(u64::MAX), plan);
        for (disk, killed) in [(self.disk.kill(), true), (cut, false)] {
            self.figures.images += 1;
            let failed = |what: String| format!("image {when}, killed={killed}: {what}");
            let opened = disk.kill();
            let seen = checked(&opened, options(self.world, &self.clock)).map_err(failed)?;
            self.told.clone().found(killed, &seen).map_err(failed)?;
            // What an opening showed survives the next power loss.
            let cut = opened.power_loss(0, CrashPlan::DropAll);
            if checked(&cut, options(self.world, &self.clock)).map_err(failed)? != seen {
                return Err(failed("a power loss takes what an opening showed".to_owned()));
            }
            if let Some(stride) = self.second {
                let left = Left {
                    disk: &disk,
                    killed,
                    told: &self.told,
                    options: &|| {
                        self.world.says(&format!("a second fault, {:?}", self.fault));
                        options(self.world, &self.clock)
                    },
                };
                self.figures.second += second::every_place(&left, stride, &mut self.random).map_err(failed)?;
            }
        }
        Ok(())
    }
}
