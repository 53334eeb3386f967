//! The store, asked the same questions as the reference, through its typed tables.

use std::ops::Bound;

use sprag::{
    Bincode, Codec, Deleted, Error, Found, Json, Keep, Keys, OnceKey, ReadTx, StateOf, Stateless, Table, Transitioned,
    WriteTx, Written,
};

use super::reference::{Answer, Condition, Key, Once, Op, Range, Record, Scan};

sprag::machine! {
    /// Where an order stands.
    pub enum OrderState: "orders" {
        New = "new", Packed = "packed", Shipped = "shipped", Cancelled = "cancelled",
    }
    initial New;
    New => Packed, Cancelled;
    Packed => Shipped, Cancelled;
}

impl OrderState {
    pub fn of(name: &str) -> OrderState {
        sprag::State::from_name(name).expect("a state of the machine")
    }
}

/// One table of the trial: how its keys look from the reference and from the store.
trait Kind {
    type K: sprag::Key + ?Sized + 'static;
    type S: StateOf;
    type C: Codec;
    const TABLE: Table<Self::K, Vec<u8>, Self::S, Self::C>;
    fn key(key: &Key) -> &Self::K;
    fn back(key: <Self::K as sprag::Key>::Owned) -> Key;

    fn prefix(_prefix: &[u8]) -> Keys<Self::K> {
        unreachable!("these keys have no prefix")
    }

    fn first(_of: &Key) -> Keys<Self::K> {
        unreachable!("these keys have no first part")
    }
}

type Value<T> = <<T as Kind>::S as StateOf>::Value;

macro_rules! kind {
    ($kind:ident, $variant:ident, $key:ty, $name:literal, $state:ty, $codec:ty $(, $more:item)?) => {
        struct $kind;

        impl Kind for $kind {
            type K = $key;
            type S = $state;
            type C = $codec;
            const TABLE: Table<$key, Vec<u8>, $state, $codec> = Table::new($name);

            fn key(key: &Key) -> &$key {
                let Key::$variant(key) = key else { unreachable!("a key of another table") };
                key
            }

            fn back(key: <$key as sprag::Key>::Owned) -> Key {
                Key::$variant(key)
            }

            $($more)?
        }
    };
}

kind!(Numbers, Number, u64, "numbers", Stateless, Bincode);
kind!(Signed, Signed, i64, "signed", Stateless, Bincode);
kind!(
    Texts,
    Text,
    str,
    "texts",
    Stateless,
    Json,
    fn prefix(prefix: &[u8]) -> Keys<str> {
        Keys::<str>::prefix(std::str::from_utf8(prefix).expect("text"))
    }
);
kind!(
    Bytes,
    Bytes,
    [u8],
    "bytes",
    Stateless,
    Bincode,
    fn prefix(prefix: &[u8]) -> Keys<[u8]> {
        Keys::<[u8]>::prefix(prefix)
    }
);
kind!(
    Arrays,
    Array,
    [u8; 4],
    "arrays",
    Stateless,
    Bincode,
    fn prefix(prefix: &[u8]) -> Keys<[u8; 4]> {
        Keys::<[u8; 4]>::prefix(prefix)
    }
);
kind!(
    Pairs,
    Pair,
    (u64, u64),
    "pairs",
    Stateless,
    Bincode,
    fn first(of: &Key) -> Keys<(u64, u64)> {
        Keys::first(&Pairs::key(of).0)
    }
);
kind!(
    Named,
    Named,
    (String, i64),
    "named",
    Stateless,
    Bincode,
    fn first(of: &Key) -> Keys<(String, i64)> {
        Keys::first(&Named::key(of).0)
    }
);
kind!(
    Nested,
    Nested,
    ((Vec<u8>, u64), String),
    "nested",
    Stateless,
    Json,
    fn first(of: &Key) -> Keys<((Vec<u8>, u64), String)> {
        Keys::first(&Nested::key(of).0)
    }
);
kind!(Orders, Order, u64, "orders", OrderState, Bincode);

const ORDERS: Table<u64, Vec<u8>, OrderState> = Orders::TABLE;

/// Calls `$call::<Kind>` for the table of that number.
macro_rules! on_table {
    ($table:expr, $call:ident($($argument:expr),*)) => {
        match $table {
            0 => $call::<Numbers>($($argument),*),
            1 => $call::<Signed>($($argument),*),
            2 => $call::<Texts>($($argument),*),
            3 => $call::<Bytes>($($argument),*),
            4 => $call::<Arrays>($($argument),*),
            5 => $call::<Pairs>($($argument),*),
            6 => $call::<Named>($($argument),*),
            7 => $call::<Nested>($($argument),*),
            _ => $call::<Orders>($($argument),*),
        }
    };
}

/// What ends a closure of the trial.
#[derive(Debug)]
pub enum Stop {
    /// The trial wants it to.
    Wanted,
    Store(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Store(error)
    }
}

