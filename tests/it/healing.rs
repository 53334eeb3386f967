//! A device that failed for a moment: what works while it does, and that all of it works again without opening anew.

use std::io;

use sprag::testkit::{FaultKind, FaultMode, SimDisk};
use sprag::{ErrorKind, Store, Table};

use crate::common::{in_time, kind_of, shared, small};

const TABLE: Table<u64, Vec<u8>> = Table::new("values");

/// Writes records until the first of them are in the base, and gives their number.
fn fill(store: &Store) -> u64 {
    let mut key = 0;
    while store.stats().expect("figures").checkpoints < 2 {
        store.put(TABLE, &key, &vec![key as u8; 3000]).expect("a put");
        key += 1;
    }
    key
}

#[test]
fn one_failed_read_of_the_base_leaves_later_reads_and_writes_alone() {
    let disk = SimDisk::new();
    let store = small()
        .cache_bytes(0)
        .checkpoints_in_line()
        .create_on(shared(&disk))
        .expect("a store");
    fill(&store);
    disk.fail(FaultKind::Read, 0, FaultMode::FailOnce, io::ErrorKind::Other);
    assert_eq!(kind_of(store.get(TABLE, &0)), ErrorKind::Io);
    assert_eq!(disk.faults_fired(), 1);
    let record = store.get(TABLE, &0).expect("a read after the device is well again");
    assert_eq!(record.expect("the record").value, vec![0; 3000]);
    store
        .put(TABLE, &0, &vec![1])
        .expect("a write after the device is well again");
}

#[test]
fn a_device_that_fails_every_call_for_a_while_is_used_again_when_it_is_well() {
    let disk = SimDisk::new();
    let store = small().cache_bytes(0).create_on(shared(&disk)).expect("a store");
    let count = fill(&store);
    for kind in [
        FaultKind::Write,
        FaultKind::WriteSynced,
        FaultKind::Sync,
        FaultKind::Read,
        FaultKind::Len,
    ] {
        disk.fail(kind, 0, FaultMode::FailForever, io::ErrorKind::Other);
    }
    for key in 0..20 {
        store.put(TABLE, &(1000 + key), &vec![9; 3000]).expect_err("no device");
    }
    disk.heal();
    let after = in_time("a write after the device is well again", move || {
        let first = store.put(TABLE, &5000, &vec![7; 3000]);
        let found = (0..count).map(|key| store.get(TABLE, &key).map(|record| record.is_some()));
        let found: Result<Vec<bool>, _> = found.collect();
        (first.map(|_| ()), found)
    });
    after.0.expect("the write");
    assert!(after.1.expect("the reads").into_iter().all(|there| there));
}
