//! Copies of a store: backup, restore, compaction.
//!
//! All three write one state into a new file and judge that before it gets its name; what they differ in is whose state it
//! is, whose identity it has, and what may be at the path. Nothing else of the disk is touched.

use std::path::Path;
use std::sync::Arc;

use super::{Options, Store};
use crate::check;
use crate::disk::Disk;
use crate::disk::create::{self, Building, Creation, Finished};
use crate::disk::file::FileDisk;
use crate::disk::look::LookDisk;
use crate::engine::{self, Copied, Identity, Now, Original, check_replaceable};
use crate::error::{Error, ErrorKind, Result};
use crate::lease;
use crate::txn::Txn;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackedUp {
    /// The last commit that is inside.
    pub sequence: u64,
    /// Length of the new file in bytes.
    pub bytes: u64,
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The last commit of the source, from which the restored store counts on.
    pub sequence: u64,
    /// Length of the new file in bytes.
    pub bytes: u64,
}

/// What a compaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Length of the file in bytes before.
    pub bytes_before: u64,
    /// Length of the file in bytes now; the same if it could not be made shorter, and then it was not touched.
    pub bytes_after: u64,
}

impl Store {
    /// Copies the newest state that is durable at the store's level into a new file: one point in time, with everything that
    /// was answered before this call. The copy is the same store at that moment, with its identity.
    ///
    /// Nobody waits for it but [`Store::close`]. As by any long reader, pages that writers leave meanwhile are not used again
    /// until it ends. The new file is opened and compared with what was read before it gets its name; it is as long as what
    /// lives in it needs.
    ///
    /// # After a crash
    /// There is a whole backup at `to`, or none. A kill may leave an unfinished file beside it, whose name begins with a dot
    /// and has `.new-` in it; nobody will use it, so it may be removed.
    ///
    /// # Errors
    /// `Invalid` if there is a file at `to`; `NotFound` without its folder; `Full`, `ReadOnly`, `Io`; `Corrupt` if something
    /// of this store cannot be read. There is no new file then. `Closed`.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackedUp> {
        let to = to.as_ref();
        self.with_engine("backup", |engine| {
            let original = engine.original()?;
            let building = new_file(to)?;
            check::open(original.view(), 0, |_| ())?.or_corrupt()?;
            let copied = copy(&original, &building, Identity::Same, self.inner.cache_bytes)?;
            finish(building, to)?;
            Ok::<_, Error>(copied)
        })
        .map(|Copied { sequence, bytes }| BackedUp { sequence, bytes })
        .map_err(|cause| cause.within(format!("cannot back up the store, path={}", to.display())))
    }

    /// Every entry of the newest durable state, as it lies in the file; so that a test can compare all there is.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn entries(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.with_engine("entries", |engine| {
            let original = engine.original()?;
            let entries = original.entries()?;
            entries
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect()
        })
    }

    /// A backup on a disk, not durable until that is synced; so that a test can let the disk fail.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn backup_on(&self, disk: &Arc<dyn Disk>) -> Result<BackedUp> {
        let copied = self.with_engine("backup", |engine| {
            engine.original()?.copy_to(disk, Identity::Same, self.inner.cache_bytes)
        });
        copied.map(|Copied { sequence, bytes }| BackedUp { sequence, bytes })
    }
}

