//! The order of the changes: by key, and those of one key from the newest to the oldest.
//!
//! A sorted list in leaves, the leaves themselves in one sorted list. An insert moves half a leaf at most, and a leaf that is
//! full becomes two; one that grows at its end stays full, as of keys that rise. Nothing but leaves is allocated.

use super::heap::{Change, Heap, Place};
use super::spare::Spare;

/// How many changes a leaf takes.
const LEAF: usize = 128;

/// The first sixteen bytes of a key as numbers, filled up with zeros. Keys whose heads differ are in the order of these, so
/// that most comparisons touch no other memory.
type Head = [u64; 2];

#[derive(Clone, Copy, Debug)]
struct Indexed {
    head: Head,
    place: Place,
}

/// Never empty.
#[derive(Debug)]
struct Leaf {
    /// A copy of its first, so that the right leaf is found without a look into the others.
    first: Indexed,
    all: Vec<Indexed>,
}

/// Places of changes in their order.
#[derive(Debug, Default)]
pub(super) struct Index {
    leaves: Vec<Leaf>,
    spare: Spare<Indexed>,
}

impl Drop for Index {
    fn drop(&mut self) {
        self.spare.keep(self.leaves.drain(..).map(|leaf| leaf.all));
    }
}

/// Where a change stands, or one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    leaf: usize,
    at: usize,
}

/// A key and a sequence to look for: stands before the changes of this key that are not newer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sought<'k> {
    head: Head,
    key: &'k [u8],
    sequence: u64,
}

impl<'k> Sought<'k> {
    pub(super) fn new(key: &'k [u8], sequence: u64) -> Sought<'k> {
        Sought {
            head: head_of(key),
            key,
            sequence,
        }
    }

    /// Before all changes of this key.
    pub(super) fn before(key: &'k [u8]) -> Sought<'k> {
        Sought::new(key, u64::MAX)
    }

    /// Behind all changes of this key: no commit has the sequence zero.
    pub(super) fn behind(key: &'k [u8]) -> Sought<'k> {
        Sought::new(key, 0)
    }

    /// Whether a change comes before it.
    fn is_behind(&self, indexed: &Indexed, heap: &Heap) -> bool {
        if indexed.head != self.head {
            return indexed.head < self.head;
        }
        heap.get(indexed.place).is_some_and(|change| {
            let keys = change.key.cmp(self.key);
            keys.then(self.sequence.cmp(&change.sequence)).is_lt()
        })
    }
}

impl Index {
    /// An empty one that takes the leaves of those before it.
    pub(super) fn successor(&self) -> Index {
        Index {
            leaves: Vec::new(),
            spare: self.spare.clone(),
        }
    }

    /// Before the first change.
    pub(super) const BEGIN: Position = Position { leaf: 0, at: 0 };

    /// Behind the last change.
    pub(super) fn end(&self) -> Position {
        Position {
            leaf: self.leaves.len(),
            at: 0,
        }
    }

    /// Where the first change stands that does not come before `sought`.
    pub(super) fn seek(&self, heap: &Heap, sought: Sought<'_>) -> Position {
        self.on_a_change(self.place_for(heap, sought))
    }

    /// The end of a leaf is the beginning of the next one.
    fn on_a_change(&self, Position { leaf, at }: Position) -> Position {
        match self.leaves.get(leaf) {
            Some(found) if at == found.all.len() => Position { leaf: leaf + 1, at: 0 },
            _ => Position { leaf, at },
        }
    }

    /// Where `sought` belongs, which may be the end of a leaf.
    fn place_for(&self, heap: &Heap, sought: Sought<'_>) -> Position {
        let leaf = self.leaves.partition_point(|leaf| sought.is_behind(&leaf.first, heap));
        let leaf = leaf.saturating_sub(1);
        let at = self.leaves.get(leaf).map_or(0, |leaf| {
            leaf.all.partition_point(|indexed| sought.is_behind(indexed, heap))
        });
        Position { leaf, at }
    }

    /// The change that stands there.
    pub(super) fn get<'h>(&self, heap: &'h Heap, position: Position) -> Option<Change<'h>> {
        let indexed = self.leaves.get(position.leaf)?.all.get(position.at)?;
        heap.get(indexed.place)
    }

    /// One further.
    pub(super) fn next(&self, Position { leaf, at }: Position) -> Position {
        self.on_a_change(Position { leaf, at: at + 1 })
    }

    /// One back; `None` at the beginning.
    pub(super) fn previous(&self, Position { leaf, at }: Position) -> Option<Position> {
        if let Some(at) = at.checked_sub(1) {
            return Some(Position { leaf, at });
        }
        let leaf = leaf.checked_sub(1)?;
        let at = self.leaves.get(leaf)?.all.len().checked_sub(1)?;
        Some(Position { leaf, at })
    }

    /// Adds a change, which takes the place of one with the same key and sequence.
    pub(super) fn insert(&mut self, heap: &Heap, sought: Sought<'_>, place: Place) {
        let new = Indexed {
            head: sought.head,
            place,
        };
        let position = self.place_for(heap, sought);
        let found = self.on_a_change(position);
        let is_same = |change: Change<'_>| change.sequence == sought.sequence && change.key == sought.key;
        if self.get(heap, found).is_some_and(is_same) {
            self.replace(found, new);
            return;
        }
        let Position { leaf, at } = position;
        let Some(found) = self.leaves.get_mut(leaf) else {
            self.leaves.push(Leaf::of(new, self.spare.take(LEAF)));
            return;
        };
        if found.all.len() < LEAF {
            found.insert(at, new);
            return;
        }
        let empty = self.spare.take(LEAF);
        if at == LEAF {
            self.leaves.insert(leaf + 1, Leaf::of(new, empty));
            return;
        }
        let mut second = found.split(empty);
        match at.checked_sub(found.all.len()) {
            Some(at) => second.insert(at, new),
            None => found.insert(at, new),
        }
        self.leaves.insert(leaf + 1, second);
    }

    fn replace(&mut self, position: Position, new: Indexed) {
        let Some(leaf) = self.leaves.get_mut(position.leaf) else {
            return;
        };
        if let Some(old) = leaf.all.get_mut(position.at) {
            *old = new;
        }
        leaf.note_first();
    }

    /// Drops all changes that `keep` does not want.
    pub(super) fn retain(&mut self, heap: &Heap, keep: impl Fn(Change<'_>) -> bool) {
        self.leaves.retain_mut(|leaf| {
            leaf.all.retain(|indexed| heap.get(indexed.place).is_some_and(&keep));
            leaf.note_first();
            !leaf.all.is_empty()
        });
    }
}

impl Leaf {
    fn of(first: Indexed, mut all: Vec<Indexed>) -> Leaf {
        all.push(first);
        Leaf { first, all }
    }

    fn insert(&mut self, at: usize, new: Indexed) {
        self.all.insert(at, new);
        self.note_first();
    }

    /// Takes the upper half out, into `all`, which is empty.
    fn split(&mut self, mut all: Vec<Indexed>) -> Leaf {
        all.extend(self.all.drain(self.all.len() / 2..));
        let mut second = Leaf { first: self.first, all };
        second.note_first();
        second
    }

    fn note_first(&mut self) {
        if let Some(first) = self.all.first() {
            self.first = *first;
        }
    }
}

fn head_of(key: &[u8]) -> Head {
    let mut head = [0; 16];
    let len = key.len().min(head.len());
    if let (Some(head), Some(key)) = (head.get_mut(..len), key.get(..len)) {
        head.copy_from_slice(key);
    }
    let head = u128::from_be_bytes(head);
    [(head >> 64) as u64, head as u64]
}
