//! Claims: messages in somebody's hands, and how they are answered.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::{ReadTx, Store, WriteTx, inside};
use crate::codec::time::wall_time;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Bell, Holding, Leases};
use crate::limits::{CLAIM_MESSAGES_MAX, LEASE_SECS_DEFAULT, SCHEDULE_LOOK_SECS_MAX};
use crate::outbox::decide::Verb;
use crate::outbox::line::{Line, Taken};
use crate::outbox::{EffectId, MessageId, QueueSpec, Reason, Settled, catalog};
use crate::random;
use crate::sync::Arc;

/// Most leases that one claim ends.
const LAPSED_AT_ONCE: usize = 1000;

/// What is claimed, and for how long.
#[must_use = "it does nothing until a claim is given it"]
#[derive(Clone, Copy, Debug)]
pub struct Claiming {
    pub(super) messages: usize,
    pub(super) lease: Duration,
    kept: bool,
}

impl Claiming {
    /// At most so many messages, under a lease of 30 seconds. One claim hands out at most
    /// [`CLAIM_MESSAGES_MAX`](crate::limits::CLAIM_MESSAGES_MAX), and no more once their payloads exceed
    /// [`CLAIM_BYTES_MAX`](crate::limits::CLAIM_BYTES_MAX).
    pub fn new(messages: usize) -> Claiming {
        Claiming {
            messages,
            lease: Duration::from_secs(LEASE_SECS_DEFAULT),
            kept: false,
        }
    }

    /// How long each message is the claimer's before others may have it. By running time: while the machine is suspended it
    /// does not pass.
    pub fn lease(mut self, lease: Duration) -> Claiming {
        self.lease = lease;
        self
    }

    /// The lease is kept in the file, by the wall clock, for a claim that outlives its process: the next opening of the
    /// store does not end it before its time. For scripts; see [`Claim::into_receipt`].
    pub fn kept_in_file(mut self) -> Claiming {
        self.kept = true;
        self
    }

    fn kept_ns(&self) -> Option<u64> {
        self.kept.then(|| nanos(self.lease))
    }
}

impl From<usize> for Claiming {
    fn from(messages: usize) -> Claiming {
        Claiming::new(messages)
    }
}

/// A message in the hands of whoever claimed it.
///
/// It is answered once, by one of [`Store::ack`], [`nack`](Store::nack), [`defer`](Store::defer), [`release`](Store::release),
/// [`bury`](Store::bury), by the same calls of a [`WriteTx`], or by [`Store::consume`]. Dropped without an answer it is given
/// back and spends no budget: the next claim hands it out again.
///
/// An answer counts as long as nobody else has claimed the message, also after the lease is over; after that it is
/// [`Settled::Stale`] and changes nothing. The claim of an [`at_most_once`](crate::Queue::at_most_once) queue is the last that
/// is heard of its message: to acknowledge it changes nothing, and any other answer is `Invalid`.
pub struct Claim<M> {
    queue: String,
    taken: Taken,
    decode: fn(&[u8]) -> Result<M>,
    /// `None` for a message that is gone already.
    hold: Option<Hold>,
}

impl<M> Claim<M> {
    /// The message's number in its queue.
    pub fn id(&self) -> MessageId {
        self.taken.id
    }

    /// The queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The number of this claim: of all claims of the store, the highest so far. A far end that refuses lower ones than it has
    /// seen refuses those who lost their lease.
    pub fn fence(&self) -> u64 {
        self.taken.fence
    }

    /// By what the far end recognises the effect: the same over all deliveries of the message.
    pub fn effect_id(&self) -> EffectId {
        self.taken.body.effect_id
    }

    /// Which delivery this is, from 1 on, since the message was enqueued or replayed. It was counted durably before the
    /// message was handed out.
    pub fn attempt(&self) -> u32 {
        self.taken.attempt
    }

    /// The key within which the order is kept.
    pub fn key(&self) -> Option<&[u8]> {
        self.taken.key.as_deref()
    }

    /// The headers, in the order in which they were given.
    pub fn headers(&self) -> &[(String, String)] {
        &self.taken.body.headers
    }

    /// Wall time of the commit that enqueued it.
    pub fn enqueued_at(&self) -> SystemTime {
        wall_time(self.taken.body.enqueued_ns)
    }

