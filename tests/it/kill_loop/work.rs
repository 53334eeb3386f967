//! What eight threads write until they are killed: operation `n` of a thread follows from its number, and moves the thread's
//! cursor in the same commit, so that the cursor says what all else must be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sprag::{Batch, Condition, Error, Keep, Keys, Once, OnceKey, Outcome, State, Store, Table, machine};

pub const THREADS: u64 = 8;
/// Values of one thread.
const SLOTS: u64 = 40;
const SCOPE: &str = "kill";
/// Operations that do the same thing again.
const ROUND: u64 = 6;
/// Operations after which a key is forgotten.
const FORGOTTEN_AFTER: u64 = 4 * ROUND;

const CURSORS: Table<u64, u64> = Table::new("cursors");
const VALUES: Table<(u64, u64), u64> = Table::new("values");
/// Two records of each thread that are always equal.
const ENDS: Table<(u64, u64), u64> = Table::new("ends");
const TOTALS: Table<u64, u64> = Table::new("totals");
const LAPS: Table<u64, u64, Lap> = Table::new("laps");

machine! {
    pub enum Lap: "lap" {
        First = "first",
        Second = "second",
        Third = "third",
    }
    initial First;
    cyclic;
    First => Second;
    Second => Third;
    Third => First;
}

const LAP_ORDER: [Lap; 3] = [Lap::First, Lap::Second, Lap::Third];

fn lap(moves: u64) -> Lap {
    LAP_ORDER[(moves % 3) as usize]
}

fn key(thread: u64, n: u64) -> OnceKey {
    OnceKey::new(SCOPE, name(thread, n), Keep::For(Duration::from_secs(24 * 3600)))
}

fn name(thread: u64, n: u64) -> [u8; 16] {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&thread.to_be_bytes());
    name[8..].copy_from_slice(&n.to_be_bytes());
    name
}

/// What the operations up to a number leave.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    values: BTreeMap<u64, u64>,
    /// Equal at both ends.
    ends: Option<u64>,
    moves: u64,
    total: u64,
    keys: BTreeSet<u64>,
}

impl Left {
    fn after(n: u64) -> Left {
        let mut left = Left::default();
        for n in 1..=n {
            match n % ROUND {
                0 => drop(left.values.insert(n % SLOTS, n)),
                1 => drop(left.values.remove(&(7 * n % SLOTS))),
                2 => {
                    left.ends = Some(n);
                    left.moves += 1;
                }
                3 => {
                    left.total += 1;
                    left.keys.insert(n);
                }
                4 => left.moves += 1,
                _ => drop(left.keys.remove(&forgotten_by(n))),
            }
        }
        left
    }
}

/// The operation whose key operation `n` forgets.
fn forgotten_by(n: u64) -> u64 {
    n.saturating_sub(FORGOTTEN_AFTER + 2)
}

/// Makes what every thread begins with, once.
pub fn found(store: &Store) {
    let found = store.write(|tx| {
        for thread in 0..THREADS {
            if tx.get(LAPS, &thread)?.is_none() {
                tx.put(LAPS, &thread, &0)?;
            }
        }
        Ok::<_, Error>(())
    });
    found.expect("founded");
}

/// How far a thread came.
pub fn cursor(store: &Store, thread: u64) -> u64 {
    let record = store.get(CURSORS, &thread).expect("readable");
    let Some(record) = record else { return 0 };
    assert_eq!(
        record.version.get(),
        record.value,
        "each operation writes its cursor once"
    );
    record.value
}

fn seen(n: u64) -> Condition {
    if n == 1 {
        Condition::Absent
    } else {
        Condition::Version(n - 1)
    }
}

