//! One transaction on the segments: merges go on, what is over is dropped, and the list is written anew.
//!
//! The work of merging is bounded by what is appended, so that a checkpoint takes its time by what it brings. A merge goes on
//! from transaction to transaction; its state is in memory only, so one that a crash or an error cut off begins anew, and
//! what it wrote is dropped like any segment.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use redb::{ReadableTable, ReadableTableMetadata};

use super::super::from_redb;
use super::super::snapshot::BaseSnapshot;
use super::super::tables::Writable;
use super::plan::next_merge;
use super::write::Writing;
use super::{Appender, CATALOG_KEY, Cursors, Segment, block_key, is_damage, part_key};
use crate::codec::filter;
use crate::codec::segment::{About, Catalog, Entry, end_of, is_over};
use crate::error::Result;

/// Entries that merges may read for each one that is appended: each entry is merged about once for each level, of which a
/// store with ten million keys has four.
const READ_PER_APPENDED: u64 = 8;
/// Entries that one transaction of a sweep reads.
const READ_BY_SWEEP: u64 = 100_000;
/// For so many entries that may be read one block may be dropped, and two more for each that is written: what falls behind
/// would make the file grow.
const READ_PER_DROPPED_BLOCK: u64 = 32;

/// A merge that is under way.
#[derive(Debug)]
pub(in crate::engine::base) struct Merge {
    writing: Writing,
    sources: BTreeSet<u64>,
    /// Entries of all sources.
    entries: u64,
    /// The last key that was read.
    behind: Option<Vec<u8>>,
    /// Values that were left out because they are over.
    over: u64,
}

/// Merges between two transactions.
#[derive(Debug)]
pub(in crate::engine::base) struct Merges {
    under_way: Vec<Merge>,
    /// A transaction ended before. A process that ends after its first one would write in vain what it cannot end in it.
    goes_on: bool,
    /// Segments with a block that is damaged: they stay as they are, so that one block stops no checkpoint.
    damaged: BTreeSet<u64>,
    /// Entries that a transaction may read whatever it brings, so that the merges of many short lives end as well.
    besides: u64,
}

impl Merges {
    /// None yet, of a base that reads so many entries besides.
    pub(in crate::engine::base) fn new(besides: u64) -> Merges {
        Merges {
            under_way: Vec::new(),
            goes_on: false,
            damaged: BTreeSet::new(),
            besides,
        }
    }

    /// Forgets what is under way: it begins anew.
    pub(in crate::engine::base) fn begin_anew(&mut self) {
        self.under_way.clear();
    }
}

/// What one transaction did.
#[derive(Debug, Default)]
pub(in crate::engine::base) struct Changed {
    /// Values that are over and were dropped.
    pub(in crate::engine::base) over: u64,
    /// Something was written.
    pub(in crate::engine::base) anything: bool,
    /// What is over may not all be gone.
    pub(in crate::engine::base) more: bool,
    pub(in crate::engine::base) written: Vec<Arc<Segment>>,
}

/// The segments inside of a transaction.
pub(in crate::engine::base) struct Segments<'t, 'a> {
    pub(in crate::engine::base) catalog: Catalog,
    pub(in crate::engine::base) blocks: Writable<'t>,
    pub(in crate::engine::base) filters: Writable<'t>,
    /// The state before the transaction. What it lists can be read while the transaction writes.
    before: &'a BaseSnapshot,
    merges: &'a mut Merges,
    now_ns: u64,
    changed: Changed,
}

impl<'t, 'a> Segments<'t, 'a> {
    pub(in crate::engine::base) fn new(
        before: &'a BaseSnapshot,
        merges: &'a mut Merges,
        (blocks, filters): (Writable<'t>, Writable<'t>),
        now_ns: u64,
    ) -> Segments<'t, 'a> {
        let mut catalog = before.catalog.clone();
        let under_way: BTreeSet<u64> = merges.under_way.iter().map(|merge| merge.writing.id()).collect();
        let cut_off = catalog.unfinished.iter().filter(|id| !under_way.contains(id));
        catalog.dropping.extend(cut_off);
        catalog.unfinished.clear();
        Segments {
            catalog,
            blocks,
            filters,
            before,
            merges,
            now_ns,
            changed: Changed::default(),
        }
    }

    /// Takes an entry in.
    pub(in crate::engine::base) fn append(
        &mut self,
        ending: &mut Appender<'_>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        ending.take(key, value, &mut self.catalog, &mut self.blocks, &mut self.filters)
    }

    /// What a checkpoint does after it appended its entries.
    pub(in crate::engine::base) fn end_checkpoint(&mut self, ending: Appender<'_>) -> Result<()> {
        let appended = ending.given;
        self.changed.over += ending.over;
        let written = ending.finish(&mut self.catalog, &mut self.blocks, &mut self.filters)?;
        self.changed.written.extend(written);
        self.changed.anything = true;
        self.retire_over()?;
        let budget = self.merges.besides + appended.saturating_mul(READ_PER_APPENDED);
        self.plan_merges(if self.merges.goes_on { u64::MAX } else { budget });
        self.merges.goes_on = true;
        self.merge(budget)?;
        self.drop_blocks(budget / READ_PER_DROPPED_BLOCK + 2 * self.blocks_written()?)
    }

