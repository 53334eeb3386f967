//! The engine: one file in which a set of changes is applied whole, durably, in an order.
//!
//! Owns the write path: the writer lock, the log, the memory table, the base, checkpoints and recovery. Knows keys and
//! values as bytes in key spaces, and nothing of records.
//!
//! Others may rely on
//! - A [`Writer`] sees every commit staged before it, and leaves no trace unless [`Writer::commit`] returned `Ok`.
//! - A view from [`Engine::read`] holds only what is durable at the store's level.
//! - Every answer decided under a `Writer` is true once [`Engine::wait`] of its ticket returned `Ok`.
//!
//! Lock order: sweep, then writer lock, then group, then handed bytes, then shared state, then the base, the reading of a
//! filter, a memory table and its spare buffers.

mod base;
mod checkpoint;
mod copy;
mod guarded;
mod handle;
mod log;
mod look;
mod memory;
mod open;
mod recovery;
mod shared;
mod space;
mod sweep;
pub(crate) mod verify;
mod view;
mod watched;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Retention, RetentionMark, Schedule};
use crate::codec::frame::Header;
use crate::codec::superblock::Superblock;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::group::Group;
pub(crate) use crate::group::Ticket;
use crate::limits;
use crate::sync::{JoinHandle, Mutex, MutexGuard};

pub(crate) use base::Held;
use base::{Applied, Base};
use log::{LogEnv, Mark, Position};
use shared::{Frozen, Shared};

#[cfg(feature = "test-util")]
pub use crate::group::gather::{Gather, Window};
#[cfg(feature = "test-util")]
pub use base::plan;
pub(crate) use copy::{Copied, Identity, Original, check_replaceable};
pub(crate) use handle::Engine;
pub use log::Level;
pub(crate) use look::at_rest;
pub use memory::Bytes;
#[cfg(feature = "test-util")]
pub use memory::Memory;
pub(crate) use open::{Settings, create};
pub(crate) use space::Space;
pub use view::Span;
pub(crate) use view::{Layer, Merge, View};
pub(crate) use writer::Writer;
use writer::fit;

/// One change of a commit: a key with its new value, or its removal.
pub(crate) type Change = (Bytes, Option<Bytes>);

/// A file that this process writes. Dropping it stops the background thread; [`Writes::close`] also empties the log.
struct Writes {
    core: Arc<Core>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Core {
    superblock: Superblock,
    group: Group<LogEnv>,
    shared: Arc<Shared>,
    base: Base,
    stage: Mutex<Stage>,
    /// Held by a sweep, which takes every other lock inside of it.
    sweeping: Mutex<()>,
    clock: Arc<dyn Clock>,
    retention: Mutex<Retention>,
    schedule: Schedule,
    sync_interval: Duration,
    /// Checkpoints run on a thread of their own; otherwise on the stager's that needs the room.
    background: bool,
    closed: AtomicBool,
    commits: AtomicU64,
    checkpoints: AtomicU64,
}

/// The staged state, under the writer lock.
struct Stage {
    ticket: Ticket,
    mark: Mark,
    /// Drawn at this open; every frame carries it.
    life: u64,
    /// The sequence at the open: the frame after it is the first of this life, and names the life before.
    opened_at: u64,
    /// The life of the sequence `opened_at`.
    life_before: u64,
    /// Kept between commits so that encoding allocates nothing.
    scratch: Vec<u8>,
}

/// The readings of time that one transaction uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Never early: what remembered keys end by, in nanoseconds.
    pub(crate) retention_ns: u64,
    /// Never late: wall time in nanoseconds since 1970, never behind wall at open plus elapsed.
    pub(crate) schedule_ns: i64,
    /// Running time: what leases end by, in nanoseconds since some moment of this process.
    pub(crate) mono_ns: u64,
}

/// Figures of an open store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) sequence: u64,
    pub(crate) commits: u64,
    pub(crate) hand_overs: u64,
    pub(crate) log_bytes: u64,
    pub(crate) checkpoints: u64,
    pub(crate) checkpoint_pending: bool,
    pub(crate) log_half_bytes: u64,
    pub(crate) log_used_bytes: u64,
    pub(crate) retention_ns: u64,
    pub(crate) highest_wall_ns: i64,
    pub(crate) is_at_its_path: bool,
    pub(crate) oldest_reader_behind: u64,
    pub(crate) states_kept_for_others: u64,
}

impl Writes {
    /// The newest state that is durable at the store's level.
    fn read(&self) -> Result<Arc<View>> {
        self.core.alive()?;
        let view = self.core.shared.published();
        if !view.base.is_spent() {
            return Ok(view);
        }
        // Opened anew after an error that redb would answer for ever. A checkpoint that is at the base does that itself.
        match self.core.base.renewed_if_free()? {
            Some(base) => {
                self.core.shared.renew(base);
                Ok(self.core.shared.published())
            }
            None => Ok(view),
        }
    }

