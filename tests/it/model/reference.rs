//! The reference: what the store promises, as plain maps. Knows no bytes, no log and no layers.

use std::collections::BTreeMap;
use std::ops::Bound;

use sprag::ErrorKind;

/// A key; its variant is its table. The derived order is the order that scans must have within a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Number(u64),
    Signed(i64),
    Text(String),
    Bytes(Vec<u8>),
    Array([u8; 4]),
    Pair((u64, u64)),
    Named((String, i64)),
    Nested(((Vec<u8>, u64), String)),
    /// The table whose records have a state.
    Order(u64),
}

impl Key {
    pub const TABLES: usize = 9;

    pub fn table(&self) -> usize {
        match self {
            Key::Number(_) => 0,
            Key::Signed(_) => 1,
            Key::Text(_) => 2,
            Key::Bytes(_) => 3,
            Key::Array(_) => 4,
            Key::Pair(_) => 5,
            Key::Named(_) => 6,
            Key::Nested(_) => 7,
            Key::Order(_) => 8,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub value: Vec<u8>,
    pub version: u64,
    pub state: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Any,
    Absent,
    Present,
    Version(u64),
}

/// Which keys of a table.
#[derive(Clone, Debug)]
pub enum Range {
    All,
    Bounds(Bound<Key>, Bound<Key>),
    /// Keys whose text or bytes begin with this.
    Prefix(Vec<u8>),
    /// Pairs whose first part is that of this key.
    First(Key),
}

#[derive(Clone, Debug)]
pub struct Scan {
    pub table: usize,
    pub range: Range,
    pub reverse: bool,
}

#[derive(Clone, Debug)]
pub enum Op {
    Get(Key),
    Put(Key, Condition, Vec<u8>),
    Create(u64, &'static str, Vec<u8>),
    Delete(Key, Condition),
    Move {
        order: u64,
        from: &'static str,
        to: &'static str,
        value: Option<Vec<u8>>,
    },
    Update(Key, Option<Vec<u8>>),
    /// Keeps the records whose version is odd.
    Retain(Scan),
    Scan(Scan),
    Pages(Scan, usize),
    Once(Once),
    Forget(u8),
    Remembered(u8),
}

#[derive(Clone, Debug)]
pub struct Once {
    pub name: u8,
    /// In milliseconds; for ever without one.
    pub keep_ms: Option<u64>,
    pub bound: Option<u8>,
    pub ops: Vec<Op>,
    pub fails: bool,
    pub result: u64,
}

/// What a call answers, in words that both sides can be brought to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Found(Option<Record>),
    Applied(u64),
    Unchanged(u64),
    Conflict(Option<Record>),
    Removed(u64),
    AlreadyGone,
    AlreadyThere(u64),
    Refused(&'static str, Option<Record>),
    Updated(Option<u64>),
    Retained(u64),
    Records(Vec<(Key, Record)>),
    First(Vec<Answer>, u64),
    /// The work was undone; these were its answers.
    Undone(Vec<Answer>),
    /// The result, and when the first one was, in milliseconds of the clock.
    Repeat(u64, u64),
    Remembered(Option<(u64, bool)>),
    Forgot(bool),
    Failed(ErrorKind),
}

#[derive(Clone, Debug)]
struct Entry {
    end_ms: Option<u64>,
    first_ms: u64,
    bound: Option<u8>,
    result: u64,
}

/// All of it that a failed write takes back.
#[derive(Clone, Debug, Default)]
struct State {
    records: BTreeMap<Key, Record>,
    removed: [u64; Key::TABLES],
    remembered: BTreeMap<u8, Entry>,
}

#[derive(Clone, Debug, Default)]
pub struct Reference {
    state: State,
    under_way: Vec<u8>,
    /// Real time since the beginning.
    pub now_ms: u64,
}

const MOVES: [(&str, &str); 4] = [
    ("new", "packed"),
    ("packed", "shipped"),
    ("new", "cancelled"),
    ("packed", "cancelled"),
];

/// Whether one or more moves lead there. The machine has no cycle.
fn reaches(from: &str, to: &str) -> bool {
    MOVES
        .iter()
        .any(|(start, end)| *start == from && (*end == to || reaches(end, to)))
}

impl Reference {
    pub fn all(&mut self, ops: &[Op]) -> Vec<Answer> {
        ops.iter().map(|op| self.run(op)).collect()
    }

    fn run(&mut self, op: &Op) -> Answer {
        match op {
            Op::Get(key) => Answer::Found(self.found(key)),
            Op::Put(key, condition, value) => self.put(key, *condition, value, initial(key)),
            Op::Create(order, state, value) => self.put(&Key::Order(*order), Condition::Absent, value, Some(state)),
            Op::Delete(key, condition) => self.delete(key, *condition),
            Op::Move { order, from, to, value } => self.transition(&Key::Order(*order), from, to, value.as_deref()),
            Op::Update(key, Some(value)) => match self.put(key, Condition::Any, value, initial(key)) {
                Answer::Applied(version) | Answer::Unchanged(version) => Answer::Updated(Some(version)),
                other => other,
            },
            Op::Update(key, None) => {
                self.delete(key, Condition::Any);
                Answer::Updated(None)
            }
            Op::Retain(scan) => {
                let goes: Vec<Key> = self
                    .scan(scan)
                    .into_iter()
                    .filter(|(_, record)| record.version % 2 == 0)
                    .map(|(key, _)| key)
                    .collect();
                for key in &goes {
                    self.delete(key, Condition::Any);
                }
                Answer::Retained(goes.len() as u64)
            }
            Op::Scan(scan) | Op::Pages(scan, _) => Answer::Records(self.scan(scan)),
            Op::Once(once) => self.once(once),
            Op::Forget(name) => {
                let is_alive = self.alive(*name).is_some();
                if is_alive {
                    self.state.remembered.remove(name);
                }
                Answer::Forgot(is_alive)
            }
            Op::Remembered(name) => {
                Answer::Remembered(self.alive(*name).map(|entry| (entry.first_ms, entry.end_ms.is_none())))
            }
        }
    }

    fn found(&self, key: &Key) -> Option<Record> {
        self.state.records.get(key).cloned()
    }

    fn put(&mut self, key: &Key, condition: Condition, value: &[u8], state: Option<&'static str>) -> Answer {
        if condition == Condition::Version(0) {
            return Answer::Failed(ErrorKind::Invalid);
        }
        let Some(stored) = self.found(key) else {
            return match condition {
                Condition::Any | Condition::Absent => {
                    let version = self.state.removed[key.table()] + 1;
                    self.state.records.insert(
                        key.clone(),
                        Record {
                            value: value.to_vec(),
                            version,
                            state,
                        },
                    );
                    Answer::Applied(version)
                }
                Condition::Present | Condition::Version(_) => Answer::Conflict(None),
            };
        };
        let same = stored.value == value;
        match condition {
            Condition::Any | Condition::Present if same => Answer::Unchanged(stored.version),
            Condition::Absent if same && stored.state == state => Answer::Unchanged(stored.version),
            Condition::Version(seen) if same && seen + 1 == stored.version => Answer::Unchanged(stored.version),
            Condition::Any | Condition::Present => self.rewrite(key, stored, value),
            Condition::Version(seen) if seen == stored.version => self.rewrite(key, stored, value),
            Condition::Absent | Condition::Version(_) => Answer::Conflict(Some(stored)),
        }
    }

    fn rewrite(&mut self, key: &Key, stored: Record, value: &[u8]) -> Answer {
        let version = stored.version + 1;
        self.state.records.insert(
            key.clone(),
            Record {
                value: value.to_vec(),
                version,
                ..stored
            },
        );
        Answer::Applied(version)
    }

    fn delete(&mut self, key: &Key, condition: Condition) -> Answer {
        if condition == Condition::Version(0) {
            return Answer::Failed(ErrorKind::Invalid);
        }
        let Some(stored) = self.found(key) else {
            return Answer::AlreadyGone;
        };
        let holds = match condition {
            Condition::Any | Condition::Present => true,
            Condition::Absent => false,
            Condition::Version(seen) => seen == stored.version,
        };
        if !holds {
            return Answer::Conflict(Some(stored));
        }
        self.state.records.remove(key);
        let removed = &mut self.state.removed[key.table()];
        *removed = stored.version.max(*removed);
        Answer::Removed(stored.version)
    }

    fn transition(&mut self, key: &Key, from: &str, to: &'static str, value: Option<&[u8]>) -> Answer {
        if !MOVES.contains(&(from, to)) {
            return Answer::Failed(ErrorKind::Invalid);
        }
        let Some(stored) = self.found(key) else {
            return Answer::Refused("missing", None);
        };
        let state = stored.state.expect("every order has a state");
        if state == to {
            return Answer::AlreadyThere(stored.version);
        }
        if state == from {
            let value = value.unwrap_or(&stored.value).to_vec();
            let version = stored.version + 1;
            self.state.records.insert(
                key.clone(),
                Record {
                    value,
                    version,
                    state: Some(to),
                },
            );
            return Answer::Applied(version);
        }
        let why = match (reaches(to, state), reaches(state, from)) {
            (true, false) => "late",
            (false, true) => "early",
            (false, false) => "no path",
            (true, true) => unreachable!("the machine has no cycle"),
        };
        Answer::Refused(why, Some(stored))
    }

    pub fn scan(&self, scan: &Scan) -> Vec<(Key, Record)> {
        let is_inside = |key: &&Key| key.table() == scan.table && scan.range.contains(key);
        let mut inside: Vec<_> = self.state.records.keys().filter(is_inside).cloned().collect();
        if scan.reverse {
            inside.reverse();
        }
        inside
            .into_iter()
            .map(|key| (key.clone(), self.state.records[&key].clone()))
            .collect()
    }

    fn alive(&self, name: u8) -> Option<&Entry> {
        self.state
            .remembered
            .get(&name)
            .filter(|entry| entry.end_ms.is_none_or(|end| self.now_ms < end))
    }

    fn once(&mut self, once: &Once) -> Answer {
        if once.keep_ms == Some(0) || self.under_way.contains(&once.name) {
            return Answer::Failed(ErrorKind::Invalid);
        }
        if let Some(entry) = self.alive(once.name) {
            return if entry.bound == once.bound {
                Answer::Repeat(entry.result, entry.first_ms)
            } else {
                Answer::Failed(ErrorKind::Mismatch)
            };
        }
        let before = self.state.clone();
        self.under_way.push(once.name);
        let answers = self.all(&once.ops);
        self.under_way.pop();
        if once.fails {
            self.state = before;
            return Answer::Undone(answers);
        }
        let end_ms = once.keep_ms.map(|keep| self.now_ms + keep);
        let entry = Entry {
            end_ms,
            first_ms: self.now_ms,
            bound: once.bound,
            result: once.result,
        };
        self.state.remembered.insert(once.name, entry);
        Answer::First(answers, once.result)
    }
}

fn initial(key: &Key) -> Option<&'static str> {
    matches!(key, Key::Order(_)).then_some("new")
}

impl Range {
    fn contains(&self, key: &Key) -> bool {
        match self {
            Range::All => true,
            Range::Bounds(lo, hi) => (lo.as_ref(), hi.as_ref()).contains_key(key),
            Range::Prefix(prefix) => match key {
                Key::Text(text) => text.as_bytes().starts_with(prefix),
                Key::Bytes(bytes) => bytes.starts_with(prefix),
                Key::Array(bytes) => bytes.starts_with(prefix),
                _ => unreachable!("only text and bytes have prefixes"),
            },
            Range::First(of) => match (key, of) {
                (Key::Pair(key), Key::Pair(of)) => key.0 == of.0,
                (Key::Named(key), Key::Named(of)) => key.0 == of.0,
                (Key::Nested(key), Key::Nested(of)) => key.0 == of.0,
                _ => unreachable!("only pairs have a first part"),
            },
        }
    }
}

trait ContainsKey {
    fn contains_key(&self, key: &Key) -> bool;
}

/// Unlike std's, also for bounds that leave no room.
impl ContainsKey for (Bound<&Key>, Bound<&Key>) {
    fn contains_key(&self, key: &Key) -> bool {
        let behind_lo = match self.0 {
            Bound::Included(lo) => key >= lo,
            Bound::Excluded(lo) => key > lo,
            Bound::Unbounded => true,
        };
        let before_hi = match self.1 {
            Bound::Included(hi) => key <= hi,
            Bound::Excluded(hi) => key < hi,
            Bound::Unbounded => true,
        };
        behind_lo && before_hi
    }
}
