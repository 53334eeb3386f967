//! Locks, second processes and children, as other people met them.
//!
//! Reports: LK-1 (two processes open one store and wipe each other), LK-2 (handle dropped, lock not yet free), LK-3 (a stale
//! lock file, and a process number that lives again), LK-4 (the new one waits for the old one's lock). LK-2 and LK-5 within one
//! process are in `closing`. LK-6 is not shown: the lock of a file system that has none cannot be had on an ordinary one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use sprag::{ErrorKind, Options, Store, Table};

use crate::common::{folder, kind_of, small, text_of};

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const CHILD_FILE: &str = "SPRAG_LK_FILE";
const CHILD_ROLE: &str = "SPRAG_LK_ROLE";
const CHILD_TEST: &str = "reports_lk::a_child_holds_the_file_or_is_refused";

/// What the children of the trials do; a trial of its own if nobody names a file.
#[test]
fn a_child_holds_the_file_or_is_refused() {
    let Some(path) = std::env::var_os(CHILD_FILE).map(PathBuf::from) else {
        let folder = folder();
        let store = Store::create_new(folder.path().join("t.sprag")).expect("a store");
        assert_eq!(kind_of(Store::open(folder.path().join("t.sprag"))), ErrorKind::Busy);
        return store.close().expect("closed");
    };
    match std::env::var(CHILD_ROLE).expect("a role").as_str() {
        "hold" => {
            let store = small().open_or_create(&path).expect("opened");
            store.put(NUMBERS, &1, &140).expect("written");
            println!("held.");
            wait_for_a_word();
            store.close().expect("closed");
            println!("closed.");
            wait_for_a_word();
        }
        "die" => {
            let store = small().open_or_create(&path).expect("opened");
            let found = store
                .get(NUMBERS, &1)
                .expect("readable")
                .map_or(0, |record| record.value);
            store.put(NUMBERS, &1, &(found + 1)).expect("written");
            println!("pid={} value={}.", std::process::id(), found + 1);
            // Not a process that leaves anything behind by itself.
            std::process::abort();
        }
        "race" => {
            wait_for_a_word();
            match small().open_or_create(&path) {
                Ok(store) => {
                    let value = store.update_one();
                    println!("race=won {value}.");
                    wait_for_a_word();
                    drop(store);
                }
                Err(error) => println!("race=lost {:?}.", error.kind()),
            }
        }
        other => panic!("no such role: {other}"),
    }
}

trait UpdateOne {
    fn update_one(&self) -> u64;
}

impl UpdateOne for Store {
    /// One more than there was.
    fn update_one(&self) -> u64 {
        let version = self.write(|tx| tx.update(NUMBERS, &7, |old| Some(old.unwrap_or(0) + 1)));
        version.expect("written").expect("a version").get()
    }
}

fn wait_for_a_word() {
    let told = std::io::stdin().lines().next();
    drop(told);
}

/// A child and its lines.
struct Holder {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Holder {
    fn start(path: &Path, role: &str) -> Holder {
        Holder::begin(
            &mut Command::new(std::env::current_exe().expect("path of this test")),
            path,
            role,
        )
    }

