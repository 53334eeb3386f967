//! The environment of the models: it does what a script says, and remembers what it was given.

use std::panic::resume_unwind;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::GroupEnv;
use crate::error::{Error, ErrorKind};
use crate::sync::atomic::{AtomicU64, Ordering};

/// What one call of the environment does; calls after the end of a script work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Works,
    Fails,
    Panics,
}

/// An environment that remembers what it was given. Its data are outside the model, but for `published`.
pub(super) struct Recorder {
    pub(super) script: &'static [Call],
    /// How many the first leader waits for, however long that takes.
    gathers: usize,
    inside: AtomicBool,
    /// Relaxed on purpose: whoever hears `Ok` must see it by what the group orders.
    pub(super) published: AtomicU64,
    disk: std::sync::Mutex<Disk>,
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    pub(super) calls: usize,
    /// Handed over, in order: the value of sequence n is at n - 1.
    pub(super) log: Vec<u32>,
    pub(super) durable: usize,
    pub(super) largest_lot: usize,
}

impl Recorder {
    pub(super) fn new(script: &'static [Call], gathers: usize) -> Recorder {
        Recorder {
            script,
            gathers,
            inside: AtomicBool::new(false),
            published: AtomicU64::new(0),
            disk: std::sync::Mutex::default(),
        }
    }

    pub(super) fn disk(&self) -> Disk {
        self.disk.lock().expect("nobody panics while holding it").clone()
    }

    fn call(&self, lot: Option<Vec<u32>>) -> (Call, u64) {
        let mut disk = self.disk.lock().expect("nobody panics while holding it");
        let call = self.script.get(disk.calls).copied().unwrap_or(Call::Works);
        disk.calls += 1;
        if let Some(mut lot) = lot {
            assert!(!lot.is_empty(), "an empty lot was handed over");
            assert!(disk.calls > 1 || lot.len() >= self.gathers, "the leader did not wait");
            disk.largest_lot = disk.largest_lot.max(lot.len());
            disk.log.append(&mut lot);
        }
        if call == Call::Works {
            disk.durable = disk.log.len();
        }
        (call, disk.durable as u64)
    }
}

impl GroupEnv for Recorder {
    type Lot = Vec<u32>;

    fn hand_over(&self, lot: Option<Vec<u32>>) -> Result<(), Error> {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two leaders");
        // Also the point where the model may switch while somebody is inside.
        self.published.load(Ordering::Relaxed);
        let (call, durable) = self.call(lot);
        if call == Call::Works {
            self.published.store(durable, Ordering::Relaxed);
        }
        assert!(self.inside.swap(false, Ordering::SeqCst), "two leaders");
        match call {
            Call::Works => Ok(()),
            Call::Fails => Err(Error::new(ErrorKind::Full, "the script says so")),
            // Without the hook, which would print in every execution.
            Call::Panics => resume_unwind(Box::new("the script says so")),
        }
    }

    /// No round takes any time, so that a leader waits at most in the first one, and else is tired of it at once.
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}
