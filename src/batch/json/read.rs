//! JSON to batch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::value::RawValue;

use super::super::{Act, Batch, BatchTable, OnRecord, Operation, in_operation, invalid};
use super::forms::{
    BatchText, BytesText, ConditionText, ConditionWord, Description, KeyText, MachineText, Object, OnceText,
    OperationText, QueueText, TableText, Word,
};
use super::quoted;
use super::terms::read_time;
use crate::codec::{CodecId, DynKey, Json, KeyKind};
use crate::dedupe::OnceKey;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::STATE_NAME_BYTES_MAX;
use crate::machine::Machine;
use crate::outbox::{self, DynQueue, QueueInfo};
use crate::record::decide::Condition;
use crate::table::{Declared, DynTable, TableInfo, TableSpec, catalog};

pub(super) fn read(text: &str, tables: &[TableInfo], queues: &[QueueInfo]) -> Result<Batch> {
    let Object(read): Object<BatchText<'_>> = serde_json::from_str(text).map_err(|cause| not_a_batch(&cause))?;
    let mut batch = Batch::new();
    if let Some(Object(once)) = &read.once {
        let key = once.key();
        batch = batch.once(&key.map_err(|cause| cause.within("remembered key of a batch is refused"))?);
    }
    let mut known = Known {
        described: read.tables.0,
        tables,
        met: HashMap::new(),
        described_queues: read.queues.0,
        queues,
    };
    for (place, Object(operation)) in read.operations.iter().enumerate() {
        let pushed = operation.operation(&mut known).and_then(|ready| batch.push(ready));
        pushed.map_err(|cause| in_operation(place, cause))?;
    }
    // Also what no operation names is a description.
    for (name, Object(table)) in &known.described {
        let declared = catalog::check_name(name).and_then(|()| table.declared(name));
        declared.map_err(|cause| bad_description(TableText::OF, name, cause))?;
    }
    for (name, Object(queue)) in &known.described_queues {
        let declared = outbox::catalog::check_name(name).and_then(|()| queue.declared(name));
        declared.map_err(|cause| bad_description(QueueText::OF, name, cause))?;
    }
    batch.ready()?;
    Ok(batch)
}

fn bad_description(of: &str, name: &str, cause: Error) -> Error {
    let (kind, name) = (cause.kind(), quoted(name));
    cause.into_kind(kind, format!("description of a {of} is refused, {of}={name:?}"))
}

fn not_a_batch(cause: &serde_json::Error) -> Error {
    let message = format!("not a batch, line={}, column={}", cause.line(), cause.column());
    Error::with_source(ErrorKind::Invalid, message, quoted(&cause.to_string()))
}

impl OnceText {
    fn key(&self) -> Result<OnceKey> {
        let DynKey::Bytes(key) = DynKey::parse(&KeyKind::Bytes, &self.key)? else {
            return Err(invalid("remembered key is not bytes"));
        };
        let mut once = OnceKey::new(&self.scope, key, self.keep.parse()?);
        if let Some(time) = &self.issued_at {
            once = once.issued_at(read_time(time)?);
        }
        once.check()?;
        Ok(once)
    }
}

/// The tables and queues that operations may name.
pub(super) struct Known<'t> {
    described: BTreeMap<String, Object<TableText>>,
    tables: &'t [TableInfo],
    met: HashMap<String, Arc<BatchTable>>,
    described_queues: BTreeMap<String, Object<QueueText>>,
    queues: &'t [QueueInfo],
}

