//! Records: one key, its value, version and state.
//!
//! Owns the keys under which records lie, their envelopes, and the versions: none is given twice to a key, because a
//! table keeps the highest version it ever removed. Knows a state as a name only; [`states`] finds records by it.

pub mod decide;
pub(crate) mod states;

use crate::codec::envelope::{self, Envelope};
use crate::codec::{CodecId, Version};
use crate::engine::Space;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::txn::Txn;

use decide::{Condition, DeleteVerdict, Offered, PutVerdict, Stored, decide_delete, decide_put};

/// Prefix of the meta keys that hold the highest version removed from a table.
const REMOVED: u8 = b'r';

/// What a condition or a transition found instead of what was asked for. Says what is stored, not who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub(crate) version: Option<Version>,
    pub(crate) state: Option<String>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) codec: CodecId,
}

impl Found {
    /// The version of the record, or `None` if there is no record.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Name of the state, if there is a record and its table has states.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The value as it is stored, or `None` if there is no record.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }
}

/// What a put did. `Conflict` means that nothing was written.
#[must_use = "a conflict means that nothing was written"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The record was written and has this version.
    Applied(Version),
    /// The record already is what this call would have made it; by whom is not known. Nothing was written.
    Unchanged(Version),
    /// The condition does not hold. Nothing was written.
    Conflict(Found),
}

/// What a delete did. `Conflict` means that nothing was removed.
#[must_use = "a conflict means that nothing was removed"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The record was removed; this was its version.
    Applied(Version),
    /// There is no record.
    AlreadyGone,
    /// The condition does not hold. Nothing was removed.
    Conflict(Found),
}

impl Written {
    /// The version, if the record now is what the call offered.
    ///
    /// # Errors
    /// `Conflict`, carrying what was found.
    pub fn or_abort(self) -> Result<Version> {
        match self {
            Written::Applied(version) | Written::Unchanged(version) => Ok(version),
            Written::Conflict(found) => Err(conflict(found)),
        }
    }
}

impl Deleted {
    /// Nothing, if there is no such record now.
    ///
    /// # Errors
    /// `Conflict`, carrying what was found.
    pub fn or_abort(self) -> Result<()> {
        match self {
            Deleted::Applied(_) | Deleted::AlreadyGone => Ok(()),
            Deleted::Conflict(found) => Err(conflict(found)),
        }
    }
}

impl Error {
    /// What a condition or a transition found, for kind `Conflict`.
    pub fn found(&self) -> Option<&Found> {
        self.carried()
    }
}

/// A found record as an error, for callers that abort on it.
pub(crate) fn conflict(found: Found) -> Error {
    conflict_saying("condition does not hold", found)
}

/// The same, for a caller who knows more about it.
pub(crate) fn conflict_saying(what: &str, found: Found) -> Error {
    let version = found.version.map_or(0, Version::get);
    let message = match &found.state {
        Some(state) => format!("{what}, found_version={version}, found_state={state}"),
        None => format!("{what}, found_version={version}"),
    };
    Error::carrying(ErrorKind::Conflict, message, found)
}

/// A record as it lies in the store.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) version: Version,
    pub(crate) state: Option<String>,
    pub(crate) value: Vec<u8>,
}

impl Raw {
    pub(crate) fn decode(key: &[u8], bytes: &[u8]) -> Result<Raw> {
        let Envelope { version, state, value } = decode(key, bytes)?;
        Ok(Raw {
            version,
            state: state.map(str::to_owned),
            value: value.to_vec(),
        })
    }

    pub(crate) fn as_envelope(&self) -> Envelope<'_> {
        Envelope {
            version: self.version,
            state: self.state.as_deref(),
            value: &self.value,
        }
    }

    fn stored(&self) -> Stored<'_> {
        Stored {
            version: self.version,
            state: self.state.as_deref(),
            value: &self.value,
        }
    }

    pub(crate) fn found(self, codec: CodecId) -> Found {
        Found {
            version: Some(self.version),
            state: self.state,
            value: Some(self.value),
            codec,
        }
    }
}

/// What was found where nothing is.
pub(crate) fn found_nothing(codec: CodecId) -> Found {
    Found {
        version: None,
        state: None,
        value: None,
        codec,
    }
}

/// The start of the keys of a table's records.
pub(crate) fn key_prefix(table: u32, more: usize) -> Vec<u8> {
    let mut key = Space::Records.key(4 + more);
    key.extend_from_slice(&table.to_be_bytes());
    key
}

/// The number of the table that a record's key is of.
pub(crate) fn table_of(key: &[u8]) -> Option<u32> {
    key.get(1..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// The encoded key in a record's key.
pub(crate) fn encoded_key(key: &[u8]) -> &[u8] {
    key.get(5..).unwrap_or_default()
}

/// The record whose bytes lie under `key`.
#[inline(always)]
pub(crate) fn decode<'b>(key: &[u8], bytes: &'b [u8]) -> Result<Envelope<'b>> {
    // The space byte is no part of the checksum: it says where, not what.
    envelope::decode(key.get(1..).unwrap_or_default(), bytes)
}

