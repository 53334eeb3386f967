//! Full disks and I/O errors, as other people met them.
//!
//! Reports: IO-1 (filled once, never opened again), IO-2 (a full disk ends the process by a signal), IO-3 (a full disk is
//! reported as damage), IO-4 (one passing error, refused for ever), IO-6 (a sync fails once, the next one says fine). That no
//! call of the disk breaks any of it is shown call by call in `faults`; here are the trials as they are told, also on a real
//! file system that is full.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use sprag::testkit::{CrashPlan, Disk, EventKind, FaultKind, FaultMode, SimDisk};
use sprag::{Batch, Error, ErrorKind, Store, Table};

use crate::common::{Gate, Opens, folder, in_time, kind_of, shared, skipped, small};

const VALUES: Table<u64, Vec<u8>> = Table::new("values");

fn put(store: &Store, key: u64) -> Result<(), Error> {
    store.put(VALUES, &key, &vec![key as u8; 8000 / 4]).map(drop)
}

fn has_all(store: &Store, count: u64) {
    for key in 0..count {
        let record = store
            .get(VALUES, &key)
            .expect("readable")
            .expect("an acknowledged record");
        assert_eq!(record.value, vec![key as u8; 8000 / 4], "key={key}");
    }
}

/// IO-3: a disk on which every change answers an error of the system by its number.
#[derive(Debug)]
struct Refusing {
    disk: SimDisk,
    number: AtomicI32,
    /// Only what grows or fills the base is refused.
    spares_log: bool,
}

impl Refusing {
    fn refuse(&self, offset: u64) -> io::Result<()> {
        match self.number.load(Ordering::Acquire) {
            0 => Ok(()),
            _ if self.spares_log && offset < 4096 + (32 << 10) => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

impl Disk for Refusing {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.refuse(offset)?;
        self.disk.write(offset, data)
    }
    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.refuse(offset)?;
        self.disk.write_synced(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        self.refuse(u64::MAX)?;
        self.disk.sync()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.refuse(u64::MAX)?;
        self.disk.set_len(len)
    }
}

/// The number that the system gave, wherever in the chain of causes it is.
fn number_in(error: &Error) -> Option<i32> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.raw_os_error();
        }
        cause = error.source();
    }
    None
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_of_the_system_keeps_its_meaning_and_is_inside_of_what_callers_hear() {
    const NUMBERS: [(i32, ErrorKind); 5] = [
        (28, ErrorKind::Full),
        (122, ErrorKind::Full),
        (5, ErrorKind::Io),
        (30, ErrorKind::ReadOnly),
        (27, ErrorKind::Full),
    ];
    for spares_log in [false, true] {
        for (number, kind) in NUMBERS {
            let disk = Arc::new(Refusing {
                disk: SimDisk::new(),
                number: AtomicI32::new(0),
                spares_log,
            });
            let store = small().checkpoints_in_line().create_on(disk.clone()).expect("a store");
            put(&store, 0).expect("written");
            disk.number.store(number, Ordering::Release);
            let mut count = 1;
            let mut told = Vec::new();
            while told.len() < 3 {
                assert!(count < 1000, "the log has no end");
                match put(&store, count) {
                    Ok(()) => count += 1,
                    Err(error) => told.push(error),
                }
            }
            let batch = Batch::new().put(VALUES, &999, &vec![1; 5000]);
            told.push(store.apply(&batch).expect_err("refused"));
            told.push(store.sweep().expect_err("refused"));
            // What was handed to the disk first may be there; everybody after that knows that they are not.
            let first = if spares_log { kind } else { ErrorKind::InDoubt };
            let expected = [first, kind, kind, kind, kind];
            for (error, expected) in told.iter().zip(expected) {
                assert_eq!(error.kind(), expected, "number={number}: {error:?}");
                assert_eq!(number_in(error), Some(number), "the cause is lost: {error:?}");
            }
            assert_eq!(count > 4, spares_log, "the log has room for more than that");
            has_all(&store, count);
            disk.number.store(0, Ordering::Release);
            put(&store, count).expect("written once the disk takes it");
            has_all(&store, count + 1);
            let other = store.clone();
            store.close().expect("closed");
            assert_eq!(kind_of(other.get(VALUES, &0)), ErrorKind::Closed);
        }
    }
}

