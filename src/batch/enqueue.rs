//! A message that a batch enqueues. It has no condition, so it has no vote, and it is never already so.

use super::outcome::Verdict;
use crate::engine::Bytes;
use crate::error::Result;
use crate::outbox::queue::{QueueDeclared, Terms};
use crate::outbox::{catalog, line};
use crate::record;
use crate::txn::Txn;

#[derive(Clone, Debug)]
pub(super) struct Enqueue {
    /// With the retry that the message has: its own, or else that of the queue. So two call sites that say the same of a
    /// message have the same request, wherever they say it.
    pub(super) queue: QueueDeclared,
    /// Without a retry.
    pub(super) terms: Terms,
    /// Encoded.
    pub(super) payload: Vec<u8>,
}

impl Enqueue {
    /// # Errors
    /// `Invalid` for the name of the queue and for what [`Terms::check`] refuses; `TooLarge` for payload or headers.
    pub(super) fn new(mut queue: QueueDeclared, mut terms: Terms, payload: Vec<u8>) -> Result<Enqueue> {
        catalog::check_name(&queue.name)?;
        terms.retry.get_or_insert(queue.retry);
        terms.check()?;
        queue.retry = terms.retry.take().unwrap_or(queue.retry);
        record::check_value(&payload)?;
        Ok(Enqueue { queue, terms, payload })
    }

    pub(super) fn run(&self, txn: &mut Txn, once: Option<&Bytes>) -> Result<Verdict> {
        // Who waits for messages is told by whoever knows that the batch is applied.
        let (id, _) = line::enqueue(txn, &self.queue, self.terms.clone(), &self.payload, once)?;
        Ok(Verdict::Enqueued(id))
    }
}
