//! Tables: a name with a key kind, a codec and a machine; typed at the call site, or known at run time only.
//!
//! Owns how a call site describes a table and turns keys, values and states into bytes. [`catalog`] compares that with
//! what the file says.

pub(crate) mod catalog;
mod entry;
pub(crate) mod migrate;
pub(crate) mod transition;

use std::any::TypeId;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::envelope::Envelope;
use crate::codec::{Bincode, Codec, CodecId, DynKey, Key, KeyKind, Version, encode_key, encode_verified};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{KEY_BYTES_MAX, KEY_PAIR_DEPTH_MAX};
use crate::machine::{Machine, StateOf, Stateless};
use crate::record::Found;

pub(crate) use entry::Shape;
pub use entry::TableInfo;
pub(crate) use entry::no_such_state;

/// A named set of records, typed at the call site. Passed by value; usually a constant.
///
/// `K` is the key (`u64`, `i64`, `str`, `[u8]`, `[u8; N]`, pairs of owned parts), `V` the value (any serde type), `S` the
/// states of the records ([`Stateless`], or a type declared with [`machine!`](crate::machine!)), `C` the encoding of values
/// ([`Bincode`], or `Json` for values that people read and that evolve).
///
/// ```
/// # use sprag::Table;
/// const BALANCES: Table<u64, i64> = Table::new("balances");
/// // A kind that the file calls (str,u64); inside a pair the part is a String.
/// const LINES: Table<(String, u64), String> = Table::new("lines");
/// ```
///
/// The first write creates the table in the file; later uses must agree with what the file says, or answer `Schema`.
/// [`Store::migrate`](crate::Store::migrate) changes what the file says.
pub struct Table<K: ?Sized, V, S = Stateless, C = Bincode> {
    name: &'static str,
    schema: u32,
    #[expect(
        clippy::type_complexity,
        reason = "says that a table owns none of these, so that it is Send and Sync"
    )]
    of: PhantomData<(fn(&K), fn() -> V, fn() -> (S, C))>,
}

impl<K: ?Sized, V, S, C> Table<K, V, S, C> {
    /// Names a table. The name has 1 to 255 bytes and no control characters; a call that uses another one answers
    /// `Invalid`.
    pub const fn new(name: &'static str) -> Self {
        Table {
            name,
            schema: 0,
            of: PhantomData,
        }
    }

    /// Says which shape of records this is; 0 if nothing is said. A file in which the table has another number answers
    /// `Schema`, so raise it whenever values change in a way that their encoding does not bear, and call
    /// [`Store::migrate`](crate::Store::migrate).
    #[must_use]
    pub const fn schema(mut self, number: u32) -> Self {
        self.schema = number;
        self
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<K: ?Sized, V, S, C> Clone for Table<K, V, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V, S, C> Copy for Table<K, V, S, C> {}

impl<K: ?Sized, V, S, C> std::fmt::Debug for Table<K, V, S, C> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Table").field(&self.name).finish()
    }
}

/// A record as read: owned, so that reading and writing do not fight over borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<V, S = ()> {
    /// The value.
    pub value: V,
    /// Grows by one with each write of this key; see [`Version`].
    pub version: Version,
    /// The state; `()` in a table without states.
    pub state: S,
}

/// What a call site says of its table, for comparison with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub(crate) name: String,
    pub(crate) key: KeyKind,
    pub(crate) codec: CodecId,
    /// `None`: the call site goes by the file's.
    pub(crate) schema: Option<u32>,
    /// `None`: the call site goes by the file's, whether there is one or not.
    pub(crate) machine: Option<Option<Machine>>,
}

impl Declared {
    /// A table of which nothing else is said.
    pub(crate) fn open(name: impl Into<String>, key: KeyKind, codec: CodecId) -> Declared {
        Declared {
            name: name.into(),
            key,
            codec,
            schema: None,
            machine: None,
        }
    }

    /// What a table of this declaration is made as; `None` if it goes by the file's.
    pub(crate) fn shape(&self) -> Option<Shape> {
        Some(Shape {
            key: self.key.clone(),
            codec: self.codec,
            schema: self.schema?,
            machine: self.machine.clone()?,
        })
    }
}

/// Names a description for which one comparison with the file is enough: its type, and the schema number.
pub(crate) type Identity = (TypeId, u32);

/// A table that calls can be given: [`Table`] by value, or a reference to a [`DynTable`].
pub trait TableSpec: Described {
    /// The key as it is given.
    type Key: ?Sized;
    /// The key as it is read back.
    type OwnedKey;
    /// The value.
    type Value;
    /// The state, as calls take and give it.
    type State;

