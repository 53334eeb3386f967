//! One state of the base, to look up and to scan.
//!
//! redb answers an error for ever once it met one, and a checkpoint that fails gives its opening up. A reader that meets such
//! an end goes on with the opening that took its place, if that shows the same state, or one between it and the state that is
//! read; a state differs from the one with the same `applied` only by entries that are over or hidden, and by which segments
//! the others lie in.

use std::cmp::Ordering;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redb::{AccessGuard, Range, ReadOnlyTable, ReadableDatabase};

use super::super::memory::Bytes;
use super::super::space::Space;
use super::super::view::{Last, Span};
use super::segments::{Cursors, Known, List, are_inside, read_catalog};
use super::spent::Spent;
use super::{APPLIED_KEY, Applied, BLOCKS, ENGINE, FILTERS, Home, MESSAGES, META, RECORDS, STATES, from_redb, missing};
use crate::codec::segment::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock_within;

/// How long a reader that needs another opening waits for whoever is at the base.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) type Raw = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// One state of the base; readers hold it as long as they like, and pin its pages.
pub(crate) struct BaseSnapshot {
    meta: Raw,
    records: Raw,
    states: Raw,
    messages: Raw,
    pub(super) blocks: Raw,
    pub(super) filters: Raw,
    pub(super) catalog: Catalog,
    pub(super) segments: List,
    pub(super) spent: Spent,
    /// Nowhere for a state that nobody opens anew.
    home: Weak<Home>,
    pub(crate) applied: Applied,
}

impl std::fmt::Debug for BaseSnapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BaseSnapshot")
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl BaseSnapshot {
    pub(super) fn of(
        database: &impl ReadableDatabase,
        spent: Spent,
        home: Weak<Home>,
        known: &mut Known,
    ) -> Result<Arc<BaseSnapshot>> {
        let reading = database.begin_read().map_err(from_redb)?;
        let table = |definition| reading.open_table(definition).map_err(missing);
        let engine = table(ENGINE)?;
        let stored = engine.get(APPLIED_KEY).map_err(from_redb)?;
        let applied = stored
            .and_then(|guard| Applied::decode(guard.value()))
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "the base does not say up to where it was filled"))?;
        let catalog = read_catalog(&engine)?;
        let snapshot = BaseSnapshot {
            meta: table(META)?,
            records: table(RECORDS)?,
            states: table(STATES)?,
            messages: table(MESSAGES)?,
            blocks: table(BLOCKS)?,
            filters: table(FILTERS)?,
            segments: known.list(catalog.clone()),
            catalog,
            spent,
            home,
            applied,
        };
        Ok(Arc::new(snapshot))
    }

    /// What it notes of its segments.
    #[cfg(feature = "test-util")]
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether reads of it fail from now on, until redb was opened anew.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.is_set()
    }

    /// The same state over another opening, or one that has no more than a state with this last commit; `None` if there is none.
    fn successor(&self, space: Space, last: Last) -> Option<Arc<BaseSnapshot>> {
        if !self.is_spent() {
            return None;
        }
        let home = self.home.upgrade()?;
        let mut open = lock_within(&home.open, PATIENCE)?;
        let successor = home.renew(&mut open).ok()?;
        let before = self.applied.sequence;
        let Applied { sequence, life, .. } = successor.applied;
        // What a checkpoint brought meanwhile lies in the layers above as well, and hides what it brought. Of one life a
        // lower sequence is an earlier commit. But a checkpoint that comes behind the last commit may drop what ends by its
        // own time, and that time may be later than the reader's.
        let is_behind = space == Space::Ending && sequence == last.sequence;
        let is_between = life == last.life && (before..=last.sequence).contains(&sequence) && !is_behind;
        (successor.applied == self.applied || is_between).then_some(successor)
    }

    /// For a state with this last commit.
    pub(crate) fn get(&self, key: &[u8], last: Last) -> Result<Option<Held<'_>>> {
        let Some((space, key)) = Space::split(key) else {
            return Ok(None);
        };
        self.get_here(space, key)
            .or_else(|cause| match self.successor(space, last) {
                // What is held must not outlive the state that it is of.
                Some(successor) => Ok(successor.get_here(space, key)?.map(|held| Held::Shared(held.share()))),
                None => Err(cause),
            })
    }

    fn get_here(&self, space: Space, key: &[u8]) -> Result<Option<Held<'_>>> {
        self.spent.reading(|| {
            let Some(tree) = self.tree(space) else {
                let found = self.find_ending(key)?.and_then(|entry| entry.value);
                return Ok(found.map(Held::Shared));
            };
            let found = tree.get(key).map_err(from_redb)?;
            Ok(found.inspect(must_lie_in_its_page).map(Held::InPage))
        })
    }

    /// The entries inside `span`, in the order of the scan, for a state with this last commit; `None` if it is in no key space.
    pub(crate) fn scan(self: &Arc<BaseSnapshot>, span: &Span, last: Last) -> Result<Option<Scan>> {
        let space_of = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Space::split(key).map(|(space, _)| space),
            Bound::Unbounded => None,
        };
        let Some(space) = space_of(span.start_bound()) else {
            return Ok(None);
        };
        let inside = |key: &'_ [u8]| key.get(1..).unwrap_or_default().to_vec();
        // A span that ends in the next space covers the rest of its own.
        let to = if space_of(span.end_bound()) == Some(space) {
            span.end_bound().map(inside)
        } else {
            Bound::Unbounded
        };
        let mut scan = Scan {
            at: At::default(),
            source: None,
            snapshot: Arc::clone(self),
            last,
            space,
            bounds: (span.start_bound().map(inside), to),
            reverse: span.reverse,
            went_further: false,
        };
        scan.or_on_a_successor(Scan::open)?;
        Ok(Some(scan))
    }

    /// The tree that a space is; `None` for the one that lies in segments.
    pub(super) fn tree(&self, space: Space) -> Option<&Raw> {
        match space {
            Space::Meta => Some(&self.meta),
            Space::Records => Some(&self.records),
            Space::Ending => None,
            Space::States => Some(&self.states),
            Space::Messages => Some(&self.messages),
        }
    }
}

