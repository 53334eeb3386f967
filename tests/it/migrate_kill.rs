//! A migration that is killed again and again, on the simulated disk and for real, and called again until it is done: every
//! record is there once, with the value that one call of the function makes of it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sprag::testkit::{CrashPlan, SimDisk};
use sprag::{Error, ErrorKind, Keys, Store, Table};

use crate::common::{folder, kind_of, shared, small};
use crate::random::{Random, seed};

const KILLS: u64 = 50;
/// So many that one migration has room for about fifty kills.
const SIMULATED_RECORDS: u64 = 15_000;
const REAL_RECORDS: u64 = 3000;

// Old and new values are of one type, so nothing but the mark keeps a record from being taken twice.
const OLD: Table<u64, u64> = Table::new("counts");
const NEW: Table<u64, u64> = Table::new("counts").schema(1);
const OTHER: Table<str, u64> = Table::new("other");

fn fill(store: &Store, count: u64) {
    for page in 0..count / 100 {
        let filled = store.write(|tx| {
            for key in page * 100..(page + 1) * 100 {
                for write in 0..=key % 3 {
                    tx.put(OLD, &key, &(key * 10 + write))?;
                }
            }
            Ok::<_, Error>(())
        });
        filled.expect("written");
    }
    store.put(OTHER, "untouched", &7).expect("written");
}

/// Value and version that a record has at first.
fn before(key: u64) -> (u64, u64) {
    (key * 10 + key % 3, key % 3 + 1)
}

fn must_be_migrated(store: &Store, count: u64) {
    let records = store.read(|tx| tx.scan(NEW, Keys::all())?.collect::<Result<Vec<_>, Error>>());
    let records = records.expect("readable");
    assert_eq!(records.len() as u64, count);
    for (expected, (key, record)) in (0..).zip(records) {
        let (value, version) = before(expected);
        let found = (key, record.value, record.version.get());
        assert_eq!(found, (expected, value + 1_000_000, version + 1));
    }
    let other = store.get(OTHER, "untouched").expect("readable").expect("there");
    assert_eq!((other.value, other.version.get()), (7, 1));
}

/// What a kill left is the old table, the new one, or one that nobody may use. Says whether it is the last.
fn is_under_way(store: &Store, count: u64) -> bool {
    let info = store.read(|tx| tx.table("counts")).expect("readable").expect("there");
    match (info.schema(), info.migrating_to()) {
        (0, Some(1)) => {
            assert_eq!(kind_of(store.get(OLD, &0)), ErrorKind::Schema);
            assert_eq!(kind_of(store.get(NEW, &0)), ErrorKind::Schema);
            true
        }
        (0, None) => {
            let record = store.get(OLD, &0).expect("readable").expect("there");
            assert_eq!((record.value, record.version.get()), (0, 1));
            false
        }
        (1, None) => {
            must_be_migrated(store, count);
            false
        }
        other => panic!("the table has shapes that nobody asked for, found={other:?}"),
    }
}

/// The power fails, or the process is killed, at a random event of each life, also while the file is opened.
#[test]
fn a_migration_that_crashes_fifty_times_ends_with_every_record_once() {
    let mut random = Random::new(seed());
    let (mut kills, mut under_way, mut ended) = (0, 0, 0);
    while kills < KILLS {
        let mut disk = SimDisk::new();
        let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
        fill(&store, SIMULATED_RECORDS);
        drop(store);
        loop {
            let (image, is_done) = one_life(&disk, &mut random);
            disk = image;
            if is_done {
                break;
            }
            kills += 1;
            let store = small().open_on(shared(&disk.kill())).expect("opened after a crash");
            under_way += u64::from(is_under_way(&store, SIMULATED_RECORDS));
        }
        let store = small().open_on(shared(&disk)).expect("opened");
        must_be_migrated(&store, SIMULATED_RECORDS);
        ended += 1;
    }
    println!("kills={kills} under_way={under_way} ended={ended}");
    assert!(
        under_way >= KILLS / 2,
        "most crashes hit a migration, under_way={under_way}"
    );
}

/// Why a life ended before its migration did.
enum Ended {
    /// It crashed, and need not go on.
    Dead,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Failed(error)
    }
}

