//! Writing: one transaction under the writer lock.

use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Inner;
use super::claim::Hold;
use super::read::ReadTx;
use crate::codec::{Bincode, Codec, Keys, Version, encode_verified};
use crate::dedupe::{self, Met, Once, OnceKey, Remembered};
use crate::engine::{Bytes, Change, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Holding;
use crate::machine::Machine;
use crate::record::decide::{Condition, Offered};
use crate::record::{self, Deleted, Put, Written};
use crate::table::catalog::TableInfo;
use crate::table::transition::{self, Transitioned};
use crate::table::{Record, TableSpec, in_damaged};
use crate::txn::Txn;

/// How many records `retain` looks at before it removes what it is to remove.
const RETAIN_PAGE: usize = 1000;

/// A transaction that writes. Reads, which it takes from [`ReadTx`], see its own writes.
///
/// Nothing is visible to others, or durable, before the closure that was given it returned `Ok` and the write did.
pub struct WriteTx<'s> {
    pub(super) read: ReadTx<'s>,
    /// Remembered keys whose work is under way in this transaction, outermost first.
    under_way: Vec<Bytes>,
    /// What is to be done once the transaction is durable.
    pub(super) after: After,
}

/// What a transaction brings about outside of the file, once it is durable.
#[derive(Debug, Default)]
pub(super) struct After {
    /// Claims that it answers.
    pub(super) settled: Vec<Hold>,
    /// Leases of messages that it discards.
    pub(super) gone: Vec<Holding>,
    /// Queues of which somebody may claim more.
    pub(super) woke: Vec<String>,
}

impl<'s> Deref for WriteTx<'s> {
    type Target = ReadTx<'s>;

    fn deref(&self) -> &ReadTx<'s> {
        &self.read
    }
}

