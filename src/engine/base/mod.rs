//! The base: the ordered B-tree that checkpoints fill. The only address of redb in this crate.
//!
//! Owns redb's database over its region of the file, its tables and the error mapping. Every transaction is quick-repair
//! (two-phase), so that opening takes milliseconds at any size. No user code runs inside a redb transaction.
//!
//! Others may rely on: [`Base::apply`] is atomic and durable once it returned, and may be repeated; a snapshot never
//! changes; redb latches every error, so after one, also of a read, the opening is spent and the base is opened anew over
//! the same region.

mod fill;
mod outside;
mod pages;
mod region;
mod segments;
mod snapshot;
mod spent;
mod tables;
pub(super) mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database, Durability, TableDefinition, WriteTransaction};

use super::memory::Memory;
use super::space::Space;
use super::watched::Watched;
use crate::clock::RetentionMark;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use outside::Outside;
pub(super) use outside::{HEADER_BYTES, Place};
use region::{Backend, Region};
pub(super) use segments::Judged;
#[cfg(feature = "test-util")]
pub use segments::plan;
use segments::{Appender, Changed, Known, Merges, Segments};
pub(crate) use snapshot::{BaseSnapshot, Held, Scan};
use spent::{Spent, caught};
use tables::{Tables, open_segments};

type Raw = TableDefinition<'static, &'static [u8], &'static [u8]>;

const META: Raw = TableDefinition::new("meta");
const RECORDS: Raw = TableDefinition::new("records");
const STATES: Raw = TableDefinition::new("states");
const MESSAGES: Raw = TableDefinition::new("messages");
/// Entries that end, in blocks: see `segments`.
const BLOCKS: Raw = TableDefinition::new("segments");
const FILTERS: Raw = TableDefinition::new("filters");
/// Where the log continues, under [`APPLIED_KEY`]; and the list of segments.
const ENGINE: Raw = TableDefinition::new("engine");
const APPLIED_KEY: &[u8] = b"applied";

/// A full log half brings about as many remembered keys as a 128th of its bytes, and the base begins behind two halves: so many
/// entries, and never fewer than this, are merged by a transaction that brings nothing.
const OFFSET_PER_ENTRY_BESIDES: u64 = 2 * 128;
const ENTRIES_BESIDES_MIN: u64 = 512;

/// Up to where the log has been put into the base, and what the frame of that sequence said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) sequence: u64,
    pub(crate) life: u64,
    pub(crate) time: RetentionMark,
}

/// The open base.
#[derive(Debug)]
pub(crate) struct Base {
    home: Arc<Home>,
    /// Entries that were dropped since the open because they are over.
    dropped: AtomicU64,
}

/// Where redb is opened, and opened anew.
#[derive(Debug)]
struct Home {
    disk: Arc<Watched>,
    offset: u64,
    cache_bytes: usize,
    open: Mutex<Opened>,
    /// How many states are kept for readers of other processes; beside `open`, which a transaction holds for long.
    kept_outside: AtomicU64,
}

#[derive(Debug)]
struct Opened {
    /// `None` only after an attempt to open anew failed; the next attempt starts there.
    database: Option<Database>,
    region: Arc<Region>,
    spent: Spent,
    outside: Outside,
    known: Known,
    merges: Merges,
}

impl Opened {
    fn snapshot(&mut self, home: &Arc<Home>) -> Result<Arc<BaseSnapshot>> {
        let Opened {
            database, spent, known, ..
        } = self;
        let database = database.as_ref().ok_or_else(closed)?;
        spent.reading(|| BaseSnapshot::of(database, spent.clone(), Arc::downgrade(home), known))
    }

    /// Lets writes through, and says so to readers outside.
    fn arm(&mut self, disk: &dyn Disk) -> Result<()> {
        self.region
            .arm()
            .map_err(|cause| Error::io("write to the base", None, cause))?;
        self.outside.begin(disk);
        Ok(())
    }

