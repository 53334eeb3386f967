//! What a power loss makes of a disk: pure functions from a durable image and the changes that were not, to a new image.
//!
//! Owns the fate of each change. A disk writes a sector of 512 bytes as a whole, so a write is torn between sectors and
//! never inside one; but the file system may hand any part of a sector down by itself, so two unsynced writes that share a
//! sector without overlapping live and die apart. That is harsher than a page cache and asks nothing of it.
//!
//! Invariant: all changes applied in order are the image that the program saw, as long as no sync failed.

use std::ops::Range;
use std::sync::Arc;

/// Bytes that a disk writes as a whole.
pub(super) const SECTOR_BYTES: usize = 512;
/// How often a sector that lands does so after all later ones.
const LATE_PERCENT: u8 = 12;

/// What a power loss does to writes and lengths that were not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashPlan {
    /// None of them reached the disk.
    DropAll,
    /// All of them did, in order.
    KeepAll,
    /// Each sector of each write lands with this probability in percent, and some after later ones, so that an old sector
    /// may lie over a new one. Lengths land in order up to some point, since a file system keeps them in a journal.
    Random {
        /// From 0 (as `DropAll`) to 100.
        keep_percent: u8,
    },
    /// One write is cut between two sectors; all before it landed, none after it did.
    TearOne,
    /// One of the above, chosen by the seed.
    Any,
}

/// One change that is not durable.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write(Piece),
    Len(usize),
}

/// A part of what one write carried. Cutting and cloning it copies no bytes.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    offset: usize,
    whole: Arc<[u8]>,
    part: Range<usize>,
}

impl Piece {
    pub(super) fn new(offset: usize, data: &[u8]) -> Piece {
        Piece {
            offset,
            whole: data.into(),
            part: 0..data.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.whole.get(self.part.clone()).unwrap_or_default()
    }

    fn end(&self) -> usize {
        self.offset + self.part.len()
    }

    /// The part of it that lies within `start..end` of the file.
    fn within(&self, start: usize, end: usize) -> Option<Piece> {
        let (from, to) = (self.offset.max(start), self.end().min(end));
        let skip = |at: usize| self.part.start + (at - self.offset);
        (from < to).then(|| Piece {
            offset: from,
            whole: Arc::clone(&self.whole),
            part: skip(from)..skip(to),
        })
    }

    /// What of it lies outside `start..end`.
    fn without(&self, start: usize, end: usize) -> impl Iterator<Item = Piece> + use<> {
        [self.within(0, start), self.within(end, usize::MAX)]
            .into_iter()
            .flatten()
    }

    /// It, cut where the sectors of the file meet.
    fn sectors(&self) -> impl Iterator<Item = Piece> + '_ {
        let first = self.offset / SECTOR_BYTES;
        let after = self.end().div_ceil(SECTOR_BYTES);
        (first..after).filter_map(|at| self.within(at * SECTOR_BYTES, (at + 1) * SECTOR_BYTES))
    }
}

/// Applies every change in order.
pub(super) fn apply_all(image: &mut Vec<u8>, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Write(piece) => put(image, piece.offset, piece.bytes()),
            Change::Len(len) => image.resize(*len, 0),
        }
    }
}

/// Copies into an image, which grows with zeros if need be.
pub(super) fn put(image: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if end > image.len() && !data.is_empty() {
        image.resize(end, 0);
    }
    if let Some(part) = image.get_mut(offset..end) {
        part.copy_from_slice(data);
    }
}

/// Takes `start..end` out of all changes, since something newer is durable there. A length below `end` may no longer cut
/// that range off: what remains of it are the zeros it put before `start` and the end of the file.
pub(super) fn supersede(changes: &mut Vec<Change>, start: usize, end: usize) {
    for change in std::mem::take(changes) {
        match change {
            Change::Write(piece) => changes.extend(piece.without(start, end).map(Change::Write)),
            Change::Len(len) => {
                if len < start {
                    changes.push(Change::Write(Piece::new(len, &vec![0; start - len])));
                }
                changes.push(Change::Len(len.max(end)));
            }
        }
    }
}

