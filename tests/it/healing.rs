//! A device that failed for a moment: what works while it does, and that all of it works again without opening anew.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sprag::testkit::{CrashPlan, Disk, FaultKind, FaultMode, SimDisk};
use sprag::{Error, ErrorKind, Keys, ReadTx, Store, Table};

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
fn one_failed_read_of_the_base_is_made_good_on_another_opening_in_a_look_up_as_in_a_scan() {
    let disk = SimDisk::new();
    let store = small()
        .cache_bytes(0)
        .checkpoints_in_line()
        .create_on(shared(&disk))
        .expect("a store");
    let count = fill(&store);
    let fails = || disk.fail(FaultKind::Read, 0, FaultMode::FailOnce, io::ErrorKind::Other);
    fails();
    let record = store.get(TABLE, &0).expect("a read whose device failed once");
    assert_eq!(record.expect("the record").value, vec![0; 3000]);
    for reverse in [false, true] {
        // Before each record of the scan in turn.
        for at in 0..count {
            let keys = store.read(|tx| {
                let keys = if reverse { Keys::all().rev() } else { Keys::all() };
                let mut seen = Vec::new();
                for item in tx.scan(TABLE, keys)? {
                    seen.push(item?.0);
                    if seen.len() as u64 == at + 1 {
                        fails();
                    }
                }
                Ok::<_, Error>(seen)
            });
            let mut keys = keys.expect("a scan whose device failed once");
            if reverse {
                keys.reverse();
            }
            assert_eq!(keys, (0..count).collect::<Vec<_>>(), "at={at}");
            disk.heal();
        }
    }
    assert!(disk.faults_fired() > count, "the scans read nothing from the base");
    store.put(TABLE, &0, &vec![1]).expect("a write");
}

/// Each failed checkpoint gives the opening of the base up that the closure reads.
#[test]
fn a_read_that_is_under_way_goes_on_through_failed_checkpoints() {
    let disk = SimDisk::new();
    let store = small().cache_bytes(0).create_on(shared(&disk)).expect("a store");
    let mut count = fill(&store);
    disk.set_capacity(Some(disk.cache_image().len() as u64));
    while store.put(TABLE, &count, &vec![7; 3000]).is_ok() {
        count += 1;
    }
    let read = store.read(|tx| {
        for round in 0..5 {
            let mut keys = tx.scan(TABLE, Keys::all())?;
            for key in 0..count / 2 {
                assert_eq!(keys.next().transpose()?.map(|(key, _)| key), Some(key));
            }
            assert_eq!(
                kind_of(store.put(TABLE, &(9000 + round), &vec![7; 3000])),
                ErrorKind::Full
            );
            assert!(tx.get(TABLE, &round)?.is_some());
            let rest = keys.map(|item| Ok(item?.0)).collect::<Result<Vec<u64>, Error>>()?;
            assert_eq!(rest, (count / 2..count).collect::<Vec<_>>());
        }
        Ok::<_, Error>(())
    });
    read.expect("nothing that a reader would notice");
}

