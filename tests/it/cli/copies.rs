//! `backup`, `restore` and `compact` from a shell: words, codes, and files that stay as they are.

use std::fs;
use std::process::{Command, Stdio};

use sprag::{Json, Stateless, Store, Table};

use super::{Place, Seen};

const USERS: Table<str, String, Stateless, Json> = Table::new("users");

/// A store with holes.
fn holed() -> Place {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    for page in 0..20 {
        let filled = store.write(|tx| {
            (0..50).try_for_each(|key| tx.put(USERS, &format!("{page}-{key}"), &"x".repeat(500)).map(drop))
        });
        filled.expect("written");
    }
    let emptied = store.write(|tx| tx.retain(USERS, sprag::Keys::to("2"), |_, _| false));
    emptied.expect("removed");
    store.close().expect("closed");
    place
}

fn names(place: &Place) -> Vec<String> {
    crate::common::names_in(place.dir.path())
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("a path of text")
}

#[test]
fn a_backup_is_restored_and_says_the_same() {
    let place = holed();
    let (copy, second) = (place.path("copy.sprag"), place.path("second.sprag"));
    let (copy, second) = (text(&copy), text(&second));
    let bytes = |path: &str| fs::metadata(path).expect("the file").len();
    let wanted = place.run(&["scan", "FILE", "users"]);
    assert!(wanted.out.lines().count() > 100);

    let seen = place.run(&["backup", "FILE", copy]);
    seen.says(&format!("backed up file={copy} sequence=21 bytes={}", bytes(copy)));
    let seen = place.run(&["restore", copy, second]);
    seen.says(&format!("restored file={second} sequence=21 bytes={}", bytes(second)));
    assert_eq!(place.run(&["scan", second, "users"]), wanted);

    place.json(&["backup", "FILE", copy]).fails(2, "invalid");
    place.json(&["restore", copy, second]).fails(2, "invalid");
    place.run(&["delete", second, "users", "9-1"]);
    let seen = place.json(&["restore", "--replace", copy, second]);
    let object: serde_json::Value = serde_json::from_str(&seen.out).expect("an object");
    let wanted_object = serde_json::json!({
        "outcome": "restored", "file": second, "sequence": 21, "bytes": bytes(second)
    });
    assert_eq!(object, wanted_object);
    assert_eq!(place.run(&["scan", second, "users"]), wanted);
    assert_eq!(names(&place), ["copy.sprag", "second.sprag", "shop.sprag"]);
}

#[test]
fn a_file_is_compacted_once_and_says_so() {
    let place = holed();
    let wanted = place.run(&["scan", "FILE", "users"]);
    let before = fs::metadata(&place.file).expect("the file").len();
    let seen = place.run(&["compact", "FILE"]);
    let after = fs::metadata(&place.file).expect("the file").len();
    assert!(after < before);
    seen.says(&format!("compacted bytes_before={before} bytes_after={after}"));
    let bytes = fs::read(&place.file).expect("the file");
    place.json(&["compact", "FILE"]).says(&format!(
        "{{\"outcome\":\"unchanged\",\"bytes_before\":{after},\"bytes_after\":{after}}}"
    ));
    assert!(fs::read(&place.file).expect("the file") == bytes);
    assert_eq!(place.run(&["scan", "FILE", "users"]), wanted);
    assert_eq!(names(&place), ["shop.sprag"]);
}

#[test]
fn a_target_that_is_no_store_or_is_open_is_left_alone() {
    let place = holed();
    let other = place.path("other");
    fs::write(&other, "Dear diary").expect("a file");
    let other = text(&other);
    place
        .json(&["restore", "--replace", "FILE", other])
        .fails(6, "not_a_store");
    assert_eq!(fs::read(other).expect("the file"), b"Dear diary");
    let live = place.path("live.sprag");
    let store = Store::create_new(&live).expect("a store");
    let live = text(&live);
    place.json(&["restore", "--replace", "FILE", live]).fails(5, "busy");
    place.json(&["restore", live, "new.sprag"]).fails(5, "busy");
    place.json(&["compact", live]).fails(5, "busy");
    place
        .json(&["backup", "FILE", "/nonexistent/copy"])
        .fails(4, "not_found");
    store.close().expect("closed");
    assert_eq!(names(&place), ["live.sprag", "other", "shop.sprag"]);
}

/// A file that may not grow past so many KiB stands for a disk that is full.
#[cfg(target_os = "linux")]
fn with_room_for(kib: u64, place: &Place, args: &[&str]) -> Seen {
    let script = "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", script, &kib.to_string(), env!("CARGO_BIN_EXE_sprag")]);
    for arg in args {
        match *arg {
            "FILE" => command.arg(&place.file),
            arg => command.arg(arg),
        };
    }
    let command = command.arg("--json").stdin(Stdio::null());
    command.output().expect("bash starts").into()
}

