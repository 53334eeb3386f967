//! Marks: places behind the end of a file that one opening holds and every other one can see.
//!
//! Owns how they are made: shared locks on single bytes that no data ever reaches. A mark excludes nobody, so that setting
//! one never waits and never makes anybody wait, and it ends with its opening, however that ends. What a place means is the
//! engine's matter.

use std::io;
use std::ops::Range;

/// First place of a mark; no file reaches so far.
pub const PLACES_BEGIN: u64 = 1 << 62;

/// Whether files have marks here. Positions of locks have 64 bits only where the system's words do.
pub const ARE_THERE: bool = cfg!(all(target_os = "linux", target_pointer_width = "64"));

/// What two openings of one file, also of different processes, can tell each other without writing a byte.
pub trait Marks {
    /// Sets a mark.
    ///
    /// # Errors
    /// What the operating system reports; `Unsupported` where a file has no such locks.
    fn set(&self, place: u64) -> io::Result<()>;
    /// Takes a mark of this opening away.
    ///
    /// # Errors
    /// As [`Marks::set`].
    fn clear(&self, place: u64) -> io::Result<()>;
    /// A place of `range` that another opening has marked, if there is one.
    ///
    /// # Errors
    /// As [`Marks::set`].
    fn find(&self, range: Range<u64>) -> io::Result<Option<u64>>;
}

/// Locks of the open file description: shared by threads and duplicates, and by nothing else of the process.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
impl Marks for std::fs::File {
    fn set(&self, place: u64) -> io::Result<()> {
        let lock = linux::range(linux::SHARED, place..place + 1)?;
        linux::call(self, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock))
    }

    fn clear(&self, place: u64) -> io::Result<()> {
        let lock = linux::range(linux::NONE, place..place + 1)?;
        linux::call(self, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock))
    }

    fn find(&self, range: Range<u64>) -> io::Result<Option<u64>> {
        let from = range.start;
        // What would stand in the way of an exclusive lock, which nobody ever takes.
        let mut lock = linux::range(linux::EXCLUSIVE, range)?;
        linux::call(self, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut lock))?;
        if lock.l_type == linux::NONE {
            return Ok(None);
        }
        // Neighbouring places of one opening are one lock, which may begin before the range. One that begins among the data
        // is no mark: some network file systems make the lock of a whole file so.
        let start = u64::try_from(lock.l_start).unwrap_or(0);
        Ok((start >= PLACES_BEGIN).then_some(start.max(from)))
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    pub(super) const SHARED: libc::c_short = libc::F_RDLCK as libc::c_short;
    pub(super) const EXCLUSIVE: libc::c_short = libc::F_WRLCK as libc::c_short;
    pub(super) const NONE: libc::c_short = libc::F_UNLCK as libc::c_short;

    pub(super) fn range(kind: libc::c_short, range: Range<u64>) -> io::Result<libc::flock> {
        let position = |at: u64| i64::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        Ok(libc::flock {
            l_type: kind,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: position(range.start)?,
            l_len: position(range.end.saturating_sub(range.start))?,
            l_pid: 0,
        })
    }

    pub(super) fn call(file: &File, lock: FcntlArg<'_>) -> io::Result<()> {
        fcntl(file, lock)?;
        Ok(())
    }
}

/// Elsewhere nobody marks: who looks there excludes the writer by the lock of the whole file.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
impl Marks for std::fs::File {
    fn set(&self, _place: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn clear(&self, _place: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn find(&self, _range: Range<u64>) -> io::Result<Option<u64>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
