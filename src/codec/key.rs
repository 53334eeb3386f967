//! Keys as bytes whose order is the order of the values.
//!
//! Owns the encodings and the names of their kinds. A key inside a pair is written so that it ends by itself and none is
//! the beginning of another; that is what makes a pair ordered by its first part and then by its second.
//!
//! | kind | alone, or last in a pair | first in a pair |
//! |---|---|---|
//! | `u64` | 8 bytes, most significant first | the same |
//! | `i64` | the same, with the sign bit turned | the same |
//! | `bytes[N]` | the N bytes | the same |
//! | `str`, `bytes` | the bytes | each 00 as 00 FF, and 00 01 at the end |
//! | pair | first as a first part, second as a last one | both as first parts |
//!
//! Decoders are total: any bytes give a key or `Decode`, and what they accept encodes to the same bytes again.

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{KEY_BYTES_MAX, KEY_PAIR_DEPTH_MAX};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// How the keys of a table are encoded. Kept in the file and compared when a program opens the table.
///
/// The text form is `u64`, `i64`, `str`, `bytes`, `bytes[16]` and `(str,u64)`, without spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum KeyKind {
    /// Unsigned numbers.
    U64,
    /// Signed numbers.
    I64,
    /// Text, ordered by its UTF-8 bytes.
    Str,
    /// Bytes of any number.
    Bytes,
    /// Bytes of one fixed number.
    Array(u16),
    /// Two parts: ordered by the first, then by the second. A part may be a pair again.
    Pair(Box<KeyKind>, Box<KeyKind>),
}

/// A type that can be the key of a table: `u64`, `i64`, `str`, `[u8]`, `[u8; N]`, pairs of owned ones, `String`, `Vec<u8>`.
///
/// A type of your own (a newtype around an id, say) may implement it by passing on to one of these. It must keep the order:
/// `a < b` exactly if the encoding of `a` is less than the encoding of `b`, compared byte by byte; and `decode` must give
/// back what `encode` took, and an error, not a panic, for all other bytes.
pub trait Key {
    /// What reading a key gives.
    type Owned: Borrow<Self> + Clone + fmt::Debug + Ord + Send + Sync + 'static;

    /// The kind that the catalogue keeps for tables of these keys.
    fn kind() -> KeyKind;

    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a key that takes up all of `bytes`.
    ///
    /// # Errors
    /// `Decode` if the bytes are not the encoding of a key of this type.
    fn decode(bytes: &[u8]) -> Result<Self::Owned>;
}

/// A key that can be part of a pair.
pub trait KeyPart: Key<Owned = Self> + Clone + fmt::Debug + Ord + Send + Sync + 'static {
    /// Appends an encoding that ends by itself and is never the beginning of another.
    fn encode_part(&self, out: &mut Vec<u8>);

    /// Takes such an encoding from the front of `input`.
    ///
    /// # Errors
    /// `Decode` if the input does not begin with one.
    fn decode_part(input: &mut &[u8]) -> Result<Self>;
}

/// The encoding of a key, if it is not too long.
///
/// # Errors
/// `TooLarge` above [`KEY_BYTES_MAX`].
pub fn encode_key<K: Key + ?Sized>(key: &K) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    key.encode(&mut out);
    if out.len() > KEY_BYTES_MAX {
        let message = format!("key too long, bytes={}, bytes_max={KEY_BYTES_MAX}", out.len());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(out)
}

pub(super) fn refused(kind: &str, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Decode, format!("stored key is {why}, kind={kind}"))
}

/// Takes `N` bytes from the front of `input`.
pub(super) fn take_array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*front)
}

/// Reads with `take` and insists that nothing is left over.
fn take_all<T>(bytes: &[u8], kind: &str, take: impl FnOnce(&mut &[u8]) -> Result<T>) -> Result<T> {
    let mut input = bytes;
    let value = take(&mut input)?;
    if input.is_empty() {
        Ok(value)
    } else {
        Err(refused(kind, format_args!("{} bytes too long", input.len())))
    }
}

impl Key for u64 {
    type Owned = u64;

    fn kind() -> KeyKind {
        KeyKind::U64
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<u64> {
        take_all(bytes, "u64", u64::decode_part)
    }
}

impl KeyPart for u64 {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn decode_part(input: &mut &[u8]) -> Result<u64> {
        let bytes = take_array(input).ok_or_else(|| refused("u64", "too short"))?;
        Ok(u64::from_be_bytes(bytes))
    }
}

/// Turned, the sign bit makes negative numbers less than positive ones when compared as bytes.
const SIGN: u64 = 1 << 63;

impl Key for i64 {
    type Owned = i64;

    fn kind() -> KeyKind {
        KeyKind::I64
    }

    fn encode(&self, out: &mut Vec<u8>) {
        (self.cast_unsigned() ^ SIGN).encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<i64> {
        take_all(bytes, "i64", i64::decode_part)
    }
}

impl KeyPart for i64 {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn decode_part(input: &mut &[u8]) -> Result<i64> {
        let bytes = take_array(input).ok_or_else(|| refused("i64", "too short"))?;
        Ok((u64::from_be_bytes(bytes) ^ SIGN).cast_signed())
    }
}

impl Key for str {
    type Owned = String;

    fn kind() -> KeyKind {
        KeyKind::Str
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<String> {
        text_of(bytes.to_vec())
    }
}

impl Key for String {
    type Owned = String;

    fn kind() -> KeyKind {
        KeyKind::Str
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<String> {
        str::decode(bytes)
    }
}

impl KeyPart for String {
    fn encode_part(&self, out: &mut Vec<u8>) {
        put_escaped(self.as_bytes(), out);
    }

    fn decode_part(input: &mut &[u8]) -> Result<String> {
        text_of(take_escaped(input, "str")?)
    }
}

impl Key for [u8] {
    type Owned = Vec<u8>;

