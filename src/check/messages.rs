//! Messages: bodies, rows, the entries that say where each stands, the lines of keys, and the tallies.
//!
//! The keys of a queue lie together, so one queue at a time is counted. What an entry says is looked up at the row, and what a
//! row says at the entries, so that both ways are judged without keeping any of it.

use std::collections::HashSet;

use super::catalogue::Catalogue;
use crate::engine::verify::{CheckStep, Findings, Place, Rule, Walk, damage_of};
use crate::engine::{Held, Space};
use crate::error::Result;
use crate::limits::FINDINGS_MAX;
use crate::outbox::entries;
use crate::outbox::keys::{self, Kind, Named};
use crate::outbox::row::{Row, Stand};
use crate::outbox::tally::Tally;
use crate::txn::Txn;

const KEY: Rule = Rule::new(
    "messages.key",
    "every key of a message is of a known form and of a queue of the catalogue",
);
const ROW: Rule = Rule::new(
    "messages.row",
    "every message has its checksum, numbers that were given, and stands where one with or without a key can",
);
const BODY: Rule = Rule::new(
    "messages.body",
    "every message has a body with its checksum and the length it says, and every body a message",
);
const ERRORS: Rule = Rule::new(
    "messages.errors",
    "the last errors of a message have their checksum, and belong to a message",
);
const INDEX: Rule = Rule::new(
    "messages.index",
    "every message has the entry that says where it stands, and every such entry leads to a message that stands there",
);
const LINE: Rule = Rule::new(
    "messages.line",
    "every message has the place in the line of its key that it says, and every place leads to such a message",
);
const HEAD: Rule = Rule::new(
    "messages.head",
    "the line of a key begins where its head says, and every message behind that waits for it",
);
const FENCE: Rule = Rule::new(
    "messages.fence",
    "no message has a fence above the last one that was given",
);
const TALLY: Rule = Rule::new(
    "messages.tally",
    "the tally of a queue counts what is there, and nothing waits before its head",
);

/// Judges everything of all queues, and gives the number of messages.
pub(super) fn walk(walk: &mut Walk<'_>, txn: &Txn, catalogue: &Catalogue) -> Result<u64> {
    let mut messages = 0;
    let mut strange = HashSet::new();
    let mut at: Option<Queue<'_>> = None;
    walk.each(Space::Messages, CheckStep::Messages, |key, value, findings| {
        let Some((number, named)) = keys::named(key) else {
            findings.add(entry(key), KEY, format!("value_bytes={}", value.len()));
            return Ok(());
        };
        let queue = match at.take() {
            Some(queue) if queue.number == number => queue,
            before => {
                if let Some(before) = before {
                    before.judge_tally(findings);
                }
                Queue::begin(txn, catalogue, number, findings)?
            }
        };
        // Once for each number: a queue whose entry is damaged may have any number of messages.
        let is_known = catalogue.queues.contains_key(&number);
        if !is_known && strange.len() < FINDINGS_MAX && strange.insert(number) {
            findings.add(queue.place(), KEY, "there is no such queue");
        }
        messages += u64::from(matches!(named, Named::Row(_)));
        at.insert(queue).judge(named, key, value, findings)
    })?;
    if let Some(last) = at {
        last.judge_tally(walk.findings);
    }
    Ok(messages)
}

/// The queue that is walked through.
struct Queue<'a> {
    txn: &'a Txn,
    number: u32,
    name: String,
    fence: Option<u64>,
    /// As it is stored; none if it is damaged.
    tally: Option<Tally>,
    /// What was counted, up to where the stored tally counts.
    counted: Tally,
}

/// What lies under a key, and what to say of it.
struct Asked {
    key: Vec<u8>,
    place: Place,
    rule: Rule,
}