    /// As long as nothing was dropped.
    fn blocks_written(&self) -> Result<u64> {
        let len = self.blocks.len().map_err(from_redb)?;
        Ok(len.saturating_sub(self.before.blocks.len().map_err(from_redb)?))
    }

    /// A part of a sweep: segments that hold something that is over are written anew without it.
    pub(in crate::engine::base) fn sweep(&mut self) -> Result<()> {
        self.retire_over()?;
        let busy = self.busy();
        let some_over = self.hold_something_over();
        if let Some(id) = some_over.iter().find(|id| !busy.contains(id))
            && !some_over.iter().any(|id| busy.contains(id))
        {
            self.begin_merge(BTreeSet::from([*id]));
        }
        if !some_over.is_empty() {
            self.merge(READ_BY_SWEEP)?;
        }
        self.drop_blocks(READ_BY_SWEEP / READ_PER_DROPPED_BLOCK)?;
        self.changed.more = !self.hold_something_over().is_empty() || !self.catalog.dropping.is_empty();
        Ok(())
    }

    fn hold_something_over(&self) -> Vec<u64> {
        let segments = self.catalog.segments.iter();
        let sound = segments.filter(|about| !self.merges.damaged.contains(&about.id));
        let over = sound.filter(|about| is_over(about.first_end_ns, self.now_ns));
        over.map(|about| about.id).collect()
    }

    /// Notes the list. Gives what the transaction did.
    pub(in crate::engine::base) fn finish(mut self, engine: &mut Writable<'_>) -> Result<Changed> {
        self.catalog.unfinished = self.merges.under_way.iter().map(|merge| merge.writing.id()).collect();
        put_catalog(&self.catalog, engine)?;
        Ok(self.changed)
    }

    /// Segments that are over as a whole count no more. Those that are being merged go with their merge, which has some of
    /// their entries already.
    fn retire_over(&mut self) -> Result<()> {
        let busy = self.busy();
        let goes = |about: &&About| is_over(about.over_ns, self.now_ns) && !busy.contains(&about.id);
        let over: Vec<&About> = self.catalog.segments.iter().filter(goes).collect();
        self.changed.over += over.iter().map(|about| about.values).sum::<u64>();
        let over = over.iter().map(|about| about.id).collect();
        self.retire(&over)
    }

    fn retire(&mut self, ids: &BTreeSet<u64>) -> Result<()> {
        for id in ids {
            remove_filter(*id, &mut self.filters)?;
            self.catalog.dropping.push(*id);
            self.changed.anything = true;
        }
        self.catalog.segments.retain(|about| !ids.contains(&about.id));
        Ok(())
    }

    fn busy(&self) -> BTreeSet<u64> {
        let merges = self.merges.under_way.iter();
        merges.flat_map(|merge| merge.sources.iter().copied()).collect()
    }

    /// Begins what is to be merged next, but for what has more than `entries_max` entries.
    fn plan_merges(&mut self, entries_max: u64) {
        let mut busy = self.busy();
        busy.extend(&self.merges.damaged);
        let of_before: BTreeSet<u64> = self.before.segments.iter().map(|segment| segment.about.id).collect();
        loop {
            let readable = self
                .catalog
                .segments
                .iter()
                .filter(|about| of_before.contains(&about.id));
            let readable: Vec<_> = readable.collect();
            let Some(sources) = next_merge(&readable, &busy, self.now_ns) else {
                return;
            };
            busy.extend(&sources);
            let listed = readable.iter().filter(|about| sources.contains(&about.id));
            if listed.map(|about| about.entries).sum::<u64>() <= entries_max {
                self.begin_merge(sources);
            }
        }
    }

    fn begin_merge(&mut self, sources: BTreeSet<u64>) {
        let listed = self.catalog.segments.iter().filter(|about| sources.contains(&about.id));
        let mut entries = 0;
        let mut of = None;
        for about in listed {
            entries += about.entries;
            of = Some((about.class, about.window));
        }
        let Some((class, window)) = of else { return };
        let id = self.catalog.next_id;
        self.catalog.next_id += 1;
        self.merges.under_way.push(Merge {
            writing: Writing::new(id, class, window, Some(entries)),
            sources,
            entries,
            behind: None,
            over: 0,
        });
    }

    /// Goes on with merges, those with the fewest entries first, until `budget` entries were read.
    fn merge(&mut self, mut budget: u64) -> Result<()> {
        self.merges.under_way.sort_by_key(|merge| merge.entries);
        while budget > 0 && !self.merges.under_way.is_empty() {
            let mut merge = self.merges.under_way.remove(0);
            self.changed.anything = true;
            match self.go_on_with(&mut merge, budget)? {
                Went::On => {
                    self.merges.under_way.insert(0, merge);
                    return Ok(());
                }
                Went::ToTheEnd(read) => {
                    budget = budget.saturating_sub(read);
                    self.end_merge(merge)?;
                }
                Went::IntoDamage(segment) => {
                    self.merges.damaged.insert(segment);
                    self.catalog.dropping.push(merge.writing.id());
                }
            }
        }
        Ok(())
    }

