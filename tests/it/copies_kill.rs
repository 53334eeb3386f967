//! Commands that replace or make a whole file, killed at a moment that nobody chose: the old file is there or the new one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sprag::Store;

use crate::common::{folder, identity_in, names_in, restored, small};
use crate::furnished::{self, BALANCES};
use crate::random::{Random, seed};

/// Rounds of each trial, and the most it goes on for until kills have hit the copying itself often enough.
const ROUNDS: u64 = 40;
const ROUNDS_MAX: u64 = 400;
const HITS: u64 = 5;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(path: &Path) -> Entries {
    let store = Store::open(path).expect("it opens");
    let entries = store.entries().expect("readable");
    store.close().expect("closed");
    entries
}

/// A store with holes, so that a compaction has something to do.
fn made(path: &Path) -> Entries {
    let store = small().create_new(path).expect("a store");
    furnished::fill(&store);
    for key in 0..4000 {
        store.put(BALANCES, &key, &1).expect("written");
    }
    for key in 300..4000 {
        store.delete(BALANCES, &key).expect("deleted");
    }
    store.close().expect("closed");
    // Behind the last checkpoint, which drops what was kept for a second.
    entries(path)
}

fn command(args: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprag"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Starts the command and kills it at a random moment within `longest`, rather late, since it begins by opening its files. Says whether it had not ended before.
fn was_killed(args: &[&Path], longest: Duration, random: &mut Random) -> bool {
    let begun = Instant::now();
    let mut child = command(args).spawn().expect("the command starts");
    let longest = longest.as_nanos() as u64;
    let moment = Duration::from_nanos(longest / 4 + random.below(longest));
    while begun.elapsed() < moment {
        std::hint::spin_loop();
    }
    child.kill().expect("it is killed");
    !child.wait().expect("it is gone").success()
}

/// How long the command takes when nobody stops it.
fn measured(args: &[&Path]) -> Duration {
    let begun = Instant::now();
    assert!(command(args).status().expect("it runs").success());
    begun.elapsed()
}

/// Removes what a kill may leave, and says whether it left something.
fn cleared(folder: &Path, expected: &[&str]) -> bool {
    let mut found = false;
    for name in names_in(folder) {
        if name.starts_with('.') && name.contains(".new-") {
            fs::remove_file(folder.join(name)).expect("removed");
            found = true;
        } else {
            assert!(expected.contains(&name.as_str()), "nobody made this, name={name}");
        }
    }
    found
}

#[test]
fn a_compaction_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let mut random = Random::new(seed());
    let folder = folder();
    let (path, original) = (folder.path().join("t.sprag"), folder.path().join("original"));
    let wanted = made(&original);
    let before = fs::metadata(&original).expect("the file").len();
    fs::copy(&original, &path).expect("a copy");
    let args = [Path::new("compact"), &path];
    let longest = measured(&args);
    let after = fs::metadata(&path).expect("the file").len();
    assert!(after < before);
    let (mut kills, mut old, mut left) = (0, 0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && left >= HITS {
            break;
        }
        fs::copy(&original, &path).expect("a copy");
        kills += u64::from(was_killed(&args, longest, &mut random));
        let len = fs::metadata(&path).expect("the file").len();
        assert!(len == before || len == after, "neither, bytes={len}");
        old += u64::from(len == before);
        left += u64::from(cleared(folder.path(), &["original", "t.sprag"]));
        assert!(entries(&path) == wanted);
    }
    println!("kills={kills} old={old} left={left}");
    assert!(left >= HITS, "kills hit the copying, left={left}");
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_store_or_the_new_one() {
    let mut random = Random::new(seed());
    let folder = folder();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let (to, original, source) = (path("t.sprag"), path("original"), path("source"));
    let wanted = made(&source);
    let store = small().create_new(&original).expect("a store");
    store.put(BALANCES, &51, &-7).expect("written");
    let old_entries = store.entries().expect("readable");
    store.close().expect("closed");
    let old_identity = identity_in(&original);
    fs::copy(&original, &to).expect("a copy");
    let args = [Path::new("restore"), Path::new("--replace"), &source, &to];
    let longest = measured(&args);
    let (mut kills, mut old, mut left) = (0, 0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && left >= HITS {
            break;
        }
        fs::copy(&original, &to).expect("a copy");
        kills += u64::from(was_killed(&args, longest, &mut random));
        left += u64::from(cleared(folder.path(), &["original", "source", "t.sprag"]));
        if identity_in(&to) == old_identity {
            old += 1;
            assert!(entries(&to) == old_entries);
        } else {
            assert!(entries(&to) == restored(wanted.clone()));
        }
    }
    assert!(entries(&source) == wanted);
    println!("kills={kills} old={old} left={left}");
    assert!(left >= HITS, "kills hit the copying, left={left}");
}

#[test]
fn a_backup_that_is_killed_is_whole_or_not_there() {
    let mut random = Random::new(seed());
    let folder = folder();
    let (to, source) = (folder.path().join("t.sprag"), folder.path().join("source"));
    let wanted = made(&source);
    let args = [Path::new("backup"), &source, &to];
    let longest = measured(&args);
    let (mut kills, mut absent, mut left) = (0, 0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && left >= HITS {
            break;
        }
        if to.exists() {
            fs::remove_file(&to).expect("removed");
        }
        kills += u64::from(was_killed(&args, longest, &mut random));
        left += u64::from(cleared(folder.path(), &["source", "t.sprag"]));
        if to.exists() {
            assert!(entries(&to) == wanted);
        } else {
            absent += 1;
        }
    }
    assert!(entries(&source) == wanted);
    println!("kills={kills} absent={absent} left={left}");
    assert!(left >= HITS, "kills hit the copying, left={left}");
}
