//! Backups: one point in time, whole or not there, and nobody waits.
//!
//! Field reports: BK-1 (a copy of a live store misses the newest data or is broken), CF-4 (a wrong path).

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sprag::testkit::{Disk, FaultKind, FaultMode, RamDisk, SimDisk};
use sprag::{Error, ErrorKind, Keys, ManualClock, Options, Store, Table};

use crate::common::{Gate, Opens, folder, identity_in, kind_of, names_in, shared, small, small_with};
use crate::furnished::{self, BALANCES};
use crate::random::{Random, seed};

const ACCOUNTS: Table<u64, i64> = Table::new("accounts");
/// A line for each move: from, to, amount.
const JOURNAL: Table<(u64, u64), (u64, u64, i64)> = Table::new("journal");

const WRITERS: u64 = 8;
const BACKUPS: usize = 100;
/// Moves of each writer in the time of one backup.
const MOVES: u64 = 10;

fn one_move(store: &Store, writer: u64, number: u64, random: &mut Random) {
    let (from, to) = (random.below(10), random.below(10));
    let amount = random.below(50) as i64;
    let moved = store.write(|tx| {
        tx.update(ACCOUNTS, &from, |balance| balance.map(|balance| balance - amount))?;
        tx.update(ACCOUNTS, &to, |balance| balance.map(|balance| balance + amount))?;
        tx.put(JOURNAL, &(writer, number), &(from, to, amount))?;
        Ok::<_, Error>(())
    });
    moved.expect("moved");
}

/// The balances are those that the journal makes of 100 each, and the journal has no gap. Gives how many moves of each
/// writer are inside.
fn must_hold(store: &Store) -> Vec<u64> {
    store
        .read(|tx| {
            let mut balances = [100; 10];
            let mut moves = vec![0; WRITERS as usize];
            for item in tx.scan(JOURNAL, Keys::all())? {
                let ((writer, number), record) = item?;
                assert_eq!(number, moves[writer as usize], "a move is missing, writer={writer}");
                moves[writer as usize] += 1;
                let (from, to, amount) = record.value;
                balances[from as usize] -= amount;
                balances[to as usize] += amount;
            }
            let stored: Vec<i64> = tx
                .scan(ACCOUNTS, Keys::all())?
                .map(|item| item.map(|(_, record)| record.value))
                .collect::<Result<_, Error>>()?;
            assert_eq!(stored, balances);
            assert_eq!(stored.iter().sum::<i64>(), 1000);
            Ok::<_, Error>(moves)
        })
        .expect("readable")
}

/// BK-1.
#[test]
fn a_hundred_backups_under_eight_writers_each_hold_one_moment_and_all_that_was_answered() {
    let seed = seed();
    let folder = folder();
    let store = small().create_new(folder.path().join("live.sprag")).expect("a store");
    store
        .write(|tx| (0..10).try_for_each(|key| tx.put(ACCOUNTS, &key, &100).map(drop)))
        .expect("written");
    let answered: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    // A writer makes so many moves for each backup and waits then, so that the journal stays short.
    let allowed = AtomicU64::new(MOVES);
    let mut inside = 0;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, answered, allowed) = (&store, &answered[writer as usize], &allowed);
            scope.spawn(move || {
                let mut random = Random::new(seed.wrapping_add(writer));
                for number in 0.. {
                    while number >= allowed.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    if number >= MOVES * BACKUPS as u64 {
                        return;
                    }
                    one_move(store, writer, number, &mut random);
                    answered.store(number + 1, Ordering::Release);
                }
            });
        }
        for number in 0..BACKUPS {
            let to = folder.path().join(format!("{number}.sprag"));
            let before: Vec<u64> = answered.iter().map(|count| count.load(Ordering::Acquire)).collect();
            let backed_up = store.backup(&to).expect("backed up");
            assert_eq!(backed_up.bytes, fs::metadata(&to).expect("the file").len());
            let copy = small().open(&to).expect("it opens");
            assert_eq!(copy.stats().expect("figures").sequence, backed_up.sequence);
            let found = must_hold(&copy);
            for (writer, (found, before)) in found.iter().zip(&before).enumerate() {
                assert!(
                    found >= before,
                    "an answered move is missing, backup={number}, writer={writer}"
                );
            }
            inside = found.iter().sum();
            copy.close().expect("closed");
            fs::remove_file(to).expect("removed");
            allowed.fetch_add(MOVES, Ordering::AcqRel);
        }
    });
    println!("moves in the last backup: {inside}");
    assert!(inside > WRITERS, "the writers got on meanwhile, moves={inside}");
    assert_eq!(names_in(folder.path()), ["live.sprag"]);
    must_hold(&store);
}

