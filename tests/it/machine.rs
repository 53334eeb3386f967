//! Conditions and machines, as tables: what is stored, what is asked for, what comes of it.

use sprag::internals::{
    DeleteVerdict, Offered, PutVerdict, Reconciled, Stored, TransitionVerdict, decide_delete, decide_put,
    decide_transition, holds, version_after,
};
use sprag::{Condition, ErrorKind, Machine, MachineDef, State, StateOf, Stateless, Version, Why, limits};
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

sprag::machine! {
    /// Where an order stands.
    #[derive(PartialOrd)]
    pub enum OrderState: "orders" {
        New = "new",
        /// In a box.
        Packed = "packed",
        Shipped = "shipped",
        Delivered = "delivered",
        Cancelled = "cancelled",
    }
    initial New;
    New => Packed, Cancelled;
    Packed => Shipped, Cancelled;
    Shipped => Delivered;
}

sprag::machine! {
    enum Lamp: "lamps" { Off = "off", On = "on", Broken = "broken", Gone = "gone" }
    initial Off;
    cyclic;
    Off => On;
    On => Off, Broken;
}

sprag::machine! {
    enum Alone: "alone" { Only = "only" }
    initial Only;
}

fn machine_of<S: StateOf>() -> Machine {
    S::machine()
        .expect("a machine that keeps the rules")
        .expect("a machine")
}

#[test]
fn a_declared_enum_is_its_machine() {
    let machine = machine_of::<OrderState>();
    assert_eq!(machine.name(), "orders");
    assert_eq!(machine.states(), ["new", "packed", "shipped", "delivered", "cancelled"]);
    assert_eq!(machine.initial(), "new");
    let moves: Vec<_> = machine.moves().collect();
    let expected = [
        ("new", "packed"),
        ("new", "cancelled"),
        ("packed", "shipped"),
        ("packed", "cancelled"),
        ("shipped", "delivered"),
    ];
    assert_eq!(moves, expected);
    assert!(!machine.is_cyclic());
    assert!(machine_of::<Lamp>().is_cyclic());
    assert_eq!(machine_of::<Alone>().moves().count(), 0);
    assert!(OrderState::New < OrderState::Packed, "further derives are allowed");
}

#[test]
fn every_state_is_read_back_from_its_name() {
    use OrderState::{Cancelled, Delivered, New, Packed, Shipped};
    for state in [New, Packed, Shipped, Delivered, Cancelled] {
        assert_eq!(OrderState::from_name(state.name()), Some(state));
        assert_eq!(
            OrderState::parse(<OrderState as StateOf>::name(&state)).expect("a state"),
            state
        );
    }
    assert_eq!(kind_of(OrderState::parse(Some("lost"))), ErrorKind::Schema);
    assert_eq!(kind_of(OrderState::parse(None)), ErrorKind::Schema);
}

#[test]
fn a_table_without_states_has_no_machine_and_no_name_to_store() {
    assert!(Stateless::machine().expect("nothing to judge").is_none());
    assert_eq!(<Stateless as StateOf>::name(&()), None);
    assert_eq!(Stateless::parse(None).expect("no state"), ());
    assert_eq!(kind_of(Stateless::parse(Some("new"))), ErrorKind::Schema);
}

type Moves = &'static [(&'static str, &'static str)];

fn judged(states: &'static [&'static str], initial: &'static str, moves: Moves) -> sprag::Result<Machine> {
    Machine::from_def(&MachineDef::new("m", states, initial, moves))
}

