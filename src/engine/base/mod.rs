//! The base: the ordered B-tree that checkpoints fill. The only address of redb in this crate.
//!
//! Owns redb's database over its region of the file, its tables and the error mapping. Every transaction is quick-repair
//! (two-phase), so that opening takes milliseconds at any size. No user code runs inside a redb transaction.
//!
//! Others may rely on: [`Base::apply`] is atomic and durable once it returned, and may be repeated; a snapshot never
//! changes; redb latches every error, so after one, also of a read, the opening is spent and the base is opened anew over
//! the same region.

mod ending;
mod region;
mod snapshot;
mod spent;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database, Durability, Table, TableDefinition, WriteTransaction};

use super::memory::Memory;
use super::space::Space;
use super::watched::Watched;
use crate::clock::RetentionMark;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use ending::{Dropped, change_ending, drop_ended};
use region::{Backend, Region};
pub(crate) use snapshot::BaseSnapshot;
use spent::{Spent, caught};

type Raw = TableDefinition<'static, &'static [u8], &'static [u8]>;

const META: Raw = TableDefinition::new("meta");
const RECORDS: Raw = TableDefinition::new("records");
const ENDING: Raw = TableDefinition::new("ending");
const STATES: Raw = TableDefinition::new("states");
/// End (big endian) and key of each entry of `ENDING`, in the order of their ends. In the base only: the log never
/// carries it, since it follows from the entries.
const ENDS: Raw = TableDefinition::new("ends");
/// Where the log continues: one value under [`APPLIED_KEY`].
const ENGINE: Raw = TableDefinition::new("engine");
const APPLIED_KEY: &[u8] = b"applied";

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
}

#[derive(Debug)]
struct Opened {
    /// `None` only after an attempt to open anew failed; the next attempt starts there.
    database: Option<Database>,
    region: Arc<Region>,
    spent: Spent,
}

impl Opened {
    fn snapshot(&self, home: &Arc<Home>) -> Result<Arc<BaseSnapshot>> {
        let database = self.database.as_ref().ok_or_else(closed)?;
        let spent = &self.spent;
        spent.reading(|| BaseSnapshot::of(database, spent.clone(), home))
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

impl Drop for Opened {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Base {
    /// Makes an empty base behind `offset` of a file under construction.
    pub(crate) fn create(disk: Arc<Watched>, offset: u64, cache_bytes: usize, applied: Applied) -> Result<Base> {
        let region = Arc::new(Region::armed(disk.clone(), offset));
        let database = open_redb(&region, cache_bytes, true)?;
        let base = Base::with(disk, offset, cache_bytes, database, region);
        base.apply(&Memory::new(), applied)?;
        Ok(base)
    }

    /// Opens the base that a file has. Nothing is written to the disk before [`Base::arm`].
    pub(crate) fn open(disk: Arc<Watched>, offset: u64, cache_bytes: usize) -> Result<Base> {
        let region = Arc::new(Region::overlaid(disk.clone(), offset));
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
            }),
        };
        Base {
            home: Arc::new(home),
            dropped: AtomicU64::new(0),
        }
    }

