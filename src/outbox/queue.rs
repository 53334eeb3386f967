//! How a call site names a queue and what it puts into one.

use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::retry::Retry;
use crate::codec::time::{nanos, wall_ns};
use crate::codec::{Bincode, Codec, CodecId, encode_verified};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{HEADERS_BYTES_MAX, MESSAGE_KEY_BYTES_MAX};

/// A named outbox queue of messages, typed at the call site. Passed by value; usually a constant.
///
/// A message that is enqueued leaves exactly with the work of its transaction. It is delivered at least once until it is
/// acknowledged or dead; a queue that is [`at_most_once`](Queue::at_most_once) delivers each message at most once.
///
/// ```
/// # use sprag::{Queue, Retry};
/// # use std::time::Duration;
/// const EMAILS: Queue<String> = Queue::new("emails");
/// const ALARMS: Queue<u64> = Queue::new("alarms").at_most_once();
/// const CALLS: Queue<String> = Queue::new("calls").retry(Retry::DEFAULT.failures(5).cap(Duration::from_secs(60)));
/// ```
///
/// The first message makes the queue in the file; later uses must agree with what the file says of its codec and of at most
/// once, or answer `Schema`.
pub struct Queue<M, C = Bincode> {
    name: &'static str,
    at_most_once: bool,
    retry: Retry,
    on_dead: OnDead,
    #[expect(
        clippy::type_complexity,
        reason = "says that a queue owns none of these, so that it is Send and Sync"
    )]
    of: PhantomData<(fn() -> M, fn() -> C)>,
}

/// What happens to later messages of a key when one of them becomes a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// They wait until the dead letter is replayed and acknowledged, or discarded: the order within the key is never broken.
    #[default]
    BlockKey,
    /// They go on without it. Replayed later, it comes behind those that are there then.
    GoOn,
}

impl<M, C> Queue<M, C> {
    /// Names a queue. The name has 1 to 255 bytes and no control characters; a call that uses another one answers `Invalid`.
    pub const fn new(name: &'static str) -> Self {
        Queue {
            name,
            at_most_once: false,
            retry: Retry::DEFAULT,
            on_dead: OnDead::BlockKey,
            of: PhantomData,
        }
    }

    /// For effects where a duplicate is worse than a loss: the commit that claims a message removes it, so it is never
    /// delivered twice, and is lost if its delivery fails or its process dies.
    #[must_use]
    pub const fn at_most_once(mut self) -> Self {
        self.at_most_once = true;
        self
    }

    /// The retry of messages that name none. Kept with each message when it is enqueued.
    #[must_use]
    pub const fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// What a dead letter does to later messages of its key. Kept with each message when it is enqueued.
    #[must_use]
    pub const fn on_dead(mut self, on_dead: OnDead) -> Self {
        self.on_dead = on_dead;
        self
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<M, C> Clone for Queue<M, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, C> Copy for Queue<M, C> {}

impl<M, C> std::fmt::Debug for Queue<M, C> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Queue").field(&self.name).finish()
    }
}

/// What a call site says of its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDeclared {
    pub(crate) name: String,
    pub(crate) codec: CodecId,
    pub(crate) at_most_once: bool,
    pub(crate) retry: Retry,
    pub(crate) on_dead: OnDead,
}

/// A queue that calls can be given: [`Queue`] by value, or a reference to a [`DynQueue`].
pub trait QueueSpec: sealed::DescribedQueue {
    /// The payload of its messages.
    type Message;

    /// Encodes; with `verify` also decodes once, since some shapes encode and do not come back.
    #[doc(hidden)]
    fn encode(&self, message: &Self::Message, verify: bool) -> Result<Vec<u8>>;
    #[doc(hidden)]
    fn decode(bytes: &[u8]) -> Result<Self::Message>;
}

pub(crate) mod sealed {
    use super::QueueDeclared;

    /// What the catalogue asks of a call site.
    pub trait DescribedQueue {
        fn declared(&self) -> QueueDeclared;
    }
}

pub(crate) use sealed::DescribedQueue;

impl<M, C: Codec> DescribedQueue for Queue<M, C> {
    fn declared(&self) -> QueueDeclared {
        QueueDeclared {
            name: self.name.to_owned(),
            codec: C::ID,
            at_most_once: self.at_most_once,
            retry: self.retry,
            on_dead: self.on_dead,
        }
    }
}

impl<M: Serialize + DeserializeOwned, C: Codec> QueueSpec for Queue<M, C> {
    type Message = M;

    fn encode(&self, message: &M, verify: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if verify {
            encode_verified::<C, M>(message, &mut out)?;
        } else {
            C::encode(message, &mut out)?;
        }
        Ok(out)
    }

    fn decode(bytes: &[u8]) -> Result<M> {
        C::decode(bytes)
    }
}

