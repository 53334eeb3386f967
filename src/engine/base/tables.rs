//! The tables of one transaction that writes: where each key space lies in the base.

use redb::{Table, WriteTransaction};

use super::{APPLIED_KEY, Applied, BLOCKS, ENGINE, FILTERS, MESSAGES, META, RECORDS, STATES, from_redb};
use crate::engine::space::Space;
use crate::error::{Error, ErrorKind, Result};

pub(super) type Writable<'t> = Table<'t, &'static [u8], &'static [u8]>;

pub(super) struct Tables<'t> {
    meta: Writable<'t>,
    records: Writable<'t>,
    states: Writable<'t>,
    messages: Writable<'t>,
    pub(super) engine: Writable<'t>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(writing: &'t WriteTransaction) -> Result<Tables<'t>> {
        let table = |definition| writing.open_table(definition).map_err(from_redb);
        Ok(Tables {
            meta: table(META)?,
            records: table(RECORDS)?,
            states: table(STATES)?,
            messages: table(MESSAGES)?,
            engine: table(ENGINE)?,
        })
    }

    /// Puts or removes an entry of a space that is a tree.
    pub(super) fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match Space::split(key) {
            Some((Space::Meta, key)) => change(&mut self.meta, key, value),
            Some((Space::Records, key)) => change(&mut self.records, key, value),
            Some((Space::States, key)) => change(&mut self.states, key, value),
            Some((Space::Messages, key)) => change(&mut self.messages, key, value),
            Some((Space::Ending, _)) | None => Err(Error::new(
                ErrorKind::Corrupt,
                "a key of an unknown space is in the log",
            )),
        }
    }

    pub(super) fn note(&mut self, applied: Applied) -> Result<()> {
        self.engine
            .insert(APPLIED_KEY, applied.encode().as_slice())
            .map(drop)
            .map_err(from_redb)
    }
}

/// The tables of the segments: blocks and filters.
pub(super) fn open_segments(writing: &WriteTransaction) -> Result<(Writable<'_>, Writable<'_>)> {
    Ok((
        writing.open_table(BLOCKS).map_err(from_redb)?,
        writing.open_table(FILTERS).map_err(from_redb)?,
    ))
}

fn change(table: &mut Writable<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    match value {
        Some(value) => table.insert(key, value).map_err(from_redb)?,
        None => table.remove(key).map_err(from_redb)?,
    };
    Ok(())
}
