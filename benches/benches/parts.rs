//! The parts of the write path, one by one and without a disk: where the time of a commit goes that is not the sync.
//!
//! `cargo bench -p sprag-benches --features parts --bench parts`. For comparing two versions of the library, by criterion's own
//! history; what a commit costs in all is the bench `commit`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use sprag::internals::{Memory, Span, Stamp, encode_frame};
use sprag::{Condition, Keep, Keys, Once, OnceKey, Store, Table, Written};

const RECORDS: Table<u64, String> = Table::new("records");
const EXTRAS: Table<u64, String> = Table::new("extras");
/// Records before the first commit: so many that no thread falls behind by a whole lap while it waits for a processor.
const COUNT: u64 = 100_000;
/// Changes in a memory table when its half of the log is full of commits of this load.
const CHANGES: u64 = 16_000;
const SCAN: u64 = 1_000;
const KEEP: Keep = Keep::For(Duration::from_secs(7 * 86_400));
/// Has no divisor in common with the number of records.
const STRIDE: u64 = 7_919;

/// Bytes that look random, as message ids do; distinct.
fn key_of(number: u64) -> [u8; 16] {
    let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    mixed.to_be_bytes()
}

/// A hundred bytes that no other number has.
fn value_of(number: u64) -> String {
    format!("{number:0100}")
}

/// A store in memory with the records that the commits expect.
fn store() -> sprag::Result<Store> {
    let store = Store::in_memory()?;
    let records: Vec<u64> = (0..COUNT).collect();
    for some in records.chunks(1_000) {
        store.write(|tx| {
            some.iter()
                .try_for_each(|record| tx.put(RECORDS, record, &value_of(u64::MAX - record)).map(drop))
        })?;
    }
    Ok(store)
}

/// A conditional write, a remembered key that is new, one more record. Each lap visits every record once.
fn commit(store: &Store, number: u64) {
    let once = store.once(&OnceKey::new("payments", key_of(number), KEEP), |tx| {
        let condition = Condition::Version(1 + number / COUNT);
        let written = tx.put_if(RECORDS, &(number * STRIDE % COUNT), condition, &value_of(number))?;
        assert!(matches!(written, Written::Applied(_)), "number={number}");
        tx.put(EXTRAS, &number, &value_of(number)).map(drop)
    });
    assert!(matches!(once, Ok(Once::First(()))), "number={number}, {once:?}");
}

/// Everything of a commit but the device.
fn stage(criterion: &mut Criterion) {
    let store = store().expect("a store in memory");
    let next = AtomicU64::new(0);
    criterion.bench_function("stage and publish, one thread", |bencher| {
        bencher.iter(|| commit(&store, next.fetch_add(1, Ordering::Relaxed)));
    });
}

/// The same by several threads: what the writer lock and the hand-over between threads add.
fn hand_over(criterion: &mut Criterion) {
    for threads in [2, 8] {
        let store = store().expect("a store in memory");
        let next = AtomicU64::new(0);
        criterion.bench_function(&format!("stage and publish, {threads} threads"), |bencher| {
            bencher.iter_custom(|count| {
                let end = next.load(Ordering::Relaxed) + count;
                let started = Instant::now();
                thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            while let Ok(number) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                                (next < end).then_some(next + 1)
                            }) {
                                commit(&store, number);
                            }
                        });
                    }
                });
                started.elapsed()
            });
        });
    }
}

fn frame(criterion: &mut Criterion) {
    let stamp = Stamp {
        marker: *b"benc",
        salt: 1,
    };
    let (key, value) = (key_of(1), [7; 100]);
    let ops: [(&[u8], Option<&[u8]>); 3] = [(&key, Some(&value)), (&key, Some(&value)), (&key, Some(&value[..40]))];
    let mut out = Vec::new();
    criterion.bench_function("frame of three operations", |bencher| {
        bencher.iter(|| {
            out.clear();
            encode_frame(stamp, 1_000, black_box(&ops), &mut out)
        });
    });
}

fn full_table() -> Memory {
    let mut table = Memory::new();
    let value = [7; 100];
    for number in 0..CHANGES {
        table.insert(number + 1, &key_of(number), Some(&value[..]));
    }
    table
}

fn memory(criterion: &mut Criterion) {
    let value = [7; 100];
    criterion.bench_function(
        "memory table, all inserts of a half, a snapshot after each",
        |bencher| {
            bencher.iter_with_large_drop(|| {
                let mut table = Memory::new();
                let mut published = table.clone();
                for number in 0..CHANGES {
                    table.insert(number + 1, &key_of(number), Some(&value[..]));
                    published = table.clone();
                }
                published
            });
        },
    );
    let table = full_table();
    let mut number = 0;
    criterion.bench_function("memory table, get of a key that is there", |bencher| {
        bencher.iter(|| {
            number = (number + 1) % CHANGES;
            table.get(&key_of(number))
        });
    });
    criterion.bench_function("memory table, get of a key that is not", |bencher| {
        bencher.iter(|| {
            number += 1;
            table.get(&key_of(CHANGES + number))
        });
    });
    let all = Span {
        from: std::ops::Bound::Unbounded,
        to: std::ops::Bound::Unbounded,
        reverse: false,
    };
    criterion.bench_function("memory table, scan of all", |bencher| {
        bencher.iter(|| table.range(&all).count())
    });
}

/// Records of the base under newer ones of the log.
fn merge(criterion: &mut Criterion) {
    let store = store().expect("a store in memory");
    for number in 0..COUNT {
        commit(&store, number);
    }
    criterion.bench_function("merge scan of 1,000 records", |bencher| {
        bencher.iter(|| {
            let page = store.read(|tx| tx.scan_page(RECORDS, Keys::all(), SCAN as usize));
            assert_eq!(page.map(|page| page.records.len() as u64).ok(), Some(SCAN));
        });
    });
}

criterion_group!(parts, stage, hand_over, frame, memory, merge);
criterion_main!(parts);
