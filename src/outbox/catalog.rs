//! Which queues the file has: their numbers, and what a call site must agree with.

use serde::{Deserialize, Serialize};

use super::queue::{DynQueue, QueueDeclared};
use crate::codec::{CodecId, sealed};
use crate::engine::{Space, Span};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::QUEUE_NAME_BYTES_MAX;
use crate::txn::Txn;

/// Prefix of the meta keys that hold a queue's entry; the name follows.
const QUEUE: u8 = b'q';
/// The meta key that holds the number of the next queue.
const NEXT: u8 = b'o';

/// What the file says of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    pub(crate) id: u32,
    name: String,
    codec: CodecId,
    at_most_once: bool,
}

impl QueueInfo {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Encoding of its messages.
    pub fn codec(&self) -> CodecId {
        self.codec
    }

    /// Whether a claim removes its message.
    pub fn is_at_most_once(&self) -> bool {
        self.at_most_once
    }

    /// A description with which its messages can be read and written by bytes.
    pub fn open(&self) -> DynQueue {
        DynQueue::new(self.name.clone(), self.codec).at_most_once(self.at_most_once)
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    id: u32,
    codec: u8,
    at_most_once: bool,
}

const ENTRY: &str = "entry of a queue";

/// The queue as the file has it, compared with the call site; `None` if the file does not have it.
///
/// # Errors
/// `Schema`, naming both sides; `Invalid` for a name; `Corrupt`, `Io`.
pub(crate) fn resolve(txn: &Txn, declared: &QueueDeclared) -> Result<Option<QueueInfo>> {
    check_name(&declared.name)?;
    let Some(info) = find(txn, &declared.name)? else {
        return Ok(None);
    };
    if (info.codec, info.at_most_once) == (declared.codec, declared.at_most_once) {
        return Ok(Some(info));
    }
    let message = format!(
        "queue is declared otherwise, queue={}, codec_in_file={}, codec_in_program={}, at_most_once_in_file={}, at_most_once_in_program={}",
        info.name, info.codec, declared.codec, info.at_most_once, declared.at_most_once
    );
    Err(Error::new(ErrorKind::Schema, message))
}

/// The same, made in this transaction if need be.
pub(crate) fn resolve_or_create(txn: &mut Txn, declared: &QueueDeclared) -> Result<QueueInfo> {
    if let Some(info) = resolve(txn, declared)? {
        return Ok(info);
    }
    let id = txn.get(&next_key())?.map_or(Ok(0), |bytes| number_of(&bytes))?;
    let after = id
        .checked_add(1)
        .ok_or_else(|| Error::new(ErrorKind::TooLarge, "no queue number is left"))?;
    txn.put(next_key(), after.to_be_bytes().to_vec());
    let info = QueueInfo {
        id,
        name: declared.name.clone(),
        codec: declared.codec,
        at_most_once: declared.at_most_once,
    };
    let entry = Entry {
        id,
        codec: info.codec.code(),
        at_most_once: info.at_most_once,
    };
    let key = entry_key(&info.name);
    let bytes = sealed::seal(&key, &entry)?;
    txn.put(key, bytes);
    Ok(info)
}

/// One queue of the file.
pub(crate) fn find(txn: &Txn, name: &str) -> Result<Option<QueueInfo>> {
    let key = entry_key(name);
    txn.get(&key)?.map(|bytes| decode(&key, &bytes)).transpose()
}

/// All queues of the file, by name.
pub(crate) fn list(txn: &Txn) -> Result<Vec<QueueInfo>> {
    let mut queues = Vec::new();
    let mut scan = txn.scan(&Span::prefix(&entry_key("")))?;
    while let Some(entry) = scan.step() {
        let (key, bytes) = entry?;
        queues.push(decode(key, bytes)?);
    }
    Ok(queues)
}

/// The queue of an entry, if this is the key of one.
pub(crate) fn entry_of(key: &[u8], bytes: &[u8]) -> Option<Result<QueueInfo>> {
    key.starts_with(&entry_key("")).then(|| decode(key, bytes))
}

/// The number of the next queue, if this is its key.
pub(crate) fn next_of(key: &[u8], bytes: &[u8]) -> Option<Result<u32>> {
    (*key == *next_key()).then(|| number_of(bytes))
}

fn decode(key: &[u8], bytes: &[u8]) -> Result<QueueInfo> {
    let entry: Entry = sealed::open(key, bytes, ENTRY)?;
    let name = key.get(2..).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| Error::new(ErrorKind::Corrupt, "name of a queue is damaged"))?;
    Ok(QueueInfo {
        id: entry.id,
        name: name.to_owned(),
        codec: CodecId::from_code(entry.codec)?,
        at_most_once: entry.at_most_once,
    })
}

fn number_of(bytes: &[u8]) -> Result<u32> {
    let number = bytes
        .try_into()
        .map_err(|_| Error::new(ErrorKind::Corrupt, "number of the next queue is damaged"))?;
    Ok(u32::from_be_bytes(number))
}

fn entry_key(name: &str) -> Vec<u8> {
    let mut key = Space::Meta.key(1 + name.len());
    key.push(QUEUE);
    key.extend_from_slice(name.as_bytes());
    key
}

fn next_key() -> Vec<u8> {
    let mut key = Space::Meta.key(1);
    key.push(NEXT);
    key
}

/// # Errors
/// `Invalid` for a name out of its limits.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if (1..=QUEUE_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    let message =
        format!("queue name is not 1 to {QUEUE_NAME_BYTES_MAX} bytes without control characters, queue={shown:?}");
    Err(Error::new(ErrorKind::Invalid, message))
}
