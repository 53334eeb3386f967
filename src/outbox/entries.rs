//! The entries of a queue one by one: how they are read, and how index, line and tally follow a row.

use super::keys::{self, Kind};
use super::line::{AT_ONCE, Line};
use super::row::{Body, Failures, Row, Stand, push_failure};
use super::tally::{Mark, Tally};
use crate::codec::sealed;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Late, Txn};

pub(super) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what} is damaged"))
}

/// How a queue stands; as one that is new if it has no tally.
pub(crate) fn read_tally(txn: &Txn, queue: u32) -> Result<Tally> {
    let key = keys::tally(queue);
    if let Some(tally) = txn.late::<Tally>(&key) {
        return Ok(tally.clone());
    }
    txn.get(&key)?
        .map_or_else(|| Ok(Tally::default()), |bytes| decode_tally(&key, &bytes))
}

/// Each message of a transaction changes it.
impl Late for Tally {
    fn bytes(&self, key: &[u8]) -> Result<Vec<u8>> {
        sealed::seal(key, self)
    }
}

pub(crate) fn decode_tally(key: &[u8], bytes: &[u8]) -> Result<Tally> {
    sealed::open(key, bytes, "tally of a queue")
}

pub(crate) fn read_row(txn: &Txn, queue: u32, id: u64) -> Result<Option<Row>> {
    let key = keys::numbered(queue, Kind::Row, id);
    txn.get(&key)?.map(|bytes| decode_row(&key, &bytes)).transpose()
}

pub(crate) fn decode_row(key: &[u8], bytes: &[u8]) -> Result<Row> {
    sealed::open(key, bytes, "row of a message")
}

pub(crate) fn decode_body<'b>(key: &[u8], bytes: &'b [u8]) -> Result<(Body, &'b [u8])> {
    sealed::open_before(key, bytes, "body of a message")
}

/// Body and payload.
pub(crate) fn read_body(txn: &Txn, queue: u32, id: u64) -> Result<(Body, Vec<u8>)> {
    let key = keys::numbered(queue, Kind::Body, id);
    let bytes = txn.get(&key)?.ok_or_else(|| damaged("body of a message"))?;
    let (body, payload) = decode_body(&key, &bytes)?;
    Ok((body, payload.to_vec()))
}

pub(crate) fn decode_failures(key: &[u8], bytes: &[u8]) -> Result<Failures> {
    sealed::open(key, bytes, "errors of a message")
}

/// The last errors of a message, the newest last.
pub(crate) fn read_failures(txn: &Txn, queue: u32, id: u64) -> Result<Failures> {
    let key = keys::numbered(queue, Kind::Errors, id);
    txn.get(&key)?
        .map_or_else(|| Ok(Failures::new()), |bytes| decode_failures(&key, &bytes))
}

/// The marks and numbers of messages that wait, behind `from` and up to `to`, of which there are at most `limit`.
pub(crate) fn waiting(txn: &Txn, queue: u32, from: Mark, to: Mark, limit: usize) -> Result<Vec<(Mark, u64)>> {
    let mut found = Vec::new();
    if from >= to {
        return Ok(found);
    }
    let mut scan = txn.scan(&keys::waiting_between(queue, from, to))?;
    while found.len() < limit
        && let Some(entry) = scan.step()
    {
        let (key, value) = entry?;
        let entry = keys::mark_of(key).zip(keys::number(value));
        found.push(entry.ok_or_else(|| damaged("entry of a waiting message"))?);
    }
    Ok(found)
}

/// The key of the entry that a row says; none while it waits behind another of its key.
pub(crate) fn index_key(queue: u32, id: u64, row: &Row) -> Option<Vec<u8>> {
    match row.stand {
        Stand::Behind => None,
        Stand::Waiting => Some(keys::waiting(queue, row.mark())),
        Stand::Claimed => Some(keys::numbered(queue, Kind::Claimed, id)),
        Stand::Dead(_) => Some(keys::numbered(queue, Kind::Dead, row.turn)),
    }
}