/// Takes `start..end` out of all writes, since it will never be written.
pub(super) fn lose(changes: &mut Vec<Change>, start: usize, end: usize) {
    for change in std::mem::take(changes) {
        match change {
            Change::Write(piece) => changes.extend(piece.without(start, end).map(Change::Write)),
            Change::Len(_) => changes.push(change),
        }
    }
}

/// The image after a power loss.
pub(super) fn settle(durable: &Arc<Vec<u8>>, changes: &[Change], seed: u64, plan: CrashPlan) -> Arc<Vec<u8>> {
    let mut image = Arc::clone(durable);
    let mut rng = Rng(seed);
    match rng.choose(plan) {
        CrashPlan::KeepAll => apply_all(Arc::make_mut(&mut image), changes),
        CrashPlan::Random { keep_percent } => scatter(Arc::make_mut(&mut image), changes, keep_percent, &mut rng),
        CrashPlan::TearOne => tear_one(Arc::make_mut(&mut image), changes, &mut rng),
        CrashPlan::DropAll | CrashPlan::Any => {}
    }
    image
}

fn scatter(image: &mut Vec<u8>, changes: &[Change], keep_percent: u8, rng: &mut Rng) {
    let mut late: Vec<Piece> = Vec::new();
    let mut lengths_land = true;
    for change in changes {
        match change {
            Change::Write(piece) => {
                for sector in piece
                    .sectors()
                    .filter(|_| rng.percent(keep_percent))
                    .collect::<Vec<_>>()
                {
                    if rng.percent(LATE_PERCENT) {
                        late.push(sector);
                    } else {
                        put(image, sector.offset, sector.bytes());
                    }
                }
            }
            Change::Len(len) => {
                // A write from before a cut cannot land behind it afterwards, so none waits past a length.
                land_late(image, &mut late);
                lengths_land = lengths_land && rng.percent(keep_percent);
                if lengths_land {
                    image.resize(*len, 0);
                }
            }
        }
    }
    land_late(image, &mut late);
}

/// Newest first, so that of two late sectors at one place the older one stays.
fn land_late(image: &mut Vec<u8>, late: &mut Vec<Piece>) {
    while let Some(sector) = late.pop() {
        put(image, sector.offset, sector.bytes());
    }
}

fn tear_one(image: &mut Vec<u8>, changes: &[Change], rng: &mut Rng) {
    let torn: Vec<(usize, Vec<Piece>)> = changes
        .iter()
        .enumerate()
        .filter_map(|(at, change)| match change {
            Change::Write(piece) => Some((at, piece.sectors().collect::<Vec<_>>())),
            Change::Len(_) => None,
        })
        .filter(|(_, sectors)| sectors.len() > 1)
        .collect();
    let Some((at, sectors)) = torn.get(rng.below(torn.len())) else {
        // Nothing here spans two sectors: what is left of tearing is to stop between two changes.
        apply_all(image, changes.get(..rng.below(changes.len() + 1)).unwrap_or_default());
        return;
    };
    apply_all(image, changes.get(..*at).unwrap_or_default());
    let cut = 1 + rng.below(sectors.len() - 1);
    let front_lands = rng.percent(50);
    for (nth, sector) in sectors.iter().enumerate() {
        if (nth < cut) == front_lands {
            put(image, sector.offset, sector.bytes());
        }
    }
}

/// splitmix64: small, and every seed is a good one.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound as u64).max(1)) as usize
    }

    fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < usize::from(percent)
    }

    fn choose(&mut self, plan: CrashPlan) -> CrashPlan {
        if plan != CrashPlan::Any {
            return plan;
        }
        match self.below(8) {
            0 => CrashPlan::DropAll,
            1 => CrashPlan::KeepAll,
            2 | 3 => CrashPlan::TearOne,
            _ => CrashPlan::Random {
                keep_percent: 10 + self.below(81) as u8,
            },
        }
    }
}
