//! Recovery: which frames of the log are believed.
//!
//! Pure: from the bytes of both halves and what the base says, to the frames that continue it. A frame continues the
//! state (sequence, life) if it has the next sequence and either the same life, or is the first of its life and names
//! this one as the life before. Anything else ends the log. Sequence and checksum alone are not enough: behind a torn
//! group lie dead frames of the same lap that would continue a later one.
//!
//! If any good frame of either half, also behind a bad one, knows of a durable sequence above the end found, then
//! acknowledged commits are missing, and the file is corrupt.

use super::base::Applied;
use super::log::Half;
use super::memory::Memory;
use crate::clock::RetentionMark;
use crate::codec::frame::{self, Frame, Header, Stamp};
use crate::error::{Error, ErrorKind, Result};

/// The accepted frames of one half.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) half: Half,
    /// Length of the accepted frames in bytes, from the start of the half.
    pub(super) len: usize,
    /// Their changes.
    pub(super) memory: Memory,
    /// What the last of them says.
    pub(super) last: Applied,
}

/// Acknowledged commits are missing: a frame behind the end of the log knows of them.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) half: Half,
    /// Where in the half that frame begins.
    pub(super) at: usize,
    pub(super) log_end: u64,
    pub(super) known_durable: u64,
}

/// Follows the log from `applied`, at most once through each half, in log order.
pub(super) fn follow(stamp: Stamp, halves: &[(Half, Vec<u8>)], applied: Applied) -> Result<Vec<Run>> {
    let runs = accept(stamp, halves, applied);
    let Some(missing) = missing(stamp, halves, &runs, applied) else {
        return Ok(runs);
    };
    let Missing {
        half,
        log_end,
        known_durable,
        ..
    } = missing;
    let message =
        format!("acknowledged commits are missing, half={half:?}, log_end={log_end}, known_durable={known_durable}");
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// The frames that continue `applied`, whatever lies behind them.
pub(super) fn accept(stamp: Stamp, halves: &[(Half, Vec<u8>)], applied: Applied) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = applied;
    while let Some(run) = halves
        .iter()
        .filter(|(half, _)| runs.iter().all(|run| run.half != *half))
        .find_map(|(half, bytes)| Run::begin(stamp, *half, bytes, end))
    {
        end = run.last;
        runs.push(run);
    }
    runs
}

/// The half whose checkpoint was under way, if there was one, and the half in use.
pub(super) fn split(mut runs: Vec<Run>) -> (Option<Run>, Option<Run>) {
    let newer = runs.pop();
    (runs.pop(), newer)
}

/// Whether what was not accepted proves a durable sequence above the end of `runs`.
pub(super) fn missing(stamp: Stamp, halves: &[(Half, Vec<u8>)], runs: &[Run], applied: Applied) -> Option<Missing> {
    let log_end = runs.last().map_or(applied, |run| run.last).sequence;
    halves.iter().find_map(|(half, bytes)| {
        let accepted = runs.iter().find(|run| run.half == *half).map_or(0, |run| run.len);
        let (at, known_durable) = judge_rest(stamp, bytes.get(accepted..)?, log_end)?;
        Some(Missing {
            half: *half,
            at: accepted + at,
            log_end,
            known_durable,
        })
    })
}

impl Run {
    /// The frames at the start of a half that continue `before`; `None` if the first one does not.
    pub(super) fn begin(stamp: Stamp, half: Half, bytes: &[u8], before: Applied) -> Option<Run> {
        let mut run = Run::empty(half, before);
        run.extend(stamp, bytes).then_some(run)
    }

    /// No frames, where the first one would continue `before`.
    pub(super) fn empty(half: Half, before: Applied) -> Run {
        Run {
            half,
            len: 0,
            memory: Memory::new(),
            last: before,
        }
    }

    /// Takes the frames of `bytes`, which lie behind those it has. Whether there were any.
    pub(super) fn extend(&mut self, stamp: Stamp, bytes: &[u8]) -> bool {
        let before = self.len;
        while let Some(frame) = bytes
            .get(self.len - before..)
            .and_then(|rest| frame::decode(stamp, rest))
        {
            if !continues(&self.last, &frame.header) {
                break;
            }
            replay(&frame, &mut self.memory);
            self.len += frame.len;
            self.last = Applied {
                sequence: frame.header.sequence,
                life: frame.header.life,
                time: later(self.last.time, &frame.header),
            };
        }
        self.len > before
    }
}

/// The time of a frame, unless the one before it is ahead: a checkpoint acts by the time of its freeze, and a commit that
/// was begun before it may come behind it.
fn later(before: RetentionMark, header: &Header) -> RetentionMark {
    if header.retention_ns < before.now_ns {
        return before;
    }
    RetentionMark {
        now_ns: header.retention_ns,
        highest_wall_ns: header.highest_wall_ns,
        last_wall_ns: header.last_wall_ns,
    }
}

/// Whether a frame is the next one after a state.
fn continues(end: &Applied, header: &Header) -> bool {
    let life = header.previous_life.unwrap_or(header.life);
    end.sequence.checked_add(1) == Some(header.sequence) && life == end.life
}

fn replay(frame: &Frame<'_>, memory: &mut Memory) {
    for (key, value) in frame.ops() {
        memory.insert(frame.header.sequence, key, value);
    }
}

/// Looks for a good frame anywhere in what was not accepted that proves a durable sequence above `end`: its place, and
/// that sequence.
fn judge_rest(stamp: Stamp, bytes: &[u8], end: u64) -> Option<(usize, u64)> {
    let mut at = 0;
    loop {
        at += find_marker(stamp, bytes.get(at..)?)?;
        match bytes.get(at..).and_then(|rest| frame::decode(stamp, rest)) {
            Some(frame) if frame.header.synced > end => return Some((at, frame.header.synced)),
            Some(frame) => at += frame.len,
            None => at += 1,
        }
    }
}

fn find_marker(stamp: Stamp, bytes: &[u8]) -> Option<usize> {
    let [first, ..] = stamp.marker;
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        from += rest.iter().position(|byte| *byte == first)?;
        if bytes.get(from..)?.starts_with(&stamp.marker) {
            return Some(from);
        }
        from += 1;
    }
}
