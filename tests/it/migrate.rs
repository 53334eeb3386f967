//! Tables that change: every record gets its new value once, or nothing is changed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use sprag::internals::{MigrateVerdict, decide_migrate};
use sprag::testkit::SimDisk;
use sprag::{
    Condition, DynKey, Error, ErrorKind, Json, Keys, Options, Record, Stateless, Store, Table, TableSpec, Version,
};

use crate::common::{at_once, folder, kind_of, shared, small, tables, text_of, version};

const OLD: Table<u64, u64> = Table::new("balances");
const NEW: Table<u64, (u64, String)> = Table::new("balances").schema(1);
const OTHER: Table<u64, u64> = Table::new("other");

#[expect(clippy::unnecessary_wraps, reason = "a migration takes a function that may fail")]
fn with_currency(key: &u64, record: Record<u64>) -> Result<((u64, String), ()), Error> {
    Ok(((record.value * 100, format!("EUR {key}")), ()))
}

/// Key, value, version and state of a record.
type Row<T> = (
    <T as TableSpec>::OwnedKey,
    <T as TableSpec>::Value,
    u64,
    <T as TableSpec>::State,
);

fn records_of<T: TableSpec>(store: &Store, table: T) -> Vec<Row<T>> {
    let scanned = store.read(|tx| tx.scan(table, Keys::all())?.collect::<sprag::Result<Vec<_>>>());
    let scanned = scanned.expect("readable");
    scanned
        .into_iter()
        .map(|(key, record)| (key, record.value, record.version.get(), record.state))
        .collect()
}

/// Puts numbers 0 to `count`, each with ten times its key, in commits of 100.
fn fill(store: &Store, count: u64) {
    for page in 0..count.div_ceil(100) {
        let keys = page * 100..count.min(page * 100 + 100);
        let filled = store.write(|tx| {
            for key in keys {
                tx.put(OLD, &key, &(key * 10))?;
            }
            Ok::<_, Error>(())
        });
        filled.expect("written");
    }
}

fn sequence(store: &Store) -> u64 {
    store.stats().expect("figures").sequence
}

#[test]
fn every_record_gets_its_new_value_and_next_version_and_the_table_its_new_number() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    store.put(OLD, &51, &100).expect("written");
    store.put(OLD, &51, &140).expect("written");
    store.put(OLD, &3, &7).expect("written");
    store.put(OLD, &9, &9).expect("written");
    assert_eq!(store.delete(OLD, &9).expect("removed"), Some(Version::FIRST));
    store.put(OLD, &9, &90).expect("written again");
    assert_eq!(
        records_of(&store, OLD),
        [(3, 7, 1, ()), (9, 90, 2, ()), (51, 140, 2, ())]
    );

    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("migrated"), 3);
    let expected = [
        (3, (700, "EUR 3".to_owned()), 2, ()),
        (9, (9000, "EUR 9".to_owned()), 3, ()),
        (51, (14_000, "EUR 51".to_owned()), 3, ()),
    ];
    assert_eq!(records_of(&store, NEW), expected);
    let text = text_of(ErrorKind::Schema, store.get(OLD, &3));
    assert!(text.contains("schema_in_file=1, schema_in_program=0"), "{text}");

    // Again, also by a program that starts anew: nothing is left to do.
    let before = sequence(&store);
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("nothing to do"), 0);
    assert_eq!(sequence(&store), before);
    store.close().expect("closed");
    let store = Options::new().declare(NEW).open(&path).expect("it is the new table");
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("nothing to do"), 0);
    assert_eq!(records_of(&store, NEW), expected);
    // A version that was removed is still not given again.
    assert_eq!(store.put(NEW, &4, &(1, String::new())).expect("written"), version(2));
}

