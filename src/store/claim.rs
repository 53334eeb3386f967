//! A claim: a message in somebody's hands.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::codec::time::{nanos, wall_time};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Bell, Holding, Leases};
use crate::limits::LEASE_SECS_DEFAULT;
use crate::outbox::line::Taken;
use crate::outbox::{EffectId, MessageId, QueueSpec};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// What is claimed, and for how long.
#[must_use = "it does nothing until a claim is given it"]
#[derive(Clone, Copy, Debug)]
pub struct Claiming {
    pub(crate) messages: usize,
    pub(crate) lease: Duration,
    kept: bool,
}

impl Claiming {
    /// At most so many messages, under a lease of 30 seconds. A message of which two deliveries were never answered is handed
    /// out alone, since it may be what ended its process. One claim hands out at most
    /// [`CLAIM_MESSAGES_MAX`](crate::limits::CLAIM_MESSAGES_MAX), and no more once their payloads exceed
    /// [`CLAIM_BYTES_MAX`](crate::limits::CLAIM_BYTES_MAX), or they fill most of a commit.
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

    pub(super) fn kept_ns(&self) -> Option<u64> {
        self.kept.then(|| nanos(self.lease))
    }
}

impl From<usize> for Claiming {
    fn from(messages: usize) -> Claiming {
        Claiming::new(messages)
    }
}

/// The claims of messages of a queue.
pub type Claims<Q> = Vec<Claim<<Q as QueueSpec>::Message>>;

/// A message in the hands of whoever claimed it.
///
/// It is answered once, by one of [`Store::ack`](crate::Store::ack), [`nack`](crate::Store::nack), [`defer`](crate::Store::defer), [`release`](crate::Store::release),
/// [`bury`](crate::Store::bury), by the same calls of a [`WriteTx`](crate::WriteTx), or by [`Store::consume`](crate::Store::consume). Dropped without an answer it is given
/// back and spends no budget: the next claim hands it out again.
///
/// An answer counts as long as nobody else has claimed the message, also after the lease is over; after that it is
/// [`Settled::Stale`](crate::Settled::Stale) and changes nothing. The claim of an [`at_most_once`](crate::Queue::at_most_once) queue is the last that
/// is heard of its message: to acknowledge it changes nothing, and any other answer is `Invalid`.
pub struct Claim<M> {
    queue: Arc<str>,
    taken: Box<Taken>,
    decode: fn(&[u8]) -> Result<M>,
    /// `None` for a message that is gone already.
    pub(super) hold: Option<Hold>,
}

impl<M> Claim<M> {
    pub(super) fn new(queue: &str, taken: Taken, decode: fn(&[u8]) -> Result<M>, hold: Option<Hold>) -> Claim<M> {
        Claim {
            queue: queue.into(),
            taken: Box::new(taken),
            decode,
            hold,
        }
    }

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

    /// Leaves the message claimed until its lease is over, which [`Claiming::kept_in_file`] keeps over the end of the process, with what a later process needs to answer it: [`Store::take_up`](crate::Store::take_up). `None` if the message is
    /// gone already.
    pub fn into_receipt(self) -> Option<Receipt> {
        let hold = self.hold.as_ref()?;
        hold.leave();
        let holding = hold.holding;
        Some(Receipt {
            id: MessageId(holding.id),
            fence: holding.fence,
        })
    }

    /// Whether there is nothing left to be said of it: its claim removed it, or it was answered.
    pub(crate) fn is_over(&self) -> bool {
        self.hold.as_ref().is_none_or(Hold::is_answered)
    }

    pub(super) fn holding(&self) -> Option<Holding> {
        self.hold.as_ref().map(|hold| hold.holding)
    }

    /// It was answered, durably.
    pub(super) fn end(&self) {
        self.hold.iter().for_each(Hold::end);
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

/// The lease of a claim. Dropped without an answer, it is given back.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) holding: Holding,
    leases: Arc<Leases>,
    pub(super) bell: Arc<Bell>,
    answered: AtomicBool,
}

impl Hold {
    /// Holds until `deadline_ns` of running time.
    pub(super) fn until(deadline_ns: u64, holding: Holding, leases: &Arc<Leases>, bell: &Arc<Bell>) -> Hold {
        leases.hold(holding, deadline_ns, true);
        Hold {
            holding,
            leases: leases.clone(),
            bell: bell.clone(),
            answered: AtomicBool::new(false),
        }
    }

    /// The same for a claim of an earlier process; `None` if a claim of this one stands for it.
    pub(super) fn take_up(deadline_ns: u64, holding: Holding, leases: &Arc<Leases>, bell: &Arc<Bell>) -> Option<Hold> {
        leases.take_up(holding, deadline_ns).then(|| Hold {
            holding,
            leases: leases.clone(),
            bell: bell.clone(),
            answered: AtomicBool::new(false),
        })
    }

    pub(super) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// The lease goes on, and nobody here stands for it.
    pub(super) fn leave(&self) {
        self.disarm();
        self.leases.leave(self.holding);
    }

    pub(super) fn is_of(&self, leases: &Arc<Leases>) -> bool {
        Arc::ptr_eq(&self.leases, leases)
    }

    /// The claim was answered, durably.
    pub(super) fn end(&self) {
        self.disarm();
        self.leases.settle(self.holding);
    }

    /// The lease stays as it is.
    fn disarm(&self) {
        self.answered.store(true, Ordering::Release);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.answered.load(Ordering::Acquire) {
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
