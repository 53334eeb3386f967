//! The VALUE argument: where it is read from, and what it becomes in its table or queue.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sprag::{CodecId, Json, limits};

use crate::failure::Failure;
use crate::json;

/// Most bytes that a value may have before whitespace is left out or base64 is decoded.
pub const INPUT_BYTES_MAX: usize = 2 * limits::VALUE_BYTES_MAX;

/// How the value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Text,
    Base64,
}

/// A value as it was given, read but not yet fitted to a table or queue.
#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    form: Form,
}

impl Input {
    /// Reads the value. Done before the store is opened, since a pipe can take long.
    pub fn read(value: &str, is_text: bool, is_base64: bool) -> Result<Input, Failure> {
        if is_text {
            return Ok(Input {
                bytes: value.as_bytes().to_vec(),
                form: Form::Text,
            });
        }
        let bytes = match (value, value.strip_prefix('@')) {
            ("-", _) => read_bounded(io::stdin().lock(), None)?,
            (_, Some(path)) => {
                let path = Path::new(path);
                let file = File::open(path).map_err(|cause| Failure::io("read the value", Some(path), &cause))?;
                read_bounded(file, Some(path))?
            }
            (text, None) => text.as_bytes().to_vec(),
        };
        Ok(Input {
            bytes,
            form: if is_base64 { Form::Base64 } else { Form::Json },
        })
    }

    /// The bytes to store where this codec is used.
    pub fn encode(self, codec: CodecId) -> Result<Vec<u8>, Failure> {
        match (self.form, codec) {
            (Form::Text, CodecId::Json) => {
                let text = String::from_utf8_lossy(&self.bytes);
                json::quote(&text)
            }
            (Form::Json, CodecId::Json) => compact(&self.bytes),
            (Form::Base64, CodecId::Json) => compact(&decode_base64(&self.bytes)?),
            (Form::Base64, _) => decode_base64(&self.bytes),
            (Form::Text | Form::Json, _) => {
                let message = format!("what stands here is bytes; give them with --base64, codec={codec}");
                Err(Failure::invalid(message))
            }
        }
    }
}

fn compact(text: &[u8]) -> Result<Vec<u8>, Failure> {
    Json::compact(text).map_err(|cause| {
        Failure::invalid("the value is no JSON that can be kept; --text takes it as a text").because(&cause)
    })
}

/// Reads to the end, or one byte more than is allowed.
fn read_bounded(source: impl Read, path: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(INPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|cause| Failure::io("read the value", path, &cause))?;
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(Failure::too_large(format!(
            "value too large to be read, bytes_max={INPUT_BYTES_MAX}"
        )));
    }
    Ok(bytes)
}

fn decode_base64(text: &[u8]) -> Result<Vec<u8>, Failure> {
    // A file or a pipe ends with a newline that nobody meant.
    BASE64
        .decode(text.trim_ascii())
        .map_err(|cause| Failure::invalid("the value is not base64").because(&cause))
}

/// Bytes as base64.
pub fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}
