//! The handle of the layers above: an open file, written to or only looked at.

use std::sync::Arc;

use super::copy::Original;
use super::look::Look;
use super::{Change, Figures, Now, Settings, View, Writer, Writes, open};
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::group::Ticket;

/// An open file.
pub(crate) struct Engine(Kind);

enum Kind {
    Writes(Box<Writes>),
    Looks(Box<Look>),
}

impl Engine {
    /// Opens the store that the disk holds, if `judge` accepts its newest state, and if one commit could hold the changes
    /// that it wants to make.
    ///
    /// # Errors
    /// `NotAStore`, `NewerFormat`, `Corrupt` by what the bytes say, what `judge` says, and `TooLarge`; the disk is unchanged
    /// then. `Io` and `Full`: it holds the same state.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        settings: &Settings,
        judge: impl FnOnce(Arc<View>) -> Result<Vec<Change>>,
    ) -> Result<Engine> {
        open::open(disk, settings, judge).map(|writes| Engine(Kind::Writes(Box::new(writes))))
    }

    /// Opens it to look at, and changes no byte: whoever writes to it meanwhile need not know.
    ///
    /// # Errors
    /// As [`Engine::open`], and `Busy` if a writer never left it a moment.
    pub(crate) fn look(
        disk: Arc<dyn Disk>,
        settings: &Settings,
        judge: impl FnOnce(Arc<View>) -> Result<()>,
    ) -> Result<Engine> {
        Look::open(disk, settings, judge).map(|look| Engine(Kind::Looks(Box::new(look))))
    }

    /// The newest state that is durable at the store's level; of a file that is looked at, the newest that can be seen.
    pub(crate) fn read(&self) -> Result<Arc<View>> {
        match &self.0 {
            Kind::Writes(writes) => writes.read(),
            Kind::Looks(look) => look.read(),
        }
    }

    /// The readings of time for a transaction that only reads. It takes its sample in as well: after the wall clock was set
    /// back, a store that is only asked must not wait for the clock to catch up.
    pub(crate) fn now(&self) -> Now {
        match &self.0 {
            Kind::Writes(writes) => writes.now(),
            Kind::Looks(look) => look.now(),
        }
    }

    /// Whether another process may write to the file.
    pub(crate) fn looks(&self) -> bool {
        matches!(self.0, Kind::Looks(_))
    }

    /// Whether one commit could hold these changes.
    ///
    /// # Errors
    /// `TooLarge` if not.
    pub(crate) fn fits(&self, changes: &[Change]) -> Result<()> {
        match &self.0 {
            Kind::Writes(writes) => writes.fits(changes),
            Kind::Looks(look) => look.fits(changes),
        }
    }

    /// Takes the writer lock and starts a transaction. Heals first if an earlier sync failed.
    pub(crate) fn begin(&self) -> Result<Writer<'_>> {
        self.writes()?.begin()
    }

    /// Blocks until the outcome of `ticket` is known: durable at the store's level, or an error.
    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<()> {
        self.writes()?.wait(ticket)
    }

    /// Whether the outcome of `ticket` is known by now. Waits for nothing.
    pub(crate) fn is_known(&self, ticket: &Ticket) -> bool {
        self.writes().is_ok_and(|writes| writes.core.group.is_known(ticket))
    }

    /// Most bytes that the log takes as one commit.
    pub(crate) fn commit_bytes_max(&self) -> Result<u64> {
        self.writes().map(Writes::commit_bytes_max)
    }

    /// Makes everything that was answered survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        self.writes()?.sync()
    }

    pub(crate) fn figures(&self) -> Result<Figures> {
        match &self.0 {
            Kind::Writes(writes) => writes.figures(),
            Kind::Looks(look) => look.figures(),
        }
    }

    /// A read has ended.
    pub(crate) fn rest(&self) {
        if let Kind::Looks(look) = &self.0 {
            look.rest();
        }
    }

    /// The newest state, to copy. Nobody waits for what is done with it.
    pub(crate) fn original(&self) -> Result<Original> {
        match &self.0 {
            Kind::Writes(writes) => writes.original(),
            Kind::Looks(look) => look.original(),
        }
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> Result<u64> {
        match &self.0 {
            Kind::Writes(writes) => writes.bytes(),
            Kind::Looks(look) => look.bytes(),
        }
    }

    /// Identity of the store.
    #[cfg(feature = "json")]
    pub(crate) fn store_id(&self) -> [u8; 16] {
        match &self.0 {
            Kind::Writes(writes) => writes.core.superblock.store_id,
            Kind::Looks(look) => look.store_id(),
        }
    }

    /// Forgets a wall time that was absurdly ahead: the mark becomes the wall time of now. Takes effect with a commit.
    pub(crate) fn reset_wall_mark(&self) -> Result<()> {
        self.writes().map(Writes::reset_wall_mark)
    }

    /// Frees the space of entries that are over, and gives their number, with those that checkpoints dropped meanwhile.
    ///
    /// # Errors
    /// As for a commit and a checkpoint. What was dropped before is dropped; nothing else is lost.
    pub(crate) fn sweep(&self) -> Result<u64> {
        self.writes()?.sweep()
    }

    /// Empties the log into the base and closes it. Later calls answer `Closed`.
    ///
    /// # Errors
    /// Whatever kept the log from being emptied; what was acknowledged is in the log then, and the next open finds it.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.0 {
            Kind::Writes(writes) => writes.close(),
            Kind::Looks(_) => Ok(()),
        }
    }

    fn writes(&self) -> Result<&Writes> {
        match &self.0 {
            Kind::Writes(writes) => Ok(writes),
            Kind::Looks(_) => Err(Error::new(ErrorKind::ReadOnly, "the store is open for reading only")),
        }
    }
}
