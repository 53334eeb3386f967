//! What a peer is asked to do, and what it answers.

/// Everything that one hot commit has to hold.
#[derive(Clone, Debug)]
pub struct Step {
    /// The record to write.
    pub record: u64,
    /// The version it must have; it gets the next one.
    pub version: u64,
    /// The record's new value.
    pub value: String,
    /// The remembered key; the result that is remembered with it is `extra`.
    pub key: [u8; 16],
    /// The number of the one more record.
    pub extra: u64,
    /// Its value.
    pub extra_value: String,
}

/// A move of a record from one state to the next.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The record.
    pub record: u64,
    /// The state it must be in.
    pub from: u64,
    /// The state it gets.
    pub to: u64,
}

/// What is there before the first operation.
#[derive(Clone, Debug)]
pub enum First {
    /// A record at version 1.
    Record(u64, String),
    /// A record with states, at version 1 and in state 0.
    Order(u64, String),
    /// A counter at 0.
    Counter(u64),
    /// A remembered key.
    Key([u8; 16]),
}

/// A message to leave: what a claim of it hands out.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its place among all of them.
    pub number: u64,
    /// What is to leave.
    pub payload: String,
}

/// A message in somebody's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whatever the engine finds it by.
    pub id: u64,
    /// The number of the claim.
    pub fence: u64,
    /// Length of the payload that was handed out.
    pub bytes: usize,
}

/// One write, durable as the peer's durability says when it is answered.
#[derive(Clone, Debug)]
pub enum Op {
    /// All of a step or, if its key is known, nothing.
    Commit(Step),
    /// The record of a step alone.
    PutIf(Step),
    /// A move, if the record is in the state it starts from.
    Move(Move),
    /// Counter 0 grows by one.
    Count,
    /// Part of the filling.
    First(First),
    /// A message goes into the queue, with one header; it has no key.
    Enqueue(Message),
    /// So many of the messages that are due are handed out, in their order: each attempt counted, with a fence of its own.
    Claim(usize),
    /// Messages are gone, if the fences are theirs.
    Ack(Vec<Held>),
    /// Both in one commit.
    AckThenClaim(Vec<Held>, usize),
}

/// What a peer did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// All of it.
    Done,
    /// Nothing, since the key was known; this was remembered with it.
    Repeat(u64),
    /// Nothing, since the version, the state or a fence was another one.
    Conflict,
    /// These are in the caller's hands.
    Claimed(Vec<Held>),
}

/// One read.
#[derive(Clone, Debug)]
pub enum Ask {
    /// One record.
    Get(u64),
    /// Many, in one transaction.
    Gets(Vec<u64>),
    /// So many in the order of their keys.
    Scan {
        /// The first.
        from: u64,
        /// How many.
        count: u64,
    },
}

/// Takes each record that a read finds: its key, version and value.
pub type See<'a> = &'a mut dyn FnMut(u64, u64, &str);

impl Op {
    /// Bytes of the values in it.
    pub fn value_bytes(&self) -> usize {
        match self {
            Op::Commit(step) => step.value.len() + step.extra_value.len(),
            Op::PutIf(step) => step.value.len(),
            Op::First(First::Record(_, value) | First::Order(_, value)) => value.len(),
            Op::Enqueue(message) => message.payload.len(),
            Op::Claim(_) | Op::Ack(_) | Op::AckThenClaim(..) => 0,
            Op::Move(_) | Op::Count | Op::First(First::Counter(_) | First::Key(_)) => 0,
        }
    }
}
