//! The catalogue: tables and queues, their numbers, what is counted of them, and the last fence.

use std::collections::HashMap;

use crate::engine::Space;
use crate::engine::verify::{CheckStep, Findings, Place, Rule, Walk, damage_of};
use crate::error::Result;
use crate::lease;
use crate::outbox::{QueueInfo, catalog as queues};
use crate::record::{self, states};
use crate::table::TableInfo;
use crate::table::catalog;

const ENTRY: Rule = Rule::new(
    "catalogue.entry",
    "every entry of the catalogue can be read, and has its checksum",
);
const NUMBER: Rule = Rule::new(
    "catalogue.number",
    "every table has a number of its own, below that of the next table",
);
const QUEUE: Rule = Rule::new(
    "catalogue.queue",
    "every queue has a number of its own, below that of the next queue",
);
const FENCE: Rule = Rule::new("catalogue.fence", "the last fence that was given is a number");
const KEY: Rule = Rule::new(
    "catalogue.key",
    "every key that the store keeps for itself is of a known form",
);
const REMOVED: Rule = Rule::new(
    "catalogue.removed",
    "the highest version that was removed is a number, and that of a table",
);
const COUNT: Rule = Rule::new(
    "states.count",
    "the count of a state is the number of the records in it",
);

/// What the file says of its tables.
#[derive(Default)]
pub(super) struct Catalogue {
    pub(super) tables: HashMap<u32, TableInfo>,
    /// How many records there are by table and state, as stored.
    counts: HashMap<(u32, String), u64>,
    next: Option<u32>,
    removed: Vec<u32>,
    pub(super) queues: HashMap<u32, QueueInfo>,
    next_queue: Option<u32>,
    /// The last fence that was given; none if that is damaged.
    pub(super) fence: Option<u64>,
}

impl Catalogue {
    pub(super) fn walk(walk: &mut Walk<'_>) -> Result<Catalogue> {
        let mut catalogue = Catalogue {
            fence: Some(0),
            ..Catalogue::default()
        };
        walk.each(Space::Meta, CheckStep::Catalogue, |key, value, findings| {
            catalogue.read(key, value, findings)
        })?;
        catalogue.judge(walk.findings);
        Ok(catalogue)
    }

    fn read(&mut self, key: &[u8], value: &[u8], findings: &mut Findings) -> Result<()> {
        let place = || entry(key);
        if let Some(info) = catalog::entry_of(key, value) {
            let Some(info) = damage_of(info, findings, place, ENTRY)? else {
                return Ok(());
            };
            let name = info.name().to_owned();
            if let Some(other) = self.tables.insert(info.id, info) {
                let seen = format!("number={}, also_of={:?}", other.id, other.name());
                findings.add(Place::Table { table: name }, NUMBER, seen);
            }
        } else if let Some(next) = catalog::next_of(key, value) {
            self.next = damage_of(next, findings, place, ENTRY)?;
        } else if let Some(count) = states::count_of(key, value) {
            let Some((table, state, count)) = damage_of(count, findings, place, COUNT)? else {
                return Ok(());
            };
            self.counts.insert((table, state), count);
        } else if let Some(table) = record::removed_of(key, value) {
            self.removed.extend(damage_of(table, findings, place, REMOVED)?);
        } else if !self.read_of_queues(key, value, findings)? {
            findings.add(place(), KEY, format!("value_bytes={}", value.len()));
        }
        Ok(())
    }

    /// Says whether it was a key of queues.
    fn read_of_queues(&mut self, key: &[u8], value: &[u8], findings: &mut Findings) -> Result<bool> {
        let place = || entry(key);
        if let Some(info) = queues::entry_of(key, value) {
            let Some(info) = damage_of(info, findings, place, ENTRY)? else {
                return Ok(true);
            };
            let queue = info.name().to_owned();
            if let Some(other) = self.queues.insert(info.id, info) {
                let seen = format!("number={}, also_of={:?}", other.id, other.name());
                findings.add(Place::Queue { queue }, QUEUE, seen);
            }
        } else if let Some(next) = queues::next_of(key, value) {
            self.next_queue = damage_of(next, findings, place, ENTRY)?;
        } else if let Some(fence) = lease::fence_of(key, value) {
            self.fence = damage_of(fence, findings, place, FENCE)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn judge(&self, findings: &mut Findings) {
        let next = self.next.unwrap_or_default();
        for info in self.tables.values().filter(|info| info.id >= next) {
            let table = info.name().to_owned();
            findings.add(
                Place::Table { table },
                NUMBER,
                format!("number={}, next={next}", info.id),
            );
        }
        let next = self.next_queue.unwrap_or_default();
        for info in self.queues.values().filter(|info| info.id >= next) {
            let queue = info.name().to_owned();
            findings.add(
                Place::Queue { queue },
                QUEUE,
                format!("number={}, next={next}", info.id),
            );
        }
        for number in self.removed.iter().filter(|number| !self.tables.contains_key(number)) {
            findings.add(self.table(*number), REMOVED, "there is no such table");
        }
    }

    /// Compares the counts with what was counted.
    pub(super) fn judge_counts(&self, counted: &HashMap<(u32, String), u64>, findings: &mut Findings) {
        let states: Vec<_> = self
            .counts
            .keys()
            .chain(counted.keys().filter(|key| !self.counts.contains_key(*key)))
            .collect();
        for state in states {
            let of = |counts: &HashMap<_, u64>| counts.get(state).copied().unwrap_or_default();
            let (stored, found) = (of(&self.counts), of(counted));
            if stored != found {
                let (table, state) = state;
                let seen = format!("state={state}, stored={stored}, found={found}");
                findings.add(self.table(*table), COUNT, seen);
            }
        }
    }

    /// A table by its number.
    pub(super) fn table(&self, number: u32) -> Place {
        let name = self.tables.get(&number).map(|info| info.name().to_owned());
        Place::Table {
            table: name.unwrap_or_else(|| number.to_string()),
        }
    }
}

fn entry(key: &[u8]) -> Place {
    Place::Entry {
        space: Space::Meta.name(),
        key: key.get(1..).unwrap_or_default().escape_ascii().to_string(),
    }
}
