//! A key whose kind is known only at run time, as the command line and `check` meet it.
//!
//! Encodes exactly as the typed key of the same kind does. Its text form is written and read here and nowhere else:
//! - `u64`, `i64`: decimal digits.
//! - `str`: the text itself.
//! - `bytes`, `bytes[N]`: the text itself if all of it is printable ASCII and it does not begin with `hex:`; otherwise `hex:`
//!   and two hex digits a byte.
//! - pair: `(first,second)`; inside, a comma, a closing parenthesis and a backslash have a backslash before them.

use super::key::{KeyKind, put_escaped, refused, take_escaped, text_of};
use super::keys::Bounding;
use super::{Key, KeyPart, Keys};
use crate::error::{Error, ErrorKind, Result};
use std::fmt::{self, Write as _};

/// A key of any kind.
///
/// The order of two keys of one kind is the order of their encodings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DynKey {
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// Text.
    Str(String),
    /// Bytes of any number.
    Bytes(Vec<u8>),
    /// Bytes of a number that the kind fixes.
    Array(Vec<u8>),
    /// Two parts.
    Pair(Box<DynKey>, Box<DynKey>),
}

impl DynKey {
    /// The kind of this key. An array longer than 65,535 bytes, which no table takes, counts as that long.
    pub fn kind(&self) -> KeyKind {
        match self {
            DynKey::U64(_) => KeyKind::U64,
            DynKey::I64(_) => KeyKind::I64,
            DynKey::Str(_) => KeyKind::Str,
            DynKey::Bytes(_) => KeyKind::Bytes,
            DynKey::Array(bytes) => KeyKind::Array(u16::try_from(bytes.len()).unwrap_or(u16::MAX)),
            DynKey::Pair(first, second) => KeyKind::Pair(Box::new(first.kind()), Box::new(second.kind())),
        }
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            DynKey::U64(number) => number.encode(out),
            DynKey::I64(number) => number.encode(out),
            DynKey::Str(text) => text.encode(out),
            DynKey::Bytes(bytes) | DynKey::Array(bytes) => bytes.encode(out),
            DynKey::Pair(first, second) => {
                first.encode_part(out);
                second.encode(out);
            }
        }
    }

    fn encode_part(&self, out: &mut Vec<u8>) {
        match self {
            DynKey::Str(text) => put_escaped(text.as_bytes(), out),
            DynKey::Bytes(bytes) => put_escaped(bytes, out),
            DynKey::Pair(first, second) => {
                first.encode_part(out);
                second.encode_part(out);
            }
            DynKey::U64(_) | DynKey::I64(_) | DynKey::Array(_) => self.encode(out),
        }
    }

    /// Reads a key of this kind that takes up all of `bytes`.
    ///
    /// # Errors
    /// `Decode` if the bytes are not the encoding of a key of this kind.
    pub fn decode(kind: &KeyKind, bytes: &[u8]) -> Result<DynKey> {
        match kind {
            KeyKind::U64 => u64::decode(bytes).map(DynKey::U64),
            KeyKind::I64 => i64::decode(bytes).map(DynKey::I64),
            KeyKind::Str => str::decode(bytes).map(DynKey::Str),
            KeyKind::Bytes => Ok(DynKey::Bytes(bytes.to_vec())),
            KeyKind::Array(len) if bytes.len() == usize::from(*len) => Ok(DynKey::Array(bytes.to_vec())),
            KeyKind::Array(_) => Err(refused(&kind.to_string(), format_args!("{} bytes long", bytes.len()))),
            KeyKind::Pair(first, second) => {
                let mut input = bytes;
                let first = DynKey::decode_part(first, &mut input)?;
                Ok(DynKey::Pair(Box::new(first), Box::new(DynKey::decode(second, input)?)))
            }
        }
    }

    fn decode_part(kind: &KeyKind, input: &mut &[u8]) -> Result<DynKey> {
        match kind {
            KeyKind::U64 => u64::decode_part(input).map(DynKey::U64),
            KeyKind::I64 => i64::decode_part(input).map(DynKey::I64),
            KeyKind::Str => text_of(take_escaped(input, "str")?).map(DynKey::Str),
            KeyKind::Bytes => take_escaped(input, "bytes").map(DynKey::Bytes),
            KeyKind::Array(len) => match input.split_at_checked(usize::from(*len)) {
                Some((front, rest)) => {
                    *input = rest;
                    Ok(DynKey::Array(front.to_vec()))
                }
                None => Err(refused(&kind.to_string(), "too short")),
            },
            KeyKind::Pair(first, second) => {
                let first = DynKey::decode_part(first, input)?;
                let second = DynKey::decode_part(second, input)?;
                Ok(DynKey::Pair(Box::new(first), Box::new(second)))
            }
        }
    }

    /// Reads the text form of a key of this kind, as [`Display`](fmt::Display) writes it.
    ///
    /// # Errors
    /// `Invalid` if the text is not a key of this kind.
    pub fn parse(kind: &KeyKind, text: &str) -> Result<DynKey> {
        match kind {
            KeyKind::Pair(..) => {
                let mut input = text;
                match parse_part(kind, &mut input, &[]) {
                    Some(key) if input.is_empty() => Ok(key),
                    _ => Err(unreadable(kind, text)),
                }
            }
            _ => parse_single(kind, text).ok_or_else(|| unreadable(kind, text)),
        }
    }
}

