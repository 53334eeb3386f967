//! Delivering: messages that are claimed and acknowledged, and as many put in their place between the slices.

use std::sync::atomic::Ordering;

use crate::entrant::Entrant;
use crate::load::{MESSAGES_IN_LOT, Work};
use crate::op::{Held, Op, Reply};
use crate::peer::Failure;

/// Messages that are put into the queue in one transaction.
const MADE_UP_IN_LOT: u64 = 1000;

impl Entrant {
    /// Claims a message and acknowledges it; or acknowledges what is held and claims the next lot with it.
    pub(crate) fn deliver(&self, thread: usize, held: &mut Vec<Held>) -> Result<(), Failure> {
        if self.load.work == Work::DeliverLots {
            let op = Op::AckThenClaim(std::mem::take(held), MESSAGES_IN_LOT as usize);
            *held = self.claimed(self.peer.write(thread, op)?, MESSAGES_IN_LOT)?;
            return Ok(());
        }
        let one = self.claimed(self.peer.write(thread, Op::Claim(1))?, 1)?;
        self.put_down(thread, one)
    }

    fn claimed(&self, reply: Reply, count: u64) -> Result<Vec<Held>, Failure> {
        match reply {
            Reply::Claimed(held)
                if held.len() as u64 == count && held.iter().all(|one| one.bytes == self.load.value_bytes) =>
            {
                Ok(held)
            }
            other => Err(format!("handed out something else than the next {count} messages, {other:?}").into()),
        }
    }

    /// Acknowledges what a thread holds.
    pub(crate) fn put_down(&self, thread: usize, held: Vec<Held>) -> Result<(), Failure> {
        if held.is_empty() {
            return Ok(());
        }
        match self.peer.write(thread, Op::Ack(held))? {
            Reply::Done => Ok(()),
            other => Err(format!("did not take the answer of a holder, {other:?}").into()),
        }
    }

    /// Puts as many messages into the queue as were delivered, so that each slice finds as many. Nobody holds one.
    pub(crate) fn make_up(&self) -> Result<(), Failure> {
        if !self.load.delivers() {
            return Ok(());
        }
        let gone = self.next.load(Ordering::Relaxed) * self.load.results();
        let mut made_up = self.made_up.load(Ordering::Relaxed);
        while made_up < gone {
            let until = gone.min(made_up + MADE_UP_IN_LOT);
            let message = |number| Op::Enqueue(self.load.message(self.load.records + number));
            let ops: Vec<Op> = (made_up..until).map(message).collect();
            self.peer.lot(&ops)?;
            made_up = until;
        }
        self.made_up.store(made_up, Ordering::Relaxed);
        self.peer.settle()
    }
}
