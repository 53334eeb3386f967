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
    /// `Invalid` if the text is no JSON value, or one that no program could read back: it nests in more than
    /// [`VALUE_DEPTH_MAX`] levels, of which the innermost value is one, or has a half of a surrogate pair. A number is not
    /// looked at: one that exceeds what 64 bits hold is kept as it is, for programs that read it.
    pub fn compact(text: &[u8]) -> Result<Vec<u8>> {
        serde_json::from_slice::<&RawValue>(text)
            .map_err(|cause| Error::with_source(ErrorKind::Invalid, "the value is not JSON", cause))?;
        let mut out = Vec::with_capacity(text.len());
        let mut in_text = false;
        let mut escaped = false;
        let mut begins = 0;
        let mut depth: usize = 1;
        for (at, &byte) in text.iter().enumerate() {
            if !in_text && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                continue;
            }
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' if in_text => {
                    in_text = false;
                    readable(text.get(begins..=at).unwrap_or_default())?;
                }
                b'"' => (in_text, begins) = (true, at),
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

/// Whether a JSON text, with its quotes, is one of Unicode.
fn readable(quoted: &[u8]) -> Result<()> {
    if !quoted.contains(&b'\\') {
        return Ok(());
    }
    let read: Result<String, _> = serde_json::from_slice(quoted);
    read.map(drop)
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, "the value is JSON that cannot be read back", cause))
}