    /// The readings of time for a transaction that only reads. It takes its sample in as well: after the wall clock was set
    /// back, a store that is only asked must not wait for the clock to catch up.
    fn now(&self) -> Now {
        self.core.now().0
    }

    /// Whether one commit could hold these changes.
    ///
    /// # Errors
    /// `TooLarge` if not.
    fn fits(&self, changes: &[Change]) -> Result<()> {
        self.core.fits(changes)
    }

    /// Takes the writer lock and starts a transaction. Heals first if an earlier sync failed.
    fn begin(&self) -> Result<Writer<'_>> {
        let stage = self.core.healed_stage()?;
        let (now, time) = self.core.now();
        Ok(Writer {
            core: &self.core,
            stage,
            now,
            time,
        })
    }

    /// Blocks until the outcome of `ticket` is known: durable at the store's level, or an error.
    fn wait(&self, ticket: &Ticket) -> Result<()> {
        self.core.group.wait(ticket)
    }

    /// Most bytes that the log takes as one commit.
    fn commit_bytes_max(&self) -> u64 {
        limits::commit_bytes_max(self.core.superblock.log_half_bytes)
    }

    fn original(&self) -> Result<Original> {
        let view = self.read()?;
        // Taken behind the state: of nothing in it the time may be ahead of this one.
        let (_, time) = self.core.now();
        Ok(Original::of_view(self.core.superblock, view, time))
    }

    /// Makes everything that was answered survive power loss.
    fn sync(&self) -> Result<()> {
        self.core.alive()?;
        self.core.group.env().sync()
    }

    fn bytes(&self) -> Result<u64> {
        self.core.alive()?;
        bytes_of(self.core.base.disk())
    }

    fn figures(&self) -> Result<Figures> {
        self.core.alive()?;
        let core = &self.core;
        // Both under the writer lock, so that a freeze lies before or after this look and never inside of it.
        let (sequence, log_used_bytes, checkpoint_pending) = {
            let stage = core.stage.lock();
            let Position { used, .. } = stage.mark.position;
            (stage.mark.sequence, used, core.shared.frozen().is_some())
        };
        let is_at_its_path = core.group.env().is_at_its_path();
        let retention = core.retention.lock();
        let counters = &core.group.env().counters;
        Ok(Figures {
            sequence,
            commits: core.commits.load(Ordering::Relaxed),
            hand_overs: counters.hand_overs.load(Ordering::Relaxed),
            log_bytes: counters.bytes.load(Ordering::Relaxed),
            checkpoints: core.checkpoints.load(Ordering::Relaxed),
            checkpoint_pending,
            log_half_bytes: core.superblock.log_half_bytes,
            log_used_bytes,
            retention_ns: retention.now_ns(),
            highest_wall_ns: retention.highest_wall_ns(),
            is_at_its_path,
            oldest_reader_behind: core
                .shared
                .oldest_read()
                .map_or(0, |oldest| sequence.saturating_sub(oldest)),
            states_kept_for_others: core.base.kept_outside(),
        })
    }

    /// Forgets a wall time that was absurdly ahead: the mark becomes the wall time of now. Takes effect with a commit.
    fn reset_wall_mark(&self) {
        let mut retention = self.core.retention.lock();
        retention.reset_mark(self.core.clock.sample());
    }

    /// Heals if an earlier sync failed, empties the log into the base and closes it. Later calls answer `Closed`.
    ///
    /// # Errors
    /// Whatever kept the log from being emptied; what was acknowledged is in the log then, and the next open finds it.
    fn close(&self) -> Result<()> {
        let mut stage = self.core.stage.lock();
        if self.core.closed.swap(true, Ordering::AcqRel) {
            return Err(closed());
        }
        let emptied = self
            .core
            .heal(&mut stage)
            .and_then(|()| self.core.empty_log(&mut stage));
        drop(stage);
        self.stop_thread();
        let closed = self.core.base.close();
        emptied.and(closed)
    }

    fn stop_thread(&self) {
        self.core.shared.stop();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of that thread has nothing left to say: stagers were told by the checkpoint's outcome.
            drop(thread.join());
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.stop_thread();
        if !self.core.closed.swap(true, Ordering::AcqRel) {
            // At `Buffered` what was answered is still to be synced; whoever wants to know how that went calls `close`.
            drop(self.core.group.env().sync());
        }
    }
}

/// Length of a file.
fn bytes_of(disk: &dyn Disk) -> Result<u64> {
    disk.len()
        .map_err(|cause| Error::io("ask for the length of the file", None, cause))
}

