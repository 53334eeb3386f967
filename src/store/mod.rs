//! The store: open, read, write, once, close.
//!
//! Owns the handle that programs hold, and when an answer may be given: every answer decided inside a write, also one
//! that wrote nothing, waits until what it was decided on is durable at the store's level.

pub(crate) mod answers;
mod batch;
mod claim;
mod claims;
mod copies;
mod inside;
mod migrate;
mod options;
mod outbox;
mod probe;
mod read;
mod states;
#[cfg(feature = "tokio")]
pub(crate) mod tasks;
#[cfg(feature = "json")]
mod transfer;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::check::{self, Checked};
use crate::codec::Version;
use crate::dedupe::{Once, OnceKey, Remembered, Swept};
use crate::engine::{Engine, Ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Bells, Leases};
use crate::record::decide::Condition;
use crate::record::{Deleted, Written};
use crate::stats::Stats;
use crate::sync::{Mutex, RecursiveRwLock};
use crate::table::catalog::{self, Catalog};
use crate::table::transition::Transitioned;
use crate::table::{Declared, Record, TableSpec};
use crate::txn::Txn;

use claim::Hold;
pub use claim::{Claim, Claiming, Claims, Consumed, Receipt, Unsettled};
pub use copies::{BackedUp, Compacted, Restored};
use inside::Inside;
pub use options::Options;
#[cfg(feature = "test-util")]
pub use probe::Probe;
use probe::Probed;
pub use read::{Page, ReadTx, Scan};
pub use states::InState;
use write::After;
pub use write::WriteTx;

/// An open store: one handle, cheap to clone, for all threads.
///
/// # What it guarantees
/// Every write is one commit: all of it or nothing, in one order that every reader sees. `Ok` at level `Sync` survives
/// power loss. Readers see only what is durable at the store's level, and never wait for writers.
///
/// # What it does not do
/// One process writes to the file at a time; others may look ([`Store::open_read_only`]). A write closure runs under the one
/// writer lock: keep it short, and do not wait in it for another thread that writes.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    /// Held for reading by every call, so that a close waits for those under way; a thread may hold it twice, since a
    /// closure may read. `None` once closed.
    engine: RecursiveRwLock<Option<Engine>>,
    /// A close has begun. The lock prefers readers, so without this new calls could keep a close waiting for ever.
    closing: AtomicBool,
    catalog: Catalog,
    id: u64,
    verify_values: bool,
    cache_bytes: usize,
    probed: Probed,
    /// Who holds which message.
    leases: Arc<Leases>,
    bells: Bells,
    /// Commits that failed and may become durable yet, and with them what sleepers wait for.
    doubts: Mutex<Vec<Ticket>>,
}

impl Inner {
    /// What a transaction brings about once it is durable. One that is not gives back what it answered.
    fn follow(&self, engine: &Engine, after: After, is_kept: bool, durable: &Result<()>, staged: Option<&Ticket>) {
        if durable.is_err() {
            if let (Some(ticket), false) = (staged, after.woke.is_empty()) {
                let mut doubts = self.doubts.lock();
                doubts.retain(|ticket| !engine.is_known(ticket));
                doubts.push(ticket.clone());
                drop(doubts);
                // From now on they look by themselves.
                self.bells.ring_all();
            }
            return;
        }
        if is_kept {
            after.settled.iter().for_each(Hold::end);
            after.gone.into_iter().for_each(|holding| self.leases.settle(holding));
            after.woke.iter().for_each(|queue| self.bells.ring(queue));
        }
    }
}

