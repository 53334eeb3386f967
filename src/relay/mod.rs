//! The relay: workers that claim messages, call a handler, and write down what it answers.
//!
//! Owns the threads, and what becomes of a message whose handler panics, takes long, or is stopped. What an answer makes of a
//! message is decided by the outbox; what is told of a commit that fails, by the store.

mod keeper;
#[cfg(feature = "tokio")]
mod tasks;
mod worker;

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::outbox::QueueSpec;
use crate::store::{Claim, Claiming, Consumed, Store, WriteTx};
use crate::sync::{Arc, JoinHandle, is_current, spawn};

use keeper::{Keeper, Kept};
#[cfg(feature = "tokio")]
pub use tasks::RunningTasks;
use worker::Worker;

/// What a handler says of a delivery.
#[must_use = "it decides what becomes of the message"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It is delivered: the message is gone.
    Done,
    /// It failed, and spends a failure of the message's budget.
    Retry {
        /// After how long to come again, if the far end said so; otherwise as the message's retry says.
        after: Option<Duration>,
        /// What went wrong; kept with the message.
        error: String,
    },
    /// Not now; spends nothing.
    Defer {
        /// Not before this time.
        until: SystemTime,
    },
    /// It can never be delivered: the message is a dead letter.
    Dead {
        /// Why; kept with the message.
        reason: String,
    },
    /// Whether the far end took it is not known. It is delivered again, as after a failure: the far end recognises the effect
    /// id.
    Unknown {
        /// What was seen; kept with the message.
        error: String,
    },
}

impl Handled {
    /// A failure without a wish.
    pub fn failed(error: impl std::fmt::Display) -> Handled {
        Handled::Retry {
            after: None,
            error: error.to_string(),
        }
    }
}

/// A message in the hands of a handler, with its claim.
pub struct Delivery<M> {
    /// The payload.
    pub message: M,
    kept: Arc<Kept<M>>,
}

impl<M> Delivery<M> {
    /// Whether the message is still the handler's. `false`: its lease was lost, it was discarded, or the relay stopped waiting for
    /// this handler. Whatever is answered now changes nothing, so a handler that takes long should look, and stop.
    pub fn is_current(&self) -> bool {
        self.kept.is_current()
    }

    /// Does the work of the message in the store and acknowledges it, in one commit, as [`Store::consume`]. After `Done` the message
    /// is gone whatever the handler answers.
    ///
    /// # Errors
    /// As [`Store::consume`]. The handler answers what is to become of the message.
    pub fn consume<R, E: From<Error>>(
        &self,
        f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, E>,
    ) -> Result<Consumed<R>, E> {
        self.kept.consume(f)
    }
}

impl<M> std::fmt::Debug for Delivery<M> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Delivery").field(self.kept.claim()).finish()
    }
}

impl<M> Deref for Delivery<M> {
    type Target = Claim<M>;

    fn deref(&self) -> &Claim<M> {
        self.kept.claim()
    }
}

/// Workers for one queue, about to be started.
///
/// Each message is handed to the handler at least once, until it is acknowledged or dead; of an
/// [`at_most_once`](crate::Queue::at_most_once) queue at most once, whatever the handler answers. Messages of one key are handled
/// one after the other, unless a lease is lost or a message discarded while its handler runs. A panic of the handler counts as a
/// failure. While a handler runs its lease is extended, at a third of it.
///
/// ```
/// use sprag::{Handled, Queue, Relay, Store};
///
/// const EMAILS: Queue<String> = Queue::new("emails");
/// # fn main() -> sprag::Result<()> {
/// let store = Store::in_memory()?;
/// store.enqueue(EMAILS, &"to ann".to_owned())?;
/// let (sent, outbox) = std::sync::mpsc::channel();
/// let relay = Relay::new(&store, EMAILS).workers(2).start(move |delivery| {
///     match sent.send((delivery.effect_id(), delivery.message.clone())) {
///         Ok(()) => Handled::Done,
///         Err(error) => Handled::failed(error),
///     }
/// })?;
/// assert_eq!(outbox.recv().map(|(_, text)| text), Ok("to ann".to_owned()));
/// assert_eq!(relay.drain(std::time::Duration::from_secs(10)).left, 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "a relay does nothing until it is started"]
#[derive(Clone, Debug)]
pub struct Relay<Q> {
    store: Store,
    queue: Q,
    workers: usize,
    claiming: Claiming,
}

impl<Q: QueueSpec + Copy> Relay<Q> {
    /// A relay of one worker that claims one message at a time, under a lease of 30 seconds.
    pub fn new(store: &Store, queue: Q) -> Relay<Q> {
        Relay {
            store: store.clone(),
            queue,
            workers: 1,
            claiming: Claiming::new(1),
        }
    }

