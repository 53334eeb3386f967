//! Those who take part, each as a careful user would set it up.

use crate::peer::{Setup, Subject};

pub mod fjall;
pub mod floor;
mod kv;
pub mod lmdb;
pub mod redb;
pub mod sprag;
pub mod sqlite;

/// Everybody, the yardsticks first. What is not here: `denokv_sqlite` binds another version of SQLite than `rusqlite`, and
/// a program can hold one of them only.
pub const ALL: [Subject; 13] = [
    floor::FDATASYNC,
    floor::DSYNC,
    sprag::SYNC,
    sprag::BUFFERED,
    sprag::LARGE_HALVES,
    sqlite::ONE_CONNECTION,
    sqlite::CONNECTION_EACH,
    sqlite::NORMAL,
    sqlite::GROUPED,
    redb::SUBJECT,
    fjall::SUBJECT,
    fjall::GROUPED,
    lmdb::SUBJECT,
];

/// Who keeps a store, in the way that most would use it.
pub const STORES: [Subject; 2] = [sprag::SYNC, sqlite::ONE_CONNECTION];

/// Who is asked for and not there, with the reason.
pub const NOT_MEASURED: [(&str, &str); 1] = [(
    "denokv_sqlite",
    "0.14 binds libsqlite3-sys 0.38 and rusqlite 0.43 binds 0.40, and a program can link one of them only",
)];

/// What each may keep in memory of its file, where it can be told: the same for all, but for a filling.
fn cache_bytes(setup: Setup) -> usize {
    if setup.filling {
        1 << 30
    } else {
        ::sprag::limits::CACHE_BYTES_DEFAULT
    }
}