impl Store {
    /// Opens a store that must exist; see [`Options::open`].
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open(path)
    }

    /// Opens a store, or makes a new one; see [`Options::open_or_create`].
    ///
    /// # Errors
    /// As [`Options::open_or_create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open_or_create(path)
    }

    /// Makes a new store; see [`Options::create_new`].
    ///
    /// # Errors
    /// As [`Options::create_new`].
    pub fn create_new(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().create_new(path)
    }

    /// A store in memory with the same behaviour.
    ///
    /// # Errors
    /// As [`Options::in_memory`].
    pub fn in_memory() -> Result<Store> {
        Options::new().in_memory()
    }

    /// Opens a store to look at it, also while another process writes; see [`Options::open_read_only`].
    ///
    /// # Errors
    /// As [`Options::open_read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open_read_only(path)
    }

    fn with(engine: Engine, verify_values: bool, cache_bytes: usize, probed: Probed) -> Store {
        let catalog = Catalog::new();
        if engine.looks() {
            // Another process may migrate a table.
            catalog.entries_change();
        }
        let inner = Inner {
            engine: RecursiveRwLock::new(Some(engine)),
            closing: AtomicBool::new(false),
            catalog,
            id: inside::next_store(),
            verify_values,
            cache_bytes,
            probed,
            leases: Arc::default(),
            bells: Bells::default(),
            doubts: Mutex::new(Vec::new()),
        };
        Store { inner: Arc::new(inner) }
    }

    /// Compares declared tables with the file, and records what they add.
    fn declare(&self, declared: &[Declared]) -> Result<()> {
        if declared.is_empty() {
            return Ok(());
        }
        self.write(|tx| {
            declared
                .iter()
                .try_for_each(|table| catalog::declare(tx.txn_mut(), table).map(drop))
        })
    }

    /// Runs `f` on a snapshot: the newest state that is durable at the store's level, whatever is written meanwhile.
    ///
    /// A long reader keeps the pages of its snapshot from being reused, so the file grows while others write.
    ///
    /// # Errors
    /// `Closed`, and whatever `f` returns.
    pub fn read<R, E: From<Error>>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<R, E>) -> Result<R, E> {
        self.with_engine("read", |engine| {
            let txn = Txn::new(engine.read()?, engine.now());
            let _inside = inside::enter(self.inner.id, Inside::Read);
            f(&ReadTx::new(&self.inner, engine, txn))
        })
    }

    /// Runs `f` once, on the newest state, alone among writers, and commits what it wrote.
    ///
    /// If `f` returns an error or panics, nothing is written; a panic goes on, and the store stays usable.
    ///
    /// # After a crash
    /// At level `Sync`, once this returned `Ok` a power loss keeps all of it. Before, all of it or nothing is there.
    ///
    /// # Errors
    /// Whatever `f` returns. `Invalid` inside a write of the same store. `TooLarge` if the commit exceeds half of a log half.
    /// `Full`, `Io`, `ReadOnly`: not applied. `InDoubt`: a sync failed, or has not ended within a second on another thread, and
    /// whether this was applied is not known.
    pub fn write<R, E: From<Error>>(&self, f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>) -> Result<R, E> {
        inside::refuse_in_write(self.inner.id, "write")?;
        self.with_engine("write", |engine| {
            let writer = engine.begin()?;
            let mut tx = WriteTx::new(&self.inner, engine, Txn::new(Arc::new(writer.view()), writer.now()));
            let result = {
                let _inside = inside::enter(self.inner.id, Inside::Write);
                f(&mut tx)
            };
            let (changes, after) = tx.into_parts();
            let changes = if result.is_ok() { changes } else { Ok(Vec::new()) };
            let staged = changes.and_then(|changes| {
                if changes.is_empty() {
                    return Ok(writer.ticket());
                }
                writer.commit(changes)
            });
            // Also what wrote nothing was decided on a state that a failed sync could still take away.
            let durable = staged
                .as_ref()
                .map_err(Error::clone)
                .and_then(|ticket| engine.wait(ticket));
            self.inner
                .follow(engine, after, result.is_ok(), &durable, staged.as_ref().ok());
            durable?;
            result
        })
    }

    /// Runs `f` unless its operation is remembered, and remembers it with the result in the same commit.
    ///
    /// The key is looked at before anything else. An error from `f` drops its writes and leaves no key, so that the next
    /// delivery runs again; a lasting "no" is an `Ok` value, which is remembered. A result that can no longer be decoded
    /// is an error, never a second run.
    ///
    /// # After a crash
    /// Key, result and writes are all there or none is: a delivery after the crash hears `Repeat` or runs from the start.
    ///
    /// # Errors
    /// `Mismatch` if the key is bound to another request, carrying what is remembered; `TooOld`; `Invalid` for a key out of
    /// its limits; `Decode`; and as [`Store::write`].
    pub fn once<R, E>(&self, key: &OnceKey, f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>) -> Result<Once<R>, E>
    where
        R: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        inside::refuse_in_write(self.inner.id, "once")?;
        // A durable repeat needs neither the writer lock nor a sync.
        if let Some(repeat) = self.read(|tx| write::repeat_of::<R>(tx, key))? {
            return Ok(repeat);
        }
        self.write(|tx| tx.once(key, f))
    }

    /// The record under `key`, in the newest durable state.
    ///
    /// # Errors
    /// As [`ReadTx::get`].
    pub fn get<T: TableSpec>(&self, table: T, key: &T::Key) -> Result<Option<Record<T::Value, T::State>>> {
        self.read(|tx| tx.get(table, key))
    }

    /// One put in its own commit; see [`WriteTx::put`].
    ///
    /// # Errors
    /// As [`WriteTx::put`] and [`Store::write`].
    pub fn put<T: TableSpec>(&self, table: T, key: &T::Key, value: &T::Value) -> Result<Version> {
        self.write(|tx| tx.put(table, key, value))
    }

    /// One conditional put in its own commit; see [`WriteTx::put_if`].
    ///
    /// # Errors
    /// As [`WriteTx::put_if`] and [`Store::write`].
    pub fn put_if<T: TableSpec>(
        &self,
        table: T,
        key: &T::Key,
        condition: Condition,
        value: &T::Value,
    ) -> Result<Written> {
        self.write(|tx| tx.put_if(table, key, condition, value))
    }

    /// One delete in its own commit; see [`WriteTx::delete`].
    ///
    /// # Errors
    /// As [`WriteTx::delete`] and [`Store::write`].
    pub fn delete<T: TableSpec>(&self, table: T, key: &T::Key) -> Result<Option<Version>> {
        self.write(|tx| tx.delete(table, key))
    }

    /// One conditional delete in its own commit; see [`WriteTx::delete_if`].
    ///
    /// # Errors
    /// As [`WriteTx::delete_if`] and [`Store::write`].
    pub fn delete_if<T: TableSpec>(&self, table: T, key: &T::Key, condition: Condition) -> Result<Deleted> {
        self.write(|tx| tx.delete_if(table, key, condition))
    }

    /// One transition in its own commit; see [`WriteTx::transition`].
    ///
    /// # Errors
    /// As [`WriteTx::transition`] and [`Store::write`].
    pub fn transition<T: TableSpec>(
        &self,
        table: T,
        key: &T::Key,
        from: T::State,
        to: T::State,
    ) -> Result<Transitioned> {
        self.write(|tx| tx.transition(table, key, from, to))
    }

    /// What is remembered under a name; see [`ReadTx::remembered`].
    ///
    /// # Errors
    /// As [`ReadTx::remembered`].
    pub fn remembered(&self, scope: &str, key: impl AsRef<[u8]>) -> Result<Option<Remembered>> {
        self.read(|tx| tx.remembered(scope, key))
    }

    /// Forgets a name in its own commit; see [`WriteTx::forget`].
    ///
    /// # Errors
    /// As [`WriteTx::forget`] and [`Store::write`].
    pub fn forget(&self, scope: &str, key: impl AsRef<[u8]>) -> Result<bool> {
        self.write(|tx| tx.forget(scope, key))
    }

    /// Frees the space of remembered keys that are over now, instead of with later checkpoints.
    ///
    /// Nobody need call this: a key that is over answers nobody, and each checkpoint frees the space of many. After it the
    /// space is used again inside of the file, which need not become shorter; what a long reader sees is free only when it
    /// ends. Writers wait for one checkpoint, and not for the rest.
    ///
    /// # After a crash
    /// What was freed stays so, what was not is left to checkpoints and sweeps to come. A key that is not over is not touched.
    ///
    /// # Errors
    /// As [`Store::write`]. What was freed before the error is free.
    pub fn sweep(&self) -> Result<Swept> {
        inside::refuse_in_write(self.inner.id, "sweep")?;
        self.with_engine("sweep", |engine| engine.sweep().map(|keys| Swept { keys }))
    }

    /// Figures of this store. Its queues are those of the newest state that is durable at the store's level.
    ///
    /// # Errors
    /// `Closed`; `Invalid` inside a write of the same store; `Corrupt`, `Io` for the queues.
    pub fn stats(&self) -> Result<Stats> {
        inside::refuse_in_write(self.inner.id, "stats")?;
        self.with_engine("stats", |engine| {
            let figures = engine.figures()?;
            let tx = ReadTx::new(&self.inner, engine, Txn::new(engine.read()?, engine.now()));
            let queues = tx.queues()?;
            let queues = queues.iter().map(|info| tx.stats_of(info)).collect::<Result<_>>()?;
            Ok(Stats::new(figures, queues))
        })
    }

    /// Looks for broken rules in the newest durable state of this store, while others read and write; see
    /// [`Options::check`], which also verifies the pages of the base by their checksums, and the log. What it reads is
    /// pinned as by a long reader.
    ///
    /// # Errors
    /// `Closed`; `Io`: it could not look.
    pub fn check(&self) -> Result<Checked> {
        self.with_engine("check", |engine| check::open(&engine.read()?, engine.bytes()?, |_| ()))
    }

    /// Takes the mark of the highest wall time back to the wall time of now, in a commit of its own.
    ///
    /// For a clock that was once absurdly ahead: until the wall clock reaches that mark, time while the store is closed
    /// ages no remembered key.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn reset_clock(&self) -> Result<()> {
        inside::refuse_in_write(self.inner.id, "clock reset")?;
        self.with_engine("reset_clock", |engine| {
            engine.reset_wall_mark()?;
            let ticket = engine.begin()?.commit(Vec::new())?;
            engine.wait(&ticket)
        })
    }

    /// At level `Buffered`: returns when everything answered so far survives power loss. At `Sync` that is always so.
    ///
    /// # Errors
    /// `Io`, `Full`; `Closed`. Nothing is lost then, and the next call tries again.
    pub fn sync(&self) -> Result<()> {
        self.with_engine("sync", Engine::sync)
    }

    /// Ends what was claimed and given back, waits for the calls under way, empties the log, and frees the lock and every descriptor before it returns, for all
    /// handles: they answer `Closed` from then on.
    ///
    /// A store that is dropped instead frees the same, and the next open finds what was acknowledged in the log.
    ///
    /// # Errors
    /// `Invalid` inside a closure of this store. Otherwise what kept the log from being emptied; nothing is lost then, and
    /// lock and descriptors are free all the same. `Closed` if it was closed before.
    pub fn close(self) -> Result<()> {
        inside::refuse_in_any(self.inner.id, "close")?;
        self.end_given_back();
        self.inner.closing.store(true, Ordering::Release);
        self.inner.bells.ring_all();
        let engine = self.inner.engine.write().take().ok_or_else(closed)?;
        engine.close()
    }

    /// Whether a commit is in doubt that may still bring what somebody sleeps for.
    pub(crate) fn is_in_doubt(&self) -> Result<bool> {
        if self.inner.doubts.lock().is_empty() {
            return Ok(false);
        }
        self.with_engine("claim", |engine| {
            let mut doubts = self.inner.doubts.lock();
            doubts.retain(|ticket| !engine.is_known(ticket));
            Ok(!doubts.is_empty())
        })
    }

    /// Whether this thread is inside of a closure of this store.
    pub(crate) fn is_inside(&self) -> bool {
        inside::is_in_any(self.inner.id)
    }

    fn with_engine<R, E: From<Error>>(
        &self,
        call: &'static str,
        f: impl FnOnce(&Engine) -> Result<R, E>,
    ) -> Result<R, E> {
        inside::refuse_in_migrate(self.inner.id)?;
        if self.inner.closing.load(Ordering::Acquire) {
            return Err(closed().into());
        }
        self.inner.probed.before(call);
        let result = {
            let engine = self.inner.engine.read();
            let engine = engine.as_ref().ok_or_else(closed)?;
            let result = f(engine);
            engine.rest();
            result
        };
        self.inner.probed.after();
        result
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store")
            .field("id", &self.inner.id)
            .finish_non_exhaustive()
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}
