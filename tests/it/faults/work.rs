//! The workload: what a program does to a store in its life, drawn by a seed, with what the reference answers to it.

use sprag::{Batch, Error, ErrorKind, Outcome, Store, Table};

use crate::model::reference::{Answer, Condition, Key, Once, Op, Range, Reference, Scan};
use crate::model::subject::{self, OrderState};
use crate::random::Random;

const STEPS: u64 = 150;
const NAMES: u64 = 6;
pub const STATES: [&str; 4] = ["new", "packed", "shipped", "cancelled"];
/// Tables in use, by their numbers in the reference.
const TABLES: [usize; 3] = [0, 2, 8];

const NUMBERS: Table<u64, Vec<u8>> = Table::new("numbers");
pub const ORDERS: Table<u64, Vec<u8>, OrderState> = Table::new("orders");

#[derive(Clone, Debug)]
pub enum Step {
    /// One commit.
    Write(Vec<Op>),
    Once(Once),
    Batch(Vec<Op>),
    Read(Vec<Op>),
    /// Milliseconds.
    Pass(u64),
    Sync,
    Sweep,
    /// Ends the store, by a close or a drop, and opens it again.
    Reopen {
        closes: bool,
    },
}

impl Step {
    pub fn name(&self) -> String {
        let all = format!("{self:?}");
        all.chars().take(60).collect()
    }
}

/// The steps of one life. Every value is another one, so that no state is taken for another.
pub fn draw(random: &mut Random) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..STEPS).map(|number| step(random, number)).collect();
    for (at, step) in [
        (30, Step::Sync),
        (55, Step::Reopen { closes: false }),
        (80, Step::Sweep),
        (110, Step::Reopen { closes: true }),
        (130, Step::Sync),
    ] {
        steps.insert(at, step);
    }
    steps
}

fn step(random: &mut Random, number: u64) -> Step {
    match random.below(20) {
        0..=8 => Step::Write((0..=random.below(2)).map(|at| change(random, number, at)).collect()),
        9..=11 => Step::Once(Once {
            name: random.below(NAMES) as u8,
            keep_ms: (random.below(4) > 0).then(|| 500 + random.below(4000)),
            bound: None,
            ops: vec![change(random, number, 0)],
            fails: false,
            result: number,
        }),
        12..=14 => {
            let order = random.below(6);
            Step::Batch(vec![
                Op::Put(
                    Key::Number(random.below(8)),
                    condition(random),
                    value(random, number, 0),
                ),
                Op::Put(
                    Key::Number(8 + random.below(8)),
                    Condition::Any,
                    value(random, number, 1),
                ),
                transition(random, order),
            ])
        }
        15..=17 => Step::Read(vec![
            Op::Get(Key::Number(random.below(16))),
            Op::Get(Key::Order(random.below(6))),
            Op::Remembered(random.below(NAMES) as u8),
        ]),
        _ => Step::Pass(1 + random.below(900)),
    }
}

/// The changes of one commit are about different keys: what it leaves always shows.
fn change(random: &mut Random, number: u64, at: u64) -> Op {
    let numbered = |random: &mut Random| Key::Number(16 * at + random.below(16));
    let order = |random: &mut Random| 6 * at + random.below(6);
    match random.below(12) {
        0..=3 => Op::Put(numbered(random), condition(random), value(random, number, at)),
        4 => Op::Put(
            Key::Text(format!("text {}", random.below(5))),
            condition(random),
            // As JSON it is more than three times as long.
            value(random, number, at)[..300].to_vec(),
        ),
        5 | 6 => Op::Delete(numbered(random), condition(random)),
        7 => Op::Delete(Key::Order(order(random)), Condition::Any),
        8 => Op::Forget(random.below(NAMES) as u8),
        9 => Op::Create(
            order(random),
            STATES[random.below(2) as usize],
            value(random, number, at),
        ),
        _ => {
            let order = order(random);
            transition(random, order)
        }
    }
}

fn transition(random: &mut Random, order: u64) -> Op {
    let (from, to) = [(0, 1), (1, 2), (0, 3), (1, 3)][random.below(4) as usize];
    Op::Move {
        order,
        from: STATES[from],
        to: STATES[to],
        value: None,
    }
}

