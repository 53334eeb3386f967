//! Queues on a store and inside its transactions: what goes in, what stands where, and what is done about dead letters.

use super::claims::Ending;
use super::{ReadTx, Store, WriteTx};
use crate::error::{ErrorKind, Result};
use crate::lease::Holding;
use crate::outbox::keys::Kind;
use crate::outbox::line::{self, Line};
use crate::outbox::replay::{self, Discarded, Replay, Replayed};
use crate::outbox::{MessageId, MessageInfo, Outgoing, QueueInfo, QueueSpec, QueueStats, catalog, entries, list};

impl WriteTx<'_> {
    /// Puts a message into a queue. It leaves exactly with this transaction: if that is not kept, the message never was.
    ///
    /// For a message that must not be enqueued twice, do it inside [`WriteTx::once`].
    ///
    /// # Errors
    /// `TooLarge` for payload, headers or commit; `Invalid` if the payload would not come back from its encoding, for a name or
    /// a key out of its limits; `Schema` if the queue is declared otherwise in the file; `Corrupt`, `Io`.
    pub fn enqueue<'m, Q: QueueSpec>(
        &mut self,
        queue: Q,
        message: impl Into<Outgoing<'m, Q::Message>>,
    ) -> Result<MessageId>
    where
        Q::Message: 'm,
    {
        let Outgoing { message, terms } = message.into();
        let payload = queue.encode(message, self.read.inner.verify_values)?;
        crate::record::check_value(&payload)?;
        let declared = queue.declared();
        let once = self.innermost().cloned();
        let (id, woke) = line::enqueue(self.txn_mut(), &declared, terms, &payload, once.as_ref())?;
        if woke {
            self.woke(&declared.name);
        }
        Ok(id)
    }

    /// Keeps messages of a queue from being claimed until [`WriteTx::resume`]: they can be enqueued, and those that are claimed
    /// can be answered. Kept in the file. Says whether it was not paused before.
    ///
    /// # Errors
    /// `NotFound` if there is no such queue; `Corrupt`, `Io`.
    pub fn pause(&mut self, queue: &str) -> Result<bool> {
        self.change(queue, |line| Ok(line.pause(true)))
    }

    /// Lets messages of a queue be claimed again. Says whether it was paused.
    ///
    /// # Errors
    /// As [`WriteTx::pause`].
    pub fn resume(&mut self, queue: &str) -> Result<bool> {
        self.change(queue, |line| Ok(line.pause(false)))
    }

    /// Removes a message wherever it stands; the next one of its key goes on. Says whether there was one. Counted in
    /// [`QueueStats::discarded`]. A remembered key under which it was enqueued stays: [`WriteTx::forget`] frees it.
    ///
    /// # Errors
    /// As [`WriteTx::pause`].
    pub fn discard(&mut self, queue: &str, id: MessageId) -> Result<bool> {
        let of = self.queue_of(queue)?.id;
        let Some(row) = self.change(queue, |line| line.discard(id))? else {
            return Ok(false);
        };
        // Whoever delivers it is to hear so when it next extends.
        let (id, fence) = (id.get(), row.fence);
        self.after.gone.push(Holding { of, id, fence });
        Ok(true)
    }

    /// Removes dead letters. Looks at no more than [`DEAD_LETTERS_AT_ONCE_MAX`](crate::limits::DEAD_LETTERS_AT_ONCE_MAX); see
    /// [`Discarded`] for how to go on. Counted in [`QueueStats::discarded`].
    ///
    /// # Errors
    /// As [`WriteTx::pause`].
    pub fn discard_dead(&mut self, queue: &str, which: &Replay) -> Result<Discarded> {
        let info = self.queue_of(queue)?;
        let (discarded, woke) = replay::discard(self.txn_mut(), info.id, which)?;
        if woke {
            self.woke(queue);
        }
        Ok(discarded)
    }

    /// Delivers dead letters again, in the order of their deaths, with their budgets whole and their errors kept. Looks at no more than
    /// [`DEAD_LETTERS_AT_ONCE_MAX`](crate::limits::DEAD_LETTERS_AT_ONCE_MAX). See [`Replay`] for which, how fast, and what is
    /// refused.
    ///
    /// # Errors
    /// As [`WriteTx::pause`]; `TooLarge` if the commit is: say a limit.
    pub fn replay(&mut self, queue: &str, which: &Replay) -> Result<Replayed> {
        let info = self.queue_of(queue)?;
        let (outcome, woke) = replay::replay(self.txn_mut(), info.id, which)?;
        if woke {
            self.woke(queue);
        }
        Ok(outcome)
    }

    fn queue_of(&self, queue: &str) -> Result<QueueInfo> {
        catalog::find(&self.read.txn, queue)?.ok_or_else(|| replay::no_such_queue(queue))
    }

    fn change<R>(&mut self, queue: &str, f: impl FnOnce(&mut Line<'_>) -> Result<R>) -> Result<R> {
        let info = self.queue_of(queue)?;
        let mut line = Line::open(self.txn_mut(), info.id)?;
        let result = f(&mut line)?;
        if line.close()? {
            self.woke(queue);
        }
        Ok(result)
    }

    pub(super) fn woke(&mut self, queue: &str) {
        if !self.after.woke.iter().any(|known| known == queue) {
            self.after.woke.push(queue.to_owned());
        }
    }
}

