//! The lines of queues and messages: how each is written, and what is made of it.
//!
//! The messages of a queue come in two passes, those that wait for an earlier one of their key behind all others, so that the
//! head of each line is there before what waits for it.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::lines::{base64, from_base64, invalid};
use crate::batch::json::{encode_value, given, value_text};
use crate::codec::{CodecId, DynKey, KeyKind};
use crate::dedupe::{self, Keep, OnceKey};
use crate::engine::Span;
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::arrive::{Arriving, Standing};
use crate::outbox::keys::{self, Kind};
use crate::outbox::row::{Body, EffectId, Failure, Row, Stand};
use crate::outbox::{DynQueue, OnDead, QueueInfo, Reason, Retry, entries};
use crate::record;
use crate::txn::Txn;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueLine {
    line: String,
    pub(super) name: String,
    codec: String,
    at_most_once: bool,
    next: u64,
    interruptions: u64,
    discarded: u64,
    paused_since_ns: Option<i64>,
    paused_ns: u64,
}

/// A queue as a line describes it.
pub(super) struct QueueRead {
    pub(super) queue: DynQueue,
    pub(super) standing: Standing,
}

impl QueueLine {
    pub(super) const WORD: &'static str = "queue";

    pub(super) fn of(txn: &Txn, info: &QueueInfo) -> Result<QueueLine> {
        let standing = Standing::of(&entries::read_tally(txn, info.id)?);
        Ok(QueueLine {
            line: QueueLine::WORD.to_owned(),
            name: info.name().to_owned(),
            codec: info.codec().to_string(),
            at_most_once: info.is_at_most_once(),
            next: standing.next,
            interruptions: standing.interruptions,
            discarded: standing.discarded,
            paused_since_ns: standing.paused_since_ns,
            paused_ns: standing.paused_ns,
        })
    }

    pub(super) fn read(self) -> Result<QueueRead> {
        let codec: CodecId = self.codec.parse()?;
        let standing = Standing {
            next: self.next,
            interruptions: self.interruptions,
            discarded: self.discarded,
            paused_since_ns: self.paused_since_ns,
            paused_ns: self.paused_ns,
        };
        let queue = DynQueue::new(self.name, codec).at_most_once(self.at_most_once);
        Ok(QueueRead { queue, standing })
    }
}

