//! Which stores the current thread is inside of, so that a call that would wait for its own thread is refused at once.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// A closure of this store that runs on the current thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Read,
    Write,
    /// The function that a migration gives records to.
    Migrate,
}

thread_local! {
    static INSIDE: RefCell<Vec<(u64, Inside)>> = const { RefCell::new(Vec::new()) };
}

/// Numbers the stores of this process.
pub(super) fn next_store() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Marks the current thread until dropped, also by a panic.
pub(super) struct Mark;

pub(super) fn enter(store: u64, inside: Inside) -> Mark {
    INSIDE.with_borrow_mut(|stack| stack.push((store, inside)));
    Mark
}

impl Drop for Mark {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(Vec::pop);
    }
}

/// # Errors
/// `Invalid` if this thread is inside a write of the store: it would wait for itself.
pub(super) fn refuse_in_write(store: u64, call: &str) -> Result<()> {
    refuse(call, |stack| stack.contains(&(store, Inside::Write)), "a write")
}

/// # Errors
/// `Invalid` if this thread is inside the function of a migration of the store, which must not depend on what is stored.
pub(super) fn refuse_in_migrate(store: u64) -> Result<()> {
    if INSIDE.with_borrow(|stack| stack.contains(&(store, Inside::Migrate))) {
        let message = "a call inside the function of a migration of the same store";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// Whether this thread is inside any closure of the store.
pub(super) fn is_in_any(store: u64) -> bool {
    INSIDE.with_borrow(|stack| stack.iter().any(|(other, _)| *other == store))
}

/// # Errors
/// `Invalid` if this thread is inside any closure of the store.
pub(super) fn refuse_in_any(store: u64, call: &str) -> Result<()> {
    refuse(
        call,
        |stack| stack.iter().any(|(other, _)| *other == store),
        "a closure",
    )
}

fn refuse(call: &str, inside: impl FnOnce(&[(u64, Inside)]) -> bool, what: &str) -> Result<()> {
    if INSIDE.with_borrow(|stack| inside(stack)) {
        let message = format!("{call} inside {what} of the same store would wait for itself");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}
