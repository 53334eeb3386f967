//! An embedded, single-file, transactional key-value store that makes a step safe to run again.

#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod codec;
#[cfg(not(loom))]
mod disk;
#[cfg(not(loom))]
mod engine;
mod error;
mod group;
pub mod limits;
#[cfg(not(loom))]
mod machine;
#[cfg(not(loom))]
mod record;
mod sync;

#[cfg(all(not(loom), feature = "test-util"))]
pub use clock::ManualClock;
#[cfg(not(loom))]
pub use clock::{Clock, Sample, SystemClock};
#[cfg(all(not(loom), feature = "json"))]
pub use codec::Json;
#[cfg(not(loom))]
pub use codec::{Bincode, Codec, CodecId, DynKey, Key, KeyKind, KeyPart, Keys, Version};
pub use error::{Error, ErrorKind, Result};
#[cfg(not(loom))]
pub use machine::decide::Why;
#[cfg(not(loom))]
pub use machine::{Machine, MachineDef, State, StateOf, Stateless};
#[cfg(not(loom))]
pub use record::decide::Condition;

/// Pure functions for the tests of this crate. No promise of any kind.
#[doc(hidden)]
#[cfg(all(not(loom), feature = "test-util"))]
pub mod internals {
    pub use crate::clock::{Retention, Schedule};
    pub use crate::codec::{encode_key, encode_verified, envelope, varint};
    pub use crate::machine::decide::{Reconciled, TransitionVerdict, decide_transition};
    pub use crate::record::decide::{
        DeleteVerdict, Offered, PutVerdict, Stored, decide_delete, decide_put, holds, version_after,
    };

    /// Whether a range has the encoded key.
    pub fn keys_contain<K: ?Sized>(keys: &crate::Keys<K>, encoded: &[u8]) -> bool {
        keys.contains(encoded)
    }

    /// Whether a range has room for no key at all.
    pub fn keys_are_empty<K: ?Sized>(keys: &crate::Keys<K>) -> bool {
        keys.is_empty()
    }
}
