//! Commands that print a line for each thing they find: `scan`, `tables` and `keys`, with `forget` and `sweep`.
//!
//! Field reports: KV-3 (a command ends with 0 although it failed, or prints in halves).

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::Duration;

use sprag::{CodecId, DynKey, DynTable, Error, Json, Keep, KeyKind, Once, OnceKey, Stateless, Store, Table};

use super::{Place, Seen};

const USERS: Table<str, u64, Stateless, Json> = Table::new("users");
const EVENTS: Table<i64, u64, Stateless, Json> = Table::new("events");
const PAIRS: Table<(String, u64), u64> = Table::new("pairs");
const BLOBS: Table<[u8], u64, Stateless, Json> = Table::new("blobs").schema(3);

sprag::machine! {
    /// Where an order stands.
    enum Order: "orders" {
        New = "new",
        Packed = "packed",
        Shipped = "shipped",
    }
    initial New;
    New => Packed;
    Packed => Shipped;
}

const ORDERS: Table<u64, u64, Order> = Table::new("orders");

fn filled() -> Place {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    let filled = store.write(|tx| {
        for key in ["ada", "ann", "anna", "bob", "tab\there", "\u{e4}"] {
            tx.put(USERS, key, &(key.len() as u64))?;
        }
        tx.put(USERS, "bob", &30)?;
        for key in [-20, -3, 0, 7] {
            tx.put(EVENTS, &key, &1)?;
        }
        for (name, number) in [("a,b", 7), ("a", 1), ("a", 300)] {
            tx.put(PAIRS, &(name.to_owned(), number), &300)?;
        }
        for key in [&b"\0\xff"[..], b"plain"] {
            tx.put(BLOBS, key, &1)?;
        }
        for key in 901..=905 {
            tx.put(ORDERS, &key, &key)?;
        }
        for key in [905, 902] {
            tx.transition(ORDERS, &key, Order::New, Order::Packed)?.or_abort()?;
        }
        Ok::<_, Error>(())
    });
    filled.expect("written");
    store.close().expect("closed");
    place
}

/// The lines, exit code 0, and nothing on stderr.
fn prints(place: &Place, args: &[&str], lines: &[&str]) {
    let wanted = Seen {
        code: Some(0),
        out: lines.iter().map(|line| format!("{line}\n")).collect(),
        err: String::new(),
    };
    assert_eq!(place.run(args), wanted, "{args:?}");
}

#[test]
fn a_scan_prints_key_version_state_and_value_in_the_order_of_keys() {
    let place = filled();
    let all = [
        "ada\t1\tnone\t3",
        "ann\t1\tnone\t3",
        "anna\t1\tnone\t4",
        "bob\t2\tnone\t30",
        "tab\\there\t1\tnone\t8",
        "\u{e4}\t1\tnone\t2",
    ];
    prints(&place, &["scan", "FILE", "users"], &all);
    let mut backwards = all;
    backwards.reverse();
    prints(&place, &["scan", "FILE", "users", "--reverse"], &backwards);
    prints(&place, &["scan", "FILE", "users", "--limit", "2"], &all[..2]);
    prints(
        &place,
        &["scan", "FILE", "users", "--limit", "2", "--reverse"],
        &backwards[..2],
    );
    prints(&place, &["scan", "FILE", "users", "--limit", "0"], &[]);
    prints(&place, &["scan", "FILE", "users", "--prefix", "ann"], &all[1..3]);
    prints(&place, &["scan", "FILE", "users", "--prefix", "x"], &[]);
    prints(
        &place,
        &["scan", "FILE", "users", "--from", "ann", "--to", "bob"],
        &all[1..3],
    );
    prints(&place, &["scan", "FILE", "users", "--from", "bob", "--to", "ann"], &[]);
    prints(&place, &["scan", "FILE", "users", "--to=ann"], &all[..1]);
    prints(
        &place,
        &["scan", "FILE", "events", "--from", "-3", "--to", "7"],
        &["-3\t1\tnone\t1", "0\t1\tnone\t1"],
    );
    prints(
        &place,
        &["scan", "FILE", "pairs"],
        &[
            "(a,1)\t1\tnone\t+ywB",
            "(a,300)\t1\tnone\t+ywB",
            "(a\\,b,7)\t1\tnone\t+ywB",
        ],
    );
    prints(
        &place,
        &["scan", "FILE", "pairs", "--prefix", "a", "--reverse", "--limit", "1"],
        &["(a,300)\t1\tnone\t+ywB"],
    );
    prints(
        &place,
        &["scan", "FILE", "blobs", "--prefix", "hex:00"],
        &["hex:00ff\t1\tnone\t1"],
    );
    let lines = [
        "{\"table\":\"events\",\"key\":-20,\"version\":1,\"state\":null,\"value\":1}",
        "{\"table\":\"events\",\"key\":-3,\"version\":1,\"state\":null,\"value\":1}",
    ];
    prints(&place, &["scan", "FILE", "events", "--to", "0", "--json"], &lines);
    prints(
        &place,
        &["scan", "FILE", "users", "--prefix", "tab", "--json"],
        &["{\"table\":\"users\",\"key\":\"tab\\there\",\"version\":1,\"state\":null,\"value\":8}"],
    );
}

