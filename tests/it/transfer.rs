//! Export and import: nothing is lost on the way, a repeat changes nothing, and what is no whole export is found.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sprag::{
    Error, ErrorKind, Imported, Json, Keep, Keys, ManualClock, Once, OnceKey, Options, Stateless, Store, Table,
};

use crate::common::{folder, kind_of, names_in, small, small_with, tables, text_of};
use crate::furnished::{self, BALANCES, ORDERS, Order, Reading, SIGNED, USERS};
use crate::random::{Random, seed};

fn exported(store: &Store) -> String {
    let mut out = Vec::new();
    store.export(&mut out).expect("exported");
    String::from_utf8(out).expect("text")
}

fn import(store: &Store, lines: &str) -> Result<Imported, Error> {
    store.import(lines.as_bytes())
}

fn furnished_store(clock: &ManualClock) -> Store {
    let store = small_with(clock).in_memory().expect("a store");
    furnished::fill(&store);
    // Some of the remembered keys are over by now.
    clock.advance(Duration::from_secs(1800));
    store
}

/// Every entry but remembered keys, whose ends are counted on each store's own time, and the last fence, which is far above.
fn entries(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = store.entries().expect("readable");
    entries
        .into_iter()
        .filter(|(key, _)| key[0] != 2 && *key != [0, b'f'])
        .collect()
}

/// Name, first delivery, binding, result and what is left of every remembered key, without the position of an import.
fn remembered(store: &Store) -> Vec<String> {
    let all = store.read(|tx| tx.remembered_keys(None)?.collect::<Result<Vec<_>, Error>>());
    let all = all
        .expect("readable")
        .into_iter()
        .filter(|entry| entry.scope != "sprag.import");
    all.map(|entry| {
        let kept = &entry.remembered;
        let (first, bound, left) = (kept.first_at(), kept.fingerprint(), kept.left());
        format!(
            "{}/{:?} {first:?} {bound:?} {left:?} {:?}",
            entry.scope,
            entry.key,
            kept.result_bytes()
        )
    })
    .collect()
}

/// What both exports must have in common: all but who is exported and what hangs on it.
fn body(lines: &str) -> Vec<&str> {
    let mut body: Vec<&str> = lines.lines().skip(1).collect();
    body.pop();
    body
}

/// The lines with an end that fits them.
fn ended(lines: &[&str]) -> String {
    let mut text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    let digest = blake3::hash(text.as_bytes());
    text.push_str(&format!(
        "{{\"line\":\"end\",\"lines\":{},\"digest\":\"{digest}\"}}\n",
        lines.len()
    ));
    text
}

