//! What `outbox` accepts, and what its help says of each argument.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use sprag::{DynKey, KeyKind, MessageId, OnDead, Reason, Receipt, Replay, Retry, limits};

use super::help;
use super::show::reason_name;
use crate::args::{OnceArgs, duration};

#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// Put a message into a queue, for now or for later. A new queue is made with JSON messages.
    #[command(after_help = help::ENQUEUE, after_long_help = help::ENQUEUE)]
    Enqueue(EnqueueArgs),
    /// Print the queues with their figures, or the messages of one queue, a line each.
    #[command(after_help = help::LIST, after_long_help = help::LIST)]
    List(ListArgs),
    /// Print everything about a message but its payload.
    #[command(after_help = help::SHOW, after_long_help = help::SHOW)]
    Show(ShowArgs),
    /// Claim messages that are due, for a while, and print them with their payload, a line each.
    #[command(after_help = help::CLAIM, after_long_help = help::CLAIM)]
    Claim(ClaimArgs),
    /// The message of a claim is delivered: it is gone.
    #[command(after_help = help::ACK, after_long_help = help::ACK)]
    Ack(Held),
    /// The delivery failed: the message is delivered again later, or becomes a dead letter.
    #[command(after_help = help::NACK, after_long_help = help::NACK)]
    Nack(NackArgs),
    /// Not now: the message is delivered again later, and no budget is spent.
    #[command(after_help = help::DEFER, after_long_help = help::DEFER)]
    Defer(DeferArgs),
    /// Give the message of a claim back at once, and spend no budget.
    #[command(after_help = help::RELEASE, after_long_help = help::RELEASE)]
    Release(Held),
    /// The message of a claim can never be delivered: it becomes a dead letter.
    #[command(after_help = help::BURY, after_long_help = help::BURY)]
    Bury(BuryArgs),
    /// Hold the message of a claim for longer, from now on.
    #[command(after_help = help::EXTEND, after_long_help = help::EXTEND)]
    Extend(ExtendArgs),
    /// Print the dead letters of a queue, a line each.
    #[command(after_help = help::DEAD, after_long_help = help::DEAD)]
    Dead(DeadArgs),
    /// Deliver dead letters again.
    #[command(after_help = help::REPLAY, after_long_help = help::REPLAY)]
    Replay(ReplayArgs),
    /// Remove messages by their numbers, wherever they stand, or dead letters.
    #[command(after_help = help::DISCARD, after_long_help = help::DISCARD)]
    Discard(DiscardArgs),
    /// Keep the messages of a queue from being claimed, until resume.
    #[command(after_help = help::PAUSE, after_long_help = help::PAUSE)]
    Pause(Line),
    /// Let the messages of a queue be claimed again.
    #[command(after_help = help::RESUME, after_long_help = help::RESUME)]
    Resume(Line),
    /// Print the figures of queues whenever they change, until it is interrupted.
    #[command(after_help = help::WATCH, after_long_help = help::WATCH)]
    Watch(WatchArgs),
}

/// Which queue.
#[derive(Debug, Args)]
pub struct Line {
    /// The store.
    pub file: PathBuf,

    /// Name of the queue.
    pub queue: String,
}

#[derive(Debug, Args)]
pub struct EnqueueArgs {
    #[command(flatten)]
    pub line: Line,

    /// The payload as JSON; @PATH takes it from a file, - from stdin, both to the end: a pipe that nobody closes is waited for.
    /// Its type is not checked: only the program that delivers it knows it.
    // A flag that is none is a value. Known flags stay flags.
    #[arg(allow_hyphen_values = true)]
    pub value: String,

    /// Take VALUE itself as a text, also if it begins with @ or -, and store it as a JSON text. A text that is a flag of this
    /// command stands last, behind --.
    #[arg(long, conflicts_with = "base64")]
    pub text: bool,

    /// VALUE is base64 of the bytes to store. The only way into a queue of bincode messages, where nothing checks them.
    #[arg(long)]
    pub base64: bool,

    /// Messages of one key are delivered strictly in their order. 1 to 255 bytes, as text, or hex: and two digits a byte.
    #[arg(long, value_parser = message_key)]
    pub key: Option<MessageKey>,

    /// Not before this long after now, with its unit: 90s, 1h 30m.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration, conflicts_with = "at")]
    pub delay: Option<Duration>,

