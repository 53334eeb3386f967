//! Claiming: who gets which messages, and who sleeps until there are some.

use std::time::Duration;

use super::claim::{Claim, Claiming, Claims, Hold, Receipt};
use super::{ReadTx, Store, WriteTx, inside};
use crate::codec::time::nanos;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Bell, Holding, Leases, Over};
use crate::limits::{
    CLAIM_MESSAGES_MAX, ERROR_TEXT_BYTES_MAX, ERRORS_KEPT_MAX, LOG_HALF_BYTES_MIN, MESSAGE_KEY_BYTES_MAX,
    SCHEDULE_LOOK_SECS_MAX, commit_bytes_max,
};
use crate::outbox::decide::Verb;
use crate::outbox::line::{self, Line, Taken, Wish};
use crate::outbox::{MessageId, QueueInfo, QueueSpec, Settled, catalog};
use crate::sync::Arc;

/// How soon somebody looks again while a commit is in doubt that may become durable without a word.
const IN_DOUBT_LOOK_NS: u64 = 1_000_000_000;
/// Most leases that one commit ends.
const ENDED_AT_ONCE: usize = 1000;
/// Most that a commit takes in bytes to end one that was lost: its row and its errors, and the row of the next one of its key.
const LAPSED_BYTES_MAX: u64 = 8 << 10;
/// The same for one that was given back: its row and an entry of the index.
const GIVEN_BACK_BYTES_MAX: u64 = 600;
const _: () = assert!(LAPSED_BYTES_MAX <= commit_bytes_max(LOG_HALF_BYTES_MIN));
const _: () = assert!(LAPSED_BYTES_MAX as usize > ERRORS_KEPT_MAX * ERROR_TEXT_BYTES_MAX + 4 * MESSAGE_KEY_BYTES_MAX);
const _: () = assert!(GIVEN_BACK_BYTES_MAX as usize > MESSAGE_KEY_BYTES_MAX + 200);

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
    pub fn claim<Q: QueueSpec>(&self, queue: Q, claiming: impl Into<Claiming>) -> Result<Claims<Q>> {
        let claiming = claiming.into();
        inside::refuse_in_write(self.inner.id, "claim")?;
        // One commit may get no further than to what has expired, or what others lost.
        while self.can_claim(&queue)? {
            let ((), claims) = self.claim_behind(&queue, claiming, |_| Ok::<_, Error>(()))?;
            if !claims.is_empty() || claiming.messages == 0 {
                return Ok(claims);
            }
        }
        Ok(Vec::new())
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
    ) -> Result<Claims<Q>> {
        inside::refuse_in_any(self.inner.id, "claim_wait")?;
        self.claim_until(queue, claiming.into(), patience, || false)
    }

    /// The same, until `is_over` says so after a ring of the queue's bell.
    pub(crate) fn claim_until<Q: QueueSpec + Copy>(
        &self,
        queue: Q,
        claiming: Claiming,
        patience: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<Claims<Q>> {
        let bell = self.bell_of(&queue);
        let end_ns = self.running_ns()?.saturating_add(nanos(patience));
        loop {
            let seen = bell.rung();
            if is_over() {
                return Ok(Vec::new());
            }
            let claims = self.claim(queue, claiming)?;
            let now_ns = self.running_ns()?;
            if !claims.is_empty() || claiming.messages == 0 || now_ns >= end_ns {
                return Ok(claims);
            }
            let alarm_ns = self.next_claim_ns(&queue)?.unwrap_or(u64::MAX).min(end_ns);
            let left = Duration::from_nanos(alarm_ns.saturating_sub(now_ns));
            bell.wait(seen, (alarm_ns != u64::MAX).then_some((left, alarm_ns)));
        }
    }

    /// What those sleep on who wait for messages of a queue.
    pub(crate) fn bell_of<Q: QueueSpec>(&self, queue: &Q) -> Arc<Bell> {
        self.inner.bells.of(&queue.declared().name)
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
    ) -> Result<(R, Claims<Q>), E> {
        self.claim_behind(&queue, claiming.into(), f)
    }

    fn claim_behind<Q: QueueSpec, R, E: From<Error>>(
        &self,
        queue: &Q,
        claiming: Claiming,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>,
    ) -> Result<(R, Claims<Q>), E> {
        let mut lot = Lot::new(&self.inner.leases, self.bell_of(queue));
        let result = self.write(|tx| {
            let result = f(tx)?;
            lot.fill(tx, queue, claiming)?;
            Ok::<_, E>(result)
        })?;
        if lot.taken.iter().any(|(_, hold)| hold.is_none()) {
            // Never twice, also if a store at level `Buffered` loses its power.
            self.sync().map_err(|cause| {
                let message = "claimed and gone, and not known to survive a power loss";
                cause.into_kind(ErrorKind::InDoubt, message)
            })?;
        }
        lot.over.ended();
        let claims = lot
            .taken
            .into_iter()
            .map(|(taken, hold)| Claim::new(&lot.queue, taken, Q::decode, hold));
        let claims: Vec<_> = claims.collect();
        if !claims.is_empty() {
            lot.bell.ring_unless_awake_by(lot.deadline_ns);
        }
        Ok((result, claims))
    }

    /// Takes up a claim of an earlier process by its receipt; `None` if somebody else has claimed the message since, this process
    /// has taken it up already, or it is gone. It is held for `lease` from now on.
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
        let Some(info) = self.read(|tx| catalog::resolve(&tx.txn, &declared))? else {
            return Ok(None);
        };
        let (id, fence) = (receipt.id.get(), receipt.fence);
        let holding = Holding { of: info.id, id, fence };
        let deadline_ns = self.running_ns()?.saturating_add(nanos(lease));
        // Held before it is known to be, so that there is a lease whatever becomes of the commit.
        let bell = self.bell_of(&queue);
        let Some(hold) = Hold::take_up(deadline_ns, holding, &self.inner.leases, &bell) else {
            return Ok(None);
        };
        let taken = self.write(|tx| {
            let kept_until_ns = Some(tx.read.txn.now().schedule_ns.saturating_add_unsigned(nanos(lease)));
            let verb = Verb::Extend { kept_until_ns };
            if tx.answer_held(holding, info.name(), verb, None)? == Settled::Stale {
                return Ok(None);
            }
            Line::open(tx.txn_mut(), info.id)?.taken(receipt.id).map(Some)
        });
        // The receipt is good for another try.
        let taken = taken.inspect_err(|_| hold.leave())?;
        if taken.is_none() {
            hold.end();
        }
        // Its end may be sooner than anybody looks who sleeps.
        bell.ring_unless_awake_by(deadline_ns);
        Ok(taken.map(|taken| Claim::new(&declared.name, taken, Q::decode, Some(hold))))
    }

    /// Running time, in nanoseconds.
    pub(crate) fn running_ns(&self) -> Result<u64> {
        self.with_engine("claim", |engine| Ok::<_, Error>(engine.now().mono_ns))
    }

    /// Whether a claim could get anything, or has a lease to end. Of a look, the claim itself is to say that it cannot write.
    fn can_claim<Q: QueueSpec>(&self, queue: &Q) -> Result<bool> {
        let looks = self.with_engine("claim", |engine| Ok::<_, Error>(Engine::looks(engine)))?;
        let next = self.next_claim_ns(queue)?;
        Ok(looks || next.is_some_and(|at_ns| at_ns == 0))
    }

    /// When, by running time, the next message is due or the next lease over; 0 for now, `None` for never by itself.
    pub(crate) fn next_claim_ns<Q: QueueSpec>(&self, queue: &Q) -> Result<Option<u64>> {
        let declared = queue.declared();
        // Asked for before the look: what becomes durable in between is seen by it.
        let is_in_doubt = self.is_in_doubt()?;
        self.read(|tx: &ReadTx<'_>| {
            let Some(info) = catalog::resolve(&tx.txn, &declared)? else {
                return Ok(None);
            };
            if self.inner.leases.older(info.id).is_some() {
                return Ok(Some(0));
            }
            let now = tx.txn.now();
            let lapse = self.inner.leases.next_deadline(info.id);
            let lapse = lapse.map(|at_ns| if at_ns <= now.mono_ns { 0 } else { at_ns });
            let due = line::next_due_ns(&tx.txn, info.id)?.map(|due_ns| {
                let wait = due_ns.saturating_sub(now.schedule_ns);
                match u64::try_from(wait).unwrap_or(0) {
                    0 => 0,
                    // The wall clock may be set meanwhile, and the machine may sleep.
                    wait => now
                        .mono_ns
                        .saturating_add(wait.min(SCHEDULE_LOOK_SECS_MAX * 1_000_000_000)),
                }
            });
            let doubt = is_in_doubt.then(|| now.mono_ns.saturating_add(IN_DOUBT_LOOK_NS));
            Ok(lapse.into_iter().chain(due).chain(doubt).min())
        })
    }
}

