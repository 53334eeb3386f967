//! The table of command by fault: exit code, stderr, nothing on stdout, and no byte of a refused file changed.
//!
//! Field reports: KV-3 (a command ends with 0 although it failed).

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sprag::{Claiming, Error, Json, Keep, OnceKey, Queue, Reason, Settled, Stateless, Store, Table};

use super::{Place, Seen};

/// Every command that only reads a store that exists.
pub(super) const READING: [&[&str]; 13] = [
    &["get", "FILE", "users", "ada"],
    &["scan", "FILE", "users"],
    &["tables", "FILE"],
    &["machine", "FILE", "orders"],
    &["keys", "FILE"],
    &["stats", "FILE"],
    &["outbox", "list", "FILE"],
    &["outbox", "list", "FILE", "mail", "--payload"],
    &["outbox", "show", "FILE", "mail", "1"],
    &["outbox", "dead", "FILE", "mail"],
    &["outbox", "watch", "FILE", "--count", "1"],
    CHECK,
    &["export", "FILE"],
];

/// Of a damaged file it tells more than that it is one.
const CHECK: &[&str] = &["check", "FILE"];

/// Every command that changes a store that exists, with what it says on the store of [`furnished`].
pub(super) const WRITING: [(&[&str], &str); 18] = [
    (&["put", "FILE", "users", "ada", "2"], "applied version=2\n"),
    (
        &[
            "apply",
            "FILE",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cli/batch.json"),
        ],
        "applied: unguarded version=1\n",
    ),
    (&["delete", "FILE", "users", "bob"], "applied version=1\n"),
    (
        &["transition", "FILE", "orders", "904", "new", "packed"],
        "applied version=2\n",
    ),
    (&["forget", "FILE", "s/k"], "applied\n"),
    (&["sweep", "FILE"], "applied keys=0\n"),
    (&["clock", "reset", "FILE"], "applied highest_wall="),
    (&["outbox", "enqueue", "FILE", "mail", "1"], "enqueued id="),
    (&["outbox", "ack", "FILE", "mail", HELD[0]], "done\n"),
    (&["outbox", "nack", "FILE", "mail", HELD[1]], "again at="),
    (
        &["outbox", "defer", "FILE", "mail", HELD[2], "--for", "1h"],
        "again at=",
    ),
    (&["outbox", "release", "FILE", "mail", HELD[3]], "again at="),
    (&["outbox", "bury", "FILE", "mail", HELD[4]], "dead reason=buried\n"),
    (&["outbox", "extend", "FILE", "mail", HELD[5]], "extended\n"),
    (
        &["outbox", "replay", "FILE", "mail", "--limit", "1"],
        "replayed messages=1 ",
    ),
    (&["outbox", "discard", "FILE", "mail", "1"], "discarded messages=0\n"),
    (&["outbox", "pause", "FILE", "mail"], "paused\n"),
    (&["outbox", "resume", "FILE", "mail"], "resumed\n"),
];

/// Receipts of what is claimed in the store of [`furnished`].
const HELD: [&str; 6] = ["1:1", "3:2", "5:3", "7:4", "9:5", "11:6"];

/// Every command that copies a store that exists. Where it could be copied to, there is nothing.
const COPYING: [&[&str]; 5] = [
    &["backup", "FILE", "/nonexistent/copy.sprag"],
    &["restore", "FILE", "/nonexistent/copy.sprag"],
    &["restore", "--replace", "FILE", "/nonexistent/copy.sprag"],
    &["compact", "FILE"],
    &["import", "FILE"],
];

/// Every command that needs a store that exists.
fn commands() -> impl Iterator<Item = &'static [&'static str]> {
    READING.into_iter().chain(WRITING.map(|(args, _)| args)).chain(COPYING)
}

sprag::machine! {
    /// Where an order stands.
    enum Order: "orders" {
        New = "new",
        Packed = "packed",
    }
    initial New;
    New => Packed;
}

/// A store in which every command finds something to do. Nothing is left in its log.
pub(super) fn furnished() -> Place {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    let users: Table<str, u64, Stateless, Json> = Table::new("users");
    let filled = store.write(|tx| {
        tx.put(users, "ada", &1)?;
        tx.put(users, "bob", &1)?;
        tx.put(Table::<u64, u64, Order>::new("orders"), &904, &1)?;
        tx.once(&OnceKey::new("s", "k", Keep::Forever), |_| {
            Ok::<_, Error>("a result".to_owned())
        })
    });
    filled.expect("written");
    hold_messages(&store);
    store.close().expect("closed");
    place
}

