//! Copying one state of a store into a new file: what a backup, a restore and a compaction have in common.
//!
//! Owns what a copy holds: every live entry of the state, the sequence and the time that it stands for, an empty log, and a
//! life of its own, so that no frame of the original ever continues it. A copy is judged before the caller may give it a
//! name: it is opened as any file is, all of its pages are compared with their checksums, and what it holds with what was
//! read.
//!
//! Not here: the file and its name (`disk::create`), and who may be told what.

use std::sync::Arc;

use super::base::{Applied, verify};
use super::memory::{Bytes, Entry};
use super::open::{base_begins, draw_life, lay_out, read_halves, read_superblock};
use super::recovery;
use super::space::Space;
use super::view::{Layer, Span, View};
use super::watched::Watched;
use crate::clock::RetentionMark;
use crate::codec::superblock::Superblock;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};

/// One state, and the store that it is a state of.
#[derive(Debug)]
pub(crate) struct Original {
    superblock: Superblock,
    view: Arc<View>,
    applied: Applied,
    /// What a copy has otherwise, in the order of keys.
    changes: Vec<Entry>,
}

/// Whose identity the copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The same store at a moment.
    Same,
    /// Another store, which begins with the same content.
    New,
}

/// What a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The last commit that it contains.
    pub(crate) sequence: u64,
    /// Length of the file in bytes.
    pub(crate) bytes: u64,
}

impl Original {
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// A state of an open store. Of nothing in it `time` may be behind.
    pub(super) fn of_view(superblock: Superblock, view: Arc<View>, time: RetentionMark) -> Original {
        let applied = Applied {
            sequence: view.sequence,
            life: 0,
            time,
        };
        Original {
            superblock,
            view,
            applied,
            changes: Vec::new(),
        }
    }

    /// The same, to be copied with these changes, which are in the order of keys.
    pub(crate) fn with(mut self, changes: Vec<Entry>) -> Original {
        self.changes = changes;
        self
    }

    /// The newest state of the file that a disk holds, judged in full. Not a byte of the disk is written.
    ///
    /// # Errors
    /// `NotAStore`, `NewerFormat`, `Corrupt` by what the bytes say; `Io`.
    pub(crate) fn of_file(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<Original> {
        let superblock = read_superblock(&*disk)?;
        let base_at = base_begins(&superblock);
        let halves = read_halves(&*disk, &superblock)?;
        verify::sound(&disk, base_at, cache_bytes)?;
        let base = verify::last_state(Arc::new(Watched::new(disk)), base_at, cache_bytes)?;
        let runs = recovery::follow(superblock.stamp(), &halves, base.applied)?;
        let applied = runs.last().map_or(base.applied, |run| run.last);
        Ok(Original {
            superblock,
            view: Arc::new(View::of(base, runs)),
            applied,
            changes: Vec::new(),
        })
    }

    /// Writes the copy to an empty disk and judges it. What came before the last sync of the caller is not durable.
    ///
    /// # Errors
    /// `Full`, `Io`; `Corrupt` if an entry of the original cannot be read, or the copy is not what was read.
    pub(crate) fn copy_to(&self, disk: &Arc<dyn Disk>, identity: Identity, cache_bytes: usize) -> Result<Copied> {
        let mut superblock = self.superblock;
        if identity == Identity::New {
            superblock.store_id = crate::random::bytes()?;
        }
        let applied = Applied {
            life: draw_life()?,
            ..self.applied
        };
        let mut read = Digest::new();
        let entries = self.entries()?.map(|entry| entry.inspect(|entry| read.take(entry)));
        lay_out(disk, &superblock, cache_bytes, applied, entries)?;

        let copy = Original::of_file(disk.clone(), cache_bytes)?;
        let mut written = Digest::new();
        for entry in copy.entries()? {
            written.take(&entry?);
        }
        if (copy.superblock, copy.applied) != (superblock, applied) || written != read {
            let (read, written) = (read.entries, written.entries);
            let message = format!("the copy is not what was read, entries_read={read}, entries_written={written}");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let bytes = disk
            .len()
            .map_err(|cause| Error::io("ask for the length of the copy", None, cause))?;
        Ok(Copied {
            sequence: applied.sequence,
            bytes,
        })
    }

    /// Every live entry, in the order of spaces and keys.
    pub(crate) fn entries(&self) -> Result<impl Iterator<Item = Result<(Bytes, Bytes)>> + '_> {
        let scan = |space: Space| {
            let changes = self
                .changes
                .iter()
                .filter(move |(key, _)| key.first() == Some(&(space as u8)));
            let layers: Vec<Layer<'_>> = vec![Box::new(changes.cloned())];
            Ok(self.view.scan(layers, &Span::prefix(&[space as u8]))?.copied())
        };
        let scans = Space::ALL.into_iter().map(scan).collect::<Result<Vec<_>>>()?;
        Ok(scans.into_iter().flatten())
    }
}

/// Whether the file that a disk holds may go if something whole takes its place: a store of a format known here, in whatever
/// state.
///
/// # Errors
/// `NotAStore`, `NewerFormat`, `Io`.
pub(crate) fn check_replaceable(disk: &dyn Disk) -> Result<()> {
    match read_superblock(disk) {
        Err(cause) if cause.kind() != ErrorKind::Corrupt => Err(cause),
        _ => Ok(()),
    }
}

/// Whether two passes met the same entries: their number, and a digest over all of them.
struct Digest {
    entries: u64,
    over: blake3::Hasher,
}

impl Digest {
    fn new() -> Digest {
        Digest {
            entries: 0,
            over: blake3::Hasher::new(),
        }
    }

    fn take(&mut self, (key, value): &(Bytes, Bytes)) {
        self.entries += 1;
        for part in [key, value] {
            self.over.update(&(part.len() as u64).to_le_bytes());
            self.over.update(part);
        }
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Digest) -> bool {
        self.entries == other.entries && self.over.finalize() == other.over.finalize()
    }
}