#[test]
fn an_import_of_an_export_holds_every_entry_and_exports_the_same() {
    let clock = ManualClock::new();
    let store = furnished_store(&clock);
    let lines = exported(&store);
    let header: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    let records = lines
        .lines()
        .filter(|line| line.starts_with("{\"line\":\"record\""))
        .count();
    let keys = lines
        .lines()
        .filter(|line| line.starts_with("{\"line\":\"remembered_key\""))
        .count();
    assert_eq!(header["line"], "sprag export");
    assert_eq!(header["sequence"], store.stats().expect("figures").sequence);
    assert_eq!(
        (header["tables"].as_u64(), header["records"].as_u64()),
        (Some(6), Some(records as u64))
    );
    assert_eq!(
        (header["remembered_keys"].as_u64(), keys),
        (Some(40), 40),
        "20 of 60 are over"
    );

    // The other clock has stood still, so nothing ages on the way.
    let other = small_with(&ManualClock::new()).in_memory().expect("a store");
    let imported = import(&other, &lines).expect("imported");
    assert_eq!(
        (imported.tables, imported.records, imported.remembered_keys),
        (6, records as u64, 40)
    );
    assert_eq!(
        (imported.lines_before, imported.lines),
        (0, lines.lines().count() as u64)
    );
    assert_eq!(entries(&other), entries(&store));
    assert_eq!(remembered(&other), remembered(&store));
    assert_eq!(tables(&other), tables(&store));
    assert_eq!(body(&exported(&other)), body(&lines));

    // Numbers, states and versions as a program sees them.
    let ada = other.get(USERS, "ada \n lovelace").expect("readable").expect("there");
    assert_eq!((ada.value.count, ada.value.degrees), (u64::MAX, 0.1 + 0.2));
    assert!(
        other
            .get(SIGNED, &i64::MIN)
            .expect("readable")
            .expect("there")
            .value
            .is_nan()
    );
    let zero = other.get(SIGNED, &-1).expect("readable").expect("there").value;
    assert_eq!(zero.to_bits(), (-0.0f64).to_bits());
    let balance = other.get(BALANCES, &51).expect("readable").expect("there");
    assert_eq!((balance.value, balance.version.get()), (141, 7));
    assert_eq!(
        other.put(BALANCES, &0, &1).expect("written").get(),
        2,
        "above what was removed"
    );
    let packed = other
        .read(|tx| tx.count_in_state(ORDERS, Order::Packed))
        .expect("readable");
    assert_eq!(packed, 20);
    let repeat = other.once(
        &OnceKey::new("payments", 0u64.to_le_bytes(), Keep::Forever).bound_to("0"),
        |_| Ok::<u64, Error>(99),
    );
    assert!(matches!(repeat.expect("answered"), Once::Repeat { result: 2, .. }));
}

#[test]
fn an_import_that_is_repeated_after_its_end_changes_nothing() {
    let clock = ManualClock::new();
    let lines = exported(&furnished_store(&clock));
    let store = small_with(&clock).in_memory().expect("a store");
    import(&store, &lines).expect("imported");
    // Also if the store has moved on.
    store.put(BALANCES, &51, &0).expect("written");
    store.delete(BALANCES, &100).expect("deleted");
    let (before, sequence) = (
        store.entries().expect("readable"),
        store.stats().expect("figures").sequence,
    );
    let again = import(&store, &lines).expect("imported before");
    assert_eq!(again.lines_before, again.lines);
    assert_eq!(
        again.records,
        lines
            .lines()
            .filter(|line| line.contains("\"line\":\"record\""))
            .count() as u64
    );
    assert_eq!(store.entries().expect("readable"), before);
    assert_eq!(store.stats().expect("figures").sequence, sequence);
}

/// The input ends, or the store fails, behind each page: a call with the whole input goes on there.
#[test]
fn an_import_that_stops_anywhere_goes_on_with_the_same_input() {
    let mut random = Random::new(seed());
    let clock = ManualClock::new();
    let source = furnished_store(&clock);
    let lines = exported(&source);
    let count = lines.lines().count() as u64;
    let mut partly = 0;
    for round in 0..40 {
        let store = small_with(&ManualClock::new()).in_memory().expect("a store");
        let mut taken = BTreeSet::new();
        for _ in 0..3 {
            let cut = random.below(lines.len() as u64 - 1) as usize;
            let Some(head) = lines.get(..cut) else { continue };
            let error = import(&store, head).expect_err("it is cut");
            // A cut before what is in already is another input.
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            taken.insert(entries(&store).len());
        }
        partly += u64::from(taken.iter().any(|len| *len > 0));
        let imported = import(&store, &lines).expect("imported");
        assert_eq!(imported.lines, count, "round {round}");
        assert!(imported.lines_before < count);
        assert_eq!(entries(&store), entries(&source), "round {round}");
        assert_eq!(remembered(&store), remembered(&source), "round {round}");
    }
    assert!(partly > 20, "something was taken in before the cut, rounds={partly}");
}