/// What one claim takes. Dropped before it is durable, it is given back: it may become durable yet.
struct Lot {
    queue: String,
    leases: Arc<Leases>,
    bell: Arc<Bell>,
    /// Each with its lease, unless it is gone once it is claimed.
    taken: Vec<(Taken, Option<Hold>)>,
    over: Ending,
    deadline_ns: u64,
}

impl Lot {
    fn new(leases: &Arc<Leases>, bell: Arc<Bell>) -> Lot {
        Lot {
            queue: String::new(),
            leases: leases.clone(),
            taken: Vec::new(),
            over: Ending::new(leases, &bell),
            bell,
            deadline_ns: 0,
        }
    }

    fn fill<Q: QueueSpec>(&mut self, tx: &mut WriteTx<'_>, queue: &Q, claiming: Claiming) -> Result<()> {
        let declared = queue.declared();
        self.queue.clone_from(&declared.name);
        let Some(info) = catalog::resolve(&tx.read.txn, &declared)? else {
            return Ok(());
        };
        let now_ns = tx.read.txn.now().mono_ns;
        self.deadline_ns = now_ns.saturating_add(nanos(claiming.lease));
        let ended_bytes = self.over.fill(tx, &info, now_ns)?;
        let wish = Wish {
            n: claiming.messages.min(CLAIM_MESSAGES_MAX),
            kept_ns: claiming.kept_ns(),
            // The rest is for answers.
            room: (tx.commit_bytes_max()? / 4 * 3).saturating_sub(ended_bytes),
            leases: &self.leases,
        };
        let mut line = Line::open(tx.txn_mut(), info.id)?;
        for taken in line.claim(&info, wish)? {
            let (id, fence) = (taken.id.get(), taken.fence);
            let holding = Holding { of: info.id, id, fence };
            let hold =
                (!info.is_at_most_once()).then(|| Hold::until(self.deadline_ns, holding, &self.leases, &self.bell));
            self.taken.push((taken, hold));
        }
        if line.close()? {
            tx.woke(&declared.name);
        }
        Ok(())
    }
}

