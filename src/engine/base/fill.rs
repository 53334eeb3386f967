//! Filling a new base in one transaction.

use std::sync::Arc;

use super::region::Region;
use super::segments::{Appender, put_catalog};
use super::spent::caught;
use super::tables::{Tables, open_segments};
use super::{Applied, Base, from_redb, open_redb};
use crate::codec::segment::Catalog;
use crate::engine::memory::Bytes;
use crate::engine::space::Space;
use crate::engine::watched::Watched;
use crate::error::Result;

impl Base {
    /// Makes a base behind `offset` of a file under construction that holds `entries`, which come in the order of their
    /// keys. Takes the cache, the filters of all remembered keys, and 4 MB for each class that they are of. Closed and synced when this returns.
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
                let (mut blocks, mut filters) = open_segments(&writing)?;
                let mut catalog = Catalog::default();
                let mut ending = Appender::new(None, applied.sequence, applied.time.now_ns);
                for entry in entries {
                    let (key, value) = entry?;
                    match Space::split(&key) {
                        Some((Space::Ending, key)) => {
                            ending.take(key, Some(&value), &mut catalog, &mut blocks, &mut filters)?;
                        }
                        _ => tables.change(&key, Some(&value))?,
                    }
                }
                ending.finish(&mut catalog, &mut blocks, &mut filters)?;
                put_catalog(&catalog, &mut tables.engine)?;
                tables.note(applied)?;
            }
            writing.commit().map_err(from_redb)
        })?;
        Base::with(disk, offset, cache_bytes, database, region).close()
    }
}