#[test]
fn a_chain_of_steps_leads_from_any_of_them_to_the_last() {
    let middle = Table::<u64, i64>::new("balances").schema(4);
    let last = Table::<u64, String, Stateless, Json>::new("balances").schema(9);
    let start = |store: &Store| -> Result<(u64, u64), Error> {
        let first = store.migrate(OLD, middle, |_, record| {
            Ok::<_, Error>((-i64::try_from(record.value).expect("small"), ()))
        })?;
        let second = store.migrate(middle, last, |key, record| {
            Ok::<_, Error>((format!("{key}: {}", record.value), ()))
        })?;
        Ok((first, second))
    };
    let store = Store::in_memory().expect("a store");
    store.put(OLD, &1, &10).expect("written");
    assert_eq!(start(&store).expect("both steps"), (1, 1));
    assert_eq!(records_of(&store, last), [(1, "1: -10".to_owned(), 3, ())]);
    assert_eq!(start(&store).expect("no step"), (0, 0));

    let store = Store::in_memory().expect("a store");
    store.put(middle, &1, &-5).expect("written");
    assert_eq!(start(&store).expect("the second step"), (0, 1));
    assert_eq!(records_of(&store, last), [(1, "1: -5".to_owned(), 2, ())]);

    // Killed in the second step: the first one has nothing to say about that.
    let store = Store::in_memory().expect("a store");
    store.put(OLD, &1, &10).expect("written");
    store
        .migrate(OLD, middle, |_, _| Ok::<_, Error>((-10, ())))
        .expect("the first step");
    let calls = Cell::new(0);
    let stopped = store.migrate(middle, last, |_, _| {
        calls.set(calls.get() + 1);
        if calls.get() == 2 {
            Err(Stop::Here(1))
        } else {
            Ok((String::new(), ()))
        }
    });
    assert_eq!(stopped, Err(Stop::Here(1)));
    assert_eq!(start(&store).expect("the second step"), (0, 1));
}

/// An error of the program's own.
#[derive(Debug, PartialEq)]
enum Stop {
    Here(u64),
    Store(ErrorKind),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Store(error.kind())
    }
}

#[test]
fn without_such_a_table_nothing_is_made_and_an_empty_one_changes_its_number() {
    let store = Store::in_memory().expect("a store");
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("no table"), 0);
    assert_eq!((tables(&store), sequence(&store)), (vec![], 0));
    store.put(OLD, &1, &1).expect("written");
    store.delete(OLD, &1).expect("removed");
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("no record"), 0);
    assert_eq!(store.get(NEW, &1).expect("the new table"), None);
}

#[test]
fn what_is_no_migration_is_refused() {
    let store = Store::in_memory().expect("a store");
    store.put(OLD, &1, &10).expect("written");
    let same = |_: &u64, record: Record<u64>| Ok::<_, Error>((record.value, ()));
    let invalid = |result: Result<u64, Error>, says: &str| {
        let text = text_of(ErrorKind::Invalid, result);
        assert!(text.contains(says), "{text}");
    };
    invalid(store.migrate(OLD, OLD, same), "schema_from=0, schema_to=0");
    invalid(store.migrate(OLD.schema(2), OLD, same), "schema_from=2, schema_to=0");
    invalid(
        store.migrate(OLD, Table::<u64, u64>::new("moved").schema(1), same),
        "two tables",
    );
    let info = store.read(|tx| tx.table("balances")).expect("readable").expect("there");
    let open = info.open();
    invalid(
        store.migrate(&open, &open, |_, record| Ok::<_, Error>((record.value, record.state))),
        "without a schema number",
    );
    invalid(
        store.write(|_| store.migrate(OLD, NEW, with_currency)),
        "migrate inside a write",
    );
    // And a table that is like neither.
    let text = text_of(ErrorKind::Schema, store.migrate(OLD.schema(2), OLD.schema(3), same));
    assert!(
        text.contains("table=balances, schema_in_file=0, schema_from=2, schema_to=3"),
        "{text}"
    );
    let json = Table::<u64, u64, Stateless, Json>::new("balances");
    let text = text_of(ErrorKind::Schema, store.migrate(json, OLD.schema(1), same));
    assert!(text.contains("codec_in_file=bincode, codec_in_program=json"), "{text}");
    assert_eq!(records_of(&store, OLD), [(1, 10, 1, ())]);
}

/// A value that encodes and does not come back.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
}

