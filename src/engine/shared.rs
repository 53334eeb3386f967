//! What readers, the leader and the checkpoint share: the published view, the frozen table, the base's snapshot.
//!
//! One small lock, held for pointer swaps only. The writer lock is never taken under it.
//!
//! Invariants
//! - `published` holds only what is durable at the store's level.
//! - `frozen` is there from the freeze of a half until its table is durably in the base; meanwhile that half is not free.
//! - A published view of the frozen generation itself does not list `frozen`: it may hold less of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::base::{Applied, BaseSnapshot};
use super::log::Mark;
use super::memory::Memory;
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::group::Ticket;
use crate::sync::{Condvar, Mutex, wait_at_most};

/// A memory table that waits for its checkpoint.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) generation: u64,
    pub(crate) memory: Memory,
    /// The last sequence in it; the checkpoint starts when this is durable.
    pub(crate) ticket: Ticket,
    pub(crate) applied: Applied,
}

/// Shared state and its two signals.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Somebody froze a half, wants another attempt, has bytes to sync, or stops the store.
    work: Condvar,
    /// A half became free, or an attempt failed.
    room: Condvar,
}

#[derive(Debug)]
struct State {
    base: Arc<BaseSnapshot>,
    frozen: Option<Arc<Frozen>>,
    published: Arc<View>,
    published_generation: u64,
    /// States of the base that were shown before and that somebody may still read.
    superseded: Vec<Weak<BaseSnapshot>>,
    /// Checkpoints attempted since the open, and how the last one failed.
    attempts: u64,
    failure: Option<Error>,
    /// A stager waits for room: try again although the last attempt failed.
    wanted: bool,
    unsynced: bool,
    stopped: bool,
}

/// What the background thread is to do next.
#[derive(Debug)]
pub(crate) enum Work {
    Checkpoint(Arc<Frozen>),
    Sync,
    Stop,
}

impl Shared {
    pub(crate) fn new(base: Arc<BaseSnapshot>, mark: &Mark) -> Shared {
        let published = view(mark, None, &base);
        let state = State {
            base,
            frozen: None,
            published: Arc::new(published),
            published_generation: mark.generation,
            superseded: Vec::new(),
            attempts: 0,
            failure: None,
            wanted: false,
            unsynced: false,
            stopped: false,
        };
        Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// The newest state that is durable at the store's level.
    pub(crate) fn published(&self) -> Arc<View> {
        self.state.lock().published.clone()
    }

    /// The newest staged state, given the stager's own mark.
    pub(crate) fn staged_view(&self, mark: &Mark) -> View {
        let state = self.state.lock();
        View {
            sequence: mark.sequence,
            life: mark.life,
            memory: mark.memory.clone(),
            frozen: state.frozen.as_ref().map(|frozen| frozen.memory.clone()),
            base: state.base.clone(),
        }
    }

    /// Shows `mark` to readers. Called by the leader once it is durable at the store's level.
    pub(crate) fn publish(&self, mark: &Mark) {
        let mut state = self.state.lock();
        let old = {
            let new = Arc::new(view(mark, state.frozen.as_deref(), &state.base));
            state.published_generation = mark.generation;
            std::mem::replace(&mut state.published, new)
        };
        drop(state);
        // Freed without the lock: the last owner of a memory table frees or hands on all of its pieces.
        drop(old);
    }

    pub(crate) fn frozen(&self) -> Option<Arc<Frozen>> {
        self.state.lock().frozen.clone()
    }

    /// Freezes a table. The caller has made sure that none is frozen.
    pub(crate) fn freeze(&self, frozen: Frozen) {
        let mut state = self.state.lock();
        debug_assert!(
            state.frozen.is_none(),
            "a half is frozen only when the other one is free"
        );
        state.frozen = Some(Arc::new(frozen));
        state.failure = None;
        self.work.notify_one();
    }

    /// For a rollback to `mark`: whether its half takes no more frames, since its table is in the base, or frozen with
    /// `mark` as its end. A freeze whose end was dropped is undone.
    pub(crate) fn half_is_over(&self, mark: &Mark) -> bool {
        let mut state = self.state.lock();
        // A frame behind those that the base has would not be found at the next open.
        if mark.position.used > 0 && state.base.applied.sequence >= mark.sequence {
            return true;
        }
        let Some(frozen) = &state.frozen else { return false };
        if frozen.generation != mark.generation {
            return false;
        }
        let stands = frozen.applied.sequence == mark.sequence;
        if !stands {
            state.frozen = None;
            self.room.notify_all();
        }
        stands
    }

    /// The frozen table is in the base: one pointer is swapped, and the half is free.
    pub(crate) fn checkpointed(&self, base: Arc<BaseSnapshot>) {
        let mut state = self.state.lock();
        let frozen = state.frozen.take();
        let stale = frozen
            .as_ref()
            .is_some_and(|frozen| frozen.generation == state.published_generation);
        // What was published of the frozen generation is all of it, and now in the base.
        let memory = if stale {
            Memory::new()
        } else {
            state.published.memory.clone()
        };
        let published = View {
            sequence: state.published.sequence,
            life: state.published.life,
            memory,
            frozen: None,
            base: base.clone(),
        };
        let old = std::mem::replace(&mut state.published, Arc::new(published));
        state.supersede(base);
        state.failure = None;
        state.wanted = false;
        state.attempts += 1;
        self.room.notify_all();
        drop(state);
        drop((old, frozen));
    }

    /// Up to which sequence the oldest state of the base goes that a reader keeps from being freed.
    pub(crate) fn oldest_read(&self) -> Option<u64> {
        let state = self.state.lock();
        let alive = state.superseded.iter().filter_map(Weak::upgrade);
        alive.map(|base| base.applied.sequence).min()
    }

    pub(crate) fn base(&self) -> Arc<BaseSnapshot> {
        self.state.lock().base.clone()
    }

    /// Puts a new opening of the base in the place of a spent one. Not if a checkpoint was faster: what it took from the
    /// memory tables is not in an older state.
    pub(crate) fn renew(&self, base: Arc<BaseSnapshot>) {
        let mut state = self.state.lock();
        if state.base.is_spent() && state.base.applied.sequence <= base.applied.sequence {
            state.show_over(base);
        }
    }

    /// Shows a newer state of the base that differs only by entries that are over. Not if a checkpoint is faster or about to
    /// show its own.
    pub(crate) fn refresh(&self, base: Arc<BaseSnapshot>) {
        let mut state = self.state.lock();
        if !base.is_spent() && state.base.applied == base.applied {
            state.show_over(base);
        }
    }

    /// The checkpoint of `table` failed; `base` is the base opened anew, if that went well.
    pub(crate) fn checkpoint_failed(&self, table: &Arc<Frozen>, cause: Error, base: Option<Arc<BaseSnapshot>>) {
        let mut state = self.state.lock();
        if let Some(base) = base {
            state.show_over(base);
        }
        // A rollback took this table back meanwhile: whoever waits now waits for another one, which did not fail.
        if !state.frozen.as_ref().is_some_and(|frozen| Arc::ptr_eq(frozen, table)) {
            return;
        }
        state.failure = Some(cause);
        state.wanted = false;
        state.attempts += 1;
        self.room.notify_all();
    }

    /// Blocks until no table is frozen.
    ///
    /// # Errors
    /// That of the next attempt, if it fails.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        let mut state = self.state.lock();
        let before = state.attempts;
        while state.frozen.is_some() {
            if state.stopped {
                return Err(Error::new(ErrorKind::Closed, "the store is closed"));
            }
            if state.attempts > before
                && let Some(cause) = &state.failure
            {
                return Err(cause
                    .clone()
                    .into_kind(cause.kind(), "not applied: the log is full and cannot be emptied"));
            }
            state.wanted = true;
            self.work.notify_one();
            self.room.wait(&mut state);
        }
        Ok(())
    }

