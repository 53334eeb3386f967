//! What a run was told: the commits staged, in order, and those that a crash at this moment must not take.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use sprag::{Error, ErrorKind};

use super::work::{History, Stamp, salt};

/// The longest time that a sync is held back for others who turn out to wait for it themselves.
const HOLD_MAX: Duration = Duration::from_millis(2);

/// What a chain of crashes knows of its store while it is closed.
#[derive(Clone, Debug, Default)]
pub struct Past {
    pub history: History,
    /// Must be there if the cache is: at `Buffered`, everything acknowledged.
    pub cached: u64,
    /// Must be there after a power loss.
    pub durable: u64,
    /// Salts of commits whose callers were told that they are not applied, and how.
    pub refused: HashMap<u64, String>,
}

#[derive(Debug, Default)]
struct State {
    past: Past,
    /// What the open found.
    opened: u64,
    /// Calls whose closure has run and that have not returned.
    waiting: u64,
    /// Closures run.
    decided: u64,
    /// Threads that still make calls.
    working: u64,
    errors: u64,
    stopped: bool,
}

/// Shared by the threads of a run.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
    moved: Condvar,
    /// Whether an acknowledged commit survives a power loss.
    acked_is_durable: bool,
}

impl Ledger {
    pub fn new(past: Past, acked_is_durable: bool) -> Ledger {
        let state = State {
            past,
            ..State::default()
        };
        Ledger {
            state: Mutex::new(state),
            moved: Condvar::new(),
            acked_is_durable,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn past(&self) -> Past {
        self.lock().past.clone()
    }

    /// The store has been opened and shows the first `number` commits: an answer, and so durable.
    pub fn opened(&self, number: u64) {
        let mut state = self.lock();
        state.opened = number;
        state.past.history.truncate(number as usize + 1);
        state.past.cached = number;
        state.past.durable = number;
    }

    /// A closure runs that will be commit `number`, under the writer lock. What was staged from there on was dropped.
    pub fn stage(&self, number: u64, any: u64) -> Stamp {
        let mut state = self.lock();
        let salt = salt(any, number == state.opened + 1);
        assert!(
            number > state.past.cached,
            "commit {number} is staged again after it was acknowledged"
        );
        assert!(
            number as usize <= state.past.history.len(),
            "commit {number} is staged before its predecessor"
        );
        state.past.history.truncate(number as usize);
        state.past.history.push(salt);
        Stamp { number, salt }
    }

    /// A closure is at its end.
    pub fn decided(&self) {
        let mut state = self.lock();
        state.decided += 1;
        state.waiting += 1;
        self.moved.notify_all();
    }

    /// The call of a closure that came to its end returned.
    pub fn returned(&self) {
        self.lock().waiting -= 1;
        self.moved.notify_all();
    }

    /// Somebody was told that commit `number` is there.
    pub fn acknowledged(&self, number: u64) {
        let mut state = self.lock();
        state.past.cached = state.past.cached.max(number);
        if self.acked_is_durable {
            state.past.durable = state.past.cached;
        }
    }

    /// Everything up to `number` was synced.
    pub fn synced(&self, number: u64) {
        let mut state = self.lock();
        state.past.durable = state.past.durable.max(number);
    }

    pub fn acked(&self) -> u64 {
        self.lock().past.cached
    }

    /// The newest commit staged, with its salt.
    pub fn newest(&self) -> (u64, u64) {
        let state = self.lock();
        (
            state.past.history.len() as u64 - 1,
            state.past.history.last().copied().unwrap_or_default(),
        )
    }

    pub fn failed(&self, salt: Option<u64>, cause: &Error) {
        let mut state = self.lock();
        state.errors += 1;
        if let Some(salt) = salt
            && cause.kind() != ErrorKind::InDoubt
        {
            state.past.refused.insert(salt, format!("{cause:?}"));
        }
    }

    pub fn errors(&self) -> u64 {
        self.lock().errors
    }

    pub fn begin_work(&self, threads: u64) {
        self.lock().working = threads;
    }

    pub fn end_work(&self) {
        self.lock().working -= 1;
        self.moved.notify_all();
    }

    /// The run is over: nobody is held any longer.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.moved.notify_all();
    }

    /// Holds a sync back until `more` closures have run, or nobody is left who could run one.
    pub fn hold(&self, more: u64) {
        let mut state = self.lock();
        let wanted = state.decided + more;
        while !state.stopped && state.decided < wanted && state.waiting < state.working {
            let (guard, timeout) = self
                .moved
                .wait_timeout(state, HOLD_MAX)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                return;
            }
        }
    }
}