#[test]
fn what_fails_for_one_record_changes_nothing() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    fill(&store, 600);
    let before = (records_of(&store, OLD), sequence(&store));
    let image = blake3::hash(&disk.cache_image());
    let same = || {
        assert_eq!((records_of(&store, OLD), sequence(&store)), before);
        assert!(
            blake3::hash(&disk.cache_image()) == image,
            "a byte of the file was changed"
        );
    };

    let stopped = store.migrate(OLD, NEW, |key, record| {
        if *key == 599 {
            return Err(Stop::Here(record.value));
        }
        Ok(((record.value, String::new()), ()))
    });
    assert_eq!(stopped, Err(Stop::Here(5990)));
    same();

    let untagged = Table::<u64, Untagged>::new("balances").schema(1);
    let refused = store.migrate(OLD, untagged, |_, record| {
        Ok::<_, Error>((Untagged::Number(record.value), ()))
    });
    let text = text_of(ErrorKind::Invalid, refused);
    assert!(
        text.starts_with("cannot migrate a record, table=\"balances\", key=\"0\""),
        "{text}"
    );
    same();

    // Half a log half is 8,192 bytes: what a put could not write a migration cannot either.
    let refused = store.migrate(OLD, NEW, |key, _| {
        let len = if *key == 300 { 8200 } else { 8 };
        Ok::<_, Error>(((0, "x".repeat(len)), ()))
    });
    let text = text_of(ErrorKind::TooLarge, refused);
    assert!(
        text.starts_with("cannot migrate a record, table=\"balances\", key=\"300\""),
        "{text}"
    );
    assert!(text.contains("bytes_max=8192"), "{text}");
    same();

    let panicked = crate::common::panic_of(|| {
        store.migrate(OLD, NEW, |key, record| {
            assert!(*key != 599, "not this one");
            with_currency(key, record)
        })
    });
    assert_eq!(panicked, "not this one");
    same();
}

#[test]
fn records_that_grow_to_the_bound_of_the_log_go_alone() {
    let store = small().in_memory().expect("a store");
    fill(&store, 20);
    let before = sequence(&store);
    let grown = store.migrate(OLD, NEW, |key, _| Ok::<_, Error>(((*key, "y".repeat(7900)), ())));
    assert_eq!(grown.expect("migrated"), 20);
    assert_eq!(sequence(&store) - before, 20);
    let records = records_of(&store, NEW);
    assert_eq!(records.len(), 20);
    assert!(
        records
            .iter()
            .all(|(_, (_, text), version, ())| text.len() == 7900 && *version == 2)
    );
}

sprag::machine! {
    enum Long: "long" {
        First = "first-state-with-a-name-of-sixty-four-bytes-that-is-the-most-of-",
        Second = "other-state-with-a-name-of-sixty-four-bytes-that-is-the-most-of-",
    }
    initial First;
    First => Second;
}

#[test]
fn names_of_states_count_towards_a_page() {
    let [old, new] = [0, 1].map(|number| Table::<u64, u64, Long>::new("long").schema(number));
    let store = small().in_memory().expect("a store");
    for key in 0..200 {
        store.put(old, &key, &key).expect("written");
    }
    let moved = store.migrate(old, new, |_, record| Ok::<_, Error>((record.value + 1, Long::Second)));
    assert_eq!(moved.expect("migrated"), 200);
    assert_eq!(store.count_in_state(new, Long::Second).expect("counted"), 200);
    assert_eq!(store.count_in_state(new, Long::First).expect("counted"), 0);
}

#[test]
fn a_function_that_uses_the_store_is_refused_before_anything_is_written() {
    let store = small().in_memory().expect("a store");
    fill(&store, 600);
    let before = (records_of(&store, OLD), sequence(&store));
    let refused = store.migrate(OLD, NEW, |key, record| {
        store.put(OTHER, key, &record.value)?;
        with_currency(key, record)
    });
    let text = text_of(ErrorKind::Invalid, refused);
    assert!(text.contains("inside the function of a migration"), "{text}");
    assert_eq!((records_of(&store, OLD), sequence(&store)), before);
    // One that looks at its own table would find it changed in the middle, and could never go on.
    let refused = store.migrate(OLD, NEW, |key, record| {
        store.get(OLD, &(key ^ 1))?;
        with_currency(key, record)
    });
    text_of(ErrorKind::Invalid, refused);
    assert_eq!((records_of(&store, OLD), sequence(&store)), before);
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("migrated"), 600);
}

