//! Field reports about idempotency and dedupe keys (kind ID), as trials of `once`.
//!
//! A key has no running state here: work and key are one commit, so what the reports call "in progress" is a writer that
//! others wait for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sprag::testkit::{CrashPlan, SimDisk};
use sprag::{Error, ErrorKind, Keep, Keys, ManualClock, Once, OnceKey, Store, Table, WriteTx};

use crate::common::{at_once, folder, kind_of, panic_of, shared, small, small_with, text_of};
use crate::random::seed;

const EFFECTS: Table<str, u64> = Table::new("effects");
const MINUTE: Keep = Keep::For(Duration::from_secs(60));

/// The work of every trial: it shows how often it was done.
fn effect(name: &str) -> impl FnOnce(&mut WriteTx<'_>) -> Result<String, Error> {
    move |tx| {
        let count = tx.get(EFFECTS, name)?.map_or(0, |record| record.value) + 1;
        tx.put(EFFECTS, name, &count)?;
        Ok(format!("{name}: {count}"))
    }
}

fn effects(store: &Store, name: &str) -> u64 {
    store
        .get(EFFECTS, name)
        .expect("readable")
        .map_or(0, |record| record.value)
}

/// ID-1: one key for two requests, and the second one got the first one's answer.
#[test]
fn a_key_that_is_used_for_another_request_is_a_mismatch_and_changes_nothing() {
    let store = Store::in_memory().expect("a store");
    let (a, b) = ([0xAA; 32], [0xBB; 32]);
    let key = || OnceKey::new("requests", "k", MINUTE);
    assert_eq!(
        store.once(&key().bound_to(a), effect("k")).expect("first"),
        Once::First("k: 1".to_owned())
    );
    let remembered = store
        .remembered("requests", "k")
        .expect("readable")
        .expect("remembered");
    // Other bytes, no bytes bound, the same bytes and one more: each is another request.
    let longer = [&a[..], &[0xAA]].concat();
    for other in [key().bound_to(b), key(), key().bound_to(longer), key().bound_to([])] {
        let sequence = store.stats().expect("figures").sequence;
        let error = store.once(&other, effect("k")).expect_err("another request");
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert_eq!(error.remembered(), Some(&remembered), "it carries what is remembered");
        assert_eq!(
            kind_of(store.write(|tx| tx.once(&other, effect("k")))),
            ErrorKind::Mismatch
        );
        assert_eq!(store.stats().expect("figures").sequence, sequence, "nothing changed");
    }
    assert_eq!(effects(&store, "k"), 1);
    let repeat = store.once(&key().bound_to(a), effect("k")).expect("repeat");
    assert!(repeat.is_repeat());
    assert_eq!(repeat.into_result(), "k: 1");

    // A mismatch inside of a larger write leaves the rest of it to its caller.
    let kept = store.write(|tx| {
        tx.put(EFFECTS, "rest", &1)?;
        assert_eq!(kind_of(tx.once(&key().bound_to(b), effect("k"))), ErrorKind::Mismatch);
        Ok::<_, Error>(())
    });
    kept.expect("written");
    assert_eq!((effects(&store, "rest"), effects(&store, "k")), (1, 1));

    // An unbound key is the same key for every unbound request, and no other scope's.
    let unbound = OnceKey::new("requests", "u", MINUTE);
    assert!(!store.once(&unbound, effect("u")).expect("first").is_repeat());
    assert!(store.once(&unbound, effect("u")).expect("repeat").is_repeat());
    assert_eq!(
        kind_of(store.once(&unbound.clone().bound_to(a), effect("u"))),
        ErrorKind::Mismatch
    );
    assert!(
        !store
            .once(&OnceKey::new("request", "su", MINUTE), effect("su"))
            .expect("first")
            .is_repeat()
    );
    assert!(
        !store
            .once(&OnceKey::new("requestss", "u", MINUTE), effect("s"))
            .expect("first")
            .is_repeat()
    );
}

