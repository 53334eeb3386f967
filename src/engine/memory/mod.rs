//! The memory table: what the log holds and the base does not have yet.
//!
//! One ordered map in which every key has all its changes since the last freeze, each with the sequence of its commit.
//! A state is the map and the highest sequence that it shows, so that a snapshot and a rollback cost nothing, and an insert
//! copies a change once. Most keys that are looked up are not here, and filters say so of nearly all of them. What is kept is
//! bounded by the log half that holds it as well. A value of `None` says that the key was removed, and hides what the base has.
//!
//! Invariant: sequences are inserted in their order, from one on. Before one is given again, [`Memory::roll_back`] dropped the first.

mod heap;
mod index;
mod spare;

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use self::heap::{Change, End, Heap, Value};
use self::index::{Index, Position, Sought};
use super::view::Span;
use crate::codec::filter::{self, Filter};
use crate::sync::{Arc, RwLock};

/// Bytes shared between snapshots.
pub type Bytes = Arc<[u8]>;
/// A key with its newest value, or its removal.
pub type Entry = (Bytes, Option<Bytes>);

/// For how many changes the first filter has room; each further one has room for twice as many.
const FILTER_KEYS: u64 = 32 << 10;
/// How many keys a scan passes while it holds the lock: few at first, since it may end soon, and up to the most of them.
const FIRST_PAGE_KEYS: usize = 4;
const PAGE_KEYS: usize = 64;
/// About how many bytes it copies meanwhile.
const PAGE_BYTES: usize = 64 << 10;

/// A state of an ordered map from keys to their changes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    table: Arc<RwLock<Table>>,
    /// Of what sequence the newest change is that this state shows.
    upto: u64,
    /// Where that change ends.
    end: End,
}

#[derive(Debug, Default)]
struct Table {
    heap: Heap,
    index: Index,
    filters: Filters,
}

impl Memory {
    /// No changes.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// No changes, for the log half that follows: what this table takes serves again once nobody reads it any more.
    pub fn successor(&self) -> Memory {
        let table = self.table.read();
        let successor = Table {
            heap: table.heap.successor(),
            index: table.index.successor(),
            filters: Filters::default(),
        };
        Memory {
            table: Arc::new(RwLock::new(successor)),
            ..Memory::default()
        }
    }

    /// Adds a change of the commit `sequence`, which this state shows from now on; older states do not.
    pub fn insert<V: AsRef<[u8]> + Into<Bytes>>(&mut self, sequence: u64, key: &[u8], value: Option<V>) {
        let hash = filter::hash(key);
        let (here, apart);
        let value = match value {
            None => None,
            Some(value) if Heap::is_apart(value.as_ref()) => {
                apart = value.into();
                Some(Value::Apart(&apart))
            }
            Some(value) => {
                here = value;
                Some(Value::Here(here.as_ref()))
            }
        };
        let mut table = self.table.write();
        let Table { heap, index, filters } = &mut *table;
        filters.insert(hash);
        let place = heap.push(Change { sequence, key, value });
        index.insert(heap, Sought::new(key, sequence), place);
        (self.upto, self.end) = (sequence, heap.end());
    }

    /// Takes the map back to this state: what came after it is dropped.
    pub fn roll_back(&self) {
        let Table { heap, index, filters } = &mut *self.table.write();
        index.retain(heap, |change| change.sequence <= self.upto);
        heap.truncate(self.end);
        *filters = Filters::default();
        index.each(heap, |change| filters.insert(filter::hash(change.key)));
    }

    /// `None`: says nothing of this key. `Some(None)`: the key was removed.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        if self.shows_nothing() {
            return None;
        }
        let hash = filter::hash(key);
        let table = self.table.read();
        if !table.filters.may_hold(hash) {
            return None;
        }
        let found = table.shown(key, self.upto)?;
        Some(found.value.map(Value::share))
    }

    /// How many leaves the order of the changes takes.
    #[cfg(feature = "test-util")]
    pub fn leaves(&self) -> usize {
        self.table.read().index.leaves()
    }

    /// All changes in key order.
    pub fn iter(&self) -> Entries {
        self.range(&Span {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            reverse: false,
        })
    }

    /// The changes inside a span, which must not be empty, in its order.
    pub fn range(&self, span: &Span) -> Entries {
        Entries {
            memory: self.clone(),
            left: span.clone(),
            page: VecDeque::new(),
            page_keys: FIRST_PAGE_KEYS,
            at_the_end: self.shows_nothing(),
        }
    }

    /// Known without the lock that readers share: sequences begin at one.
    fn shows_nothing(&self) -> bool {
        self.upto == 0
    }
}

impl Table {
    fn seek(&self, sought: Sought<'_>) -> Position {
        self.index.seek(&self.heap, sought)
    }