#[test]
fn pages_are_bounded_by_number() {
    let store = Store::in_memory().expect("a store");
    fill(&store, 600);
    let before = sequence(&store);
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("migrated"), 600);
    assert_eq!(sequence(&store) - before, 3, "256, 256 and 88 records");
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Money {
    cents: u64,
    currency: String,
}

#[test]
fn an_encoding_can_be_changed() {
    let json = Table::<u64, Money, Stateless, Json>::new("balances").schema(1);
    let store = Store::in_memory().expect("a store");
    fill(&store, 300);
    let migrated = store.migrate(OLD, json, |_, record| {
        let currency = "EUR".to_owned();
        Ok::<_, Error>((
            Money {
                cents: record.value,
                currency,
            },
            (),
        ))
    });
    assert_eq!(migrated.expect("migrated"), 300);
    let info = store.read(|tx| tx.table("balances")).expect("readable").expect("there");
    assert_eq!((info.codec().to_string(), info.schema()), ("json".to_owned(), 1));
    let record = store
        .get(&info.open(), &DynKey::U64(299))
        .expect("readable")
        .expect("there");
    assert_eq!(record.value, br#"{"cents":2990,"currency":"EUR"}"#);
    assert_eq!(record.version, version(2));
}

sprag::machine! {
    enum Before: "orders" { New = "new", Packed = "packed", Lost = "lost", Shipped = "shipped" }
    initial New;
    New => Packed, Lost;
    Packed => Shipped, Lost;
}

sprag::machine! {
    enum After: "orders" { Open = "open", Shipped = "shipped" }
    initial Open;
    Open => Shipped;
}

const BEFORE: Table<u64, u64, Before> = Table::new("orders");
const AFTER: Table<u64, u64, After> = Table::new("orders").schema(1);

#[expect(clippy::unnecessary_wraps, reason = "a migration takes a function that may fail")]
fn fewer_states(_: &u64, record: Record<u64, Before>) -> Result<(u64, After), Error> {
    let state = match record.state {
        Before::New | Before::Packed => After::Open,
        Before::Lost | Before::Shipped => After::Shipped,
    };
    Ok((record.value, state))
}

#[test]
fn a_machine_can_lose_states_and_every_record_gets_one_that_it_has() {
    let store = Store::in_memory().expect("a store");
    for (key, state) in [
        (1, Before::New),
        (2, Before::Packed),
        (3, Before::Lost),
        (4, Before::Shipped),
    ] {
        let created = store.write(|tx| tx.create(BEFORE, &key, &(key * 10), &state)?.or_abort());
        created.expect("created");
    }
    assert_eq!(store.migrate(BEFORE, AFTER, fewer_states).expect("migrated"), 4);
    assert_eq!(
        records_of(&store, AFTER),
        [
            (1, 10, 2, After::Open),
            (2, 20, 2, After::Open),
            (3, 30, 2, After::Shipped),
            (4, 40, 2, After::Shipped)
        ]
    );
    let info = store.read(|tx| tx.table("orders")).expect("readable").expect("there");
    assert_eq!(info.machine().expect("a machine").states(), ["open", "shipped"]);
    assert_eq!(
        by_state(&store, AFTER),
        [(After::Open, vec![1, 2]), (After::Shipped, vec![3, 4])]
    );
    let moved = store
        .transition(AFTER, &1, After::Open, After::Shipped)
        .expect("a move");
    assert_eq!(moved.or_abort().expect("applied"), version(3));

    // States can go altogether, and come.
    let stateless = Table::<u64, u64>::new("orders").schema(2);
    let gone = store.migrate(AFTER, stateless, |_, record| Ok::<_, Error>((record.value, ())));
    assert_eq!(gone.expect("migrated"), 4);
    assert_eq!(records_of(&store, stateless)[3], (4, 40, 3, ()));
    let again = Table::<u64, u64, After>::new("orders").schema(3);
    let come = store.migrate(stateless, again, |_, record| {
        Ok::<_, Error>((record.value, After::Open))
    });
    assert_eq!(come.expect("migrated"), 4);
    assert_eq!(records_of(&store, again)[0], (1, 10, 5, After::Open));
    assert_eq!(
        by_state(&store, again),
        [(After::Open, vec![1, 2, 3, 4]), (After::Shipped, vec![])]
    );
}

/// The keys in each state; their counts agree.
fn by_state(store: &Store, table: Table<u64, u64, After>) -> Vec<(After, Vec<u64>)> {
    let found = store.read(|tx| {
        let mut all = Vec::new();
        for (state, count) in tx.state_counts(table)? {
            let keys: Vec<u64> = tx
                .in_state(table, state)?
                .map(|item| Ok(item?.0))
                .collect::<Result<_, Error>>()?;
            assert_eq!(keys.len() as u64, count, "{state:?}");
            all.push((state, keys));
        }
        Ok::<_, Error>(all)
    });
    found.expect("readable")
}

/// Migrates until `commits` pages are in the file, and fails then.
fn stopped_after(store: &Store, count: u64, records: u64) {
    let calls = Cell::new(0);
    let stopped = store.migrate(OLD, NEW, |key, record| {
        calls.set(calls.get() + 1);
        if calls.get() > count + records {
            return Err(Stop::Here(*key));
        }
        with_currency(key, record).map_err(Stop::from)
    });
    assert_eq!(stopped, Err(Stop::Here(records)));
}

const UNDER_WAY: &str =
    "table is being migrated: run the program that migrates it again, table=balances, schema_from=0, schema_to=1";

fn refused_while_under_way<T>(store: &Store, table: T, key: &T::Key, value: &T::Value)
where
    T: TableSpec + Copy,
    T::Value: std::fmt::Debug,
    T::State: std::fmt::Debug,
    T::OwnedKey: std::borrow::Borrow<T::Key>,
{
    let texts = [
        text_of(ErrorKind::Schema, store.get(table, key)),
        text_of(ErrorKind::Schema, store.put(table, key, value)),
        text_of(ErrorKind::Schema, store.put_if(table, key, Condition::Absent, value)),
        text_of(ErrorKind::Schema, store.delete(table, key)),
        text_of(
            ErrorKind::Schema,
            store.read(|tx| tx.scan(table, Keys::all()).map(Iterator::count)),
        ),
        text_of(
            ErrorKind::Schema,
            store.write(|tx| tx.retain(table, Keys::all(), |_, _| false).map(drop)),
        ),
    ];
    for text in texts {
        assert_eq!(text, UNDER_WAY);
    }
}

#[test]
fn while_it_is_under_way_every_other_use_is_refused_and_the_same_call_goes_on() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    fill(&store, 600);
    assert_eq!(store.get(OLD, &5).expect("readable").expect("there").value, 50);
    store.put(OTHER, &1, &1).expect("written");
    stopped_after(&store, 600, 256);

    let info = store.read(|tx| tx.table("balances")).expect("readable").expect("there");
    assert_eq!((info.schema(), info.migrating_to()), (0, Some(1)));
    let open = info.open();
    let refused = |store: &Store| {
        refused_while_under_way(store, OLD, &5, &1);
        refused_while_under_way(store, NEW, &5, &(1, String::new()));
        refused_while_under_way(store, &open, &DynKey::U64(5), &vec![1]);
    };
    refused(&store);
    at_once(2, |_| refused(&store));
    let further = NEW.schema(2);
    let text = text_of(
        ErrorKind::Schema,
        store.migrate(NEW, further, |_, record| Ok::<_, Error>((record.value, ()))),
    );
    assert_eq!(text, UNDER_WAY);
    // Another shape under the number of this migration.
    let other = Table::<u64, u64, Stateless, Json>::new("balances").schema(1);
    let text = text_of(
        ErrorKind::Schema,
        store.migrate(OLD, other, |_, record| Ok::<_, Error>((record.value, ()))),
    );
    assert!(text.contains("codec_in_file=bincode, codec_in_program=json"), "{text}");
    store.close().expect("closed");

    // In the next program as well.
    let text = text_of(ErrorKind::Schema, Options::new().declare(NEW).open(&path));
    assert!(text.contains(UNDER_WAY), "{text}");
    let store = Options::new().declare(OTHER).open(&path).expect("opened");
    refused(&store);
    assert_eq!(store.put(OTHER, &1, &2).expect("another table"), version(2));
    assert_eq!(store.migrate(OLD, NEW, with_currency).expect("the rest"), 344);
    let records = records_of(&store, NEW);
    assert_eq!(records.len(), 600);
    for (at, (key, value, version, ())) in (0..).zip(records) {
        assert_eq!((key, value, version), (at, (at * 1000, format!("EUR {at}")), 2));
    }
}

