//! Looking at queues: how they stand, and their messages one by one.

use std::time::{Duration, SystemTime};

use super::catalog::QueueInfo;
use super::entries::{damaged, decode_row, read_body, read_failures, read_row, read_tally, waiting};
use super::keys::{self, Kind};
use super::row::{Body, EffectId, Failure, MessageId, Reason, Row, Stand};
use super::tally::Mark;
use crate::codec::time::wall_time;
use crate::error::Result;
use crate::txn::Txn;

/// How a queue stands. Kept with each commit, so that asking costs the same at any length: only what came due since the last
/// commit of the queue is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub queue: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Messages that can be claimed now.
    pub ready: u64,
    /// Messages that are due later.
    pub scheduled: u64,
    /// Messages that somebody delivers.
    pub claimed: u64,
    /// Messages that wait for an earlier one of their key.
    pub blocked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Payload of all messages in bytes, the dead ones too.
    pub bytes: u64,
    /// For how long the message that is claimed next has been ready.
    pub oldest_ready_age: Option<Duration>,
    /// Claims that were never answered, since the queue was made.
    pub interruptions: u64,
    /// Messages that were discarded, since the queue was made.
    pub discarded: u64,
    /// Answers under superseded claims, since the store was opened.
    pub stale: u64,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageState {
    /// It can be claimed.
    Ready,
    /// It is due later.
    Scheduled,
    /// Somebody delivers it.
    Claimed,
    /// It waits for an earlier one of its key.
    Blocked,
    /// It is a dead letter.
    Dead(Reason),
}

/// A message, looked at from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageInfo {
    /// Its number.
    pub id: MessageId,
    /// Where it stands.
    pub state: MessageState,
    /// The key within which the order is kept.
    pub key: Option<Vec<u8>>,
    /// When it is, or was, due.
    pub due: SystemTime,
    /// By what the far end recognises its effect.
    pub effect_id: EffectId,
    /// Deliveries since it was enqueued or replayed.
    pub attempts: u32,
    /// How many of them failed.
    pub failures: u32,
    /// How many of them were never answered.
    pub interruptions: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// Wall time of the commit that enqueued it.
    pub enqueued_at: SystemTime,
    /// When it became a dead letter.
    pub died_at: Option<SystemTime>,
    /// From when on it is not delivered any more.
    pub expires_at: Option<SystemTime>,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// Its last errors, the newest last.
    pub errors: Vec<Failure>,
    /// The payload as it is stored.
    pub payload: Vec<u8>,
}

/// How a queue stands, but for stale answers, which no file knows.
pub(crate) fn stats(txn: &Txn, info: &QueueInfo) -> Result<QueueStats> {
    let tally = read_tally(txn, info.id)?;
    let now_ns = txn.now().schedule_ns;
    let end = Mark::end_of(now_ns);
    let ready = if end < tally.counted {
        // The clock went back.
        let over = waiting(txn, info.id, end, tally.counted, usize::MAX)?;
        tally.ready.saturating_sub(over.len() as u64)
    } else if tally.next_due_ns <= now_ns {
        tally
            .ready
            .saturating_add(waiting(txn, info.id, tally.counted, end, usize::MAX)?.len() as u64)
    } else {
        tally.ready
    };
    let first = if ready == 0 {
        None
    } else {
        waiting(txn, info.id, tally.head, end, 1)?.first().copied()
    };
    let age = first.map(|(mark, _)| u64::try_from(now_ns.saturating_sub(mark.due_ns)).unwrap_or(0));
    Ok(QueueStats {
        queue: info.name().to_owned(),
        paused: tally.paused_since_ns.is_some(),
        ready,
        scheduled: tally.waiting.saturating_sub(ready),
        claimed: tally.claimed,
        blocked: tally.blocked,
        dead: tally.dead,
        bytes: tally.bytes,
        oldest_ready_age: age.map(Duration::from_nanos),
        interruptions: tally.interruptions,
        discarded: tally.discarded,
        stale: 0,
    })
}