    /// Not before this time: 2026-12-01T10:00:00Z.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub at: Option<SystemTime>,

    /// At this time and after it, it is a dead letter instead of being delivered.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub expires_at: Option<SystemTime>,

    /// A name and a text for the far end; as often as there are some.
    #[arg(long, value_name = "NAME=TEXT", value_parser = header)]
    pub header: Vec<Header>,

    /// How many failures make it a dead letter [default: 100].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub failures: Option<u32>,

    /// How many deliveries that nobody answers make it a dead letter [default: 10].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub interruptions: Option<u32>,

    /// A failure this long after its first delivery makes it a dead letter [default: 3d].
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub give_up_after: Option<Duration>,

    /// Once it is a dead letter, later messages of its key wait for it, or go on [default: block].
    #[arg(long, value_name = "WHAT")]
    pub on_dead: Option<AfterDeath>,

    /// Make a new queue one of which each message is delivered at most once: a claim removes it.
    #[arg(long)]
    pub at_most_once: bool,

    #[command(flatten)]
    pub once: OnceArgs,
}

impl EnqueueArgs {
    pub fn retry(&self) -> Retry {
        let mut retry = Retry::DEFAULT;
        if let Some(count) = self.failures {
            retry = retry.failures(count);
        }
        if let Some(count) = self.interruptions {
            retry = retry.interruptions(count);
        }
        if let Some(age) = self.give_up_after {
            retry = retry.give_up_after(age);
        }
        retry
    }
}

/// What a dead letter does to later messages of its key.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AfterDeath {
    /// They wait until it is replayed and acknowledged, or discarded.
    Block,
    /// They go on without it.
    GoOn,
}

impl AfterDeath {
    pub fn on_dead(self) -> OnDead {
        match self {
            AfterDeath::Block => OnDead::BlockKey,
            AfterDeath::GoOn => OnDead::GoOn,
        }
    }
}

/// The bytes of a key.
#[derive(Clone, Debug)]
pub struct MessageKey(pub Vec<u8>);

#[derive(Clone, Debug)]
pub struct Header {
    pub name: String,
    pub text: String,
}

/// Which part of a listing of a queue's messages.
#[derive(Debug, Args)]
pub struct Part {
    /// Print the payload too, last.
    #[arg(long, requires = "queue")]
    pub payload: bool,

    /// Stop after this many messages.
    #[arg(long, value_name = "N", allow_negative_numbers = true, requires = "queue")]
    pub limit: Option<u64>,

    /// Only messages behind this one.
    #[arg(long, value_name = "ID", allow_negative_numbers = true, requires = "queue")]
    pub after: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// The store.
    pub file: PathBuf,

    /// Name of a queue, of which the messages are printed [default: the figures of all queues].
    pub queue: Option<String>,

    #[command(flatten)]
    pub part: Part,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub line: Line,

    /// Number of the message.
    #[arg(allow_negative_numbers = true)]
    pub id: u64,

    /// Print the payload too, last.
    #[arg(long)]
    pub payload: bool,
}

#[derive(Debug, Args)]
pub struct ClaimArgs {
    #[command(flatten)]
    pub line: Line,

    /// At most so many messages.
    #[arg(
        short = 'n',
        long = "number",
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=limits::CLAIM_MESSAGES_MAX as i64))]
    pub number: u32,

    /// How long they are held, by the wall clock, with its unit: 5m. Whoever is not done by then says extend before.
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = lease)]
    pub lease: Duration,
}

/// Which claim.
#[derive(Debug, Args)]
pub struct Held {
    #[command(flatten)]
    pub line: Line,

    /// The receipt that claim printed: ID:FENCE.
    pub receipt: Receipt,
}

#[derive(Debug, Args)]
pub struct NackArgs {
    #[command(flatten)]
    pub held: Held,

    /// When to deliver it again, if the far end said so [default: by the retry of the message].
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub after: Option<Duration>,

    /// What went wrong; kept with the message, its first 1024 bytes.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub error: String,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("when").required(true).multiple(false))]
pub struct DeferArgs {
    #[command(flatten)]
    pub held: Held,

    /// For how long, with its unit: 10m.
    #[arg(long = "for", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration, group = "when")]
    pub delay: Option<Duration>,

