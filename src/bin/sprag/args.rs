//! What the command accepts, and what its help says of each argument; what comes out is in [`help`](crate::help).
//!
//! Owns names, flags and units as users read them. Nothing is guessed here: a duration needs its unit, a key its kind, and
//! a new table what its keys are.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use sprag::{Condition, DynKey, Keep, KeyKind, OnceKey};

use crate::help;
use crate::outbox;

/// A store in one file, in which a step is safe to run again.
///
/// The answer is one word and its facts on stdout, or one JSON object with --json. An error is text on stderr with its
/// causes, or with --json one JSON object on stderr; stdout is empty then. scan, tables, keys and check print a line for each thing
/// they find, with --json an object, as they find it; an error then comes behind them. What stands in all is listed below.
///
/// Commands that only read (get, scan, tables, machine, keys, stats, check, backup, export; outbox list, show, dead, watch) write no byte of
/// it, and work while another process has the file open.
#[derive(Debug, Parser)]
#[command(name = "sprag", version, after_help = help::EXITS, after_long_help = help::top())]
pub struct Cli {
    /// Print one JSON object instead of text; 64-bit numbers are written whole.
    #[arg(long, global = true)]
    pub json: bool,

    /// How long to wait for a file that another process has open, with its unit: 500ms, 10s [default: do not wait]. Commands that
    /// only read need not wait, and do not.
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub wait: Option<Duration>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Deliver the same messages once, twice, three times, eleven times, eight at once and over a kill; show what is stored.
    #[command(after_help = help::DEMO, after_long_help = help::DEMO)]
    Demo {
        /// The file to make; it must not exist [default: in a new folder among the temporary files, named in the output].
        /// It stays; remove it when you have looked.
        file: Option<PathBuf>,
    },
    /// Make a new, empty store.
    #[command(after_help = help::INIT, after_long_help = help::INIT)]
    Init(InitArgs),
    /// Print the value of a record.
    #[command(after_help = help::GET, after_long_help = help::GET)]
    Get(GetArgs),
    /// Write a record, if a condition holds, or once under a remembered key. A new table is made with JSON values.
    #[command(after_help = help::PUT, after_long_help = help::PUT)]
    Put(PutArgs),
    /// Print the records of a table, or of a range of its keys, a line each.
    #[command(after_help = help::SCAN, after_long_help = help::SCAN)]
    Scan(ScanArgs),
    /// Remove a record, if a condition holds.
    #[command(after_help = help::DELETE, after_long_help = help::DELETE)]
    Delete(DeleteArgs),
    /// Move a record from one state to another, by the machine that the file keeps for its table.
    #[command(after_help = help::TRANSITION, after_long_help = help::TRANSITION)]
    Transition(TransitionArgs),
    /// Apply batches of conditions and writes from JSON: all of a batch in one commit, or nothing of it.
    #[command(after_help = help::APPLY, after_long_help = help::APPLY)]
    Apply(ApplyArgs),
    /// Print the tables of a store, a line each.
    #[command(after_help = help::TABLES, after_long_help = help::TABLES)]
    Tables {
        /// The store.
        file: PathBuf,
    },
    /// Print the states of a machine and the moves between them, as text or as a diagram.
    #[command(after_help = help::MACHINE, after_long_help = help::MACHINE)]
    Machine(MachineArgs),
    /// Print the remembered keys that are not over, a line each.
    #[command(after_help = help::KEYS, after_long_help = help::KEYS)]
    Keys {
        /// The store.
        file: PathBuf,

        /// Only those of this scope.
        #[arg(long)]
        scope: Option<String>,
    },
    /// Forget a remembered key, so that its operation can be done again.
    #[command(after_help = help::FORGET, after_long_help = help::FORGET)]
    Forget {
        /// The store.
        file: PathBuf,

        /// The remembered key, as keys prints it: behind the first slash, text, or hex: and two digits a byte.
        #[arg(value_name = "SCOPE/KEY", value_parser = once_name)]
        name: OnceName,
    },
    /// Free the space of remembered keys that are over now, instead of bit by bit with later writes.
    #[command(after_help = help::SWEEP, after_long_help = help::SWEEP)]
    Sweep {
        /// The store.
        file: PathBuf,
    },
    /// Print the figures of a store, its clocks and its tables.
    #[command(after_help = help::STATS, after_long_help = help::STATS)]
    Stats {
        /// The store.
        file: PathBuf,
    },
    /// Look for broken rules in a store's file, and print each, a line each. Reads only, and all of it.
    #[command(after_help = help::CHECK, after_long_help = help::CHECK)]
    Check {
        /// The store.
        file: PathBuf,
    },
    /// Copy a store as it is now into a new file.
    #[command(after_help = help::BACKUP, after_long_help = help::BACKUP)]
    Backup {
        /// The store.
        file: PathBuf,

        /// The file to make; it must not exist.
        to: PathBuf,
    },
    /// Make a store from a backup, or from any store that nobody has open.
    #[command(after_help = help::RESTORE, after_long_help = help::RESTORE)]
    Restore(RestoreArgs),
    /// Make the file of a store that nobody has open as short as what lives in it needs.
    #[command(after_help = help::COMPACT, after_long_help = help::COMPACT)]
    Compact {
        /// The store.
        file: PathBuf,
    },
    /// Print everything that a store holds as lines of JSON.
    #[command(after_help = help::EXPORT, after_long_help = help::EXPORT)]
    Export {
        /// The store.
        file: PathBuf,
    },
    /// Take in what export printed, into an empty store. A repeat goes on where it stopped.
    #[command(after_help = help::IMPORT, after_long_help = help::IMPORT)]
    Import(ImportArgs),
    /// Queues of messages that leave exactly with the work: put in, claim and answer, look, deliver dead letters again.
    #[command(subcommand, after_help = outbox::help::OUTBOX, after_long_help = outbox::help::OUTBOX)]
    Outbox(outbox::args::OutboxCommand),
    /// The clock that remembered keys end by.
    #[command(subcommand, after_help = help::CLOCK, after_long_help = help::CLOCK)]
    Clock(ClockCommand),
    /// Print what makes a shell complete this command.
    #[command(after_help = help::COMPLETIONS, after_long_help = help::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a page of the manual, in the form that man reads.
    #[command(after_help = help::MAN, after_long_help = help::MAN)]
    Man {
        /// The command it is about: get, or clock reset [default: sprag itself].
        command: Vec<String>,
    },
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
    #[command(after_help = help::CLOCK, after_long_help = help::CLOCK)]
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
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
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
    /// a pair: (first,second), in which a comma, a closing parenthesis and a backslash have a backslash before them: (a\,b,7).
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
pub struct ScanArgs {
    /// The store.
    pub file: PathBuf,

