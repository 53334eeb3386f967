//! The one trait by which every engine takes part, and how it comes to its file.

use std::path::Path;

use crate::load::{Contents, Load, Step};

/// Why a peer could not go on. A bench has no use for kinds: it stops and shows the text.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An engine that makes steps durable.
pub trait Peer: Sync {
    /// The name in the table.
    fn name(&self) -> &str;

    /// How many threads it wants when `asked` are measured. Only the floor, which is one thread by definition, differs.
    fn threads(&self, asked: usize) -> usize {
        asked
    }

    /// Makes all of `step` durable, or fails. Called by at most one thread at a time for each value of `thread`.
    ///
    /// # Errors
    /// Also if the version did not match or the key was known: the steps are made so that this cannot happen.
    fn commit(&self, thread: usize, step: &Step) -> Result<(), Failure>;

    /// Bytes given to the log since the peer was built, if it counts them.
    fn bytes_handed(&self) -> Option<u64> {
        None
    }

    /// Returns when no background work is left that would disturb the next peer's slice.
    ///
    /// # Errors
    /// What the engine reports.
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The share of what its log can hold that a kill at this moment would leave to recover; 0 without a log.
    fn to_recover(&self) -> f64 {
        0.0
    }

    /// Everything it holds, read back through its public face; `None` for a floor, which holds nothing.
    ///
    /// # Errors
    /// What the engine reports.
    fn contents(&self) -> Result<Option<Contents>, Failure>;
}

/// How to make and open an engine's store with its defaults.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The name in the table.
    pub name: &'static str,
    /// Makes a store in an empty folder that holds the records from before the first step, and closes it.
    pub fill: fn(&Path, &Load) -> Result<(), Failure>,
    /// Opens the store in this folder, after whatever happened to it.
    pub open: fn(&Path) -> Result<Box<dyn Peer>, Failure>,
}

/// All engines that keep a store.
pub const SUBJECTS: [Subject; 2] = [crate::sprag::SUBJECT, crate::sqlite::SUBJECT];
