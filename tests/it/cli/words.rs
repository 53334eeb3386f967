//! What the command says to people and to programs: no control characters, no word twice, one object a stream, and a help
//! that tells of everything that can come out.
//!
//! Field reports: KV-3 (a command ends with 0 although it failed).

use std::collections::BTreeSet;

use sprag::{Json, Store, Table};

use super::{Place, Seen};

/// An escape sequence or a newline in an argument could move the cursor, or forge a line of a log.
#[test]
fn no_control_character_of_an_argument_reaches_the_terminal() {
    let place = Place::with_store();
    place.run(&["put", "FILE", "odd", "ann", "1"]).says("applied version=1");
    let odd = "no\n\u{1b}[31mrec\u{9b}\u{202e}";
    let path = place.path("a\u{1b}[31m\nb");
    let path = path.to_str().expect("a path of text");
    let at_path = format!("@{path}");
    let shown = "no\\n\\u{1b}[31mrec\\u{9b}\\u{202e}";
    for (args, shown, lines) in [
        (&["get", "FILE", "odd", odd][..], shown, 1),
        (&["get", "FILE", odd, "ann"], shown, 1),
        (&["delete", "FILE", odd, "ann"], shown, 1),
        (&["transition", "FILE", odd, "ann", "a", "b"], shown, 1),
        (&["scan", "FILE", odd], shown, 1),
        (&["scan", "FILE", "odd", "--state", odd], "table=odd", 1),
        (&["machine", "FILE", odd], shown, 1),
        (&["keys", "FILE", "--scope", odd], "no\\n\\u{1b}[31mrec", 1),
        (&["get", path, "odd", "ann"], "a\\u{1b}[31m\\nb", 2),
        (&["stats", path], "a\\u{1b}[31m\\nb", 2),
        (&["put", "FILE", "odd", "ann", &at_path], "a\\u{1b}[31m\\nb", 2),
    ] {
        let seen = place.run(args);
        assert_ne!(seen.code, Some(0), "{args:?}");
        assert!(seen.err.contains(shown), "{args:?} {seen:?}");
        assert_eq!(controls(&seen.err), "\n".repeat(lines), "{args:?} {seen:?}");
    }
    // The parser of the arguments quotes too.
    for args in [&["stats", "FILE", odd][..], &["init", path, "--log-half", odd], &[odd]] {
        let seen = place.run(args);
        assert_eq!(seen.code, Some(2), "{args:?}");
        assert!(seen.err.contains(shown), "{args:?} {seen:?}");
        assert_eq!(controls(&seen.err).replace('\n', ""), "", "{args:?} {seen:?}");
    }
    // So do answers.
    let seen = place.run(&["init", path]);
    assert_eq!((seen.code, controls(&seen.out).as_str()), (Some(0), "\n"), "{seen:?}");
    assert!(seen.out.ends_with("/a\\u{1b}[31m\\nb\n"), "{seen:?}");
    let seen = place.run(&["stats", path]);
    assert!(seen.out.contains("/a\\u{1b}[31m\\nb\nfile_bytes "), "{seen:?}");
    assert_eq!(controls(&seen.out).replace('\n', ""), "", "{seen:?}");
    // A program is told the name as it is.
    let object: serde_json::Value = serde_json::from_str(&place.json(&["stats", path]).out).expect("an object");
    assert_eq!(object["file"], path);
}

fn controls(text: &str) -> String {
    text.chars()
        .filter(|character| character.is_control() || *character == '\u{202e}')
        .collect()
}

#[test]
fn the_words_of_a_kind_are_said_once() {
    let place = Place::new();
    let folder = place.dir.path().to_str().expect("a path of text");
    let seen = place.run(&["stats", folder]);
    assert!(
        seen.err.starts_with("sprag: not a store: it is no regular file"),
        "{seen:?}"
    );
    std::fs::write(&place.file, [0; 50]).expect("a file");
    let seen = place.run(&["stats", "FILE"]);
    assert_eq!(seen.err.matches("not a store").count(), 1, "{seen:?}");
    assert!(seen.err.contains("\n  caused by: too short, bytes=50\n"), "{seen:?}");
}

