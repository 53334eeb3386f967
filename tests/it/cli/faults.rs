//! The table of command by fault: exit code, stderr, nothing on stdout, and no byte of a refused file changed.
//!
//! Field reports: KV-3 (a command ends with 0 although it failed).

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use sprag::Store;

use super::{Place, Seen};

/// Every command that needs a store that exists.
const COMMANDS: [&[&str]; 6] = [
    &["get", "FILE", "users", "ada"],
    &["put", "FILE", "users", "ada", "1"],
    &["delete", "FILE", "users", "ada"],
    &["transition", "FILE", "users", "ada", "new", "packed"],
    &["stats", "FILE"],
    &["clock", "reset", "FILE"],
];

/// Runs every command against what `make` puts at the place of the store, as text and as JSON, and checks that the bytes
/// there stay as they are.
fn every_command_fails(make: impl Fn(&Path), code: i32, kind: &str) {
    let place = Place::new();
    make(&place.file);
    let before = std::fs::read(&place.file).ok();
    for args in COMMANDS {
        let seen = place.run(args);
        assert_eq!((seen.code, seen.out.as_str()), (Some(code), ""), "{args:?} {seen:?}");
        let first = format!("sprag: {}: ", kind.replace('_', " "));
        assert!(seen.err.starts_with(&first), "{args:?} {seen:?}");
        place.json(args).fails(code, kind);
    }
    assert_eq!(
        std::fs::read(&place.file).ok(),
        before,
        "a refused file was changed or made"
    );
}

fn patch_superblock(file: &Path, patch: impl Fn(&mut [u8])) {
    Store::create_new(file).expect("a store").close().expect("closed");
    let mut bytes = std::fs::read(file).expect("its bytes");
    patch(&mut bytes[..4096]);
    std::fs::write(file, bytes).expect("patched");
}

#[test]
fn a_file_that_is_missing_exits_4_and_is_not_made() {
    every_command_fails(|_| (), 4, "not_found");
}

#[test]
fn a_file_of_another_program_exits_6_and_stays_as_it_is() {
    every_command_fails(
        |file| std::fs::write(file, "root:x:0:0\n".repeat(1000)).expect("a file"),
        6,
        "not_a_store",
    );
    every_command_fails(|file| std::fs::write(file, "").expect("a file"), 6, "not_a_store");
}

#[test]
fn a_file_of_a_newer_format_exits_6_and_stays_as_it_is() {
    let newer = |file: &Path| {
        patch_superblock(file, |block| {
            block[16] = 99;
            let crc = crc32fast::hash(&block[..4092]);
            block[4092..].copy_from_slice(&crc.to_le_bytes());
        });
    };
    every_command_fails(newer, 6, "newer_format");
}

#[test]
fn a_damaged_file_exits_6_and_stays_as_it_is() {
    every_command_fails(|file| patch_superblock(file, |block| block[30] ^= 1), 6, "corrupt");
}

/// The lock is held by this process; the commands are others.
#[test]
fn a_file_that_another_process_has_open_exits_5_at_once_or_after_the_asked_wait() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    for args in COMMANDS {
        place.json(args).fails(5, "busy");
    }
    place.json(&["--wait", "20ms", "stats", "FILE"]).fails(5, "busy");

    let waiting = place
        .command(&["put", "FILE", "users", "ada", "1", "--wait", "10m"])
        .stdout(Stdio::piped())
        .spawn();
    drop(store);
    let seen: Seen = waiting
        .expect("the command starts")
        .wait_with_output()
        .expect("it ends")
        .into();
    seen.says("applied version=1");
}