#[test]
fn a_scan_finds_the_records_in_a_state() {
    let place = filled();
    let packed = ["902\t2\tpacked\t+4YD", "905\t2\tpacked\t+4kD"];
    prints(&place, &["scan", "FILE", "orders", "--state", "packed"], &packed);
    prints(&place, &["scan", "FILE", "orders", "--state", "shipped"], &[]);
    let from = ["scan", "FILE", "orders", "--state", "packed", "--from", "903"];
    prints(&place, &from, &packed[1..]);
    let last = [
        "scan",
        "FILE",
        "orders",
        "--state",
        "packed",
        "--reverse",
        "--limit",
        "1",
    ];
    prints(&place, &last, &packed[1..]);
    place
        .json(&["scan", "FILE", "orders", "--state", "lost"])
        .fails(2, "invalid");
    place
        .json(&["scan", "FILE", "users", "--state", "new"])
        .fails(2, "invalid");
}

#[test]
fn a_scan_that_makes_no_sense_is_refused_before_anything_is_printed() {
    let place = filled();
    place.json(&["scan", "FILE", "nobody"]).fails(4, "no_table");
    for args in [
        &["scan", "FILE", "events", "--prefix", "1"][..],
        &["scan", "FILE", "events", "--from", "ann"],
        &["scan", "FILE", "pairs", "--to", "a"],
        &["scan", "FILE", "blobs", "--prefix", "hex:0"],
    ] {
        place.json(args).fails(2, "invalid");
    }
    for args in [
        &["scan", "FILE", "users", "--prefix", "a", "--from", "a"][..],
        &["scan", "FILE", "users", "--prefix", "a", "--to", "a"],
        &["scan", "FILE", "users", "--limit", "-1"],
        &["scan", "FILE", "users", "--limit", "many"],
    ] {
        place.json(args).fails(2, "usage");
    }
}

/// A value may stand on many lines in the file; what is printed never does. `get` as text prints the very bytes.
#[test]
fn a_record_is_one_line_whatever_is_stored() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    let table = DynTable::new("pretty", KeyKind::Str, CodecId::Json);
    let value = b"{\n\t\"a\": \"x\\ny\"\r\n}".to_vec();
    store
        .put(&table, &DynKey::Str("k\u{1b}\nk".to_owned()), &value)
        .expect("a put");
    store.close().expect("closed");
    prints(
        &place,
        &["scan", "FILE", "pretty"],
        &["k\\u{1b}\\nk\t1\tnone\t{  \"a\": \"x\\ny\"  }"],
    );
    let object =
        "{\"table\":\"pretty\",\"key\":\"k\\u001b\\nk\",\"version\":1,\"state\":null,\"value\":{  \"a\": \"x\\ny\"  }}";
    prints(&place, &["scan", "FILE", "pretty", "--json"], &[object]);
    place.json(&["get", "FILE", "pretty", "k\u{1b}\nk"]).says(object);
    place
        .run(&["get", "FILE", "pretty", "k\u{1b}\nk"])
        .says("{\n\t\"a\": \"x\\ny\"\r\n}");
}