/// A writer that is asked while a backup is being written goes on.
#[test]
fn writers_go_on_while_a_backup_is_written_and_are_not_in_it() {
    let store = small().in_memory().expect("a store");
    furnished::fill(&store);
    let before = store.entries().expect("readable");
    let disk = SimDisk::new();
    let gate = Arc::new(Gate::default());
    gate.shut();
    let held = gate.clone();
    disk.on_event(move |event, _| {
        if event.offset > 0 {
            held.pass();
        }
    });
    let backed_up = thread::scope(|scope| {
        let _opens = Opens(gate.clone());
        let copying = scope.spawn(|| store.backup_on(&(shared(&disk) as Arc<dyn Disk>)));
        gate.wait_for_visitor();
        // So many that the log is emptied into the base more than once.
        for key in 0..3000 {
            store.put(BALANCES, &key, &-1).expect("written");
        }
        gate.open();
        copying.join().expect("no panic")
    });
    backed_up.expect("backed up");
    disk.stop_observing();
    let copy = small().open_on(shared(&disk)).expect("it opens");
    assert_eq!(copy.entries().expect("readable"), before);
}

#[test]
fn a_backup_holds_every_entry_the_sequence_and_the_time_of_its_store() {
    let folder = folder();
    let clock = ManualClock::new();
    let path = folder.path().join("live.sprag");
    let store = small_with(&clock).create_new(&path).expect("a store");
    furnished::fill(&store);
    clock.advance(std::time::Duration::from_secs(1800));
    let to = folder.path().join("copy.sprag");
    let backed_up = store.backup(&to).expect("backed up");
    let (entries, stats) = (store.entries().expect("readable"), store.stats().expect("figures"));
    assert!(stats.log_used_bytes > 0, "some of it is in the log only");
    assert_eq!(backed_up.sequence, stats.sequence);

    let copy = small_with(&clock).open(&to).expect("it opens");
    assert_eq!(copy.entries().expect("readable"), entries);
    let copied = copy.stats().expect("figures");
    assert_eq!(copied.sequence, stats.sequence);
    assert_eq!(copied.retention_ns, stats.retention_ns);
    assert_eq!(copied.log_half_bytes, 16 << 10);
    assert_eq!(
        identity_in(&path),
        identity_in(&to),
        "a backup is the same store at a moment"
    );
    // It counts on from there: no version and no sequence is given twice.
    assert_eq!(copy.put(BALANCES, &51, &0).expect("written").get(), 8);
    assert_eq!(copy.put(BALANCES, &0, &0).expect("written").get(), 2);
    assert_eq!(copy.stats().expect("figures").sequence, stats.sequence + 2);
}

#[test]
fn a_backup_never_replaces_a_file_and_needs_its_folder() {
    let folder = folder();
    let path = folder.path().join("live.sprag");
    let store = small().create_new(&path).expect("a store");
    let taken = folder.path().join("taken");
    fs::write(&taken, b"").expect("a file");
    assert_eq!(kind_of(store.backup(&taken)), ErrorKind::Invalid);
    assert_eq!(kind_of(store.backup(&path)), ErrorKind::Invalid, "not over itself");
    assert_eq!(kind_of(store.backup(folder.path())), ErrorKind::Invalid);
    assert_eq!(
        kind_of(store.backup(folder.path().join("missing/b"))),
        ErrorKind::NotFound
    );
    assert_eq!(names_in(folder.path()), ["live.sprag", "taken"]);
    assert_eq!(fs::read(&taken).expect("the file"), b"");
}

#[test]
fn a_store_in_memory_can_be_backed_up_also_from_inside_a_write() {
    let folder = folder();
    let store = small().in_memory().expect("a store");
    store.put(BALANCES, &51, &140).expect("written");
    let to = folder.path().join("b.sprag");
    let backed_up = store.write(|tx| {
        tx.put(BALANCES, &51, &180)?;
        store.backup(&to)
    });
    backed_up.expect("backed up");
    let copy = Store::open(&to).expect("it opens");
    let record = copy.get(BALANCES, &51).expect("readable").expect("there");
    assert_eq!(
        (record.value, record.version.get()),
        (140, 1),
        "the state of the last commit"
    );
}

