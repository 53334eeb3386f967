//! Arguments at the edge of what is possible, and a disk that panics: an error, no waiting for ever, nothing left behind.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sprag::testkit::{Disk, RamDisk};
use sprag::{CodecId, DynKey, DynTable, ErrorKind, KeyKind, Level, Machine, MachineDef, Store, Table};

use crate::common::{folder, in_time, kind_of, small};

const SOUND: Table<u64, u64> = Table::new("sound");

fn nested(levels: usize) -> (KeyKind, DynKey) {
    let mut kind = KeyKind::U64;
    let mut key = DynKey::U64(1);
    for _ in 0..levels {
        kind = KeyKind::Pair(Box::new(KeyKind::U64), Box::new(kind));
        key = DynKey::Pair(Box::new(DynKey::U64(1)), Box::new(key));
    }
    (kind, key)
}

#[test]
fn a_kind_of_key_that_the_catalogue_could_not_read_back_is_refused_when_the_table_is_made() {
    let store = Store::in_memory().expect("a store");
    let (kind, key) = nested(9);
    let table = DynTable::new("deep", kind, CodecId::Bincode);
    assert_eq!(kind_of(store.put(&table, &key, &vec![1])), ErrorKind::Invalid);
    store.put(SOUND, &1, &1).expect("a put elsewhere");
    let names = crate::common::tables(&store);
    assert_eq!(names.len(), 1);
    let (kind, key) = nested(8);
    let table = DynTable::new("deep enough", kind, CodecId::Bincode);
    store.put(&table, &key, &vec![1]).expect("a put");
    assert!(store.get(&table, &key).expect("a read").is_some());
}

/// A disk whose syncs panic on command.
#[derive(Debug)]
struct Panicking {
    disk: RamDisk,
    armed: AtomicBool,
}

impl Disk for Panicking {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }
    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write_synced(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        assert!(!self.armed.load(Ordering::Acquire), "the disk panics");
        self.disk.sync()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }
}

#[test]
fn writers_hear_closed_and_do_not_wait_for_ever_when_the_background_thread_is_gone() {
    let disk = Arc::new(Panicking {
        disk: RamDisk::new(),
        armed: AtomicBool::new(false),
    });
    let table: Table<u64, Vec<u8>> = Table::new("values");
    let store = small().level(Level::Buffered).create_on(disk.clone()).expect("a store");
    disk.armed.store(true, Ordering::Release);
    let kind = in_time("a write without a background thread", move || {
        (0..1000)
            .find_map(|key| store.put(table, &key, &vec![1; 3000]).err())
            .map(|error| {
                // The store syncs once more when it is dropped.
                disk.armed.store(false, Ordering::Release);
                error.kind()
            })
    });
    assert_eq!(kind, Some(ErrorKind::Closed));
}

#[test]
fn a_machine_of_all_states_and_moves_is_judged_at_once() {
    let names: Vec<&'static str> = (0..256).map(|n| &*format!("s{n}").leak()).collect();
    let moves: Vec<(&str, &str)> = (0..256)
        .flat_map(|a| (a + 1..256).map(move |b| (a, b)))
        .map(|(a, b)| (names[a], names[b]))
        .collect();
    let def = MachineDef::new("wide", names.clone().leak(), "s0", moves.leak());
    // Every look at a table that is not cached judges its machine.
    in_time("ten judgements", move || {
        for _ in 0..10 {
            Machine::from_def(&def).expect("a machine");
        }
    });
}

#[test]
fn a_create_whose_declared_tables_do_not_fit_into_one_commit_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("x.sprag");
    let mut options = small();
    let names: Vec<&'static str> = (0..60_u8).map(|n| &*format!("{n:0>255}").leak()).collect();
    for name in names {
        options = options.declare(Table::<u64, u64>::new(name));
    }
    assert_eq!(kind_of(options.clone().create_new(&path)), ErrorKind::TooLarge);
    assert_eq!(kind_of(options.open_or_create(&path)), ErrorKind::TooLarge);
    assert_eq!(folder.path().read_dir().expect("the folder").count(), 0);
}