impl Line<'_> {
    pub(super) fn row(&self, id: u64) -> Result<Option<Row>> {
        read_row(self.txn, self.queue, id)
    }

    pub(super) fn body(&self, id: u64) -> Result<(Body, Vec<u8>)> {
        read_body(self.txn, self.queue, id)
    }

    pub(super) fn put_body(&mut self, id: u64, body: &Body, payload: &[u8]) -> Result<()> {
        let key = keys::numbered(self.queue, Kind::Body, id);
        let bytes = sealed::seal_before(&key, body, payload)?;
        self.txn.put(key, bytes);
        Ok(())
    }

    /// Keeps what was said of a delivery.
    pub(super) fn note(&mut self, id: u64, attempt: u32, text: &str) -> Result<()> {
        let mut failures = read_failures(self.txn, self.queue, id)?;
        push_failure(&mut failures, self.at.now_ns, attempt, text);
        let key = keys::numbered(self.queue, Kind::Errors, id);
        let bytes = sealed::seal(&key, &failures)?;
        self.txn.put(key, bytes);
        Ok(())
    }

    /// Takes the index entry of a row out, and counts it out.
    pub(super) fn take_out(&mut self, id: u64, row: &Row) -> Result<()> {
        self.tally.leave(row)?;
        if let Some(key) = index_key(self.queue, id, row) {
            self.txn.remove(key);
        }
        Ok(())
    }

    /// Puts a row with its index entry, and counts it in. One that waits or is dead gets its turn.
    pub(super) fn put(&mut self, id: u64, mut row: Row) -> Result<Row> {
        match row.stand {
            Stand::Waiting => {
                let mark = self.tally.place(row.due_ns, self.at.now_ns)?;
                (row.due_ns, row.turn) = (mark.due_ns, mark.turn);
                self.woke = true;
            }
            Stand::Dead(_) => row.turn = self.tally.number()?,
            Stand::Behind | Stand::Claimed => {}
        }
        self.set(id, &row)?;
        Ok(row)
    }

    /// Writes a row with its index entry, and counts it in.
    pub(super) fn set(&mut self, id: u64, row: &Row) -> Result<()> {
        self.tally.enter(row);
        if let Some(key) = index_key(self.queue, id, row) {
            self.txn.put(key, id.to_be_bytes().to_vec());
        }
        let key = keys::numbered(self.queue, Kind::Row, id);
        let bytes = sealed::seal(&key, row)?;
        self.txn.put(key, bytes);
        Ok(())
    }

    /// Gives a row its place in the line of its key, if it has one: behind the others, or at the head.
    pub(super) fn join(&mut self, id: u64, mut row: Row) -> Result<Row> {
        let Some(key) = &row.key else { return Ok(row) };
        self.txn
            .put(keys::line(self.queue, key, row.line), id.to_be_bytes().to_vec());
        let head = keys::head(self.queue, key);
        if self.txn.get(&head)?.is_some() {
            row.stand = Stand::Behind;
        } else {
            self.txn.put(head, row.line.to_be_bytes().to_vec());
        }
        Ok(row)
    }

    /// Takes a row out of the line of its key. If it stood at the head, the next one may be claimed.
    pub(super) fn leave_line(&mut self, row: &Row) -> Result<()> {
        let Some(key) = row.in_line() else { return Ok(()) };
        self.txn.remove(keys::line(self.queue, key, row.line));
        if row.stand == Stand::Behind {
            return Ok(());
        }
        // Those before it are gone: a line is left at its head, so nothing that was removed is walked here.
        let next = {
            let mut scan = self.txn.scan(&keys::line_behind(self.queue, key, row.line))?;
            scan.step()
                .transpose()?
                .map(|(key, value)| (keys::number(key), keys::number(value)))
        };
        let head = keys::head(self.queue, key);
        let Some(next) = next else {
            self.txn.remove(head);
            return Ok(());
        };
        let (Some(place), Some(id)) = next else {
            return Err(damaged("entry of a key's line"));
        };
        self.txn.put(head, place.to_be_bytes().to_vec());
        let row = self.row(id)?.ok_or_else(|| damaged("row of a message"))?;
        self.take_out(id, &row)?;
        let row = Row {
            stand: Stand::Waiting,
            ..row
        };
        self.put(id, row).map(drop)
    }

    /// At most `n` messages that are due, in the order in which they are handed out.
    pub(super) fn due(&self, n: usize) -> Result<Vec<(Mark, u64)>> {
        let end = Mark::end_of(self.at.now_ns);
        waiting(self.txn, self.queue, self.tally.head, end, n)
    }

    /// Counts as ready what came due since the last time, and no longer what a clock that went back makes due later.
    pub(super) fn count_up(&mut self) -> Result<()> {
        let end = Mark::end_of(self.at.now_ns);
        let Tally { counted, .. } = self.tally;
        if end < counted {
            let over = waiting(self.txn, self.queue, end, counted, usize::MAX)?;
            if let Some((first, _)) = over.first() {
                self.tally.next_due_ns = self.tally.next_due_ns.min(first.due_ns);
            }
            self.tally.ready = self.tally.ready.saturating_sub(over.len() as u64);
            self.tally.counted = end;
            return Ok(());
        }
        if self.tally.next_due_ns > self.at.now_ns {
            self.tally.counted = end;
            return Ok(());
        }
        let last = Mark::end_of(i64::MAX);
        let behind = waiting(self.txn, self.queue, counted, last, AT_ONCE)?;
        let came_due = behind.iter().filter(|(mark, _)| *mark <= end).count();
        self.tally.ready = self.tally.ready.saturating_add(came_due as u64);
        let not_yet = behind.get(came_due).map(|(mark, _)| *mark);
        let seen_all = behind.len() < AT_ONCE;
        match (not_yet, behind.last()) {
            (Some(mark), _) => (self.tally.counted, self.tally.next_due_ns) = (end, mark.due_ns),
            (None, Some((mark, _))) if !seen_all => (self.tally.counted, self.tally.next_due_ns) = (*mark, mark.due_ns),
            _ => (self.tally.counted, self.tally.next_due_ns) = (end, i64::MAX),
        }
        Ok(())
    }
}
