//! A transaction that writes: decided on the newest staged state, staged as one frame.

use std::sync::atomic::Ordering;

use crate::clock::RetentionMark;
use crate::codec::frame;
use crate::error::{Error, ErrorKind, Result};
use crate::group::Ticket;
use crate::limits;
use crate::sync::MutexGuard;

use super::log::Position;
use super::view::View;
use super::{Change, Core, Now, Stage};

/// Changes as the operations of a frame.
fn ops(changes: &[Change]) -> impl Iterator<Item = frame::Op<'_>> {
    changes.iter().map(|(key, value)| (&**key, value.as_deref()))
}

/// Whether a log with halves of this length takes the changes as one commit.
///
/// # Errors
/// `TooLarge` if not.
pub(super) fn fit(changes: &[Change], log_half_bytes: u64) -> Result<()> {
    let bytes = frame::len_max(ops(changes)) as u64;
    let max = limits::commit_bytes_max(log_half_bytes);
    if bytes <= max {
        return Ok(());
    }
    let message = format!("commit too large for the log, bytes={bytes}, bytes_max={max}");
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// A transaction on the newest staged state, under the writer lock. Dropping it leaves no trace.
pub(crate) struct Writer<'a> {
    pub(super) core: &'a Core,
    pub(super) stage: MutexGuard<'a, Stage>,
    pub(super) now: Now,
    /// For the frame; of the same moment as `now`.
    pub(super) time: RetentionMark,
}

impl Writer<'_> {
    /// The newest staged state.
    pub(crate) fn view(&self) -> View {
        self.core.shared.staged_view(&self.stage.mark)
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// The ticket of an answer that writes nothing: all that was staged when it was decided.
    pub(crate) fn ticket(&self) -> Ticket {
        self.stage.ticket.clone()
    }

    /// Stages `changes` as one commit. It is durable once [`Engine::wait`](super::Engine::wait) of the ticket returned `Ok`.
    ///
    /// # Errors
    /// `TooLarge` if the frame exceeds half of a log half; `Full` or `Io` if there is no room and none can be made, or
    /// if what this transaction saw was dropped by a failed sync. Nothing is staged then.
    pub(crate) fn commit(self, changes: Vec<Change>) -> Result<Ticket> {
        let Writer {
            core, mut stage, time, ..
        } = self;
        let stage = &mut *stage;
        core.fits(&changes)?;
        let header = stage.header(core.group.env().synced(), time)?;
        stage.scratch.clear();
        let len = frame::encode(core.superblock.stamp(), &header, ops(&changes), &mut stage.scratch) as u64;
        let position = core.find_room(stage, len)?;
        let at = position.half.begins(core.superblock.log_half_bytes) + position.used;
        for (key, value) in changes {
            stage.mark.memory.insert(header.sequence, &key, value);
        }
        stage.mark.sequence = header.sequence;
        stage.mark.life = stage.life;
        stage.mark.position = Position {
            half: position.half,
            used: position.used + len,
        };
        let (mark, scratch) = (&stage.mark, &stage.scratch);
        let staged = core
            .group
            .stage(&stage.ticket, |lot| lot.push(at, scratch, mark.clone()));
        match staged {
            Ok(ticket) => {
                stage.ticket = ticket.clone();
                core.commits.fetch_add(1, Ordering::Relaxed);
                Ok(ticket)
            }
            Err(cause) => {
                // A sync failed since `begin`. The next `begin` need not see a drop, since all that was staged before
                // may have been handed over, so this commit is undone here.
                stage.roll_back(core);
                stage.ticket = core.group.latest();
                Err(cause)
            }
        }
    }
}