#[test]
fn a_machine_that_is_not_the_one_that_a_migration_began_with_is_refused() {
    sprag::machine! {
        enum More: "orders" { Open = "open", Shipped = "shipped", Lost = "lost" }
        initial Open;
        Open => Shipped, Lost;
    }
    sprag::machine! {
        enum Less: "orders" { Open = "open" }
        initial Open;
    }
    sprag::machine! {
        enum Turned: "orders" { Shipped = "shipped", Open = "open" }
        initial Open;
        Open => Shipped;
    }
    let store = Store::in_memory().expect("a store");
    for key in 0..300 {
        store.put(BEFORE, &key, &key).expect("written");
    }
    let calls = Cell::new(0);
    let stopped = store.migrate(BEFORE, AFTER, |key, record| {
        calls.set(calls.get() + 1);
        if calls.get() > 300 + 256 {
            return Err(Stop::Here(*key));
        }
        fewer_states(key, record).map_err(Stop::from)
    });
    assert_eq!(stopped, Err(Stop::Here(256)));
    let more = Table::<u64, u64, More>::new("orders").schema(1);
    let text = text_of(
        ErrorKind::Schema,
        store.migrate(BEFORE, more, |_, record| Ok::<_, Error>((record.value, More::Open))),
    );
    assert!(
        text.contains("states_in_file=open+shipped, states_in_program=open+shipped+lost"),
        "{text}"
    );
    let less = Table::<u64, u64, Less>::new("orders").schema(1);
    let refused = store.migrate(BEFORE, less, |_, record| Ok::<_, Error>((record.value, Less::Open)));
    assert_eq!(kind_of(refused), ErrorKind::Schema);
    // The order in which states are declared means nothing.
    let turned = Table::<u64, u64, Turned>::new("orders").schema(1);
    let rest = store.migrate(BEFORE, turned, |_, record| {
        Ok::<_, Error>((record.value, Turned::Shipped))
    });
    assert_eq!(rest.expect("the same machine"), 44);
    let records = records_of(&store, AFTER);
    assert_eq!(
        (records[255], records[256]),
        ((255, 255, 2, After::Open), (256, 256, 2, After::Shipped))
    );
}

