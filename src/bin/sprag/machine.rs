//! `machine`: states and moves as text, as JSON, and as a diagram in which any name is right.
//!
//! In a diagram states are named by their place, and their names are labels only: what a name may hold is then a matter of
//! quoting, and never of the grammar.

use serde::Serialize;
use sprag::{Machine, ReadTx, Store};

use crate::answer::{Answer, Work, plain};
use crate::args::MachineArgs;
use crate::failure::Failure;

#[derive(Serialize)]
struct Shown<'a> {
    machine: &'a str,
    initial: &'a str,
    cyclic: bool,
    states: &'a [String],
    moves: Vec<Move<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagram: Option<String>,
}

#[derive(Serialize)]
struct Move<'a> {
    from: &'a str,
    to: &'a str,
}

pub fn machine(store: &Store, args: &MachineArgs, json: bool) -> Result<Answer, Failure> {
    let machine = store.read(|tx| find(tx, &args.name))?;
    let diagram = match (args.mermaid, args.dot) {
        (true, _) => Some(mermaid(&machine)),
        (_, true) => Some(dot(&machine)),
        _ => None,
    };
    let shown = Shown {
        machine: machine.name(),
        initial: machine.initial(),
        cyclic: machine.is_cyclic(),
        states: machine.states(),
        moves: machine.moves().map(|(from, to)| Move { from, to }).collect(),
        diagram,
    };
    Answer::new(json, Work::Read, &shown, || match &shown.diagram {
        Some(diagram) => diagram.clone(),
        None => text(&shown),
    })
}

/// The machine of a table, or else the machine of this name. Each table keeps its own, so those of one name may differ.
fn find(tx: &ReadTx<'_>, name: &str) -> Result<Machine, Failure> {
    if let Some(machine) = tx.table(name)?.as_ref().and_then(|table| table.machine()) {
        return Ok(machine.clone());
    }
    let tables = tx.tables()?;
    let named: Vec<_> = tables
        .iter()
        .filter(|table| table.machine().is_some_and(|machine| machine.name() == name))
        .collect();
    let Some(machine) = named.first().and_then(|table| table.machine()) else {
        return Err(Failure::no_machine(name));
    };
    if named.iter().any(|table| table.machine() != Some(machine)) {
        let tables: Vec<_> = named.iter().map(|table| table.name()).collect();
        return Err(Failure::machines_differ(name, &tables));
    }
    Ok(machine.clone())
}

/// Names are in quotes, so that none can be taken for a part of a line.
fn text(shown: &Shown<'_>) -> String {
    let mut lines = vec![
        format!("machine {:?} cyclic={}", shown.machine, shown.cyclic),
        format!("initial {:?}", shown.initial),
    ];
    lines.extend(shown.states.iter().map(|state| format!("state {state:?}")));
    lines.extend(
        shown
            .moves
            .iter()
            .map(|Move { from, to }| format!("move {from:?} -> {to:?}")),
    );
    let lines: Vec<_> = lines.iter().map(|line| plain(line)).collect();
    lines.join("\n")
}

/// Places of the initial state and of both ends of each move.
fn places(machine: &Machine) -> (usize, impl Iterator<Item = (usize, usize)>) {
    let place = |name: &str| {
        machine
            .states()
            .iter()
            .position(|state| state == name)
            .unwrap_or_default()
    };
    let moves = machine.moves().map(move |(from, to)| (place(from), place(to)));
    (place(machine.initial()), moves)
}

fn mermaid(machine: &Machine) -> String {
    let mut lines = vec!["stateDiagram-v2".to_owned()];
    for (place, state) in machine.states().iter().enumerate() {
        lines.push(format!("    state \"{}\" as s{place}", mermaid_label(state)));
    }
    let (initial, moves) = places(machine);
    lines.push(format!("    [*] --> s{initial}"));
    lines.extend(moves.map(|(from, to)| format!("    s{from} --> s{to}")));
    lines.join("\n")
}

/// Whatever is not a letter, a digit or plainly harmless goes by its number, which Mermaid turns back when it draws.
fn mermaid_label(name: &str) -> String {
    let mut label = String::new();
    for character in plain(name).chars() {
        if character.is_alphanumeric() || matches!(character, ' ' | '_' | '-' | '.') {
            label.push(character);
        } else {
            label.push_str(&format!("#{};", u32::from(character)));
        }
    }
    label
}

fn dot(machine: &Machine) -> String {
    let mut lines = vec![
        "digraph machine {".to_owned(),
        format!("    label=\"{}\";", dot_label(machine.name())),
        "    start [shape=point, label=\"\"];".to_owned(),
    ];
    for (place, state) in machine.states().iter().enumerate() {
        lines.push(format!("    s{place} [label=\"{}\"];", dot_label(state)));
    }
    let (initial, moves) = places(machine);
    lines.push(format!("    start -> s{initial};"));
    lines.extend(moves.map(|(from, to)| format!("    s{from} -> s{to};")));
    lines.push("}".to_owned());
    lines.join("\n")
}

/// Graphviz obeys backslashes in a label, and reads entities of HTML.
fn dot_label(name: &str) -> String {
    plain(name)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('&', "&amp;")
}
