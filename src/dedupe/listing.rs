//! All remembered keys, in the order of their names.
//!
//! Entries lie in the order of the lengths of their scopes. So that a listing needs no memory for its order, each length is
//! a scan of its own, and the scans are merged.

use std::ops::Range;

use super::{Remembered, check_scope, decode, stored_key};
use crate::engine::{Merge, Now, Space, Span};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::SCOPE_BYTES_MAX;
use crate::txn::Txn;

/// A remembered key with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RememberedKey {
    /// The scope.
    pub scope: String,
    /// The key, byte for byte.
    pub key: Vec<u8>,
    /// What is remembered under it.
    pub remembered: Remembered,
}

/// The keys of one scope or of all, by scope and key, without those that are over.
pub(crate) fn list<'t>(txn: &'t Txn, scope: Option<&str>) -> Result<Listing<'t>> {
    let spans = match scope {
        Some(scope) => {
            check_scope(scope)?;
            vec![Span::prefix(&stored_key(scope, b""))]
        }
        None => (1..=SCOPE_BYTES_MAX as u8)
            .map(|len| Span::prefix(&of_length(len)))
            .collect(),
    };
    let scans = spans.iter().map(|span| txn.scan(span)).collect::<Result<Vec<_>>>()?;
    Ok(Listing {
        to_step: 0..scans.len(),
        scans,
        now: txn.now(),
    })
}

fn of_length(len: u8) -> Vec<u8> {
    let mut prefix = Space::Ending.key(1);
    prefix.push(len);
    prefix
}

/// See [`list`].
pub(crate) struct Listing<'t> {
    /// One for each length of a scope. One that is at its end stays, and is never chosen.
    scans: Vec<Merge<'t>>,
    /// Those that are at an entry that was given, or before their first.
    to_step: Range<usize>,
    now: Now,
}

impl Listing<'_> {
    /// Goes to the first entry of all scans, by its name. An error of the file ends the listing: what follows could be out of
    /// order.
    fn next_entry(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        for scan in self.scans.get_mut(self.to_step.clone()).into_iter().flatten() {
            if let Some(Err(cause)) = scan.step() {
                self.scans.clear();
                return Some(Err(cause));
            }
        }
        let entries = self.scans.iter().enumerate();
        let entries = entries.filter_map(|(index, scan)| Some((index, scan.at()?)));
        let (index, entry) = entries.min_by_key(|(_, (stored, _))| name_of(stored))?;
        self.to_step = index..index + 1;
        Some(Ok(entry))
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<RememberedKey>;

    fn next(&mut self) -> Option<Self::Item> {
        let now = self.now;
        loop {
            let found = self.next_entry()?.and_then(|(stored, bytes)| read(stored, bytes, now));
            match found {
                Ok(found) if !found.remembered.is_alive() => {}
                found => return Some(found),
            }
        }
    }
}

/// Scope and key of a stored key.
pub(crate) fn name_of(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, name) = stored.get(1..)?.split_first()?;
    name.split_at_checked(usize::from(*len))
}

fn read(stored: &[u8], bytes: &[u8], now: Now) -> Result<RememberedKey> {
    let (scope, key) = name_of(stored).unwrap_or_default();
    let found = std::str::from_utf8(scope).ok().zip(decode(stored, bytes, now));
    match found {
        Some((scope, remembered)) if !scope.is_empty() => Ok(RememberedKey {
            scope: scope.to_owned(),
            key: key.to_vec(),
            remembered,
        }),
        _ => {
            let (scope, key) = (scope.escape_ascii(), key.escape_ascii());
            let message = format!("entry of a remembered key is damaged, key={scope}/{key}");
            Err(Error::new(ErrorKind::Corrupt, message))
        }
    }
}
