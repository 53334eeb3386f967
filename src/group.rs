//! Group commit: what is staged while a sync runs shares the next one.
//!
//! Owns the order of sequences, the choice of leader, and the one outcome of each ticket. Knows no file and starts no
//! thread: the work is done by a [`GroupEnv`] on the thread of whoever leads. Refuses to guess: a sequence that was
//! handed over and not made durable is in doubt until a later hand-over succeeds.
//!
//! A round is one hand-over. Others stage while it runs; what they staged is the next round, taken as a whole, for which its
//! leader may have waited a few milliseconds for further members (`gather`, which decides about speed and nothing else). If a
//! round fails, what was not yet handed over is dropped together with its epoch, and its sequences are given again: a
//! ticket therefore names its epoch, and its sequence means nothing without it.
//!
//! Invariants, whenever the state is unlocked
//! - `durable <= handed <= staged`, and the lot holds exactly the sequences above `handed`; it is there if any is.
//! - At most one thread is inside `GroupEnv::hand_over` or gathers for it, and `leading` says whether one is.
//! - Nobody leading and no doubt: `handed == durable`. In doubt: nothing is pending, and only [`Group::begin`] leads.
//! - Every wait ends, also if the environment fails or panics, and says `Ok` only of what is durable. Who waits for another
//!   thread's round is told after a while that its outcome is not known, and leaves; whoever leads is bound to its round.
//!
//! Not here: room, bytes and how they are written again (`engine`), snapshots, the writer lock that stagers hold.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, wait_at_most};

pub(crate) mod gather;
#[cfg(all(test, loom))]
mod models;

use gather::Gather;

/// What makes a lot durable. Called by one leader at a time, never under the lock of the group.
pub(crate) trait GroupEnv: Send + Sync {
    /// What was staged since the last hand-over.
    type Lot: Default + Send;

    /// Makes the lot durable, and with it everything that was handed over before and is not durable yet: the
    /// environment keeps those bytes itself. `None` only writes those again.
    ///
    /// `Ok` means that all of it is durable and already published. An error, or a panic, leaves what was handed over
    /// with the environment.
    fn hand_over(&self, lot: Option<Self::Lot>) -> Result<(), Error>;

    /// Time since some moment, by which the group sees how long a hand-over takes.
    fn elapsed(&self) -> Duration;
}

/// Stage order, leader, members and outcomes over one environment.
pub(crate) struct Group<E: GroupEnv> {
    env: E,
    state: Mutex<State<E::Lot>>,
    /// Copy of `State::durable`, written under `state`, so that a late wait needs no lock.
    durable: AtomicU64,
    /// Who waits for round n sleeps on `turns[n % 2]`. Two are enough: when round n ends all its sleepers are woken,
    /// so that only those of round n + 1 still sleep when somebody can first wait for round n + 2.
    turns: [Condvar; 2],
    /// A leader that waits for members sleeps here.
    gathered: Condvar,
    /// How long somebody waits for a round that another thread runs.
    patience: Duration,
}

/// A place in the stage order: everything up to `seq`, as seen in one epoch.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    /// The highest sequence this ticket stands for.
    pub(crate) seq: u64,
    epoch: Arc<Epoch>,
}

/// The answer of [`Group::begin`].
#[derive(Debug)]
pub(crate) struct Begun {
    /// What the decision that begins here sees: all that is staged.
    pub(crate) ticket: Ticket,
    /// Sequences above `ticket.seq` that the caller had staged were dropped. It takes its own state back to
    /// `ticket.seq` before it looks at it.
    pub(crate) rolled_back: bool,
}

/// The time between two drops. Sequences are unique within one.
#[derive(Debug)]
struct Epoch {
    /// The highest sequence that outlived this epoch, [`NOT_ENDED`] before. Written once, under the group's lock.
    kept: AtomicU64,
    /// Why the epoch ended; written before `kept`.
    cause: OnceLock<Error>,
}

/// `Epoch::kept` of the current epoch: no sequence is above it.
const NOT_ENDED: u64 = u64::MAX;

struct State<L> {
    epoch: Arc<Epoch>,
    /// What was staged and not handed over.
    pending: Option<L>,
    /// Highest sequence staged.
    staged: u64,
    /// Highest sequence given to the environment.
    handed: u64,
    /// Highest sequence the environment made durable.
    durable: u64,
    /// The round that runs, or ran last; the lot becomes the one after it.
    round: u64,
    /// A thread is inside `hand_over`, or gathers members before that.
    leading: bool,
    /// A leader waits until so many are pending; what is staged is of its round.
    gathering: Option<u64>,
    gather: Gather,
    /// Why the sequences above `durable` and up to `handed` are in doubt.
    doubt: Option<Error>,
}

impl<E: GroupEnv> Group<E> {
    /// A group that goes on after `durable`, with nothing staged.
    pub(crate) fn new(env: E, durable: u64) -> Group<E> {
        let patience = Duration::from_millis(limits::MEMBER_WAIT_MS_MAX);
        Group::with(env, durable, patience, Gather::default())
    }

