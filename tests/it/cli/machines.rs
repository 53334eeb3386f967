//! `machine`: what the file says of states and moves, as text, as JSON and as diagrams, whatever the names are.

use sprag::{Machine, MachineDef, State, Store, Table};

use super::Place;

sprag::machine! {
    /// Where an order stands.
    enum Order: "order machine" {
        New = "new",
        Packed = "packed",
        Cancelled = "cancelled",
    }
    initial New;
    New => Packed, Cancelled;
    Packed => Cancelled;
}

/// Names that every form of the answer must quote in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    Quoted,
    Lines,
    Arrow,
}

const ODD: [&str; 3] = ["say \"hi\" \\", "two\nlines", "a --> b: style x:y# & [*]"];

impl State for Odd {
    const MACHINE: MachineDef = MachineDef::new(
        "odd \"one\"",
        &ODD,
        ODD[2],
        &[(ODD[2], ODD[0]), (ODD[0], ODD[1]), (ODD[1], ODD[2])],
    )
    .cyclic();

    fn name(self) -> &'static str {
        ODD[self as usize]
    }

    fn from_name(name: &str) -> Option<Odd> {
        [Odd::Quoted, Odd::Lines, Odd::Arrow]
            .into_iter()
            .find(|odd| State::name(*odd) == name)
    }
}

fn place() -> Place {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    store
        .put(Table::<u64, u64, Order>::new("orders"), &1, &1)
        .expect("a put");
    store.put(Table::<u64, u64, Odd>::new("odd"), &1, &1).expect("a put");
    store.put(Table::<u64, u64>::new("plain"), &1, &1).expect("a put");
    store.close().expect("closed");
    place
}

#[test]
fn a_machine_is_printed_by_the_name_of_its_table_or_its_own() {
    let place = place();
    let text = "machine \"order machine\" cyclic=false\ninitial \"new\"\nstate \"new\"\nstate \"packed\"\n\
        state \"cancelled\"\nmove \"new\" -> \"packed\"\nmove \"new\" -> \"cancelled\"\nmove \"packed\" -> \"cancelled\"";
    for name in ["orders", "order machine"] {
        place.run(&["machine", "FILE", name]).says(text);
    }
    place.json(&["machine", "FILE", "orders"]).says(
        "{\"machine\":\"order machine\",\"initial\":\"new\",\"cyclic\":false,\"states\":[\"new\",\"packed\",\"cancelled\"],\
        \"moves\":[{\"from\":\"new\",\"to\":\"packed\"},{\"from\":\"new\",\"to\":\"cancelled\"},\
        {\"from\":\"packed\",\"to\":\"cancelled\"}]}",
    );
    for missing in ["nobody", "plain"] {
        place.json(&["machine", "FILE", missing]).fails(4, "no_machine");
    }
    place
        .json(&["machine", "FILE", "orders", "--dot", "--mermaid"])
        .fails(2, "usage");
}

#[test]
fn a_machine_is_drawn_for_mermaid_and_for_graphviz() {
    let place = place();
    let mermaid = "stateDiagram-v2\n    state \"new\" as s0\n    state \"packed\" as s1\n    state \"cancelled\" as s2\n    \
        [*] --> s0\n    s0 --> s1\n    s0 --> s2\n    s1 --> s2";
    place.run(&["machine", "FILE", "orders", "--mermaid"]).says(mermaid);
    let dot = "digraph machine {\n    label=\"order machine\";\n    start [shape=point, label=\"\"];\n    \
        s0 [label=\"new\"];\n    s1 [label=\"packed\"];\n    s2 [label=\"cancelled\"];\n    start -> s0;\n    \
        s0 -> s1;\n    s0 -> s2;\n    s1 -> s2;\n}";
    place.run(&["machine", "FILE", "orders", "--dot"]).says(dot);
    for (flag, diagram) in [("--mermaid", mermaid), ("--dot", dot)] {
        let object: serde_json::Value =
            serde_json::from_str(&place.json(&["machine", "FILE", "orders", flag]).out).expect("an object");
        assert_eq!(object["diagram"], diagram);
        assert_eq!(object["initial"], "new");
    }
}