/// Leaves messages claimed, each under its receipt of [`HELD`], and one dead.
fn hold_messages(store: &Store) {
    let mail: Queue<u64, Json> = Queue::new("mail");
    let claiming = Claiming::new(1).lease(Duration::from_secs(3600)).kept_in_file();
    let next = || {
        store.enqueue(mail, &7).expect("enqueued");
        store.claim(mail, claiming).expect("a claim").remove(0)
    };
    let held = HELD.map(|_| next().into_receipt().expect("a receipt").to_string());
    assert_eq!(held, HELD);
    let buried = store.bury(next(), "no such person").expect("buried");
    assert_eq!(buried, Settled::Dead(Reason::Buried));
}

/// Runs every command against what `make` puts at the place of the store, as text and as JSON, and checks that the bytes
/// there stay as they are.
fn every_command_fails(make: impl Fn(&Path), code: i32, kind: &str) {
    let place = Place::new();
    make(&place.file);
    let before = std::fs::read(&place.file).ok();
    for args in commands().filter(|args| kind != "corrupt" || *args != CHECK) {
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
fn what_only_reads_works_while_another_process_has_the_file_open() {
    let place = furnished();
    let alone: Vec<Seen> = READING.map(|args| place.run(args)).into();
    let store = Store::open(&place.file).expect("the store");
    let beside: Vec<Seen> = READING.map(|args| place.run(args)).into();
    for ((args, alone), beside) in READING.iter().zip(&alone).zip(&beside) {
        assert_eq!((beside.code, &beside.err), (Some(0), &String::new()), "{args:?}");
        assert!(!beside.out.is_empty(), "{args:?}");
        // Of a file that somebody writes to, pages are not judged; and a store that is opened to write has another sequence.
        if !["stats", "check"].contains(&args[0]) {
            assert_eq!(without_times(&beside.out), without_times(&alone.out), "{args:?}");
        }
    }
    let users: Table<str, u64, Stateless, Json> = Table::new("users");
    store.put(users, "ada", &140).expect("a put");
    place
        .run(&["get", "FILE", "users", "ada", "--long"])
        .says("version 2\nstate none\nvalue 140");
}

/// Without the life that is left, which passes.
fn without_times(out: &str) -> String {
    let lines = out
        .lines()
        .map(|line| line.rsplit_once('\t').map_or(line, |(rest, _)| rest));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_that_another_process_has_open_exits_5_at_once_or_after_the_asked_wait() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    for (args, _) in WRITING {
        place.json(args).fails(5, "busy");
    }
    place.json(&["--wait", "20ms", "sweep", "FILE"]).fails(5, "busy");

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

/// A slip in a flag changes nothing, whatever the command would have done.
#[test]
fn a_flag_that_is_none_exits_2_in_every_command() {
    let place = furnished();
    let before = std::fs::read(&place.file).expect("its bytes");
    let others: [&[&str]; 4] = [
        &["demo", "other.sprag"],
        &["init", "other.sprag"],
        &["man"],
        &["completions", "bash"],
    ];
    for args in commands().chain(others) {
        let args = [args, &["--bogus"]].concat();
        let seen = place.run(&args);
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{args:?} {seen:?}");
        assert!(seen.err.contains("--bogus"), "{args:?} {seen:?}");
        place.json(&args).fails(2, "usage");
    }
    assert!(std::fs::read(&place.file).expect("its bytes") == before);
}

/// What checksums find when a record, or what is remembered, is read. The rest of the store works on.
#[test]
fn a_damaged_record_or_key_exits_6_in_every_command_that_reads_it() {
    let place = furnished();
    let users: Table<str, String, Stateless, Json> = Table::new("texts");
    let store = Store::open(&place.file).expect("the store");
    store.put(users, "ada", &"fine".to_owned()).expect("a put");
    store.put(users, "bob", &"struck by a ray".to_owned()).expect("a put");
    let once = OnceKey::new("s", "ray", Keep::Forever);
    let kept = store.once(&once, |_| Ok::<_, Error>("struck by a ray".to_owned()));
    drop(kept.expect("remembered"));
    store.close().expect("closed");
    let mut image = std::fs::read(&place.file).expect("its bytes");
    // Behind the superblock and both halves of the log lies the base.
    let base = crate::common::BASE_BEGINS;
    let places: Vec<usize> = (base..image.len() - 5)
        .filter(|at| &image[*at..*at + 5] == b"a ray")
        .collect();
    assert!(places.len() >= 2, "{places:?}");
    for at in places {
        image[at] = b'A';
    }
    std::fs::write(&place.file, &image).expect("patched");
    for args in [
        &["get", "FILE", "texts", "bob"][..],
        &["put", "FILE", "texts", "bob", "1"],
        &["delete", "FILE", "texts", "bob"],
        &["put", "FILE", "texts", "ada", "1", "--once", "s/ray", "--keep", "1h"],
        &["forget", "FILE", "s/ray"],
    ] {
        place.json(args).fails(6, "corrupt");
    }
    let seen = place.run(&["scan", "FILE", "texts"]);
    assert_eq!((seen.code, seen.out.as_str()), (Some(6), "ada\t1\tnone\t\"fine\"\n"));
    let first = seen.err.lines().next();
    assert_eq!(
        first,
        Some("sprag: corrupt: cannot read a record, table=\"texts\", key=\"bob\"")
    );
    let seen = place.run(&["keys", "FILE"]);
    assert_eq!((seen.code, seen.out.lines().count()), (Some(6), 1), "{seen:?}");
    assert_eq!(
        seen.err,
        "sprag: corrupt: entry of a remembered key is damaged, key=s/ray\n"
    );
    place.run(&["get", "FILE", "texts", "ada"]).says("\"fine\"");
    place.run(&["sweep", "FILE"]).says("applied keys=0");
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
        &["scan"],
        &["delete"],
        &["transition"],
        &["tables"],
        &["machine"],
        &["keys"],
        &["forget"],
        &["sweep"],
        &["stats"],
        &["check"],
        &["outbox"],
        &["outbox", "enqueue"],
        &["outbox", "list"],
        &["outbox", "show"],
        &["outbox", "claim"],
        &["outbox", "ack"],
        &["outbox", "nack"],
        &["outbox", "defer"],
        &["outbox", "release"],
        &["outbox", "bury"],
        &["outbox", "extend"],
        &["outbox", "dead"],
        &["outbox", "replay"],
        &["outbox", "discard"],
        &["outbox", "pause"],
        &["outbox", "resume"],
        &["outbox", "watch"],
        &["clock"],
        &["clock", "reset"],
        &["completions"],
        &["man"],
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
    place.json(&["scan", "FILE", "users"]).fails(4, "no_table");
    place.json(&["machine", "FILE", "users"]).fails(4, "no_machine");
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
    let unread = |place: &Place, args: &[&str]| -> Seen {
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
    let place = furnished();
    let others: [&[&str]; 5] = [
        &["--help"],
        &["put", "--help"],
        &["man"],
        &["man", "get"],
        &["completions", "bash"],
    ];
    for args in READING.into_iter().chain(others) {
        let seen = unread(&place, args);
        assert_eq!(seen.code, Some(7), "{args:?} {seen:?}");
        assert!(seen.err.starts_with("sprag: io: cannot write "), "{args:?} {seen:?}");
    }
    for (args, says) in WRITING {
        let seen = unread(&place, args);
        assert_eq!(seen.code, Some(0), "{args:?} {seen:?}");
        let (note, answer) = seen.err.split_once('\n').expect("two lines");
        assert!(
            note.starts_with("sprag: note: cannot write the answer to stdout: "),
            "{seen:?}"
        );
        assert!(answer.starts_with(says), "{args:?} {seen:?}");
    }
    // All of it was done, and once.
    place
        .run(&["get", "FILE", "users", "ada", "--long"])
        .says("version 2\nstate none\nvalue 2");
    place.json(&["get", "FILE", "users", "bob"]).fails(4, "no_record");
    place
        .run(&["scan", "FILE", "orders", "--state", "packed"])
        .says("904\t2\tpacked\tAQ==");
    place.run(&["forget", "FILE", "s/k"]).says("already gone");
    let refused = unread(&place, &["put", "FILE", "users", "ada", "3", "--if-absent"]);
    assert_eq!(refused.code, Some(3));
    let created = place.path("other.sprag");
    let seen = unread(&place, &["init", created.to_str().expect("a path of text")]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(created.exists());
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
    let place = furnished();
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
    let before = std::fs::read(&place.file).expect("its bytes");
    let at = |args: &[&'static str]| -> Vec<&str> {
        args.iter().map(|arg| if *arg == "FILE" { file } else { arg }).collect()
    };
    for (args, _) in WRITING {
        limited(&at(args)).fails(7, "full");
    }
    assert!(
        std::fs::read(&place.file).expect("its bytes") == before,
        "a refused write left something"
    );
    let other = place.path("other.sprag");
    limited(&["init", other.to_str().expect("a path of text")]).fails(7, "full");
    let names: Vec<_> = std::fs::read_dir(place.dir.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["shop.sprag"]);
}
