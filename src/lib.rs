mod error;
mod group;
mod limits;
mod sync;

pub use error::{Error, ErrorKind, Result};