#[test]
fn a_machine_that_breaks_a_rule_is_invalid() {
    let long: &'static str = "s".repeat(limits::STATE_NAME_BYTES_MAX + 1).leak();
    let cases: [(&str, &'static [&'static str], &'static str, Moves); 12] = [
        ("no state", &[], "a", &[]),
        ("empty name", &["a", ""], "a", &[]),
        ("long name", vec![long].leak(), long, &[]),
        ("twice", &["a", "b", "a"], "a", &[]),
        ("unknown initial", &["a"], "b", &[]),
        ("unknown from", &["a"], "a", &[("b", "a")]),
        ("unknown to", &["a"], "a", &[("a", "b")]),
        ("self move", &["a", "b"], "a", &[("b", "b")]),
        ("move twice", &["a", "b"], "a", &[("a", "b"), ("a", "b")]),
        ("cycle of two", &["a", "b"], "a", &[("a", "b"), ("b", "a")]),
        (
            "cycle of three",
            &["a", "b", "c", "d"],
            "a",
            &[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")],
        ),
        ("cycle apart", &["a", "b", "c"], "a", &[("b", "c"), ("c", "b")]),
    ];
    for (what, states, initial, moves) in cases {
        assert_eq!(kind_of(judged(states, initial, moves)), ErrorKind::Invalid, "{what}");
    }
    for name in ["", long] {
        assert_eq!(
            kind_of(Machine::from_def(&MachineDef::new(name, &["a"], "a", &[]))),
            ErrorKind::Invalid
        );
    }
}

#[test]
fn a_machine_within_the_rules_is_taken() {
    let longest: &'static str = "s".repeat(limits::STATE_NAME_BYTES_MAX).leak();
    assert!(judged(vec![longest].leak(), longest, &[]).is_ok());
    assert!(
        judged(
            &["a", "b", "c", "d"],
            "a",
            &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
        )
        .is_ok(),
        "a diamond"
    );
    assert!(judged(&["a", "b"], "a", &[]).is_ok(), "a state that nothing leads to");
    let turning = MachineDef::new("m", &["a", "b"], "a", &[("a", "b"), ("b", "a")]).cyclic();
    assert!(Machine::from_def(&turning).is_ok());
    let self_move = MachineDef::new("m", &["a"], "a", &[("a", "a")]).cyclic();
    assert_eq!(
        kind_of(Machine::from_def(&self_move)),
        ErrorKind::Invalid,
        "also where cycles are allowed"
    );
}

/// The largest machine with every move it can have without a cycle, and the smallest that is too large.
#[test]
fn the_most_states_pass_and_one_more_is_invalid() {
    let names: Vec<&'static str> = (0..=limits::STATES_MAX).map(|n| &*format!("s{n}").leak()).collect();
    let names: &'static [&'static str] = names.leak();
    let most = names.get(..limits::STATES_MAX).expect("one more than that");
    let mut moves = Vec::new();
    for (place, from) in most.iter().enumerate() {
        moves.extend(most.iter().skip(place + 1).map(|to| (*from, *to)));
    }
    assert!(judged(most, "s0", moves.leak()).is_ok());
    assert_eq!(kind_of(judged(names, "s0", &[])), ErrorKind::Invalid);
}

/// A stored machine that somebody forged: every number out of range is refused, none is followed.
#[test]
fn a_stored_machine_is_judged_like_a_declared_one() {
    let forged = [
        r#"{"name":"m","states":["a"],"initial":1,"moves":[],"cyclic":false}"#,
        r#"{"name":"m","states":["a"],"initial":0,"moves":[[0,1]],"cyclic":false}"#,
        r#"{"name":"m","states":["a"],"initial":0,"moves":[[4294967295,0]],"cyclic":true}"#,
        r#"{"name":"m","states":["a","a"],"initial":0,"moves":[],"cyclic":true}"#,
        r#"{"name":"m","states":[],"initial":0,"moves":[],"cyclic":true}"#,
        r#"{"name":"m","states":["a","b"],"initial":0,"moves":[[0,1],[1,0]],"cyclic":false}"#,
    ];
    for text in forged {
        let machine: Machine = serde_json::from_str(text).expect("the shape of a machine");
        assert_eq!(kind_of(machine.validate()), ErrorKind::Invalid, "{text}");
        // Nothing that is asked of it before it was judged ends the process.
        assert_eq!(machine.why("a", "a", "zz"), Why::NoPath);
        let _ = (
            machine.initial(),
            machine.moves().count(),
            Machine::reconcile(&machine, &machine),
        );
    }
}

fn transition(machine: &Machine, found: &str, from: &str, to: &str) -> TransitionVerdict {
    decide_transition(machine, Some(Some(found)), from, to).expect("a verdict")
}

#[test]
fn a_transition_is_applied_already_there_or_refused_with_the_reason() {
    use TransitionVerdict::{AlreadyThere, Apply, Refused};
    let orders = machine_of::<OrderState>();
    let rows = [
        ("packed", "packed", "shipped", Apply),
        ("shipped", "packed", "shipped", AlreadyThere),
        ("delivered", "packed", "shipped", Refused(Why::Late)),
        ("new", "packed", "shipped", Refused(Why::Early)),
        ("cancelled", "packed", "shipped", Refused(Why::NoPath)),
        ("shipped", "new", "cancelled", Refused(Why::NoPath)),
        ("packed", "new", "cancelled", Refused(Why::NoPath)),
        ("new", "shipped", "delivered", Refused(Why::Early)),
        ("delivered", "new", "packed", Refused(Why::Late)),
        ("cancelled", "new", "packed", Refused(Why::Late)),
    ];
    for (found, from, to, expected) in rows {
        assert_eq!(
            transition(&orders, found, from, to),
            expected,
            "{found}: {from} to {to}"
        );
    }
    assert_eq!(
        decide_transition(&orders, None, "new", "packed").expect("a verdict"),
        Refused(Why::Missing)
    );
    assert_eq!(
        decide_transition(&orders, Some(None), "new", "packed").expect("a verdict"),
        Refused(Why::NoState)
    );
}

