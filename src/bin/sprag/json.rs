//! JSON as text: checked, never read into numbers, so that nothing in it can change.

use serde_json::value::RawValue;

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
