//! Which call of a simulated disk fails, and how.
//!
//! Owns the countdown of each fault. What a failing call leaves behind is the disk's matter.

use std::io;

/// The calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// [`Disk::write`](super::Disk::write).
    Write,
    /// [`Disk::write_synced`](super::Disk::write_synced).
    WriteSynced,
    /// [`Disk::sync`](super::Disk::sync).
    Sync,
    /// [`Disk::set_len`](super::Disk::set_len).
    SetLen,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// [`Disk::len`](super::Disk::len) answers an error.
    Len,
    /// [`Disk::read`](super::Disk::read) answers an error.
    Read,
    /// [`Disk::write`](super::Disk::write) changes nothing.
    Write,
    /// [`Disk::write`](super::Disk::write) puts the first half into the cache.
    WriteShort,
    /// [`Disk::write_synced`](super::Disk::write_synced) changes nothing.
    WriteSynced,
    /// [`Disk::write_synced`](super::Disk::write_synced) puts the first half into the cache, not durable.
    WriteSyncedShort,
    /// [`Disk::write_synced`](super::Disk::write_synced) fills the cache, and the bytes are lost as by a failed sync.
    WriteSyncedLost,
    /// [`Disk::write_synced`](super::Disk::write_synced) makes all durable and yet answers an error.
    WriteSyncedLanded,
    /// [`Disk::sync`](super::Disk::sync) loses what it was to make durable.
    Sync,
    /// [`Disk::sync`](super::Disk::sync) makes all durable and yet answers an error.
    SyncLanded,
    /// [`Disk::set_len`](super::Disk::set_len) changes nothing.
    SetLen,
}

/// How long a fault stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultMode {
    /// One call fails.
    FailOnce,
    /// All calls fail from there on, until [`SimDisk::heal`](super::sim::SimDisk::heal).
    FailForever,
}

#[derive(Debug)]
struct Fault {
    kind: FaultKind,
    passing: u64,
    mode: FaultMode,
    error: io::ErrorKind,
}

/// The calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Len,
    Read,
    Change(EventKind),
}

impl FaultKind {
    fn call(self) -> Call {
        match self {
            FaultKind::Len => Call::Len,
            FaultKind::Read => Call::Read,
            FaultKind::Write | FaultKind::WriteShort => Call::Change(EventKind::Write),
            FaultKind::WriteSynced
            | FaultKind::WriteSyncedShort
            | FaultKind::WriteSyncedLost
            | FaultKind::WriteSyncedLanded => Call::Change(EventKind::WriteSynced),
            FaultKind::Sync | FaultKind::SyncLanded => Call::Change(EventKind::Sync),
            FaultKind::SetLen => Call::Change(EventKind::SetLen),
        }
    }
}

/// The faults of one disk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<Fault>,
    fired: u64,
}

impl Faults {
    pub(super) fn add(&mut self, kind: FaultKind, passing: u64, mode: FaultMode, error: io::ErrorKind) {
        self.waiting.push(Fault {
            kind,
            passing,
            mode,
            error,
        });
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    /// The fault that meets this call, if one does. All others that wait for such a call count it.
    pub(super) fn strike(&mut self, call: Call) -> Option<(FaultKind, io::Error)> {
        let mut struck = None;
        self.waiting.retain_mut(|fault| {
            if fault.kind.call() != call {
                return true;
            }
            if fault.passing > 0 {
                fault.passing -= 1;
                return true;
            }
            if struck.is_some() {
                return true;
            }
            struck = Some((
                fault.kind,
                io::Error::new(fault.error, format!("simulated fault: {:?}", fault.kind)),
            ));
            fault.mode == FaultMode::FailForever
        });
        self.fired += u64::from(struck.is_some());
        struck
    }
}
