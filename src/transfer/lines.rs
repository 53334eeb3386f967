//! The forms of the lines: how each is written, and what is read of it.
//!
//! Descriptions of tables, keys and values have the forms that they have in a batch.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::messages::{MessageLine, QueueLine};
use crate::batch::json::{KeyText, KeyWritten, Object, TableText, TableWritten, ValueWritten, given, quoted};
use crate::codec::hex;
use crate::error::{Error, ErrorKind, Result};

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) line: String,
    /// Number of the form of the lines.
    pub(super) form: u32,
    /// Identity of the store that was exported.
    pub(super) store: String,
    /// The last commit that the export contains.
    pub(super) sequence: u64,
    pub(super) tables: u64,
    pub(super) records: u64,
    pub(super) remembered_keys: u64,
    /// This and what follows is not there in an export from before there were messages.
    #[serde(default)]
    pub(super) queues: u64,
    #[serde(default)]
    pub(super) messages: u64,
    /// The last fence that the store gave.
    #[serde(default)]
    pub(super) fence: Option<u64>,
}

/// A line that is written. The word of each is the name of its field `line`.
#[derive(Serialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(super) enum Written<'a> {
    Table {
        name: &'a str,
        shape: TableWritten<'a>,
        highest_removed: u64,
    },
    Record {
        table: &'a str,
        key: KeyWritten,
        version: u64,
        state: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<ValueWritten<'a>>,
        /// In place of a value that its codec does not write so: its bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    RememberedKey {
        scope: &'a str,
        key: String,
        first_ns: i64,
        left_ns: Option<u64>,
        fingerprint: Option<String>,
        result: String,
    },
    End {
        lines: u64,
        digest: String,
    },
}

/// Only the word of a line.
#[derive(Deserialize)]
struct Word<'a> {
    #[serde(borrow)]
    line: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableRead {
    #[serde(rename = "line")]
    _line: String,
    pub(super) name: String,
    pub(super) shape: Object<TableText>,
    pub(super) highest_removed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordRead<'a> {
    #[serde(rename = "line")]
    _line: String,
    pub(super) table: String,
    pub(super) key: KeyText,
    pub(super) version: u64,
    pub(super) state: Option<String>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) value: Option<&'a RawValue>,
    pub(super) raw: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RememberedRead {
    #[serde(rename = "line")]
    _line: String,
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) first_ns: i64,
    pub(super) left_ns: Option<u64>,
    pub(super) fingerprint: Option<String>,
    pub(super) result: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndRead {
    #[serde(rename = "line")]
    _line: String,
    pub(super) lines: u64,
    pub(super) digest: String,
}

/// A line that was read, behind the first one.
pub(super) enum Read<'a> {
    Table(TableRead),
    Record(RecordRead<'a>),
    Remembered(RememberedRead),
    Queue(QueueLine),
    Message(Box<MessageLine>),
    End(EndRead),
}

impl Header {
    pub(super) const WORD: &'static str = "sprag export";

    /// # Errors
    /// `Invalid` if the line is none; `NewerFormat` for a form that is not known here.
    pub(super) fn read(text: &str) -> Result<Header> {
        /// What is the same in every form.
        #[derive(Deserialize)]
        struct Any<'a> {
            #[serde(borrow)]
            line: Cow<'a, str>,
            form: u32,
        }
        let any: Any<'_> = serde_json::from_str(text).map_err(|cause| unreadable(&cause))?;
        if any.line != Header::WORD {
            return Err(invalid(format!(
                "the input does not begin as an export, line={:?}",
                quoted(&any.line)
            )));
        }
        if any.form > super::FORM {
            let message = format!(
                "export has a newer form, form={}, newest_known={}",
                any.form,
                super::FORM
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        let Object(header) = serde_json::from_str(text).map_err(|cause| unreadable(&cause))?;
        Ok(header)
    }
}

impl<'a> Read<'a> {
    /// # Errors
    /// `Invalid` if the text is no line of an export.
    pub(super) fn line(text: &'a str) -> Result<Read<'a>> {
        let Object(Word { line }) = serde_json::from_str(text).map_err(|cause| unreadable(&cause))?;
        let read = match &*line {
            "table" => serde_json::from_str(text).map(Read::Table),
            "record" => serde_json::from_str(text).map(Read::Record),
            "remembered_key" => serde_json::from_str(text).map(Read::Remembered),
            QueueLine::WORD => serde_json::from_str(text).map(Read::Queue),
            MessageLine::WORD => serde_json::from_str(text).map(Read::Message),
            "end" => serde_json::from_str(text).map(Read::End),
            other => return Err(invalid(format!("no line of an export, line={:?}", quoted(other)))),
        };
        read.map_err(|cause| unreadable(&cause))
    }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(super) fn from_base64(text: &str) -> Result<Vec<u8>> {
    BASE64
        .decode(text)
        .map_err(|cause| Error::with_source(ErrorKind::Invalid, "not base64", cause))
}

pub(super) fn from_hex(text: &str) -> Result<[u8; 16]> {
    hex::decode(text).ok_or_else(|| invalid("not 32 hex digits"))
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn unreadable(cause: &serde_json::Error) -> Error {
    let message = format!("no line of an export, column={}", cause.column());
    Error::with_source(ErrorKind::Invalid, message, quoted(&cause.to_string()))
}
