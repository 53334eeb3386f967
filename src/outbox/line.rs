//! The one writer of a queue's entries: each step of a message's life, and the tally with it.
//!
//! Invariants
//! - a message has a body, a row, and the index entry that its row says: one of the waiting, the claimed or the dead, and none
//!   while it waits behind another of its key;
//! - a message with a key holds a place in its line until it is acknowledged, discarded, or dead and passed; the first one
//!   stands in `Head` and is the only one of them that can be claimed;
//! - the tally counts all of it.

use std::time::SystemTime;

use super::catalog::{self, QueueInfo};
use super::decide::{Times, Verb, Verdict, decide_claim, decide_lapse, decide_replay, decide_verb};
use super::entries::{damaged, read_tally, waiting};
use super::keys::{self, Kind};
use super::queue::{OnDead, QueueDeclared, Terms, When};
use super::row::{Body, EffectId, MessageId, Reason, Row, Stand};
use super::tally::{Mark, Tally};
use crate::codec::time::wall_time;
use crate::engine::Bytes;
use crate::error::Result;
use crate::lease::{Fences, Leases};
use crate::limits::CLAIM_BYTES_MAX;
use crate::random;
use crate::txn::Txn;

/// How many entries one transaction counts or lets expire, so that none takes long.
pub(super) const AT_ONCE: usize = 1000;

/// A queue, open to be changed. What is changed counts once it is [`close`](Line::close)d, and leaves no trace if it is not: a
/// caller may go on after an error.
pub(crate) struct Line<'t> {
    pub(super) txn: &'t mut Txn,
    pub(super) queue: u32,
    pub(super) tally: Tally,
    /// The tally as it is stored.
    before: Tally,
    pub(super) at: Times,
    /// Something may be claimed that could not before.
    pub(super) woke: bool,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        // Nothing, once it was closed.
        self.txn.take_back();
    }
}

/// From so many interruptions on a message may be what ends its process. Fewer can befall any.
const SUSPECT_FROM: u32 = 2;
/// Bytes that a commit takes at most to hand out a message, beside its key: the row, and two entries of the index.
const WRITTEN_TO_CLAIM: u64 = 200;
/// The same for one that is gone then, and lets the next one of its key go on; and how often the key is among them.
const WRITTEN_TO_REMOVE: u64 = 400;
const KEYS_WRITTEN_TO_REMOVE: u64 = 5;
/// How many due messages are looked up at once behind one whose key went on.
const AFTER_A_MOVE: usize = 8;

/// What a claim is to take.
pub(crate) struct Wish<'l> {
    /// At most so many messages.
    pub(crate) n: usize,
    /// How long the claim is honoured while no program runs.
    pub(crate) kept_ns: Option<u64>,
    /// Bytes of the commit that it may take.
    pub(crate) room: u64,
    pub(crate) leases: &'l Leases,
}

/// A message that was handed out.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) id: MessageId,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) body: Body,
    pub(crate) payload: Vec<u8>,
}

/// What became of an answer.
#[must_use = "a stale answer changed nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The message is gone, or still held after an extension.
    Done,
    /// It will be delivered again.
    Again {
        /// Not before this time.
        at: SystemTime,
    },
    /// It is a dead letter now.
    Dead(Reason),
    /// Somebody else holds the message, or it is gone: the claim was superseded. Nothing was changed.
    Stale,
}

/// When the next message of a queue can be claimed, in schedule time; `None` if there is none, or the queue is paused.
pub(crate) fn next_due_ns(txn: &Txn, queue: u32) -> Result<Option<i64>> {
    let tally = read_tally(txn, queue)?;
    if tally.paused_since_ns.is_some() || tally.waiting == 0 {
        return Ok(None);
    }
    let now_ns = txn.now().schedule_ns;
    if tally.ready > 0 && tally.counted <= Mark::end_of(now_ns) {
        // The first one is due; when it became so is asked of the statistics only.
        return Ok(Some(now_ns));
    }
    let first = waiting(txn, queue, tally.head, Mark::end_of(i64::MAX), 1)?;
    Ok(first.first().map(|(mark, _)| mark.due_ns))
}

