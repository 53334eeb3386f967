//! Create and open: from a disk to an engine.
//!
//! An open judges the superblock, the halves and the base before it writes anything; a failed open changes no byte.
//! Before the first answer the accepted frames are written again and synced, since the page cache of a killed process
//! may show bytes that the disk does not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use super::base::{Applied, Base};
use super::log::{Half, Level, LogEnv, Mark, Position};
use super::memory::{Bytes, Memory};
use super::recovery::{self, Run};
use super::shared::{Frozen, Shared};
use super::view::View;
use super::watched::Watched;
use super::{Change, Core, Stage, Writes, checkpoint};
use crate::clock::{Clock, Retention, RetentionMark, Sample, Schedule};
use crate::codec::frame;
use crate::codec::superblock::{SUPERBLOCK_BYTES, Superblock, valid_half};
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::group::Group;
use crate::limits;
use crate::random;
use crate::sync::{Mutex, spawn};

/// Block size in bytes at which the log's head is kept for a rewrite.
const BLOCK: usize = 4096;

/// What an open may choose.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) level: Level,
    pub(crate) cache_bytes: usize,
    /// For a new file only.
    pub(crate) log_half_bytes: u64,
    pub(crate) max_offline: Duration,
    pub(crate) sync_interval: Duration,
    /// Checkpoints on a thread of their own.
    pub(crate) background: bool,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Lays out a new store on an empty disk. Nothing of it is durable before the caller syncs the disk.