/// IO-4, call by call as it is told.
#[test]
fn after_one_failed_write_everything_goes_on_and_so_it_does_after_a_reopen() {
    for kind in [
        FaultKind::Write,
        FaultKind::WriteSynced,
        FaultKind::Sync,
        FaultKind::SetLen,
    ] {
        let disk = SimDisk::new();
        let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
        let mut count = 0;
        while store.stats().expect("figures").checkpoints < 2 {
            put(&store, count).expect("written");
            count += 1;
        }
        disk.fail(kind, 0, FaultMode::FailOnce, io::ErrorKind::Other);
        while disk.faults_fired() == 0 {
            has_all(&store, 1);
            put(&store, count).expect("tried again by itself");
            count += 1;
        }
        put(&store, count).expect("written");
        store.close().expect("closed");
        let store = small().open_on(shared(&disk)).expect("opened");
        has_all(&store, count + 1);
        put(&store, count + 1).expect("written");
    }
}

/// IO-6: each sync of the log in turn loses what it was to make durable; later ones say fine.
#[test]
fn a_sync_that_loses_its_pages_is_told_or_made_good_whatever_later_syncs_say() {
    for passing in 0..40 {
        for fails in 1..=2 {
            let disk = SimDisk::new();
            let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
            disk.fail(
                FaultKind::WriteSyncedLost,
                passing,
                FaultMode::FailOnce,
                io::ErrorKind::Other,
            );
            if fails == 2 {
                disk.fail(
                    FaultKind::WriteSyncedLost,
                    passing,
                    FaultMode::FailOnce,
                    io::ErrorKind::Other,
                );
            }
            let told: Vec<bool> = (0..45).map(|key| put(&store, key).is_ok()).collect();
            let failed: Vec<usize> = (0..45).filter(|key| !told[*key]).collect();
            let expected = if fails == 2 { vec![passing as usize] } else { Vec::new() };
            assert_eq!(failed, expected, "passing={passing}");
            let image = disk.power_loss(passing, CrashPlan::DropAll);
            let store = small().open_on(shared(&image)).expect("opened");
            // Also the one that was in doubt: the next commit could only begin when it was durable.
            has_all(&store, 45);
        }
    }
}

/// A system call that hangs holds its own caller, and nobody else longer than a second.
#[test]
fn whoever_waits_for_a_sync_that_hangs_is_told_within_a_second_and_reads_go_on() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    put(&store, 0).expect("written");
    let gate = Arc::new(Gate::default());
    let _opens = Opens(gate.clone());
    let at = gate.clone();
    disk.on_event(move |event, _| {
        if event.kind == EventKind::WriteSynced {
            at.pass();
        }
    });
    gate.shut();
    let held = {
        let store = store.clone();
        std::thread::spawn(move || put(&store, 1))
    };
    gate.wait_for_visitor();
    let members: Vec<_> = (2..5)
        .map(|key| {
            let store = store.clone();
            in_time("a commit beside a sync that hangs", move || put(&store, key))
        })
        .collect();
    for told in members {
        let error = told.expect_err("nobody knows");
        assert_eq!(error.kind(), ErrorKind::InDoubt, "{error:?}");
        assert!(error.to_string().contains("waited_ms=1000"), "{error}");
    }
    let reader = store.clone();
    in_time("a read beside a sync that hangs", move || has_all(&reader, 1));
    gate.open();
    held.join().expect("no panic").expect("its sync came to its end");
    put(&store, 5).expect("written");
    // What was in doubt went with the next hand-over.
    has_all(&store, 6);
}

const CHILD_FILE: &str = "SPRAG_IO_FILE";
const CHILD_PHASE: &str = "SPRAG_IO_PHASE";
const CHILD_TEST: &str = "reports_io::a_child_fills_its_disk_and_looks_again";