/// The lines before it stand, and the error names the record.
#[test]
fn a_record_that_cannot_be_read_ends_a_scan_behind_the_lines_before_it() {
    let place = filled();
    let store = Store::open(&place.file).expect("the store");
    let table = DynTable::new("users", KeyKind::Str, CodecId::Json);
    store
        .put(&table, &DynKey::Str("anna".to_owned()), &b"{\"a\": 1".to_vec())
        .expect("a put");
    store.close().expect("closed");
    let seen = place.json(&["scan", "FILE", "users"]);
    let line = |key| format!("{{\"table\":\"users\",\"key\":\"{key}\",\"version\":1,\"state\":null,\"value\":3}}\n");
    assert_eq!((seen.code, seen.out), (Some(6), line("ada") + &line("ann")));
    let error: serde_json::Value = serde_json::from_str(&seen.err).expect("an object");
    assert_eq!(error["error"]["kind"], "decode");
    assert_eq!(
        error["error"]["message"],
        "cannot read a record, table=\"users\", key=\"anna\""
    );
    let seen = place.run(&["scan", "FILE", "users"]);
    assert_eq!(
        (seen.code, seen.out.as_str()),
        (Some(6), "ada\t1\tnone\t3\nann\t1\tnone\t3\n")
    );
    let first = seen.err.lines().next();
    assert_eq!(
        first,
        Some("sprag: decode: cannot read a record, table=\"users\", key=\"anna\"")
    );
}

/// Many more lines than a pipe holds, of which somebody reads one.
#[test]
fn a_listing_whose_reader_goes_away_exits_7_without_a_panic() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    let filled = store.write(|tx| {
        for key in 0..20_000 {
            tx.put(EVENTS, &key, &1)?;
        }
        for key in 0..3000 {
            let once = OnceKey::new("many", format!("{key:0100}"), Keep::Forever);
            tx.once(&once, |_| Ok::<_, Error>(()))?;
        }
        Ok::<_, Error>(())
    });
    filled.expect("written");
    store.close().expect("closed");
    for (args, first) in [
        (["scan", "FILE", "events"], "0\t1\tnone\t1\n".to_owned()),
        (["keys", "FILE", "--scope=many"], format!("many\t{:0100}\t", 0)),
    ] {
        let mut command = place.command(&args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut line = String::new();
        let mut out = BufReader::with_capacity(512, child.stdout.take().expect("its stdout"));
        out.read_line(&mut line).expect("a line");
        assert!(line.starts_with(&first), "{line:?}");
        drop(out);
        let mut err = String::new();
        let mut stderr = child.stderr.take().expect("its stderr");
        stderr.read_to_string(&mut err).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(7), "{args:?} {err}");
        assert!(
            err.starts_with("sprag: io: cannot write the answer to stdout\n"),
            "{err}"
        );
    }
    // All of it, if somebody reads all of it.
    let seen = place.run(&["scan", "FILE", "events"]);
    assert_eq!(
        (seen.code, seen.out.lines().count(), seen.err.as_str()),
        (Some(0), 20_000, "")
    );
    assert!(seen.out.ends_with("\n19999\t1\tnone\t1\n"));
}

