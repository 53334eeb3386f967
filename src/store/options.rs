//! How a store is opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Store;
use super::probe::Probed;
use crate::check::{self, CheckProgress, Checked};
use crate::clock::{Clock, SystemClock};
use crate::disk::Disk;
use crate::disk::create::{self, Creation, Finished};
use crate::disk::file::{FileDisk, Opening};
use crate::disk::look::LookDisk;
use crate::disk::ram::RamDisk;
use crate::engine::{self, Engine, Level, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::table::{Declared, TableSpec, catalog};

/// How long a store that is synced at intervals waits after the first unsynced byte, if nothing else is asked for.
const SYNC_INTERVAL_DEFAULT: Duration = Duration::from_millis(200);

/// Choices for opening a store. The defaults fit an edge device.
///
/// ```
/// # fn main() -> sprag::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("shop.sprag");
/// let store = sprag::Options::new().cache_bytes(4 << 20).open_or_create(path)?;
/// # store.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) settings: Settings,
    pub(super) wait: Duration,
    verify_values: bool,
    declared: Vec<Result<Declared>>,
    probed: Probed,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The defaults: level `Sync`, 7 MiB of cache, log halves of 8 MiB, no wait for a busy file.
    pub fn new() -> Options {
        let settings = Settings {
            level: Level::Sync,
            cache_bytes: limits::CACHE_BYTES_DEFAULT,
            log_half_bytes: limits::LOG_HALF_BYTES_DEFAULT,
            max_offline: Duration::from_secs(limits::MAX_OFFLINE_SECS_DEFAULT),
            sync_interval: SYNC_INTERVAL_DEFAULT,
            background: true,
            clock: Arc::new(SystemClock::new()),
        };
        Options {
            settings,
            wait: Duration::ZERO,
            verify_values: true,
            declared: Vec::new(),
            probed: Probed::default(),
        }
    }

    /// When a commit is told to its caller.
    #[must_use]
    pub fn level(mut self, level: Level) -> Options {
        self.settings.level = level;
        self
    }

    /// Bytes of the page cache.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Options {
        self.settings.cache_bytes = bytes;
        self
    }

    /// Length of each log half in bytes, for a new file: a multiple of 4096 from 16 KiB to 1 GiB. A commit may take half
    /// of it.
    #[must_use]
    pub fn log_half_bytes(mut self, bytes: u64) -> Options {
        self.settings.log_half_bytes = bytes;
        self
    }

    /// How long an open waits for a file that another process has open. Zero, the default, answers `Busy` at once.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Options {
        self.wait = wait;
        self
    }

    /// At level `Buffered`: the longest time from a commit to its sync.
    #[must_use]
    pub fn sync_interval(mut self, interval: Duration) -> Options {
        self.settings.sync_interval = interval;
        self
    }

    /// The longest time a store may have been closed for that time to age its remembered keys. A longer one is taken for
    /// a wrong clock and ages them by nothing. Zero: time while closed never counts.
    #[must_use]
    pub fn max_offline(mut self, time: Duration) -> Options {
        self.settings.max_offline = time;
        self
    }

    /// Whether each value is decoded once before it is staged, so that one that would not come back is refused.
    #[must_use]
    pub fn verify_values(mut self, verify: bool) -> Options {
        self.verify_values = verify;
        self
    }

    /// The clock. For tests, and for devices with a better one than the system's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Options {
        self.settings.clock = clock;
        self
    }

    /// Compares this table with the file at the open instead of at its first use, and creates it if it is not there.
    #[must_use]
    pub fn declare<T: TableSpec>(mut self, table: T) -> Options {
        self.declared.push(table.declared());
        self
    }

    /// Checkpoints run on the thread that needs the room, at once; for tests that want one order of events.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    #[must_use]
    pub fn checkpoints_in_line(mut self) -> Options {
        self.settings.background = false;
        self
    }

    /// Tells of each call of the store; for the proof kit.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn super::Probe>) -> Options {
        self.probed = Probed(Some(probe));
        self
    }

    /// Opens a store that must exist. Recovers by itself after a crash, in milliseconds at any size.
    ///
    /// # Errors
    /// `NotFound`, `NotAStore` (also for an empty file), `NewerFormat`, `Corrupt`, `Busy`, `ReadOnly`, `Schema` for a
    /// declared table, `Invalid` for one that breaks a rule, `TooLarge` if all that are new exceed one commit. No byte of
    /// the file was changed then. `Io` and `Full`: what the file holds is what it held.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let disk = FileDisk::open(path, self.wait)?;
        self.start(Arc::new(disk)).map_err(|cause| at(path, cause))
    }

    /// Opens a store, or makes a new one if there is no file or an empty one. A file appears whole or not at all.
    ///
    /// # Errors
    /// As [`Options::open`], without `NotFound`, except for a folder that does not exist.
    pub fn open_or_create(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        loop {
            match FileDisk::open_or_create(path, self.wait)? {
                Opening::Existing(disk) => return self.start(Arc::new(disk)).map_err(|cause| at(path, cause)),
                Opening::New(building) => {
                    if let Some(disk) = self.build(path, building)? {
                        return self.start(Arc::new(disk)).map_err(|cause| at(path, cause));
                    }
                }
            }
        }
    }

    /// Makes a new store. A file appears whole or not at all.
    ///
    /// # Errors
    /// `Invalid` if the file exists; `ReadOnly`, `Full`, `Io`, `NotFound` for a folder that does not exist.
    pub fn create_new(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let Creation::Building(building) = create::create(path, false)? else {
            return Err(create::exists(path));
        };
        let Some(disk) = self.build(path, building)? else {
            return Err(create::exists(path));
        };
        self.start(Arc::new(disk)).map_err(|cause| at(path, cause))
    }

    /// Opens a store that must exist to look at it: no byte is written, and neither file nor folder need be writable.
    ///
    /// Another process may write to it meanwhile, and is neither kept waiting nor slowed down. Each read is of one state: it
    /// has every commit that was answered before the read began, whole, and of later ones a prefix. Every call that would
    /// write answers `ReadOnly`.
    ///
    /// # What it does not do
    /// A commit may be seen a moment before its caller is told that it is durable; a power loss may still take it. A state
    /// that is read for long makes the file grow while the other process writes, as a reader inside of it does. If that
    /// process is restarted, or had to heal after an error of the disk, a read under way may answer `Busy`: read again.
    /// Only Linux has the locks that this takes; elsewhere a look and a writer exclude each other, and the later one is `Busy`.
    ///
    /// # Errors
    /// `NotFound`, `NotAStore` (also for an empty file), `NewerFormat`, `Corrupt`, `ReadOnly` if the file may not be read,
    /// `Schema` for a declared table that the file has otherwise, `Invalid` for one that breaks a rule, `Busy`, `Io`.
    pub fn open_read_only(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let disk = LookDisk::open(path, self.wait)?;
        self.look_on(Arc::new(disk)).map_err(|cause| at(path, cause))
    }

    /// A store in memory with the same behaviour, gone when its last handle is.
    ///
    /// # Errors
    /// `Invalid` for a log half out of range; `Schema` for declared tables that disagree.
    pub fn in_memory(self) -> Result<Store> {
        self.create_on(Arc::new(RamDisk::new()))
    }

    /// Looks for broken rules in a file, and tells how far it is. Reads only; works also on a file that an open refuses as
    /// `Corrupt`, and reads every page of it at least once. While another process writes to the file it is one state that is
    /// checked, and the pages of the base and the frames of the log are not judged by their checksums, since they change
    /// meanwhile: see [`Checked::base_verified`].
    ///
    /// # Outcomes
    /// [`Checked::findings`] has what is broken: damage is never an error of this call, and never a panic. What was written
    /// last and is torn is no damage: recovery drops it.
    ///
    /// # Errors
    /// `NotFound`, `NotAStore` (also for an empty file), `NewerFormat`, `Busy`, `ReadOnly`, `Io`: it could not look. No byte
    /// of the file was changed.
    pub fn check(self, path: impl AsRef<Path>, progress: impl FnMut(&CheckProgress)) -> Result<Checked> {
        let path = path.as_ref();
        let disk = LookDisk::open(path, self.wait)?;
        self.check_on(Arc::new(disk), progress).map_err(|cause| {
            let message = format!("cannot check the store, path={}", path.display());
            cause.within(message)
        })
    }

    /// Checks the store on a disk.
    #[doc(hidden)]
    pub fn check_on(self, disk: Arc<dyn Disk>, mut progress: impl FnMut(&CheckProgress)) -> Result<Checked> {
        if let Some(at_rest) = engine::at_rest(&disk)? {
            match check::file(at_rest, self.settings.cache_bytes, &mut progress) {
                // Somebody began to write meanwhile.
                Err(cause) if cause.kind() == ErrorKind::Busy => {}
                outcome => return outcome,
            }
        }
        let look = Engine::look(disk, &self.settings, |_| Ok(()))?;
        check::open(&look.read()?, look.bytes()?, &mut progress)
    }

    /// Makes a new store on a disk.
    #[doc(hidden)]
    pub fn create_on(self, disk: Arc<dyn Disk>) -> Result<Store> {
        self.declared()?;
        engine::create(&disk, &self.settings)?;
        disk.sync()
            .map_err(|cause| Error::io("sync the new store", None, cause))?;
        self.start(disk)
    }

    /// Opens the store on a disk.
    #[doc(hidden)]
    pub fn open_on(self, disk: Arc<dyn Disk>) -> Result<Store> {
        self.start(disk)
    }

    /// Looks at the store on a disk.
    #[doc(hidden)]
    pub fn look_on(self, disk: Arc<dyn Disk>) -> Result<Store> {
        let declared = self.declared()?;
        let engine = Engine::look(disk, &self.settings, |view| {
            catalog::additions(view, &declared).map(drop)
        })?;
        Ok(Store::with(
            engine,
            self.verify_values,
            self.settings.cache_bytes,
            self.probed,
        ))
    }

    /// Fills a file under construction and gives it its name; `None` if somebody else was first.
    fn build(&self, path: &Path, building: create::Building) -> Result<Option<FileDisk>> {
        self.declared()?;
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::clone(&building));
        engine::create(&disk, &self.settings).map_err(|cause| at(path, cause))?;
        if !self.declared.is_empty() {
            // Tables that the log cannot take fail here, while nobody can see the file.
            let store = self.clone().start(disk.clone()).map_err(|cause| at(path, cause))?;
            store.close()?;
        }
        drop(disk);
        match building.finish()? {
            Finished::Created(disk) => Ok(Some(disk)),
            Finished::Exists => Ok(None),
        }
    }

    /// The declared tables, if every one of them keeps its rules.
    fn declared(&self) -> Result<Vec<Declared>> {
        self.declared.iter().cloned().collect()
    }

    fn start(self, disk: Arc<dyn Disk>) -> Result<Store> {
        let declared = self.declared()?;
        let engine = Engine::open(disk, &self.settings, |view| catalog::additions(view, &declared))?;
        let store = Store::with(engine, self.verify_values, self.settings.cache_bytes, self.probed);
        store.declare(&declared)?;
        store.end_older_claims()?;
        Ok(store)
    }
}

/// An error of an open, with the path named.
fn at(path: &Path, cause: Error) -> Error {
    cause.within(format!("cannot open the store, path={}", path.display()))
}
