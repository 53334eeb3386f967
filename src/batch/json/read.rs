//! JSON to batch.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::{Act, Batch, BatchTable, Operation, in_operation, invalid};
use crate::codec::{CodecId, DynKey, Json, KeyKind};
use crate::dedupe::OnceKey;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::STATE_NAME_BYTES_MAX;
use crate::machine::Machine;
use crate::record::decide::Condition;
use crate::table::{Declared, DynTable, TableInfo, TableSpec, catalog};

/// Longest part of somebody's text that a message quotes, in characters.
const QUOTED_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchText<'a> {
    once: Option<OnceText>,
    #[serde(default)]
    tables: Described,
    #[serde(borrow)]
    operations: Vec<OperationText<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnceText {
    scope: String,
    key: String,
    keep: String,
    issued_at: Option<String>,
}

/// Descriptions by name. A name that is given twice is an error, where a map would take the last one.
#[derive(Default)]
struct Described(HashMap<String, TableText>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    key: String,
    codec: String,
    schema: Option<u32>,
    /// Left out: whatever the file has. Null: there is none.
    #[serde(default, deserialize_with = "given")]
    machine: Option<Option<MachineText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineText {
    name: String,
    states: Vec<String>,
    initial: String,
    moves: Vec<(String, String)>,
    #[serde(default)]
    cyclic: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationText<'a> {
    op: Word,
    table: String,
    key: KeyText,
    condition: Option<ConditionText>,
    #[serde(borrow, default, deserialize_with = "given")]
    value: Option<&'a RawValue>,
    state: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Check,
    Put,
    Create,
    Delete,
    Transition,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ConditionText {
    Any,
    Absent,
    Present,
    Version(u64),
}

/// A key as a number, or in the text form of its kind.
enum KeyText {
    U64(u64),
    I64(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BytesText {
    base64: String,
}

/// A field that is there, also if it is null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyText, D::Error> {
        struct Form;

        impl Visitor<'_> for Form {
            type Value = KeyText;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a key: a whole number of 64 bits, or a text")
            }

            fn visit_u64<E>(self, number: u64) -> Result<KeyText, E> {
                Ok(KeyText::U64(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<KeyText, E> {
                Ok(KeyText::I64(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<KeyText, E> {
                Ok(KeyText::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(Form)
    }
}

impl<'de> Deserialize<'de> for Described {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Described, D::Error> {
        struct Form;

        impl<'de> Visitor<'de> for Form {
            type Value = Described;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("descriptions of tables by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Described, A::Error> {
                let mut tables = HashMap::new();
                while let Some((name, table)) = map.next_entry::<String, TableText>()? {
                    let shown = quoted(&name);
                    if tables.insert(name, table).is_some() {
                        return Err(A::Error::custom(format_args!("table `{shown}` is described twice")));
                    }
                }
                Ok(Described(tables))
            }
        }

        deserializer.deserialize_map(Form)
    }
}

pub(super) fn read(text: &str, tables: &[TableInfo]) -> Result<Batch> {
    let read: BatchText<'_> = serde_json::from_str(text).map_err(|cause| not_a_batch(&cause))?;
    let mut batch = Batch::new();
    if let Some(once) = &read.once {
        batch = batch.once(&once.key().map_err(|cause| {
            let kind = cause.kind();
            cause.into_kind(kind, "remembered key of a batch is refused")
        })?);
    }
    let mut known = Known {
        described: read.tables.0,
        tables,
        met: HashMap::new(),
    };
    for (place, operation) in read.operations.iter().enumerate() {
        let pushed = operation.operation(&mut known).and_then(|ready| batch.push(ready));
        pushed.map_err(|cause| in_operation(place, cause))?;
    }
    batch.ready()?;
    Ok(batch)
}

fn not_a_batch(cause: &serde_json::Error) -> Error {
    let message = format!("not a batch, line={}, column={}", cause.line(), cause.column());
    Error::with_source(ErrorKind::Invalid, message, quoted(&cause.to_string()))
}

/// The beginning and the end of a text that may be long.
fn quoted(text: &str) -> String {
    let count = text.chars().count();
    if count <= QUOTED_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(QUOTED_MAX / 2).collect();
    let tail: String = text.chars().skip(count - QUOTED_MAX / 2).collect();
    format!("{head} .. {tail}")
}

impl OnceText {
    fn key(&self) -> Result<OnceKey> {
        let DynKey::Bytes(key) = DynKey::parse(&KeyKind::Bytes, &self.key)? else {
            return Err(invalid("remembered key is not bytes"));
        };
        let mut once = OnceKey::new(&self.scope, key, self.keep.parse()?);
        if let Some(time) = &self.issued_at {
            let issued = humantime::parse_rfc3339(time).map_err(|cause| {
                let message = format!("not a time as 2026-11-30T12:00:00Z, text={:?}", quoted(time));
                Error::with_source(ErrorKind::Invalid, message, cause)
            })?;
            once = once.issued_at(issued);
        }
        once.check()?;
        Ok(once)
    }
}

/// The tables that operations may name.
struct Known<'t> {
    described: HashMap<String, TableText>,
    tables: &'t [TableInfo],
    met: HashMap<String, Arc<BatchTable>>,
}

impl Known<'_> {
    fn table(&mut self, name: &str) -> Result<Arc<BatchTable>> {
        if let Some(table) = self.met.get(name) {
            return Ok(table.clone());
        }
        catalog::check_name(name)?;
        let declared = match self.described.get(name) {
            Some(text) => text.declared(name)?,
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
}

impl TableText {
    fn declared(&self, name: &str) -> Result<Declared> {
        let mut declared = Declared::open(name, self.key.parse()?, self.codec.parse()?);
        declared.schema = self.schema;
        if let Some(machine) = &self.machine {
            declared.machine = Some(machine.as_ref().map(MachineText::machine).transpose()?);
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
        let table = known.table(&self.table)?;
        let declared = &table.declared;
        let described = DynTable::new(&self.table, declared.key.clone(), declared.codec);
        let key = (&described).encode_key(&self.key.key(&declared.key)?)?;
        let act = match self.op {
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
        Ok(Operation { table, key, act })
    }

    /// Whether the fields are those of the operation.
    fn check_fields(&self) -> Result<()> {
        let fields = [
            ("condition", self.condition.is_some()),
            ("value", self.value.is_some()),
            ("state", self.state.is_some()),
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
        ];
        let (needed, allowed): (&[&str], &[&str]) = match self.op {
            Word::Check => (&["condition"], &[]),
            Word::Put => (&["value"], &["condition"]),
            Word::Create => (&["state", "value"], &[]),
            Word::Delete => (&[], &["condition"]),
            Word::Transition => (&["from", "to"], &["value"]),
        };
        for (field, is_there) in fields {
            if is_there && !needed.contains(&field) && !allowed.contains(&field) {
                return Err(invalid(&format!("this operation takes no such field, field={field}")));
            }
            if !is_there && needed.contains(&field) {
                return Err(invalid(&format!("this operation lacks a field, field={field}")));
            }
        }
        Ok(())
    }

    fn condition(&self) -> Condition {
        match self.condition {
            None | Some(ConditionText::Any) => Condition::Any,
            Some(ConditionText::Absent) => Condition::Absent,
            Some(ConditionText::Present) => Condition::Present,
            Some(ConditionText::Version(version)) => Condition::Version(version),
        }
    }

    fn value(&self, codec: CodecId) -> Result<Vec<u8>> {
        match self.value {
            Some(value) => encode_value(value, codec),
            None => Err(invalid("this operation lacks a field, field=value")),
        }
    }
}

fn state(name: Option<&str>) -> Result<String> {
    checked_state(name.unwrap_or_default())
}

/// A value as its table keeps it. Values that are not JSON are bytes, which nothing checks.
fn encode_value(value: &RawValue, codec: CodecId) -> Result<Vec<u8>> {
    if codec == CodecId::Json {
        return Json::compact(value.get().as_bytes());
    }
    let message = format!("value is not bytes as {{\"base64\":\"..\"}}, codec={codec}");
    let text: BytesText = serde_json::from_str(value.get())
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, message.as_str(), quoted(&cause.to_string())))?;
    BASE64
        .decode(text.base64)
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, message, cause))
}

impl KeyText {
    fn key(&self, kind: &KeyKind) -> Result<DynKey> {
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
