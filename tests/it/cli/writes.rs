//! Conditions, remembered keys and transitions, as a script meets them.
//!
//! Field reports: CV-1 (the guard is the client's version), ID-1 (another request under the same key), CK-4 (units of
//! durations).

use sprag::{Store, Table};

use super::Place;

/// CV-1: both read version 1; the second write is told the version that the first one made, and the value stays.
#[test]
fn the_second_of_two_writers_of_one_version_is_told_of_the_conflict() {
    let place = Place::with_store();
    place
        .run(&["put", "FILE", "users", "u:1", "\"old\""])
        .says("applied version=1");
    place
        .run(&["put", "FILE", "users", "u:1", "\"B\"", "--if-version", "1"])
        .says("applied version=2");
    let error = place
        .json(&["put", "FILE", "users", "u:1", "\"A\"", "--if-version", "1"])
        .fails(3, "conflict");
    assert_eq!(error["found"], serde_json::json!({"version": 2, "state": null}));
    place
        .run(&["get", "FILE", "users", "u:1", "--long"])
        .says("version 2\nstate none\nvalue \"B\"");
    // A repeat of B is harmless.
    place
        .run(&["put", "FILE", "users", "u:1", "\"B\"", "--if-version", "1"])
        .says("unchanged version=2");
    place
        .json(&["put", "FILE", "users", "u:1", "\"A\"", "--if-absent"])
        .fails(3, "conflict");
    place
        .json(&["delete", "FILE", "users", "u:1", "--if-version", "1"])
        .fails(3, "conflict");
    place
        .run(&["delete", "FILE", "users", "u:1", "--if-version", "2"])
        .says("applied version=2");
    place
        .run(&["put", "FILE", "users", "u:1", "\"new\"", "--if-absent"])
        .says("applied version=3");
}

/// ID-1: a repeat hears the version of the first time, also after other writes; another operation under the key is refused.
#[test]
fn a_put_under_a_remembered_key_happens_once_and_its_repeat_tells_the_first_version() {
    let place = Place::with_store();
    let put = [
        "put",
        "FILE",
        "balances",
        "51",
        "140",
        "--once",
        "payments/evt-1/2",
        "--keep",
        "7d",
    ];
    place.run(&put).says("applied version=1");
    place
        .run(&["put", "FILE", "balances", "51", "150"])
        .says("applied version=2");
    let seen = place.run(&put);
    assert!(seen.out.starts_with("repeat version=1 first_at=20"), "{seen:?}");
    let repeat: serde_json::Value = serde_json::from_str(&place.json(&put).out).expect("an object");
    assert_eq!((&repeat["outcome"], &repeat["version"]), (&"repeat".into(), &1.into()));
    place.run(&["get", "FILE", "balances", "51"]).says("150");

    let others: [&[&str]; 4] = [
        &["put", "FILE", "balances", "51", "141"],
        &["put", "FILE", "balances", "52", "140"],
        &["put", "FILE", "others", "51", "140"],
        &["put", "FILE", "balances", "51", "140", "--if-present"],
    ];
    for other in others {
        let error = place
            .json(&[other, &["--once", "payments/evt-1/2", "--keep", "7d"]].concat())
            .fails(3, "mismatch");
        assert!(
            error["remembered"]["first_at"]
                .as_str()
                .is_some_and(|time| time.starts_with("20")),
            "{error}"
        );
    }
    // The same value written in another way is the same operation, and how long it is kept is no part of it.
    let spaced = [
        "put",
        "FILE",
        "balances",
        "51",
        " 140\t",
        "--once",
        "payments/evt-1/2",
        "--keep",
        "forever",
    ];
    assert!(place.run(&spaced).out.starts_with("repeat version=1 "));
}

