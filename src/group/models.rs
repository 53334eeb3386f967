//! Loom models of the group: four threads, at most two preemptions, every interleaving within that.
//!
//! Each model names the states that it must reach, since a model in which no group ever forms proves nothing, and
//! `scripts/mutants` shows that the models notice the mistakes they are there for. The writer of a model does what the
//! engine does: it keeps what is staged under its own lock and takes it back when told so.
//!
//! Here only: what no interleaving may break. Whether groups pay is for the benches.

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use super::{Group, GroupEnv, Ticket};
use crate::error::{Error, ErrorKind};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, spawn};

/// What one call of the environment does; calls after the end of a script work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Works,
    Fails,
    Panics,
}

/// An environment that remembers what it was given. Its data are outside the model, but for `published`.
struct Recorder {
    script: &'static [Call],
    inside: AtomicBool,
    /// Relaxed on purpose: whoever hears `Ok` must see it by what the group orders.
    published: AtomicU64,
    disk: std::sync::Mutex<Disk>,
}

#[derive(Clone, Default)]
struct Disk {
    calls: usize,
    /// Handed over, in order: the value of sequence n is at n - 1.
    log: Vec<u32>,
    durable: usize,
    largest_lot: usize,
}

impl Recorder {
    fn new(script: &'static [Call]) -> Recorder {
        Recorder {
            script,
            inside: AtomicBool::new(false),
            published: AtomicU64::new(0),
            disk: std::sync::Mutex::default(),
        }
    }

    fn disk(&self) -> Disk {
        self.disk.lock().expect("nobody panics while holding it").clone()
    }

    fn call(&self, lot: Option<Vec<u32>>) -> (Call, u64) {
        let mut disk = self.disk.lock().expect("nobody panics while holding it");
        let call = self.script.get(disk.calls).copied().unwrap_or(Call::Works);
        disk.calls += 1;
        if let Some(mut lot) = lot {
            assert!(!lot.is_empty(), "an empty lot was handed over");
            disk.largest_lot = disk.largest_lot.max(lot.len());
            disk.log.append(&mut lot);
        }
        if call == Call::Works {
            disk.durable = disk.log.len();
        }
        (call, disk.durable as u64)
    }
}

impl GroupEnv for Recorder {
    type Lot = Vec<u32>;

    fn hand_over(&self, lot: Option<Vec<u32>>) -> Result<(), Error> {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two leaders");
        // Also the point where the model may switch while somebody is inside.
        self.published.load(Ordering::Relaxed);
        let (call, durable) = self.call(lot);
        if call == Call::Works {
            self.published.store(durable, Ordering::Relaxed);
        }
        assert!(self.inside.swap(false, Ordering::SeqCst), "two leaders");
        match call {
            Call::Works => Ok(()),
            Call::Fails => Err(Error::new(ErrorKind::Full, "the script says so")),
            // Without the hook, which would print in every execution.
            Call::Panics => resume_unwind(Box::new("the script says so")),
        }
    }
}

/// What the engine would be: the group, and under the writer lock what is staged.
struct Writer {
    group: Group<Recorder>,
    staged: Mutex<Staged>,
    /// A wait for another thread's round ends at once.
    impatient: bool,
    reached: std::sync::Arc<Reached>,
}

struct Staged {
    last: Ticket,
    values: Vec<u32>,
}

/// The value that is committed after all others.
const LAST: u32 = 99;

#[derive(Debug)]
enum Heard {
    Durable(Ticket),
    InDoubt(Ticket),
    /// In doubt since another thread's round took too long.
    Late(Ticket),
    Dropped(Ticket),
    /// By `begin` or `stage`: there is no ticket.
    Refused,
    Panicked,
}

impl Writer {
    fn new(script: &'static [Call], impatient: bool, reached: std::sync::Arc<Reached>) -> Arc<Writer> {
        let patience = if impatient { Duration::ZERO } else { Duration::MAX };
        let group = Group::with_patience(Recorder::new(script), 0, patience);
        let staged = Staged {
            last: group.latest(),
            values: Vec::new(),
        };
        Arc::new(Writer {
            group,
            staged: Mutex::new(staged),
            impatient,
            reached,
        })
    }

