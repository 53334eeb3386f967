//! Calls of redb: a panic inside it becomes an error, and an opening that is of no more use is remembered as such.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Whether one opening of redb is of no more use: it latched an error, or another one has taken its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent(Arc<AtomicBool>);

impl Spent {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Reads from redb, and notes if it would answer an error from now on. Pages that it calls damaged latch nothing, but
    /// those do that the region refused, and a lock that a panic went through is of no use any more.
    pub(super) fn reading<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let outcome = unwound(call);
        let stays_good = match &outcome {
            Some(Ok(_)) => true,
            Some(Err(cause)) => cause.kind() == ErrorKind::Corrupt && !cause.is_of_disk(),
            None => false,
        };
        if !stays_good {
            self.set();
        }
        outcome.unwrap_or_else(|| Err(damaged()))
    }
}

/// Calls redb. It trusts the bytes of its pages, so a panic inside it is a finding about the file, not about the caller.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    unwound(call).unwrap_or_else(|| Err(damaged()))
}

/// `None` if the call panicked.
fn unwound<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

fn damaged() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the base is damaged: its pages contradict each other",
    )
}