/// A conflict leaves no key: the same delivery runs when its time has come.
#[test]
fn a_refused_put_is_not_remembered() {
    let place = Place::with_store();
    let put = [
        "put",
        "FILE",
        "users",
        "ada",
        "1",
        "--if-present",
        "--once",
        "s/k",
        "--keep",
        "forever",
    ];
    place.json(&put).fails(3, "conflict");
    place
        .run(&["put", "FILE", "users", "ada", "0"])
        .says("applied version=1");
    place.run(&put).says("applied version=2");
    assert!(place.run(&put).out.starts_with("repeat version=2 "));
    // What was as it was to be is remembered as such.
    let same = [
        "put", "FILE", "users", "ada", "1", "--once", "s/k2", "--keep", "forever",
    ];
    place.run(&same).says("unchanged version=2");
    assert!(place.run(&same).out.starts_with("repeat version=2 "));
}

/// CK-4: a bare number has no unit, and the command does not choose one.
#[test]
fn a_duration_needs_a_unit_that_has_one_length() {
    let place = Place::with_store();
    let keep = |keep: &str| place.json(&["put", "FILE", "users", "ada", "1", "--once", "s/k", "--keep", keep]);
    for refused in [
        "7",
        "0",
        "0.5",
        "",
        "-1s",
        "1M",
        "1y",
        "7 days",
        "1h 30",
        "s",
        "5x",
        "99999999999999999999s",
        "never",
    ] {
        keep(refused).fails(2, "usage");
    }
    keep("0s").fails(2, "invalid");
    place.json(&["get", "FILE", "users", "ada"]).fails(4, "no_table");
    for (number, accepted) in ["500ms", "999ms", "1001ms", "1h 30m", "7d", "1w", "0.5s", "forever"]
        .into_iter()
        .enumerate()
    {
        let (key, once) = (number.to_string(), format!("s/{number}"));
        place
            .run(&["put", "FILE", "users", &key, "1", "--once", &once, "--keep", accepted])
            .says("applied version=1");
    }
    for refused in ["7", "1M"] {
        place.json(&["stats", "FILE", "--wait", refused]).fails(2, "usage");
    }
}

/// A millisecond is over by the time another process runs; an hour is not.
#[test]
fn a_keep_of_a_millisecond_ends_and_one_of_an_hour_does_not() {
    let place = Place::with_store();
    for (once, keep) in [("s/short", "1ms"), ("s/long", "1h")] {
        let put = |value| place.json(&["put", "FILE", "users", once, value, "--once", once, "--keep", keep]);
        put("1").says("{\"outcome\":\"applied\",\"version\":1}");
        match keep {
            "1ms" => put("2").says("{\"outcome\":\"applied\",\"version\":2}"),
            _ => drop(put("2").fails(3, "mismatch")),
        }
    }
}

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

#[test]
fn transitions_go_by_the_machine_in_the_file() {
    let place = Place::with_store();
    let orders: Table<u64, u64, Order> = Table::new("orders");
    let store = Store::open(&place.file).expect("the store");
    store.put(orders, &904, &1).expect("a put");
    store.close().expect("closed");

    let moves = |from, to| ["transition", "FILE", "orders", "904", from, to];
    let error = place.json(&moves("packed", "shipped")).fails(3, "refused");
    assert_eq!(error["found"], serde_json::json!({"version": 1, "state": "new"}));
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| message.contains("why=early")),
        "{error}"
    );
    assert_eq!(error["why"], "early");
    place.run(&moves("new", "packed")).says("applied version=2");
    place.run(&moves("new", "packed")).says("already there version=2");
    place
        .json(&moves("packed", "shipped"))
        .says("{\"outcome\":\"applied\",\"version\":3}");
    let error = place.json(&moves("new", "packed")).fails(3, "refused");
    assert_eq!(error["why"], "late");
    place.json(&moves("new", "shipped")).fails(2, "invalid");
    place.json(&moves("new", "lost")).fails(2, "invalid");
    place
        .json(&["transition", "FILE", "orders", "905", "new", "packed"])
        .fails(4, "no_record");
    place
        .run(&["put", "FILE", "users", "ada", "1"])
        .says("applied version=1");
    place
        .json(&["transition", "FILE", "users", "ada", "new", "packed"])
        .fails(2, "invalid");
}
