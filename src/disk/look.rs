//! A file that is only looked at: no byte is written, and no writer is kept from anything.
//!
//! Owns a descriptor that cannot write. On Linux it takes no lock that anybody could meet; what another process does to the
//! file meanwhile is told by [marks](super::marks). Elsewhere it holds the lock of the whole file together with others who
//! look, so that it and a writer exclude each other.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::Disk;
use super::file::{FileDisk, open_to_look};
use super::marks::Marks;
use crate::error::Result;

/// A file, open for reading. Clones share the descriptor.
#[derive(Clone, Debug)]
pub(crate) struct LookDisk(FileDisk);

impl LookDisk {
    /// Opens the file at `path` for reading. `wait` counts only where a look and a writer exclude each other.
    ///
    /// # Errors
    /// `NotFound` if there is none; `NotAStore` if it is no regular file; `ReadOnly` if it may not even be read; `Busy` where
    /// a writer excludes; `Io` for what the operating system reports.
    pub(crate) fn open(path: &Path, wait: Duration) -> Result<LookDisk> {
        open_to_look(path, wait).map(LookDisk)
    }
}

impl Disk for LookDisk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn is_at_its_path(&self) -> bool {
        self.0.is_at_its_path()
    }

    fn marks(&self) -> Option<&dyn Marks> {
        self.0.marks()
    }
}