impl Options {
    /// Makes a new store with the content of a backup, or of any store that nobody has open. The source is judged in full
    /// first, and is not changed.
    ///
    /// The new store has an identity of its own. Records, versions, states, remembered keys and the time they end by are those
    /// of the source: **what was done after the backup is forgotten.** A delivery that was answered after it can run again, a
    /// version that was given after it is given again, and what has left the machine since does not come back. Where that
    /// matters, compare with the other side before letting workers in. Time in which neither file was open ages remembered keys
    /// as it does for a store that was closed, see [`Options::max_offline`].
    ///
    /// Messages are those of the source with their effect ids: one that was delivered after the backup is delivered again. Fences go
    /// on 2^32 above those of the source, so that no claim of the new store has one that was given out since.
    ///
    /// Of these options it takes the wait and the cache.
    ///
    /// # After a crash
    /// There is the whole new store at `to`, or what was there before. A kill may leave an unfinished file beside it, as
    /// [`Store::backup`] says.
    ///
    /// # Errors
    /// For the source `NotFound`, `NotAStore`, `NewerFormat`, `Corrupt`, `Busy`, `ReadOnly`. `Invalid` if there is a file at
    /// `to`, `NotFound` without its folder; `Full`, `Io`. There is no new file then.
    pub fn restore(self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Restored> {
        let (from, to) = (from.as_ref(), to.as_ref());
        create::check_free(to)?;
        self.restore_to(from, to, || new_file(to))
    }

    /// The same, in the place of the store that is at `to`, also of a damaged one; without one as [`Options::restore`]. The new
    /// file has the owner and the mode of the old one, and a symbolic link stays one.
    ///
    /// # After a crash
    /// As for [`Options::restore`].
    ///
    /// # Errors
    /// As [`Options::restore`]. For what is at `to`: `Busy` if somebody has it open, `NotAStore`, `NewerFormat`, `Invalid` if
    /// it has a second name (a hard link) or is the source. It is untouched then. `InDoubt` if the new store is there and a power loss may bring
    /// the old one back: call again.
    pub fn restore_over(self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Restored> {
        let (from, to) = (from.as_ref(), to.as_ref());
        match FileDisk::open(to, self.wait) {
            Ok(held) => {
                if held.is_at(from)? {
                    let message = format!("source and target are one file, path={}", to.display());
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
                check_replaceable(&held)
                    .map_err(|cause| cause.within(format!("not replaced, path={}", to.display())))?;
                self.restore_to(from, to, || create::replace(&held))
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => self.restore_to(from, to, || new_file(to)),
            Err(cause) => Err(cause),
        }
    }

    fn restore_to(&self, from: &Path, to: &Path, begin: impl FnOnce() -> Result<Building>) -> Result<Restored> {
        let source: Arc<dyn Disk> = Arc::new(LookDisk::open(from, self.wait)?);
        let cache_bytes = self.settings.cache_bytes;
        let original = engine::at_rest(&source)
            .and_then(|source| source.ok_or_else(|| busy(from)))
            .and_then(|source| Original::of_file(source, cache_bytes))
            .and_then(with_later_fences)
            .map_err(|cause| cause.within(format!("cannot restore, path={}", from.display())))?;
        let restored = begin().and_then(|building| {
            let copied = copy(&original, &building, Identity::New, cache_bytes)?;
            finish(building, to)?;
            Ok(copied)
        });
        let Copied { sequence, bytes } =
            restored.map_err(|cause| cause.within(format!("cannot restore, path={}", to.display())))?;
        Ok(Restored { sequence, bytes })
    }

    /// Makes the file of a store that nobody has open as short as what lives in it needs, by a copy that takes its place.
    /// Identity, content, versions, time, length of the log halves, owner and mode stay; what the log holds is taken along,
    /// and a symbolic link stays one. If the copy would not be shorter, no byte and no name is changed.
    ///
    /// It needs room for the copy beside the file. Of these options it takes the wait and the cache.
    ///
    /// # After a crash
    /// The old file is there or the new one, each whole. A kill may leave an unfinished file beside it, as [`Store::backup`]
    /// says.
    ///
    /// # Errors
    /// `Busy` if another process or handle has the file open; `NotFound`, `NotAStore`, `NewerFormat`, `Corrupt`, `ReadOnly`;
    /// `Invalid` if the file has a second name (a hard link); `Full`, `Io`. The file is untouched then. `InDoubt` if the new
    /// file is there and a power loss may bring the old one back, which holds the same.
    pub fn compact(self, path: impl AsRef<Path>) -> Result<Compacted> {
        let path = path.as_ref();
        let held = FileDisk::open(path, self.wait)?;
        self.compact_held(&held)
            .map_err(|cause| cause.within(format!("cannot compact the store, path={}", path.display())))
    }

    fn compact_held(&self, held: &FileDisk) -> Result<Compacted> {
        let cache_bytes = self.settings.cache_bytes;
        let bytes_before = held
            .len()
            .map_err(|cause| Error::io("ask for the length of the file", None, cause))?;
        let original = Original::of_file(Arc::new(held.clone()), cache_bytes)?;
        let building = create::replace(held)?;
        let copied = copy(&original, &building, Identity::Same, cache_bytes)?;
        if copied.bytes >= bytes_before {
            return Ok(Compacted {
                bytes_before,
                bytes_after: bytes_before,
            });
        }
        finish(building, held.path())?;
        Ok(Compacted {
            bytes_before,
            bytes_after: copied.bytes,
        })
    }
}

/// What was claimed in the original since, or will be, has a fence that no claim of its restored copy gets.
fn with_later_fences(original: Original) -> Result<Original> {
    let mut txn = Txn::new(original.view().clone(), Now::default());
    let last = lease::last_fence(&txn)?;
    lease::begin_far_above(&mut txn, last)?;
    Ok(original.with(txn.into_changes()?))
}

fn copy(original: &Original, building: &Building, identity: Identity, cache_bytes: usize) -> Result<Copied> {
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::clone(building));
    let copied = original.copy_to(&disk, identity, cache_bytes)?;
    // Pages are sound: they were just written. What they hold may have been damaged before.
    check::sound(disk, cache_bytes).map_err(|cause| cause.within("what is to be copied is damaged"))?;
    Ok(copied)
}

fn new_file(path: &Path) -> Result<Building> {
    match create::create(path, false)? {
        Creation::Building(building) => Ok(building),
        Creation::Exists => Err(create::exists(path)),
    }
}

fn finish(building: Building, path: &Path) -> Result<()> {
    match building.finish()? {
        Finished::Created(_) => Ok(()),
        Finished::Exists => Err(create::exists(path)),
    }
}

fn busy(path: &Path) -> Error {
    let message = format!("a process writes to the file, path={}", path.display());
    Error::new(ErrorKind::Busy, message)
}
