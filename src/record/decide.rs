//! Conditions of a write and what comes of them. Pure: what is stored and what is offered go in, a verdict comes out.

use crate::codec::Version;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// What must hold for a write.
///
/// | condition | no record | a record with other bytes or state | the very bytes offered |
/// |---|---|---|---|
/// | `Any` | applied | applied | unchanged |
/// | `Absent` | applied | conflict | unchanged |
/// | `Present` | conflict | applied | unchanged |
/// | `Version(n)` | conflict | at n applied, else conflict | at n applied, at n + 1 unchanged, else conflict |
///
/// A delete without a record is "already gone" under every condition. With a record it is applied under `Any` and `Present`,
/// under `Version(n)` at n, and a conflict otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Nothing.
    Any,
    /// There is no record.
    Absent,
    /// There is a record.
    Present,
    /// The record is at this version. 0 is `Invalid`.
    Version(u64),
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Any => out.write_str("any"),
            Condition::Absent => out.write_str("absent"),
            Condition::Present => out.write_str("present"),
            Condition::Version(number) => write!(out, "version {number}"),
        }
    }
}

/// The record as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Its version.
    pub version: Version,
    /// Its state, if the table has states.
    pub state: Option<&'a str>,
    /// Its value as encoded.
    pub value: &'a [u8],
}

/// The record as a put would make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered<'a> {
    /// The value as encoded.
    pub value: &'a [u8],
    /// The state in which a record is created: the one named in the call, or the initial one of the machine. An existing
    /// record keeps its own.
    pub state: Option<&'a str>,
}

/// What to do about a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutVerdict<'a> {
    /// Write the offered value with this version and state.
    Apply {
        /// One above the stored version, or above the highest version ever removed from the table.
        version: Version,
        /// The state after the write.
        state: Option<&'a str>,
    },
    /// The record is what this put would have made it.
    Unchanged(Version),
    /// The condition does not hold.
    Conflict,
}

/// What to do about a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteVerdict {
    /// Remove the record.
    Apply,
    /// There is no record.
    AlreadyGone,
    /// The condition does not hold.
    Conflict,
}

/// Judges a put. `removed_max` is the highest version ever removed from the table, 0 if none was.
///
/// # Errors
/// `Invalid` for `Version(0)`; `TooLarge` if the key has had every version there is.
pub fn decide_put<'a>(
    condition: Condition,
    stored: Option<Stored<'a>>,
    offered: Offered<'a>,
    removed_max: u64,
) -> Result<PutVerdict<'a>> {
    check(condition)?;
    let Some(stored) = stored else {
        return match condition {
            Condition::Any | Condition::Absent => {
                let version = version_after(removed_max)?;
                Ok(PutVerdict::Apply {
                    version,
                    state: offered.state,
                })
            }
            Condition::Present | Condition::Version(_) => Ok(PutVerdict::Conflict),
        };
    };
    let same_value = stored.value == offered.value;
    let at = stored.version.get();
    let unchanged = match condition {
        Condition::Any | Condition::Present => same_value,
        // What a create would have made also has the state of a new record.
        Condition::Absent => same_value && stored.state == offered.state,
        Condition::Version(seen) => same_value && seen.checked_add(1) == Some(at),
    };
    let applies = match condition {
        Condition::Any | Condition::Present => true,
        Condition::Absent => false,
        Condition::Version(seen) => seen == at,
    };
    match (unchanged, applies) {
        (true, _) => Ok(PutVerdict::Unchanged(stored.version)),
        (false, true) => Ok(PutVerdict::Apply {
            version: version_after(at)?,
            state: stored.state,
        }),
        (false, false) => Ok(PutVerdict::Conflict),
    }
}

/// Judges a delete.
///
/// # Errors
/// `Invalid` for `Version(0)`.
pub fn decide_delete(condition: Condition, stored: Option<Version>) -> Result<DeleteVerdict> {
    check(condition)?;
    let Some(version) = stored else {
        return Ok(DeleteVerdict::AlreadyGone);
    };
    if holds(condition, Some(version))? {
        Ok(DeleteVerdict::Apply)
    } else {
        Ok(DeleteVerdict::Conflict)
    }
}

/// Whether a condition holds for a key with this version, or without a record.
///
/// # Errors
/// `Invalid` for `Version(0)`.
pub fn holds(condition: Condition, stored: Option<Version>) -> Result<bool> {
    check(condition)?;
    Ok(match condition {
        Condition::Any => true,
        Condition::Absent => stored.is_none(),
        Condition::Present => stored.is_some(),
        Condition::Version(seen) => stored.is_some_and(|version| version.get() == seen),
    })
}

/// The version after this number.
///
/// # Errors
/// `TooLarge` after the last version, which only a damaged or forged file comes near.
pub fn version_after(number: u64) -> Result<Version> {
    let next = match Version::try_from(number) {
        Ok(version) => version.next(),
        Err(_) => Some(Version::FIRST),
    };
    next.ok_or_else(|| {
        Error::new(
            ErrorKind::TooLarge,
            format!("no version is left, version_max={}", u64::MAX),
        )
    })
}

fn check(condition: Condition) -> Result<()> {
    match condition {
        Condition::Version(0) => Err(Error::new(
            ErrorKind::Invalid,
            "versions start at 1, condition=version 0",
        )),
        _ => Ok(()),
    }
}