    fn with(env: E, durable: u64, patience: Duration, gather: Gather) -> Group<E> {
        let state = State {
            epoch: Arc::new(Epoch::new()),
            pending: None,
            staged: durable,
            handed: durable,
            durable,
            round: 0,
            leading: false,
            gathering: None,
            gather,
            doubt: None,
        };
        Group {
            env,
            state: Mutex::new(state),
            durable: AtomicU64::new(durable),
            turns: [Condvar::new(), Condvar::new()],
            gathered: Condvar::new(),
            patience,
        }
    }

    pub(crate) fn env(&self) -> &E {
        &self.env
    }

    /// The highest sequence that is durable at the level of the environment.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// The ticket of all that is staged, to start with.
    pub(crate) fn latest(&self) -> Ticket {
        self.state.lock().latest()
    }

    /// Starts a decision under the caller's writer lock. `last` is the last ticket any stager got, from here or from
    /// [`Group::stage`]. If an earlier hand-over failed, this heals first, on this thread.
    ///
    /// # Errors
    /// The error of that healing, with its kind: nothing was applied, and what was in doubt remains so.
    pub(crate) fn begin(&self, last: &Ticket) -> Result<Begun, Error> {
        let mut state = self.state.lock();
        if state.doubt.is_some() {
            debug_assert!(!state.leading, "in doubt only the holder of the writer lock leads");
            state = self.lead(state);
            if let Some(cause) = &state.doubt {
                return Err(not_applied(cause));
            }
        }
        Ok(Begun {
            ticket: state.latest(),
            rolled_back: last.epoch.dropped(last.seq).is_some(),
        })
    }

    /// Appends to the lot as the sequence after `from`, the last ticket, under the caller's writer lock. `fill` runs
    /// under the lock of the group: it copies what was prepared, and neither fails nor panics.
    ///
    /// # Errors
    /// The cause of the drop, with its kind, if the epoch of `from` ended meanwhile; nothing was staged then.
    pub(crate) fn stage(&self, from: &Ticket, fill: impl FnOnce(&mut E::Lot)) -> Result<Ticket, Error> {
        let mut state = self.state.lock();
        if let Some(cause) = from.epoch.cause.get() {
            return Err(not_applied(cause));
        }
        if from.seq != state.staged {
            debug_assert!(false, "a stager goes on from the last ticket");
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("staged out of order, from={}", from.seq),
            ));
        }
        let Some(next) = from.seq.checked_add(1) else {
            return Err(Error::new(ErrorKind::Full, "no sequence is left"));
        };
        fill(state.pending.get_or_insert_default());
        state.staged = next;
        if state.gathering == Some(state.pending_count()) {
            self.gathered.notify_one();
        }
        Ok(state.latest())
    }

    /// Blocks until the outcome of `ticket` is known, leading a hand-over if nobody does.
    ///
    /// # Errors
    /// The cause with its kind if the sequence was dropped: not applied. `InDoubt`, with the cause as its source, if
    /// it was handed over and the environment failed; without one if another thread's round takes too long.
    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<(), Error> {
        // The load is an acquire: whoever sees a sequence durable that was given twice also sees that the first was
        // dropped. So `durable` is looked at first.
        if ticket.seq <= self.durable() && !ticket.epoch.is_dropped(ticket.seq) {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = state.outcome(ticket) {
                return outcome;
            }
            if !state.leading {
                state = self.lead(state);
                continue;
            }
            let turn = self.turn(state.round_of(ticket.seq));
            let is_late = wait_at_most(turn, &mut state, self.patience);
            // Not while nobody leads: then it is this thread's turn. Whoever leaves is missed by nobody, since what it staged
            // goes with the lot, and the next one who waits leads that.
            if is_late && state.leading && state.outcome(ticket).is_none() {
                return Err(still_under_way(self.patience));
            }
        }
    }

    /// Whether a ticket is durable, or was dropped. One that is in doubt, or waits for its round, is neither.
    pub(crate) fn is_known(&self, ticket: &Ticket) -> bool {
        let outcome = self.state.lock().outcome(ticket);
        outcome.is_some_and(|outcome| !outcome.is_err_and(|error| error.kind() == ErrorKind::InDoubt))
    }

    /// Waits for members that are expected back soon, with the lock released. What they stage is of this leader's round; a
    /// wait that ends early, or in vain, costs nothing but time.
    fn gather(&self, state: &mut MutexGuard<'_, State<E::Lot>>) {
        let before = state.pending_count();
        let Some(window) = state.gather.window(before) else {
            return;
        };
        state.gathering = Some(window.until);
        wait_at_most(&self.gathered, state, window.at_most);
        state.gathering = None;
        let staged = state.pending_count();
        state.gather.waited(window, before, staged);
    }

    /// Runs one round: takes the whole lot, hands it over without the lock, and settles what came of it. Healing gathers
    /// nobody: its caller holds the writer lock.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State<E::Lot>>) -> MutexGuard<'a, State<E::Lot>> {
        state.leading = true;
        if state.doubt.is_none() {
            self.gather(&mut state);
        }
        state.round += 1;
        let members = state.pending_count();
        state.handed = state.staged;
        let lot = state.pending.take();
        drop(state);
        let begun = self.env.elapsed();
        let (result, panic) = match catch_unwind(AssertUnwindSafe(|| self.hand_over(lot))) {
            Ok(result) => (result, None),
            Err(panic) => (Err(panicked()), Some(panic)),
        };
        let length = self.env.elapsed().saturating_sub(begun);
        let mut state = self.state.lock();
        state.settle(result);
        let waiting = state.pending_count();
        state.gather.ended(members, waiting, length);
        self.durable.store(state.durable, Ordering::Release);
        self.wake(&state);
        if let Some(panic) = panic {
            drop(state);
            resume_unwind(panic);
        }
        state
    }

    /// Hands over, and once more if that fails, so that a passing error is seen by nobody. Healing is a second try
    /// already.
    fn hand_over(&self, lot: Option<E::Lot>) -> Result<(), Error> {
        let heals = lot.is_none();
        match self.env.hand_over(lot) {
            Err(_) if !heals => self.env.hand_over(None),
            result => result,
        }
    }

    /// Wakes who may go on now that the round has ended.
    fn wake(&self, state: &State<E::Lot>) {
        if state.doubt.is_some() {
            for turn in &self.turns {
                turn.notify_all();
            }
            return;
        }
        // The next leader goes first, so that the disk works while the members of this round wake up.
        if state.pending.is_some() {
            self.turn(state.round + 1).notify_one();
        }
        self.turn(state.round).notify_all();
    }

    fn turn(&self, round: u64) -> &Condvar {
        let [even, odd] = &self.turns;
        if round.is_multiple_of(2) { even } else { odd }
    }
}