/// A queue known at run time only, for tools: messages are bytes as encoded. It is the caller who says that they are of the
/// queue's codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynQueue(QueueDeclared);

impl DynQueue {
    /// Describes a queue; see [`QueueInfo::open`](super::QueueInfo::open) for one that the file has.
    pub fn new(name: impl Into<String>, codec: CodecId) -> DynQueue {
        DynQueue(QueueDeclared {
            name: name.into(),
            codec,
            at_most_once: false,
            retry: Retry::DEFAULT,
            on_dead: OnDead::BlockKey,
        })
    }

    /// See [`Queue::at_most_once`].
    #[must_use]
    pub fn at_most_once(mut self, is: bool) -> DynQueue {
        self.0.at_most_once = is;
        self
    }

    /// See [`Queue::retry`].
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> DynQueue {
        self.0.retry = retry;
        self
    }

    /// See [`Queue::on_dead`].
    #[must_use]
    pub fn on_dead(mut self, on_dead: OnDead) -> DynQueue {
        self.0.on_dead = on_dead;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Encoding of its messages.
    pub fn codec(&self) -> CodecId {
        self.0.codec
    }
}

impl DescribedQueue for &DynQueue {
    fn declared(&self) -> QueueDeclared {
        self.0.clone()
    }
}

impl QueueSpec for &DynQueue {
    type Message = Vec<u8>;

    fn encode(&self, message: &Vec<u8>, _verify: bool) -> Result<Vec<u8>> {
        Ok(message.clone())
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

/// When a message may first be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Now,
    /// Nanoseconds after the commit that enqueues it.
    After(u64),
    /// Wall nanoseconds since 1970.
    At(i64),
}

/// What a message is enqueued with beside its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) when: When,
    pub(crate) expires_ns: Option<i64>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) retry: Option<Retry>,
}

/// A message to enqueue: a payload, and how it is to be delivered. A reference to a payload is one without any wish.
///
/// ```
/// # use sprag::{Outgoing, Queue, Store, Error};
/// # use std::time::Duration;
/// # const EMAILS: Queue<String> = Queue::new("emails");
/// # fn main() -> sprag::Result<()> {
/// # let store = Store::in_memory()?;
/// store.write(|tx| {
///     tx.enqueue(EMAILS, &"plain".to_owned())?;
///     let later = "later".to_owned();
///     tx.enqueue(EMAILS, Outgoing::of(&later).key("order-904").delay(Duration::from_secs(60)))?;
///     Ok::<_, Error>(())
/// })
/// # }
/// ```
#[must_use = "a message does nothing until it is enqueued"]
#[derive(Debug)]
pub struct Outgoing<'m, M> {
    pub(crate) message: &'m M,
    pub(crate) terms: Terms,
}

impl<'m, M> Outgoing<'m, M> {
    /// A message without any wish.
    pub fn of(message: &'m M) -> Outgoing<'m, M> {
        Outgoing {
            message,
            terms: Terms::default(),
        }
    }

    /// Messages of one key are delivered strictly in the order in which they were enqueued: the next one waits until the one
    /// before is acknowledged or dead. 1 to 255 bytes, compared byte for byte.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.terms.key = Some(key.as_ref().to_vec());
        self
    }

    /// Not before this long after its commit. The last one of `delay` and `at` counts.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.terms.when = When::After(nanos(delay));
        self
    }

    /// Not before this time.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.terms.when = When::At(wall_ns(time));
        self
    }

    /// At this time and after it, it is a dead letter instead of being delivered.
    pub fn expires_at(mut self, time: SystemTime) -> Self {
        self.terms.expires_ns = Some(wall_ns(time));
        self
    }

    /// A name and a text that the far end may want; as often as there are some.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.terms.headers.push((name.into(), text.into()));
        self
    }

    /// The retry of this message, in place of its queue's.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.terms.retry = Some(retry);
        self
    }
}

impl<'m, M> From<&'m M> for Outgoing<'m, M> {
    fn from(message: &'m M) -> Outgoing<'m, M> {
        Outgoing::of(message)
    }
}

impl Terms {
    /// # Errors
    /// `Invalid` for a key out of its limits and a retry without any attempt; `TooLarge` for the headers.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(key) = &self.key
            && !(1..=MESSAGE_KEY_BYTES_MAX).contains(&key.len())
        {
            let bytes = key.len();
            let message = format!("key of a message has {bytes} bytes, bytes_min=1, bytes_max={MESSAGE_KEY_BYTES_MAX}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let bytes: usize = self.headers.iter().map(|(name, text)| name.len() + text.len()).sum();
        if bytes > HEADERS_BYTES_MAX {
            let message = format!("headers of a message too long, bytes={bytes}, bytes_max={HEADERS_BYTES_MAX}");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.retry.as_ref().map_or(Ok(()), Retry::check)
    }
}