/// What the children of the trials below do; a trial of its own if nobody names a file.
#[test]
fn a_child_fills_its_disk_and_looks_again() {
    let Some(path) = std::env::var_os(CHILD_FILE).map(PathBuf::from) else {
        let disk = SimDisk::new();
        let store = small().create_on(shared(&disk)).expect("a store");
        disk.set_capacity(Some(disk.cache_image().len() as u64));
        assert!(fill(&store) > 0);
        return;
    };
    let told = path.with_extension("told");
    match std::env::var(CHILD_PHASE).expect("a phase").as_str() {
        "fill" => {
            let store = small().create_new(&path).expect("a store");
            let count = fill(&store);
            has_all(&store, count);
            println!("told={count}.");
            // No file can be made any more where the store is.
            std::fs::write(told_beside(&path), count.to_string()).expect("noted elsewhere");
            // As if it was killed: nothing is closed.
            std::process::abort();
        }
        "look" => {
            let count: u64 = std::fs::read_to_string(told_beside(&path))
                .expect("noted")
                .parse()
                .expect("a number");
            let store = Store::open(&path).expect("opened while the disk is full");
            has_all(&store, count);
            store.close().ok();
            std::fs::remove_file(path.with_file_name("ballast")).expect("room");
            let store = Store::open(&path).expect("opened when there is room");
            has_all(&store, count);
            for key in count..count + 50 {
                put(&store, key).expect("written when there is room");
            }
            has_all(&store, count + 50);
            store.close().expect("closed");
            println!("looked.");
        }
        other => panic!("no such phase: {other}, told={told:?}"),
    }
}

fn told_beside(path: &Path) -> PathBuf {
    let mount = path.parent().expect("a folder");
    mount.with_extension("told")
}

/// Puts until the disk is full, and gives how many were acknowledged.
fn fill(store: &Store) -> u64 {
    let mut count = 0;
    loop {
        match put(store, count) {
            Ok(()) => count += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
                return count;
            }
        }
        assert!(count < 100_000, "the disk never was full");
    }
}

fn sh(script: &str, path: &Path) -> Output {
    let test = std::env::current_exe().expect("path of this test");
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(test)
        .arg(path)
        .env(CHILD_FILE, path)
        .env("TEST", CHILD_TEST)
        .output()
        .expect("sh runs")
}

/// IO-1 and IO-2 on a file system of four MiB of our own, in a namespace of our own.
#[cfg(target_os = "linux")]
#[test]
fn a_real_disk_that_is_full_is_full_and_no_signal_and_opens_again_full_or_not() {
    let folder = folder();
    let mount = folder.path().join("mount");
    std::fs::create_dir(&mount).expect("a folder");
    let mounts = "mount -t tmpfs -o size=4m tmpfs \"$(dirname \"$2\")\"";
    let script = format!(
        "exec unshare -rm sh -c '{mounts} || exit 77
         head -c 1000000 /dev/zero > \"$(dirname \"$2\")/ballast\"
         SPRAG_IO_PHASE=fill \"$1\" --exact $TEST --nocapture; echo \"fill=$?\"
         SPRAG_IO_PHASE=look \"$1\" --exact $TEST --nocapture; echo \"look=$?\"' sh \"$1\" \"$2\""
    );
    let out = sh(&script, &mount.join("t.sprag"));
    let (text, errors) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    if !text.contains("fill=") {
        skipped(&format!("no small file system of our own: {errors}"));
        return;
    }
    // 134 is its own abort at the end.
    assert!(text.contains("told=") && text.contains("fill=134"), "{text}\n{errors}");
    assert!(text.contains("looked.") && text.contains("look=0"), "{text}\n{errors}");
}

/// The signal that ends a process which makes a file too long is not met: the error comes before.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_the_length_of_files_is_full_and_not_the_signal_that_ends_the_process() {
    let folder = folder();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("a folder");
    // In blocks of 512 bytes, and of 1024 in some shells.
    let script = "ulimit -f 4000; SPRAG_IO_PHASE=fill \"$1\" --exact $TEST --nocapture; echo \"fill=$?\"";
    let out = sh(script, &inner.join("t.sprag"));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("told=") && text.contains("fill=134"),
        "{text}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let told = std::fs::read_to_string(told_beside(&inner.join("t.sprag"))).expect("noted");
    let store = Store::open(inner.join("t.sprag")).expect("opened");
    has_all(&store, told.parse().expect("a number"));
}