/// Does operation `n`, whose predecessor is done and which itself is not.
pub fn operate(store: &Store, thread: u64, n: u64) -> Result<(), Error> {
    let moves = Left::after(n - 1).moves;
    match n % ROUND {
        2 => {
            let batch = Batch::new()
                .put_if(CURSORS, &thread, seen(n), &n)
                .put(ENDS, &(thread, 0), &n)
                .transition(LAPS, &thread, lap(moves), lap(moves + 1))
                .put(ENDS, &(thread, 1), &n);
            let outcome = store.apply(&batch)?;
            assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
            return Ok(());
        }
        3 => {
            let once = store.once(&key(thread, n), |tx| {
                tx.put_if(CURSORS, &thread, seen(n), &n)?.or_abort()?;
                tx.update(TOTALS, &thread, |total| Some(total.unwrap_or(0) + 1))?;
                Ok::<_, Error>(n)
            })?;
            assert!(!once.is_repeat(), "done before its first delivery");
            return Ok(());
        }
        5 if n > ROUND => {
            // A key of the round before, which may be older than the kill before this life.
            let again = store.once(&key(thread, n - ROUND - 2), |_| Ok::<_, Error>(0))?;
            assert!(
                matches!(again, Once::Repeat { result, .. } if result == n - ROUND - 2),
                "{again:?}"
            );
        }
        _ => {}
    }
    store.write(|tx| {
        tx.put_if(CURSORS, &thread, seen(n), &n)?.or_abort()?;
        match n % ROUND {
            0 => drop(tx.put(VALUES, &(thread, n % SLOTS), &n)?),
            1 => drop(tx.delete(VALUES, &(thread, 7 * n % SLOTS))?),
            4 => {
                tx.transition_with(LAPS, &thread, lap(moves), lap(moves + 1), &n)?
                    .or_abort()?;
            }
            _ => drop(tx.forget(SCOPE, name(thread, forgotten_by(n)))?),
        }
        Ok::<_, Error>(())
    })
}

/// Compares all of a thread with what its cursor says, and gives the cursor.
pub fn verify(store: &Store, thread: u64) -> u64 {
    let n = cursor(store, thread);
    let left = store.read(|tx| {
        let values = tx.scan(VALUES, Keys::first(&thread))?.map(|item| {
            let ((_, slot), record) = item?;
            Ok((slot, record.value))
        });
        let ends: Result<Vec<_>, Error> = tx
            .scan(ENDS, Keys::first(&thread))?
            .map(|item| Ok(item?.1.value))
            .collect();
        let ends = ends?;
        assert!(
            ends.is_empty() || (ends.len() == 2 && ends[0] == ends[1]),
            "half of a batch: {ends:?}"
        );
        let record = tx.get(LAPS, &thread)?;
        let moves = record.as_ref().map_or(0, |record| record.version.get() - 1);
        if let Some(record) = record {
            assert_eq!(record.state, lap(moves));
            let listed: Result<Vec<u64>, Error> = tx.in_state(LAPS, record.state)?.map(|item| Ok(item?.0)).collect();
            assert!(listed?.contains(&thread), "not listed in its state");
        }
        let mut keys = BTreeSet::new();
        for item in tx.remembered_keys(Some(SCOPE))? {
            let item = item?;
            let (of, n) = item.key.split_at(8);
            if of == thread.to_be_bytes() {
                keys.insert(u64::from_be_bytes(n.try_into().expect("eight bytes")));
            }
        }
        Ok::<_, Error>(Left {
            values: values.collect::<Result<_, Error>>()?,
            ends: ends.first().copied(),
            moves,
            total: tx.get(TOTALS, &thread)?.map_or(0, |record| record.value),
            keys,
        })
    });
    assert_eq!(left.expect("readable"), Left::after(n), "thread={thread} cursor={n}");
    n
}

/// The counts of states are those of the records.
pub fn verify_counts(store: &Store) {
    let counts = store.read(|tx| tx.state_counts(LAPS)).expect("readable");
    let scanned = store.read(|tx| {
        let all: Result<Vec<_>, Error> = tx.scan(LAPS, Keys::all())?.map(|item| Ok(item?.1.state)).collect();
        all
    });
    let scanned = scanned.expect("readable");
    for (state, count) in counts {
        let there = scanned.iter().filter(|other| **other == state).count() as u64;
        assert_eq!(count, there, "state={}", state.name());
    }
}
