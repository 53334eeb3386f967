//! The floor: what any engine must pay that makes each commit durable before it answers.
//!
//! One thread appends as many bytes as Sprag hands to its log for one commit, and syncs. The file is preallocated and
//! full of written zeros, as large as Sprag's two halves, and is gone through in laps, so that no append changes
//! the file's metadata. There are two ways to sync; the report takes the faster as the floor.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::contents::Contents;
use crate::op::{Ask, Op, Reply, See};
use crate::peer::{Durability, Failure, LOT_BYTES, Peer, Setup, Subject};

/// Write and `fdatasync`.
pub const FDATASYNC: Subject = Subject {
    name: "floor, pwrite + fdatasync",
    group: "floor",
    durability: Durability::Sync,
    files: "floor, pwrite + fdatasync",
    lot_bytes: LOT_BYTES,
    open: |folder, setup| Ok(Box::new(Floor::new(folder, Way::Fdatasync, setup)?)),
};

/// A write that is a sync.
pub const DSYNC: Subject = Subject {
    name: "floor, O_DSYNC",
    files: "floor, O_DSYNC",
    open: |folder, setup| Ok(Box::new(Floor::new(folder, Way::Dsync, setup)?)),
    ..FDATASYNC
};

/// Both halves of a log with default options.
const FILE_BYTES: u64 = 4 << 20;

/// How an append becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Write, then `fdatasync`.
    Fdatasync,
    /// Write through a descriptor opened with `O_DSYNC`.
    Dsync,
}

/// A bare log that holds nothing.
#[derive(Debug)]
pub struct Floor {
    way: Way,
    file: File,
    bytes: Vec<u8>,
    /// Bytes handed so far; the next append's offset is this modulo the laps of the file.
    handed: AtomicU64,
}

impl Floor {
    /// A fresh log in `folder`.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(folder: &Path, way: Way, setup: Setup) -> Result<Floor, Failure> {
        let path = folder.join("floor.log");
        let mut blank = File::create(&path)?;
        blank.write_all(&vec![0; FILE_BYTES as usize])?;
        blank.sync_all()?;
        let flags = match way {
            Way::Fdatasync => 0,
            Way::Dsync => rustix::fs::OFlags::DSYNC.bits(),
        };
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags.cast_signed())
            .open(&path)?;
        Ok(Floor {
            way,
            file,
            bytes: vec![0x5a; setup.floor_bytes.max(1)],
            handed: AtomicU64::new(0),
        })
    }

    fn append(&self) -> Result<(), Failure> {
        let bytes = self.bytes.len() as u64;
        let start = self.handed.fetch_add(bytes, Ordering::Relaxed);
        let lap = FILE_BYTES - FILE_BYTES % bytes;
        self.file.write_all_at(&self.bytes, start % lap)?;
        if self.way == Way::Fdatasync {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Peer for Floor {
    fn threads(&self, _asked: usize) -> usize {
        1
    }

    fn write(&self, _thread: usize, _op: Op) -> Result<Reply, Failure> {
        self.append()?;
        Ok(Reply::Done)
    }

    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure> {
        Ok(vec![Reply::Done; ops.len()])
    }

    fn read(&self, _thread: usize, _ask: &Ask, _see: See<'_>) -> Result<(), Failure> {
        Err("a floor has nothing to read".into())
    }

    fn bytes_handed(&self) -> Option<u64> {
        Some(self.handed.load(Ordering::Relaxed))
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        Ok(None)
    }
}
