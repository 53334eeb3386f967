//! What a proof found: a history that shows the fault, what differs, and the rule that it breaks.

use std::fmt;

/// A rule of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The first delivery must be handled.
    FirstDelivery,
    /// Two first deliveries, on two new stores, must leave the same.
    SameEachTime,
    /// An error of the store must reach the sender.
    PassErrorsOn,
    /// A repeat must find out that it is one.
    FindRepeats,
    /// A repeat is told what the first delivery was told.
    RememberResult,
    /// What marks the work as done is in one commit with the work.
    OneCommit,
    /// Looking and writing are one.
    LookAndWrite,
    /// A repeat that comes late must not undo what came after it.
    LateRepeat,
    /// A key is kept for longer than a repeat can be late.
    KeepLongEnough,
    /// The record that an effect begins comes before the effect.
    RecordBeforeEffect,
    /// The record that an effect is done comes after the effect.
    RecordAfterEffect,
    /// An effect has the same id in every delivery.
    SameEffectId,
}

impl Rule {
    /// The rule in words.
    pub fn text(self) -> &'static str {
        match self {
            Rule::FirstDelivery => "the first delivery of a message, with nothing in its way, must be handled",
            Rule::SameEachTime => {
                "what a delivery leaves must follow from the message and the store alone: take times and ids from the message, and \
                 keep nothing in memory, by a clock, by chance or in the order of a hash map"
            }
            Rule::PassErrorsOn => {
                "an error of the store or of the far end is no answer to the message: pass it on, so that the sender delivers again"
            }
            Rule::FindRepeats => {
                "a repeat must find out that it is one: set the value instead of adding, ask for a version or a state, or \
                 remember a key that is the same in every delivery"
            }
            Rule::RememberResult => {
                "a repeat is told what the first delivery was told: keep the result with the remembered key"
            }
            Rule::OneCommit => {
                "what marks the work as done belongs into one commit with the work, neither before nor after it"
            }
            Rule::LookAndWrite => {
                "look and write in one transaction, or write under a condition on exactly what was looked at"
            }
            Rule::LateRepeat => {
                "a repeat that comes late must not undo what came after its first delivery: remember a key"
            }
            Rule::KeepLongEnough => "a key must be kept for longer than a repeat can be late",
            Rule::RecordBeforeEffect => {
                "an effect that must not happen twice is recorded as begun before it happens, and not tried again"
            }
            Rule::RecordAfterEffect => "an effect that must not be lost is recorded as done only after it happened",
            Rule::SameEffectId => {
                "an effect carries an id that is the same in every delivery, so that the far end can tell"
            }
        }
    }

    /// The page of the guide that tells it.
    pub fn page(self) -> &'static str {
        match self {
            Rule::FirstDelivery | Rule::FindRepeats => "docs/guide/README.md",
            Rule::SameEachTime | Rule::PassErrorsOn => "docs/guide/proving.md",
            Rule::LookAndWrite => "docs/guide/conditional-writes.md",
            Rule::RecordBeforeEffect | Rule::RecordAfterEffect | Rule::SameEffectId => "docs/guide/proving.md",
            Rule::RememberResult | Rule::OneCommit | Rule::LateRepeat | Rule::KeepLongEnough => {
                "docs/guide/remembered-keys.md"
            }
        }
    }
}

/// A history after which the store is not what it is after one delivery.
#[derive(Clone, Debug)]
pub struct Broken {
    pub(super) rule: Rule,
    pub(super) deliveries: u64,
    pub(super) steps: Vec<String>,
    pub(super) differences: Vec<String>,
    pub(super) seed: u64,
}

impl Broken {
    /// The rule that the handler breaks.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// How many deliveries the history has.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// The history, step by step.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// What is not as after one delivery.
    pub fn differences(&self) -> &[String] {
        &self.differences
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "the handler is not safe to run again")?;
        for (place, step) in self.steps.iter().enumerate() {
            writeln!(out, "  {}. {step}", place + 1)?;
        }
        writeln!(out, "then")?;
        for difference in &self.differences {
            writeln!(out, "  {difference}")?;
        }
        writeln!(out, "rule: {} ({})", self.rule.text(), self.rule.page())?;
        write!(out, "seed: {}", self.seed)
    }
}

impl std::error::Error for Broken {}

/// What was tried without finding a fault. It is no more than that: handlers can be wrong in ways that nobody tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proved {
    pub(super) histories: u64,
    pub(super) effects: u64,
}

impl Proved {
    /// How many effects of one delivery reach the far end. With none of them nothing was said about effects.
    pub fn effects(&self) -> u64 {
        self.effects
    }

    /// How many histories ended as one delivery does.
    pub fn histories(&self) -> u64 {
        self.histories
    }
}