/// One message.
pub(crate) fn find(txn: &Txn, queue: u32, id: MessageId) -> Result<Option<MessageInfo>> {
    match read_row(txn, queue, id.0)? {
        Some(row) => info_of(txn, queue, id, row).map(Some),
        None => Ok(None),
    }
}

/// Messages behind `after` in the order of their numbers, at most `limit`; of the dead, in the order of their deaths.
pub(crate) fn messages(txn: &Txn, queue: u32, after: Option<MessageId>, limit: usize) -> Result<Vec<MessageInfo>> {
    let mut found = Vec::new();
    let mut scan = txn.scan(&keys::numbered_behind(queue, Kind::Row, after.map_or(0, |id| id.0)))?;
    while found.len() < limit
        && let Some(entry) = scan.step()
    {
        let (key, bytes) = entry?;
        let id = keys::number(key).ok_or_else(|| damaged("row of a message"))?;
        found.push(info_of(txn, queue, MessageId(id), decode_row(key, bytes)?)?);
    }
    Ok(found)
}

/// Dead letters in the order of their deaths, at most `limit`, behind the one that is `after`.
pub(crate) fn dead(txn: &Txn, queue: u32, after: Option<MessageId>, limit: usize) -> Result<Vec<MessageInfo>> {
    let after = match after {
        Some(id) => turn_of_dead(txn, queue, id)?,
        None => 0,
    };
    numbers(txn, queue, Kind::Dead, after, limit)?
        .into_iter()
        .map(|id| {
            let row = read_row(txn, queue, id)?.ok_or_else(|| damaged("row of a message"))?;
            info_of(txn, queue, MessageId(id), row)
        })
        .collect()
}

/// The place of a dead letter among the others; before all of them if it is none.
pub(super) fn turn_of_dead(txn: &Txn, queue: u32, id: MessageId) -> Result<u64> {
    let row = read_row(txn, queue, id.0)?.filter(|row| matches!(row.stand, Stand::Dead(_)));
    Ok(row.map_or(0, |row| row.turn))
}

/// The places of an index of numbers, behind place `after`.
pub(crate) fn places(txn: &Txn, queue: u32, kind: Kind, after: u64, limit: usize) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut scan = txn.scan(&keys::numbered_behind(queue, kind, after))?;
    while found.len() < limit
        && let Some(entry) = scan.step()
    {
        let (key, _) = entry?;
        found.push(keys::number(key).ok_or_else(|| damaged("entry of a queue"))?);
    }
    Ok(found)
}

/// The numbers of messages that an index of numbers names, behind place `after`.
pub(crate) fn numbers(txn: &Txn, queue: u32, kind: Kind, after: u64, limit: usize) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut scan = txn.scan(&keys::numbered_behind(queue, kind, after))?;
    while found.len() < limit
        && let Some(entry) = scan.step()
    {
        let (_, value) = entry?;
        found.push(keys::number(value).ok_or_else(|| damaged("entry of a queue"))?);
    }
    Ok(found)
}

fn info_of(txn: &Txn, queue: u32, id: MessageId, row: Row) -> Result<MessageInfo> {
    let (body, payload) = read_body(txn, queue, id.0)?;
    let errors = read_failures(txn, queue, id.0)?;
    let Body {
        effect_id,
        enqueued_ns,
        expires_ns,
        headers,
        ..
    } = body;
    let died_ns = matches!(row.stand, Stand::Dead(_)).then_some(row.died_ns);
    Ok(MessageInfo {
        id,
        state: match row.stand {
            Stand::Behind => MessageState::Blocked,
            Stand::Waiting if row.due_ns <= txn.now().schedule_ns => MessageState::Ready,
            Stand::Waiting => MessageState::Scheduled,
            Stand::Claimed => MessageState::Claimed,
            Stand::Dead(reason) => MessageState::Dead(reason),
        },
        key: row.key,
        due: wall_time(row.due_ns),
        effect_id,
        attempts: row.attempts,
        failures: row.failures,
        interruptions: row.interruptions,
        replays: row.replays,
        enqueued_at: wall_time(enqueued_ns),
        died_at: died_ns.map(wall_time),
        expires_at: expires_ns.map(wall_time),
        headers,
        errors,
        payload,
    })
}
