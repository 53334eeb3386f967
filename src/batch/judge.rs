//! A whole batch: what is remembered of it, how it is judged, and what is written of it.

use super::decide::{BatchVerdict, decide_batch};
use super::in_operation;
use super::operation::Operation;
use super::outcome::{self, Outcome, Verdict};
use crate::dedupe::{self, Met, OnceKey, Remembered};
use crate::engine::Bytes;
use crate::error::{ErrorKind, Result};
use crate::record;
use crate::table::catalog::Tables;
use crate::txn::Txn;

/// A batch without a mistake, its key bound.
#[derive(Debug)]
pub(crate) struct Ready<'b> {
    pub(crate) once: Option<OnceKey>,
    pub(super) operations: &'b [Operation],
}

impl Ready<'_> {
    /// What is remembered of this very batch.
    pub(crate) fn repeat(&self, txn: &Txn) -> Result<Option<Outcome>> {
        let Some(key) = &self.once else { return Ok(None) };
        match dedupe::meet(txn, key)? {
            Met::Repeat(remembered) => repeat(key, &remembered).map(Some),
            Met::First { .. } => Ok(None),
        }
    }

    /// The queues into which it puts messages.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Record(_) => None,
            Operation::Enqueue(enqueue) => Some(enqueue.queue.name.as_str()),
        })
    }

    /// Judges the batch and, if the votes say so, writes it. What is not applied leaves nothing behind. `within`: the
    /// remembered key in whose work that is.
    pub(crate) fn apply(&self, txn: &mut Txn, tables: Tables<'_>, within: Option<&Bytes>) -> Result<Outcome> {
        let end_ns = match &self.once {
            None => None,
            Some(key) => match dedupe::meet(txn, key)? {
                Met::Repeat(remembered) => return repeat(key, &remembered),
                Met::First { end_ns } => Some((key, end_ns)),
            },
        };
        let depth = txn.open_layer()?;
        let judged = self.judge(txn, tables, self.once.as_ref().map(OnceKey::stored_key).or(within));
        let applied = matches!(judged, Ok((BatchVerdict::Apply, _)));
        if applied {
            txn.keep_layers(depth);
        } else {
            txn.drop_layers(depth);
        }
        let (verdict, verdicts) = judged?;
        if verdict == BatchVerdict::Reject {
            return Ok(Outcome::Rejected(verdicts));
        }
        if let Some((key, end_ns)) = end_ns {
            let result = outcome::encode_kept(&verdicts)?;
            record::check_value(&result)?;
            dedupe::remember(txn, key, end_ns, result);
        }
        Ok(if applied {
            Outcome::Applied { verdicts }
        } else {
            Outcome::Already { verdicts }
        })
    }

    /// Judges each operation by carrying it out in a layer of the transaction. No two write to one key, so that the only
    /// ones that could see another's work are the checks, which go first.
    fn judge(&self, txn: &mut Txn, tables: Tables<'_>, once: Option<&Bytes>) -> Result<(BatchVerdict, Vec<Verdict>)> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; self.operations.len()];
        for is_check in [true, false] {
            for (place, (operation, verdict)) in self.operations.iter().zip(&mut verdicts).enumerate() {
                if operation.is_check() == is_check {
                    let judged = operation.run(txn, tables, once);
                    *verdict = Some(judged.map_err(|cause| in_operation(place, cause))?);
                }
            }
        }
        let verdicts: Vec<Verdict> = verdicts.into_iter().flatten().collect();
        let both = self.operations.iter().zip(&verdicts);
        let ballots = both.map(|(operation, verdict)| verdict.ballot(operation.votes(), operation.is_check()));
        Ok((decide_batch(ballots), verdicts))
    }
}

fn repeat(key: &OnceKey, remembered: &Remembered) -> Result<Outcome> {
    let verdicts = outcome::decode_kept(remembered.result_bytes()).map_err(|cause| {
        let message = format!("the work was done before, and its result is not that of a batch, key={key}");
        cause.into_kind(ErrorKind::Decode, message)
    })?;
    Ok(Outcome::Repeat {
        verdicts,
        first_at: remembered.first_at(),
    })
}
