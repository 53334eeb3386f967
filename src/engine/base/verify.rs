//! The base as a check reads it: page by page without redb, once by redb's own rules, and then entry by entry.
//!
//! No byte of the file changes, and no opening here trusts what redb notes of free pages before that was judged.

use std::io;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use redb::{BackendError, Database, ReadableTableMetadata, StorageBackend, TableHandle};

use super::pages::{self, Bad, Expected};
use super::region::{Backend, Region};
use super::segments::Known;
use super::spent::{Spent, caught};
use super::{BaseSnapshot, ENGINE, META, from_redb};
use crate::disk::Disk;
use crate::engine::space::Space;
use crate::engine::watched::Watched;
use crate::error::{Error, ErrorKind, Result};

/// redb's lock byte that says: the file is consistent, and a flag that it is open means no more than that.
const CONSISTENT_BYTE: u64 = (1 << 62) + 4;

/// Judges every page that is in use. Gives each damaged one by its place in the base, and how many pages were judged.
pub(in crate::engine) fn pages(disk: &dyn Disk, offset: u64, bad: &mut dyn FnMut(u64, String)) -> Result<u64> {
    pages::judge(disk, offset, &|_| true, &mut |found| bad(found.at, found.seen))
        .map(|(judged, _)| judged)
        .map_err(|cause| Error::io("read the base", None, cause))
}

/// Judges the pages that are trusted before anybody reads a record: redb's own, since damage in them could make it end the
/// process, and the small tables of the store, whose entries say where the log continues and which versions were given.
/// Gives what the others must be.
///
/// # Errors
/// `Corrupt`, naming the first damaged page; what the disk reports.
pub(super) fn bookkeeping(disk: &dyn Disk, offset: u64) -> Result<Expected> {
    let mut first = None;
    let ours = [META.name(), ENGINE.name()].map(str::as_bytes);
    let judged = pages::judge(disk, offset, &|name| ours.contains(&name), &mut |bad| {
        first.get_or_insert(bad);
    });
    let (_, expected) = judged.map_err(|cause| Error::io("read the base", None, cause))?;
    match first {
        None => Ok(expected),
        Some(bad) => Err(damaged(offset, &bad)),
    }
}

/// Lets redb judge a base whose pages are sound; its repairs stay in memory. `false` if it found something to repair.
pub(in crate::engine) fn integrity(disk: Arc<Watched>, offset: u64, cache_bytes: usize) -> Result<bool> {
    let region = Arc::new(Region::overlaid(disk, offset, Expected::default()));
    let backend = Backend {
        region,
        may_create: false,
    };
    caught(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let mut database = builder.create_with_backend(backend).map_err(from_redb)?;
        database.check_integrity().map_err(from_redb)
    })
}

/// Judges all of a base: each page by its checksum, and then what redb notes of free pages.
///
/// # Errors
/// `Corrupt`, naming the first damaged page; `Io`.
pub(in crate::engine) fn sound(disk: &Arc<dyn Disk>, offset: u64, cache_bytes: usize) -> Result<()> {
    let mut first = None;
    pages(&**disk, offset, &mut |at, seen| {
        first.get_or_insert(Bad { at, seen });
    })?;
    if let Some(bad) = first {
        return Err(damaged(offset, &bad));
    }
    if integrity(Arc::new(Watched::new(disk.clone())), offset, cache_bytes)? {
        return Ok(());
    }
    let message = "the base is damaged: its notes of free pages are not what its trees say";
    Err(Error::new(ErrorKind::Corrupt, message))
}

fn damaged(offset: u64, bad: &Bad) -> Error {
    let Bad { at, seen } = bad;
    let message = format!("the base is damaged: {seen}, offset={}", offset + at);
    Error::new(ErrorKind::Corrupt, message)
}

/// The last state of a base, for reading only: redb neither writes nor looks at which pages are free. Nobody else need
/// keep the base open.
pub(in crate::engine) fn last_state(disk: Arc<Watched>, offset: u64, cache_bytes: usize) -> Result<Arc<BaseSnapshot>> {
    state_of(disk, offset, cache_bytes, Expected::default())
}

/// The same, and none of its branches is believed whose parent names another checksum.
///
/// # Errors
/// `Corrupt` also if what redb would trust is damaged.
pub(in crate::engine) fn judged_state(
    disk: Arc<Watched>,
    offset: u64,
    cache_bytes: usize,
) -> Result<Arc<BaseSnapshot>> {
    let expected = bookkeeping(&*disk, offset)?;
    state_of(disk, offset, cache_bytes, expected)
}

fn state_of(disk: Arc<Watched>, offset: u64, cache_bytes: usize, expected: Expected) -> Result<Arc<BaseSnapshot>> {
    let backend = Reading(Backend {
        region: Arc::new(Region::overlaid(disk, offset, expected)),
        may_create: false,
    });
    caught(|| {
        let mut builder = Database::builder();
        builder
            .set_cache_size(cache_bytes)
            .set_concurrency_mode(redb::ConcurrencyMode::SingleWriter);
        let database = builder.open_read_only_with_backend(backend).map_err(from_redb)?;
        BaseSnapshot::of(&database, Spent::default(), Weak::new(), &mut Known::default())
    })
}

/// A backend that is read only. Whoever opens it has locked the file already, so each lock is granted.
#[derive(Debug)]
struct Reading(Backend);

type Granted<T> = Result<T, BackendError>;

impl StorageBackend for Reading {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn try_lock_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Granted<bool> {
        Ok(true)
    }

    fn try_lock_shared_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Granted<bool> {
        Ok(true)
    }

    fn lock_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Granted<()> {
        Ok(())
    }

    fn lock_shared_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Granted<()> {
        Ok(())
    }

    fn unlock_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Granted<()> {
        Ok(())
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Granted<bool> {
        let consistent = Bound::Included(CONSISTENT_BYTE);
        Ok((start, end) == (consistent, consistent))
    }
}

impl BaseSnapshot {
    /// How many entries the base says it has of a space; `None` of the one whose entries lie in segments.
    pub(in crate::engine) fn stored_len(&self, space: Space) -> Result<Option<u64>> {
        let Some(tree) = self.tree(space) else { return Ok(None) };
        self.spent.reading(|| tree.len().map(Some).map_err(from_redb))
    }
}