/// What is in stays as it is, and goes on only with the very lines that are in.
#[test]
fn another_input_does_not_go_on_where_one_was_stopped() {
    let clock = ManualClock::new();
    let lines = exported(&furnished_store(&clock));
    let store = small_with(&clock).in_memory().expect("a store");
    let cut = lines.len() * 2 / 3;
    assert_eq!(kind_of(import(&store, &lines[..cut])), ErrorKind::Invalid);
    let before = store.entries().expect("readable");
    assert!(before.len() > 100, "some of it is in");

    let changed = lines.replacen("\"version\":1,", "\"version\":2,", 1);
    let text = text_of(ErrorKind::Invalid, import(&store, &changed));
    assert!(text.contains("not the one whose import was begun"), "{text}");
    let other = exported(&furnished_store(&ManualClock::new()));
    let text = text_of(ErrorKind::Invalid, import(&store, &other));
    assert!(text.contains("the import of another input"), "{text}");
    assert_eq!(store.entries().expect("readable"), before);
    import(&store, &lines).expect("imported");
}

#[test]
fn a_store_that_holds_something_takes_no_import() {
    let lines = exported(&furnished_store(&ManualClock::new()));
    let with_table = small().in_memory().expect("a store");
    with_table.put(BALANCES, &1, &1).expect("written");
    with_table.delete(BALANCES, &1).expect("deleted");
    let with_key = small().in_memory().expect("a store");
    let key = OnceKey::new("s", "k", Keep::Forever);
    with_key.once(&key, |_| Ok::<_, Error>(())).expect("done");
    for store in [with_table, with_key] {
        let before = store.entries().expect("readable");
        let text = text_of(ErrorKind::Invalid, import(&store, &lines));
        assert!(text.contains("the store is not empty"), "{text}");
        assert_eq!(store.entries().expect("readable"), before);
    }
    let store = small().in_memory().expect("a store");
    let inside = store.write(|_| import(&store, &lines));
    assert_eq!(kind_of(inside), ErrorKind::Invalid);
}

/// Somebody writes to the store while an import is stopped: what they wrote stays, and the import says where it met it.
#[test]
fn an_import_does_not_write_over_what_somebody_else_wrote() {
    let clock = ManualClock::new();
    let lines = exported(&furnished_store(&clock));
    let store = small_with(&clock).in_memory().expect("a store");
    let orders = lines.find("\"table\":\"orders\"").expect("the orders");
    assert_eq!(kind_of(import(&store, &lines[..orders])), ErrorKind::Invalid);
    let info = store
        .read(|tx| tx.table("orders"))
        .expect("readable")
        .expect("described");
    assert_eq!(
        info.machine().map(|machine| machine.name().to_owned()),
        Some("orders".to_owned())
    );
    store.put(ORDERS, &7, &"mine".to_owned()).expect("written");
    let text = text_of(ErrorKind::Invalid, import(&store, &lines));
    assert!(text.contains("the store has the record already"), "{text}");
    let line = 1 + lines
        .lines()
        .position(|line| line.contains("\"table\":\"orders\",\"key\":7,"))
        .expect("its line");
    assert!(text.contains(&format!("line={line}")), "{text}");
    let mine = store.get(ORDERS, &7).expect("readable").expect("there");
    assert_eq!((mine.value.as_str(), mine.version.get()), ("mine", 1));
}

#[test]
fn an_export_that_is_cut_or_changed_anywhere_is_not_taken_for_whole() {
    let mut random = Random::new(seed());
    let clock = ManualClock::new();
    let lines = exported(&furnished_store(&clock));
    let fails = |lines: &[u8], what: &str| {
        let store = small_with(&ManualClock::new()).in_memory().expect("a store");
        let error = store.import(lines).expect_err(what);
        let kinds = [
            ErrorKind::Invalid,
            ErrorKind::NewerFormat,
            ErrorKind::TooLarge,
            ErrorKind::Decode,
        ];
        assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
    };
    for _ in 0..60 {
        let cut = random.below(lines.len() as u64 - 1) as usize;
        fails(&lines.as_bytes()[..cut], &format!("cut at {cut}"));
        let mut changed = lines.clone().into_bytes();
        let at = random.below(changed.len() as u64) as usize;
        changed[at] ^= 1 << random.below(7);
        fails(&changed, &format!("changed at {at}"));
    }
    // A line that is gone, twice there, or in another place.
    let all: Vec<&str> = lines.lines().collect();
    for at in [1, 20, all.len() - 2, all.len() - 1] {
        let mut fewer = all.clone();
        fewer.remove(at);
        fails(fewer.join("\n").as_bytes(), &format!("without line {at}"));
        let mut more = all.clone();
        more.insert(at, all[at]);
        fails(more.join("\n").as_bytes(), &format!("twice line {at}"));
    }
    fails(format!("{lines}\n").as_bytes(), "something behind it");
    fails(b"", "nothing");
    fails(b"{\"balance\":140}\n", "other JSON");
}

