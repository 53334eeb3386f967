//! Migrations: the records of a table get another shape, page by page.
//!
//! Owns the decision what is to be done, and a page of it in a transaction. A page leaves in one commit the records that it
//! rewrote and the mark behind which the next one begins, so whoever is killed goes on from there.
//!
//! Not here: the loop of commits, and the run before them in which every record is tried.

use std::ops::Bound;

use super::catalog::{compare_shape, under_way};
use super::entry::{self, Migration, Shape, TableInfo};
use super::{Declared, Record, TableSpec, naming_record, record_of};
use crate::codec::Version;
use crate::codec::envelope::Envelope;
use crate::engine::Span;
use crate::error::{Error, ErrorKind, Result};
use crate::machine::Machine;
use crate::machine::decide::Reconciled;
use crate::record::decide::version_after;
use crate::record::{self, Raw};
use crate::txn::Txn;

/// Most records of one page: user code makes each of them anew while other writers wait.
const PAGE_RECORDS_MAX: usize = 256;
/// Part of a commit that the records of a page may take up.
const PAGE_SHARE: u64 = 4;
/// Most bytes that a record of a page takes up beside its key, its states and its value: lengths, checksum, version, counts.
const BESIDE_NAMES_AND_VALUE: usize = 128;

/// What to do about a table that a program asks to migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrateVerdict {
    /// It has the new shape or a later one.
    Nothing,
    /// It has the old shape: begin.
    Begin,
    /// Some of its records have the new shape: go on behind the mark.
    GoOn,
}

/// Judges a migration. `file` is the shape of the table, `target` that of a migration under way; `old` and `new` have
/// schema numbers, the second one the higher.
///
/// # Errors
/// `Schema`, naming both sides: the table has neither shape, or has this schema number and another shape, or is being
/// migrated to another one.
pub fn decide_migrate(
    table: &str,
    file: &Shape,
    target: Option<&Shape>,
    old: &Declared,
    new: &Declared,
) -> Result<MigrateVerdict> {
    // What is in the file may be the outcome of a later migration of the chain that this one is a part of.
    if Some(file.schema) > new.schema {
        return Ok(MigrateVerdict::Nothing);
    }
    if Some(file.schema) == new.schema {
        compare_shape(table, file, new)?;
        return Ok(MigrateVerdict::Nothing);
    }
    let starts_here = Some(file.schema) == old.schema;
    match target {
        Some(target) if starts_here && Some(target.schema) == new.schema => {
            compare_shape(table, file, old)?;
            same_target(table, target, new)?;
            Ok(MigrateVerdict::GoOn)
        }
        Some(target) => Err(under_way(table, file, target)),
        None if starts_here => {
            compare_shape(table, file, old)?;
            Ok(MigrateVerdict::Begin)
        }
        None => {
            let (from, to) = (old.schema.unwrap_or_default(), new.schema.unwrap_or_default());
            let message = format!(
                "table has neither shape of the migration, table={table}, schema_in_file={}, schema_from={from}, schema_to={to}",
                file.schema
            );
            Err(Error::new(ErrorKind::Schema, message))
        }
    }
}

/// A table must not end up with records of two programs' shapes.
fn same_target(table: &str, target: &Shape, new: &Declared) -> Result<()> {
    compare_shape(table, target, new)?;
    let same = match (&target.machine, new.machine.as_ref().and_then(Option::as_ref)) {
        (Some(target), Some(new)) => Machine::reconcile(target, new) == Reconciled::Same,
        _ => true,
    };
    if same {
        return Ok(());
    }
    let schema = target.schema;
    let message = format!(
        "machine is declared otherwise than when this migration began, table={table}, schema_to={schema}, \
         states_in_file={}, states_in_program={}",
        states_of(target.machine.as_ref()),
        states_of(new.machine.as_ref().and_then(Option::as_ref)),
    );
    Err(Error::new(ErrorKind::Schema, message))
}

fn states_of(machine: Option<&Machine>) -> String {
    machine.map_or_else(String::new, |machine| machine.states().join("+"))
}

