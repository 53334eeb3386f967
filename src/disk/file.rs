//! A real file under the writer's lock.
//!
//! Owns one descriptor for reads, writes, syncs and the lock, since a lock taken through one descriptor and range locks
//! taken through another refuse each other; on Linux another one for synced writes, which takes no lock. Refuses what is no
//! regular file, an empty file, and a file system without locks: nothing is ever written without the lock. Making a file is in [`create`].
//!
//! Others may rely on
//! - at most one [`FileDisk`] of a file lives, in this process and among all others, counting clones as one;
//! - the lock ends with the last clone or with the process, so no file is left behind that could stop an opening;
//! - a failed opening changes no byte of the file;
//! - on Linux a limit on the length of files is an error, and not the signal that ends the process;
//! - a synced write covers its own range on Linux, so that it does not wait for what a checkpoint is writing;
//! - no sync takes away the error that another one is to hear: a system tells a failed write-back to each opening of the
//!   file once, so synced writes have an opening of their own, or, where that cannot be had, take turns with syncs.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Disk;
use super::create::{self, Building, Creation};
use super::marks::{self, Marks};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
#[cfg(target_os = "linux")]
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Pause between two looks at a lock that somebody else holds.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// How often an opening starts again because the path was given to another file meanwhile. Each time somebody else made
/// progress, so more than a few means that somebody replaces the file in a loop.
const REPLACED_MAX: usize = 64;
/// Largest position in a file that the operating system can express.
const POSITION_MAX: u64 = i64::MAX as u64;

/// A file, open for reading and writing under its exclusive lock. Clones share the descriptor.
#[derive(Clone, Debug)]
pub(crate) struct FileDisk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    path: PathBuf,
    /// The process that took the lock. A forked child holds the same lock and must not give it away when it exits.
    locked_by: u32,
    /// The same file opened once more, for synced writes.
    #[cfg(target_os = "linux")]
    synced: Option<File>,
    /// Bytes that the process may make a file long, as of the opening or the last growth. The kernel answers a write beyond
    /// with a signal that ends the process; the caller is to hear an error instead.
    #[cfg(target_os = "linux")]
    length_max: AtomicU64,
    /// Held by each sync where there is no opening for synced writes.
    turns: Mutex<()>,
    /// Set once the kernel refused a synced write; from then on it is a write and a sync.
    #[cfg(target_os = "linux")]
    dsync_refused: AtomicBool,
    #[cfg(not(unix))]
    cursor: Mutex<()>,
}

/// What [`FileDisk::open_or_create`] came to.
#[derive(Debug)]
pub(crate) enum Opening {
    /// The file was there. Its content is not judged yet.
    Existing(FileDisk),
    /// There was none, or an empty one: fill this and finish it.
    New(Building),
}

/// What one look at a path came to.
enum Look {
    Open(FileDisk),
    /// Zero bytes: either about to become a store or the remains of one.
    Empty,
}

impl FileDisk {
    /// Opens the file at `path` and locks it, waiting up to `wait` for the lock.
    ///
    /// # Errors
    /// `NotFound` if there is none. `NotAStore` if it is no regular file or has zero bytes. `ReadOnly` if it may not be
    /// written. `Busy` if somebody else holds the lock until `wait` is over. `Io` if the file system has no locks, and for
    /// what the operating system reports. No byte of the file was changed.
    pub(crate) fn open(path: &Path, wait: Duration) -> Result<FileDisk> {
        match look(path, wait)? {
            Look::Open(disk) => Ok(disk),
            Look::Empty => Err(not_a_store(path, "the file has zero bytes")),
        }
    }

