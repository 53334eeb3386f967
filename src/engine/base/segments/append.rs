//! Putting new entries into the base: a segment for each class that they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::snapshot::BaseSnapshot;
use super::super::tables::Writable;
use super::Segment;
use super::plan::{class_of, window_of};
use super::write::Writing;
use crate::codec::segment::{Catalog, Entry, end_of, is_over};
use crate::error::Result;

/// Most entries of a segment that is written from hashes, so that those take no more than 4 MB for each class.
const APPENDED_ENTRIES_MAX: u64 = 500_000;

/// Takes entries in the order of their keys.
#[derive(Debug)]
pub(in crate::engine::base) struct Appender<'b> {
    /// The state that the entries come on top of; `None` if there is none, and all of them are to be there.
    before: Option<&'b BaseSnapshot>,
    at: u64,
    now_ns: u64,
    writing: BTreeMap<u8, Writing>,
    written: Vec<Arc<Segment>>,
    /// How many were given.
    pub(super) given: u64,
    /// Values that were over when they came.
    pub(super) over: u64,
}

impl<'b> Appender<'b> {
    /// For the checkpoint up to sequence `at`, whose retention time is `now_ns`.
    pub(in crate::engine::base) fn new(before: Option<&'b BaseSnapshot>, at: u64, now_ns: u64) -> Appender<'b> {
        Appender {
            before,
            at,
            now_ns,
            writing: BTreeMap::new(),
            written: Vec::new(),
            given: 0,
            over: 0,
        }
    }

    /// Takes a key, without the byte of its space, with its value or its removal.
    pub(in crate::engine::base) fn take(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        catalog: &mut Catalog,
        blocks: &mut Writable<'_>,
        filters: &mut Writable<'_>,
    ) -> Result<()> {
        self.given += 1;
        let Some(entry) = self.entry(key, value)? else {
            return Ok(());
        };
        let class = class_of(entry.hides_ns, self.now_ns);
        let window = window_of(class, self.now_ns);
        let mut begin = || {
            let id = catalog.next_id;
            catalog.next_id += 1;
            Writing::new(id, class, window, None)
        };
        let writing = self.writing.entry(class).or_insert_with(&mut begin);
        if writing.entries() == APPENDED_ENTRIES_MAX {
            let full = std::mem::replace(writing, begin());
            self.written.extend(full.finish(blocks, filters)?);
        }
        writing.push(&entry, blocks)
    }

    /// What is to be stored; `None` if nothing is, since nothing older has to be hidden.
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Entry>> {
        let mut hides_ns = value.map_or(0, end_of);
        let mut value = value;
        if let Some(before) = self.before {
            // Whatever is hidden now must stay hidden when this entry is over.
            hides_ns = hides_ns.max(before.needed_until(key)?);
            if value.is_some_and(|value| is_over(end_of(value), self.now_ns)) {
                self.over += 1;
                value = None;
            }
            if value.is_none() && is_over(hides_ns, self.now_ns) {
                return Ok(None);
            }
        }
        Ok(Some(Entry {
            key: key.into(),
            at: self.at,
            hides_ns,
            value: value.map(Into::into),
        }))
    }

    /// Ends the segments and lists them.
    pub(in crate::engine::base) fn finish(
        mut self,
        catalog: &mut Catalog,
        blocks: &mut Writable<'_>,
        filters: &mut Writable<'_>,
    ) -> Result<Vec<Arc<Segment>>> {
        for writing in self.writing.into_values() {
            self.written.extend(writing.finish(blocks, filters)?);
        }
        self.written.sort_by_key(|segment| segment.about.id);
        catalog
            .segments
            .extend(self.written.iter().map(|segment| segment.about.clone()));
        Ok(self.written)
    }
}
