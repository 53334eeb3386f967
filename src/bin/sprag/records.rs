//! `get`, `put`, `delete`, `transition`: one record, by a table that is known at run time only.

use serde::Serialize;
use serde_json::value::RawValue;
use sprag::{Batch, CodecId, DynKey, DynTable, KeyKind, Record, Store, TableInfo, Verdict, Version};

use crate::answer::{Answer, Work, plain, time_text};
use crate::args::{DeleteArgs, GetArgs, OnceArgs, PutArgs, TransitionArgs};
use crate::failure::Failure;
use crate::json;
use crate::value::{Input, encode_base64};

/// An outcome in one word, with the facts that belong to it.
#[derive(Serialize)]
struct Outcome {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_at: Option<String>,
}

impl Outcome {
    fn answer(&self, json: bool) -> Result<Answer, Failure> {
        Answer::new(json, Work::Write, self, || {
            let mut text = self.outcome.to_owned();
            if let Some(version) = self.version {
                text.push_str(&format!(" version={version}"));
            }
            if let Some(first_at) = &self.first_at {
                text.push_str(&format!(" first_at={first_at}"));
            }
            text
        })
    }
}

/// A record as it is shown.
#[derive(Serialize)]
pub struct Shown<'a> {
    table: &'a str,
    key: ShownKey,
    version: u64,
    state: Option<&'a str>,
    value: ShownValue<'a>,
}

impl<'a> Shown<'a> {
    pub fn new(table: &'a DynTable, key: &DynKey, record: &'a StoredRecord) -> Result<Shown<'a>, Failure> {
        Ok(Shown {
            table: table.name(),
            key: ShownKey::new(key),
            version: record.version.get(),
            state: record.state.as_deref(),
            value: ShownValue::new(table.codec(), &record.value)?,
        })
    }

    /// Key, version, state and value with tabs between, none of which has a tab or a newline in it.
    pub fn line(&self, key: &DynKey) -> String {
        let state = plain(self.state.unwrap_or("none"));
        let key = plain(&key.to_string());
        let value = json::one_line(self.value.text());
        format!("{key}\t{}\t{state}\t{value}", self.version)
    }
}

/// A record of a table that is known at run time only.
pub type StoredRecord = Record<Vec<u8>, Option<String>>;

#[derive(Serialize)]
#[serde(untagged)]
enum ShownKey {
    U64(u64),
    I64(i64),
    Text(String),
}

/// A stored value as it is shown.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ShownValue<'a> {
    Json(#[serde(serialize_with = "json::on_one_line")] &'a RawValue),
    Bytes { base64: String },
}

impl ShownKey {
    fn new(key: &DynKey) -> ShownKey {
        match key {
            DynKey::U64(number) => ShownKey::U64(*number),
            DynKey::I64(number) => ShownKey::I64(*number),
            DynKey::Str(_) | DynKey::Bytes(_) | DynKey::Array(_) | DynKey::Pair(..) => ShownKey::Text(key.to_string()),
        }
    }
}

impl<'a> ShownValue<'a> {
    pub fn new(codec: CodecId, bytes: &'a [u8]) -> Result<ShownValue<'a>, Failure> {
        match codec {
            CodecId::Json => json::stored(bytes).map(ShownValue::Json),
            _ => Ok(ShownValue::bytes(bytes)),
        }
    }

    /// Whatever the bytes are.
    pub fn bytes(bytes: &[u8]) -> ShownValue<'a> {
        let base64 = encode_base64(bytes);
        ShownValue::Bytes { base64 }
    }

    fn text(&self) -> &str {
        match self {
            ShownValue::Json(text) => text.get(),
            ShownValue::Bytes { base64 } => base64,
        }
    }
}

/// A table that must be in the file.
fn table_of(store: &Store, name: &str) -> Result<TableInfo, Failure> {
    store.read(|tx| tx.table(name))?.ok_or_else(|| Failure::no_table(name))
}

