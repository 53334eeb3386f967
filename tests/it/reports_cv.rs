//! Field reports about versions and compare-and-set (kind CV).

use sprag::{Condition, Error, ErrorKind, Level, Store, Table, Version, Written};

use crate::common::{at_once, folder, kind_of, small, version};

const FORMS: Table<str, String> = Table::new("forms");
const COUNTERS: Table<str, u64> = Table::new("counters");

fn put(store: &Store, seen: Version, value: &str) -> Written {
    store
        .put_if(FORMS, "u:1", Condition::Version(seen.get()), &value.to_owned())
        .expect("an answer")
}

/// CV-1: the server compared with a version that it had read itself a moment ago, not with the one the client had seen.
#[test]
fn the_second_save_of_one_form_hears_conflict_and_is_told_what_is_there() {
    let store = Store::in_memory().expect("a store");
    store.put(FORMS, "u:1", &"as both read it".to_owned()).expect("written");
    let read = || store.get(FORMS, "u:1").expect("readable").expect("there");
    let (seen_by_a, seen_by_b) = (read().version, read().version);
    assert_eq!(put(&store, seen_by_b, "by b"), Written::Applied(version(2)));
    for _ in 0..3 {
        let Written::Conflict(found) = put(&store, seen_by_a, "by a") else {
            panic!("the second save won")
        };
        assert_eq!(found.version(), Some(version(2)));
        assert_eq!(found.decode(FORMS).expect("readable").expect("there"), read());
        assert_eq!(read().value, "by b");
    }
    // Who aborts on it gets an error that carries the same, and the rest of that write is gone.
    let aborted = store.write(|tx| {
        tx.put(COUNTERS, "saves", &1)?;
        tx.put_if(FORMS, "u:1", Condition::Version(seen_by_a.get()), &"by a".to_owned())?
            .or_abort()
    });
    let error = aborted.expect_err("a conflict");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.found().and_then(sprag::Found::version), Some(version(2)));
    assert_eq!(store.get(COUNTERS, "saves").expect("readable"), None);
    // A delete is guarded in the same way, and an old version does not remove the new record.
    let Ok(sprag::Deleted::Conflict(found)) = store.delete_if(FORMS, "u:1", Condition::Version(1)) else {
        panic!("an old version removed the record")
    };
    assert_eq!(found.version(), Some(version(2)));
    assert_eq!(
        put(&store, version(2), "by a, who looked again"),
        Written::Applied(version(3))
    );
}

/// CV-1: versions that were never given, and keys that are not there.
#[test]
fn a_version_that_the_record_does_not_have_is_a_conflict_whatever_it_is() {
    let store = Store::in_memory().expect("a store");
    for value in ["1", "2", "3"] {
        store.put(FORMS, "u:1", &value.to_owned()).expect("written");
    }
    for seen in [1, 2, 4, 5, u64::MAX] {
        let Written::Conflict(found) = put(&store, version(seen), "other") else {
            panic!("version {seen} held")
        };
        assert_eq!(found.version(), Some(version(3)));
        let absent = store
            .put_if(FORMS, "u:2", Condition::Version(seen), &"other".to_owned())
            .expect("an answer");
        let Written::Conflict(found) = absent else {
            panic!("version {seen} of nothing held")
        };
        assert_eq!((found.version(), found.bytes()), (None, None));
        assert_eq!(found.decode(FORMS).expect("nothing to decode"), None);
    }
    assert_eq!(store.get(FORMS, "u:2").expect("readable"), None);
    assert_eq!(
        store.get(FORMS, "u:1").expect("readable").expect("there").version,
        version(3)
    );
}

/// CV-2: both writers were told success and one write was lost.
#[test]
fn sixteen_threads_that_count_with_conditions_lose_nothing() {
    count(&Store::in_memory().expect("a store"), 1000);
}

