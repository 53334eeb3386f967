//! How those who wait for work are woken, without looking again and again.
//!
//! Who waits takes the number of the last ring, looks for work, and sleeps only if there was no ring since. Who makes work
//! makes it visible first and rings then. So whatever is made after the look ends the sleep, and what was made before it was
//! seen by it: no ring is lost. An alarm is the earliest moment at which some sleeper looks again by itself.

use std::task::Waker;
use std::time::Duration;

use crate::sync::{Condvar, Mutex, wait_at_most};

/// What sleepers sleep on.
#[derive(Debug)]
pub(crate) struct Bell {
    state: Mutex<State>,
    signal: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of the last ring.
    rung: u64,
    sleepers: usize,
    /// When a sleeper looks again by itself, at the earliest; in running time.
    alarm_ns: u64,
    /// Tasks that sleep.
    wakers: Vec<Waker>,
}

/// No sleeper looks again by itself.
const NEVER: u64 = u64::MAX;

impl Default for Bell {
    fn default() -> Bell {
        let state = State {
            rung: 0,
            sleepers: 0,
            alarm_ns: NEVER,
            wakers: Vec::new(),
        };
        Bell {
            state: Mutex::new(state),
            signal: Condvar::new(),
        }
    }
}

impl Bell {
    /// The number of the last ring. To be taken before looking for work.
    pub(crate) fn rung(&self) -> u64 {
        self.state.lock().rung
    }

    /// Wakes everybody. Whatever they are to find is visible already.
    pub(crate) fn ring(&self) {
        let mut state = self.state.lock();
        state.rung = state.rung.wrapping_add(1);
        state.alarm_ns = NEVER;
        let wakers = std::mem::take(&mut state.wakers);
        if state.sleepers > 0 {
            self.signal.notify_all();
        }
        drop(state);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Something happens at this moment of running time: wakes everybody unless one of them looks again by then.
    pub(crate) fn ring_unless_awake_by(&self, at_ns: u64) {
        // Also if nobody sleeps: somebody may be about to, with what it saw before.
        let is_awake_by_then = self.state.lock().alarm_ns <= at_ns;
        if !is_awake_by_then {
            self.ring();
        }
    }

    /// Somebody sleeps no more who was not rung. Others may have relied on its alarm, and it need not look again: they look, and
    /// set theirs.
    fn leave(&self) {
        self.ring();
    }

    /// Sleeps until a ring after `seen`, or until `limit` is over, which is at `alarm_ns` of running time.
    pub(crate) fn wait(&self, seen: u64, limit: Option<(Duration, u64)>) {
        let mut state = self.state.lock();
        if state.rung != seen {
            return;
        }
        state.sleepers += 1;
        if let Some((_, alarm_ns)) = limit {
            state.alarm_ns = state.alarm_ns.min(alarm_ns);
        }
        let mut is_over = false;
        while state.rung == seen && !is_over {
            match limit {
                Some((limit, _)) => is_over = wait_at_most(&self.signal, &mut state, limit),
                None => self.signal.wait(&mut state),
            }
        }
        state.sleepers -= 1;
        if is_over {
            drop(state);
            self.leave();
        }
    }

    /// The same for a task.
    #[cfg(feature = "tokio")]
    pub(crate) fn sleep(&self, seen: u64, alarm_ns: Option<u64>) -> Sleep<'_> {
        Sleep {
            bell: self,
            seen,
            alarm_ns,
        }
    }
}

/// A task that sleeps until a ring.
#[cfg(feature = "tokio")]
pub(crate) struct Sleep<'b> {
    bell: &'b Bell,
    seen: u64,
    alarm_ns: Option<u64>,
}

#[cfg(feature = "tokio")]
impl std::future::Future for Sleep<'_> {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        let mut state = self.bell.state.lock();
        if state.rung != self.seen {
            return std::task::Poll::Ready(());
        }
        if let Some(alarm_ns) = self.alarm_ns {
            state.alarm_ns = state.alarm_ns.min(alarm_ns);
        }
        if !state.wakers.iter().any(|known| known.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        std::task::Poll::Pending
    }
}

#[cfg(feature = "tokio")]
impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.bell.rung() == self.seen {
            self.bell.leave();
        }
    }
}
