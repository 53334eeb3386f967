#![doc = include_str!("../README.md")]
//!
//! ---
//!
//! Start at [`Store`]. [`Table`] names records, [`Condition`] what must hold for a write, [`OnceKey`] an operation that
//! must not happen twice, [`machine!`] the states of a record. [`Error`] says by its kind what to do.

// What the library must obey and tests, examples and the command need not: no panic on any input, no clock and no thread
// beside the doors of `clock` and `sync`, no word on the streams of somebody else's program.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unreachable
)]
#![warn(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit
)]

mod batch;
mod check;
mod clock;
mod codec;
mod dedupe;
mod disk;
mod engine;
mod error;
mod group;
mod lease;
pub mod limits;
mod machine;
mod outbox;
mod random;
mod record;
mod relay;
mod stats;
mod store;
mod sync;
mod table;
#[cfg(feature = "test-util")]
pub mod testkit;
#[cfg(feature = "json")]
mod transfer;
mod txn;

pub use batch::{Batch, Outcome, Verdict};
pub use check::{CheckProgress, Checked};
#[cfg(feature = "test-util")]
pub use clock::ManualClock;
pub use clock::{Clock, Sample, SystemClock};
#[cfg(feature = "json")]
pub use codec::Json;
pub use codec::{Bincode, Codec, CodecId, DynKey, Key, KeyKind, KeyPart, Keys, Version};
pub use dedupe::{Keep, Once, OnceKey, Remembered, RememberedKey, Swept};
pub use engine::Level;
pub use engine::verify::{CheckStep, Finding, Place, Rule};
pub use error::{Error, ErrorKind, Result};
pub use machine::decide::Why;
pub use machine::{Machine, MachineDef, State, StateOf, Stateless};
pub use outbox::{
    Discarded, DynQueue, EffectId, Failure, MessageId, MessageInfo, MessageState, OnDead, Outgoing, Queue, QueueInfo,
    QueueSpec, QueueStats, Reason, Refused, Replay, Replayed, Retry, Settled,
};
pub use record::decide::Condition;
pub use record::{Deleted, Found, Written};
#[cfg(feature = "tokio")]
pub use relay::RunningTasks;
pub use relay::{Delivery, Drained, Handled, Relay, Running};
pub use stats::Stats;
#[doc(hidden)]
#[cfg(feature = "test-util")]
pub use store::Probe;
pub use store::{
    BackedUp, Claim, Claiming, Claims, Compacted, Consumed, InState, Options, Page, ReadTx, Receipt, Restored, Scan,
    Store, Unsettled, WriteTx,
};
pub use table::transition::{Refusal, Transitioned};
pub use table::{DynTable, Record, Table, TableInfo, TableSpec};
#[cfg(feature = "json")]
pub use transfer::{Exported, Imported};

/// Pure functions for the tests of this crate. No promise of any kind.
#[doc(hidden)]
#[cfg(feature = "test-util")]
pub mod internals {
    pub use crate::batch::decide::{Ballot, BatchVerdict, Vote, decide_batch};
    pub use crate::clock::{Retention, RetentionMark, Schedule};
    pub use crate::codec::frame::Stamp;
    pub use crate::codec::{encode_key, encode_verified, envelope, filter, segment, varint};
    pub use crate::dedupe::decide::{Delivery, OnceVerdict, Remembering, decide_once};
    pub use crate::disk::create::patiently;
    pub use crate::engine::plan;
    pub use crate::engine::{Gather, Memory, Span, Window};
    pub use crate::machine::decide::{Reconciled, TransitionVerdict, decide_transition};
    pub use crate::outbox::row::{Row, Stand};
    pub use crate::outbox::tally::{Mark, Tally};
    pub use crate::record::decide::{
        DeleteVerdict, Offered, PutVerdict, Stored, decide_delete, decide_put, holds, version_after,
    };
    pub use crate::table::migrate::MigrateVerdict;

    /// What becomes of messages.
    pub mod outbox {
        pub use crate::outbox::decide::{Times, Verb, Verdict, decide_claim, decide_lapse, decide_replay, decide_verb};
        pub use crate::outbox::row::{Row, Stand};
        pub use crate::outbox::tally::{Mark, Tally};
    }

