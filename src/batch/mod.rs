//! Batches: conditions, writes and messages as data, judged together and written together.
//!
//! Owns what a batch may hold, how it is judged, and what it is bound to under a remembered key. Every condition is judged
//! against one state and one `now`. A batch that is tried goes the same way as one that is applied; only its transaction
//! is thrown away.

mod canonical;
pub mod decide;
mod enqueue;
#[cfg(feature = "json")]
pub(crate) mod json;
mod judge;
mod operation;
mod outcome;

use std::collections::HashSet;
use std::sync::Arc;

use crate::dedupe::OnceKey;
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::{Outgoing, QueueSpec};
use crate::record::decide::{Condition, holds};
use crate::table::TableSpec;

use enqueue::Enqueue;
pub(crate) use judge::Ready;
use operation::{Act, BatchTable, OnRecord, Operation};
pub use outcome::{Outcome, Verdict};

/// Conditions, writes and messages as data: built, logged, sent, read from JSON, tried without writing, and applied in one commit.
///
/// # How it is judged
/// Every operation is judged against the state before the batch, without stopping at the first that fails. A condition
/// votes: it holds, or the record already is what the operation would have made it, or it fails. An operation without a
/// condition (`Any`, a plain put or delete, a message) does not vote.
///
/// - Any vote fails: [`Rejected`](Outcome::Rejected).
/// - All votes hold, or there are none: [`Applied`](Outcome::Applied).
/// - Otherwise [`Already`](Outcome::Already), if every operation, with or without a vote, is already so; a check that holds
///   is. Else `Rejected`.
///
/// With [`once`](Batch::once) the remembered key is looked at before anything else, and is bound to the operations by itself:
/// the same key with other operations is a `Mismatch` error.
///
/// # Limits
/// At least one operation, and at most one write to a key; messages as many as there are. All of it is one commit, which has at most half a log half. The
/// first mistake is kept and answered by the call that uses the batch.
///
/// ```
/// use sprag::{Batch, Condition, Outcome, Store, Table};
///
/// const BALANCES: Table<u64, i64> = Table::new("balances");
/// const ACCOUNTS: Table<u64, String> = Table::new("accounts");
/// # fn main() -> sprag::Result<()> {
/// let store = Store::in_memory()?;
/// store.put(ACCOUNTS, &7, &"ann".to_owned())?;
/// store.put(BALANCES, &51, &100)?;
///
/// let batch = Batch::new()
///     .check(ACCOUNTS, &7, Condition::Present)
///     .put_if(BALANCES, &51, Condition::Version(1), &140);
/// assert!(matches!(store.dry_run(&batch)?, Outcome::Applied { .. }));
/// assert!(matches!(store.apply(&batch)?, Outcome::Applied { .. }));
/// assert!(matches!(store.apply(&batch)?, Outcome::Already { .. }));
/// assert_eq!(store.get(BALANCES, &51)?.map(|record| (record.value, record.version.get())), Some((140, 2)));
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until it is applied"]
#[derive(Clone, Debug, Default)]
pub struct Batch {
    once: Option<OnceKey>,
    operations: Vec<Operation>,
    /// Tables and keys that some operation writes.
    written: HashSet<(String, Vec<u8>)>,
    mistake: Option<Error>,
}

impl Batch {
    /// A batch without operations.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Remembers the batch under this key. The batch binds the key to its operations itself, so the key must not be bound.
    pub fn once(mut self, key: &OnceKey) -> Batch {
        let fault = if self.once.is_some() {
            Some(invalid("batch has two remembered keys"))
        } else if key.is_bound() {
            Some(invalid(
                "batch binds its remembered key by itself, and this one is bound already",
            ))
        } else {
            key.check().err()
        };
        self.once = Some(key.clone());
        self.keep_mistake(fault);
        self
    }

    /// Asks for a condition and writes nothing.
    pub fn check<T: TableSpec>(self, table: T, key: &T::Key, condition: Condition) -> Batch {
        self.add_on(&table, key, |_| Ok(Act::Check(condition)))
    }

    /// A put without a condition; see [`WriteTx::put`](crate::WriteTx::put).
    pub fn put<T: TableSpec>(self, table: T, key: &T::Key, value: &T::Value) -> Batch {
        self.put_if(table, key, Condition::Any, value)
    }

    /// A put under a condition; see [`WriteTx::put_if`](crate::WriteTx::put_if).
    pub fn put_if<T: TableSpec>(self, table: T, key: &T::Key, condition: Condition, value: &T::Value) -> Batch {
        self.add_on(&table, key, |table| {
            Ok(Act::Put(condition, table.encode_value(value, true)?))
        })
    }

    /// Creates a record in a named state; see [`WriteTx::create`](crate::WriteTx::create).
    pub fn create<T: TableSpec>(self, table: T, key: &T::Key, value: &T::Value, state: &T::State) -> Batch {
        self.add_on(&table, key, |table| {
            Ok(Act::Create(state_of(table, state)?, table.encode_value(value, true)?))
        })
    }

    /// A delete without a condition; see [`WriteTx::delete`](crate::WriteTx::delete).
    pub fn delete<T: TableSpec>(self, table: T, key: &T::Key) -> Batch {
        self.delete_if(table, key, Condition::Any)
    }

    /// A delete under a condition; see [`WriteTx::delete_if`](crate::WriteTx::delete_if).
    pub fn delete_if<T: TableSpec>(self, table: T, key: &T::Key, condition: Condition) -> Batch {
        self.add_on(&table, key, |_| Ok(Act::Delete(condition)))
    }

