//! Answers to claims, alone and inside of a transaction.

use std::time::{Duration, SystemTime};

use super::claim::{Claim, Claiming, Consumed, Hold, Unsettled};
use super::{Store, WriteTx};
use crate::codec::time::{nanos, wall_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Holding, Leases};
use crate::outbox::decide::Verb;
use crate::outbox::line::Line;
use crate::outbox::{MessageId, QueueSpec, Reason, Settled};
use crate::random;
use crate::sync::Arc;

/// An answer to a claim.
pub(crate) struct Answer<'c, M> {
    pub(crate) claim: &'c Claim<M>,
    pub(crate) verb: Verb,
    pub(crate) text: Option<&'c str>,
}

impl Store {
    /// The message is delivered: it is gone.
    ///
    /// # After a crash
    /// Once this returned `Done` it is never delivered again.
    ///
    /// # Errors
    /// As [`Store::write`], with the claim. After `InDoubt` it may be gone; answered again it is `Stale` then.
    pub fn ack<M>(&self, claim: Claim<M>) -> Result<Settled, Unsettled<M>> {
        self.answer(claim, Verb::Ack, None)
    }

    /// The delivery failed. The message is delivered again after the delay that its retry gives, or `after`, if the far end
    /// said so; or it becomes a dead letter. `error` is kept with it.
    ///
    /// # Errors
    /// As [`Store::ack`].
    pub fn nack<M>(&self, claim: Claim<M>, after: Option<Duration>, error: &str) -> Result<Settled, Unsettled<M>> {
        match nack(after) {
            Ok(verb) => self.answer(claim, verb, Some(error)),
            Err(error) => Err(Unsettled { error, claim }),
        }
    }

    /// Not now: the message is delivered again from `until` on, and no budget is spent.
    ///
    /// # Errors
    /// As [`Store::ack`].
    pub fn defer<M>(&self, claim: Claim<M>, until: SystemTime) -> Result<Settled, Unsettled<M>> {
        self.answer(claim, defer(until), None)
    }

    /// Gives the message back at once, and no budget is spent.
    ///
    /// # Errors
    /// As [`Store::ack`].
    pub fn release<M>(&self, claim: Claim<M>) -> Result<Settled, Unsettled<M>> {
        self.answer(claim, Verb::Release, None)
    }

    /// The message can never be delivered: it becomes a dead letter, and `why` is kept with it.
    ///
    /// # Errors
    /// As [`Store::ack`].
    pub fn bury<M>(&self, claim: Claim<M>, why: &str) -> Result<Settled, Unsettled<M>> {
        self.answer(claim, Verb::Bury(Reason::Buried), Some(why))
    }