/// Guards against: an entry from the cache that is not the one of the snapshot.
#[test]
fn a_snapshot_from_before_reads_the_old_table_while_and_after() {
    let store = Store::in_memory().expect("a store");
    fill(&store, 300);
    let outcome = store.read(|old| {
        let still = |when: &str| {
            let record = old.get(OLD, &7).expect(when).expect(when);
            assert_eq!((record.value, record.version), (70, version(1)), "{when}");
            let last = old.get(OLD, &299).expect(when).expect(when);
            assert_eq!((last.value, last.version), (2990, version(1)), "{when}");
            assert_eq!(old.scan(OLD, Keys::all())?.filter(Result::is_ok).count(), 300, "{when}");
            assert_eq!(kind_of(old.get(NEW, &7)), ErrorKind::Schema, "{when}");
            Ok::<_, Error>(())
        };
        still("before")?;
        stopped_after(&store, 300, 256);
        still("while")?;
        assert_eq!(text_of(ErrorKind::Schema, store.get(OLD, &7)), UNDER_WAY);
        still("while, after another was refused")?;
        assert_eq!(store.migrate(OLD, NEW, with_currency)?, 44);
        still("after")?;
        let new = || -> Result<(), Error> {
            let record = store.get(NEW, &7)?.expect("there");
            assert_eq!((record.value, record.version), ((7000, "EUR 7".to_owned()), version(2)));
            Ok(())
        };
        new()?;
        still("after, with the new one in the cache")?;
        new()?;
        assert_eq!(kind_of(store.put(OLD, &7, &1)), ErrorKind::Schema);
        still("at the end")
    });
    outcome.expect("readable");
}

