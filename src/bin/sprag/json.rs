//! JSON as text: checked, never read into numbers, so that nothing in it can change.

use std::borrow::Cow;

use serde::{Serialize as _, Serializer};
use serde_json::value::RawValue;

use crate::answer::is_obeyed;
use crate::failure::Failure;

/// A text as a JSON text.
pub fn quote(text: &str) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(text).map_err(|cause| Failure::invalid("the text has no form as JSON").because(&cause))
}

/// A stored value, to be printed as it is.
pub fn stored(bytes: &[u8]) -> Result<&RawValue, Failure> {
    serde_json::from_slice(bytes)
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

/// The same without what a terminal would obey. It can only stand inside of texts, where its number means the same.
pub fn printable(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for character in one_line(value).chars() {
        if is_obeyed(character) {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out
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
