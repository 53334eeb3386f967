//! What the workers of a relay share: what they hold, whose leases one thread extends, and when to stop.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::lease::Bell;
use crate::outbox::decide::Verb;
use crate::outbox::{QueueSpec, Settled};
use crate::store::answers::Answer;
use crate::store::{Claim, Claiming, Consumed, Store, WriteTx};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, wait_at_most};

/// The longest pause of a worker whose store answers errors.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What is to be said of a message.
pub(super) type Said = (Verb, Option<String>);

/// A claim that a worker holds.
#[derive(Debug)]
pub(super) struct Kept<M> {
    store: Store,
    claim: Claim<M>,
    /// What its handler said, once it has ended.
    said: Mutex<Option<Said>>,
    is_lost: AtomicBool,
    /// The message is gone already, with its work.
    is_consumed: AtomicBool,
}

impl<M> Kept<M> {
    pub(super) fn new(store: &Store, claim: Claim<M>) -> Kept<M> {
        Kept {
            store: store.clone(),
            claim,
            said: Mutex::new(None),
            is_lost: AtomicBool::new(false),
            is_consumed: AtomicBool::new(false),
        }
    }

    pub(super) fn claim(&self) -> &Claim<M> {
        &self.claim
    }

    pub(super) fn is_current(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire)
    }

    pub(super) fn say(&self, said: Said) {
        *self.said.lock() = Some(said);
    }

    /// Does the work of the message and acknowledges it, in one commit.
    pub(super) fn consume<R, E: From<Error>>(
        &self,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>,
    ) -> Result<Consumed<R>, E> {
        let consumed = self.store.consume_held(&self.claim, f)?;
        match consumed {
            Consumed::Done(_) => self.is_consumed.store(true, Ordering::Release),
            Consumed::Stale => self.is_lost.store(true, Ordering::Release),
        }
        Ok(consumed)
    }

    /// The answer to write down; `None` if there is nothing left to be said.
    fn answer(&self) -> Option<(Verb, Option<String>)> {
        let is_over = self.is_consumed.load(Ordering::Acquire) || self.claim.is_over();
        (!is_over).then(|| self.said.lock().clone().unwrap_or((Verb::Release, None)))
    }

    /// Writes the answers of a lot, and claims the next one with them if there is to be one.
    pub(super) fn settle<Q: QueueSpec<Message = M>>(
        store: &Store,
        lot: &[Arc<Kept<M>>],
        next: Option<(Q, Claiming)>,
    ) -> Result<Vec<Claim<M>>> {
        let said: Vec<_> = lot.iter().filter_map(|kept| Some((kept, kept.answer()?))).collect();
        let answers: Vec<_> = said
            .iter()
            .map(|(kept, (verb, text))| Answer {
                claim: kept.claim(),
                verb: *verb,
                text: text.as_deref(),
            })
            .collect();
        match next {
            Some((queue, claiming)) => store.answer_then_claim(queue, claiming, &answers),
            None => store.settle(&answers).map(|()| Vec::new()),
        }
    }
}

/// What is held, whatever its payload is.
pub(super) trait Held: Send + Sync {
    /// Extends the lease.
    fn extend(&self, lease: Duration);

    /// Writes down what its handler said, or gives the message back while that runs. Says whether it had ended.
    fn give_up(&self) -> bool;
}

impl<M: Send + Sync> Held for Kept<M> {
    fn extend(&self, lease: Duration) {
        // An error is told by the answer, if it lasts that long.
        if let Ok(Settled::Stale) = self.store.extend(&self.claim, lease) {
            self.is_lost.store(true, Ordering::Release);
        }
    }

    fn give_up(&self) -> bool {
        let was_handled = self.said.lock().is_some() || self.is_consumed.load(Ordering::Acquire);
        self.is_lost.store(true, Ordering::Release);
        if let Some((verb, text)) = self.answer() {
            let answer = Answer {
                claim: &self.claim,
                verb,
                text: text.as_deref(),
            };
            // If this fails the lease ends by itself: nobody extends it any more.
            drop(self.store.settle(&[answer]));
        }
        was_handled
    }
}

/// The shared state.
pub(super) struct Keeper {
    store: Store,
    bell: Arc<Bell>,
    lease: Duration,
    state: Mutex<State>,
    signal: Condvar,
    is_draining: AtomicBool,
}