    fn at(&self, position: Position) -> Option<Change<'_>> {
        self.index.get(&self.heap, position)
    }

    /// The change of a key that a state up to this sequence shows.
    fn shown(&self, key: &[u8], upto: u64) -> Option<Change<'_>> {
        let found = self.at(self.seek(Sought::new(key, upto)))?;
        (found.key == key).then_some(found)
    }

    /// The first key at or behind a position with the change that is shown, and where the next key begins.
    fn ahead(&self, position: Position, upto: u64) -> Option<Passed<'_>> {
        let newest = self.at(position)?;
        let next = self.index.next(position);
        let is_alone = self.at(next).is_none_or(|next| next.key != newest.key);
        Some(match is_alone {
            true => Passed::alone(newest, upto, next),
            false => Passed {
                key: newest.key,
                shown: self.shown(newest.key, upto),
                left: self.seek(Sought::behind(newest.key)),
            },
        })
    }

    /// The last key before a position with the change that is shown, and where that key begins.
    fn back(&self, position: Position, upto: u64) -> Option<Passed<'_>> {
        let position = self.index.previous(position)?;
        let oldest = self.at(position)?;
        let before = self.index.previous(position).and_then(|before| self.at(before));
        let is_alone = before.is_none_or(|before| before.key != oldest.key);
        Some(match is_alone {
            true => Passed::alone(oldest, upto, position),
            false => Passed {
                key: oldest.key,
                shown: self.shown(oldest.key, upto),
                left: self.seek(Sought::before(oldest.key)),
            },
        })
    }
}

/// A key that a scan passed.
struct Passed<'t> {
    key: &'t [u8],
    /// `None` if all its changes are too new.
    shown: Option<Change<'t>>,
    /// Where the scan goes on.
    left: Position,
}

impl<'t> Passed<'t> {
    /// A key with one change.
    fn alone(change: Change<'t>, upto: u64, left: Position) -> Passed<'t> {
        Passed {
            key: change.key,
            shown: (change.sequence <= upto).then_some(change),
            left,
        }
    }
}

/// Changes of one state, page by page, so that no writer waits for a scan.
pub struct Entries {
    memory: Memory,
    /// What is left to read.
    left: Span,
    page: VecDeque<Entry>,
    /// How many keys the next page passes.
    page_keys: usize,
    at_the_end: bool,
}

impl Entries {
    fn read_page(&mut self) {
        let upto = self.memory.upto;
        let table = self.memory.table.read();
        let left_to_read = &self.left;
        let mut position = match (left_to_read.reverse, &left_to_read.from, &left_to_read.to) {
            (false, Bound::Included(from), _) => table.seek(Sought::before(from)),
            (false, Bound::Excluded(from), _) => table.seek(Sought::behind(from)),
            (false, Bound::Unbounded, _) => Index::BEGIN,
            (true, _, Bound::Included(to)) => table.seek(Sought::behind(to)),
            (true, _, Bound::Excluded(to)) => table.seek(Sought::before(to)),
            (true, _, Bound::Unbounded) => table.index.end(),
        };
        let mut bytes = 0;
        let mut last = None;
        self.at_the_end = true;
        for passed in 0.. {
            let found = match left_to_read.reverse {
                false => table.ahead(position, upto),
                true => table.back(position, upto),
            };
            let inside = found.filter(|found| left_to_read.contains(found.key));
            let Some(Passed { key, shown, left }) = inside else {
                break;
            };
            if passed == self.page_keys || bytes > PAGE_BYTES {
                self.at_the_end = false;
                break;
            }
            if let Some(shown) = shown {
                bytes += key.len() + shown.value.map_or(0, Value::copied);
                self.page.push_back((key.into(), shown.value.map(Value::share)));
            }
            (position, last) = (left, Some(key));
        }
        self.page_keys = (2 * self.page_keys).min(PAGE_KEYS);
        if let Some(last) = last.filter(|_| !self.at_the_end) {
            let last = Bound::Excluded(last.into());
            match self.left.reverse {
                false => self.left.from = last,
                true => self.left.to = last,
            }
        }
    }
}

impl Iterator for Entries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while self.page.is_empty() && !self.at_the_end {
            self.read_page();
        }
        self.page.pop_front()
    }
}

/// Which keys a table certainly does not have. They grow by one more, so that none is ever made anew.
#[derive(Debug, Default)]
struct Filters {
    all: Vec<Filter>,
    /// Changes that the last one still takes.
    room: u64,
}

impl Filters {
    fn insert(&mut self, hash: u64) {
        if self.room == 0 {
            let room = FILTER_KEYS << self.all.len().min(16);
            self.all.push(Filter::with_room(room));
            self.room = room;
        }
        self.room -= 1;
        if let Some(last) = self.all.last_mut() {
            last.insert(hash);
        }
    }

    fn may_hold(&self, hash: u64) -> bool {
        self.all.iter().any(|filter| filter.may_hold(hash))
    }
}
