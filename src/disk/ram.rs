//! A store in memory: bytes that live as long as their last handle.
//!
//! Owns a growing vector. A sync does nothing, since there is nothing that these bytes could survive. Refuses to grow past
//! what the process can get, with an error in place of an abort.

use std::io;
use std::sync::Arc;

use super::Disk;
use crate::sync::Mutex;

/// Bytes in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RamDisk(Arc<Mutex<Bytes>>);

/// Apart, so that a handle can be shown without its megabytes.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl RamDisk {
    /// A disk of length zero.
    pub fn new() -> RamDisk {
        RamDisk::default()
    }
}

impl Disk for RamDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_from(&self.0.lock().0, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        write_into(&mut self.0.lock().0, offset, data)
    }

    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        resize(&mut self.0.lock().0, len)
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} bytes", self.0.len())
    }
}

/// Copies out of an image; `UnexpectedEof` past its end.
pub(super) fn read_from(image: &[u8], offset: u64, out: &mut [u8]) -> io::Result<()> {
    let part = usize::try_from(offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(out.len())?))
        .and_then(|range| image.get(range))
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    out.copy_from_slice(part);
    Ok(())
}

/// Copies into an image, which grows with zeros if need be. Nothing is changed if it cannot.
pub(super) fn write_into(image: &mut Vec<u8>, offset: u64, data: &[u8]) -> io::Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let end = offset
        .checked_add(data.len() as u64)
        .ok_or(io::ErrorKind::InvalidInput)?;
    if end > image.len() as u64 {
        resize(image, end)?;
    }
    // Both fit a `usize` now, since the image has that length.
    if let Some(part) = image.get_mut(offset as usize..end as usize) {
        part.copy_from_slice(data);
    }
    Ok(())
}

/// Cuts an image or extends it with zeros. `OutOfMemory` if the process cannot get that much.
pub(super) fn resize(image: &mut Vec<u8>, len: u64) -> io::Result<()> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    image
        .try_reserve(len.saturating_sub(image.len()))
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    image.resize(len, 0);
    Ok(())
}