    /// Stages `value` and waits; checks that what is heard is true.
    fn commit(&self, value: u32) -> Heard {
        let mut staged = self.staged.lock();
        let from = match self.begin(&mut staged) {
            Ok(ticket) => ticket,
            Err(heard) => return heard,
        };
        let ticket = match self.group.stage(&from, |lot| lot.push(value)) {
            Ok(ticket) => ticket,
            Err(error) => {
                self.assert_refusal(&error);
                hit(&self.reached.stage_refused);
                return Heard::Refused;
            }
        };
        assert_eq!(ticket.seq, from.seq + 1);
        staged.last = ticket.clone();
        staged.values.push(value);
        drop(staged);
        self.hear(ticket, value)
    }

    /// Decides without staging, and waits for what the decision saw.
    fn answer(&self) -> Heard {
        let mut staged = self.staged.lock();
        let ticket = match self.begin(&mut staged) {
            Ok(ticket) => ticket,
            Err(heard) => return heard,
        };
        let Some(&value) = staged.values.last() else {
            return Heard::Durable(ticket);
        };
        drop(staged);
        let heard = self.hear(ticket, value);
        match &heard {
            Heard::InDoubt(_) => hit(&self.reached.answer_in_doubt),
            Heard::Dropped(_) => hit(&self.reached.answer_dropped),
            _ => {}
        }
        heard
    }

    fn begin(&self, staged: &mut Staged) -> Result<Ticket, Heard> {
        let begun = match self.catch(|| self.group.begin(&staged.last))? {
            Ok(begun) => begun,
            Err(error) => {
                self.assert_refusal(&error);
                hit(&self.reached.begin_refused);
                return Err(Heard::Refused);
            }
        };
        assert_eq!(begun.rolled_back, begun.ticket.seq < staged.last.seq);
        if begun.rolled_back {
            hit(&self.reached.rolled_back);
            staged.values.truncate(begun.ticket.seq as usize);
        }
        assert_eq!(begun.ticket.seq as usize, staged.values.len());
        staged.last = begun.ticket.clone();
        Ok(begun.ticket)
    }

    /// Waits for a ticket whose highest sequence is `value`, and holds what it hears against the disk.
    fn hear(&self, ticket: Ticket, value: u32) -> Heard {
        let heard = match self.catch(|| self.group.wait(&ticket)) {
            Ok(heard) => heard,
            Err(heard) => return heard,
        };
        let published = self.group.env().published.load(Ordering::Relaxed);
        let disk = self.group.env().disk();
        let on_disk = disk.log.get(ticket.seq as usize - 1) == Some(&value);
        match heard {
            Ok(()) => {
                assert!(
                    published >= ticket.seq && disk.durable as u64 >= ticket.seq,
                    "Ok of what is not durable"
                );
                assert!(on_disk, "Ok of another's sequence");
                if disk.largest_lot >= 2 {
                    hit(&self.reached.grouped);
                }
                if value != LAST && disk.calls > self.group.env().script.len() {
                    hit(&self.reached.healed);
                }
                Heard::Durable(ticket)
            }
            Err(error) if self.impatient && error.kind() == ErrorKind::InDoubt && error.source().is_none() => {
                hit(&self.reached.late);
                Heard::Late(ticket)
            }
            Err(error) if error.kind() == ErrorKind::InDoubt => {
                assert!(on_disk, "in doubt, but never handed over");
                assert!(error.source().is_some(), "the cause was lost");
                hit(&self.reached.in_doubt);
                Heard::InDoubt(ticket)
            }
            Err(error) => {
                self.assert_refusal(&error);
                assert!(!disk.log.contains(&value), "called not applied, but handed over");
                hit(&self.reached.dropped);
                Heard::Dropped(ticket)
            }
        }
    }

    fn assert_refusal(&self, error: &Error) {
        let kept = if self.group.env().script.contains(&Call::Panics) {
            ErrorKind::Io
        } else {
            ErrorKind::Full
        };
        assert!(
            error.kind() == kept || error.kind() == ErrorKind::Full,
            "the kind was lost: {error:?}"
        );
        assert!(error.source().is_some(), "the cause was lost: {error:?}");
    }

