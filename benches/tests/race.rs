//! The race itself: who does less is found out, and who does all of it passes.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sprag_benches::contents::Contents;
use sprag_benches::entrant::Entrant;
use sprag_benches::group::Grouped;
use sprag_benches::load::{Load, Work};
use sprag_benches::op::{Ask, First, Op, Reply, See};
use sprag_benches::peer::{Failure, Peer};
use sprag_benches::peers::sprag::SYNC;
use sprag_benches::race::{Contestant, Pace, race};

/// More than one slice writes, so that a thread that is held up is not overtaken by a lap.
const RECORDS: u64 = 50_000;

/// What a peer leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lazy {
    Nothing,
    EveryThirdKey,
    TheLastValue,
    EveryThirdMove,
    EveryThirdCount,
    TheStoredResult,
    TheLastOfAScan,
    TheRightRecord,
}

/// Keeps everything in memory, except what it is too lazy for.
struct Paper {
    lazy: Lazy,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    done: u64,
    records: BTreeMap<u64, (u64, String)>,
    orders: BTreeMap<u64, (u64, u64, String)>,
    keys: HashMap<[u8; 16], u64>,
    extras: HashMap<u64, String>,
    counter: Option<u64>,
}

impl Pages {
    fn put_if(&mut self, id: u64, version: u64, value: &str, lazy: Lazy) -> Reply {
        match self.records.get_mut(&id) {
            Some(record) if record.0 == version => {
                record.0 += 1;
                if lazy != Lazy::TheLastValue {
                    value.clone_into(&mut record.1);
                }
                Reply::Done
            }
            _ => Reply::Conflict,
        }
    }

    fn apply(&mut self, op: &Op, lazy: Lazy) -> Reply {
        self.done += 1;
        let third = self.done.is_multiple_of(3);
        match op {
            Op::Commit(step) => {
                if let Some(result) = self.keys.get(&step.key) {
                    return Reply::Repeat(if lazy == Lazy::TheStoredResult { 0 } else { *result });
                }
                let reply = self.put_if(step.record, step.version, &step.value, lazy);
                if reply == Reply::Done {
                    self.extras.insert(step.extra, step.extra_value.clone());
                    if !(third && lazy == Lazy::EveryThirdKey) {
                        self.keys.insert(step.key, step.extra);
                    }
                }
                return reply;
            }
            Op::PutIf(step) => return self.put_if(step.record, step.version, &step.value, lazy),
            Op::Move(to_move) => match self.orders.get_mut(&to_move.record) {
                Some(order) if order.1 == to_move.from => {
                    if !(third && lazy == Lazy::EveryThirdMove) {
                        (order.0, order.1) = (order.0 + 1, to_move.to);
                    }
                }
                _ => return Reply::Conflict,
            },
            Op::Enqueue(_) | Op::Claim(_) | Op::Ack(_) | Op::AckThenClaim(..) => return Reply::Conflict,
            Op::Count if third && lazy == Lazy::EveryThirdCount => {}
            Op::Count => self.counter = self.counter.map(|count| count + 1),
            Op::First(First::Record(id, value)) => {
                self.records.insert(*id, (1, value.clone()));
            }
            Op::First(First::Order(id, value)) => {
                self.orders.insert(*id, (1, 0, value.clone()));
            }
            Op::First(First::Counter(_)) => self.counter = Some(0),
            Op::First(First::Key(key)) => {
                self.keys.insert(*key, 0);
            }
        }
        Reply::Done
    }
}

impl Peer for Paper {
    fn write(&self, _thread: usize, op: Op) -> Result<Reply, Failure> {
        std::thread::yield_now();
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(pages.apply(&op, self.lazy))
    }

    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure> {
        ops.iter().map(|op| self.write(0, op.clone())).collect()
    }

    fn read(&self, _thread: usize, ask: &Ask, see: See<'_>) -> Result<(), Failure> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut show = |id: u64| {
            let taken = match self.lazy {
                Lazy::TheRightRecord => 0,
                _ => id,
            };
            if let Some((version, value)) = pages.records.get(&taken) {
                see(id, *version, value);
            }
        };
        match ask {
            Ask::Get(id) => show(*id),
            Ask::Gets(ids) => ids.iter().copied().for_each(show),
            Ask::Scan { from, count } => {
                let short = u64::from(self.lazy == Lazy::TheLastOfAScan);
                (*from..from + count - short).for_each(show);
            }
        }
        Ok(())
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut contents = Contents::default();
        for (id, (version, value)) in &pages.records {
            contents.add_record(*id, *version, value);
        }
        for (id, (version, state, value)) in &pages.orders {
            contents.add_order(*id, *version, *state, value);
        }
        pages.keys.keys().for_each(|key| contents.add_key(key));
        for (id, value) in &pages.extras {
            contents.add_extra(*id, value);
        }
        if let Some(count) = pages.counter {
            contents.add_counter(0, count);
        }
        Ok(Some(contents))
    }
}

fn load(work: Work) -> Load {
    Load {
        work,
        keys: if work == Work::Hot { 30 } else { 0 },
        done: if work == Work::Duplicate { 500 } else { 0 },
        ..Load::new(if work == Work::Count { 1 } else { RECORDS })
    }
}

