//! Batches on a store and inside its transactions.

use super::{ReadTx, Store, WriteTx, inside};
use crate::batch::{Batch, Outcome, Ready};
use crate::engine::Bytes;
use crate::error::Result;
use crate::table::catalog::Tables;

impl Store {
    /// Judges a batch and writes it, in one commit; see [`Batch`] for how it is judged.
    ///
    /// # After a crash
    /// All of the batch is there with its remembered key, or nothing is.
    ///
    /// # Errors
    /// The first mistake of the batch; `Mismatch` if its key is bound to other operations, carrying what is remembered;
    /// `TooOld`; `Schema` if a table or a queue is declared otherwise in the file; `Invalid` for a move that a machine does not have;
    /// and as [`Store::write`]. Nothing was written then.
    pub fn apply(&self, batch: &Batch) -> Result<Outcome> {
        inside::refuse_in_write(self.inner.id, "apply")?;
        let ready = batch.ready()?;
        // A durable repeat needs neither the writer lock nor a sync. Whatever else is found, a write knows better: a
        // forget may be staged that frees the key.
        if ready.once.is_some()
            && let Ok(Some(repeat)) = self.read(|tx| ready.repeat(&tx.txn))
        {
            return Ok(repeat);
        }
        self.write(|tx| tx.apply_ready(&ready))
    }

    /// What [`Store::apply`] would answer to the newest durable state. Writes nothing and syncs nothing.
    ///
    /// # Errors
    /// As [`Store::apply`], without those of the disk.
    pub fn dry_run(&self, batch: &Batch) -> Result<Outcome> {
        self.read(|tx| tx.dry_run(batch))
    }
}

impl WriteTx<'_> {
    /// Judges a batch and makes it part of this transaction; see [`Batch`] for how it is judged. A batch that is not applied
    /// leaves nothing behind, and the transaction can go on.
    ///
    /// # Errors
    /// As [`Store::apply`]; `Invalid` if the work of the same remembered key is under way in this transaction.
    pub fn apply(&mut self, batch: &Batch) -> Result<Outcome> {
        self.apply_ready(&batch.ready()?)
    }

    fn apply_ready(&mut self, ready: &Ready<'_>) -> Result<Outcome> {
        self.read.inner.probed.inside();
        if let Some(key) = &ready.once {
            self.refuse_under_way(key)?;
        }
        let within = self.innermost().cloned();
        let ReadTx { inner, engine, txn } = &mut self.read;
        let durable = || engine.read();
        let tables = Tables::new(&inner.catalog, &durable);
        let outcome = ready.apply(txn, tables, within.as_ref())?;
        if matches!(outcome, Outcome::Applied { .. }) {
            ready.queues().for_each(|queue| self.woke(queue));
        }
        Ok(outcome)
    }

    /// What applying a batch in this transaction would answer; see [`ReadTx::dry_run`].
    ///
    /// # Errors
    /// As [`WriteTx::apply`], without those of the disk.
    pub fn dry_run(&self, batch: &Batch) -> Result<Outcome> {
        let ready = batch.ready()?;
        if let Some(key) = &ready.once {
            self.refuse_under_way(key)?;
        }
        self.read.try_ready(&ready, self.innermost())
    }
}

impl ReadTx<'_> {
    /// What applying a batch to this state would answer, within a write also to what it wrote so far. Writes nothing.
    ///
    /// # Errors
    /// As [`Store::dry_run`].
    pub fn dry_run(&self, batch: &Batch) -> Result<Outcome> {
        self.try_ready(&batch.ready()?, None)
    }

    fn try_ready(&self, ready: &Ready<'_>, within: Option<&Bytes>) -> Result<Outcome> {
        let mut trial = self.txn.clone();
        let durable = || self.engine.read();
        let tables = Tables::new(&self.inner.catalog, &durable);
        let outcome = ready.apply(&mut trial, tables, within)?;
        self.engine.fits(&trial.into_changes()?)?;
        Ok(outcome)
    }
}
