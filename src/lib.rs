//! An embedded, single-file, transactional key-value store that makes a step safe to run again.

mod disk;
mod error;
mod limits;

pub use error::{Error, ErrorKind, Result};
