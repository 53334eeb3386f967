//! Dead letters: delivered again, or discarded.

use std::time::Duration;

use super::entries::{read_body, read_row};
use super::keys::Kind;
use super::line::Line;
use super::list::{numbers, turn_of_dead};
use super::row::{EffectId, MessageId, Reason, Row, Stand};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::DEAD_LETTERS_AT_ONCE_MAX;
use crate::txn::Txn;
use crate::{dedupe, random};

/// Which dead letters, and how they are delivered again. By default all of them, at once, with the effect ids they have.
#[must_use = "it does nothing until a replay or discard is given it"]
#[derive(Clone, Debug, Default)]
pub struct Replay {
    only: Option<Vec<MessageId>>,
    reason: Option<Reason>,
    dead_for: Option<Duration>,
    behind: Option<MessageId>,
    limit: Option<usize>,
    per_second: Option<u32>,
    new_effect_ids: bool,
    forced: bool,
}

impl Replay {
    /// All dead letters.
    pub fn new() -> Replay {
        Replay::default()
    }

    /// Only these.
    pub fn only(mut self, ids: impl IntoIterator<Item = MessageId>) -> Replay {
        self.only = Some(ids.into_iter().collect());
        self
    }

    /// Only those that are dead for this reason.
    pub fn reason(mut self, reason: Reason) -> Replay {
        self.reason = Some(reason);
        self
    }

    /// Only those that have been dead for at least so long.
    pub fn dead_for(mut self, age: Duration) -> Replay {
        self.dead_for = Some(age);
        self
    }

    /// Only those that died behind this letter: to go on where a call stopped whose letters were refused, see
    /// [`Replayed::behind`]. From the first one on, if it is no dead letter any more.
    pub fn behind(mut self, id: Option<MessageId>) -> Replay {
        self.behind = id;
        self
    }

    /// At most so many, in the order of their deaths.
    pub fn limit(mut self, letters: usize) -> Replay {
        self.limit = Some(letters);
        self
    }

    /// So many are due in each second from now on, in place of all at once. 0 counts as 1.
    pub fn per_second(mut self, letters: u32) -> Replay {
        self.per_second = Some(letters.max(1));
        self
    }

    /// The far end is to take each for a new effect.
    pub fn new_effect_ids(mut self) -> Replay {
        self.new_effect_ids = true;
        self
    }

    /// Also those whose remembered key is over, and whose effect may therefore be asked for a second time, and those that have
    /// expired.
    pub fn forced(mut self) -> Replay {
        self.forced = true;
        self
    }

    fn takes(&self, row: &Row, reason: Reason, now_ns: i64) -> bool {
        let dead_for = u64::try_from(now_ns.saturating_sub(row.died_ns)).unwrap_or(0);
        self.reason.is_none_or(|wanted| wanted == reason)
            && self
                .dead_for
                .is_none_or(|wanted| u128::from(dead_for) >= wanted.as_nanos())
    }

    /// When letter number `place` of a replay is due.
    fn due_ns(&self, now_ns: i64, place: u64) -> i64 {
        let after = self
            .per_second
            .map_or(0, |count| place.saturating_mul(1_000_000_000) / u64::from(count));
        now_ns.saturating_add_unsigned(after)
    }
}

/// Why a dead letter was not delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// The remembered key under which it was enqueued is over.
    KeyIsOver,
    /// Its time to be delivered is over.
    Expired,
    /// It is no dead letter.
    NotDead,
}

/// What a replay did.
#[must_use = "some letters may have been refused"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// How many wait to be delivered again.
    pub replayed: u64,
    /// Those that do not, and why.
    pub refused: Vec<(MessageId, Refused)>,
    /// Whether there are more that the limit left, or that were not looked at.
    pub more: bool,
    /// The last letter that was looked at and stayed: [`Replay::behind`] it lie those that are left.
    pub behind: Option<MessageId>,
}

/// What is meant by a wish.
#[derive(Default)]
struct Chosen {
    /// The letters, in the order of their deaths.
    letters: Vec<(MessageId, Row)>,
    /// Those that were named and are none.
    others: Vec<MessageId>,
    /// The last one that was looked at and not chosen, with its turn.
    left: Option<(u64, MessageId)>,
    more: bool,
}

