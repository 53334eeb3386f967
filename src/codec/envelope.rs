//! The bytes of a record: checksum, version, state, value.
//!
//! `crc32 LE 4 | flags 1 | version varint | [length of state varint | state] | value`. Bit 0 of the flags says that there is a
//! state; the others are zero. The checksum covers the key and then everything behind itself, so that a whole record found
//! under a key that is not its own is caught as well.
//!
//! Total and canonical: any bytes give a record or `Corrupt`, and a record has one encoding.

use super::varint;
use super::version::Version;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::STATE_NAME_BYTES_MAX;

const FLAG_STATE: u8 = 1;

/// What is stored under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Grows with each write of the key.
    pub version: Version,
    /// Name of the state, if the table has states.
    pub state: Option<&'a str>,
    /// The value as its codec wrote it.
    pub value: &'a [u8],
}

/// Appends the bytes of a record that is to stand under `key`.
pub fn encode(key: &[u8], record: &Envelope<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.reserve(4 + 1 + varint::BYTES_MAX + record.value.len());
    out.extend_from_slice(&[0; 4]);
    out.push(if record.state.is_some() { FLAG_STATE } else { 0 });
    varint::put(out, record.version.get());
    if let Some(state) = record.state {
        varint::put(out, state.len() as u64);
        out.extend_from_slice(state.as_bytes());
    }
    out.extend_from_slice(record.value);
    if let Some((crc, covered)) = out
        .get_mut(start..)
        .and_then(|bytes| bytes.split_first_chunk_mut::<4>())
    {
        *crc = checksum(key, covered).to_le_bytes();
    }
}

/// Reads the record that was stored under `key`.
///
/// # Errors
/// `Corrupt` if the checksum does not fit key and bytes, or a field breaks its rule.
#[inline(always)]
pub fn decode<'a>(key: &[u8], bytes: &'a [u8]) -> Result<Envelope<'a>> {
    let Some((crc, covered)) = bytes.split_first_chunk::<4>() else {
        return Err(corrupt("too short", bytes));
    };
    if u32::from_le_bytes(*crc) != checksum(key, covered) {
        return Err(corrupt("not what was written under this key (checksum)", bytes));
    }
    let Some((&flags, mut rest)) = covered.split_first() else {
        return Err(corrupt("too short", bytes));
    };
    if flags & !FLAG_STATE != 0 {
        return Err(corrupt("of an unknown shape (flags)", bytes));
    }
    let version = Version::try_from(varint::take(&mut rest)?).map_err(|_| corrupt("at version 0", bytes))?;
    let state = if flags & FLAG_STATE == 0 {
        None
    } else {
        Some(take_state(&mut rest, bytes)?)
    };
    Ok(Envelope {
        version,
        state,
        value: rest,
    })
}

fn take_state<'a>(rest: &mut &'a [u8], bytes: &[u8]) -> Result<&'a str> {
    let len = varint::take(rest)?;
    let len = usize::try_from(len)
        .ok()
        .filter(|len| (1..=STATE_NAME_BYTES_MAX).contains(len));
    let Some((state, value)) = len.and_then(|len| rest.split_at_checked(len)) else {
        return Err(corrupt("in a state whose name has no possible length", bytes));
    };
    *rest = value;
    std::str::from_utf8(state).map_err(|_| corrupt("in a state whose name is not UTF-8", bytes))
}

#[inline]
fn checksum(key: &[u8], covered: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(covered);
    hasher.finalize()
}

#[cold]
fn corrupt(what: &str, bytes: &[u8]) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("stored record is {what}, bytes={}", bytes.len()),
    )
}
