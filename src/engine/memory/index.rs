//! The order of the changes: by key, and those of one key from the newest to the oldest.
//!
//! A sorted list in leaves, and the leaves in branches: the list of branches of the longest log half has some thousand. An
//! insert moves what lies behind it in its leaf. A leaf that is full becomes two, unless what comes belongs at its end: then the
//! next leaf takes it, or a new one, so that leaves of rising keys stay full.

use super::heap::{Change, Heap, Place};
use super::spare::Spare;

/// How many changes a leaf takes, and how many leaves a branch.
const LEAF: usize = 128;
const BRANCH: usize = 512;
/// How many leaves are kept for the table that follows: what one of the usual length takes, and as much again.
const LEAVES_KEPT: usize = 2048;

/// The first sixteen bytes of a key as numbers, filled up with zeros. Keys whose heads differ are in the order of these, so
/// that most comparisons touch no other memory.
type Head = [u64; 2];

#[derive(Clone, Copy, Debug)]
struct Indexed {
    head: Head,
    place: Place,
}

/// Some in their order; never empty.
#[derive(Debug)]
struct Node<T> {
    /// A copy of the very first, so that the right node is found without a look into the others.
    first: Indexed,
    all: Vec<T>,
}

type Leaf = Node<Indexed>;
type Branch = Node<Leaf>;

/// Places of changes in their order.
#[derive(Debug, Default)]
pub(super) struct Index {
    branches: Vec<Branch>,
    spare: Spare<Indexed>,
}

impl Drop for Index {
    fn drop(&mut self) {
        let leaves = self.branches.drain(..).flat_map(|branch| branch.all);
        self.spare.keep(leaves.map(|leaf| leaf.all).take(LEAVES_KEPT));
    }
}

