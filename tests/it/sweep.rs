//! The sweep: what is over frees its space at once, and nothing else is touched, whatever happens meanwhile.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sprag::testkit::{CrashPlan, FaultKind, FaultMode, SimDisk};
use sprag::{Error, ErrorKind, Keep, ManualClock, Once, OnceKey, Options, Store, Table};

use crate::common::{at_once, in_time, kind_of, shared, small, small_with};

const HOUR: Duration = Duration::from_secs(3600);
const BALANCES: Table<u64, u64> = Table::new("balances");

/// Remembers `keys` of a scope, in commits of a hundred.
fn remember(store: &Store, scope: &str, keys: std::ops::Range<u64>, keep: Keep) {
    let keys: Vec<u64> = keys.collect();
    for some in keys.chunks(100) {
        let written = store.write(|tx| {
            for key in some {
                let once = OnceKey::new(scope, key.to_be_bytes(), keep);
                assert_eq!(tx.once(&once, |_| Ok::<_, Error>(*key))?, Once::First(*key));
            }
            Ok::<_, Error>(())
        });
        written.expect("written");
    }
}

/// How many keys of a scope are remembered; each must have the result that it was given.
fn remembered(store: &Store, scope: &str) -> u64 {
    let count = store.read(|tx| {
        let mut count = 0;
        for one in tx.remembered_keys(Some(scope))? {
            let one = one?;
            let key = u64::from_be_bytes(one.key.as_slice().try_into().expect("eight bytes"));
            let mut result = Vec::new();
            <sprag::Bincode as sprag::Codec>::encode(&key, &mut result)?;
            assert_eq!(one.remembered.result_bytes(), result);
            count += 1;
        }
        Ok::<_, Error>(count)
    });
    count.expect("readable")
}

fn sweep(store: &Store) -> u64 {
    store.sweep().expect("a sweep").keys
}

#[test]
fn a_sweep_frees_what_is_over_and_says_how_many_keys_that_were() {
    let clock = ManualClock::new();
    let disk = SimDisk::new();
    let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    store.put(BALANCES, &51, &140).expect("a put");
    remember(&store, "hour", 0..100, Keep::For(HOUR));
    remember(&store, "two", 0..10, Keep::For(2 * HOUR));
    remember(&store, "ever", 0..5, Keep::Forever);
    assert_eq!(sweep(&store), 0);
    clock.advance(HOUR - Duration::from_nanos(1));
    assert_eq!(sweep(&store), 0, "a nanosecond before the end");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(sweep(&store), 100);
    assert_eq!(sweep(&store), 0);
    assert_eq!(
        (
            remembered(&store, "hour"),
            remembered(&store, "two"),
            remembered(&store, "ever")
        ),
        (0, 10, 5)
    );
    // Time that passed while the store was closed counts as well, also if nothing is written after the open.
    store.close().expect("closed");
    clock.advance(HOUR);
    let store = small_with(&clock).open_on(shared(&disk)).expect("the store");
    assert_eq!(sweep(&store), 10);
    assert_eq!((remembered(&store, "two"), remembered(&store, "ever")), (0, 5));
    clock.advance(Duration::from_secs(u64::from(u32::MAX)));
    assert_eq!((sweep(&store), remembered(&store, "ever")), (0, 5));
    // What was freed can be done again, and what was not is a repeat.
    remember(&store, "hour", 0..100, Keep::For(HOUR));
    let again = store.once(&OnceKey::new("ever", 3u64.to_be_bytes(), Keep::Forever), |_| {
        Ok::<_, Error>(0u64)
    });
    assert_eq!(again.map(Once::into_result).expect("a repeat"), 3);
    assert_eq!(
        store.get(BALANCES, &51).expect("readable").expect("a record").value,
        140
    );
}

/// One transaction drops 50,000 at most; a sweep goes on until nothing is over.
#[test]
fn a_sweep_frees_more_than_one_transaction_may() {
    let clock = ManualClock::new();
    let options = Options::new().clock(Arc::new(clock.clone()));
    let store = options.log_half_bytes(16 << 20).in_memory().expect("a store");
    remember(&store, "s", 0..120_000, Keep::For(HOUR));
    remember(&store, "t", 0..1000, Keep::For(2 * HOUR));
    clock.advance(HOUR);
    assert_eq!(sweep(&store), 120_000);
    assert_eq!((sweep(&store), remembered(&store, "t")), (0, 1000));
}

