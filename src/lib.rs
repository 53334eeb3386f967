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
mod limits;
mod sync;

pub use error::{Error, ErrorKind, Result};
