//! Scans see through all three layers: memory, the frozen table of a checkpoint that is held up, and the base.

use std::collections::BTreeMap;
use std::sync::Arc;

use sprag::testkit::{EventKind, SimDisk};
use sprag::{Condition, Error, ErrorKind, Keep, Keys, OnceKey, Record, Store, Table, WriteTx};

use crate::common::{Gate, Opens, shared, small};
use crate::random::{Random, seed};

const NUMBERS: Table<u64, String> = Table::new("numbers");
/// Where the base begins in a file with log halves of 16 KiB.
const BASE_AT: u64 = 4096 + 2 * (16 << 10);

/// A disk on which every write to the base waits for the gate.
fn gated() -> (SimDisk, Arc<Gate>) {
    let disk = SimDisk::new();
    let gate = Arc::new(Gate::default());
    disk.on_event({
        let gate = gate.clone();
        move |event, _| {
            if event.kind == EventKind::Write && event.offset >= BASE_AT {
                gate.pass();
            }
        }
    });
    (disk, gate)
}

type Expected = BTreeMap<u64, String>;

/// One random write: a new value, or a removal.
fn change(store: &Store, expected: &mut Expected, random: &mut Random, value: &str) {
    let key = random.below(200);
    if random.below(4) == 0 {
        store.delete(NUMBERS, &key).expect("removed");
        expected.remove(&key);
    } else {
        let value = format!("{value} {}", random.below(1000));
        store.put(NUMBERS, &key, &value).expect("written");
        expected.insert(key, value);
    }
}

fn compare(store: &Store, expected: &Expected, random: &mut Random) {
    let scan = |keys| -> Vec<(u64, String)> {
        let items = store.read(|tx| {
            let items = tx
                .scan(NUMBERS, keys)?
                .map(|item| item.map(|(key, record)| (key, record.value)));
            items.collect::<Result<_, Error>>()
        });
        items.expect("a scan")
    };
    let all: Vec<(u64, String)> = expected.iter().map(|(key, value)| (*key, value.clone())).collect();
    assert_eq!(scan(Keys::all()), all);
    assert_eq!(scan(Keys::all().rev()), all.iter().rev().cloned().collect::<Vec<_>>());
    for _ in 0..20 {
        let (from, to) = (random.below(200), random.below(200));
        let part: Vec<_> = all
            .iter()
            .filter(|(key, _)| (from..to).contains(key))
            .cloned()
            .collect();
        assert_eq!(scan(Keys::between(&from, &to)), part, "{from}..{to}");
        assert_eq!(
            scan(Keys::between(&from, &to).rev()),
            part.into_iter().rev().collect::<Vec<_>>(),
            "{from}..{to}"
        );
        assert_eq!(
            store.get(NUMBERS, &from).expect("readable").map(|record| record.value),
            expected.get(&from).cloned()
        );
    }
    // A write sees the three layers and its own changes over them, and leaves nothing of them behind.
    let aborted = store.write(|tx| {
        let mut own = expected.clone();
        change_own(tx, &mut own, random, "own");
        compare_own(tx, &own)?;
        // What a remembered key does lies over the rest of the write until it is done.
        let key = OnceKey::new("layers", "one", Keep::Forever);
        tx.once(&key, |tx| {
            change_own(tx, &mut own, random, "own above");
            compare_own(tx, &own)
        })?;
        compare_own(tx, &own)?;
        tx.put_if(NUMBERS, &999, Condition::Present, &String::new())?.or_abort()
    });
    let aborted = aborted.expect_err("aborted");
    assert_eq!(aborted.kind(), ErrorKind::Conflict, "{aborted:?}");
}

/// Changes in a write that does not commit, behind all other keys too.
fn change_own(tx: &mut WriteTx<'_>, own: &mut Expected, random: &mut Random, value: &str) {
    for _ in 0..60 {
        let key = random.below(220);
        if random.below(3) == 0 {
            tx.delete(NUMBERS, &key).map(drop).expect("removed");
            own.remove(&key);
        } else {
            tx.put(NUMBERS, &key, &value.to_owned()).map(drop).expect("written");
            own.insert(key, value.to_owned());
        }
    }
}

fn compare_own(tx: &WriteTx<'_>, own: &Expected) -> Result<(), Error> {
    let mut all: Vec<(u64, String)> = own.iter().map(|(key, value)| (*key, value.clone())).collect();
    for reverse in [false, true] {
        let keys = || if reverse { Keys::all().rev() } else { Keys::all() };
        let value = |(key, record): (u64, Record<String>)| (key, record.value);
        let seen: Result<Vec<_>, Error> = tx.scan(NUMBERS, keys())?.map(|item| item.map(value)).collect();
        assert_eq!(seen?, all, "reverse={reverse}");
        let page = tx.scan_page(NUMBERS, keys(), 50)?;
        let rest = tx.scan_page(NUMBERS, page.next.expect("more than a page"), 1000)?;
        assert!(rest.next.is_none());
        let seen: Vec<_> = page.records.into_iter().chain(rest.records).map(value).collect();
        assert_eq!(seen, all, "reverse={reverse}");
        all.reverse();
    }
    Ok(())
}

#[test]
fn scans_and_reads_see_through_memory_the_frozen_table_and_the_base() {
    let mut random = Random::new(seed());
    for round in 0..4 {
        let (disk, gate) = gated();
        let store = small().create_on(shared(&disk)).expect("a new store");
        let _opens = Opens(gate.clone());
        let mut expected = Expected::new();
        let figures = || store.stats().expect("figures");
        // Until the half in use fills up and is frozen.
        let freeze = |expected: &mut Expected, random: &mut Random, value| {
            let mut used = figures().log_used_bytes;
            loop {
                change(&store, expected, random, value);
                let now = figures().log_used_bytes;
                if now < used {
                    break;
                }
                used = now;
            }
        };
        for checkpoint in 1..3 {
            freeze(&mut expected, &mut random, "in the base");
            while figures().checkpoints < checkpoint {
                std::thread::yield_now();
            }
        }
        // The next checkpoint is held before it has written anything.
        gate.shut();
        freeze(&mut expected, &mut random, "frozen");
        // Then memory, on top of it: not so much that the other half is full as well.
        for _ in 0..60 {
            change(&store, &mut expected, &mut random, "in memory");
        }
        let before = figures().checkpoints;
        compare(&store, &expected, &mut random);
        assert_eq!(figures().checkpoints, before, "the checkpoint was not held");

        // Killed now, both halves of the log are read back: the older one is frozen again.
        let killed = disk.kill();
        let recovered = small().open_on(shared(&killed)).expect("recovered");
        compare(&recovered, &expected, &mut random);

        gate.open();
        while figures().checkpoints == before {
            change(&store, &mut expected, &mut random, "afterwards");
        }
        compare(&store, &expected, &mut random);
        store.close().expect("closed");
        println!("round {round}: {} records", expected.len());
    }
}