    /// Judges a migration from `old` to `new` of a table that has the shape of `file`, on its way to `target`.
    ///
    /// # Errors
    /// `Schema`, as the decision.
    pub fn decide_migrate<F, T, O, N>(file: F, target: Option<T>, old: O, new: N) -> crate::Result<MigrateVerdict>
    where
        F: crate::TableSpec,
        T: crate::TableSpec,
        O: crate::TableSpec,
        N: crate::TableSpec,
    {
        let file = file.declared()?;
        let target = target.map(|target| target.declared()).transpose()?;
        let target = target.as_ref().and_then(crate::table::Declared::shape);
        let shape = file.shape().ok_or_else(|| {
            crate::Error::new(
                crate::ErrorKind::Invalid,
                "the table of a file has a schema number and a machine",
            )
        })?;
        crate::table::migrate::decide_migrate(&file.name, &shape, target.as_ref(), &old.declared()?, &new.declared()?)
    }

    /// What the base of a file notes of its segments, after all of it was judged.
    ///
    /// # Errors
    /// `Corrupt`, and as an open.
    pub fn catalog_of(disk: std::sync::Arc<dyn crate::disk::Disk>) -> crate::Result<segment::Catalog> {
        let original = crate::engine::Original::of_file(disk, 1 << 20)?;
        Ok(original.view().base.catalog().clone())
    }

    /// Length in bytes of the good frame at the start of `bytes`, if there is one.
    pub fn decode_frame(stamp: Stamp, bytes: &[u8]) -> Option<usize> {
        crate::codec::frame::decode(stamp, bytes).map(|frame| frame.len)
    }

    /// Appends the frame of one commit to `out`, and gives its length in bytes.
    pub fn encode_frame(stamp: Stamp, sequence: u64, ops: &[(&[u8], Option<&[u8]>)], out: &mut Vec<u8>) -> usize {
        let header = crate::codec::frame::Header {
            sequence,
            life: 0,
            previous_life: None,
            synced: sequence.saturating_sub(1),
            retention_ns: 0,
            highest_wall_ns: 0,
            last_wall_ns: 0,
        };
        crate::codec::frame::encode(stamp, &header, ops.iter().copied(), out)
    }

    /// Whether a range has the encoded key.
    pub fn keys_contain<K: ?Sized>(keys: &crate::Keys<K>, encoded: &[u8]) -> bool {
        std::ops::RangeBounds::<[u8]>::contains(&keys.bounds(), encoded)
    }

    /// Whether a range has room for no key at all.
    pub fn keys_are_empty<K: ?Sized>(keys: &crate::Keys<K>) -> bool {
        keys.is_empty()
    }
}

/// The guide, so that its code is compiled and run. It is for readers of the repository, and part of no build.
#[cfg(all(doctest, feature = "json"))]
mod guide {
    #[doc = include_str!("../docs/guide/backup.md")]
    mod backup {}
    #[doc = include_str!("../docs/guide/batches.md")]
    mod batches {}
    #[doc = include_str!("../docs/guide/conditional-writes.md")]
    mod conditional_writes {}
    #[doc = include_str!("../docs/guide/damage.md")]
    mod damage {}
    #[doc = include_str!("../docs/guide/from-sqlite.md")]
    mod from_sqlite {}
    #[doc = include_str!("../docs/guide/operations.md")]
    mod operations {}
    #[doc = include_str!("../docs/guide/outbox.md")]
    mod outbox {}
    #[doc = include_str!("../docs/guide/outbox-shell.md")]
    mod outbox_shell {}
    #[doc = include_str!("../docs/guide/own-index.md")]
    mod own_index {}
    #[doc = include_str!("../docs/guide/README.md")]
    mod questions {}
    #[cfg(feature = "test-util")]
    #[doc = include_str!("../docs/guide/proving.md")]
    mod proving {}
    #[doc = include_str!("../docs/guide/remembered-keys.md")]
    mod remembered_keys {}
    #[doc = include_str!("../docs/guide/setting-values.md")]
    mod setting_values {}
    #[doc = include_str!("../docs/guide/state-transitions.md")]
    mod state_transitions {}
    #[doc = include_str!("../docs/guide/tables-that-change.md")]
    mod tables_that_change {}
}