#[test]
fn writers_of_another_table_go_on_between_the_commits() {
    let folder = folder();
    let store = Store::create_new(folder.path().join("t.sprag")).expect("a store");
    fill(&store, 5000);
    let done = AtomicBool::new(false);
    let counts = at_once(2, |number| {
        if number == 0 {
            let migrated = store.migrate(OLD, NEW, with_currency);
            done.store(true, Ordering::Release);
            return migrated.expect("migrated");
        }
        let mut meanwhile = 0;
        while !done.load(Ordering::Acquire) {
            let written = store.write(|tx| {
                tx.put(OTHER, &1, &meanwhile)?;
                Ok::<_, Error>(tx.table("balances")?.expect("there").migrating_to().is_some())
            });
            meanwhile += u64::from(written.expect("written"));
        }
        meanwhile
    });
    assert_eq!(counts[0], 5000);
    assert!(counts[1] > 0, "no write came between");
    let records = records_of(&store, NEW);
    assert!(
        (0..)
            .zip(&records)
            .all(|(at, (key, (cents, _), version, ()))| (*key, *cents, *version) == (at, at * 1000, 2))
    );
    assert_eq!(records.len(), 5000);
}

#[test]
fn threads_that_migrate_the_same_table_rewrite_every_record_once_together() {
    let folder = folder();
    let store = Store::create_new(folder.path().join("t.sprag")).expect("a store");
    fill(&store, 3000);
    let counts = at_once(3, |_| store.migrate(OLD, NEW, with_currency).expect("migrated"));
    assert_eq!(counts.iter().sum::<u64>(), 3000, "{counts:?}");
    let records = records_of(&store, NEW);
    assert!(
        records
            .iter()
            .all(|(key, (cents, _), version, ())| (*cents, *version) == (key * 1000, 2))
    );
    assert_eq!(records.len(), 3000);
}

/// What is in the file, where a migration under way leads to, and what is asked for.
#[test]
fn the_decision_is_a_table_of_values() {
    use MigrateVerdict::{Begin, GoOn, Nothing};
    let table = |number| Table::<u64, u64>::new("t").schema(number);
    let cases = [
        (0, None, (0, 1), Ok(Begin)),
        (0, None, (0, 5), Ok(Begin)),
        (0, None, (1, 2), Err("schema_in_file=0, schema_from=1, schema_to=2")),
        (1, None, (0, 1), Ok(Nothing)),
        (2, None, (0, 1), Ok(Nothing)),
        (3, None, (2, 5), Err("schema_in_file=3, schema_from=2, schema_to=5")),
        (0, Some(1), (0, 1), Ok(GoOn)),
        (0, Some(1), (0, 2), Err("schema_from=0, schema_to=1")),
        (0, Some(1), (1, 2), Err("schema_from=0, schema_to=1")),
        (1, Some(2), (0, 1), Ok(Nothing)),
        (2, Some(3), (0, 1), Ok(Nothing)),
        (1, Some(3), (0, 3), Err("schema_from=1, schema_to=3")),
        (1, Some(3), (2, 3), Err("schema_from=1, schema_to=3")),
    ];
    for (file, target, (from, to), expected) in cases {
        let case = format!("file={file} target={target:?} from={from} to={to}");
        let verdict = decide_migrate(table(file), target.map(table), table(from), table(to));
        match expected {
            Ok(expected) => assert_eq!(verdict.expect(&case), expected, "{case}"),
            Err(says) => {
                let text = text_of(ErrorKind::Schema, verdict);
                assert!(text.contains(says), "{case}: {text}");
            }
        }
    }
    // The same number is not enough: the whole shape is compared, also the key's kind.
    let json = Table::<u64, u64, Stateless, Json>::new("t");
    let text_keys = Table::<str, u64>::new("t");
    let none = None::<Table<u64, u64>>;
    let verdicts = [
        (decide_migrate(json, none, table(0), table(1)), "codec_in_file=json"),
        (
            decide_migrate(json.schema(1), none, table(0), table(1)),
            "codec_in_file=json",
        ),
        (decide_migrate(text_keys, none, table(0), table(1)), "key_in_file=str"),
        (
            decide_migrate(table(0), Some(json.schema(1)), table(0), table(1)),
            "codec_in_file=json",
        ),
    ];
    for (verdict, says) in verdicts {
        let text = text_of(ErrorKind::Schema, verdict);
        assert!(text.contains(says), "{text}");
    }
}
