//! Batches: what they refuse, what they are bound to, what they leave behind, and what a dry run tells.

mod hostile;
mod json;
mod messages;
mod mixtures;

use std::time::Duration;

use sprag::{
    Batch, CodecId, Condition, DynKey, DynTable, ErrorKind, Keep, KeyKind, Once, OnceKey, Outcome, Store, Table,
    Verdict, Version,
};

use crate::common::{kind_of, queues, small, tables, text_of, version};

sprag::machine! {
    enum Stage: "stages" { New = "new", Packed = "packed", Shipped = "shipped" }
    initial New;
    New => Packed;
    Packed => Shipped;
}

const BALANCES: Table<u64, i64> = Table::new("balances");
const CARTS: Table<u64, i64> = Table::new("carts");
const ORDERS: Table<u64, i64, Stage> = Table::new("orders");

/// A verdict in words: what it is, the version, and for a failing one the state found and why.
fn words(verdict: &Verdict) -> String {
    let with = |word: &str, version: Option<Version>| match version {
        Some(version) => format!("{word} {version}"),
        None => word.to_owned(),
    };
    match verdict {
        Verdict::Holds(version) => with("holds", *version),
        Verdict::Unguarded(version) => with("unguarded", *version),
        Verdict::Already(version) => with("already", *version),
        Verdict::Fails { found, why } => {
            let why = why.map_or_else(String::new, |why| format!(" {why}"));
            let state = found.state().map_or_else(String::new, |state| format!(" {state}"));
            with("fails", found.version()) + &state + &why
        }
        Verdict::Enqueued(id) => format!("enqueued {id}"),
    }
}

fn once(key: &str) -> OnceKey {
    OnceKey::new("batches", key, Keep::For(Duration::from_secs(3600)))
}

/// Value and version of a balance.
fn balance(store: &Store, key: u64) -> Option<(i64, u64)> {
    let record = store.get(BALANCES, &key).unwrap();
    record.map(|record| (record.value, record.version.get()))
}

/// Batches with a mistake, and what is said of it.
fn mistakes() -> Vec<(Batch, ErrorKind, &'static str)> {
    let long = "x".repeat(5000);
    let texts: Table<str, i64> = Table::new("texts");
    let raw = DynTable::new("raw", KeyKind::U64, CodecId::Json);
    let nameless: Table<u64, i64> = Table::new("");
    let put = || Batch::new().put(BALANCES, &1, &1);
    vec![
        (Batch::new(), ErrorKind::Invalid, "batch has no operations"),
        (
            Batch::new().once(&once("1")),
            ErrorKind::Invalid,
            "batch has no operations",
        ),
        (
            put()
                .put_if(BALANCES, &1, Condition::Version(1), &2)
                .check(BALANCES, &1, Condition::Version(0)),
            ErrorKind::Invalid,
            "operation=1: batch writes twice to one key, table=balances",
        ),
        (
            put().delete(BALANCES, &1),
            ErrorKind::Invalid,
            "operation=1: batch writes twice to one key",
        ),
        (
            put().check(BALANCES, &1, Condition::Version(0)),
            ErrorKind::Invalid,
            "versions start at 1",
        ),
        (
            put().delete_if(BALANCES, &2, Condition::Version(0)),
            ErrorKind::Invalid,
            "versions start at 1",
        ),
        (
            put().put(texts, &long, &1),
            ErrorKind::TooLarge,
            "operation=1: key too long, bytes=5000, bytes_max=4096",
        ),
        (
            put().put(&raw, &DynKey::Str("a".to_owned()), &vec![]),
            ErrorKind::Invalid,
            "key is of another kind",
        ),
        (
            put().transition(&raw, &DynKey::U64(1), None, None),
            ErrorKind::Invalid,
            "table has no states, table=raw",
        ),
        (
            put().once(&once("1").bound_to("x")),
            ErrorKind::Invalid,
            "binds its remembered key by itself",
        ),
        (
            put().once(&once("1")).once(&once("2")),
            ErrorKind::Invalid,
            "two remembered keys",
        ),
        (put().once(&once("")), ErrorKind::Invalid, "remembered key has 0 bytes"),
        (
            put().put(nameless, &1, &1),
            ErrorKind::Invalid,
            "table name is not 1 to 255 bytes",
        ),
    ]
}

