//! What the workers of a relay share: what they hold, whose leases one thread extends, and when to stop.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::lease::Bell;
use crate::outbox::Settled;
use crate::outbox::decide::Verb;
use crate::store::answers::Answer;
use crate::store::{Claim, Store};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, wait_at_most};

/// The longest pause of a worker whose store answers errors.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A claim that a worker holds.
#[derive(Debug)]
pub(super) struct Kept<M> {
    store: Store,
    claim: Claim<M>,
    is_lost: AtomicBool,
}

impl<M> Kept<M> {
    pub(super) fn new(store: &Store, claim: Claim<M>) -> Kept<M> {
        Kept {
            store: store.clone(),
            claim,
            is_lost: AtomicBool::new(false),
        }
    }

    pub(super) fn claim(&self) -> &Claim<M> {
        &self.claim
    }

    pub(super) fn is_current(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire)
    }
}

/// What is held, whatever its payload is.
pub(super) trait Held: Send + Sync {
    /// Extends the lease.
    fn extend(&self, lease: Duration);

    /// Gives the message back while its handler runs.
    fn give_up(&self);
}

impl<M: Send + Sync> Held for Kept<M> {
    fn extend(&self, lease: Duration) {
        // An error is told by the answer, if it lasts that long.
        if let Ok(Settled::Stale) = self.store.extend(&self.claim, lease) {
            self.is_lost.store(true, Ordering::Release);
        }
    }

    fn give_up(&self) {
        self.is_lost.store(true, Ordering::Release);
        let answer = Answer {
            claim: &self.claim,
            verb: Verb::Release,
            text: None,
        };
        // If this fails the lease ends by itself: nobody extends it any more.
        drop(self.store.settle(&[answer]));
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
    held: HashMap<u64, Arc<dyn Held>>,
    next: u64,
    workers: usize,
    /// The thread that extends sleeps until something is held.
    is_idle: bool,
    /// Nobody waits for the workers any more.
    is_abandoned: bool,
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

/// Names what a worker holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u64);

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
    pub(super) fn keep(&self, held: Arc<dyn Held>) -> Place {
        let mut state = self.state.lock();
        let place = state.next;
        state.next += 1;
        state.held.insert(place, held);
        if std::mem::take(&mut state.is_idle) {
            self.signal.notify_all();
        }
        Place(place)
    }

    /// It was answered.
    pub(super) fn forget(&self, Place(place): Place) {
        self.state.lock().held.remove(&place);
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

    /// Waits until the workers have ended, and gives up what they hold if `patience` is over before. Gives the number of that.
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
        held.values().for_each(|one| one.give_up());
        held.len()
    }
}
