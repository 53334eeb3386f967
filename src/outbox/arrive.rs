//! Queues and messages that come from another store, with the numbers that they have there.
//!
//! What arrives is judged against what is there already, and not believed: a line begins with the message that stands at its
//! head, and those that wait for it come after it; so in whatever order the others come, head, entries and tally agree.

use super::catalog::{self, QueueInfo};
use super::entries::index_key;
use super::keys::{self, Kind};
use super::line::Line;
use super::queue::{QueueDeclared, Terms};
use super::row::{Body, Failures, Row, Stand, push_failure};
use super::tally::{Mark, Tally};
use crate::codec::sealed;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::Txn;

/// What of a tally goes along with a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// The next number.
    pub(crate) next: u64,
    pub(crate) interruptions: u64,
    pub(crate) discarded: u64,
    pub(crate) paused_since_ns: Option<i64>,
    pub(crate) paused_ns: u64,
}

impl Standing {
    pub(crate) fn of(tally: &Tally) -> Standing {
        Standing {
            next: tally.next,
            interruptions: tally.interruptions,
            discarded: tally.discarded,
            paused_since_ns: tally.paused_since_ns,
            paused_ns: tally.paused_ns,
        }
    }
}

/// A message of another store.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    pub(crate) id: u64,
    pub(crate) row: Row,
    pub(crate) body: Body,
    pub(crate) payload: Vec<u8>,
    pub(crate) errors: Failures,
}

impl Arriving {
    /// What it takes of a commit, rather more.
    pub(crate) fn bytes(&self) -> usize {
        let key = self.row.key.as_ref().map_or(0, Vec::len);
        let headers = self.body.headers.iter().map(|(name, text)| name.len() + text.len() + 8);
        let errors = self.errors.iter().map(|error| error.text.len() + 32);
        let once = self.body.once.as_ref().map_or(0, Vec::len);
        512 + 4 * key + once + headers.sum::<usize>() + errors.sum::<usize>() + self.payload.len()
    }
}

/// Makes a queue that stands as it does elsewhere, still without its messages.
///
/// # Errors
/// `Invalid` if there is one of this name, and for a number that no queue begins with; `Corrupt`, `Io`.
pub(crate) fn begin(txn: &mut Txn, declared: &QueueDeclared, standing: Standing) -> Result<QueueInfo> {
    if catalog::find(txn, &declared.name)?.is_some() {
        return Err(invalid("the store has the queue already"));
    }
    if standing.next == 0 {
        return Err(invalid("the numbers of a queue begin at 1"));
    }
    let info = catalog::resolve_or_create(txn, declared)?;
    let mut line = Line::open(txn, info.id)?;
    line.tally = Tally {
        next: standing.next,
        interruptions: standing.interruptions,
        discarded: standing.discarded,
        paused_since_ns: standing.paused_since_ns,
        paused_ns: standing.paused_ns,
        ..line.tally
    };
    line.close()?;
    Ok(info)
}

impl Line<'_> {
    /// Takes in a message of another store, where it stands there.
    ///
    /// # Errors
    /// `Invalid` if it cannot stand there, and for what no message has; `TooLarge` for the headers; `Corrupt`, `Io`.
    pub(crate) fn take_in(&mut self, arriving: Arriving) -> Result<()> {
        let Arriving {
            id,
            row,
            body,
            payload,
            errors,
        } = arriving;
        let terms = Terms {
            key: row.key.clone(),
            headers: body.headers.clone(),
            retry: Some(body.retry),
            ..Terms::default()
        };
        terms.check()?;
        if row.bytes != payload.len() as u64 {
            return Err(invalid("the payload has not the length that its message says"));
        }
        if id == 0 || id.max(row.line).max(row.turn) >= self.tally.next {
            return Err(invalid("a number of the message is none that its queue has given"));
        }
        if self.row(id)?.is_some() {
            return Err(invalid("the queue has the message already"));
        }
        if !errors.is_empty() && !row.may_have_errors() {
            return Err(invalid("the message has errors, and nothing went wrong with it"));
        }
        self.stand_there(id, &row)?;
        self.put_body(id, &body, &payload)?;
        if !errors.is_empty() {
            let mut kept = Failures::new();
            for error in errors {
                push_failure(&mut kept, error.at_ns, error.attempt, &error.text);
            }
            let key = keys::numbered(self.queue, Kind::Errors, id);
            let bytes = sealed::seal(&key, &kept)?;
            self.txn.put(key, bytes);
        }
        if row.stand == Stand::Waiting && row.mark() <= self.tally.head {
            // Somebody claimed what arrived before it.
            self.tally.head = Mark {
                turn: row.turn - 1,
                ..row.mark()
            };
        }
        self.woke = true;
        self.set(id, &row)
    }

    /// Gives a message its place in the line of its key, if nothing that is there speaks against where it stands.
    fn stand_there(&mut self, id: u64, row: &Row) -> Result<()> {
        match row.stand {
            Stand::Claimed => return Err(invalid("a message arrives without its claim")),
            Stand::Behind if row.in_line().is_none() => {
                return Err(invalid("a message without a place in a line waits for none"));
            }
            Stand::Behind => {}
            Stand::Waiting | Stand::Dead(_) => {
                let taken = index_key(self.queue, id, row).map(|key| self.txn.get(&key).map(|found| found.is_some()));
                if row.turn == 0 || taken.transpose()? == Some(true) {
                    return Err(invalid("the turn of the message is another's"));
                }
            }
        }
        if row.line == 0 && row.stand == Stand::Waiting && row.key.is_some() {
            return Err(invalid("a message that waits has no place in the line of its key"));
        }
        let Some(key) = row.in_line() else { return Ok(()) };
        let head = keys::head(self.queue, key);
        let before = self.txn.get(&head)?.map(|bytes| keys::number(&bytes));
        match (row.stand, before.flatten()) {
            (Stand::Behind, Some(head)) if head < row.line => {}
            (Stand::Behind, _) => return Err(invalid("the message waits for none that is there")),
            (_, None) => self.txn.put(head, row.line.to_be_bytes().to_vec()),
            (_, Some(_)) => return Err(invalid("the key has a message at its head already")),
        }
        let place = keys::line(self.queue, key, row.line);
        if self.txn.get(&place)?.is_some() {
            return Err(invalid("the place of the message is another's"));
        }
        self.txn.put(place, id.to_be_bytes().to_vec());
        Ok(())
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