    /// Drops redb, which commits once more if it can. Whoever wants to know how that went calls [`Base::close`].
    fn discard(&mut self) {
        let database = self.database.take();
        let _ = caught(|| {
            drop(database);
            Ok(())
        });
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // Closing the file is not enough: a child between fork and exec still has its marks. Before redb goes, since that
        // may use pages again that were kept.
        self.home.open.lock().outside.end(&*self.home.disk);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Base {
    /// Opens the base that a file has. Nothing is written to the disk before [`Base::arm`].
    ///
    /// # Errors
    /// `Corrupt` if a page is damaged that redb would trust before anybody reads a record, and what redb answers.
    pub(crate) fn open(disk: Arc<Watched>, offset: u64, cache_bytes: usize) -> Result<Base> {
        let expected = verify::bookkeeping(&*disk, offset)?;
        let region = Arc::new(Region::overlaid(disk.clone(), offset, expected));
        let database = open_redb(&region, cache_bytes, false)?;
        Ok(Base::with(disk, offset, cache_bytes, database, region))
    }

    fn with(disk: Arc<Watched>, offset: u64, cache_bytes: usize, database: Database, region: Arc<Region>) -> Base {
        let home = Home {
            disk,
            offset,
            cache_bytes,
            open: Mutex::new(Opened {
                database: Some(database),
                region,
                spent: Spent::default(),
                outside: Outside::default(),
                known: Known::default(),
                merges: Merges::new(ENTRIES_BESIDES_MIN.max(offset / OFFSET_PER_ENTRY_BESIDES)),
            }),
            kept_outside: AtomicU64::new(0),
        };
        Base {
            home: Arc::new(home),
            dropped: AtomicU64::new(0),
        }
    }

    /// Makes everything the base shows durable, and lets its writes through.
    pub(crate) fn arm(&self) -> Result<()> {
        self.home.open.lock().arm(&*self.home.disk)
    }

    /// How many states are kept for readers of other processes.
    pub(crate) fn kept_outside(&self) -> u64 {
        self.home.kept_outside.load(Ordering::Relaxed)
    }

    /// The state after the last [`Base::apply`].
    pub(crate) fn snapshot(&self) -> Result<Arc<BaseSnapshot>> {
        self.home.open.lock().snapshot(&self.home)
    }

    /// The newest state, after redb was opened anew if the opening in use is spent.
    pub(crate) fn renewed(&self) -> Result<Arc<BaseSnapshot>> {
        self.home.renew(&mut self.home.open.lock())
    }

    /// The same for a reader, who waits for nobody: `None` while somebody else is at the base.
    pub(crate) fn renewed_if_free(&self) -> Result<Option<Arc<BaseSnapshot>>> {
        let open = self.home.open.try_lock();
        open.map(|mut open| self.home.renew(&mut open)).transpose()
    }

    /// Puts all changes of `memory` into the base, drops what is over, and notes `applied`, in one durable transaction. Nothing
    /// if the base has them already.
    pub(crate) fn apply(&self, memory: &Memory, applied: Applied) -> Result<()> {
        self.write(|database, before, merges| {
            if before.applied == applied {
                return Ok(Changed::default());
            }
            Base::apply_to(database, before, merges, memory, applied)
        })
        .map(drop)
    }

    /// Drops what is over at `now_ns`, in a durable transaction of its own. Says whether there may be more.
    pub(crate) fn drop_ended(&self, now_ns: u64) -> Result<bool> {
        self.write(|database, before, merges| Base::sweep(database, before, merges, now_ns))
    }

    /// The disk of the file that the base is the end of.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.home.disk
    }

    /// How many entries were dropped since the open because they are over.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Runs one transaction and counts what it dropped. Says whether more of it is left to do.
    fn write(
        &self,
        transaction: impl FnOnce(&Database, &BaseSnapshot, &mut Merges) -> Result<Changed>,
    ) -> Result<bool> {
        let mut open = self.home.open.lock();
        self.home.open_if_spent(&mut open)?;
        open.arm(&*self.home.disk)?;
        open.outside.let_go(&*self.home.disk);
        let before = open.snapshot(&self.home)?;
        let Opened { database, merges, .. } = &mut *open;
        let database = database.as_ref().ok_or_else(closed)?;
        let changed = caught(|| transaction(database, &before, merges));
        if changed.is_err() {
            // What they wrote is not in the file.
            merges.begin_anew();
        }
        let changed = changed?;
        if changed.anything {
            open.known.add(changed.written);
            let kept = open.outside.superseded(&*self.home.disk, before);
            self.home.kept_outside.store(kept, Ordering::Relaxed);
            self.dropped.fetch_add(changed.over, Ordering::Relaxed);
        }
        Ok(changed.more)
    }

    fn begin(database: &Database) -> Result<WriteTransaction> {
        let mut writing = database.begin_write().map_err(from_redb)?;
        writing.set_durability(Durability::Immediate).map_err(from_redb)?;
        writing.set_quick_repair(true);
        Ok(writing)
    }

    fn apply_to(
        database: &Database,
        before: &BaseSnapshot,
        merges: &mut Merges,
        memory: &Memory,
        applied: Applied,
    ) -> Result<Changed> {
        let writing = Base::begin(database)?;
        let changed = {
            let mut tables = Tables::open(&writing)?;
            let now_ns = applied.time.now_ns;
            let mut segments = Segments::new(before, merges, open_segments(&writing)?, now_ns);
            let mut ending = Appender::new(Some(before), applied.sequence, now_ns);
            for (key, value) in memory.iter() {
                match Space::split(&key) {
                    Some((Space::Ending, key)) => segments.append(&mut ending, key, value.as_deref())?,
                    _ => tables.change(&key, value.as_deref())?,
                }
            }
            segments.end_checkpoint(ending)?;
            tables.note(applied)?;
            segments.finish(&mut tables.engine)?
        };
        writing.commit().map_err(from_redb)?;
        Ok(changed)
    }

    fn sweep(database: &Database, before: &BaseSnapshot, merges: &mut Merges, now_ns: u64) -> Result<Changed> {
        let writing = Base::begin(database)?;
        let changed = {
            let mut segments = Segments::new(before, merges, open_segments(&writing)?, now_ns);
            segments.sweep()?;
            let mut engine = writing.open_table(ENGINE).map_err(from_redb)?;
            segments.finish(&mut engine)?
        };
        match changed.anything {
            true => writing.commit().map_err(from_redb)?,
            false => writing.abort().map_err(from_redb)?,
        }
        Ok(changed)
    }

    /// After an error: opens redb anew over the same region, with its writes held in memory until they go through.
    pub(crate) fn reopen(&self) -> Result<()> {
        self.home.open_anew(&mut self.home.open.lock())
    }

    /// Closes redb; later calls answer `Closed`.
    pub(crate) fn close(&self) -> Result<()> {
        let mut open = self.home.open.lock();
        open.outside.end(&*self.home.disk);
        match open.database.take() {
            Some(database) => caught(|| database.close().map_err(from_redb)),
            None => Ok(()),
        }
    }
}

impl Home {
    fn renew(self: &Arc<Home>, open: &mut Opened) -> Result<Arc<BaseSnapshot>> {
        self.open_if_spent(open)?;
        open.snapshot(self)
    }