    /// Reads up to `budget` entries of a merge.
    fn go_on_with(&mut self, merge: &mut Merge, budget: u64) -> Result<Went> {
        let segments = self.before.segments.iter();
        let sources = segments.filter(|segment| merge.sources.contains(&segment.about.id));
        let from = merge.behind.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursors = Cursors::open(&self.before.blocks, sources, &(from, Bound::Unbounded), false)?;
        let mut read = 0;
        while read < budget {
            let step = match cursors.step() {
                Ok(Some(step)) => step,
                Ok(None) => return Ok(Went::ToTheEnd(read)),
                Err(cause) => match cursors.damaged.filter(|_| is_damage(&cause)) {
                    Some(segment) => return Ok(Went::IntoDamage(segment)),
                    None => return Err(cause),
                },
            };
            read += step.met;
            let Entry {
                key,
                at,
                hides_ns,
                value,
            } = step.entry;
            merge.behind = Some(key.to_vec());
            let kept = value.clone().filter(|value| !is_over(end_of(value), self.now_ns));
            merge.over += u64::from(value.is_some() && kept.is_none());
            let hides_ns = self.still_hides(&merge.sources, &key, kept.as_deref(), hides_ns)?;
            if kept.is_some() || !is_over(hides_ns, self.now_ns) {
                let entry = Entry {
                    key,
                    at,
                    hides_ns,
                    value: kept,
                };
                merge.writing.push(&entry, &mut self.blocks)?;
            }
        }
        Ok(Went::On)
    }

    /// Until when an entry is needed that takes the place of those in `sources`: if nothing older can lie anywhere else, it
    /// hides nothing. What is not there now comes only with a higher `at`.
    fn still_hides(&self, sources: &BTreeSet<u64>, key: &[u8], value: Option<&[u8]>, hides_ns: u64) -> Result<u64> {
        let end_ns = value.map_or(0, end_of);
        let hash = filter::hash(key);
        for segment in self.before.segments.iter() {
            let may_hold = end_ns < hides_ns
                && !sources.contains(&segment.about.id)
                && segment.spans(key)
                && segment.may_hold(self.before, hash)?;
            if may_hold {
                return Ok(hides_ns);
            }
        }
        Ok(end_ns)
    }

    /// The merged segment takes the place of its sources.
    fn end_merge(&mut self, merge: Merge) -> Result<()> {
        let written = merge.writing.finish(&mut self.blocks, &mut self.filters)?;
        self.changed.over += merge.over;
        self.retire(&merge.sources)?;
        if let Some(segment) = written {
            self.catalog.segments.push(segment.about.clone());
            self.catalog.segments.sort_by_key(|about| about.id);
            self.changed.written.push(segment);
        }
        Ok(())
    }

    /// Drops up to `blocks` blocks of segments that count no more.
    fn drop_blocks(&mut self, mut blocks: u64) -> Result<()> {
        while blocks > 0
            && let Some(id) = self.catalog.dropping.first().copied()
        {
            self.changed.anything = true;
            let keys = self.block_keys(id, blocks)?;
            for key in &keys {
                self.blocks.remove(key.as_slice()).map_err(from_redb)?;
            }
            if (keys.len() as u64) < blocks {
                self.catalog.dropping.remove(0);
            }
            blocks = blocks.saturating_sub(keys.len().max(1) as u64);
        }
        Ok(())
    }

    fn block_keys(&self, id: u64, at_most: u64) -> Result<Vec<Vec<u8>>> {
        let (from, to) = (block_key(id, &[]), block_key(id.saturating_add(1), &[]));
        let range = self
            .blocks
            .range::<&[u8]>(from.as_slice()..to.as_slice())
            .map_err(from_redb)?;
        let keys = range.take(usize::try_from(at_most).unwrap_or(usize::MAX));
        keys.map(|item| Ok(item.map_err(from_redb)?.0.value().to_vec()))
            .collect()
    }
}

/// How a merge went.
enum Went {
    /// There is more to read.
    On,
    /// After so many entries.
    ToTheEnd(u64),
    /// This segment cannot be read.
    IntoDamage(u64),
}

/// Notes the list in the table of what the engine notes.
pub(in crate::engine::base) fn put_catalog(catalog: &Catalog, engine: &mut Writable<'_>) -> Result<()> {
    let bytes = catalog.encode();
    engine
        .insert(CATALOG_KEY, bytes.as_slice())
        .map(drop)
        .map_err(from_redb)
}

fn remove_filter(id: u64, filters: &mut Writable<'_>) -> Result<()> {
    let mut part = 0;
    while filters
        .remove(part_key(id, part).as_slice())
        .map_err(from_redb)?
        .is_some()
    {
        part += 1;
    }
    Ok(())
}