pub fn write_all(tx: &mut WriteTx<'_>, ops: &[Op]) -> Vec<Answer> {
    ops.iter()
        .map(|op| write(tx, op).unwrap_or_else(|error| Answer::Failed(error.kind())))
        .collect()
}

pub fn read_all(tx: &ReadTx<'_>, ops: &[Op]) -> Vec<Answer> {
    ops.iter()
        .map(|op| read(tx, op).unwrap_or_else(|error| Answer::Failed(error.kind())))
        .collect()
}

/// An operation that writes nothing, in any transaction.
fn read(tx: &ReadTx<'_>, op: &Op) -> Result<Answer, Error> {
    match op {
        Op::Get(key) => on_table!(key.table(), get(tx, key)),
        Op::Scan(scan) => on_table!(scan.table, scan_whole(tx, scan)),
        Op::Pages(scan, limit) => on_table!(scan.table, scan_pages(tx, scan, *limit)),
        Op::Remembered(name) => {
            let remembered = tx.remembered("model", [*name])?;
            Ok(Answer::Remembered(
                remembered.map(|entry| (ms_of(entry.first_at()), entry.is_forever())),
            ))
        }
        other => panic!("no read: {other:?}"),
    }
}

fn write(tx: &mut WriteTx<'_>, op: &Op) -> Result<Answer, Error> {
    match op {
        Op::Put(key, condition, value) => on_table!(key.table(), put(tx, key, *condition, value)),
        Op::Create(order, state, value) => Ok(written(tx.create(ORDERS, order, value, &OrderState::of(state))?)),
        Op::Delete(key, condition) => on_table!(key.table(), delete(tx, key, *condition)),
        Op::Move { order, from, to, value } => {
            let (from, to) = (OrderState::of(from), OrderState::of(to));
            Ok(match value {
                Some(value) => moved(tx.transition_with(ORDERS, order, from, to, value)?),
                None => moved(tx.transition(ORDERS, order, from, to)?),
            })
        }
        Op::Update(key, value) => on_table!(key.table(), update(tx, key, value.as_ref())),
        Op::Retain(scan) => on_table!(scan.table, retain(tx, scan)),
        Op::Once(once) => Ok(once_in(tx, once)),
        Op::Forget(name) => Ok(Answer::Forgot(tx.forget("model", [*name])?)),
        _ => read(tx, op),
    }
}

pub fn key_of(once: &Once) -> OnceKey {
    let keep = once
        .keep_ms
        .map_or(Keep::Forever, |ms| Keep::For(std::time::Duration::from_millis(ms)));
    let key = OnceKey::new("model", [once.name], keep);
    match once.bound {
        Some(bound) => key.bound_to([bound]),
        None => key,
    }
}

fn once_in(tx: &mut WriteTx<'_>, once: &Once) -> Answer {
    let mut answers = Vec::new();
    let outcome = tx.once(&key_of(once), |tx| work(tx, once, &mut answers));
    once_answer(outcome, answers)
}

/// The work of an operation under a remembered key.
pub fn work(tx: &mut WriteTx<'_>, once: &Once, answers: &mut Vec<Answer>) -> Result<u64, Stop> {
    *answers = write_all(tx, &once.ops);
    if once.fails { Err(Stop::Wanted) } else { Ok(once.result) }
}

pub fn once_answer(outcome: Result<sprag::Once<u64>, Stop>, answers: Vec<Answer>) -> Answer {
    match outcome {
        Ok(sprag::Once::First(result)) => Answer::First(answers, result),
        Ok(sprag::Once::Repeat { result, first_at }) => Answer::Repeat(result, ms_of(first_at)),
        Err(Stop::Wanted) => Answer::Undone(answers),
        Err(Stop::Store(error)) => Answer::Failed(error.kind()),
    }
}

/// Milliseconds since the clock of the trial began.
fn ms_of(time: std::time::SystemTime) -> u64 {
    let start = std::time::Duration::from_nanos(sprag::ManualClock::START_WALL_NS.unsigned_abs());
    let since = time
        .duration_since(std::time::UNIX_EPOCH + start)
        .expect("not before the trial");
    u64::try_from(since.as_millis()).expect("a short trial")
}

pub fn condition_of(condition: Condition) -> sprag::Condition {
    match condition {
        Condition::Any => sprag::Condition::Any,
        Condition::Absent => sprag::Condition::Absent,
        Condition::Present => sprag::Condition::Present,
        Condition::Version(number) => sprag::Condition::Version(number),
    }
}

fn record<T: Kind>(record: sprag::Record<Vec<u8>, Value<T>>) -> Record {
    Record {
        value: record.value,
        version: record.version.get(),
        state: T::S::name(&record.state),
    }
}

fn found<T: Kind>(found: &Found) -> Option<Record> {
    found.decode(T::TABLE).expect("readable").map(record::<T>)
}

