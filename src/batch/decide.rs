//! What becomes of a batch: its operations vote. Pure.

/// How a condition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// It holds.
    Holds,
    /// The record already is what the operation would have made it.
    Already,
    /// Neither.
    Fails,
}

/// What one operation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// `None` for an operation without a condition, which does not vote.
    pub vote: Option<Vote>,
    /// Whether the operation would change nothing, with or without a vote. A check that holds changes nothing.
    pub already: bool,
}

/// What to do about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchVerdict {
    /// Write all of it.
    Apply,
    /// Nothing is left to be written: it is all there.
    Already,
    /// Write nothing.
    Reject,
}

/// Counts the votes. A failing one rejects; if all hold, or nobody votes, the batch is applied; what is left is a mixture,
/// which is a repeat if every operation is already so, and else is rejected.
pub fn decide_batch(ballots: impl IntoIterator<Item = Ballot>) -> BatchVerdict {
    let (mut all_hold, mut all_already) = (true, true);
    for Ballot { vote, already } in ballots {
        if vote == Some(Vote::Fails) {
            return BatchVerdict::Reject;
        }
        all_hold &= vote != Some(Vote::Already);
        all_already &= already;
    }
    match (all_hold, all_already) {
        (true, _) => BatchVerdict::Apply,
        (false, true) => BatchVerdict::Already,
        (false, false) => BatchVerdict::Reject,
    }
}