/// The n-th write, or every one from there on, fails or finds the disk full: an error, and the store goes on.
#[test]
fn a_disk_that_fails_at_any_call_of_a_backup_gives_an_error_and_the_store_goes_on() {
    let store = small().in_memory().expect("a store");
    furnished::fill(&store);
    let kinds = [
        (FaultKind::Write, io::ErrorKind::StorageFull, ErrorKind::Full),
        (FaultKind::WriteShort, io::ErrorKind::Other, ErrorKind::Io),
        (FaultKind::Sync, io::ErrorKind::Other, ErrorKind::Io),
        (FaultKind::SetLen, io::ErrorKind::StorageFull, ErrorKind::Full),
        (FaultKind::Read, io::ErrorKind::Other, ErrorKind::Io),
        (FaultKind::Len, io::ErrorKind::Other, ErrorKind::Io),
    ];
    let entries = store.entries().expect("readable");
    let mut failed = 0;
    for (fault, error, kind) in kinds {
        for passing in 0.. {
            let disk = SimDisk::new();
            disk.fail(fault, passing, FaultMode::FailForever, error);
            let outcome = store.backup_on(&(shared(&disk) as Arc<dyn Disk>));
            if disk.faults_fired() == 0 {
                outcome.expect("nothing failed");
                break;
            }
            if matches!(fault, FaultKind::Read | FaultKind::Len) && outcome.is_ok() {
                // What is asked for once the copy was judged says nothing about it.
                disk.heal();
                let copy = small().open_on(shared(&disk)).expect("it opens");
                assert_eq!(copy.entries().expect("readable"), entries);
            } else {
                assert_eq!(kind_of(outcome), kind, "{fault:?} after {passing}");
            }
            failed += 1;
        }
    }
    println!("failed={failed}");
    assert!(failed > 50, "the loop met the calls of a backup, failed={failed}");
    store.put(BALANCES, &51, &1).expect("the store goes on");
}

/// A disk that takes one write and keeps it with one bit turned.
#[derive(Debug)]
struct Lying {
    bytes: RamDisk,
    writes: AtomicU64,
    lies_at: u64,
    bit: u64,
}

impl Disk for Lying {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut data = data.to_vec();
        if self.writes.fetch_add(1, Ordering::AcqRel) == self.lies_at {
            let bit = self.bit as usize % (data.len() * 8);
            data[bit / 8] ^= 1 << (bit % 8);
        }
        self.bytes.write(offset, &data)
    }

    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.set_len(len)
    }
}

/// What the disk took without a word and did not keep is found while the file has no name yet.
#[test]
fn a_copy_that_is_not_what_was_written_is_no_backup() {
    let mut random = Random::new(seed());
    let store = small().in_memory().expect("a store");
    furnished::fill(&store);
    let entries = store.entries().expect("readable");
    let (mut refused, mut harmless) = (0, 0);
    for round in 0.. {
        let lies_at = round / 4;
        let disk = Arc::new(Lying {
            bytes: RamDisk::new(),
            writes: AtomicU64::new(0),
            lies_at,
            bit: random.below(u64::MAX),
        });
        let outcome = store.backup_on(&(disk.clone() as Arc<dyn Disk>));
        let has_lied = disk.writes.load(Ordering::Acquire) > lies_at;
        match outcome {
            Ok(_) => {
                // The bit lies in what no page uses, or was written once more.
                harmless += u64::from(has_lied);
                let copy = small().open_on(Arc::new(disk.bytes.clone())).expect("it opens");
                assert_eq!(copy.entries().expect("readable"), entries, "lie {lies_at}");
            }
            Err(cause) => {
                refused += 1;
                assert!(
                    matches!(
                        cause.kind(),
                        ErrorKind::Corrupt | ErrorKind::NotAStore | ErrorKind::NewerFormat
                    ),
                    "lie {lies_at}: {cause:?}"
                );
            }
        }
        if !has_lied {
            break;
        }
    }
    println!("refused={refused} harmless={harmless}");
    assert!(refused > 16, "lies are found, refused={refused}");
}

#[test]
fn a_closed_store_is_not_backed_up() {
    let folder = folder();
    let store = small().in_memory().expect("a store");
    let other = store.clone();
    store.close().expect("closed");
    assert_eq!(kind_of(other.backup(folder.path().join("b"))), ErrorKind::Closed);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn an_empty_store_has_a_backup_that_is_a_store() {
    let folder = folder();
    let store = Options::new().in_memory().expect("a store");
    let to = folder.path().join("b.sprag");
    store.backup(&to).expect("backed up");
    let copy = Store::open(&to).expect("it opens");
    assert_eq!(copy.entries().expect("readable"), []);
    assert_eq!(copy.put(BALANCES, &1, &1).expect("written").get(), 1);
}