    /// The payload as it is stored.
    pub fn payload(&self) -> &[u8] {
        &self.taken.payload
    }

    /// The payload.
    ///
    /// # Errors
    /// `Decode` if it is no such message.
    pub fn message(&self) -> Result<M> {
        (self.decode)(&self.taken.payload)
    }

    /// Leaves the message claimed, with what a later process needs to answer it: [`Store::take_up`]. `None` if the message is
    /// gone already.
    pub fn into_receipt(mut self) -> Option<Receipt> {
        let holding = self.hold.take()?.leave();
        Some(Receipt {
            id: MessageId(holding.id),
            fence: holding.fence,
        })
    }

    pub(super) fn holding(&self) -> Option<Holding> {
        self.hold.as_ref().map(|hold| hold.holding)
    }

    fn into_hold(self) -> Option<Hold> {
        self.hold
    }
}

impl<M> fmt::Debug for Claim<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Claim")
            .field("queue", &self.queue)
            .field("id", &self.taken.id.get())
            .field("fence", &self.taken.fence)
            .field("attempt", &self.taken.attempt)
            .finish_non_exhaustive()
    }
}

/// What a process that ends writes down of a claim. Its text form is `ID:FENCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The message.
    pub id: MessageId,
    /// The claim.
    pub fence: u64,
}

impl fmt::Display for Receipt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.id, self.fence)
    }
}

impl std::str::FromStr for Receipt {
    type Err = Error;

    /// # Errors
    /// `Invalid` for anything but two numbers with a colon between them.
    fn from_str(text: &str) -> Result<Receipt> {
        let parts = text.split_once(':');
        let parsed = parts.and_then(|(id, fence)| Some((id.parse().ok()?, fence.parse().ok()?)));
        let (id, fence): (u64, u64) = parsed.ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            Error::new(ErrorKind::Invalid, format!("not a receipt as ID:FENCE, text={shown:?}"))
        })?;
        Ok(Receipt {
            id: MessageId(id),
            fence,
        })
    }
}

/// The lease of a claim. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Hold {
    holding: Holding,
    leases: Arc<Leases>,
    bell: Arc<Bell>,
    armed: bool,
}

impl Hold {
    /// The claim was answered, durably.
    pub(super) fn end(mut self) {
        self.armed = false;
        self.leases.settle(self.holding);
    }

    /// The lease stays as it is.
    fn leave(mut self) -> Holding {
        self.armed = false;
        self.holding
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.armed {
            self.leases.give_back(self.holding);
            self.bell.ring();
        }
    }
}

/// An answer that failed, with the claim it was for.
pub struct Unsettled<M, E = Error> {
    /// Why.
    pub error: E,
    /// Still held, to be answered again.
    pub claim: Claim<M>,
}

impl<M, E: fmt::Debug> fmt::Debug for Unsettled<M, E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Unsettled")
            .field("error", &self.error)
            .field("claim", &self.claim)
            .finish()
    }
}

impl<M, E: fmt::Display> fmt::Display for Unsettled<M, E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(out)
    }
}

impl<M, E: std::error::Error + 'static> std::error::Error for Unsettled<M, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<M, E> Unsettled<M, E> {
    /// The error alone; the message is given back.
    pub fn into_error(self) -> E {
        self.error
    }
}

/// What became of the work of a message.
#[must_use = "stale means that the work was not done"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumed<R> {
    /// It was done, and the message is gone, in one commit.
    Done(R),
    /// Somebody else holds the message, or it is gone. Nothing was done.
    Stale,
}

impl Store {
    /// Claims at most so many messages that are due: heads of keys only, by due time and then in the order in which they
    /// became ready. Empty if there is none, or the queue is paused. Needs no commit if nothing can be claimed.
    ///
    /// # After a crash
    /// Each message's attempt is durable before this returns. The next opening of the store ends the claim, and counts it as an
    /// interruption.
    ///
    /// # Errors
    /// `Schema` if the queue is declared otherwise in the file; as [`Store::write`].
    pub fn claim<Q: QueueSpec>(&self, queue: Q, claiming: impl Into<Claiming>) -> Result<Vec<Claim<Q::Message>>> {
        let claiming = claiming.into();
        inside::refuse_in_write(self.inner.id, "claim")?;
        if !self.can_claim(&queue)? {
            return Ok(Vec::new());
        }
        self.write_then_claim(queue, claiming, |_| Ok::<_, Error>(()))
            .map(|((), claims)| claims)
    }

