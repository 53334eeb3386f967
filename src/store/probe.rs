//! A look at each call of a store, so that the proof kit can stop, switch and break between two of them.

use std::fmt::Debug;
use std::sync::Arc;

/// Told of each call of a store. It may block or unwind: the store holds no lock then, unless the call is made inside of a
/// closure.
pub trait Probe: Debug + Send + Sync {
    /// A call of this name begins.
    fn before(&self, call: &'static str);
    /// A call has ended, with whatever answer; not after one that unwound.
    fn after(&self);
    /// Inside of a closure, an operation begins.
    fn inside(&self);
}

/// The probe of a store, if it has one. Without the feature `test-util` none can have.
#[derive(Clone, Debug, Default)]
pub(super) struct Probed(pub(super) Option<Arc<dyn Probe>>);

impl Probed {
    #[inline]
    pub(super) fn before(&self, call: &'static str) {
        self.tell(|probe| probe.before(call));
    }

    #[inline]
    pub(super) fn after(&self) {
        self.tell(Probe::after);
    }

    #[inline]
    pub(super) fn inside(&self) {
        self.tell(Probe::inside);
    }

    #[inline]
    fn tell(&self, what: impl FnOnce(&(dyn Probe + 'static))) {
        if cfg!(feature = "test-util")
            && let Some(probe) = &self.0
        {
            what(&**probe);
        }
    }
}
