//! One worker: claims, handles, answers, and claims the next with the answers.

use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::keeper::{Keeper, Kept, Place};
use super::{Delivery, Handled};
use crate::error::{ErrorKind, Result};
use crate::outbox::decide::Verb;
use crate::outbox::{QueueSpec, Reason};
use crate::store::answers::{Answer, defer, nack};
use crate::store::{Claim, Claiming, Store};
use crate::sync::Arc;

/// What one thread works with.
pub(super) struct Worker<Q> {
    pub(super) store: Store,
    pub(super) queue: Q,
    pub(super) claiming: Claiming,
    pub(super) keeper: Arc<Keeper>,
}

/// A message that was handled, and what is to be said of it.
pub(super) struct Answered<M> {
    kept: Arc<Kept<M>>,
    place: Place,
    verb: Verb,
    text: Option<String>,
}

impl<Q> Worker<Q>
where
    Q: QueueSpec + Copy,
    Q::Message: Send + Sync + 'static,
{
    pub(super) fn run(&self, handler: impl Fn(&Delivery<Q::Message>) -> Handled) {
        let mut answers = Vec::new();
        let mut errors = 0;
        while let Some(claims) = self.next(&mut answers, &mut errors, Duration::MAX) {
            let kept: Vec<_> = claims.into_iter().map(|claim| self.keep(claim)).collect();
            for (kept, place) in kept {
                let answer = match self.delivery(&kept) {
                    Err(answer) => answer,
                    Ok(delivery) => match catch_unwind(AssertUnwindSafe(|| handler(&delivery))) {
                        Ok(handled) => answer_of(handled),
                        Err(panic) => answer_of(Handled::failed(panic_text(&*panic))),
                    },
                };
                answers.push(Answered::new(kept, place, answer));
            }
        }
    }

    /// Writes the answers down and claims the next lot; `None` if it is time to end. Empty if `patience` was over.
    pub(super) fn next(
        &self,
        answers: &mut Vec<Answered<Q::Message>>,
        errors: &mut u32,
        patience: Duration,
    ) -> Option<Vec<Claim<Q::Message>>> {
        loop {
            let is_draining = self.keeper.is_draining();
            if self.keeper.is_abandoned() || (is_draining && answers.is_empty()) {
                return None;
            }
            match self.answer_and_claim(answers, is_draining, patience) {
                Ok(claims) => {
                    *errors = 0;
                    for answered in answers.drain(..) {
                        self.keeper.forget(answered.place);
                    }
                    if !claims.is_empty() || patience != Duration::MAX {
                        return Some(claims);
                    }
                }
                Err(cause) if matches!(cause.kind(), ErrorKind::Closed | ErrorKind::Schema) => return None,
                Err(_) => {
                    *errors += 1;
                    self.keeper.pause(*errors);
                }
            }
        }
    }

    fn answer_and_claim(
        &self,
        answered: &[Answered<Q::Message>],
        is_draining: bool,
        patience: Duration,
    ) -> Result<Vec<Claim<Q::Message>>> {
        if answered.is_empty() {
            let is_over = || self.keeper.is_draining();
            return self.store.claim_until(self.queue, self.claiming, patience, is_over);
        }
        let answers: Vec<_> = answered
            .iter()
            .map(|answered| Answer {
                claim: answered.kept.claim(),
                verb: answered.verb,
                text: answered.text.as_deref().map(Cow::Borrowed),
            })
            .collect();
        if is_draining {
            return self.store.settle(&answers).map(|()| Vec::new());
        }
        self.store.answer_then_claim(self.queue, self.claiming, &answers)
    }

    pub(super) fn keep(&self, claim: Claim<Q::Message>) -> (Arc<Kept<Q::Message>>, Place) {
        let kept = Arc::new(Kept::new(&self.store, claim));
        let place = self.keeper.keep(kept.clone());
        (kept, place)
    }

    /// What a handler is given; or the answer, if it is not to be called.
    pub(super) fn delivery(
        &self,
        kept: &Arc<Kept<Q::Message>>,
    ) -> Result<Delivery<Q::Message>, (Verb, Option<String>)> {
        if self.keeper.is_draining() && !kept.claim().is_gone() {
            return Err((Verb::Release, None));
        }
        match kept.claim().message() {
            Ok(message) => Ok(Delivery {
                message,
                kept: kept.clone(),
            }),
            Err(cause) => Err((Verb::Bury(Reason::Undecodable), Some(cause.to_string()))),
        }
    }
}

impl<M> Answered<M> {
    pub(super) fn new(kept: Arc<Kept<M>>, place: Place, (verb, text): (Verb, Option<String>)) -> Answered<M> {
        Answered {
            kept,
            place,
            verb,
            text,
        }
    }
}

/// What is written down of what a handler said.
pub(super) fn answer_of(handled: Handled) -> (Verb, Option<String>) {
    // Without randomness the delay is the whole one.
    let failure = |after| {
        nack(after).unwrap_or(Verb::Nack {
            after_ns: None,
            random: u64::MAX,
        })
    };
    match handled {
        Handled::Done => (Verb::Ack, None),
        Handled::Retry { after, error } => (failure(after), Some(error)),
        Handled::Defer { until } => (defer(until), None),
        Handled::Dead { reason } => (Verb::Bury(Reason::Buried), Some(reason)),
        Handled::Unknown { error } => (failure(None), Some(format!("outcome unknown: {error}"))),
    }
}

/// What a panic says of itself.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("it did not say why"))
}
