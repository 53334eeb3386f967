//! What a transition gets for an answer, and whether a declared machine fits the stored one. Pure.

use super::Machine;
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// Why a transition was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The record is already past the state asked for: a repeat or a message overtaken by others. Drop it.
    Late,
    /// The record has not yet come to the state the transition starts from: try again later.
    Early,
    /// The machine has a cycle, and the record may be before or past the transition.
    Either,
    /// No moves connect the state found with the transition.
    NoPath,
    /// The record has no state: it was written while the table declared none.
    NoState,
    /// There is no such record.
    Missing,
}

impl Why {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Why::Late => "late",
            Why::Early => "early",
            Why::Either => "either",
            Why::NoPath => "no path",
            Why::NoState => "no state",
            Why::Missing => "missing",
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// What to do about a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionVerdict {
    /// The record is where the transition starts: set the new state.
    Apply,
    /// The record already is in the state asked for.
    AlreadyThere,
    /// Nothing may change.
    Refused(Why),
}

/// Judges a transition against the machine that the file keeps. `stored` is `None` without a record, and else its state.
///
/// # Errors
/// `Invalid` if the machine has no such move. `Schema` if the record is in a state that the machine does not have.
pub fn decide_transition(
    machine: &Machine,
    stored: Option<Option<&str>>,
    from: &str,
    to: &str,
) -> Result<TransitionVerdict> {
    let name = machine.name();
    if !machine.has_move(from, to) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("no such move, from={from}, to={to}, machine={name}"),
        ));
    }
    let found = match stored {
        None => return Ok(TransitionVerdict::Refused(Why::Missing)),
        Some(None) => return Ok(TransitionVerdict::Refused(Why::NoState)),
        Some(Some(found)) => found,
    };
    if found == to {
        return Ok(TransitionVerdict::AlreadyThere);
    }
    if found == from {
        return Ok(TransitionVerdict::Apply);
    }
    if !machine.has_state(found) {
        return Err(Error::new(
            ErrorKind::Schema,
            format!("machine has no such state, state={found}, machine={name}"),
        ));
    }
    Ok(TransitionVerdict::Refused(machine.why(found, from, to)))
}

/// How a declared machine relates to the stored one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// They say the same.
    Same,
    /// The declared one has more: record this one. States keep their places, new ones come after them.
    Grown(Machine),
    /// The declared one has less: an older program, which may go on.
    Subset,
    /// Each has what the other has not, or they begin differently. The text names both sides.
    Disagrees(String),
}

impl Machine {
    /// Why a record in state `found` cannot make the move from `from` to `to`, for a state that is neither of them.
    pub fn why(&self, found: &str, from: &str, to: &str) -> Why {
        let (Some(found), Some(from), Some(to)) = (self.place(found), self.place(from), self.place(to)) else {
            return Why::NoPath;
        };
        match (reaches(&self.moves, to, found), reaches(&self.moves, found, from)) {
            (true, true) => Why::Either,
            (true, false) => Why::Late,
            (false, true) => Why::Early,
            (false, false) => Why::NoPath,
        }
    }

    /// Compares a stored machine with the one that a program declares. Both were judged before.
    pub fn reconcile(stored: &Machine, declared: &Machine) -> Reconciled {
        if stored.name != declared.name {
            return Reconciled::Disagrees(format!(
                "name in file={}, name in program={}",
                stored.name, declared.name
            ));
        }
        if stored.initial() != declared.initial() {
            let (file, program) = (stored.initial(), declared.initial());
            return Reconciled::Disagrees(format!("initial in file={file}, initial in program={program}"));
        }
        let only_stored = missing_from(declared, stored);
        let only_declared = missing_from(stored, declared);
        match (only_stored.is_empty(), only_declared.is_empty()) {
            (true, true) => Reconciled::Same,
            (true, false) => Reconciled::Grown(grown(stored, declared)),
            (false, true) => Reconciled::Subset,
            (false, false) => {
                let (file, program) = (only_stored.join("; "), only_declared.join("; "));
                Reconciled::Disagrees(format!("only in file: {file}, only in program: {program}"))
            }
        }
    }
}

/// What `whole` has and `part` has not, in words.
fn missing_from(part: &Machine, whole: &Machine) -> Vec<String> {
    let known_states: HashSet<&str> = part.states().iter().map(String::as_str).collect();
    let known_moves: HashSet<(&str, &str)> = part.moves().collect();
    let states = whole
        .states()
        .iter()
        .filter(|state| !known_states.contains(state.as_str()));
    let moves = whole.moves().filter(|step| !known_moves.contains(step));
    let mut missing: Vec<String> = states.map(|state| format!("state {state}")).collect();
    missing.extend(moves.map(|(from, to)| format!("move {from} to {to}")));
    if whole.is_cyclic() && !part.is_cyclic() {
        missing.push("cycles allowed".to_owned());
    }
    missing
}

/// The declared machine with the stored one's states in their old places.
fn grown(stored: &Machine, declared: &Machine) -> Machine {
    let mut states = stored.states.clone();
    states.extend(declared.states.iter().filter(|state| !stored.has_state(state)).cloned());
    let mut machine = Machine {
        states,
        moves: Vec::new(),
        cyclic: declared.cyclic,
        ..stored.clone()
    };
    machine.moves = declared
        .moves()
        .filter_map(|(from, to)| Some((machine.place(from)?, machine.place(to)?)))
        .collect();
    machine
}

/// Whether one or more moves lead from the one place to the other.
pub(super) fn reaches(moves: &[(u32, u32)], from: u32, to: u32) -> bool {
    let mut seen = HashSet::new();
    let mut next = vec![from];
    while let Some(place) = next.pop() {
        for &(_, behind) in moves.iter().filter(|(start, _)| *start == place) {
            if behind == to {
                return true;
            }
            if seen.insert(behind) {
                next.push(behind);
            }
        }
    }
    false
}
