//! LMDB through heed, durable as it is by default. It writes by calls, as the others do, and reads through a map: it has no
//! cache of its own, and pages of the kernel's that it looked at count as memory of its process.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, RoTxn, RwTxn};

use super::kv::{Engine, KvPeer, Reading, SPACES, Space, Writing};
use crate::peer::{Durability, Failure, LOT_BYTES, Peer, Setup, Subject};

/// LMDB.
pub const SUBJECT: Subject = Subject {
    name: "lmdb",
    group: "lmdb",
    durability: Durability::Sync,
    files: "lmdb",
    lot_bytes: LOT_BYTES,
    open,
};

/// Addresses, not memory: more than any run needs.
const MAP_BYTES: usize = 64 << 30;

type Map = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Env,
    maps: [Map; SPACES.len()],
}

fn open(folder: &Path, _setup: Setup) -> Result<Box<dyn Peer>, Failure> {
    let env = sprag_bench_raw::open_lmdb(folder, MAP_BYTES, SPACES.len() as u32)?;
    let [records, keys, extras, orders, counters] = SPACES;
    let tx = env.write_txn()?;
    let maps = env.create_databases_and_commit(tx, |opener, tx| {
        let mut create = |name| opener.create_database(tx, Some(name));
        let maps = [
            create(records)?,
            create(keys)?,
            create(extras)?,
            create(orders)?,
            create(counters)?,
        ];
        Ok::<_, Failure>(CommitOrAbort::<_, ()>::Commit(maps))
    })?;
    let CommitOrAbort::Commit(maps) = maps else {
        return Err("lmdb did not make its maps".into());
    };
    Ok(Box::new(KvPeer(Lmdb { env, maps })))
}

impl Engine for Lmdb {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool, Failure>) -> Result<(), Failure> {
        let mut tx = InWrite {
            tx: self.env.write_txn()?,
            maps: &self.maps,
        };
        if work(&mut tx)? {
            tx.tx.commit()?;
        }
        Ok(())
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<(), Failure>) -> Result<(), Failure> {
        let tx = self.env.read_txn()?;
        work(&InRead {
            tx: &tx,
            maps: &self.maps,
        })
    }
}

struct InWrite<'e> {
    tx: RwTxn<'e>,
    maps: &'e [Map],
}

impl Writing for InWrite<'_> {
    fn get(&mut self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(found) = self.maps[space as usize].get(&self.tx, key)? {
            see(found);
        }
        Ok(())
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.maps[space as usize].put(&mut self.tx, key, value)?)
    }
}

struct InRead<'e> {
    tx: &'e RoTxn<'e>,
    maps: &'e [Map],
}

impl Reading for InRead<'_> {
    fn get(&self, space: Space, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(found) = self.maps[space as usize].get(self.tx, key)? {
            see(found);
        }
        Ok(())
    }

    fn walk(&self, space: Space, from: &[u8], see: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Failure> {
        let from = if from.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Included(from)
        };
        for item in self.maps[space as usize].range(self.tx, &(from, Bound::Unbounded))? {
            let (key, value) = item?;
            if !see(key, value) {
                break;
            }
        }
        Ok(())
    }
}
