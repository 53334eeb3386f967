//! JSON as text: checked, never read into numbers, so that nothing in it can change.

use std::borrow::Cow;

use serde::{Serialize as _, Serializer};
use serde_json::value::RawValue;

use sprag::limits::VALUE_DEPTH_MAX;

use crate::failure::Failure;

/// The value with the whitespace outside of its texts left out. Numbers, escapes and the order of fields stay as they are,
/// also fields that are named twice. Refused is what nests so deep that no program could read it back: the innermost
/// value counts as a level too.
pub fn compact(text: &[u8]) -> Result<Vec<u8>, Failure> {
    check(text)
        .map_err(|cause| Failure::invalid("the value is not JSON; --text takes it as a text").because(&cause))?;
    let mut out = Vec::with_capacity(text.len());
    let mut in_text = false;
    let mut escaped = false;
    let mut depth: usize = 1;
    for &byte in text {
        if !in_text && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        out.push(byte);
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > VALUE_DEPTH_MAX {
            return Err(Failure::invalid(format!(
                "the value nests too deep, levels_max={VALUE_DEPTH_MAX}"
            )));
        }
    }
    Ok(out)
}

/// A text as a JSON text.
pub fn quote(text: &str) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(text).map_err(|cause| Failure::invalid("the text has no form as JSON").because(&cause))
}

/// A stored value, to be printed as it is.
pub fn stored(bytes: &[u8]) -> Result<&RawValue, Failure> {
    check(bytes)
        .map_err(|cause| Failure::decode("the stored value is not JSON, though its table says so").because(&cause))
}

/// A value that is JSON, on one line: outside of its texts a newline is as good as a space, and inside of them none stands.
pub fn one_line(value: &str) -> Cow<'_, str> {
    if value.contains(['\n', '\r', '\t']) {
        Cow::Owned(value.replace(['\n', '\r', '\t'], " "))
    } else {
        Cow::Borrowed(value)
    }
}

/// Writes a value as [`one_line`] has it into an object that is one line.
pub fn on_one_line<S: Serializer>(value: &RawValue, out: S) -> Result<S::Ok, S::Error> {
    match one_line(value.get()) {
        Cow::Borrowed(_) => value.serialize(out),
        Cow::Owned(text) => RawValue::from_string(text)
            .map_err(serde::ser::Error::custom)?
            .serialize(out),
    }
}

fn check(text: &[u8]) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_slice(text)
}
