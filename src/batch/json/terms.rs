//! An enqueue as JSON, both ways: a message and how it is to be delivered. Durations and times are texts as those of a
//! remembered key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::super::{Enqueue, invalid};
use super::forms::{KeyText, Object, OnDeadWord, OperationText, RetryText};
use super::quoted;
use super::read::{Known, encode_value, lacking};
use super::write::{ValueText, value_text};
use crate::codec::time::nanos;
use crate::codec::time::{wall_ns, wall_time};
use crate::codec::{DynKey, KeyKind};
use crate::dedupe::Keep;
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::queue::{DescribedQueue as _, QueueDeclared, Terms, When};
use crate::outbox::{OnDead, Retry};

impl OperationText<'_> {
    pub(super) fn enqueue(&self, known: &Known<'_>) -> Result<Enqueue> {
        let queue = known.queue(self.queue.as_deref().ok_or_else(|| lacking("queue"))?)?;
        let message = self.message.ok_or_else(|| lacking("message"))?;
        let payload = encode_value(message, queue.codec())?;
        let queue = QueueDeclared {
            on_dead: self.on_dead.map_or(OnDead::default(), OnDeadWord::is),
            ..(&queue).declared()
        };
        Enqueue::new(queue, self.terms()?, payload)
    }

    fn terms(&self) -> Result<Terms> {
        let when = match (&self.delay, &self.at) {
            (None, None) => When::Now,
            (Some(delay), None) => When::After(nanos(read_duration(delay)?)),
            (None, Some(time)) => When::At(wall_ns(read_time(time)?)),
            (Some(_), Some(_)) => return Err(invalid("a message has a delay or a time at which it is due, not both")),
        };
        let expires = self.expires_at.as_deref().map(read_time).transpose()?;
        Ok(Terms {
            key: self.key.as_ref().map(message_key).transpose()?,
            when,
            expires_ns: expires.map(wall_ns),
            headers: self.headers.clone().unwrap_or_default(),
            retry: self.retry.as_ref().map(|Object(text)| text.retry()).transpose()?,
        })
    }
}

fn message_key(key: &KeyText) -> Result<Vec<u8>> {
    let KeyText::Text(text) = key else {
        return Err(invalid("key of a message is not a text"));
    };
    match DynKey::parse(&KeyKind::Bytes, text)? {
        DynKey::Bytes(key) => Ok(key),
        _ => Err(invalid("key of a message is not bytes")),
    }
}

impl RetryText {
    /// What is not said is as in [`Retry::DEFAULT`].
    fn retry(&self) -> Result<Retry> {
        let mut retry = Retry::DEFAULT;
        if let Some(base) = &self.base {
            retry = retry.base(read_duration(base)?);
        }
        if let Some(cap) = &self.cap {
            retry = retry.cap(read_duration(cap)?);
        }
        if let Some(count) = self.failures {
            retry = retry.failures(count);
        }
        if let Some(count) = self.interruptions {
            retry = retry.interruptions(count);
        }
        Ok(match &self.give_up_after {
            None => retry,
            Some(None) => retry.never_too_old(),
            Some(Some(age)) => retry.give_up_after(read_duration(age)?),
        })
    }
}

impl OnDeadWord {
    fn is(self) -> OnDead {
        match self {
            OnDeadWord::BlockKey => OnDead::BlockKey,
            OnDeadWord::GoOn => OnDead::GoOn,
        }
    }
}

#[derive(Serialize)]
pub(super) struct EnqueueText<'a> {
    op: &'static str,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    headers: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryWritten>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_dead: Option<OnDeadWord>,
    message: ValueText<'a>,
}

#[derive(Serialize)]
struct RetryWritten {
    base: String,
    cap: String,
    failures: u32,
    interruptions: u32,
    give_up_after: Option<String>,
}

/// What is as it is by default is left out.
pub(super) fn enqueue_text(enqueue: &Enqueue) -> Result<EnqueueText<'_>> {
    let Enqueue { queue, terms, payload } = enqueue;
    let (delay, at) = match terms.when {
        When::Now => (None, None),
        When::After(delay_ns) => (Some(duration_text(Duration::from_nanos(delay_ns))?), None),
        When::At(time_ns) => (None, Some(time_text(wall_time(time_ns))?)),
    };
    let expires_at = terms.expires_ns.map(|time_ns| time_text(wall_time(time_ns)));
    let retry = (queue.retry != Retry::DEFAULT).then(|| retry_text(&queue.retry));
    Ok(EnqueueText {
        op: "enqueue",
        queue: &queue.name,
        key: terms.key.as_ref().map(|key| DynKey::Bytes(key.clone()).to_string()),
        delay,
        at,
        expires_at: expires_at.transpose()?,
        headers: &terms.headers,
        retry: retry.transpose()?,
        on_dead: (queue.on_dead == OnDead::GoOn).then_some(OnDeadWord::GoOn),
        message: value_text(queue.codec, payload)?,
    })
}

fn retry_text(retry: &Retry) -> Result<RetryWritten> {
    Ok(RetryWritten {
        base: duration_text(retry.base_delay())?,
        cap: duration_text(retry.delay_max())?,
        failures: retry.failures_max(),
        interruptions: retry.interruptions_max(),
        give_up_after: retry.age_max().map(duration_text).transpose()?,
    })
}

/// A duration as the keep of a remembered key is written.
fn read_duration(text: &str) -> Result<Duration> {
    match text.parse()? {
        Keep::For(time) => Ok(time),
        Keep::Forever => Err(invalid(&format!("a duration without an end, text={text:?}"))),
    }
}

pub(super) fn duration_text(time: Duration) -> Result<String> {
    let text = Keep::For(time).to_string();
    // Not every duration has a form that can be read.
    text.parse::<Keep>()?;
    Ok(text)
}

pub(super) fn read_time(text: &str) -> Result<SystemTime> {
    humantime::parse_rfc3339(text).map_err(|cause| {
        let message = format!("not a time as 2026-11-30T12:00:00Z, text={:?}", quoted(text));
        Error::with_source(ErrorKind::Invalid, message, cause)
    })
}

pub(super) fn time_text(time: SystemTime) -> Result<String> {
    // Its 64 bits of nanoseconds end in 2262, where the text form still has four digits for the year.
    if time < UNIX_EPOCH {
        return Err(invalid("time before 1970 has no form as text"));
    }
    Ok(humantime::format_rfc3339_nanos(time).to_string())
}
