//! Opening an LMDB environment.

use std::path::Path;

/// Opens the environment in `folder` with a map of `map_bytes` and up to `tables` tables, durable by default.
///
/// # Errors
/// What LMDB reports.
pub fn open(folder: &Path, map_bytes: usize, tables: u32) -> heed::Result<heed::Env> {
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(map_bytes).max_dbs(tables);
    // SAFETY: the folder belongs to one run of one bench, and nobody else opens or changes the files in it.
    unsafe { options.open(folder) }
}