#[test]
fn the_first_mistake_of_a_builder_is_what_every_use_answers() {
    let store = Store::in_memory().unwrap();
    for (batch, kind, text) in mistakes().into_iter().chain(messages::mistakes()) {
        let answers = [
            text_of(kind, store.apply(&batch)),
            text_of(kind, store.dry_run(&batch)),
            text_of(kind, store.write(|tx| tx.apply(&batch))),
        ];
        for answer in answers {
            assert!(answer.contains(text), "{answer} instead of {text}");
        }
    }
    assert_eq!(tables(&store).len(), 0, "a mistake made a table");
    assert_eq!(queues(&store), [], "a mistake made a queue");
}

#[test]
fn a_refused_batch_leaves_no_record_no_table_and_no_key() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    let commits = || store.stats().unwrap().commits;
    let before = commits();
    let rejected =
        Batch::new()
            .once(&once("rejected"))
            .put(ORDERS, &904, &1)
            .put_if(BALANCES, &51, Condition::Version(7), &140);
    assert!(matches!(store.apply(&rejected).unwrap(), Outcome::Rejected(_)));
    let too_large = Batch::new()
        .once(&once("large"))
        .put(Table::<u64, Vec<u8>>::new("blobs"), &1, &vec![7; 16 << 10]);
    for tried in [store.apply(&too_large), store.dry_run(&too_large)] {
        let text = text_of(ErrorKind::TooLarge, tried);
        assert!(text.contains("bytes_max=8192"), "{text}");
    }
    let no_such_move = Batch::new()
        .put(BALANCES, &52, &1)
        .transition(ORDERS, &904, Stage::New, Stage::Shipped);
    store.put(ORDERS, &905, &1).unwrap();
    let text = text_of(ErrorKind::Invalid, store.apply(&no_such_move));
    assert!(
        text.contains("operation=1: no such move, from=new, to=shipped"),
        "{text}"
    );
    assert_eq!(commits(), before + 1, "only the put of order 905 was a commit");
    let names: Vec<String> = tables(&store).iter().map(|info| info.name().to_owned()).collect();
    assert_eq!(names, ["balances", "orders"]);
    assert_eq!(balance(&store, 51), Some((100, 1)));
    assert_eq!(balance(&store, 52), None);
    for key in ["rejected", "large"] {
        assert!(store.remembered("batches", key).unwrap().is_none(), "{key}");
    }
}

#[test]
fn a_remembered_batch_is_bound_to_its_operations_and_nothing_else() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    let batch = |value: i64| {
        Batch::new()
            .once(&once("evt-1"))
            .put_if(BALANCES, &51, Condition::Version(1), &value)
    };
    assert!(matches!(store.apply(&batch(140)).unwrap(), Outcome::Applied { .. }));
    for _ in 0..11 {
        let Outcome::Repeat { verdicts, .. } = store.apply(&batch(140)).unwrap() else {
            panic!("no repeat");
        };
        assert_eq!(verdicts.iter().map(words).collect::<Vec<_>>(), ["holds 2"]);
    }
    // Another keep is the same request; another value, condition, table or number of operations is not.
    let kept_longer = OnceKey::new("batches", "evt-1", Keep::Forever);
    let same = Batch::new()
        .once(&kept_longer)
        .put_if(BALANCES, &51, Condition::Version(1), &140);
    assert!(matches!(store.apply(&same).unwrap(), Outcome::Repeat { .. }));
    let others = [
        batch(141),
        batch(140).check(BALANCES, &51, Condition::Present),
        Batch::new().once(&once("evt-1")).put(BALANCES, &51, &140),
        Batch::new()
            .once(&once("evt-1"))
            .put_if(CARTS, &51, Condition::Version(1), &140),
        Batch::new()
            .once(&once("evt-1"))
            .put_if(BALANCES, &52, Condition::Version(1), &140),
    ];
    for other in others {
        for answer in [store.apply(&other), store.dry_run(&other)] {
            let error = answer.expect_err("a mismatch");
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert!(error.remembered().is_some());
        }
    }
    assert_eq!(balance(&store, 51), Some((140, 2)));
    // What a closure remembered is no batch, and the other way round.
    let closure = store.once(&once("closure"), |tx| tx.put(BALANCES, &53, &1)).unwrap();
    assert_eq!(closure, Once::First(version(1)));
    let as_batch = Batch::new().once(&once("closure")).put(BALANCES, &53, &1);
    assert_eq!(kind_of(store.apply(&as_batch)), ErrorKind::Mismatch);
}