/// A value as it was found.
pub(crate) enum Held<'s> {
    /// Where it lies in a page, which stays in memory as long.
    InPage(AccessGuard<'s, &'static [u8]>),
    Shared(Bytes),
}

impl Held<'_> {
    /// To keep it longer.
    pub(crate) fn share(self) -> Bytes {
        match self {
            Held::InPage(guard) => guard.value().into(),
            Held::Shared(bytes) => bytes,
        }
    }
}

impl Deref for Held<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Held::InPage(guard) => guard.value(),
            Held::Shared(bytes) => bytes,
        }
    }
}

/// redb looks for that when the value is asked for, and panics if it does not: so it is asked where a panic is caught. What was
/// given once is given again.
fn must_lie_in_its_page(value: &AccessGuard<'_, &'static [u8]>) {
    value.value();
}

/// Where a scan reads.
enum Source {
    Tree(Box<Range<'static, &'static [u8], &'static [u8]>>),
    Segments(Cursors),
}

/// A scan that is under way.
pub(crate) struct Scan {
    // Stands before what it must not outlive.
    at: At,
    source: Option<Source>,
    snapshot: Arc<BaseSnapshot>,
    last: Last,
    space: Space,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    reverse: bool,
    /// It goes on over a base that a checkpoint filled further meanwhile.
    went_further: bool,
}

/// What a scan is at.
#[derive(Default)]
struct At {
    /// The last key that was met, with the byte of its space; empty before the first.
    key: Vec<u8>,
    /// `None` if the key was removed.
    value: Option<Held<'static>>,
    /// `false` at the end.
    is_entry: bool,
}

impl Scan {
    fn open(&mut self) -> Result<()> {
        let mut from = self.bounds.0.as_ref().map(Vec::as_slice);
        let mut to = self.bounds.1.as_ref().map(Vec::as_slice);
        let shown = self.at.key.get(1..);
        if let Some(shown) = shown {
            *(if self.reverse { &mut to } else { &mut from }) = Bound::Excluded(shown);
        }
        // Nothing is left, which redb need not be asked.
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) = (from, to)
            && shown.is_some()
            && from >= to
        {
            return Ok(());
        }
        let BaseSnapshot {
            spent,
            blocks,
            segments,
            ..
        } = &*self.snapshot;
        let source = spent.reading(|| match self.snapshot.tree(self.space) {
            Some(tree) => {
                let range = tree.range::<&[u8]>((from, to)).map_err(from_redb)?;
                Ok(Source::Tree(Box::new(range)))
            }
            None => {
                let keys = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
                Cursors::open(blocks, &**segments, &keys, self.reverse).map(Source::Segments)
            }
        })?;
        self.source = Some(source);
        Ok(())
    }