#[test]
fn a_command_that_is_none_exits_2() {
    let place = Place::with_store();
    let unknown: [&[&str]; 13] = [
        &[],
        &["bogus"],
        &["clock"],
        &["get", "FILE", "users"],
        &["get", "FILE", "users", "ada", "--if-version", "1"],
        &["put", "FILE", "users", "ada"],
        &["put", "FILE", "users", "ada", "1", "--if-absent", "--if-present"],
        &["put", "FILE", "users", "ada", "1", "--if-version", "x"],
        &["put", "FILE", "users", "ada", "1", "--key", "f64"],
        &["put", "FILE", "users", "ada", "1", "--once", "a/b"],
        &["put", "FILE", "users", "ada", "1", "--keep", "1h"],
        &["put", "FILE", "users", "ada", "1", "--once", "no-slash", "--keep", "1h"],
        &["init", "other.sprag", "--log-half", "lots"],
    ];
    for args in unknown {
        let seen = place.run(args);
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{args:?} {seen:?}");
        assert!(!seen.err.is_empty(), "{args:?}");
        place.json(args).fails(2, "usage");
    }
    place
        .json(&["put", "FILE", "users", "ada", "1", "--if-version", "0"])
        .fails(2, "invalid");
    place
        .json(&[
            "put",
            "FILE",
            "users",
            "ada",
            "1",
            "--once",
            "no scope/b",
            "--keep",
            "1h",
        ])
        .fails(2, "invalid");
    place
        .json(&["put", "FILE", "users", "ada", "1", "--once", "scope/", "--keep", "1h"])
        .fails(2, "invalid");
    place.json(&["put", "FILE", "users", "ada", "{"]).fails(2, "invalid");
    place.json(&["put", "FILE", "", "ada", "1"]).fails(2, "invalid");
    place.json(&["init", "FILE"]).fails(2, "invalid");
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_table");
}

#[test]
fn each_command_documents_its_exit_codes() {
    let place = Place::new();
    for command in [
        &["demo"][..],
        &["init"],
        &["get"],
        &["put"],
        &["delete"],
        &["transition"],
        &["stats"],
        &["clock", "reset"],
    ] {
        for flag in ["--help", "-h"] {
            let seen = place.run(&[command, &[flag]].concat());
            assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{command:?}");
            assert!(seen.out.contains("Exit codes:\n  0  "), "{command:?} {seen:?}");
        }
    }
    let seen = place.run(&["--help"]);
    assert!(
        !seen.out.contains("demo-delivery"),
        "the child of the demo is nobody's command"
    );
}

#[test]
fn a_table_or_record_that_is_missing_exits_4() {
    let place = Place::with_store();
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_table");
    place.json(&["delete", "FILE", "users", "ada"]).fails(4, "no_table");
    place
        .json(&["transition", "FILE", "users", "ada", "new", "packed"])
        .fails(4, "no_table");
    place
        .json(&["put", "FILE", "users", "ada", "1", "--if-present"])
        .fails(3, "conflict");
    place
        .json(&["put", "FILE", "users", "ada", "1", "--if-version", "7"])
        .fails(3, "conflict");
    // A put that was refused has not made its table either.
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_table");
    place
        .run(&["put", "FILE", "users", "bob", "1"])
        .says("applied version=1");
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_record");
    place
        .json(&["put", "FILE", "users", "ada", "1", "--if-present"])
        .fails(3, "conflict");
    place.run(&["delete", "FILE", "users", "ada"]).says("already gone");
    place
        .run(&["delete", "FILE", "users", "ada", "--if-version", "3"])
        .says("already gone");
    place
        .json(&["delete", "FILE", "users", "ada"])
        .says("{\"outcome\":\"already gone\"}");
}

