//! The file judged from below: superblock, log, base, and the state that they make together.
//!
//! Owns the rules on bytes; what keys and values mean is for the layers above, which get the state to walk. Writes nothing,
//! and goes on behind what is damaged as far as it can: damage is a finding, an error only what kept this from looking.

mod finding;
mod walk;

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use super::base::{Applied, verify as base};
use super::log::Half;
use super::recovery::{self, Missing, Run};
use super::space::Space;
use super::view::View;
use super::watched::Watched;
use crate::codec::superblock::{self, SUPERBLOCK_BYTES, Superblock};
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};

pub(crate) use finding::Findings;
pub use finding::{Finding, Place, Rule};
pub(crate) use walk::Walk;

const SUPERBLOCK: Rule = Rule::new(
    "superblock",
    "the superblock has 4096 bytes, a checksum that fits them, and values in their range",
);
const PADDING: Rule = Rule::new(
    "superblock.padding",
    "the bytes of the superblock that say nothing are zeros",
);
const LENGTH: Rule = Rule::new("file.length", "the file has two log halves, and a base behind them");
const ACKNOWLEDGED: Rule = Rule::new(
    "log.acknowledged",
    "every commit that the log knows to be durable is in the log or in the base",
);
const LOG_SPACE: Rule = Rule::new("log.space", "every change in the log is of a known key space");
const PAGE: Rule = Rule::new(
    "base.page",
    "every page of the base has the checksum that its parent names",
);
const INTEGRITY: Rule = Rule::new("base.integrity", "what the base notes of its free pages is so");
const OPEN: Rule = Rule::new(
    "base.open",
    "the base can be opened, has its tables, and says up to where the log was put into it",
);

/// What a check is at. The steps come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckStep {
    /// Superblock and log.
    Log,
    /// The pages of the base, each with its checksum.
    Base,
    /// Tables, counters and what else the store keeps of itself.
    Catalogue,
    /// Records.
    Records,
    /// The index of records by state.
    States,
    /// Remembered keys.
    Remembered,
    /// Messages of all queues.
    Messages,
    /// The segments that remembered keys lie in, each for itself.
    Segments,
}

impl fmt::Display for CheckStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            CheckStep::Log => "log",
            CheckStep::Base => "base",
            CheckStep::Catalogue => "tables",
            CheckStep::Records => "records",
            CheckStep::States => "states",
            CheckStep::Remembered => "remembered keys",
            CheckStep::Messages => "messages",
            CheckStep::Segments => "segments",
        })
    }
}

/// Told of steps, and of how many entries of a step were looked at.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(CheckStep, u64);

/// What came of a look at the file.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) bytes: u64,
    /// Frames of the log that count.
    pub(crate) frames: u64,
    /// Pages of the base that were judged by their checksums.
    pub(crate) pages: u64,
    pub(crate) base_verified: bool,
    /// The newest state, if the base can be read.
    pub(crate) view: Option<Arc<View>>,
}

/// Judges superblock, log and base.
///
/// # Errors
/// `NotAStore` for a file of something else, `NewerFormat`, and what the disk reports.
pub(crate) fn file(disk: Arc<dyn Disk>, cache_bytes: usize, findings: &mut Findings, tell: Tell<'_>) -> Result<Looked> {
    tell(CheckStep::Log, 0);
    let bytes = disk
        .len()
        .map_err(|cause| Error::io("ask for the length of the file", None, cause))?;
    let mut looked = Looked {
        bytes,
        ..Looked::default()
    };
    let Some(superblock) = read_superblock(&*disk, bytes, findings)? else {
        return Ok(looked);
    };
    let base_at = super::open::base_begins(&superblock);
    if bytes <= base_at {
        let place = in_region("superblock", 0);
        findings.add(place, LENGTH, format!("bytes={bytes}, base_begins={base_at}"));
        return Ok(looked);
    }
    let halves = super::open::read_halves(&*disk, &superblock)?;
    judge_base(&disk, base_at, cache_bytes, findings, tell, &mut looked)?;
    let state = base::last_state(Arc::new(Watched::new(disk)), base_at, cache_bytes);
    let Some(state) = damage_of(state, findings, || in_region("base", base_at), OPEN)? else {
        return Ok(looked);
    };
    let stamp = superblock.stamp();
    let applied = state.applied;
    let runs = recovery::accept(stamp, &halves, applied);
    if let Some(missing) = recovery::missing(stamp, &halves, &runs, applied) {
        acknowledged(&superblock, &missing, findings);
    }
    looked.frames = frames(applied, &runs);
    judge_spaces(&runs, findings);
    looked.view = Some(Arc::new(View::of(state, runs)));
    Ok(looked)
}

fn in_region(region: &'static str, offset: u64) -> Place {
    Place::Bytes { region, offset }
}

