//! The catalogue: which tables the file has, with their key kinds, codecs and machines.
//!
//! Owns the entries in the meta space and the comparison with what a call site declares. An entry is cached once it is
//! durable: a table is never removed and its number never given again, so a cached entry can only lack states that were
//! added since.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Declared, Described, DynTable, Identity};
use crate::codec::{Bincode, Codec, CodecId, KeyKind};
use crate::engine::{Bytes, Now, Space, Span, View};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::TABLE_NAME_BYTES_MAX;
use crate::machine::Machine;
use crate::machine::decide::Reconciled;
use crate::record;
use crate::sync::Mutex;
use crate::txn::Txn;

/// Prefix of the meta keys that hold a table's entry; the name follows.
const TABLE: u8 = b't';
/// The meta key that holds the number of the next table.
const NEXT: u8 = b'n';

/// What the file says of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    pub(crate) id: u32,
    name: String,
    key: KeyKind,
    codec: CodecId,
    schema: u32,
    machine: Option<Machine>,
}

impl TableInfo {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kind of its keys.
    pub fn key_kind(&self) -> &KeyKind {
        &self.key
    }

    /// Encoding of its values.
    pub fn codec(&self) -> CodecId {
        self.codec
    }

    /// Number of the shape of its records; see [`Table::schema`](super::Table::schema).
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// The states of its records and the moves between them, if it has any.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// The whole key of a record.
    pub(crate) fn record_key(&self, encoded: &[u8]) -> Vec<u8> {
        let mut key = record::key_prefix(self.id, encoded.len());
        key.extend_from_slice(encoded);
        key
    }

