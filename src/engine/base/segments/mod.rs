//! Remembered keys in the base: segments, each a sorted run of entries behind a filter.
//!
//! Random keys in one tree would dirty a leaf each at every checkpoint. So a checkpoint appends its keys as segments of their
//! own, one for each class of keep, and a new key is looked for in filters that lie in memory. Segments of the same class and
//! window of time are merged, smaller ones first, a bounded part of the work with each checkpoint; a segment whose last
//! entry is over is dropped as a whole.
//!
//! Owns the tables of blocks and filters, and the list of what counts. A segment never changes and its number is never given
//! again, so what is known of one stays true. Of several entries of a key the one with the highest `at` counts, whichever
//! segment it lies in; an entry stays until what it hides is over or gone.
//!
//! After Bentley and Saxe, "Decomposable searching problems" (1980), and O'Neil et al., "The log-structured merge-tree"
//! (1996).

mod append;
mod change;
mod cursor;
pub mod plan;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::codec::filter::Filter;
use crate::codec::segment::{About, Catalog, damaged};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

pub(super) use append::Appender;
pub(super) use change::{Changed, Merges, Segments, put_catalog};
pub(super) use cursor::{Cursors, are_inside};
pub(in crate::engine) use read::Judged;
pub(super) use read::read_catalog;

/// The list of segments, in the table of what the engine notes.
pub(super) const CATALOG_KEY: &[u8] = b"segments";

/// A segment that counts.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) about: About,
    /// Read with the first look-up that needs it; `None` if it is damaged and cannot be made anew.
    filter: OnceLock<Option<Filter>>,
    /// Held while the filter is read.
    reading: Mutex<()>,
}

/// Those of one state, by their numbers.
pub(super) type List = Arc<[Arc<Segment>]>;

/// The segments that were met, so that a filter is read once and not with each state.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<u64, Arc<Segment>>);

impl Known {
    /// The list that a catalogue speaks of; forgets all others.
    pub(super) fn list(&mut self, catalog: Catalog) -> List {
        let mut before = std::mem::take(&mut self.0);
        for about in catalog.segments {
            let known = before.remove(&about.id).filter(|known| known.about == about);
            let segment = known.unwrap_or_else(|| Arc::new(Segment::unread(about)));
            self.0.insert(segment.about.id, segment);
        }
        self.0.values().cloned().collect()
    }

    /// Takes in what a transaction wrote, once it is durable.
    pub(super) fn add(&mut self, written: Vec<Arc<Segment>>) {
        self.0
            .extend(written.into_iter().map(|segment| (segment.about.id, segment)));
    }
}

impl Segment {
    fn unread(about: About) -> Segment {
        Segment {
            about,
            filter: OnceLock::new(),
            reading: Mutex::default(),
        }
    }

    fn with(about: About, filter: Filter) -> Segment {
        Segment {
            about,
            filter: Some(filter).into(),
            reading: Mutex::default(),
        }
    }

    /// Whether a key can lie in it by its order.
    fn spans(&self, key: &[u8]) -> bool {
        *self.about.first_key <= *key && *key <= *self.about.last_key
    }
}

/// Whether an error says that bytes are not as they were written, and not that they cannot be read.
fn is_damage(cause: &Error) -> bool {
    cause.kind() == ErrorKind::Corrupt && !cause.is_of_disk()
}

/// The key that a block lies under.
fn block_key(segment: u64, first: &[u8]) -> Vec<u8> {
    [&segment.to_be_bytes(), first].concat()
}

/// The segment and the first key of a block.
///
/// # Errors
/// `Corrupt` if it is too short.
fn split_block_key(key: &[u8]) -> Result<(u64, &[u8])> {
    let (segment, first) = key
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("a block without a key"))?;
    Ok((u64::from_be_bytes(*segment), first))
}

/// The key that a part of a filter lies under.
fn part_key(segment: u64, part: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&segment.to_be_bytes());
    key[8..].copy_from_slice(&part.to_be_bytes());
    key
}