    /// As [`open`](FileDisk::open), but begins a new file if there is none or one of zero bytes. If finishing it then
    /// answers that the name exists, somebody else was faster: call again.
    ///
    /// # Errors
    /// As for [`open`](FileDisk::open); `NotFound` then means that the folder is missing.
    pub(crate) fn open_or_create(path: &Path, wait: Duration) -> Result<Opening> {
        for _ in 0..REPLACED_MAX {
            if let Creation::Building(building) = create::create(path, true)? {
                return Ok(Opening::New(building));
            }
            // Removed, or left empty by a creator that died, since the look above: neither is an answer here.
            match look(path, wait) {
                Ok(Look::Open(disk)) => return Ok(Opening::Existing(disk)),
                Ok(Look::Empty) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(busy(path, "the file is replaced over and over"))
    }

    /// Takes over a file that is already locked.
    pub(super) fn locked(file: File, path: PathBuf) -> FileDisk {
        let mut disk = FileDisk::only_read(file, path);
        #[cfg(target_os = "linux")]
        if let Some(inner) = Arc::get_mut(&mut disk.0) {
            inner.synced = opened_again(&inner.file);
        }
        disk
    }

    /// The same for a file that nobody writes to through this.
    fn only_read(file: File, path: PathBuf) -> FileDisk {
        FileDisk(Arc::new(Inner {
            #[cfg(target_os = "linux")]
            synced: None,
            #[cfg(target_os = "linux")]
            length_max: AtomicU64::new(length_limit()),
            turns: Mutex::new(()),
            file,
            path,
            locked_by: std::process::id(),
            #[cfg(target_os = "linux")]
            dsync_refused: AtomicBool::new(false),
            #[cfg(not(unix))]
            cursor: Mutex::new(()),
        }))
    }

    /// The path it was opened at.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether a path leads to this file.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool> {
        still_at(path, &self.0.file)
    }

    pub(super) fn file(&self) -> &File {
        &self.0.file
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Closing alone is not enough: a child between fork and exec still has the descriptor, and with it the lock.
        if self.locked_by == std::process::id() {
            let _ = self.file.unlock();
        }
    }
}

impl Disk for FileDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        check_position(offset, out.len())?;
        self.0.read_at(offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.is_mine()?;
        self.0.check_length(offset, data.len())?;
        self.0.write_at(offset, data)
    }

    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.is_mine()?;
        self.0.check_length(offset, data.len())?;
        let _turn = self.0.turn();
        let file = self.0.for_synced_writes();
        #[cfg(target_os = "linux")]
        if self.0.write_dsync(file, offset, data)? {
            return Ok(());
        }
        self.0.write_at(offset, data)?;
        file.sync_data()
    }

    fn sync(&self) -> io::Result<()> {
        let _turn = self.0.turn();
        self.0.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.is_mine()?;
        #[cfg(target_os = "linux")]
        self.0.length_max.store(length_limit(), Ordering::Relaxed);
        self.0.check_length(len, 0)?;
        self.0.file.set_len(len)
    }

    fn marks(&self) -> Option<&dyn Marks> {
        self.0.is_mine().is_ok().then_some(&self.0.file as &dyn Marks)
    }

    fn is_at_its_path(&self) -> bool {
        // A path that cannot be looked at leads nobody here.
        still_at(&self.0.path, &self.0.file).unwrap_or(false)
    }
}

impl Inner {
    /// A forked child has the descriptors and nothing else that an opening is made of: what it drops must not be written.
    fn is_mine(&self) -> io::Result<()> {
        if self.locked_by == std::process::id() {
            return Ok(());
        }
        Err(io::Error::other("the file was opened by another process"))
    }

    #[cfg(target_os = "linux")]
    fn for_synced_writes(&self) -> &File {
        self.synced.as_ref().unwrap_or(&self.file)
    }

    #[cfg(not(target_os = "linux"))]
    fn for_synced_writes(&self) -> &File {
        &self.file
    }

    /// Whether the file may be so long.
    fn check_length(&self, offset: u64, len: usize) -> io::Result<()> {
        check_position(offset, len)?;
        #[cfg(target_os = "linux")]
        if offset + len as u64 > self.length_max.load(Ordering::Relaxed) {
            return Err(rustix::io::Errno::FBIG.into());
        }
        Ok(())
    }

    /// One sync at a time if all of them hear their errors through one opening.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        std::ptr::eq(self.for_synced_writes(), &self.file).then(|| self.turns.lock())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(unix)]
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, data, offset)
    }

    #[cfg(not(unix))]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek};
        let _alone = self.cursor.lock();
        (&self.file).seek(io::SeekFrom::Start(offset))?;
        (&self.file).read_exact(out)
    }

    #[cfg(not(unix))]
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        use std::io::{Seek, Write};
        let _alone = self.cursor.lock();
        (&self.file).seek(io::SeekFrom::Start(offset))?;
        (&self.file).write_all(data)
    }

    /// Writes through to the device. `false` if the kernel or the file system cannot: then nothing is durable and the
    /// caller writes everything again.
    #[cfg(target_os = "linux")]
    fn write_dsync(&self, file: &File, mut offset: u64, mut data: &[u8]) -> io::Result<bool> {
        use rustix::io::{Errno, ReadWriteFlags, pwritev2};
        if self.dsync_refused.load(Ordering::Relaxed) {
            return Ok(false);
        }
        while !data.is_empty() {
            match pwritev2(file, &[io::IoSlice::new(data)], offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    data = data.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                    self.dsync_refused.store(true, Ordering::Relaxed);
                    return Ok(false);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }
}

/// How long the process may make a file, in bytes.
#[cfg(target_os = "linux")]
fn length_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current.unwrap_or(u64::MAX)
}

/// The file by another opening, whatever name it has by now; `None` if the system does not say where that is.
#[cfg(target_os = "linux")]
fn opened_again(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().write(true).open(path).ok()
}