    /// Until this time: 2026-12-01T10:00:00Z.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time, group = "when")]
    pub until: Option<SystemTime>,
}

#[derive(Debug, Args)]
pub struct BuryArgs {
    #[command(flatten)]
    pub held: Held,

    /// Why; kept with the message, its first 1024 bytes.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub error: String,
}

#[derive(Debug, Args)]
pub struct ExtendArgs {
    #[command(flatten)]
    pub held: Held,

    /// For how long from now on, with its unit: 5m.
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = lease)]
    pub lease: Duration,
}

#[derive(Debug, Args)]
pub struct DeadArgs {
    #[command(flatten)]
    pub line: Line,

    #[command(flatten)]
    pub part: Part,
}

/// Which dead letters.
#[derive(Debug, Args)]
pub struct Letters {
    /// Only those that are dead for this reason.
    #[arg(long, value_parser = reasons())]
    reason: Option<Reason>,

    /// Only those that have been dead for at least so long, with its unit: 7d.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    dead_for: Option<Duration>,

    /// At most so many, in the order of their deaths.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<usize>,
}

impl Letters {
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub fn chosen(&self) -> Replay {
        let mut which = Replay::new();
        if let Some(reason) = self.reason {
            which = which.reason(reason);
        }
        if let Some(age) = self.dead_for {
            which = which.dead_for(age);
        }
        if let Some(limit) = self.limit {
            which = which.limit(limit);
        }
        which
    }
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub line: Line,

    /// Only these messages [default: all dead letters].
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<u64>,

    #[command(flatten)]
    letters: Letters,

    /// So many are due in each second from now on [default: all at once].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    per_second: Option<u32>,

    /// The far end is to take each for a new effect.
    #[arg(long)]
    new_effect_ids: bool,

    /// Also those that have expired, and those whose remembered key is over, so that their effect may be asked for twice.
    #[arg(long)]
    force: bool,
}

impl ReplayArgs {
    pub fn which(&self) -> Replay {
        let mut which = self.letters.chosen();
        if !self.ids.is_empty() {
            which = which.only(self.ids.iter().copied().map(MessageId::from));
        }
        if let Some(count) = self.per_second {
            which = which.per_second(count);
        }
        if self.new_effect_ids {
            which = which.new_effect_ids();
        }
        if self.force {
            which = which.forced();
        }
        which
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(false).args(["ids", "dead"]))]
pub struct DiscardArgs {
    #[command(flatten)]
    pub line: Line,

    /// These messages.
    #[arg(value_name = "ID", allow_negative_numbers = true, conflicts_with_all = ["reason", "dead_for", "limit"])]
    pub ids: Vec<u64>,

    /// Dead letters.
    #[arg(long)]
    pub dead: bool,

    #[command(flatten)]
    pub letters: Letters,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The store.
    pub file: PathBuf,

    /// Name of the queue [default: all queues].
    pub queue: Option<String>,

    /// How often to look at the file, with its unit.
    #[arg(long, value_name = "DURATION", default_value = "1s", allow_hyphen_values = true, value_parser = duration)]
    pub every: Duration,

    /// End after this many lines.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

fn message_key(text: &str) -> Result<MessageKey, String> {
    match DynKey::parse(&KeyKind::Bytes, text) {
        Ok(DynKey::Bytes(bytes)) => Ok(MessageKey(bytes)),
        _ => Err("behind hex: stand two digits a byte".to_owned()),
    }
}

/// A time has its zone, and that is UTC: of any other it would not be known which one is meant.
fn time(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(text).map_err(|_| "a time is written 2026-12-01T10:00:00Z".to_owned())
}

fn header(text: &str) -> Result<Header, String> {
    match text.split_once('=') {
        Some((name, text)) if !name.is_empty() => Ok(Header {
            name: name.to_owned(),
            text: text.to_owned(),
        }),
        _ => Err("a header is written NAME=TEXT".to_owned()),
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a lease lasts for some time".to_owned()),
        lease => Ok(lease),
    }
}

fn reasons() -> impl clap::builder::TypedValueParser<Value = Reason> {
    let named = |name: &str| Reason::ALL.into_iter().find(|reason| reason_name(*reason) == name);
    PossibleValuesParser::new(["failed", "gave-up", "interrupted", "expired", "buried", "undecodable"])
        .try_map(move |name| named(&name).ok_or("no such reason"))
}