/// The superblock, or what it most likely said if its checksum is wrong.
fn read_superblock(disk: &dyn Disk, len: u64, findings: &mut Findings) -> Result<Option<Superblock>> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    let there = usize::try_from(len).unwrap_or(usize::MAX).min(SUPERBLOCK_BYTES);
    let read = disk.read(0, bytes.get_mut(..there).unwrap_or_default());
    read.map_err(|cause| Error::io("read the file", None, cause))?;
    if !superblock::is_begun(bytes.get(..there).unwrap_or_default()) {
        let message = format!("not a store: the file begins with other bytes, bytes={len}");
        return Err(Error::new(ErrorKind::NotAStore, message));
    }
    let place = in_region("superblock", 0);
    if there < SUPERBLOCK_BYTES {
        findings.add(place, SUPERBLOCK, format!("bytes={len}"));
        return Ok(None);
    }
    let superblock = match Superblock::decode(&bytes) {
        Ok(superblock) => Some(superblock),
        Err(cause) if cause.kind() == ErrorKind::Corrupt => {
            findings.add(place, SUPERBLOCK, text(&cause));
            Superblock::decode_unsummed(&bytes).ok()
        }
        Err(cause) => return Err(cause),
    };
    if let Some(at) = superblock::first_of_padding(&bytes) {
        let place = in_region("superblock", at as u64);
        findings.add(
            place,
            PADDING,
            format!("byte={:#04x}", bytes.get(at).copied().unwrap_or_default()),
        );
    }
    Ok(superblock)
}

fn acknowledged(superblock: &Superblock, missing: &Missing, findings: &mut Findings) {
    let Missing {
        half,
        at,
        log_end,
        known_durable,
    } = missing;
    let region = match half {
        Half::A => "log half A",
        Half::B => "log half B",
    };
    let offset = half.begins(superblock.log_half_bytes) + *at as u64;
    let seen = format!("log_end={log_end}, known_durable={known_durable}");
    findings.add(in_region(region, offset), ACKNOWLEDGED, seen);
}

fn frames(applied: Applied, runs: &[Run]) -> u64 {
    let end = runs.last().map_or(applied, |run| run.last);
    end.sequence - applied.sequence
}

/// A key of an unknown space would stop the next checkpoint.
fn judge_spaces(runs: &[Run], findings: &mut Findings) {
    for (key, _) in runs.iter().flat_map(|run| run.memory.iter()) {
        if Space::split(&key).is_none() {
            let place = Place::Entry {
                space: "log",
                key: key.escape_ascii().to_string(),
            };
            findings.add(place, LOG_SPACE, format!("first_byte={:?}", key.first()));
        }
    }
}

/// Every page first, and redb's own judgement only over sound pages: on others it may panic while it unwinds.
fn judge_base(
    disk: &Arc<dyn Disk>,
    base_at: u64,
    cache_bytes: usize,
    findings: &mut Findings,
    tell: Tell<'_>,
    looked: &mut Looked,
) -> Result<()> {
    tell(CheckStep::Base, 0);
    let before = findings.count();
    let mut bad = |at: u64, seen: String| findings.add(in_region("base", base_at + at), PAGE, seen);
    looked.pages = base::pages(&**disk, base_at, &mut bad)?;
    tell(CheckStep::Base, looked.pages);
    looked.base_verified = true;
    if findings.count() > before {
        return Ok(());
    }
    let sound = base::integrity(Arc::new(Watched::new(disk.clone())), base_at, cache_bytes);
    let place = || in_region("base", base_at);
    if damage_of(sound, findings, place, INTEGRITY)? == Some(false) {
        findings.add(place(), INTEGRITY, "redb found something to repair");
    }
    Ok(())
}

/// What was read; `None` if it is damaged, which is a finding.
///
/// # Errors
/// What kept it from being read and is no damage.
pub(crate) fn damage_of<T>(
    outcome: Result<T>,
    findings: &mut Findings,
    place: impl FnOnce() -> Place,
    rule: Rule,
) -> Result<Option<T>> {
    match outcome {
        Ok(read) => Ok(Some(read)),
        Err(cause) if is_damage(&cause) => {
            findings.add(place(), rule, text(&cause));
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}

/// An error of the bytes and not of the disk. What redb refuses without one is of the bytes too.
fn is_damage(cause: &Error) -> bool {
    match cause.kind() {
        ErrorKind::Corrupt | ErrorKind::NewerFormat | ErrorKind::Decode | ErrorKind::Invalid => true,
        ErrorKind::Io => !cause.is_of_disk(),
        _ => false,
    }
}

/// The message of an error with those of its causes.
pub(crate) fn text(cause: &Error) -> String {
    let mut text = cause.to_string();
    let mut next = cause.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