    /// Goes to the next entry, or to the end.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.or_on_a_successor(Scan::step_here)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        !self.at.is_entry
    }

    /// The key that it is at, with the byte of its space.
    pub(crate) fn key(&self) -> &[u8] {
        &self.at.key
    }

    /// Whether the key that it is at was not removed.
    pub(crate) fn is_live(&self) -> bool {
        self.at.value.is_some()
    }

    /// `None` if the key was removed.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.at.value.as_deref()
    }

    fn step_here(&mut self) -> Result<()> {
        self.at.leave();
        if self.source.is_none() {
            self.open()?;
        }
        let is_first = self.at.key.is_empty();
        let (at, space, reverse) = (&mut self.at, self.space, self.reverse);
        self.snapshot.spent.reading(|| match &mut self.source {
            Some(Source::Tree(range)) => range.go_on(at, space, reverse),
            Some(Source::Segments(cursors)) => match cursors.step()? {
                Some(step) => {
                    at.value = step.entry.value.map(Held::Shared);
                    at.go_to(space, &step.entry.key, reverse)
                }
                None => Ok(()),
            },
            None => Ok(()),
        })?;
        if is_first && !self.begins_inside() {
            self.at = At::default();
            return Err(out_of_order());
        }
        Ok(())
    }

    /// redb holds an entry against the bound at which a scan ends, and the one at which it begins only steers it.
    fn begins_inside(&self) -> bool {
        let key = self.at.key.get(1..);
        key.is_none_or(|key| are_inside(&self.bounds, key))
    }

    pub(crate) fn went_further(&self) -> bool {
        self.went_further
    }

    /// Makes a step, and if that fails makes it on the opening that took the place of this one.
    fn or_on_a_successor(&mut self, step: impl Fn(&mut Scan) -> Result<()>) -> Result<()> {
        step(self).or_else(|cause| match self.snapshot.successor(self.space, self.last) {
            Some(successor) => {
                self.at.leave();
                self.source = None;
                self.went_further |= successor.applied != self.snapshot.applied;
                self.snapshot = successor;
                step(self)
            }
            None => Err(cause),
        })
    }
}

fn out_of_order() -> Error {
    Error::new(ErrorKind::Corrupt, "the base is damaged: its keys are out of order")
}

impl At {
    fn leave(&mut self) {
        self.value = None;
        self.is_entry = false;
    }

    fn go_to(&mut self, space: Space, key: &[u8], reverse: bool) -> Result<()> {
        let sooner = if reverse { Ordering::Less } else { Ordering::Greater };
        // Merged with the log, an entry at a wrong place would come back as it once was.
        if self.key.get(1..).is_some_and(|shown| key.cmp(shown) != sooner) {
            return Err(out_of_order());
        }
        self.key.clear();
        self.key.push(space as u8);
        self.key.extend_from_slice(key);
        self.is_entry = true;
        Ok(())
    }
}

/// A step in a tree of redb. As a method of redb's range the compiler has it beside redb's own, and makes one of both: that
/// saves a scan a tenth.
trait GoOn {
    fn go_on(&mut self, at: &mut At, space: Space, reverse: bool) -> Result<()>;
}

impl GoOn for Range<'static, &'static [u8], &'static [u8]> {
    fn go_on(&mut self, at: &mut At, space: Space, reverse: bool) -> Result<()> {
        let item = if reverse { self.next_back() } else { self.next() };
        let Some(item) = item else { return Ok(()) };
        let (key, value) = item.map_err(from_redb)?;
        // All that can fail comes before the place moves: a step that fails is made once more from there.
        must_lie_in_its_page(&value);
        at.go_to(space, key.value(), reverse)?;
        at.value.get_or_insert_with(|| Held::InPage(value));
        Ok(())
    }
}
