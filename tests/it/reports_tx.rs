//! Field reports about threads, transactions and panics (kind TX).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sprag::testkit::{FaultKind, FaultMode, SimDisk};
use sprag::{Condition, Error, ErrorKind, Keep, Keys, Level, OnceKey, Options, Store, Table, Written};

use crate::common::{at_once, folder, in_time, kind_of, panic_of, shared, small};
use crate::random::{Random, seed};

sprag::machine! {
    /// Where an order stands.
    enum OrderState: "orders" { New = "new", Packed = "packed" }
    initial New;
    New => Packed;
}

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const ORDERS: Table<u64, u64, OrderState> = Table::new("orders");
const BLOBS: Table<u64, Vec<u8>> = Table::new("blobs");

fn key(name: &str) -> OnceKey {
    OnceKey::new("s", name, Keep::Forever)
}

/// A call on the handle from inside of a closure, and what it must answer there.
type Call = (&'static str, fn(&Store, &Path) -> Result<(), Error>);

/// Calls that write, or wait for the writer.
const WRITES: [Call; 10] = [
    ("put", |store, _| store.put(NUMBERS, &1, &2).map(drop)),
    ("put_if", |store, _| {
        store.put_if(NUMBERS, &1, Condition::Any, &2).map(drop)
    }),
    ("delete", |store, _| store.delete(NUMBERS, &1).map(drop)),
    ("delete_if", |store, _| {
        store.delete_if(NUMBERS, &1, Condition::Any).map(drop)
    }),
    ("transition", |store, _| {
        store
            .transition(ORDERS, &1, OrderState::New, OrderState::Packed)
            .map(drop)
    }),
    ("write", |store, _| store.write(|_| Ok(()))),
    ("once, first", |store, _| {
        store.once(&key("new"), |_| Ok::<_, Error>(())).map(drop)
    }),
    ("forget", |store, _| store.forget("s", "old").map(drop)),
    ("reset_clock", |store, _| store.reset_clock()),
    ("stats", |store, _| store.stats().map(drop)),
];

/// Calls that wait for nobody.
const READS: [Call; 5] = [
    ("get", |store, _| {
        assert_eq!(
            store.get(NUMBERS, &7)?.map(|record| record.value),
            Some(7),
            "the last commit is seen"
        );
        Ok(())
    }),
    ("scan", |store, _| {
        store.read(|tx| tx.scan(NUMBERS, Keys::all()).map(drop))
    }),
    ("remembered", |store, _| store.remembered("s", "old").map(drop)),
    ("sync", |store, _| store.sync()),
    ("clone and drop", |store, _| {
        drop(store.clone());
        Ok(())
    }),
];

fn prepared(level: Level) -> (tempfile::TempDir, PathBuf, Store) {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = small().level(level).create_new(&path).expect("a new store");
    store.put(NUMBERS, &7, &7).expect("written");
    store.put(ORDERS, &1, &1).expect("written");
    store.once(&key("old"), |_| Ok::<_, Error>(())).expect("remembered");
    (folder, path, store)
}

/// TX-1: a call from inside of the store's own write waited for itself.
#[test]
fn a_write_inside_of_a_write_is_refused_at_once_and_a_read_sees_the_last_commit() {
    for level in [Level::Sync, Level::Buffered] {
        for (name, call) in WRITES {
            let (_folder, path, store) = prepared(level);
            in_time(name, move || {
                inside_of_a_write(&store, &path, call, Some(ErrorKind::Invalid));
            });
        }
        for (name, call) in READS {
            let (_folder, path, store) = prepared(level);
            in_time(name, move || inside_of_a_write(&store, &path, call, None));
        }
        let (_folder, path, store) = prepared(level);
        let close: Call = ("close", |store, _| store.clone().close());
        in_time("close", move || {
            inside_of_a_write(&store, &path, close.1, Some(ErrorKind::Invalid));
        });
        let (_folder, path, store) = prepared(level);
        let open: Call = ("open", |_, path| Store::open(path).map(drop));
        in_time("open", move || {
            inside_of_a_write(&store, &path, open.1, Some(ErrorKind::Busy));
        });
    }
}

fn inside_of_a_write(
    store: &Store,
    path: &Path,
    call: fn(&Store, &Path) -> Result<(), Error>,
    kind: Option<ErrorKind>,
) {
    let answer = |answered: Result<(), Error>| assert_eq!(answered.err().map(|error| error.kind()), kind);
    let outer = store.write(|tx| {
        tx.put(NUMBERS, &7, &8)?;
        answer(call(store, path));
        tx.once(&key("unit"), |tx| {
            answer(call(store, path));
            tx.put(NUMBERS, &8, &8)
        })?;
        tx.update(NUMBERS, &9, |_| {
            answer(call(store, path));
            Some(9)
        })?;
        tx.retain(NUMBERS, Keys::from(&9), |_, _| {
            answer(call(store, path));
            true
        })
    });
    outer.expect("whoever ignores the refusal commits the rest");
    let count = store
        .read(|tx| tx.scan(NUMBERS, Keys::all()).map(Iterator::count))
        .expect("a scan");
    assert_eq!(count, 3);
    // And from inside of a closure of `once`.
    let outer = store.once(&key("outer"), |_| {
        if kind != Some(ErrorKind::Busy) && kind.is_some() {
            answer(call(store, path));
        }
        Ok::<_, Error>(())
    });
    assert!(!outer.expect("first").is_repeat());
}

/// TX-1: a write while the same thread holds a read waited for the read.
#[test]
fn a_write_inside_of_a_read_or_a_scan_goes_through_and_the_snapshot_stays() {
    for (name, call) in WRITES.into_iter().chain(READS) {
        let (_folder, path, store) = prepared(Level::Sync);
        in_time(name, move || {
            let seen = store.read(|tx| {
                let mut before = Vec::new();
                for item in tx.scan(NUMBERS, Keys::all())? {
                    call(&store, &path)?;
                    before.push(item?);
                }
                store.put(NUMBERS, &100, &100)?;
                let after: Vec<_> = tx.scan(NUMBERS, Keys::all())?.collect::<Result<_, _>>()?;
                assert_eq!(before, after, "a snapshot does not move");
                assert_eq!(kind_of(store.clone().close()), ErrorKind::Invalid);
                Ok::<_, Error>(after.len())
            });
            assert_eq!(seen.expect("a read"), 1);
            store.close().expect("closed");
        });
    }
}

/// TX-1: other stores are none of its business, and an error of an inner call may be passed on.
#[test]
fn a_write_to_another_store_inside_of_a_write_goes_through() {
    in_time("two stores", || {
        let (one, two) = (
            Store::in_memory().expect("a store"),
            Store::in_memory().expect("a store"),
        );
        let nested = one.write(|tx| {
            tx.put(NUMBERS, &1, &1)?;
            two.write(|inner| {
                inner.put(NUMBERS, &1, &2)?;
                one.put(NUMBERS, &1, &3)
            })
        });
        assert_eq!(kind_of(nested), ErrorKind::Invalid);
        assert_eq!(one.get(NUMBERS, &1).expect("readable"), None);
        assert_eq!(two.get(NUMBERS, &1).expect("readable"), None);
        one.write(|tx| two.put(NUMBERS, &1, &2).and(tx.put(NUMBERS, &1, &1)))
            .expect("both written");
    });
}

/// TX-2: refused at once, although a wait was asked for, where a transaction read first and wrote later.
#[test]
fn sixteen_threads_that_read_first_and_write_later_hear_ok_or_conflict_and_all_get_on() {
    let store = Store::in_memory().expect("a store");
    for number in 0..4 {
        store.put(NUMBERS, &number, &0).expect("written");
    }
    in_time("sixteen threads", move || {
        let done: Vec<u64> = at_once(16, |thread| {
            let number = thread as u64 % 4;
            let mut done = 0;
            while done < 100 {
                if done % 10 == 9 {
                    // A batch that reads first, and another key after it.
                    let batch = store.write(|tx| {
                        let seen = tx.get(NUMBERS, &number)?.map_or(0, |record| record.value);
                        tx.update(NUMBERS, &(number + 10), |old| Some(old.unwrap_or(0) + 1))?;
                        tx.put(NUMBERS, &number, &(seen + 1))
                    });
                    batch.expect("a write waits for its turn, and is never told to come again");
                    done += 1;
                    continue;
                }
                let record = store.get(NUMBERS, &number).expect("readable").expect("there");
                std::thread::yield_now();
                let condition = Condition::Version(record.version.get());
                if let Written::Applied(_) = store
                    .put_if(NUMBERS, &number, condition, &(record.value + 1))
                    .expect("no error")
                {
                    done += 1;
                }
            }
            done
        });
        assert_eq!(done, [100; 16]);
        for number in 0..4 {
            let value = |number| store.get(NUMBERS, &number).expect("readable").expect("there").value;
            assert_eq!((value(number), value(number + 10)), (400, 40));
        }
    });
}

/// TX-3: a closure ran more often than its caller thought.
#[test]
fn a_closure_runs_exactly_once_for_each_call_also_beside_others_and_when_it_fails() {
    let store = small().in_memory().expect("a store");
    for threads in [1, 8] {
        let runs: [AtomicU64; 8] = Default::default();
        let count = |which: usize| runs[which].fetch_add(1, Ordering::Relaxed);
        let each = 1000 / threads as u64;
        at_once(threads, |thread| {
            for call in 0..each {
                let id = (threads * 10 + thread) as u64 * 10_000 + call;
                let name = format!("{id}");
                store.read(|_| Ok::<_, Error>(count(0))).expect("a read");
                let written = store.write(|tx| {
                    count(1);
                    tx.once(&key(&format!("nested {name}")), |_| Ok::<_, Error>(count(2)))?;
                    tx.update(NUMBERS, &id, |_| {
                        count(3);
                        Some(id)
                    })?;
                    tx.retain(NUMBERS, Keys::between(&id, &(id + 1)), |_, _| {
                        count(4);
                        true
                    })
                });
                written.expect("written");
                for _ in 0..2 {
                    store
                        .once(&key(&name), |_| Ok::<_, Error>(count(5)))
                        .expect("an answer");
                }
                let conflict = store.write(|tx| {
                    count(6);
                    tx.put_if(NUMBERS, &id, Condition::Absent, &0)?.or_abort()
                });
                assert_eq!(kind_of(conflict), ErrorKind::Conflict);
                let too_large = store.write(|tx| {
                    count(7);
                    tx.put(BLOBS, &0, &vec![0; 9000])
                });
                assert_eq!(kind_of(too_large), ErrorKind::TooLarge);
            }
        });
        let runs = runs.map(AtomicU64::into_inner);
        assert_eq!(runs, [each * threads as u64; 8], "{threads} threads");
    }
}

/// TX-3: also when the disk fails under it, and whatever the answer is.
#[test]
fn a_closure_runs_once_although_the_sync_under_it_fails_and_is_repeated() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a new store");
    let mut random = Random::new(seed());
    let (mut calls, mut errors) = (0_u64, 0_u64);
    let runs = AtomicU64::new(0);
    for round in 0..300 {
        let kinds = [
            FaultKind::WriteSynced,
            FaultKind::WriteSyncedLost,
            FaultKind::WriteSyncedLanded,
        ];
        let mode = if round % 3 == 0 {
            FaultMode::FailForever
        } else {
            FaultMode::FailOnce
        };
        disk.fail(
            kinds[random.below(3) as usize],
            random.below(4),
            mode,
            io::ErrorKind::Other,
        );
        for call in 0..4 {
            let answer = store.write(|tx| {
                runs.fetch_add(1, Ordering::Relaxed);
                tx.put(NUMBERS, &(round * 10 + call), &1)
            });
            calls += 1;
            if let Err(error) = answer {
                assert!(matches!(error.kind(), ErrorKind::InDoubt | ErrorKind::Io), "{error:?}");
                errors += 1;
                // Refused before it began: nothing ran, so nothing is to be counted.
                if error.kind() == ErrorKind::Io {
                    calls -= 1;
                }
            }
            assert_eq!(runs.load(Ordering::Relaxed), calls, "round {round}");
        }
        disk.heal();
        // Healed by the next call, whatever happened before.
        store
            .put(NUMBERS, &u64::MAX, &(round + 1))
            .expect("the disk works again");
    }
    assert!(errors > 50 && disk.faults_fired() > 300, "errors={errors}");
}

