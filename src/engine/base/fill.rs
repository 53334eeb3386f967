//! Filling a new base in one transaction.

use std::sync::Arc;

use super::region::Region;
use super::spent::caught;
use super::tables::Tables;
use super::{Applied, Base, from_redb, open_redb};
use crate::engine::memory::Bytes;
use crate::engine::watched::Watched;
use crate::error::Result;

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
}