#[test]
fn an_undeclared_move_is_a_mistake_also_where_there_is_no_such_table() {
    let store = small().in_memory().unwrap();
    let batch = Batch::new().transition(ORDERS, &904, Stage::New, Stage::Shipped);
    let text = text_of(ErrorKind::Invalid, store.apply(&batch));
    assert!(text.contains("no such move, from=new, to=shipped"), "{text}");
    let batch = Batch::new().transition(ORDERS, &904, Stage::New, Stage::Packed);
    let Outcome::Rejected(verdicts) = store.apply(&batch).unwrap() else {
        panic!("not rejected")
    };
    assert_eq!(verdicts.iter().map(words).collect::<Vec<_>>(), ["fails missing"]);
    assert_eq!(tables(&store).len(), 0);
}

#[test]
fn checks_ask_for_the_state_before_their_batch_wherever_they_stand() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    let batch = Batch::new()
        .put(BALANCES, &51, &140)
        .check(BALANCES, &51, Condition::Version(1))
        .put(BALANCES, &52, &1)
        .check(BALANCES, &52, Condition::Absent);
    let Outcome::Applied { verdicts } = store.apply(&batch).unwrap() else {
        panic!("not applied")
    };
    let seen: Vec<String> = verdicts.iter().map(words).collect();
    assert_eq!(seen, ["unguarded 2", "holds", "unguarded 1", "holds"]);
    assert_eq!(
        (balance(&store, 51), balance(&store, 52)),
        (Some((140, 2)), Some((1, 1)))
    );
    // Now they ask for what is no more.
    assert!(matches!(store.apply(&batch).unwrap(), Outcome::Rejected(_)));
}

/// Only values are bound with their codec: what was deleted or moved is the same request in any.
#[test]
fn a_remembered_batch_without_values_is_a_repeat_after_its_table_got_another_codec() {
    let json: Table<u64, i64, sprag::Stateless, sprag::Json> = Table::new("balances").schema(1);
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &140).unwrap();
    let before = Batch::new()
        .once(&once("gone"))
        .delete(BALANCES, &51)
        .check(BALANCES, &52, Condition::Absent);
    assert!(matches!(store.apply(&before).unwrap(), Outcome::Applied { .. }));
    let put = Batch::new().once(&once("put")).put(BALANCES, &53, &1);
    assert!(matches!(store.apply(&put).unwrap(), Outcome::Applied { .. }));
    let migrated = store.migrate(BALANCES, json, |_, record| Ok::<_, sprag::Error>((record.value, ())));
    assert_eq!(migrated.unwrap(), 1);
    let after = Batch::new()
        .once(&once("gone"))
        .delete(json, &51)
        .check(json, &52, Condition::Absent);
    assert!(matches!(store.apply(&after).unwrap(), Outcome::Repeat { .. }));
    let put = Batch::new().once(&once("put")).put(json, &53, &1);
    assert_eq!(kind_of(store.apply(&put)), ErrorKind::Mismatch);
    assert_eq!(store.get(json, &53).unwrap().unwrap().value, 1);
}

/// Else the next delivery, after somebody else's write, would hear Rejected.
#[test]
fn a_batch_that_is_already_so_stores_its_key_and_nothing_else() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &140).unwrap();
    let batch = Batch::new()
        .once(&once("evt-1"))
        .put_if(BALANCES, &51, Condition::Absent, &140);
    let Outcome::Already { verdicts } = store.apply(&batch).unwrap() else {
        panic!("not already so")
    };
    assert_eq!(verdicts.iter().map(words).collect::<Vec<_>>(), ["already 1"]);
    store.put(BALANCES, &51, &999).unwrap();
    let Outcome::Repeat { verdicts, .. } = store.apply(&batch).unwrap() else {
        panic!("no repeat")
    };
    assert_eq!(verdicts.iter().map(words).collect::<Vec<_>>(), ["already 1"]);
    assert_eq!(balance(&store, 51), Some((999, 2)));
}