/// Lines with a digest of their own: written by hand, or by somebody else's program.
#[test]
fn a_line_that_no_export_has_is_refused_by_its_number() {
    let header = |tables: u64, records: u64, keys: u64| {
        format!(
            "{{\"line\":\"sprag export\",\"form\":1,\"store\":\"{}\",\"sequence\":1,\"tables\":{tables},\"records\":{records},\"remembered_keys\":{keys}}}",
            "0".repeat(32)
        )
    };
    let table = r#"{"line":"table","name":"t","shape":{"key":"u64","codec":"json","schema":0,"machine":null},"highest_removed":0}"#;
    let record = |fields: &str| format!(r#"{{"line":"record","table":"t",{fields}}}"#);
    let key = |fields: &str| format!(r#"{{"line":"remembered_key",{fields}}}"#);
    let outcome = |line: &str| {
        let (records, keys) = (
            u64::from(line.contains("\"record\"")),
            u64::from(line.contains("remembered_key")),
        );
        let tables = 1 + u64::from(line.contains("\"line\":\"table\""));
        let store = small().in_memory().expect("a store");
        import(&store, &ended(&[&header(tables, records, keys), table, line]))
    };
    let good = [
        record(r#""key":1,"version":3,"state":null,"value":null"#),
        record(r#""key":"1","version":18446744073709551615,"state":null,"value":[1.50]"#),
        record(r#""key":1,"version":3,"state":null,"raw":"/w==""#),
        key(
            r#""scope":"s","key":"hex:00","first_ns":-1,"left_ns":18446744073709551615,"fingerprint":null,"result":"""#,
        ),
    ];
    for line in good {
        outcome(&line).expect(&line);
    }
    let bad = [
        record(r#""key":1,"version":0,"state":null,"value":1"#),
        record(r#""key":-1,"version":1,"state":null,"value":1"#),
        record(r#""key":1.5,"version":1,"state":null,"value":1"#),
        record(r#""key":1,"version":1,"state":"new","value":1"#),
        record(r#""key":1,"version":1,"state":null"#),
        record(r#""key":1,"version":1,"state":null,"value":1,"raw":"AA==""#),
        record(r#""key":1,"version":1,"state":null,"raw":"?""#),
        record(r#""key":1,"version":1,"state":null,"value":1,"more":1"#),
        r#"{"line":"record","table":"u","key":1,"version":1,"state":null,"value":1}"#.to_owned(),
        r#"{"line":"table","name":"u","shape":{"key":"u64","codec":"json"},"highest_removed":0}"#.to_owned(),
        r#"{"line":"table","name":"","shape":{"key":"u64","codec":"json","schema":0,"machine":null},"highest_removed":0}"#.to_owned(),
        r#"{"line":"table","name":"u","shape":{"key":"u64","codec":"xml","schema":0,"machine":null},"highest_removed":0}"#.to_owned(),
        table.to_owned(),
        key(r#""scope":"a/b","key":"k","first_ns":0,"left_ns":1,"fingerprint":null,"result":"""#),
        key(r#""scope":"s","key":"","first_ns":0,"left_ns":1,"fingerprint":null,"result":"""#),
        key(r#""scope":"s","key":"hex:0","first_ns":0,"left_ns":1,"fingerprint":null,"result":"""#),
        key(r#""scope":"s","key":"k","first_ns":0,"left_ns":-1,"fingerprint":null,"result":"""#),
        key(r#""scope":"s","key":"k","first_ns":0,"left_ns":1,"fingerprint":"00","result":"""#),
        r#"{"line":"poem"}"#.to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        "{".to_owned(),
    ];
    for line in bad {
        let text = text_of(ErrorKind::Invalid, outcome(&line));
        assert!(text.contains("line=3"), "{line}: {text}");
    }
    let store = small().in_memory().expect("a store");
    let newer = header(0, 0, 0).replace("\"form\":1", "\"form\":2,\"news\":[]");
    assert_eq!(kind_of(import(&store, &ended(&[&newer]))), ErrorKind::NewerFormat);
    let long = record(&format!(
        r#""key":1,"version":1,"state":null,"value":"{}""#,
        "x".repeat(9000)
    ));
    let text = text_of(ErrorKind::TooLarge, outcome(&long));
    assert!(text.contains("line=3") || text.contains("line=2"), "{text}");
    import(&store, &ended(&[&header(0, 0, 0)])).expect("an empty export is one");
}

/// What a table of JSON values holds that is no JSON as its codec writes it, and a key that is kept for longer than for ever.
#[test]
fn bytes_that_are_no_compact_json_come_back_as_they_are() {
    const TEXTS: Table<u64, Value, Stateless, Json> = Table::new("texts");
    let store = small().in_memory().expect("a store");
    store.put(TEXTS, &0, &Value::Null).expect("written");
    let info = store.read(|tx| tx.table("texts")).expect("readable").expect("there");
    let odd: [&[u8]; 4] = [b"{ }", b"no json", &[0xFF, 0], b""];
    for (key, bytes) in (1..).zip(odd) {
        let key = sprag::DynKey::U64(key);
        store.put(&info.open(), &key, &bytes.to_vec()).expect("written");
    }
    let other = small().in_memory().expect("a store");
    let lines = exported(&store);
    import(&other, &lines).expect("imported");
    assert_eq!(entries(&other), entries(&store));
    assert_eq!(
        other.get(TEXTS, &0).expect("readable").expect("there").value,
        Value::Null
    );
    assert!(lines.contains("\"raw\":\"eyB9\""), "{lines}");
}

#[test]
fn a_table_that_is_being_migrated_is_not_exported() {
    const OLD: Table<u64, u64> = Table::new("counts");
    const NEW: Table<u64, u64> = Table::new("counts").schema(1);
    let store = small().in_memory().expect("a store");
    for key in 0..600 {
        store.put(OLD, &key, &key).expect("written");
    }
    let mut runs = 0;
    let stopped = store.migrate(OLD, NEW, |_, record| {
        runs += 1;
        if runs > 600 + 300 {
            return Err(store.get(BALANCES, &1).expect_err("inside a migration"));
        }
        Ok((record.value, ()))
    });
    stopped.expect_err("stopped in the middle");
    let text = text_of(ErrorKind::Schema, store.export(&mut Vec::new()));
    assert!(text.contains("table=counts"), "{text}");
    store
        .migrate(OLD, NEW, |_, record| Ok::<_, Error>((record.value, ())))
        .expect("migrated");
    let other = small().in_memory().expect("a store");
    import(&other, &exported(&store)).expect("imported");
    assert_eq!(entries(&other), entries(&store));
}

/// An output that refuses: the error is that of the output, and the store is none the worse.
#[test]
fn an_output_that_is_full_makes_the_export_fail() {
    let store = furnished_store(&ManualClock::new());
    let mut room = [0; 1000];
    assert_eq!(kind_of(store.export(&mut room[..])), ErrorKind::Io);
    let read = store.read(|tx| Ok::<_, Error>(tx.scan(USERS, Keys::all())?.count()));
    assert_eq!(read.expect("readable"), 2);
    let record: Reading = store.get(USERS, "").expect("readable").expect("there").value;
    assert_eq!(record.count, 1 << 53 | 1);
}

fn command(args: &[&str], path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprag"));
    command.arg(args[0]).arg(path).args(&args[1..]);
    command
}

/// Gives the child a part of the lines, and kills it where that ends.
fn killed_after(child: &mut Child, lines: &[u8]) {
    let mut stdin = child.stdin.take().expect("its stdin");
    // It may have found an error before, and hung up.
    let _ = stdin.write_all(lines);
    let _ = stdin.flush();
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
}

/// A process, killed at a moment that nobody chose, and called again with the same lines until it is done.
#[test]
fn an_import_that_is_killed_forty_times_ends_with_every_entry_once() {
    let mut random = Random::new(seed());
    let folder = folder();
    let source = small().in_memory().expect("a store");
    furnished::fill(&source);
    for key in 2000..12_000u64 {
        if key % 100 == 0 {
            let filled =
                source.write(|tx| (key..key + 100).try_for_each(|key| tx.put(BALANCES, &key, &(key as i64)).map(drop)));
            filled.expect("written");
        }
    }
    let lines = exported(&source);
    let (mut kills, mut partly) = (0, 0);
    while kills < 40 {
        let path = folder.path().join(format!("{kills}.sprag"));
        small().create_new(&path).expect("a store").close().expect("closed");
        let mut before = 0;
        for part in 1..=8 {
            let child = command(&["import", "-"], &path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let until = lines.len() * part / 9 + random.below(lines.len() as u64 / 9) as usize;
            killed_after(&mut child.expect("the command starts"), &lines.as_bytes()[..until]);
            kills += 1;
            let store = Store::open(&path).expect("opened after a kill");
            let now = store.entries().expect("readable").len();
            assert!(now >= before, "what was taken in stays");
            partly += u64::from(now > before);
            before = now;
        }
        let input = folder.path().join("lines");
        fs::write(&input, &lines).expect("written");
        let output = command(&["import"], &path).arg(&input).output().expect("it runs");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{:?}", String::from_utf8_lossy(&output.stderr));
        assert!(
            said.starts_with("completed tables=6 ") || said.starts_with("imported tables=6 "),
            "{said}"
        );
        let store = Store::open(&path).expect("it opens");
        assert_eq!(entries(&store), entries(&source));
        store.close().expect("closed");
        let again = command(&["import"], &path).arg(&input).output().expect("it runs");
        let said = String::from_utf8(again.stdout).expect("text");
        assert!(said.starts_with("already imported tables=6 "), "{said}");
        // The command exports what it imported.
        let out = command(&["export"], &path).output().expect("it runs").stdout;
        let out = String::from_utf8(out).expect("text");
        let records = |text: &str| {
            text.lines()
                .filter(|line| line.contains("\"line\":\"record\""))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(records(&out) == records(&lines));
        fs::remove_file(&path).expect("removed");
        fs::remove_file(&input).expect("removed");
    }
    println!("kills={kills} partly={partly}");
    assert!(partly >= 10, "kills hit the work, partly={partly}");
    assert!(names_in(folder.path()).is_empty());
}

/// The log decides how much a commit can take; a page is never more than it.
#[test]
fn pages_fit_the_log_whatever_the_records_are() {
    let source = Options::new().in_memory().expect("a store");
    for (key, bytes) in [1, 3000, 10, 5000, 7000, 7500, 100, 4000]
        .into_iter()
        .cycle()
        .take(64)
        .enumerate()
    {
        let name = format!("{key:0>300}");
        let filled = source.put(Table::<str, Vec<u8>>::new("t"), &name, &vec![7; bytes]);
        filled.expect("written");
    }
    // Commits of at most 8 KiB.
    let store = small().in_memory().expect("a store");
    import(&store, &exported(&source)).expect("imported");
    assert_eq!(entries(&store), entries(&source));
}