pub(crate) fn read(txn: &Txn, key: &[u8]) -> Result<Option<Raw>> {
    txn.get(key)?.map(|bytes| Raw::decode(key, &bytes)).transpose()
}

/// A put as its table made it ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) table: u32,
    pub(crate) codec: CodecId,
    pub(crate) condition: Condition,
    pub(crate) offered: Offered<'a>,
}

/// Decides a put and writes it.
pub(crate) fn put(txn: &mut Txn, key: Vec<u8>, put: Put<'_>) -> Result<Written> {
    check_value(put.offered.value)?;
    let stored = read(txn, &key)?;
    let removed_max = if stored.is_none() {
        removed_max(txn, put.table)?
    } else {
        0
    };
    match decide_put(
        put.condition,
        stored.as_ref().map(Raw::stored),
        put.offered,
        removed_max,
    )? {
        PutVerdict::Apply { version, state } => {
            let record = Envelope {
                version,
                state,
                value: put.offered.value,
            };
            write(txn, put.table, key, stored.as_ref(), &record)?;
            Ok(Written::Applied(version))
        }
        PutVerdict::Unchanged(version) => Ok(Written::Unchanged(version)),
        PutVerdict::Conflict => Ok(Written::Conflict(
            stored.map_or_else(|| found_nothing(put.codec), |raw| raw.found(put.codec)),
        )),
    }
}

/// Decides a delete and removes the record.
pub(crate) fn delete(txn: &mut Txn, table: u32, key: Vec<u8>, codec: CodecId, condition: Condition) -> Result<Deleted> {
    let stored = read(txn, &key)?;
    match (
        decide_delete(condition, stored.as_ref().map(|raw| raw.version))?,
        stored,
    ) {
        (DeleteVerdict::Apply, Some(raw)) => {
            let removed = removed_max(txn, table)?.max(raw.version.get());
            states::follow(txn, table, encoded_key(&key), raw.state.as_deref(), None)?;
            set_removed_max(txn, table, removed);
            txn.remove(key);
            Ok(Deleted::Applied(raw.version))
        }
        (DeleteVerdict::Conflict, Some(raw)) => Ok(Deleted::Conflict(raw.found(codec))),
        _ => Ok(Deleted::AlreadyGone),
    }
}

/// Writes a record whose version was decided, over the one that is stored now. An error writes nothing.
pub(crate) fn write(
    txn: &mut Txn,
    table: u32,
    key: Vec<u8>,
    stored: Option<&Raw>,
    record: &Envelope<'_>,
) -> Result<()> {
    let before = stored.and_then(|raw| raw.state.as_deref());
    states::follow(txn, table, encoded_key(&key), before, record.state)?;
    let mut bytes = Vec::with_capacity(record.value.len() + 32);
    envelope::encode(key.get(1..).unwrap_or_default(), record, &mut bytes);
    txn.put(key, bytes);
    Ok(())
}

pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= limits::VALUE_BYTES_MAX {
        return Ok(());
    }
    let (bytes, max) = (value.len(), limits::VALUE_BYTES_MAX);
    Err(Error::new(
        ErrorKind::TooLarge,
        format!("value too large, bytes={bytes}, bytes_max={max}"),
    ))
}

/// Says which version is the highest that was ever removed from a table, for one that comes from elsewhere.
pub(crate) fn set_removed_max(txn: &mut Txn, table: u32, version: u64) {
    txn.put(removed_key(table), version.to_be_bytes().to_vec());
}

/// The highest version ever removed from a table; 0 if none was.
pub(crate) fn removed_max(txn: &Txn, table: u32) -> Result<u64> {
    txn.get(&removed_key(table))?
        .map_or(Ok(0), |bytes| removed_version(table, &bytes))
}

fn removed_version(table: u32, bytes: &[u8]) -> Result<u64> {
    let bytes = bytes.try_into().map_err(|_| {
        Error::new(
            ErrorKind::Corrupt,
            format!("highest removed version is damaged, table_id={table}"),
        )
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// The table whose highest removed version this is, if it is the key of one.
pub(crate) fn removed_of(key: &[u8], bytes: &[u8]) -> Option<Result<u32>> {
    let table = u32::from_be_bytes(key.get(2..)?.try_into().ok()?);
    (*key == *removed_key(table)).then(|| removed_version(table, bytes).map(|_| table))
}

fn removed_key(table: u32) -> Vec<u8> {
    let mut key = Space::Meta.key(5);
    key.push(REMOVED);
    key.extend_from_slice(&table.to_be_bytes());
    key
}
