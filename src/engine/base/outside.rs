//! Readers in other processes, as the writer sees them: they say by a mark which states of the base they may be reading, and
//! those keep their pages.
//!
//! The writer marks a place that stands for the newest state, a new one after each transaction. Who looks from outside reads
//! that mark, marks the place that answers to it, and then makes sure that the state is still the one it began with. At the
//! end of a transaction, before the pages of the state before are given up, the writer looks for such marks. So a state is
//! kept if and only if somebody reads it, neither side ever waits, and without a reader it costs a few calls per checkpoint.
//!
//! Invariant: a state is seen under its own place, or, before the writer marked that, under the one before. A mark on
//! either keeps it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::BaseSnapshot;
use crate::disk::Disk;
use crate::disk::marks::{Marks, PLACES_BEGIN};
use crate::random;

/// How much of the start of the base every transaction changes: the part that names the newest root.
pub(in super::super) const HEADER_BYTES: usize = 512;

/// A place: who opened the base, and how many transactions ago. Fits 60 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Place(u64);

/// Bits of a place that count transactions; those above are drawn at random at each opening of the base.
const COUNT_BITS: u32 = 36;
const PLACES: u64 = 1 << 60;
/// Where a writer marks.
const WRITING: Range<u64> = PLACES_BEGIN..PLACES_BEGIN + PLACES;
/// Where readers mark.
const READING: u64 = PLACES_BEGIN + PLACES;

impl Place {
    fn first() -> Option<Place> {
        let random = u64::from(u32::from_le_bytes(random::bytes().ok()?)) % (PLACES >> COUNT_BITS);
        Some(Place(random << COUNT_BITS))
    }

    fn next(self) -> Place {
        Place((self.0 + 1) % PLACES)
    }

    /// Which opening of the base it belongs to.
    pub(in super::super) fn opening(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// Where the writer of this state marks.
    fn writing(self) -> u64 {
        WRITING.start + self.0
    }

    /// Where a reader of this state marks.
    pub(in super::super) fn reading(self) -> u64 {
        READING + self.0
    }

    /// What the writer marks, if there is one.
    pub(in super::super) fn of_writer(marks: &dyn Marks) -> std::io::Result<Option<Place>> {
        let found = marks.find(WRITING)?;
        Ok(found.map(|at| Place(at - WRITING.start)))
    }

    /// Whether somebody may read the state that this place stands for.
    fn is_read(self, marks: &dyn Marks) -> bool {
        let at = self.reading();
        // Without an answer somebody may. Where there are no marks at all none was set, and nobody asks.
        marks
            .find(at.saturating_sub(1)..at + 1)
            .map_or(true, |found| found.is_some())
    }
}

/// What one opening of the base tells readers outside, and what it keeps for them.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// Marked; `None` in an opening that only recovers, and where there are no marks.
    place: Option<Place>,
    /// States that were superseded and are read, the oldest first.
    kept: VecDeque<(Place, Arc<BaseSnapshot>)>,
}

impl Outside {
    /// Says that this opening of the base writes from now on.
    pub(super) fn begin(&mut self, disk: &dyn Disk) {
        if self.place.is_none()
            && let Some(marks) = disk.marks()
            && let Some(place) = Place::first()
            && marks.set(place.writing()).is_ok()
        {
            self.place = Some(place);
        }
    }

    /// A transaction has superseded `before`: keeps it if somebody outside reads it, lets go of what nobody reads, and
    /// gives the number of those kept.
    pub(super) fn superseded(&mut self, disk: &dyn Disk, before: Arc<BaseSnapshot>) -> u64 {
        let (Some(marks), Some(place)) = (disk.marks(), self.place) else {
            return 0;
        };
        let next = place.next();
        if marks.set(next.writing()).is_ok() {
            if marks.clear(place.writing()).is_ok() {
                self.place = Some(next);
            } else {
                // Readers may go on to find the old one, so it has to go on meaning the newest state.
                let _ = marks.clear(next.writing());
            }
        }
        self.kept.push_back((place, before));
        self.let_go(disk);
        self.kept.len() as u64
    }

    /// Lets go of what nobody reads any more. Also before a transaction, so that it may use those pages again.
    pub(super) fn let_go(&mut self, disk: &dyn Disk) {
        if let Some(marks) = disk.marks() {
            self.kept.retain(|(place, _)| place.is_read(marks));
        }
    }

    /// This opening of the base writes no more, and keeps nothing.
    pub(super) fn end(&mut self, disk: &dyn Disk) {
        if let (Some(marks), Some(place)) = (disk.marks(), self.place.take()) {
            let _ = marks.clear(place.writing());
        }
        self.kept.clear();
    }
}
