//! Who may see what, and when: readers see only what is durable, answers wait for what they were decided on, a snapshot
//! is one state, and no version is given twice.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use sprag::testkit::{CrashPlan, EventKind, FaultKind, FaultMode, SimDisk};
use sprag::{
    Condition, Deleted, Error, ErrorKind, Keep, Keys, Level, OnceKey, ReadTx, Store, Table, Transitioned, Written,
};

use crate::common::{Gate, at_once, shared, small, version};
use crate::random::{Random, seed};

sprag::machine! {
    /// Where an order stands.
    enum OrderState: "orders" { New = "new", Packed = "packed" }
    initial New;
    New => Packed;
}

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const ORDERS: Table<u64, u64, OrderState> = Table::new("orders");
const PADDING: Table<u64, Vec<u8>> = Table::new("padding");
/// Where the base begins in a file with log halves of 16 KiB.
const BASE_AT: u64 = 4096 + 2 * (16 << 10);
/// How long the absence of an answer is watched. An answer that comes too early comes at once.
const NO_ANSWER: Duration = Duration::from_millis(100);

/// A store on a disk whose log can be held at the moment at which a commit becomes durable at the store's level.
fn held(level: Level) -> (SimDisk, Arc<Gate>, Store) {
    let disk = SimDisk::new();
    let store = small().level(level).create_on(shared(&disk)).expect("a new store");
    store.put(NUMBERS, &1, &1).expect("written");
    store.put(NUMBERS, &3, &3).expect("written");
    store.put(ORDERS, &1, &1).expect("written");
    let gate = Arc::new(Gate::default());
    disk.on_event({
        let gate = gate.clone();
        let kind = if level == Level::Sync {
            EventKind::WriteSynced
        } else {
            EventKind::Write
        };
        move |event, _| {
            if event.kind == kind && event.offset < BASE_AT {
                gate.pass();
            }
        }
    });
    (disk, gate, store)
}

fn key() -> OnceKey {
    OnceKey::new("s", "k", Keep::Forever)
}

/// The commit that is held: it changes everything that the others ask about.
fn first(store: &Store) -> Result<(), Error> {
    store.write(|tx| {
        tx.put(NUMBERS, &1, &2)?;
        tx.put(NUMBERS, &2, &2)?;
        tx.delete(NUMBERS, &3)?;
        tx.transition(ORDERS, &1, OrderState::New, OrderState::Packed)?
            .or_abort()?;
        tx.once(&key(), |_| Ok::<_, Error>(7_u64)).map(drop)
    })
}

/// What a reader sees of the held commit.
fn seen(store: &Store) -> (Vec<(u64, u64)>, OrderState, bool) {
    let all = |tx: &ReadTx<'_>| {
        let numbers = tx
            .scan(NUMBERS, Keys::all())?
            .map(|item| item.map(|(key, record)| (key, record.value)));
        let numbers = numbers.collect::<Result<_, Error>>()?;
        let state = tx.get(ORDERS, &1)?.expect("there").state;
        Ok::<_, Error>((numbers, state, tx.remembered("s", "k")?.is_some()))
    };
    store.read(all).expect("a read")
}

#[test]
fn a_reader_sees_nothing_of_a_commit_before_it_is_durable_at_the_level_of_the_store() {
    for level in [Level::Sync, Level::Buffered] {
        let (_disk, gate, store) = held(level);
        let before = seen(&store);
        assert_eq!(before, (vec![(1, 1), (3, 3)], OrderState::New, false));
        gate.shut();
        let writer = {
            let store = store.clone();
            thread::spawn(move || first(&store))
        };
        gate.wait_for_visitor();
        for _ in 0..3 {
            assert_eq!(seen(&store), before, "{level:?}: a reader saw what may still be lost");
            assert_eq!(store.get(NUMBERS, &2).expect("readable"), None);
        }
        gate.open();
        writer.join().expect("no panic").expect("written");
        assert_eq!(seen(&store), (vec![(1, 2), (2, 2)], OrderState::Packed, true));
        store.close().expect("closed");
    }
}

