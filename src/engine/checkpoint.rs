//! The checkpoint: a frozen memory table goes into the base, then its half of the log is free.
//!
//! Starts only when the last sequence of the frozen table survives power loss, and never takes the writer lock. A
//! failure loses nothing: the table stays, the base is opened anew with its writes held in memory, and the next stager
//! that needs room asks for another attempt.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Core;
use super::shared::{Frozen, Work};
use crate::error::{Error, ErrorKind, Result};

/// Body of the background thread.
pub(super) fn run(core: &Core) {
    loop {
        match core.shared.next_work(core.sync_interval) {
            Work::Stop => return,
            Work::Sync => {
                if core.group.env().sync().is_err() {
                    core.shared.ask_for_sync();
                }
            }
            // The outcome is in `shared`, for whoever waits for room.
            Work::Checkpoint(frozen) => drop(attempt(core, &frozen)),
        }
    }
}

/// One attempt to put `frozen` into the base.
pub(super) fn attempt(core: &Core, frozen: &Arc<Frozen>) -> Result<()> {
    let result = wait_until_durable(core, frozen).map_err(|cause| (cause, None));
    let result = result.and_then(|()| {
        put_into_base(core, frozen).map_err(|cause| {
            // redb latches every error, so that only a base opened anew can read or write again.
            let base = core.base.reopen().and_then(|()| core.base.snapshot()).ok();
            (cause, base)
        })
    });
    result.map_err(|(cause, base)| {
        core.shared.checkpoint_failed(cause.clone(), base);
        cause
    })
}

/// Nothing may be in the base that a power loss takes from the log.
fn wait_until_durable(core: &Core, frozen: &Frozen) -> Result<()> {
    core.group.wait(&frozen.ticket).map_err(known)?;
    core.group.env().sync()
}

fn put_into_base(core: &Core, frozen: &Frozen) -> Result<()> {
    core.base.apply(&frozen.memory, frozen.applied)?;
    core.shared.checkpointed(core.base.snapshot()?);
    core.checkpoints.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The frozen commits are in doubt; whoever waits for room was not applied, and that is known.
fn known(cause: Error) -> Error {
    if cause.kind() != ErrorKind::InDoubt {
        return cause;
    }
    let kind = match cause.source().and_then(|source| source.downcast_ref::<Error>()) {
        Some(source) => source.kind(),
        None => ErrorKind::Io,
    };
    cause.into_kind(kind, "the commits before could not be synced")
}
