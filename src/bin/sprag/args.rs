//! What the command accepts, and what its help says.
//!
//! Owns names, flags, units and the exit codes as users read them. Nothing is guessed here: a duration needs its unit, a
//! key its kind, and a new table what its keys are.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use sprag::{Condition, Keep, KeyKind};

/// A store in one file, in which a step is safe to run again.
///
/// The answer is one word and its facts on stdout, or one JSON object with --json. An error is text on stderr with its
/// causes, or with --json one object {"error":{"kind":..,"message":..,"causes":[..]}} on stderr; stdout is empty then.
#[derive(Debug, Parser)]
#[command(name = "sprag", version, after_help = EXITS, after_long_help = EXITS)]
pub struct Cli {
    /// Print one JSON object instead of text; 64-bit numbers are written whole.
    #[arg(long, global = true)]
    pub json: bool,

    /// How long to wait for a file that another process has open, with its unit: 500ms, 10s [default: do not wait].
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Deliver the same messages once, twice, three times, eleven times, eight at once and over a kill; show what is stored.
    #[command(after_help = DEMO_EXITS, after_long_help = DEMO_EXITS)]
    Demo {
        /// The file to make; it must not exist [default: a new folder among the temporary files, named in the output].
        file: Option<PathBuf>,
    },
    /// Make a new, empty store.
    #[command(after_help = INIT_EXITS, after_long_help = INIT_EXITS)]
    Init(InitArgs),
    /// Print the value of a record.
    #[command(after_help = GET_EXITS, after_long_help = GET_EXITS)]
    Get(GetArgs),
    /// Write a record, if a condition holds, or once under a remembered key. A new table is made with JSON values.
    #[command(after_help = PUT_EXITS, after_long_help = PUT_EXITS)]
    Put(PutArgs),
    /// Remove a record, if a condition holds.
    #[command(after_help = DELETE_EXITS, after_long_help = DELETE_EXITS)]
    Delete(DeleteArgs),
    /// Move a record from one state to another, by the machine that the file keeps for its table.
    #[command(after_help = TRANSITION_EXITS, after_long_help = TRANSITION_EXITS)]
    Transition(TransitionArgs),
    /// Print the figures of a store, its clocks and its tables.
    #[command(after_help = READ_EXITS, after_long_help = READ_EXITS)]
    Stats {
        /// The store.
        file: PathBuf,
    },
    /// The clock that remembered keys end by.
    #[command(subcommand)]
    Clock(ClockCommand),
    /// One delivery of the demo, in a process of its own that can be killed.
    #[command(hide = true)]
    DemoDelivery {
        file: PathBuf,
        technique: String,
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Take the mark of the highest wall time back to now, after a clock that was once far ahead.
    #[command(after_help = CLOCK_EXITS, after_long_help = CLOCK_EXITS)]
    Reset {
        /// The store.
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// The file to make; it must not exist.
    pub file: PathBuf,

    /// Length of each of the two log halves: a multiple of 4096 from 16384 to 1073741824 [default: 2097152]. One commit may
    /// take half of it.
    #[arg(long, value_name = "BYTES")]
    pub log_half: Option<u64>,
}

/// Which record.
#[derive(Debug, Args)]
pub struct Place {
    /// The store.
    pub file: PathBuf,

    /// Name of the table.
    pub table: String,

    /// The key, in the kind of its table. u64 and i64: digits; str: the text; bytes: text, or hex: and two digits a byte;
    /// a pair: (first,second).
    #[arg(allow_negative_numbers = true)]
    pub key: String,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub place: Place,

    /// Print version and state before the value, a line each.
    #[arg(long, short)]
    pub long: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("condition").multiple(false))]
pub struct PutArgs {
    #[command(flatten)]
    pub place: Place,

    /// The value as JSON; @PATH takes it from a file, - from stdin. Whitespace outside of texts is left out; numbers and the
    /// order of fields stay as they are.
    #[arg(allow_negative_numbers = true)]
    pub value: String,