/// The same work round after round fits into the space of its first two rounds.
#[test]
fn the_space_of_a_sweep_is_used_again_inside_of_the_file() {
    let clock = ManualClock::new();
    let disk = SimDisk::new();
    let options = Options::new().clock(Arc::new(clock.clone())).log_half_bytes(4 << 20);
    let store = options.create_on(shared(&disk)).expect("a store");
    let mut lengths = Vec::new();
    for _ in 0..6 {
        remember(&store, "s", 0..20_000, Keep::For(HOUR));
        clock.advance(HOUR);
        assert_eq!(sweep(&store), 20_000);
        lengths.push(disk.cache_image().len());
    }
    let (first, later) = lengths.split_at(2);
    assert!(
        later.iter().max() <= first.iter().max(),
        "the file grows although its space is free: {lengths:?}"
    );
}

#[test]
fn a_reader_that_began_before_a_sweep_sees_what_it_saw() {
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().expect("a store");
    remember(&store, "s", 0..500, Keep::For(HOUR));
    assert_eq!(sweep(&store), 0);
    let other = store.clone();
    let seen = store.read(|tx| {
        let mut keys = tx.remembered_keys(None)?;
        assert_eq!(keys.next().expect("a key")?.key, 0u64.to_be_bytes());
        clock.advance(HOUR);
        assert_eq!(in_time("a sweep beside a reader", move || sweep(&other)), 500);
        assert!(tx.remembered("s", 499u64.to_be_bytes())?.is_some());
        Ok::<_, Error>(keys.count())
    });
    assert_eq!(seen.expect("readable"), 499);
    assert_eq!(remembered(&store, "s"), 0);
}

/// Writers, readers and two sweepers, while time goes on: what is kept for ever is there, what is over is gone, and no
/// key is counted twice.
#[test]
fn sweeps_beside_writers_and_beside_each_other_free_what_is_over_and_nothing_else() {
    const EACH: u64 = 300;
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().expect("a store");
    let (done, swept) = (AtomicU64::new(0), AtomicU64::new(0));
    let writer = |number: u64| {
        for key in number * EACH..(number + 1) * EACH {
            remember(&store, "short", key..key + 1, Keep::For(HOUR));
            remember(&store, "ever", key..key + 1, Keep::Forever);
            store.put(BALANCES, &key, &key).expect("a put");
            clock.advance(HOUR / 10);
        }
        done.fetch_add(1, Ordering::AcqRel);
    };
    at_once(6, |thread| match thread {
        0..4 => writer(thread as u64),
        _ => {
            while done.load(Ordering::Acquire) < 4 {
                swept.fetch_add(sweep(&store), Ordering::AcqRel);
                assert!(remembered(&store, "short") <= 4 * EACH);
            }
        }
    });
    assert_eq!(remembered(&store, "ever"), 4 * EACH);
    clock.advance(HOUR);
    assert_eq!(remembered(&store, "short"), 0);
    let last = sweep(&store);
    assert!(
        swept.load(Ordering::Acquire) + last <= 4 * EACH,
        "a key was counted twice"
    );
    assert_eq!(sweep(&store), 0);
    for key in 0..4 * EACH {
        assert_eq!(
            store.get(BALANCES, &key).expect("readable").expect("a record").value,
            key
        );
    }
}

/// A store in whose base and log some keys are over, and some are not.
fn half_over(clock: &ManualClock) -> SimDisk {
    let disk = SimDisk::new();
    let store = in_line(clock).create_on(shared(&disk)).expect("a store");
    remember(&store, "over", 0..200, Keep::For(HOUR));
    remember(&store, "ever", 0..50, Keep::Forever);
    sweep(&store);
    remember(&store, "over", 200..250, Keep::For(HOUR));
    remember(&store, "ever", 50..60, Keep::Forever);
    store.put(BALANCES, &51, &140).expect("a put");
    clock.advance(HOUR);
    disk
}

fn in_line(clock: &ManualClock) -> Options {
    small_with(clock).checkpoints_in_line().log_half_bytes(64 << 10)
}

/// Everything that must hold of the store of [`half_over`], however far a sweep came.
fn holds_what_it_must(store: &Store, what: &str) {
    assert_eq!(
        (remembered(store, "over"), remembered(store, "ever")),
        (0, 60),
        "{what}"
    );
    let record = store.get(BALANCES, &51).expect("readable").expect("a record");
    assert_eq!((record.value, record.version.get()), (140, 1), "{what}");
}