pub(crate) fn create(disk: &Arc<dyn Disk>, settings: &Settings) -> Result<()> {
    let half_bytes = settings.log_half_bytes;
    if !valid_half(half_bytes) {
        let (min, max) = (limits::LOG_HALF_BYTES_MIN, limits::LOG_HALF_BYTES_MAX);
        let message = format!(
            "log half must be a multiple of 4096 in range, bytes={half_bytes}, bytes_min={min}, bytes_max={max}"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let superblock = Superblock {
        store_id: random::bytes()?,
        log_half_bytes: half_bytes,
    };
    let sample = settings.clock.sample();
    let applied = Applied {
        sequence: 0,
        life: draw_life()?,
        time: RetentionMark {
            now_ns: 0,
            highest_wall_ns: sample.wall_ns,
            last_wall_ns: sample.wall_ns,
        },
    };
    lay_out(disk, &superblock, settings.cache_bytes, applied, std::iter::empty())
}

/// Writes a whole store with an empty log. Nothing of it is durable before the caller syncs the disk.
pub(super) fn lay_out(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    cache_bytes: usize,
    applied: Applied,
    entries: impl Iterator<Item = Result<(Bytes, Bytes)>>,
) -> Result<()> {
    write(&**disk, 0, &superblock.encode())?;
    // Written, not only reserved: an unwritten extent costs metadata at each append and can meet a full disk.
    let zeros = vec![0; 64 << 10];
    let base_at = base_begins(superblock);
    let mut at = SUPERBLOCK_BYTES as u64;
    while at < base_at {
        let len = (base_at - at).min(zeros.len() as u64) as usize;
        write(&**disk, at, zeros.get(..len).unwrap_or_default())?;
        at += len as u64;
    }
    let disk = Arc::new(Watched::new(disk.clone()));
    Base::create(disk, base_at, cache_bytes, applied, entries)
}

/// Opens the store that the disk holds, if `judge` accepts its newest state, and if one commit could hold the changes that
/// it wants to make.
///
/// # Errors
/// `NotAStore`, `NewerFormat`, `Corrupt` by what the bytes say, what `judge` says, and `TooLarge`; the disk is unchanged
/// then. `Io` and `Full`: it holds the same state.
pub(super) fn open(
    disk: Arc<dyn Disk>,
    settings: &Settings,
    judge: impl FnOnce(Arc<View>) -> Result<Vec<Change>>,
) -> Result<Writes> {
    let superblock = read_superblock(&*disk)?;
    let halves = read_halves(&*disk, &superblock)?;
    let disk = Arc::new(Watched::new(disk));
    let base = Base::open(disk.clone(), base_begins(&superblock), settings.cache_bytes)?;
    let applied = base.snapshot()?.applied;
    let runs = recovery::follow(superblock.stamp(), &halves, applied)?;
    let life = draw_life()?;

    let end = runs.last().map_or(applied, |run| run.last);
    let sample = settings.clock.sample();
    let retention = Retention::open(end.time, sample, settings.max_offline);
    let head = head_of_block(&halves, &runs);
    let accepted: Vec<(Half, usize)> = runs.iter().map(|run| (run.half, run.len)).collect();
    let core = build(
        disk.clone(),
        superblock,
        base,
        runs,
        applied,
        head,
        life,
        retention,
        sample,
        settings,
    )?;
    core.fits(&judge(core.shared.published())?)?;

    rewrite_accepted(&*disk, &superblock, &halves, &accepted)?;
    core.base.arm()?;
    bury_dead(&*disk, &superblock, &accepted)?;
    start(core)
}

fn start(core: Core) -> Result<Writes> {
    let core = Arc::new(core);
    let thread = if core.background {
        let core = core.clone();
        let spawned = spawn("sprag-checkpoint", move || checkpoint::run(&core));
        Some(spawned.map_err(|cause| Error::io("start the checkpoint thread", None, cause))?)
    } else {
        None
    };
    Ok(Writes {
        core,
        thread: Mutex::new(thread),
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the one place where all parts of an open store meet"
)]
fn build(
    disk: Arc<Watched>,
    superblock: Superblock,
    base: Base,
    runs: Vec<Run>,
    applied: Applied,
    head: Vec<u8>,
    life: u64,
    retention: Retention,
    sample: Sample,
    settings: &Settings,
) -> Result<Core> {
    let end = runs.last().map_or(applied, |run| run.last);
    let (older, newer) = recovery::split(runs);
    let generation = 1;
    let mark = Mark {
        sequence: end.sequence,
        generation,
        life: end.life,
        position: newer
            .as_ref()
            .map_or(Position { half: Half::A, used: 0 }, |run| Position {
                half: run.half,
                used: run.len as u64,
            }),
        memory: newer.map_or_else(Memory::new, |run| run.memory),
    };
    // The frozen ticket stands for what the log holds already, so it needs a group; the group needs the shared state.
    let shared = Arc::new(Shared::new(base.snapshot()?, &mark));
    let env = LogEnv::new(disk, settings.level, shared.clone(), mark.clone(), head);
    let group = Group::new(env, end.sequence);
    let ticket = group.latest();
    if let Some(run) = older {
        let frozen = Frozen {
            generation: generation - 1,
            memory: run.memory,
            ticket: ticket.clone(),
            applied: run.last,
        };
        shared.freeze(frozen);
        shared.publish(&mark);
    }
    let stage = Stage {
        ticket,
        life,
        opened_at: end.sequence,
        life_before: end.life,
        mark,
        scratch: Vec::new(),
    };
    Ok(Core {
        superblock,
        group,
        shared,
        base,
        stage: Mutex::new(stage),
        sweeping: Mutex::new(()),
        clock: settings.clock.clone(),
        retention: Mutex::new(retention),
        schedule: Schedule::open(sample),
        sync_interval: settings.sync_interval,
        background: settings.background,
        closed: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
    })
}

pub(super) fn read_superblock(disk: &dyn Disk) -> Result<Superblock> {
    let len = disk
        .len()
        .map_err(|cause| Error::io("ask for the length of the file", None, cause))?;
    if len < SUPERBLOCK_BYTES as u64 {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!("not a store: too short, bytes={len}"),
        ));
    }
    let mut bytes = [0; SUPERBLOCK_BYTES];
    read(disk, 0, &mut bytes)?;
    let superblock = Superblock::decode(&bytes)?;
    let base_at = base_begins(&superblock);
    if len <= base_at {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("file is cut short, bytes={len}, base_begins={base_at}"),
        ));
    }
    Ok(superblock)
}