    /// The same, and waits until there is something to claim, or `patience` is over: then it is empty. Sleeps meanwhile, without
    /// a look at the disk.
    ///
    /// # Errors
    /// As [`Store::claim`]; `Invalid` inside a closure of this store; `Closed` also if the store is closed meanwhile.
    pub fn claim_wait<Q: QueueSpec + Copy>(
        &self,
        queue: Q,
        claiming: impl Into<Claiming>,
        patience: Duration,
    ) -> Result<Vec<Claim<Q::Message>>> {
        let claiming = claiming.into();
        inside::refuse_in_any(self.inner.id, "claim_wait")?;
        let bell = self.inner.bells.of(&queue.declared().name);
        let end_ns = self.running_ns()?.saturating_add(nanos(patience));
        loop {
            let seen = bell.rung();
            let claims = self.claim(queue, claiming)?;
            let now_ns = self.running_ns()?;
            if !claims.is_empty() || now_ns >= end_ns {
                return Ok(claims);
            }
            let alarm_ns = self.next_claim_ns(&queue)?.unwrap_or(u64::MAX).min(end_ns);
            let left = Duration::from_nanos(alarm_ns.saturating_sub(now_ns));
            bell.wait(seen, (alarm_ns != u64::MAX).then_some((left, alarm_ns)));
        }
    }

    /// Writes, and claims at most so many messages in the same commit: the answers to one lot and the claim of the next. `f` is as
    /// in [`Store::write`]; what it makes ready can be claimed.
    ///
    /// # Errors
    /// As [`Store::write`] and [`Store::claim`]: nothing was written and nothing claimed.
    pub fn write_then_claim<Q: QueueSpec, R, E: From<Error>>(
        &self,
        queue: Q,
        claiming: impl Into<Claiming>,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>,
    ) -> Result<(R, Vec<Claim<Q::Message>>), E> {
        let claiming = claiming.into();
        let mut lot = Lot::default();
        let outcome = self.write(|tx| {
            let result = f(tx)?;
            lot.fill(tx, &queue, claiming)?;
            Ok::<_, E>(result)
        });
        self.inner.leases.ended(&lot.over, outcome.is_ok());
        let bell = self.inner.bells.of(&lot.queue);
        let mut claims = Vec::with_capacity(lot.taken.len());
        for taken in lot.taken {
            let hold = lot.of.map(|of| {
                let holding = Holding {
                    of,
                    id: taken.id.get(),
                    fence: taken.fence,
                };
                self.inner.leases.hold(holding, lot.deadline_ns);
                Hold {
                    holding,
                    leases: self.inner.leases.clone(),
                    bell: bell.clone(),
                    armed: true,
                }
            });
            claims.push(Claim {
                queue: lot.queue.clone(),
                taken,
                decode: Q::decode,
                hold,
            });
        }
        if !claims.is_empty() {
            bell.ring_unless_awake_by(lot.deadline_ns);
        }
        // A claim whose commit failed may become durable yet. Dropped here, it is given back.
        outcome.map(|result| (result, claims))
    }

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

