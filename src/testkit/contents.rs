//! The whole stored state, in a form that can be compared and shown.

use std::collections::{BTreeMap, BTreeSet};

use crate::{CodecId, Keys, MessageInfo, MessageState, QueueInfo, Result, Store};

/// What may differ, by the word of the user.
#[derive(Clone, Debug, Default)]
pub(super) struct Free {
    pub(super) tables: BTreeSet<String>,
    pub(super) scopes: BTreeSet<String>,
    pub(super) queues: BTreeSet<String>,
}

/// Records, remembered keys and messages by name. When a key was stored, and for how long it is kept, is no part of it; nor is
/// the number, the effect id and the deliveries of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contents(BTreeMap<String, String>);

impl Contents {
    pub(super) fn of(store: &Store, free: &Free) -> Result<Contents> {
        store.read(|tx| {
            let mut all = BTreeMap::new();
            for info in tx.tables()?.iter().filter(|info| !free.tables.contains(info.name())) {
                let table = info.open();
                for item in tx.scan(&table, Keys::all())? {
                    let (key, record) = item?;
                    let state = record
                        .state
                        .map_or_else(String::new, |state| format!(", state {state}"));
                    let value = shown(info.codec(), &record.value);
                    let what = format!("{value} at version {}{state}", record.version);
                    all.insert(format!("record {}/{key}", info.name()), what);
                }
            }
            for item in tx.remembered_keys(None)? {
                let entry = item?;
                if free.scopes.contains(&entry.scope) {
                    continue;
                }
                let bound = entry
                    .remembered
                    .fingerprint()
                    .map_or_else(String::new, |digest| format!(", bound to {}", hex(&digest)));
                let what = format!("remembered with result {}{bound}", hex(entry.remembered.result_bytes()));
                let key = entry.key.escape_ascii();
                all.insert(format!("key {}/{key}", entry.scope), what);
            }
            for info in tx.queues()?.iter().filter(|info| !free.queues.contains(info.name())) {
                add_messages(&mut all, info, tx.messages(info.name(), None, usize::MAX)?);
            }
            Ok(Contents(all))
        })
    }

    /// What differs, a line each: what it is, and what it is after one delivery.
    pub(super) fn differences(&self, once: &Contents) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(once.0.keys()).collect();
        let mut lines = Vec::new();
        for name in names {
            let (found, wanted) = (self.0.get(name), once.0.get(name));
            if found != wanted {
                let or_not = |what: Option<&String>| what.map_or_else(|| "not there".to_owned(), Clone::clone);
                lines.push(format!(
                    "{name} is {}, and after one delivery {}",
                    or_not(found),
                    or_not(wanted)
                ));
            }
        }
        lines
    }
}

/// Messages of a key in their order; of others, how many there are of each.
fn add_messages(all: &mut BTreeMap<String, String>, queue: &QueueInfo, messages: Vec<MessageInfo>) {
    let mut places: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut alike: BTreeMap<String, u64> = BTreeMap::new();
    for message in messages {
        let mut what = shown(queue.codec(), &message.payload);
        for (name, text) in &message.headers {
            what.push_str(&format!(", header {name}: {text}"));
        }
        if let MessageState::Dead(reason) = message.state {
            what.push_str(&format!(", dead: {reason}"));
        }
        let Some(key) = message.key else {
            *alike.entry(what).or_default() += 1;
            continue;
        };
        let name = format!("message {}/{}", queue.name(), key.escape_ascii());
        let place = places.entry(key).or_default();
        *place += 1;
        all.insert(format!("{name}, number {place}"), what);
    }
    for (what, count) in alike {
        all.insert(
            format!("message {} of {what}", queue.name()),
            format!("there {count} times"),
        );
    }
}

fn shown(codec: CodecId, value: &[u8]) -> String {
    match (codec, std::str::from_utf8(value)) {
        (CodecId::Json, Ok(text)) => text.to_owned(),
        _ => hex(value),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}
