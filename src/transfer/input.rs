//! The lines of an input, one at a time, with a digest over all that were read.

use std::io::{BufRead, Read as _};

use super::lines::invalid;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::EXPORT_LINE_BYTES_MAX;

pub(super) struct Input<R> {
    source: R,
    /// Lines that were read.
    pub(super) number: u64,
    digest: blake3::Hasher,
    /// As it was before the last line.
    before: blake3::Hasher,
}

impl<R: BufRead> Input<R> {
    pub(super) fn new(source: R) -> Input<R> {
        Input {
            source,
            number: 0,
            digest: blake3::Hasher::new(),
            before: blake3::Hasher::new(),
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// `TooLarge` for a line that is too long, `Invalid` for one that is no text, `Io`.
    pub(super) fn next(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        let max = EXPORT_LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.source).take(max).read_until(b'\n', &mut line);
        read.map_err(|cause| Error::io("read the export", None, cause))?;
        if line.len() > EXPORT_LINE_BYTES_MAX {
            let message = format!("line too long, bytes_max={EXPORT_LINE_BYTES_MAX}");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if line.is_empty() {
            return Ok(None);
        }
        self.before.clone_from(&self.digest);
        self.digest.update(&line);
        self.number += 1;
        let line = String::from_utf8(line).map_err(|_| invalid("the line is not UTF-8"))?;
        Ok(Some(line))
    }

    /// Over the bytes of every line before the last one that was read, as text.
    pub(super) fn digest_before(&self) -> String {
        self.before.finalize().to_string()
    }

    /// Over the bytes of every line that was read.
    pub(super) fn digest(&self) -> [u8; 32] {
        *self.digest.finalize().as_bytes()
    }
}
