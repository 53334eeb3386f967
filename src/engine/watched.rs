//! The disk as the engine uses it: one sync at a time, and a count of those that failed.
//!
//! A sync covers what everybody wrote, and a failed one is told to one caller only: after it the others' bytes are no
//! longer dirty, so that their own sync succeeds and proves nothing. Whoever relies on a sync therefore compares the
//! count from before its writes with the count after its sync. No failure is missed between its end and its count: syncs
//! take turns until they are counted, and synced writes under way are waited for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::Disk;
use crate::disk::marks::Marks;
use crate::sync::{Mutex, RecursiveRwLock};

/// A disk whose failed syncs are counted.
#[derive(Debug)]
pub(super) struct Watched {
    disk: Arc<dyn Disk>,
    /// Held for the time of a sync, so that a failure is counted before the next sync begins.
    syncing: Mutex<()>,
    /// Held for reading by each synced write until its failure is counted.
    synced_writes: RecursiveRwLock<()>,
    failed_syncs: AtomicU64,
}

impl Watched {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Watched {
        Watched {
            disk,
            syncing: Mutex::new(()),
            synced_writes: RecursiveRwLock::new(()),
            failed_syncs: AtomicU64::new(0),
        }
    }

    /// How many syncs failed, synced writes included: the system tells an error of any page to whoever asks first.
    pub(super) fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Acquire)
    }

    /// The same, when every synced write that had begun by now is counted.
    pub(super) fn failed_syncs_settled(&self) -> u64 {
        drop(self.synced_writes.write());
        self.failed_syncs()
    }

    fn counted(&self, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            self.failed_syncs.fetch_add(1, Ordering::AcqRel);
        }
        result
    }
}

impl Disk for Watched {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }

    /// Nothing to compare: a disk makes the range durable whatever other syncs met.
    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _under_way = self.synced_writes.read();
        self.counted(self.disk.write_synced(offset, data))
    }

    fn sync(&self) -> io::Result<()> {
        let _syncing = self.syncing.lock();
        self.counted(self.disk.sync())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn marks(&self) -> Option<&dyn Marks> {
        self.disk.marks()
    }

    fn is_at_its_path(&self) -> bool {
        self.disk.is_at_its_path()
    }
}