impl<'a> Queue<'a> {
    fn begin(txn: &'a Txn, catalogue: &Catalogue, number: u32, findings: &mut Findings) -> Result<Queue<'a>> {
        let info = catalogue.queues.get(&number);
        let mut queue = Queue {
            txn,
            number,
            name: info.map_or_else(|| number.to_string(), |info| info.name().to_owned()),
            fence: catalogue.fence,
            tally: None,
            counted: Tally::default(),
        };
        queue.tally = damage_of(entries::read_tally(txn, number), findings, || queue.place(), TALLY)?;
        if let Some(tally) = &queue.tally {
            queue.counted.counted = tally.counted;
        }
        Ok(queue)
    }

    fn place(&self) -> Place {
        Place::Queue {
            queue: self.name.clone(),
        }
    }

    fn message(&self, id: u64) -> Place {
        Place::Message {
            queue: self.name.clone(),
            id,
        }
    }

    fn judge(&mut self, named: Named<'_>, key: &[u8], value: &[u8], findings: &mut Findings) -> Result<()> {
        match named {
            Named::Tally => Ok(()),
            Named::Row(id) => {
                let row = damage_of(entries::decode_row(key, value), findings, || self.message(id), ROW)?;
                row.map_or(Ok(()), |row| self.judge_row(id, &row, findings))
            }
            Named::Body(id) => {
                let body = entries::decode_body(key, value);
                let Some((_, payload)) = damage_of(body, findings, || self.message(id), BODY)? else {
                    return Ok(());
                };
                let wanted = |row: &Row| row.bytes == payload.len() as u64;
                let seen = format!("payload_bytes={}", payload.len());
                self.judge_owner(id, BODY, &seen, wanted, findings)
            }
            Named::Errors(id) => {
                let errors = entries::decode_failures(key, value);
                let errors = damage_of(errors, findings, || self.message(id), ERRORS)?;
                errors.map_or(Ok(()), |errors| {
                    let seen = format!("errors={}", errors.len());
                    self.judge_owner(id, ERRORS, &seen, Row::may_have_errors, findings)
                })
            }
            Named::Index => {
                let seen = format!("key=\"{}\"", key.get(1..).unwrap_or_default().escape_ascii());
                let Some(id) = number_of(value) else {
                    findings.add(self.place(), INDEX, seen);
                    return Ok(());
                };
                let wanted = |row: &Row| entries::index_key(self.number, id, row).is_some_and(|wanted| *wanted == *key);
                self.judge_owner(id, INDEX, &seen, wanted, findings)
            }
            Named::Line(of, place) => {
                let seen = format!("key=\"{}\", place={place}", of.escape_ascii());
                let Some(id) = number_of(value) else {
                    findings.add(self.place(), LINE, seen);
                    return Ok(());
                };
                let wanted = |row: &Row| row.key.as_deref() == Some(of) && row.line == place;
                self.judge_owner(id, LINE, &seen, wanted, findings)
            }
            Named::Head(of) => self.judge_head(of, value, findings),
        }
    }

    /// There is a message, and it is as `wanted`.
    fn judge_owner(
        &self,
        id: u64,
        rule: Rule,
        seen: &str,
        wanted: impl FnOnce(&Row) -> bool,
        findings: &mut Findings,
    ) -> Result<()> {
        let asked = Asked {
            key: keys::numbered(self.number, Kind::Row, id),
            place: self.message(id),
            rule,
        };
        let Some(bytes) = self.look_up(&asked, findings)? else {
            return Ok(());
        };
        let found = match bytes.map(|bytes| entries::decode_row(&asked.key, &bytes)) {
            Some(Ok(row)) if wanted(&row) => return Ok(()),
            // A damaged row is a finding of its own.
            Some(Err(_)) => return Ok(()),
            Some(Ok(row)) => format!("{:?}", row.stand),
            None => "no message".to_owned(),
        };
        findings.add(asked.place, rule, format!("{seen}, found={found}"));
        Ok(())
    }

    /// What lies there; outer `None` if it cannot be read, which is a finding.
    fn look_up(&self, asked: &Asked, findings: &mut Findings) -> Result<Option<Option<Held<'a>>>> {
        damage_of(self.txn.get(&asked.key), findings, || asked.place.clone(), asked.rule)
    }

