//! One state of the base, to look up and to scan.
//!
//! redb answers an error for ever once it met one, and a checkpoint that fails gives its opening up. A reader that meets such
//! an end goes on with the opening that took its place, if that shows the same state; a state differs from the one with the
//! same `applied` only by entries that are over or hidden, and by which segments the others lie in.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redb::{Range, ReadOnlyTable, ReadableDatabase};

use super::super::memory::{Bytes, Entry};
use super::super::space::Space;
use super::super::view::{Layer, Span};
use super::segments::{Cursors, Known, List, read_catalog};
use super::spent::Spent;
use super::{APPLIED_KEY, Applied, BLOCKS, ENGINE, FILTERS, Home, META, RECORDS, STATES, from_redb, missing};
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

    /// The same state over another opening; `None` if there is none.
    fn successor(&self) -> Option<Arc<BaseSnapshot>> {
        if !self.is_spent() {
            return None;
        }
        let home = self.home.upgrade()?;
        let mut open = lock_within(&home.open, PATIENCE)?;
        let successor = home.renew(&mut open).ok()?;
        (successor.applied == self.applied).then_some(successor)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let Some((space, key)) = Space::split(key) else {
            return Ok(None);
        };
        self.get_here(space, key).or_else(|cause| match self.successor() {
            Some(successor) => successor.get_here(space, key),
            None => Err(cause),
        })
    }

    fn get_here(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.spent.reading(|| {
            let Some(tree) = self.tree(space) else {
                return Ok(self.find_ending(key)?.and_then(|entry| entry.value));
            };
            let found = tree.get(key).map_err(from_redb)?;
            Ok(found.map(|guard| Arc::from(guard.value())))
        })
    }

    /// The entries inside `span`, in the order of the scan.
    pub(crate) fn range(self: &Arc<BaseSnapshot>, span: &Span) -> Result<Layer<'static>> {
        let space_of = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Space::split(key).map(|(space, _)| space),
            Bound::Unbounded => None,
        };
        let Some(space) = space_of(span.start_bound()) else {
            return Ok(Box::new(std::iter::empty()));
        };
        let inside = |key: &'_ [u8]| key.get(1..).unwrap_or_default().to_vec();
        // A span that ends in the next space covers the rest of its own.
        let to = if space_of(span.end_bound()) == Some(space) {
            span.end_bound().map(inside)
        } else {
            Bound::Unbounded
        };
        let mut scan = Scan {
            snapshot: Arc::clone(self),
            space,
            bounds: (span.start_bound().map(inside), to),
            reverse: span.reverse,
            source: None,
            scratch: Vec::new(),
            shown: None,
        };
        scan.or_on_a_successor(Scan::open)?;
        Ok(Box::new(scan))
    }

    /// The tree that a space is; `None` for the one that lies in segments.
    pub(super) fn tree(&self, space: Space) -> Option<&Raw> {
        match space {
            Space::Meta => Some(&self.meta),
            Space::Records => Some(&self.records),
            Space::Ending => None,
            Space::States => Some(&self.states),
        }
    }
}

/// Where a scan is at.
enum Source {
    Tree(Box<Range<'static, &'static [u8], &'static [u8]>>),
    Segments(Cursors),
}

/// A scan that is under way.
struct Scan {
    snapshot: Arc<BaseSnapshot>,
    space: Space,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    reverse: bool,
    source: Option<Source>,
    /// Kept between steps so that a key takes one allocation.
    scratch: Vec<u8>,
    /// The last key that was shown, with the byte of its space.
    shown: Option<Bytes>,
}

impl Scan {
    fn open(&mut self) -> Result<()> {
        let mut from = self.bounds.0.as_ref().map(Vec::as_slice);
        let mut to = self.bounds.1.as_ref().map(Vec::as_slice);
        if let Some(shown) = self.shown.as_deref().and_then(|shown| shown.get(1..)) {
            *(if self.reverse { &mut to } else { &mut from }) = Bound::Excluded(shown);
        }
        // Nothing is left, which redb need not be asked.
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) = (from, to)
            && self.shown.is_some()
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

    fn step(&mut self) -> Result<Option<Entry>> {
        if self.source.is_none() {
            self.open()?;
        }
        let Some(source) = &mut self.source else {
            return Ok(None);
        };
        let (reverse, space) = (self.reverse, self.space);
        let scratch = &mut self.scratch;
        let mut whole = |key: &[u8]| {
            scratch.clear();
            scratch.push(space as u8);
            scratch.extend_from_slice(key);
            Bytes::from(scratch.as_slice())
        };
        let found = self.snapshot.spent.reading(|| match source {
            Source::Tree(range) => {
                let item = if reverse { range.next_back() } else { range.next() };
                let Some(item) = item else { return Ok(None) };
                let (key, value) = item.map_err(from_redb)?;
                Ok(Some((whole(key.value()), Some(Bytes::from(value.value())))))
            }
            Source::Segments(cursors) => {
                let step = cursors.step()?;
                Ok(step.map(|step| (whole(&step.entry.key), step.entry.value)))
            }
        })?;
        if let (Some((key, _)), Some(shown)) = (&found, &self.shown) {
            // Merged with the log, an entry at a wrong place would come back as it once was.
            let sooner = if reverse { Ordering::Less } else { Ordering::Greater };
            if key.cmp(shown) != sooner {
                let message = "the base is damaged: its keys are out of order";
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
        }
        self.shown = found.as_ref().map(|(key, _)| Arc::clone(key)).or(self.shown.take());
        Ok(found)
    }

    /// Makes a step, and if that fails makes it on the opening that took the place of this one.
    fn or_on_a_successor<T>(&mut self, step: impl Fn(&mut Scan) -> Result<T>) -> Result<T> {
        step(self).or_else(|cause| match self.snapshot.successor() {
            Some(successor) => {
                self.snapshot = successor;
                self.source = None;
                step(self)
            }
            None => Err(cause),
        })
    }
}

impl Iterator for Scan {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.or_on_a_successor(Scan::step).transpose()
    }
}