    fn kind() -> KeyKind {
        KeyKind::Bytes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

impl Key for Vec<u8> {
    type Owned = Vec<u8>;

    fn kind() -> KeyKind {
        KeyKind::Bytes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

impl KeyPart for Vec<u8> {
    fn encode_part(&self, out: &mut Vec<u8>) {
        put_escaped(self, out);
    }

    fn decode_part(input: &mut &[u8]) -> Result<Vec<u8>> {
        take_escaped(input, "bytes")
    }
}

impl<const N: usize> Key for [u8; N] {
    type Owned = [u8; N];

    fn kind() -> KeyKind {
        const { assert!(N <= KEY_BYTES_MAX && N <= u16::MAX as usize) };
        KeyKind::Array(N as u16)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<[u8; N]> {
        take_all(bytes, "bytes[N]", Self::decode_part)
    }
}

impl<const N: usize> KeyPart for [u8; N] {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn decode_part(input: &mut &[u8]) -> Result<[u8; N]> {
        take_array(input).ok_or_else(|| refused("bytes[N]", "too short"))
    }
}

impl<A: KeyPart, B: KeyPart> Key for (A, B) {
    type Owned = (A, B);

    fn kind() -> KeyKind {
        KeyKind::Pair(Box::new(A::kind()), Box::new(B::kind()))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode_part(out);
        self.1.encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<(A, B)> {
        let mut input = bytes;
        let first = A::decode_part(&mut input)?;
        Ok((first, B::decode(input)?))
    }
}

impl<A: KeyPart, B: KeyPart> KeyPart for (A, B) {
    fn encode_part(&self, out: &mut Vec<u8>) {
        self.0.encode_part(out);
        self.1.encode_part(out);
    }

    fn decode_part(input: &mut &[u8]) -> Result<(A, B)> {
        Ok((A::decode_part(input)?, B::decode_part(input)?))
    }
}

const ESCAPE: u8 = 0x00;
/// Behind an escape: the byte 00 itself.
const ESCAPED_ZERO: u8 = 0xff;
/// Behind an escape: the end. Less than every other continuation, so that a beginning sorts before what it begins.
const ESCAPED_END: u8 = 0x01;

pub(super) fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    for &byte in bytes {
        out.push(byte);
        if byte == ESCAPE {
            out.push(ESCAPED_ZERO);
        }
    }
    out.extend_from_slice(&[ESCAPE, ESCAPED_END]);
}

pub(super) fn take_escaped(input: &mut &[u8], kind: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = *input;
    loop {
        match rest {
            [ESCAPE, ESCAPED_ZERO, tail @ ..] => {
                out.push(ESCAPE);
                rest = tail;
            }
            [ESCAPE, ESCAPED_END, tail @ ..] => {
                *input = tail;
                return Ok(out);
            }
            [ESCAPE, _, ..] => return Err(refused(kind, "badly escaped")),
            [] | [ESCAPE] => return Err(refused(kind, "without an end")),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

pub(super) fn text_of(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|cause| Error::with_source(ErrorKind::Decode, "stored key is not UTF-8, kind=str", cause))
}

impl fmt::Display for KeyKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::U64 => out.write_str("u64"),
            KeyKind::I64 => out.write_str("i64"),
            KeyKind::Str => out.write_str("str"),
            KeyKind::Bytes => out.write_str("bytes"),
            KeyKind::Array(len) => write!(out, "bytes[{len}]"),
            KeyKind::Pair(first, second) => write!(out, "({first},{second})"),
        }
    }
}

impl FromStr for KeyKind {
    type Err = Error;

    /// # Errors
    /// `Invalid` if the text is not the text form of a kind, or nests pairs more than eight deep.
    fn from_str(text: &str) -> Result<KeyKind> {
        let mut input = text;
        match take_kind(&mut input, KEY_PAIR_DEPTH_MAX) {
            Some(kind) if input.is_empty() => Ok(kind),
            _ => {
                let shown: String = text.chars().take(64).collect();
                Err(Error::new(
                    ErrorKind::Invalid,
                    format!("not a kind of key, text={shown:?}"),
                ))
            }
        }
    }
}

fn take_kind(input: &mut &str, depth_left: usize) -> Option<KeyKind> {
    if take_text(input, "(") {
        let depth_left = depth_left.checked_sub(1)?;
        let first = take_kind(input, depth_left)?;
        let comma = take_text(input, ",");
        let second = take_kind(input, depth_left)?;
        return (comma && take_text(input, ")")).then(|| KeyKind::Pair(Box::new(first), Box::new(second)));
    }
    if take_text(input, "bytes[") {
        let (digits, rest) = input.split_once(']')?;
        let len: u16 = digits.parse().ok()?;
        *input = rest;
        // One number has one text form: no sign, no leading zeros.
        return (usize::from(len) <= KEY_BYTES_MAX && len.to_string() == digits).then_some(KeyKind::Array(len));
    }
    let words = [
        ("u64", KeyKind::U64),
        ("i64", KeyKind::I64),
        ("str", KeyKind::Str),
        ("bytes", KeyKind::Bytes),
    ];
    words
        .into_iter()
        .find(|(word, _)| take_text(input, word))
        .map(|(_, kind)| kind)
}

fn take_text(input: &mut &str, wanted: &str) -> bool {
    match input.strip_prefix(wanted) {
        Some(rest) => {
            *input = rest;
            true
        }
        None => false,
    }
}

impl From<KeyKind> for String {
    fn from(kind: KeyKind) -> String {
        kind.to_string()
    }
}

impl TryFrom<String> for KeyKind {
    type Error = Error;

    fn try_from(text: String) -> Result<KeyKind> {
        text.parse()
    }
}
