//! SQLite doing the same: WAL, `synchronous = FULL`, a version column, a key table with a primary key.
//!
//! Everything is set in its favour that a careful user would set: cached prepared statements, also for begin and
//! commit; `BEGIN IMMEDIATE`, so that nobody has to upgrade a lock; the key table without a row id, so that a key costs
//! one B-tree; no index by end of keep, which a user needs who ever wants to delete a key; the cache that Sprag has. A queue is a
//! table with an index of the messages that nobody holds; no index of those that somebody does, which a user needs who ever
//! wants to take one from a worker that died, and fences that grow for each message alone.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};

use crate::contents::Contents;
use crate::group::Grouped as Group;
use crate::load::{HEADER, KEEP_DAYS, SCOPE};
use crate::op::{Ask, First, Held, Message, Op, Reply, See};
use crate::peer::{Durability, Failure, LOT_BYTES, Peer, Setup, Subject};

const FILE: &str = "sqlite.db";
/// Bytes of the log at which SQLite moves it into the database: 1,000 frames of a page and its header.
const LOG_BYTES_MAX: u64 = 1000 * (4096 + 24);
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS keys (scope TEXT NOT NULL, key BLOB NOT NULL, ends INTEGER NOT NULL,
                                     result INTEGER NOT NULL, PRIMARY KEY (scope, key)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS extras (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL,
                                       value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS counters (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, count INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, due INTEGER NOT NULL,
                                         state INTEGER NOT NULL, attempts INTEGER NOT NULL, fence INTEGER NOT NULL,
                                         key BLOB, headers TEXT NOT NULL, payload TEXT NOT NULL, effect_id BLOB NOT NULL,
                                         enqueued_at INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS ready ON messages (queue, due, id) WHERE state = 0;";
const PUT_IF: &str = "UPDATE records SET version = version + 1, value = ?3 WHERE id = ?1 AND version = ?2";
const REMEMBER: &str = "INSERT INTO keys (scope, key, ends, result) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
const REMEMBERED: &str = "SELECT result FROM keys WHERE scope = ?1 AND key = ?2";
const FORGET: &str = "DELETE FROM keys WHERE scope = ?1 AND key = ?2";
const PUT: &str = "INSERT INTO extras (id, version, value) VALUES (?1, 1, ?2)";
const MOVE: &str = "UPDATE orders SET version = version + 1, status = ?3 WHERE id = ?1 AND status = ?2";
const COUNT: &str = "UPDATE counters SET version = version + 1, count = count + 1 WHERE id = 0";
const GET: &str = "SELECT id, version, value FROM records WHERE id = ?1";
const SCAN: &str = "SELECT id, version, value FROM records WHERE id >= ?1 ORDER BY id LIMIT ?2";
const ENQUEUE: &str =
    "INSERT INTO messages (queue, due, state, attempts, fence, headers, payload, effect_id, enqueued_at)
                       VALUES ('mail', ?1, 0, 0, 0, ?2, ?3, randomblob(16), ?1)";
const CLAIM: &str = "UPDATE messages SET state = 1, attempts = attempts + 1, fence = fence + 1, due = ?1 + 30000
                     WHERE id IN (SELECT id FROM messages WHERE queue = 'mail' AND state = 0 AND due <= ?1
                                  ORDER BY due, id LIMIT ?2)
                     RETURNING id, fence, attempts, key, headers, payload, effect_id, enqueued_at";
const ACK: &str = "DELETE FROM messages WHERE id = ?1 AND fence = ?2 AND state = 1";
const STATES: [&str; 3] = ["new", "packed", "shipped"];
/// Any fixed moment does: nothing expires during a run.
const ENDS: u64 = 1_767_225_600 + KEEP_DAYS * 86_400;

/// How threads share the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// One connection behind a mutex.
    OneConnection,
    /// A connection for each thread; SQLite's own lock and busy handler order them.
    ConnectionEach,
}

/// A database with its connections.
#[derive(Debug)]
struct Sqlite {
    connections: Vec<Mutex<Connection>>,
    log: PathBuf,
}

/// SQLite with one connection.
pub const ONE_CONNECTION: Subject = Subject {
    name: "sqlite",
    group: "sqlite",
    durability: Durability::Sync,
    files: "sqlite",
    lot_bytes: LOT_BYTES,
    open: |folder, setup| Sqlite::open(folder, Sharing::OneConnection, "FULL", setup),
};

/// SQLite with a connection for each thread.
pub const CONNECTION_EACH: Subject = Subject {
    name: "sqlite, connection each",
    open: |folder, setup| Sqlite::open(folder, Sharing::ConnectionEach, "FULL", setup),
    ..ONE_CONNECTION
};

/// SQLite that answers before the sync.
pub const NORMAL: Subject = Subject {
    name: "sqlite, NORMAL",
    durability: Durability::Buffered,
    open: |folder, setup| Sqlite::open(folder, Sharing::OneConnection, "NORMAL", setup),
    ..ONE_CONNECTION
};

/// SQLite behind a group.
pub const GROUPED: Subject = Subject {
    name: "sqlite behind a group",
    group: "sqlite grouped",
    open: |folder, setup| Group::open(ONE_CONNECTION.open, folder, setup),
    ..ONE_CONNECTION
};

impl Sqlite {
    fn open(folder: &Path, sharing: Sharing, synchronous: &str, setup: Setup) -> Result<Box<dyn Peer>, Failure> {
        let count = match sharing {
            Sharing::OneConnection => 1,
            Sharing::ConnectionEach => setup.threads,
        };
        let connections: Result<Vec<_>, Failure> = (0..count)
            .map(|_| Ok(Mutex::new(connect(folder, synchronous, setup)?)))
            .collect();
        let database = Sqlite {
            connections: connections?,
            log: folder.join(FILE.to_owned() + "-wal"),
        };
        database.with(0, |connection| Ok(connection.execute_batch(SCHEMA)?))?;
        Ok(Box::new(database))
    }

    fn with<T>(&self, thread: usize, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let connection = &self.connections[thread % self.connections.len()];
        work(&connection.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Peer for Sqlite {
    fn write(&self, thread: usize, op: Op) -> Result<Reply, Failure> {
        self.with(thread, |connection| {
            in_transaction(connection, |connection| apply(connection, &op))
        })
    }

    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure> {
        self.with(0, |connection| {
            in_transaction(connection, |connection| {
                ops.iter().map(|op| apply(connection, op)).collect()
            })
        })
    }

    fn read(&self, thread: usize, ask: &Ask, see: See<'_>) -> Result<(), Failure> {
        self.with(thread, |connection| match ask {
            Ask::Get(id) => select(connection, GET, params![id], see),
            Ask::Gets(ids) => {
                connection.prepare_cached("BEGIN")?.execute([])?;
                let done = ids.iter().try_for_each(|id| select(connection, GET, params![id], see));
                connection.prepare_cached("COMMIT")?.execute([])?;
                done
            }
            Ask::Scan { from, count } => select(connection, SCAN, params![from, count], see),
        })
    }

    fn to_recover(&self) -> f64 {
        std::fs::metadata(&self.log).map_or(0.0, |log| log.len() as f64 / LOG_BYTES_MAX as f64)
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        self.with(0, |connection| {
            let mut contents = Contents::default();
            let add = &mut |id, version, value: &str| contents.add_record(id, version, value);
            select(connection, "SELECT id, version, value FROM records", [], add)?;
            let mut statement = connection.prepare("SELECT key FROM keys WHERE scope = ?1")?;
            let mut rows = statement.query([SCOPE])?;
            while let Some(row) = rows.next()? {
                contents.add_key(row.get_ref(0)?.as_blob()?);
            }
            let add = &mut |id, _, value: &str| contents.add_extra(id, value);
            select(
                connection,
                "SELECT id, version, value FROM extras WHERE version = 1",
                [],
                add,
            )?;
            let mut statement = connection.prepare("SELECT id, version, status, value FROM orders")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let status = row.get_ref(2)?.as_str()?;
                let state = STATES
                    .iter()
                    .position(|state| *state == status)
                    .ok_or("a state of no order")?;
                contents.add_order(row.get(0)?, row.get(1)?, state as u64, row.get_ref(3)?.as_str()?);
            }
            let mut statement = connection.prepare("SELECT id, count FROM counters")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                contents.add_counter(row.get(0)?, row.get(1)?);
            }
            let mut statement = connection.prepare("SELECT attempts, payload FROM messages WHERE state = 0")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                contents.add_message(row.get(0)?, row.get_ref(1)?.as_str()?);
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

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    begin(connection)?;
    let done = work(connection);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.prepare_cached(end)?.execute([])?;
    done
}

/// Does `op` or leaves nothing, without a savepoint: what could stop it comes first, and a key is taken back.
fn apply(connection: &Connection, op: &Op) -> Result<Reply, Failure> {
    let run = |sql, values: &[&dyn rusqlite::ToSql]| -> Result<usize, Failure> {
        Ok(connection.prepare_cached(sql)?.execute(values)?)
    };
    let done = match op {
        Op::Commit(step) => {
            if run(REMEMBER, params![SCOPE, step.key, ENDS, step.extra])? == 0 {
                let mut statement = connection.prepare_cached(REMEMBERED)?;
                let result = statement.query_row(params![SCOPE, step.key], |row| row.get(0))?;
                return Ok(Reply::Repeat(result));
            }
            if run(PUT_IF, params![step.record, step.version, step.value])? == 1 {
                run(PUT, params![step.extra, step.extra_value])?
            } else {
                run(FORGET, params![SCOPE, step.key])?;
                0
            }
        }
        Op::PutIf(step) => run(PUT_IF, params![step.record, step.version, step.value])?,
        Op::Move(to_move) => {
            let (from, to) = (STATES[to_move.from as usize], STATES[to_move.to as usize]);
            run(MOVE, params![to_move.record, from, to])?
        }
        Op::Count => run(COUNT, &[])?,
        Op::First(first) => put_first(connection, first)?,
        Op::Enqueue(message) => enqueue(connection, message)?,
        Op::Claim(count) => return claim(connection, *count),
        Op::Ack(held) => usize::from(ack(connection, held)?),
        Op::AckThenClaim(held, count) if ack(connection, held)? => return claim(connection, *count),
        Op::AckThenClaim(..) => 0,
    };
    Ok(if done == 1 { Reply::Done } else { Reply::Conflict })
}

fn now_ms() -> Result<i64, Failure> {
    Ok(i64::try_from(
        SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis(),
    )?)
}

fn enqueue(connection: &Connection, message: &Message) -> Result<usize, Failure> {
    let headers = format!("{}: {}", HEADER.0, HEADER.1);
    let mut statement = connection.prepare_cached(ENQUEUE)?;
    Ok(statement.execute(params![now_ms()?, headers, message.payload])?)
}

/// Reads what a worker needs of each message.
fn claim(connection: &Connection, count: usize) -> Result<Reply, Failure> {
    let mut statement = connection.prepare_cached(CLAIM)?;
    let mut rows = statement.query(params![now_ms()?, count])?;
    let mut held = Vec::with_capacity(count);
    while let Some(row) = rows.next()? {
        let payload: String = row.get(5)?;
        let _: (u32, Option<Vec<u8>>, String) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let _: ([u8; 16], i64) = (row.get(6)?, row.get(7)?);
        held.push(Held {
            id: row.get(0)?,
            fence: row.get(1)?,
            bytes: payload.len(),
        });
    }
    Ok(Reply::Claimed(held))
}

/// Whether all of them were still held.
fn ack(connection: &Connection, held: &[Held]) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(ACK)?;
    for one in held {
        if statement.execute(params![one.id, one.fence])? != 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn put_first(connection: &Connection, first: &First) -> Result<usize, Failure> {
    let changed = match first {
        First::Record(id, value) => connection
            .prepare_cached("INSERT INTO records (id, version, value) VALUES (?1, 1, ?2)")?
            .execute(params![id, value])?,
        First::Order(id, value) => connection
            .prepare_cached("INSERT INTO orders (id, version, status, value) VALUES (?1, 1, ?2, ?3)")?
            .execute(params![id, STATES[0], value])?,
        First::Counter(id) => connection
            .prepare_cached("INSERT INTO counters (id, version, count) VALUES (?1, 1, 0)")?
            .execute(params![id])?,
        First::Key(key) => connection
            .prepare_cached(REMEMBER)?
            .execute(params![SCOPE, key, ENDS, 0])?,
    };
    Ok(changed)
}

fn select(connection: &Connection, sql: &str, values: impl rusqlite::Params, see: See<'_>) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        see(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_str()?);
    }
    Ok(())
}

fn connect(folder: &Path, synchronous: &str, setup: Setup) -> Result<Connection, Failure> {
    let connection = Connection::open(folder.join(FILE))?;
    // The default keeps 16, and there are a few more.
    connection.set_prepared_statement_cache_capacity(32);
    connection.busy_timeout(Duration::from_secs(30))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("no write-ahead log, mode={mode}").into());
    }
    let synchronous = if setup.filling { "OFF" } else { synchronous };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // In KiB when negative.
    connection.pragma_update(None, "cache_size", -((super::cache_bytes(setup) / 1024) as i64))?;
    Ok(connection)
}
