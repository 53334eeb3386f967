//! The work: numbered operations, the same for every peer, and what a peer must hold after the first n of them.
//!
//! Operation n is a pure function of n, so threads may take numbers from one counter. Each lap visits every record once in
//! one shuffled order, so that the version an operation expects is its lap, and two for one record are a lap apart: nobody
//! conflicts and nobody needs to look before writing.

use serde_json::{Value, json};

use crate::contents::Contents;
use crate::op::{Ask, First, Message, Move, Op, Step};
use crate::peer::Failure;

/// The scope of all remembered keys.
pub const SCOPE: &str = "payments";
/// How long a key is to be remembered, in days.
pub const KEEP_DAYS: u64 = 7;
/// How many states a record goes through, over and over.
pub const STATES: u64 = 3;
/// The name and the text of the one header that a message has.
pub const HEADER: (&str, &str) = ("type", "order.shipped");
/// Messages that are claimed, and acknowledged, in one commit.
pub const MESSAGES_IN_LOT: u64 = 100;
/// Records that one scan reads, or one `read` gets.
pub const SCANNED: u64 = 1_000;
/// Gets within one transaction.
const GETS_IN_READ: u64 = 100;
/// Keys that only the filling remembers have numbers from here on, which no step has.
const FILLED_KEYS_FROM: u64 = 1 << 40;
/// Keys of a filling that are sorted at once.
const FILLED_BLOCK: u64 = 1_000_000;

/// What kind of operations a load is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A conditional write, a remembered key that is new, and one more record, in one commit.
    Hot,
    /// A step that was done before, delivered again.
    Duplicate,
    /// A conditional write alone.
    PutIf,
    /// A record moves to its next state.
    Transition,
    /// A record is read by its key.
    Get,
    /// The same, many within one transaction.
    GetInRead,
    /// A thousand records in the order of their keys, from one on.
    Scan,
    /// One number, the same for all, grows by one.
    Count,
    /// A message goes into a queue.
    Enqueue,
    /// A message is claimed, and then acknowledged.
    Deliver,
    /// A lot of messages is acknowledged, and the next one claimed with it.
    DeliverLots,
}

/// All of them, with the names that they have in messages between processes.
const WORKS: [(&str, Work); 11] = [
    ("hot", Work::Hot),
    ("duplicate", Work::Duplicate),
    ("put-if", Work::PutIf),
    ("transition", Work::Transition),
    ("get", Work::Get),
    ("get-in-read", Work::GetInRead),
    ("scan", Work::Scan),
    ("count", Work::Count),
    ("enqueue", Work::Enqueue),
    ("deliver", Work::Deliver),
    ("deliver-lots", Work::DeliverLots),
];

/// The source of operations. Holds no list, so that a process whose memory is measured may have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What the operations are.
    pub work: Work,
    /// How many records exist before the first operation; their keys are the numbers below. At least one. Of messages, how
    /// many wait before each slice.
    pub records: u64,
    /// Length of every value, in bytes of ASCII.
    pub value_bytes: usize,
    /// Remembered keys from before the first operation that no step ever brings again.
    pub keys: u64,
    /// Steps that are done before the first operation: those that a duplicate delivers again.
    pub done: u64,
}

impl Load {
    /// Hot commits with values of 100 bytes on a store that holds `records` records before the first step.
    pub fn new(records: u64) -> Load {
        Load {
            work: Work::Hot,
            records: records.max(1),
            value_bytes: 100,
            keys: 0,
            done: 0,
        }
    }

    /// Whether its operations leave the contents as they are.
    pub fn only_reads(&self) -> bool {
        matches!(self.work, Work::Get | Work::GetInRead | Work::Scan)
    }

    /// Whether it takes messages out of the queue.
    pub fn delivers(&self) -> bool {
        matches!(self.work, Work::Deliver | Work::DeliverLots)
    }

    /// Whether it is about messages.
    pub fn is_of_messages(&self) -> bool {
        self.delivers() || self.work == Work::Enqueue
    }

    /// How many results one operation counts for in a rate.
    pub fn results(&self) -> u64 {
        match self.work {
            Work::DeliverLots => MESSAGES_IN_LOT,
            Work::GetInRead => GETS_IN_READ,
            _ => 1,
        }
    }