/// Puts a message into its queue, which is made if need be; `once`: the remembered key in whose work that is. Says also whether
/// somebody who waits for messages should look again.
pub(crate) fn enqueue(
    txn: &mut Txn,
    declared: &QueueDeclared,
    terms: Terms,
    payload: &[u8],
    once: Option<&Bytes>,
) -> Result<(MessageId, bool)> {
    let info = catalog::resolve_or_create(txn, declared)?;
    let mut line = Line::open(txn, info.id)?;
    let id = line.enqueue(declared, terms, payload, once)?;
    Ok((id, line.close()?))
}

impl<'t> Line<'t> {
    pub(crate) fn open(txn: &'t mut Txn, queue: u32) -> Result<Line<'t>> {
        let tally = read_tally(txn, queue)?;
        let now_ns = txn.now().schedule_ns;
        let at = Times {
            now_ns,
            active_ns: tally.active_ns(now_ns),
        };
        txn.begin_step();
        let mut line = Line {
            txn,
            queue,
            before: tally.clone(),
            tally,
            at,
            woke: false,
        };
        line.count_up()?;
        Ok(line)
    }

    /// Writes the tally, if anything happened. Says whether somebody who waits for messages should look again.
    pub(crate) fn close(mut self) -> Result<bool> {
        if !self.tally.is_same_but_for_time(&self.before) {
            self.txn
                .put_late(keys::tally(self.queue), std::mem::take(&mut self.tally))?;
        }
        self.txn.keep_step();
        Ok(self.woke)
    }

    fn enqueue(
        &mut self,
        declared: &QueueDeclared,
        terms: Terms,
        payload: &[u8],
        once: Option<&Bytes>,
    ) -> Result<MessageId> {
        terms.check()?;
        let retry = terms.retry.unwrap_or(declared.retry);
        retry.check()?;
        let id = self.tally.number()?;
        let body = Body {
            effect_id: EffectId(random::bytes()?),
            enqueued_ns: self.at.now_ns,
            expires_ns: terms.expires_ns,
            headers: terms.headers,
            retry,
            on_dead: declared.on_dead,
            once: once.map(|key| key.to_vec()),
        };
        let due_ns = match terms.when {
            When::Now => self.at.now_ns,
            When::After(delay) => self.at.now_ns.saturating_add_unsigned(delay),
            When::At(time) => time,
        };
        let row = Row {
            stand: Stand::Waiting,
            key: terms.key,
            line: id,
            due_ns,
            turn: 0,
            fence: 0,
            attempts: 0,
            failures: 0,
            interruptions: 0,
            aged_from_ns: None,
            kept_until_ns: None,
            died_ns: 0,
            replays: 0,
            bytes: payload.len() as u64,
        };
        self.put_body(id, &body, payload)?;
        let row = self.join(id, row)?;
        self.put(id, row)?;
        Ok(MessageId(id))
    }

    /// Hands out messages that are due.
    pub(crate) fn claim(&mut self, info: &QueueInfo, wish: Wish<'_>) -> Result<Vec<Taken>> {
        let Wish {
            n,
            kept_ns,
            room,
            leases,
        } = wish;
        let mut taken = Vec::new();
        if self.tally.paused_since_ns.is_some() {
            return Ok(taken);
        }
        let (mut bytes, mut expired, mut written, mut at_once) = (0, 0, 0, n);
        let kept_until_ns = kept_ns.map(|kept| self.at.now_ns.saturating_add_unsigned(kept));
        let mut fences = Fences::of(self.txn, leases)?;
        'look: while taken.len() < n && expired < AT_ONCE && bytes < CLAIM_BYTES_MAX && written < room {
            let due = self.due(at_once.min(n - taken.len()))?;
            if due.is_empty() {
                break;
            }
            for (mark, id) in due {
                let row = self.row(id)?.ok_or_else(|| damaged("row of a message"))?;
                // One that may have ended its process is handed out alone: the others of its lot would pay for it.
                let is_suspect = row.interruptions >= SUSPECT_FROM;
                if is_suspect && !taken.is_empty() {
                    break 'look;
                }
                self.tally.head = mark;
                let (out, moves_line) = self.hand_out(info, id, &row, fences.next()?, kept_until_ns)?;
                let is_out = out.is_some();
                bytes += out.as_ref().map_or(0, |taken| taken.payload.len());
                expired += usize::from(!is_out);
                taken.extend(out);
                let key_bytes = row.key.as_ref().map_or(0, Vec::len) as u64;
                written += if moves_line {
                    WRITTEN_TO_REMOVE + KEYS_WRITTEN_TO_REMOVE * key_bytes
                } else {
                    WRITTEN_TO_CLAIM + key_bytes
                };
                if is_out && is_suspect {
                    break 'look;
                }
                if moves_line {
                    // The next one of the key may lie before what was found due: a few at a time, or most is found in vain.
                    at_once = AFTER_A_MOVE;
                    continue 'look;
                }
                if bytes >= CLAIM_BYTES_MAX || written >= room {
                    continue 'look;
                }
            }
        }
        if !taken.is_empty() || expired > 0 {
            fences.keep(self.txn);
        }
        Ok(taken)
    }

