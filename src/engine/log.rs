//! The log: two halves of the file that take frames in turn, and the environment of the group that writes them.
//!
//! Owns where frames lie and which bytes the disk has not confirmed yet. Bytes once handed to the disk are never
//! dropped: they stay here and are written again at the same place, from the start of their first block, until a sync
//! succeeds. What is handed over is published only when it is durable at the store's level.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::memory::Memory;
use super::shared::Shared;
use super::watched::Watched;
use crate::clock::{Clock, SystemClock};
use crate::codec::superblock::SUPERBLOCK_BYTES;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::group::GroupEnv;
use crate::sync::Mutex;

/// Granularity of a rewrite in bytes: the unit that a page cache or a device may lose as a whole.
const BLOCK: u64 = 4096;

/// When a commit is told to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// `Ok` survives power loss.
    #[default]
    Sync,
    /// `Ok` survives the kill of the process. A power loss may take the commits of the last interval, always from the
    /// newest backwards.
    Buffered,
}

/// One of the two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    A,
    B,
}

impl Half {
    pub(crate) const BOTH: [Half; 2] = [Half::A, Half::B];

    pub(crate) fn other(self) -> Half {
        match self {
            Half::A => Half::B,
            Half::B => Half::A,
        }
    }

    /// Where the half begins in the file.
    pub(crate) fn begins(self, half_bytes: u64) -> u64 {
        let first = SUPERBLOCK_BYTES as u64;
        match self {
            Half::A => first,
            Half::B => first + half_bytes,
        }
    }
}

/// Where the next frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) half: Half,
    /// Bytes of the half in use.
    pub(crate) used: u64,
}

/// The staged state after a commit: what a reader sees once it is published, and what a rollback goes back to.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) sequence: u64,
    /// Counts the memory tables; a new one begins with each freeze.
    pub(crate) generation: u64,
    pub(crate) memory: Memory,
    pub(crate) position: Position,
    /// The life of the frame of this sequence.
    pub(crate) life: u64,
}

/// What was staged since the last hand-over: frames in order, and the state after the last of them.
#[derive(Default)]
pub(crate) struct Lot {
    writes: Vec<Write>,
    mark: Option<Mark>,
}

/// Bytes for one place of the file.
#[derive(Debug)]
struct Write {
    at: u64,
    bytes: Vec<u8>,
}

impl Lot {
    /// Adds a frame that lies at `at` of the file. A lot that crosses into the other half becomes two writes, in order.
    pub(crate) fn push(&mut self, at: u64, frame: &[u8], mark: Mark) {
        match self.writes.last_mut() {
            Some(last) if last.at + last.bytes.len() as u64 == at => {
                last.bytes.extend_from_slice(frame);
            }
            _ => self.writes.push(Write {
                at,
                bytes: frame.to_vec(),
            }),
        }
        self.mark = Some(mark);
    }
}

/// The environment of the group: writes lots, makes them durable, publishes them.
pub(crate) struct LogEnv {
    disk: Arc<Watched>,
    level: Level,
    shared: Arc<Shared>,
    handed: Mutex<Handed>,
    /// Held for the time of a sync of the log at `Buffered`: what one confirms must not be counted by another.
    syncing: Mutex<()>,
    /// Highest sequence that survives power loss; at `Buffered` behind what callers are told.
    synced: AtomicU64,
    /// Never the clock of the store, which a test may stop.
    stopwatch: SystemClock,
    pub(crate) counters: Counters,
}

/// What the log did since the open.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hand_overs: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// What came of a sync that the disk did not refuse.
enum Synced {
    Yes,
    Unknown,
}

/// What the disk was given.
struct Handed {
    /// Not confirmed by a sync, in log order.
    unsynced: Vec<Write>,
    /// How many of `unsynced` were written without an error, from the front (at `Buffered`).
    written: usize,
    /// What lies between the last block boundary and the first unsynced byte; all of it is durable.
    head: Vec<u8>,
    /// A write or sync failed since: the next one starts at the block boundary.
    failed: bool,
    /// Failed syncs of the whole file up to which `written` is known to be true (at `Buffered`).
    failed_syncs: u64,
    /// The state after the last frame handed over.
    mark: Mark,
}

impl LogEnv {
    /// A log that goes on behind `mark`; `head` is what lies between the last block boundary and there.
    pub(crate) fn new(disk: Arc<Watched>, level: Level, shared: Arc<Shared>, mark: Mark, head: Vec<u8>) -> LogEnv {
        let synced = AtomicU64::new(mark.sequence);
        let handed = Handed {
            unsynced: Vec::new(),
            written: 0,
            head,
            failed: false,
            failed_syncs: disk.failed_syncs(),
            mark,
        };
        LogEnv {
            disk,
            level,
            shared,
            handed: Mutex::new(handed),
            syncing: Mutex::new(()),
            synced,
            stopwatch: SystemClock::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn is_at_its_path(&self) -> bool {
        self.disk.is_at_its_path()
    }

    /// The highest sequence that survives power loss.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// The state after the last frame handed over: where a rollback goes.
    pub(crate) fn handed_mark(&self) -> Mark {
        self.handed.lock().mark.clone()
    }

    /// Makes all that was handed over survive power loss. At `Sync` that is so already.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.level == Level::Sync {
            return Ok(());
        }
        let _syncing = self.syncing.lock();
        if matches!(self.sync_once(), Ok(Synced::Yes)) {
            return Ok(());
        }
        // Once more, so that a passing error is seen by nobody. Without an error it was the sync of a checkpoint that failed
        // meanwhile, and may have taken our bytes with it.
        match self.sync_once()? {
            Synced::Yes => Ok(()),
            Synced::Unknown => Err(Error::new(
                ErrorKind::Io,
                "cannot sync the log: other syncs of the file fail",
            )),
        }
    }

