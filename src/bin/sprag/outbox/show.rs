//! Queues and messages as they are shown: `outbox list` and `show`, and what the rest shows of them.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use sprag::{CodecId, DynKey, MessageId, MessageInfo, MessageState, QueueInfo, ReadTx, Reason, Store};

use super::args::{ListArgs, Part, ShowArgs};
use super::queue_in;
use crate::answer::{Answer, Lines, Work, plain, span_text, time_text};
use crate::failure::Failure;
use crate::json;
use crate::records::ShownValue;

/// Messages that are read at once: a payload may be large.
const PAGE: usize = 16;

/// How a queue stands. Stale answers are not among it: they are counted in the memory of the process that gets them.
#[derive(Serialize)]
pub struct Figures {
    pub queue: String,
    codec: String,
    at_most_once: bool,
    paused: bool,
    ready: u64,
    scheduled: u64,
    claimed: u64,
    blocked: u64,
    dead: u64,
    bytes: u64,
    oldest_ready_ns: Option<u128>,
    interruptions: u64,
    discarded: u64,
    #[serde(skip)]
    oldest_ready: Option<Duration>,
}

impl Figures {
    fn new(tx: &ReadTx<'_>, info: &QueueInfo) -> Result<Figures, Failure> {
        let stats = tx
            .queue_stats(info.name())?
            .ok_or_else(|| Failure::no_queue(info.name()))?;
        Ok(Figures {
            codec: info.codec().to_string(),
            at_most_once: info.is_at_most_once(),
            paused: stats.paused,
            ready: stats.ready,
            scheduled: stats.scheduled,
            claimed: stats.claimed,
            blocked: stats.blocked,
            dead: stats.dead,
            bytes: stats.bytes,
            oldest_ready_ns: stats.oldest_ready_age.map(|age| age.as_nanos()),
            interruptions: stats.interruptions,
            discarded: stats.discarded,
            oldest_ready: stats.oldest_ready_age,
            queue: stats.queue,
        })
    }

    /// Without control characters.
    pub fn text(&self) -> String {
        let Figures {
            queue,
            codec,
            at_most_once,
            paused,
            ready,
            scheduled,
            claimed,
            blocked,
            dead,
            bytes,
            interruptions,
            discarded,
            ..
        } = self;
        let age = self
            .oldest_ready
            .map_or_else(|| "none".to_owned(), span_text)
            .replace(' ', "");
        plain(&format!(
            "queue {queue:?} codec={codec} at_most_once={at_most_once} paused={paused} ready={ready} scheduled={scheduled} \
             claimed={claimed} blocked={blocked} dead={dead} bytes={bytes} oldest_ready={age} interruptions={interruptions} \
             discarded={discarded}"
        ))
    }

    /// Whether another look found the same of it, but for the time that passed.
    pub fn is_as(&self, other: &Figures) -> bool {
        let counts = |of: &Figures| {
            [
                u64::from(of.paused),
                of.ready,
                of.scheduled,
                of.claimed,
                of.blocked,
                of.dead,
                of.bytes,
                of.interruptions,
                of.discarded,
            ]
        };
        self.queue == other.queue && counts(self) == counts(other)
    }
}

/// The figures of one queue, or of all by name.
pub fn figures(store: &Store, queue: Option<&str>) -> Result<Vec<Figures>, Failure> {
    store.read(|tx| {
        let queues = match queue {
            Some(name) => vec![queue_in(tx, name)?],
            None => tx.queues()?,
        };
        queues.iter().map(|info| Figures::new(tx, info)).collect()
    })
}

/// A message in a listing.
#[derive(Serialize)]
struct Listed<'m> {
    id: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    key: Option<String>,
    due: String,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<ShownValue<'m>>,
}

pub fn list(store: &Store, args: &ListArgs, json: bool) -> Result<Answer, Failure> {
    let mut lines = Lines::new(json);
    let outcome = match &args.queue {
        None => figures(store, None)?
            .iter()
            .try_for_each(|figures| lines.push(figures, || figures.text())),
        Some(queue) => store.read(|tx| {
            let info = queue_in(tx, queue)?;
            let codec = info.codec();
            let page = |after, limit| tx.messages(queue, after, limit);
            each(&args.part, page, |message| {
                let listed = Listed::new(message, codec, args.part.payload);
                lines.push(&listed, || listed.line(codec))
            })
        }),
    };
    lines.finish(outcome)
}

impl<'m> Listed<'m> {
    fn new(message: &'m MessageInfo, codec: CodecId, with_payload: bool) -> Listed<'m> {
        Listed {
            id: message.id.get(),
            state: state_name(message.state),
            reason: reason_of(message.state),
            key: message.key.as_deref().map(key_text),
            due: time_text(message.due),
            attempts: message.attempts,
            payload: with_payload.then(|| payload(codec, &message.payload)),
        }
    }

    fn line(&self, codec: CodecId) -> String {
        let Listed {
            id,
            state,
            key,
            due,
            attempts,
            ..
        } = self;
        let key = key.as_deref().unwrap_or("none");
        let payload = with_payload(codec, self.payload.as_ref());
        format!("{id}\t{state}\t{key}\t{due}\t{attempts}{payload}")
    }
}

/// Calls `show` with the messages of a part, which `page` gives a few at a time.
pub fn each(
    part: &Part,
    page: impl Fn(Option<MessageId>, usize) -> sprag::Result<Vec<MessageInfo>>,
    mut show: impl FnMut(&MessageInfo) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut after = part.after.map(MessageId::from);
    let mut left = part.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let limit = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        let messages = page(after, limit)?;
        messages.iter().try_for_each(&mut show)?;
        left -= messages.len() as u64;
        match messages.last() {
            Some(last) if messages.len() == limit => after = Some(last.id),
            _ => break,
        }
    }
    Ok(())
}