/// A call whose answer is decided on the held commit.
type Ask = fn(&Store, &Sender<()>) -> Result<(), Error>;

/// The answers that write nothing. Each says when it was decided, and is right once it is told.
const ANSWERS: [(&str, Ask); 8] = [
    ("a repeat", |store, decided| {
        let repeat = store.write(|tx| {
            let once = tx.once(&key(), |_| -> Result<u64, Error> { panic!("it was done before") });
            decided.send(()).expect("the test listens");
            once
        })?;
        assert!(repeat.is_repeat());
        assert_eq!(repeat.into_result(), 7);
        Ok(())
    }),
    ("a repeat by a call of its own", |store, decided| {
        decided.send(()).expect("the test listens");
        let repeat = store.once(&key(), |_| -> Result<u64, Error> { panic!("it was done before") })?;
        assert!(repeat.is_repeat());
        Ok(())
    }),
    ("unchanged", |store, decided| {
        let written = store.write(|tx| {
            let written = tx.put_if(NUMBERS, &1, Condition::Version(1), &2);
            decided.send(()).expect("the test listens");
            written
        })?;
        assert_eq!(written, Written::Unchanged(version(2)));
        Ok(())
    }),
    ("conflict", |store, decided| {
        let written = store.write(|tx| {
            let written = tx.put_if(NUMBERS, &2, Condition::Absent, &9);
            decided.send(()).expect("the test listens");
            written
        })?;
        assert!(matches!(written, Written::Conflict(_)));
        Ok(())
    }),
    ("already gone", |store, decided| {
        let deleted = store.write(|tx| {
            let deleted = tx.delete_if(NUMBERS, &3, Condition::Any);
            decided.send(()).expect("the test listens");
            deleted
        })?;
        assert_eq!(deleted, Deleted::AlreadyGone);
        Ok(())
    }),
    ("already there", |store, decided| {
        let moved = store.write(|tx| {
            let moved = tx.transition(ORDERS, &1, OrderState::New, OrderState::Packed);
            decided.send(()).expect("the test listens");
            moved
        })?;
        assert_eq!(moved, Transitioned::AlreadyThere(version(2)));
        Ok(())
    }),
    ("a plain value", |store, decided| {
        let value = store.write(|tx| {
            let record = tx.get(NUMBERS, &2);
            decided.send(()).expect("the test listens");
            record
        })?;
        assert_eq!(value.map(|record| record.value), Some(2));
        Ok(())
    }),
    ("the caller's own error", |store, decided| {
        let outcome = store.write(|tx| {
            let conflict = tx.put_if(NUMBERS, &2, Condition::Absent, &9)?.or_abort();
            decided.send(()).expect("the test listens");
            conflict
        });
        match outcome {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            other => other.map(drop),
        }
    }),
];

/// Asks on a thread while the first commit is held, and returns once the answer was decided.
fn ask(store: &Store, ask: Ask) -> Receiver<Result<(), Error>> {
    let (decided, is_decided) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let store = store.clone();
    thread::spawn(move || {
        let outcome = ask(&store, &decided);
        // Nobody listens if the test failed meanwhile.
        let _ = answer.send(outcome);
    });
    is_decided
        .recv_timeout(Duration::from_secs(5))
        .expect("the answer is decided while the sync runs");
    answered
}

