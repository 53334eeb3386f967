//! Looking a key up, and judging what a segment consists of.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::super::from_redb;
use super::super::snapshot::{BaseSnapshot, Raw};
use super::{Cursors, Segment, block_key, is_damage, part_key, split_block_key};
use crate::codec::filter::{self, Filter};
use crate::codec::segment::{About, Block, Catalog, Entry, damaged, decode_part};
use crate::error::{Error, ErrorKind, Result};

impl Segment {
    /// Whether it may have the key with this hash; `true` also if that cannot be told, since its filter is damaged, and so are
    /// the entries that it could be made anew from.
    pub(super) fn may_hold(&self, snapshot: &BaseSnapshot, hash: u64) -> Result<bool> {
        let filter = match self.filter.get() {
            Some(filter) => filter,
            None => {
                // It can be long, so that many who need it must not read it at once.
                let _one_at_a_time = self.reading.lock();
                match self.filter.get() {
                    Some(filter) => filter,
                    None => {
                        let filter = self.read_or_make_filter(snapshot)?;
                        self.filter.get_or_init(|| filter)
                    }
                }
            }
        };
        Ok(filter.as_ref().is_none_or(|filter| filter.may_hold(hash)))
    }

    fn read_or_make_filter(&self, snapshot: &BaseSnapshot) -> Result<Option<Filter>> {
        match read_filter(&snapshot.filters, self.about.id) {
            Err(cause) if is_damage(&cause) => {}
            read => return read.map(Some),
        }
        match self.filter_of_entries(&snapshot.blocks) {
            Err(cause) if is_damage(&cause) => Ok(None),
            made => made.map(Some),
        }
    }

    fn filter_of_entries(&self, blocks: &Raw) -> Result<Filter> {
        let mut filter = Filter::with_room(self.about.entries);
        self.each(blocks, &mut |entry| {
            filter.insert(filter::hash(&entry.key));
            Ok(())
        })?;
        Ok(filter)
    }

    /// Gives `each` every entry.
    fn each(&self, blocks: &Raw, each: &mut dyn FnMut(&Entry) -> Result<()>) -> Result<()> {
        let alone = [Arc::new(Segment::unread(self.about.clone()))];
        let mut cursors = Cursors::open(blocks, &alone, &(Bound::Unbounded, Bound::Unbounded), false)?;
        while let Some(step) = cursors.step()? {
            each(&step.entry)?;
        }
        Ok(())
    }

    fn find(&self, blocks: &Raw, key: &[u8]) -> Result<Option<Entry>> {
        let highest = block_key(self.about.id, key);
        let mut range = blocks.range::<&[u8]>(..=highest.as_slice()).map_err(from_redb)?;
        let block = range.next_back().transpose().map_err(from_redb)?;
        let (lies_under, bytes) = block.ok_or_else(|| damaged("a block is missing"))?;
        let (id, first) = split_block_key(lies_under.value())?;
        // Where a page lies that belongs elsewhere, redb gives what it finds, also behind the end of the range.
        if id != self.about.id || first > key {
            return Err(damaged("a block is missing"));
        }
        Block::decode(id, first, bytes.value())?.find(key)
    }
}

fn read_filter(filters: &Raw, id: u64) -> Result<Filter> {
    let other_length = || damaged("a filter has another length");
    let mut filter = Filter::default();
    let (mut part, mut parts) = (0, 1);
    while part < parts {
        let found = filters.get(part_key(id, part).as_slice()).map_err(from_redb)?;
        let found = found.ok_or_else(|| damaged("a part of a filter is missing"))?;
        let (count, some) = decode_part(id, part, found.value())?;
        if part == 0 {
            filter.reserve((count as usize).saturating_mul(some.len()));
        }
        if !filter.extend(some) {
            return Err(other_length());
        }
        parts = count;
        part += 1;
    }
    match filter.bytes() {
        [] => Err(other_length()),
        _ => Ok(filter),
    }
}