#[test]
fn the_tables_are_printed_with_schema_machine_and_the_records_in_each_state() {
    let place = Place::with_store();
    prints(&place, &["tables", "FILE"], &[]);
    prints(&place, &["tables", "FILE", "--json"], &[]);
    let place = filled();
    let lines = [
        "table \"blobs\" key=bytes codec=json schema=3",
        "table \"events\" key=i64 codec=json schema=0",
        "table \"orders\" key=u64 codec=bincode schema=0 machine=\"orders\" states=\"new\":3,\"packed\":2,\"shipped\":0",
        "table \"pairs\" key=(str,u64) codec=bincode schema=0",
        "table \"users\" key=str codec=json schema=0",
    ];
    prints(&place, &["tables", "FILE"], &lines);
    let stats = place.run(&["stats", "FILE"]).out;
    assert!(stats.ends_with(&format!("\n{}\n", lines.join("\n"))), "{stats}");
    let orders = "{\"name\":\"orders\",\"key\":\"u64\",\"codec\":\"bincode\",\"schema\":0,\"machine\":\"orders\",\
        \"states\":[{\"state\":\"new\",\"records\":3},{\"state\":\"packed\",\"records\":2},{\"state\":\"shipped\",\"records\":0}]}";
    let seen = place.json(&["tables", "FILE"]);
    assert_eq!(seen.out.lines().nth(2), Some(orders), "{seen:?}");
    assert_eq!(
        seen.out.lines().next(),
        Some("{\"name\":\"blobs\",\"key\":\"bytes\",\"codec\":\"json\",\"schema\":3,\"machine\":null,\"states\":[]}")
    );
    let stats: serde_json::Value = serde_json::from_str(&place.json(&["stats", "FILE"]).out).expect("an object");
    let orders: serde_json::Value = serde_json::from_str(orders).expect("an object");
    assert_eq!(stats["tables"][2], orders);
}

#[test]
fn a_table_that_is_being_migrated_is_told_as_such_and_hides_no_other() {
    let place = filled();
    let store = Store::open(&place.file).expect("the store");
    let filled = store.write(|tx| (1000..1600).try_for_each(|key| tx.put(ORDERS, &key, &1).map(drop)));
    filled.expect("written");
    let mut calls = 0;
    let stopped = store.migrate(ORDERS, ORDERS.schema(1), |key, record| {
        calls += 1;
        if calls > 605 + 300 {
            store.put(USERS, "inside", key)?;
        }
        Ok::<_, Error>((record.value, record.state))
    });
    assert_eq!(stopped.map_err(|cause| cause.kind()), Err(sprag::ErrorKind::Invalid));
    store.close().expect("closed");
    let line = "table \"orders\" key=u64 codec=bincode schema=0 machine=\"orders\" states= migrating_to=1";
    for command in ["tables", "stats"] {
        let seen = place.run(&[command, "FILE"]);
        assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{seen:?}");
        let tables: Vec<_> = seen.out.lines().filter(|line| line.starts_with("table ")).collect();
        assert_eq!((tables.len(), tables[2]), (5, line));
    }
    let object = "{\"name\":\"orders\",\"key\":\"u64\",\"codec\":\"bincode\",\"schema\":0,\"machine\":\"orders\",\
        \"states\":[],\"migrating_to\":1}";
    assert_eq!(place.json(&["tables", "FILE"]).out.lines().nth(2), Some(object));
    place.json(&["scan", "FILE", "orders"]).fails(6, "schema");
}

/// A line without its times, which are those of the machine.
fn timeless(line: &str) -> String {
    let parts: Vec<&str> = line.split('\t').collect();
    let [scope, key, first_at, left] = parts[..] else {
        panic!("{line:?}")
    };
    assert!(first_at.starts_with("20") && first_at.ends_with('Z'), "{line:?}");
    let left = if left == "forever" { left } else { "limited" };
    format!("{scope} {key} {left}")
}

