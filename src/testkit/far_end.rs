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

impl Promise {
    /// The rule that is broken if it is not kept.
    pub(super) fn rule(self) -> Rule {
        match self {
            Promise::AtMostOnce => Rule::RecordBeforeEffect,
            Promise::AtLeastOnce => Rule::RecordAfterEffect,
            Promise::OncePerEffectId => Rule::SameEffectId,
        }
    }
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
            let when = state.hang_up.filter(|(at, _)| *at == call).map(|(_, when)| when);
            // A machine that is gone sends nothing.
            if when != Some(When::Before) && !director.is_gone() {
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

    pub(super) fn calls(&self) -> u64 {
        self.0.lock().calls
    }
}

/// What is wrong with the effects, if they are not as promised; `once` are those of one delivery.
pub(super) fn broken(promise: Promise, once: &BTreeMap<String, u64>, found: &BTreeMap<String, u64>) -> Option<String> {
    let total = |effects: &BTreeMap<String, u64>| effects.values().sum::<u64>();
    let kept = match promise {
        Promise::AtMostOnce => total(found) <= total(once),
        Promise::AtLeastOnce => total(found) >= total(once),
        Promise::OncePerEffectId => found.keys().eq(once.keys()),
    };
    (!kept).then(|| {
        format!(
            "effects at the far end: {}, and of one delivery: {}",
            shown(found),
            shown(once)
        )
    })
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