/// ID-1, while the first request is still at work: its own work cannot use its key.
#[test]
fn a_key_inside_of_its_own_work_is_refused_whatever_it_is_bound_to() {
    let store = Store::in_memory().expect("a store");
    let key = || OnceKey::new("requests", "k", MINUTE);
    let once = store.once(&key().bound_to("a"), |tx| {
        for inner in [key().bound_to("a"), key().bound_to("b"), key()] {
            let text = text_of(ErrorKind::Invalid, tx.once(&inner, effect("k")));
            assert!(text.contains("requests/k"), "{text}");
        }
        // Deeper down as well, and free again for other keys.
        tx.once(&OnceKey::new("requests", "other", MINUTE), |tx| {
            assert_eq!(kind_of(tx.once(&key(), effect("k"))), ErrorKind::Invalid);
            effect("other")(tx)
        })?;
        effect("k")(tx)
    });
    assert_eq!(once.expect("first"), Once::First("k: 1".to_owned()));
    assert!(store.remembered("requests", "other").expect("readable").is_some());
}

/// ID-2: look-up and insert were two steps, so two did the work; or the loser got an error that named nothing.
#[test]
fn of_32_callers_with_one_key_one_is_the_first_and_31_hear_what_it_answered() {
    let store = Store::in_memory().expect("a store");
    only_one_does_it(&store, 1000);
}

/// ID-2 with a disk that must be waited for: the losers wait for the winner's sync.
#[test]
fn of_32_callers_on_a_file_one_is_the_first() {
    let folder = folder();
    let store = small().create_new(folder.path().join("t.sprag")).expect("a new store");
    only_one_does_it(&store, 40);
}

fn only_one_does_it(store: &Store, keys: usize) {
    let firsts: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    let names: Vec<String> = (0..keys).map(|number| format!("d{number}")).collect();
    let barrier = std::sync::Barrier::new(32);
    at_once(32, |_| {
        for (first, name) in firsts.iter().zip(&names) {
            barrier.wait();
            let key = OnceKey::new("orders", name, MINUTE).bound_to("the same");
            let once = store.once(&key, effect(name)).expect("First or Repeat, and no error");
            first.fetch_add(u64::from(!once.is_repeat()), Ordering::Relaxed);
            assert_eq!(once.into_result(), format!("{name}: 1"));
        }
    });
    for (first, name) in firsts.iter().zip(&names) {
        assert_eq!(first.load(Ordering::Relaxed), 1, "{name}");
        assert_eq!(effects(store, name), 1, "{name}");
    }
}

/// ID-3: the worker died in the middle, and every retry was refused until somebody removed a lock by hand.
#[test]
fn a_worker_that_dies_in_the_middle_of_its_work_leaves_no_key_behind() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a new store");
    let key = OnceKey::new("jobs", "k", Keep::For(Duration::from_secs(3600)));
    let mut dead = Vec::new();
    store
        .once(&key, |tx| {
            let result = effect("k")(tx)?;
            // Killed here; and the power failed here.
            dead.push(disk.kill());
            dead.extend((0..20).map(|seed| disk.power_loss(seed, CrashPlan::Any)));
            Ok::<_, Error>(result)
        })
        .expect("first");
    for image in dead {
        let store = small().open_on(shared(&image)).expect("recovered");
        assert_eq!(store.remembered("jobs", "k").expect("readable"), None);
        assert_eq!(
            store.once(&key, effect("k")).expect("first"),
            Once::First("k: 1".to_owned()),
            "no manual clean-up"
        );
    }
    // Once it was answered, neither a kill nor a power loss takes it back.
    for image in [disk.kill(), disk.power_loss(1, CrashPlan::DropAll)] {
        let store = small().open_on(shared(&image)).expect("recovered");
        assert!(store.once(&key, effect("k")).expect("repeat").is_repeat());
        assert_eq!(effects(&store, "k"), 1);
    }

    // A thread that panics is a worker that died.
    let key = OnceKey::new("jobs", "p", MINUTE);
    let text = panic_of(|| {
        store.once(&key, |tx| {
            effect("p")(tx)?;
            assert!(effects(&store, "p") > 0, "the worker dies");
            Ok::<_, Error>(())
        })
    });
    assert_eq!(text, "the worker dies");
    assert_eq!(
        store.once(&key, effect("p")).expect("first"),
        Once::First("p: 1".to_owned())
    );
}

