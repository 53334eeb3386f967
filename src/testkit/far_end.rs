//! The other side of a handler that sends something: it counts effects, and hangs up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::director::{Director, nobody};
use super::report::Rule;
use crate::Probe as _;
use crate::sync::Mutex;

/// What a handler promises about the effects that it has outside of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// However often a message comes, at most the calls of one delivery reach the far end.
    AtMostOnce,
    /// At least the calls of one delivery do, once somebody was told that the message is handled.
    AtLeastOnce,
    /// They do, and those that come again carry the same effect id, so that the far end can tell: exactly once in effect.
    OncePerEffectId,
}

/// A far end that counts the effects that reach it by their id. Clones share it: give one to the handler, one to the proof.
///
/// In some histories it hangs up, before it has applied the effect or after.
#[derive(Clone, Debug)]
pub struct FarEnd(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    director: Arc<Director>,
    applied: BTreeMap<String, u64>,
    calls: u64,
    hang_up: Option<(u64, When)>,
}

/// When the far end hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
    /// It hangs up before it applies, and goes on so until it recovers.
    Down,
}

/// The far end hung up: whether it has applied the effect is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HungUp;

impl fmt::Display for HungUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the far end hung up; whether it has applied the effect is not known")
    }
}

impl std::error::Error for HungUp {}

impl Default for FarEnd {
    fn default() -> FarEnd {
        FarEnd::new()
    }
}

impl FarEnd {
    /// A far end that no effect has reached.
    pub fn new() -> FarEnd {
        FarEnd(Arc::new(Mutex::new(State {
            director: nobody(),
            applied: BTreeMap::new(),
            calls: 0,
            hang_up: None,
        })))
    }

    /// Sends an effect under its id.
    ///
    /// # Errors
    /// [`HungUp`], as the history has it.
    pub fn call(&self, effect_id: impl fmt::Display) -> Result<(), HungUp> {
        let director = self.0.lock().director.clone();
        director.before("far end");
        let hung_up = {
            let mut state = self.0.lock();
            let call = state.calls;
            state.calls += 1;
            let strikes = |(at, when): &(u64, When)| *at == call || (*at < call && *when == When::Down);
            let when = state.hang_up.filter(strikes).map(|(_, when)| when);
            // A machine that is gone sends nothing.
            if matches!(when, None | Some(When::After)) && !director.is_gone() {
                *state.applied.entry(effect_id.to_string()).or_default() += 1;
            }
            when.is_some()
        };
        director.after();
        if hung_up { Err(HungUp) } else { Ok(()) }
    }

    /// How many effects have reached it, by their id.
    pub fn applied(&self) -> BTreeMap<String, u64> {
        self.0.lock().applied.clone()
    }

    /// A new history begins.
    pub(super) fn begin(&self, director: &Arc<Director>, hang_up: Option<(u64, When)>) {
        *self.0.lock() = State {
            director: director.clone(),
            applied: BTreeMap::new(),
            calls: 0,
            hang_up,
        };
    }

    /// It hangs up no more.
    pub(super) fn recovers(&self) {
        self.0.lock().hang_up = None;
    }

    pub(super) fn calls(&self) -> u64 {
        self.0.lock().calls
    }
}

/// What is wrong with the effects, and the rule that it breaks; `once` are those of one delivery.
pub(super) fn broken(
    promise: Promise,
    once: &BTreeMap<String, u64>,
    found: &BTreeMap<String, u64>,
) -> Option<(Rule, String)> {
    let total = |effects: &BTreeMap<String, u64>| effects.values().sum::<u64>();
    // Ids of one delivery are counted each by itself; where a repeat has others, only their number can be compared.
    let known = found.keys().all(|id| once.contains_key(id));
    let count = |effects: &BTreeMap<String, u64>, id: &String| effects.get(id).copied().unwrap_or_default();
    let lost = match known {
        true => once.iter().any(|(id, wanted)| count(found, id) < *wanted),
        false => total(found) < total(once),
    };
    let doubled = match known {
        true => once.iter().any(|(id, wanted)| count(found, id) > *wanted),
        false => total(found) > total(once),
    };
    let rule = match promise {
        Promise::AtMostOnce if doubled => Rule::RecordBeforeEffect,
        Promise::AtLeastOnce | Promise::OncePerEffectId if lost => Rule::RecordAfterEffect,
        Promise::OncePerEffectId if !found.keys().eq(once.keys()) => Rule::SameEffectId,
        _ => return None,
    };
    let difference = format!(
        "effects at the far end: {}, and of one delivery: {}",
        shown(found),
        shown(once)
    );
    Some((rule, difference))
}

fn shown(effects: &BTreeMap<String, u64>) -> String {
    if effects.is_empty() {
        return "none".to_owned();
    }
    let each: Vec<String> = effects
        .iter()
        .map(|(id, count)| format!("{id} {count} times"))
        .collect();
    each.join(", ")
}
