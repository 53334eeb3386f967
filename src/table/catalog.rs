//! The catalogue: which tables the file has, with their key kinds, codecs and machines.
//!
//! Owns the comparison of entries with what a call site declares, and a cache of them. An entry is cached once it is
//! durable: a table is never removed and its number never given again, so a cached entry can only lack states that were
//! added since. Once this process migrates a table that is no longer so, and each transaction looks at its own entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::entry::{self, Shape, damaged, entry_key, load};
use super::{Declared, Described, Identity};
use crate::engine::{Bytes, Change, Now, Space, Span, View};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::TABLE_NAME_BYTES_MAX;
use crate::machine::Machine;
use crate::machine::decide::Reconciled;
use crate::sync::Mutex;
use crate::txn::Txn;

pub use super::entry::TableInfo;

/// The meta key that holds the number of the next table.
const NEXT: u8 = b'n';

/// Entries that are durable, by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    cache: Mutex<HashMap<String, Cached>>,
    /// This process began to migrate some table: entries change, and a snapshot may have another than the cache. Set under
    /// the writer lock before the first such commit is staged, so whoever sees that commit sees this too.
    entries_change: AtomicBool,
}

#[derive(Debug)]
struct Cached {
    info: Arc<TableInfo>,
    /// The entry as it is stored.
    bytes: Bytes,
    /// Descriptions that were compared with this entry and agree.
    agreed: Vec<Identity>,
}

/// The newest durable state, asked for only when an entry is to be cached.
type Durable<'a> = &'a dyn Fn() -> Result<Arc<View>>;

/// The catalogue together with the state that its cache goes by.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    catalog: &'a Catalog,
    durable: Durable<'a>,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(catalog: &'a Catalog, durable: Durable<'a>) -> Tables<'a> {
        Tables { catalog, durable }
    }

    /// See [`Catalog::resolve`].
    pub(crate) fn resolve<T: Described + ?Sized>(&self, txn: &Txn, table: &T) -> Result<Option<Arc<TableInfo>>> {
        self.catalog.resolve(txn, self.durable, table)
    }

    /// See [`Catalog::resolve_or_create`].
    pub(crate) fn resolve_or_create<T: Described + ?Sized>(&self, txn: &mut Txn, table: &T) -> Result<Arc<TableInfo>> {
        self.catalog.resolve_or_create(txn, self.durable, table)
    }
}

impl Catalog {
    pub(crate) fn new() -> Catalog {
        Catalog {
            cache: Mutex::new(HashMap::new()),
            entries_change: AtomicBool::new(false),
        }
    }

    /// From now on no entry is taken from the cache unseen. Called under the writer lock, before the change is staged.
    pub(crate) fn entries_change(&self) {
        self.entries_change.store(true, Ordering::Release);
    }

    /// The table as the file has it, compared with the call site; `None` if the file does not have it.
    pub(crate) fn resolve<T: Described + ?Sized>(
        &self,
        txn: &Txn,
        durable: Durable<'_>,
        table: &T,
    ) -> Result<Option<Arc<TableInfo>>> {
        if let Some((info, bytes)) = self.cached(table)
            && (!self.entries_change.load(Ordering::Acquire) || is_entry(txn, &info, &bytes)?)
        {
            return Ok(Some(info));
        }
        let declared = table.declared()?;
        check_name(&declared.name)?;
        let Some((info, bytes)) = load(txn, &declared.name)? else {
            return Ok(None);
        };
        let grown = compare(&info, &declared)?;
        let info = Arc::new(info);
        if grown.is_none() {
            // What a program adds is recorded by its first write, which a cached entry would spare.
            self.remember(table, &info, &bytes, durable)?;
        }
        Ok(Some(info))
    }