#[test]
fn an_answer_waits_until_what_it_was_decided_on_is_durable() {
    let (_disk, gate, store) = held(Level::Sync);
    gate.shut();
    let writer = {
        let store = store.clone();
        thread::spawn(move || first(&store))
    };
    gate.wait_for_visitor();
    let answers: Vec<_> = ANSWERS
        .into_iter()
        .map(|(name, call)| (name, ask(&store, call)))
        .collect();
    let mut patience = NO_ANSWER;
    for (name, answered) in &answers {
        let told = answered.recv_timeout(patience);
        assert!(told.is_err(), "{name}: told before it was durable");
        // The others have had that time as well.
        patience = Duration::ZERO;
    }
    gate.open();
    for (name, answered) in &answers {
        let answer = answered
            .recv_timeout(Duration::from_secs(5))
            .expect("an answer once it is durable");
        answer.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    writer.join().expect("no panic").expect("written");
}

#[test]
fn an_answer_gets_the_error_if_what_it_was_decided_on_could_not_be_made_durable() {
    for (name, call) in ANSWERS {
        let (disk, gate, store) = held(Level::Sync);
        gate.shut();
        let writer = {
            let store = store.clone();
            thread::spawn(move || first(&store))
        };
        gate.wait_for_visitor();
        let before = seen(&store);
        let answered = ask(&store, call);
        disk.fail(
            FaultKind::WriteSyncedLost,
            0,
            FaultMode::FailForever,
            io::ErrorKind::Other,
        );
        gate.open();
        let kind = writer.join().expect("no panic").expect_err("the disk refuses").kind();
        assert_eq!(kind, ErrorKind::InDoubt, "{name}");
        let answer = answered.recv_timeout(Duration::from_secs(5)).expect("an answer");
        let kind = answer
            .expect_err("it was told success, and the first one was not")
            .kind();
        assert!(matches!(kind, ErrorKind::InDoubt | ErrorKind::Io), "{name}: {kind:?}");
        assert_eq!(seen(&store), before, "{name}: what is in doubt is not shown");
        // Once the disk works again the bytes that were handed to it are written again, and the same question is answered.
        disk.heal();
        store.put(NUMBERS, &9, &9).expect("healed");
        let (decided, _listening) = mpsc::channel();
        call(&store, &decided).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let after = disk.power_loss(0, CrashPlan::DropAll);
        let recovered = small().open_on(shared(&after)).expect("recovered");
        assert_eq!(
            recovered.get(NUMBERS, &2).expect("readable").map(|record| record.value),
            Some(2),
            "{name}"
        );
    }
}

#[test]
fn what_was_staged_on_a_commit_that_failed_is_not_applied_and_its_caller_is_told() {
    let (disk, gate, store) = held(Level::Sync);
    gate.shut();
    let writer = {
        let store = store.clone();
        thread::spawn(move || first(&store))
    };
    gate.wait_for_visitor();
    // On top of the held one; not handed to the disk while that runs.
    let answered = ask(&store, |store, decided| {
        store.write(|tx| {
            let seen = tx.get(NUMBERS, &2)?.map(|record| record.value);
            assert_eq!(seen, Some(2), "a writer sees every commit before it");
            tx.put(NUMBERS, &4, &4)?;
            tx.once(&OnceKey::new("s", "second", Keep::Forever), |_| Ok::<_, Error>(()))?;
            decided.send(()).expect("the test listens");
            Ok(())
        })
    });
    assert!(answered.recv_timeout(NO_ANSWER).is_err(), "told before it was durable");
    disk.fail(FaultKind::WriteSynced, 0, FaultMode::FailForever, io::ErrorKind::Other);
    gate.open();
    assert_eq!(
        writer.join().expect("no panic").expect_err("the disk refuses").kind(),
        ErrorKind::InDoubt
    );
    let answer = answered.recv_timeout(Duration::from_secs(5)).expect("an answer");
    assert_eq!(
        answer.expect_err("not applied").kind(),
        ErrorKind::Io,
        "it is known that it was not applied"
    );
    disk.heal();
    store.put(NUMBERS, &9, &9).expect("healed");
    assert_eq!(store.get(NUMBERS, &4).expect("readable"), None);
    assert_eq!(store.remembered("s", "second").expect("readable"), None);
    assert_eq!(
        store.get(NUMBERS, &2).expect("readable").map(|record| record.value),
        Some(2)
    );
    store.close().expect("closed");
}

#[test]
fn a_snapshot_stays_what_it_was_through_writes_and_checkpoints() {
    let store = small().in_memory().expect("a store");
    for key in 0..100 {
        store.put(NUMBERS, &key, &0).expect("written");
    }
    let all_zero = |tx: &ReadTx<'_>| {
        let values = tx
            .scan(NUMBERS, Keys::all())?
            .map(|item| item.map(|(_, record)| record.value));
        let values: Vec<u64> = values.collect::<Result<_, Error>>()?;
        assert_eq!(values, vec![0; 100]);
        assert_eq!(
            tx.get(NUMBERS, &50)?.map(|record| (record.value, record.version)),
            Some((0, version(1)))
        );
        assert_eq!(tx.get(NUMBERS, &100)?, None);
        Ok::<_, Error>(())
    };
    store
        .read(|tx| {
            let checkpoints = || store.stats().expect("figures").checkpoints;
            let before = checkpoints();
            let mut scan = tx.scan(NUMBERS, Keys::all())?;
            for round in 1..=100 {
                for key in 0..20 {
                    store.put(NUMBERS, &(key * 5), &round)?;
                    store.delete(NUMBERS, &(key * 5 + 1))?;
                    store.put(NUMBERS, &(100 + key), &round)?;
                }
                if round % 10 == 0 {
                    all_zero(tx)?;
                }
                // A scan that is under way all the time.
                if let Some(item) = scan.next() {
                    assert_eq!(item?.1.value, 0);
                }
            }
            assert!(checkpoints() > before + 3, "no checkpoint ran beside the reader");
            assert!(scan.next().is_none());
            all_zero(tx)
        })
        .expect("a read");
    assert_eq!(
        store.get(NUMBERS, &95).expect("readable").map(|record| record.value),
        Some(100)
    );
}

