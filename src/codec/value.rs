//! Values as bytes: one trait, two encodings.
//!
//! Both refuse trailing bytes, write nothing if they fail, stop at [`VALUE_BYTES_MAX`], and allocate no more for damaged
//! bytes than a small multiple of their number. Which encoding a table uses is kept in the catalogue.

use super::guard::Guard;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{VALUE_BYTES_MAX, VALUE_FREE_ELEMENTS_MAX};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::fmt;
#[cfg(feature = "json")]
use std::io;
use std::marker::PhantomData;
use std::str::FromStr;

/// Names an encoding in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecId {
    /// [`Bincode`].
    Bincode,
    /// `Json`, with feature `json`; the name exists without it, so that a file can be read about.
    Json,
}

impl CodecId {
    /// The number that the file keeps.
    pub fn code(self) -> u8 {
        match self {
            CodecId::Bincode => 1,
            CodecId::Json => 2,
        }
    }

    /// The encoding that the file means by this number.
    ///
    /// # Errors
    /// `Corrupt` for a number that no version of this library wrote.
    pub fn from_code(code: u8) -> Result<CodecId> {
        match code {
            1 => Ok(CodecId::Bincode),
            2 => Ok(CodecId::Json),
            _ => Err(Error::new(ErrorKind::Corrupt, format!("unknown codec, code={code}"))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            CodecId::Bincode => "bincode",
            CodecId::Json => "json",
        }
    }
}

impl fmt::Display for CodecId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for CodecId {
    type Err = Error;

    /// # Errors
    /// `Invalid` for any other name than `bincode` and `json`.
    fn from_str(text: &str) -> Result<CodecId> {
        let known = [CodecId::Bincode, CodecId::Json];
        known.into_iter().find(|codec| codec.name() == text).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            Error::new(ErrorKind::Invalid, format!("not a codec, text={shown:?}"))
        })
    }
}

/// An encoding of values. [`Bincode`] is compact and for shapes that do not change; `Json` is for values that people read
/// and that evolve. The two are all there are: the file knows no others.
pub trait Codec: sealed::Sealed + 'static {
    /// Its name in the file.
    const ID: CodecId;

    /// Appends the encoding of `value`. On an error nothing was appended.
    ///
    /// # Errors
    /// `TooLarge` above [`VALUE_BYTES_MAX`]; `Invalid` if the encoding has no form for such a value.
    fn encode<V: Serialize + ?Sized>(value: &V, out: &mut Vec<u8>) -> Result<()>;

    /// Reads a value that takes up all of `bytes`.
    ///
    /// # Errors
    /// `Decode` if the bytes are not the encoding of such a value, or are more than [`VALUE_BYTES_MAX`].
    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Bincode {}
    #[cfg(feature = "json")]
    impl Sealed for super::Json {}
}

/// Compact bytes without names of fields: bincode 2 in its standard configuration.
///
/// Bytes carry no shape, so a type that gained a field does not read what it wrote before. Shapes that ask the bytes what
/// they are (serde's `untagged`, `flatten`, `tag`, `skip_serializing_if`) encode but do not come back; a store notices when
/// such a value is put, since it decodes each value once. The same goes for values that nest more than
/// [`VALUE_DEPTH_MAX`](crate::limits::VALUE_DEPTH_MAX) levels deep (JSON has that limit too) and for a `Vec<()>` of more than
/// [`VALUE_FREE_ELEMENTS_MAX`] elements.
#[derive(Clone, Copy, Debug)]
pub struct Bincode;

impl Codec for Bincode {
    const ID: CodecId = CodecId::Bincode;