fn unreadable(kind: &KeyKind, text: &str) -> Error {
    let shown: String = text.chars().take(64).collect();
    Error::new(
        ErrorKind::Invalid,
        format!("not a key of this kind, kind={kind}, text={shown:?}"),
    )
}

fn parse_single(kind: &KeyKind, text: &str) -> Option<DynKey> {
    match kind {
        KeyKind::U64 => text.parse().ok().map(DynKey::U64),
        KeyKind::I64 => text.parse().ok().map(DynKey::I64),
        KeyKind::Str => Some(DynKey::Str(text.to_owned())),
        KeyKind::Bytes => parse_bytes(text).map(DynKey::Bytes),
        KeyKind::Array(len) => parse_bytes(text)
            .filter(|bytes| bytes.len() == usize::from(*len))
            .map(DynKey::Array),
        KeyKind::Pair(..) => None,
    }
}

/// Inside a pair: up to an unescaped character of `ends`, which stays in the input.
fn parse_part(kind: &KeyKind, input: &mut &str, ends: &[char]) -> Option<DynKey> {
    if let KeyKind::Pair(first, second) = kind {
        *input = input.strip_prefix('(')?;
        let first = parse_part(first, input, &[','])?;
        *input = input.strip_prefix(',')?;
        let second = parse_part(second, input, &[')'])?;
        *input = input.strip_prefix(')')?;
        return Some(DynKey::Pair(Box::new(first), Box::new(second)));
    }
    let mut text = String::new();
    let mut chars = input.chars();
    loop {
        let rest = chars.as_str();
        match chars.next()? {
            '\\' => text.push(chars.next()?),
            end if ends.contains(&end) => {
                *input = rest;
                return parse_single(kind, &text);
            }
            // A comma or a parenthesis that is not the end here was meant to be one: the text has another shape.
            ',' | ')' => return None,
            plain => text.push(plain),
        }
    }
}

const HEX: &str = "hex:";

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix(HEX) else {
        return Some(text.as_bytes().to_vec());
    };
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?))
        .collect()
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

fn show_bytes(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes)
        && bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && !text.starts_with(HEX)
    {
        return text.to_owned();
    }
    let mut text = HEX.to_owned();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn show_part(key: &DynKey, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let DynKey::Pair(..) = key {
        return write!(out, "{key}");
    }
    for character in key.to_string().chars() {
        if matches!(character, '\\' | ',' | ')') {
            out.write_char('\\')?;
        }
        out.write_char(character)?;
    }
    Ok(())
}

impl Bounding for DynKey {
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

impl Keys<DynKey> {
    /// Every key of this kind that begins with what the text says: texts and bytes by their first characters or bytes,
    /// written as in the text form of a key; pairs by the whole of their first part, written as a key of its kind.
    ///
    /// # Errors
    /// `Invalid` for numbers, which begin with nothing, and for a text that is no beginning of a key of this kind.
    pub fn prefix(kind: &KeyKind, text: &str) -> Result<Keys<DynKey>> {
        let prefix = match kind {
            KeyKind::Str => Some(text.as_bytes().to_vec()),
            KeyKind::Bytes | KeyKind::Array(_) => parse_bytes(text),
            KeyKind::Pair(first, _) => {
                let mut prefix = Vec::new();
                DynKey::parse(first, text)?.encode_part(&mut prefix);
                Some(prefix)
            }
            KeyKind::U64 | KeyKind::I64 => {
                let message = format!("keys of this kind have no prefix, kind={kind}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        prefix.map(Keys::from_prefix).ok_or_else(|| unreadable(kind, text))
    }
}

impl fmt::Display for DynKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DynKey::U64(number) => write!(out, "{number}"),
            DynKey::I64(number) => write!(out, "{number}"),
            DynKey::Str(text) => out.write_str(text),
            DynKey::Bytes(bytes) | DynKey::Array(bytes) => out.write_str(&show_bytes(bytes)),
            DynKey::Pair(first, second) => {
                out.write_char('(')?;
                show_part(first, out)?;
                out.write_char(',')?;
                show_part(second, out)?;
                out.write_char(')')
            }
        }
    }
}