    /// Tells the background thread that bytes wait for a sync.
    pub(crate) fn ask_for_sync(&self) {
        let mut state = self.state.lock();
        if !state.unsynced {
            state.unsynced = true;
            self.work.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Blocks the background thread until there is something to do. A sync is asked for `interval` after the first
    /// unsynced byte; nothing to do costs nothing.
    pub(crate) fn next_work(&self, interval: Duration) -> Work {
        let mut state = self.state.lock();
        let mut waited = false;
        loop {
            if state.stopped {
                return Work::Stop;
            }
            if let Some(frozen) = &state.frozen
                && (state.failure.is_none() || state.wanted)
            {
                return Work::Checkpoint(frozen.clone());
            }
            if !state.unsynced {
                self.work.wait(&mut state);
            } else if waited {
                state.unsynced = false;
                return Work::Sync;
            } else {
                waited = wait_at_most(&self.work, &mut state, interval);
            }
        }
    }
}

impl State {
    /// Shows the same changes over another opening of the base.
    fn show_over(&mut self, base: Arc<BaseSnapshot>) {
        let mut published = View::clone(&self.published);
        published.base = base.clone();
        self.published = Arc::new(published);
        self.supersede(base);
    }

    fn supersede(&mut self, base: Arc<BaseSnapshot>) {
        let old = std::mem::replace(&mut self.base, base);
        self.superseded.retain(|state| state.strong_count() > 0);
        self.superseded.push(Arc::downgrade(&old));
    }
}

fn view(mark: &Mark, frozen: Option<&Frozen>, base: &Arc<BaseSnapshot>) -> View {
    let frozen = frozen
        .filter(|frozen| frozen.generation != mark.generation)
        .map(|frozen| frozen.memory.clone());
    View {
        sequence: mark.sequence,
        life: mark.life,
        memory: mark.memory.clone(),
        frozen,
        base: base.clone(),
    }
}
