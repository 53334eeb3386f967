//! A process with eight writing threads that is killed at random moments: what it said was done is there, and nothing of what
//! was under way is there by half.
//!
//! Reports: CR-1 (after a kill the store does not open by itself), CR-2 (told and not there after the process ended), CR-3
//! (deleted data comes back), CR-5 (a batch is split in two). `SPRAG_TRIALS` says how many rounds; `scripts/kill-loop` runs
//! the long loop.

mod work;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use sprag::{Level, Store, Table};

use crate::common::{folder, small};
use crate::random::{Random, seed, trials};
use work::THREADS;

/// Names the file of a child.
pub const CHILD_FILE: &str = "SPRAG_KILL_FILE";
const CHILD_LEVEL: &str = "SPRAG_KILL_LEVEL";
const CHILD_END: &str = "SPRAG_KILL_END";
/// Operations of a thread that nobody kills.
const OPERATIONS: u64 = 40;
/// Rounds on one file.
const FILE_ROUNDS: u64 = 12;

fn level_of(name: Option<&str>) -> Level {
    if name == Some("buffered") {
        Level::Buffered
    } else {
        Level::Sync
    }
}

/// The process that the loop below kills; a trial of its own if nobody names a file.
#[test]
fn a_child_with_eight_threads_says_what_it_has_done() {
    let named = std::env::var_os(CHILD_FILE);
    let own = folder();
    let path = named.as_ref().map_or_else(|| own.path().join("t.sprag"), Into::into);
    if named.is_some() {
        // Whoever kills us may die first.
        std::thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(3);
        });
        println!("opening.");
    }
    let level = level_of(std::env::var(CHILD_LEVEL).ok().as_deref());
    let store = small().level(level).open_or_create(&path).expect("opened");
    work::found(&store);
    let last = if named.is_some() { u64::MAX } else { OPERATIONS };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for n in work::cursor(store, thread) + 1..=last {
                    work::operate(store, thread, n).expect("done");
                    println!("did={thread},{n}.");
                }
            });
        }
    });
    for thread in 0..THREADS {
        assert_eq!(work::verify(&store, thread), OPERATIONS);
    }
}

/// A process of one test, which finds `path` in [`CHILD_FILE`].
pub fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("path of this test"));
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// What a child said it has done, by thread.
type Said = [u64; THREADS as usize];

/// Notes a line; says whether it tells of an operation.
fn note(line: &str, said: &mut Said) -> bool {
    let Some((_, rest)) = line.split_once("did=") else {
        return false;
    };
    let Some((told, _)) = rest.split_once('.') else {
        return false;
    };
    let (thread, n) = told.split_once(',').expect("thread and number");
    let thread: usize = thread.parse().expect("a thread");
    said[thread] = said[thread].max(n.parse().expect("a number"));
    true
}

/// Starts a child and kills it at a moment that nobody chose: at once, while it opens, or after some operations. Gives how many
/// operations it said it had done.
fn live_and_die(path: &Path, level: &str, random: &mut Random, said: &mut Said) -> u64 {
    let mut child = child("kill_loop::a_child_with_eight_threads_says_what_it_has_done", path)
        .env(CHILD_LEVEL, level)
        .spawn()
        .expect("the child starts");
    let mut out = BufReader::new(child.stdout.take().expect("its stdout"));
    let mut done = 0;
    let mut line = String::new();
    let mut next = |out: &mut BufReader<ChildStdout>, line: &mut String| {
        line.clear();
        // What was cut off in the middle of a line was not said.
        let there = out.read_line(line).expect("a line") > 0;
        done += u64::from(note(line, said));
        there
    };
    match random.below(6) {
        0 => {}
        1 => {
            while next(&mut out, &mut line) && !line.contains("opening.") {}
            for _ in 0..random.below(400_000) {
                std::hint::spin_loop();
            }
        }
        _ => {
            for _ in 0..random.below(600) {
                assert!(next(&mut out, &mut line), "the child ended by itself");
            }
        }
    }
    kill(&mut child);
    while next(&mut out, &mut line) {}
    done
}

