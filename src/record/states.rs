//! Look-up by state: which records of a table are in a state, and how many, kept in the commit of the record itself.
//!
//! Owns the keys of the space `States` and the counts in the meta space. Both follow from the records, so only
//! [`follow`] changes them, and whoever writes or removes a record goes through it.
//!
//! Invariants
//! - a record with a state has one entry, under that state; nothing else has one;
//! - a count is the number of entries under its state, and a count of zero is not stored.

use crate::engine::Space;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::Txn;

/// Prefix of the meta keys that hold how many records of a table are in a state.
const COUNT: u8 = b'c';

/// Lets entry and counts follow a record from the state before a write to the one after it. An error changes nothing.
pub(crate) fn follow(
    txn: &mut Txn,
    table: u32,
    encoded_key: &[u8],
    before: Option<&str>,
    after: Option<&str>,
) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let left = before.map(|state| counted(txn, table, state, |count| count.checked_sub(1)));
    let entered = after.map(|state| counted(txn, table, state, |count| count.checked_add(1)));
    let (left, entered) = (left.transpose()?, entered.transpose()?);
    if let Some((state, count)) = left {
        txn.remove(entry_key(table, state, encoded_key));
        store_count(txn, table, state, count);
    }
    if let Some((state, count)) = entered {
        txn.put(entry_key(table, state, encoded_key), Vec::new());
        store_count(txn, table, state, count);
    }
    Ok(())
}

/// How many records of a table are in a state.
pub(crate) fn count(txn: &Txn, table: u32, state: &str) -> Result<u64> {
    txn.get(&count_key(table, state))?
        .map_or(Ok(0), |bytes| read_count(table, state, &bytes))
}

fn read_count(table: u32, state: &str, bytes: &[u8]) -> Result<u64> {
    match <[u8; 8]>::try_from(bytes).map(u64::from_be_bytes) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(damaged(table, state)),
    }
}

/// Table, state and count, if this is the key of a count.
pub(crate) fn count_of(key: &[u8], bytes: &[u8]) -> Option<Result<(u32, String, u64)>> {
    let (table, state) = key
        .get(2..)?
        .split_first_chunk()
        .map(|(table, state)| (u32::from_be_bytes(*table), state))?;
    let state = std::str::from_utf8(state).ok()?;
    let is_one = *key == *count_key(table, state);
    is_one.then(|| read_count(table, state, bytes).map(|count| (table, state.to_owned(), count)))
}

/// Table, state and encoded key of an entry; `None` if it is none.
pub(crate) fn parts_of(key: &[u8]) -> Option<(u32, &str, &[u8])> {
    let (table, rest) = key.get(1..)?.split_first_chunk()?;
    let (len, rest) = rest.split_first()?;
    let (state, encoded) = rest.split_at_checked(usize::from(*len))?;
    Some((u32::from_be_bytes(*table), std::str::from_utf8(state).ok()?, encoded))
}

/// The start of the entries under a state, with room for `more` bytes. No entry of another state begins so: the length
/// of the name stands before it.
pub(crate) fn entry_prefix(table: u32, state: &str, more: usize) -> Vec<u8> {
    let mut key = Space::States.key(5 + state.len() + more);
    key.extend_from_slice(&table.to_be_bytes());
    // A machine was judged before it is stored: its names have 1 to 64 bytes.
    key.push(u8::try_from(state.len()).unwrap_or(u8::MAX));
    key.extend_from_slice(state.as_bytes());
    key
}

/// The entry of a record in a state.
pub(crate) fn entry_key(table: u32, state: &str, encoded_key: &[u8]) -> Vec<u8> {
    let mut key = entry_prefix(table, state, encoded_key.len());
    key.extend_from_slice(encoded_key);
    key
}

/// A state with the count that it will have.
fn counted<'a>(
    txn: &Txn,
    table: u32,
    state: &'a str,
    change: impl FnOnce(u64) -> Option<u64>,
) -> Result<(&'a str, u64)> {
    let count = change(count(txn, table, state)?).ok_or_else(|| damaged(table, state))?;
    Ok((state, count))
}

fn store_count(txn: &mut Txn, table: u32, state: &str, count: u64) {
    let key = count_key(table, state);
    if count == 0 {
        txn.remove(key);
    } else {
        txn.put(key, count.to_be_bytes().to_vec());
    }
}

fn count_key(table: u32, state: &str) -> Vec<u8> {
    let mut key = Space::Meta.key(5 + state.len());
    key.push(COUNT);
    key.extend_from_slice(&table.to_be_bytes());
    key.extend_from_slice(state.as_bytes());
    key
}

fn damaged(table: u32, state: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("count of a state is damaged, table_id={table}, state={state}"),
    )
}