/// The checkpoints that fail give up the opening that the closure reads; those that end meanwhile fill the base further, up to the
/// last commit that the closure sees. What comes behind it is of no use to the closure.
#[test]
fn a_read_that_is_under_way_goes_on_over_a_base_that_was_filled_further_and_no_further_than_it_sees() {
    let disk = SimDisk::new();
    let store = small().cache_bytes(0).create_on(shared(&disk)).expect("a store");
    let mut model: BTreeMap<u64, Vec<u8>> = (0..fill(&store)).map(|key| (key, vec![key as u8; 3000])).collect();
    disk.set_capacity(Some(disk.cache_image().len() as u64));
    // New, changed and removed records, until no half is free and the base takes nothing.
    for number in 0_u8.. {
        let key = [1000 + u64::from(number), u64::from(number) % 7, u64::from(number)][usize::from(number % 3)];
        let value = vec![number ^ 0x55; 2000];
        let done = match number % 3 {
            2 => store.delete(TABLE, &key).map(drop),
            _ => store.put(TABLE, &key, &value).map(drop),
        };
        if let Err(cause) = done {
            assert_eq!(cause.kind(), ErrorKind::Full);
            break;
        }
        match number % 3 {
            2 => drop(model.remove(&key)),
            _ => drop(model.insert(key, value)),
        }
    }
    let compare = |tx: &ReadTx| {
        let forwards = tx
            .scan(TABLE, Keys::all())?
            .map(|item| item.map(|(key, record)| (key, record.value)));
        let forwards = forwards.collect::<Result<Vec<_>, Error>>()?;
        assert!(forwards == model.clone().into_iter().collect::<Vec<_>>(), "forwards");
        let backwards = tx.scan(TABLE, Keys::all().rev())?.map(|item| Ok(item?.0));
        let backwards = backwards.collect::<Result<Vec<u64>, Error>>()?;
        assert!(backwards.iter().eq(model.keys().rev()), "backwards");
        for key in 0..1100 {
            assert_eq!(
                tx.get(TABLE, &key)?.map(|record| record.value),
                model.get(&key).cloned(),
                "key={key}"
            );
        }
        Ok::<_, Error>(())
    };
    let checkpoints = || store.stats().expect("figures").checkpoints;
    let read = store.read(|tx| {
        compare(tx)?;
        let refused = store.put(TABLE, &5000, &vec![1; 3000]);
        assert_eq!(kind_of(refused), ErrorKind::Full);
        disk.set_capacity(None);
        let before = checkpoints();
        store.put(TABLE, &5000, &vec![1; 3000])?;
        while checkpoints() < before + 2 {
            std::thread::yield_now();
        }
        compare(tx)?;
        // Now the base is filled beyond what this closure sees, and its own opening is given up.
        let before = checkpoints();
        for key in 0.. {
            if checkpoints() > before {
                break;
            }
            store.put(TABLE, &(6000 + key), &vec![1; 3000])?;
        }
        Ok::<_, Error>(kind_of(compare(tx)))
    });
    assert_eq!(read.expect("what was read before"), ErrorKind::Io);
    assert_eq!(
        store.get(TABLE, &5000).expect("a read").expect("there").value,
        vec![1; 3000]
    );
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

#[test]
fn a_full_disk_lets_reads_go_on_and_writes_until_the_log_is_full_and_needs_no_new_open() {
    let disk = SimDisk::new();
    let store = small().cache_bytes(0).create_on(shared(&disk)).expect("a store");
    let count = fill(&store);
    disk.set_capacity(Some(disk.cache_image().len() as u64));
    // The base has some free pages, so it takes a while until nothing fits any more.
    let mut written = count;
    let error = loop {
        match store.put(TABLE, &written, &vec![written as u8; 3000]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk never was full");
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
    assert!(written > count, "no write while the log had room");
    for key in 0..written {
        let record = store.get(TABLE, &key).expect("a read").expect("the record");
        assert_eq!(record.value, vec![key as u8; 3000]);
    }
    assert_eq!(kind_of(store.put(TABLE, &written, &vec![1; 3000])), ErrorKind::Full);
    disk.heal();
    store
        .put(TABLE, &written, &vec![1; 3000])
        .expect("a write when there is room again");
    store.close().expect("a close");
    let store = small().open_on(shared(&disk)).expect("the store");
    for key in 0..written {
        assert!(store.get(TABLE, &key).expect("a read").is_some());
    }
}

/// A disk on which a write-back fails in the way Linux tells it: once, to whoever syncs next, also by a synced write of
/// another range. The pages are clean by then, and what they held is lost.
#[derive(Debug)]
struct LostWriteBack {
    disk: SimDisk,
    armed: AtomicBool,
    told: AtomicBool,
    /// The base is about to sync; the other side lets it go on.
    syncing: Mutex<mpsc::Sender<()>>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Disk for LostWriteBack {
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
        if self.told.swap(false, Ordering::AcqRel) {
            return Err(io::Error::other("write-back failed"));
        }
        self.disk.write_synced(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        if self.armed.swap(false, Ordering::AcqRel) {
            self.disk
                .fail(FaultKind::Sync, 0, FaultMode::FailOnce, io::ErrorKind::Other);
            drop(self.disk.sync());
            self.told.store(true, Ordering::Release);
            self.syncing
                .lock()
                .expect("no poison")
                .send(())
                .expect("somebody listens");
            self.go_on.lock().expect("no poison").recv().expect("somebody says so");
        }
        self.disk.sync()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }
}

#[test]
fn pages_of_the_base_whose_loss_only_the_log_was_told_of_are_written_again() {
    let disk = SimDisk::new();
    let (syncing, in_sync) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let lossy = Arc::new(LostWriteBack {
        disk: disk.clone(),
        armed: AtomicBool::new(false),
        told: AtomicBool::new(false),
        syncing: Mutex::new(syncing),
        go_on: Mutex::new(go_on),
    });
    let store = small().create_on(lossy.clone()).expect("a store");
    let mut count = fill(&store);
    while store.stats().expect("figures").checkpoint_pending {
        std::thread::yield_now();
    }
    let put = |key: u64| store.put(TABLE, &key, &vec![key as u8; 3000]).map(drop).expect("a put");
    lossy.armed.store(true, Ordering::Release);
    while !store.stats().expect("figures").checkpoint_pending {
        put(count);
        count += 1;
    }
    in_sync
        .recv_timeout(Duration::from_secs(5))
        .expect("a checkpoint that syncs");
    put(count);
    count += 1;
    assert!(!lossy.told.load(Ordering::Acquire), "the log was not told");
    let seen = store.stats().expect("figures").checkpoints;
    let_go.send(()).expect("a checkpoint that waits");
    while store.stats().expect("figures").checkpoints <= seen {
        put(count);
        count += 1;
    }
    let after = disk.power_loss(1, CrashPlan::DropAll);
    let store = small().open_on(shared(&after)).expect("the store after the power loss");
    for key in 0..count {
        let record = store.get(TABLE, &key).expect("a read").expect("an acknowledged record");
        assert_eq!(record.value, vec![key as u8; 3000]);
    }
}

/// Two failures: a single one is tried again at once and seen by nobody.
fn leaves_in_doubt(disk: &SimDisk, store: &Store, key: u64) {
    for _ in 0..2 {
        disk.fail(FaultKind::WriteSyncedLost, 0, FaultMode::FailOnce, io::ErrorKind::Other);
    }
    assert_eq!(kind_of(store.put(TABLE, &key, &vec![1; 3000])), ErrorKind::InDoubt);
}

#[test]
fn a_close_in_doubt_tries_once_more_and_then_nothing_is_in_doubt() {
    let disk = SimDisk::new();
    let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
    fill(&store);
    leaves_in_doubt(&disk, &store, 5000);
    store.close().expect("the disk is well by now");
    let after = disk.power_loss(1, CrashPlan::DropAll);
    let store = small().open_on(shared(&after)).expect("the store");
    assert_eq!(
        store.stats().expect("figures").log_used_bytes,
        0,
        "the log was not emptied"
    );
    let record = store.get(TABLE, &5000).expect("readable");
    assert_eq!(record.expect("made durable by the close").value, vec![1; 3000]);
}
