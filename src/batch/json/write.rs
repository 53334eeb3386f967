//! Batch to JSON.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::{Act, Batch, OnRecord, Operation, in_operation, invalid};
use super::terms::{EnqueueText, duration_text, enqueue_text, time_text};
use crate::codec::{CodecId, DynKey, Json, KeyKind};
use crate::dedupe::{Keep, OnceKey};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::Machine;
use crate::record::decide::Condition;
use crate::table::Declared;

#[derive(Serialize)]
struct BatchText<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    once: Option<OnceText<'a>>,
    tables: BTreeMap<&'a str, TableText<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    queues: BTreeMap<&'a str, QueueText>,
    operations: Vec<OperationText<'a>>,
}

#[derive(PartialEq, Serialize)]
struct QueueText {
    codec: String,
    at_most_once: bool,
}

#[derive(Serialize)]
struct OnceText<'a> {
    scope: &'a str,
    key: String,
    keep: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct TableText<'a> {
    key: String,
    codec: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<Option<MachineText<'a>>>,
}

#[derive(Serialize)]
pub(crate) struct MachineText<'a> {
    name: &'a str,
    states: &'a [String],
    initial: &'a str,
    moves: Vec<(&'a str, &'a str)>,
    cyclic: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OperationText<'a> {
    Record(RecordText<'a>),
    Enqueue(EnqueueText<'a>),
}

#[derive(Serialize)]
struct RecordText<'a> {
    op: &'static str,
    table: &'a str,
    key: KeyText,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<ConditionText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<ValueText<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum KeyText {
    U64(u64),
    I64(i64),
    Text(String),
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ConditionText {
    Any,
    Absent,
    Present,
    Version(u64),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ValueText<'a> {
    Json(&'a RawValue),
    Bytes { base64: String },
}

pub(super) fn write(batch: &Batch) -> Result<String> {
    batch.ready()?;
    let (mut tables, mut queues) = (BTreeMap::new(), BTreeMap::new());
    let mut operations = Vec::new();
    for (place, operation) in batch.operations.iter().enumerate() {
        let text = match operation {
            Operation::Record(record) => describe(
                "table",
                &mut tables,
                &record.table.declared.name,
                &record.table.declared,
            )
            .and_then(|()| record_text(record).map(OperationText::Record)),
            Operation::Enqueue(enqueue) => {
                let queue = QueueText {
                    codec: enqueue.queue.codec.to_string(),
                    at_most_once: enqueue.queue.at_most_once,
                };
                describe("queue", &mut queues, &enqueue.queue.name, queue)
                    .and_then(|()| enqueue_text(enqueue).map(OperationText::Enqueue))
            }
        };
        operations.push(text.map_err(|cause| in_operation(place, cause))?);
    }
    let once = batch.once.as_ref().map(once_text).transpose()?;
    let tables = tables
        .into_iter()
        .map(|(name, declared)| (name, table_text(declared)))
        .collect();
    let text = BatchText {
        once,
        tables,
        queues,
        operations,
    };
    serde_json::to_string(&text)
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, "batch has no form as JSON", cause))
}

/// Takes a description in, unless its name has another one.
fn describe<'b, T: PartialEq>(of: &str, all: &mut BTreeMap<&'b str, T>, name: &'b str, description: T) -> Result<()> {
    match all.get(name) {
        Some(known) if *known != description => Err(invalid(&format!("{of} is described in two ways, {of}={name}"))),
        _ => {
            all.insert(name, description);
            Ok(())
        }
    }
}

fn once_text(key: &OnceKey) -> Result<OnceText<'_>> {
    let keep = match key.keep() {
        Keep::For(time) => duration_text(time)?,
        Keep::Forever => Keep::Forever.to_string(),
    };
    let issued_at = key.issued().map(time_text);
    Ok(OnceText {
        scope: key.scope(),
        key: DynKey::Bytes(key.key().to_vec()).to_string(),
        keep,
        issued_at: issued_at.transpose()?,
    })
}

pub(crate) fn table_text(declared: &Declared) -> TableText<'_> {
    let machine = declared.machine.as_ref();
    TableText {
        key: declared.key.to_string(),
        codec: declared.codec.to_string(),
        schema: declared.schema,
        machine: machine.map(|machine| machine.as_ref().map(machine_text)),
    }
}

fn machine_text(machine: &Machine) -> MachineText<'_> {
    MachineText {
        name: machine.name(),
        states: machine.states(),
        initial: machine.initial(),
        moves: machine.moves().collect(),
        cyclic: machine.is_cyclic(),
    }
}

fn record_text(record: &OnRecord) -> Result<RecordText<'_>> {
    let Declared { name, key, codec, .. } = &record.table.declared;
    let mut text = RecordText {
        op: "",
        table: name,
        key: key_text(key, &record.key)?,
        condition: None,
        state: None,
        from: None,
        to: None,
        value: None,
    };
    match &record.act {
        Act::Check(condition) => {
            text.op = "check";
            text.condition = Some(condition_text(*condition));
        }
        Act::Put(condition, value) => {
            text.op = "put";
            text.condition = Some(condition_text(*condition));
            text.value = Some(value_text(*codec, value)?);
        }
        Act::Create(state, value) => {
            text.op = "create";
            text.state = Some(state);
            text.value = Some(value_text(*codec, value)?);
        }
        Act::Delete(condition) => {
            text.op = "delete";
            text.condition = Some(condition_text(*condition));
        }
        Act::Transition { from, to, value } => {
            text.op = "transition";
            text.from = Some(from);
            text.to = Some(to);
            text.value = value.as_ref().map(|value| value_text(*codec, value)).transpose()?;
        }
    }
    Ok(text)
}

pub(crate) fn key_text(kind: &KeyKind, encoded: &[u8]) -> Result<KeyText> {
    Ok(match DynKey::decode(kind, encoded)? {
        DynKey::U64(number) => KeyText::U64(number),
        DynKey::I64(number) => KeyText::I64(number),
        key => KeyText::Text(key.to_string()),
    })
}

fn condition_text(condition: Condition) -> ConditionText {
    match condition {
        Condition::Any => ConditionText::Any,
        Condition::Absent => ConditionText::Absent,
        Condition::Present => ConditionText::Present,
        Condition::Version(version) => ConditionText::Version(version),
    }
}

pub(crate) fn value_text(codec: CodecId, value: &[u8]) -> Result<ValueText<'_>> {
    if codec != CodecId::Json {
        return Ok(ValueText::Bytes {
            base64: BASE64.encode(value),
        });
    }
    // Any other form would be read back as other bytes.
    match Json::compact(value) {
        Ok(compact) if compact == value => serde_json::from_slice(value)
            .map(ValueText::Json)
            .map_err(|cause| Error::with_source(ErrorKind::Invalid, NOT_COMPACT, cause)),
        Ok(_) => Err(invalid(NOT_COMPACT)),
        Err(cause) => Err(cause.into_kind(ErrorKind::Invalid, NOT_COMPACT)),
    }
}

const NOT_COMPACT: &str = "value of a table of JSON values is not JSON without whitespace";
