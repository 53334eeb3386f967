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
#[derive(Debug)]
pub(super) struct Run {
    pub(super) half: Half,
    /// Length of the accepted frames in bytes, from the start of the half.
    pub(super) len: usize,
    /// Their changes.
    pub(super) memory: Memory,
    /// What the last of them says.
    pub(super) last: Applied,
}

/// Follows the log from `applied`, at most once through each half, in log order.
pub(super) fn follow(stamp: Stamp, halves: &[(Half, Vec<u8>)], applied: Applied) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = applied;
    while let Some(run) = halves
        .iter()
        .filter(|(half, _)| runs.iter().all(|run| run.half != *half))
        .find_map(|(half, bytes)| follow_half(stamp, *half, bytes, end))
    {
        end = run.last;
        runs.push(run);
    }
    for (half, bytes) in halves {
        let accepted = runs.iter().find(|run| run.half == *half).map_or(0, |run| run.len);
        let rest = bytes.get(accepted..).unwrap_or_default();
        judge_rest(stamp, *half, rest, end.sequence)?;
    }
    Ok(runs)
}

/// The frames of one half that continue `before`; `None` if the first one does not.
fn follow_half(stamp: Stamp, half: Half, bytes: &[u8], before: Applied) -> Option<Run> {
    let mut run = Run {
        half,
        len: 0,
        memory: Memory::new(),
        last: before,
    };
    while let Some(frame) = bytes.get(run.len..).and_then(|rest| frame::decode(stamp, rest)) {
        if !continues(&run.last, &frame.header) {
            break;
        }
        replay(&frame, &mut run.memory);
        run.len += frame.len;
        run.last = Applied {
            sequence: frame.header.sequence,
            life: frame.header.life,
            time: RetentionMark {
                now_ns: frame.header.retention_ns,
                highest_wall_ns: frame.header.highest_wall_ns,
                last_wall_ns: frame.header.last_wall_ns,
            },
        };
    }
    (run.len > 0).then_some(run)
}

/// Whether a frame is the next one after a state.
fn continues(end: &Applied, header: &Header) -> bool {
    let life = header.previous_life.unwrap_or(header.life);
    end.sequence.checked_add(1) == Some(header.sequence) && life == end.life
}

fn replay(frame: &Frame<'_>, memory: &mut Memory) {
    for (key, value) in frame.ops() {
        memory.insert(key.into(), value.map(Into::into));
    }
}

/// Looks for a good frame anywhere in what was not accepted that proves a durable sequence above `end`.
fn judge_rest(stamp: Stamp, half: Half, bytes: &[u8], end: u64) -> Result<()> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..) {
        let Some(found) = find_marker(stamp, rest) else { break };
        at += found;
        let Some(frame) = bytes.get(at..).and_then(|rest| frame::decode(stamp, rest)) else {
            at += 1;
            continue;
        };
        if frame.header.synced > end {
            let synced = frame.header.synced;
            let message =
                format!("acknowledged commits are missing, half={half:?}, log_end={end}, known_durable={synced}");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        at += frame.len;
    }
    Ok(())
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