impl<L> State<L> {
    fn latest(&self) -> Ticket {
        Ticket {
            seq: self.staged,
            epoch: Arc::clone(&self.epoch),
        }
    }

    /// How many sequences the lot holds.
    fn pending_count(&self) -> u64 {
        self.staged - self.handed
    }

    /// The outcome of a ticket, once there is one.
    fn outcome(&self, ticket: &Ticket) -> Option<Result<(), Error>> {
        if let Some(cause) = ticket.epoch.dropped(ticket.seq) {
            return Some(Err(not_applied(cause)));
        }
        if ticket.seq <= self.durable {
            return Some(Ok(()));
        }
        match &self.doubt {
            Some(cause) if ticket.seq <= self.handed && !self.leading => Some(Err(in_doubt(cause))),
            _ => None,
        }
    }

    /// The round that decides a sequence that has no outcome yet, while somebody leads. One that is being gathered counts as
    /// the next one.
    fn round_of(&self, seq: u64) -> u64 {
        if seq <= self.handed { self.round } else { self.round + 1 }
    }

    /// Ends the round that runs. If it failed, what was handed over is in doubt, and what was not is dropped together
    /// with the epoch.
    fn settle(&mut self, result: Result<(), Error>) {
        self.leading = false;
        match result {
            Ok(()) => {
                self.durable = self.handed;
                self.doubt = None;
            }
            Err(cause) => {
                self.epoch.end(self.handed, cause.clone());
                self.epoch = Arc::new(Epoch::new());
                self.pending = None;
                self.staged = self.handed;
                self.doubt = Some(cause);
            }
        }
    }
}

impl Epoch {
    fn new() -> Epoch {
        Epoch {
            kept: AtomicU64::new(NOT_ENDED),
            cause: OnceLock::new(),
        }
    }

    fn end(&self, kept: u64, cause: Error) {
        let first = self.cause.set(cause).is_ok();
        debug_assert!(first, "an epoch ends once");
        self.kept.store(kept, Ordering::Release);
    }

    fn is_dropped(&self, seq: u64) -> bool {
        seq > self.kept.load(Ordering::Acquire)
    }

    /// Why the sequence was dropped, if it was.
    fn dropped(&self, seq: u64) -> Option<&Error> {
        if self.is_dropped(seq) { self.cause.get() } else { None }
    }
}

fn panicked() -> Error {
    Error::new(ErrorKind::Io, "the thread that synced panicked")
}

fn not_applied(cause: &Error) -> Error {
    cause
        .clone()
        .into_kind(cause.kind(), "not applied, since a sync before it failed")
}

fn still_under_way(waited: Duration) -> Error {
    let message = format!(
        "the sync of this commit has not ended, so its outcome is not known, waited_ms={}",
        waited.as_millis()
    );
    Error::new(ErrorKind::InDoubt, message)
}

fn in_doubt(cause: &Error) -> Error {
    cause.clone().into_kind(
        ErrorKind::InDoubt,
        "the sync of this commit failed, so its outcome is not known",
    )
}