/// Looks at no more letters than one call may.
fn chosen(txn: &Txn, queue: u32, which: &Replay) -> Result<Chosen> {
    let now_ns = txn.now().schedule_ns;
    let limit = which.limit.unwrap_or(usize::MAX).min(DEAD_LETTERS_AT_ONCE_MAX);
    let mut chosen = Chosen::default();
    let ids = match &which.only {
        Some(ids) => ids.iter().map(|id| id.0).collect(),
        None => {
            let behind = which.behind.map(|id| turn_of_dead(txn, queue, id)).transpose()?;
            let behind = behind.unwrap_or_default();
            let ids = numbers(txn, queue, Kind::Dead, behind, DEAD_LETTERS_AT_ONCE_MAX)?;
            chosen.more = ids.len() == DEAD_LETTERS_AT_ONCE_MAX;
            ids
        }
    };
    for id in ids {
        let id = MessageId(id);
        let row = read_row(txn, queue, id.0)?;
        match row.map(|row| (row.stand, row)) {
            Some((Stand::Dead(reason), row)) if which.takes(&row, reason, now_ns) => {
                // Those that are named come in any order.
                if which.only.is_none() && chosen.letters.len() == limit {
                    chosen.more = true;
                    break;
                }
                chosen.letters.push((id, row));
            }
            Some((Stand::Dead(_), row)) => chosen.left = Some((row.turn, id)),
            _ => chosen.others.push(id),
        }
    }
    chosen.letters.sort_by_key(|(_, row)| row.turn);
    chosen.letters.dedup_by_key(|(id, _)| *id);
    chosen.more |= chosen.letters.len() > limit;
    chosen.letters.truncate(limit);
    Ok(chosen)
}

/// Delivers dead letters again. Says also whether somebody who waits for messages should look again.
pub(crate) fn replay(txn: &mut Txn, queue: u32, which: &Replay) -> Result<(Replayed, bool)> {
    let now_ns = txn.now().schedule_ns;
    let Chosen {
        letters,
        others,
        mut left,
        more,
    } = chosen(txn, queue, which)?;
    let mut outcome = Replayed {
        more,
        ..Replayed::default()
    };
    outcome.refused = others.into_iter().map(|id| (id, Refused::NotDead)).collect();
    let mut woke = false;
    for (id, row) in letters {
        let due_ns = which.due_ns(now_ns, outcome.replayed);
        if !which.forced
            && let Some(refused) = refusal(txn, queue, id, due_ns)?
        {
            outcome.refused.push((id, refused));
            left = left.max(Some((row.turn, id)));
            continue;
        }
        let effect_id = if which.new_effect_ids {
            Some(EffectId(random::bytes()?))
        } else {
            None
        };
        let mut line = Line::open(txn, queue)?;
        line.replay(id, due_ns, effect_id)?;
        woke |= line.close()?;
        outcome.replayed += 1;
    }
    outcome.behind = left.map(|(_, id)| id);
    Ok((outcome, woke))
}

fn refusal(txn: &Txn, queue: u32, id: MessageId, due_ns: i64) -> Result<Option<Refused>> {
    let (body, _) = read_body(txn, queue, id.0)?;
    if body.expires_ns.is_some_and(|end| end <= due_ns) {
        return Ok(Some(Refused::Expired));
    }
    match body.once {
        Some(key) if !dedupe::is_remembered(txn, &key)? => Ok(Some(Refused::KeyIsOver)),
        _ => Ok(None),
    }
}

/// What a call discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Discarded {
    /// How many dead letters are gone.
    pub discarded: u64,
    /// Whether there are more that the limit left, or that were not looked at.
    pub more: bool,
    /// The last letter that was looked at and stayed: [`Replay::behind`] it lie those that are left.
    pub behind: Option<MessageId>,
}

/// Removes dead letters. Says also whether somebody who waits for messages should look again.
pub(crate) fn discard(txn: &mut Txn, queue: u32, which: &Replay) -> Result<(Discarded, bool)> {
    let Chosen {
        letters, left, more, ..
    } = chosen(txn, queue, which)?;
    let (mut discarded, mut woke) = (0, false);
    for (id, _) in letters {
        let mut line = Line::open(txn, queue)?;
        discarded += u64::from(line.discard(id)?.is_some());
        woke |= line.close()?;
    }
    let outcome = Discarded {
        discarded,
        more,
        behind: left.map(|(_, id)| id),
    };
    Ok((outcome, woke))
}

/// # Errors
/// `Invalid`: there is no such queue.
pub(crate) fn no_such_queue(name: &str) -> Error {
    let shown: String = name.chars().take(64).collect();
    Error::new(ErrorKind::NotFound, format!("there is no such queue, queue={shown:?}"))
}
