//! The memory table: what the log holds and the base does not have yet.
//!
//! One ordered map in which every key has all its versions since the last freeze, each with the sequence of its commit.
//! A state is the map and the highest sequence that it shows, so that a snapshot and a rollback cost nothing, and an insert
//! copies nothing. Most keys that are looked up are not here, and a filter says so of nearly all of them. What is kept is
//! bounded by the log half that holds it as well. A value of `None` says that the key was removed, and hides what the base has.
//!
//! Invariant: sequences are inserted in their order. Before one is given again, [`Memory::roll_back`] dropped the first.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::view::Span;
use crate::codec::filter::{self, Filter};
use crate::sync::{Arc, RwLock};

/// Bytes shared between snapshots.
pub type Bytes = Arc<[u8]>;
/// A key with its newest value, or its removal.
pub type Entry = (Bytes, Option<Bytes>);

/// For how many keys the filter has room. A half of the usual length takes fewer, of short values; in a longer one the filter
/// says less.
const FILTER_KEYS: u64 = 32_768;
/// How many entries a scan copies while it holds the lock.
const PAGE: usize = 64;

/// A state of an ordered map from keys to their changes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    table: Arc<RwLock<Table>>,
    /// Of what sequence the newest change is that this state shows.
    upto: u64,
}

#[derive(Debug)]
struct Table {
    map: BTreeMap<Headed, Versions>,
    /// Knows every key of the map.
    filter: Filter,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            map: BTreeMap::new(),
            filter: Filter::with_room(FILTER_KEYS),
        }
    }
}

impl Memory {
    /// No changes.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds a change of the commit `sequence`, which this state shows from now on; older states do not.
    pub fn insert(&mut self, sequence: u64, key: Bytes, value: Option<Bytes>) {
        self.upto = sequence;
        let version = Version { sequence, value };
        let mut table = self.table.write();
        table.filter.insert(filter::hash(&key));
        match table.map.entry(Headed::new(key)) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(Versions {
                    newest: version,
                    older: Vec::new(),
                });
            }
            std::collections::btree_map::Entry::Occupied(mut place) => {
                let versions = place.get_mut();
                let before = std::mem::replace(&mut versions.newest, version);
                if before.sequence != sequence {
                    versions.older.push(before);
                }
            }
        }
    }

    /// Takes the map back to this state: what came after it is dropped.
    pub fn roll_back(&self) {
        self.table
            .write()
            .map
            .retain(|_, versions| versions.roll_back(self.upto));
    }

    /// `None`: says nothing of this key. `Some(None)`: the key was removed.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let (hash, sought) = (filter::hash(key), Sought::new(key));
        let table = self.table.read();
        if !table.filter.may_hold(hash) {
            return None;
        }
        let versions = table.map.get::<dyn Ordered>(&sought)?;
        versions.shown(self.upto).cloned()
    }

    /// All changes in key order.
    pub fn iter(&self) -> Entries {
        self.entries(Bound::Unbounded, Bound::Unbounded, false)
    }

    /// The changes inside a span, which must not be empty, in its order.
    pub fn range(&self, span: &Span) -> Entries {
        self.entries(span.from.clone(), span.to.clone(), span.reverse)
    }

    fn entries(&self, from: Bound<Bytes>, to: Bound<Bytes>, reverse: bool) -> Entries {
        Entries {
            memory: self.clone(),
            from,
            to,
            reverse,
            page: VecDeque::new(),
            at_the_end: false,
        }
    }
}

/// The changes of one key, the older ones in their order.
#[derive(Debug)]
struct Versions {
    newest: Version,
    older: Vec<Version>,
}

#[derive(Debug)]
struct Version {
    sequence: u64,
    value: Option<Bytes>,
}

impl Versions {
    /// What a state up to this sequence shows.
    fn shown(&self, upto: u64) -> Option<&Option<Bytes>> {
        if self.newest.sequence <= upto {
            return Some(&self.newest.value);
        }
        let shown = self.older.partition_point(|version| version.sequence <= upto);
        let version = self.older.get(shown.checked_sub(1)?)?;
        Some(&version.value)
    }

