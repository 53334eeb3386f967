//! SQLite doing the same: WAL, `synchronous = FULL`, a version column, a key table with a primary key.
//!
//! Everything is set in its favour that a careful user would set: cached prepared statements, also for begin and
//! commit; `BEGIN IMMEDIATE`, so that nobody has to upgrade a lock; the key table without a row id, so that a key costs
//! one B-tree; no index by end of keep, which a user needs who ever wants to delete a key; the cache that Sprag has.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::load::{Contents, KEEP_DAYS, Load, SCOPE, Step};
use crate::peer::{Failure, Peer, Subject};

const FILE: &str = "sqlite.db";
/// Bytes of the log at which SQLite moves it into the database: 1,000 frames of a page and its header.
const LOG_BYTES_MAX: u64 = 1000 * (4096 + 24);
const SCHEMA: &str = "
    CREATE TABLE records (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);
    CREATE TABLE keys (scope TEXT NOT NULL, key BLOB NOT NULL, ends INTEGER NOT NULL, result BLOB NOT NULL,
                       PRIMARY KEY (scope, key)) WITHOUT ROWID;
    CREATE TABLE extras (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);";
const PUT_IF: &str = "UPDATE records SET version = version + 1, value = ?3 WHERE id = ?1 AND version = ?2";
const REMEMBER: &str = "INSERT INTO keys (scope, key, ends, result) VALUES (?1, ?2, ?3, ?4)";
const PUT: &str = "INSERT INTO extras (id, version, value) VALUES (?1, 1, ?2)";
/// Any fixed moment does: nothing expires during a run.
const ENDS: u64 = 1_767_225_600 + KEEP_DAYS * 86_400;

/// How threads share the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One connection behind a mutex.
    OneConnection,
    /// A connection for each thread; SQLite's own lock and busy handler order them.
    ConnectionEach,
}

/// A database with its connections.
#[derive(Debug)]
pub struct Sqlite {
    sharing: Sharing,
    connections: Vec<Mutex<Connection>>,
    log: PathBuf,
}

/// SQLite with one connection.
pub const SUBJECT: Subject = Subject {
    name: "sqlite",
    fill,
    open: |folder| Ok(Box::new(Sqlite::open(folder, Sharing::OneConnection, 1)?)),
};

/// Makes the database in `folder` with the records that exist before the first step.
///
/// # Errors
/// What SQLite reports.
pub fn fill(folder: &Path, load: &Load) -> Result<(), Failure> {
    let mut connection = connect(folder)?;
    connection.execute_batch(SCHEMA)?;
    let filling = connection.transaction()?;
    {
        let mut insert = filling.prepare("INSERT INTO records (id, version, value) VALUES (?1, 1, ?2)")?;
        for record in 0..load.records() {
            insert.execute(params![record, Load::first_value(record)])?;
        }
    }
    filling.commit()?;
    connection.close().map_err(|(_, cause)| cause.into())
}

impl Sqlite {
    /// Opens the database in `folder` for up to `threads` threads.
    ///
    /// # Errors
    /// What SQLite reports.
    pub fn open(folder: &Path, sharing: Sharing, threads: usize) -> Result<Sqlite, Failure> {
        let count = match sharing {
            Sharing::OneConnection => 1,
            Sharing::ConnectionEach => threads,
        };
        let connections: Result<_, Failure> = (0..count).map(|_| Ok(Mutex::new(connect(folder)?))).collect();
        Ok(Sqlite {
            sharing,
            connections: connections?,
            log: folder.join(FILE.to_owned() + "-wal"),
        })
    }

    fn with<T>(&self, thread: usize, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let connection = &self.connections[thread % self.connections.len()];
        work(&connection.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Peer for Sqlite {
    fn name(&self) -> &str {
        match self.sharing {
            Sharing::OneConnection => "sqlite, one connection",
            Sharing::ConnectionEach => "sqlite, connection each",
        }
    }

    fn commit(&self, thread: usize, step: &Step) -> Result<(), Failure> {
        self.with(thread, |connection| {
            begin(connection)?;
            let done = write(connection, step);
            let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
            connection.prepare_cached(end)?.execute([])?;
            done
        })
    }

    fn to_recover(&self) -> f64 {
        std::fs::metadata(&self.log).map_or(0.0, |log| log.len() as f64 / LOG_BYTES_MAX as f64)
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        self.with(0, |connection| {
            let mut contents = Contents::default();
            let mut statement = connection.prepare("SELECT id, version, value FROM records")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                contents.add_record(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_str()?);
            }
            let mut statement = connection.prepare("SELECT key FROM keys WHERE scope = ?1")?;
            let mut rows = statement.query([SCOPE])?;
            while let Some(row) = rows.next()? {
                contents.add_key(row.get_ref(0)?.as_blob()?);
            }
            let mut statement = connection.prepare("SELECT id, value FROM extras WHERE version = 1")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                contents.add_extra(row.get(0)?, row.get_ref(1)?.as_str()?);
            }
            Ok(Some(contents))
        })
    }
}

/// Takes the write lock. The busy handler gives up after its time; with many threads that happens, and a caller goes on.
fn begin(connection: &Connection) -> Result<(), Failure> {
    loop {
        match connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]) {
            Ok(_) => return Ok(()),
            Err(cause) if cause.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

fn write(connection: &Connection, step: &Step) -> Result<(), Failure> {
    connection
        .prepare_cached(REMEMBER)?
        .execute(params![SCOPE, step.key, ENDS, b""])?;
    let changed = connection
        .prepare_cached(PUT_IF)?
        .execute(params![step.record, step.version, step.value])?;
    if changed != 1 {
        return Err(format!("conflict, record={}, version={}", step.record, step.version).into());
    }
    connection
        .prepare_cached(PUT)?
        .execute(params![step.extra, step.extra_value])?;
    Ok(())
}

fn connect(folder: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(folder.join(FILE))?;
    connection.busy_timeout(Duration::from_secs(30))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("no write-ahead log, mode={mode}").into());
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    // In KiB when negative.
    connection.pragma_update(None, "cache_size", -16 * 1024)?;
    Ok(connection)
}