/// A name is never taken for a part of the grammar that it stands in.
#[test]
fn any_name_of_a_state_is_right_in_every_form() {
    let place = place();
    place.run(&["machine", "FILE", "odd"]).says(
        "machine \"odd \\\"one\\\"\" cyclic=true\ninitial \"a --> b: style x:y# & [*]\"\n\
        state \"say \\\"hi\\\" \\\\\"\nstate \"two\\nlines\"\nstate \"a --> b: style x:y# & [*]\"\n\
        move \"a --> b: style x:y# & [*]\" -> \"say \\\"hi\\\" \\\\\"\nmove \"say \\\"hi\\\" \\\\\" -> \"two\\nlines\"\n\
        move \"two\\nlines\" -> \"a --> b: style x:y# & [*]\"",
    );
    let object: serde_json::Value =
        serde_json::from_str(&place.json(&["machine", "FILE", "odd"]).out).expect("an object");
    assert_eq!(
        (&object["states"], &object["machine"]),
        (&serde_json::json!(ODD), &"odd \"one\"".into())
    );
    place.run(&["machine", "FILE", "odd", "--mermaid"]).says(
        "stateDiagram-v2\n    state \"say #34;hi#34; #92;\" as s0\n    state \"two#92;nlines\" as s1\n    \
        state \"a --#62; b#58; style x#58;y#35; #38; #91;#42;#93;\" as s2\n    [*] --> s2\n    s2 --> s0\n    \
        s0 --> s1\n    s1 --> s2",
    );
    place.run(&["machine", "FILE", "odd", "--dot"]).says(
        "digraph machine {\n    label=\"odd \\\"one\\\"\";\n    start [shape=point, label=\"\"];\n    \
        s0 [label=\"say \\\"hi\\\" \\\\\"];\n    s1 [label=\"two\\\\nlines\"];\n    \
        s2 [label=\"a --> b: style x:y# &amp; [*]\"];\n    start -> s2;\n    s2 -> s0;\n    s0 -> s1;\n    s1 -> s2;\n}",
    );
}

/// Each table keeps its own machine, and two programs may know different ones by one name.
#[test]
fn a_name_of_different_machines_is_refused_and_one_of_equal_machines_is_not() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Other;
    impl State for Other {
        const MACHINE: MachineDef = MachineDef::new("order machine", &["only"], "only", &[]);
        fn name(self) -> &'static str {
            "only"
        }
        fn from_name(name: &str) -> Option<Other> {
            (name == "only").then_some(Other)
        }
    }
    let place = place();
    let store = Store::open(&place.file).expect("the store");
    store
        .put(Table::<u64, u64, Order>::new("returns"), &1, &1)
        .expect("a put");
    store.close().expect("closed");
    let seen = place.run(&["machine", "FILE", "order machine"]);
    assert!(
        seen.code == Some(0) && seen.out.starts_with("machine \"order machine\""),
        "{seen:?}"
    );
    let store = Store::open(&place.file).expect("the store");
    store
        .put(Table::<u64, u64, Other>::new("others"), &1, &1)
        .expect("a put");
    store.close().expect("closed");
    let error = place.json(&["machine", "FILE", "order machine"]).fails(2, "invalid");
    assert_eq!(
        error["message"],
        "tables have different machines of this name; name a table, machine=order machine, tables=orders,others,returns"
    );
    place
        .run(&["machine", "FILE", "others"])
        .says("machine \"order machine\" cyclic=false\ninitial \"only\"\nstate \"only\"");
    assert_eq!(
        Machine::from_def(&Other::MACHINE).expect("a machine").states(),
        ["only"]
    );
}
