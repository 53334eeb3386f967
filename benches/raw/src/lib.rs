//! What the benches cannot do without `unsafe`, kept apart from them.

mod lmdb;
pub mod slow;

pub use lmdb::open as open_lmdb;