impl Core {
    /// Takes a sample in, and gives the time with what the file is to keep of it. The clock is read under the lock: two samples
    /// taken in the wrong order would age twice.
    fn now(&self) -> (Now, RetentionMark) {
        let mut retention = self.retention.lock();
        let sample = self.clock.sample();
        let now = Now {
            retention_ns: retention.advance(sample),
            schedule_ns: self.schedule.now(sample),
            mono_ns: sample.mono_ns,
        };
        (now, retention.mark())
    }

    fn fits(&self, changes: &[Change]) -> Result<()> {
        fit(changes, self.superblock.log_half_bytes)
    }

    fn alive(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(closed())
        } else {
            Ok(())
        }
    }

    /// Takes the writer lock. Heals first if an earlier sync failed.
    fn healed_stage(&self) -> Result<MutexGuard<'_, Stage>> {
        let mut stage = self.stage.lock();
        self.alive()?;
        self.heal(&mut stage)?;
        Ok(stage)
    }

    /// The log first: what is in doubt can be made durable also while the base cannot be opened.
    fn heal(&self, stage: &mut Stage) -> Result<()> {
        let begun = self.group.begin(&stage.ticket)?;
        if begun.rolled_back {
            stage.roll_back(self);
        }
        stage.ticket = begun.ticket;
        if self.shared.base().is_spent() {
            self.renew_base()?;
        }
        Ok(())
    }

    /// Opens redb anew after a failed checkpoint, and shows the result to readers at once.
    fn reopen_base(&self) -> Result<()> {
        self.base.reopen()?;
        self.shared.renew(self.base.snapshot()?);
        Ok(())
    }

    /// Opens redb anew after an error that it would answer for ever; a closure that reads meanwhile gets that error.
    fn renew_base(&self) -> Result<()> {
        let base = self.base.renewed()?;
        self.shared.renew(base);
        Ok(())
    }

    /// Where a frame of `len` bytes goes. Freezes the half in use if it has no room, and waits for the other one.
    fn find_room(&self, stage: &mut Stage, len: u64) -> Result<Position> {
        let position = stage.mark.position;
        if position.used + len <= self.superblock.log_half_bytes {
            return Ok(position);
        }
        self.wait_for_free_half()?;
        self.freeze(stage);
        Ok(stage.mark.position)
    }

    /// Returns when no table is frozen, that is when the half that is not in use is free.
    fn wait_for_free_half(&self) -> Result<()> {
        if !self.background
            && let Some(frozen) = self.shared.frozen()
        {
            return checkpoint::attempt(self, &frozen);
        }
        self.shared.wait_for_room()
    }

    /// The half in use stays as it is until its table is in the base; the next frame starts the other one.
    fn freeze(&self, stage: &mut Stage) {
        let applied = Applied {
            sequence: stage.mark.sequence,
            life: stage.mark.life,
            time: self.retention.lock().mark(),
        };
        let memory = stage.mark.memory.clone();
        let generation = stage.mark.generation;
        self.shared.freeze(Frozen {
            generation,
            memory,
            ticket: stage.ticket.clone(),
            applied,
        });
        stage.start_next_half();
    }

    /// Puts everything staged into the base.
    fn empty_log(&self, stage: &mut Stage) -> Result<()> {
        self.group.wait(&stage.ticket)?;
        self.wait_for_free_half()?;
        if stage.mark.position.used == 0 {
            return Ok(());
        }
        self.freeze(stage);
        self.wait_for_free_half()
    }
}

impl Stage {
    fn header(&self, synced: u64, time: RetentionMark) -> Result<Header> {
        let sequence = self.mark.sequence.checked_add(1);
        let sequence = sequence.ok_or_else(|| Error::new(ErrorKind::Full, "no sequence is left"))?;
        let previous_life = (self.mark.sequence == self.opened_at).then_some(self.life_before);
        Ok(Header {
            sequence,
            life: self.life,
            previous_life,
            synced,
            retention_ns: time.now_ns,
            highest_wall_ns: time.highest_wall_ns,
            last_wall_ns: time.last_wall_ns,
        })
    }

    /// Goes back to what was handed to the disk: everything after it was dropped by a failed sync.
    fn roll_back(&mut self, core: &Core) {
        self.mark = core.group.env().handed_mark();
        self.mark.memory.roll_back();
        if core.shared.half_is_over(&self.mark) {
            self.start_next_half();
        }
    }

    fn start_next_half(&mut self) {
        self.mark.memory = self.mark.memory.successor();
        self.mark.generation += 1;
        self.mark.position = Position {
            half: self.mark.position.half.other(),
            used: 0,
        };
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}
