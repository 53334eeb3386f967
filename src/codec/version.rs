//! The version of a record: grows with each write of its key, and never comes again.
//!
//! No arithmetic but [`Version::next`], so that nobody gives a version twice by accident.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;

/// How often a record was written. Grows by one with each write and is never given twice to a key.
///
/// A new record starts at 1 in a table that never removed one, and else one above the highest version that was ever removed
/// from the table: so also a key that was never there can start above 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version of a new record in a table that never removed one.
    pub const FIRST: Version = Version(NonZeroU64::MIN);

    /// The number, at least 1.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The version after this one, or `None` after the last that exists (2^64 - 1).
    pub fn next(self) -> Option<Version> {
        self.0.checked_add(1).map(Version)
    }
}

impl TryFrom<u64> for Version {
    type Error = Error;

    /// # Errors
    /// `Invalid` for 0, which no record ever has.
    fn try_from(number: u64) -> Result<Version> {
        match NonZeroU64::new(number) {
            Some(number) => Ok(Version(number)),
            None => Err(Error::new(ErrorKind::Invalid, "versions start at 1, version=0")),
        }
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> u64 {
        version.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}
