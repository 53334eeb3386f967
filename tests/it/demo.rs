//! The demo, run as a user runs it, against literals; and the file that it leaves, read again by `sprag get`.

use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;

use crate::random;

#[path = "../../src/bin/sprag/demo/aim.rs"]
mod aim;

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Report {
    file: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Row {
    technique: String,
    deliveries: String,
    before: i64,
    after: i64,
    version: u64,
    expected: i64,
    as_expected: bool,
    absent: u32,
    present: u32,
}

fn sprag(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sprag"))
        .args(args)
        .output()
        .expect("the command starts")
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Technique, deliveries, what is stored after them, and its version.
const ROWS: [(&str, &str, i64, u64); 29] = [
    ("none", "1", 140, 8),
    ("none", "2", 180, 9),
    ("none", "3", 220, 10),
    ("none", "11", 540, 18),
    ("none", "8 at once", 420, 15),
    ("set", "1", 140, 8),
    ("set", "2", 140, 8),
    ("set", "3", 140, 8),
    ("set", "11", 140, 8),
    ("set", "8 at once", 140, 8),
    ("set", "kill", 140, 8),
    ("remembered key", "1", 140, 8),
    ("remembered key", "2", 140, 8),
    ("remembered key", "3", 140, 8),
    ("remembered key", "11", 140, 8),
    ("remembered key", "8 at once", 140, 8),
    ("remembered key", "kill", 140, 8),
    ("conditional write", "1", 140, 8),
    ("conditional write", "2", 140, 8),
    ("conditional write", "3", 140, 8),
    ("conditional write", "11", 140, 8),
    ("conditional write", "8 at once", 140, 8),
    ("conditional write", "kill", 140, 8),
    ("state machine", "1", 140, 8),
    ("state machine", "2", 140, 8),
    ("state machine", "3", 140, 8),
    ("state machine", "11", 140, 8),
    ("state machine", "8 at once", 140, 8),
    ("state machine", "kill", 140, 8),
];

/// Whatever comes and whoever dies, every technique but `none` ends at the state after one delivery, and the file says so
/// to somebody who only reads it.
#[test]
fn the_demo_ends_at_140_and_version_8_and_the_file_says_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("demo.sprag");
    let file = text_of(&path);
    let output = sprag(&["demo", file, "--json"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    let report: Report = serde_json::from_slice(&output.stdout).expect("the object of the demo");
    assert_eq!(report.file, file);
    let shown: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.technique.as_str(), row.deliveries.as_str(), row.after, row.version))
        .collect();
    assert_eq!(shown, ROWS);

    for row in &report.rows {
        assert_eq!(
            (row.before, row.expected, row.as_expected),
            (100, row.after, true),
            "{row:?}"
        );
        if row.deliveries == "kill" {
            assert!(
                row.absent >= 3 && row.present >= 3 && row.absent + row.present >= 20,
                "{row:?}"
            );
        } else {
            assert_eq!((row.absent, row.present), (0, 0), "{row:?}");
        }
        let key = if row.deliveries == "kill" {
            "kill 1"
        } else {
            &row.deliveries
        };
        let output = sprag(&["get", file, &row.technique, key, "--json"]);
        let state = if row.technique == "state machine" {
            "\"shipped\""
        } else {
            "null"
        };
        let expected = format!(
            "{{\"table\":\"{}\",\"key\":\"{key}\",\"version\":{},\"state\":{state},\"value\":{}}}\n",
            row.technique, row.version, row.after
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(output.status.code(), Some(0));
    }
    let output = sprag(&["get", file, "remembered key", "11", "--long"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "version 8\nstate none\nvalue 140\n"
    );
}

/// A file that is there stays as it is.
#[test]
fn the_demo_refuses_a_file_that_exists() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("mine.txt");
    std::fs::write(&path, "mine").expect("a file");
    let output = sprag(&["demo", text_of(&path)]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    assert_eq!(std::fs::read(&path).expect("the file"), b"mine");
}

/// Without a file it makes one among the temporary files, and says where.
#[test]
fn the_demo_without_a_file_names_the_one_it_made() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_sprag"))
        .arg("demo")
        .env("TMPDIR", dir.path())
        .output()
        .expect("the command starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("Every row is as expected.\n"), "{text}");
    let folders: Vec<_> = std::fs::read_dir(dir.path()).expect("the folder").collect();
    let [Ok(folder)] = folders.as_slice() else {
        panic!("one folder, folders={folders:?}")
    };
    let file = folder.path().join("demo.sprag");
    assert!(text.contains(text_of(&file)), "{text}");
    let stays = format!("The folder {} stays; ", text_of(&folder.path()));
    assert!(text.contains(&stays), "{text}");
    assert_eq!(sprag(&["get", text_of(&file), "set", "3"]).stdout, b"140\n");
}

/// Exit code 1: something stands between the demo and its processes, and does in one of them what no delivery does.
///
/// The demo starts itself again by its own path. Here it was started by a descriptor of a file that is gone, so that its
/// path is one at which something else lies.
#[cfg(target_os = "linux")]
#[test]
fn a_row_that_is_not_as_expected_is_told_and_exits_1() {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::PermissionsExt;

    // Beside the command, since a file can be linked inside of one file system only.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let real = env!("CARGO_BIN_EXE_sprag");
    let linked = dir.path().join("sprag");
    std::fs::hard_link(real, &linked).expect("a link to the command");
    let program = std::fs::File::open(&linked).expect("the command");
    std::fs::remove_file(&linked).expect("unlinked");
    let between = dir.path().join("sprag (deleted)");
    let script = format!(
        "#!/bin/sh\nreal='{real}'\nif [ \"$4\" = set ] && [ \"$5\" = 'kill 1' ]; then\n  \
         \"$real\" put \"$3\" \"$4\" \"$5\" 999 >/dev/null\n  echo ready\n  exec sleep 1000\nfi\nexec \"$real\" \"$@\"\n"
    );
    std::fs::write(&between, script).expect("a script");
    std::fs::set_permissions(&between, PermissionsExt::from_mode(0o700)).expect("made a program");

    let started = format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd());
    let file = dir.path().join("demo.sprag");
    let output = Command::new(started)
        .args(["demo", text_of(&file), "--json"])
        .output()
        .expect("the command starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*err), (Some(1), ""));
    let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
    let wrong: Vec<_> = report.rows.into_iter().filter(|row| !row.as_expected).collect();
    let row = Row {
        technique: "set".to_owned(),
        deliveries: "kill".to_owned(),
        before: 100,
        after: 140,
        version: 9,
        expected: 140,
        as_expected: false,
        absent: 0,
        present: 1,
    };
    assert_eq!(wrong, [row]);
}

/// A delivery in ten takes up to thirty times as long as the others, which once left the aim behind every end.
#[test]
fn kills_meet_both_sides_of_the_commit_however_uneven_deliveries_are() {
    use aim::{Aim, Met};
    use std::time::Duration;

    let mut random = random::Random::new(random::seed());
    for machine in 0..2_000 {
        let commit = 50 + random.below(20_000);
        let rest = commit / 4 + random.below(commit);
        let mut delivery = || {
            let slow = if random.below(10) == 0 { 1 + random.below(30) } else { 1 };
            let percent = slow * (70 + random.below(60));
            (commit * percent / 100, (commit + rest) * percent / 100)
        };
        let mut aim = Aim::new(Duration::from_micros(delivery().1));
        let (mut absent, mut present, mut tries) = (0, 0, 0);
        while (absent < 3 || present < 3 || absent + present < 20) && tries < 200 {
            let delay = aim.delay();
            let (commit, end) = delivery();
            let met = match delay.as_micros() {
                at if at < u128::from(commit) => Met::Absent,
                at if at < u128::from(end) => Met::Present,
                _ => Met::Ended,
            };
            absent += u32::from(met == Met::Absent);
            present += u32::from(met == Met::Present);
            tries += 1;
            aim.learn(met);
        }
        assert!(
            absent >= 3 && present >= 3 && absent + present >= 20,
            "machine={machine}, commit={commit}, rest={rest}, absent={absent}, present={present}"
        );
    }
}
