//! Under which keys the things of a queue lie: the space, the queue's number (4 bytes BE), a letter, and what the letter says.

use super::tally::Mark;
use crate::codec::Key as _;
use crate::engine::{Space, Span};

/// What of a queue lies under a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Body and payload of a message, by its number.
    Body = b'b' as isize,
    /// Messages that are claimed, by their numbers.
    Claimed = b'c' as isize,
    /// Dead letters, by the order of their deaths; the number of each.
    Dead = b'd' as isize,
    /// The last errors of a message, by its number.
    Errors = b'e' as isize,
    /// Where the line of a key begins.
    Head = b'k' as isize,
    /// Messages of a key, by their places in its line; the number of each.
    Line = b'l' as isize,
    /// What changes of a message, by its number.
    Row = b'm' as isize,
    /// The tally.
    Tally = b't' as isize,
    /// Messages that wait, by due time and turn; the number of each.
    Waiting = b'w' as isize,
}

/// The start of all keys of a kind.
pub(crate) fn prefix(queue: u32, kind: Kind, more: usize) -> Vec<u8> {
    let mut key = Space::Messages.key(5 + more);
    key.extend_from_slice(&queue.to_be_bytes());
    key.push(kind as u8);
    key
}

/// Of what is found by a number: a body, a claimed message, a dead letter, errors, a row.
pub(crate) fn numbered(queue: u32, kind: Kind, number: u64) -> Vec<u8> {
    let mut key = prefix(queue, kind, 8);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn tally(queue: u32) -> Vec<u8> {
    prefix(queue, Kind::Tally, 0)
}

pub(crate) fn waiting(queue: u32, mark: Mark) -> Vec<u8> {
    let mut key = prefix(queue, Kind::Waiting, 16);
    mark.due_ns.encode(&mut key);
    key.extend_from_slice(&mark.turn.to_be_bytes());
    key
}

/// Where the line of a key begins. The length stands before the key, so that none is the beginning of another.
pub(crate) fn head(queue: u32, key: &[u8]) -> Vec<u8> {
    of_key(queue, Kind::Head, key, 0)
}

pub(crate) fn line(queue: u32, key: &[u8], place: u64) -> Vec<u8> {
    let mut out = of_key(queue, Kind::Line, key, 8);
    out.extend_from_slice(&place.to_be_bytes());
    out
}

fn of_key(queue: u32, kind: Kind, key: &[u8], more: usize) -> Vec<u8> {
    let mut out = prefix(queue, kind, 1 + key.len() + more);
    // A key was judged before it is stored: it has 1 to 255 bytes.
    out.push(u8::try_from(key.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(key);
    out
}

/// The entries of messages that wait, behind `from` and up to `to`.
pub(crate) fn waiting_between(queue: u32, from: Mark, to: Mark) -> Span {
    between(waiting(queue, from), waiting(queue, to))
}

/// The places of a key's line behind `place`.
pub(crate) fn line_behind(queue: u32, key: &[u8], place: u64) -> Span {
    between(line(queue, key, place), line(queue, key, u64::MAX))
}

/// What is numbered, behind `after`.
pub(crate) fn numbered_behind(queue: u32, kind: Kind, after: u64) -> Span {
    between(numbered(queue, kind, after), numbered(queue, kind, u64::MAX))
}

fn between(from: Vec<u8>, to: Vec<u8>) -> Span {
    Span {
        from: std::ops::Bound::Excluded(from.into()),
        to: std::ops::Bound::Included(to.into()),
        reverse: false,
    }
}

/// What a key names within its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'k> {
    Body(u64),
    Errors(u64),
    Row(u64),
    Tally,
    /// An entry that says where a message stands.
    Index,
    Head(&'k [u8]),
    Line(&'k [u8], u64),
}

/// Number of the queue, and what a key names in it; `None` if it is of no known form.
pub(crate) fn named(key: &[u8]) -> Option<(u32, Named<'_>)> {
    let (queue, letter, rest) = split(key)?;
    let number = || rest.try_into().ok().map(u64::from_be_bytes);
    let of_key = |more: usize| {
        let (len, rest) = rest.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*len))?;
        (!key.is_empty() && rest.len() == more).then_some((key, rest))
    };
    let is = |kind: Kind| letter == kind as u8;
    let named = if is(Kind::Body) {
        Named::Body(number()?)
    } else if is(Kind::Errors) {
        Named::Errors(number()?)
    } else if is(Kind::Row) {
        Named::Row(number()?)
    } else if is(Kind::Tally) && rest.is_empty() {
        Named::Tally
    } else if is(Kind::Claimed) || is(Kind::Dead) {
        number().map(|_| Named::Index)?
    } else if is(Kind::Waiting) {
        mark_of(key).map(|_| Named::Index)?
    } else if is(Kind::Head) {
        Named::Head(of_key(0)?.0)
    } else if is(Kind::Line) {
        let (key, place) = of_key(8)?;
        Named::Line(key, u64::from_be_bytes(place.try_into().ok()?))
    } else {
        return None;
    };
    Some((queue, named))
}

/// Number of the queue, and letter and rest of a key; `None` if it is too short to be one.
fn split(key: &[u8]) -> Option<(u32, u8, &[u8])> {
    let (queue, rest) = key.get(1..)?.split_first_chunk()?;
    let (letter, rest) = rest.split_first()?;
    Some((u32::from_be_bytes(*queue), *letter, rest))
}

/// The number that the end of a key, or a value, is.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.last_chunk().copied().map(u64::from_be_bytes)
}

/// The mark in the key of an entry of the waiting.
pub(crate) fn mark_of(key: &[u8]) -> Option<Mark> {
    let (_, _, rest) = split(key)?;
    let (due, turn) = rest.split_first_chunk::<8>()?;
    Some(Mark {
        due_ns: i64::decode(due).ok()?,
        turn: u64::from_be_bytes(turn.try_into().ok()?),
    })
}