    /// Holds the message for `lease` from now on. Writes nothing while the lease has not run out; so what is kept in the file of a
    /// lease stays as it is.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn extend<M>(&self, claim: &Claim<M>, lease: Duration) -> Result<Settled> {
        let Some(hold) = &claim.hold else {
            return Ok(Settled::Done);
        };
        self.must_be_own(claim)?;
        if hold.is_answered() {
            return Ok(Settled::Done);
        }
        let holding = hold.holding;
        let deadline_ns = self.running_ns()?.saturating_add(nanos(lease));
        if self.inner.leases.extend(holding, deadline_ns) {
            // It may end sooner than before.
            hold.bell.ring_unless_awake_by(deadline_ns);
            return Ok(Settled::Done);
        }
        // Held before it is known to be: a commit in doubt may become durable yet, and somebody must end it then.
        self.inner.leases.hold(holding, deadline_ns, true);
        let verb = Verb::Extend { kept_until_ns: None };
        let settled = self.write(|tx| tx.answer_held(holding, claim.queue(), verb, None))?;
        if settled == Settled::Stale {
            self.inner.leases.settle(holding);
        }
        hold.bell.ring_unless_awake_by(deadline_ns);
        Ok(settled)
    }

    /// Does the work of a message and acknowledges it, in one commit. `f` is as in [`Store::write`], and is not called if the
    /// claim is superseded.
    ///
    /// # After a crash
    /// The work is done and the message gone, or neither: it is delivered again.
    ///
    /// # Errors
    /// Whatever `f` returns, and as [`Store::write`], with the claim: nothing was done. After `InDoubt` it may be done: `Stale` to the
    /// next try says that the message is gone, and its work with it unless somebody else had claimed it.
    pub fn consume<M, R, E: From<Error>>(
        &self,
        claim: Claim<M>,
        f: impl FnOnce(&mut WriteTx<'_>, &Claim<M>) -> Result<R, E>,
    ) -> Result<Consumed<R>, Unsettled<M, E>> {
        match self.consume_held(&claim, |tx| f(tx, &claim)) {
            Ok(consumed) => Ok(consumed),
            Err(error) => Err(Unsettled { error, claim }),
        }
    }

    /// The same for a claim that is kept elsewhere.
    pub(crate) fn consume_held<M, R, E: From<Error>>(
        &self,
        claim: &Claim<M>,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>,
    ) -> Result<Consumed<R>, E> {
        self.must_be_own(claim)?;
        let consumed = self.write(|tx| {
            if let Some(holding) = claim.holding()
                && tx.answer_held(holding, claim.queue(), Verb::Ack, None)? == Settled::Stale
            {
                return Ok(Consumed::Stale);
            }
            f(tx).map(Consumed::Done)
        })?;
        claim.end();
        Ok(consumed)
    }

    fn answer<M>(&self, claim: Claim<M>, verb: Verb, text: Option<&str>) -> Result<Settled, Unsettled<M>> {
        let answered = self.must_be_own(&claim).and_then(|()| match claim.holding() {
            Some(holding) => self.write(|tx| tx.answer_held(holding, claim.queue(), verb, text)),
            None => of_gone(verb),
        });
        match answered {
            Ok(settled) => {
                claim.end();
                Ok(settled)
            }
            Err(error) => Err(Unsettled { error, claim }),
        }
    }

    /// Answers a lot and claims the next one, in one commit. If it fails the claims stay as they are.
    pub(crate) fn answer_then_claim<Q: QueueSpec>(
        &self,
        queue: Q,
        claiming: Claiming,
        answers: &[Answer<'_, Q::Message>],
    ) -> Result<Vec<Claim<Q::Message>>> {
        let ((), claims) = self.write_then_claim(queue, claiming, |tx| tx.answer_all(answers))?;
        for answer in answers {
            answer.claim.end();
        }
        Ok(claims)
    }

    /// Answers a lot, in one commit. If it fails the claims stay as they are.
    pub(crate) fn settle<M>(&self, answers: &[Answer<'_, M>]) -> Result<()> {
        self.write(|tx| tx.answer_all(answers))?;
        for answer in answers {
            answer.claim.end();
        }
        Ok(())
    }

    /// # Errors
    /// `Invalid` for a claim of another store.
    fn must_be_own<M>(&self, claim: &Claim<M>) -> Result<()> {
        match &claim.hold {
            Some(hold) => must_be_of(hold, &self.inner.leases),
            None => Ok(()),
        }
    }
}

impl WriteTx<'_> {
    /// The message is delivered, as part of this transaction; see [`Store::ack`]. The claim is used up: if the transaction is not
    /// kept, the message is given back. [`Store::consume`] keeps the claim for another answer.
    ///
    /// # Errors
    /// As [`Store::ack`]; `Invalid` for a claim of another store.
    pub fn ack<M>(&mut self, claim: Claim<M>) -> Result<Settled> {
        self.answer(claim, Verb::Ack, None)
    }

    /// The delivery failed; see [`Store::nack`] and [`WriteTx::ack`].
    ///
    /// # Errors
    /// As [`WriteTx::ack`].
    pub fn nack<M>(&mut self, claim: Claim<M>, after: Option<Duration>, error: &str) -> Result<Settled> {
        self.answer(claim, nack(after)?, Some(error))
    }

    /// Not now; see [`Store::defer`] and [`WriteTx::ack`].
    ///
    /// # Errors
    /// As [`WriteTx::ack`].
    pub fn defer<M>(&mut self, claim: Claim<M>, until: SystemTime) -> Result<Settled> {
        self.answer(claim, defer(until), None)
    }

    /// Gives the message back; see [`Store::release`] and [`WriteTx::ack`].
    ///
    /// # Errors
    /// As [`WriteTx::ack`].
    pub fn release<M>(&mut self, claim: Claim<M>) -> Result<Settled> {
        self.answer(claim, Verb::Release, None)
    }

    /// The message can never be delivered; see [`Store::bury`] and [`WriteTx::ack`].
    ///
    /// # Errors
    /// As [`WriteTx::ack`].
    pub fn bury<M>(&mut self, claim: Claim<M>, why: &str) -> Result<Settled> {
        self.answer(claim, Verb::Bury(Reason::Buried), Some(why))
    }

    fn answer<M>(&mut self, claim: Claim<M>, verb: Verb, text: Option<&str>) -> Result<Settled> {
        let queue = claim.queue().to_owned();
        let Some(hold) = claim.hold else { return of_gone(verb) };
        must_be_of(&hold, &self.read.inner.leases)?;
        let settled = self.answer_held(hold.holding, &queue, verb, text)?;
        self.after.settled.push(hold);
        Ok(settled)
    }

    fn answer_all<M>(&mut self, answers: &[Answer<'_, M>]) -> Result<()> {
        for Answer { claim, verb, text } in answers {
            if let Some(holding) = claim.holding() {
                // A stale answer is counted, and there is nothing to be done about it here.
                let _ = self.answer_held(holding, claim.queue(), *verb, *text)?;
            }
        }
        Ok(())
    }

    pub(super) fn answer_held(
        &mut self,
        holding: Holding,
        queue: &str,
        verb: Verb,
        text: Option<&str>,
    ) -> Result<Settled> {
        let Holding { of, id, fence } = holding;
        let mut line = Line::open(self.txn_mut(), of)?;
        let settled = line.answer(MessageId(id), fence, verb, text)?;
        if line.close()? {
            self.woke(queue);
        }
        if settled == Settled::Stale {
            self.read.inner.leases.count_stale(of);
        }
        Ok(settled)
    }
}

/// # Errors
/// `Invalid` for a claim of another store.
fn must_be_of(hold: &Hold, leases: &Arc<Leases>) -> Result<()> {
    if hold.is_of(leases) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, "the claim is of another store"))
}

/// The answer to a claim whose message is gone.
fn of_gone(verb: Verb) -> Result<Settled> {
    match verb {
        Verb::Ack => Ok(Settled::Done),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            "a message of an at-most-once queue is gone once it is claimed",
        )),
    }
}

pub(crate) fn nack(after: Option<Duration>) -> Result<Verb> {
    Ok(Verb::Nack {
        after_ns: after.map(nanos),
        random: u64::from_le_bytes(random::bytes()?),
    })
}

pub(crate) fn defer(until: SystemTime) -> Verb {
    Verb::Defer {
        until_ns: wall_ns(until),
    }
}
