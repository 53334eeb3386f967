//! Batch to JSON.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::{Act, Batch, Operation, in_operation, invalid};
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
    operations: Vec<OperationText<'a>>,
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
struct OperationText<'a> {
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
    let mut tables = BTreeMap::new();
    let mut operations = Vec::new();
    for (place, operation) in batch.operations.iter().enumerate() {
        let declared = &operation.table.declared;
        if *tables.entry(declared.name.as_str()).or_insert(declared) != declared {
            let cause = invalid(&format!("table is described in two ways, table={}", declared.name));
            return Err(in_operation(place, cause));
        }
        operations.push(operation_text(operation).map_err(|cause| in_operation(place, cause))?);
    }
    let once = batch.once.as_ref().map(once_text).transpose()?;
    let tables = tables
        .into_iter()
        .map(|(name, declared)| (name, table_text(declared)))
        .collect();
    let text = BatchText {
        once,
        tables,
        operations,
    };
    serde_json::to_string(&text)
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, "batch has no form as JSON", cause))
}

fn once_text(key: &OnceKey) -> Result<OnceText<'_>> {
    let keep = key.keep().to_string();
    if keep.parse::<Keep>()? != key.keep() {
        return Err(invalid(&format!("keep has no form as text, keep={keep}")));
    }
    let issued_at = key.issued().map(|time| {
        // Its 64 bits of nanoseconds end in 2262, where the text form still has four digits for the year.
        if time < UNIX_EPOCH {
            return Err(invalid("time of issue before 1970 has no form as text"));
        }
        Ok(humantime::format_rfc3339_nanos(time).to_string())
    });
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

fn operation_text(operation: &Operation) -> Result<OperationText<'_>> {
    let Declared { name, key, codec, .. } = &operation.table.declared;
    let mut text = OperationText {
        op: "",
        table: name,
        key: key_text(key, &operation.key)?,
        condition: None,
        state: None,
        from: None,
        to: None,
        value: None,
    };
    match &operation.act {
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