#[cfg(target_os = "linux")]
#[test]
fn without_room_for_the_copy_nothing_is_changed_and_nothing_is_left() {
    let place = holed();
    let other = place.path("other.sprag");
    fs::copy(&place.file, &other).expect("a copy");
    let (other, new) = (text(&other), place.path("new.sprag"));
    let new = text(&new);
    let before = fs::read(&place.file).expect("the file");
    // In the log, and in the base: the copy has about 4,400 KiB.
    for kib in [100, 4090, 4200, 4300] {
        for args in [
            &["restore", "FILE", new][..],
            &["restore", "--replace", "FILE", other],
            &["compact", "FILE"],
        ] {
            with_room_for(kib, &place, args).fails(7, "full");
            assert!(fs::read(&place.file).expect("the file") == before, "{kib} {args:?}");
            assert!(fs::read(other).expect("the file") == before, "{kib} {args:?}");
            assert_eq!(names(&place), ["other.sprag", "shop.sprag"], "{kib} {args:?}");
        }
    }
    let wanted = place.run(&["scan", "FILE", "users"]);
    for kib in [4090, 4200, 4300] {
        with_room_for(kib, &place, &["backup", "FILE", new]).fails(7, "full");
        assert_eq!(names(&place), ["other.sprag", "shop.sprag"], "{kib}");
    }
    assert_eq!(place.run(&["scan", "FILE", "users"]), wanted);
    assert_eq!(with_room_for(100_000, &place, &["compact", "FILE"]).code, Some(0));
}

/// A store of 100 users, damaged by one byte that `place` finds in its bytes.
fn damaged(place: &Place, at: impl Fn(&[u8]) -> usize) {
    let users: Table<str, u64, Stateless, Json> = Table::new("users");
    let store = Store::open(&place.file).expect("the store");
    for number in 100..200 {
        store.put(users, &format!("k{number}"), &number).expect("a put");
    }
    store.close().expect("closed");
    let mut bytes = fs::read(&place.file).expect("its bytes");
    let at = at(&bytes);
    bytes[at] ^= 1;
    fs::write(&place.file, bytes).expect("damaged");
}

/// Behind the log: where the base has this.
fn in_the_base(bytes: &[u8], what: &[u8]) -> usize {
    let begins = crate::common::BASE_BEGINS;
    begins
        + bytes[begins..]
            .windows(what.len())
            .position(|part| part == what)
            .expect("there")
}

/// Copies of pages have good checksums, whatever is in them.
#[test]
fn a_damaged_record_is_in_no_copy() {
    let place = Place::with_store();
    damaged(&place, |bytes| in_the_base(bytes, b"\x01150") + 1);
    assert_eq!(place.run(&["check", "FILE"]).code, Some(1));
    let to = place.path("copy.sprag");
    let to = to.to_str().expect("text");
    for args in [
        &["backup", "FILE", to][..],
        &["restore", "FILE", to],
        &["compact", "FILE"],
        &["export", "FILE"],
    ] {
        let seen = place.json(args);
        assert_eq!((seen.code, seen.out.as_str()), (Some(6), ""), "{args:?} {seen:?}");
        assert!(seen.err.contains("\"kind\":\"corrupt\""), "{args:?} {seen:?}");
    }
    assert!(!fs::exists(to).expect("a look"));
}

/// A key that lost a bit lies out of order, so that a scan ends before it.
#[test]
fn an_export_of_a_store_whose_keys_are_damaged_prints_nothing() {
    let place = Place::with_store();
    damaged(&place, |bytes| in_the_base(bytes, b"\0\0\0\0k150") + 1);
    let seen = place.run(&["export", "FILE"]);
    assert_eq!((seen.code, seen.out.as_str()), (Some(6), ""), "{seen:?}");
}

/// A command that ends normally leaves nothing that only the log has.
#[test]
fn what_a_command_wrote_is_there_although_the_log_is_damaged_behind_its_back() {
    let place = Place::with_store();
    for key in ["ann", "bob"] {
        place.run(&["put", "FILE", "users", key, "1"]).says("applied version=1");
    }
    let bytes = fs::read(&place.file).expect("its bytes");
    let log = 4096..crate::common::BASE_BEGINS;
    let last = log.clone().rfind(|at| bytes[*at] != 0).expect("frames");
    for at in [4096 + 8, last] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        fs::write(&place.file, bytes).expect("damaged");
        place.run(&["get", "FILE", "users", "bob"]).says("1");
        place.run(&["get", "FILE", "users", "ann"]).says("1");
    }
}
