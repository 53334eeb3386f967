//! Who runs, and where a delivery ends: the hand that the proof kit has on the calls of a store and of a far end.
//!
//! A delivery passes points: before and after each call of the store or a far end, and before each operation inside of a
//! closure. At a point it can be stopped, as by a kill or by a panic. Between calls several deliveries can be made to
//! take turns, so that one seed is one order.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Arc;

use crate::Probe;
use crate::disk::sim::SimDisk;
use crate::sync::{Condvar, Mutex};

thread_local! {
    /// Which of the deliveries at the same time this thread is; `None` for everybody else.
    static COPY: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Most points of a delivery that ends.
const POINTS_MAX: usize = 10_000;

/// What a stopped delivery unwinds with.
pub(super) struct Stopped;

/// How a delivery ends at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The handler panics; the store lives on.
    Panic,
    /// The process is killed: what the system has of the file stays.
    Kill,
    /// The power fails: of the file only what was synced stays.
    PowerLoss,
}

/// Shared by the store, the far end and the kit of one history.
#[derive(Debug, Default)]
pub(super) struct Director {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The points that the delivery came to, in words.
    points: Vec<String>,
    /// Calls that began, and by copy those that have not ended: number, name, and how many operations began inside of it.
    calls: u64,
    open: Vec<Vec<(u64, &'static str, u64)>>,
    /// The delivery passed more points than any that ends.
    endless: bool,
    end: Option<(u64, End)>,
    /// The machine is gone: whatever a delivery still does happens to nobody.
    gone: bool,
    /// What is left of the disk.
    left: Option<SimDisk>,
    disk: Option<SimDisk>,
    turns: Option<Turns>,
}

/// Where a point is.
#[derive(Clone, Copy)]
enum Place {
    Before(&'static str),
    Inside,
    After,
}

impl State {
    fn words(&mut self, copy: usize, place: Place) -> String {
        let mut none = Vec::new();
        let open = self.open.get_mut(copy).unwrap_or(&mut none);
        match place {
            Place::Before(call) => {
                self.calls += 1;
                open.push((self.calls, call, 0));
                format!("before call {} ({call})", self.calls)
            }
            Place::Inside => match open.last_mut() {
                Some((number, call, operations)) => {
                    *operations += 1;
                    format!("inside of call {number} ({call}), before operation {operations}")
                }
                None => "before an operation".to_owned(),
            },
            Place::After => match open.pop() {
                Some((number, call, _)) => format!("after call {number} ({call})"),
                None => "after a call".to_owned(),
            },
        }
    }
}

/// Deliveries that take turns; at most one of them runs.
type Turns = Vec<Turn>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// On its way to its first call, or from one call to the next.
    Runs,
    Waits,
    Done,
}

/// Makes this thread a copy until dropped.
pub(super) struct AsCopy;

impl AsCopy {
    pub(super) fn enter(copy: usize) -> AsCopy {
        COPY.set(Some(copy));
        AsCopy
    }
}

impl Drop for AsCopy {
    fn drop(&mut self) {
        COPY.set(None);
    }
}

impl Director {
    /// A delivery begins: its points count from zero, and it ends at `end` if it comes so far.
    pub(super) fn begin(&self, copies: usize, end: Option<(u64, End)>, disk: &SimDisk) {
        let mut state = self.state.lock();
        state.points.clear();
        (state.calls, state.endless) = (0, false);
        state.open = vec![Vec::new(); copies];
        state.end = end;
        state.disk = Some(disk.clone());
    }

    /// The points since [`Director::begin`], in words.
    pub(super) fn points(&self) -> Vec<String> {
        self.state.lock().points.clone()
    }

    /// The machine ends now, in the middle of whatever is being done, and leaves this disk.
    pub(super) fn end_with(&self, left: SimDisk) {
        let mut state = self.state.lock();
        if !state.gone {
            state.gone = true;
            state.left = Some(left);
        }
    }

    /// Whether the machine is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.state.lock().gone
    }

    /// Whether the delivery was stopped since it does not end.
    pub(super) fn is_endless(&self) -> bool {
        self.state.lock().endless
    }

