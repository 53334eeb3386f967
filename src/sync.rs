//! Locks and threads through one door: parking_lot and std in the product, loom's under `--cfg loom`.
//!
//! Nobody else names a lock or spawns a thread, so that a model sees every interleaving.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(not(loom))]
impl_wait!();

/// Starts a named thread.
#[cfg(not(loom))]
#[expect(clippy::disallowed_methods, reason = "the one door for threads")]
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}
