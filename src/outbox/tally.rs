//! The tally of a queue: the next number, how many messages stand where, and from where on its index is read. Pure.
//!
//! It is a row of its own, written with each commit that touches the queue, so that it is true in every snapshot, after a
//! rollback and after a crash, and nothing has to be counted.
//!
//! Invariants
//! - No entry of the index lies at or before `head`. What becomes ready is placed behind it, so a claim never walks what
//!   earlier claims removed. Only a clock that went back, or a message that comes in from elsewhere, moves `head` back.
//! - `ready` is the number of entries up to `counted`; `next_due_ns` is at most the due time of every entry behind it.

use serde::{Deserialize, Serialize};

use super::row::{Row, Stand};
use crate::error::{Error, ErrorKind, Result};

/// A place in the index of messages that wait: by due time, then by turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// Schedule time.
    pub due_ns: i64,
    /// Number of the entry.
    pub turn: u64,
}

impl Mark {
    /// Before every entry.
    pub const START: Mark = Mark {
        due_ns: i64::MIN,
        turn: 0,
    };

    /// Behind every entry that is due at `now_ns`.
    pub fn end_of(now_ns: i64) -> Mark {
        Mark {
            due_ns: now_ns,
            turn: u64::MAX,
        }
    }
}

/// How a queue stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The next number: of a message, a place in a line, or a turn.
    pub next: u64,
    /// Entries of the index of messages that wait.
    pub waiting: u64,
    /// How many of them lie at or before `counted`.
    pub ready: u64,
    /// Up to where they were counted.
    pub counted: Mark,
    /// No entry lies at or before it.
    pub head: Mark,
    /// No entry behind `counted` is due earlier.
    pub next_due_ns: i64,
    /// Messages that somebody delivers.
    pub claimed: u64,
    /// Messages that wait for an earlier one of their key.
    pub blocked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Payload of all messages, the dead ones too.
    pub bytes: u64,
    /// Claims that were never answered, since the queue was made.
    pub interruptions: u64,
    /// Messages that were discarded, since the queue was made.
    pub discarded: u64,
    /// Since when it is paused, in schedule time.
    pub paused_since_ns: Option<i64>,
    /// How long it was paused before that.
    pub paused_ns: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            next: 1,
            waiting: 0,
            ready: 0,
            counted: Mark::START,
            head: Mark::START,
            next_due_ns: i64::MAX,
            claimed: 0,
            blocked: 0,
            dead: 0,
            bytes: 0,
            interruptions: 0,
            discarded: 0,
            paused_since_ns: None,
            paused_ns: 0,
        }
    }
}

impl Tally {
    /// A number that was never given.
    ///
    /// # Errors
    /// `Full` if none is left.
    pub fn number(&mut self) -> Result<u64> {
        let number = self.next;
        self.next = number
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorKind::Full, "no number is left in the queue"))?;
        Ok(number)
    }

    /// Where a message that waits for `due_ns` goes.
    ///
    /// # Errors
    /// `Full` if no number is left.
    pub fn place(&mut self, due_ns: i64, now_ns: i64) -> Result<Mark> {
        let turn = self.number()?;
        if self.head.due_ns <= now_ns {
            // Never at or before the head: of the same due time the turn is later than any that was given.
            let due_ns = due_ns.max(self.head.due_ns);
            return Ok(Mark { due_ns, turn });
        }
        let mark = Mark { due_ns, turn };
        if mark <= self.head {
            self.head = Mark {
                due_ns,
                turn: turn.saturating_sub(1),
            };
        }
        Ok(mark)
    }

    /// Counts a message in where it stands.
    pub fn enter(&mut self, row: &Row) {
        self.bytes = self.bytes.saturating_add(row.bytes);
        if row.stand == Stand::Waiting {
            if row.mark() <= self.counted {
                self.ready = self.ready.saturating_add(1);
            } else {
                self.next_due_ns = self.next_due_ns.min(row.due_ns);
            }
        }
        let count = self.count(row.stand);
        *count = count.saturating_add(1);
    }

    /// Counts a message out from where it stood.
    ///
    /// # Errors
    /// `Corrupt` if it was not counted in.
    pub fn leave(&mut self, row: &Row) -> Result<()> {
        let damaged = || Error::new(ErrorKind::Corrupt, "tally of a queue is damaged");
        self.bytes = self.bytes.checked_sub(row.bytes).ok_or_else(damaged)?;
        if row.stand == Stand::Waiting && row.mark() <= self.counted {
            self.ready = self.ready.checked_sub(1).ok_or_else(damaged)?;
        }
        let count = self.count(row.stand);
        *count = count.checked_sub(1).ok_or_else(damaged)?;
        Ok(())
    }

    fn count(&mut self, stand: Stand) -> &mut u64 {
        match stand {
            Stand::Behind => &mut self.blocked,
            Stand::Waiting => &mut self.waiting,
            Stand::Claimed => &mut self.claimed,
            Stand::Dead(_) => &mut self.dead,
        }
    }

    /// Whether two differ at most in what the passing of time alone changes.
    pub(super) fn is_same_but_for_time(&self, other: &Tally) -> bool {
        let Tally {
            ready,
            counted,
            next_due_ns,
            ..
        } = *other;
        Tally {
            ready,
            counted,
            next_due_ns,
            ..self.clone()
        } == *other
    }

    /// Schedule time without the time in which the queue was paused.
    pub fn active_ns(&self, now_ns: i64) -> i64 {
        let now_ns = self.paused_since_ns.map_or(now_ns, |since| since.min(now_ns));
        now_ns.saturating_sub_unsigned(self.paused_ns)
    }

    /// Pauses the queue, or lets it go on. Says whether that changed something.
    pub fn pause(&mut self, paused: bool, now_ns: i64) -> bool {
        match (self.paused_since_ns, paused) {
            (None, true) => self.paused_since_ns = Some(now_ns),
            (Some(since), false) => {
                let lasted = u64::try_from(now_ns.saturating_sub(since)).unwrap_or(0);
                self.paused_ns = self.paused_ns.saturating_add(lasted);
                self.paused_since_ns = None;
            }
            _ => return false,
        }
        true
    }
}

impl Row {
    /// Its entry in the index, while it waits.
    pub fn mark(&self) -> Mark {
        Mark {
            due_ns: self.due_ns,
            turn: self.turn,
        }
    }
}