    /// Makes everything the base shows durable, and lets its writes through.
    pub(crate) fn arm(&self) -> Result<()> {
        let region = self.home.open.lock().region.clone();
        region
            .arm()
            .map_err(|cause| Error::io("write to the base", None, cause))
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

    /// Puts all changes of `memory` into the base, drops ended entries, and notes `applied`, in one durable transaction.
    pub(crate) fn apply(&self, memory: &Memory, applied: Applied) -> Result<()> {
        self.write(|database| Base::apply_to(database, memory, applied))
            .map(drop)
    }

    /// Drops entries that are over at `now_ns`, in a durable transaction of its own. Says whether there may be more.
    pub(crate) fn drop_ended(&self, now_ns: u64) -> Result<bool> {
        let dropped = self.write(|database| Base::drop_from(database, now_ns))?;
        Ok(dropped.may_be_more())
    }

    /// How many entries were dropped since the open because they are over.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Runs one transaction and counts what it dropped.
    fn write(&self, transaction: impl FnOnce(&Database) -> Result<Dropped>) -> Result<Dropped> {
        let mut open = self.home.open.lock();
        self.home.open_if_spent(&mut open)?;
        open.region
            .arm()
            .map_err(|cause| Error::io("write to the base", None, cause))?;
        let database = open.database.as_ref().ok_or_else(closed)?;
        let dropped = caught(|| transaction(database))?;
        self.dropped.fetch_add(dropped.entries, Ordering::Relaxed);
        Ok(dropped)
    }

    fn begin(database: &Database) -> Result<WriteTransaction> {
        let mut writing = database.begin_write().map_err(from_redb)?;
        writing.set_durability(Durability::Immediate).map_err(from_redb)?;
        writing.set_quick_repair(true);
        Ok(writing)
    }

    fn apply_to(database: &Database, memory: &Memory, applied: Applied) -> Result<Dropped> {
        let writing = Base::begin(database)?;
        let dropped = {
            let mut meta = writing.open_table(META).map_err(from_redb)?;
            let mut records = writing.open_table(RECORDS).map_err(from_redb)?;
            let mut ending = writing.open_table(ENDING).map_err(from_redb)?;
            let mut states = writing.open_table(STATES).map_err(from_redb)?;
            let mut ends = writing.open_table(ENDS).map_err(from_redb)?;
            for (key, value) in memory.iter() {
                match Space::split(key) {
                    Some((Space::Meta, key)) => change(&mut meta, key, value.as_deref())?,
                    Some((Space::Records, key)) => change(&mut records, key, value.as_deref())?,
                    Some((Space::States, key)) => change(&mut states, key, value.as_deref())?,
                    Some((Space::Ending, key)) => change_ending(&mut ending, &mut ends, key, value.as_deref())?,
                    None => {
                        return Err(Error::new(
                            ErrorKind::Corrupt,
                            "a key of an unknown space is in the log",
                        ));
                    }
                }
            }
            let mut engine = writing.open_table(ENGINE).map_err(from_redb)?;
            engine
                .insert(APPLIED_KEY, applied.encode().as_slice())
                .map_err(from_redb)?;
            drop_ended(&mut ending, &mut ends, applied.time.now_ns)?
        };
        writing.commit().map_err(from_redb)?;
        Ok(dropped)
    }

    fn drop_from(database: &Database, now_ns: u64) -> Result<Dropped> {
        let writing = Base::begin(database)?;
        let dropped = {
            let mut ending = writing.open_table(ENDING).map_err(from_redb)?;
            let mut ends = writing.open_table(ENDS).map_err(from_redb)?;
            drop_ended(&mut ending, &mut ends, now_ns)?
        };
        if dropped.is_nothing() {
            writing.abort().map_err(from_redb)?;
        } else {
            writing.commit().map_err(from_redb)?;
        }
        Ok(dropped)
    }

    /// After an error: opens redb anew over the same region, with its writes held in memory until they go through.
    pub(crate) fn reopen(&self) -> Result<()> {
        self.home.open_anew(&mut self.home.open.lock())
    }

    /// Closes redb; later calls answer `Closed`.
    pub(crate) fn close(&self) -> Result<()> {
        match self.home.open.lock().database.take() {
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
        open.region.retire();
        open.discard();
        open.region = Arc::new(Region::overlaid(self.disk.clone(), self.offset));
        open.database = Some(open_redb(&open.region, self.cache_bytes, false)?);
        Ok(())
    }
}

type Writable<'t> = Table<'t, &'static [u8], &'static [u8]>;

fn change(table: &mut Writable<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    match value {
        Some(value) => table.insert(key, value).map_err(from_redb)?,
        None => table.remove(key).map_err(from_redb)?,
    };
    Ok(())
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
        redb::Error::DatabaseClosed => Error::new(ErrorKind::Io, "the base was opened anew meanwhile"),
        other => Error::with_source(ErrorKind::Io, "the base refused the call", other.to_string()),
    }
}