#[test]
fn a_transition_in_a_table_without_states_says_so() {
    let place = Place::with_store();
    place.run(&["put", "FILE", "bal", "99", "1"]).says("applied version=1");
    let seen = place.run(&["transition", "FILE", "bal", "99", "a", "b"]);
    assert_eq!(seen.code, Some(2));
    assert_eq!(seen.err, "sprag: invalid: the table has no states, table=bal\n");
}

/// A program reads stderr as one object, and takes a field `error` for a failure.
#[test]
fn a_change_whose_answer_nobody_reads_is_one_object_without_an_error() {
    let place = Place::with_store();
    let unread = |args: &[&str]| -> Seen {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = place.command(args);
        let command = command.stdout(writer).stderr(std::process::Stdio::piped());
        command.output().expect("the command starts").into()
    };
    for (args, outcome, version) in [
        (&["put", "FILE", "users", "ada", "1", "--json"][..], "applied", Some(1)),
        (&["put", "FILE", "users", "ada", "1", "--json"], "unchanged", Some(1)),
        (&["delete", "FILE", "users", "ada", "--json"], "applied", Some(1)),
        (&["delete", "FILE", "users", "ada", "--json"], "already gone", None),
        (&["clock", "reset", "FILE", "--json"], "applied", None),
    ] {
        let seen = unread(args);
        assert_eq!(seen.code, Some(0), "{args:?} {seen:?}");
        let object: serde_json::Value = serde_json::from_str(&seen.err).unwrap_or_else(|_| panic!("{seen:?}"));
        assert_eq!(object["outcome"], outcome, "{seen:?}");
        assert_eq!(
            object.get("version").and_then(serde_json::Value::as_u64),
            version,
            "{seen:?}"
        );
        let note = object["note"].as_str().expect("a note");
        assert!(note.starts_with("cannot write the answer to stdout: "), "{seen:?}");
        assert_eq!(object.get("error"), None, "{seen:?}");
    }
    let seen = unread(&["put", "FILE", "users", "ada", "2"]);
    assert!(
        seen.err.starts_with("sprag: note: cannot write the answer to stdout: "),
        "{seen:?}"
    );
    assert!(seen.err.ends_with("\napplied version=2\n"), "{seen:?}");
}

/// What a file keeps for a hundred thousand weeks is a slip of the hand, and the command could not take it back.
#[test]
fn a_duration_has_an_upper_bound_and_for_ever_has_a_word() {
    let place = Place::with_store();
    let keep = |keep: &str| place.json(&["put", "FILE", "users", "ada", "1", "--once", "s/k", "--keep", keep]);
    for refused in ["999999999999w", "36526d", "36525d 1ns", "99999999999999999999s"] {
        let error = keep(refused).fails(2, "usage");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("longer than 100 years, days_max=36525"), "{message}");
        let error = place.json(&["stats", "FILE", "--wait", refused]).fails(2, "usage");
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.contains("longer than 100 years") && !message.contains("forever"),
            "{message}"
        );
    }
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_table");
    keep("36525d").says("{\"outcome\":\"applied\",\"version\":1}");
    assert_eq!(place.run(&["stats", "FILE", "--wait", "36525d"]).code, Some(0));
}

/// The advice to put it behind `--` would make another argument of it.
#[test]
fn a_negative_number_is_refused_as_what_it_was_meant_to_be() {
    let place = Place::with_store();
    for args in [
        &["put", "FILE", "users", "ada", "1", "--if-version", "-1"][..],
        &["delete", "FILE", "users", "ada", "--if-version", "-1"],
        &["stats", "FILE", "--wait", "-5s"],
        &["put", "FILE", "users", "ada", "1", "--once", "s/k", "--keep", "-1h"],
        &["init", "other.sprag", "--log-half", "-1"],
    ] {
        let error = place.json(args).fails(2, "usage");
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.starts_with("invalid value '-") && !message.contains("'-- "),
            "{args:?} {message}"
        );
    }
}