/// A position past what the system can express would be taken as negative, and the highest one as "the current position".
fn check_position(offset: u64, len: usize) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= POSITION_MAX => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "position past the largest file",
        )),
    }
}

fn look(path: &Path, wait: Duration) -> Result<Look> {
    let patience = Patience::begin(wait);
    for _ in 0..REPLACED_MAX {
        let file = open_regular(path, Access::Write)?;
        lock_within(path, &patience, || try_lock(&file, path))?;
        // Under the lock nobody of ours moves this file away. If the path names another one by now, or none, then the
        // lock that was waited for belongs to a file that nobody will find again.
        if !still_at(path, &file)? {
            continue;
        }
        let len = file
            .metadata()
            .map_err(|cause| Error::io("read the length of the file", Some(path), cause))?
            .len();
        return Ok(if len == 0 {
            Look::Empty
        } else {
            Look::Open(FileDisk::locked(file, path.to_owned()))
        });
    }
    Err(busy(path, "the file is replaced over and over"))
}

/// Opens a file that is only looked at. Takes no lock on Linux, where [marks] tell what a writer does;
/// elsewhere one that excludes writers and is shared with others who look.
pub(super) fn open_to_look(path: &Path, wait: Duration) -> Result<FileDisk> {
    let file = open_regular(path, Access::Read)?;
    if !marks::ARE_THERE {
        lock_within(path, &Patience::begin(wait), || {
            outcome_of_lock(path, || file.try_lock_shared())
        })?;
    }
    Ok(FileDisk::only_read(file, path.to_owned()))
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Opens what is a regular file. Looks before it opens, since opening a device or a pipe can already have an effect, and
/// once more afterwards, since the path may have changed hands.
pub(super) fn open_regular(path: &Path, access: Access) -> Result<File> {
    let failed = |cause| Error::io("open the file", Some(path), cause);
    check_regular(path, &std::fs::metadata(path).map_err(failed)?)?;
    let write = access == Access::Write;
    let file = OpenOptions::new().read(true).write(write).open(path).map_err(failed)?;
    check_regular(path, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

fn check_regular(path: &Path, found: &Metadata) -> Result<()> {
    if found.is_file() {
        Ok(())
    } else {
        Err(not_a_store(path, "it is no regular file"))
    }
}

/// Whether `path` still leads to the file that is open.
#[cfg(unix)]
pub(super) fn still_at(path: &Path, file: &File) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let failed = |cause| Error::io("look at the file", Some(path), cause);
    let open = file.metadata().map_err(failed)?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(failed(cause)),
    }
}

/// Elsewhere an open file keeps its name, or the system offers no identity to compare.
#[cfg(not(unix))]
pub(super) fn still_at(_path: &Path, _file: &File) -> Result<bool> {
    Ok(true)
}

/// How long somebody is still ready to wait. What another process holds is waited for in real time, whatever clock the
/// store was given.
struct Patience {
    began: SystemClock,
    wait: Duration,
}

impl Patience {
    fn begin(wait: Duration) -> Patience {
        Patience {
            began: SystemClock::new(),
            wait,
        }
    }

    fn left(&self) -> Duration {
        let passed = Duration::from_nanos(self.began.sample().mono_ns);
        self.wait.saturating_sub(passed)
    }
}

/// Takes a lock, looking again while there is patience.
fn lock_within(path: &Path, patience: &Patience, mut take: impl FnMut() -> Result<bool>) -> Result<()> {
    while !take()? {
        let left = patience.left();
        if left.is_zero() {
            return Err(busy(path, "another process or handle has the file open"));
        }
        pause(left.min(LOCK_PAUSE));
    }
    Ok(())
}

/// Takes the exclusive lock if it is free. A file system without locks is an error: going on would let two writers in.
pub(super) fn try_lock(file: &File, path: &Path) -> Result<bool> {
    outcome_of_lock(path, || file.try_lock())
}

fn outcome_of_lock(path: &Path, take: impl Fn() -> Result<(), TryLockError>) -> Result<bool> {
    loop {
        match take() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(cause)) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(cause)) => {
                let message = format!(
                    "cannot lock the file, does its file system have locks, path={}",
                    path.display()
                );
                return Err(Error::with_source(ErrorKind::Io, message, cause));
            }
        }
    }
}

/// The one place of this library that sleeps: another process cannot wake us.
#[expect(
    clippy::disallowed_methods,
    reason = "another process holds what is waited for and cannot wake us"
)]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn busy(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Busy, format!("{why}, path={}", path.display()))
}

fn not_a_store(path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::NotAStore,
        format!("not a store: {why}, path={}", path.display()),
    )
}