impl ReadTx<'_> {
    /// The queues of the file, by name.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn queues(&self) -> Result<Vec<QueueInfo>> {
        catalog::list(&self.txn)
    }

    /// How a queue stands; `None` if the file has no such queue.
    ///
    /// # Errors
    /// As [`ReadTx::queues`].
    pub fn queue_stats(&self, queue: &str) -> Result<Option<QueueStats>> {
        let Some(info) = catalog::find(&self.txn, queue)? else {
            return Ok(None);
        };
        self.stats_of(&info).map(Some)
    }

    pub(super) fn stats_of(&self, info: &QueueInfo) -> Result<QueueStats> {
        let mut stats = list::stats(&self.txn, info)?;
        stats.stale = self.inner.leases.stale(info.id);
        Ok(stats)
    }

    /// One message; `None` if it is gone, or never was.
    ///
    /// # Errors
    /// As [`ReadTx::queues`].
    pub fn message(&self, queue: &str, id: MessageId) -> Result<Option<MessageInfo>> {
        match catalog::find(&self.txn, queue)? {
            Some(info) => list::find(&self.txn, info.id, id),
            None => Ok(None),
        }
    }

    /// Messages of a queue in the order of their numbers, behind `after`, at most `limit`. None if there is no such queue.
    ///
    /// # Errors
    /// As [`ReadTx::queues`].
    pub fn messages(&self, queue: &str, after: Option<MessageId>, limit: usize) -> Result<Vec<MessageInfo>> {
        match catalog::find(&self.txn, queue)? {
            Some(info) => list::messages(&self.txn, info.id, after, limit),
            None => Ok(Vec::new()),
        }
    }

    /// Dead letters of a queue in the order of their deaths, behind the one that is `after`, at most `limit`.
    ///
    /// # Errors
    /// As [`ReadTx::queues`].
    pub fn dead_letters(&self, queue: &str, after: Option<MessageId>, limit: usize) -> Result<Vec<MessageInfo>> {
        match catalog::find(&self.txn, queue)? {
            Some(info) => list::dead(&self.txn, info.id, after, limit),
            None => Ok(Vec::new()),
        }
    }
}

