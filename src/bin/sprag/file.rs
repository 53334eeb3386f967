//! `init`, `stats`, `tables`, `clock reset`: the file as a whole.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use sprag::{Options, ReadTx, Stats, Store, TableInfo};

use crate::answer::{Answer, Lines, Work, plain, time_text};
use crate::args::InitArgs;
use crate::failure::Failure;
use crate::outbox::show::{Figures, figures};

/// A store that is written to, closed when it is dropped: what is in the base has checksums of its own, and what is only in
/// the log could lose its last commit to a bad sector unseen.
pub struct Writing(Store);

impl std::ops::Deref for Writing {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // What was answered is in the log if this fails, and the next opening finds it there.
        let _ = self.0.clone().close();
    }
}

/// Opens a store that must exist, to write to it.
pub fn open(file: &Path, wait: Option<Duration>) -> Result<Writing, Failure> {
    Ok(Writing(options(wait).open(file)?))
}

/// Opens a store that must exist, to look at it while others may write.
pub fn look(file: &Path, wait: Option<Duration>) -> Result<Store, Failure> {
    Ok(options(wait).open_read_only(file)?)
}

fn options(wait: Option<Duration>) -> Options {
    Options::new().wait(wait.unwrap_or(Duration::ZERO))
}

#[derive(Serialize)]
struct Created {
    outcome: &'static str,
    file: String,
}

pub fn init(args: &InitArgs, json: bool) -> Result<Answer, Failure> {
    let mut options = Options::new();
    if let Some(bytes) = args.log_half {
        options = options.log_half_bytes(bytes);
    }
    options.create_new(&args.file)?;
    let created = Created {
        outcome: "created",
        file: args.file.display().to_string(),
    };
    Answer::new(json, Work::Write, &created, || {
        format!("created file={}", plain(&created.file))
    })
}

#[derive(Serialize)]
struct Reset {
    outcome: &'static str,
    highest_wall: String,
}

pub fn reset_clock(store: &Store, json: bool) -> Result<Answer, Failure> {
    store.reset_clock()?;
    let highest_wall = wall_text(store.stats()?.highest_wall_ns);
    let reset = Reset {
        outcome: "applied",
        highest_wall,
    };
    Answer::new(json, Work::Write, &reset, || {
        format!("applied highest_wall={}", reset.highest_wall)
    })
}

/// The figures; those that count begin at this open.
#[derive(Serialize)]
struct ShownStats {
    file: String,
    file_bytes: u64,
    sequence: u64,
    log_half_bytes: u64,
    log_used_bytes: u64,
    retention_ns: u64,
    highest_wall_ns: i64,
    highest_wall: String,
    tables: Vec<ShownTable>,
    queues: Vec<Figures>,
}

#[derive(Serialize)]
struct ShownTable {
    name: String,
    key: String,
    codec: String,
    schema: u32,
    machine: Option<String>,
    states: Vec<ShownState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    migrating_to: Option<u32>,
}

/// A state and how many records are in it.
#[derive(Serialize)]
struct ShownState {
    state: String,
    records: u64,
}

impl ShownTable {
    fn new(tx: &ReadTx<'_>, info: &TableInfo) -> Result<ShownTable, Failure> {
        let machine = info.machine();
        let counts = match machine {
            // While a table is migrated its records are nobody's.
            Some(_) if info.migrating_to().is_none() => tx.state_counts(&info.open())?,
            _ => Vec::new(),
        };
        let states = counts.into_iter().map(|(state, records)| ShownState {
            state: state.unwrap_or_default(),
            records,
        });
        Ok(ShownTable {
            name: info.name().to_owned(),
            key: info.key_kind().to_string(),
            codec: info.codec().to_string(),
            schema: info.schema(),
            machine: machine.map(|machine| machine.name().to_owned()),
            states: states.collect(),
            migrating_to: info.migrating_to(),
        })
    }

    /// Without control characters.
    fn text(&self) -> String {
        let ShownTable {
            name,
            key,
            codec,
            schema,
            ..
        } = self;
        let mut text = format!("table {name:?} key={key} codec={codec} schema={schema}");
        if let Some(machine) = &self.machine {
            let states = self.states.iter().map(|one| format!("{:?}:{}", one.state, one.records));
            let states: Vec<_> = states.collect();
            text.push_str(&format!(" machine={machine:?} states={}", states.join(",")));
        }
        if let Some(number) = self.migrating_to {
            text.push_str(&format!(" migrating_to={number}"));
        }
        plain(&text)
    }
}

fn shown_tables(store: &Store) -> Result<Vec<ShownTable>, Failure> {
    store.read(|tx| tx.tables()?.iter().map(|info| ShownTable::new(tx, info)).collect())
}

pub fn tables(store: &Store, json: bool) -> Result<Answer, Failure> {
    let mut lines = Lines::new(json);
    let outcome = shown_tables(store)?
        .iter()
        .try_for_each(|table| lines.push(table, || table.text()));
    lines.finish(outcome)
}

pub fn stats(store: &Store, file: &Path, json: bool) -> Result<Answer, Failure> {
    let tables = shown_tables(store)?;
    let Stats {
        sequence,
        log_half_bytes,
        log_used_bytes,
        retention_ns,
        highest_wall_ns,
        ..
    } = store.stats()?;
    let about =
        std::fs::metadata(file).map_err(|cause| Failure::io("ask for the length of the file", Some(file), &cause))?;
    let shown = ShownStats {
        file: file.display().to_string(),
        file_bytes: about.len(),
        sequence,
        log_half_bytes,
        log_used_bytes,
        retention_ns,
        highest_wall_ns,
        highest_wall: wall_text(highest_wall_ns),
        tables,
        queues: figures(store, None)?,
    };
    Answer::new(json, Work::Read, &shown, || stats_text(&shown))
}

fn stats_text(shown: &ShownStats) -> String {
    let retention = humantime::format_duration(Duration::from_nanos(shown.retention_ns));
    let mut lines = vec![
        format!("file {}", shown.file),
        format!("file_bytes {}", shown.file_bytes),
        format!("sequence {}", shown.sequence),
        format!("log_half_bytes {}", shown.log_half_bytes),
        format!("log_used_bytes {}", shown.log_used_bytes),
        format!("retention {retention}"),
        format!("highest_wall {}", shown.highest_wall),
    ];
    for line in &mut lines {
        *line = plain(line);
    }
    lines.extend(shown.tables.iter().map(ShownTable::text));
    lines.extend(shown.queues.iter().map(Figures::text));
    lines.join("\n")
}

fn wall_text(ns: i64) -> String {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    let time = if ns < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time_text(time.unwrap_or(SystemTime::UNIX_EPOCH))
}