    /// The table as the file has it, compared with the call site, created or grown in this transaction if need be.
    pub(crate) fn resolve_or_create<T: Described + ?Sized>(
        &self,
        txn: &mut Txn,
        durable: Durable<'_>,
        table: &T,
    ) -> Result<Arc<TableInfo>> {
        if let Some((info, bytes)) = self.cached(table) {
            // A machine may have grown since, by another description of the table; else only a migration changes entries.
            let stays = info.machine().is_none() && !self.entries_change.load(Ordering::Acquire);
            if stays || is_entry(txn, &info, &bytes)? {
                return Ok(info);
            }
        }
        let declared = table.declared()?;
        let (info, changed) = declare(txn, &declared)?;
        let info = Arc::new(info);
        if !changed && let Some((_, bytes)) = load(txn, &declared.name)? {
            self.remember(table, &info, &bytes, durable)?;
        }
        Ok(info)
    }

    fn cached<T: Described + ?Sized>(&self, table: &T) -> Option<(Arc<TableInfo>, Bytes)> {
        let identity = table.identity()?;
        let cache = self.cache.lock();
        let cached = cache.get(table.table_name())?;
        cached
            .agreed
            .contains(&identity)
            .then(|| (cached.info.clone(), cached.bytes.clone()))
    }

    /// Caches an entry if it is durable: one that was only staged could still be dropped.
    fn remember<T: Described + ?Sized>(
        &self,
        table: &T,
        info: &Arc<TableInfo>,
        bytes: &Bytes,
        durable: Durable<'_>,
    ) -> Result<()> {
        let Some(identity) = table.identity() else {
            return Ok(());
        };
        if durable()?.get(&entry_key(&info.name))?.as_deref() != Some(&**bytes) {
            return Ok(());
        }
        let mut cache = self.cache.lock();
        let cached = cache.entry(info.name.clone()).or_insert_with(|| Cached {
            info: info.clone(),
            bytes: bytes.clone(),
            agreed: Vec::new(),
        });
        if cached.bytes != *bytes {
            *cached = Cached {
                info: info.clone(),
                bytes: bytes.clone(),
                agreed: Vec::new(),
            };
        }
        if !cached.agreed.contains(&identity) {
            cached.agreed.push(identity);
        }
        Ok(())
    }
}

/// What declarations add to a state of the file, before anything is written.
///
/// # Errors
/// `Schema`, naming both sides; `Invalid` for a name; `TooLarge` if no number is left; `Corrupt`, `Io`.
pub(crate) fn additions(view: Arc<View>, declared: &[Declared]) -> Result<Vec<Change>> {
    let mut txn = Txn::new(view, Now::default());
    for table in declared {
        declare(&mut txn, table)?;
    }
    txn.into_changes()
}

/// Compares a declaration with the file, and creates or grows the entry. Says whether it was changed.
pub(crate) fn declare(txn: &mut Txn, declared: &Declared) -> Result<(TableInfo, bool)> {
    check_name(&declared.name)?;
    let Some((mut info, _)) = load(txn, &declared.name)? else {
        let info = create(txn, declared)?;
        return Ok((info, true));
    };
    let Some(machine) = compare(&info, declared)? else {
        return Ok((info, false));
    };
    info.shape.machine = Some(machine);
    entry::store(txn, &info)?;
    Ok((info, true))
}

/// All tables of the file, by name.
pub(crate) fn list(txn: &Txn) -> Result<Vec<TableInfo>> {
    let mut tables = Vec::new();
    let mut scan = txn.scan(&Span::prefix(&entry_key("")))?;
    while let Some(entry) = scan.step() {
        let (key, bytes) = entry?;
        tables.push(entry::decode(key, bytes)?);
    }
    Ok(tables)
}

/// The table of an entry, if this is the key of one.
pub(crate) fn entry_of(key: &[u8], bytes: &[u8]) -> Option<Result<TableInfo>> {
    let name = key.strip_prefix(&*entry_key(""))?;
    let judged = std::str::from_utf8(name).map_err(|_| damaged("name of a table"));
    Some(judged.and_then(check_name).and_then(|()| entry::decode(key, bytes)))
}

/// The number of the next table, if this is its key.
pub(crate) fn next_of(key: &[u8], bytes: &[u8]) -> Option<Result<u32>> {
    (*key == *next_key()).then(|| number_of(bytes))
}