    /// Holds the message for `lease` from now on. Writes nothing while the lease has not run out.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn extend<M>(&self, claim: &Claim<M>, lease: Duration) -> Result<Settled> {
        let Some(holding) = claim.holding() else {
            return Ok(Settled::Done);
        };
        self.must_be_own(claim)?;
        let deadline_ns = self.running_ns()?.saturating_add(nanos(lease));
        if self.inner.leases.extend(holding, deadline_ns) {
            return Ok(Settled::Done);
        }
        let verb = Verb::Extend { kept_until_ns: None };
        let settled = self.write(|tx| tx.answer_held(holding, claim.queue(), verb, None))?;
        if settled != Settled::Stale {
            self.inner.leases.hold(holding, deadline_ns);
        }
        Ok(settled)
    }

    /// Does the work of a message and acknowledges it, in one commit. `f` is as in [`Store::write`], and is not called if the
    /// claim is superseded.
    ///
    /// # After a crash
    /// The work is done and the message gone, or neither: it is delivered again.
    ///
    /// # Errors
    /// Whatever `f` returns, and as [`Store::write`], with the claim: nothing was done.
    pub fn consume<M, R, E: From<Error>>(
        &self,
        claim: Claim<M>,
        f: impl FnOnce(&mut WriteTx<'_>, &Claim<M>) -> Result<R, E>,
    ) -> Result<Consumed<R>, Unsettled<M, E>> {
        let worked = self.must_be_own(&claim).map_err(E::from).and_then(|()| {
            self.write(|tx| {
                if let Some(holding) = claim.holding()
                    && tx.answer_held(holding, claim.queue(), Verb::Ack, None)? == Settled::Stale
                {
                    return Ok(Consumed::Stale);
                }
                f(tx, &claim).map(Consumed::Done)
            })
        });
        match worked {
            Ok(consumed) => {
                claim.into_hold().into_iter().for_each(Hold::end);
                Ok(consumed)
            }
            Err(error) => Err(Unsettled { error, claim }),
        }
    }

    fn answer<M>(&self, claim: Claim<M>, verb: Verb, text: Option<&str>) -> Result<Settled, Unsettled<M>> {
        let answered = self.must_be_own(&claim).and_then(|()| match claim.holding() {
            Some(holding) => self.write(|tx| tx.answer_held(holding, claim.queue(), verb, text)),
            None => of_gone(verb),
        });
        match answered {
            Ok(settled) => {
                claim.into_hold().into_iter().for_each(Hold::end);
                Ok(settled)
            }
            Err(error) => Err(Unsettled { error, claim }),
        }
    }

    /// Takes up a claim of an earlier process by its receipt; `None` if somebody else has claimed the message since, or it is
    /// gone. It is held for `lease` from now on.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub fn take_up<Q: QueueSpec>(
        &self,
        queue: Q,
        receipt: Receipt,
        lease: Duration,
    ) -> Result<Option<Claim<Q::Message>>> {
        let declared = queue.declared();
        let found = self.write(|tx| {
            let Some(info) = catalog::resolve(&tx.read.txn, &declared)? else {
                return Ok(None);
            };
            let holding = Holding {
                of: info.id,
                id: receipt.id.get(),
                fence: receipt.fence,
            };
            let kept_until_ns = Some(tx.txn_mut().now().schedule_ns.saturating_add_unsigned(nanos(lease)));
            let verb = Verb::Extend { kept_until_ns };
            if tx.answer_held(holding, info.name(), verb, None)? == Settled::Stale {
                return Ok(None);
            }
            let taken = Line::open(tx.txn_mut(), info.id)?.taken(receipt.id)?;
            Ok::<_, Error>(Some((holding, taken)))
        })?;
        let Some((holding, taken)) = found else { return Ok(None) };
        let deadline_ns = self.running_ns()?.saturating_add(nanos(lease));
        self.inner.leases.hold(holding, deadline_ns);
        let hold = Hold {
            holding,
            leases: self.inner.leases.clone(),
            bell: self.inner.bells.of(&declared.name),
            armed: true,
        };
        Ok(Some(Claim {
            queue: declared.name,
            taken,
            decode: Q::decode,
            hold: Some(hold),
        }))
    }

    /// # Errors
    /// `Invalid` for a claim of another store.
    fn must_be_own<M>(&self, claim: &Claim<M>) -> Result<()> {
        match &claim.hold {
            Some(hold) if !Arc::ptr_eq(&hold.leases, &self.inner.leases) => {
                Err(Error::new(ErrorKind::Invalid, "the claim is of another store"))
            }
            _ => Ok(()),
        }
    }

    /// Running time, in nanoseconds.
    fn running_ns(&self) -> Result<u64> {
        self.with_engine("claim", |engine| Ok::<_, Error>(engine.now().mono_ns))
    }

    /// Whether a claim could get anything, or has a lease to end. Of a look, the claim itself is to say that it cannot write.
    fn can_claim<Q: QueueSpec>(&self, queue: &Q) -> Result<bool> {
        let looks = self.with_engine("claim", |engine| Ok::<_, Error>(Engine::looks(engine)))?;
        let next = self.next_claim_ns(queue)?;
        Ok(looks || next.is_some_and(|at_ns| at_ns == 0))
    }

    /// When, by running time, the next message is due or the next lease over; 0 for now, `None` for never by itself.
    pub(super) fn next_claim_ns<Q: QueueSpec>(&self, queue: &Q) -> Result<Option<u64>> {
        let declared = queue.declared();
        self.read(|tx: &ReadTx<'_>| {
            let Some(info) = catalog::resolve(&tx.txn, &declared)? else {
                return Ok(None);
            };
            let now = tx.txn.now();
            let lapse = self.inner.leases.next_deadline(info.id);
            let lapse = lapse.map(|at_ns| if at_ns <= now.mono_ns { 0 } else { at_ns });
            let due = crate::outbox::line::next_due_ns(&tx.txn, info.id)?.map(|due_ns| {
                let wait = due_ns.saturating_sub(now.schedule_ns);
                match u64::try_from(wait).unwrap_or(0) {
                    0 => 0,
                    // The wall clock may be set meanwhile, and the machine may sleep.
                    wait => now.mono_ns.saturating_add(wait.min(SCHEDULE_LOOK_SECS_MAX * 1_000_000_000)),
                }
            });
            Ok(lapse.into_iter().chain(due).min())
        })
    }
}