#[test]
fn in_a_cycle_a_record_may_be_before_or_past_a_transition() {
    let machine = Machine::from_def(
        &MachineDef::new(
            "m",
            &["a", "b", "c", "end"],
            "a",
            &[("a", "b"), ("b", "c"), ("c", "a"), ("a", "end")],
        )
        .cyclic(),
    )
    .expect("a machine");
    assert_eq!(
        transition(&machine, "c", "a", "b"),
        TransitionVerdict::Refused(Why::Either)
    );
    assert_eq!(
        transition(&machine, "end", "a", "b"),
        TransitionVerdict::Refused(Why::Late)
    );
    assert_eq!(transition(&machine, "b", "a", "b"), TransitionVerdict::AlreadyThere);
    assert_eq!(
        transition(&machine, "b", "a", "end"),
        TransitionVerdict::Refused(Why::Early)
    );
    let lamp = machine_of::<Lamp>();
    assert_eq!(
        transition(&lamp, "broken", "off", "on"),
        TransitionVerdict::Refused(Why::Late)
    );
    assert_eq!(
        transition(&lamp, "gone", "off", "on"),
        TransitionVerdict::Refused(Why::NoPath)
    );
    assert_eq!(transition(&lamp, "on", "on", "off"), TransitionVerdict::Apply);
}

#[test]
fn an_undeclared_move_is_invalid_and_an_unknown_state_in_the_file_is_a_schema_error() {
    let orders = machine_of::<OrderState>();
    for (from, to) in [
        ("new", "shipped"),
        ("packed", "new"),
        ("new", "new"),
        ("new", "lost"),
        ("lost", "new"),
        ("", ""),
    ] {
        for stored in [None, Some(None), Some(Some("new"))] {
            assert_eq!(
                kind_of(decide_transition(&orders, stored, from, to)),
                ErrorKind::Invalid,
                "{from} to {to}"
            );
        }
    }
    assert_eq!(
        kind_of(decide_transition(&orders, Some(Some("lost")), "new", "packed")),
        ErrorKind::Schema
    );
}

fn machine(states: &'static [&'static str], moves: Moves) -> Machine {
    judged(states, "a", moves).expect("a machine")
}

#[test]
fn a_declaration_with_more_is_recorded_and_one_with_less_may_open() {
    let stored = machine(&["a", "b"], &[("a", "b")]);
    let other_order = machine(&["b", "a"], &[("a", "b")]);
    assert_eq!(Machine::reconcile(&stored, &other_order), Reconciled::Same);
    let more = machine(&["c", "b", "a"], &[("c", "b"), ("a", "b")]);
    let Reconciled::Grown(grown) = Machine::reconcile(&stored, &more) else {
        panic!("not grown")
    };
    assert_eq!(grown.states(), ["a", "b", "c"], "states keep their places");
    assert_eq!(grown.initial(), "a");
    assert_eq!(grown.moves().collect::<Vec<_>>(), [("c", "b"), ("a", "b")]);
    grown.validate().expect("what is recorded keeps the rules");
    assert_eq!(Machine::reconcile(&grown, &more), Reconciled::Same);
    assert_eq!(Machine::reconcile(&grown, &stored), Reconciled::Subset);
    let one_move_more = machine(&["a", "b", "c"], &[("a", "b"), ("c", "b"), ("a", "c")]);
    assert!(matches!(
        Machine::reconcile(&grown, &one_move_more),
        Reconciled::Grown(_)
    ));
    assert_eq!(Machine::reconcile(&one_move_more, &grown), Reconciled::Subset);
}

#[test]
fn declarations_that_each_have_something_of_their_own_disagree_and_the_text_names_both() {
    let stored = machine(&["a", "b", "c"], &[("a", "b")]);
    let declared = machine(&["a", "b", "d"], &[("b", "a")]);
    let Reconciled::Disagrees(text) = Machine::reconcile(&stored, &declared) else {
        panic!("agrees")
    };
    assert_eq!(
        text,
        "only in file: state c; move a to b, only in program: state d; move b to a"
    );
    let other_initial = judged(&["a", "b", "c"], "b", &[("a", "b")]).expect("a machine");
    assert!(
        matches!(Machine::reconcile(&stored, &other_initial), Reconciled::Disagrees(text) if text.contains("initial"))
    );
    let other_name = Machine::from_def(&MachineDef::new("n", &["a", "b", "c"], "a", &[("a", "b")])).expect("a machine");
    assert!(matches!(Machine::reconcile(&stored, &other_name), Reconciled::Disagrees(text) if text.contains("name")));
}

#[test]
fn allowing_cycles_is_something_more() {
    let plain = MachineDef::new("m", &["a", "b"], "a", &[("a", "b")]);
    let (stored, turning) = (
        Machine::from_def(&plain).expect("one"),
        Machine::from_def(&plain.cyclic()).expect("two"),
    );
    assert_eq!(
        Machine::reconcile(&stored, &turning),
        Reconciled::Grown(turning.clone())
    );
    assert_eq!(Machine::reconcile(&turning, &stored), Reconciled::Subset);
}

#[test]
fn a_machine_comes_back_from_its_stored_form() {
    let machine = machine_of::<OrderState>();
    let text = serde_json::to_string(&machine).expect("json");
    assert_eq!(serde_json::from_str::<Machine>(&text).expect("its own text"), machine);
}
