//! A look from outside: the newest state of a file that another process may be writing to.
//!
//! Owns the reading side of what `base/outside` keeps. A look never waits for the writer and never makes it wait: it takes
//! what it finds, makes sure that nothing moved meanwhile, and begins anew if something did. Nothing is written.
//!
//! Others may rely on
//! - a view is one state: every commit that was answered before it was taken, whole, and of later ones a prefix;
//! - what is read through a view is of that state, or an error of kind `Busy`: if the writer was restarted or had to heal
//!   meanwhile, the pages of an older state may have been used again;
//! - a commit may be seen a moment before its caller is told that it is durable, as after a kill of its process.

use std::io;
use std::sync::Arc;

use super::base::Applied;
use super::base::verify as base;
use super::copy::Original;
use super::guarded::{Guarded, Places};
use super::log::Half;
use super::open::{Settings, base_begins, read, read_halves, read_superblock};
use super::recovery::{self, Run};
use super::view::View;
use super::watched::Watched;
use super::{Change, Figures, Now, bytes_of, fit};
use crate::clock::{Retention, RetentionMark, Schedule};
use crate::codec::superblock::Superblock;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// How often a look begins anew because the writer moved on meanwhile. Each time takes about as long as one transaction of
/// a checkpoint, so more than a few in a row are chance.
const TRIES_MAX: usize = 100;
/// What is read behind the known end of the log at a time, in bytes.
const STEP: u64 = 16 << 10;

/// A file that is looked at.
#[derive(Debug)]
pub(super) struct Look {
    disk: Arc<dyn Disk>,
    superblock: Superblock,
    settings: Settings,
    schedule: Schedule,
    places: Places,
    seen: Mutex<Option<Seen>>,
}

/// The newest state that was looked at.
#[derive(Debug)]
struct Seen {
    guarded: Arc<Guarded>,
    applied: Applied,
    runs: Vec<Run>,
    view: Arc<View>,
}

