//! Filling a new base in one transaction, and judging one that is there.

use std::sync::Arc;

use super::region::Region;
use super::spent::caught;
use super::tables::Tables;
use super::{Applied, Base, closed, from_redb, open_redb};
use crate::engine::memory::Bytes;
use crate::engine::watched::Watched;
use crate::error::{Error, ErrorKind, Result};

impl Base {
    /// Makes a base behind `offset` of a file under construction that holds `entries`; quickest if they come in the order of
    /// their keys. Takes no more memory than the cache. Closed and synced when this returns.
    pub(crate) fn create(
        disk: Arc<Watched>,
        offset: u64,
        cache_bytes: usize,
        applied: Applied,
        entries: impl Iterator<Item = Result<(Bytes, Bytes)>>,
    ) -> Result<()> {
        let region = Arc::new(Region::armed(disk.clone(), offset));
        let database = open_redb(&region, cache_bytes, true)?;
        caught(|| {
            let writing = Base::begin(&database)?;
            {
                let mut tables = Tables::open(&writing)?;
                for entry in entries {
                    let (key, value) = entry?;
                    tables.change(&key, Some(&value))?;
                }
                tables.note(applied)?;
            }
            writing.commit().map_err(from_redb)
        })?;
        Base::with(disk, offset, cache_bytes, database, region).close()
    }

    /// Reads every page and compares it with its checksum. No snapshot of this opening may be alive.
    ///
    /// # Errors
    /// `Corrupt` if a page is not what was written; `Io`.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut open = self.open.lock();
        let database = open.database.as_mut().ok_or_else(closed)?;
        if caught(|| database.check_integrity().map_err(from_redb))? {
            return Ok(());
        }
        let message = "the base is damaged: its pages are not what was written";
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}
