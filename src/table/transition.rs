//! State transitions: a record moves from one state to another, with or without a new value.

use super::catalog::TableInfo;
use crate::codec::Version;
use crate::codec::envelope::Envelope;
use crate::error::{Error, ErrorKind, Result};
use crate::machine::decide::{TransitionVerdict, Why, decide_transition};
use crate::record::decide::version_after;
use crate::record::{self, Found, Raw};
use crate::txn::Txn;

/// What a transition did. `Refused` means that nothing was written.
#[must_use = "a refused transition means that nothing was written"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transitioned {
    /// The record was in `from` and now is in `to`, at this version.
    Applied(Version),
    /// The record already is in `to`; by whom it was moved is not known. Nothing was written.
    AlreadyThere(Version),
    /// The record is elsewhere. Nothing was written.
    Refused(Refusal),
}

/// Why a transition was refused, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where the state found lies.
    pub why: Why,
    /// The record as it is.
    pub found: Found,
}

impl Transitioned {
    /// The version, if the record now is in the state asked for.
    ///
    /// # Errors
    /// `Conflict`, carrying what was found.
    pub fn or_abort(self) -> Result<Version> {
        match self {
            Transitioned::Applied(version) | Transitioned::AlreadyThere(version) => Ok(version),
            Transitioned::Refused(refusal) => Err(record::conflict(refusal.found)),
        }
    }
}

/// Decides a transition and writes it. Without a new value the old one stays.
pub(crate) fn transition(
    txn: &mut Txn,
    info: &TableInfo,
    key: Vec<u8>,
    from: &str,
    to: &str,
    value: Option<&[u8]>,
) -> Result<Transitioned> {
    let Some(machine) = info.machine() else {
        let message = format!("table has no states, table={}", info.name());
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    if let Some(value) = value {
        record::check_value(value)?;
    }
    let stored = record::read(txn, &key)?;
    let state = stored.as_ref().map(|raw| raw.state.as_deref());
    match (decide_transition(machine, state, from, to)?, stored) {
        (TransitionVerdict::Apply, Some(raw)) => {
            let version = version_after(raw.version.get())?;
            let record = Envelope {
                version,
                state: Some(to),
                value: value.unwrap_or(&raw.value),
            };
            record::write(txn, info.id, key, Some(&raw), &record)?;
            Ok(Transitioned::Applied(version))
        }
        (TransitionVerdict::AlreadyThere, Some(raw)) => Ok(Transitioned::AlreadyThere(raw.version)),
        (TransitionVerdict::Refused(why), stored) => Ok(refused(why, stored, info)),
        (_, None) => Ok(refused(Why::Missing, None, info)),
    }
}

fn refused(why: Why, stored: Option<Raw>, info: &TableInfo) -> Transitioned {
    let found = match stored {
        Some(raw) => raw.found(info.codec()),
        None => record::found_nothing(info.codec()),
    };
    Transitioned::Refused(Refusal { why, found })
}
