//! The example `consume`, killed again and again in the middle of its work and started again.
//!
//! Field reports: none of one number; the kind is "the position and the effects are two commits".

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sprag::{Store, Table};

/// The example as it is now, also if only the tests were built. After `cargo test` there is nothing left to build.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("path of this test");
    let target = test.ancestors().nth(3).expect("a test lies in target/PROFILE/deps");
    let mut features = vec!["json"];
    features.extend(cfg!(feature = "cli").then_some("cli"));
    features.extend(cfg!(feature = "test-util").then_some("test-util"));
    features.extend(cfg!(feature = "tokio").then_some("tokio"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--offline",
        "--example",
        "consume",
        "--message-format",
        "json-render-diagnostics",
    ]);
    cargo
        .arg("--features")
        .arg(features.join(","))
        .arg("--target-dir")
        .arg(target);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "the example does not build");
    let messages = String::from_utf8(built.stdout).expect("messages of cargo are text");
    let artifacts = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = artifacts.filter_map(|artifact| artifact["executable"].as_str().map(PathBuf::from));
    programs.next().expect("cargo names the program")
}

/// 1,000 messages, and every tenth of them once more, 50 messages later. Their amounts sum up to 500,500.
fn write_feed(path: &Path) {
    let line = |number: u64| format!("m-{number} {number}\n");
    let mut lines = Vec::new();
    for number in 1..=1000_u64 {
        lines.push(line(number));
        if number > 50 && number % 10 == 0 {
            lines.push(line(number - 50));
        }
    }
    std::fs::write(path, lines.concat()).expect("the feed is written");
}

/// The right total at every position at which a page can end.
fn totals_by_position(feed: &Path) -> HashMap<u64, u64> {
    let text = std::fs::read_to_string(feed).expect("the feed is read");
    let (mut seen, mut totals) = (HashSet::new(), HashMap::new());
    let (mut position, mut total) = (0, 0);
    for line in text.split_inclusive('\n') {
        position += line.len() as u64;
        let (id, amount) = line.trim_end().split_once(' ').expect("a message");
        if seen.insert(id.to_owned()) {
            total += amount.parse::<u64>().expect("an amount");
        }
        totals.insert(position, total);
    }
    totals
}

fn fact(line: &str, name: &str) -> Option<u64> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .map(|text| text.parse().expect("a number"))
}

/// Runs the example and kills it once it said `pages` lines. Gives its last line; `None` of `pages` lets it end.
fn run(program: &Path, store: &Path, feed: &Path, pages: Option<usize>, totals: &HashMap<u64, u64>) -> String {
    let mut command = Command::new(program);
    let mut child = command
        .arg(store)
        .arg(feed)
        .arg("7")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let out = BufReader::new(child.stdout.take().expect("its stdout"));
    let mut last = String::new();
    for line in out.lines().take(pages.unwrap_or(usize::MAX)) {
        last = line.expect("a line");
        if let Some(position) = fact(&last, "position") {
            assert_eq!(fact(&last, "total"), totals.get(&position).copied(), "{last}");
        }
    }
    if pages.is_some() {
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
    } else {
        assert!(child.wait().expect("it ends").success());
    }
    last
}

/// What a kill left: the effects are those of the messages before the position, of all of them and of no others.
fn left_behind(store: &Path, totals: &HashMap<u64, u64>) -> u64 {
    const POSITIONS: Table<str, u64> = Table::new("positions");
    const TOTALS: Table<str, u64> = Table::new("totals");
    let store = Store::open(store).expect("the store opens after a kill");
    let position = store.get(POSITIONS, "feed").expect("a read").expect("a position").value;
    let total = store.get(TOTALS, "all").expect("a read").expect("a total").value;
    assert_eq!(Some(&total), totals.get(&position), "position={position}");
    position
}

/// Effects and position are one commit, so a kill at any moment loses nothing and counts nothing twice.
#[test]
fn a_reader_that_is_killed_and_started_again_ends_at_the_exact_total() {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, feed) = (dir.path().join("reader.sprag"), dir.path().join("feed.txt"));
    write_feed(&feed);
    let totals = totals_by_position(&feed);
    let program = example();

    let mut reached = 0;
    for pages in [1, 2, 5, 1, 11, 3, 20, 1, 8, 13] {
        let last = run(&program, &store, &feed, Some(pages), &totals);
        let position = fact(&last, "position").expect("it was killed before its end");
        assert!(
            position > reached,
            "it went on behind what was committed, position={position}, reached={reached}"
        );
        reached = left_behind(&store, &totals);
        assert!(
            reached >= position,
            "what was said is committed, position={position}, reached={reached}"
        );
    }
    assert_eq!(run(&program, &store, &feed, None, &totals), "done total=500500");
    // Started once more, it finds nothing to do.
    assert_eq!(run(&program, &store, &feed, None, &totals), "done total=500500");
}
