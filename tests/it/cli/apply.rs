//! `apply`: batches from files and pipes; the same batches through the library answer and store the same.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sprag::{
    Batch, Condition, Json, Keep, Keys, ManualClock, OnceKey, Options, Outcome, Stateless, Store, Table, Verdict,
};

use super::{Place, messages};
use crate::common::{queues, tables};
use crate::random::{Random, seed};

sprag::machine! {
    enum Stage: "stages" { New = "new", Packed = "packed", Shipped = "shipped" }
    initial New;
    New => Packed, Shipped;
    Packed => Shipped;
}

const ONCE: &str = r#"{"once":{"scope":"payments","key":"evt-1","keep":"7d"},
    "tables":{"balances":{"key":"u64","codec":"json"}},
    "operations":[{"op":"put","table":"balances","key":51,"condition":"absent","value":{"balance": 140}}]}"#;

#[test]
fn a_batch_from_a_pipe_is_applied_once_and_a_repeat_says_so() {
    let place = Place::with_store();
    place
        .run_with_input(&["apply", "FILE"], ONCE.as_bytes())
        .says("applied: holds version=1");
    for args in [&["apply", "FILE"][..], &["apply", "FILE", "-"]] {
        let seen = place.run_with_input(args, ONCE.as_bytes());
        assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{seen:?}");
        let (head, tail) = seen.out.split_once(" first_at=").expect("the time of the first");
        assert!(head == "repeat" && tail.ends_with("Z: holds version=1\n"), "{seen:?}");
    }
    place.run(&["get", "FILE", "balances", "51"]).says(r#"{"balance":140}"#);
    // What put remembers is the batch of one put.
    place
        .run(&["put", "FILE", "users", "ann", "1", "--once", "s/k", "--keep", "7d"])
        .says("applied version=1");
    let batch = r#"{"once":{"scope":"s","key":"k","keep":"1d"},"operations":[{"op":"put","table":"users","key":"ann","value":1}]}"#;
    let seen = place.run_with_input(&["apply", "FILE", "--json"], batch.as_bytes());
    let answer: Value = serde_json::from_str(&seen.out).expect("JSON");
    assert_eq!(
        (&answer["outcome"], &answer["verdicts"]),
        (&json!("repeat"), &json!([{"verdict": "unguarded", "version": 1}]))
    );
}

#[test]
fn each_batch_has_its_line_and_a_rejected_one_does_not_stop_the_others() {
    let place = Place::with_store();
    place
        .run(&["put", "FILE", "users", "ann", "1"])
        .says("applied version=1");
    let lines = concat!(
        r#"{"operations":[{"op":"put","table":"users","key":"ann","condition":{"version":1},"value":2},{"op":"delete","table":"users","key":"bob"}]}"#,
        "\n",
        r#"{"operations":[{"op":"put","table":"users","key":"ann","condition":{"version":1},"value":3},{"op":"check","table":"users","key":"bob","condition":"present"}]}"#,
        "\n",
        "\n",
        r#"{"operations":[{"op":"put","table":"users","key":"ann","value":4},{"op":"check","table":"users","key":"ann","condition":"any"}]}"#,
    );
    std::fs::write(place.path("batches.jsonl"), lines).expect("written");
    let path = place.path("batches.jsonl");
    let path = path.to_str().expect("a text");
    let dry = place.run(&["apply", "FILE", path, "--dry-run"]);
    assert_eq!(
        (dry.code, dry.out.as_str()),
        (
            Some(3),
            "dry run: applied: holds version=2; already\ndry run: rejected: holds version=2; fails found_version=none\ndry run: applied: unguarded version=2; unguarded\n"
        ),
        "{dry:?}"
    );
    place.run(&["get", "FILE", "users", "ann"]).says("1");
    let seen = place.run(&["apply", "FILE", path]);
    assert_eq!(
        (seen.code, seen.out.as_str(), seen.err.as_str()),
        (
            Some(3),
            "applied: holds version=2; already\nrejected: fails found_version=2; fails found_version=none\napplied: unguarded version=3; unguarded\n",
            ""
        )
    );
    let again = place.run(&["apply", "FILE", path, "--json"]);
    assert_eq!(again.code, Some(3));
    let answers: Vec<Value> = again
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let fails = json!({"verdict": "fails", "found": {"version": 3, "state": null}});
    let missing = json!({"verdict": "fails", "found": {"version": null, "state": null}});
    assert_eq!(
        answers,
        [
            json!({"outcome": "rejected", "verdicts": [fails, {"verdict": "already"}]}),
            json!({"outcome": "rejected", "verdicts": [fails, missing]}),
            json!({"outcome": "applied", "verdicts": [{"verdict": "already", "version": 3}, {"verdict": "unguarded"}]}),
        ]
    );
    place.run(&["get", "FILE", "users", "ann"]).says("4");
}

#[test]
fn each_verdict_comes_before_the_next_batch_is_waited_for() {
    let place = Place::with_store();
    place
        .run(&["put", "FILE", "users", "ann", "1"])
        .says("applied version=1");
    let mut command = place.command(&["apply", "FILE"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("its stdin");
    let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
    for version in 2..5 {
        let batch = format!(r#"{{"operations":[{{"op":"put","table":"users","key":"ann","value":{version}}}]}}"#);
        writeln!(input, "{batch}").expect("written");
        let line = lines.next().expect("a line").expect("read");
        assert_eq!(line, format!("applied: unguarded version={version}"));
    }
    drop(input);
    assert!(lines.next().is_none());
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_transition_tells_the_state_found_and_why_it_was_refused() {
    let place = Place::with_store();
    let orders: Table<u64, i64, Stage, Json> = Table::new("orders");
    let store = Store::open(&place.file).expect("opened");
    store.create(orders, 904, Stage::Shipped);
    store.close().expect("closed");
    let batch = r#"{"operations":[{"op":"transition","table":"orders","key":904,"from":"new","to":"packed"}]}"#;
    let seen = place.run_with_input(&["apply", "FILE"], batch.as_bytes());
    assert_eq!(
        (seen.code, seen.out.as_str()),
        (
            Some(3),
            "rejected: fails found_version=1 found_state=shipped why=late\n"
        ),
        "{seen:?}"
    );
}

trait Create {
    fn create(&self, table: Table<u64, i64, Stage, Json>, key: u64, state: Stage);
}

impl Create for Store {
    fn create(&self, table: Table<u64, i64, Stage, Json>, key: u64, state: Stage) {
        let created = self.write(|tx| tx.create(table, &key, &1, &state)?.or_abort());
        created.expect("created");
    }
}

/// What is no batch, the kind of its error, and what that says.
fn bad_batches() -> Vec<(String, &'static str, &'static str)> {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = "x".repeat(10 << 20);
    let users = r#""table":"users","key":"ann""#;
    vec![
        ("{\"operations\":[}".to_owned(), "invalid", "line=2, column=16, batch=1"),
        ("nonsense".to_owned(), "invalid", "line=2, column=2, batch=1"),
        (
            format!(r#"{{"operations":[{{"op":"put",{users},"value":5,"valeu":6}}]}}"#),
            "invalid",
            "not a batch, line=1, column=72, batch=1",
        ),
        (
            format!(r#"{{"operations":[{{"op":"put",{users},"value":5,"condition":7}}]}}"#),
            "invalid",
            "not a batch, line=1, column=78, batch=1",
        ),
        (
            format!(r#"{{"operations":[{{"op":"put",{users},"value":{deep}}}]}}"#),
            "invalid",
            "operation=0, batch=1",
        ),
        (deep.clone(), "invalid", "not a batch, line=1, column=0, batch=1"),
        (
            format!(r#"{{"operations":[{{"op":"put",{users},"value":"{long}"}}]}}"#),
            "too_large",
            "commit too large for the log, bytes=",
        ),
        (
            format!(r#"{{"operations":[{{"op":"put","table":"users","key":"{long}","value":1}}]}}"#),
            "too_large",
            "operation=0, batch=1",
        ),
        (format!(r#"{{"{long}":1}}"#), "invalid", "not a batch, line=1, column="),
        (
            r#"{"operations":[{"op":"put","table":"nobody","key":"ann","value":5}]}"#.to_owned(),
            "invalid",
            "operation=0, batch=1",
        ),
        (r#"{"operations":[]}"#.to_owned(), "invalid", "no operations, batch=1"),
    ]
}

/// What was before it is done, and what stands behind it is not.
#[test]
fn an_error_names_its_batch_and_ends_the_run() {
    let place = Place::with_store();
    place
        .run(&["put", "FILE", "users", "ann", "1"])
        .says("applied version=1");
    let put = |value: u64| format!(r#"{{"operations":[{{"op":"put","table":"users","key":"ann","value":{value}}}]}}"#);
    let bad = bad_batches();
    for (at, (bad, kind, message)) in bad.iter().enumerate() {
        let value = 10 + at as u64;
        let input = format!("{}\n{bad}\n{}\n", put(value), put(99));
        for (flags, out) in [
            (&["apply", "FILE", "--json", "--dry-run"][..], true),
            (&["apply", "FILE", "--json"], false),
        ] {
            let seen = place.run_with_input(flags, input.as_bytes());
            assert_eq!(seen.code, Some(2), "{message} {}", seen.err);
            assert_eq!(seen.out.lines().count(), 1, "the batch before has its line");
            assert_eq!(seen.out.contains("\"dry_run\":true"), out);
            let error: Value = serde_json::from_str(&seen.err).expect("JSON");
            assert_eq!(error["error"]["kind"], *kind, "{}", seen.err);
            let told = error["error"]["message"].as_str().expect("a text");
            assert!(told.contains(message), "{told} instead of {message}");
            assert!(seen.err.len() < 2000, "{} bytes of error", seen.err.len());
        }
        place.run(&["get", "FILE", "users", "ann"]).says(&value.to_string());
    }
    let alone = place.run_with_input(&["apply", "FILE"], bad[2].0.as_bytes());
    assert_eq!((alone.code, alone.out.as_str()), (Some(2), ""));
    assert!(alone.err.contains("line=1, column=72"), "{}", alone.err);
    for nothing in ["", " \n\n"] {
        let seen = place.run_with_input(&["apply", "FILE", "--json"], nothing.as_bytes());
        seen.fails(2, "invalid");
    }
    place
        .json(&["apply", "FILE", "/nonexistent/batch.json"])
        .fails(4, "not_found");
    place
        .run_with_input(&["apply", "other.sprag", "--json"], ONCE.as_bytes())
        .fails(4, "not_found");
}

#[test]
fn a_remembered_key_of_another_batch_is_a_mismatch() {
    let place = Place::with_store();
    place
        .run_with_input(&["apply", "FILE"], ONCE.as_bytes())
        .says("applied: holds version=1");
    let other = ONCE.replace("140", "141");
    let error = place
        .run_with_input(&["apply", "FILE", "--json"], other.as_bytes())
        .fails(3, "mismatch");
    assert!(error["remembered"]["first_at"].is_string(), "{error}");
    place.run(&["get", "FILE", "balances", "51"]).says(r#"{"balance":140}"#);
}

const NUMBERS: Table<u64, i64> = Table::new("numbers");
const NOTES: Table<str, Value, Stateless, Json> = Table::new("notes").schema(2);
const PAIRS: Table<(String, i64), String> = Table::new("pairs");
const ORDERS: Table<i64, Value, Stage, Json> = Table::new("orders");
const BLOBS: Table<[u8], Vec<u8>> = Table::new("blobs");

fn condition(random: &mut Random) -> Condition {
    match random.below(6) {
        0 => Condition::Absent,
        1 => Condition::Present,
        2 | 3 => Condition::Version(1 + random.below(6)),
        _ => Condition::Any,
    }
}

fn stage(random: &mut Random) -> Stage {
    [Stage::New, Stage::Packed, Stage::Shipped][random.below(3) as usize]
}

/// A key that no operation of this batch has written, of a few that meet again and again.
fn free_key(random: &mut Random, taken: &mut BTreeSet<(u64, u64)>, table: u64) -> u64 {
    loop {
        let key = random.below(8);
        if taken.insert((table, key)) {
            return key;
        }
    }
}

/// One operation of any kind on a table of any kind.
fn operation(random: &mut Random, batch: Batch, taken: &mut BTreeSet<(u64, u64)>) -> Batch {
    if random.below(8) == 0 {
        return messages::enqueue(random, batch);
    }
    let table = random.below(5);
    let key = free_key(random, taken, table);
    let condition = condition(random);
    let value = random.below(3);
    let note = json!({"n": value, "t": "a\u{7}\"é", "f": 0.5});
    let pair = (format!("p,{})\\", key / 3), key as i64 - 4);
    let blob = [key as u8, 0, 255];
    let act = random.below(8);
    match (table, act) {
        (3, 0) => batch.create(ORDERS, &(key as i64 - 4), &note, &stage(random)),
        (3, 1..=4) => {
            let moves = [
                (Stage::New, Stage::Packed),
                (Stage::New, Stage::Shipped),
                (Stage::Packed, Stage::Shipped),
            ];
            let (from, to) = moves[random.below(3) as usize];
            match act {
                1 => batch.transition_with(ORDERS, &(key as i64 - 4), from, to, &note),
                _ => batch.transition(ORDERS, &(key as i64 - 4), from, to),
            }
        }
        (0, 0 | 1) => batch.check(NUMBERS, &key, condition),
        (0, 2) => batch.delete_if(NUMBERS, &key, condition),
        (0, _) => batch.put_if(NUMBERS, &key, condition, &(value as i64 - 1)),
        (1, 0) => batch.check(NOTES, &key.to_string(), condition),
        (1, 1) => batch.delete_if(NOTES, &key.to_string(), condition),
        (1, _) => batch.put_if(NOTES, &key.to_string(), condition, &note),
        (2, 0) => batch.check(PAIRS, &pair, condition),
        (2, 1) => batch.delete_if(PAIRS, &pair, condition),
        (2, _) => batch.put_if(PAIRS, &pair, condition, &format!("{value}")),
        (3, 5) => batch.delete_if(ORDERS, &(key as i64 - 4), condition),
        (3, _) => batch.put_if(ORDERS, &(key as i64 - 4), condition, &note),
        (_, 0) => batch.check(BLOBS, &blob, condition),
        (_, 1) => batch.delete_if(BLOBS, &blob, condition),
        (_, _) => batch.put_if(BLOBS, &blob, condition, &vec![value as u8; 3]),
    }
}

/// What the command prints for an outcome.
fn shown(outcome: &Outcome) -> Value {
    let verdicts: Vec<Value> = outcome.verdicts().iter().map(verdict).collect();
    let word = match outcome {
        Outcome::Applied { .. } => "applied",
        Outcome::Already { .. } => "already",
        Outcome::Repeat { .. } => "repeat",
        Outcome::Rejected(_) => "rejected",
    };
    json!({"outcome": word, "verdicts": verdicts})
}

fn verdict(verdict: &Verdict) -> Value {
    let (word, version) = match verdict {
        Verdict::Holds(version) => ("holds", version),
        Verdict::Unguarded(version) => ("unguarded", version),
        Verdict::Already(version) => ("already", version),
        Verdict::Enqueued(id) => return json!({"verdict": "enqueued", "id": id.get()}),
        Verdict::Fails { found, why } => {
            let mut shown = json!({"verdict": "fails", "found": {
                "version": found.version().map(sprag::Version::get), "state": found.state()}});
            if let Some(why) = why {
                shown["why"] = why.name().into();
            }
            return shown;
        }
    };
    match version {
        Some(version) => json!({"verdict": word, "version": version.get()}),
        None => json!({"verdict": word}),
    }
}

/// Everything a program can read of a store.
fn contents(store: &Store, keys: u64) -> Vec<String> {
    let mut all = Vec::new();
    for info in tables(store) {
        all.push(format!("{info:?}"));
        let table = info.open();
        let records = store
            .read(|tx| tx.scan(&table, Keys::all())?.collect::<sprag::Result<Vec<_>>>())
            .expect("readable");
        all.extend(records.iter().map(|record| format!("{} {record:?}", info.name())));
    }
    all.extend(messages::contents(store));
    for key in 0..keys {
        let remembered = store.remembered("random", key.to_string()).expect("readable");
        all.push(format!(
            "{key} {:?}",
            remembered.map(|entry| (entry.fingerprint(), entry.result_bytes().to_vec()))
        ));
    }
    all
}

#[test]
fn random_batches_answer_and_store_the_same_through_the_library_and_through_the_command() {
    const BATCHES: usize = 500;
    let mut random = Random::new(seed());
    let place = Place::with_store();
    let by_library = place.path("library.sprag");
    let store = Store::create_new(&by_library).expect("a store");
    let mut lines = String::new();
    let mut answers = Vec::new();
    let mut sent: Vec<Batch> = Vec::new();
    for number in 0..BATCHES {
        let batch = if !sent.is_empty() && random.below(3) == 0 {
            sent[random.below(sent.len() as u64) as usize].clone()
        } else {
            let mut batch = Batch::new();
            if random.below(2) == 0 {
                batch = batch.once(&OnceKey::new(
                    "random",
                    number.to_string(),
                    Keep::For(Duration::from_secs(86_400)),
                ));
            }
            let mut taken = BTreeSet::new();
            for _ in 0..=random.below(4) {
                batch = operation(&mut random, batch, &mut taken);
            }
            batch
        };
        let mut text = batch.to_json().expect("a batch");
        if random.below(3) == 0 {
            text = undescribed(&text, &store);
        }
        lines.push_str(&text);
        lines.push('\n');
        let tried = store.dry_run(&batch).expect("a dry run");
        let outcome = store.apply(&batch).expect("applied");
        assert_eq!(tried, outcome);
        answers.push(shown(&outcome));
        sent.push(batch);
    }
    let seen = place.run_with_input(&["apply", "FILE", "--json"], lines.as_bytes());
    assert_eq!((seen.code, seen.err.as_str()), (Some(3), ""));
    let told: Vec<Value> = seen
        .out
        .lines()
        .map(|line| {
            let mut answer: Value = serde_json::from_str(line).expect("JSON");
            answer.as_object_mut().expect("an object").remove("first_at");
            answer
        })
        .collect();
    for (number, (told, answer)) in told.iter().zip(&answers).enumerate() {
        assert_eq!(told, answer, "batch {number}");
    }
    assert_eq!(told.len(), BATCHES);
    let count = |word: &str| answers.iter().filter(|answer| answer["outcome"] == word).count();
    for (word, least) in [("applied", 50), ("already", 3), ("repeat", 8), ("rejected", 50)] {
        assert!(count(word) >= least, "{} of {word}", count(word));
    }
    let by_command = Options::new()
        .clock(std::sync::Arc::new(ManualClock::new()))
        .open(&place.file)
        .expect("opened");
    assert_eq!(contents(&by_command, BATCHES as u64), contents(&store, BATCHES as u64));
}

/// The batch without the descriptions of tables that the file has.
fn undescribed(text: &str, store: &Store) -> String {
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    let described = value["tables"].as_object_mut().expect("tables");
    for info in tables(store) {
        described.remove(info.name());
    }
    let described = value.get_mut("queues").and_then(Value::as_object_mut);
    if let Some(described) = described {
        for info in queues(store) {
            described.remove(info.name());
        }
    }
    value.to_string()
}
