//! Machines, as tables: what may be declared, what a transition gets, what fits the machine in the file.

use sprag::internals::{Reconciled, TransitionVerdict, decide_transition};
use sprag::{ErrorKind, Machine, MachineDef, State, StateOf, Stateless, Why, limits};
use std::fmt::Debug;

fn kind_of<T: Debug>(result: sprag::Result<T>) -> ErrorKind {
    result.expect_err("an error").kind()
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
