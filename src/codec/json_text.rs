//! JSON as text: checked, never read into numbers, so that nothing in it can change.

use serde_json::value::RawValue;

use super::Json;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::VALUE_DEPTH_MAX;

impl Json {
    /// A JSON value as a table of JSON values keeps it, for whoever knows a table at run time only: with the whitespace
    /// outside of its texts left out. Numbers, escapes and the order of fields stay as they are, also fields that are
    /// named twice.
    ///
    /// # Errors
    /// `Invalid` if the text is no JSON value, or nests so deep that no program could read it back: more than
    /// [`VALUE_DEPTH_MAX`] levels, of which the innermost value is one.
    pub fn compact(text: &[u8]) -> Result<Vec<u8>> {
        serde_json::from_slice::<&RawValue>(text)
            .map_err(|cause| Error::with_source(ErrorKind::Invalid, "the value is not JSON", cause))?;
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
                let message = format!("the value nests too deep, levels_max={VALUE_DEPTH_MAX}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(out)
    }
}
