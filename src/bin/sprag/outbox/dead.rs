//! `outbox dead`, `replay`, `discard`: what could not be delivered.

use serde::Serialize;
use sprag::{CodecId, Error, MessageId, MessageInfo, Refused, Replayed, Store, limits};

use super::args::{DeadArgs, DiscardArgs, ReplayArgs};
use super::show::{self, ShownError, key_text, payload, reason_of, with_payload};
use super::{queue_in, queue_of};
use crate::answer::{Answer, Lines, Work, plain, time_text};
use crate::failure::Failure;
use crate::records::ShownValue;

/// Exit code if a letter was refused.
const REFUSED: u8 = 3;

#[derive(Serialize)]
struct Letter<'m> {
    id: u64,
    reason: Option<String>,
    key: Option<String>,
    died_at: Option<String>,
    attempts: u32,
    last_error: Option<ShownError<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<ShownValue<'m>>,
}

impl<'m> Letter<'m> {
    fn new(message: &'m MessageInfo, codec: CodecId, with_payload: bool) -> Letter<'m> {
        Letter {
            id: message.id.get(),
            reason: reason_of(message.state),
            key: message.key.as_deref().map(key_text),
            died_at: message.died_at.map(time_text),
            attempts: message.attempts,
            last_error: message.errors.last().map(ShownError::new),
            payload: with_payload.then(|| payload(codec, &message.payload)),
        }
    }

    fn line(&self, codec: CodecId) -> String {
        fn or_none(text: Option<&str>) -> String {
            plain(text.unwrap_or("none"))
        }
        let (id, attempts) = (self.id, self.attempts);
        let reason = or_none(self.reason.as_deref());
        let key = or_none(self.key.as_deref());
        let died_at = or_none(self.died_at.as_deref());
        let error = or_none(self.last_error.as_ref().map(|error| error.text));
        let payload = with_payload(codec, self.payload.as_ref());
        format!("{id}\t{reason}\t{key}\t{died_at}\t{attempts}\t{error}{payload}")
    }
}

pub fn list(store: &Store, args: &DeadArgs, json: bool) -> Result<Answer, Failure> {
    let queue = &args.line.queue;
    let mut lines = Lines::new(json);
    let outcome = store.read(|tx| {
        let codec = queue_in(tx, queue)?.codec();
        let page = |after, limit| tx.dead_letters(queue, after, limit);
        show::each(&args.part, page, |message| {
            let letter = Letter::new(message, codec, args.part.payload);
            lines.push(&letter, || letter.line(codec))
        })
    });
    lines.finish(outcome)
}

#[derive(Serialize)]
struct ShownReplayed {
    outcome: &'static str,
    messages: u64,
    refused: Vec<ShownRefused>,
    more: bool,
}

#[derive(Serialize)]
struct ShownRefused {
    id: u64,
    why: &'static str,
}

pub fn replay(store: &Store, args: &ReplayArgs, json: bool) -> Result<Answer, Failure> {
    queue_of(store, &args.line.queue)?;
    let Replayed {
        replayed: messages,
        refused,
        more,
        ..
    } = store.replay(&args.line.queue, &args.which())?;
    let refused = refused.into_iter().map(|(id, why)| ShownRefused {
        id: id.get(),
        why: why_name(why),
    });
    let shown = ShownReplayed {
        outcome: "replayed",
        messages,
        refused: refused.collect(),
        more,
    };
    let answer = Answer::new(json, Work::Write, &shown, || {
        let count = shown.refused.len();
        let mut text = format!("replayed messages={messages} refused={count} more={more}");
        for ShownRefused { id, why } in &shown.refused {
            text.push_str(&format!("\nrefused id={id} why={why}"));
        }
        text
    })?;
    Ok(if shown.refused.is_empty() {
        answer
    } else {
        answer.with_code(REFUSED)
    })
}

fn why_name(why: Refused) -> &'static str {
    match why {
        Refused::KeyIsOver => "key-is-over",
        Refused::Expired => "expired",
        Refused::NotDead => "not-dead",
        // A reason that came after this command.
        _ => "other",
    }
}

#[derive(Serialize)]
struct Discarded {
    outcome: &'static str,
    messages: u64,
}

pub fn discard(store: &Store, args: &DiscardArgs, json: bool) -> Result<Answer, Failure> {
    let queue = &args.line.queue;
    queue_of(store, queue)?;
    let messages = if args.dead {
        discard_dead(store, args)?
    } else {
        store.write(|tx| {
            let mut messages = 0;
            for id in &args.ids {
                messages += u64::from(tx.discard(queue, MessageId::from(*id))?);
            }
            Ok::<_, Error>(messages)
        })?
    };
    let discarded = Discarded {
        outcome: "discarded",
        messages,
    };
    Answer::new(json, Work::Write, &discarded, || {
        format!("discarded messages={messages}")
    })
}

/// All of them if no limit is given, in commits of a size that fits.
fn discard_dead(store: &Store, args: &DiscardArgs) -> Result<u64, Failure> {
    let mut left = args.letters.limit().unwrap_or(usize::MAX);
    let (mut messages, mut behind) = (0, None);
    loop {
        let at_once = left.min(limits::DEAD_LETTERS_AT_ONCE_MAX);
        let which = args.letters.chosen().limit(at_once).behind(behind);
        let done = store.discard_dead(&args.line.queue, &which)?;
        messages += done.discarded;
        left = left.saturating_sub(usize::try_from(done.discarded).unwrap_or(usize::MAX));
        if left == 0 || !done.more {
            return Ok(messages);
        }
        behind = done.behind;
    }
}
