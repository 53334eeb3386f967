//! How many images of which kind were judged.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use sprag::testkit::SimDisk;

/// What is dangerous about an image. One image may be of several kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A frame that nobody was told of is there.
    Survived,
    /// A frame whose write had begun is not there.
    Dropped,
    /// The log is neither as it was nor as it was written.
    Torn,
    /// Behind the end lie good frames of the same lap.
    Dead,
    /// Right at the end lies a good frame with the very next sequence, and it is not to be believed.
    DeadNext,
    /// The crash came inside a checkpoint.
    Checkpoint,
    /// A frame was written while a checkpoint was under way.
    Beside,
    /// The first write over a half that a checkpoint had freed.
    Reused,
    /// The crash came inside the open after a crash.
    Recovery,
    /// The process was killed, so the cache is there.
    Killed,
}

/// All kinds, by their names in the report.
const NAMES: [(Kind, &str); 10] = [
    (Kind::Survived, "unacknowledged frame survived"),
    (Kind::Dropped, "unacknowledged frame dropped"),
    (Kind::Torn, "torn"),
    (Kind::Dead, "dead frames of the same lap behind the end"),
    (Kind::DeadNext, ".. one of them right at the end"),
    (Kind::Checkpoint, "cut inside a checkpoint"),
    (Kind::Beside, "frame beside a checkpoint"),
    (Kind::Reused, "a half being reused"),
    (Kind::Recovery, "crash during recovery"),
    (Kind::Killed, "killed"),
];

/// Every image of this process, so that one counts once whichever test made it.
static SEEN: Mutex<Option<HashSet<[u8; 32]>>> = Mutex::new(None);

/// Counts of one test.
#[derive(Debug)]
pub struct Tally {
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    judged: u64,
    distinct: u64,
    kinds: [u64; NAMES.len()],
}

impl Tally {
    pub fn new() -> Tally {
        Tally {
            counts: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn distinct(&self) -> u64 {
        self.lock().distinct
    }

    pub fn of(&self, kind: Kind) -> u64 {
        self.lock().kinds[kind as usize]
    }

    /// Counts an image that was judged, if there was no equal one before.
    pub fn add(&self, digest: [u8; 32], kinds: &[Kind]) {
        let mut seen = SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let new = seen.get_or_insert_default().insert(digest);
        drop(seen);
        let mut counts = self.lock();
        counts.judged += 1;
        if new {
            counts.distinct += 1;
            for kind in kinds {
                counts.kinds[*kind as usize] += 1;
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.lock().clone();
        writeln!(
            out,
            "{:>7} distinct images of {} judged",
            counts.distinct, counts.judged
        )?;
        for (kind, name) in NAMES {
            writeln!(out, "{:>7} {name}", counts.kinds[kind as usize])?;
        }
        Ok(())
    }
}

/// A digest of the durable image and of the cache, if they differ.
pub fn digest(disk: &SimDisk, killed: bool) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&disk.durable_image());
    if killed {
        hasher.update(&disk.cache_image());
    }
    *hasher.finalize().as_bytes()
}