fn next_key() -> Vec<u8> {
    let mut key = Space::Meta.key(1);
    key.push(NEXT);
    key
}

fn number_of(bytes: &[u8]) -> Result<u32> {
    let number = bytes.try_into().map_err(|_| damaged("number of the next table"))?;
    Ok(u32::from_be_bytes(number))
}

/// One table of the file.
pub(crate) fn find(txn: &Txn, name: &str) -> Result<Option<TableInfo>> {
    Ok(load(txn, name)?.map(|(info, _)| info))
}

fn create(txn: &mut Txn, declared: &Declared) -> Result<TableInfo> {
    let id = match txn.get(&next_key())? {
        Some(bytes) => number_of(&bytes)?,
        None => 0,
    };
    let after = id
        .checked_add(1)
        .ok_or_else(|| Error::new(ErrorKind::TooLarge, "no table number is left"))?;
    txn.put(next_key(), after.to_be_bytes().to_vec());
    let Declared {
        name,
        key,
        codec,
        schema,
        machine,
    } = declared.clone();
    let info = TableInfo {
        id,
        name,
        shape: Shape {
            key,
            codec,
            schema: schema.unwrap_or_default(),
            machine: machine.flatten(),
        },
        migration: None,
    };
    entry::store(txn, &info)?;
    Ok(info)
}

fn is_entry(txn: &Txn, info: &TableInfo, bytes: &[u8]) -> Result<bool> {
    Ok(txn.get(&entry_key(&info.name))?.as_deref() == Some(bytes))
}

/// Compares the file's side with the program's. Gives the grown machine if the program added states or moves.
fn compare(info: &TableInfo, declared: &Declared) -> Result<Option<Machine>> {
    match &info.migration {
        Some(migration) => Err(under_way(&info.name, &info.shape, &migration.target)),
        None => compare_shape(&info.name, &info.shape, declared),
    }
}

/// Nobody but the migration may see a table whose records are of two shapes.
pub(super) fn under_way(table: &str, file: &Shape, target: &Shape) -> Error {
    let (from, to) = (file.schema, target.schema);
    let message = format!(
        "table is being migrated: run the program that migrates it again, table={table}, schema_from={from}, schema_to={to}"
    );
    Error::new(ErrorKind::Schema, message)
}

/// The same of a shape that may be no table's.
pub(super) fn compare_shape(table: &str, file: &Shape, declared: &Declared) -> Result<Option<Machine>> {
    let differs = |what: &str, file: &dyn std::fmt::Display, program: &dyn std::fmt::Display| {
        let message =
            format!("table is declared otherwise, table={table}, {what}_in_file={file}, {what}_in_program={program}");
        Error::new(ErrorKind::Schema, message)
    };
    if file.key != declared.key {
        return Err(differs("key", &file.key, &declared.key));
    }
    // Before the rest, since it says which of the two is newer.
    if let Some(schema) = declared.schema
        && schema != file.schema
    {
        return Err(differs("schema", &file.schema, &schema));
    }
    if file.codec != declared.codec {
        return Err(differs("codec", &file.codec, &declared.codec));
    }
    let Some(machine) = &declared.machine else {
        return Ok(None);
    };
    match (&file.machine, machine) {
        (None, None) => Ok(None),
        (Some(file), None) => Err(differs("machine", &file.name(), &"none")),
        (None, Some(program)) => Err(differs("machine", &"none", &program.name())),
        (Some(file), Some(program)) => match Machine::reconcile(file, program) {
            Reconciled::Same | Reconciled::Subset => Ok(None),
            Reconciled::Grown(machine) => Ok(Some(machine)),
            Reconciled::Disagrees(text) => {
                let machine = file.name();
                let message = format!("machine is declared otherwise, table={table}, machine={machine}: {text}");
                Err(Error::new(ErrorKind::Schema, message))
            }
        },
    }
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if (1..=TABLE_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    let message =
        format!("table name is not 1 to {TABLE_NAME_BYTES_MAX} bytes without control characters, table={shown:?}");
    Err(Error::new(ErrorKind::Invalid, message))
}
