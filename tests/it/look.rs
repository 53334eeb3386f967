//! A look from outside while somebody writes: one state, never half a commit, and nobody waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sprag::testkit::{SimDisk, SimLook};
use sprag::{Keys, ReadTx, Store, Table};

use crate::common::{shared, small};
use crate::random::{self, Random};

/// The number of the last commit, in two records that one commit writes.
const FIRST: Table<u64, u64> = Table::new("first");
const LAST: Table<u64, u64> = Table::new("last");
const BULK: Table<u64, Vec<u8>> = Table::new("bulk");

/// Commit `n` of a random but repeatable series, and what the bulk holds after it.
fn commit(store: &Store, n: u64, random: &mut Random, bulk: &mut BTreeMap<u64, Vec<u8>>) {
    let changes: Vec<(u64, Option<Vec<u8>>)> = (0..random.below(4))
        .map(|_| {
            let key = random.below(300);
            let value = (random.below(4) > 0).then(|| vec![n as u8; random.below(900) as usize]);
            (key, value)
        })
        .collect();
    store
        .write::<_, sprag::Error>(|tx| {
            tx.put(FIRST, &0, &n)?;
            for (key, value) in &changes {
                match value {
                    Some(value) => drop(tx.put(BULK, key, value)?),
                    None => drop(tx.delete(BULK, key)?),
                }
            }
            tx.put(LAST, &0, &n)?;
            Ok(())
        })
        .expect("a commit");
    for (key, value) in changes {
        match value {
            Some(value) => drop(bulk.insert(key, value)),
            None => drop(bulk.remove(&key)),
        }
    }
}

/// The number of the commit that a state ends with, and its bulk.
fn state(tx: &ReadTx<'_>) -> Result<(u64, BTreeMap<u64, Vec<u8>>), sprag::Error> {
    let first = tx.get(FIRST, &0)?.map_or(0, |record| record.value);
    let bulk: Result<BTreeMap<_, _>, _> = tx
        .scan(BULK, Keys::all())?
        .map(|item| item.map(|(key, record)| (key, record.value)))
        .collect();
    let last = tx.get(LAST, &0)?.map_or(0, |record| record.value);
    assert_eq!(first, last, "half a commit");
    Ok((first, bulk?))
}

/// Without a cache, so that everything is read from the disk when it is asked for.
fn look_at(disk: &SimDisk) -> Result<Store, sprag::Error> {
    small().cache_bytes(0).look_on(Arc::new(SimLook::new(disk)))
}

#[test]
fn a_look_before_every_call_of_the_disk_sees_one_state_with_all_that_was_answered() {
    let disk = SimDisk::new();
    let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
    let mut random = Random::new(random::seed());
    let states: Arc<Mutex<Vec<BTreeMap<u64, Vec<u8>>>>> = Arc::new(Mutex::new(vec![BTreeMap::new()]));
    let looks = Arc::new(AtomicU64::new(0));
    let standing = look_at(&disk).expect("a look");
    {
        let (states, looks) = (states.clone(), looks.clone());
        disk.on_event(move |_, disk| {
            let answered = states.lock().expect("no panic").len() as u64 - 1;
            for store in [&look_at(disk).expect("a look"), &standing] {
                let (n, bulk) = store.read(state).expect("readable");
                assert!(n == answered || n == answered + 1, "answered={answered} seen={n}");
                if n == answered {
                    assert_eq!(bulk, states.lock().expect("no panic")[n as usize]);
                }
            }
            looks.fetch_add(2, Ordering::Relaxed);
        });
    }
    let mut bulk = BTreeMap::new();
    for n in 1..=400 {
        commit(&store, n, &mut random, &mut bulk);
        states.lock().expect("no panic").push(bulk.clone());
    }
    disk.stop_observing();
    let checkpoints = store.stats().expect("figures").checkpoints;
    println!("looks={} checkpoints={checkpoints}", looks.load(Ordering::Relaxed));
    assert!(checkpoints > 10, "{checkpoints}");
}

#[test]
fn what_is_read_for_long_stays_as_it_was_through_many_checkpoints() {
    let disk = SimDisk::new();
    let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
    let mut random = Random::new(random::seed());
    let mut bulk = BTreeMap::new();
    let mut n = 0;
    let mut write = |count: u64, bulk: &mut BTreeMap<u64, Vec<u8>>| {
        for _ in 0..count {
            n += 1;
            commit(&store, n, &mut random, bulk);
        }
        n
    };
    for round in 0..5 {
        let begun = write(200 + round, &mut bulk);
        let then = bulk.clone();
        let looking = look_at(&disk).expect("a look");
        looking
            .read::<_, sprag::Error>(|tx| {
                for _ in 0..4 {
                    let (seen, found) = state(tx)?;
                    assert_eq!(seen, begun);
                    assert_eq!(found, then);
                    write(150, &mut bulk);
                }
                Ok(())
            })
            .expect("readable to the end");
        let (seen, found) = looking.read(state).expect("readable");
        assert_eq!(
            (seen, &found),
            (begun + 600, &bulk),
            "the next read is of the newest state"
        );
    }
    let kept = store.stats().expect("figures").states_kept_for_others;
    assert!(kept > 0, "the last look was at the end");
    write(200, &mut bulk);
    assert_eq!(store.stats().expect("figures").states_kept_for_others, 0);
}
