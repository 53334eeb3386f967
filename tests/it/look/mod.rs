//! A look from outside while somebody writes: one state, never half a commit, and nobody waits.

mod moments;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use sprag::testkit::{EventKind, FaultKind, FaultMode, SimDisk, SimLook};
use sprag::{Batch, ErrorKind, Keep, Keys, Once, OnceKey, ReadTx, Store, Table};

use crate::common::{folder, kind_of, shared, small};
use crate::random::{self, Random};

/// The number of the last commit, in two records that one commit writes.
const FIRST: Table<u64, u64> = Table::new("first");
const LAST: Table<u64, u64> = Table::new("last");
const BULK: Table<u64, Vec<u8>> = Table::new("bulk");

/// What the bulk holds.
type Bulk = BTreeMap<u64, Vec<u8>>;

/// Commit `n` of a random but repeatable series, and what the bulk holds after it.
fn commit(store: &Store, n: u64, random: &mut Random, bulk: &mut Bulk) {
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
fn state(tx: &ReadTx<'_>) -> Result<(u64, Bulk), sprag::Error> {
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
    let states = Arc::new(Mutex::new(vec![Bulk::new()]));
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
                    assert!(
                        bulk == states.lock().expect("no panic")[n as usize],
                        "another state, n={n}"
                    );
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

/// A look that somebody holds on a thread of their own, until told.
struct Held {
    release: mpsc::Sender<()>,
    thread: JoinHandle<()>,
    until: u64,
}

impl Held {
    /// Begun when this returns.
    fn begin(disk: &SimDisk, until: u64) -> Held {
        let (release, released) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let disk = disk.clone();
        let thread = thread::spawn(move || {
            let looking = look_at(&disk).expect("a look");
            let read = looking.read::<_, sprag::Error>(|tx| {
                let then = state(tx)?;
                begun.send(()).expect("somebody waits");
                released.recv().expect("it is told");
                assert!(state(tx)? == then, "another state than before");
                Ok(())
            });
            read.expect("readable to the end");
        });
        begins.recv().expect("it begins");
        Held { release, thread, until }
    }

    fn end(self) {
        self.release.send(()).expect("it waits");
        self.thread.join().expect("it read the same");
    }
}

#[test]
fn a_state_that_is_read_from_any_moment_on_is_kept() {
    let disk = SimDisk::new();
    let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
    let mut random = Random::new(random::seed());
    let mut bulk = Bulk::new();
    let held = Arc::new(Mutex::new(Vec::<Held>::new()));
    let (commits, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    {
        let (held, commits, looks) = (held.clone(), commits.clone(), looks.clone());
        let dice = Mutex::new(Random::new(random::seed()));
        disk.on_event(move |event, disk| {
            // A checkpoint ends with a few calls, so its syncs are chosen more often.
            let odds = if event.kind == EventKind::Sync { 2 } else { 20 };
            let mut held = held.lock().expect("no panic");
            if held.len() < 6 && dice.lock().expect("no panic").below(odds) == 0 {
                let until = commits.load(Ordering::Relaxed) + 20 + looks.fetch_add(1, Ordering::Relaxed) % 150;
                held.push(Held::begin(disk, until));
            }
        });
    }
    for n in 1..=1000 {
        commit(&store, n, &mut random, &mut bulk);
        commits.store(n, Ordering::Relaxed);
        let over: Vec<Held> = held
            .lock()
            .expect("no panic")
            .extract_if(.., |one| one.until <= n)
            .collect();
        over.into_iter().for_each(Held::end);
    }
    disk.stop_observing();
    held.lock().expect("no panic").drain(..).for_each(Held::end);
    println!("looks held {}", looks.load(Ordering::Relaxed));
    assert!(looks.load(Ordering::Relaxed) > 50);
}

#[test]
fn what_is_read_for_long_stays_as_it_was_through_many_checkpoints() {
    let disk = SimDisk::new();
    let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
    let mut random = Random::new(random::seed());
    let mut bulk = BTreeMap::new();
    let mut n = 0;
    let mut write = |count: u64, bulk: &mut Bulk| {
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
                    assert!(found == then, "another state of the bulk");
                    write(150, &mut bulk);
                    assert!(store.stats()?.states_kept_for_others > 0);
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
    // An idle look keeps nothing.
    let idle = look_at(&disk).expect("a look");
    idle.read(state).expect("readable");
    write(200, &mut bulk);
    assert_eq!(store.stats().expect("figures").states_kept_for_others, 0);
}

/// What a look may do with a state that nobody keeps for it: read it right, or say that it must be read again.
fn right_or_busy(tx: &ReadTx<'_>, begun: u64, then: &Bulk) -> bool {
    match state(tx) {
        Ok((seen, found)) => {
            assert_eq!(seen, begun);
            assert!(found == *then, "another state of the bulk");
            true
        }
        Err(cause) => {
            assert_eq!(cause.kind(), ErrorKind::Busy, "{cause:?}");
            false
        }
    }
}

#[test]
fn a_writer_that_is_started_anew_leaves_a_look_its_state_or_tells_it_to_read_again() {
    let disk = SimDisk::new();
    let mut random = Random::new(random::seed());
    let mut bulk = BTreeMap::new();
    let mut n = 0;
    let mut writer = Some(small().checkpoints_in_line().create_on(shared(&disk)).expect("a store"));
    let mut outcomes = [0, 0];
    for round in 0..24 {
        let store = writer.take().expect("a writer");
        for _ in 0..150 {
            n += 1;
            commit(&store, n, &mut random, &mut bulk);
        }
        writer = Some(store);
        if round % 3 == 0 {
            // Nobody writes when the look begins.
            writer.take().expect("a writer").close().expect("closed");
        }
        let (begun, then) = (n, bulk.clone());
        let looking = look_at(&disk).expect("a look");
        let stayed = looking
            .read::<_, sprag::Error>(|tx| {
                assert!(right_or_busy(tx, begun, &then), "nobody wrote");
                for _ in 0..2 {
                    match (writer.take(), random.below(2)) {
                        (Some(store), 0) => store.close().expect("closed"),
                        (store, _) => drop(store),
                    }
                    let store = small()
                        .checkpoints_in_line()
                        .open_on(shared(&disk))
                        .expect("the store again");
                    for _ in 0..random.below(200) {
                        n += 1;
                        commit(&store, n, &mut random, &mut bulk);
                    }
                    writer = Some(store);
                    if !right_or_busy(tx, begun, &then) {
                        return Ok(false);
                    }
                }
                Ok(true)
            })
            .expect("no error of its own");
        outcomes[usize::from(stayed)] += 1;
        let (seen, found) = looking.read(state).expect("the newest state");
        assert_eq!(seen, n);
        assert!(found == bulk, "another state of the bulk");
    }
    println!("told to read again {}, stayed {}", outcomes[0], outcomes[1]);
    assert!(outcomes[0] > 0, "no state was ever given up");
}

#[test]
fn a_writer_that_has_to_heal_leaves_a_look_its_state_or_tells_it_to_read_again() {
    let disk = SimDisk::new();
    let store = small()
        .cache_bytes(0)
        .checkpoints_in_line()
        .create_on(shared(&disk))
        .expect("a store");
    let mut random = Random::new(random::seed());
    let mut bulk = BTreeMap::new();
    let mut n = 0;
    let mut write = |count: u64, bulk: &mut Bulk| {
        for _ in 0..count {
            n += 1;
            commit(&store, n, &mut random, bulk);
        }
        n
    };
    let mut outcomes = [0, 0];
    for _ in 0..20 {
        let begun = write(120, &mut bulk);
        let then = bulk.clone();
        let looking = look_at(&disk).expect("a look");
        let stayed = looking
            .read::<_, sprag::Error>(|tx| {
                write(60, &mut bulk);
                assert!(right_or_busy(tx, begun, &then), "it is kept");
                // A write of the base: only a checkpoint makes one, and redb has to be opened anew after it.
                disk.fail(FaultKind::Write, 0, FaultMode::FailOnce, std::io::ErrorKind::Other);
                write(200, &mut bulk);
                Ok(right_or_busy(tx, begun, &then))
            })
            .expect("no error of its own");
        outcomes[usize::from(stayed)] += 1;
        let seen = looking.read(state).expect("the newest state");
        assert!(seen.1 == bulk, "another state of the bulk");
    }
    println!("told to read again {}, stayed {}", outcomes[0], outcomes[1]);
    assert!(outcomes[0] > 0, "no state was ever given up");
}

#[test]
fn what_would_write_answers_read_only_and_what_reads_works() {
    let dir = folder();
    let path = dir.path().join("shop.sprag");
    let store = Store::create_new(&path).expect("a store");
    let key = OnceKey::new("s", "k", Keep::Forever);
    store.once(&key, |tx| tx.put(FIRST, &51, &140)).expect("the first");
    store.close().expect("closed");
    let before = std::fs::read(&path).expect("its bytes");

    let looking = Store::open_read_only(&path).expect("a look");
    assert_eq!(looking.get(FIRST, &51).expect("readable").expect("there").value, 140);
    let repeat = looking.once(&key, |tx| tx.put(FIRST, &51, &180)).expect("a repeat");
    assert!(matches!(repeat, Once::Repeat { .. }), "{repeat:?}");
    let other = OnceKey::new("s", "other", Keep::Forever);
    assert_eq!(
        kind_of(looking.once(&other, |tx| tx.put(FIRST, &51, &180))),
        ErrorKind::ReadOnly
    );
    assert_eq!(kind_of(looking.put(FIRST, &51, &180)), ErrorKind::ReadOnly);
    assert_eq!(kind_of(looking.delete(FIRST, &51)), ErrorKind::ReadOnly);
    assert_eq!(kind_of(looking.forget("s", "k")), ErrorKind::ReadOnly);
    assert_eq!(kind_of(looking.sweep()), ErrorKind::ReadOnly);
    assert_eq!(kind_of(looking.reset_clock()), ErrorKind::ReadOnly);
    let batch = Batch::new().put(FIRST, &51, &180);
    assert_eq!(kind_of(looking.apply(&batch)), ErrorKind::ReadOnly);
    assert!(looking.dry_run(&batch).is_ok());
    looking.close().expect("closed");
    assert_eq!(std::fs::read(&path).expect("its bytes"), before);
}

#[test]
fn a_look_keeps_nobody_from_opening_and_writing_and_nobody_keeps_it() {
    let dir = folder();
    let path = dir.path().join("shop.sprag");
    assert_eq!(kind_of(Store::open_read_only(&path)), ErrorKind::NotFound);
    Store::create_new(&path).expect("a store").close().expect("closed");

    let looking = Store::open_read_only(&path).expect("a look at a closed store");
    let store = Store::open(&path).expect("a look holds no lock");
    assert_eq!(kind_of(Store::open(&path)), ErrorKind::Busy);
    let beside = Store::open_read_only(&path).expect("a look at an open store");
    for n in 1..=8 {
        store.put(FIRST, &51, &(n * 20)).expect("a put");
        for looking in [&looking, &beside] {
            let record = looking.get(FIRST, &51).expect("readable").expect("there");
            assert_eq!((record.value, record.version.get()), (n * 20, n));
        }
    }
    drop(store);
    // As after a kill: everything is in the log, and stays there.
    let before = std::fs::read(&path).expect("its bytes");
    let after = Store::open_read_only(&path).expect("a look at a store that was not closed");
    for looking in [&looking, &beside, &after] {
        let record = looking.get(FIRST, &51).expect("readable").expect("there");
        assert_eq!((record.value, record.version.get()), (160, 8));
    }
    drop((looking, beside, after));
    assert_eq!(std::fs::read(&path).expect("its bytes"), before);
    assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 1);
}
