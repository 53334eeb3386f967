//! A store as lines: the header, the tables in the order of their numbers, their records, the remembered keys, each queue with
//! its messages, the end.

use std::io::{self, Write};

use serde::Serialize;

use super::lines::{Header, Written, base64};
use super::messages::{self, QueueLine};
use super::position::is_position;
use super::{Exported, FORM};
use crate::batch::json::{key_text, table_text, value_text};
use crate::codec::time::nanos;
use crate::codec::{CodecId, DynKey, hex};
use crate::dedupe;
use crate::engine::Span;
use crate::error::{Error, ErrorKind, Result};
use crate::lease;
use crate::outbox::{QueueInfo, catalog as queues};
use crate::record;
use crate::table::{TableInfo, catalog, in_record};
use crate::txn::Txn;

/// Writes one state of a store.
///
/// # Errors
/// `Schema` if a table is being migrated; `Corrupt` or `Decode` if something cannot be read, which is named; `Io` and `Full` as
/// `out` reports them. What was written by then has no last line.
pub(crate) fn export(txn: &Txn, store_id: [u8; 16], sequence: u64, out: &mut dyn Write) -> Result<Exported> {
    let mut tables = catalog::list(txn)?;
    tables.sort_by_key(|info| info.id);
    if let Some(info) = tables.iter().find(|info| info.migrating_to().is_some()) {
        let message = format!(
            "a table is being migrated: migrate it to the end first, table={}",
            info.name()
        );
        return Err(Error::new(ErrorKind::Schema, message));
    }
    let mut queues = queues::list(txn)?;
    queues.sort_by_key(|info| info.id);
    let exported = count(txn, &tables, &queues)?;
    let mut lines = Lines {
        out,
        count: 0,
        digest: blake3::Hasher::new(),
    };
    lines.push(&Header {
        line: Header::WORD.to_owned(),
        form: FORM,
        store: hex::encode(store_id),
        sequence,
        tables: exported.tables,
        records: exported.records,
        remembered_keys: exported.remembered_keys,
        queues: exported.queues,
        messages: exported.messages,
        fence: Some(lease::last_fence(txn)?),
    })?;
    for info in &tables {
        let declared = info.declared();
        lines.push(&Written::Table {
            name: info.name(),
            shape: table_text(&declared),
            highest_removed: record::removed_max(txn, info.id)?,
        })?;
    }
    for info in &tables {
        let mut scan = txn.scan(&of_table(info))?;
        while let Some(entry) = scan.step() {
            lines.record(info, entry?)?;
        }
    }
    for entry in dedupe::list(txn, None)? {
        let entry = entry?;
        if !is_position(&entry) {
            lines.remembered(&entry)?;
        }
    }
    for info in &queues {
        lines.push(&QueueLine::of(txn, info)?)?;
        messages::each(txn, info, |message| lines.push(message))?;
    }
    lines.end()?;
    Ok(exported)
}

fn of_table(info: &TableInfo) -> Span {
    Span::prefix(&record::key_prefix(info.id, 0))
}

fn count(txn: &Txn, tables: &[TableInfo], queues: &[QueueInfo]) -> Result<Exported> {
    let mut records = 0;
    for info in tables {
        let mut scan = txn.scan(&of_table(info))?;
        while let Some(entry) = scan.step() {
            entry?;
            records += 1;
        }
    }
    let mut remembered_keys = 0;
    for entry in dedupe::list(txn, None)? {
        remembered_keys += u64::from(!is_position(&entry?));
    }
    let mut messages = 0;
    for info in queues {
        messages += messages::count(txn, info)?;
    }
    Ok(Exported {
        tables: tables.len() as u64,
        records,
        remembered_keys,
        queues: queues.len() as u64,
        messages,
    })
}

/// Where lines go, and what the last one says of them.
struct Lines<'a> {
    out: &'a mut dyn Write,
    count: u64,
    digest: blake3::Hasher,
}

impl Lines<'_> {
    fn push(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line)
            .map_err(|cause| Error::with_source(ErrorKind::Invalid, "a line has no form as JSON", cause))?;
        text.push(b'\n');
        self.digest.update(&text);
        self.count += 1;
        self.out.write_all(&text).map_err(unwritten)
    }

    fn record(&mut self, info: &TableInfo, (key, bytes): (&[u8], &[u8])) -> Result<()> {
        let encoded = record::encoded_key(key);
        let named = |cause| in_record(info, encoded, cause);
        let stored = record::decode(key, bytes).map_err(named)?;
        let value = match value_text(info.codec(), stored.value) {
            Ok(value) => Some(value),
            // JSON that is not as a table of JSON values writes it would come back as other bytes.
            Err(_) if info.codec() == CodecId::Json => None,
            Err(cause) => return Err(named(cause)),
        };
        self.push(&Written::Record {
            table: info.name(),
            key: key_text(info.key_kind(), encoded).map_err(named)?,
            version: stored.version.get(),
            state: stored.state,
            raw: value.is_none().then(|| base64(stored.value)),
            value,
        })
    }

    fn remembered(&mut self, entry: &dedupe::RememberedKey) -> Result<()> {
        let remembered = &entry.remembered;
        let left = remembered.left();
        self.push(&Written::RememberedKey {
            scope: &entry.scope,
            key: DynKey::Bytes(entry.key.clone()).to_string(),
            first_ns: remembered.first_ns(),
            left_ns: left.map(nanos),
            fingerprint: remembered.fingerprint().map(hex::encode),
            result: base64(remembered.result_bytes()),
        })
    }

    fn end(mut self) -> Result<()> {
        let end = Written::End {
            lines: self.count,
            digest: self.digest.finalize().to_string(),
        };
        self.push(&end)?;
        self.out.flush().map_err(unwritten)
    }
}

fn unwritten(cause: io::Error) -> Error {
    Error::io("write the export", None, cause)
}
