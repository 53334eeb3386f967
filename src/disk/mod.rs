//! The file: read, write, sync, length, lock. The only door to storage.
//!
//! Owns the handle to the bytes and nothing about their meaning. Implementations: [`file`](mod@file) for a real file,
//! [`ram`] for a store in memory, and `sim` (tests) for a disk that loses, tears, reorders and fails.
//!
//! Others may rely on
//! - `write_synced` returning `Ok`: exactly this range is durable, whatever a sync that ran meanwhile met; nothing is said
//!   about other ranges;
//! - `sync` returning `Ok`: every write and length that returned before the call is durable;
//! - after an error of either nothing is known until the same bytes were written again and synced.

#[cfg(feature = "test-util")]
pub(crate) mod crash;
pub(crate) mod create;
#[cfg(feature = "test-util")]
pub(crate) mod fault;
pub(crate) mod file;
pub(crate) mod look;
pub(crate) mod marks;
pub(crate) mod ram;
#[cfg(feature = "test-util")]
pub(crate) mod sim;
#[cfg(feature = "test-util")]
pub(crate) mod sim_look;

use std::fmt;
use std::io;

/// Random access to one file of bytes. All calls take `&self` and may come from several threads at once. One that is only
/// read leaves out the calls that change something: they are refused.
#[cfg_attr(
    feature = "test-util",
    expect(
        clippy::len_without_is_empty,
        reason = "a disk is not a collection, and nobody asks whether it is empty"
    )
)]
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Length in bytes.
    ///
    /// # Errors
    /// What the operating system reports.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// What the operating system reports; `UnexpectedEof` past the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`, growing the file if need be. Not durable until a `sync`.
    ///
    /// # Errors
    /// What the operating system reports.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _ = (offset, data);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Writes all of `data` at `offset` and makes exactly this range durable.
    ///
    /// # Errors
    /// What the operating system reports.
    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _ = (offset, data);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes all earlier writes and the length durable.
    ///
    /// # Errors
    /// What the operating system reports.
    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Cuts or extends (with zeros). Durable with the next `sync`.
    ///
    /// # Errors
    /// What the operating system reports.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let _ = len;
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// What other openings of the same file can be told and asked; `None` if there is no way to.
    fn marks(&self) -> Option<&dyn marks::Marks> {
        None
    }
    /// Whether whoever opens the path gets this file: not after it was removed or replaced. What has no path is never lost.
    fn is_at_its_path(&self) -> bool {
        true
    }
}