    /// Name of the table.
    pub table: String,

    /// Only keys that begin with this: texts and bytes by their first characters or bytes, pairs by the whole of their first
    /// part (--prefix ann for (ann,1)). Numbers have no prefix. Not with --from or --to.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true, conflicts_with_all = ["from", "to"])]
    pub prefix: Option<String>,

    /// Only this key and those behind it. A key that begins with a hyphen: --from=-KEY.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<String>,

    /// Only keys before this one.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub to: Option<String>,

    /// Only records in this state.
    #[arg(long)]
    pub state: Option<String>,

    /// From the last key to the first.
    #[arg(long)]
    pub reverse: bool,

    /// Stop after this many records.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub limit: Option<u64>,
}

#[derive(Debug, Args)]
pub struct MachineArgs {
    /// The store.
    pub file: PathBuf,

    /// Name of a table whose records have states, or else of a machine.
    pub name: String,

    /// As a state diagram for Mermaid.
    #[arg(long, conflicts_with = "dot")]
    pub mermaid: bool,

    /// As a graph for Graphviz.
    #[arg(long)]
    pub dot: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("condition").multiple(false))]
pub struct PutArgs {
    #[command(flatten)]
    pub place: Place,

    /// The value as JSON; @PATH takes it from a file, - from stdin, both to the end: a pipe that nobody closes is waited for.
    /// Whitespace outside of texts is left out; numbers and the order of fields stay as they are. The type of the value is not
    /// checked: only the program that reads the table knows it.
    // A flag that is none is a value. Known flags stay flags.
    #[arg(allow_hyphen_values = true)]
    pub value: String,

    /// Take VALUE itself as a text, also if it begins with @ or -, and store it as a JSON text. A text that is a flag of this
    /// command stands last, behind --.
    #[arg(long, conflicts_with = "base64")]
    pub text: bool,