    /// Take VALUE itself as a text, also if it begins with @ or is -, and store it as a JSON text.
    #[arg(long, conflicts_with = "base64")]
    pub text: bool,

    /// VALUE is base64 of the bytes to store. The only way to write to a table of bincode values.
    #[arg(long)]
    pub base64: bool,

    /// Kind of the keys of a new table [default: str]. An existing table must have this kind.
    #[arg(long = "key", value_name = "KIND", id = "key_kind")]
    pub key_kind: Option<NewKind>,

    /// Write only if the record is at this version.
    #[arg(long, value_name = "N", group = "condition")]
    pub if_version: Option<u64>,

    /// Write only if there is no such record.
    #[arg(long, group = "condition")]
    pub if_absent: bool,

    /// Write only if there is such a record.
    #[arg(long, group = "condition")]
    pub if_present: bool,

    /// Remember this operation under a key, so that a repeat of it answers what the first one did and writes nothing. Scope:
    /// 1 to 64 of A-Z a-z 0-9 . _ -; behind the first slash, the key: 1 to 255 bytes.
    #[arg(long, value_name = "SCOPE/KEY", requires = "keep", value_parser = once_name)]
    pub once: Option<OnceName>,

    /// How long the key is remembered at least: forever, or a duration with its units (7d, 1h 30m; one of ns, us, ms, s, m, h,
    /// d, w behind each number). It must cover the longest time after which a retry can come.
    #[arg(long, value_name = "DURATION", requires = "once", value_parser = keep)]
    pub keep: Option<Keep>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("condition").multiple(false))]
pub struct DeleteArgs {
    #[command(flatten)]
    pub place: Place,

    /// Remove only the record at this version.
    #[arg(long, value_name = "N", group = "condition")]
    pub if_version: Option<u64>,

    /// Remove the record whatever its version is, as without a condition.
    #[arg(long, group = "condition")]
    pub if_present: bool,
}

#[derive(Debug, Args)]
pub struct TransitionArgs {
    #[command(flatten)]
    pub place: Place,

    /// The state in which the record must be.
    pub from: String,

    /// The state to which it moves.
    pub to: String,
}

impl PutArgs {
    pub fn condition(&self) -> Condition {
        match self.if_version {
            Some(version) => Condition::Version(version),
            None if self.if_absent => Condition::Absent,
            None if self.if_present => Condition::Present,
            None => Condition::Any,
        }
    }
}

impl DeleteArgs {
    pub fn condition(&self) -> Condition {
        match self.if_version {
            Some(version) => Condition::Version(version),
            None if self.if_present => Condition::Present,
            None => Condition::Any,
        }
    }
}

/// Kinds of keys that a new table can be given here.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NewKind {
    /// Numbers from 0 to 18446744073709551615.
    U64,
    /// Numbers from -9223372036854775808 to 9223372036854775807.
    I64,
    /// Texts.
    Str,
    /// Bytes.
    Bytes,
}

impl NewKind {
    pub fn kind(self) -> KeyKind {
        match self {
            NewKind::U64 => KeyKind::U64,
            NewKind::I64 => KeyKind::I64,
            NewKind::Str => KeyKind::Str,
            NewKind::Bytes => KeyKind::Bytes,
        }
    }
}

/// A remembered key as it is written here.
#[derive(Clone, Debug)]
pub struct OnceName {
    pub scope: String,
    pub key: String,
}

fn once_name(text: &str) -> Result<OnceName, String> {
    let (scope, key) = text.split_once('/').ok_or("a remembered key is written SCOPE/KEY")?;
    Ok(OnceName {
        scope: scope.to_owned(),
        key: key.to_owned(),
    })
}

fn keep(text: &str) -> Result<Keep, String> {
    if text == "forever" {
        return Ok(Keep::Forever);
    }
    duration(text).map(Keep::For)
}

/// Months and years are left out: their length is not one number, and `M` is too near to `m`.
const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "m", "h", "d", "w"];

