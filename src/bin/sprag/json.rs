//! JSON as text: checked, never read into numbers, so that nothing in it can change.

use serde_json::value::RawValue;

use crate::failure::Failure;

/// The value with the whitespace outside of its texts left out. Numbers, escapes and the order of fields stay as they are,
/// also fields that are named twice.
pub fn compact(text: &[u8]) -> Result<Vec<u8>, Failure> {
    check(text)
        .map_err(|cause| Failure::invalid("the value is not JSON; --text takes it as a text").because(&cause))?;
    let mut out = Vec::with_capacity(text.len());
    let mut in_text = false;
    let mut escaped = false;
    for &byte in text {
        if !in_text && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        out.push(byte);
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ => {}
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

fn check(text: &[u8]) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_slice(text)
}
