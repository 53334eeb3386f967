//! The sweep: entries that are over leave the base now instead of with later checkpoints.
//!
//! A sweep is a checkpoint of what the log holds, and then short transactions on the base that write segments anew without
//! what is over, until none holds any. The writer lock is held for the checkpoint only, as by any stager that needs room; a checkpoint
//! of somebody else may come between two of the transactions.
//!
//! Invariant: a sweep drops what is over by the time that the base itself notes, so that no crash can turn time back to
//! before an end that was acted upon.

use super::{Core, Writes};
use crate::error::Result;

impl Writes {
    /// Frees the space of entries that are over, and gives their number, with those that checkpoints dropped meanwhile.
    ///
    /// # Errors
    /// As for a commit and a checkpoint. What was dropped before is dropped; nothing else is lost.
    pub(super) fn sweep(&self) -> Result<u64> {
        let core = &*self.core;
        let _alone = core.sweeping.lock();
        let before = core.base.dropped();
        // An empty commit that carries the time, since the base may never have heard of it.
        let ticket = self.begin()?.commit(Vec::new())?;
        self.wait(&ticket)?;
        core.empty_log(&mut *core.healed_stage()?)?;
        let now_ns = core.shared.base().applied.time.now_ns;
        while core.drop_ended(now_ns)? {}
        Ok(core.base.dropped() - before)
    }
}

impl Core {
    /// One transaction of a sweep, tried again once if it fails, as a checkpoint is. Says whether there may be more.
    fn drop_ended(&self, now_ns: u64) -> Result<bool> {
        let dropped = self.drop_and_show(now_ns);
        dropped
            .or_else(|_| {
                self.reopen_base()?;
                self.drop_and_show(now_ns)
            })
            .inspect_err(|_| {
                // redb latches every error. If this fails too, the next call that needs the base opens it.
                drop(self.reopen_base());
            })
    }

    /// The state that is shown would keep the freed pages from being used again.
    fn drop_and_show(&self, now_ns: u64) -> Result<bool> {
        let may_be_more = self.base.drop_ended(now_ns)?;
        self.shared.refresh(self.base.snapshot()?);
        Ok(may_be_more)
    }
}