/// ID-4: the lock was written first and its expiry second, and a crash between the two left a key for ever.
#[test]
fn no_crash_leaves_a_key_without_its_end() {
    let clock = ManualClock::new();
    let disk = SimDisk::new();
    let store = small_with(&clock).create_on(shared(&disk)).expect("a new store");
    let images = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seed = seed();
    disk.on_event({
        let images = images.clone();
        move |event, disk| {
            let image = disk.power_loss_during(event, seed.wrapping_add(event.index), CrashPlan::Any);
            images.lock().expect("no panic").push(image);
        }
    });
    let names: Vec<String> = (0..300).map(|number| format!("x{number}")).collect();
    for name in &names {
        let key = OnceKey::new("locks", name, Keep::For(Duration::from_secs(1))).bound_to(name);
        assert!(
            !store
                .once(&key, |_| Ok::<_, Error>("r".repeat(100)))
                .expect("first")
                .is_repeat()
        );
    }
    disk.stop_observing();
    let images = std::mem::take(&mut *images.lock().expect("no panic"));
    let (mut found, mut missing) = (0, 0);
    for image in images {
        // No time passed while it was down.
        let clock = ManualClock::new();
        let store = small_with(&clock).open_on(shared(&image)).expect("recovered");
        for name in &names {
            match store.remembered("locks", name).expect("readable") {
                Some(remembered) => {
                    assert!(!remembered.is_forever(), "{name} has no end");
                    found += 1;
                }
                None => missing += 1,
            }
        }
        clock.advance(Duration::from_secs(1));
        for name in &names {
            assert_eq!(
                store.remembered("locks", name).expect("readable"),
                None,
                "{name} is over"
            );
        }
    }
    assert!(
        found > 1000 && missing > 1000,
        "crashes before and after: found={found}, missing={missing}"
    );
}

/// How the work of ID-5 fails.
#[derive(Debug, PartialEq)]
enum Failure {
    Passing,
    Store(ErrorKind),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error.kind())
    }
}

/// ID-5: a passing failure was kept as the answer, and a replay could not be told from a new answer.
#[test]
fn an_error_leaves_the_key_free_and_a_lasting_no_is_remembered_and_marked_as_a_repeat() {
    let store = Store::in_memory().expect("a store");
    let key = OnceKey::new("payments", "p1", MINUTE).bound_to("1");
    for _ in 0..3 {
        let failed = store.once(&key, |tx| {
            effect("p1")(tx)?;
            Err::<String, _>(Failure::Passing)
        });
        assert_eq!(failed.expect_err("a failure"), Failure::Passing);
        assert_eq!(store.remembered("payments", "p1").expect("readable"), None);
        assert_eq!(effects(&store, "p1"), 0, "its writes went with it");
    }
    let first = store
        .once(&key, |_| Ok::<_, Failure>("declined".to_owned()))
        .expect("first");
    assert_eq!(first, Once::First("declined".to_owned()));
    for _ in 0..3 {
        let repeat = store.once(&key, effect("p1")).expect("repeat");
        assert!(repeat.is_repeat(), "a repeat says that it is one");
        assert_eq!(repeat.into_result(), "declined");
    }
    assert_eq!(effects(&store, "p1"), 0);

    // Nested, the failure of one unit undoes this unit only.
    let done = store.write(|tx| {
        for name in ["a", "b", "c"] {
            let key = OnceKey::new("payments", name, MINUTE);
            let unit = tx.once(&key, |tx| {
                let result = effect(name)(tx)?;
                if name == "b" { Err(Failure::Passing) } else { Ok(result) }
            });
            assert_eq!(unit.is_err(), name == "b");
        }
        Ok::<_, Error>(())
    });
    done.expect("written");
    let names: Vec<String> = store
        .read(|tx| {
            tx.scan(EFFECTS, Keys::all())?
                .map(|item| Ok(item?.0))
                .collect::<Result<_, Error>>()
        })
        .expect("a scan");
    assert_eq!(names, ["a", "c"]);
    assert_eq!(store.remembered("payments", "b").expect("readable"), None);
}