    /// Catches a panic of the script right where it leaves the group: a lock of loom that is released while a thread
    /// unwinds is poisoned.
    fn catch<T>(&self, call: impl FnOnce() -> T) -> Result<T, Heard> {
        catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
            if panic.downcast_ref() == Some(&"the script says so") {
                hit(&self.reached.panicked);
                return Heard::Panicked;
            }
            resume_unwind(panic)
        })
    }

    /// After all others: a commit works once the script is over, and then every old ticket hears the truth.
    fn settle(&self, heard: &[Heard]) {
        let calls_left = self.group.env().script.len() + 1;
        let works = (0..calls_left).any(|_| matches!(self.commit(LAST), Heard::Durable(_)));
        assert!(works, "never healed");
        let staged = self.staged.lock();
        let disk = self.group.env().disk();
        assert_eq!(staged.values, disk.log, "what was staged is not what is durable");
        assert_eq!(disk.durable, disk.log.len());
        for heard in heard {
            match heard {
                Heard::Durable(ticket) | Heard::InDoubt(ticket) => assert!(self.group.wait(ticket).is_ok()),
                Heard::Dropped(ticket) => {
                    if ticket.seq <= self.group.durable() {
                        hit(&self.reached.given_again);
                    }
                    assert!(self.group.wait(ticket).is_err(), "another's outcome");
                }
                // Either, but never a wait without an end.
                Heard::Late(ticket) => match self.group.wait(ticket) {
                    Ok(()) => hit(&self.reached.late_and_durable),
                    Err(_) => hit(&self.reached.late_and_dropped),
                },
                Heard::Refused | Heard::Panicked => {}
            }
        }
    }
}

/// States that some execution of a model must reach; one set for each model.
#[derive(Default)]
struct Reached {
    grouped: AtomicUsize,
    in_doubt: AtomicUsize,
    /// One of the four heard Ok after the script was over.
    healed: AtomicUsize,
    dropped: AtomicUsize,
    begin_refused: AtomicUsize,
    stage_refused: AtomicUsize,
    rolled_back: AtomicUsize,
    panicked: AtomicUsize,
    answer_in_doubt: AtomicUsize,
    answer_dropped: AtomicUsize,
    /// A dropped sequence that was given again and is durable.
    given_again: AtomicUsize,
    late: AtomicUsize,
    late_and_durable: AtomicUsize,
    late_and_dropped: AtomicUsize,
}

fn hit(state: &AtomicUsize) {
    state.fetch_add(1, Ordering::Relaxed);
}

/// Runs `part(writer, n)` on three spawned threads and the main one, in every interleaving, each with `check`.
fn four(
    script: &'static [Call],
    part: fn(&Writer, u32) -> Heard,
    check: impl Fn(&[Heard]) + Send + Sync + 'static,
) -> std::sync::Arc<Reached> {
    four_with(script, false, part, check)
}

fn four_with(
    script: &'static [Call],
    impatient: bool,
    part: fn(&Writer, u32) -> Heard,
    check: impl Fn(&[Heard]) + Send + Sync + 'static,
) -> std::sync::Arc<Reached> {
    let reached = std::sync::Arc::new(Reached::default());
    let all = std::sync::Arc::clone(&reached);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let writer = Writer::new(script, impatient, std::sync::Arc::clone(&all));
        let threads: Vec<_> = (1..4)
            .map(|n| {
                let writer = Arc::clone(&writer);
                spawn("writer", move || part(&writer, n)).expect("a model spawns")
            })
            .collect();
        let mut heard = vec![part(&writer, 0)];
        heard.extend(
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a part does not panic")),
        );
        check(&heard);
        writer.settle(&heard);
    });
    reached
}

#[track_caller]
fn expect(states: &[(&str, &AtomicUsize)]) {
    for (what, state) in states {
        assert!(state.load(Ordering::Relaxed) > 0, "no execution reached: {what}");
    }
}

fn commit(writer: &Writer, n: u32) -> Heard {
    writer.commit(n)
}

