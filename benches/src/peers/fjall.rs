//! fjall: transactions of one writer, each synced with all that belongs to the file.

use std::path::Path;
use std::time::{Duration, Instant};

use ::fjall::{
    KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx,
    Snapshot,
};

use super::kv::{Engine, KvPeer, Reading, SPACES, Space, Writing};
use crate::group::Grouped;
use crate::peer::{Durability, Failure, LOT_BYTES, Peer, Setup, Subject};

/// fjall, a sync per commit.
pub const SUBJECT: Subject = Subject {
    name: "fjall",
    group: "fjall",
    durability: Durability::Sync,
    files: "fjall",
    lot_bytes: LOT_BYTES,
    open,
};

/// fjall behind a group.
pub const GROUPED: Subject = Subject {
    name: "fjall behind a group",
    group: "fjall grouped",
    durability: Durability::Sync,
    files: "fjall",
    lot_bytes: LOT_BYTES,
    open: |folder, setup| Grouped::open(open, folder, setup),
};

/// A flush that takes longer than this hangs.
const SETTLE_MAX: Duration = Duration::from_secs(60);

struct Fjall {
    database: SingleWriterTxDatabase,
    spaces: Vec<SingleWriterTxKeyspace>,
}

fn open(folder: &Path, setup: Setup) -> Result<Box<dyn Peer>, Failure> {
    let database = SingleWriterTxDatabase::builder(folder.join("fjall"))
        .cache_size(super::cache_bytes(setup) as u64)
        .open()?;
    let spaces: Result<_, _> = SPACES
        .iter()
        .map(|name| database.keyspace(name, KeyspaceCreateOptions::default))
        .collect();
    let spaces = spaces?;
    Ok(Box::new(KvPeer(Fjall { database, spaces })))
}

impl Engine for Fjall {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool, Failure>) -> Result<(), Failure> {
        let mut tx = InWrite {
            tx: self.database.write_tx().durability(Some(PersistMode::SyncAll)),
            spaces: &self.spaces,
        };
        if work(&mut tx)? {
            tx.tx.commit()?;
        }
        Ok(())
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<(), Failure>) -> Result<(), Failure> {
        work(&InRead {
            tx: self.database.read_tx(),
            spaces: &self.spaces,
        })
    }

    fn settle(&self) -> Result<(), Failure> {
        let started = Instant::now();
        let database = self.database.inner();
        while database.outstanding_flushes() > 0 || database.active_compactions() > 0 {
            if started.elapsed() > SETTLE_MAX {
                return Err("a flush of fjall does not end".into());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }
}

struct InWrite<'e> {
    tx: SingleWriterWriteTx<'e>,
    spaces: &'e [SingleWriterTxKeyspace],
}

impl Writing for InWrite<'_> {
    fn get(&mut self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(found) = self.tx.get(&self.spaces[space as usize], key)? {
            see(&found);
        }
        Ok(())
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.tx.insert(&self.spaces[space as usize], key, value);
        Ok(())
    }
}

struct InRead<'e> {
    tx: Snapshot,
    spaces: &'e [SingleWriterTxKeyspace],
}

impl Reading for InRead<'_> {
    fn get(&self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(found) = self.tx.get(&self.spaces[space as usize], key)? {
            see(&found);
        }
        Ok(())
    }

    fn walk(&self, space: Space, from: &[u8], see: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Failure> {
        for item in self.tx.range(&self.spaces[space as usize], from..) {
            let (key, value) = item.into_inner()?;
            if !see(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}
