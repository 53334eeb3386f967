//! The part of the file that belongs to the base, as a storage backend for it.
//!
//! Until it is armed, a region keeps all writes in memory: the base may recover what it finds without changing a byte of
//! a file that is then refused. A retired region refuses everything, so that a base that was replaced after an error
//! can neither write nor show pages that its successor has reused.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use super::super::watched::Watched;
use super::pages::Expected;
use crate::disk::Disk;
use crate::sync::{Mutex, RwLock};

/// Granularity of the overlay in bytes.
const BLOCK: u64 = 4096;

/// Bytes of one file from `offset` to its end.
#[derive(Debug)]
pub(super) struct Region {
    disk: Arc<Watched>,
    offset: u64,
    /// Held for reading by each call for as long as it takes, so that none goes on in a mode that has ended: a late write
    /// to a retired region would lie in the pages of its successor.
    mode: RwLock<Mode>,
    expected: Mutex<Expected>,
    /// How many syncs of the file had failed when the first write that no sync covers yet began.
    unsynced_since: Mutex<Option<u64>>,
}

#[derive(Debug)]
enum Mode {
    /// Writes are held back.
    Overlaid(Overlay),
    /// Writes go through.
    Armed,
    /// Another region has taken this one's place.
    Retired,
}

#[derive(Debug, Default)]
struct Overlay {
    blocks: BTreeMap<u64, Vec<u8>>,
    len: Option<u64>,
}

impl Region {
    /// A region that writes through at once: for a file under construction.
    pub(super) fn armed(disk: Arc<Watched>, offset: u64) -> Region {
        Region::with(disk, offset, Mode::Armed, Expected::default())
    }

    /// A region that holds writes back until [`Region::arm`], and judges what it reads by what is expected.
    pub(super) fn overlaid(disk: Arc<Watched>, offset: u64, expected: Expected) -> Region {
        Region::with(disk, offset, Mode::Overlaid(Overlay::default()), expected)
    }

    fn with(disk: Arc<Watched>, offset: u64, mode: Mode, expected: Expected) -> Region {
        Region {
            disk,
            offset,
            mode: RwLock::new(mode),
            expected: Mutex::new(expected),
            unsynced_since: Mutex::default(),
        }
    }

    /// Writes what was held back and makes everything the base has seen durable; from then on writes go through.
    ///
    /// The first block is written again even if nothing was held back: after a sync that failed in an earlier life, the
    /// page cache may show a commit that the disk does not have, and a later sync would not write it.
    pub(super) fn arm(&self) -> io::Result<()> {
        let mut mode = self.mode.write();
        let overlay = match &*mode {
            Mode::Overlaid(overlay) => overlay,
            Mode::Armed => return Ok(()),
            Mode::Retired => return Err(retired()),
        };
        // All of it is written here, so what failed before does not matter.
        *self.unsynced_since.lock() = Some(self.disk.failed_syncs());
        if let Some(len) = overlay.len {
            self.disk.set_len(self.offset + len)?;
        }
        let len = self.disk.len()?.saturating_sub(self.offset);
        let mut first = vec![0; BLOCK.min(len) as usize];
        self.disk.read(self.offset, &mut first)?;
        self.disk.write(self.offset, &first)?;
        for (at, block) in &overlay.blocks {
            let wanted = len.saturating_sub(*at).min(BLOCK) as usize;
            if let Some(bytes) = block.get(..wanted) {
                self.disk.write(self.offset + at, bytes)?;
            }
        }
        self.sync_disk()?;
        *mode = Mode::Armed;
        Ok(())
    }