/// Two stage, two only answer.
fn commit_or_answer(writer: &Writer, n: u32) -> Heard {
    if n % 2 == 1 { writer.commit(n) } else { writer.answer() }
}

fn all_durable(heard: &[Heard]) {
    assert!(
        heard.iter().all(|heard| matches!(heard, Heard::Durable(_))),
        "{heard:?}"
    );
}

fn count(heard: &[Heard], which: fn(&Heard) -> bool) -> usize {
    heard.iter().filter(|heard| which(heard)).count()
}

#[test]
fn everyone_hears_their_own_outcome_and_groups_form() {
    let reached = four(&[], commit, all_durable);
    expect(&[("a group of two or more", &reached.grouped)]);
}

#[test]
fn a_failure_that_passes_is_heard_by_nobody() {
    let reached = four(&[Call::Fails], commit, all_durable);
    expect(&[("a group of two or more", &reached.grouped)]);
}

#[test]
fn a_failure_is_in_doubt_for_what_was_handed_over_and_not_applied_for_the_rest() {
    let reached = four(&[Call::Fails, Call::Fails], commit, |heard| {
        assert_eq!(count(heard, |heard| matches!(heard, Heard::Panicked)), 0);
    });
    expect(&[
        ("a group of two or more", &reached.grouped),
        ("in doubt", &reached.in_doubt),
        ("dropped before it was handed over", &reached.dropped),
        ("refused by stage", &reached.stage_refused),
        ("rolled back by the next", &reached.rolled_back),
        ("a sequence given again", &reached.given_again),
        ("healed by the next", &reached.healed),
    ]);
}

#[test]
fn a_writer_that_cannot_heal_is_refused() {
    let reached = four(&[Call::Fails, Call::Fails, Call::Fails], commit, |_| {});
    expect(&[
        ("refused by begin", &reached.begin_refused),
        ("in doubt", &reached.in_doubt),
        ("dropped before it was handed over", &reached.dropped),
        ("healed by the next", &reached.healed),
    ]);
}

#[test]
fn a_leader_that_panics_strands_nobody() {
    let reached = four(&[Call::Panics], commit, |heard| {
        assert_eq!(count(heard, |heard| matches!(heard, Heard::Panicked)), 1, "{heard:?}");
    });
    expect(&[
        ("a leader panicked", &reached.panicked),
        ("in doubt by a panic of another", &reached.in_doubt),
        ("dropped by a panic of another", &reached.dropped),
        ("healed by the next", &reached.healed),
    ]);
}

#[test]
fn a_panic_while_trying_again_or_healing_strands_nobody() {
    for script in [
        &[Call::Fails, Call::Panics] as &[_],
        &[Call::Fails, Call::Fails, Call::Panics],
    ] {
        let reached = four(script, commit, |_| {});
        expect(&[
            ("a leader panicked", &reached.panicked),
            ("healed by the next", &reached.healed),
        ]);
    }
}

#[test]
fn an_answer_waits_for_what_its_decision_saw() {
    let reached = four(&[], commit_or_answer, all_durable);
    expect(&[("an answer waited with a writer", &reached.grouped)]);
}

#[test]
fn an_answer_that_saw_what_failed_hears_the_failure() {
    let reached = four(&[Call::Fails, Call::Fails], commit_or_answer, |_| {});
    expect(&[
        ("in doubt", &reached.answer_in_doubt),
        ("dropped", &reached.answer_dropped),
    ]);
}

#[test]
fn whoever_leaves_while_a_round_runs_is_missed_by_nobody() {
    let reached = four_with(&[], true, commit, |heard| {
        let told = |heard: &Heard| matches!(heard, Heard::Durable(_) | Heard::Late(_));
        assert_eq!(count(heard, told), 4, "{heard:?}");
    });
    expect(&[
        ("left", &reached.late),
        ("durable afterwards", &reached.late_and_durable),
    ]);
    let reached = four_with(&[Call::Fails, Call::Fails], true, commit, |_| {});
    expect(&[
        ("durable afterwards", &reached.late_and_durable),
        ("dropped afterwards", &reached.late_and_dropped),
        ("healed by the next", &reached.healed),
    ]);
}