fn condition(random: &mut Random) -> Condition {
    match random.below(8) {
        0 => Condition::Absent,
        1 => Condition::Present,
        2 => Condition::Version(1 + random.below(6)),
        _ => Condition::Any,
    }
}

fn value(random: &mut Random, number: u64, at: u64) -> Vec<u8> {
    let mut value = [number.to_be_bytes(), at.to_be_bytes()].concat();
    value.resize(300 + random.below(2200) as usize, number as u8);
    value
}

/// All that a store shows.
pub fn everything() -> Vec<Op> {
    let scans = TABLES.iter().flat_map(|table| {
        [false, true].map(|reverse| {
            Op::Scan(Scan {
                table: *table,
                range: Range::All,
                reverse,
            })
        })
    });
    scans.chain((0..NAMES).map(|name| Op::Remembered(name as u8))).collect()
}

/// What the reference answers to a step that is no reopening.
pub fn expect(step: &Step, reference: &mut Reference) -> Vec<Answer> {
    match step {
        Step::Write(ops) | Step::Read(ops) => reference.all(ops),
        Step::Once(once) => reference.all(&[Op::Once(once.clone())]),
        Step::Batch(ops) => {
            let mut after = reference.clone();
            let answers = after.all(ops);
            let applied = answers.iter().all(|answer| matches!(answer, Answer::Applied(_)));
            if applied {
                *reference = after;
            }
            vec![Answer::Forgot(applied)]
        }
        Step::Pass(_) | Step::Sync | Step::Sweep | Step::Reopen { .. } => Vec::new(),
    }
}

/// What ends a closure.
enum Stop {
    /// A call inside of it failed.
    Inside(ErrorKind),
    Store(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Store(error)
    }
}

impl Stop {
    fn kind(self) -> ErrorKind {
        match self {
            Stop::Inside(kind) => kind,
            Stop::Store(error) => error.kind(),
        }
    }
}

/// No operation of the workload is wrong, so that whatever fails in it ends it.
fn none_failed(answers: &[Answer]) -> Result<(), Stop> {
    answers.iter().try_for_each(|answer| match answer {
        Answer::Failed(kind) => Err(Stop::Inside(*kind)),
        Answer::First(inner, _) => none_failed(inner),
        _ => Ok(()),
    })
}

/// Does a step that is no reopening.
pub fn run(step: &Step, store: &Store) -> Result<Vec<Answer>, ErrorKind> {
    let mut answers = Vec::new();
    match step {
        Step::Write(ops) => store
            .write(|tx| {
                answers = subject::write_all(tx, ops);
                none_failed(&answers)
            })
            .map_err(Stop::kind)?,
        Step::Once(once) => {
            let mut inner = Vec::new();
            let outcome = store.once(&subject::key_of(once), |tx| {
                inner = subject::write_all(tx, &once.ops);
                none_failed(&inner)?;
                Ok::<_, Stop>(once.result)
            });
            let outcome = outcome.map_err(Stop::kind)?;
            answers.push(subject::once_answer(Ok(outcome), inner));
        }
        Step::Batch(ops) => {
            let outcome = store.apply(&batch(ops)).map_err(|error| error.kind())?;
            answers.push(Answer::Forgot(matches!(outcome, Outcome::Applied { .. })));
        }
        Step::Read(ops) => store
            .read(|tx| {
                answers = subject::read_all(tx, ops);
                none_failed(&answers)
            })
            .map_err(Stop::kind)?,
        Step::Sync => store.sync().map_err(|error| error.kind())?,
        Step::Sweep => store.sweep().map(drop).map_err(|error| error.kind())?,
        Step::Pass(_) | Step::Reopen { .. } => unreachable!("not a call of the store"),
    }
    Ok(answers)
}

fn batch(ops: &[Op]) -> Batch {
    ops.iter().fold(Batch::new(), |batch, op| match op {
        Op::Put(Key::Number(key), condition, value) => {
            batch.put_if(NUMBERS, key, subject::condition_of(*condition), value)
        }
        Op::Move { order, from, to, .. } => batch.transition(ORDERS, order, OrderState::of(from), OrderState::of(to)),
        other => unreachable!("not in a batch of the workload: {other:?}"),
    })
}
