//! What is stored of a message: its body, written once; its row, which each step of its life rewrites; its last errors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::queue::OnDead;
use super::retry::Retry;
use crate::codec::hex;
use crate::error::{Error, ErrorKind};
use crate::limits::{ERROR_TEXT_BYTES_MAX, ERRORS_KEPT_MAX};

/// The number of a message within its queue. Numbers grow in the order of the commits that enqueue, and none is given twice;
/// there are gaps, since a queue counts other things with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub(crate) u64);

impl MessageId {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for MessageId {
    fn from(number: u64) -> MessageId {
        MessageId(number)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// 128 random bits by which the far end recognises an effect: the same over all deliveries of a message, over restores, and
/// over replays unless a new one is asked for. Its text form is 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub(crate) [u8; 16]);

impl EffectId {
    /// The bits.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for EffectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "EffectId({self})")
    }
}

impl FromStr for EffectId {
    type Err = Error;

    /// # Errors
    /// `Invalid` for anything but 32 hex digits.
    fn from_str(text: &str) -> Result<EffectId, Error> {
        let bytes = hex::decode(text);
        bytes
            .map(EffectId)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "an effect id is 32 hex digits"))
    }
}

/// Why a message is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// It failed as often as its retry allows.
    Failed,
    /// It failed when it was too old to be tried again.
    GaveUp,
    /// As many of its deliveries as its retry allows were never answered: it may kill its process.
    Interrupted,
    /// Its time to be delivered was over.
    Expired,
    /// A handler said that it can never be delivered.
    Buried,
    /// Its payload is no message of the type that the handler takes.
    Undecodable,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 6] = [
        Reason::Failed,
        Reason::GaveUp,
        Reason::Interrupted,
        Reason::Expired,
        Reason::Buried,
        Reason::Undecodable,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Reason::Failed => "failed",
            Reason::GaveUp => "gave up",
            Reason::Interrupted => "interrupted",
            Reason::Expired => "expired",
            Reason::Buried => "buried",
            Reason::Undecodable => "undecodable",
        })
    }
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stand {
    /// It waits for an earlier one of its key.
    Behind,
    /// It can be claimed once it is due.
    Waiting,
    /// Somebody delivers it.
    Claimed,
    /// It is a dead letter.
    Dead(Reason),
}

/// What changes of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Where it stands.
    pub stand: Stand,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Its place in the line of its key; 0 once it was passed as a dead letter.
    pub line: u64,
    /// When it may be delivered, in schedule nanoseconds; as an entry of the index says it while it waits.
    pub due_ns: i64,
    /// Its place among those that are due at the same moment, or among the dead.
    pub turn: u64,
    /// The fence of the last claim, as long as that is honoured; 0 if none is.
    pub fence: u64,
    /// Claims, failures and interruptions since it was enqueued or replayed.
    pub attempts: u32,
    /// See `attempts`.
    pub failures: u32,
    /// See `attempts`.
    pub interruptions: u32,
    /// The active time of its queue from which its age counts: its first delivery, moved on by each deferral.
    pub aged_from_ns: Option<i64>,
    /// Until when a claim of a program that is not running is honoured, in schedule nanoseconds.
    pub kept_until_ns: Option<i64>,
    /// Schedule nanoseconds of its death.
    pub died_ns: i64,
    /// How often it was replayed.
    pub replays: u32,
    /// Length of its payload.
    pub bytes: u64,
}

impl Row {
    /// Whether `fence` is of the last claim, and nobody else has claimed or ended the message since.
    pub fn is_current(&self, fence: u64) -> bool {
        fence != 0 && self.fence == fence && matches!(self.stand, Stand::Claimed | Stand::Waiting)
    }

    /// Its key, if it has a place in the line of one.
    pub fn in_line(&self) -> Option<&[u8]> {
        self.key.as_deref().filter(|_| self.line != 0)
    }

    /// Whether something may have gone wrong with it; what did is kept beside it.
    pub fn may_have_errors(&self) -> bool {
        [self.failures, self.interruptions, self.replays] != [0; 3] || matches!(self.stand, Stand::Dead(_))
    }
}

/// What stays of a message; the payload lies behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) effect_id: EffectId,
    pub(crate) enqueued_ns: i64,
    pub(crate) expires_ns: Option<i64>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) retry: Retry,
    pub(crate) on_dead: OnDead,
    /// The remembered key in whose work it was enqueued, as it is stored.
    pub(crate) once: Option<Vec<u8>>,
}

/// One thing that went wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub(crate) at_ns: i64,
    pub(crate) attempt: u32,
    pub(crate) text: String,
}

impl Failure {
    /// Which delivery it was, from 1 on, since the message was enqueued or replayed.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When.
    pub fn at(&self) -> std::time::SystemTime {
        crate::codec::time::wall_time(self.at_ns)
    }

    /// What was said of it, cut off at [`ERROR_TEXT_BYTES_MAX`].
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The last errors of a message, the newest last.
pub(crate) type Failures = Vec<Failure>;

/// Adds one, and drops the first if there are too many.
pub(super) fn push_failure(failures: &mut Failures, at_ns: i64, attempt: u32, text: &str) {
    let mut end = text.len().min(ERROR_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default().to_owned();
    failures.push(Failure { at_ns, attempt, text });
    if failures.len() > ERRORS_KEPT_MAX {
        failures.drain(..failures.len() - ERRORS_KEPT_MAX);
    }
}