    fn sync_once(&self) -> Result<Synced> {
        let (sequence, count, failed_syncs) = {
            let mut handed = self.handed.lock();
            if handed.unsynced.is_empty() {
                return Ok(Synced::Yes);
            }
            handed
                .write_pending(&self.disk)
                .map_err(|cause| log_error("write", cause))?;
            (handed.mark.sequence, handed.unsynced.len(), handed.failed_syncs)
        };
        // Without the lock: others hand over meanwhile, and their bytes wait for the next sync.
        let synced = self.disk.sync();
        let mut handed = self.handed.lock();
        if let Err(cause) = synced {
            handed.forget_progress();
            return Err(log_error("sync", cause));
        }
        if self.disk.failed_syncs() != failed_syncs {
            return Ok(Synced::Unknown);
        }
        handed.confirm(count);
        self.synced.fetch_max(sequence, Ordering::AcqRel);
        Ok(Synced::Yes)
    }

    fn count(&self, lot: &Lot) {
        let bytes = lot.writes.iter().map(|write| write.bytes.len() as u64).sum();
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.hand_overs.fetch_add(1, Ordering::Relaxed);
    }
}

impl GroupEnv for LogEnv {
    type Lot = Lot;

    fn hand_over(&self, lot: Option<Lot>) -> Result<()> {
        let mut handed = self.handed.lock();
        if let Some(lot) = lot {
            self.count(&lot);
            handed.unsynced.extend(lot.writes);
            if let Some(mark) = lot.mark {
                handed.mark = mark;
            }
        }
        match self.level {
            Level::Sync => {
                handed
                    .write_synced(&*self.disk)
                    .map_err(|cause| log_error("write", cause))?;
                self.synced.store(handed.mark.sequence, Ordering::Release);
            }
            Level::Buffered => {
                handed
                    .write_pending(&self.disk)
                    .map_err(|cause| log_error("write", cause))?;
                self.shared.ask_for_sync();
            }
        }
        self.shared.publish(&handed.mark);
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.stopwatch.sample().mono_ns)
    }
}

impl Handed {
    /// Writes and syncs every unsynced write, each for its own range.
    fn write_synced(&mut self, disk: &dyn Disk) -> std::io::Result<()> {
        let result = self.each_from(0, |at, bytes| disk.write_synced(at, bytes));
        self.failed = result.is_err();
        if result.is_ok() {
            self.confirm(self.unsynced.len());
        }
        result
    }

    /// Writes what was not written yet, without a sync.
    fn write_pending(&mut self, disk: &Watched) -> std::io::Result<()> {
        let failed_syncs = disk.failed_syncs();
        if failed_syncs != self.failed_syncs {
            self.forget_progress();
            self.failed_syncs = failed_syncs;
        }
        let result = self.each_from(self.written, |at, bytes| disk.write(at, bytes));
        self.failed = result.is_err();
        if result.is_ok() {
            self.written = self.unsynced.len();
        } else {
            self.forget_progress();
        }
        result
    }

    /// Calls `write` for each unsynced write from `first` on; after a failure the first one begins at its block.
    fn each_from(&self, first: usize, write: impl Fn(u64, &[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        for (index, pending) in self.unsynced.iter().enumerate().skip(first) {
            // A write that begins a block, as the first one of a half does, has nothing before it.
            if index == 0 && self.failed && !pending.at.is_multiple_of(BLOCK) {
                let whole = [self.head.as_slice(), &pending.bytes].concat();
                write(pending.at - self.head.len() as u64, &whole)?;
            } else {
                write(pending.at, &pending.bytes)?;
            }
        }
        Ok(())
    }

    /// A page cache that still shows bytes after a failed sync proves nothing: all of them are written again.
    fn forget_progress(&mut self) {
        self.written = 0;
        self.failed = true;
    }

    /// The first `count` writes are durable.
    fn confirm(&mut self, count: usize) {
        for write in self.unsynced.drain(..count) {
            let end = write.at + write.bytes.len() as u64;
            let keep = (end % BLOCK) as usize;
            if write.at.is_multiple_of(BLOCK) {
                self.head.clear();
            }
            let tail = write
                .bytes
                .len()
                .checked_sub(keep)
                .and_then(|from| write.bytes.get(from..));
            if tail.is_some() {
                self.head.clear();
            }
            // Without a tail of its own the write stayed inside the block that `head` begins.
            self.head.extend_from_slice(tail.unwrap_or(&write.bytes));
        }
        self.written = self.written.saturating_sub(count);
    }
}

fn log_error(doing: &str, cause: std::io::Error) -> Error {
    Error::io(&format!("{doing} the log"), None, cause)
}
