//! Randomness from the operating system: the one door to it.

use crate::error::{Error, ErrorKind, Result};

/// Random bytes.
///
/// # Errors
/// `Io` if the system has none to give.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|cause| {
        let message = "the system has no randomness to give";
        Error::with_source(ErrorKind::Io, message, cause.to_string())
    })?;
    Ok(out)
}