    fn begin(command: &mut Command, path: &Path, role: &str) -> Holder {
        let mut child = command
            .args(["--exact", CHILD_TEST, "--nocapture", "--test-threads=1"])
            .env(CHILD_FILE, path)
            .env(CHILD_ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the child starts");
        let out = BufReader::new(child.stdout.take().expect("its stdout"));
        Holder { child, out }
    }

    /// What it says after `begin`, up to the full stop; `None` if it ends before.
    fn hear(&mut self, begin: &str) -> Option<String> {
        let mut line = String::new();
        while self.out.read_line(&mut line).expect("a line") > 0 {
            if let Some((_, rest)) = line.split_once(begin) {
                return Some(rest.trim_end().trim_end_matches('.').to_owned());
            }
            line.clear();
        }
        None
    }

    fn tell(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("its stdin")
            .write_all(b"go on\n")
            .expect("the child lives");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// LK-4: told at once, told after the asked wait, or given the file when it is free; the message names the path.
#[test]
fn a_second_process_is_told_at_once_or_waits_as_long_as_it_asked() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let mut holder = Holder::start(&path, "hold");
    holder.hear("held").expect("it holds the file");
    let text = text_of(ErrorKind::Busy, Store::open(&path));
    assert!(text.contains(&format!("path={}", path.display())), "{text}");
    assert_eq!(kind_of(Store::open_or_create(&path)), ErrorKind::Busy);
    assert_eq!(kind_of(Store::create_new(&path)), ErrorKind::Invalid, "the file exists");
    let short = Options::new().wait(Duration::from_millis(50)).open(&path);
    assert_eq!(kind_of(short), ErrorKind::Busy);
    holder.tell();
    let store = Options::new()
        .wait(Duration::from_secs(60))
        .open(&path)
        .expect("free when it closed");
    assert_eq!(store.get(NUMBERS, &1).expect("readable").expect("there").value, 140);
    holder.hear("closed").expect("it lives on without the file");
}

/// LK-1: openers and creators that start together: one wins, the others are told, and nothing of the winner's is lost.
#[test]
fn of_four_processes_that_open_at_once_one_wins_and_loses_nothing() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let rounds = crate::random::trials(4, 100);
    for round in 1..=rounds {
        let mut all: Vec<Holder> = (0..4).map(|_| Holder::start(&path, "race")).collect();
        all.iter_mut().for_each(Holder::tell);
        let mut told: Vec<_> = all.iter_mut().filter_map(|holder| holder.hear("race=")).collect();
        told.sort();
        let won = format!("won {round}");
        assert_eq!(told, ["lost Busy", "lost Busy", "lost Busy", &won], "round={round}");
    }
    println!("rounds={rounds}");
}

/// LK-3: nothing that a dead process left can stop an opening, also not its process number.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_died_leaves_nothing_that_stops_the_next_one_of_the_same_number() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let test = std::env::current_exe().expect("path of this test");
    for life in 1..=3 {
        let mut command = Command::new("unshare");
        command.args(["-r", "--pid", "--fork"]).arg(&test);
        let mut holder = Holder::begin(&mut command, &path, "die");
        let said = holder.hear("pid=");
        holder.child.wait().expect("it is gone");
        let Some(said) = said else {
            return crate::common::skipped("no name space for processes of our own (unshare -r --pid)");
        };
        assert_eq!(said, format!("1 value={life}"));
    }
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("the folder").collect();
    assert_eq!(names.len(), 1, "a file beside the store: {names:?}");
    // Whatever somebody puts beside it is nobody's lock.
    for beside in ["t.sprag.lock", "t.sprag-lock", ".t.sprag.lock", "t.sprag.pid"] {
        std::fs::write(folder.path().join(beside), "1").expect("written");
    }
    let store = Store::open(&path).expect("opened at once");
    assert_eq!(store.get(NUMBERS, &1).expect("readable").expect("there").value, 3);
}

/// A descriptor of the store that a child inherited, as by a fork without an exec: the same opening of the file, with its lock.
#[cfg(target_os = "linux")]
fn inherited(path: &Path) -> Vec<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let myself = pidfd_open(getpid(), PidfdFlags::empty()).expect("a descriptor of this process");
    let open = std::fs::read_dir("/proc/self/fd").expect("the descriptors");
    let numbers: Vec<i32> = open
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let leads_there = std::fs::read_link(entry.path()).ok()? == path;
            leads_there.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
        })
        .collect();
    let doubled = numbers
        .into_iter()
        .map(|number| pidfd_getfd(&myself, number, PidfdGetfdFlags::empty()));
    doubled.collect::<Result<_, _>>().expect("the same opening once more")
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_that_inherited_the_descriptors_neither_keeps_the_lock_nor_gives_it_away() {
    let folder = folder();
    let path = folder.path().canonicalize().expect("a path").join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    let child = |fd: std::os::fd::OwnedFd| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo started; read word"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(fd));
        let mut child = command.spawn().expect("the child starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("its stdout");
        BufReader::new(out).read_line(&mut line).expect("a line");
        child
    };
    let fds = inherited(&path);
    assert_eq!(fds.len(), 2, "the lock's descriptor and that of synced writes");
    let mut first: Vec<Child> = fds.into_iter().map(child).collect();
    for child in &mut first {
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
    }
    assert_eq!(
        kind_of(Store::open(&path)),
        ErrorKind::Busy,
        "the end of a child gave the lock away"
    );
    let mut second: Vec<Child> = inherited(&path).into_iter().map(child).collect();
    store.put(NUMBERS, &1, &1).expect("written");
    store.close().expect("closed");
    let again = Store::open(&path).expect("free although children hold its descriptors");
    assert_eq!(again.get(NUMBERS, &1).expect("readable").expect("there").value, 1);
    for child in &mut second {
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
    }
    assert_eq!(
        kind_of(Store::open(&path)),
        ErrorKind::Busy,
        "the end of a child gave the next lock away"
    );
}
