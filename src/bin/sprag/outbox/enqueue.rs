//! `outbox enqueue`: a message, once if asked for.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use sprag::{CodecId, DynQueue, MessageId, Once, OnceKey, Outgoing, Store};

use super::args::EnqueueArgs;
use super::find;
use crate::answer::{Answer, Work, time_text};
use crate::failure::Failure;
use crate::value::Input;

#[derive(Serialize)]
struct Enqueued {
    outcome: &'static str,
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_at: Option<String>,
}

pub fn enqueue(store: &Store, args: &EnqueueArgs, input: Input, json: bool) -> Result<Answer, Failure> {
    let queue = queue_to_write(store, args)?;
    let payload = input.encode(queue.codec())?;
    let done = match args.once.key() {
        Some(key) => {
            let key = bound(key, args, &payload)?;
            store.once(&key, |tx| {
                tx.enqueue(&queue, outgoing(args, &payload)).map(MessageId::get)
            })?
        }
        None => Once::First(store.enqueue(&queue, outgoing(args, &payload))?.get()),
    };
    let first_at = match &done {
        Once::First(_) => None,
        Once::Repeat { first_at, .. } => Some(time_text(*first_at)),
    };
    let enqueued = Enqueued {
        outcome: if first_at.is_some() { "repeat" } else { "enqueued" },
        id: done.into_result(),
        first_at,
    };
    Answer::new(json, Work::Write, &enqueued, || {
        let Enqueued { outcome, id, first_at } = &enqueued;
        match first_at {
            Some(first_at) => format!("{outcome} id={id} first_at={first_at}"),
            None => format!("{outcome} id={id}"),
        }
    })
}

/// The queue as the file has it, or a new one as the arguments say.
fn queue_to_write(store: &Store, args: &EnqueueArgs) -> Result<DynQueue, Failure> {
    let name = &args.line.queue;
    let queue = match store.read(|tx| find(tx, name))? {
        Some(info) if args.at_most_once && !info.is_at_most_once() => {
            let message = format!("the queue delivers at least once, and stays so, queue={name}");
            return Err(Failure::schema(message));
        }
        Some(info) => info.open(),
        None => DynQueue::new(name, CodecId::Json).at_most_once(args.at_most_once),
    };
    Ok(match args.on_dead {
        Some(after) => queue.on_dead(after.on_dead()),
        None => queue,
    })
}

fn outgoing<'m>(args: &EnqueueArgs, payload: &'m Vec<u8>) -> Outgoing<'m, Vec<u8>> {
    let mut message = Outgoing::of(payload).retry(args.retry());
    if let Some(key) = &args.key {
        message = message.key(&key.0);
    }
    if let Some(delay) = args.delay {
        message = message.delay(delay);
    }
    if let Some(time) = args.at {
        message = message.at(time);
    }
    if let Some(time) = args.expires_at {
        message = message.expires_at(time);
    }
    for header in &args.header {
        message = message.header(&header.name, &header.text);
    }
    message
}

/// What makes two requests the same, but for the payload. A remembered key outlives this program, so the form of this stays.
#[derive(Serialize)]
struct Request<'a> {
    queue: &'a str,
    key: Option<&'a [u8]>,
    delay: Option<Duration>,
    at: Option<SystemTime>,
    expires_at: Option<SystemTime>,
    headers: Vec<(&'a str, &'a str)>,
    retry: sprag::Retry,
    goes_on: bool,
}

fn bound(key: OnceKey, args: &EnqueueArgs, payload: &[u8]) -> Result<OnceKey, Failure> {
    let request = Request {
        queue: &args.line.queue,
        key: args.key.as_ref().map(|key| key.0.as_slice()),
        delay: args.delay,
        at: args.at,
        expires_at: args.expires_at,
        headers: args
            .header
            .iter()
            .map(|one| (one.name.as_str(), one.text.as_str()))
            .collect(),
        retry: args.retry(),
        goes_on: matches!(args.on_dead, Some(super::args::AfterDeath::GoOn)),
    };
    let mut bytes = serde_json::to_vec(&request)
        .map_err(|cause| Failure::invalid("the message has no form as a request").because(&cause))?;
    bytes.extend_from_slice(payload);
    Ok(key.bound_to(bytes))
}