    fn judge_row(&mut self, id: u64, row: &Row, findings: &mut Findings) -> Result<()> {
        self.counted.enter(row);
        let mut add = |rule, seen: String| findings.add(self.message(id), rule, seen);
        if let Some(tally) = &self.tally {
            let highest = id.max(row.line).max(row.turn);
            if highest >= tally.next {
                add(ROW, format!("number={highest}, next={}", tally.next));
            }
            if row.stand == Stand::Waiting && row.mark() <= tally.head {
                let (mark, head) = (row.mark(), tally.head);
                let seen = format!(
                    "due_ns={}, turn={}, head_due_ns={}",
                    mark.due_ns, mark.turn, head.due_ns
                );
                add(TALLY, format!("{seen}, head_turn={}", head.turn));
            }
        }
        if let Some(last) = self.fence.filter(|last| row.fence > *last) {
            add(FENCE, format!("fence={}, last={last}", row.fence));
        }
        let is_blocked = row.stand == Stand::Behind;
        if id == 0 || (is_blocked && (row.key.is_none() || row.line == 0)) {
            add(ROW, format!("stand={:?}, line={}", row.stand, row.line));
        }
        self.judge_parts(id, row, findings)
    }

    /// What a message needs beside its row.
    fn judge_parts(&self, id: u64, row: &Row, findings: &mut Findings) -> Result<()> {
        let asked = |key, rule| Asked {
            key,
            place: self.message(id),
            rule,
        };
        let body = asked(keys::numbered(self.number, Kind::Body, id), BODY);
        if let Some(None) = self.look_up(&body, findings)? {
            findings.add(body.place, BODY, "there is none");
        }
        let index = entries::index_key(self.number, id, row).map(|key| asked(key, INDEX));
        let line = row
            .in_line()
            .map(|key| asked(keys::line(self.number, key, row.line), LINE));
        for entry in index.into_iter().chain(line) {
            let Some(found) = self.look_up(&entry, findings)? else {
                continue;
            };
            let found = found.map(|bytes| number_of(&bytes));
            if found != Some(Some(id)) {
                let seen = format!("stand={:?}, line={}, found={found:?}", row.stand, row.line);
                findings.add(entry.place, entry.rule, seen);
            }
        }
        let Some(key) = row.in_line() else { return Ok(()) };
        let head = asked(keys::head(self.number, key), HEAD);
        let Some(found) = self.look_up(&head, findings)? else {
            return Ok(());
        };
        let found = found.and_then(|bytes| number_of(&bytes));
        let is_right = match row.stand {
            Stand::Behind => found.is_some_and(|head| head < row.line),
            _ => found == Some(row.line),
        };
        if !is_right {
            let seen = format!("stand={:?}, line={}, head={found:?}", row.stand, row.line);
            findings.add(head.place, HEAD, seen);
        }
        Ok(())
    }

    /// That no other message of the key stands at the head or before it, their rows say.
    fn judge_head(&self, key: &[u8], value: &[u8], findings: &mut Findings) -> Result<()> {
        let seen = format!("key=\"{}\"", key.escape_ascii());
        let Some(place) = number_of(value) else {
            findings.add(self.place(), HEAD, seen);
            return Ok(());
        };
        let asked = Asked {
            key: keys::line(self.number, key, place),
            place: self.place(),
            rule: HEAD,
        };
        if let Some(None) = self.look_up(&asked, findings)? {
            findings.add(asked.place, HEAD, format!("{seen}, head={place}, nobody stands there"));
        }
        Ok(())
    }

    /// Compares the tally with what was counted.
    fn judge_tally(&self, findings: &mut Findings) {
        let Some(stored) = &self.tally else { return };
        let found = &self.counted;
        let counts = [
            ("waiting", stored.waiting, found.waiting),
            ("ready", stored.ready, found.ready),
            ("claimed", stored.claimed, found.claimed),
            ("blocked", stored.blocked, found.blocked),
            ("dead", stored.dead, found.dead),
            ("bytes", stored.bytes, found.bytes),
        ];
        for (what, stored, found) in counts.into_iter().filter(|(_, stored, found)| stored != found) {
            let seen = format!("count={what}, stored={stored}, found={found}");
            findings.add(self.place(), TALLY, seen);
        }
        if stored.next_due_ns > found.next_due_ns {
            let (stored, found) = (stored.next_due_ns, found.next_due_ns);
            findings.add(self.place(), TALLY, format!("next_due_ns={stored}, found={found}"));
        }
    }
}

fn number_of(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

fn entry(key: &[u8]) -> Place {
    Place::Entry {
        space: Space::Messages.name(),
        key: key.get(1..).unwrap_or_default().escape_ascii().to_string(),
    }
}
