//! A walk through one state: every entry of a key space in its order, with the rules on the base beside it.

use std::sync::Arc;

use super::{CheckStep, Findings, Place, Rule, Tell, damage_of, text};
use crate::engine::base::Judged;
use crate::engine::space::Space;
use crate::engine::view::{Span, View};
use crate::error::Result;

const READ: Rule = Rule::new(
    "base.read",
    "every entry of the base can be read, and they come in the order of their keys",
);
const COUNT: Rule = Rule::new("base.count", "each table of the base has as many entries as it says");
const SEGMENT: Rule = Rule::new(
    "base.segment",
    "each segment of remembered keys is what the base notes of it, and there are no others",
);
const FILTER: Rule = Rule::new(
    "base.filter",
    "the filter of each segment of remembered keys has its checksum and knows every key of it",
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
        mut each: impl FnMut(&[u8], &[u8], &mut Findings) -> Result<()>,
    ) -> Result<()> {
        let view = self.view.clone();
        let span = Span::prefix(&[space as u8]);
        (self.tell)(step, 0);
        let whole = || Place::Entry {
            space: space.name(),
            key: String::new(),
        };
        let scan = damage_of(view.scan(Vec::new(), &span), self.findings, whole, READ)?;
        let Some(mut scan) = scan else { return Ok(()) };
        let mut passed = 0;
        let mut behind = Vec::new();
        while let Some(entry) = scan.step() {
            let place = || entry_of(space, &behind);
            let Some((key, value)) = damage_of(entry, self.findings, place, READ)? else {
                // What lies behind is not known, so neither is how much it is.
                return Ok(());
            };
            each(key, value, self.findings)?;
            passed += 1;
            if passed % TOLD_EVERY == 0 {
                (self.tell)(step, passed);
            }
            behind.clear();
            behind.extend_from_slice(key);
        }
        (self.tell)(step, passed);
        match scan.met_in_base() {
            Some(found) => self.judge_count(space, found),
            None => Ok(()),
        }
    }

    fn judge_count(&mut self, space: Space, found: u64) -> Result<()> {
        let whole = || Place::Entry {
            space: space.name(),
            key: String::new(),
        };
        let stored = damage_of(self.view.base.stored_len(space), self.findings, whole, READ)?;
        if let Some(stored) = stored.flatten().filter(|stored| *stored != found) {
            self.findings
                .add(whole(), COUNT, format!("entries={found}, stored={stored}"));
        }
        Ok(())
    }

    /// Each segment of remembered keys for itself. They lie in the base only. Gives their number.
    pub(crate) fn segments(&mut self) -> Result<u64> {
        let base = self.view.base.clone();
        (self.tell)(CheckStep::Segments, 0);
        let place = |id: Option<u64>| Place::Entry {
            space: "segments",
            key: id.map_or_else(String::new, |id| id.to_string()),
        };
        let mut count = 0;
        for id in base.segments() {
            let mut judged = Vec::new();
            let whole = base.judge_segment(id, &mut |found| judged.push(found));
            damage_of(whole, self.findings, || place(Some(id)), READ)?;
            for found in judged {
                match found {
                    Judged::Filter(cause) => self.findings.add(place(Some(id)), FILTER, text(&cause)),
                    Judged::Unknown(keys) => self
                        .findings
                        .add(place(Some(id)), FILTER, format!("unknown_keys={keys}")),
                    Judged::About(seen) => self.findings.add(place(Some(id)), SEGMENT, seen),
                }
            }
            count += 1;
            (self.tell)(CheckStep::Segments, count);
        }
        let strays = damage_of(base.strays(), self.findings, || place(None), READ)?;
        for (id, entries) in strays.unwrap_or_default() {
            self.findings
                .add(place(Some(id)), SEGMENT, format!("not in the list, entries={entries}"));
        }
        Ok(count)
    }
}

/// An entry by its key, without the space byte.
fn entry_of(space: Space, key: &[u8]) -> Place {
    Place::Entry {
        space: space.name(),
        key: key.get(1..).unwrap_or_default().escape_ascii().to_string(),
    }
}
