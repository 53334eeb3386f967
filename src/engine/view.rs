//! A view: one state of the store, to look up and to scan.
//!
//! Three layers, the newer hiding the older: the memory table, the frozen table of a checkpoint that is under way, the
//! base. Taking a view copies three references. What a view shows never changes.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::base::BaseSnapshot;
use super::memory::{Bytes, Entry, Memory};
use super::recovery::{self, Run};
use crate::codec::successor_of_prefix;
use crate::error::Result;

/// One state of the store.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The sequence of the last commit that this state contains.
    pub(crate) sequence: u64,
    pub(crate) memory: Memory,
    pub(crate) frozen: Option<Memory>,
    pub(crate) base: Arc<BaseSnapshot>,
}

/// A layer of a scan: changes in the order of the scan.
pub(crate) type Layer<'a> = Box<dyn Iterator<Item = Result<Entry>> + 'a>;

/// Which keys a scan covers, and from which end. All of them lie in one key space.
#[derive(Clone, Debug)]
pub struct Span {
    /// The lowest key.
    pub from: Bound<Bytes>,
    /// The highest key.
    pub to: Bound<Bytes>,
    /// From the highest key on.
    pub reverse: bool,
}

impl Span {
    /// All keys that begin with `prefix`, which names at least a key space.
    pub(crate) fn prefix(prefix: &[u8]) -> Span {
        Span {
            from: Bound::Included(prefix.into()),
            to: successor_of_prefix(prefix).map(Into::into),
            reverse: false,
        }
    }

    /// Whether no key can lie inside. Ordered maps panic on such bounds, so this is asked before.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        }
    }

    /// Turns an iterator in key order into one in the order of the scan.
    pub(crate) fn direct<'a, T: 'a>(
        &self,
        iter: impl DoubleEndedIterator<Item = T> + 'a,
    ) -> Box<dyn Iterator<Item = T> + 'a> {
        if self.reverse {
            Box::new(iter.rev())
        } else {
            Box::new(iter)
        }
    }
}

impl RangeBounds<[u8]> for Span {
    fn start_bound(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(|key| &**key)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        self.to.as_ref().map(|key| &**key)
    }
}

impl View {
    /// The state that the frames of a log make of a base.
    pub(super) fn of(base: Arc<BaseSnapshot>, runs: Vec<Run>) -> View {
        let (older, newer) = recovery::split(runs);
        View {
            sequence: newer.as_ref().map_or(base.applied, |run| run.last).sequence,
            memory: newer.map_or_else(Memory::new, |run| run.memory),
            frozen: older.map(|run| run.memory),
            base,
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(change) = self.memory.get(key) {
            return Ok(change);
        }
        if let Some(change) = self.frozen.as_ref().and_then(|frozen| frozen.get(key)) {
            return Ok(change);
        }
        self.base.get(key)
    }

    /// The layers of a scan, newest first. `span` must lie in one key space and not be empty.
    pub(crate) fn layers<'a>(&'a self, span: &Span) -> Result<Vec<Layer<'a>>> {
        let mut layers: Vec<Layer<'a>> = Vec::with_capacity(4);
        for memory in std::iter::once(&self.memory).chain(&self.frozen) {
            layers.push(Box::new(memory.range(span).map(Ok)));
        }
        layers.push(self.base.range(span)?);
        Ok(layers)
    }
}

/// Merges layers into the live entries of a scan: the first layer that knows a key decides.
pub(crate) struct Merge<'a> {
    layers: Vec<Peekable<Layer<'a>>>,
    reverse: bool,
    failed: bool,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(layers: Vec<Layer<'a>>, reverse: bool) -> Merge<'a> {
        Merge {
            layers: layers.into_iter().map(Iterator::peekable).collect(),
            reverse,
            failed: false,
        }
    }

    /// The next change of any layer, with older changes of the same key dropped.
    fn next_change(&mut self) -> Option<Result<Entry>> {
        self.layers.retain_mut(|layer| layer.peek().is_some());
        if let [only] = self.layers.as_mut_slice() {
            return only.next();
        }
        let mut best: Option<(usize, Bytes)> = None;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            match layer.peek() {
                None => {}
                Some(Err(_)) => return layer.next(),
                Some(Ok((key, _))) => {
                    let sooner = if self.reverse {
                        Ordering::Greater
                    } else {
                        Ordering::Less
                    };
                    if best.as_ref().is_none_or(|(_, so_far)| key.cmp(so_far) == sooner) {
                        best = Some((index, key.clone()));
                    }
                }
            }
        }
        let (winner, key) = best?;
        let mut change = None;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let taken = layer.next_if(|entry| matches!(entry, Ok((other, _)) if *other == key));
            if index == winner {
                change = taken;
            }
        }
        change
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            match self.next_change()? {
                Ok((key, Some(value))) => return Some(Ok((key, value))),
                Ok((_, None)) => {}
                Err(error) => {
                    // An error ends the scan: what follows it could be out of order.
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
