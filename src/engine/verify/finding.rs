//! What a check finds: the place, the rule that is broken there, and what was seen.

use std::fmt;

use crate::limits::FINDINGS_MAX;

/// One broken rule of a store's file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// Which rule is broken there.
    pub rule: Rule,
    /// What was found instead.
    pub seen: String,
}

/// A rule of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    name: &'static str,
    says: &'static str,
}

impl Rule {
    pub(crate) const fn new(name: &'static str, says: &'static str) -> Rule {
        Rule { name, says }
    }

    /// A short name that does not change from version to version.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The rule in a sentence.
    pub fn says(&self) -> &'static str {
        self.says
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

/// Where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Bytes of the file.
    Bytes {
        /// `superblock`, `log half A`, `log half B` or `base`.
        region: &'static str,
        /// From the beginning of the file.
        offset: u64,
    },
    /// A table.
    Table {
        /// Its name.
        table: String,
    },
    /// A record.
    Record {
        /// Name of its table; the number of one that the file does not have.
        table: String,
        /// Its key in its text form; escaped bytes if it is no key of the table's kind.
        key: String,
    },
    /// A remembered key.
    Remembered {
        /// The scope.
        scope: String,
        /// The key within it, escaped.
        key: String,
    },
    /// A queue.
    Queue {
        /// Its name; the number of one that the file does not have.
        queue: String,
    },
    /// A message.
    Message {
        /// Name of its queue.
        queue: String,
        /// Its number.
        id: u64,
    },
    /// An entry that the store keeps for itself.
    Entry {
        /// The key space, or the table of the base.
        space: &'static str,
        /// Its key, escaped.
        key: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Bytes { region, offset } => write!(out, "{region} offset={offset}"),
            Place::Table { table } => write!(out, "table={table:?}"),
            Place::Record { table, key } => write!(out, "table={table:?} key={key:?}"),
            Place::Remembered { scope, key } => write!(out, "remembered key={scope}/{key}"),
            Place::Queue { queue } => write!(out, "queue={queue:?}"),
            Place::Message { queue, id } => write!(out, "queue={queue:?} message={id}"),
            Place::Entry { space, key } => write!(out, "entry of {space} key=\"{key}\""),
        }
    }
}

/// What was found so far: the first findings, and how many there are in all. A wrecked file must not take the memory.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<Finding>,
    more: u64,
}

impl Findings {
    pub(crate) fn add(&mut self, place: Place, rule: Rule, seen: impl Into<String>) {
        if self.kept.len() == FINDINGS_MAX {
            self.more += 1;
            return;
        }
        let seen = seen.into();
        self.kept.push(Finding { place, rule, seen });
    }

    pub(crate) fn count(&self) -> u64 {
        self.kept.len() as u64 + self.more
    }

    /// The findings that were kept, and how many there are beyond.
    pub(crate) fn into_parts(self) -> (Vec<Finding>, u64) {
        (self.kept, self.more)
    }
}