#[test]
fn a_new_file_is_made_by_init_only_and_with_the_log_asked_for() {
    let place = Place::new();
    let seen = place.run(&["init", "FILE", "--log-half", "16384"]);
    seen.says(&format!("created file={}", place.file.display()));
    let stats: serde_json::Value = serde_json::from_str(&place.json(&["stats", "FILE"]).out).expect("an object");
    assert_eq!(
        (&stats["log_half_bytes"], &stats["tables"]),
        (&16384.into(), &serde_json::json!([]))
    );
    // A commit may take half of a half.
    place
        .json(&["put", "FILE", "users", "ada", &"x".repeat(9000), "--text"])
        .fails(2, "too_large");
    place.json(&["init", "FILE"]).fails(2, "invalid");
    let other = place.path("other.sprag");
    place
        .json(&["init", other.to_str().expect("a path of text"), "--log-half", "5000"])
        .fails(2, "invalid");
    assert!(!other.exists());
    let nowhere = place.path("no/such/folder.sprag");
    place
        .json(&["init", nowhere.to_str().expect("a path of text")])
        .fails(4, "not_found");
    let seen = place.run(&["clock", "reset", "FILE"]);
    assert!(
        seen.code == Some(0) && seen.out.starts_with("applied highest_wall=20"),
        "{seen:?}"
    );
}

/// KV-3: nobody reads stdout. A command that only reads has failed then; one that wrote has not, and a script that was told
/// so would write again.
#[test]
fn a_closed_stdout_is_no_panic_and_changes_no_outcome_of_a_write() {
    let place = Place::with_store();
    place
        .run(&["put", "FILE", "users", "ada", "0"])
        .says("applied version=1");
    let unread = |args: &[&str]| -> Seen {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        place
            .command(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("the command starts")
            .into()
    };
    for args in [
        &["get", "FILE", "users", "ada"][..],
        &["stats", "FILE"],
        &["--help"],
        &["put", "--help"],
    ] {
        let seen = unread(args);
        assert_eq!(seen.code, Some(7), "{args:?} {seen:?}");
        assert!(seen.err.starts_with("sprag: io: cannot write "), "{args:?} {seen:?}");
    }
    let seen = unread(&["put", "FILE", "users", "ada", "1"]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.err.ends_with("\napplied version=2\n"), "{seen:?}");
    place.run(&["get", "FILE", "users", "ada"]).says("1");
    let seen = unread(&["put", "FILE", "users", "ada", "1", "--if-absent"]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert_eq!(
        unread(&["put", "FILE", "users", "ada", "2", "--if-absent"]).code,
        Some(3)
    );
    assert_eq!(unread(&["delete", "FILE", "users", "ada"]).code, Some(0));
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_record");
}

/// A stdout on a full disk is the same.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_does_not_fit_on_the_disk_is_told_of() {
    let place = Place::with_store();
    let full = || File::options().write(true).open("/dev/full").expect("the full device");
    let put: Seen = place
        .command(&["put", "FILE", "users", "ada", "1"])
        .stdout(full())
        .output()
        .expect("it runs")
        .into();
    assert_eq!(put.code, Some(0), "{put:?}");
    assert!(put.err.ends_with("\napplied version=1\n"), "{put:?}");
    let get: Seen = place
        .command(&["get", "FILE", "users", "ada", "--json"])
        .stdout(full())
        .output()
        .expect("it runs")
        .into();
    get.fails(7, "io");
}

/// A limit on the length of files stands for a full disk. The shell keeps the signal that would end the command.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_exits_7_and_leaves_the_store_as_it_was() {
    let place = Place::with_store();
    place
        .run(&["put", "FILE", "users", "ada", "0"])
        .says("applied version=1");
    let limited = |args: &[&str]| -> Seen {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "trap '' XFSZ; ulimit -f 8; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_sprag"),
            "--json",
        ]);
        command.args(args).output().expect("the shell starts").into()
    };
    let file = place.file.to_str().expect("a path of text");
    limited(&["put", file, "users", "ada", "1"]).fails(7, "full");
    place
        .run(&["get", "FILE", "users", "ada", "--long"])
        .says("version 1\nstate none\nvalue 0");
    let other = place.path("other.sprag");
    limited(&["init", other.to_str().expect("a path of text")]).fails(7, "full");
    let names: Vec<_> = std::fs::read_dir(place.dir.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["shop.sprag"]);
}