    /// Drops what is newer. Whether anything is left.
    fn roll_back(&mut self, upto: u64) -> bool {
        while self.newest.sequence > upto {
            match self.older.pop() {
                Some(older) => self.newest = older,
                None => return false,
            }
        }
        true
    }
}

/// Changes of one state, page by page, so that no writer waits for a scan.
pub struct Entries {
    memory: Memory,
    /// What is left to read.
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    reverse: bool,
    page: VecDeque<Entry>,
    at_the_end: bool,
}

impl Entries {
    fn read_page(&mut self) {
        let upto = self.memory.upto;
        let table = self.memory.table.read();
        let (from, to) = (sought(&self.from), sought(&self.to));
        let range = table.map.range::<dyn Ordered, _>((as_ordered(&from), as_ordered(&to)));
        let range: Box<dyn Iterator<Item = _>> = match self.reverse {
            true => Box::new(range.rev()),
            false => Box::new(range),
        };
        let mut last = None;
        let mut passed = 0;
        for (key, versions) in range.take(PAGE) {
            passed += 1;
            last = Some(key.whole.clone());
            if let Some(value) = versions.shown(upto) {
                self.page.push_back((key.whole.clone(), value.clone()));
            }
        }
        drop(table);
        self.at_the_end = passed < PAGE;
        if let Some(last) = last {
            let left = if self.reverse { &mut self.to } else { &mut self.from };
            *left = Bound::Excluded(last);
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

/// A key with its first bytes as a number, so that most comparisons touch no other memory.
#[derive(Debug)]
struct Headed {
    head: u128,
    whole: Bytes,
}

impl Headed {
    fn new(whole: Bytes) -> Headed {
        Headed {
            head: head_of(&whole),
            whole,
        }
    }
}

/// The first sixteen bytes, filled up with zeros: keys whose heads differ are in the order of these.
fn head_of(key: &[u8]) -> u128 {
    let mut head = [0; 16];
    for (byte, of_key) in head.iter_mut().zip(key) {
        *byte = *of_key;
    }
    u128::from_be_bytes(head)
}

/// A key that is looked for.
struct Sought<'k> {
    head: u128,
    whole: &'k [u8],
}

impl Sought<'_> {
    fn new(whole: &[u8]) -> Sought<'_> {
        Sought {
            head: head_of(whole),
            whole,
        }
    }
}

fn sought(bound: &Bound<Bytes>) -> Bound<Sought<'_>> {
    bound.as_ref().map(|key| Sought::new(key))
}

fn as_ordered<'a>(bound: &'a Bound<Sought<'_>>) -> Bound<&'a (dyn Ordered + 'a)> {
    bound.as_ref().map(|key| key as &dyn Ordered)
}

/// What keys of the map and keys that are looked for are compared by.
trait Ordered {
    fn head(&self) -> u128;
    fn whole(&self) -> &[u8];
}

impl Ordered for Headed {
    fn head(&self) -> u128 {
        self.head
    }

    fn whole(&self) -> &[u8] {
        &self.whole
    }
}

impl Ordered for Sought<'_> {
    fn head(&self) -> u128 {
        self.head
    }

    fn whole(&self) -> &[u8] {
        self.whole
    }
}

impl Ord for dyn Ordered + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let heads = self.head().cmp(&other.head());
        heads.then_with(|| self.whole().cmp(other.whole()))
    }
}

impl PartialOrd for dyn Ordered + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Ordered + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Ordered + '_ {}

impl Ord for Headed {
    fn cmp(&self, other: &Headed) -> std::cmp::Ordering {
        let heads = self.head.cmp(&other.head);
        heads.then_with(|| self.whole.cmp(&other.whole))
    }
}

impl PartialOrd for Headed {
    fn partial_cmp(&self, other: &Headed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Headed {
    fn eq(&self, other: &Headed) -> bool {
        self.whole == other.whole
    }
}

impl Eq for Headed {}

impl<'k> Borrow<dyn Ordered + 'k> for Headed {
    fn borrow(&self) -> &(dyn Ordered + 'k) {
        self
    }
}
