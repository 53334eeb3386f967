//! Records, and their look-up by state against them both ways.

use std::collections::{HashMap, HashSet};

use super::catalogue::Catalogue;
use crate::codec::{CodecId, DynKey};
use crate::engine::Space;
use crate::engine::verify::{CheckStep, Findings, Place, Rule, Walk, damage_of};
use crate::error::Result;
use crate::limits::{FINDINGS_MAX, KEY_BYTES_MAX};
use crate::record::{self, states};
use crate::table::TableInfo;
use crate::txn::Txn;

const RECORD: Rule = Rule::new(
    "record",
    "every record has its checksum, which covers its key, version, state and value",
);
const TABLE: Rule = Rule::new("record.table", "every record is one of a table of the catalogue");
const KEY: Rule = Rule::new("record.key", "the key of a record is of the kind of its table");
const STATE: Rule = Rule::new("record.state", "the state of a record is one of its table's machine");
pub(super) const JSON: Rule = Rule::new("record.json", "a value of a table of JSON values is JSON");
const MISSING: Rule = Rule::new(
    "states.missing",
    "every record with a state has an entry under that state",
);
const ENTRY: Rule = Rule::new(
    "states.entry",
    "an entry under a state is empty, and names a table, a state and a key",
);
const LEADS: Rule = Rule::new(
    "states.record",
    "an entry under a state leads to a record in that state",
);

/// Judges all records, gives their number, and compares the counts of states with them.
pub(super) fn walk(walk: &mut Walk<'_>, txn: &Txn, catalogue: &Catalogue) -> Result<u64> {
    let mut records = 0;
    let mut counted = HashMap::new();
    let mut strange = HashSet::new();
    walk.each(Space::Records, CheckStep::Records, |key, value, findings| {
        records += 1;
        let Some(info) = record::table_of(key).and_then(|number| catalogue.tables.get(&number)) else {
            let number = record::table_of(key);
            // Once for each number: a table whose entry is damaged may have any number of records.
            if strange.len() < FINDINGS_MAX && strange.insert(number) {
                findings.add(place_of_number(number, key), TABLE, "there is no such table");
            }
            return Ok(());
        };
        let encoded = record::encoded_key(key);
        judge_key(info, encoded, findings);
        let place = || place_of(info, encoded);
        let Some(stored) = damage_of(record::decode(key, value), findings, place, RECORD)? else {
            return Ok(());
        };
        judge_value(info, encoded, stored.value, findings);
        let Some(state) = stored.state else { return Ok(()) };
        if !info.machine_at(encoded).is_some_and(|machine| machine.has_state(state)) {
            findings.add(place(), STATE, format!("state={state}"));
        }
        let entry = txn.get(&states::entry_key(info.id, state, encoded));
        if let Some(None) = damage_of(entry, findings, place, MISSING)? {
            findings.add(place(), MISSING, format!("state={state}"));
        }
        *counted.entry((info.id, state.to_owned())).or_insert(0) += 1;
        Ok(())
    })?;
    catalogue.judge_counts(&counted, walk.findings);
    Ok(records)
}

fn judge_key(info: &TableInfo, encoded: &[u8], findings: &mut Findings) {
    if let Err(cause) = DynKey::decode(info.key_kind(), encoded) {
        findings.add(place_of(info, encoded), KEY, cause.to_string());
    }
    if encoded.len() > KEY_BYTES_MAX {
        let seen = format!("bytes={}, bytes_max={KEY_BYTES_MAX}", encoded.len());
        findings.add(place_of(info, encoded), KEY, seen);
    }
}

/// Values of other codecs are known to programs only.
fn judge_value(info: &TableInfo, encoded: &[u8], value: &[u8], findings: &mut Findings) {
    if info.codec_at(encoded) != CodecId::Json {
        return;
    }
    #[cfg(feature = "json")]
    if let Err(cause) = <crate::codec::Json as crate::codec::Codec>::decode::<serde::de::IgnoredAny>(value) {
        findings.add(place_of(info, encoded), JSON, crate::engine::verify::text(&cause));
    }
    #[cfg(not(feature = "json"))]
    let _ = (value, findings, JSON);
}

/// Judges all entries under states, and gives their number.
pub(super) fn walk_states(walk: &mut Walk<'_>, txn: &Txn, catalogue: &Catalogue) -> Result<u64> {
    let mut entries = 0;
    walk.each(Space::States, CheckStep::States, |key, value, findings| {
        entries += 1;
        let parts = states::parts_of(key).filter(|_| value.is_empty());
        let known = parts.and_then(|(table, state, encoded)| Some((catalogue.tables.get(&table)?, state, encoded)));
        let Some((info, state, encoded)) = known else {
            let place = Place::Entry {
                space: Space::States.name(),
                key: key.get(1..).unwrap_or_default().escape_ascii().to_string(),
            };
            findings.add(place, ENTRY, format!("value_bytes={}", value.len()));
            return Ok(());
        };
        let place = || place_of(info, encoded);
        let whole = info.record_key(encoded);
        let Some(stored) = damage_of(txn.get(&whole), findings, place, LEADS)? else {
            return Ok(());
        };
        // A damaged record was found already.
        let found = match stored.as_ref().map(|bytes| record::decode(&whole, bytes)) {
            Some(Ok(record)) if record.state == Some(state) => return Ok(()),
            Some(Err(_)) => return Ok(()),
            Some(Ok(record)) => record.state.unwrap_or("none"),
            None => "no record",
        };
        findings.add(place(), LEADS, format!("state={state}, found={found}"));
        Ok(())
    })?;
    Ok(entries)
}

fn place_of(info: &TableInfo, encoded: &[u8]) -> Place {
    let key = DynKey::decode(info.key_kind(), encoded);
    Place::Record {
        table: info.name().to_owned(),
        key: key.map_or_else(|_| encoded.escape_ascii().to_string(), |key| key.to_string()),
    }
}

fn place_of_number(number: Option<u32>, key: &[u8]) -> Place {
    Place::Record {
        table: number.map_or_else(String::new, |number| number.to_string()),
        key: record::encoded_key(key).escape_ascii().to_string(),
    }
}