    /// The state to use, checked against the machine.
    pub(crate) fn named_state<'s>(&self, state: Option<&'s str>) -> Result<&'s str> {
        let known = state.filter(|state| self.machine.as_ref().is_some_and(|machine| machine.has_state(state)));
        known.ok_or_else(|| {
            let shown: String = state.unwrap_or("none").chars().take(64).collect();
            let message = format!("table has no such state, table={}, state={shown}", self.name);
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// A description with which its records can be read and written by bytes.
    pub fn open(&self) -> DynTable {
        DynTable::new(self.name.clone(), self.key.clone(), self.codec)
    }
}

/// An entry as it is stored behind its checksum.
#[derive(Serialize, Deserialize)]
struct Entry {
    id: u32,
    key: KeyKind,
    codec: u8,
    schema: u32,
    machine: Option<Machine>,
}

/// Entries that are durable, by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    cache: Mutex<HashMap<String, Cached>>,
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
        }
    }

    /// The table as the file has it, compared with the call site; `None` if the file does not have it.
    pub(crate) fn resolve<T: Described + ?Sized>(
        &self,
        txn: &Txn,
        durable: Durable<'_>,
        table: &T,
    ) -> Result<Option<Arc<TableInfo>>> {
        if let Some((info, _)) = self.cached(table) {
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
            // A machine may have grown since, by another description of the table; nothing else ever changes.
            if info.machine.is_none() || txn.get(&entry_key(&info.name))?.as_ref() == Some(&bytes) {
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
        if durable()?.get(&entry_key(&info.name))?.as_ref() != Some(bytes) {
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

/// Compares declarations with a state of the file, before anything is written.
///
/// # Errors
/// `Schema`, naming both sides; `Invalid` for a name; `Corrupt`, `Io`.
pub(crate) fn agree(view: Arc<View>, declared: &[Declared]) -> Result<()> {
    let txn = Txn::new(view, Now::default());
    for table in declared {
        check_name(&table.name)?;
        if let Some((info, _)) = load(&txn, &table.name)? {
            compare(&info, table)?;
        }
    }
    Ok(())
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
    info.machine = Some(machine);
    store(txn, &info)?;
    Ok((info, true))
}

/// All tables of the file, by name.
pub(crate) fn list(txn: &Txn) -> Result<Vec<TableInfo>> {
    let from = entry_key("");
    let mut to = Space::Meta.key(1);
    to.push(TABLE + 1);
    let span = Span {
        from: Bound::Included(from.into()),
        to: Bound::Excluded(to.into()),
        reverse: false,
    };
    let mut tables = Vec::new();
    for entry in txn.scan(&span)? {
        let (key, bytes) = entry?;
        tables.push(decode(&key, &bytes)?);
    }
    Ok(tables)
}

/// One table of the file.
pub(crate) fn find(txn: &Txn, name: &str) -> Result<Option<TableInfo>> {
    Ok(load(txn, name)?.map(|(info, _)| info))
}

fn create(txn: &mut Txn, declared: &Declared) -> Result<TableInfo> {
    let mut next_key = Space::Meta.key(1);
    next_key.push(NEXT);
    let id = match txn.get(&next_key)? {
        Some(bytes) => u32::from_be_bytes((*bytes).try_into().map_err(|_| damaged("number of the next table"))?),
        None => 0,
    };
    let after = id
        .checked_add(1)
        .ok_or_else(|| Error::new(ErrorKind::TooLarge, "no table number is left"))?;
    txn.put(next_key, after.to_be_bytes().to_vec());
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
        key,
        codec,
        schema: schema.unwrap_or_default(),
        machine: machine.flatten(),
    };
    store(txn, &info)?;
    Ok(info)
}

/// Compares the file's side with the program's. Gives the grown machine if the program added states or moves.
fn compare(info: &TableInfo, declared: &Declared) -> Result<Option<Machine>> {
    let differs = |what: &str, file: &dyn std::fmt::Display, program: &dyn std::fmt::Display| {
        let name = &info.name;
        let message =
            format!("table is declared otherwise, table={name}, {what}_in_file={file}, {what}_in_program={program}");
        Error::new(ErrorKind::Schema, message)
    };
    if info.key != declared.key {
        return Err(differs("key", &info.key, &declared.key));
    }
    if info.codec != declared.codec {
        return Err(differs("codec", &info.codec, &declared.codec));
    }
    if let Some(schema) = declared.schema
        && schema != info.schema
    {
        return Err(differs("schema", &info.schema, &schema));
    }
    let Some(machine) = &declared.machine else {
        return Ok(None);
    };
    match (&info.machine, machine) {
        (None, None) => Ok(None),
        (Some(file), None) => Err(differs("machine", &file.name(), &"none")),
        (None, Some(program)) => Err(differs("machine", &"none", &program.name())),
        (Some(file), Some(program)) => match Machine::reconcile(file, program) {
            Reconciled::Same | Reconciled::Subset => Ok(None),
            Reconciled::Grown(machine) => Ok(Some(machine)),
            Reconciled::Disagrees(text) => {
                let (table, machine) = (&info.name, file.name());
                let message = format!("machine is declared otherwise, table={table}, machine={machine}: {text}");
                Err(Error::new(ErrorKind::Schema, message))
            }
        },
    }
}

fn load(txn: &Txn, name: &str) -> Result<Option<(TableInfo, Bytes)>> {
    let key = entry_key(name);
    let Some(bytes) = txn.get(&key)? else { return Ok(None) };
    Ok(Some((decode(&key, &bytes)?, bytes)))
}

fn store(txn: &mut Txn, info: &TableInfo) -> Result<()> {
    let TableInfo {
        id,
        name,
        key,
        codec,
        schema,
        machine,
    } = info.clone();
    let entry = Entry {
        id,
        key,
        codec: codec.code(),
        schema,
        machine,
    };
    let stored_key = entry_key(&name);
    let mut bytes = vec![0; 4];
    Bincode::encode(&entry, &mut bytes)?;
    let crc = checksum(&stored_key, &bytes).to_le_bytes();
    if let Some(place) = bytes.first_chunk_mut() {
        *place = crc;
    }
    txn.put(stored_key, bytes);
    Ok(())
}

fn decode(stored_key: &[u8], bytes: &[u8]) -> Result<TableInfo> {
    let (crc, body) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("entry of a table"))?;
    if u32::from_le_bytes(*crc) != checksum(stored_key, bytes) {
        return Err(damaged("entry of a table"));
    }
    let Entry {
        id,
        key,
        codec,
        schema,
        machine,
    } = Bincode::decode(body).map_err(|cause| cause.into_kind(ErrorKind::Corrupt, "entry of a table is damaged"))?;
    if let Some(machine) = &machine {
        machine
            .validate()
            .map_err(|cause| cause.into_kind(ErrorKind::Corrupt, "machine of a table is damaged"))?;
    }
    let name = stored_key.get(2..).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| damaged("name of a table"))?.to_owned();
    Ok(TableInfo {
        id,
        name,
        key,
        codec: CodecId::from_code(codec)?,
        schema,
        machine,
    })
}

fn checksum(stored_key: &[u8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(stored_key.get(1..).unwrap_or_default());
    hasher.update(bytes.get(4..).unwrap_or_default());
    hasher.finalize()
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what} is damaged"))
}

fn entry_key(name: &str) -> Vec<u8> {
    let mut key = Space::Meta.key(1 + name.len());
    key.push(TABLE);
    key.extend_from_slice(name.as_bytes());
    key
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
