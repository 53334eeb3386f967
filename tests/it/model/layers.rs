//! Scans see through all three layers: memory, the frozen table of a checkpoint that is held up, and the base.

use std::collections::BTreeMap;
use std::sync::Arc;

use sprag::testkit::{EventKind, SimDisk};
use sprag::{Error, Keys, Store, Table};

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
        tx.put(NUMBERS, &77, &"own".to_owned())?;
        tx.delete(NUMBERS, &78)?;
        tx.put(NUMBERS, &1000, &"own".to_owned())?;
        let mut own = expected.clone();
        own.insert(77, "own".to_owned());
        own.insert(1000, "own".to_owned());
        own.remove(&78);
        let seen = tx
            .scan(NUMBERS, Keys::all().rev())?
            .map(|item| item.map(|(key, record)| (key, record.value)));
        assert_eq!(
            seen.collect::<Result<Vec<_>, _>>()?,
            own.into_iter().rev().collect::<Vec<_>>()
        );
        tx.put_if(NUMBERS, &1000, sprag::Condition::Absent, &String::new())?
            .or_abort()
    });
    aborted.expect_err("aborted");
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
