//! Loom models of the group: four threads, at most two preemptions, every interleaving within that.
//!
//! Each model names the states that it must reach, since a model in which no group ever forms proves nothing, and
//! `scripts/mutants` shows that the models notice the mistakes they are there for. The writer of a model does what the
//! engine does: it keeps what is staged under its own lock and takes it back when told so.
//!
//! Here only: what no interleaving may break. Whether groups pay is for the benches.

mod recorder;

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::gather::Gather;
use super::{Group, GroupEnv, Ticket};
use crate::error::{Error, ErrorKind};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Mutex, spawn};
use recorder::{Call, Recorder};

/// What a model is about.
#[derive(Clone, Copy, Default)]
struct Scene {
    script: &'static [Call],
    /// A wait for another thread's round ends at once.
    impatient: bool,
    /// How many the first leader waits for, until they are there.
    gathers: usize,
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
    fn new(scene: Scene, reached: std::sync::Arc<Reached>) -> Arc<Writer> {
        let Scene {
            script,
            impatient,
            gathers,
        } = scene;
        let patience = if impatient { Duration::ZERO } else { Duration::MAX };
        let mut gather = Gather::default();
        for _ in 0..2 {
            gather.ended(gathers as u64, 0, Duration::MAX);
        }
        let group = Group::with(Recorder::new(script, gathers), 0, patience, gather);
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
    let scene = Scene {
        script,
        ..Scene::default()
    };
    four_in(scene, part, check)
}

fn four_in(
    scene: Scene,
    part: fn(&Writer, u32) -> Heard,
    check: impl Fn(&[Heard]) + Send + Sync + 'static,
) -> std::sync::Arc<Reached> {
    let reached = std::sync::Arc::new(Reached::default());
    let all = std::sync::Arc::clone(&reached);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let writer = Writer::new(scene, std::sync::Arc::clone(&all));
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
    let mut scene = Scene {
        impatient: true,
        ..Scene::default()
    };
    let reached = four_in(scene, commit, |heard| {
        let told = |heard: &Heard| matches!(heard, Heard::Durable(_) | Heard::Late(_));
        assert_eq!(count(heard, told), 4, "{heard:?}");
    });
    expect(&[
        ("left", &reached.late),
        ("durable afterwards", &reached.late_and_durable),
    ]);
    scene.script = &[Call::Fails, Call::Fails];
    let reached = four_in(scene, commit, |_| {});
    expect(&[
        ("durable afterwards", &reached.late_and_durable),
        ("dropped afterwards", &reached.late_and_dropped),
        ("healed by the next", &reached.healed),
    ]);
}

/// The first leader waits for two or for three of the four.
fn gathering(script: &'static [Call], impatient: bool, check: fn(&[Heard])) -> Vec<std::sync::Arc<Reached>> {
    let scenes = [2, 3].map(|gathers| Scene {
        script,
        impatient,
        gathers,
    });
    scenes.map(|scene| four_in(scene, commit, check)).into()
}

#[test]
fn a_leader_that_waits_for_members_gets_them_and_strands_nobody() {
    for reached in gathering(&[], false, all_durable) {
        expect(&[("a group of two or more", &reached.grouped)]);
    }
}

#[test]
fn whoever_leaves_while_members_are_waited_for_is_missed_by_nobody() {
    let told = |heard: &[Heard]| {
        let told = |heard: &Heard| matches!(heard, Heard::Durable(_) | Heard::Late(_));
        assert_eq!(count(heard, told), 4, "{heard:?}");
    };
    for reached in gathering(&[], true, told) {
        expect(&[
            ("left", &reached.late),
            ("durable afterwards", &reached.late_and_durable),
        ]);
    }
}

#[test]
fn a_round_that_was_waited_for_can_fail_like_any_other() {
    for reached in gathering(&[Call::Fails, Call::Fails], false, |_| {}) {
        expect(&[
            ("in doubt", &reached.in_doubt),
            ("dropped before it was handed over", &reached.dropped),
            ("healed by the next", &reached.healed),
        ]);
    }
}