#[test]
fn keys_lists_what_is_remembered_and_forget_takes_what_it_prints() {
    let place = Place::with_store();
    prints(&place, &["keys", "FILE"], &[]);
    let put = |once: &str, keep: &str| {
        let seen = place.run(&["put", "FILE", "users", once, "1", "--once", once, "--keep", keep]);
        assert_eq!(seen.code, Some(0), "{seen:?}");
    };
    put("payments/evt-1/2", "7d");
    put("import/\u{e4}", "forever");
    put("import/hex:00ff", "1h");
    put("import/gone", "1ms");
    let seen = place.run(&["keys", "FILE"]);
    let lines: Vec<_> = seen.out.lines().map(timeless).collect();
    let wanted = [
        "import hex:00ff limited",
        "import hex:c3a4 forever",
        "payments evt-1/2 limited",
    ];
    assert_eq!((seen.code, lines), (Some(0), wanted.map(str::to_owned).to_vec()));
    let week = seen.out.lines().nth(2).and_then(|line| line.rsplit('\t').next());
    // Whole seconds of what is left at least.
    assert_eq!(
        week.map(|week| week.starts_with("6days 23h 59m ")),
        Some(true),
        "{week:?}"
    );
    let seen = place.run(&["keys", "FILE", "--scope", "payments"]);
    assert_eq!(seen.out.lines().map(timeless).collect::<Vec<_>>(), wanted[2..]);
    prints(&place, &["keys", "FILE", "--scope", "nobody"], &[]);
    place.json(&["keys", "FILE", "--scope", "no scope"]).fails(2, "invalid");

    let objects = place.json(&["keys", "FILE"]).out;
    let objects: Vec<serde_json::Value> = objects
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert_eq!(objects.len(), 3);
    assert_eq!(
        (&objects[1]["key"], &objects[1]["left_ns"]),
        (&"hex:c3a4".into(), &serde_json::Value::Null)
    );
    let left = objects[0]["left_ns"].as_u64().expect("a number");
    assert!(left <= 3_600_000_000_000 && left > 3_000_000_000_000, "{left}");

    place.run(&["forget", "FILE", "import/hex:c3a4"]).says("applied");
    place.run(&["forget", "FILE", "import/hex:c3a4"]).says("already gone");
    place
        .json(&["forget", "FILE", "import/gone"])
        .says("{\"outcome\":\"already gone\"}");
    place
        .json(&["forget", "FILE", "payments/evt-1/2"])
        .says("{\"outcome\":\"applied\"}");
    // Now its operation runs again.
    place
        .run(&["put", "FILE", "users", "payments/evt-1/2", "2"])
        .says("applied version=2");
    let again = [
        "put",
        "FILE",
        "users",
        "payments/evt-1/2",
        "1",
        "--once",
        "payments/evt-1/2",
        "--keep",
        "7d",
    ];
    place.run(&again).says("applied version=3");
    for refused in ["import/", &format!("import/{}", "k".repeat(256)), "no scope/k", "/k"] {
        place.json(&["forget", "FILE", refused]).fails(2, "invalid");
    }
    for refused in ["import", "import/hex:0"] {
        place.json(&["forget", "FILE", refused]).fails(2, "usage");
    }
}

#[test]
fn sweep_frees_the_keys_that_are_over_and_counts_them() {
    let place = Place::with_store();
    // Not closed: that would be a checkpoint, which frees them too.
    let store = Store::open(&place.file).expect("the store");
    let keeps = [1, 1, 3_600_000].map(Duration::from_millis).map(Keep::For);
    for (number, keep) in keeps.into_iter().chain([Keep::Forever]).enumerate() {
        let key = OnceKey::new("s", number.to_string(), keep);
        let first = store.once(&key, |_| Ok::<_, sprag::Error>(()));
        assert!(matches!(first, Ok(Once::First(()))), "{first:?}");
    }
    drop(store);
    place.run(&["sweep", "FILE"]).says("applied keys=2");
    place
        .json(&["sweep", "FILE"])
        .says("{\"outcome\":\"applied\",\"keys\":0}");
    let left: Vec<_> = place.run(&["keys", "FILE"]).out.lines().map(timeless).collect();
    assert_eq!(left, ["s 2 limited", "s 3 forever"]);
}
