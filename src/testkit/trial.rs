//! One history: a store of its own, the deliveries that it gets, and what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::contents::Contents;
use super::director::{AsCopy, Director, End, Stopped};
use super::far_end::{When, broken};
use super::proof::{Handler, Once, Proof};
use super::report::{Broken, Rule};
use crate::disk::crash::CrashPlan;
use crate::disk::fault::{FaultKind, FaultMode};
use crate::disk::sim::SimDisk;
use crate::sync;
use crate::{Error, ManualClock, Store};

/// A sender that hears no answer delivers again this often.
const TRIES_MAX: u64 = 3;

/// What a sender is told.
#[derive(Debug)]
pub(super) enum Told<R> {
    Answer(R),
    /// An error, or a panic of the handler's own.
    Refused(String),
    /// Nothing: the delivery was stopped.
    Stopped,
}

/// Rules that a history is about.
#[derive(Clone, Copy)]
pub(super) struct About {
    /// Broken if the stored state differs.
    pub(super) state: Rule,
    /// Broken if a repeat hears something else.
    pub(super) answer: Rule,
}

pub(super) struct Trial<'p, 'h, M, R, E> {
    proof: &'p Proof<'h, M, R, E>,
    director: Arc<Director>,
    pub(super) clock: ManualClock,
    disk: SimDisk,
    store: Option<Store>,
    pub(super) steps: Vec<String>,
    deliveries: u64,
    /// Messages that were delivered.
    delivered: BTreeSet<usize>,
    /// Steps say which message it was.
    pub(super) names: bool,
    /// What was told, by message.
    told: Vec<(usize, R)>,
    /// What the last delivery of each message was refused with, if it was.
    refused: BTreeMap<usize, String>,
}