fn written_of<T: Kind>(written: Written) -> Answer {
    match written {
        Written::Applied(version) => Answer::Applied(version.get()),
        Written::Unchanged(version) => Answer::Unchanged(version.get()),
        Written::Conflict(conflict) => Answer::Conflict(found::<T>(&conflict)),
    }
}

fn written(written: Written) -> Answer {
    written_of::<Orders>(written)
}

fn moved(moved: Transitioned) -> Answer {
    match moved {
        Transitioned::Applied(version) => Answer::Applied(version.get()),
        Transitioned::AlreadyThere(version) => Answer::AlreadyThere(version.get()),
        Transitioned::Refused(refusal) => Answer::Refused(refusal.why.name(), found::<Orders>(&refusal.found)),
    }
}

fn get<T: Kind>(tx: &ReadTx<'_>, key: &Key) -> Result<Answer, Error> {
    Ok(Answer::Found(tx.get(T::TABLE, T::key(key))?.map(record::<T>)))
}

fn put<T: Kind>(tx: &mut WriteTx<'_>, key: &Key, condition: Condition, value: &Vec<u8>) -> Result<Answer, Error> {
    Ok(written_of::<T>(tx.put_if(
        T::TABLE,
        T::key(key),
        condition_of(condition),
        value,
    )?))
}

fn delete<T: Kind>(tx: &mut WriteTx<'_>, key: &Key, condition: Condition) -> Result<Answer, Error> {
    Ok(match tx.delete_if(T::TABLE, T::key(key), condition_of(condition))? {
        Deleted::Applied(version) => Answer::Removed(version.get()),
        Deleted::AlreadyGone => Answer::AlreadyGone,
        Deleted::Conflict(conflict) => Answer::Conflict(found::<T>(&conflict)),
    })
}

fn update<T: Kind>(tx: &mut WriteTx<'_>, key: &Key, value: Option<&Vec<u8>>) -> Result<Answer, Error> {
    let version = tx.update(T::TABLE, T::key(key), |_| value.cloned())?;
    Ok(Answer::Updated(version.map(sprag::Version::get)))
}

fn retain<T: Kind>(tx: &mut WriteTx<'_>, scan: &Scan) -> Result<Answer, Error> {
    let is_odd = |_: &_, record: &sprag::Record<_, _>| record.version.get() % 2 == 1;
    Ok(Answer::Retained(tx.retain(T::TABLE, keys::<T>(scan), is_odd)?))
}

fn keys<T: Kind>(scan: &Scan) -> Keys<T::K> {
    let keys = match &scan.range {
        Range::All => Keys::all(),
        Range::Bounds(Bound::Unbounded, Bound::Unbounded) => Keys::all(),
        Range::Bounds(Bound::Included(lo), Bound::Unbounded) => Keys::from(T::key(lo)),
        Range::Bounds(Bound::Excluded(lo), Bound::Unbounded) => Keys::after(T::key(lo)),
        Range::Bounds(Bound::Unbounded, Bound::Excluded(hi)) => Keys::to(T::key(hi)),
        Range::Bounds(Bound::Unbounded, Bound::Included(hi)) => Keys::through(T::key(hi)),
        Range::Bounds(Bound::Included(lo), Bound::Excluded(hi)) => Keys::between(T::key(lo), T::key(hi)),
        // What is left of a range behind a key, which has no constructor of its own.
        Range::Bounds(Bound::Excluded(lo), Bound::Excluded(hi)) => Keys::to(T::key(hi)).resume_after(T::key(lo)),
        Range::Bounds(lo, hi) => panic!("no such range: {lo:?} {hi:?}"),
        Range::Prefix(prefix) => T::prefix(prefix),
        Range::First(of) => T::first(of),
    };
    if scan.reverse { keys.rev() } else { keys }
}

fn scan_whole<T: Kind>(tx: &ReadTx<'_>, scan: &Scan) -> Result<Answer, Error> {
    let items = tx.scan(T::TABLE, keys::<T>(scan))?;
    let records = items.map(|item| item.map(|(key, found)| (T::back(key), record::<T>(found))));
    Ok(Answer::Records(records.collect::<Result<_, Error>>()?))
}

fn scan_pages<T: Kind>(tx: &ReadTx<'_>, scan: &Scan, limit: usize) -> Result<Answer, Error> {
    let mut records = Vec::new();
    let mut rest = Some(keys::<T>(scan));
    while let Some(keys) = rest {
        let page = tx.scan_page(T::TABLE, keys, limit)?;
        assert!(page.records.len() <= limit);
        assert!(
            page.next.is_none() || page.records.len() == limit,
            "only the last page is short"
        );
        rest = page.next;
        records.extend(
            page.records
                .into_iter()
                .map(|(key, found)| (T::back(key), record::<T>(found))),
        );
    }
    Ok(Answer::Records(records))
}