/// What one claim takes.
#[derive(Default)]
struct Lot {
    queue: String,
    /// The number of the queue; `None` if its messages are gone once they are claimed.
    of: Option<u32>,
    taken: Vec<Taken>,
    over: Vec<crate::lease::Over>,
    deadline_ns: u64,
}

impl Lot {
    fn fill<Q: QueueSpec>(&mut self, tx: &mut WriteTx<'_>, queue: &Q, claiming: Claiming) -> Result<()> {
        let declared = queue.declared();
        self.queue.clone_from(&declared.name);
        let Some(info) = catalog::resolve(&tx.read.txn, &declared)? else {
            return Ok(());
        };
        self.of = (!info.is_at_most_once()).then_some(info.id);
        let now_ns = tx.read.txn.now().mono_ns;
        self.deadline_ns = now_ns.saturating_add(nanos(claiming.lease));
        self.over = tx.read.inner.leases.over(info.id, now_ns, LAPSED_AT_ONCE);
        let mut line = Line::open(tx.txn_mut(), info.id)?;
        for over in &self.over {
            let id = MessageId(over.holding.id);
            line.lapse(id, over.holding.fence, over.given_back, "its lease was lost")?;
        }
        let messages = claiming.messages.min(CLAIM_MESSAGES_MAX);
        self.taken = line.claim(&info, messages, claiming.kept_ns())?;
        if line.close()? {
            tx.after.woke.push(declared.name);
        }
        Ok(())
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

    pub(crate) fn answer<M>(&mut self, claim: Claim<M>, verb: Verb, text: Option<&str>) -> Result<Settled> {
        let Some(hold) = claim.hold else { return of_gone(verb) };
        if !Arc::ptr_eq(&hold.leases, &self.read.inner.leases) {
            return Err(Error::new(ErrorKind::Invalid, "the claim is of another store"));
        }
        let settled = self.answer_held(hold.holding, &claim.queue, verb, text)?;
        self.after.settled.push(hold);
        Ok(settled)
    }

    fn answer_held(&mut self, holding: Holding, queue: &str, verb: Verb, text: Option<&str>) -> Result<Settled> {
        let Holding { of, id, fence } = holding;
        let mut line = Line::open(self.txn_mut(), of)?;
        let settled = line.answer(MessageId(id), fence, verb, text)?;
        if line.close()? {
            self.after.woke.push(queue.to_owned());
        }
        if settled == Settled::Stale {
            self.read.inner.leases.count_stale(of);
        }
        Ok(settled)
    }
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

fn nack(after: Option<Duration>) -> Result<Verb> {
    Ok(Verb::Nack {
        after_ns: after.map(nanos),
        random: u64::from_le_bytes(random::bytes()?),
    })
}

fn defer(until: SystemTime) -> Verb {
    Verb::Defer {
        until_ns: crate::codec::time::wall_ns(until),
    }
}

/// At most what 64 bits hold (584 years).
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
