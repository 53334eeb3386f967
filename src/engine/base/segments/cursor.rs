//! Reading segments in the order of their keys, merged: of each key the entry that counts.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use redb::Range;

use super::super::from_redb;
use super::super::snapshot::Raw;
use super::{Segment, block_key, split_block_key};
use crate::codec::segment::{Block, Entry, damaged};
use crate::error::Result;

/// Which keys are read; without the byte of their space.
pub(in crate::engine::base) type Keys = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A place in each of some segments.
pub(in crate::engine::base) struct Cursors {
    cursors: Vec<Cursor>,
    reverse: bool,
    /// The segment that the last error was about.
    pub(super) damaged: Option<u64>,
}

/// What one step met: the entry that counts, and how many there were of its key.
pub(in crate::engine::base) struct Step {
    pub(in crate::engine::base) entry: Entry,
    pub(in crate::engine::base) met: u64,
}

impl Cursors {
    /// At the beginning of `keys`, or at their end if the order is reversed.
    pub(in crate::engine::base) fn open<'s>(
        blocks: &Raw,
        segments: impl IntoIterator<Item = &'s Arc<Segment>>,
        keys: &Keys,
        reverse: bool,
    ) -> Result<Cursors> {
        let mut cursors = Vec::new();
        for segment in segments {
            if let Some(cursor) = Cursor::open(blocks, segment, keys, reverse)? {
                cursors.push(cursor);
            }
        }
        Ok(Cursors {
            cursors,
            reverse,
            damaged: None,
        })
    }

    /// The next key.
    pub(in crate::engine::base) fn step(&mut self) -> Result<Option<Step>> {
        let mut best: Option<Entry> = None;
        let mut met = 0;
        for cursor in &mut self.cursors {
            let segment = cursor.segment.about.id;
            let peeked = cursor.peek().inspect_err(|_| self.damaged = Some(segment));
            let Some(entry) = peeked? else { continue };
            let order = best.as_ref().map(|best| match self.reverse {
                false => entry.key.cmp(&best.key),
                true => best.key.cmp(&entry.key),
            });
            match order {
                None | Some(std::cmp::Ordering::Less) => {
                    best = Some(entry.clone());
                    met = 1;
                }
                Some(std::cmp::Ordering::Equal) => {
                    met += 1;
                    best = best.filter(|best| best.at >= entry.at).or_else(|| Some(entry.clone()));
                }
                Some(std::cmp::Ordering::Greater) => {}
            }
        }
        let Some(entry) = best else { return Ok(None) };
        for cursor in &mut self.cursors {
            cursor.pass(&entry.key);
        }
        Ok(Some(Step { entry, met }))
    }
}

/// A place in one segment.
struct Cursor {
    segment: Arc<Segment>,
    range: Range<'static, &'static [u8], &'static [u8]>,
    keys: Keys,
    reverse: bool,
    /// Of the block that is being read, in the order of the scan.
    entries: VecDeque<Entry>,
    /// What the next block must be, as the one before said.
    expected: Expected,
}

/// The link from one block to the next.
enum Expected {
    Any,
    /// Read forwards: this key begins it. Backwards: it names this key as the next one.
    Key(Arc<[u8]>),
    Nothing,
}

impl Cursor {
    fn open(blocks: &Raw, segment: &Arc<Segment>, keys: &Keys, reverse: bool) -> Result<Option<Cursor>> {
        let about = &segment.about;
        let (from, to) = (keys.0.as_ref().map(Vec::as_slice), keys.1.as_ref().map(Vec::as_slice));
        let is_before = match to {
            Bound::Included(to) => to < &*about.first_key,
            Bound::Excluded(to) => to <= &*about.first_key,
            Bound::Unbounded => false,
        };
        let is_behind = match from {
            Bound::Included(from) => from > &*about.last_key,
            Bound::Excluded(from) => from >= &*about.last_key,
            Bound::Unbounded => false,
        };
        if is_before || is_behind {
            return Ok(None);
        }
        let start = match from {
            Bound::Included(from) | Bound::Excluded(from) => start_of_block(blocks, segment, from)?,
            Bound::Unbounded => block_key(about.id, &[]),
        };
        let end = match to {
            Bound::Included(to) | Bound::Excluded(to) => to.min(&about.last_key),
            Bound::Unbounded => &about.last_key,
        };
        let end = block_key(about.id, end);
        let range = blocks
            .range::<&[u8]>(start.as_slice()..=end.as_slice())
            .map_err(from_redb)?;
        Ok(Some(Cursor {
            segment: segment.clone(),
            range,
            keys: keys.clone(),
            reverse,
            entries: VecDeque::new(),
            expected: Expected::Any,
        }))
    }

