//! Small things that the store keeps of itself, behind a checksum over their key and their bytes.
//!
//! `crc32 LE 4 | bincode`, or with bytes of somebody else's behind it `crc32 LE 4 | length of the bincode, varint | bincode |
//! bytes`. The checksum covers the key without its first byte, which says where a thing lies and not what it is.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Bincode, Codec, varint};
use crate::error::{Error, ErrorKind, Result};

/// Most things are no longer, so that their bytes are moved at most once.
const BYTES_EXPECTED: usize = 96;

/// The bytes of `thing` under `key`.
pub(crate) fn seal<T: Serialize>(key: &[u8], thing: &T) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(BYTES_EXPECTED);
    out.extend_from_slice(&[0; 4]);
    Bincode::encode(thing, &mut out)?;
    stamp(key, &mut out);
    Ok(out)
}

/// The thing whose bytes lie under `key`.
///
/// # Errors
/// `Corrupt`, with `what` it should be, if the checksum does not fit or the bytes are none.
pub(crate) fn open<T: DeserializeOwned>(key: &[u8], bytes: &[u8], what: &str) -> Result<T> {
    let rest = judged(key, bytes).ok_or_else(|| damaged(what))?;
    Bincode::decode(rest).map_err(|cause| cause.into_kind(ErrorKind::Corrupt, format!("{what} is damaged")))
}

/// The bytes of `thing` and of `behind` under `key`.
pub(crate) fn seal_before<T: Serialize>(key: &[u8], thing: &T, behind: &[u8]) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(BYTES_EXPECTED);
    Bincode::encode(thing, &mut head)?;
    let mut out = Vec::with_capacity(4 + varint::BYTES_MAX + head.len() + behind.len());
    out.extend_from_slice(&[0; 4]);
    varint::put(&mut out, head.len() as u64);
    out.extend_from_slice(&head);
    out.extend_from_slice(behind);
    stamp(key, &mut out);
    Ok(out)
}

/// The thing and the bytes behind it that lie under `key`.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_before<'b, T: DeserializeOwned>(key: &[u8], bytes: &'b [u8], what: &str) -> Result<(T, &'b [u8])> {
    let mut rest = judged(key, bytes).ok_or_else(|| damaged(what))?;
    let len = varint::take(&mut rest)?;
    let len = usize::try_from(len).ok();
    let (head, behind) = len
        .and_then(|len| rest.split_at_checked(len))
        .ok_or_else(|| damaged(what))?;
    let thing =
        Bincode::decode(head).map_err(|cause| cause.into_kind(ErrorKind::Corrupt, format!("{what} is damaged")));
    Ok((thing?, behind))
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what} is damaged"))
}

fn judged<'b>(key: &[u8], bytes: &'b [u8]) -> Option<&'b [u8]> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*crc) == checksum(key, rest)).then_some(rest)
}

fn stamp(key: &[u8], out: &mut [u8]) {
    if let Some((crc, rest)) = out.split_first_chunk_mut::<4>() {
        *crc = checksum(key, rest).to_le_bytes();
    }
}

fn checksum(key: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.get(1..).unwrap_or_default());
    hasher.update(rest);
    hasher.finalize()
}