pub(super) fn read_halves(disk: &dyn Disk, superblock: &Superblock) -> Result<Vec<(Half, Vec<u8>)>> {
    let half_bytes = superblock.log_half_bytes;
    let load = |half: Half| {
        let mut bytes = vec![0; half_bytes as usize];
        read(disk, half.begins(half_bytes), &mut bytes)?;
        Ok((half, bytes))
    };
    Half::BOTH.into_iter().map(load).collect()
}

fn rewrite_accepted(
    disk: &dyn Disk,
    superblock: &Superblock,
    halves: &[(Half, Vec<u8>)],
    accepted: &[(Half, usize)],
) -> Result<()> {
    for (half, len) in accepted {
        let bytes = bytes_of(halves, *half).get(..*len).unwrap_or_default();
        write(disk, half.begins(superblock.log_half_bytes), bytes)?;
    }
    if accepted.is_empty() {
        return Ok(());
    }
    disk.sync().map_err(|cause| Error::io("sync the log", None, cause))
}

/// Writes zeros over the header that may follow the accepted frames of each half.
///
/// What follows can be a frame of a crashed life with one sector missing. The next frame may be written to the same
/// place, and of that write a power loss may keep just this sector, with the very bytes that were missing: without its
/// header the dead frame does not rise. Not before the base is armed, since a half is free only if the base is durable.
fn bury_dead(disk: &dyn Disk, superblock: &Superblock, accepted: &[(Half, usize)]) -> Result<()> {
    let half_bytes = superblock.log_half_bytes;
    for half in Half::BOTH {
        let end = accepted_of(accepted, half) as u64;
        let zeros = [0; frame::HEAD];
        let room = half_bytes.saturating_sub(end).min(zeros.len() as u64) as usize;
        write(
            disk,
            half.begins(half_bytes) + end,
            zeros.get(..room).unwrap_or_default(),
        )?;
    }
    disk.sync().map_err(|cause| Error::io("sync the log", None, cause))
}

/// What lies between the last block boundary and the end of the accepted frames of the half in use.
fn head_of_block(halves: &[(Half, Vec<u8>)], runs: &[Run]) -> Vec<u8> {
    let Some(run) = runs.last() else { return Vec::new() };
    let from = run.len / BLOCK * BLOCK;
    bytes_of(halves, run.half)
        .get(from..run.len)
        .unwrap_or_default()
        .to_vec()
}

/// Length of the accepted frames of a half.
fn accepted_of(accepted: &[(Half, usize)], half: Half) -> usize {
    accepted
        .iter()
        .find(|(other, _)| *other == half)
        .map_or(0, |(_, len)| *len)
}

fn bytes_of(halves: &[(Half, Vec<u8>)], half: Half) -> &[u8] {
    halves
        .iter()
        .find(|(other, _)| *other == half)
        .map_or(&[], |(_, bytes)| bytes)
}

/// Where the base's region begins: behind the superblock and both halves.
pub(super) fn base_begins(superblock: &Superblock) -> u64 {
    Half::B.begins(superblock.log_half_bytes) + superblock.log_half_bytes
}

pub(super) fn draw_life() -> Result<u64> {
    random::bytes().map(u64::from_le_bytes)
}

pub(super) fn read(disk: &dyn Disk, at: u64, out: &mut [u8]) -> Result<()> {
    disk.read(at, out).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::with_source(ErrorKind::Corrupt, "file is cut short", cause),
        _ => Error::io("read the file", None, cause),
    })
}

fn write(disk: &dyn Disk, at: u64, bytes: &[u8]) -> Result<()> {
    disk.write(at, bytes)
        .map_err(|cause| Error::io("write the file", None, cause))
}
