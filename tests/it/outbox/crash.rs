//! Power that fails at every call of the disk, three times in a row: a message is there with its record or not at all, and gone
//! with the work of its acknowledgement or not at all; whatever was answered is so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use sprag::testkit::{CrashPlan, SimDisk};
use sprag::{Bincode, Codec as _, Consumed, Error, Keys, ManualClock, Outgoing, Queue, Store, Table};

use super::{open, stats};
use crate::common::{shared, small_with};
use crate::random::{Random, seed, trials};

/// Of every message, from the commit that enqueued it on.
const ORDERS: Table<u64, u64> = Table::new("orders");
/// Of every message that was acknowledged.
const SHIPPED: Table<u64, u64> = Table::new("shipped");
const PARCELS: Queue<u64> = Queue::new("mail");
const KEYS: u64 = 2;
const ROUNDS: u64 = 12;
const CRASHES: usize = 3;

/// What callers were told.
#[derive(Clone, Debug, Default)]
struct Told {
    orders: BTreeSet<u64>,
    shipped: BTreeSet<u64>,
    attempts: BTreeMap<u64, u32>,
}

fn keys_of(store: &Store, table: Table<u64, u64>) -> BTreeSet<u64> {
    let keys = store.read(|tx| {
        tx.scan(table, Keys::all())?
            .map(|item| Ok(item?.0))
            .collect::<Result<_, Error>>()
    });
    keys.expect("readable")
}

/// Compares what an opening shows with what was told, which it is from here on.
fn judge(store: &Store, told: &mut Told) {
    let (orders, shipped) = (keys_of(store, ORDERS), keys_of(store, SHIPPED));
    let messages = store
        .read(|tx| tx.messages("mail", None, usize::MAX))
        .expect("messages");
    let mut waiting = BTreeSet::new();
    for message in &messages {
        let number: u64 = Bincode::decode(&message.payload).expect("a number");
        assert!(waiting.insert(number), "{number} is there twice");
        let least = told.attempts.get(&number).copied().unwrap_or(0);
        assert!(message.attempts >= least, "an attempt of {number} is lost");
    }
    assert!(waiting.is_disjoint(&shipped), "acknowledged, and still there");
    assert!(
        waiting.union(&shipped).eq(&orders),
        "{waiting:?} and {shipped:?} of {orders:?}"
    );
    assert!(
        told.orders.is_subset(&orders) && orders.len() <= told.orders.len() + 1,
        "{orders:?} {told:?}"
    );
    assert!(
        told.shipped.is_subset(&shipped) && shipped.len() <= told.shipped.len() + 1,
        "{shipped:?} {told:?}"
    );
    for number in shipped.iter().filter(|number| **number >= KEYS) {
        assert!(
            shipped.contains(&(number - KEYS)),
            "the order within the key of {number}"
        );
    }
    if !orders.is_empty() {
        let stats = stats(store);
        let count = stats.ready + stats.scheduled + stats.claimed + stats.blocked + stats.dead;
        assert_eq!((count, stats.claimed), (messages.len() as u64, 0));
    }
    let checked = store.check().expect("a check");
    assert!(checked.is_sound(), "{checked:?}");
    (told.orders, told.shipped) = (orders, shipped);
}

/// Opens what a crash left, judges it, and goes on, with word of each answer to `told`.
fn live(disk: &SimDisk, clock: &ManualClock, told: &Mutex<Told>) {
    let store = open(disk, clock);
    judge(&store, &mut told.lock().expect("no panic"));
    let first = keys_of(&store, ORDERS).last().map_or(0, |last| last + 1);
    let tell = |what: &dyn Fn(&mut Told)| what(&mut told.lock().expect("no panic"));
    for number in first..first + ROUNDS {
        let written = store.write(|tx| {
            tx.put(ORDERS, &number, &140)?;
            tx.enqueue(PARCELS, Outgoing::of(&number).key([(number % KEYS) as u8]))
        });
        written.expect("written");
        tell(&|told| {
            told.orders.insert(number);
        });
        for claim in store.claim(PARCELS, 2).expect("a claim") {
            let parcel = claim.message().expect("a number");
            tell(&|told| {
                told.attempts.insert(parcel, claim.attempt());
            });
            match number % 3 {
                // Nobody answers this one.
                0 => {
                    claim.into_receipt().expect("a receipt");
                }
                1 => drop(claim),
                _ => {
                    let shipped = store.consume(claim, |tx, _| tx.put(SHIPPED, &parcel, &40).map(drop));
                    assert_eq!(shipped.expect("shipped"), Consumed::Done(()));
                    tell(&|told| {
                        told.shipped.insert(parcel);
                    });
                }
            }
        }
        clock.advance(super::secs(11));
    }
}

/// One life in which the power fails at a call of the disk: what is left then, and what had been told. `None` if it ended before.
fn crash(disk: &SimDisk, clock: &ManualClock, told: Told, at: u64, seed: u64) -> Option<(SimDisk, Told)> {
    let told = Arc::new(Mutex::new(told));
    let left = Arc::new(Mutex::new(None));
    let (watching, keeps, first) = (told.clone(), left.clone(), disk.events());
    disk.on_event(move |event, disk| {
        if event.index == first + at {
            // Opening holds it while it compares, and tells nothing then.
            let told = watching.lock().expect("no panic").clone();
            *keeps.lock().expect("no panic") = Some((disk.power_loss_during(event, seed, CrashPlan::Any), told));
        }
    });
    live(disk, clock, &told);
    disk.stop_observing();
    left.lock().expect("no panic").take()
}

#[test]
fn messages_and_the_work_they_leave_with_are_there_together_after_every_crash() {
    let clock = ManualClock::new();
    let made = SimDisk::new();
    drop(small_with(&clock).create_on(shared(&made)).expect("a store"));
    let mut random = Random::new(seed());
    let (mut images, rounds) = (0, trials(10, 200));
    for _ in 0..rounds {
        let mut at = 0;
        while let Some((mut disk, mut told)) = crash(&made.kill(), &clock, Told::default(), at, random.below(u64::MAX))
        {
            at += 1;
            images += 1;
            for _ in 1..CRASHES {
                // A life makes about as many calls again.
                let next = crash(
                    &disk.kill(),
                    &clock,
                    told.clone(),
                    random.below(80),
                    random.below(u64::MAX),
                );
                let Some(next) = next else { break };
                (disk, told) = next;
                images += 1;
            }
            judge(&open(&disk, &clock), &mut told);
        }
        assert!(at > 30, "every call of a life, calls={at}");
    }
    println!("images={images}");
}