#[test]
fn a_reader_never_sees_half_of_a_write() {
    const ACCOUNTS: u64 = 10;
    const TOTAL: u64 = 1000;
    let store = small().in_memory().expect("a store");
    store
        .write(|tx| (0..ACCOUNTS).try_for_each(|key| tx.put(NUMBERS, &key, &(TOTAL / ACCOUNTS)).map(drop)))
        .expect("written");
    let done = AtomicBool::new(false);
    let seed = seed();
    let looks: Vec<u64> = at_once(6, |thread| {
        let mut random = Random::new(seed.wrapping_add(thread as u64 * 7919));
        let mut looks = 0;
        if thread < 4 {
            for _ in 0..600 {
                let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                let amount = random.below(30);
                let moved = store.write(|tx| {
                    let has = tx.get(NUMBERS, &from)?.map_or(0, |record| record.value);
                    tx.put(NUMBERS, &from, &(has.saturating_sub(amount)))?;
                    let gets = tx.get(NUMBERS, &to)?.map_or(0, |record| record.value);
                    tx.put(NUMBERS, &to, &(gets + amount.min(has)))
                });
                moved.expect("written");
            }
            done.store(true, Ordering::Release);
        } else {
            while !done.load(Ordering::Acquire) || looks < 50 {
                let sums = store.read(|tx| {
                    let scanned: u64 = tx
                        .scan(NUMBERS, Keys::all())?
                        .map(|item| Ok(item?.1.value))
                        .sum::<Result<_, Error>>()?;
                    let mut got = 0;
                    for key in 0..ACCOUNTS {
                        got += tx.get(NUMBERS, &key)?.map_or(0, |record| record.value);
                    }
                    Ok::<_, Error>((scanned, got))
                });
                assert_eq!(sums.expect("a read"), (TOTAL, TOTAL));
                looks += 1;
            }
        }
        looks
    });
    assert!(looks[4] >= 50 && looks[5] >= 50);
    assert!(store.stats().expect("figures").checkpoints > 0);
}