    /// Hands one message out, unless it has expired. Says also whether the next one of its key goes on.
    fn hand_out(
        &mut self,
        info: &QueueInfo,
        id: u64,
        row: &Row,
        fence: u64,
        kept_until_ns: Option<i64>,
    ) -> Result<(Option<Taken>, bool)> {
        let (body, payload) = self.body(id)?;
        let claimed = decide_claim(row, body.expires_ns, fence, kept_until_ns, self.at);
        let attempt = claimed.attempts;
        let is_out = claimed.stand == Stand::Claimed;
        let moves_line = row.key.is_some() && (info.is_at_most_once() || !is_out);
        if is_out && info.is_at_most_once() {
            self.remove(id, row)?;
        } else {
            self.change(id, row, claimed, body.on_dead)?;
        }
        let taken = is_out.then(|| Taken {
            id: MessageId(id),
            fence,
            attempt,
            key: row.key.clone(),
            body,
            payload,
        });
        Ok((taken, moves_line))
    }

    /// What is stored of a message.
    pub(crate) fn find(&self, id: MessageId) -> Result<Option<Row>> {
        self.row(id.get())
    }

    /// A message that is claimed, as it was handed out.
    pub(crate) fn taken(&self, id: MessageId) -> Result<Taken> {
        let row = self.row(id.get())?.ok_or_else(|| damaged("row of a message"))?;
        let (body, payload) = self.body(id.get())?;
        Ok(Taken {
            id,
            fence: row.fence,
            attempt: row.attempts,
            key: row.key,
            body,
            payload,
        })
    }

    /// An answer of the holder of `fence`, with what it says of it.
    pub(crate) fn answer(&mut self, id: MessageId, fence: u64, verb: Verb, text: Option<&str>) -> Result<Settled> {
        let MessageId(id) = id;
        let Some(row) = self.row(id)? else {
            return Ok(Settled::Stale);
        };
        if verb == Verb::Ack {
            // The one that has to be fast, and the only one that no retry decides.
            if !row.is_current(fence) {
                return Ok(Settled::Stale);
            }
            self.remove(id, &row)?;
            return Ok(Settled::Done);
        }
        let (body, _) = self.body(id)?;
        match decide_verb(Some(&row), &body.retry, fence, verb, self.at) {
            Verdict::Stale => Ok(Settled::Stale),
            Verdict::Remove => {
                self.remove(id, &row)?;
                Ok(Settled::Done)
            }
            Verdict::Become(next) => {
                if let Some(text) = text {
                    self.note(id, row.attempts, text)?;
                }
                let next = self.change(id, &row, next, body.on_dead)?;
                Ok(match next.stand {
                    Stand::Dead(reason) => Settled::Dead(reason),
                    Stand::Waiting => Settled::Again {
                        at: wall_time(next.due_ns),
                    },
                    Stand::Behind | Stand::Claimed => Settled::Done,
                })
            }
        }
    }