/// The deepest value that the command takes is one that programs read; one level more is refused in every form.
#[test]
fn a_value_that_programs_could_not_read_for_its_depth_is_refused() {
    let place = Place::with_store();
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}\"[[[[{{\"{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let (deepest, in_objects) = (nested(127), objects(127));
    place
        .run(&["put", "FILE", "j", "arrays", &deepest])
        .says("applied version=1");
    place
        .run(&["put", "FILE", "j", "objects", &in_objects])
        .says("applied version=1");
    // Many values beside each other are not deep.
    let wide = format!("[{}[]]", "[],{},".repeat(200));
    place
        .run(&["put", "FILE", "j", "wide", &wide])
        .says("applied version=1");
    for levels in [128, 200, 5000] {
        for value in [nested(levels), objects(levels)] {
            place.json(&["put", "FILE", "j", "deep", &value]).fails(2, "invalid");
        }
    }
    let base64 = "W1tb".repeat(43) + &"XV1d".repeat(43);
    place
        .json(&["put", "FILE", "j", "deep", &base64, "--base64"])
        .fails(2, "invalid");
    place.json(&["get", "FILE", "j", "deep"]).fails(4, "no_record");

    let store = Store::open(&place.file).expect("the store");
    let table: Table<str, serde_json::Value, sprag::Stateless, Json> = Table::new("j");
    for (key, text) in [("arrays", &deepest), ("objects", &in_objects), ("wide", &wide)] {
        let record = store
            .get(table, key)
            .expect("a value that can be read")
            .expect("a record");
        assert_eq!(record.value.to_string(), **text);
    }
}