/// Leases that a transaction ends. Dropped before it is durable, they are as they were.
pub(super) struct Ending {
    leases: Arc<Leases>,
    bell: Arc<Bell>,
    over: Vec<Over>,
    /// A queue, and behind which of its messages there may still be claims of earlier processes.
    older: Option<(u32, Option<u64>)>,
    durably: bool,
}

impl Ending {
    pub(super) fn new(leases: &Arc<Leases>, bell: &Arc<Bell>) -> Ending {
        Ending {
            leases: leases.clone(),
            bell: bell.clone(),
            over: Vec::new(),
            older: None,
            durably: false,
        }
    }

    /// Ends what is over of a queue at `now_ns` of running time, as much as one commit takes beside other work.
    /// Gives the bytes that this takes at most.
    pub(super) fn fill(&mut self, tx: &mut WriteTx<'_>, info: &QueueInfo, now_ns: u64) -> Result<u64> {
        let room = tx.commit_bytes_max()? / 2;
        if let Some(after) = self.leases.older(info.id) {
            let at_once = usize::try_from(room / LAPSED_BYTES_MAX).unwrap_or(usize::MAX);
            self.older = Some((info.id, tx.end_older(info, after, at_once.clamp(1, ENDED_AT_ONCE))?));
            return Ok(room);
        }
        let (mut bytes, mut count) = (0, 0);
        self.over = self.leases.over(info.id, now_ns, |given_back| {
            bytes += if given_back {
                GIVEN_BACK_BYTES_MAX
            } else {
                LAPSED_BYTES_MAX
            };
            count += 1;
            bytes <= room && count <= ENDED_AT_ONCE
        });
        let mut line = Line::open(tx.txn_mut(), info.id)?;
        for over in &self.over {
            let id = MessageId::from(over.holding.id);
            line.lapse(id, over.holding.fence, over.given_back, "its lease was lost")?;
        }
        if line.close()? {
            tx.woke(info.name());
        }
        let ended = |given_back| self.over.iter().filter(|over| over.given_back == given_back).count() as u64;
        Ok(ended(true) * GIVEN_BACK_BYTES_MAX + ended(false) * LAPSED_BYTES_MAX)
    }

    /// The transaction is durable.
    pub(super) fn ended(&mut self) {
        self.durably = true;
        if let Some((of, after)) = self.older {
            self.leases.end_older(of, after);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.over.is_empty() {
            return;
        }
        self.leases.ended(&self.over, self.durably);
        if !self.durably {
            // Whoever looked meanwhile did not see them.
            self.bell.ring();
        }
    }
}