/// A migration as a program asks for it.
pub(crate) struct Migrate<O, N> {
    old: O,
    new: N,
    old_declared: Declared,
    new_declared: Declared,
    target: Shape,
    verify_values: bool,
    page_bytes_max: u64,
}

/// Where a migration stands in one state of the file.
pub(crate) struct Standing {
    info: TableInfo,
    /// Encoded key of the last record that has the new shape.
    behind: Option<Vec<u8>>,
}

/// What one page did.
pub(crate) struct Rewrote {
    pub(crate) records: u64,
    pub(crate) is_last: bool,
    /// Where the next page begins.
    pub(crate) end: Standing,
}

/// A record as the new table has it.
struct Renewed {
    key: Vec<u8>,
    /// The record that it replaces.
    stored: Raw,
    version: Version,
    state: Option<String>,
    value: Vec<u8>,
}

impl<O, N> Migrate<O, N>
where
    O: TableSpec + Copy,
    N: TableSpec<Key = O::Key, OwnedKey = O::OwnedKey> + Copy,
{
    /// # Errors
    /// `Invalid` if the two are not one table with a rising schema number, or break a rule of their own.
    pub(crate) fn new(old: O, new: N, verify_values: bool, commit_bytes_max: u64) -> Result<Migrate<O, N>> {
        let (old_declared, new_declared) = (old.declared()?, new.declared()?);
        Ok(Migrate {
            old,
            new,
            target: target_of(&old_declared, &new_declared)?,
            old_declared,
            new_declared,
            verify_values,
            page_bytes_max: commit_bytes_max / PAGE_SHARE,
        })
    }

    /// Where the migration stands; `None` if there is nothing to do.
    pub(crate) fn standing(&self, txn: &Txn) -> Result<Option<Standing>> {
        let Some((info, _)) = entry::load(txn, &self.new_declared.name)? else {
            return Ok(None);
        };
        let target = info.migration.as_ref().map(|migration| &migration.target);
        let verdict = decide_migrate(&info.name, &info.shape, target, &self.old_declared, &self.new_declared)?;
        let behind = match verdict {
            MigrateVerdict::Nothing => return Ok(None),
            MigrateVerdict::Begin => None,
            MigrateVerdict::GoOn => info.migration.as_ref().map(|migration| migration.behind.clone()),
        };
        Ok(Some(Standing { info, behind }))
    }

    /// Rewrites the next records and moves the mark behind them. With the last record the table has the new shape.
    pub(crate) fn page<E, F>(&self, txn: &mut Txn, standing: Standing, f: &mut F) -> Result<Rewrote, E>
    where
        E: From<Error>,
        F: FnMut(&O::OwnedKey, Record<O::Value, O::State>) -> Result<(N::Value, N::State), E>,
    {
        let mut info = standing.info;
        let (page, is_last) = self.renewed(txn, &info, standing.behind.as_deref(), f)?;
        let records = page.len() as u64;
        let mut behind = standing.behind;
        for renewed in page {
            let encoded = record::encoded_key(&renewed.key).to_vec();
            renewed
                .write(txn, info.id)
                .map_err(|cause| super::in_damaged(&info, &encoded, cause))?;
            behind = Some(encoded);
        }
        match &behind {
            Some(behind) if !is_last => {
                let (target, behind) = (self.target.clone(), behind.clone());
                info.migration = Some(Migration { target, behind });
            }
            _ => {
                info.shape = self.target.clone();
                info.migration = None;
            }
        }
        entry::store(txn, &info)?;
        Ok(Rewrote {
            records,
            is_last,
            end: Standing { info, behind },
        })
    }

    /// The next records as the new table has them, and whether they are the last.
    fn renewed<E, F>(
        &self,
        txn: &Txn,
        info: &TableInfo,
        behind: Option<&[u8]>,
        f: &mut F,
    ) -> Result<(Vec<Renewed>, bool), E>
    where
        E: From<Error>,
        F: FnMut(&O::OwnedKey, Record<O::Value, O::State>) -> Result<(N::Value, N::State), E>,
    {
        let mut page = Vec::new();
        let mut bytes = 0;
        let mut scan = txn.scan(&rest_of(info.id, behind))?;
        while let Some(entry) = scan.step() {
            let (key, stored) = entry?;
            if page.len() == PAGE_RECORDS_MAX {
                return Ok((page, false));
            }
            let renewed = self.renew(info, key, stored, f)?;
            bytes += renewed.log_bytes_max();
            // One that is larger than a page goes alone.
            if bytes > self.page_bytes_max && !page.is_empty() {
                return Ok((page, false));
            }
            page.push(renewed);
        }
        Ok((page, true))
    }

    fn renew<E, F>(&self, info: &TableInfo, key: &[u8], stored: &[u8], f: &mut F) -> Result<Renewed, E>
    where
        E: From<Error>,
        F: FnMut(&O::OwnedKey, Record<O::Value, O::State>) -> Result<(N::Value, N::State), E>,
    {
        let encoded = record::encoded_key(key);
        let unreadable = |cause| super::in_record(info, encoded, cause);
        let owned = self.old.decode_key(encoded).map_err(unreadable)?;
        let raw = Raw::decode(key, stored).map_err(unreadable)?;
        let (value, state) = f(&owned, record_of(&self.old, info, encoded, &raw.as_envelope())?)?;
        let refused = |cause| naming_record("cannot migrate a record", info, encoded, cause);
        let value = self.new.encode_value(&value, self.verify_values).map_err(refused)?;
        record::check_value(&value).map_err(refused)?;
        let state = self.new.state_name(&state).map(str::to_owned);
        if let (Some(state), Some(machine)) = (&state, &self.target.machine)
            && !machine.has_state(state)
        {
            let message = format!("machine has no such state, state={state}, machine={}", machine.name());
            return Err(refused(Error::new(ErrorKind::Invalid, message)).into());
        }
        let version = version_after(raw.version.get()).map_err(refused)?;
        Ok(Renewed {
            stored: raw,
            version,
            state,
            value,
            key: key.to_vec(),
        })
    }
}