/// Notes a version that was given to a key; whether the key had one before.
fn must_grow(last: &mut BTreeMap<u64, u64>, key: u64, given: u64) -> bool {
    let before = last.insert(key, given);
    assert!(
        before.is_none_or(|before| given > before),
        "key {key}: {given} after {before:?}"
    );
    before.is_some()
}

#[test]
fn no_version_is_given_twice_to_one_key_through_deletes_reopens_kills_and_checkpoints() {
    let mut random = Random::new(seed());
    let mut disk = SimDisk::new();
    let mut store = small().create_on(shared(&disk)).expect("a new store");
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut recreated, mut checkpoints) = (0, 0);
    for step in 1..=4000 {
        let (key, value) = (random.below(5), step);
        let was_there = store.get(NUMBERS, &key).expect("readable").is_some();
        match random.below(20) {
            0..=8 => {
                // With enough beside it that halves fill up.
                let given = store.write(|tx| {
                    tx.put(PADDING, &key, &vec![value as u8; 900])?;
                    tx.put(NUMBERS, &key, &value)
                });
                let given = given.expect("written").get();
                let is_known = must_grow(&mut last, key, given);
                recreated += u64::from(!was_there && is_known);
            }
            9..=12 => assert_eq!(store.delete(NUMBERS, &key).expect("removed").is_some(), was_there),
            13 => drop(store.write(|tx| tx.update(NUMBERS, &key, |_| None)).expect("removed")),
            14 => drop(
                store
                    .write(|tx| tx.retain(NUMBERS, Keys::from(&key), |_, _| false))
                    .expect("removed"),
            ),
            15 => {
                // What an aborted write was given was not given.
                let aborted = store.write(|tx| {
                    tx.put(NUMBERS, &key, &value)?;
                    tx.delete(NUMBERS, &key)?;
                    tx.put(NUMBERS, &key, &value)?;
                    tx.put_if(NUMBERS, &key, Condition::Absent, &0)?.or_abort()
                });
                aborted.expect_err("a conflict");
            }
            16 => {
                // Created, removed and created again in one write.
                let given = store.write(|tx| {
                    let one = tx.put(NUMBERS, &key, &value)?.get();
                    tx.delete(NUMBERS, &key)?;
                    let two = tx.put(NUMBERS, &key, &value)?.get();
                    assert!(two > one, "step {step}: {two} after {one}");
                    Ok::<_, Error>(two)
                });
                must_grow(&mut last, key, given.expect("written"));
            }
            17 | 18 => {}
            _ => {
                checkpoints += store.stats().expect("figures").checkpoints;
                match random.below(3) {
                    0 => store.close().expect("closed"),
                    1 => drop(store),
                    _ => {
                        disk = disk.power_loss(random.below(u64::MAX), CrashPlan::Any);
                        drop(store);
                    }
                }
                store = small().open_on(shared(&disk)).expect("opened again");
            }
        }
    }
    assert!(
        recreated > 100 && checkpoints > 3,
        "recreated={recreated}, checkpoints={checkpoints}"
    );
}

#[test]
fn eight_threads_that_put_and_delete_one_key_never_get_the_same_version() {
    let store = Store::in_memory().expect("a store");
    let given: Vec<Vec<u64>> = at_once(8, |thread| {
        let mut given = Vec::new();
        for round in 0..300 {
            given.push(
                store
                    .put(NUMBERS, &1, &(thread as u64 * 1000 + round))
                    .expect("written")
                    .get(),
            );
            if round % 3 == 0 {
                store.delete(NUMBERS, &1).expect("removed");
            }
        }
        given
    });
    assert!(
        given.iter().all(|mine| mine.is_sorted_by(|a, b| a < b)),
        "a thread saw versions fall"
    );
    let all: Vec<u64> = given.into_iter().flatten().collect();
    assert_eq!(
        all.iter().collect::<HashSet<_>>().len(),
        all.len(),
        "a version was given twice"
    );
}