/// Only a text that is a flag of the command must stand behind `--`.
#[test]
fn a_text_may_begin_with_a_hyphen() {
    let place = Place::with_store();
    for text in ["-x", "--foo", "-hello", "-5", "-", "--if-absnt"] {
        let quoted = format!("\"{text}\"");
        for (key, args) in [("after", ["--text", text]), ("before", [text, "--text"])] {
            let key = format!("{key} {text}");
            let put = [&["put", "FILE", "texts", &key][..], &args].concat();
            place.run(&put).says("applied version=1");
            place.run(&["get", "FILE", "texts", &key]).says(&quoted);
        }
    }
    place
        .run(&["put", "FILE", "texts", "flag", "--text", "--", "--if-absent"])
        .says("applied version=1");
    place.run(&["get", "FILE", "texts", "flag"]).says("\"--if-absent\"");
    // A slip in the name of a flag is still told of, and is no value.
    place
        .json(&["put", "FILE", "texts", "slip", "1", "--if-absnt"])
        .fails(2, "usage");
    place
        .json(&["put", "FILE", "texts", "slip", "--if-absnt", "1"])
        .fails(2, "usage");
    place
        .json(&["put", "FILE", "texts", "slip", "--if-absnt"])
        .fails(2, "invalid");
    place.json(&["get", "FILE", "texts", "slip"]).fails(4, "no_record");
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

/// A list that leaves out what can come is worse than none.
#[test]
fn the_help_tells_every_kind_of_error_and_every_field() {
    let place = Place::with_store();
    let help = place.run(&["help"]).out;
    assert_eq!(help, place.run(&["--help"]).out);
    for kind in [
        "usage",
        "invalid",
        "too_large",
        "conflict",
        "refused",
        "mismatch",
        "too_old",
        "not_found",
        "no_table",
        "no_record",
        "no_machine",
        "no_queue",
        "no_message",
        "stale",
        "busy",
        "not_a_store",
        "newer_format",
        "corrupt",
        "schema",
        "decode",
        "full",
        "read_only",
        "io",
        "closed",
        "in_doubt",
        "unknown",
    ] {
        let words: BTreeSet<&str> = help
            .split(|character: char| !(character.is_alphanumeric() || character == '_'))
            .collect();
        assert!(words.contains(kind), "{kind} is not in the help");
    }
    put_order(&place);
    let once = ["put", "FILE", "users", "ada", "1", "--once", "s/k", "--keep", "1h"];
    let other = place.path("other.sprag");
    let answers = [
        place.json(&["init", other.to_str().expect("a path of text")]),
        place.json(&once),
        place.json(&once),
        place.json(&["put", "FILE", "users", "ada", "2", "--if-absent"]),
        place.json(&["put", "FILE", "users", "bob", "2", "--once", "s/k", "--keep", "1h"]),
        place.json(&["get", "FILE", "users", "ada"]),
        place.json(&["scan", "FILE", "users"]),
        place.json(&["tables", "FILE"]),
        place.json(&["machine", "FILE", "orders", "--dot"]),
        place.json(&["keys", "FILE"]),
        place.json(&["stats", "FILE"]),
        place.json(&["check", "FILE"]),
        place.json(&["man"]),
        place.json(&["completions", "zsh"]),
        place.json(&["forget", "FILE", "s/k"]),
        place.json(&["sweep", "FILE"]),
        place.json(&["delete", "FILE", "users", "ada"]),
        place.json(&["clock", "reset", "FILE"]),
    ];
    for answer in answers {
        let text = format!("{}{}", answer.out, answer.err);
        let first = text.lines().next().unwrap_or_default();
        let object: serde_json::Value = serde_json::from_str(first).unwrap_or_else(|_| panic!("{answer:?}"));
        for field in fields(&object) {
            assert!(
                help.contains(&format!("\"{field}\":")),
                "{field} is not in the help, {answer:?}"
            );
        }
    }
}

fn put_order(place: &Place) {
    let store = Store::open(&place.file).expect("the store");
    let orders = Table::<u64, u64, Order>::new("orders");
    store.put(orders, &1, &1).expect("a put");
    store.close().expect("closed");
}

/// The names of all fields, also of those inside.
fn fields(value: &serde_json::Value) -> BTreeSet<String> {
    match value {
        serde_json::Value::Object(object) => {
            let inner = object.values().flat_map(fields);
            inner.chain(object.keys().cloned()).collect()
        }
        serde_json::Value::Array(values) => values.iter().flat_map(fields).collect(),
        _ => BTreeSet::new(),
    }
}

/// What only a reader of the help can know.
#[test]
fn the_help_says_what_is_not_checked_and_what_is_not_there() {
    let place = Place::new();
    let says = |args: &[&str], words: &[&str]| {
        let out = place.run(args).out;
        // The width of lines is nobody's business.
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(out.contains(word), "{args:?} does not say {word:?}: {out}");
        }
    };
    says(
        &["help", "put"],
        &[
            "The type of the value is not checked",
            "nothing checks them",
            "(a\\,b,7)",
            "made by programs only",
            "--keep is not part of it",
            "A condition that does not hold is not remembered",
            "a pipe that nobody closes is waited for",
            "@PATH or stdin cannot be read",
            "behind --",
        ],
    );
    says(&["help", "delete"], &["Where it could be late, use --once"]);
    says(
        &["help", "transition"],
        &[
            "In others use --once",
            "late ",
            "early ",
            "either ",
            "no path ",
            "no state ",
        ],
    );
    says(&["help", "clock"], &["Exit codes: 0 applied"]);
    says(
        &["help", "scan"],
        &[
            "All lines are of one moment",
            "the lines before it stand, and the error names it",
            "--from=-KEY",
            "Numbers have no prefix",
            "--to stops before its key",
        ],
    );
    says(
        &["help", "keys"],
        &["left_ns is null for ever", "hex: and two digits a byte"],
    );
    says(&["help", "forget"], &["The next delivery of that operation runs"]);
    says(
        &["help", "sweep"],
        &["the file need not become shorter", "Nobody need call this"],
    );
    says(&["help", "demo"], &["It stays; remove it when you have looked"]);
    says(&["help"], &["(>&-) counts as /dev/null"]);
}