impl<'s> WriteTx<'s> {
    pub(super) fn new(inner: &'s Inner, engine: &'s Engine, txn: Txn) -> WriteTx<'s> {
        WriteTx {
            read: ReadTx::new(inner, engine, txn),
            under_way: Vec::new(),
            after: After::default(),
        }
    }

    pub(super) fn txn_mut(&mut self) -> &mut Txn {
        &mut self.read.txn
    }

    pub(super) fn into_parts(self) -> (Result<Vec<Change>>, After) {
        (self.read.txn.into_changes(), self.after)
    }

    /// The remembered key whose work is under way, the innermost one.
    pub(super) fn innermost(&self) -> Option<&Bytes> {
        self.under_way.last()
    }

    /// Writes a record, whatever is there. Its state stays; a new record gets the initial one.
    ///
    /// Gives the version of the record. If the very bytes are there already nothing is written.
    ///
    /// # Errors
    /// `TooLarge` for key or value; `Invalid` if the value would not come back from its encoding; `Schema`, `Corrupt`, `Io`.
    pub fn put<T: TableSpec>(&mut self, table: T, key: &T::Key, value: &T::Value) -> Result<Version> {
        self.put_if(table, key, Condition::Any, value)?.or_abort()
    }

    /// Writes a record if `condition` holds; see [`Condition`] for the table of answers.
    ///
    /// `Unchanged` says that the record is what this call would have made it, and not by whom: it makes a repeat harmless
    /// and proves no ownership. A repeat that arrives after yet another write hears `Conflict`: use a remembered key where
    /// repeats can be late.
    ///
    /// # Errors
    /// As [`WriteTx::put`]; `Invalid` for `Version(0)`.
    pub fn put_if<T: TableSpec>(
        &mut self,
        table: T,
        key: &T::Key,
        condition: Condition,
        value: &T::Value,
    ) -> Result<Written> {
        let encoded = table.encode_key(key)?;
        let value = table.encode_value(value, self.read.inner.verify_values)?;
        let info = self.resolve(&table)?;
        let state = info.machine().map(Machine::initial);
        self.put_encoded(&info, &encoded, condition, Offered { value: &value, state })
    }

    /// Creates a record in a named state instead of the initial one; `Absent` is the condition.
    ///
    /// # Errors
    /// As [`WriteTx::put`]; `Invalid` if the table has no states or not this one.
    pub fn create<T: TableSpec>(
        &mut self,
        table: T,
        key: &T::Key,
        value: &T::Value,
        state: &T::State,
    ) -> Result<Written> {
        let encoded = table.encode_key(key)?;
        let value = table.encode_value(value, self.read.inner.verify_values)?;
        let info = self.resolve(&table)?;
        let state = info.named_state(table.state_name(state))?;
        self.put_encoded(
            &info,
            &encoded,
            Condition::Absent,
            Offered {
                value: &value,
                state: Some(state),
            },
        )
    }

    fn put_encoded(
        &mut self,
        info: &TableInfo,
        encoded: &[u8],
        condition: Condition,
        offered: Offered<'_>,
    ) -> Result<Written> {
        let put = Put {
            table: info.id,
            codec: info.codec(),
            condition,
            offered,
        };
        record::put(self.txn_mut(), info.record_key(encoded), put).map_err(|cause| in_damaged(info, encoded, cause))
    }

    /// Removes a record, whatever is there, and gives the version that it had; `None` if it was gone already.
    ///
    /// # Errors
    /// `TooLarge` for the key; `Schema`, `Corrupt`, `Io`.
    pub fn delete<T: TableSpec>(&mut self, table: T, key: &T::Key) -> Result<Option<Version>> {
        match self.delete_if(table, key, Condition::Any)? {
            Deleted::Applied(version) => Ok(Some(version)),
            Deleted::AlreadyGone => Ok(None),
            Deleted::Conflict(found) => Err(record::conflict(found)),
        }
    }

    /// Removes a record if `condition` holds. Without a record the answer is `AlreadyGone` under every condition.
    ///
    /// # Errors
    /// As [`WriteTx::delete`]; `Invalid` for `Version(0)`.
    pub fn delete_if<T: TableSpec>(&mut self, table: T, key: &T::Key, condition: Condition) -> Result<Deleted> {
        let encoded = table.encode_key(key)?;
        let info = self.resolve(&table)?;
        record::delete(
            self.txn_mut(),
            info.id,
            info.record_key(&encoded),
            info.codec(),
            condition,
        )
        .map_err(|cause| in_damaged(&info, &encoded, cause))
    }

    /// Moves a record from one state to another; its value stays and its version grows.
    ///
    /// # Errors
    /// `Invalid` if the machine has no such move, or the table no states; as [`WriteTx::delete`].
    pub fn transition<T: TableSpec>(
        &mut self,
        table: T,
        key: &T::Key,
        from: T::State,
        to: T::State,
    ) -> Result<Transitioned> {
        self.transition_inner(&table, key, &from, &to, None)
    }

    /// Moves a record from one state to another and gives it a new value, in one write.
    ///
    /// # Errors
    /// As [`WriteTx::transition`] and [`WriteTx::put`].
    pub fn transition_with<T: TableSpec>(
        &mut self,
        table: T,
        key: &T::Key,
        from: T::State,
        to: T::State,
        value: &T::Value,
    ) -> Result<Transitioned> {
        let value = table.encode_value(value, self.read.inner.verify_values)?;
        self.transition_inner(&table, key, &from, &to, Some(&value))
    }

    fn transition_inner<T: TableSpec>(
        &mut self,
        table: &T,
        key: &T::Key,
        from: &T::State,
        to: &T::State,
        value: Option<&[u8]>,
    ) -> Result<Transitioned> {
        let encoded = table.encode_key(key)?;
        let info = self.resolve(table)?;
        let from = info.named_state(table.state_name(from))?;
        let to = info.named_state(table.state_name(to))?;
        transition::transition(self.txn_mut(), &info, info.record_key(&encoded), from, to, value)
            .map_err(|cause| in_damaged(&info, &encoded, cause))
    }

    /// Reads a record, and writes what `f` makes of its value; `None` from `f` removes it or leaves it absent. `f` runs once:
    /// nobody else writes meanwhile.
    ///
    /// # Errors
    /// As [`WriteTx::put`] and [`ReadTx::get`].
    pub fn update<T>(
        &mut self,
        table: T,
        key: &T::Key,
        f: impl FnOnce(Option<T::Value>) -> Option<T::Value>,
    ) -> Result<Option<Version>>
    where
        T: TableSpec + Copy,
    {
        let stored = self.get(table, key)?.map(|record| record.value);
        match f(stored) {
            Some(value) => self.put(table, key, &value).map(Some),
            None => self.delete(table, key).map(|_| None),
        }
    }

    /// Removes every record of a range for which `keep` says no, and gives their number.
    ///
    /// # Errors
    /// As [`WriteTx::delete`] and [`ReadTx::get`].
    pub fn retain<T>(
        &mut self,
        table: T,
        keys: Keys<T::Key>,
        mut keep: impl FnMut(&T::OwnedKey, &Record<T::Value, T::State>) -> bool,
    ) -> Result<u64>
    where
        T: TableSpec + Copy,
        T::OwnedKey: std::borrow::Borrow<T::Key>,
    {
        let mut removed = 0;
        let mut rest = Some(keys);
        while let Some(keys) = rest {
            let page = self.scan_page(table, keys, RETAIN_PAGE)?;
            rest = page.next;
            for (key, record) in page.records {
                if !keep(&key, &record) {
                    self.delete(table, std::borrow::Borrow::borrow(&key))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Runs `f` unless its operation is remembered; key, result and writes become part of this transaction.
    ///
    /// An error from `f` undoes the writes of `f` only, and leaves no key; the transaction can go on.
    ///
    /// # Errors
    /// As [`Store::once`](super::Store::once); `Invalid` if the same key's work is under way in this transaction.
    pub fn once<R, E>(&mut self, key: &OnceKey, f: impl FnOnce(&mut WriteTx<'s>) -> Result<R, E>) -> Result<Once<R>, E>
    where
        R: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        key.check()?;
        self.refuse_under_way(key)?;
        self.read.inner.probed.inside();
        let end_ns = match dedupe::meet(&self.read.txn, key)? {
            Met::Repeat(remembered) => return Ok(repeat(key, remembered)?),
            Met::First { end_ns } => end_ns,
        };
        let unit = Unit::open(self, key.stored_key().clone())?;
        let result = f(unit.tx)?;
        let mut bytes = Vec::new();
        encode_verified::<Bincode, R>(&result, &mut bytes)?;
        record::check_value(&bytes)?;
        dedupe::remember(unit.tx.txn_mut(), key, end_ns, bytes);
        unit.keep();
        Ok(Once::First(result))
    }

    /// Forgets a remembered key, so that its operation can run again. Says whether something was remembered.
    ///
    /// # Errors
    /// As [`ReadTx::remembered`].
    pub fn forget(&mut self, scope: &str, key: impl AsRef<[u8]>) -> Result<bool> {
        dedupe::forget(self.txn_mut(), scope, key.as_ref())
    }

    /// # Errors
    /// `Invalid` inside the work of the same key.
    pub(super) fn refuse_under_way(&self, key: &OnceKey) -> Result<()> {
        if !self.under_way.contains(key.stored_key()) {
            return Ok(());
        }
        let message = format!("remembered key inside its own work, key={key}");
        Err(Error::new(ErrorKind::Invalid, message))
    }

    fn resolve<T: TableSpec>(&mut self, table: &T) -> Result<Arc<TableInfo>> {
        let ReadTx { inner, engine, txn } = &mut self.read;
        inner.probed.inside();
        inner.catalog.resolve_or_create(txn, &|| engine.read(), table)
    }
}

/// A nested unit of work: its writes lie in a layer of their own, and leave with it unless it is kept, also by a panic.
struct Unit<'t, 's> {
    tx: &'t mut WriteTx<'s>,
    depth: usize,
    under_way: usize,
    /// How many answers to claims, and discarded messages, were there before it.
    settled: usize,
    gone: usize,
}

impl<'t, 's> Unit<'t, 's> {
    fn open(tx: &'t mut WriteTx<'s>, stored_key: Bytes) -> Result<Unit<'t, 's>> {
        let depth = tx.txn_mut().open_layer()?;
        let under_way = tx.under_way.len();
        tx.under_way.push(stored_key);
        let (settled, gone) = (tx.after.settled.len(), tx.after.gone.len());
        Ok(Unit {
            tx,
            depth,
            under_way,
            settled,
            gone,
        })
    }

    fn keep(mut self) {
        self.tx.read.txn.keep_layers(self.depth);
        (self.settled, self.gone) = (usize::MAX, usize::MAX);
    }
}

impl Drop for Unit<'_, '_> {
    fn drop(&mut self) {
        self.tx.read.txn.drop_layers(self.depth);
        self.tx.under_way.truncate(self.under_way);
        // A claim whose answer is undone is given back.
        self.tx.after.settled.truncate(self.settled);
        self.tx.after.gone.truncate(self.gone);
    }
}

/// The answer of a durable repeat; `None` if the work is still to be done, or only a write can tell.
pub(super) fn repeat_of<R: DeserializeOwned>(tx: &ReadTx<'_>, key: &OnceKey) -> Result<Option<Once<R>>> {
    key.check()?;
    match dedupe::meet(&tx.txn, key) {
        Ok(Met::Repeat(remembered)) => repeat(key, remembered).map(Some),
        Ok(Met::First { .. }) => Ok(None),
        // A forget may be staged that frees the key: let the write see.
        Err(error) if matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::TooOld) => Ok(None),
        Err(error) => Err(error),
    }
}

fn repeat<R: DeserializeOwned>(key: &OnceKey, remembered: Remembered) -> Result<Once<R>> {
    let first_at = remembered.first_at();
    match Bincode::decode(remembered.result_bytes()) {
        Ok(result) => Ok(Once::Repeat { result, first_at }),
        Err(cause) => {
            let message = format!("the work was done before, and its result is not of the asked type, key={key}");
            Err(cause.into_kind(ErrorKind::Decode, message))
        }
    }
}
