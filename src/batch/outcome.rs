//! What a batch answers, and the form in which a remembered key keeps it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::decide::{Ballot, Vote};
use crate::codec::{Bincode, Codec, Version};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::decide::Why;
use crate::outbox::MessageId;
use crate::record::{self, Found};

/// How one operation of a batch stood against the state that the batch met.
///
/// The version is the one that the operation's record has once the batch is applied, or had until it was removed; of a
/// batch that was not applied, the one that it would have been. A check, and a record that is gone, have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its condition holds.
    Holds(Option<Version>),
    /// It has no condition, so it has no vote.
    Unguarded(Option<Version>),
    /// The record already is what it would have made it; by whom is not known.
    Already(Option<Version>),
    /// Its condition does not hold.
    Fails {
        /// The record as it is.
        found: Found,
        /// For a transition, where the state found lies.
        why: Option<Why>,
    },
    /// A message, which has no condition and so no vote, and is never already there: its number in its queue. Of a batch that was
    /// not applied, the one that it would have been.
    Enqueued(MessageId),
}

/// What became of a batch. `Rejected` means that nothing was written.
#[must_use = "a rejected batch means that nothing was written"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was written, in one commit.
    Applied {
        /// One for each operation, in order.
        verdicts: Vec<Verdict>,
    },
    /// Every operation is already so; by whom is not known. Nothing was written but the remembered key, if there is one.
    Already {
        /// One for each operation, in order.
        verdicts: Vec<Verdict>,
    },
    /// The remembered key of this very batch is there: it was done before. Nothing was written.
    Repeat {
        /// What the first delivery was told.
        verdicts: Vec<Verdict>,
        /// Wall time of the first delivery's commit.
        first_at: SystemTime,
    },
    /// An operation fails, or some are already so and others are not. Nothing was written, also no key.
    Rejected(Vec<Verdict>),
}

impl Outcome {
    /// The verdicts, one for each operation, in order.
    pub fn verdicts(&self) -> &[Verdict] {
        match self {
            Outcome::Applied { verdicts }
            | Outcome::Already { verdicts }
            | Outcome::Repeat { verdicts, .. }
            | Outcome::Rejected(verdicts) => verdicts,
        }
    }

    /// The verdicts, if the batch was applied, by this call or before.
    ///
    /// # Errors
    /// `Conflict`, carrying what the first failing operation found, if one fails.
    pub fn or_abort(self) -> Result<Vec<Verdict>> {
        match self {
            Outcome::Applied { verdicts } | Outcome::Already { verdicts } | Outcome::Repeat { verdicts, .. } => {
                Ok(verdicts)
            }
            Outcome::Rejected(verdicts) => Err(rejected(verdicts)),
        }
    }
}

fn rejected(verdicts: Vec<Verdict>) -> Error {
    for (place, verdict) in verdicts.into_iter().enumerate() {
        if let Verdict::Fails { found, .. } = verdict {
            let message = format!("batch is rejected, operation={place}");
            return record::conflict_saying(&message, found);
        }
    }
    Error::new(
        ErrorKind::Conflict,
        "batch is rejected: some of it is already so, and some is not",
    )
}

impl Verdict {
    /// What it says when votes are counted. An operation that `votes` has a condition; a check writes nothing.
    pub(super) fn ballot(&self, votes: bool, is_check: bool) -> Ballot {
        let vote = match self {
            Verdict::Holds(_) => Some(Vote::Holds),
            Verdict::Already(_) if votes => Some(Vote::Already),
            Verdict::Already(_) | Verdict::Unguarded(_) | Verdict::Enqueued(_) => None,
            Verdict::Fails { .. } => Some(Vote::Fails),
        };
        let already = matches!(self, Verdict::Already(_)) || is_check;
        Ballot { vote, already }
    }
}

/// A verdict as a remembered key keeps it: never a failing one, since such a batch leaves no key.
#[derive(Serialize, Deserialize)]
enum Kept {
    Holds(Option<Version>),
    Unguarded(Option<Version>),
    Already(Option<Version>),
    Enqueued(u64),
}

/// The verdicts as the result of a remembered key.
pub(super) fn encode_kept(verdicts: &[Verdict]) -> Result<Vec<u8>> {
    let kept: Vec<Kept> = verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Verdict::Holds(version) => Some(Kept::Holds(*version)),
            Verdict::Unguarded(version) => Some(Kept::Unguarded(*version)),
            Verdict::Already(version) => Some(Kept::Already(*version)),
            Verdict::Fails { .. } => None,
            Verdict::Enqueued(id) => Some(Kept::Enqueued(id.get())),
        })
        .collect();
    let mut bytes = Vec::new();
    Bincode::encode(&kept, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn decode_kept(bytes: &[u8]) -> Result<Vec<Verdict>> {
    let kept: Vec<Kept> = Bincode::decode(bytes)?;
    let verdict = |kept| match kept {
        Kept::Holds(version) => Verdict::Holds(version),
        Kept::Unguarded(version) => Verdict::Unguarded(version),
        Kept::Already(version) => Verdict::Already(version),
        Kept::Enqueued(id) => Verdict::Enqueued(MessageId::from(id)),
    };
    Ok(kept.into_iter().map(verdict).collect())
}
