//! What one store remembers, taken in by another.

use super::{Keep, OnceKey, Remembered, decide, encode, stored_key};
use crate::error::Result;
use crate::txn::Txn;

impl Remembered {
    /// The same as [`Remembered::first_at`], in nanoseconds since 1970.
    pub(crate) fn first_ns(&self) -> i64 {
        self.first_ns
    }
}

/// What was remembered elsewhere, and is to be remembered here.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) scope: String,
    pub(crate) key: Vec<u8>,
    pub(crate) first_ns: i64,
    /// `None`: for ever.
    pub(crate) left_ns: Option<u64>,
    pub(crate) fingerprint: Option<[u8; 16]>,
    pub(crate) result: Vec<u8>,
}

/// Takes in what another store remembers; from now on it is kept for what was left.
///
/// # Errors
/// `Invalid` for a name out of its limits.
pub(crate) fn take_in(txn: &mut Txn, moved: Moved) -> Result<()> {
    let Moved {
        scope,
        key,
        first_ns,
        left_ns,
        fingerprint,
        result,
    } = moved;
    OnceKey::new(scope.as_str(), &key, Keep::Forever).check()?;
    let now_ns = txn.now().retention_ns;
    // One short of never, which an end that is counted does not reach.
    let end_ns = left_ns.map_or(decide::NEVER, |left| now_ns.saturating_add(left).min(decide::NEVER - 1));
    let entry = Remembered {
        now_ns,
        end_ns,
        first_ns,
        fingerprint,
        result,
    };
    let stored_key = stored_key(&scope, &key);
    let bytes = encode(&stored_key, &entry);
    txn.put(stored_key, bytes);
    Ok(())
}