    /// Ends this region: another one has taken its place.
    pub(super) fn retire(&self) {
        *self.mode.write() = Mode::Retired;
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.mode.read() {
            Mode::Overlaid(overlay) => self.read_overlaid(overlay, offset, out)?,
            Mode::Armed => self.disk.read(self.offset + offset, out)?,
            Mode::Retired => return Err(retired()),
        }
        if self.expected.lock().passes(offset, out) {
            return Ok(());
        }
        let at = self.offset + offset;
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a page has another checksum than its parent names, offset={at}"),
        ))
    }

    fn read_overlaid(&self, overlay: &Overlay, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let on_disk = self.disk.len()?.saturating_sub(self.offset);
        let len = overlay.len.unwrap_or(on_disk);
        if offset.saturating_add(out.len() as u64) > len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Past the end of the disk a longer overlay reads as zeros.
        let there = (on_disk.saturating_sub(offset) as usize).min(out.len());
        let (from_disk, beyond) = out.split_at_mut(there);
        if !from_disk.is_empty() {
            self.disk.read(self.offset + offset, from_disk)?;
        }
        beyond.fill(0);
        let end = offset + out.len() as u64;
        for (at, block) in overlay.blocks.range(offset.saturating_sub(BLOCK - 1)..end) {
            copy_overlap(out, offset, block, *at);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.expected.lock().forget(offset, data.len());
        self.change(
            || self.write_through(offset, data),
            |overlay| self.write_overlaid(overlay, offset, data),
        )
    }

    /// Changes the disk or the overlay, whichever takes the writes.
    fn change(
        &self,
        through: impl Fn() -> io::Result<()>,
        held_back: impl FnOnce(&mut Overlay) -> io::Result<()>,
    ) -> io::Result<()> {
        match &*self.mode.read() {
            Mode::Overlaid(_) => {}
            Mode::Armed => return through(),
            Mode::Retired => return Err(retired()),
        }
        match &mut *self.mode.write() {
            Mode::Overlaid(overlay) => held_back(overlay),
            // Armed between the two looks.
            Mode::Armed => through(),
            Mode::Retired => Err(retired()),
        }
    }

    fn write_through(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let failed_syncs = self.disk.failed_syncs();
        let written = self.disk.write(self.offset + offset, data);
        // After the write: a sync that ran meanwhile need not have covered it.
        self.unsynced_since.lock().get_or_insert(failed_syncs);
        written
    }

    fn write_overlaid(&self, overlay: &mut Overlay, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        let mut at = offset / BLOCK * BLOCK;
        while at < end {
            if !overlay.blocks.contains_key(&at) {
                let block = self.load_block(overlay, at)?;
                overlay.blocks.insert(at, block);
            }
            if let Some(block) = overlay.blocks.get_mut(&at) {
                copy_overlap(block, at, data, offset);
            }
            at += BLOCK;
        }
        Ok(())
    }

    fn load_block(&self, overlay: &Overlay, at: u64) -> io::Result<Vec<u8>> {
        let len = overlay.len.unwrap_or(self.disk.len()?.saturating_sub(self.offset));
        let mut block = vec![0; BLOCK as usize];
        let there = len.saturating_sub(at).min(BLOCK) as usize;
        if let Some(there) = block.get_mut(..there) {
            self.read_overlaid(overlay, at, there)?;
        }
        Ok(block)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(
            || self.disk.set_len(self.offset + len),
            |overlay| {
                overlay.set_len(len);
                Ok(())
            },
        )
    }

    fn len(&self) -> io::Result<u64> {
        match &*self.mode.read() {
            Mode::Overlaid(Overlay { len: Some(len), .. }) => Ok(*len),
            Mode::Overlaid(_) | Mode::Armed => Ok(self.disk.len()?.saturating_sub(self.offset)),
            Mode::Retired => Err(retired()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match &*self.mode.read() {
            Mode::Overlaid(_) => Ok(()),
            Mode::Armed => self.sync_disk(),
            Mode::Retired => Err(retired()),
        }
    }

    /// A sync that succeeds proves nothing if another one, of the log, failed since the first write that it is to
    /// cover: the page may be lost and clean.
    fn sync_disk(&self) -> io::Result<()> {
        // Before the sync: what a reader pushes out of redb's cache meanwhile is for the next one.
        let since = self.unsynced_since.lock().take();
        self.disk.sync()?;
        match since {
            Some(count) if count != self.disk.failed_syncs_settled() => Err(io::Error::other(
                "another sync of the file failed since the pages were written",
            )),
            _ => Ok(()),
        }
    }
}

impl Overlay {
    fn set_len(&mut self, len: u64) {
        self.blocks.retain(|at, _| *at < len);
        // What a later growth shows again is zeros.
        let cut = self.blocks.get_mut(&(len / BLOCK * BLOCK));
        if let Some(beyond) = cut.and_then(|block| block.get_mut((len % BLOCK) as usize..)) {
            beyond.fill(0);
        }
        self.len = Some(len);
    }
}

fn retired() -> io::Error {
    io::Error::other("the base was opened anew")
}

/// Copies what of `source`, which lies at `source_at`, falls into `target`, which lies at `target_at`.
fn copy_overlap(target: &mut [u8], target_at: u64, source: &[u8], source_at: u64) {
    let from = target_at.max(source_at);
    let to = (target_at + target.len() as u64).min(source_at + source.len() as u64);
    if from >= to {
        return;
    }
    let place = target.get_mut((from - target_at) as usize..(to - target_at) as usize);
    let bytes = source.get((from - source_at) as usize..(to - source_at) as usize);
    if let (Some(place), Some(bytes)) = (place, bytes) {
        place.copy_from_slice(bytes);
    }
}

/// What redb is handed. `may_create` says whether an empty region means "make a new base": anywhere but at create it
/// means that the region is missing, and redb must not be told length 0, since it would initialise an empty store.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) region: Arc<Region>,
    pub(super) may_create: bool,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        match self.region.len()? {
            0 if !self.may_create => Err(io::Error::new(io::ErrorKind::InvalidData, "the base region is missing")),
            len => Ok(len),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.region.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.region.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.region.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.region.write(offset, data)
    }
}
