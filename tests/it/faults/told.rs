//! What the callers of a store were told, and so what may be there.

use crate::model::reference::{Answer, Record, Reference};

use super::work::{Step, everything, expect};

/// The states that may be found, oldest first.
#[derive(Clone, Debug)]
pub struct Told {
    /// From the newest that survives power loss to the newest that a caller was told of.
    certain: Vec<Reference>,
    /// The state after a commit whose caller was told that it is in doubt.
    doubt: Option<Reference>,
    now_ms: u64,
}

impl Told {
    pub fn new() -> Told {
        Told {
            certain: vec![Reference::default()],
            doubt: None,
            now_ms: 0,
        }
    }

    pub fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn newest(&self) -> &Reference {
        self.certain.last().expect("never empty")
    }

    fn at_this_time(&self, state: &Reference) -> Reference {
        let mut state = state.clone();
        state.now_ms = self.now_ms;
        state
    }

    /// A caller got an answer. It must be the one that the reference gives; what was in doubt is settled by an answer that
    /// only one of the two states gives, and by whatever can only be answered once it is durable.
    pub fn answered(&mut self, step: &Step, answers: &[Answer]) -> Result<(), String> {
        let reads = matches!(step, Step::Read(_)) || matches!(answers, [Answer::Repeat(..)]);
        let mut tried = Vec::new();
        // A read shows what is in doubt only once it is durable; everything else waits for that.
        if reads || self.doubt.is_none() {
            tried.push((self.newest().clone(), false));
        }
        if let Some(doubt) = self.doubt.clone() {
            tried.push((doubt, true));
        }
        let mut wanted = Vec::new();
        for (state, was_doubt) in tried {
            let mut after = self.at_this_time(&state);
            let expected = expect(step, &mut after);
            if expected != answers {
                wanted.push(expected);
                continue;
            }
            if was_doubt {
                self.settled_as_applied();
            }
            if !reads {
                self.certain.push(after);
            }
            return Ok(());
        }
        let wanted: Vec<_> = wanted.iter().map(|answers| brief(answers)).collect();
        Err(format!("answered {}\nwanted one of {wanted:#?}", brief(answers)))
    }

    /// A caller was told that its commit is in doubt. It could not begin before what was in doubt until then was durable.
    pub fn in_doubt(&mut self, step: &Step) {
        self.settled_as_applied();
        let mut after = self.at_this_time(self.newest());
        expect(step, &mut after);
        self.doubt = Some(after);
    }

    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// What was in doubt is there.
    pub fn settled_as_applied(&mut self) {
        self.certain.extend(self.doubt.take());
    }

    /// What was told survives power loss from now on.
    pub fn synced(&mut self) {
        self.certain.drain(..self.certain.len() - 1);
    }

    /// A store was opened, and shows this: it survives power loss.
    pub fn found(&mut self, killed: bool, shown: &[Answer]) -> Result<(), String> {
        let oldest = if killed { self.certain.len() - 1 } else { 0 };
        let may_be = self.certain.iter().skip(oldest).chain(&self.doubt);
        let found = may_be
            .rev()
            .find(|state| self.at_this_time(state).all(&everything()) == shown);
        match found.cloned() {
            Some(state) => {
                self.certain = vec![state];
                self.doubt = None;
                Ok(())
            }
            None => {
                let newest = self.at_this_time(self.newest()).all(&everything());
                Err(format!(
                    "found {}\nthe newest that was told is {}",
                    brief(shown),
                    brief(&newest)
                ))
            }
        }
    }
}

/// Answers without the length of their values, which begin with the number of their step.
pub fn brief(answers: &[Answer]) -> String {
    let of = |record: &Record| {
        let step = record.value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        format!("step {step:?} version {} state {:?}", record.version, record.state)
    };
    let one = |answer: &Answer| match answer {
        Answer::Records(records) => {
            let records = records.iter().map(|(key, record)| format!("{key:?}: {}", of(record)));
            format!("{:?}", records.collect::<Vec<_>>())
        }
        Answer::Found(Some(record)) | Answer::Conflict(Some(record)) => of(record),
        other => format!("{other:?}"),
    };
    answers.iter().map(one).collect::<Vec<_>>().join("; ")
}