#[derive(Default)]
struct State {
    /// In the order in which they were claimed.
    held: BTreeMap<u64, Arc<dyn Held>>,
    next: u64,
    workers: usize,
    /// The thread that extends sleeps until something is held.
    is_idle: bool,
    /// Nobody waits for the workers any more.
    is_abandoned: bool,
    last_error: Option<Error>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Keeper")
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// A worker, from before it is started until it has ended.
pub(super) struct Alive(Arc<Keeper>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.state.lock().workers -= 1;
        self.0.signal.notify_all();
    }
}

/// What a worker holds. Dropped, also by a panic, its lease is extended no more.
pub(super) struct Place {
    keeper: Arc<Keeper>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Let go of behind the lock: it may be the last that knows of its claim.
        let _held = self.keeper.state.lock().held.remove(&self.number);
    }
}

impl Keeper {
    pub(super) fn new(store: &Store, bell: Arc<Bell>, lease: Duration) -> Keeper {
        Keeper {
            store: store.clone(),
            bell,
            lease,
            state: Mutex::new(State::default()),
            signal: Condvar::new(),
            is_draining: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(self: &Arc<Keeper>) -> Alive {
        self.state.lock().workers += 1;
        Alive(self.clone())
    }

    /// From now on the lease is extended.
    pub(super) fn keep(self: &Arc<Keeper>, held: Arc<dyn Held>) -> Place {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.held.insert(number, held);
        if std::mem::take(&mut state.is_idle) {
            self.signal.notify_all();
        }
        Place {
            keeper: self.clone(),
            number,
        }
    }

    /// The error that a worker met last.
    pub(super) fn last_error(&self) -> Option<Error> {
        self.state.lock().last_error.clone()
    }

    pub(super) fn note(&self, error: Error) {
        self.state.lock().last_error = Some(error);
    }

    /// How many workers have not ended.
    pub(super) fn workers(&self) -> usize {
        self.state.lock().workers
    }

    /// Whether this thread is inside of a closure of the store.
    pub(super) fn is_inside(&self) -> bool {
        self.store.is_inside()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.state.lock().is_abandoned
    }

    /// Pauses a worker after its store answered an error for the so-manieth time; ends early when it is to stop.
    pub(super) fn pause(&self, errors: u32) {
        let pause = Duration::from_millis(10)
            .saturating_mul(1 << errors.min(10))
            .min(PAUSE_MAX);
        let mut state = self.state.lock();
        if !state.is_abandoned {
            wait_at_most(&self.signal, &mut state, pause);
        }
    }

    /// Extends the leases of what is held, at a third of their time, until the workers have ended. Sleeps while nothing is held.
    pub(super) fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if state.is_abandoned || (self.is_draining() && state.workers == 0) {
                return;
            }
            if state.held.is_empty() {
                state.is_idle = true;
                self.signal.wait(&mut state);
                continue;
            }
            // Whatever else wakes this only makes it extend early.
            wait_at_most(&self.signal, &mut state, self.lease / 3);
            let held: Vec<_> = state.held.values().cloned().collect();
            drop(state);
            for one in held {
                one.extend(self.lease);
            }
            state = self.state.lock();
        }
    }

    /// Tells the workers to end.
    pub(super) fn stop(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.bell.ring();
        let _state = self.state.lock();
        self.signal.notify_all();
    }

    /// Waits until the workers have ended, and gives up what they hold if `patience` is over before. Gives the number of handlers
    /// that had not ended.
    pub(super) fn drain(&self, patience: Option<Duration>) -> usize {
        self.stop();
        let mut state = self.state.lock();
        let begun_ns = self.store.running_ns().unwrap_or_default();
        while state.workers > 0 {
            let Some(patience) = patience else {
                self.signal.wait(&mut state);
                continue;
            };
            let now_ns = self.store.running_ns().unwrap_or_default();
            let left = patience.saturating_sub(Duration::from_nanos(now_ns.saturating_sub(begun_ns)));
            if wait_at_most(&self.signal, &mut state, left) {
                break;
            }
        }
        if state.workers == 0 {
            return 0;
        }
        state.is_abandoned = true;
        let held = std::mem::take(&mut state.held);
        self.signal.notify_all();
        drop(state);
        held.values().filter(|one| !one.give_up()).count()
    }
}