/// All about a message.
#[derive(Serialize)]
struct Whole<'m> {
    queue: &'m str,
    id: u64,
    state: &'static str,
    reason: Option<String>,
    key: Option<String>,
    due: String,
    effect_id: String,
    attempts: u32,
    failures: u32,
    interruptions: u32,
    replays: u32,
    enqueued_at: String,
    expires_at: Option<String>,
    died_at: Option<String>,
    headers: &'m [(String, String)],
    errors: Vec<ShownError<'m>>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<ShownValue<'m>>,
}

/// What was said of a delivery.
#[derive(Serialize)]
pub struct ShownError<'m> {
    pub attempt: u32,
    pub at: String,
    pub text: &'m str,
}

impl<'m> ShownError<'m> {
    pub fn new(error: &'m sprag::Failure) -> ShownError<'m> {
        ShownError {
            attempt: error.attempt(),
            at: time_text(error.at()),
            text: error.text(),
        }
    }
}

pub fn show(store: &Store, args: &ShowArgs, json: bool) -> Result<Answer, Failure> {
    let queue = &args.line.queue;
    let (codec, message) = store.read(|tx| {
        let codec = queue_in(tx, queue)?.codec();
        let message = tx.message(queue, MessageId::from(args.id))?;
        let message = message.ok_or_else(|| Failure::no_message(queue, args.id))?;
        Ok::<_, Failure>((codec, message))
    })?;
    let time = |time: Option<SystemTime>| time.map(time_text);
    let whole = Whole {
        queue,
        id: message.id.get(),
        state: state_name(message.state),
        reason: reason_of(message.state),
        key: message.key.as_deref().map(key_text),
        due: time_text(message.due),
        effect_id: message.effect_id.to_string(),
        attempts: message.attempts,
        failures: message.failures,
        interruptions: message.interruptions,
        replays: message.replays,
        enqueued_at: time_text(message.enqueued_at),
        expires_at: time(message.expires_at),
        died_at: time(message.died_at),
        headers: &message.headers,
        errors: message.errors.iter().map(ShownError::new).collect(),
        bytes: message.payload.len() as u64,
        payload: args.payload.then(|| payload(codec, &message.payload)),
    };
    Answer::new(json, Work::Read, &whole, || whole.text(codec))
}

impl Whole<'_> {
    fn text(&self, codec: CodecId) -> String {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let mut lines = vec![
            format!("queue {}", self.queue),
            format!("id {}", self.id),
            format!("state {}", self.state),
            format!("reason {}", or_none(&self.reason)),
            format!("key {}", or_none(&self.key)),
            format!("due {}", self.due),
            format!("effect_id {}", self.effect_id),
            format!("attempts {}", self.attempts),
            format!("failures {}", self.failures),
            format!("interruptions {}", self.interruptions),
            format!("replays {}", self.replays),
            format!("enqueued_at {}", self.enqueued_at),
            format!("expires_at {}", or_none(&self.expires_at)),
            format!("died_at {}", or_none(&self.died_at)),
        ];
        lines.extend(self.headers.iter().map(|(name, text)| format!("header {name}={text}")));
        let errors = self.errors.iter();
        lines.extend(errors.map(|one| format!("error attempt={} at={} {}", one.attempt, one.at, one.text)));
        lines.push(format!("bytes {}", self.bytes));
        if let Some(value) = &self.payload {
            lines.push(format!("payload {}", payload_text(codec, value)));
        }
        for line in &mut lines {
            *line = plain(line);
        }
        lines.join("\n")
    }
}

fn state_name(state: MessageState) -> &'static str {
    match state {
        MessageState::Ready => "ready",
        MessageState::Scheduled => "scheduled",
        MessageState::Claimed => "claimed",
        MessageState::Blocked => "blocked",
        MessageState::Dead(_) => "dead",
        // A state that came after this command.
        _ => "other",
    }
}

pub fn reason_of(state: MessageState) -> Option<String> {
    match state {
        MessageState::Dead(reason) => Some(reason_name(reason)),
        _ => None,
    }
}

/// A reason as one word, in which it is printed and taken.
pub fn reason_name(reason: Reason) -> String {
    reason.to_string().replace(' ', "-")
}

/// The key of a message as the command takes it; what is not all printable ASCII is hex.
pub fn key_text(key: &[u8]) -> String {
    DynKey::Bytes(key.to_vec()).to_string()
}

/// A payload as it is shown. One that is not JSON though its queue says so is shown as its bytes: whoever delivers it is to say
/// what becomes of it.
pub fn payload(codec: CodecId, bytes: &[u8]) -> ShownValue<'_> {
    ShownValue::new(codec, bytes).unwrap_or_else(|_| ShownValue::bytes(bytes))
}

/// The same in a line, without control characters.
pub fn payload_text(codec: CodecId, payload: &ShownValue<'_>) -> String {
    match (codec, payload) {
        (_, ShownValue::Json(text)) => json::printable(text.get()),
        (CodecId::Json, ShownValue::Bytes { base64 }) => format!("{{\"base64\":\"{base64}\"}}"),
        (_, ShownValue::Bytes { base64 }) => base64.clone(),
    }
}

/// The last field of a line, if it has one.
pub fn with_payload(codec: CodecId, payload: Option<&ShownValue<'_>>) -> String {
    payload.map_or_else(String::new, |payload| format!("\t{}", payload_text(codec, payload)))
}