/// What a batch of the space trial ends with instead of a commit.
const ABORTS: [fn(&Store, &mut Random); 5] = [
    |store, random| {
        let aborted = store
            .write(|tx| fill(tx, random).and_then(|()| tx.put_if(BLOBS, &0, Condition::Absent, &vec![])?.or_abort()));
        assert_eq!(kind_of(aborted), ErrorKind::Conflict);
    },
    |store, random| {
        let aborted = store
            .write(|tx| fill(tx, random).and_then(|()| tx.put_if(BLOBS, &0, Condition::Version(0), &vec![]).map(drop)));
        assert_eq!(kind_of(aborted), ErrorKind::Invalid);
    },
    |store, random| {
        let text = panic_of(|| {
            store.write(|tx| {
                fill(tx, random)?;
                assert!(tx.get(BLOBS, &0)?.is_none(), "a batch panics");
                Ok::<_, Error>(())
            })
        });
        assert_eq!(text, "a batch panics");
    },
    |store, random| {
        let aborted = store.write(|tx| fill(tx, random).and_then(|()| tx.put(BLOBS, &1, &vec![1; 200_000]).map(drop)));
        assert_eq!(kind_of(aborted), ErrorKind::TooLarge);
    },
    |store, random| {
        // The unit is undone inside of a write that commits nothing else.
        let aborted = store.write(|tx| {
            let unit = tx.once(&key("unit"), |tx| {
                fill(tx, random).and_then(|()| tx.put_if(BLOBS, &0, Condition::Absent, &vec![])?.or_abort())
            });
            assert_eq!(kind_of(unit), ErrorKind::Conflict);
            Ok::<_, Error>(())
        });
        aborted.expect("an empty write");
    },
];

