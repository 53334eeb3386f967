//! The trap: waits for one moment of a run and takes images of the disk there.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use sprag::Store;
use sprag::testkit::{CrashPlan, Disk, Event, EventKind, FaultKind, FaultMode, SimDisk};

use super::dice::Dice;
use super::evidence::Call;
use super::frames::Layout;
use super::ledger::{Ledger, Past};
use super::work;

/// Images taken at one moment; of a write of several frames twice as many, since it can be torn in more ways.
const IMAGES: usize = 3;

/// What a store is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    Open,
    Run,
    Close,
}

/// The calls among which the trap counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any call of the open.
    Open,
    /// A write to the log after the open.
    Log,
    /// A write of more than one frame to the log.
    Group,
    /// The first write to a half.
    HalfStart,
    /// A call of a checkpoint.
    Base,
    /// No call: the run ends, then the crash comes.
    Rest,
}

/// One image and how it came about.
#[derive(Clone, Debug)]
pub struct Image {
    pub disk: SimDisk,
    /// The process was killed; otherwise the power failed.
    pub killed: bool,
    /// The log is neither as it was durable nor as it was written.
    pub torn: bool,
}

/// A moment, and the images taken there.
#[derive(Debug)]
pub struct Capture {
    pub images: Vec<Image>,
    /// Every call of the life before it.
    pub calls: Vec<Call>,
    pub past: Past,
    pub phase: Phase,
    /// The highest sequence in the log write that was under way, if one was.
    pub handed: Option<u64>,
    pub in_checkpoint: bool,
    /// A log write while pages of a checkpoint were not durable.
    pub beside_checkpoint: bool,
    /// The log write that was under way goes over older frames at the beginning of a half.
    pub reuses_half: bool,
}

pub struct Trap {
    state: Mutex<State>,
    fired: AtomicBool,
    phase: AtomicU8,
    pub ledger: Arc<Ledger>,
    layout: Layout,
    /// Others may stage while a sync of the log is held back.
    holds_log: bool,
    /// Others may commit while a checkpoint is held back.
    holds_base: bool,
    store: Mutex<Option<Store>>,
}

struct State {
    target: Target,
    passing: u64,
    dice: Dice,
    calls: Vec<Call>,
    capture: Option<Capture>,
}