    /// The entry it is at.
    fn peek(&mut self) -> Result<Option<&Entry>> {
        while self.entries.is_empty() {
            if !self.read_block()? {
                return Ok(None);
            }
        }
        Ok(self.entries.front())
    }

    /// Leaves the entry it is at behind if it is of this key.
    fn pass(&mut self, key: &[u8]) {
        if self.entries.front().is_some_and(|entry| *entry.key == *key) {
            self.entries.pop_front();
        }
    }

    /// Reads the next block; `false` if there is none, or none that has to do with the keys that are read.
    fn read_block(&mut self) -> Result<bool> {
        let item = if self.reverse {
            self.range.next_back()
        } else {
            self.range.next()
        };
        let Some(item) = item else { return self.at_the_end() };
        let (key, value) = item.map_err(from_redb)?;
        let (id, first) = split_block_key(key.value())?;
        if id != self.segment.about.id {
            return Err(damaged("a block is of another segment"));
        }
        let block = Block::decode(id, first, value.value())?;
        let next: Option<Arc<[u8]>> = block.next.map(Into::into);
        let is_expected = match &self.expected {
            Expected::Any if self.reverse => next.as_ref().is_none_or(|next| end_before(&self.keys, next)),
            Expected::Any => *first == *self.segment.about.first_key || begin_at(&self.keys, first),
            Expected::Key(key) if self.reverse => next.as_ref() == Some(key),
            Expected::Key(key) => **key == *first,
            Expected::Nothing => false,
        };
        if !is_expected {
            return Err(damaged("a block is missing or out of order"));
        }
        self.expected = match self.reverse {
            true => Expected::Key(first.into()),
            false => next.map_or(Expected::Nothing, Expected::Key),
        };
        let keys = &self.keys;
        let entries = block.entries();
        let mut entries: VecDeque<Entry> = entries.filter(|entry| are_inside(keys, &entry.key)).collect();
        if self.reverse {
            entries.make_contiguous().reverse();
        }
        self.entries = entries;
        Ok(true)
    }

    /// Whether the blocks may end here; always `false` then.
    fn at_the_end(&self) -> Result<bool> {
        let may_end = match &self.expected {
            Expected::Nothing => true,
            Expected::Any => false,
            // The next block, or backwards the one before, must have been met if the keys reach that far.
            Expected::Key(first) if self.reverse => {
                *first == self.segment.about.first_key || begin_at(&self.keys, first)
            }
            Expected::Key(next) => end_before(&self.keys, next),
        };
        match may_end {
            true => Ok(false),
            false => Err(damaged("a segment ends too soon")),
        }
    }
}

/// Whether none of the keys lies before `first`.
fn begin_at(keys: &Keys, first: &[u8]) -> bool {
    match &keys.0 {
        Bound::Included(from) | Bound::Excluded(from) => from.as_slice() >= first,
        Bound::Unbounded => false,
    }
}

/// Whether all keys lie before `next`.
fn end_before(keys: &Keys, next: &[u8]) -> bool {
    match &keys.1 {
        Bound::Included(to) => to.as_slice() < next,
        Bound::Excluded(to) => to.as_slice() <= next,
        Bound::Unbounded => false,
    }
}

/// Whether a key is one of those that are read.
pub(in crate::engine::base) fn are_inside(keys: &Keys, key: &[u8]) -> bool {
    let (from, to) = keys;
    let slices = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
    // Named in full: with `bytes` among the crates of a program there is more than one type that a slice compares with.
    RangeBounds::<[u8]>::contains(&slices, key)
}

/// The key of the block that `key` lies in, or would.
fn start_of_block(blocks: &Raw, segment: &Segment, key: &[u8]) -> Result<Vec<u8>> {
    let id = segment.about.id;
    let lowest = block_key(id, &[]);
    let highest = block_key(id, key);
    let mut range = blocks
        .range::<&[u8]>(lowest.as_slice()..=highest.as_slice())
        .map_err(from_redb)?;
    let last = range.next_back().transpose().map_err(from_redb)?;
    Ok(last.map_or(lowest, |(key, _)| key.value().to_vec()))
}