impl Known<'_> {
    fn table(&mut self, name: &str) -> Result<Arc<BatchTable>> {
        if let Some(table) = self.met.get(name) {
            return Ok(table.clone());
        }
        catalog::check_name(name)?;
        let declared = match self.described.get(name) {
            Some(Object(text)) => text.declared(name)?,
            None => {
                let info = self.tables.iter().find(|info| info.name() == name);
                let info = info.ok_or_else(|| {
                    let message = format!("table is neither in the file nor described under tables, table={name:?}");
                    Error::new(ErrorKind::Invalid, message)
                })?;
                Declared::open(name, info.key_kind().clone(), info.codec())
            }
        };
        let table = Arc::new(BatchTable {
            declared,
            identity: None,
        });
        self.met.insert(name.to_owned(), table.clone());
        Ok(table)
    }

    pub(super) fn queue(&self, name: &str) -> Result<DynQueue> {
        outbox::catalog::check_name(name)?;
        if let Some(Object(text)) = self.described_queues.get(name) {
            return text.declared(name);
        }
        let info = self.queues.iter().find(|info| info.name() == name);
        info.map(QueueInfo::open).ok_or_else(|| {
            let message = format!("queue is neither in the file nor described under queues, queue={name:?}");
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

impl QueueText {
    fn declared(&self, name: &str) -> Result<DynQueue> {
        Ok(DynQueue::new(name, self.codec.parse()?).at_most_once(self.at_most_once))
    }
}

impl TableText {
    pub(crate) fn declared(&self, name: &str) -> Result<Declared> {
        let mut declared = Declared::open(name, self.key.parse()?, self.codec.parse()?);
        declared.schema = self.schema;
        if let Some(machine) = &self.machine {
            declared.machine = Some(machine.as_ref().map(|Object(text)| text.machine()).transpose()?);
        }
        Ok(declared)
    }
}

impl MachineText {
    fn machine(&self) -> Result<Machine> {
        let moves = self.moves.iter().flat_map(|(from, to)| [from, to]);
        let names = self.states.iter().chain([&self.name, &self.initial]).chain(moves);
        for name in names {
            checked_state(name)?;
        }
        Machine::build(&self.name, self.states.clone(), &self.initial, &self.moves, self.cyclic)
    }
}

/// A name of a state or a machine that a message may quote.
fn checked_state(name: &str) -> Result<String> {
    if name.len() <= STATE_NAME_BYTES_MAX {
        return Ok(name.to_owned());
    }
    let message = format!(
        "name of a state or a machine is too long, bytes={}, bytes_max={STATE_NAME_BYTES_MAX}",
        name.len()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

impl OperationText<'_> {
    fn operation(&self, known: &mut Known<'_>) -> Result<Operation> {
        self.check_fields()?;
        if let Word::Enqueue = self.op {
            return self.enqueue(known).map(Operation::Enqueue);
        }
        let name = self.table.as_deref().ok_or_else(|| lacking("table"))?;
        let table = known.table(name)?;
        let declared = &table.declared;
        let described = DynTable::new(name, declared.key.clone(), declared.codec);
        let key = self.key.as_ref().ok_or_else(|| lacking("key"))?;
        let key = (&described).encode_key(&key.key(&declared.key)?)?;
        let act = match self.op {
            Word::Enqueue => return Err(invalid("an enqueue is of no record")),
            Word::Check => Act::Check(self.condition()),
            Word::Put => Act::Put(self.condition(), self.value(declared.codec)?),
            Word::Create => Act::Create(state(self.state.as_deref())?, self.value(declared.codec)?),
            Word::Delete => Act::Delete(self.condition()),
            Word::Transition => Act::Transition {
                from: state(self.from.as_deref())?,
                to: state(self.to.as_deref())?,
                value: self
                    .value
                    .map(|value| encode_value(value, declared.codec))
                    .transpose()?,
            },
        };
        Ok(Operation::Record(OnRecord { table, key, act }))
    }

    /// Whether the fields are those of the operation.
    fn check_fields(&self) -> Result<()> {
        let fields = [
            ("table", self.table.is_some()),
            ("key", self.key.is_some()),
            ("condition", self.condition.is_some()),
            ("value", self.value.is_some()),
            ("state", self.state.is_some()),
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
            ("queue", self.queue.is_some()),
            ("message", self.message.is_some()),
            ("delay", self.delay.is_some()),
            ("at", self.at.is_some()),
            ("expires_at", self.expires_at.is_some()),
            ("headers", self.headers.is_some()),
            ("retry", self.retry.is_some()),
            ("on_dead", self.on_dead.is_some()),
        ];
        let (needed, allowed): (&[&str], &[&str]) = match self.op {
            Word::Check => (&["table", "key", "condition"], &[]),
            Word::Put => (&["table", "key", "value"], &["condition"]),
            Word::Create => (&["table", "key", "state", "value"], &[]),
            Word::Delete => (&["table", "key"], &["condition"]),
            Word::Transition => (&["table", "key", "from", "to"], &["value"]),
            Word::Enqueue => (
                &["queue", "message"],
                &["key", "delay", "at", "expires_at", "headers", "retry", "on_dead"],
            ),
        };
        for (field, is_there) in fields {
            if is_there && !needed.contains(&field) && !allowed.contains(&field) {
                return Err(invalid(&format!("this operation takes no such field, field={field}")));
            }
            if !is_there && needed.contains(&field) {
                return Err(lacking(field));
            }
        }
        Ok(())
    }

    fn condition(&self) -> Condition {
        match self.condition {
            None | Some(ConditionText::Word(ConditionWord::Any)) => Condition::Any,
            Some(ConditionText::Word(ConditionWord::Absent)) => Condition::Absent,
            Some(ConditionText::Word(ConditionWord::Present)) => Condition::Present,
            Some(ConditionText::Version(version)) => Condition::Version(version),
        }
    }

    fn value(&self, codec: CodecId) -> Result<Vec<u8>> {
        match self.value {
            Some(value) => encode_value(value, codec),
            None => Err(lacking("value")),
        }
    }
}

pub(super) fn lacking(field: &str) -> Error {
    invalid(&format!("this operation lacks a field, field={field}"))
}

fn state(name: Option<&str>) -> Result<String> {
    checked_state(name.unwrap_or_default())
}

/// A value as its table keeps it. Values that are not JSON are bytes, which nothing checks.
pub(crate) fn encode_value(value: &RawValue, codec: CodecId) -> Result<Vec<u8>> {
    if codec == CodecId::Json {
        return Json::compact(value.get().as_bytes());
    }
    let message = format!("value is not bytes as {{\"base64\":\"..\"}}, codec={codec}");
    let Object(text): Object<BytesText> = serde_json::from_str(value.get())
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, message.as_str(), quoted(&cause.to_string())))?;
    BASE64
        .decode(text.base64)
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, message, cause))
}

impl KeyText {
    pub(crate) fn key(&self, kind: &KeyKind) -> Result<DynKey> {
        let number = match self {
            KeyText::Text(text) => return DynKey::parse(kind, text),
            KeyText::U64(number) => number.to_string(),
            KeyText::I64(number) => number.to_string(),
        };
        match kind {
            KeyKind::U64 | KeyKind::I64 => DynKey::parse(kind, &number),
            _ => Err(invalid(&format!(
                "key is a number, and keys of its table are not, kind={kind}"
            ))),
        }
    }
}