/// Kills a process that must be alive.
pub fn kill(child: &mut Child) {
    child.kill().expect("it is killed");
    let status = child.wait().expect("it is gone");
    assert_eq!(status.code(), None, "the child ended by itself: {status}");
}

#[test]
fn a_process_that_is_killed_again_and_again_has_all_that_it_said_and_nothing_by_half() {
    let mut random = Random::new(seed());
    let rounds = trials(20, 300);
    let (mut acknowledged, mut survived, mut opened) = (0, 0, 0);
    let mut round = 0;
    while round < rounds {
        let folder = folder();
        let path = folder.path().join("t.sprag");
        let mut said = Said::default();
        for _ in 0..FILE_ROUNDS.min(rounds - round) {
            round += 1;
            let level = if random.below(3) == 0 { "buffered" } else { "sync" };
            acknowledged += live_and_die(&path, level, &mut random, &mut said);
            if !path.exists() {
                assert_eq!(said, Said::default(), "the file is gone");
                continue;
            }
            let store = Store::open(&path).expect("opened by itself after a kill");
            opened += 1;
            for thread in 0..THREADS {
                let found = work::verify(&store, thread);
                let told = said[thread as usize];
                assert!(found >= told, "lost: thread={thread} told={told} found={found}");
                assert!(
                    found <= told + 1,
                    "more than was begun: thread={thread} told={told} found={found}"
                );
                survived += found - told;
                said[thread as usize] = found;
            }
            work::verify_counts(&store);
        }
    }
    println!("rounds={rounds} opened={opened} acknowledged={acknowledged} done_and_not_told={survived} losses=0");
    assert!(
        acknowledged > rounds * 30,
        "hardly anything was done, acknowledged={acknowledged}"
    );
}

const NUMBERS: Table<u64, u64> = Table::new("numbers");

/// The process that ends in the way it is told; a trial of its own if nobody tells it.
#[test]
fn a_child_puts_one_value_and_ends() {
    let Some(path) = std::env::var_os(CHILD_FILE) else {
        let store = Store::in_memory().expect("a store");
        store.put(NUMBERS, &1, &140).expect("written");
        assert_eq!(store.get(NUMBERS, &1).expect("readable").expect("there").value, 140);
        return;
    };
    let level = level_of(std::env::var(CHILD_LEVEL).ok().as_deref());
    let store = sprag::Options::new().level(level).open_or_create(path).expect("opened");
    store.put(NUMBERS, &1, &140).expect("written");
    println!("did=0,1.");
    match std::env::var(CHILD_END).expect("an end").as_str() {
        "return" => {}
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "kill" => {
            let itself = format!("kill -9 {}", std::process::id());
            let status = Command::new("sh").args(["-c", &itself]).status();
            panic!("alive after its kill: {status:?}");
        }
        "leak" => drop(Box::leak(Box::new(store))),
        other => panic!("no such end: {other}"),
    }
}

#[cfg(unix)]
#[test]
fn a_value_that_was_told_is_there_however_the_process_ends() {
    let rounds = trials(2, 50);
    let folder = folder();
    for end in ["return", "exit", "abort", "kill", "leak"] {
        for round in 0..rounds {
            let path = folder.path().join(format!("{end}-{round}.sprag"));
            let level = if round % 2 == 0 { "sync" } else { "buffered" };
            let out = child("kill_loop::a_child_puts_one_value_and_ends", &path)
                .env(CHILD_END, end)
                .env(CHILD_LEVEL, level)
                .stderr(Stdio::null())
                .output()
                .expect("the child runs");
            assert!(String::from_utf8_lossy(&out.stdout).contains("did=0,1."), "{out:?}");
            assert_eq!(
                out.status.success(),
                !matches!(end, "abort" | "kill"),
                "{end}: {:?}",
                out.status
            );
            let store = Store::open(&path).expect("opened");
            assert_eq!(
                store.get(NUMBERS, &1).expect("readable").expect("there").value,
                140,
                "{end}, {level}"
            );
        }
    }
    println!("ends=5 rounds={rounds} losses=0");
}
