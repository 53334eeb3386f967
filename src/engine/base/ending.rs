//! Entries that end, with an index by their ends, so that those that are over are found without looking at the others.

use redb::ReadableTable;

use super::from_redb;
use super::tables::Writable;
use crate::error::Result;

/// Most entries that one transaction drops because they are over, so that it stays short.
const DROPPED_PER_TRANSACTION_MAX: usize = 50_000;

/// Like `change`, and keeps the index by end: the old end's row leaves, the new one's enters.
pub(super) fn change_ending(
    ending: &mut Writable<'_>,
    ends: &mut Writable<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<()> {
    let old = match value {
        Some(value) => ending.insert(key, value).map_err(from_redb)?,
        None => ending.remove(key).map_err(from_redb)?,
    };
    if let Some(row) = old.and_then(|guard| end_row(guard.value(), key)) {
        ends.remove(row.as_slice()).map_err(from_redb)?;
    }
    if let Some(row) = value.and_then(|value| end_row(value, key)) {
        ends.insert(row.as_slice(), [].as_slice()).map_err(from_redb)?;
    }
    Ok(())
}

/// The index row of an entry: its end, then its key.
fn end_row(value: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let end = value.get(..8)?;
    Some([end, key].concat())
}

/// What one transaction dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) entries: u64,
    /// Rows of the index: those of the entries, and any that spoke for none.
    rows: usize,
}

impl Dropped {
    pub(super) fn is_nothing(self) -> bool {
        self.rows == 0
    }

    /// Whether it stopped at its limit.
    pub(super) fn may_be_more(self) -> bool {
        self.rows == DROPPED_PER_TRANSACTION_MAX
    }
}

/// Drops entries whose end is not after `now_ns`, up to a limit. A reader judges the end itself, so when they leave is only
/// a matter of space.
pub(super) fn drop_ended(ending: &mut Writable<'_>, ends: &mut Writable<'_>, now_ns: u64) -> Result<Dropped> {
    let over = rows_over(ends, now_ns)?;
    let mut entries = 0;
    for row in &over {
        if let Some((end, key)) = row.split_at_checked(8) {
            // A row speaks for the entry it was written with only.
            let is_its_own = ending
                .get(key)
                .map_err(from_redb)?
                .is_some_and(|guard| guard.value().starts_with(end));
            if is_its_own {
                ending.remove(key).map_err(from_redb)?;
                entries += 1;
            }
        }
        ends.remove(row.as_slice()).map_err(from_redb)?;
    }
    Ok(Dropped {
        entries,
        rows: over.len(),
    })
}

fn rows_over(ends: &Writable<'_>, now_ns: u64) -> Result<Vec<Vec<u8>>> {
    // At the last instant nothing is over: an end there is one that never comes.
    let Some(after) = now_ns.checked_add(1) else {
        return Ok(Vec::new());
    };
    let bound = after.to_be_bytes();
    let rows = ends.range::<&[u8]>(..bound.as_slice()).map_err(from_redb)?;
    rows.take(DROPPED_PER_TRANSACTION_MAX)
        .map(|row| Ok(row.map_err(from_redb)?.0.value().to_vec()))
        .collect()
}