    /// VALUE is base64 of the bytes to store. The only way to write to a table of bincode values, where nothing checks them:
    /// wrong bytes are stored, and the program cannot read that record.
    #[arg(long)]
    pub base64: bool,

    /// Kind of the keys of a new table [default: str]. An existing table must have this kind. Tables whose keys are pairs or
    /// bytes of a fixed number are made by programs only.
    #[arg(long = "key", value_name = "KIND", id = "key_kind")]
    pub key_kind: Option<NewKind>,

    /// Write only if the record is at this version.
    #[arg(long, value_name = "N", allow_negative_numbers = true, group = "condition")]
    pub if_version: Option<u64>,

    /// Write only if there is no such record.
    #[arg(long, group = "condition")]
    pub if_absent: bool,

    /// Write only if there is such a record.
    #[arg(long, group = "condition")]
    pub if_present: bool,

    #[command(flatten)]
    pub once: OnceArgs,
}

/// Under which key the operation is remembered.
#[derive(Debug, Args)]
pub struct OnceArgs {
    /// Remember this operation under a key, so that a repeat of it answers what the first one did and writes nothing. Scope: 1 to 64 of A-Z a-z 0-9 . _ -; behind the first slash, the key: 1 to 255 bytes, as text, or hex: and
    /// two digits a byte.
    #[arg(long, value_name = "SCOPE/KEY", requires = "keep", value_parser = once_name)]
    once: Option<OnceName>,

    /// How long the key is remembered at least: forever, or a duration with its units (7d, 1h 30m; one of ns, us, ms, s, m, h,
    /// d, w behind each number) of at most 100 years. It must cover the longest time after which a retry can come.
    #[arg(long, value_name = "DURATION", requires = "once", allow_hyphen_values = true)]
    keep: Option<Keep>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("condition").multiple(false))]
pub struct DeleteArgs {
    #[command(flatten)]
    pub place: Place,

    /// Remove only the record at this version.
    #[arg(long, value_name = "N", allow_negative_numbers = true, group = "condition")]
    pub if_version: Option<u64>,

    /// Remove the record whatever its version is, as without a condition.
    #[arg(long, group = "condition")]
    pub if_present: bool,

    #[command(flatten)]
    pub once: OnceArgs,
}

#[derive(Debug, Args)]
pub struct TransitionArgs {
    #[command(flatten)]
    pub place: Place,

    /// The state in which the record must be.
    pub from: String,

    /// The state to which it moves.
    pub to: String,

    #[command(flatten)]
    pub once: OnceArgs,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The store.
    pub file: PathBuf,

    /// The batches: a file of JSON objects, one behind the other, as JSON lines are; or - for stdin.
    #[arg(default_value = "-")]
    pub batch: PathBuf,

    /// Say what would be answered now, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The backup. It is checked in full first, and not changed.
    pub from: PathBuf,

    /// The store to make; it must not exist.
    pub to: PathBuf,

    /// If there is a store at TO already, also a damaged one, take its place. Nobody may have it open.
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The store: an empty one, as init makes it, or one in which the same import was stopped.
    pub file: PathBuf,

    /// What export printed: a file, or - for stdin.
    #[arg(default_value = "-")]
    pub lines: PathBuf,
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

/// A remembered key as it is written here: its key is text, or bytes in the form that keys of kind `bytes` have.
#[derive(Clone, Debug)]
pub struct OnceName {
    pub scope: String,
    pub key: Vec<u8>,
}

impl OnceArgs {
    /// The key, if one is given.
    pub fn key(&self) -> Option<OnceKey> {
        let (name, keep) = (self.once.as_ref()?, self.keep?);
        Some(OnceKey::new(&name.scope, &name.key, keep))
    }
}

fn once_name(text: &str) -> Result<OnceName, String> {
    let (scope, key) = text.split_once('/').ok_or("a remembered key is written SCOPE/KEY")?;
    let mut bytes = Vec::new();
    DynKey::parse(&KeyKind::Bytes, key)
        .map_err(|_| "behind hex: stand two digits a byte")?
        .encode(&mut bytes);
    Ok(OnceName {
        scope: scope.to_owned(),
        key: bytes,
    })
}

pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Keep::For(time)) => Ok(time),
        Ok(Keep::Forever) => Err("this one has an end: not forever".to_owned()),
        Err(cause) => Err(cause.to_string()),
    }
}