#[test]
fn sixteen_threads_that_count_on_a_file_lose_nothing_at_either_level() {
    let folder = folder();
    let buffered = small()
        .level(Level::Buffered)
        .create_new(folder.path().join("b.sprag"))
        .expect("a new store");
    count(&buffered, 300);
    let path = folder.path().join("s.sprag");
    let synced = small().create_new(&path).expect("a new store");
    count(&synced, 30);
    drop(synced);
    let record = Store::open(&path)
        .expect("opened again")
        .get(COUNTERS, "c")
        .expect("readable")
        .expect("there");
    assert_eq!((record.value, record.version), (16 * 30, version(1 + 16 * 30)));
}

fn count(store: &Store, each: u64) {
    store.put(COUNTERS, "c", &0).expect("written");
    let all_have_read = std::sync::Barrier::new(16);
    let conflicts: Vec<u64> = at_once(16, |_| {
        let mut conflicts = 0;
        for step in 0..each {
            for attempt in 0.. {
                let record = store.get(COUNTERS, "c").expect("readable").expect("there");
                if step == 0 && attempt == 0 {
                    all_have_read.wait();
                }
                let condition = Condition::Version(record.version.get());
                match store
                    .put_if(COUNTERS, "c", condition, &(record.value + 1))
                    .expect("an answer")
                {
                    Written::Applied(version) => {
                        assert_eq!(version.get(), record.version.get() + 1);
                        break;
                    }
                    // Somebody else wrote the very same number: that was not this thread's step.
                    Written::Unchanged(_) | Written::Conflict(_) => conflicts += 1,
                }
            }
        }
        conflicts
    });
    let record = store.get(COUNTERS, "c").expect("readable").expect("there");
    assert_eq!((record.value, record.version), (16 * each, version(1 + 16 * each)));
    assert!(conflicts.iter().sum::<u64>() >= 15, "nobody met anybody");
}

/// CV-2: two batches, each with a condition on a key that the other one writes.
#[test]
fn of_two_batches_that_each_rely_on_what_the_other_writes_one_is_refused() {
    let store = Store::in_memory().expect("a store");
    for round in 1..=500_u64 {
        store.put(COUNTERS, "a", &(2 * round)).expect("written");
        store.put(COUNTERS, "b", &(2 * round)).expect("written");
        let seen = |key| store.get(COUNTERS, key).expect("readable").expect("there").version;
        let seen = [seen("a"), seen("b")];
        let keys = ["a", "b"];
        let outcomes = at_once(2, |me| {
            store.write(|tx| {
                let found = tx.get(COUNTERS, keys[me])?.map(|record| record.version);
                let relied_on = Condition::Version(seen[me].get());
                if found != Some(seen[me]) {
                    // What a condition on the same key would say, as an error that drops the batch.
                    tx.put_if(COUNTERS, keys[me], relied_on, &0)?.or_abort()?;
                }
                tx.put(COUNTERS, keys[1 - me], &(2 * round + 1))
            })
        });
        let refused: Vec<&Error> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        assert_eq!(refused.len(), 1, "round {round}: {outcomes:?}");
        assert_eq!(refused[0].kind(), ErrorKind::Conflict);
        let sum: u64 = keys
            .iter()
            .map(|key| store.get(COUNTERS, key).expect("readable").expect("there").value)
            .sum();
        assert_eq!(sum, 4 * round + 1, "round {round}: exactly one of them was written");
    }
}

/// CV-2: what a writer read and what another one wrote do meet, also if the reader writes something else.
#[test]
fn writes_see_each_other_whole_and_in_one_order() {
    let store = Store::in_memory().expect("a store");
    let seen: Vec<Vec<u64>> = at_once(8, |_| {
        (0..200)
            .map(|_| {
                store.write(|tx| {
                    let next = tx
                        .update(COUNTERS, "ticket", |old| Some(old.unwrap_or(0) + 1))?
                        .expect("written");
                    Ok::<_, Error>(next.get())
                })
            })
            .collect::<Result<_, _>>()
            .expect("written")
    });
    let mut all: Vec<u64> = seen.iter().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=1600), "a ticket was given twice or not at all");
    assert!(seen.iter().all(|mine| mine.is_sorted()));
    assert_eq!(
        kind_of(store.put_if(COUNTERS, "ticket", Condition::Version(0), &1)),
        ErrorKind::Invalid
    );
}
