//! Writing one segment: blocks go into the base as they fill, the filter when the last entry is known.

use std::sync::Arc;

use super::super::from_redb;
use super::super::tables::Writable;
use super::{Segment, block_key, part_key};
use crate::codec::filter::{self, Filter};
use crate::codec::segment::{About, BlockBuilder, Entry, FILTER_PART_BYTES, encode_part};
use crate::error::Result;

/// A segment that is being written, in one transaction or over several.
#[derive(Debug)]
pub(super) struct Writing {
    block: BlockBuilder,
    filter: FilterBuilder,
    about: About,
}

/// What the filter will be made of.
#[derive(Debug)]
enum FilterBuilder {
    /// It is known for how many keys.
    Sized(Filter),
    /// Hashes, to be counted at the end.
    Unsized(Vec<u64>),
}

impl Writing {
    /// A segment of one class and window, for at most `entries` entries if that is known.
    pub(super) fn new(id: u64, class: u8, window: u64, entries: Option<u64>) -> Writing {
        let filter = match entries {
            Some(entries) => FilterBuilder::Sized(Filter::with_room(entries)),
            None => FilterBuilder::Unsized(Vec::new()),
        };
        Writing {
            block: BlockBuilder::default(),
            filter,
            about: About::new(id, class, window),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.about.id
    }

    pub(super) fn entries(&self) -> u64 {
        self.about.entries
    }

    /// Adds the entry with the next higher key.
    pub(super) fn push(&mut self, entry: &Entry, blocks: &mut Writable<'_>) -> Result<()> {
        if !self.block.fits(entry) {
            self.put_block(Some(&entry.key), blocks)?;
        }
        self.block.push(self.about.id, entry);
        let hash = filter::hash(&entry.key);
        match &mut self.filter {
            FilterBuilder::Sized(filter) => filter.insert(hash),
            FilterBuilder::Unsized(hashes) => hashes.push(hash),
        }
        self.about.count(entry);
        Ok(())
    }

    /// Writes what is left, and the filter; `None` if there was no entry.
    pub(super) fn finish(
        mut self,
        blocks: &mut Writable<'_>,
        filters: &mut Writable<'_>,
    ) -> Result<Option<Arc<Segment>>> {
        if self.about.entries == 0 {
            return Ok(None);
        }
        self.put_block(None, blocks)?;
        let filter = match self.filter {
            FilterBuilder::Sized(filter) => filter,
            FilterBuilder::Unsized(hashes) => {
                let mut filter = Filter::with_room(hashes.len() as u64);
                for hash in hashes {
                    filter.insert(hash);
                }
                filter
            }
        };
        put_filter(self.about.id, &filter, filters)?;
        Ok(Some(Arc::new(Segment::with(self.about, filter))))
    }

    fn put_block(&mut self, next: Option<&[u8]>, blocks: &mut Writable<'_>) -> Result<()> {
        let Some(first) = self.block.first() else { return Ok(()) };
        let key = block_key(self.about.id, first);
        let bytes = self.block.finish(next);
        blocks.insert(key.as_slice(), bytes.as_slice()).map_err(from_redb)?;
        Ok(())
    }
}

fn put_filter(id: u64, filter: &Filter, filters: &mut Writable<'_>) -> Result<()> {
    let parts = filter.bytes().chunks(FILTER_PART_BYTES);
    let count = parts.len() as u32;
    for (part, bytes) in (0..).zip(parts) {
        let key = part_key(id, part);
        let bytes = encode_part(id, part, count, bytes);
        filters.insert(key.as_slice(), bytes.as_slice()).map_err(from_redb)?;
    }
    Ok(())
}