/// ID-6: the work was removed, its dedupe key stayed and blocked new work.
#[test]
fn work_that_is_removed_frees_its_key_in_the_same_write_if_asked_to() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let mut store = small().create_new(&path).expect("a new store");
    let key = || OnceKey::new("jobs", "u", Keep::For(Duration::from_secs(3600))).bound_to("u");
    let add = |store: &Store| store.once(&key(), effect("u")).expect("an answer").is_repeat();
    for reopened in [false, true] {
        let remove = |store: &Store, forget: bool| {
            store.write(|tx| {
                tx.delete(EFFECTS, "u")?;
                if forget { tx.forget("jobs", "u") } else { Ok(false) }
            })
        };
        assert!(!add(&store));
        // Documented: removing the work alone leaves the key, so that a late repeat stays a repeat.
        assert!(!remove(&store, false).expect("removed"));
        if reopened {
            store.close().expect("closed");
            store = small().open(&path).expect("opened again");
        }
        assert!(add(&store));
        assert_eq!(effects(&store, "u"), 0);
        assert!(remove(&store, true).expect("removed"), "something was remembered");
        assert!(!remove(&store, true).expect("removed"), "nothing any more");
        if reopened {
            store.close().expect("closed");
            store = small().open(&path).expect("opened again");
        }
        assert!(!add(&store), "new work is accepted");
        assert_eq!(effects(&store, "u"), 1);
        assert!(remove(&store, true).expect("removed"));
    }
    // A forget in a write that fails frees nothing.
    assert!(!add(&store));
    let failed = store.write(|tx| {
        assert!(tx.forget("jobs", "u")?);
        assert!(
            !tx.once(&key(), effect("u"))?.is_repeat(),
            "inside of the write it is free"
        );
        tx.put_if(EFFECTS, "u", sprag::Condition::Absent, &9)?.or_abort()
    });
    assert_eq!(kind_of(failed), ErrorKind::Conflict);
    assert!(add(&store));
    assert_eq!(effects(&store, "u"), 1);
}

/// ID-10: a repeat was expected to push the window out. It does not.
#[test]
fn a_window_begins_with_the_first_delivery_and_no_repeat_extends_it() {
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().expect("a store");
    let key = OnceKey::new("alerts", "m", Keep::For(Duration::from_secs(120)));
    let mut at = 0;
    for (ms, is_repeat) in [
        (0, false),
        (60_000, true),
        (119_999, true),
        (120_000, false),
        (180_000, true),
        (239_999, true),
        (240_000, false),
    ] {
        clock.advance(Duration::from_millis(ms - at));
        at = ms;
        assert_eq!(
            store.once(&key, effect("m")).expect("an answer").is_repeat(),
            is_repeat,
            "T={ms}"
        );
    }
    assert_eq!(effects(&store, "m"), 3);
}

/// ID-12: the cleaner compared names that differ by a suffix, and removed a live one. Ours runs with each checkpoint.
#[test]
fn the_cleaner_takes_no_key_that_is_alive_and_leaves_none_that_is_over() {
    const ROUNDS: usize = 1000;
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().expect("a store");
    let suffixes = ["", ":RUN", ":1", ":RUN:1", "\0"];
    let live: Vec<(String, String)> = (0..200)
        .map(|number| {
            (
                format!("s{}", "x".repeat(number % 3)),
                format!("a{}{}", number / 15, suffixes[number % 5]),
            )
        })
        .collect();
    let firsts = AtomicU64::new(0);
    let deliver = |scope: &str, key: &str, keep| {
        let once = store
            .once(&OnceKey::new(scope, key, keep), |_| Ok::<_, Error>("x".repeat(40)))
            .expect("an answer");
        u64::from(!once.is_repeat())
    };
    for (scope, key) in &live {
        firsts.fetch_add(
            deliver(scope, key, Keep::For(Duration::from_secs(100_000))),
            Ordering::Relaxed,
        );
    }
    let distinct = firsts.load(Ordering::Relaxed);
    at_once(10, |thread| {
        for round in 0..ROUNDS {
            if thread < 2 {
                // These expire beside the live ones, and their number makes checkpoints happen.
                let (scope, key) = &live[round % live.len()];
                deliver(
                    scope,
                    &format!("{key}:{thread}:{round}"),
                    Keep::For(Duration::from_millis(1)),
                );
                clock.advance(Duration::from_millis(1));
            } else {
                let (scope, key) = &live[(round * 7 + thread) % live.len()];
                firsts.fetch_add(deliver(scope, key, MINUTE), Ordering::Relaxed);
            }
        }
    });
    // The last one may still be under way.
    while store.stats().expect("figures").checkpoint_pending {
        std::thread::yield_now();
    }
    assert!(store.stats().expect("figures").checkpoints > 2, "the cleaner ran");
    assert_eq!(firsts.load(Ordering::Relaxed), distinct, "a live key was run again");
    clock.advance(Duration::from_millis(1));
    for (scope, key) in &live {
        let remembered = store.remembered(scope, key).expect("readable");
        assert!(remembered.is_some(), "{scope}/{key} is alive");
    }
    for round in 0..ROUNDS {
        let (scope, key) = &live[round % live.len()];
        for thread in 0..2 {
            let over = format!("{key}:{thread}:{round}");
            let remembered = store.remembered(scope, &over).expect("readable");
            assert_eq!(remembered, None, "{scope}/{over} is over");
        }
    }
}