impl<'p, 'h, M, R, E> Trial<'p, 'h, M, R, E>
where
    M: Sync,
    R: PartialEq + Debug + Send,
    E: Debug + Send,
{
    pub(super) fn new(
        proof: &'p Proof<'h, M, R, E>,
        founded: &SimDisk,
        hang_up: Option<(u64, When)>,
    ) -> Result<Self, Box<Broken>> {
        let director = Arc::new(Director::default());
        if let Some((far_end, _)) = &proof.far_end {
            far_end.begin(&director, hang_up);
        }
        let mut trial = Trial {
            proof,
            director,
            clock: ManualClock::new(),
            disk: founded.kill(),
            store: None,
            steps: Vec::new(),
            deliveries: 0,
            delivered: BTreeSet::new(),
            names: false,
            told: Vec::new(),
            refused: BTreeMap::new(),
        };
        trial.open()?;
        Ok(trial)
    }

    fn open(&mut self) -> Result<(), Box<Broken>> {
        let options = self.proof.options.clone().checkpoints_in_line();
        let options = options.clock(Arc::new(self.clock.clone())).probe(self.director.clone());
        match options.open_on(Arc::new(self.disk.clone())) {
            Ok(store) => {
                self.store = Some(store);
                Ok(())
            }
            Err(cause) => Err(self.broken(Rule::FirstDelivery, vec![format!("the store does not open: {cause:?}")])),
        }
    }

    /// Closes the store and opens it again, with `meanwhile` in between.
    pub(super) fn reopen(&mut self, meanwhile: impl FnOnce(&ManualClock)) -> Result<(), Box<Broken>> {
        if let Some(store) = self.store.take()
            && let Err(cause) = store.close()
        {
            return Err(self.broken(
                Rule::FirstDelivery,
                vec![format!("the store does not close: {cause:?}")],
            ));
        }
        meanwhile(&self.clock);
        self.open()
    }

    pub(super) fn step(&mut self, what: impl Into<String>) {
        self.steps.push(what.into());
    }

    pub(super) fn points(&self) -> Vec<String> {
        self.director.points()
    }

    pub(super) fn events(&self) -> u64 {
        self.disk.events()
    }

    pub(super) fn far_calls(&self) -> u64 {
        self.proof.far_end.as_ref().map_or(0, |(far_end, _)| far_end.calls())
    }

    pub(super) fn far_end_recovers(&self) {
        if let Some((far_end, _)) = &self.proof.far_end {
            far_end.recovers();
        }
    }

    pub(super) fn contents(&self) -> Result<Contents, Error> {
        let closed = || Error::new(crate::ErrorKind::Closed, "the store is closed");
        Contents::of(self.store.as_ref().ok_or_else(closed)?, &self.proof.free)
    }

    fn call(&self, message: usize) -> Told<R> {
        match (&self.store, self.proof.messages.get(message)) {
            (Some(store), Some(message)) => call(&*self.proof.handler, store, message, &self.director, 0),
            _ => Told::Stopped,
        }
    }

    /// Delivers once. If the machine goes with it, a new one opens what is left.
    pub(super) fn deliver(&mut self, message: usize, end: Option<(u64, End)>) -> Told<R> {
        self.deliveries += 1;
        self.delivered.insert(message);
        self.director.begin(1, end, &self.disk);
        self.call(message)
    }

    /// Delivers once, and the machine ends at this call of the disk: by a kill, or by a power loss with a plan.
    pub(super) fn deliver_until_event(&mut self, message: usize, event: u64, plan: Option<CrashPlan>) -> Told<R> {
        let at = self.disk.events() + event;
        let (director, seed) = (self.director.clone(), self.proof.seed);
        self.disk.on_event(move |event, disk| {
            if event.index == at {
                director.end_with(match plan {
                    None => disk.kill(),
                    Some(plan) => disk.power_loss_during(event, mixed(seed, event.index), plan),
                });
            }
        });
        let told = self.deliver(message, None);
        self.disk.stop_observing();
        told
    }

    /// Delivers once while calls of the disk fail, from one of them on; then the disk works again. `None` if none came so far.
    pub(super) fn deliver_on_failing_disk(&mut self, message: usize, kind: FaultKind, passing: u64) -> Option<Told<R>> {
        self.disk
            .fail(kind, passing, FaultMode::FailForever, std::io::ErrorKind::Other);
        let told = self.deliver(message, None);
        let failed = self.disk.faults_fired() > 0;
        self.disk.heal();
        failed.then_some(told)
    }

    /// Opens what the machine left, if it is gone.
    pub(super) fn recover(&mut self) -> Result<(), Box<Broken>> {
        if let Some(left) = self.director.take_left() {
            self.store = None;
            self.disk = left;
            self.open()?;
        }
        Ok(())
    }

    /// Delivers until the sender has an answer, as often as senders do.
    pub(super) fn deliver_until_answered(&mut self, message: usize) {
        for _ in 0..TRIES_MAX {
            let again = if self.delivered.contains(&message) {
                " again"
            } else {
                ""
            };
            let word = match self.names {
                true => format!("message {} delivered{again}", message + 1),
                false => format!("delivered{again}"),
            };
            let told = self.deliver(message, None);
            self.step(match &told {
                Told::Answer(answer) => format!("{word}: {answer:?}"),
                Told::Refused(what) => format!("{word}: error {what}"),
                Told::Stopped => format!("{word}: no answer"),
            });
            if self.heard(message, told) {
                return;
            }
        }
    }

    /// Notes what a sender heard; says whether it was an answer.
    pub(super) fn heard(&mut self, message: usize, told: Told<R>) -> bool {
        match told {
            Told::Answer(answer) => {
                self.refused.remove(&message);
                self.told.push((message, answer));
                true
            }
            Told::Refused(what) => {
                self.refused.insert(message, what);
                false
            }
            Told::Stopped => false,
        }
    }

    /// Delivers messages at the same time, which take turns as `choose` says; see [`Director::conduct`].
    pub(super) fn deliver_at_once(
        &mut self,
        messages: &[usize],
        choose: impl FnMut(&[usize]) -> usize,
    ) -> Vec<(usize, Told<R>)> {
        let copies = messages.len();
        self.deliveries += copies as u64;
        self.delivered.extend(messages);
        self.director.begin(copies, None, &self.disk);
        self.director.take_turns(copies);
        let (director, handler) = (&*self.director, &*self.proof.handler);
        let Some(store) = &self.store else { return Vec::new() };
        let all = &self.proof.messages;
        sync::scope(|scope| {
            let threads: Vec<_> = (messages.iter().enumerate())
                .map(|(copy, message)| {
                    scope.spawn(move || {
                        let _done = Done(director, copy);
                        director.wait_for_turn(copy);
                        match all.get(*message) {
                            Some(message) => call(handler, store, message, director, copy),
                            None => Told::Stopped,
                        }
                    })
                })
                .collect();
            director.conduct(choose);
            let told = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            let told = told.map(|told| told.unwrap_or_else(|_| Told::Refused("a panic".to_owned())));
            messages.iter().copied().zip(told).collect()
        })
    }

    /// Compares the end with that of one delivery.
    pub(super) fn judge(&self, once: &Once<R>, about: About) -> Result<(), Box<Broken>> {
        let contents = match self.contents() {
            Ok(contents) => contents,
            Err(cause) => return Err(self.broken(about.state, vec![format!("the store cannot be read: {cause:?}")])),
        };
        let differences = contents.differences(&once.contents);
        if !differences.is_empty() {
            return Err(self.broken(about.state, differences));
        }
        if let Some((far_end, promise)) = &self.proof.far_end
            && let Some((rule, difference)) = broken(*promise, &once.effects, &far_end.applied())
        {
            let rule = match (rule, about.state) {
                // It was recorded; others looked before.
                (Rule::RecordBeforeEffect, Rule::LookAndWrite) => Rule::LookAndWrite,
                (_, Rule::PassErrorsOn) => Rule::PassErrorsOn,
                (rule, _) => rule,
            };
            return Err(self.broken(rule, vec![difference]));
        }
        if self.proof.answers_may_differ {
            return Ok(());
        }
        for (message, answer) in &self.told {
            if let Some(wanted) = once.answers.get(message).filter(|wanted| *wanted != answer) {
                let difference = format!("a repeat is told {answer:?}, and the first delivery {wanted:?}");
                return Err(self.broken(about.answer, vec![difference]));
            }
        }
        match self.refused.values().next() {
            Some(what) => Err(self.broken(
                about.answer,
                vec![format!("the sender hears an error and nothing else: {what}")],
            )),
            None => Ok(()),
        }
    }

    pub(super) fn broken(&self, rule: Rule, differences: Vec<String>) -> Box<Broken> {
        Box::new(Broken {
            rule,
            deliveries: self.deliveries,
            steps: self.steps.clone(),
            differences,
            seed: self.proof.seed,
        })
    }

    /// How late a repeat may be at most.
    pub(super) fn late(&self) -> Duration {
        self.proof.late_by.saturating_sub(Duration::from_secs(1))
    }
}

/// Says that a copy has ended, however it did.
struct Done<'d>(&'d Director, usize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done(self.1);
    }
}

/// Calls the handler on this thread, as one of the copies.
fn call<M, R, E: Debug>(
    handler: &Handler<'_, M, R, E>,
    store: &Store,
    message: &M,
    director: &Director,
    copy: usize,
) -> Told<R> {
    let _as = AsCopy::enter(copy);
    let handled = || handler(store, message).map_err(|cause| format!("{cause:?}"));
    match catch_unwind(AssertUnwindSafe(handled)) {
        // What a machine says that is gone hears nobody.
        _ if director.is_gone() => Told::Stopped,
        _ if director.is_endless() => Told::Refused("it does not end".to_owned()),
        Ok(Ok(answer)) => Told::Answer(answer),
        Ok(Err(cause)) => Told::Refused(cause),
        Err(payload) if payload.is::<Stopped>() => Told::Stopped,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or(payload.downcast_ref::<&str>().copied())
                .unwrap_or("without a text");
            Told::Refused(format!("a panic: {text}"))
        }
    }
}

/// A seed for one of many draws.
pub(super) fn mixed(seed: u64, number: u64) -> u64 {
    (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(6_364_136_223_846_793_005)
}