    /// How many messages are handled at the same time. 0 counts as 1.
    pub fn workers(mut self, workers: usize) -> Relay<Q> {
        self.workers = workers.max(1);
        self
    }

    /// How many messages a worker claims at once and handles one by one. Their answers and the next claim are one commit, so that
    /// more make less work, and keep messages from other workers for longer. 0 counts as 1.
    pub fn lot(mut self, messages: usize) -> Relay<Q> {
        self.claiming.messages = messages.max(1);
        self
    }

    /// How long others wait for a worker that has stopped without a word. Extended while its handler runs, so it need not cover
    /// the longest delivery.
    pub fn lease(mut self, lease: Duration) -> Relay<Q> {
        self.claiming.lease = lease;
        self
    }
}

impl<Q> Relay<Q>
where
    Q: QueueSpec + Copy + Send + Sync + 'static,
    Q::Message: Send + Sync + 'static,
{
    /// Starts the workers, each a thread of its own.
    ///
    /// # Errors
    /// `Io` if a thread cannot be started; `Schema` if the queue is declared otherwise in the file; `Invalid` for a lease of
    /// zero; `ReadOnly`, `Closed`.
    pub fn start(self, handler: impl Fn(&Delivery<Q::Message>) -> Handled + Send + Sync + 'static) -> Result<Running> {
        let handler = Arc::new(handler);
        let mut running = self.prepare()?;
        for _ in 0..self.workers {
            let (worker, handler) = (self.worker(&running), handler.clone());
            let alive = running.keeper.begin();
            let thread = spawn("sprag-relay", move || {
                worker.run(|delivery| handler(delivery));
                drop(alive);
            });
            running.threads.push(thread.map_err(not_started)?);
        }
        Ok(running)
    }

    fn worker(&self, running: &Running) -> Worker<Q> {
        Worker {
            store: self.store.clone(),
            queue: self.queue,
            claiming: self.claiming,
            keeper: running.keeper.clone(),
        }
    }

    /// What workers share, and the thread that extends their leases.
    fn prepare(&self) -> Result<Running> {
        if self.claiming.lease.is_zero() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a lease of zero is over at once, lease=0",
            ));
        }
        // Says now what every claim would say.
        self.store
            .write_then_claim(self.queue, Claiming::new(0), |_| Ok::<_, Error>(()))?;
        let keeper = Arc::new(Keeper::new(
            &self.store,
            self.store.bell_of(&self.queue),
            self.claiming.lease,
        ));
        let mut running = Running {
            keeper: keeper.clone(),
            threads: Vec::with_capacity(self.workers + 1),
        };
        let thread = spawn("sprag-relay-leases", move || keeper.run());
        running.threads.push(thread.map_err(not_started)?);
        Ok(running)
    }
}

fn not_started(cause: std::io::Error) -> Error {
    Error::io("start a thread of a relay", None, cause)
}

/// Workers at work. Dropped, it drains without a limit; inside of a handler, or of a closure of the store, it does not wait.
#[must_use = "dropped, it drains at once"]
#[derive(Debug)]
pub struct Running {
    keeper: Arc<Keeper>,
    threads: Vec<JoinHandle<()>>,
}

/// How a drain ended.
#[must_use = "handlers may be left"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Messages whose handlers had not ended, or not begun: they were given back, and whatever those handlers answer changes
    /// nothing.
    pub left: usize,
}

impl Running {
    /// The error that a worker met last: of the store, or of a message that could not be read. Workers try again until an error
    /// of the store passes; what they were told by handlers is kept meanwhile, and written when it can be.
    pub fn last_error(&self) -> Option<Error> {
        self.keeper.last_error()
    }

    /// How many workers are at work. They end by themselves if the store is closed, or its file has the queue otherwise.
    pub fn workers(&self) -> usize {
        self.keeper.workers()
    }

    /// Claims nothing more, lets the handlers that run end, and gives back what was claimed and not begun, which spends
    /// nothing. Returns when that is done or `patience` is over: then what handlers still hold is given back as well.
    ///
    /// Leases are extended meanwhile. A message of an [`at_most_once`](crate::Queue::at_most_once) queue cannot be given back:
    /// what was claimed is handled.
    pub fn drain(mut self, patience: Duration) -> Drained {
        let left = self.keeper.drain(Some(patience));
        if self.keeper.workers() > 0 {
            // Whoever waits for a handler that never ends, never ends.
            self.threads.clear();
        }
        Drained { left }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        if threads.is_empty() {
            return;
        }
        if self.keeper.is_inside() || threads.iter().any(is_current) {
            // Who is waited for would wait for this very thread.
            self.keeper.stop();
            return;
        }
        self.keeper.drain(None);
        for thread in threads {
            // A handler's panic was caught, and a worker's own has nothing to say.
            drop(thread.join());
        }
    }
}
