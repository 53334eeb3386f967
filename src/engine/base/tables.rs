//! The tables of one transaction that writes: where each key space lies in the base.

use redb::{Table, WriteTransaction};

use super::ending::{Dropped, change_ending, drop_ended};
use super::{APPLIED_KEY, Applied, ENDING, ENDS, ENGINE, META, RECORDS, STATES, from_redb};
use crate::engine::space::Space;
use crate::error::{Error, ErrorKind, Result};

pub(super) type Writable<'t> = Table<'t, &'static [u8], &'static [u8]>;

pub(super) struct Tables<'t> {
    meta: Writable<'t>,
    records: Writable<'t>,
    ending: Writable<'t>,
    states: Writable<'t>,
    ends: Writable<'t>,
    engine: Writable<'t>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(writing: &'t WriteTransaction) -> Result<Tables<'t>> {
        let table = |definition| writing.open_table(definition).map_err(from_redb);
        Ok(Tables {
            meta: table(META)?,
            records: table(RECORDS)?,
            ending: table(ENDING)?,
            states: table(STATES)?,
            ends: table(ENDS)?,
            engine: table(ENGINE)?,
        })
    }

    /// Puts or removes an entry of any space; the index of ends follows.
    pub(super) fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match Space::split(key) {
            Some((Space::Meta, key)) => change(&mut self.meta, key, value),
            Some((Space::Records, key)) => change(&mut self.records, key, value),
            Some((Space::States, key)) => change(&mut self.states, key, value),
            Some((Space::Ending, key)) => change_ending(&mut self.ending, &mut self.ends, key, value),
            None => Err(Error::new(
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

    pub(super) fn drop_ended(&mut self, now_ns: u64) -> Result<Dropped> {
        drop_ended(&mut self.ending, &mut self.ends, now_ns)
    }
}

fn change(table: &mut Writable<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    match value {
        Some(value) => table.insert(key, value).map_err(from_redb)?,
        None => table.remove(key).map_err(from_redb)?,
    };
    Ok(())
}
