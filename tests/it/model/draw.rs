//! Random operations: few keys, so that they meet, and among them the ones that encodings get wrong.

use std::ops::Bound;

use super::reference::{Condition, Key, Once, Op, Range, Scan};
use crate::random::Random;

const NUMBERS: [u64; 8] = [0, 1, 2, 255, 256, 65_536, u64::MAX - 1, u64::MAX];
const SIGNED: [i64; 8] = [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX];
const TEXTS: [&str; 10] = ["", "\0", "\0\0", "a", "a\0", "a\0\u{1}", "aa", "ab", "b", "\u{10ffff}"];
const BYTES: [&[u8]; 10] = [
    b"",
    b"\0",
    b"\0\xff",
    b"\0\x01",
    b"a",
    b"a\0",
    b"ab",
    b"\xff",
    b"\xff\xff",
    b"\xff\0",
];
const ARRAYS: [[u8; 4]; 6] = [
    [0; 4],
    [0, 0, 0, 1],
    [0, 255, 255, 255],
    [1, 0, 0, 0],
    [255, 255, 255, 254],
    [255; 4],
];
const STATES: [&str; 4] = ["new", "packed", "shipped", "cancelled"];
const VALUE_BYTES: [usize; 7] = [0, 1, 60, 250, 600, 2500, 3900];

fn one<T: Clone>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize].clone()
}

/// Whether something happens that does so in `percent` of a hundred cases.
pub fn in_percent(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

fn key_of(random: &mut Random, table: usize) -> Key {
    match table {
        0 => Key::Number(one(random, &NUMBERS)),
        1 => Key::Signed(one(random, &SIGNED)),
        2 => Key::Text(one(random, &TEXTS).to_owned()),
        3 => Key::Bytes(one(random, &BYTES).to_vec()),
        4 => Key::Array(one(random, &ARRAYS)),
        5 => Key::Pair((one(random, &NUMBERS[..4]), one(random, &NUMBERS))),
        6 => Key::Named((one(random, &TEXTS).to_owned(), one(random, &SIGNED))),
        7 => Key::Nested((
            (one(random, &BYTES).to_vec(), random.below(2)),
            one(random, &TEXTS).to_owned(),
        )),
        _ => Key::Order(random.below(8)),
    }
}

fn key(random: &mut Random) -> Key {
    let table = random.below(Key::TABLES as u64) as usize;
    key_of(random, table)
}

/// One of few bytes over and over, so that equal values are offered often.
fn value(random: &mut Random) -> Vec<u8> {
    vec![random.below(2) as u8; one(random, &VALUE_BYTES)]
}

fn condition(random: &mut Random) -> Condition {
    match random.below(10) {
        0..=4 => Condition::Any,
        5 => Condition::Absent,
        6 => Condition::Present,
        7 => Condition::Version(random.below(40)),
        _ => Condition::Version(1 + random.below(8)),
    }
}

pub fn scan(random: &mut Random) -> Scan {
    let table = random.below(Key::TABLES as u64) as usize;
    let one_key = |random: &mut Random| key_of(random, table);
    let range = match random.below(9) {
        0 => Range::Bounds(Bound::Included(one_key(random)), Bound::Unbounded),
        1 => Range::Bounds(Bound::Excluded(one_key(random)), Bound::Unbounded),
        2 => Range::Bounds(Bound::Unbounded, Bound::Excluded(one_key(random))),
        3 => Range::Bounds(Bound::Unbounded, Bound::Included(one_key(random))),
        4 => Range::Bounds(Bound::Included(one_key(random)), Bound::Excluded(one_key(random))),
        5 => Range::Bounds(Bound::Excluded(one_key(random)), Bound::Excluded(one_key(random))),
        6 | 7 => match one_key(random) {
            Key::Text(text) => Range::Prefix(text.into_bytes()),
            Key::Bytes(bytes) => Range::Prefix(bytes),
            Key::Array(bytes) => Range::Prefix(bytes[..random.below(5) as usize].to_vec()),
            of @ (Key::Pair(_) | Key::Named(_) | Key::Nested(_)) => Range::First(of),
            _ => Range::All,
        },
        _ => Range::All,
    };
    Scan {
        table,
        range,
        reverse: in_percent(random, 50),
    }
}

/// An operation that writes nothing.
pub fn reading(random: &mut Random) -> Op {
    match random.below(10) {
        0..=3 => Op::Get(key(random)),
        4..=6 => Op::Scan(scan(random)),
        7 | 8 => Op::Pages(scan(random), 1 + random.below(4) as usize),
        _ => Op::Remembered(name(random)),
    }
}

fn name(random: &mut Random) -> u8 {
    random.below(12) as u8
}

pub fn once(random: &mut Random, depth: u64) -> Once {
    Once {
        name: name(random),
        keep_ms: match random.below(12) {
            0 => None,
            1 => Some(0),
            2..=6 => Some(1 + random.below(2000)),
            _ => Some(20_000),
        },
        bound: (in_percent(random, 60)).then(|| random.below(2) as u8),
        ops: (0..random.below(4)).map(|_| op(random, depth + 1)).collect(),
        fails: in_percent(random, 30),
        result: random.below(u64::MAX),
    }
}

pub fn op(random: &mut Random, depth: u64) -> Op {
    match random.below(100) {
        0..=34 => Op::Put(key(random), condition(random), value(random)),
        35..=46 => Op::Delete(key(random), condition(random)),
        47..=50 => Op::Create(random.below(8), one(random, &STATES), value(random)),
        51..=62 => Op::Move {
            order: random.below(8),
            from: one(random, &STATES[..2]),
            to: one(random, &STATES[1..]),
            value: in_percent(random, 30).then(|| value(random)),
        },
        63..=68 => Op::Update(key(random), in_percent(random, 80).then(|| value(random))),
        69 | 70 => Op::Retain(scan(random)),
        71..=80 if depth < 3 => Op::Once(once(random, depth)),
        81..=83 => Op::Forget(name(random)),
        _ => reading(random),
    }
}