    #[doc(hidden)]
    fn encode_key(&self, key: &Self::Key) -> Result<Vec<u8>>;
    #[doc(hidden)]
    fn decode_key(&self, bytes: &[u8]) -> Result<Self::OwnedKey>;
    /// Encodes; with `verify` also decodes once, since some shapes encode and do not come back.
    #[doc(hidden)]
    fn encode_value(&self, value: &Self::Value, verify: bool) -> Result<Vec<u8>>;
    #[doc(hidden)]
    fn decode_value(&self, bytes: &[u8]) -> Result<Self::Value>;
    #[doc(hidden)]
    fn state_name<'a>(&self, state: &'a Self::State) -> Option<&'a str>;
    #[doc(hidden)]
    fn parse_state(&self, stored: Option<&str>) -> Result<Self::State>;
}

mod sealed {
    use super::{Declared, Identity};
    use crate::error::Result;

    /// What the catalogue asks of a call site.
    pub trait Described {
        fn table_name(&self) -> &str;
        fn declared(&self) -> Result<Declared>;
        /// `None` if the description is to be compared each time.
        fn identity(&self) -> Option<Identity>;
    }
}

pub(crate) use sealed::Described;

impl<K, V, S, C> Described for Table<K, V, S, C>
where
    K: Key + ?Sized + 'static,
    V: 'static,
    S: StateOf,
    C: Codec,
{
    fn table_name(&self) -> &str {
        self.name
    }

    fn declared(&self) -> Result<Declared> {
        Ok(Declared {
            name: self.name.to_owned(),
            key: kept_kind(K::kind())?,
            codec: C::ID,
            schema: Some(self.schema),
            machine: Some(S::machine()?),
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some((TypeId::of::<Self>(), self.schema))
    }
}

impl<K, V, S, C> TableSpec for Table<K, V, S, C>
where
    K: Key + ?Sized + 'static,
    V: Serialize + DeserializeOwned + 'static,
    S: StateOf,
    C: Codec,
{
    type Key = K;
    type OwnedKey = K::Owned;
    type Value = V;
    type State = S::Value;

    fn encode_key(&self, key: &K) -> Result<Vec<u8>> {
        encode_key(key)
    }

    fn decode_key(&self, bytes: &[u8]) -> Result<K::Owned> {
        K::decode(bytes)
    }

    fn encode_value(&self, value: &V, verify: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if verify {
            encode_verified::<C, V>(value, &mut out)?;
        } else {
            C::encode(value, &mut out)?;
        }
        Ok(out)
    }

    fn decode_value(&self, bytes: &[u8]) -> Result<V> {
        C::decode(bytes)
    }

    fn state_name<'a>(&self, state: &'a S::Value) -> Option<&'a str> {
        S::name(state)
    }

    fn parse_state(&self, stored: Option<&str>) -> Result<S::Value> {
        S::parse(stored)
    }
}

/// A table known at run time only, for tools: keys are [`DynKey`]s, values are bytes as encoded, states are names.
///
/// It goes by the machine that the file keeps. Values are stored as given, unread: it is the caller who says that they
/// are of the table's codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynTable {
    name: String,
    key: KeyKind,
    codec: CodecId,
}

