//! What a claim, an answer or a lost lease makes of a message. Pure: stored, offered, now.
//!
//! Invariants
//! - a fence is honoured until the message is claimed again, ends, or its holder gives it up, whatever its lease says;
//! - deferring and giving back spend no budget; a lost lease spends an interruption, and an answer never does.

use super::retry::Retry;
use super::row::{Reason, Row, Stand};

/// The time that a decision is made at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Schedule time in nanoseconds since 1970.
    pub now_ns: i64,
    /// The same without the time in which the queue was paused.
    pub active_ns: i64,
}

/// What whoever holds a message says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is delivered.
    Ack,
    /// Its delivery failed. The far end may have said after how many nanoseconds to come again.
    Nack {
        /// As the far end said, in place of the delay that the retry gives.
        after_ns: Option<u64>,
        /// For the jitter.
        random: u64,
    },
    /// It is to be delivered later.
    Defer {
        /// Schedule time.
        until_ns: i64,
    },
    /// It is given back, to be delivered at once by somebody else.
    Release,
    /// It can never be delivered.
    Bury(Reason),
    /// It takes longer.
    Extend {
        /// Until when a claim is honoured that is kept in the file.
        kept_until_ns: Option<i64>,
    },
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The fence is superseded. Nothing changes.
    Stale,
    /// It is gone.
    Remove,
    /// It has this row now. Of one that waits or died, `turn` is still to be given.
    Become(Row),
}

/// An answer of the holder of `fence`.
pub fn decide_verb(stored: Option<&Row>, retry: &Retry, fence: u64, verb: Verb, at: Times) -> Verdict {
    let Some(row) = stored.filter(|row| row.is_current(fence)) else {
        return Verdict::Stale;
    };
    let mut row = row.clone();
    match verb {
        Verb::Ack => return Verdict::Remove,
        Verb::Nack { after_ns, random } => fail(&mut row, retry, after_ns, random, at),
        Verb::Defer { until_ns } => {
            let deferred = until_ns.saturating_sub(at.now_ns).max(0);
            row.aged_from_ns = row.aged_from_ns.map(|from| from.saturating_add(deferred));
            wait(&mut row, until_ns);
        }
        Verb::Release => wait(&mut row, at.now_ns),
        Verb::Bury(reason) => die(&mut row, reason, at),
        Verb::Extend { kept_until_ns } => {
            row.stand = Stand::Claimed;
            row.kept_until_ns = kept_until_ns;
        }
    }
    Verdict::Become(row)
}

fn fail(row: &mut Row, retry: &Retry, after_ns: Option<u64>, random: u64, at: Times) {
    row.failures = row.failures.saturating_add(1);
    let age = at.active_ns.saturating_sub(row.aged_from_ns.unwrap_or(at.active_ns));
    if row.failures >= retry.failures_max() {
        die(row, Reason::Failed, at);
    } else if retry.is_too_old(u64::try_from(age).unwrap_or(0)) {
        die(row, Reason::GaveUp, at);
    } else {
        let delay = after_ns.unwrap_or_else(|| retry.delay_ns(row.failures, random));
        wait(row, at.now_ns.saturating_add_unsigned(delay));
    }
}

/// The lease of `fence` is over: lost, or given back. `None` if nobody holds the message under it.
pub fn decide_lapse(stored: Option<&Row>, retry: &Retry, fence: u64, given_back: bool, at: Times) -> Option<Row> {
    let row = stored.filter(|row| row.stand == Stand::Claimed && row.fence == fence)?;
    let mut row = row.clone();
    if given_back {
        wait(&mut row, at.now_ns);
        return Some(row);
    }
    row.interruptions = row.interruptions.saturating_add(1);
    if row.interruptions >= retry.interruptions_max() {
        die(&mut row, Reason::Interrupted, at);
    } else {
        wait(&mut row, at.now_ns);
        // An answer that comes late is honoured as long as nobody else has the message.
        row.fence = fence;
    }
    Some(row)
}

/// A message that waits is to be handed out under `fence`, or has expired.
pub fn decide_claim(stored: &Row, expires_ns: Option<i64>, fence: u64, kept_until_ns: Option<i64>, at: Times) -> Row {
    let mut row = stored.clone();
    if expires_ns.is_some_and(|end| end <= at.now_ns) {
        die(&mut row, Reason::Expired, at);
        return row;
    }
    row.stand = Stand::Claimed;
    row.fence = fence;
    row.kept_until_ns = kept_until_ns;
    row.attempts = row.attempts.saturating_add(1);
    row.aged_from_ns = Some(row.aged_from_ns.unwrap_or(at.active_ns));
    row
}

/// A dead letter is to be delivered again, from the start, at `due_ns`.
pub fn decide_replay(dead: &Row, due_ns: i64) -> Row {
    let mut row = dead.clone();
    wait(&mut row, due_ns);
    row.attempts = 0;
    row.failures = 0;
    row.interruptions = 0;
    row.aged_from_ns = None;
    row.replays = row.replays.saturating_add(1);
    row
}

fn wait(row: &mut Row, due_ns: i64) {
    row.stand = Stand::Waiting;
    row.due_ns = due_ns;
    row.fence = 0;
    row.kept_until_ns = None;
}

fn die(row: &mut Row, reason: Reason, at: Times) {
    row.stand = Stand::Dead(reason);
    row.died_ns = at.now_ns;
    row.fence = 0;
    row.kept_until_ns = None;
}
