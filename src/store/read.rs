//! Reading: one snapshot, owned values.

use std::ops::Bound;
use std::sync::Arc;

use super::Inner;
use crate::codec::Keys;
use crate::dedupe::{self, Remembered, RememberedKey};
use crate::engine::{Engine, Merge, Span};
use crate::error::Result;
use crate::record;
use crate::table::catalog::{self, TableInfo};
use crate::table::{Record, TableSpec, in_record, record_of};
use crate::txn::Txn;

/// One state of the store, to look up and to scan.
pub struct ReadTx<'s> {
    pub(super) inner: &'s Inner,
    pub(super) engine: &'s Engine,
    pub(super) txn: Txn,
}

/// Records of one page of a scan, and where the next page begins.
#[derive(Clone, Debug)]
pub struct Page<K, R, N: ?Sized> {
    /// Keys and records, in the order of the scan.
    pub records: Vec<(K, R)>,
    /// What of the range lies behind them; `None` if the scan is at its end.
    pub next: Option<Keys<N>>,
}

/// The page of a table's scan.
pub(crate) type PageOf<T> =
    Page<<T as TableSpec>::OwnedKey, Record<<T as TableSpec>::Value, <T as TableSpec>::State>, <T as TableSpec>::Key>;

/// Key and record, as a scan gives them.
pub(crate) type ItemOf<T> = (
    <T as TableSpec>::OwnedKey,
    Record<<T as TableSpec>::Value, <T as TableSpec>::State>,
);

impl<'s> ReadTx<'s> {
    pub(super) fn new(inner: &'s Inner, engine: &'s Engine, txn: Txn) -> ReadTx<'s> {
        ReadTx { inner, engine, txn }
    }

    /// The record under `key`.
    ///
    /// # Errors
    /// `Schema` if the table is declared otherwise in the file, or the record's state is unknown to the program; `Decode` if the
    /// value is not of the table's type; `TooLarge` for a key above its limit; `Corrupt`, `Io`.
    pub fn get<T: TableSpec>(&self, table: T, key: &T::Key) -> Result<Option<Record<T::Value, T::State>>> {
        let encoded = table.encode_key(key)?;
        let Some(info) = self.resolve(&table)? else {
            return Ok(None);
        };
        let named = |cause| in_record(&info, &encoded, cause);
        let whole = info.record_key(&encoded);
        let Some(bytes) = self.txn.get(&whole).map_err(named)? else {
            return Ok(None);
        };
        let stored = record::decode(&whole, &bytes).map_err(named)?;
        record_of(&table, &info, &encoded, &stored).map(Some)
    }

    /// The records of a range, one by one, in its direction. Sees this transaction's own writes.
    ///
    /// # Errors
    /// As [`ReadTx::get`]. An item can fail as well: `Decode`, `Schema` and `Corrupt` name the record, and the scan goes on
    /// behind it; an error of the file ends the scan.
    pub fn scan<T: TableSpec>(&self, table: T, keys: Keys<T::Key>) -> Result<Scan<'_, T>> {
        let entries = match self.resolve(&table)? {
            Some(info) if !keys.is_empty() => Some((self.entries(&info, &keys)?, info)),
            _ => None,
        };
        Ok(Scan { table, entries })
    }

    /// At most `limit` records of a range, and the rest of the range. For long scans in short transactions, and for scans
    /// between whose pages the same transaction writes.
    ///
    /// # Errors
    /// As [`ReadTx::get`].
    pub fn scan_page<T: TableSpec>(&self, table: T, keys: Keys<T::Key>, limit: usize) -> Result<PageOf<T>> {
        let Some(info) = self.resolve(&table)?.filter(|_| !keys.is_empty()) else {
            let records = Vec::new();
            return Ok(Page { records, next: None });
        };
        let entries = self.entries(&info, &keys)?;
        page_of(
            Scan {
                table,
                entries: Some((entries, info)),
            },
            keys,
            limit,
        )
    }

    /// What is remembered under a name; `None` if nothing is, or its time is over.
    ///
    /// # Errors
    /// `Invalid` for a scope outside its alphabet; `Corrupt`, `Io`.
    pub fn remembered(&self, scope: &str, key: impl AsRef<[u8]>) -> Result<Option<Remembered>> {
        dedupe::look_up(&self.txn, scope, key.as_ref())
    }

    /// All that is remembered, in one scope or in all of them, by scope and key and without what is over. Sees this
    /// transaction's own keys.
    ///
    /// # Errors
    /// `Invalid` for a scope outside its alphabet; `Corrupt`, `Io`. An item can fail as well: `Corrupt` for a damaged entry
    /// names the key, and the listing goes on behind it; an error of the file ends the listing.
    pub fn remembered_keys(
        &self,
        scope: Option<&str>,
    ) -> Result<impl Iterator<Item = Result<RememberedKey>> + use<'_>> {
        dedupe::list(&self.txn, scope)
    }

    /// The tables of the file, by name.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        catalog::list(&self.txn)
    }

    /// One table of the file.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn table(&self, name: &str) -> Result<Option<TableInfo>> {
        catalog::find(&self.txn, name)
    }

    pub(super) fn resolve<T: TableSpec>(&self, table: &T) -> Result<Option<Arc<TableInfo>>> {
        self.inner.probed.inside();
        self.inner.catalog.resolve(&self.txn, &|| self.engine.read(), table)
    }

    fn entries<K: ?Sized>(&self, info: &TableInfo, keys: &Keys<K>) -> Result<Merge<'_>> {
        let prefix = record::key_prefix(info.id, 0);
        self.txn.scan(&span_of(&prefix, keys))
    }
}

