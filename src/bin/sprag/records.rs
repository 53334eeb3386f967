//! `get`, `put`, `delete`, `transition`: one record, by a table that is known at run time only.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sprag::{
    CodecId, Condition, Deleted, DynKey, DynTable, KeyKind, Once, OnceKey, Record, Store, TableInfo, Transitioned,
    Version, Why, WriteTx, Written,
};

use crate::answer::{Answer, Work, plain, time_text};
use crate::args::{DeleteArgs, GetArgs, PutArgs, TransitionArgs};
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
    fn new(outcome: &'static str, version: Option<Version>) -> Outcome {
        Outcome {
            outcome,
            version: version.map(Version::get),
            first_at: None,
        }
    }

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

#[derive(Serialize)]
#[serde(untagged)]
enum ShownValue<'a> {
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
    fn new(codec: CodecId, bytes: &'a [u8]) -> Result<ShownValue<'a>, Failure> {
        match codec {
            CodecId::Json => json::stored(bytes).map(ShownValue::Json),
            _ => Ok(ShownValue::Bytes {
                base64: encode_base64(bytes),
            }),
        }
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

/// What a put under a remembered key answered, as the store keeps it.
#[derive(Serialize, Deserialize)]
struct FirstAnswer {
    applied: bool,
    version: Version,
}

impl FirstAnswer {
    fn outcome(&self) -> Outcome {
        Outcome::new(if self.applied { "applied" } else { "unchanged" }, Some(self.version))
    }
}

pub fn put(store: &Store, args: &PutArgs, input: Input, json: bool) -> Result<Answer, Failure> {
    let table = table_to_write(store, args)?;
    let key = DynKey::parse(table.key_kind(), &args.place.key)?;
    let value = input.encode(table.codec())?;
    let condition = args.condition();
    let work = |tx: &mut WriteTx<'_>| put_in(tx, &table, &key, condition, &value);
    let (Some(name), Some(keep)) = (&args.once, args.keep) else {
        return store.write(work)?.outcome().answer(json);
    };
    let operation = canonical_put(&table, &key, condition, &value);
    let once = OnceKey::new(&name.scope, &name.key, keep).bound_to(operation);
    match store.once(&once, work)? {
        Once::First(answer) => answer.outcome().answer(json),
        Once::Repeat { result, first_at } => {
            let outcome = Outcome {
                first_at: Some(time_text(first_at)),
                ..Outcome::new("repeat", Some(result.version))
            };
            outcome.answer(json)
        }
    }
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

/// A conflict is an error here, so that it leaves neither a new table nor a remembered key.
fn put_in(
    tx: &mut WriteTx<'_>,
    table: &DynTable,
    key: &DynKey,
    condition: Condition,
    value: &Vec<u8>,
) -> Result<FirstAnswer, Failure> {
    match tx.put_if(table, key, condition, value)? {
        Written::Applied(version) => Ok(FirstAnswer { applied: true, version }),
        Written::Unchanged(version) => Ok(FirstAnswer {
            applied: false,
            version,
        }),
        Written::Conflict(found) => Err(Failure::conflict(&found)),
    }
}

/// The operation as bytes, each part behind its length, so that no two operations have the same. Its digest is what a
/// remembered key is bound to; changing this makes repeats of older operations a mismatch.
fn canonical_put(table: &DynTable, key: &DynKey, condition: Condition, value: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    key.encode(&mut encoded);
    let (kind, codec, condition) = (
        table.key_kind().to_string(),
        table.codec().to_string(),
        condition.to_string(),
    );
    let parts: [&[u8]; 7] = [
        b"put 1",
        table.name().as_bytes(),
        kind.as_bytes(),
        &encoded,
        condition.as_bytes(),
        codec.as_bytes(),
        value,
    ];
    let mut out = Vec::new();
    for part in parts {
        out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

pub fn delete(store: &Store, args: &DeleteArgs, json: bool) -> Result<Answer, Failure> {
    let table = table_of(store, &args.place.table)?.open();
    let key = DynKey::parse(table.key_kind(), &args.place.key)?;
    match store.delete_if(&table, &key, args.condition())? {
        Deleted::Applied(version) => Outcome::new("applied", Some(version)).answer(json),
        Deleted::AlreadyGone => Outcome::new("already gone", None).answer(json),
        Deleted::Conflict(found) => Err(Failure::conflict(&found)),
    }
}

pub fn transition(store: &Store, args: &TransitionArgs, json: bool) -> Result<Answer, Failure> {
    let place = &args.place;
    let info = table_of(store, &place.table)?;
    if info.machine().is_none() {
        return Err(Failure::no_states(&place.table));
    }
    let table = info.open();
    let key = DynKey::parse(table.key_kind(), &place.key)?;
    match store.transition(&table, &key, Some(args.from.clone()), Some(args.to.clone()))? {
        Transitioned::Applied(version) => Outcome::new("applied", Some(version)).answer(json),
        Transitioned::AlreadyThere(version) => Outcome::new("already there", Some(version)).answer(json),
        Transitioned::Refused(refusal) if refusal.why == Why::Missing => {
            Err(Failure::no_record(&place.table, &place.key))
        }
        Transitioned::Refused(refusal) => Err(Failure::refused(refusal.why, &refusal.found)),
    }
}
