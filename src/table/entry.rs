//! An entry of the catalogue: what the file keeps of a table, and how that lies in the meta space.

use serde::{Deserialize, Serialize};

#[cfg(feature = "json")]
use super::Declared;
use super::DynTable;
use crate::codec::{CodecId, KeyKind, sealed};
use crate::engine::{Bytes, Space};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::Machine;
use crate::record;
use crate::txn::Txn;

/// Prefix of the meta keys that hold a table's entry; the name follows.
const TABLE: u8 = b't';

/// What the file says of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    pub(crate) id: u32,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) migration: Option<Migration>,
}

/// What a program must agree with before it may use a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) key: KeyKind,
    pub(super) codec: CodecId,
    pub(super) schema: u32,
    pub(super) machine: Option<Machine>,
}

/// A migration that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    /// The shape of the table once it ends.
    pub(super) target: Shape,
    /// The mark: records up to this encoded key are of the target's shape, all others of the table's.
    pub(super) behind: Vec<u8>,
}

impl TableInfo {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kind of its keys.
    pub fn key_kind(&self) -> &KeyKind {
        &self.shape.key
    }

    /// Encoding of its values.
    pub fn codec(&self) -> CodecId {
        self.shape.codec
    }

    /// Number of the shape of its records; see [`Table::schema`](super::Table::schema).
    pub fn schema(&self) -> u32 {
        self.shape.schema
    }

    /// The schema number that a migration leads to, if one has begun and not ended. Until it has, the table answers
    /// `Schema` to every use; see [`Store::migrate`](crate::Store::migrate).
    pub fn migrating_to(&self) -> Option<u32> {
        self.migration.as_ref().map(|migration| migration.target.schema)
    }

    /// The states of its records and the moves between them, if it has any.
    pub fn machine(&self) -> Option<&Machine> {
        self.shape.machine.as_ref()
    }

    /// The shape of a record: while the table is migrated, by the side of the mark on which it lies.
    fn shape_at(&self, encoded: &[u8]) -> &Shape {
        match &self.migration {
            Some(migration) if encoded <= migration.behind.as_slice() => &migration.target,
            _ => &self.shape,
        }
    }

    /// Encoding of the value of a record.
    pub(crate) fn codec_at(&self, encoded: &[u8]) -> CodecId {
        self.shape_at(encoded).codec
    }

    /// The states in which a record may be.
    pub(crate) fn machine_at(&self, encoded: &[u8]) -> Option<&Machine> {
        self.shape_at(encoded).machine.as_ref()
    }

    /// The whole key of a record.
    pub(crate) fn record_key(&self, encoded: &[u8]) -> Vec<u8> {
        let mut key = record::key_prefix(self.id, encoded.len());
        key.extend_from_slice(encoded);
        key
    }

    /// The state to use, checked against the machine.
    pub(crate) fn named_state<'s>(&self, state: Option<&'s str>) -> Result<&'s str> {
        let known = state.filter(|state| self.machine().is_some_and(|machine| machine.has_state(state)));
        known.ok_or_else(|| no_such_state(&self.name, state))
    }

    /// A description that agrees with it in everything.
    #[cfg(feature = "json")]
    pub(crate) fn declared(&self) -> Declared {
        let Shape {
            key,
            codec,
            schema,
            machine,
        } = self.shape.clone();
        Declared {
            name: self.name.clone(),
            key,
            codec,
            schema: Some(schema),
            machine: Some(machine),
        }
    }

    /// A description with which its records can be read and written by bytes.
    pub fn open(&self) -> DynTable {
        DynTable::new(self.name.clone(), self.shape.key.clone(), self.shape.codec)
    }
}

/// A call names a state that its table does not have.
pub(crate) fn no_such_state(table: &str, state: Option<&str>) -> Error {
    let shown: String = state.unwrap_or("none").chars().take(64).collect();
    let message = format!("table has no such state, table={table}, state={shown}");
    Error::new(ErrorKind::Invalid, message)
}

/// An entry as it is stored behind its checksum.
#[derive(Serialize, Deserialize)]
struct Entry {
    id: u32,
    key: KeyKind,
    codec: u8,
    schema: u32,
    machine: Option<Machine>,
    migration: Option<EntryMigration>,
}

#[derive(Serialize, Deserialize)]
struct EntryMigration {
    codec: u8,
    schema: u32,
    machine: Option<Machine>,
    behind: Vec<u8>,
}

/// A table's entry, decoded and as it is stored.
pub(super) fn load(txn: &Txn, name: &str) -> Result<Option<(TableInfo, Bytes)>> {
    let key = entry_key(name);
    let Some(bytes) = txn.get(&key)? else { return Ok(None) };
    Ok(Some((decode(&key, &bytes)?, bytes.share())))
}

pub(super) fn store(txn: &mut Txn, info: &TableInfo) -> Result<()> {
    let TableInfo {
        id,
        name,
        shape,
        migration,
    } = info.clone();
    let entry = Entry {
        id,
        key: shape.key,
        codec: shape.codec.code(),
        schema: shape.schema,
        machine: shape.machine,
        migration: migration.map(|Migration { target, behind }| EntryMigration {
            codec: target.codec.code(),
            schema: target.schema,
            machine: target.machine,
            behind,
        }),
    };
    let stored_key = entry_key(&name);
    let bytes = sealed::seal(&stored_key, &entry)?;
    txn.put(stored_key, bytes);
    Ok(())
}

pub(super) fn decode(stored_key: &[u8], bytes: &[u8]) -> Result<TableInfo> {
    let entry: Entry = sealed::open(stored_key, bytes, "entry of a table")?;
    let name = stored_key.get(2..).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| damaged("name of a table"))?.to_owned();
    let shape = |codec, schema, machine: Option<Machine>| {
        if let Some(machine) = &machine {
            machine
                .validate()
                .map_err(|cause| cause.into_kind(ErrorKind::Corrupt, "machine of a table is damaged"))?;
        }
        Ok(Shape {
            key: entry.key.clone(),
            codec: CodecId::from_code(codec)?,
            schema,
            machine,
        })
    };
    let migration = entry.migration.map(|stored| {
        Ok(Migration {
            target: shape(stored.codec, stored.schema, stored.machine)?,
            behind: stored.behind,
        })
    });
    Ok(TableInfo {
        id: entry.id,
        name,
        shape: shape(entry.codec, entry.schema, entry.machine)?,
        migration: migration.transpose()?,
    })
}

pub(super) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what} is damaged"))
}

pub(super) fn entry_key(name: &str) -> Vec<u8> {
    let mut key = Space::Meta.key(1 + name.len());
    key.push(TABLE);
    key.extend_from_slice(name.as_bytes());
    key
}
