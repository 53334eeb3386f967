//! The operations on engines that know bytes only.
//!
//! A record is its version and its value, with its state between them where it has one. The checks are made before anything
//! is written, so that an operation that is not done leaves nothing, also among others in one transaction.

use crate::contents::Contents;
use crate::load::{KEEP_DAYS, SCOPE};
use crate::op::{Ask, First, Op, Reply, See};
use crate::peer::{Failure, Peer};

/// One map from keys to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Records,
    Keys,
    Extras,
    Orders,
    Counters,
}

/// All of them, in the order of their numbers, with their names.
pub(super) const SPACES: [&str; 5] = ["records", "keys", "extras", "orders", "counters"];

/// A transaction that reads.
pub(super) trait Reading {
    /// Shows the value of `key`.
    fn get(&self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure>;

    /// Shows keys and values in order from `from` on, until it says `false`.
    fn walk(&self, space: Space, from: &[u8], see: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Failure>;
}

/// A transaction that writes, and reads what it wrote.
pub(super) trait Writing {
    /// Shows the value of `key`.
    fn get(&mut self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure>;

    /// Sets the value of `key`.
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), Failure>;
}

/// Such an engine.
pub(super) trait Engine: Send + Sync {
    /// One transaction, committed if `work` says `true`.
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool, Failure>) -> Result<(), Failure>;

    /// One transaction that only reads.
    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<(), Failure>) -> Result<(), Failure>;

    /// See [`Peer::settle`].
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// An engine as a peer.
pub(super) struct KvPeer<E>(pub(super) E);

impl<E: Engine> Peer for KvPeer<E> {
    fn write(&self, _thread: usize, op: Op) -> Result<Reply, Failure> {
        let mut reply = Reply::Conflict;
        self.0.write(&mut |tx| {
            reply = apply(tx, &op)?;
            Ok(reply == Reply::Done)
        })?;
        Ok(reply)
    }

    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure> {
        let mut replies = Vec::with_capacity(ops.len());
        self.0.write(&mut |tx| {
            for op in ops {
                replies.push(apply(tx, op)?);
            }
            Ok(replies.contains(&Reply::Done))
        })?;
        Ok(replies)
    }

    fn read(&self, _thread: usize, ask: &Ask, see: See<'_>) -> Result<(), Failure> {
        self.0.read(&mut |tx| match ask {
            Ask::Get(record) => get_record(tx, *record, see),
            Ask::Gets(records) => records.iter().try_for_each(|record| get_record(tx, *record, see)),
            Ask::Scan { from, count } => {
                let mut left = *count;
                let mut failure = None;
                tx.walk(Space::Records, &from.to_be_bytes(), &mut |key, stored| {
                    if let Err(cause) = number(key).and_then(|record| show(record, stored, see)) {
                        failure = Some(cause);
                    }
                    left -= 1;
                    left > 0 && failure.is_none()
                })?;
                failure.map_or(Ok(()), Err)
            }
        })
    }

