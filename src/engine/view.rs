//! A view: one state of the store, to look up and to scan.
//!
//! Three layers, the newer hiding the older: the memory table, the frozen table of a checkpoint that is under way, the
//! base. Taking a view copies three references. What a view shows never changes.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::base::{BaseSnapshot, Held, Scan};
use super::memory::{Bytes, Entry, Memory};
use super::recovery::{self, Run};
use crate::codec::successor_of_prefix;
use crate::error::Result;

/// One state of the store.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The sequence of the last commit that this state contains.
    pub(crate) sequence: u64,
    /// The life of that commit.
    pub(crate) life: u64,
    pub(crate) memory: Memory,
    pub(crate) frozen: Option<Memory>,
    pub(crate) base: Arc<BaseSnapshot>,
}

/// Changes above the base, in the order of a scan.
pub(crate) type Layer<'a> = Box<dyn Iterator<Item = Entry> + 'a>;

/// The last commit of a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) sequence: u64,
    pub(crate) life: u64,
}

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
        let last = newer.as_ref().map_or(base.applied, |run| run.last);
        View {
            sequence: last.sequence,
            life: last.life,
            memory: newer.map_or_else(Memory::new, |run| run.memory),
            frozen: older.map(|run| run.memory),
            base,
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Held<'_>>> {
        if let Some(change) = self.memory.get(key) {
            return Ok(change.map(Held::Shared));
        }
        if let Some(change) = self.frozen.as_ref().and_then(|frozen| frozen.get(key)) {
            return Ok(change.map(Held::Shared));
        }
        self.base.get(key, self.last())
    }

    fn last(&self) -> Last {
        Last {
            sequence: self.sequence,
            life: self.life,
        }
    }

    /// The live entries inside `span`, below the changes of `layers`, newest first. `span` must lie in one key space and not be
    /// empty.
    pub(crate) fn scan<'a>(&'a self, mut layers: Vec<Layer<'a>>, span: &Span) -> Result<Merge<'a>> {
        for memory in std::iter::once(&self.memory).chain(&self.frozen) {
            layers.push(Box::new(memory.range(span)));
        }
        Ok(Merge {
            newer: layers.into_iter().filter_map(Newer::of).collect(),
            base: self.base.scan(span, self.last())?,
            reverse: span.reverse,
            ..Merge::nothing()
        })
    }
}

/// A layer above the base, at one of its changes.
struct Newer<'a> {
    at: Entry,
    behind: Layer<'a>,
}

impl<'a> Newer<'a> {
    fn of(mut layer: Layer<'a>) -> Option<Newer<'a>> {
        let at = layer.next()?;
        Some(Newer { at, behind: layer })
    }
}

/// The live entries of a scan: the first layer that knows a key decides. Each is lent until the next step, so that nothing of
/// the base is copied for those who need no copy.
pub(crate) struct Merge<'a> {
    /// Newest first; none that is at its end.
    newer: Vec<Newer<'a>>,
    /// `None` at its end.
    base: Option<Scan>,
    /// What the base is at was shown or is hidden.
    base_is_passed: bool,
    lent: Lent,
    /// `None` once it went on over a base with other entries.
    met_in_base: Option<u64>,
    reverse: bool,
}

impl<'a> Merge<'a> {
    /// A scan at its end.
    pub(crate) fn nothing() -> Merge<'a> {
        Merge {
            newer: Vec::new(),
            base: None,
            base_is_passed: true,
            lent: Lent::Nothing,
            met_in_base: Some(0),
            reverse: false,
        }
    }

    /// Goes to the next entry. An error ends the scan: what follows it could be out of order.
    pub(crate) fn step(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        match self.go_on() {
            Ok(()) => self.at().map(Ok),
            Err(cause) => {
                *self = Merge::nothing();
                Some(Err(cause))
            }
        }
    }

    /// The entry that the last step went to; `None` before the first step and at the end.
    pub(crate) fn at(&self) -> Option<(&[u8], &[u8])> {
        match &self.lent {
            Lent::Nothing => None,
            Lent::OfBase => self.base.as_ref().and_then(|base| Some((base.key(), base.value()?))),
            Lent::OfNewer(key, value) => Some((key, value)),
        }
    }

    /// The entries that are left, for those who keep them.
    pub(crate) fn copied(mut self) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + use<'a> {
        std::iter::from_fn(move || Some(self.step()?.map(|(key, value)| (key.into(), value.into()))))
    }

    /// How many entries of the base were met so far, hidden ones too; `None` if not all of them were of the same state of it.
    pub(crate) fn met_in_base(&self) -> Option<u64> {
        self.met_in_base
    }

    fn go_on(&mut self) -> Result<()> {
        loop {
            self.read_base()?;
            let newer = if self.newer.is_empty() {
                None
            } else {
                self.first_of_newer()
            };
            let of_base = match (newer, &self.base) {
                (None, None) => break,
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some(newer), Some(base)) => self.order(base.key(), newer),
            };
            self.base_is_passed = of_base.is_le();
            self.lent = match &self.base {
                Some(base) if of_base.is_lt() && base.is_live() => Lent::OfBase,
                _ if of_base.is_lt() => continue,
                _ => match self.take_newer() {
                    Some((key, value)) => Lent::OfNewer(key, value),
                    None => continue,
                },
            };
            return Ok(());
        }
        self.lent = Lent::Nothing;
        Ok(())
    }

    fn read_base(&mut self) -> Result<()> {
        if self.base_is_passed
            && let Some(base) = &mut self.base
        {
            base.step()?;
            let met = self.met_in_base.filter(|_| !base.went_further());
            if base.is_at_end() {
                self.met_in_base = met;
                self.base = None;
            } else {
                self.met_in_base = met.map(|met| met + 1);
            }
        }
        Ok(())
    }

    /// Which of two keys the scan comes to first.
    fn order(&self, one: &[u8], other: &[u8]) -> Ordering {
        match self.reverse {
            false => one.cmp(other),
            true => other.cmp(one),
        }
    }

    fn first_of_newer(&self) -> Option<&Bytes> {
        let keys = self.newer.iter().map(|layer| &layer.at.0);
        keys.min_by(|one, other| self.order(one, other))
    }

    /// Takes the next key out of the layers above the base; `None` if it was removed.
    fn take_newer(&mut self) -> Option<(Bytes, Bytes)> {
        let key = self.first_of_newer()?.clone();
        let mut change = None;
        self.newer.retain_mut(|layer| {
            if layer.at.0 != key {
                return true;
            }
            change.get_or_insert(layer.at.1.take());
            let next = layer.behind.next();
            next.map(|next| layer.at = next).is_some()
        });
        Some((key, change??))
    }
}

/// What a scan is at.
enum Lent {
    Nothing,
    OfBase,
    OfNewer(Bytes, Bytes),
}