impl Store {
    /// Puts one message into a queue, in its own commit; see [`WriteTx::enqueue`].
    ///
    /// # Errors
    /// As [`WriteTx::enqueue`] and [`Store::write`].
    pub fn enqueue<'m, Q: QueueSpec>(&self, queue: Q, message: impl Into<Outgoing<'m, Q::Message>>) -> Result<MessageId>
    where
        Q::Message: 'm,
    {
        self.write(|tx| tx.enqueue(queue, message))
    }

    /// How a queue stands; see [`ReadTx::queue_stats`].
    ///
    /// # Errors
    /// As [`ReadTx::queue_stats`].
    pub fn queue_stats(&self, queue: &str) -> Result<Option<QueueStats>> {
        self.read(|tx| tx.queue_stats(queue))
    }

    /// Pauses a queue in its own commit; see [`WriteTx::pause`].
    ///
    /// # Errors
    /// As [`WriteTx::pause`] and [`Store::write`].
    pub fn pause(&self, queue: &str) -> Result<bool> {
        self.write(|tx| tx.pause(queue))
    }

    /// Lets a queue go on, in its own commit; see [`WriteTx::resume`].
    ///
    /// # Errors
    /// As [`WriteTx::pause`] and [`Store::write`].
    pub fn resume(&self, queue: &str) -> Result<bool> {
        self.write(|tx| tx.resume(queue))
    }

    /// Delivers dead letters again, in one commit; see [`WriteTx::replay`].
    ///
    /// # Errors
    /// As [`WriteTx::replay`] and [`Store::write`].
    pub fn replay(&self, queue: &str, which: &Replay) -> Result<Replayed> {
        self.write(|tx| tx.replay(queue, which))
    }

    /// Removes dead letters, in one commit; see [`WriteTx::discard_dead`].
    ///
    /// # Errors
    /// As [`WriteTx::discard_dead`] and [`Store::write`].
    pub fn discard_dead(&self, queue: &str, which: &Replay) -> Result<Discarded> {
        self.write(|tx| tx.discard_dead(queue, which))
    }

    /// Ends what earlier processes held: one process writes, so nobody holds it any more. A claim that is kept in the file goes
    /// on until its time is over. What fails here, on a full disk say, is left to the first claim.
    pub(super) fn end_older_claims(&self) -> Result<()> {
        let queues = match self.queues() {
            // A queue that cannot be read is for those to tell of who need it.
            Err(cause) if cause.kind() == ErrorKind::Corrupt => return Ok(()),
            queues => queues?,
        };
        for info in queues {
            let tally = self.read(|tx| entries::read_tally(&tx.txn, info.id));
            if !tally.is_ok_and(|tally| tally.claimed == 0) {
                self.inner.leases.end_older(info.id, Some(0));
                while self.inner.leases.older(info.id).is_some() && self.end_given_up(&info).is_ok() {}
            }
        }
        Ok(())
    }

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the path names the method of one lifetime, and a read needs it for all"
    )]
    fn queues(&self) -> Result<Vec<QueueInfo>> {
        self.read(|tx| tx.queues())
    }

    /// Ends what was given back and is not written down, so that the next process does not take it for lost.
    pub(super) fn end_given_back(&self) {
        let given_back = self.inner.leases.given_back();
        if given_back.is_empty() {
            return;
        }
        let queues = self.queues().unwrap_or_default();
        for info in queues {
            // Others may go on giving back: so many turns end what there is now. If one fails, the next opening ends it.
            for _ in 0..given_back.get(&info.id).copied().unwrap_or_default() {
                if !self.inner.leases.given_back().contains_key(&info.id) || self.end_given_up(&info).is_err() {
                    break;
                }
            }
        }
    }

    /// Ends what was given back of a queue, or held by earlier processes, in a commit of its own.
    fn end_given_up(&self, info: &QueueInfo) -> Result<()> {
        let mut ending = Ending::new(&self.inner.leases, &self.inner.bells.of(info.name()));
        // Before any lease that was not given back is over.
        self.write(|tx| ending.fill(tx, info, 0))?;
        ending.ended();
        Ok(())
    }
}

impl WriteTx<'_> {
    /// Most bytes that the commit may have.
    pub(super) fn commit_bytes_max(&self) -> Result<u64> {
        self.read.engine.commit_bytes_max()
    }

    /// Ends a page of claims behind message number `after`, and gives where the next page begins.
    pub(super) fn end_older(&mut self, info: &QueueInfo, after: u64, at_once: usize) -> Result<Option<u64>> {
        let ids = list::places(&self.read.txn, info.id, Kind::Claimed, after, at_once)?;
        for id in &ids {
            match self.end_one_older(info, MessageId(*id)) {
                // One message that cannot be read is not to stop the others: a check names it.
                Err(cause) if cause.kind() == ErrorKind::Corrupt => {}
                outcome => outcome?,
            }
        }
        let is_last = ids.len() < at_once;
        Ok(ids.last().copied().filter(|_| !is_last))
    }

    fn end_one_older(&mut self, info: &QueueInfo, id: MessageId) -> Result<()> {
        let leases = self.read.inner.leases.clone();
        let now = self.read.txn.now();
        let mut line = Line::open(&mut self.read.txn, info.id)?;
        let Some(row) = line.find(id)? else { return Ok(()) };
        let holding = Holding {
            of: info.id,
            id: id.0,
            fence: row.fence,
        };
        if leases.is_in_hand(holding) {
            return Ok(());
        }
        if let Some(until) = row.kept_until_ns.filter(|until| *until > now.schedule_ns) {
            let left = u64::try_from(until.saturating_sub(now.schedule_ns)).unwrap_or(0);
            leases.hold(holding, now.mono_ns.saturating_add(left), false);
            return Ok(());
        }
        let given_back = leases.is_given_back(holding);
        line.lapse(id, row.fence, given_back, "the store was opened anew")?;
        if line.close()? {
            self.woke(info.name());
        }
        Ok(())
    }
}