/// Opens the disk and migrates until a crash. Gives what the crash left, or the disk itself if the migration ended first.
fn one_life(disk: &SimDisk, random: &mut Random) -> (SimDisk, bool) {
    let remains: Arc<Mutex<Option<SimDisk>>> = Arc::default();
    let is_dead = Arc::new(AtomicBool::new(false));
    // One life in four ends while the file is opened, if it is not open before; the others in the migration.
    let in_open = (random.below(4) == 0).then(|| disk.events() + random.below(30));
    let at = Arc::new(AtomicU64::new(in_open.unwrap_or(u64::MAX)));
    // A checkpoint takes more than half of these, so that it can end within a life.
    let in_migration = random.below(100);
    let (power, plan_seed) = (random.below(2) == 0, random.below(u64::MAX));
    let (into, dead, strikes) = (Arc::clone(&remains), Arc::clone(&is_dead), Arc::clone(&at));
    disk.on_event(move |event, disk| {
        if event.index >= strikes.load(Ordering::Acquire) && !dead.swap(true, Ordering::AcqRel) {
            let image = if power {
                disk.power_loss_during(event, plan_seed, CrashPlan::Any)
            } else {
                disk.kill()
            };
            *into.lock().expect("no panic") = Some(image);
        }
    });
    let opened = small().checkpoints_in_line().open_on(shared(disk));
    let migrated = opened.map_err(Ended::Failed).and_then(|store| {
        at.fetch_min(disk.events() + in_migration, Ordering::AcqRel);
        store.migrate(OLD, NEW, |_, record| {
            if is_dead.load(Ordering::Acquire) {
                return Err(Ended::Dead);
            }
            Ok((record.value + 1_000_000, ()))
        })
    });
    disk.stop_observing();
    let remains = remains.lock().expect("no panic").take();
    match remains {
        Some(image) => (image, false),
        None => {
            if let Err(Ended::Failed(error)) = migrated {
                panic!("nothing failed and the migration did not end: {error:?}");
            }
            (disk.clone(), true)
        }
    }
}

/// Where the child of the trial finds its file.
const CHILD_FILE: &str = "SPRAG_MIGRATE_CHILD";
/// The child says where it is, and waits to be told to go on, after so many records.
const STEP: u64 = 16;

/// The process that the trial below kills; a trial of its own if nobody names a file.
#[test]
fn a_child_migrates_its_file_to_the_end() {
    let named = std::env::var_os(CHILD_FILE);
    let own = folder();
    let path = named.as_ref().map_or_else(|| own.path().join("t.sprag"), Into::into);
    if named.is_none() {
        let store = small().create_new(&path).expect("a store");
        fill(&store, REAL_RECORDS);
        store.close().expect("closed");
    }
    let store = small().open(&path).expect("opened");
    let mut calls = 0;
    let migrated = store.migrate(OLD, NEW, |key, record| {
        calls += 1;
        if named.is_some() && calls % STEP == 0 {
            println!("key={key}.");
            let told = std::io::stdin().lines().next();
            told.expect("the trial lives").expect("told to go on");
        }
        Ok::<_, Error>((record.value + 1_000_000, ()))
    });
    migrated.expect("migrated");
    must_be_migrated(&store, REAL_RECORDS);
    store.close().expect("closed");
}

/// A process, not a simulation of one: killed at a moment that nobody chose, in the first run or in the commits.
#[test]
fn a_process_that_is_killed_fifty_times_while_it_migrates_ends_with_every_record_once() {
    let mut random = Random::new(seed());
    let (mut kills, mut under_way, mut ended) = (0, 0, 0);
    while kills < KILLS {
        let folder = folder();
        let path = folder.path().join("t.sprag");
        let store = small().create_new(&path).expect("a store");
        fill(&store, REAL_RECORDS);
        store.close().expect("closed");
        while was_killed(&path, &mut random) {
            kills += 1;
            let store = Store::open(&path).expect("opened after a kill");
            under_way += u64::from(is_under_way(&store, REAL_RECORDS));
        }
        let store = Store::open(&path).expect("opened");
        must_be_migrated(&store, REAL_RECORDS);
        ended += 1;
    }
    println!("kills={kills} under_way={under_way} ended={ended}");
    assert!(
        under_way >= KILLS / 2,
        "most kills hit a migration, under_way={under_way}"
    );
}

/// Starts the child and kills it at a random line, or lets it end. Says which.
fn was_killed(path: &Path, random: &mut Random) -> bool {
    let mut child = Command::new(std::env::current_exe().expect("path of this test"))
        .args(["--exact", "migrate_kill::a_child_migrates_its_file_to_the_end"])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut out = BufReader::new(child.stdout.take().expect("its stdout"));
    let in_first_run = random.below(4) == 0;
    let mut lines_left = random.below(if in_first_run { 30 } else { 12 });
    let mut last_key = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if out.read_line(&mut line).expect("a line") == 0 {
            assert!(child.wait().expect("it ends").success());
            return false;
        }
        let Some(key) = line.split_once("key=").and_then(|(_, rest)| rest.split_once('.')) else {
            continue;
        };
        let key: u64 = key.0.parse().expect("a number");
        // Keys begin anew where the first run ends and the commits begin; from then on every line counts.
        if key < last_key && !in_first_run {
            last_key = u64::MAX;
        }
        let counts = in_first_run || last_key == u64::MAX;
        last_key = last_key.max(key);
        tell(&mut child);
        if counts && lines_left == 0 {
            for _ in 0..random.below(100_000) {
                std::hint::spin_loop();
            }
            child.kill().expect("it is killed");
            child.wait().expect("it is gone");
            return true;
        }
        lines_left -= u64::from(counts);
    }
}

fn tell(child: &mut Child) {
    let told = child.stdin.as_mut().expect("its stdin").write_all(b"\n");
    told.expect("the child lives");
}
