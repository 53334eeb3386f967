//! The checkpoint: a frozen memory table goes into the base, then its half of the log is free.
//!
//! Starts only when the last sequence of the frozen table survives power loss, and never takes the writer lock. A
//! failure loses nothing: the table stays, the base is opened anew with its writes held in memory, and the next stager
//! that needs room asks for another attempt.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Core;
use super::shared::{Frozen, Work};
use crate::error::Result;

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
    let result = put_into_base(core, frozen);
    if let Err(cause) = &result {
        // redb latches every error, so that only a base opened anew can read or write again.
        let base = core.base.reopen().and_then(|()| core.base.snapshot()).ok();
        core.shared.checkpoint_failed(cause.clone(), base);
    }
    result
}

fn put_into_base(core: &Core, frozen: &Arc<Frozen>) -> Result<()> {
    core.group.wait(&frozen.ticket)?;
    core.group.env().sync()?;
    core.base.apply(&frozen.memory, frozen.applied)?;
    core.shared.checkpointed(core.base.snapshot()?);
    core.checkpoints.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