/// Where a message stands. One that somebody delivers waits: its claim does not go along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StandText {
    Waiting,
    Blocked,
    Dead,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnceText {
    scope: String,
    key: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageLine {
    line: String,
    pub(super) queue: String,
    id: u64,
    key: Option<String>,
    place: u64,
    stand: StandText,
    reason: Option<String>,
    due_ns: i64,
    turn: u64,
    attempts: u32,
    failures: u32,
    interruptions: u32,
    aged_from_ns: Option<i64>,
    died_ns: i64,
    replays: u32,
    effect_id: String,
    enqueued_ns: i64,
    expires_ns: Option<i64>,
    headers: Vec<(String, String)>,
    retry: Retry,
    on_dead: OnDead,
    once: Option<OnceText>,
    errors: Vec<Failure>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    /// In place of a value that its codec does not write so: its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

impl MessageLine {
    pub(super) const WORD: &'static str = "message";

    fn of(txn: &Txn, info: &QueueInfo, id: u64, row: Row) -> Result<MessageLine> {
        let (body, payload) = entries::read_body(txn, info.id, id)?;
        let (stand, reason) = match row.stand {
            Stand::Behind => (StandText::Blocked, None),
            Stand::Waiting | Stand::Claimed => (StandText::Waiting, None),
            Stand::Dead(reason) => (StandText::Dead, Some(reason.to_string())),
        };
        let value = match value_text(info.codec(), &payload) {
            Ok(value) => Some(to_raw_value(&value).map_err(unwritable)?),
            // JSON that is not as a queue of JSON messages writes it would come back as other bytes.
            Err(_) if info.codec() == CodecId::Json => None,
            Err(cause) => return Err(cause),
        };
        let text_of = |key: &[u8]| DynKey::Bytes(key.to_vec()).to_string();
        let once = body.once.as_deref().map(|stored| {
            let (scope, key) = dedupe::name_of(stored).unwrap_or_default();
            OnceText {
                scope: String::from_utf8_lossy(scope).into_owned(),
                key: text_of(key),
            }
        });
        Ok(MessageLine {
            line: MessageLine::WORD.to_owned(),
            queue: info.name().to_owned(),
            id,
            key: row.key.as_deref().map(text_of),
            place: row.line,
            stand,
            reason,
            due_ns: row.due_ns,
            turn: row.turn,
            attempts: row.attempts,
            failures: row.failures,
            interruptions: row.interruptions,
            aged_from_ns: row.aged_from_ns,
            died_ns: row.died_ns,
            replays: row.replays,
            effect_id: body.effect_id.to_string(),
            enqueued_ns: body.enqueued_ns,
            expires_ns: body.expires_ns,
            headers: body.headers,
            retry: body.retry,
            on_dead: body.on_dead,
            once,
            errors: entries::read_failures(txn, info.id, id)?,
            raw: value.is_none().then(|| base64(&payload)),
            value,
        })
    }

    /// The message, if it is one of a queue with this codec.
    pub(super) fn read(self, codec: CodecId) -> Result<Arriving> {
        let payload = match (&self.value, &self.raw) {
            (Some(value), None) => encode_value(value, codec)?,
            (None, Some(raw)) => from_base64(raw)?,
            _ => return Err(invalid("a message has either a value or raw")),
        };
        record::check_value(&payload)?;
        let effect_id: EffectId = self.effect_id.parse()?;
        let once = self.once.as_ref().map(stored_key).transpose()?;
        Ok(Arriving {
            id: self.id,
            row: Row {
                stand: stand_of(self.stand, self.reason.as_deref())?,
                key: self.key.as_deref().map(bytes_of).transpose()?,
                line: self.place,
                due_ns: self.due_ns,
                turn: self.turn,
                fence: 0,
                attempts: self.attempts,
                failures: self.failures,
                interruptions: self.interruptions,
                aged_from_ns: self.aged_from_ns,
                kept_until_ns: None,
                died_ns: self.died_ns,
                replays: self.replays,
                bytes: payload.len() as u64,
            },
            body: Body {
                effect_id,
                enqueued_ns: self.enqueued_ns,
                expires_ns: self.expires_ns,
                headers: self.headers,
                retry: self.retry,
                on_dead: self.on_dead,
                once,
            },
            payload,
            errors: self.errors,
        })
    }
}

/// Gives `each` the messages of a queue in the order of an export.
pub(super) fn each(txn: &Txn, info: &QueueInfo, mut each: impl FnMut(&MessageLine) -> Result<()>) -> Result<()> {
    for are_blocked in [false, true] {
        let mut scan = txn.scan(&rows_of(info))?;
        while let Some(entry) = scan.step() {
            let (key, bytes) = entry?;
            let row = entries::decode_row(key, bytes)?;
            if (row.stand == Stand::Behind) == are_blocked {
                let id = keys::number(key).unwrap_or_default();
                each(&MessageLine::of(txn, info, id, row).map_err(|cause| in_message(info, id, cause))?)?;
            }
        }
    }
    Ok(())
}

pub(super) fn count(txn: &Txn, info: &QueueInfo) -> Result<u64> {
    let mut messages = 0;
    let mut scan = txn.scan(&rows_of(info))?;
    while let Some(entry) = scan.step() {
        entry?;
        messages += 1;
    }
    Ok(messages)
}

fn rows_of(info: &QueueInfo) -> Span {
    Span::prefix(&keys::prefix(info.id, Kind::Row, 0))
}

fn in_message(info: &QueueInfo, id: u64, cause: Error) -> Error {
    cause.within(format!("queue={:?}, message={id}", info.name()))
}

fn unwritable(cause: serde_json::Error) -> Error {
    Error::with_source(ErrorKind::Invalid, "a line has no form as JSON", cause)
}

fn stand_of(stand: StandText, reason: Option<&str>) -> Result<Stand> {
    match (stand, reason) {
        (StandText::Waiting, None) => Ok(Stand::Waiting),
        (StandText::Blocked, None) => Ok(Stand::Behind),
        (StandText::Dead, Some(text)) => {
            let reason = Reason::ALL.into_iter().find(|reason| reason.to_string() == text);
            reason
                .map(Stand::Dead)
                .ok_or_else(|| invalid("no reason of a dead letter"))
        }
        _ => Err(invalid("a dead letter has a reason, and no other message has one")),
    }
}

fn bytes_of(text: &str) -> Result<Vec<u8>> {
    match DynKey::parse(&KeyKind::Bytes, text)? {
        DynKey::Bytes(key) => Ok(key),
        _ => Err(invalid("the key is not bytes")),
    }
}

fn stored_key(once: &OnceText) -> Result<Vec<u8>> {
    let key = OnceKey::new(once.scope.as_str(), bytes_of(&once.key)?, Keep::Forever);
    key.check()?;
    Ok(key.stored_key().to_vec())
}