impl Renewed {
    /// Most bytes that it takes up in the log: the record, its entries under both states, and the counts of both.
    fn log_bytes_max(&self) -> u64 {
        let len = |state: &Option<String>| state.as_ref().map_or(0, String::len);
        let states = 2 * len(&self.stored.state) + 3 * len(&self.state);
        (3 * self.key.len() + self.value.len() + states + BESIDE_NAMES_AND_VALUE) as u64
    }

    fn write(self, txn: &mut Txn, table: u32) -> Result<()> {
        let envelope = Envelope {
            version: self.version,
            state: self.state.as_deref(),
            value: &self.value,
        };
        record::write(txn, table, self.key, Some(&self.stored), &envelope)
    }
}

impl Standing {
    /// An error about the page that ends here.
    pub(crate) fn refused(&self, cause: Error) -> Error {
        let behind = self.behind.as_deref().unwrap_or_default();
        naming_record("cannot migrate a record", &self.info, behind, cause)
    }
}

/// The shape that the table is to have.
fn target_of(old: &Declared, new: &Declared) -> Result<Shape> {
    let refused = |what: &str| {
        let message = format!(
            "not a migration: {what}, table_from={:?}, table_to={:?}",
            old.name, new.name
        );
        Err(Error::new(ErrorKind::Invalid, message))
    };
    if old.name != new.name {
        return refused("two tables: copy the records instead");
    }
    if old.key != new.key {
        return refused("two kinds of key: copy the records into a table of another name");
    }
    let (Some(from), Some(to), Some(target)) = (old.schema, new.schema, new.shape()) else {
        return refused("a table without a schema number");
    };
    if from >= to {
        return refused(&format!(
            "schema number does not rise, schema_from={from}, schema_to={to}"
        ));
    }
    Ok(target)
}

/// The records of a table behind an encoded key.
fn rest_of(table: u32, behind: Option<&[u8]>) -> Span {
    let mut span = Span::prefix(&record::key_prefix(table, 0));
    if let Some(behind) = behind {
        let mut key = record::key_prefix(table, behind.len());
        key.extend_from_slice(behind);
        span.from = Bound::Excluded(key.into());
    }
    span
}
