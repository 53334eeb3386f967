//! Everything of a store as lines of JSON, and a store from such lines.
//!
//! Owns the form of the lines, what an export holds, and how an import that was stopped goes on: with each page of lines it
//! remembers in the same commit how many lines it took and their digest. What keeps an entry whole (index, counts,
//! envelopes) is left to the modules that own it, so an import cannot write what a program could not.
//!
//! Not here: the bytes of the file. An export says what a store holds and not how, so that it outlives the format.

pub(crate) mod export;
pub(crate) mod import;
mod input;
mod lines;
mod messages;
mod position;

/// The form of an export that is written here, and the newest that is read.
const FORM: u32 = 1;

/// What an export holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Tables.
    pub tables: u64,
    /// Records of all tables.
    pub records: u64,
    /// Remembered keys that are not over.
    pub remembered_keys: u64,
    /// Queues.
    pub queues: u64,
    /// Messages of all queues, dead letters too.
    pub messages: u64,
}

/// What an import came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Tables of the input.
    pub tables: u64,
    /// Records of the input.
    pub records: u64,
    /// Remembered keys of the input.
    pub remembered_keys: u64,
    /// Queues of the input.
    pub queues: u64,
    /// Messages of the input.
    pub messages: u64,
    /// Lines that were taken in by earlier calls. All of them: the import had ended, and this call changed nothing.
    pub lines_before: u64,
    /// Lines of the input.
    pub lines: u64,
}
