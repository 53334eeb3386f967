//! One operation of a batch: what it is, and how it is carried out as far as its own condition allows.

use std::sync::Arc;

use super::enqueue::Enqueue;
use super::outcome::Verdict;
use crate::codec::Version;
use crate::engine::Bytes;
use crate::error::Result;
use crate::machine::Machine;
use crate::machine::decide::{Why, decide_transition};
use crate::record::decide::{Condition, Offered, holds};
use crate::record::{self, Deleted, Put, Written};
use crate::table::catalog::Tables;
use crate::table::transition::{self, Transitioned};
use crate::table::{Declared, Described, Identity, TableInfo, in_damaged};
use crate::txn::Txn;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Record(OnRecord),
    Enqueue(Enqueue),
}

impl Operation {
    pub(super) fn votes(&self) -> bool {
        match self {
            Operation::Record(record) => record.act.votes(),
            Operation::Enqueue(_) => false,
        }
    }

    pub(super) fn is_check(&self) -> bool {
        matches!(self, Operation::Record(record) if matches!(record.act, Act::Check(_)))
    }

    /// Carries the operation out, as far as its own condition allows. `once`: the remembered key in whose work it stands.
    pub(super) fn run(&self, txn: &mut Txn, tables: Tables<'_>, once: Option<&Bytes>) -> Result<Verdict> {
        match self {
            Operation::Record(record) => record.run(txn, tables),
            Operation::Enqueue(enqueue) => enqueue.run(txn, once),
        }
    }
}

/// A condition or a write of one record.
#[derive(Clone, Debug)]
pub(super) struct OnRecord {
    pub(super) table: Arc<BatchTable>,
    /// Encoded.
    pub(super) key: Vec<u8>,
    pub(super) act: Act,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Check(Condition),
    Put(Condition, Vec<u8>),
    /// A put under `Absent` that names the state.
    Create(String, Vec<u8>),
    Delete(Condition),
    Transition {
        from: String,
        to: String,
        value: Option<Vec<u8>>,
    },
}

impl Act {
    /// The condition, of an act that is judged by one.
    pub(super) fn condition(&self) -> Option<Condition> {
        match self {
            Act::Check(condition) | Act::Put(condition, _) | Act::Delete(condition) => Some(*condition),
            Act::Create(..) | Act::Transition { .. } => None,
        }
    }

    fn votes(&self) -> bool {
        self.condition() != Some(Condition::Any)
    }
}

/// What a call site said of a table.
#[derive(Clone, Debug)]
pub(super) struct BatchTable {
    pub(super) declared: Declared,
    pub(super) identity: Option<Identity>,
}

impl Described for BatchTable {
    fn table_name(&self) -> &str {
        &self.declared.name
    }

    fn declared(&self) -> Result<Declared> {
        Ok(self.declared.clone())
    }

    fn identity(&self) -> Option<Identity> {
        self.identity
    }
}

impl OnRecord {
    fn run(&self, txn: &mut Txn, tables: Tables<'_>) -> Result<Verdict> {
        match &self.act {
            Act::Check(condition) => self.check(txn, tables, *condition),
            Act::Put(condition, value) => {
                let info = tables.resolve_or_create(txn, &*self.table)?;
                let state = info.machine().map(Machine::initial);
                self.put(txn, &info, *condition, Offered { value, state })
            }
            Act::Create(state, value) => {
                let info = tables.resolve_or_create(txn, &*self.table)?;
                let state = Some(info.named_state(Some(state))?);
                self.put(txn, &info, Condition::Absent, Offered { value, state })
            }
            Act::Delete(condition) => self.delete(txn, tables, *condition),
            Act::Transition { from, to, value } => self.transition(txn, tables, [from, to], value.as_deref()),
        }
    }

    fn check(&self, txn: &Txn, tables: Tables<'_>, condition: Condition) -> Result<Verdict> {
        let stored = match tables.resolve(txn, &*self.table)? {
            Some(info) => record::read(txn, &info.record_key(&self.key))?,
            None => None,
        };
        if !holds(condition, stored.as_ref().map(|raw| raw.version))? {
            let codec = self.table.declared.codec;
            let found = stored.map_or_else(|| record::found_nothing(codec), |raw| raw.found(codec));
            return Ok(Verdict::Fails { found, why: None });
        }
        Ok(self.would_be(None))
    }

    fn put(&self, txn: &mut Txn, info: &TableInfo, condition: Condition, offered: Offered<'_>) -> Result<Verdict> {
        let put = Put {
            table: info.id,
            codec: info.codec(),
            condition,
            offered,
        };
        let written = record::put(txn, info.record_key(&self.key), put);
        Ok(match written.map_err(|cause| in_damaged(info, &self.key, cause))? {
            Written::Applied(version) => self.would_be(Some(version)),
            Written::Unchanged(version) => Verdict::Already(Some(version)),
            Written::Conflict(found) => Verdict::Fails { found, why: None },
        })
    }

    fn delete(&self, txn: &mut Txn, tables: Tables<'_>, condition: Condition) -> Result<Verdict> {
        let Some(info) = tables.resolve(txn, &*self.table)? else {
            return Ok(Verdict::Already(None));
        };
        let key = info.record_key(&self.key);
        let deleted = record::delete(txn, info.id, key, info.codec(), condition);
        Ok(match deleted.map_err(|cause| in_damaged(&info, &self.key, cause))? {
            Deleted::Applied(version) => self.would_be(Some(version)),
            Deleted::AlreadyGone => Verdict::Already(None),
            Deleted::Conflict(found) => Verdict::Fails { found, why: None },
        })
    }

    fn transition(
        &self,
        txn: &mut Txn,
        tables: Tables<'_>,
        [from, to]: [&String; 2],
        value: Option<&[u8]>,
    ) -> Result<Verdict> {
        if tables.resolve(txn, &*self.table)?.is_none() {
            if let Some(Some(machine)) = &self.table.declared.machine {
                // An undeclared move is a mistake, also where there is nothing to be moved.
                decide_transition(machine, None, from, to)?;
            }
            return Ok(Verdict::Fails {
                found: record::found_nothing(self.table.declared.codec),
                why: Some(Why::Missing),
            });
        }
        // The program may have added the state that it asks for.
        let info = tables.resolve_or_create(txn, &*self.table)?;
        let (from, to) = (info.named_state(Some(from))?, info.named_state(Some(to))?);
        let key = info.record_key(&self.key);
        let moved = transition::transition(txn, &info, key, from, to, value);
        Ok(match moved.map_err(|cause| in_damaged(&info, &self.key, cause))? {
            Transitioned::Applied(version) => self.would_be(Some(version)),
            Transitioned::AlreadyThere(version) => Verdict::Already(Some(version)),
            Transitioned::Refused(refusal) => Verdict::Fails {
                found: refusal.found,
                why: Some(refusal.why),
            },
        })
    }

    /// The verdict of an operation that nothing stands against.
    fn would_be(&self, version: Option<Version>) -> Verdict {
        if self.act.votes() {
            Verdict::Holds(version)
        } else {
            Verdict::Unguarded(version)
        }
    }
}
