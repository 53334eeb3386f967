//! Locks, atomics and threads through one door: parking_lot and std in the product, loom's under `--cfg loom`.
//!
//! Owns the choice between the two and one API for both (parking_lot's: no poison, a wait borrows its guard). Nobody
//! else names a lock, an atomic or a spawn, so that a model sees every interleaving of what it runs. A timed wait is
//! in a model either over at once or without an end.
//!
//! Lock order is the caller's matter; a lock here is never poisoned, so whoever can unwind while holding one must leave
//! the state behind it whole.

/// The same in a model: nothing is decided by a count, and loom's would only multiply the executions.
pub(crate) use std::sync::Arc;

/// The same in a model: none opens a store, which is all these guard.
pub(crate) use parking_lot::{RecursiveRwLock, RwLock};

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;
#[cfg(not(loom))]
pub(crate) use std::thread::JoinHandle;
/// Threads that borrow and end with their scope; for the proof kit.
#[cfg(all(feature = "test-util", not(loom)))]
pub(crate) use std::thread::scope;

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(loom)]
pub(crate) use loom::thread::JoinHandle;
#[cfg(loom)]
pub(crate) use modelled::{Condvar, Mutex, MutexGuard};

/// Starts a named thread.
#[cfg(not(loom))]
#[expect(clippy::disallowed_methods, reason = "the one door for threads")]
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Whether a thread is the one that asks.
pub(crate) fn is_current<T>(thread: &JoinHandle<T>) -> bool {
    #[cfg(not(loom))]
    use std::thread::current;

    #[cfg(loom)]
    use loom::thread::current;

    thread.thread().id() == current().id()
}

/// Waits for a signal or until `limit` is over; says whether it is over.
#[cfg(not(loom))]
pub(crate) fn wait_at_most<T>(signal: &Condvar, guard: &mut MutexGuard<'_, T>, limit: std::time::Duration) -> bool {
    signal.wait_for(guard, limit).timed_out()
}

/// Takes a lock unless that takes longer than `limit`.
#[cfg(not(loom))]
pub(crate) fn lock_within<T>(mutex: &Mutex<T>, limit: std::time::Duration) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock_for(limit)
}

/// Runs what blocks on a thread that may, and gives its result to a task. A panic goes on in the task.
///
/// # Errors
/// The runtime was shut down before it ran.
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) async fn blocking<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    match tokio::task::spawn_blocking(body).await {
        Ok(result) => Ok(result),
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(cancelled) => Err(std::io::Error::other(cancelled)),
        },
    }
}

/// Waits for a future, or until `limit` is over.
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) async fn within(limit: std::time::Duration, future: impl Future<Output = ()>) {
    // Over, or not: the caller looks anyway.
    let _ = tokio::time::timeout(limit, future).await;
}

/// Starts a task of the current runtime.
#[cfg(all(feature = "tokio", not(loom)))]
pub(crate) use tokio::task::{JoinHandle as TaskHandle, spawn as spawn_task};

/// A model has no time.
#[cfg(loom)]
pub(crate) fn lock_within<T>(mutex: &Mutex<T>, _limit: std::time::Duration) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

/// Starts a named thread of the running model.
#[cfg(loom)]
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    loom::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// A model has no time: the limit is over at once if there is none, which is any moment, and otherwise never comes.
#[cfg(loom)]
pub(crate) fn wait_at_most<T>(signal: &Condvar, guard: &mut MutexGuard<'_, T>, limit: std::time::Duration) -> bool {
    if !limit.is_zero() {
        signal.wait(guard);
    }
    limit.is_zero()
}

/// Loom's locks behind parking_lot's API.
#[cfg(loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};
    use std::sync::{PoisonError, TryLockError};

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    /// The inner guard is missing only while a wait has it, and a wait borrows this guard for that time.
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let inner = match self.0.try_lock() {
                Ok(inner) => inner,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            Some(MutexGuard(Some(inner)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("a wait borrows the guard")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a wait borrows the guard")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let inner = guard.0.take().expect("a wait borrows the guard");
            guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