/// The records of a range; see [`ReadTx::scan`].
#[must_use = "a scan reads nothing until it is iterated"]
pub struct Scan<'a, T> {
    table: T,
    entries: Option<(Merge<'a>, Arc<TableInfo>)>,
}

impl<T: TableSpec> Iterator for Scan<'_, T> {
    type Item = Result<ItemOf<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (entries, info) = self.entries.as_mut()?;
        let entry = entries.step()?;
        Some(entry.and_then(|(key, bytes)| item_of(&self.table, info, key, bytes)))
    }
}

impl<T: TableSpec> Paged<T> for Scan<'_, T> {
    fn step(&mut self) -> Option<Result<&[u8]>> {
        let (entries, _) = self.entries.as_mut()?;
        Some(entries.step()?.map(|(key, _)| record::encoded_key(key)))
    }

    fn item(&self) -> Option<Result<ItemOf<T>>> {
        let (entries, info) = self.entries.as_ref()?;
        let (key, bytes) = entries.at()?;
        Some(item_of(&self.table, info, key, bytes))
    }
}

/// Key and record of an entry; an error names the record.
///
/// This and what it calls is made one piece of code: each result that goes from one function to the next through memory costs a
/// scan a few nanoseconds of the hundred and fifty that a record takes.
#[inline(always)]
fn item_of<T: TableSpec>(table: &T, info: &TableInfo, key: &[u8], bytes: &[u8]) -> Result<ItemOf<T>> {
    let encoded = record::encoded_key(key);
    let named = |cause| in_record(info, encoded, cause);
    let owned = table.decode_key(encoded).map_err(named)?;
    let stored = record::decode(key, bytes).map_err(named)?;
    Ok((owned, record_of(table, info, encoded, &stored)?))
}

/// Entries of which a page is made.
pub(super) trait Paged<T: TableSpec> {
    /// Goes to the next one and gives its key as encoded.
    fn step(&mut self) -> Option<Result<&[u8]>>;

    /// Key and record of the one that it is at.
    fn item(&self) -> Option<Result<ItemOf<T>>>;
}

pub(super) fn page_of<T: TableSpec>(mut entries: impl Paged<T>, keys: Keys<T::Key>, limit: usize) -> Result<PageOf<T>> {
    let mut records = Vec::new();
    let mut last = Vec::new();
    while let Some(encoded) = entries.step().transpose()? {
        if records.len() == limit {
            let next = match limit {
                0 => keys,
                _ => keys.resume_after_encoded(&last),
            };
            return Ok(Page {
                records,
                next: Some(next),
            });
        }
        last.clear();
        last.extend_from_slice(encoded);
        records.extend(entries.item().transpose()?);
    }
    Ok(Page { records, next: None })
}

/// A range of keys as a span of whole keys: those that begin with `prefix`, all of which lie before `end`.
pub(super) fn span_of<K: ?Sized>(prefix: &[u8], keys: &Keys<K>) -> Span {
    let (lo, hi) = keys.bounds();
    let whole = |key: &[u8]| [prefix, key].concat().into();
    let all = Span::prefix(prefix);
    Span {
        from: if lo == Bound::Unbounded {
            all.from
        } else {
            lo.map(whole)
        },
        to: if hi == Bound::Unbounded { all.to } else { hi.map(whole) },
        reverse: keys.is_reverse(),
    }
}