impl Look {
    /// Opens the store that the disk holds, if `judge` accepts its newest state.
    ///
    /// # Errors
    /// As an open for writing, and `Busy` if the writer never left it a moment.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        settings: &Settings,
        judge: impl FnOnce(Arc<View>) -> Result<()>,
    ) -> Result<Look> {
        let superblock = read_superblock(&*disk)?;
        let look = Look {
            disk,
            superblock,
            settings: settings.clone(),
            schedule: Schedule::open(settings.clock.sample()),
            places: Places::default(),
            seen: Mutex::new(None),
        };
        judge(look.read()?)?;
        Ok(look)
    }

    /// The newest state.
    pub(super) fn read(&self) -> Result<Arc<View>> {
        self.newest(|seen| seen.view.clone())
    }

    pub(super) fn fits(&self, changes: &[Change]) -> Result<()> {
        fit(changes, self.superblock.log_half_bytes)
    }

    pub(super) fn original(&self) -> Result<Original> {
        let (view, kept) = self.newest(|seen| (seen.view.clone(), seen.end().time))?;
        let time = self.retention(kept).mark();
        Ok(Original::of_view(self.superblock, view, time))
    }

    pub(super) fn bytes(&self) -> Result<u64> {
        bytes_of(&*self.disk)
    }

    #[cfg(feature = "json")]
    pub(super) fn store_id(&self) -> [u8; 16] {
        self.superblock.store_id
    }

    fn retention(&self, kept: RetentionMark) -> Retention {
        Retention::open(kept, self.settings.clock.sample(), self.settings.max_offline)
    }

    /// Lets go of the mark if nobody reads any more: a look that only waits keeps no state.
    pub(super) fn rest(&self) {
        if let Some(seen) = self.seen.lock().as_ref()
            && Arc::strong_count(&seen.view) == 1
        {
            seen.guarded.rest();
        }
    }

    fn newest<T>(&self, show: impl FnOnce(&Seen) -> T) -> Result<T> {
        let mut seen = self.seen.lock();
        let newest = match seen.take() {
            Some(before) => self.go_on(before)?,
            None => None,
        };
        let newest = match newest {
            Some(newest) => newest,
            None => self.begin()?,
        };
        Ok(show(seen.insert(newest)))
    }

    /// The readings of time that an open for writing would begin with.
    pub(super) fn now(&self) -> Now {
        let kept = self.seen.lock().as_ref().map(|seen| seen.end().time);
        let sample = self.settings.clock.sample();
        Now {
            retention_ns: kept.map_or(0, |kept| self.retention(kept).now_ns()),
            schedule_ns: self.schedule.now(sample),
            mono_ns: sample.mono_ns,
        }
    }

    pub(super) fn figures(&self) -> Result<Figures> {
        let half_bytes = self.superblock.log_half_bytes;
        let (end, used, pending) = self.newest(|seen| {
            let used = seen.runs.last().map_or(0, |run| run.len as u64);
            (seen.end(), used, seen.runs.len() > 1)
        })?;
        Ok(Figures {
            sequence: end.sequence,
            checkpoint_pending: pending,
            log_half_bytes: half_bytes,
            log_used_bytes: used,
            retention_ns: self.now().retention_ns,
            highest_wall_ns: end.time.highest_wall_ns,
            is_at_its_path: self.disk.is_at_its_path(),
            ..Figures::default()
        })
    }

    /// From nothing: the base as it is now, and the log that continues it.
    fn begin(&self) -> Result<Seen> {
        for _ in 0..TRIES_MAX {
            let guarded = Guarded::begin(self.disk.clone(), base_begins(&self.superblock), self.places.clone());
            let guarded = match guarded {
                Ok(guarded) => Arc::new(guarded),
                Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy => continue,
                Err(cause) => return Err(looked(cause)),
            };
            match self.begin_at(&guarded) {
                Ok(seen) => return Ok(seen),
                // What was found while pages were used again says nothing about the file.
                Err(_) if guarded.moved().map_err(looked)? => {}
                Err(cause) => return Err(cause),
            }
        }
        Err(Error::new(
            ErrorKind::Busy,
            "the file changes faster than it can be looked at",
        ))
    }

    fn begin_at(&self, guarded: &Arc<Guarded>) -> Result<Seen> {
        let watched = Arc::new(Watched::new(guarded.clone()));
        let base = base::judged_state(watched, base_begins(&self.superblock), self.settings.cache_bytes)?;
        let applied = base.applied;
        let halves = read_halves(&*self.disk, &self.superblock)?;
        guarded.holds().map_err(looked)?;
        let stamp = self.superblock.stamp();
        let runs = if guarded.has_writer() {
            // Frames come in while the halves are read, so that a gap proves nothing; and the writer has judged them.
            recovery::accept(stamp, &halves, applied)
        } else {
            recovery::follow(stamp, &halves, applied)?
        };
        guarded.settle().map_err(looked)?;
        Ok(Seen {
            guarded: guarded.clone(),
            applied,
            view: Arc::new(View::of(base, runs.clone())),
            runs,
        })
    }

    /// The same base with the frames that came since; `None` if the base is another one by now.
    fn go_on(&self, before: Seen) -> Result<Option<Seen>> {
        if before.view.base.is_spent() || before.guarded.settle().is_err() {
            return Ok(None);
        }
        let mut runs = before.runs.clone();
        let mut end = before.end();
        if let Some(run) = runs.last_mut() {
            self.take_on(run)?;
            end = run.last;
        }
        loop {
            let other = |half: &Half| runs.iter().all(|run| run.half != *half);
            let free: Vec<Half> = Half::BOTH.into_iter().filter(other).collect();
            let known = runs.len();
            for half in free {
                let mut run = Run::empty(half, end);
                self.take_on(&mut run)?;
                if run.len > 0 {
                    end = run.last;
                    runs.push(run);
                }
            }
            // One half may continue the other, whichever was looked at first.
            if runs.len() == known {
                break;
            }
        }
        // Frames lie untouched as long as the base is the one that they continue.
        if before.guarded.moved().map_err(looked)? {
            return Ok(None);
        }
        if end.sequence == before.view.sequence {
            return Ok(Some(before));
        }
        Ok(Some(before.with(runs)))
    }

    /// Reads on behind the frames that a run has.
    fn take_on(&self, run: &mut Run) -> Result<()> {
        let half_bytes = self.superblock.log_half_bytes;
        let stamp = self.superblock.stamp();
        let mut step = STEP;
        loop {
            let used = run.len as u64;
            let len = step.min(half_bytes.saturating_sub(used));
            let mut bytes = vec![0; len as usize];
            read(&*self.disk, run.half.begins(half_bytes) + used, &mut bytes)?;
            if run.extend(stamp, &bytes) {
                step = STEP;
            } else if len == step && bytes.starts_with(&stamp.marker) {
                // A frame that is longer than what was read, perhaps.
                step = step.saturating_mul(4);
            } else {
                return Ok(());
            }
        }
    }
}

impl Seen {
    fn end(&self) -> Applied {
        self.runs.last().map_or(self.applied, |run| run.last)
    }

    /// The same base under these frames.
    fn with(mut self, runs: Vec<Run>) -> Seen {
        self.runs = runs;
        self.view = Arc::new(View::of(self.view.base.clone(), self.runs.clone()));
        self
    }
}

/// The disk of a file that nobody writes to; as soon as somebody does, it fails with `Busy`. `None` if somebody does now.
pub(crate) fn at_rest(disk: &Arc<dyn Disk>) -> Result<Option<Arc<dyn Disk>>> {
    // Whoever is not told where the base begins has nothing to hold on to: it is damaged, and read as it is.
    let Ok(superblock) = read_superblock(&**disk) else {
        return Ok(Some(disk.clone()));
    };
    match Guarded::begin(disk.clone(), base_begins(&superblock), Places::default()) {
        Ok(guarded) if guarded.has_writer() => Ok(None),
        Ok(guarded) => Ok(Some(Arc::new(guarded))),
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(disk.clone())),
        Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        Err(cause) => Err(looked(cause)),
    }
}

fn looked(cause: io::Error) -> Error {
    Error::io("look at the file", None, cause)
}
