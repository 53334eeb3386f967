//! redb on its own: one durable transaction per commit.

use std::path::Path;

use ::redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::kv::{Engine, KvPeer, Reading, SPACES, Space, Writing};
use crate::peer::{Durability, Failure, LOT_BYTES, Peer, Setup, Subject};

/// redb with its defaults and the cache that all have.
pub const SUBJECT: Subject = Subject {
    name: "redb",
    group: "redb",
    durability: Durability::Sync,
    files: "redb",
    lot_bytes: LOT_BYTES,
    open,
};

type Bytes = &'static [u8];

struct Redb(Database);

fn open(folder: &Path, setup: Setup) -> Result<Box<dyn Peer>, Failure> {
    let database = Database::builder()
        .set_cache_size(super::cache_bytes(setup))
        .create(folder.join("store.redb"))?;
    // A table must be there before it is read.
    let tx = database.begin_write()?;
    for name in SPACES {
        tx.open_table(TableDefinition::<Bytes, Bytes>::new(name))?;
    }
    tx.commit()?;
    Ok(Box::new(KvPeer(Redb(database))))
}

fn table(space: Space) -> TableDefinition<'static, Bytes, Bytes> {
    TableDefinition::new(SPACES[space as usize])
}

impl Engine for Redb {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool, Failure>) -> Result<(), Failure> {
        let tx = self.0.begin_write()?;
        let mut open = OpenTables {
            tx: &tx,
            tables: Default::default(),
        };
        let commits = work(&mut open)?;
        drop(open);
        if commits {
            tx.commit()?
        } else {
            tx.abort()?
        }
        Ok(())
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<(), Failure>) -> Result<(), Failure> {
        work(&self.0.begin_read()?)
    }
}

/// Tables of a transaction, each opened once.
struct OpenTables<'t> {
    tx: &'t WriteTransaction,
    tables: [Option<Table<'t, Bytes, Bytes>>; SPACES.len()],
}

impl<'t> OpenTables<'t> {
    fn table(&mut self, space: Space) -> Result<&mut Table<'t, Bytes, Bytes>, Failure> {
        let place = &mut self.tables[space as usize];
        match place {
            Some(open) => Ok(open),
            None => Ok(place.insert(self.tx.open_table(table(space))?)),
        }
    }
}

impl Writing for OpenTables<'_> {
    fn get(&mut self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(found) = self.table(space)?.get(key)? {
            see(found.value());
        }
        Ok(())
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.table(space)?.insert(key, value)?;
        Ok(())
    }
}

impl Reading for ReadTransaction {
    fn get(&self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(found) = self.open_table(table(space))?.get(key)? {
            see(found.value());
        }
        Ok(())
    }

    fn walk(&self, space: Space, from: &[u8], see: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Failure> {
        for item in self.open_table(table(space))?.range(from..)? {
            let (key, value) = item?;
            if !see(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}
