//! How far an import has come, as the store remembers it: a remembered key that is bound to the first line of the input, and
//! is written in the commit of the lines that it counts.

use serde::{Deserialize, Serialize};

use super::lines::invalid;
use crate::codec::{Bincode, Codec};
use crate::dedupe::{self, Moved, RememberedKey};
use crate::error::Result;
use crate::txn::Txn;

/// Reserved: an export leaves it out.
const SCOPE: &str = "sprag.import";
const KEY: &[u8] = b"position";

/// Lines that were taken in, with the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(super) lines: u64,
    /// Over the bytes of these lines.
    pub(super) digest: [u8; 32],
    /// The last line was among them.
    pub(super) is_end: bool,
}

impl Position {
    /// `None` if no import has begun.
    ///
    /// # Errors
    /// `Invalid` if it was that of another input; `Decode` if it is none.
    pub(super) fn load(txn: &Txn, header: &[u8]) -> Result<Option<Position>> {
        let Some(remembered) = dedupe::look_up(txn, SCOPE, KEY)? else {
            return Ok(None);
        };
        if remembered.fingerprint() != Some(digest_of(header)) {
            return Err(invalid("the store was made by the import of another input"));
        }
        Bincode::decode(remembered.result_bytes()).map(Some)
    }

    pub(super) fn store(&self, txn: &mut Txn, header: &[u8]) -> Result<()> {
        let mut result = Vec::new();
        Bincode::encode(self, &mut result)?;
        let moved = Moved {
            scope: SCOPE.to_owned(),
            key: KEY.to_vec(),
            first_ns: txn.now().schedule_ns,
            left_ns: None,
            fingerprint: Some(digest_of(header)),
            result,
        };
        dedupe::take_in(txn, moved)
    }
}

pub(super) fn is_position(entry: &RememberedKey) -> bool {
    entry.scope == SCOPE && entry.key == KEY
}

fn digest_of(header: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(header).as_bytes()[..16]);
    short
}
