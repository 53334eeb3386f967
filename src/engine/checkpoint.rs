//! The checkpoint: a frozen memory table goes into the base, then its half of the log is free.
//!
//! Starts only when the last sequence of the frozen table survives power loss, and never takes the writer lock. A
//! failure loses nothing: the table stays, the base is opened anew with its writes held in memory, and the next stager
//! that needs room asks for another attempt.

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Core;
use super::base::BaseSnapshot;
use super::shared::{Frozen, Work};
use crate::error::{Error, ErrorKind, Result};

/// Says that nobody makes room any more, also if the thread ends by a panic.
struct Ended<'a>(&'a Core);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.shared.stop();
    }
}

/// Body of the background thread. Once it has ended, whoever waits for room hears `Closed`.
pub(super) fn run(core: &Core) {
    let _ended = Ended(core);
    loop {
        match core.shared.next_work(core.sync_interval) {
            Work::Stop => return,
            Work::Sync => {
                if core.group.env().sync().is_err() {
                    core.shared.ask_for_sync();
                }
            }
            Work::Checkpoint(frozen) => drop(attempt(core, &frozen)),
        }
    }
}

/// One attempt to put `frozen` into the base, with a second try if the first one fails.
///
/// # Errors
/// That of the attempt, which is also in `shared`, for whoever waits for room.
pub(super) fn attempt(core: &Core, frozen: &Arc<Frozen>) -> Result<()> {
    // Before its last sequence survives power loss the table may not enter the base, and may still be unfrozen.
    if let Err(cause) = core
        .group
        .wait(&frozen.ticket)
        .map_err(known)
        .and_then(|()| core.group.env().sync())
    {
        core.shared.checkpoint_failed(frozen, cause.clone(), None);
        return Err(cause);
    }
    let mut filled = put_into_base(core, frozen);
    if filled.is_err() {
        // redb latches every error, so that only a base opened anew can read or write again. What passes is seen by nobody.
        filled = core.reopen_base().and_then(|()| put_into_base(core, frozen));
    }
    match filled {
        Ok(base) => {
            core.shared.checkpointed(base);
            core.checkpoints.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(cause) => {
            let base = core.base.reopen().and_then(|()| core.base.snapshot()).ok();
            core.shared.checkpoint_failed(frozen, cause.clone(), base);
            Err(cause)
        }
    }
}

/// A panic in here would leave stagers waiting for ever; on damaged pages it is a finding about the file.
fn put_into_base(core: &Core, frozen: &Arc<Frozen>) -> Result<Arc<BaseSnapshot>> {
    let apply = || {
        core.base.apply(&frozen.memory, frozen.applied)?;
        core.base.snapshot()
    };
    catch_unwind(AssertUnwindSafe(apply)).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Corrupt,
            "the base panicked: its structure is damaged",
        ))
    })
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