    fn encode<V: Serialize + ?Sized>(value: &V, out: &mut Vec<u8>) -> Result<()> {
        bounded(out, |sink| {
            bincode::serde::encode_into_writer(value, sink, bincode::config::standard()).map_err(|cause| {
                Error::with_source(ErrorKind::Invalid, "value cannot be encoded, codec=bincode", cause)
            })
        })
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V> {
        check_len(bytes, CodecId::Bincode)?;
        let budget = Cell::new(bytes.len().saturating_add(VALUE_FREE_ELEMENTS_MAX));
        let seed = Guard::new(PhantomData::<V>, &budget);
        let decoded = bincode::serde::seed_decode_from_slice(seed, bytes, bincode::config::standard());
        match decoded {
            Ok((value, used)) if used == bytes.len() => Ok(value),
            Ok((_, used)) => {
                let message = format!(
                    "stored value has trailing bytes, codec=bincode, bytes={}, used={used}",
                    bytes.len()
                );
                Err(Error::new(ErrorKind::Decode, message))
            }
            Err(cause) => Err(undecodable(bytes, CodecId::Bincode, cause)),
        }
    }
}

/// Text with names of fields, for values that people read and that evolve.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug)]
pub struct Json;

#[cfg(feature = "json")]
impl Codec for Json {
    const ID: CodecId = CodecId::Json;

    fn encode<V: Serialize + ?Sized>(value: &V, out: &mut Vec<u8>) -> Result<()> {
        bounded(out, |sink| {
            serde_json::to_writer(sink, value)
                .map_err(|cause| Error::with_source(ErrorKind::Invalid, "value cannot be encoded, codec=json", cause))
        })
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V> {
        check_len(bytes, CodecId::Json)?;
        serde_json::from_slice(bytes).map_err(|cause| undecodable(bytes, CodecId::Json, cause))
    }
}

fn check_len(bytes: &[u8], codec: CodecId) -> Result<()> {
    if bytes.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "stored value too long, codec={codec}, bytes={}, bytes_max={VALUE_BYTES_MAX}",
        bytes.len()
    );
    Err(Error::new(ErrorKind::Decode, message))
}

fn undecodable(bytes: &[u8], codec: CodecId, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let message = format!(
        "stored value is not of the asked type, codec={codec}, bytes={}",
        bytes.len()
    );
    Error::with_source(ErrorKind::Decode, message, cause)
}

/// Takes bytes until a value would be too large, and remembers that it was.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
    full: bool,
}

impl Sink<'_> {
    /// `None` if there is no room.
    fn take(&mut self, bytes: &[u8]) -> Option<()> {
        let left = self.left.checked_sub(bytes.len());
        self.full |= left.is_none();
        self.left = left?;
        self.out.extend_from_slice(bytes);
        Some(())
    }
}

/// Without a detour over `io::Write`, which costs as much again as the bytes.
impl bincode::enc::write::Writer for &mut Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.take(bytes)
            .ok_or(bincode::error::EncodeError::Other("value too large"))
    }
}

#[cfg(feature = "json")]
impl io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes).ok_or_else(|| io::Error::other("value too large"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `encode` so that it appends a value within the limit, or nothing.
fn bounded(out: &mut Vec<u8>, encode: impl FnOnce(&mut Sink<'_>) -> Result<()>) -> Result<()> {
    let before = out.len();
    let mut sink = Sink {
        out,
        left: VALUE_BYTES_MAX,
        full: false,
    };
    let encoded = encode(&mut sink);
    let full = sink.full;
    if encoded.is_err() {
        out.truncate(before);
    }
    if full {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("value too large, bytes_max={VALUE_BYTES_MAX}"),
        ));
    }
    encoded
}

/// Encodes and decodes once, so that a value that would not come back is refused while its owner still has it.
///
/// # Errors
/// As [`Codec::encode`]; `Invalid` if the encoding does not decode. On an error nothing was appended.
pub fn encode_verified<C: Codec, V: Serialize + DeserializeOwned>(value: &V, out: &mut Vec<u8>) -> Result<()> {
    let before = out.len();
    C::encode(value, out)?;
    let written = out.get(before..).unwrap_or_default();
    if let Err(error) = C::decode::<V>(written) {
        out.truncate(before);
        let message = format!("value would not come back from its encoding, codec={}", C::ID);
        return Err(error.into_kind(ErrorKind::Invalid, message));
    }
    Ok(())
}