fn paper(lazy: Lazy, load: &Load) -> Paper {
    let mut pages = Pages::default();
    for op in load.filling() {
        assert_eq!(pages.apply(&op, Lazy::Nothing), Reply::Done);
    }
    Paper {
        lazy,
        pages: Mutex::new(pages),
    }
}

/// Races one peer alone and says how many slices it ran.
fn ran(peer: Box<dyn Peer>, load: Load, threads: usize) -> Result<usize, String> {
    let entrant = Entrant::new(peer, Path::new("."), load);
    let mut contestants = [Contestant::new(SYNC, load, Box::new(entrant))];
    let pace = Pace {
        threads,
        rounds: 3,
        slice: Duration::from_millis(20),
        patience: Duration::ZERO,
    };
    let outcome = race(&mut contestants, None, pace);
    outcome.map_err(|failure| failure.to_string())?;
    Ok(contestants[0].slices.len())
}

const WORKS: [Work; 8] = [
    Work::Hot,
    Work::Duplicate,
    Work::PutIf,
    Work::Transition,
    Work::Get,
    Work::GetInRead,
    Work::Scan,
    Work::Count,
];

#[test]
fn a_peer_that_does_all_of_it_passes_at_any_number_of_threads() {
    for work in WORKS {
        for threads in [1, 8] {
            let load = load(work);
            let outcome = ran(Box::new(paper(Lazy::Nothing, &load)), load, threads);
            assert_eq!(outcome, Ok(3), "{work:?}, threads={threads}");
        }
    }
}

#[test]
fn a_peer_that_does_less_is_found_out_in_every_workload() {
    let lazies = [
        (Work::Hot, Lazy::EveryThirdKey, "does not hold what it was given"),
        (Work::Hot, Lazy::TheLastValue, "does not hold what it was given"),
        (Work::Duplicate, Lazy::TheStoredResult, "answered something else"),
        (Work::PutIf, Lazy::TheLastValue, "does not hold what it was given"),
        (Work::Transition, Lazy::EveryThirdMove, ""),
        (Work::Count, Lazy::EveryThirdCount, "does not hold what it was given"),
        (Work::Get, Lazy::TheRightRecord, "read something else"),
        (Work::GetInRead, Lazy::TheRightRecord, "read something else"),
        (Work::Scan, Lazy::TheLastOfAScan, "read something else"),
    ];
    for (work, lazy, complaint) in lazies {
        let load = load(work);
        let outcome = ran(Box::new(paper(lazy, &load)), load, 1);
        assert!(
            outcome.as_ref().is_err_and(|text| text.contains(complaint)),
            "{work:?}, {lazy:?}, {outcome:?}"
        );
    }
}

#[test]
fn a_group_gives_everybody_the_reply_to_its_own_operation() {
    for work in [Work::Hot, Work::Duplicate, Work::Count] {
        let load = load(work);
        let grouped = Grouped::new(Box::new(paper(Lazy::Nothing, &load)));
        assert_eq!(ran(Box::new(grouped), load, 8), Ok(3), "{work:?}");
    }
    // The replies of duplicates differ from each other, so one that goes to somebody else is seen.
    let load = load(Work::Duplicate);
    let grouped = Grouped::new(Box::new(paper(Lazy::TheStoredResult, &load)));
    let outcome = ran(Box::new(grouped), load, 8);
    assert!(outcome.is_err_and(|text| text.contains("answered something else")));
}

#[test]
fn a_group_tells_all_its_members_that_the_engine_failed() {
    let load = load(Work::Hot);
    struct Broken;
    impl Peer for Broken {
        fn write(&self, _thread: usize, _op: Op) -> Result<Reply, Failure> {
            Err("no disk".into())
        }
        fn lot(&self, _ops: &[Op]) -> Result<Vec<Reply>, Failure> {
            Err("no disk".into())
        }
        fn read(&self, _thread: usize, _ask: &Ask, _see: See<'_>) -> Result<(), Failure> {
            Ok(())
        }
        fn contents(&self) -> Result<Option<Contents>, Failure> {
            Ok(None)
        }
    }
    let outcome = ran(Box::new(Grouped::new(Box::new(Broken))), load, 8);
    assert_eq!(outcome, Err("sprag: no disk".to_owned()));
}

#[test]
fn the_expected_versions_follow_the_steps_over_several_laps() {
    let load = Load::new(RECORDS);
    let steps = 2 * RECORDS + 17;
    let expected = load.expected(steps);
    assert_eq!(expected.records, RECORDS);
    assert_eq!(expected.versions, RECORDS + steps);
    assert_eq!((expected.keys, expected.extras), (steps, steps));
    assert!(expected.whole());
    assert_eq!(load.step(steps).version, 3);
    assert_eq!(load.step(17).record, load.step(RECORDS + 17).record);
}

#[test]
fn a_load_comes_back_from_its_json() -> Result<(), Failure> {
    for work in WORKS {
        assert_eq!(Load::from_json(&load(work).json())?, load(work));
    }
    Ok(())
}