pub fn get(store: &Store, args: &GetArgs, json: bool) -> Result<Answer, Failure> {
    let place = &args.place;
    let table = table_of(store, &place.table)?.open();
    let key = DynKey::parse(table.key_kind(), &place.key)?;
    let record = store
        .get(&table, &key)?
        .ok_or_else(|| Failure::no_record(&place.table, &place.key))?;
    let shown = Shown::new(&table, &key, &record)?;
    Answer::new(json, Work::Read, &shown, || {
        if !args.long {
            return shown.value.text().to_owned();
        }
        let (version, state) = (shown.version, plain(shown.state.unwrap_or("none")));
        format!("version {version}\nstate {state}\nvalue {}", shown.value.text())
    })
}

/// One operation, with or without a remembered key. `unchanged` is the word for a record that already is so.
fn carry_out(store: &Store, batch: Batch, once: &OnceArgs, unchanged: &'static str) -> Result<Outcome, Failure> {
    let batch = match once.key() {
        Some(key) => batch.once(&key),
        None => batch,
    };
    let told = store
        .apply(&batch)
        .map_err(|cause| Failure::from(of_the_operation(cause)))?;
    let first_at = match &told {
        sprag::Outcome::Repeat { first_at, .. } => Some(time_text(*first_at)),
        _ => None,
    };
    let (word, version) = match told.verdicts().first() {
        Some(Verdict::Holds(version) | Verdict::Unguarded(version)) => ("applied", *version),
        Some(Verdict::Already(version)) => (unchanged, *version),
        Some(Verdict::Fails { found, why: None }) => return Err(Failure::conflict(found)),
        Some(Verdict::Fails { found, why: Some(why) }) => return Err(Failure::refused(*why, found)),
        // No operation here is of a message.
        Some(Verdict::Enqueued(_)) | None => (unchanged, None),
    };
    Ok(Outcome {
        outcome: if first_at.is_some() { "repeat" } else { word },
        version: version.map(Version::get),
        first_at,
    })
}

/// There is only one operation, so its place says nothing.
fn of_the_operation(error: sprag::Error) -> sprag::Error {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<sprag::Error>());
    match cause {
        Some(cause) if cause.kind() == error.kind() => cause.clone(),
        _ => error,
    }
}

pub fn put(store: &Store, args: &PutArgs, input: Input, json: bool) -> Result<Answer, Failure> {
    let table = table_to_write(store, args)?;
    let key = DynKey::parse(table.key_kind(), &args.place.key)?;
    let value = input.encode(table.codec())?;
    let batch = Batch::new().put_if(&table, &key, args.condition(), &value);
    carry_out(store, batch, &args.once, "unchanged")?.answer(json)
}

/// The table as the file has it, or a new one as the arguments say.
fn table_to_write(store: &Store, args: &PutArgs) -> Result<DynTable, Failure> {
    let name = &args.place.table;
    let asked = args.key_kind.map(crate::args::NewKind::kind);
    match (store.read(|tx| tx.table(name))?, asked) {
        (Some(info), Some(asked)) if *info.key_kind() != asked => {
            let kind = info.key_kind();
            Err(Failure::schema(format!(
                "the table has keys of another kind, table={name}, key_in_file={kind}, key_asked={asked}"
            )))
        }
        (Some(info), _) => Ok(info.open()),
        (None, asked) => Ok(DynTable::new(name, asked.unwrap_or(KeyKind::Str), CodecId::Json)),
    }
}

pub fn delete(store: &Store, args: &DeleteArgs, json: bool) -> Result<Answer, Failure> {
    let table = table_of(store, &args.place.table)?.open();
    let key = DynKey::parse(table.key_kind(), &args.place.key)?;
    let batch = Batch::new().delete_if(&table, &key, args.condition());
    carry_out(store, batch, &args.once, "already gone")?.answer(json)
}

pub fn transition(store: &Store, args: &TransitionArgs, json: bool) -> Result<Answer, Failure> {
    let place = &args.place;
    let info = table_of(store, &place.table)?;
    if info.machine().is_none() {
        return Err(Failure::no_states(&place.table));
    }
    let table = info.open();
    let key = DynKey::parse(table.key_kind(), &place.key)?;
    let batch = Batch::new().transition(&table, &key, Some(args.from.clone()), Some(args.to.clone()));
    match carry_out(store, batch, &args.once, "already there") {
        Err(failure) if failure.is_missing() => Err(Failure::no_record(&place.table, &place.key)),
        outcome => outcome?.answer(json),
    }
}