fn duration(text: &str) -> Result<Duration, String> {
    let mut units = text
        .split(|letter: char| !letter.is_alphabetic())
        .filter(|unit| !unit.is_empty())
        .peekable();
    if units.peek().is_none() {
        return Err(format!("a duration needs its unit, one of {}", UNITS.join(", ")));
    }
    if let Some(unit) = units.find(|unit| !UNITS.contains(unit)) {
        return Err(format!("no such unit, unit={unit}, units={}", UNITS.join(" ")));
    }
    humantime::parse_duration(text).map_err(|cause| cause.to_string())
}

const EXITS: &str = "\
Exit codes:
  0  done: applied, or nothing to do (repeat, unchanged, already there, already gone); the word is on stdout
  1  demo only: a row is not as expected
  2  usage, an invalid argument, or something too large
  3  a condition does not hold, a transition is refused, or a remembered key belongs to another request
  4  there is no such file, table or record
  5  another process has the file open
  6  not a store, a newer format, corrupt, another kind of table, or a value that is not what its table says
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again with the same --once

A command that changes the store exits by what became of the store, also if nobody reads its stdout (| head -0): the answer
then goes to stderr. A command that only reads exits 7 if its answer could not be written.
Only init and demo create a file.";

const INIT_EXITS: &str = "\
Exit codes:
  0  created
  2  the file exists, or BYTES is out of its range
  4  there is no such folder
  7  no room, an I/O error, or read-only: no file is left";

const GET_EXITS: &str = "\
A value of a JSON table is printed as it is stored, one of a bincode table as base64. With --json:
  {\"table\":..,\"key\":..,\"version\":..,\"state\":..,\"value\":..}
where a key of kind u64 or i64 is a number and any other its text form, state is null in a table without states, and a bincode
value is {\"base64\":..}.

Exit codes:
  0  printed
  2  usage, or KEY is not of the table's kind
  4  there is no such file, table or record
  5  another process has the file open
  6  not a store, a newer format, corrupt, or the value is not JSON though its table says so
  7  an I/O error, also of stdout; or read-only";

const PUT_EXITS: &str = "\
Words on stdout: applied, unchanged (the record already is what this call would have made it, by whom is not known), repeat
(the same operation was done before under --once; the version is the one it answered then).

Exit codes:
  0  applied, unchanged or repeat
  2  usage, KEY or VALUE is not of the table's kind, or something is too large
  3  the condition does not hold (also if there is no record), or the remembered key belongs to another operation
  4  there is no such file (a file is never made), or no file at @PATH
  5  another process has the file open
  6  not a store, a newer format, corrupt, or the table has keys of another kind than --key says
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again with the same --once";

const DELETE_EXITS: &str = "\
Words on stdout: applied, already gone (there is no such record, whatever the condition).

Exit codes:
  0  applied or already gone
  2  usage, or KEY is not of the table's kind
  3  the condition does not hold
  4  there is no such file or table
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was removed
  8  the outcome is not known; call again";

const TRANSITION_EXITS: &str = "\
Words on stdout: applied, already there (the record is in state TO; by whom it was moved is not known).

Exit codes:
  0  applied or already there
  2  usage, no such state or move, a table without states, or KEY is not of the table's kind
  3  refused: the record is in another state
  4  there is no such file, table or record
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again";

const READ_EXITS: &str = "\
Exit codes:
  0  printed
  2  usage
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  an I/O error, also of stdout; or read-only";

const CLOCK_EXITS: &str = "\
Exit codes:
  0  applied
  2  usage
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again";

const DEMO_EXITS: &str = "\
Each technique has a table of its name in the file, each delivery a record of its name (kill 1, kill 2, .. for the kills), so
that every row can be looked up: sprag get FILE 'remembered key' 11 --long

The technique none is wrong on purpose: its rows are as expected if they are as wrong as they must be.

Exit codes:
  0  every row is as expected
  1  a row is not as expected
  2  usage, or the file exists
  4  there is no such folder
  7  no room, an I/O error, also of stdout; or read-only";