    fn open_if_spent(&self, open: &mut Opened) -> Result<()> {
        if open.database.is_none() || open.spent.is_set() {
            self.open_anew(open)?;
        }
        Ok(())
    }

    fn open_anew(&self, open: &mut Opened) -> Result<()> {
        std::mem::take(&mut open.spent).set();
        // Who reads from outside a state that is not the newest is on their own now, and sees it by the mark.
        open.outside.end(&*self.disk);
        self.kept_outside.store(0, Ordering::Relaxed);
        open.region.retire();
        open.discard();
        let expected = verify::bookkeeping(&*self.disk, self.offset)?;
        open.region = Arc::new(Region::overlaid(self.disk.clone(), self.offset, expected));
        open.database = Some(open_redb(&open.region, self.cache_bytes, false)?);
        // Commits go on meanwhile, whether or not the base can be written to.
        open.outside.begin(&*self.disk);
        Ok(())
    }
}

impl Applied {
    fn encode(&self) -> [u8; 40] {
        let mut out = [0; 40];
        out[..8].copy_from_slice(&self.sequence.to_be_bytes());
        out[8..16].copy_from_slice(&self.life.to_be_bytes());
        out[16..24].copy_from_slice(&self.time.now_ns.to_be_bytes());
        out[24..32].copy_from_slice(&self.time.highest_wall_ns.to_be_bytes());
        out[32..].copy_from_slice(&self.time.last_wall_ns.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Applied> {
        let bytes: [u8; 40] = bytes.try_into().ok()?;
        let word = |at: usize| -> Option<[u8; 8]> { bytes.get(at..at + 8)?.try_into().ok() };
        Some(Applied {
            sequence: u64::from_be_bytes(word(0)?),
            life: u64::from_be_bytes(word(8)?),
            time: RetentionMark {
                now_ns: u64::from_be_bytes(word(16)?),
                highest_wall_ns: i64::from_be_bytes(word(24)?),
                last_wall_ns: i64::from_be_bytes(word(32)?),
            },
        })
    }
}

/// Opens redb over a region.
fn open_redb(region: &Arc<Region>, cache_bytes: usize, may_create: bool) -> Result<Database> {
    let backend = Backend {
        region: region.clone(),
        may_create,
    };
    caught(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        builder.create_with_backend(backend).map_err(from_redb)
    })
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the base is not open")
}

/// A table that must exist and does not.
fn missing(cause: redb::TableError) -> Error {
    match cause {
        redb::TableError::Storage(_) => from_redb(cause),
        _ => Error::with_source(ErrorKind::Corrupt, "the base lacks a table", cause.to_string()),
    }
}

/// redb's error as ours; its type stays behind, its text becomes the source.
fn from_redb(cause: impl Into<redb::Error>) -> Error {
    match cause.into() {
        redb::Error::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
            Error::with_source(ErrorKind::Corrupt, "the base is damaged", cause)
        }
        redb::Error::Io(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::with_source(ErrorKind::Corrupt, "the base is cut short", cause)
        }
        redb::Error::Io(cause) => Error::io("read or write the base", None, cause),
        redb::Error::Corrupted(text) => Error::with_source(ErrorKind::Corrupt, "the base is damaged", text),
        redb::Error::UpgradeRequired(version) => {
            let message = format!("the base has a format of another version, base_format={version}");
            Error::new(ErrorKind::NewerFormat, message)
        }
        // Nobody reads a store that is closed: the opening that this snapshot is of was given up after an error.
        redb::Error::DatabaseClosed | redb::Error::PreviousIo => {
            let cause = std::io::Error::other("an error before this one");
            Error::io("read or write the base, which is opened anew", None, cause)
        }
        other => Error::with_source(ErrorKind::Io, "the base refused the call", other.to_string()),
    }
}