    /// What is to be written as number `number`; `None` if this load only reads, or what it writes depends on what it was
    /// handed out.
    pub fn op(&self, number: u64) -> Option<Op> {
        Some(match self.work {
            Work::Hot => Op::Commit(self.step(number)),
            Work::Duplicate => Op::Commit(self.step(mix(number) % self.done.max(1))),
            Work::PutIf => Op::PutIf(self.step(number)),
            Work::Transition => Op::Move(self.move_of(number)),
            Work::Count => Op::Count,
            Work::Enqueue => Op::Enqueue(self.message(self.records + number)),
            Work::Get | Work::GetInRead | Work::Scan | Work::Deliver | Work::DeliverLots => return None,
        })
    }

    /// What is to be read as number `number`.
    pub fn ask(&self, number: u64) -> Ask {
        let record = |number| mix(number) % self.records;
        match self.work {
            Work::GetInRead => Ask::Gets((0..GETS_IN_READ).map(|i| record(number * GETS_IN_READ + i)).collect()),
            Work::Scan => {
                let count = SCANNED.min(self.records);
                Ask::Scan {
                    from: mix(number) % (self.records - count + 1),
                    count,
                }
            }
            _ => Ask::Get(record(number)),
        }
    }

    /// The message with this number; the first is 0.
    pub fn message(&self, number: u64) -> Message {
        Message {
            number,
            payload: text(mix(number) ^ 4, self.value_bytes),
        }
    }

    /// The step with this number; the first is 0.
    pub fn step(&self, number: u64) -> Step {
        Step {
            record: self.shuffled(number % self.records),
            version: 1 + number / self.records,
            value: text(mix(number) ^ 1, self.value_bytes),
            key: key_of(number),
            extra: number,
            extra_value: text(mix(number) ^ 2, self.value_bytes),
        }
    }

    fn move_of(&self, number: u64) -> Move {
        let lap = number / self.records;
        Move {
            record: self.shuffled(number % self.records),
            from: lap % STATES,
            to: (lap + 1) % STATES,
        }
    }

    /// The value of a record before any step; its version is 1.
    pub fn first_value(&self, record: u64) -> String {
        text(mix(record) ^ 3, self.value_bytes)
    }

    /// Whether this is the value of a record before any step, as far as its length and its beginning tell.
    pub fn begins_as_first_value(&self, record: u64, value: &str) -> bool {
        value.len() == self.value_bytes
            && value
                .bytes()
                .zip(block(mix(mix(record) ^ 3)))
                .all(|(found, byte)| found == byte)
    }

    /// What fills an empty store for this load. Keys come in sorted blocks: each block is spread over all keys, so that what
    /// a tree looks like at the end is much the same as without, but it takes minutes and not an hour.
    pub fn filling(&self) -> impl Iterator<Item = Op> {
        let load = *self;
        let firsts = (0..load.records).map(move |number| load.first(number));
        let blocks = (0..load.keys).step_by(FILLED_BLOCK as usize);
        let keys = blocks.flat_map(move |from| {
            let to = load.keys.min(from + FILLED_BLOCK);
            let mut keys: Vec<[u8; 16]> = (from..to).map(|number| key_of(FILLED_KEYS_FROM + number)).collect();
            keys.sort_unstable();
            keys.into_iter().map(|key| Op::First(First::Key(key)))
        });
        let steps = (0..load.done).map(move |number| Op::Commit(load.step(number)));
        firsts.chain(keys).chain(steps)
    }

    fn first(&self, number: u64) -> Op {
        if self.is_of_messages() {
            return Op::Enqueue(self.message(number));
        }
        let value = self.first_value(number);
        Op::First(match self.work {
            Work::Transition => First::Order(number, value),
            Work::Count => First::Counter(number),
            _ => First::Record(number, value),
        })
    }