#[test]
fn inside_a_write_a_batch_sees_what_was_written_and_goes_with_it() {
    let store = small().in_memory().unwrap();
    let batch = Batch::new()
        .once(&once("inside"))
        .put_if(BALANCES, &51, Condition::Version(1), &140);
    let failed: Result<(), sprag::Error> = store.write(|tx| {
        tx.put(BALANCES, &51, &100)?;
        assert!(matches!(tx.dry_run(&batch)?, Outcome::Applied { .. }));
        assert!(matches!(tx.apply(&batch)?, Outcome::Applied { .. }));
        assert!(matches!(tx.apply(&batch)?, Outcome::Repeat { .. }));
        tx.put_if(BALANCES, &51, Condition::Absent, &1)?.or_abort().map(drop)
    });
    assert_eq!(kind_of(failed), ErrorKind::Conflict);
    assert_eq!(balance(&store, 51), None);
    assert!(store.remembered("batches", "inside").unwrap().is_none());
    let written = store.write(|tx| {
        tx.put(BALANCES, &51, &100)?;
        let refused = Batch::new()
            .put_if(BALANCES, &52, Condition::Version(3), &1)
            .put(BALANCES, &53, &1);
        assert!(matches!(tx.apply(&refused)?, Outcome::Rejected(_)));
        tx.apply(&batch)?.or_abort()
    });
    assert_eq!(written.unwrap().iter().map(words).collect::<Vec<_>>(), ["holds 2"]);
    assert_eq!((balance(&store, 51), balance(&store, 53)), (Some((140, 2)), None));
    let nested = store.once(&once("own"), |tx| {
        let own = Batch::new().once(&once("own")).put(BALANCES, &54, &1);
        tx.apply(&own).map(|_| 0)
    });
    assert_eq!(kind_of(nested), ErrorKind::Invalid);
    let tried = store.once(&once("own"), |tx| {
        let own = Batch::new().once(&once("own")).put(BALANCES, &54, &1);
        tx.dry_run(&own).map(|_| 0)
    });
    assert_eq!(kind_of(tried), ErrorKind::Invalid);
    assert_eq!(kind_of(store.write(|_| store.apply(&batch))), ErrorKind::Invalid);
    assert_eq!(balance(&store, 54), None);
}

#[test]
fn aborting_on_a_rejected_batch_carries_what_the_first_failing_operation_found() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    let batch = Batch::new()
        .put(BALANCES, &50, &1)
        .put_if(BALANCES, &51, Condition::Version(7), &140)
        .check(BALANCES, &52, Condition::Present);
    let error = store.apply(&batch).unwrap().or_abort().expect_err("a conflict");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.to_string(), "batch is rejected, operation=1, found_version=1");
    let found = error
        .found()
        .expect("what was found")
        .decode(BALANCES)
        .unwrap()
        .expect("a record");
    assert_eq!((found.value, found.version), (100, version(1)));
    let mixed =
        Batch::new()
            .put_if(BALANCES, &51, Condition::Absent, &100)
            .put_if(BALANCES, &55, Condition::Absent, &1);
    let error = store.apply(&mixed).unwrap().or_abort().expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        "batch is rejected: some of it is already so, and some is not"
    );
    assert_eq!(balance(&store, 55), None);
}

mod grown {
    sprag::machine! {
        pub enum Stage: "stages" { New = "new", Packed = "packed", Shipped = "shipped", Lost = "lost" }
        initial New;
        New => Packed;
        Packed => Shipped, Lost;
    }
}

#[test]
fn a_transition_to_a_state_that_the_program_added_is_recorded_with_the_batch_and_only_then() {
    use grown::Stage as Grown;
    let orders: Table<u64, i64, Grown> = Table::new("orders");
    let store = small().in_memory().unwrap();
    let put = store.write(|tx| tx.create(ORDERS, &904, &1, &Stage::Packed)?.or_abort());
    assert_eq!(put.unwrap(), version(1));
    let states = || {
        let info = store.read(|tx| tx.table("orders")).unwrap().unwrap();
        info.machine().unwrap().states().len()
    };
    let lost = |key: u64| Batch::new().transition(orders, &key, Grown::Packed, Grown::Lost);
    let refused = store.apply(&lost(905)).unwrap();
    assert_eq!(
        refused.verdicts().iter().map(words).collect::<Vec<_>>(),
        ["fails missing"]
    );
    assert!(matches!(store.dry_run(&lost(904)).unwrap(), Outcome::Applied { .. }));
    assert_eq!(states(), 3);
    let applied = store.apply(&lost(904)).unwrap().or_abort().unwrap();
    assert_eq!(applied.iter().map(words).collect::<Vec<_>>(), ["holds 2"]);
    assert_eq!(states(), 4);
    assert_eq!(store.get(orders, &904).unwrap().unwrap().state, Grown::Lost);
    assert_eq!(store.count_in_state(orders, Grown::Lost).unwrap(), 1);
}