impl BaseSnapshot {
    /// The entry of a key that counts.
    pub(in crate::engine::base) fn find_ending(&self, key: &[u8]) -> Result<Option<Entry>> {
        let hash = filter::hash(key);
        let mut newest: Option<Entry> = None;
        for segment in self.segments.iter().filter(|segment| segment.spans(key)) {
            if segment.may_hold(self, hash)?
                && let Some(entry) = segment.find(&self.blocks, key)?
                && newest.as_ref().is_none_or(|newest| newest.at < entry.at)
            {
                newest = Some(entry);
            }
        }
        Ok(newest)
    }

    /// Until when what is stored of a key has to be hidden; zero if there is nothing. Of a segment that cannot be read as long
    /// as any of its entries.
    pub(super) fn needed_until(&self, key: &[u8]) -> Result<u64> {
        let hash = filter::hash(key);
        let mut until = 0;
        for segment in self.segments.iter().filter(|segment| segment.spans(key)) {
            if segment.may_hold(self, hash)? {
                until = until.max(match segment.find(&self.blocks, key) {
                    Ok(found) => found.map_or(0, |entry| entry.hides_ns),
                    Err(cause) if is_damage(&cause) => segment.about.over_ns,
                    Err(cause) => return Err(cause),
                });
            }
        }
        Ok(until)
    }

    /// The segments that count, by their numbers.
    pub(in crate::engine) fn segments(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().map(|segment| segment.about.id)
    }

    /// Judges a segment of this state: that its blocks follow one another, that it is what is noted of it, and that its filter
    /// knows every key.
    pub(in crate::engine) fn judge_segment(&self, id: u64, found: &mut dyn FnMut(Judged)) -> Result<()> {
        let Some(segment) = self.segments.iter().find(|segment| segment.about.id == id) else {
            return Ok(());
        };
        let filter = self.spent.reading(|| read_filter(&self.filters, id));
        let filter = match filter {
            Err(cause) if cause.kind() == ErrorKind::Corrupt => {
                found(Judged::Filter(cause));
                None
            }
            read => Some(read?),
        };
        let about = &segment.about;
        let mut seen = About::new(id, about.class, about.window);
        let mut unknown = 0_u64;
        self.spent.reading(|| {
            segment.each(&self.blocks, &mut |entry| {
                seen.count(entry);
                let is_known = filter
                    .as_ref()
                    .is_none_or(|filter| filter.may_hold(filter::hash(&entry.key)));
                unknown += u64::from(!is_known);
                Ok(())
            })
        })?;
        if seen != *about {
            found(Judged::About(format!(
                "entries={}, noted={}",
                seen.entries, about.entries
            )));
        }
        if unknown > 0 {
            found(Judged::Unknown(unknown));
        }
        Ok(())
    }

    /// Blocks and parts of filters that belong to no segment that is known, by the segment that they name.
    pub(in crate::engine) fn strays(&self) -> Result<BTreeMap<u64, u64>> {
        let mut strays = BTreeMap::new();
        let listed = &self.catalog;
        let is_known = |id: &u64| {
            let counts = |about: &About| about.id == *id;
            listed.segments.iter().any(counts) || listed.unfinished.contains(id) || listed.dropping.contains(id)
        };
        self.spent.reading(|| {
            for table in [&self.blocks, &self.filters] {
                for item in table.range::<&[u8]>(..).map_err(from_redb)? {
                    let (key, _) = item.map_err(from_redb)?;
                    let (id, _) = split_block_key(key.value())?;
                    if !is_known(&id) {
                        *strays.entry(id).or_default() += 1;
                    }
                }
            }
            Ok(())
        })?;
        Ok(strays)
    }
}

/// What is wrong with a segment.
pub(in crate::engine) enum Judged {
    /// Its filter cannot be read; it is made anew from the entries by whoever needs it.
    Filter(Error),
    /// It is not what is noted of it.
    About(String),
    /// So many of its keys its filter says no of.
    Unknown(u64),
}

/// What a state notes of its segments.
pub(in crate::engine::base) fn read_catalog(engine: &Raw) -> Result<Catalog> {
    let stored = engine.get(super::CATALOG_KEY).map_err(from_redb)?;
    let stored = stored.ok_or_else(|| damaged("the base does not list them"))?;
    Catalog::decode(stored.value())
}
