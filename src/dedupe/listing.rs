//! All remembered keys, in the order of their names.
//!
//! Entries lie in the order of the lengths of their scopes. So that a listing needs no memory for its order, each length is
//! a scan of its own, and the scans are merged.

use std::iter::Peekable;

use super::{Remembered, check_scope, decode, stored_key};
use crate::engine::{Bytes, Merge, Now, Space, Span};
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
    let mut scans = Vec::new();
    for span in spans {
        scans.push(txn.scan(&span)?.peekable());
    }
    Ok(Listing {
        scans,
        now: txn.now(),
        failed: false,
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
    scans: Vec<Peekable<Merge<'t>>>,
    now: Now,
    /// An error of the file came: what follows could be out of order.
    failed: bool,
}

impl Listing<'_> {
    /// The first entry of all scans, by its name.
    fn next_entry(&mut self) -> Option<Result<(Bytes, Bytes)>> {
        let mut best: Option<(usize, Bytes)> = None;
        for (index, scan) in self.scans.iter_mut().enumerate() {
            let sooner = |name: Option<_>| best.as_ref().is_none_or(|(_, so_far)| name < name_of(so_far));
            match scan.peek() {
                Some(Err(_)) => return scan.next(),
                Some(Ok((stored, _))) if sooner(name_of(stored)) => best = Some((index, stored.clone())),
                _ => {}
            }
        }
        self.scans.get_mut(best?.0)?.next()
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<RememberedKey>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let (stored, bytes) = match self.next_entry()? {
                Ok(entry) => entry,
                Err(cause) => {
                    self.failed = true;
                    return Some(Err(cause));
                }
            };
            match read(&stored, &bytes, self.now) {
                Ok(found) if found.remembered.is_alive() => return Some(Ok(found)),
                Ok(_) => {}
                Err(cause) => return Some(Err(cause)),
            }
        }
        None
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
