//! The check: a walk through a store's file that looks for broken rules.
//!
//! Owns the rules on what keys and values mean: tables, records, their look-up by state, remembered keys, queues and their messages. The rules on bytes are the
//! engine's. Reads only. Damage is a finding; an error says only that there was nothing to look at, or no way to.

mod catalogue;
mod keys;
mod messages;
mod records;

use std::sync::Arc;

use crate::disk::Disk;
use crate::engine::verify::{self, CheckStep, Finding, Findings, Looked, Walk};
use crate::engine::{Now, View};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::Txn;

use catalogue::Catalogue;

/// What a check found, and what it looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Broken rules, in the order in which they were met; at most [`FINDINGS_MAX`](crate::limits::FINDINGS_MAX).
    pub findings: Vec<Finding>,
    /// How many more there are, which were not kept.
    pub findings_beyond: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Commits that are in the log and not in the base yet.
    pub frames: u64,
    /// Pages of the base whose checksums were verified.
    pub pages: u64,
    /// Whether the pages of the base were verified by their checksums. Not of a store that is open for writing, whose pages
    /// change meanwhile: there a branch that lost its leaf is not noticed by its checksum.
    pub base_verified: bool,
    /// Tables.
    pub tables: u64,
    /// Records of all tables.
    pub records: u64,
    /// Remembered keys, also those that are over and not yet dropped.
    pub remembered_keys: u64,
    /// Segments of the base that remembered keys lie in.
    pub segments: u64,
    /// Entries of the index of records by state.
    pub index_entries: u64,
    /// Queues.
    pub queues: u64,
    /// Messages of all queues, dead letters too.
    pub messages: u64,
}

impl Checked {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// # Errors
    /// `Corrupt` with the first finding of damage. A value that is not what its table says was written so.
    pub(crate) fn or_corrupt(&self) -> Result<()> {
        let damage = self.findings.iter().find(|finding| finding.rule != records::JSON);
        let Some(Finding { place, rule, seen }) = damage else {
            return Ok(());
        };
        let message = format!("a check finds damage: {place}, {rule}, {seen}");
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckProgress {
    /// What it is at.
    pub step: CheckStep,
    /// Entries or pages of this step that were looked at.
    pub done: u64,
}

/// Checks a file that nobody has open for writing.
pub(crate) fn file(disk: Arc<dyn Disk>, cache_bytes: usize, mut tell: impl FnMut(&CheckProgress)) -> Result<Checked> {
    let mut findings = Findings::default();
    let mut tell = |step, done| tell(&CheckProgress { step, done });
    let looked = verify::file(disk, cache_bytes, &mut findings, &mut tell)?;
    let mut checked = of(&looked);
    if let Some(view) = &looked.view {
        state(view, &mut findings, &mut tell, &mut checked)?;
    }
    Ok(with(checked, findings))
}

/// Checks a file that nobody has open for writing, and takes no damage.
///
/// # Errors
/// `Corrupt` with the first finding; as [`file()`].
pub(crate) fn sound(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<()> {
    file(disk, cache_bytes, |_| ())?.or_corrupt()
}

/// Checks one state of an open store.
pub(crate) fn open(view: &Arc<View>, bytes: u64, mut tell: impl FnMut(&CheckProgress)) -> Result<Checked> {
    let mut findings = Findings::default();
    let mut tell = |step, done| tell(&CheckProgress { step, done });
    let mut checked = Checked {
        bytes,
        frames: view.sequence.saturating_sub(view.base.applied.sequence),
        ..Checked::default()
    };
    state(view, &mut findings, &mut tell, &mut checked)?;
    Ok(with(checked, findings))
}

fn of(looked: &Looked) -> Checked {
    Checked {
        bytes: looked.bytes,
        frames: looked.frames,
        pages: looked.pages,
        base_verified: looked.base_verified,
        ..Checked::default()
    }
}

fn with(mut checked: Checked, findings: Findings) -> Checked {
    (checked.findings, checked.findings_beyond) = findings.into_parts();
    checked
}

/// The rules on one state: what the log adds to the base counts as if it were there.
fn state(view: &Arc<View>, findings: &mut Findings, tell: verify::Tell<'_>, checked: &mut Checked) -> Result<()> {
    let txn = Txn::new(view.clone(), Now::default());
    let mut walk = Walk { view, findings, tell };
    let catalogue = Catalogue::walk(&mut walk)?;
    checked.tables = catalogue.tables.len() as u64;
    checked.records = records::walk(&mut walk, &txn, &catalogue)?;
    let by_state = records::walk_states(&mut walk, &txn, &catalogue)?;
    checked.remembered_keys = keys::walk(&mut walk)?;
    checked.index_entries = by_state;
    checked.queues = catalogue.queues.len() as u64;
    checked.messages = messages::walk(&mut walk, &txn, &catalogue)?;
    checked.segments = walk.segments()?;
    Ok(())
}