impl DynTable {
    /// Describes a table; see [`TableInfo::open`] for one that the file has.
    pub fn new(name: impl Into<String>, key: KeyKind, codec: CodecId) -> DynTable {
        DynTable {
            name: name.into(),
            key,
            codec,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kind of its keys.
    pub fn key_kind(&self) -> &KeyKind {
        &self.key
    }

    /// Encoding of its values.
    pub fn codec(&self) -> CodecId {
        self.codec
    }
}

impl Described for &DynTable {
    fn table_name(&self) -> &str {
        &self.name
    }

    fn declared(&self) -> Result<Declared> {
        let DynTable { name, key, codec } = (*self).clone();
        Ok(Declared::open(name, kept_kind(key)?, codec))
    }

    fn identity(&self) -> Option<Identity> {
        None
    }
}

impl TableSpec for &DynTable {
    type Key = DynKey;
    type OwnedKey = DynKey;
    type Value = Vec<u8>;
    type State = Option<String>;

    fn encode_key(&self, key: &DynKey) -> Result<Vec<u8>> {
        if key.kind() != self.key {
            let message = format!(
                "key is of another kind, key_kind={}, table_key_kind={}",
                key.kind(),
                self.key
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut out = Vec::new();
        key.encode(&mut out);
        if out.len() > KEY_BYTES_MAX {
            let message = format!("key too long, bytes={}, bytes_max={KEY_BYTES_MAX}", out.len());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(out)
    }

    fn decode_key(&self, bytes: &[u8]) -> Result<DynKey> {
        DynKey::decode(&self.key, bytes)
    }

    fn encode_value(&self, value: &Vec<u8>, _verify: bool) -> Result<Vec<u8>> {
        Ok(value.clone())
    }

    fn decode_value(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }

    fn state_name<'a>(&self, state: &'a Option<String>) -> Option<&'a str> {
        state.as_deref()
    }

    fn parse_state(&self, stored: Option<&str>) -> Result<Option<String>> {
        Ok(stored.map(str::to_owned))
    }
}

/// The kind, if the catalogue could read back what it would write of it.
fn kept_kind(kind: KeyKind) -> Result<KeyKind> {
    let text = kind.to_string();
    if text.parse().is_ok_and(|read: KeyKind| read == kind) {
        return Ok(kind);
    }
    let message = format!("kind of key nests deeper than can be kept, depth_max={KEY_PAIR_DEPTH_MAX}, key={text}");
    Err(Error::new(ErrorKind::Invalid, message))
}

/// A record of a table from its bytes; an error names table and key.
#[inline(always)]
pub(crate) fn record_of<T: TableSpec>(
    table: &T,
    info: &TableInfo,
    encoded_key: &[u8],
    stored: &Envelope<'_>,
) -> Result<Record<T::Value, T::State>> {
    let named = |cause| in_record(info, encoded_key, cause);
    let value = table.decode_value(stored.value);
    Ok(Record {
        value: value.map_err(|cause| {
            let sides = sides_of(table, info.codec(), Some(info.schema()));
            let kind = cause.kind();
            cause.into_kind(
                kind,
                format!("cannot read a record, {}, {sides}", place_of(info, encoded_key)),
            )
        })?,
        version: stored.version,
        state: table.parse_state(stored.state).map_err(named)?,
    })
}

/// An error about one record, with the record named: whoever scans must be able to find it.
pub(crate) fn in_record(info: &TableInfo, encoded_key: &[u8], cause: Error) -> Error {
    naming_record("cannot read a record", info, encoded_key, cause)
}

fn naming_record(what: &str, info: &TableInfo, encoded_key: &[u8], cause: Error) -> Error {
    cause.within(format!("{what}, {}", place_of(info, encoded_key)))
}

fn place_of(info: &TableInfo, encoded_key: &[u8]) -> String {
    let key = match DynKey::decode(info.key_kind(), encoded_key) {
        Ok(key) => format!("{:?}", key.to_string()),
        Err(_) => format!("bytes \"{}\"", encoded_key.escape_ascii()),
    };
    format!("table={:?}, key={key}", info.name())
}

/// What is known of both sides when bytes are no value of the program's type.
fn sides_of<T: TableSpec>(table: &T, codec: CodecId, schema_in_file: Option<u32>) -> String {
    let number = |schema: Option<u32>| schema.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
    format!(
        "codec={codec}, schema_in_file={}, schema_in_program={}, type_in_program={}",
        number(schema_in_file),
        number(table.declared().ok().and_then(|declared| declared.schema)),
        std::any::type_name::<T::Value>(),
    )
}

/// The same for a write, which names the record only where damage is found.
pub(crate) fn in_damaged(info: &TableInfo, encoded_key: &[u8], cause: Error) -> Error {
    if cause.kind() == ErrorKind::Corrupt {
        in_record(info, encoded_key, cause)
    } else {
        cause
    }
}

impl Found {
    /// The record found, as `table` reads it; `None` if there is no record.
    ///
    /// # Errors
    /// `Decode` if the value is not of that type, `Schema` if the state is unknown to it.
    pub fn decode<T: TableSpec>(&self, table: T) -> Result<Option<Record<T::Value, T::State>>> {
        let (Some(version), Some(value)) = (self.version, &self.value) else {
            return Ok(None);
        };
        let state = table.parse_state(self.state.as_deref())?;
        let value = table.decode_value(value);
        Ok(Some(Record {
            value: value.map_err(|cause| {
                let sides = sides_of(&table, self.codec, None);
                let message = format!("cannot read what was found, table={:?}, {sides}", table.table_name());
                cause.within(message)
            })?,
            version,
            state,
        }))
    }
}
