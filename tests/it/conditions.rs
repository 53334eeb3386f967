//! Conditions of puts, deletes and checks, as tables: what is stored, what is asked for, what comes of it.

use sprag::internals::{DeleteVerdict, Offered, PutVerdict, Stored, decide_delete, decide_put, holds, version_after};
use sprag::{Condition, ErrorKind, Version};
use std::fmt::Debug;

fn kind_of<T: Debug>(result: sprag::Result<T>) -> ErrorKind {
    result.expect_err("an error").kind()
}

fn version(number: u64) -> Version {
    Version::try_from(number).expect("a version")
}

fn put(condition: Condition, stored: Option<(u64, Option<&str>, &str)>, offered: (&str, Option<&str>)) -> String {
    let stored = stored.map(|(at, state, value)| Stored {
        version: version(at),
        state,
        value: value.as_bytes(),
    });
    let offered = Offered {
        value: offered.0.as_bytes(),
        state: offered.1,
    };
    match decide_put(condition, stored, offered, 0).expect("a verdict") {
        PutVerdict::Apply { version, state } => format!("apply {version} {}", state.unwrap_or("-")),
        PutVerdict::Unchanged(version) => format!("unchanged {version}"),
        PutVerdict::Conflict => "conflict".to_owned(),
    }
}

/// The table of conditions, each cell: no record, a record at 7 with other bytes, at 7 with the very bytes.
#[test]
fn a_put_gets_what_the_table_of_conditions_says() {
    let rows = [
        (Condition::Any, ["apply 1 -", "apply 8 -", "unchanged 7"]),
        (Condition::Absent, ["apply 1 -", "conflict", "unchanged 7"]),
        (Condition::Present, ["conflict", "apply 8 -", "unchanged 7"]),
        (Condition::Version(7), ["conflict", "apply 8 -", "apply 8 -"]),
        (Condition::Version(6), ["conflict", "conflict", "unchanged 7"]),
        (Condition::Version(5), ["conflict", "conflict", "conflict"]),
        (Condition::Version(8), ["conflict", "conflict", "conflict"]),
        (Condition::Version(u64::MAX), ["conflict", "conflict", "conflict"]),
    ];
    for (condition, expected) in rows {
        let stored = [None, Some((7, None, "other")), Some((7, None, "same"))];
        let verdicts = stored.map(|stored| put(condition, stored, ("same", None)));
        assert_eq!(verdicts, expected, "{condition}");
    }
}

#[test]
fn a_put_creates_in_the_offered_state_and_keeps_the_state_of_a_record() {
    let offered = ("same", Some("new"));
    for condition in [Condition::Any, Condition::Absent] {
        assert_eq!(put(condition, None, offered), "apply 1 new");
    }
    for condition in [Condition::Any, Condition::Present, Condition::Version(7)] {
        assert_eq!(
            put(condition, Some((7, Some("packed"), "other")), offered),
            "apply 8 packed",
            "{condition}"
        );
    }
    for condition in [Condition::Any, Condition::Present, Condition::Version(6)] {
        assert_eq!(
            put(condition, Some((7, Some("packed"), "same")), offered),
            "unchanged 7",
            "{condition}"
        );
    }
    // What a create would have made is in the state of a new record.
    assert_eq!(
        put(Condition::Absent, Some((7, Some("new"), "same")), offered),
        "unchanged 7"
    );
    assert_eq!(
        put(Condition::Absent, Some((7, Some("packed"), "same")), offered),
        "conflict"
    );
    assert_eq!(put(Condition::Absent, Some((7, None, "same")), offered), "conflict");
}

#[test]
fn a_new_record_starts_above_every_version_ever_removed() {
    let offered = Offered {
        value: b"v",
        state: None,
    };
    for (removed_max, first) in [(0, 1), (1, 2), (41, 42), (u64::MAX - 1, u64::MAX)] {
        let verdict = decide_put(Condition::Absent, None, offered, removed_max).expect("a verdict");
        assert_eq!(
            verdict,
            PutVerdict::Apply {
                version: version(first),
                state: None
            }
        );
    }
}

#[test]
fn after_the_last_version_a_write_is_too_large_and_nothing_wraps() {
    let offered = Offered {
        value: b"v",
        state: None,
    };
    let last = Stored {
        version: version(u64::MAX),
        state: None,
        value: b"w",
    };
    assert_eq!(
        kind_of(decide_put(Condition::Any, Some(last), offered, 0)),
        ErrorKind::TooLarge
    );
    assert_eq!(
        kind_of(decide_put(Condition::Any, None, offered, u64::MAX)),
        ErrorKind::TooLarge
    );
    assert_eq!(kind_of(version_after(u64::MAX)), ErrorKind::TooLarge);
    let same = Stored { value: b"v", ..last };
    let unchanged = decide_put(Condition::Any, Some(same), offered, 0).expect("no version is needed");
    assert_eq!(unchanged, PutVerdict::Unchanged(version(u64::MAX)));
}

#[test]
fn a_delete_is_harmless_when_repeated() {
    use DeleteVerdict::{AlreadyGone, Apply, Conflict};
    let rows = [
        (Condition::Any, Apply),
        (Condition::Present, Apply),
        (Condition::Absent, Conflict),
        (Condition::Version(7), Apply),
        (Condition::Version(6), Conflict),
        (Condition::Version(8), Conflict),
    ];
    for (condition, expected) in rows {
        assert_eq!(
            decide_delete(condition, Some(version(7))).expect("a verdict"),
            expected,
            "{condition}"
        );
        assert_eq!(
            decide_delete(condition, None).expect("a verdict"),
            AlreadyGone,
            "{condition}"
        );
    }
}

#[test]
fn a_check_holds_or_fails() {
    let rows = [
        (Condition::Any, true, true),
        (Condition::Absent, true, false),
        (Condition::Present, false, true),
        (Condition::Version(7), false, true),
        (Condition::Version(8), false, false),
    ];
    for (condition, without, with) in rows {
        assert_eq!(holds(condition, None).expect("a verdict"), without, "{condition}");
        assert_eq!(
            holds(condition, Some(version(7))).expect("a verdict"),
            with,
            "{condition}"
        );
    }
}

#[test]
fn version_zero_is_invalid_everywhere() {
    let zero = Condition::Version(0);
    let offered = Offered {
        value: b"v",
        state: None,
    };
    assert_eq!(kind_of(decide_put(zero, None, offered, 0)), ErrorKind::Invalid);
    assert_eq!(kind_of(decide_delete(zero, None)), ErrorKind::Invalid);
    assert_eq!(kind_of(holds(zero, None)), ErrorKind::Invalid);
}