    /// A transition, whose vote is the state; see [`WriteTx::transition`](crate::WriteTx::transition).
    pub fn transition<T: TableSpec>(self, table: T, key: &T::Key, from: T::State, to: T::State) -> Batch {
        self.add_on(&table, key, |table| transition_act(table, &from, &to, None))
    }

    /// A transition that gives the record a new value; see [`WriteTx::transition_with`](crate::WriteTx::transition_with).
    pub fn transition_with<T: TableSpec>(
        self,
        table: T,
        key: &T::Key,
        from: T::State,
        to: T::State,
        value: &T::Value,
    ) -> Batch {
        self.add_on(&table, key, |table| {
            transition_act(table, &from, &to, Some(table.encode_value(value, true)?))
        })
    }

    /// Puts a message into a queue; see [`WriteTx::enqueue`](crate::WriteTx::enqueue). It leaves exactly with the batch. It has no
    /// condition, so it does not vote, and it is never already so: a batch that comes again enqueues again, unless
    /// [`once`](Batch::once) remembers it.
    ///
    /// ```
    /// use sprag::{Batch, Condition, Keep, OnceKey, Outcome, Outgoing, Queue, Store, Table, Verdict};
    ///
    /// const BALANCES: Table<u64, i64> = Table::new("balances");
    /// const EMAILS: Queue<String> = Queue::new("emails");
    /// # fn main() -> sprag::Result<()> {
    /// let store = Store::in_memory()?;
    /// let batch = Batch::new()
    ///     .once(&OnceKey::new("payments", "evt-1", Keep::Forever))
    ///     .put_if(BALANCES, &51, Condition::Absent, &140)
    ///     .enqueue(EMAILS, Outgoing::of(&"40 have come".to_owned()).key("51"));
    /// let Outcome::Applied { verdicts } = store.apply(&batch)? else { panic!("it is new") };
    /// assert!(matches!(verdicts.as_slice(), [Verdict::Holds(_), Verdict::Enqueued(_)]));
    /// assert!(matches!(store.apply(&batch)?, Outcome::Repeat { .. }));
    /// assert_eq!(store.queue_stats("emails")?.map(|stats| stats.ready), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue<'m, Q: QueueSpec>(self, queue: Q, message: impl Into<Outgoing<'m, Q::Message>>) -> Batch
    where
        Q::Message: 'm,
    {
        let Outgoing { message, terms } = message.into();
        self.add(|_| {
            let payload = queue.encode(message, true)?;
            Enqueue::new(queue.declared(), terms, payload).map(Operation::Enqueue)
        })
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there is no operation. Such a batch is a mistake.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn add_on<T: TableSpec>(self, table: &T, key: &T::Key, act: impl FnOnce(&T) -> Result<Act>) -> Batch {
        self.add(|batch| {
            Ok(Operation::Record(OnRecord {
                table: batch.table(table)?,
                key: table.encode_key(key)?,
                act: act(table)?,
            }))
        })
    }

    fn add(mut self, operation: impl FnOnce(&Batch) -> Result<Operation>) -> Batch {
        if self.mistake.is_some() {
            return self;
        }
        match operation(&self).and_then(|operation| self.push(operation)) {
            Ok(()) => {}
            Err(cause) => self.keep_mistake(Some(cause)),
        }
        self
    }

    /// The description, shared with the operation before if that has the same table.
    fn table<T: TableSpec>(&self, table: &T) -> Result<Arc<BatchTable>> {
        let identity = table.identity();
        if let Some(Operation::Record(last)) = self.operations.last()
            && identity.is_some()
            && last.table.identity == identity
            && last.table.declared.name == table.table_name()
        {
            return Ok(last.table.clone());
        }
        let declared = table.declared()?;
        Ok(Arc::new(BatchTable { declared, identity }))
    }

    fn push(&mut self, operation: Operation) -> Result<()> {
        if let Operation::Record(record) = &operation {
            if let Some(condition) = record.act.condition() {
                // Says whether there can be such a condition at all.
                holds(condition, None)?;
            }
            let name = &record.table.declared.name;
            if !operation.is_check() && !self.written.insert((name.clone(), record.key.clone())) {
                return Err(invalid(&format!("batch writes twice to one key, table={name}")));
            }
        }
        self.operations.push(operation);
        Ok(())
    }

    /// Keeps the first mistake, with the place of the operation that would have come next.
    fn keep_mistake(&mut self, mistake: Option<Error>) {
        if self.mistake.is_none() {
            let place = self.operations.len();
            self.mistake = mistake.map(|cause| in_operation(place, cause));
        }
    }

    /// The batch, if there is no mistake in it.
    pub(crate) fn ready(&self) -> Result<Ready<'_>> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        if self.operations.is_empty() {
            return Err(invalid("batch has no operations"));
        }
        let once = self.once.clone();
        let once = once.map(|key| key.bound_to(canonical::canonical(&self.operations)));
        Ok(Ready {
            once,
            operations: &self.operations,
        })
    }
}

fn transition_act<T: TableSpec>(table: &T, from: &T::State, to: &T::State, value: Option<Vec<u8>>) -> Result<Act> {
    Ok(Act::Transition {
        from: state_of(table, from)?,
        to: state_of(table, to)?,
        value,
    })
}

fn state_of<T: TableSpec>(table: &T, state: &T::State) -> Result<String> {
    table
        .state_name(state)
        .map(str::to_owned)
        .ok_or_else(|| invalid(&format!("table has no states, table={}", table.table_name())))
}

fn in_operation(place: usize, cause: Error) -> Error {
    cause.within(format!("operation of a batch is refused, operation={place}"))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