/// Field reports TX and DU: a kill, or the power, at each call that changes the file.
#[test]
fn a_sweep_that_is_cut_off_anywhere_has_freed_nothing_that_is_not_over() {
    let clock = ManualClock::new();
    let disk = half_over(&clock).kill();
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    let store = in_line(&clock).open_on(shared(&disk)).expect("the store");
    let sweeping = Arc::new(AtomicBool::new(false));
    let is_sweeping = Arc::clone(&sweeping);
    disk.on_event(move |event, disk| {
        if !is_sweeping.load(Ordering::Acquire) {
            return;
        }
        let mut taken = taken.lock().expect("no panic");
        taken.push(disk.kill());
        for plan in [
            CrashPlan::DropAll,
            CrashPlan::TearOne,
            CrashPlan::Random { keep_percent: 50 },
        ] {
            taken.push(disk.power_loss_during(event, event.index, plan));
        }
    });
    sweeping.store(true, Ordering::Release);
    assert_eq!(sweep(&store), 250);
    sweeping.store(false, Ordering::Release);
    let images = std::mem::take(&mut *images.lock().expect("no panic"));
    assert!(images.len() > 40, "few calls were cut off, images={}", images.len());
    let mut freed_later = std::collections::BTreeSet::new();
    for (number, image) in images.iter().enumerate() {
        let store = in_line(&clock).open_on(shared(image)).expect("a store after the crash");
        holds_what_it_must(&store, &format!("image {number}"));
        freed_later.insert(sweep(&store));
        assert_eq!(sweep(&store), 0);
        holds_what_it_must(&store, &format!("image {number}, swept"));
    }
    // Cut off before, and behind it.
    assert!(
        freed_later.contains(&250) && freed_later.contains(&0),
        "{freed_later:?}"
    );
}

/// Each call that a sweep makes fails, once and for ever. Afterwards it works again by itself.
#[test]
fn a_sweep_on_a_failing_disk_answers_an_error_and_frees_all_once_the_disk_is_well() {
    let clock = ManualClock::new();
    let image = half_over(&clock);
    let kinds = [
        FaultKind::Read,
        FaultKind::Write,
        FaultKind::WriteShort,
        FaultKind::WriteSynced,
        FaultKind::WriteSyncedLost,
        FaultKind::Sync,
        FaultKind::SyncLanded,
        FaultKind::SetLen,
        FaultKind::Len,
    ];
    let mut failed = 0;
    for kind in kinds {
        for mode in [FaultMode::FailOnce, FaultMode::FailForever] {
            // A sweep reads much more often than it does anything else.
            let step = if kind == FaultKind::Read { 97 } else { 1 };
            for passing in (0..).step_by(step) {
                let disk = image.kill();
                let store = in_line(&clock)
                    .cache_bytes(0)
                    .open_on(shared(&disk))
                    .expect("the store");
                disk.fail(kind, passing, mode, io::ErrorKind::Other);
                let first = store.sweep();
                let fired = disk.faults_fired();
                disk.heal();
                let what = format!("{kind:?} {mode:?} {passing}: {first:?}");
                let second = store.sweep().unwrap_or_else(|cause| panic!("{what}: {cause:?}"));
                match first {
                    Ok(first) if fired == 0 => assert_eq!((first.keys, second.keys), (250, 0), "{what}"),
                    // A transaction that was there although it answered an error is not counted, and one that was made
                    // twice counts the 50 keys of the log twice.
                    Ok(first) => assert!(first.keys <= 300 && second.keys == 0, "{what}"),
                    Err(_) => {
                        failed += 1;
                        assert!(second.keys <= 250, "{what}");
                    }
                }
                holds_what_it_must(&store, &what);
                assert_eq!(sweep(&store), 0, "{what}");
                drop(store);
                let store = in_line(&clock).open_on(shared(&disk)).expect("the store, opened anew");
                holds_what_it_must(&store, &what);
                if fired == 0 {
                    break;
                }
            }
        }
    }
    assert!(failed > 20, "few sweeps failed, failed={failed}");
}

#[test]
fn a_sweep_inside_of_a_write_is_refused_and_one_of_a_closed_store_too() {
    let store = small().in_memory().expect("a store");
    let other = store.clone();
    let inside = store.write(|_| Ok::<_, Error>(kind_of(other.sweep())));
    assert_eq!(inside.expect("written"), ErrorKind::Invalid);
    remember(&store, "s", 0..3, Keep::Forever);
    let inside = store.read(|_| other.sweep());
    assert_eq!(inside.expect("a sweep inside of a read").keys, 0);
    let other = store.clone();
    store.close().expect("closed");
    assert_eq!(kind_of(other.sweep()), ErrorKind::Closed);
}