    /// The lease of `fence` is over. Says whether it was this that held the message.
    pub(crate) fn lapse(&mut self, id: MessageId, fence: u64, given_back: bool, why: &str) -> Result<bool> {
        let MessageId(id) = id;
        let Some(row) = self.row(id)? else { return Ok(false) };
        let (body, _) = self.body(id)?;
        let Some(next) = decide_lapse(Some(&row), &body.retry, fence, given_back, self.at) else {
            return Ok(false);
        };
        if !given_back {
            self.tally.interruptions = self.tally.interruptions.saturating_add(1);
            self.note(id, row.attempts, why)?;
        }
        self.change(id, &row, next, body.on_dead)?;
        Ok(true)
    }

    /// Delivers a dead letter again, from the start.
    pub(crate) fn replay(&mut self, id: MessageId, due_ns: i64, effect_id: Option<EffectId>) -> Result<()> {
        let MessageId(id) = id;
        let row = self.row(id)?.ok_or_else(|| damaged("row of a message"))?;
        let (mut body, payload) = self.body(id)?;
        let expires = body.expires_ns.filter(|end| *end > due_ns);
        if effect_id.is_some() || expires != body.expires_ns {
            body.effect_id = effect_id.unwrap_or(body.effect_id);
            body.expires_ns = expires;
            self.put_body(id, &body, &payload)?;
        }
        let mut next = decide_replay(&row, due_ns);
        self.take_out(id, &row)?;
        if row.line == 0 {
            // It lost its place in the line of its key, if it has one, and comes last.
            next.line = self.tally.number()?;
            next = self.join(id, next)?;
        }
        self.put(id, next).map(drop)
    }

    /// Removes a message wherever it stands, and gives what was stored of it; `None` if there was none.
    pub(crate) fn discard(&mut self, id: MessageId) -> Result<Option<Row>> {
        let MessageId(id) = id;
        let Some(row) = self.row(id)? else { return Ok(None) };
        self.remove(id, &row)?;
        self.tally.discarded = self.tally.discarded.saturating_add(1);
        Ok(Some(row))
    }

    /// Pauses the queue, or lets it go on. Says whether that changed something.
    pub(crate) fn pause(&mut self, paused: bool) -> bool {
        let changed = self.tally.pause(paused, self.at.now_ns);
        self.woke |= changed && !paused;
        changed
    }

    /// Takes a message from where it stands to where `next` says, and lets the next one of its key go on if it leaves the line.
    fn change(&mut self, id: u64, before: &Row, mut next: Row, on_dead: OnDead) -> Result<Row> {
        self.take_out(id, before)?;
        let passes = matches!(next.stand, Stand::Dead(_)) && on_dead == OnDead::GoOn && before.line != 0;
        if passes {
            next.line = 0;
        }
        let next = self.put(id, next)?;
        if passes {
            self.leave_line(before)?;
        }
        Ok(next)
    }

    /// The message is gone.
    fn remove(&mut self, id: u64, row: &Row) -> Result<()> {
        self.take_out(id, row)?;
        for kind in [Kind::Row, Kind::Body] {
            self.txn.remove(keys::numbered(self.queue, kind, id));
        }
        if row.may_have_errors() {
            self.txn.remove(keys::numbered(self.queue, Kind::Errors, id));
        }
        self.leave_line(row)
    }
}