    /// What a peer holds after operations `0..done`, worked out without any engine. What was delivered is made up for by as many
    /// messages.
    pub fn expected(&self, done: u64) -> Contents {
        let mut contents = Contents::default();
        let steps = match self.work {
            Work::Hot => done,
            _ => self.done,
        };
        match self.work {
            Work::Enqueue => self.add_messages(&mut contents, 0..self.records + done),
            Work::Deliver | Work::DeliverLots => {
                let gone = done * self.results();
                self.add_messages(&mut contents, gone..gone + self.records);
            }
            Work::Transition => self.add_orders(&mut contents, done),
            Work::Count => contents.add_counter(0, done),
            Work::PutIf => self.add_records(&mut contents, done),
            _ => self.add_records(&mut contents, steps),
        }
        for number in 0..self.keys {
            contents.add_key(&key_of(FILLED_KEYS_FROM + number));
        }
        for number in 0..steps {
            let step = self.step(number);
            contents.add_key(&step.key);
            contents.add_extra(step.extra, &step.extra_value);
        }
        contents
    }

    fn add_records(&self, contents: &mut Contents, writes: u64) {
        for place in 0..self.records {
            let record = self.shuffled(place);
            let writes = self.visits(place, writes);
            let value = match writes {
                0 => self.first_value(record),
                _ => self.step(place + (writes - 1) * self.records).value,
            };
            contents.add_record(record, 1 + writes, &value);
        }
    }

    fn add_messages(&self, contents: &mut Contents, numbers: std::ops::Range<u64>) {
        for number in numbers {
            contents.add_message(0, &self.message(number).payload);
        }
    }

    fn add_orders(&self, contents: &mut Contents, moves: u64) {
        for place in 0..self.records {
            let record = self.shuffled(place);
            let moves = self.visits(place, moves);
            contents.add_order(record, 1 + moves, moves % STATES, &self.first_value(record));
        }
    }

    /// How many of the operations below `done` were for the record at this place: place, place + records, ..
    fn visits(&self, place: u64, done: u64) -> u64 {
        (done + self.records - 1 - place) / self.records
    }

    /// The record at this place of a lap: a Feistel network on the next even number of bits, walked until it comes back
    /// into the range, and so a bijection on the records.
    fn shuffled(&self, place: u64) -> u64 {
        let half = self.records.next_power_of_two().trailing_zeros().div_ceil(2);
        let mask = (1_u64 << half) - 1;
        let mut walked = place;
        loop {
            let (mut left, mut right) = (walked >> half, walked & mask);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(right ^ (round << 32)) & mask));
            }
            walked = (left << half) | right;
            if walked < self.records {
                return walked;
            }
        }
    }

    /// For another process.
    pub fn json(&self) -> Value {
        let name = WORKS.iter().find(|(_, work)| *work == self.work).map(|(name, _)| *name);
        json!({ "work": name, "records": self.records, "value_bytes": self.value_bytes, "keys": self.keys, "done": self.done })
    }

    /// What [`Load::json`] said.
    ///
    /// # Errors
    /// If it is something else.
    pub fn from_json(value: &Value) -> Result<Load, Failure> {
        let number = |name: &str| value[name].as_u64().ok_or_else(|| format!("no {name} in the load"));
        let work = WORKS.iter().find(|(name, _)| value["work"] == **name);
        Ok(Load {
            work: work.ok_or("no such work")?.1,
            records: number("records")?,
            value_bytes: usize::try_from(number("value_bytes")?)?,
            keys: number("keys")?,
            done: number("done")?,
        })
    }
}

/// Sixteen bytes that look random, as message ids do; distinct, since `mix` is a bijection.
pub fn key_of(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    key
}

/// A value that does not repeat and does not compress.
fn text(seed: u64, bytes: usize) -> String {
    let mut value = Vec::with_capacity(bytes + 7);
    let mut state = seed;
    while value.len() < bytes {
        state = mix(state);
        value.extend_from_slice(&block(state));
    }
    value.truncate(bytes);
    String::from_utf8(value).unwrap_or_default()
}

/// The same bits as eight characters of ASCII, from `0` on.
fn block(state: u64) -> [u8; 8] {
    ((state & 0x3f3f_3f3f_3f3f_3f3f) + 0x3030_3030_3030_3030).to_le_bytes()
}

/// The finaliser of splitmix64 after its increment: a bijection on u64.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