    /// What the machine left, if it is gone. From then on there is a new one.
    pub(super) fn take_left(&self) -> Option<SimDisk> {
        let mut state = self.state.lock();
        state.gone = false;
        state.left.take()
    }

    fn point(&self, copy: usize, place: Place) {
        let mut state = self.state.lock();
        if state.gone || state.endless {
            drop(state);
            // What a guard does while its thread unwinds is done by nobody.
            if !std::thread::panicking() {
                resume_unwind(Box::new(Stopped));
            }
            return;
        }
        if state.points.len() >= POINTS_MAX {
            state.endless = true;
            drop(state);
            resume_unwind(Box::new(Stopped));
        }
        let here = state.points.len() as u64;
        let words = state.words(copy, place);
        state.points.push(words);
        let Some((_, end)) = state.end.filter(|(at, _)| *at == here) else {
            return;
        };
        let disk = state.disk.clone();
        match (end, disk) {
            (End::Kill, Some(disk)) => {
                state.gone = true;
                state.left = Some(disk.kill());
            }
            (End::PowerLoss, Some(disk)) => {
                state.gone = true;
                state.left = Some(disk.power_loss(0, crate::disk::crash::CrashPlan::DropAll));
            }
            (End::Panic, _) | (_, None) => {}
        }
        drop(state);
        resume_unwind(Box::new(Stopped));
    }

    /// Deliveries take turns from now on.
    pub(super) fn take_turns(&self, copies: usize) {
        self.state.lock().turns = Some(vec![Turn::Runs; copies]);
    }

    /// Lets one copy after the other go on until its next call, as `choose` says: it is given those that wait, the one that
    /// ran last first. Returns when all are done.
    pub(super) fn conduct(&self, mut choose: impl FnMut(&[usize]) -> usize) {
        let mut last = None;
        loop {
            let mut state = self.state.lock();
            while state.turns.as_ref().is_some_and(|turns| turns.contains(&Turn::Runs)) {
                self.moved.wait(&mut state);
            }
            let Some(turns) = &mut state.turns else { return };
            let waiting = turns.iter().enumerate().filter(|(_, turn)| **turn == Turn::Waits);
            let mut ready: Vec<usize> = waiting.map(|(copy, _)| copy).collect();
            ready.sort_by_key(|copy| (Some(*copy) != last, *copy));
            last = if ready.is_empty() {
                None
            } else {
                ready.get(choose(&ready)).or(ready.first()).copied()
            };
            match last.and_then(|copy| turns.get_mut(copy)) {
                Some(turn) => *turn = Turn::Runs,
                None => {
                    state.turns = None;
                    return;
                }
            }
            drop(state);
            self.moved.notify_all();
        }
    }

    /// Waits for the turn of this copy, if copies take turns.
    pub(super) fn wait_for_turn(&self, copy: usize) {
        let mut state = self.state.lock();
        set(&mut state, copy, Turn::Waits);
        self.moved.notify_all();
        let waits = |state: &State| state.turns.as_ref().and_then(|turns| turns.get(copy)) == Some(&Turn::Waits);
        while waits(&state) {
            self.moved.wait(&mut state);
        }
    }

    /// This copy has ended.
    pub(super) fn done(&self, copy: usize) {
        set(&mut self.state.lock(), copy, Turn::Done);
        self.moved.notify_all();
    }
}

impl Probe for Director {
    fn before(&self, call: &'static str) {
        let Some(copy) = COPY.get() else { return };
        let outermost = self.state.lock().open.get(copy).is_some_and(Vec::is_empty);
        // Inside of a closure the writer lock may be held, which the others would wait for.
        if outermost {
            self.wait_for_turn(copy);
        }
        self.point(copy, Place::Before(call));
    }

    fn after(&self) {
        if let Some(copy) = COPY.get() {
            self.point(copy, Place::After);
        }
    }

    fn inside(&self) {
        if let Some(copy) = COPY.get() {
            self.point(copy, Place::Inside);
        }
    }
}

fn set(state: &mut State, copy: usize, turn: Turn) {
    if let Some(place) = state.turns.as_mut().and_then(|turns| turns.get_mut(copy)) {
        *place = turn;
    }
}

/// The director of no history.
pub(super) fn nobody() -> Arc<Director> {
    Arc::default()
}
