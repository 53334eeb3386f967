//! A walk through one state: every entry of a key space in its order, with the rules on the base beside it.

use std::cell::Cell;
use std::sync::Arc;

use super::{CheckStep, Findings, Place, Rule, Tell, damage_of};
use crate::engine::memory::Bytes;
use crate::engine::space::Space;
use crate::engine::view::{Merge, Span, View};
use crate::error::Result;

const READ: Rule = Rule::new(
    "base.read",
    "every entry of the base can be read, and they come in the order of their keys",
);
const COUNT: Rule = Rule::new("base.count", "each table of the base has as many entries as it says");
const ENDS: Rule = Rule::new(
    "base.ends",
    "each entry of the base that ends has one row in the index of ends, and there are no others",
);

/// How many entries pass between two reports of progress.
const TOLD_EVERY: u64 = 4096;

/// The state that is walked, and where findings go.
pub(crate) struct Walk<'a> {
    pub(crate) view: &'a Arc<View>,
    pub(crate) findings: &'a mut Findings,
    pub(crate) tell: Tell<'a>,
}

impl Walk<'_> {
    /// Gives `each` every entry of a space.
    ///
    /// # Errors
    /// Those of `each`, and what kept the base from being read and is no damage.
    pub(crate) fn each(
        &mut self,
        space: Space,
        step: CheckStep,
        mut each: impl FnMut(&Bytes, &Bytes, &mut Findings) -> Result<()>,
    ) -> Result<()> {
        let view = self.view.clone();
        let span = Span::prefix(&[space as u8]);
        let of_base = Cell::new(0);
        (self.tell)(step, 0);
        let whole = || Place::Entry {
            space: space.name(),
            key: String::new(),
        };
        let layers = damage_of(view.layers(&span), self.findings, whole, READ)?;
        let Some(mut layers) = layers else { return Ok(()) };
        if let Some(base) = layers.pop() {
            layers.push(Box::new(base.inspect(|entry| {
                of_base.set(of_base.get() + u64::from(entry.is_ok()));
            })));
        }
        let mut passed = 0;
        let mut behind: Option<Bytes> = None;
        for entry in Merge::new(layers, false) {
            let place = || entry_of(space, behind.as_deref().unwrap_or_default());
            let Some((key, value)) = damage_of(entry, self.findings, place, READ)? else {
                // What lies behind is not known, so neither is how much it is.
                return Ok(());
            };
            each(&key, &value, self.findings)?;
            passed += 1;
            if passed % TOLD_EVERY == 0 {
                (self.tell)(step, passed);
            }
            behind = Some(key);
        }
        (self.tell)(step, passed);
        self.judge_count(space, of_base.get())
    }

    fn judge_count(&mut self, space: Space, found: u64) -> Result<()> {
        let whole = || Place::Entry {
            space: space.name(),
            key: String::new(),
        };
        let stored = damage_of(self.view.base.stored_len(space), self.findings, whole, READ)?;
        if let Some(stored) = stored.filter(|stored| *stored != found) {
            self.findings
                .add(whole(), COUNT, format!("entries={found}, stored={stored}"));
        }
        Ok(())
    }

    /// The index of ends against the entries that end, both ways. Both lie in the base only.
    pub(crate) fn ends(&mut self) -> Result<u64> {
        let base = self.view.base.clone();
        (self.tell)(CheckStep::Ends, 0);
        let whole = || Place::Entry {
            space: "ends",
            key: String::new(),
        };
        let place = |row: &[u8]| Place::Entry {
            space: "ends",
            key: row.escape_ascii().to_string(),
        };
        let mut rows = 0;
        let Some(ends) = damage_of(base.ends(), self.findings, whole, READ)? else {
            return Ok(rows);
        };
        for row in ends {
            let Some((row, value)) = damage_of(row, self.findings, whole, READ)? else {
                return Ok(rows);
            };
            rows += 1;
            let (end, key) = row.split_at_checked(8).unwrap_or_default();
            let entry = base.get(&[&[Space::Ending as u8], key].concat());
            let entry = damage_of(entry, self.findings, || place(&row), READ)?.flatten();
            let speaks = !end.is_empty() && entry.is_some_and(|entry| entry.starts_with(end));
            if !speaks || !value.is_empty() {
                self.findings.add(
                    place(&row),
                    ENDS,
                    format!("no entry ends so, value_bytes={}", value.len()),
                );
            }
        }
        let stored = damage_of(base.stored_ends(), self.findings, whole, READ)?;
        if let Some(stored) = stored.filter(|stored| *stored != rows) {
            self.findings
                .add(whole(), COUNT, format!("entries={rows}, stored={stored}"));
        }
        self.each_has_its_row()?;
        (self.tell)(CheckStep::Ends, rows);
        Ok(rows)
    }

    fn each_has_its_row(&mut self) -> Result<()> {
        let base = self.view.base.clone();
        let place = |key: &[u8]| entry_of(Space::Ending, key);
        let span = Span::prefix(&[Space::Ending as u8]);
        let Some(entries) = damage_of(base.range(&span), self.findings, || place(&[]), READ)? else {
            return Ok(());
        };
        for entry in entries {
            let Some((key, Some(value))) = damage_of(entry, self.findings, || place(&[]), READ)? else {
                return Ok(());
            };
            // An entry too short for an end is damaged, which is found where it is read.
            let Some(end) = value.get(..8) else { continue };
            let row = [end, key.get(1..).unwrap_or_default()].concat();
            let has = damage_of(base.has_end(&row), self.findings, || place(&key), READ)?;
            if has == Some(false) {
                self.findings.add(place(&key), ENDS, "no row has its end");
            }
        }
        Ok(())
    }
}

/// An entry by its key, without the space byte.
fn entry_of(space: Space, key: &[u8]) -> Place {
    Place::Entry {
        space: space.name(),
        key: key.get(1..).unwrap_or_default().escape_ascii().to_string(),
    }
}
