//! One worker: claims, handles, answers, and claims the next with the answers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::keeper::{Keeper, Kept, Place, Said};
use super::{Delivery, Handled};
use crate::error::{ErrorKind, Result};
use crate::outbox::decide::Verb;
use crate::outbox::{QueueSpec, Reason};
use crate::store::answers::{defer, nack};
use crate::store::{Claim, Claiming, Store};
use crate::sync::Arc;

/// What one thread works with.
pub(super) struct Worker<Q> {
    pub(super) store: Store,
    pub(super) queue: Q,
    pub(super) claiming: Claiming,
    pub(super) keeper: Arc<Keeper>,
}

/// A message in a worker's hands.
pub(super) type InHand<M> = (Arc<Kept<M>>, Place);

impl<Q> Worker<Q>
where
    Q: QueueSpec + Copy,
    Q::Message: Send + Sync + 'static,
{
    pub(super) fn run(&self, handler: impl Fn(&Delivery<Q::Message>) -> Handled) {
        let (mut lot, mut errors) = (Vec::new(), 0);
        while let Some(claims) = self.next(&mut lot, &mut errors, Duration::MAX) {
            lot = claims.into_iter().map(|claim| self.keep(claim)).collect();
            for (kept, _) in &lot {
                // Also what the message itself does when it is read or dropped is somebody else's code.
                let said = catch_unwind(AssertUnwindSafe(|| {
                    self.delivery(kept)
                        .map_or_else(|said| said, |delivery| said_by(handler(&delivery)))
                }));
                kept.say(said.unwrap_or_else(of_panic));
            }
        }
    }

    /// Writes the answers of a lot down and claims the next one; `None` if it is time to end. Empty if `patience` was over.
    pub(super) fn next(
        &self,
        lot: &mut Vec<InHand<Q::Message>>,
        errors: &mut u32,
        patience: Duration,
    ) -> Option<Vec<Claim<Q::Message>>> {
        loop {
            let is_draining = self.keeper.is_draining();
            if self.keeper.is_abandoned() || (is_draining && lot.is_empty()) {
                return None;
            }
            let claimed = if lot.is_empty() {
                let is_over = || self.keeper.is_draining();
                self.store.claim_until(self.queue, self.claiming, patience, is_over)
            } else {
                let next = (!is_draining).then_some((self.queue, self.claiming));
                self.settle(lot, next)
            };
            match claimed {
                Ok(claims) => {
                    *errors = 0;
                    lot.clear();
                    if !claims.is_empty() || patience != Duration::MAX {
                        return Some(claims);
                    }
                }
                Err(cause) => {
                    let is_over = matches!(cause.kind(), ErrorKind::Closed | ErrorKind::Schema);
                    self.keeper.note(cause);
                    if is_over {
                        return None;
                    }
                    // What is done is not to wait for what cannot be done: the next claim, or another answer.
                    self.settle_one_by_one(lot);
                    *errors += 1;
                    self.keeper.pause(*errors);
                }
            }
        }
    }

    fn settle(&self, lot: &[InHand<Q::Message>], next: Option<(Q, Claiming)>) -> Result<Vec<Claim<Q::Message>>> {
        let kept: Vec<_> = lot.iter().map(|(kept, _)| kept.clone()).collect();
        Kept::settle(&self.store, &kept, next)
    }

    /// Writes down what can be. An answer that no later try can write either is let go: its message is given back.
    fn settle_one_by_one(&self, lot: &mut Vec<InHand<Q::Message>>) {
        lot.retain(
            |(kept, _)| match Kept::settle::<Q>(&self.store, std::slice::from_ref(kept), None) {
                Ok(_) => false,
                Err(cause) => {
                    let may_pass = !matches!(
                        cause.kind(),
                        ErrorKind::TooLarge | ErrorKind::Corrupt | ErrorKind::Invalid
                    );
                    self.keeper.note(cause);
                    may_pass
                }
            },
        );
    }

    pub(super) fn keep(&self, claim: Claim<Q::Message>) -> InHand<Q::Message> {
        let kept = Arc::new(Kept::new(&self.store, claim));
        let place = self.keeper.keep(kept.clone());
        (kept, place)
    }

    /// What a handler is given; or what is said of the message, if it is not to be called.
    pub(super) fn delivery(&self, kept: &Arc<Kept<Q::Message>>) -> Result<Delivery<Q::Message>, Said> {
        if self.keeper.is_draining() && !kept.claim().is_over() {
            return Err((Verb::Release, None));
        }
        match kept.claim().message() {
            Ok(message) => Ok(Delivery {
                message,
                kept: kept.clone(),
            }),
            Err(cause) => {
                let said = (Verb::Bury(Reason::Undecodable), Some(cause.to_string()));
                self.keeper.note(cause);
                Err(said)
            }
        }
    }
}

/// What is written down of what a handler said.
pub(super) fn said_by(handled: Handled) -> Said {
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

/// What is written down of a panic.
pub(super) fn of_panic(panic: Box<dyn Any + Send>) -> Said {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = format!("the handler panicked: {}", text.unwrap_or("it did not say why"));
    // Dropping it could panic once more.
    drop(catch_unwind(AssertUnwindSafe(|| drop(panic))));
    said_by(Handled::failed(text))
}