impl Trap {
    pub fn new(target: (Target, u64), holds: (bool, bool), dice: Dice, ledger: Arc<Ledger>, layout: Layout) -> Trap {
        let (target, passing) = target;
        let (holds_log, holds_base) = holds;
        let state = State {
            target,
            passing,
            dice,
            calls: Vec::new(),
            capture: None,
        };
        Trap {
            state: Mutex::new(state),
            fired: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Open as u8),
            ledger,
            layout,
            holds_log,
            holds_base,
            store: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
    }

    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Run,
            _ => Phase::Close,
        }
    }

    /// The store whose readers are asked before a crash; `None` lets go of it.
    pub fn watch(&self, store: Option<Store>) {
        *self.store.lock().unwrap() = store;
    }

    /// An open went by without the trap being sprung.
    pub fn retarget(&self, (target, passing): (Target, u64)) {
        let mut state = self.lock();
        if state.target == Target::Open {
            state.target = target;
            state.passing = passing;
        }
    }

    /// For [`SimDisk::on_event`].
    pub fn meet(&self, event: &Event<'_>, disk: &SimDisk) {
        if self.fired() {
            return;
        }
        self.lock().calls.push(Call::of(event, disk));
        let to_log = self.is_log(event);
        if self.phase() == Phase::Run {
            self.hold_back(to_log);
        }
        let next = {
            let state = self.lock();
            state.passing == 0 && self.matches(state.target, event)
        };
        if next && to_log && self.phase() == Phase::Run {
            self.ask_readers();
        }
        let mut state = self.lock();
        if self.fired() || !self.matches(state.target, event) {
            return;
        }
        match state.passing.checked_sub(1) {
            Some(passing) => state.passing = passing,
            None => self.spring(&mut state, Some(event), disk),
        }
    }

    fn hold_back(&self, to_log: bool) {
        let more = match to_log {
            true if self.holds_log => self.lock().dice.below(4),
            false if self.holds_base && self.lock().dice.one_in(6) => 1,
            _ => 0,
        };
        if more > 0 {
            self.ledger.hold(more);
        }
    }

    /// What readers have seen must stay. Asked from a log write only, since other calls come from inside the base; and
    /// without a lock, since the base may wait for one of ours.
    fn ask_readers(&self) {
        let store = self.store.lock().unwrap().clone();
        if let Some(store) = store
            && let Ok(number) = store.read(work::number)
        {
            self.ledger.acknowledged(number);
        }
    }

    /// The crash comes while nothing happens.
    pub fn rest(&self, disk: &SimDisk) {
        let mut state = self.lock();
        if !self.fired() {
            self.spring(&mut state, None, disk);
        }
    }

    pub fn take(&self) -> Option<Capture> {
        self.lock().capture.take()
    }

    fn is_log(&self, event: &Event<'_>) -> bool {
        matches!(event.kind, EventKind::Write | EventKind::WriteSynced) && self.layout.log().contains(&event.offset)
    }

    fn matches(&self, target: Target, event: &Event<'_>) -> bool {
        let opening = self.phase() == Phase::Open;
        match target {
            Target::Open => opening,
            Target::Log => !opening && self.is_log(event),
            Target::Group => !opening && self.is_log(event) && self.layout.frames(event.data).len() > 1,
            Target::HalfStart => !opening && self.is_log(event) && self.layout.begins_half(event.offset),
            Target::Base => !opening && !self.is_log(event),
            Target::Rest => false,
        }
    }

    fn spring(&self, state: &mut State, event: Option<&Event<'_>>, disk: &SimDisk) {
        let phase = self.phase();
        let log_event = event.filter(|event| self.is_log(event));
        let told = self.ledger.past();
        let durable = self.layout.read_log(&disk.power_loss(0, CrashPlan::DropAll));
        let mut written = self.layout.read_log(&disk.kill());
        let mut handed = None;
        let mut reuses_half = false;
        let mut group = false;
        if let Some(event) = log_event {
            let at = (event.offset - self.layout.log().start) as usize;
            let frames = self.layout.frames(event.data);
            handed = frames.last().map(|frame| frame.sequence);
            group = frames.len() > 1;
            let end = written.len().min(at + event.data.len());
            let below = self
                .layout
                .frames(&written[at..written.len().min(at + self.layout.half_bytes as usize / 4)]);
            reuses_half = phase != Phase::Open
                && self.layout.begins_half(event.offset)
                && below
                    .first()
                    .zip(frames.first())
                    .is_some_and(|(old, new)| old.sequence < new.sequence);
            written[at..end].copy_from_slice(&event.data[..end - at]);
        }
        let pending = disk.pending_changes() > 0;
        let plan = if group && state.dice.one_in(2) {
            CrashPlan::TearOne
        } else {
            CrashPlan::Any
        };
        let count = if group { 2 * IMAGES } else { IMAGES };
        let images = (0..count)
            .map(|_| self.image(state, event, disk, plan, &durable, &written))
            .collect();
        // Taken after the images: a commit staged meanwhile may be missing in them, and must not be unknown.
        let past = Past {
            history: self.ledger.past().history,
            ..told
        };
        state.capture = Some(Capture {
            images,
            calls: std::mem::take(&mut state.calls),
            past,
            phase,
            handed,
            in_checkpoint: phase != Phase::Open && event.is_some() && log_event.is_none(),
            beside_checkpoint: log_event.is_some_and(|event| event.kind == EventKind::WriteSynced) && pending,
            reuses_half,
        });
        self.fired.store(true, Ordering::Release);
        self.ledger.stop();
        for kind in [
            FaultKind::Write,
            FaultKind::WriteSynced,
            FaultKind::Sync,
            FaultKind::SetLen,
        ] {
            disk.fail(kind, 0, FaultMode::FailForever, std::io::ErrorKind::Other);
        }
    }

    fn image(
        &self,
        state: &mut State,
        event: Option<&Event<'_>>,
        disk: &SimDisk,
        plan: CrashPlan,
        durable: &[u8],
        written: &[u8],
    ) -> Image {
        let killed = state.dice.one_in(4);
        let after = match event {
            _ if killed => {
                let after = disk.kill();
                if let Some(event) = event {
                    half_done(event, &after, &mut state.dice);
                }
                after
            }
            Some(event) => disk.power_loss_during(event, state.dice.any(), plan),
            None => disk.power_loss(state.dice.any(), plan),
        };
        let log = self.layout.read_log(&after);
        Image {
            torn: log != durable && log != written,
            disk: after,
            killed,
        }
    }
}

/// A kill inside a write leaves some front part of it in the cache.
fn half_done(event: &Event<'_>, disk: &SimDisk, dice: &mut Dice) {
    if matches!(event.kind, EventKind::Write | EventKind::WriteSynced) {
        let part = match dice.below(3) {
            0 => 0,
            1 => event.data.len(),
            _ => dice.below(event.data.len() as u64 + 1) as usize,
        };
        disk.write(event.offset, &event.data[..part]).unwrap();
    }
}