/// Where a change stands, or one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    branch: usize,
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

    /// The last of some nodes that begins before it, or the first one.
    fn node_in<T>(&self, nodes: &[Node<T>], heap: &Heap) -> usize {
        let behind = nodes.partition_point(|node| self.is_behind(&node.first, heap));
        behind.saturating_sub(1)
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
            branches: Vec::new(),
            spare: self.spare.clone(),
        }
    }

    /// How many leaves there are.
    #[cfg(feature = "test-util")]
    pub(super) fn leaves(&self) -> usize {
        self.branches.iter().map(|branch| branch.all.len()).sum()
    }

    /// Before the first change.
    pub(super) const BEGIN: Position = Position::at_branch(0);

    /// Behind the last change.
    pub(super) fn end(&self) -> Position {
        Position::at_branch(self.branches.len())
    }

    /// Where the first change stands that does not come before `sought`.
    pub(super) fn seek(&self, heap: &Heap, sought: Sought<'_>) -> Position {
        self.on_a_change(self.place_for(heap, sought))
    }

    /// The end of a leaf is the beginning of the next one.
    fn on_a_change(&self, position: Position) -> Position {
        let Position { branch, leaf, at } = position;
        let Some(leaves) = self.branches.get(branch).map(|branch| &branch.all) else {
            return position;
        };
        if leaves.get(leaf).is_some_and(|leaf| at < leaf.all.len()) {
            return position;
        }
        match leaf + 1 < leaves.len() {
            true => Position {
                branch,
                leaf: leaf + 1,
                at: 0,
            },
            false => Position::at_branch(branch + 1),
        }
    }

    /// Where `sought` belongs, which may be the end of a leaf.
    fn place_for(&self, heap: &Heap, sought: Sought<'_>) -> Position {
        let branch = sought.node_in(&self.branches, heap);
        let leaves = self.branches.get(branch).map_or(&[][..], |branch| &branch.all);
        let leaf = sought.node_in(leaves, heap);
        let all = leaves.get(leaf).map_or(&[][..], |leaf| &leaf.all);
        let at = all.partition_point(|indexed| sought.is_behind(indexed, heap));
        Position { branch, leaf, at }
    }

    fn leaf(&self, position: Position) -> Option<&Leaf> {
        self.branches.get(position.branch)?.all.get(position.leaf)
    }

    /// The change that stands there.
    pub(super) fn get<'h>(&self, heap: &'h Heap, position: Position) -> Option<Change<'h>> {
        heap.get(self.leaf(position)?.all.get(position.at)?.place)
    }

    /// One further.
    pub(super) fn next(&self, position: Position) -> Position {
        self.on_a_change(Position {
            at: position.at + 1,
            ..position
        })
    }

    /// One back; `None` at the beginning.
    pub(super) fn previous(&self, Position { branch, leaf, at }: Position) -> Option<Position> {
        if let Some(at) = at.checked_sub(1) {
            return Some(Position { branch, leaf, at });
        }
        let (branch, leaf) = match leaf.checked_sub(1) {
            Some(leaf) => (branch, leaf),
            None => {
                let branch = branch.checked_sub(1)?;
                (branch, self.branches.get(branch)?.all.len().checked_sub(1)?)
            }
        };
        let before = Position { branch, leaf, at: 0 };
        let at = self.leaf(before)?.all.len().checked_sub(1)?;
        Some(Position { at, ..before })
    }

    /// Adds a change, which takes the place of one with the same key and sequence.
    pub(super) fn insert(&mut self, heap: &Heap, sought: Sought<'_>, place: Place) {
        let new = Indexed {
            head: sought.head,
            place,
        };
        if self.branches.is_empty() {
            let mut all = self.spare.take(LEAF);
            all.push(new);
            self.branches.push(Branch::of(new, vec![Leaf::of(new, all)]));
            return;
        }
        let position = self.place_for(heap, sought);
        let found = self.on_a_change(position);
        let is_same = |change: Change<'_>| change.sequence == sought.sequence && change.key == sought.key;
        if self.get(heap, found).is_some_and(is_same) {
            self.change_leaf(found, |leaf| leaf.all.get_mut(found.at).map(|old| *old = new));
            return;
        }
        let has_room = |position| self.leaf(position).is_some_and(|leaf| leaf.all.len() < LEAF);
        // At the end of a leaf the next one may take it as well, which matters where each comes before the one that came last.
        if let Some(position) = [position, found].into_iter().find(|position| has_room(*position)) {
            self.change_leaf(position, |leaf| leaf.all.insert(position.at, new));
            return;
        }
        let empty = self.spare.take(LEAF);
        if let Some(second) = self.change_leaf(position, |leaf| leaf.divide(position.at, new, empty)) {
            self.insert_leaf(position, second);
        }
    }

    fn change_leaf<T>(&mut self, position: Position, change: impl FnOnce(&mut Leaf) -> T) -> Option<T> {
        let branch = self.branches.get_mut(position.branch)?;
        let leaf = branch.all.get_mut(position.leaf)?;
        let changed = change(leaf);
        leaf.note_first();
        branch.note_first();
        Some(changed)
    }

    /// Puts a leaf behind the one of this position.
    fn insert_leaf(&mut self, position: Position, leaf: Leaf) {
        let at = position.leaf + 1;
        let Some(branch) = self.branches.get_mut(position.branch) else {
            return;
        };
        if branch.all.len() < BRANCH {
            branch.all.insert(at, leaf);
            return;
        }
        let second = branch.divide(at, leaf, Vec::with_capacity(BRANCH));
        self.branches.insert(position.branch + 1, second);
    }

    /// Drops all changes that `keep` does not want.
    pub(super) fn retain(&mut self, heap: &Heap, keep: impl Fn(Change<'_>) -> bool) {
        self.branches.retain_mut(|branch| {
            branch.all.retain_mut(|leaf| {
                leaf.all.retain(|indexed| heap.get(indexed.place).is_some_and(&keep));
                leaf.note_first();
                !leaf.all.is_empty()
            });
            branch.note_first();
            !branch.all.is_empty()
        });
    }

    /// Gives `each` every change, in their order.
    pub(super) fn each(&self, heap: &Heap, each: impl FnMut(Change<'_>)) {
        let leaves = self.branches.iter().flat_map(|branch| &branch.all);
        let all = leaves.flat_map(|leaf| &leaf.all);
        all.filter_map(|indexed| heap.get(indexed.place)).for_each(each);
    }
}

impl Position {
    const fn at_branch(branch: usize) -> Position {
        Position { branch, leaf: 0, at: 0 }
    }
}

/// What knows its first change.
trait First {
    fn first(&self) -> Indexed;
}

impl First for Indexed {
    fn first(&self) -> Indexed {
        *self
    }
}

impl<T> First for Node<T> {
    fn first(&self) -> Indexed {
        self.first
    }
}

impl<T: First> Node<T> {
    fn of(first: Indexed, all: Vec<T>) -> Node<T> {
        Node { first, all }
    }

    /// Takes the upper half out, with one more that belongs at `at`, into `empty`; of what belongs at the end only that.
    fn divide(&mut self, at: usize, new: T, mut empty: Vec<T>) -> Node<T> {
        let half = if at == self.all.len() { at } else { self.all.len() / 2 };
        empty.extend(self.all.drain(half..));
        match at.checked_sub(half) {
            Some(at) => empty.insert(at, new),
            None => self.all.insert(at, new),
        }
        let mut second = Node::of(self.first, empty);
        second.note_first();
        self.note_first();
        second
    }

    fn note_first(&mut self) {
        if let Some(first) = self.all.first() {
            self.first = first.first();
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