    fn settle(&self) -> Result<(), Failure> {
        self.0.settle()
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        let mut contents = Contents::default();
        self.0.read(&mut |tx| {
            for space in [
                Space::Records,
                Space::Keys,
                Space::Extras,
                Space::Orders,
                Space::Counters,
            ] {
                let mut failure = None;
                tx.walk(space, &[], &mut |key, stored| {
                    failure = add(&mut contents, space, key, stored).err();
                    failure.is_none()
                })?;
                if let Some(failure) = failure {
                    return Err(failure);
                }
            }
            Ok(())
        })?;
        Ok(Some(contents))
    }
}

fn apply(tx: &mut dyn Writing, op: &Op) -> Result<Reply, Failure> {
    match op {
        Op::Commit(step) => {
            let name = name_of(&step.key);
            if let Some(result) = get_part(tx, Space::Keys, &name, 8..16)? {
                return Ok(Reply::Repeat(number_le(&result)?));
            }
            if !put_if(tx, step.record, step.version, &step.value)? {
                return Ok(Reply::Conflict);
            }
            tx.put(Space::Keys, &name, &remembered(step.extra))?;
            tx.put(
                Space::Extras,
                &step.extra.to_be_bytes(),
                &record(1, None, &step.extra_value),
            )?;
        }
        Op::PutIf(step) => {
            if !put_if(tx, step.record, step.version, &step.value)? {
                return Ok(Reply::Conflict);
            }
        }
        Op::Move(to_move) => {
            let key = to_move.record.to_be_bytes();
            let mut stored = Vec::new();
            tx.get(Space::Orders, &key, &mut |found| stored.extend_from_slice(found))?;
            let Some((version, [state, value @ ..])) = stored.split_at_checked(8) else {
                return Ok(Reply::Conflict);
            };
            if u64::from(*state) != to_move.from {
                return Ok(Reply::Conflict);
            }
            let moved = record(number_le(version)? + 1, Some(to_move.to), std::str::from_utf8(value)?);
            tx.put(Space::Orders, &key, &moved)?;
        }
        Op::Count => {
            let key = 0_u64.to_be_bytes();
            let found = get_part(tx, Space::Counters, &key, 0..8)?.ok_or("no counter")?;
            tx.put(Space::Counters, &key, &(number_le(&found)? + 1).to_le_bytes())?;
        }
        Op::First(first) => put_first(tx, first)?,
        Op::Enqueue(_) | Op::Claim(_) | Op::Ack(_) | Op::AckThenClaim(..) => return Err("it has no queue".into()),
    }
    Ok(Reply::Done)
}

fn put_first(tx: &mut dyn Writing, first: &First) -> Result<(), Failure> {
    match first {
        First::Record(id, value) => tx.put(Space::Records, &id.to_be_bytes(), &record(1, None, value)),
        First::Order(id, value) => tx.put(Space::Orders, &id.to_be_bytes(), &record(1, Some(0), value)),
        First::Counter(id) => tx.put(Space::Counters, &id.to_be_bytes(), &0_u64.to_le_bytes()),
        First::Key(key) => tx.put(Space::Keys, &name_of(key), &remembered(0)),
    }
}

fn put_if(tx: &mut dyn Writing, id: u64, version: u64, value: &str) -> Result<bool, Failure> {
    let key = id.to_be_bytes();
    let found = get_part(tx, Space::Records, &key, 0..8)?;
    if found != Some(version.to_le_bytes()) {
        return Ok(false);
    }
    tx.put(Space::Records, &key, &record(version + 1, None, value))?;
    Ok(true)
}

/// Eight bytes of a value; `None` without one.
fn get_part(
    tx: &mut dyn Writing,
    space: Space,
    key: &[u8],
    part: std::ops::Range<usize>,
) -> Result<Option<[u8; 8]>, Failure> {
    let mut found = None;
    tx.get(space, key, &mut |stored| {
        found = stored.get(part.clone()).and_then(|part| part.try_into().ok());
    })?;
    Ok(found)
}

fn get_record(tx: &dyn Reading, id: u64, see: See<'_>) -> Result<(), Failure> {
    let mut outcome = Ok(());
    tx.get(Space::Records, &id.to_be_bytes(), &mut |stored| {
        outcome = show(id, stored, see)
    })?;
    outcome
}

fn show(id: u64, stored: &[u8], see: See<'_>) -> Result<(), Failure> {
    let (version, value) = stored.split_at_checked(8).ok_or("a record without a version")?;
    see(id, number_le(version)?, std::str::from_utf8(value)?);
    Ok(())
}

fn add(contents: &mut Contents, space: Space, key: &[u8], stored: &[u8]) -> Result<(), Failure> {
    let (head, rest) = stored.split_at_checked(8).ok_or("a value is too short")?;
    match space {
        Space::Records => contents.add_record(number(key)?, number_le(head)?, std::str::from_utf8(rest)?),
        Space::Keys => contents.add_key(key.strip_prefix(SCOPE.as_bytes()).ok_or("a key of another scope")?),
        Space::Extras => contents.add_extra(number(key)?, std::str::from_utf8(rest)?),
        Space::Orders => {
            let (state, value) = rest.split_first().ok_or("an order without a state")?;
            let value = std::str::from_utf8(value)?;
            contents.add_order(number(key)?, number_le(head)?, u64::from(*state), value);
        }
        Space::Counters => contents.add_counter(number(key)?, number_le(head)?),
    }
    Ok(())
}

fn record(version: u64, state: Option<u64>, value: &str) -> Vec<u8> {
    let mut stored = Vec::with_capacity(9 + value.len());
    stored.extend_from_slice(&version.to_le_bytes());
    stored.extend(state.map(|state| state as u8));
    stored.extend_from_slice(value.as_bytes());
    stored
}

fn name_of(key: &[u8; 16]) -> Vec<u8> {
    [SCOPE.as_bytes(), key].concat()
}

/// When its keep ends, and the result.
fn remembered(result: u64) -> Vec<u8> {
    let ends = 1_767_225_600 + KEEP_DAYS * 86_400;
    [ends.to_le_bytes(), result.to_le_bytes()].concat()
}

fn number(key: &[u8]) -> Result<u64, Failure> {
    Ok(u64::from_be_bytes(key.try_into()?))
}

fn number_le(bytes: &[u8]) -> Result<u64, Failure> {
    Ok(u64::from_le_bytes(bytes.try_into()?))
}