fn fill(tx: &mut sprag::WriteTx<'_>, random: &mut Random) -> Result<(), Error> {
    for _ in 0..20 {
        let mut value = vec![0; 1024];
        value[..8].copy_from_slice(&random.below(u64::MAX).to_le_bytes());
        tx.put(BLOBS, &random.below(1000), &value)?;
    }
    Ok(())
}

/// TX-5: the pages of aborted work were never used again.
#[test]
fn aborted_work_leaves_no_space_behind() {
    let folder = folder();
    let seed = seed();
    let run = |name: &str, with_aborts: bool| {
        let path = folder.path().join(name);
        let options = || {
            Options::new()
                .level(Level::Buffered)
                .log_half_bytes(256 << 10)
                .cache_bytes(4 << 20)
        };
        let store = options().create_new(&path).expect("a new store");
        for number in 0..1000 {
            store.put(BLOBS, &number, &vec![0; 1024]).expect("written");
        }
        let (mut committed, mut aborted) = (Random::new(seed), Random::new(seed + 1));
        let mut half_way = 0;
        for batch in 0..1200 {
            store.write(|tx| fill(tx, &mut committed)).expect("written");
            if with_aborts {
                ABORTS[batch % ABORTS.len()](&store, &mut aborted);
            }
            if batch == 600 {
                half_way = fs::metadata(&path).expect("a file").len();
            }
        }
        let checkpoints = store.stats().expect("figures").checkpoints;
        assert!(checkpoints > 30, "checkpoints={checkpoints}");
        let end = fs::metadata(&path).expect("a file").len();
        store.close().expect("closed");
        options().open(&path).expect("opened again").close().expect("closed");
        [half_way, end, fs::metadata(&path).expect("a file").len()]
    };
    let control = run("control.sprag", false);
    let trial = run("trial.sprag", true);
    println!("control={control:?} trial={trial:?}");
    for (trial, control) in trial.into_iter().zip(control) {
        assert!(
            trial * 10 <= control * 13,
            "aborted work took space: {trial} against {control}"
        );
    }
    assert!(trial[1] * 10 <= trial[0] * 11, "the file still grows");
}
