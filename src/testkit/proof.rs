//! A proof: the handler, its store, its message, and what the user says of them.

use std::fmt::Debug;
use std::time::Duration;

use super::contents::{Contents, Free};
use super::far_end::{FarEnd, Promise};
use super::histories;
use super::report::{Broken, Proved, Rule};
use super::trial::{About, Told, Trial};
use crate::disk::sim::SimDisk;
use crate::{Error, Options, Store};
use std::collections::BTreeMap;

/// Shows whether a handler is safe to run again.
///
/// The kit delivers a message once, and takes the stored state, the answer and the effects of that for right. Then it
/// delivers it again and again: twice, three and eleven times; 2 to 16 copies at the same time; with a kill or a power loss
/// at every call of the disk and between any two calls of the handler, with a panic there, with a far end that hangs up,
/// with clocks that jump, and among other messages. Each time the **whole** stored state must be that after one delivery:
/// records with versions and states, remembered keys with their results, and messages with their order within a key.
///
/// ```
/// use sprag::testkit::{Proof, Rule};
/// use sprag::{Error, Keep, OnceKey, Store, Table};
/// use std::time::Duration;
///
/// const BALANCES: Table<u64, i64> = Table::new("balances");
///
/// fn wrong(store: &Store, message: &(u64, i64)) -> Result<i64, Error> {
///     store.write(|tx| {
///         let balance = tx.get(BALANCES, &message.0)?.map_or(0, |record| record.value) + message.1;
///         tx.put(BALANCES, &message.0, &balance)?;
///         Ok(balance)
///     })
/// }
///
/// fn right(store: &Store, message: &(u64, i64)) -> Result<i64, Error> {
///     let key = OnceKey::new("payments", "evt-1", Keep::For(Duration::from_secs(7 * 86400)));
///     let answer = store.once(&key, |tx| {
///         let balance = tx.get(BALANCES, &message.0)?.map_or(0, |record| record.value) + message.1;
///         tx.put(BALANCES, &message.0, &balance)?;
///         Ok::<_, Error>(balance)
///     })?;
///     Ok(answer.into_result())
/// }
///
/// let founded = |store: &Store| store.put(BALANCES, &51, &100).map(drop);
/// let broken = Proof::of(wrong, (51, 40)).on(founded).check().unwrap_err();
/// assert_eq!((broken.rule(), broken.deliveries()), (Rule::FindRepeats, 2));
/// Proof::of(right, (51, 40)).on(founded).prove();
/// ```
///
/// # What it cannot see
/// It tries many histories, and not all. A handler is called only with the messages that it is given; what it keeps in
/// memory, in files or in other stores is not looked at, and what it sends only if it calls a [`FarEnd`].
///
/// # Limits
/// Nothing sleeps, and the same seed gives the same histories, if the handler itself is deterministic: one that draws random
/// numbers or reads a clock is not. A handler must not wait for another delivery, and must not keep the store.
pub struct Proof<'h, M, R, E> {
    pub(super) handler: Box<Handler<'h, M, R, E>>,
    pub(super) messages: Vec<M>,
    setup: Box<Setup<'h>>,
    pub(super) options: Options,
    pub(super) free: Free,
    pub(super) answers_may_differ: bool,
    pub(super) far_end: Option<(FarEnd, Promise)>,
    pub(super) late_by: Duration,
    pub(super) seed: u64,
}

const SAME_EACH_TIME: About = About {
    state: Rule::SameEachTime,
    answer: Rule::SameEachTime,
};

/// A handler, shared by the threads that call it at the same time.
pub(super) type Handler<'h, M, R, E> = dyn Fn(&Store, &M) -> Result<R, E> + Sync + 'h;

/// What fills a new store.
type Setup<'h> = dyn Fn(&Store) -> Result<(), Error> + 'h;

/// What is right: the end of deliveries of which none came twice.
pub(super) struct Once<R> {
    pub(super) contents: Contents,
    /// For each message that was delivered.
    pub(super) answers: BTreeMap<usize, R>,
    pub(super) effects: BTreeMap<String, u64>,
}

/// How long one delivery is, in what can go wrong on its way.
#[derive(Clone, Debug)]
pub(super) struct Size {
    /// Points before, inside of and after its calls, in words.
    pub(super) points: Vec<String>,
    /// Calls of the disk that change something.
    pub(super) events: u64,
    /// Calls of the far end.
    pub(super) calls: u64,
}

impl<'h, M, R, E> Proof<'h, M, R, E>
where
    M: Sync,
    R: PartialEq + Debug + Send,
    E: Debug + Send,
{
    /// A handler, and the message that comes again. An error of the handler is a delivery that failed: it is delivered again.
    pub fn of(handler: impl Fn(&Store, &M) -> Result<R, E> + Sync + 'h, message: M) -> Proof<'h, M, R, E> {
        Proof {
            handler: Box::new(handler),
            messages: vec![message],
            setup: Box::new(|_| Ok(())),
            options: Options::new().log_half_bytes(256 << 10).cache_bytes(1 << 20),
            free: Free::default(),
            answers_may_differ: false,
            far_end: None,
            late_by: Duration::from_secs(3600),
            seed: 1,
        }
    }

    /// Fills the new store that each history begins with.
    #[must_use]
    pub fn on(mut self, setup: impl Fn(&Store) -> Result<(), Error> + 'h) -> Self {
        self.setup = Box::new(setup);
        self
    }

    /// Other messages, which come in between. A repeat must not undo what they did.
    #[must_use]
    pub fn among(mut self, others: impl IntoIterator<Item = M>) -> Self {
        self.messages.extend(others);
        self
    }

    /// The far end that the handler calls, and what the handler promises about it.
    #[must_use]
    pub fn far_end(mut self, far_end: &FarEnd, promise: Promise) -> Self {
        self.far_end = Some((far_end.clone(), promise));
        self
    }

    /// The table may differ from what it is after one delivery, as one that logs every delivery does.
    #[must_use]
    pub fn table_may_differ(mut self, table: impl Into<String>) -> Self {
        self.free.tables.insert(table.into());
        self
    }

    /// Messages of the queue may differ from what they are after one delivery.
    #[must_use]
    pub fn queue_may_differ(mut self, queue: impl Into<String>) -> Self {
        self.free.queues.insert(queue.into());
        self
    }

    /// Remembered keys of the scope may differ from what they are after one delivery.
    #[must_use]
    pub fn keys_may_differ(mut self, scope: impl Into<String>) -> Self {
        self.free.scopes.insert(scope.into());
        self
    }

    /// What repeats are told may differ from what the first delivery was told, and may be an error.
    #[must_use]
    pub fn answers_may_differ(mut self) -> Self {
        self.answers_may_differ = true;
        self
    }

    /// How late a repeat can come; an hour if nothing is said. Keys must be kept for longer.
    #[must_use]
    pub fn repeats_within(mut self, time: Duration) -> Self {
        self.late_by = time;
        self
    }

    /// How the store is opened. Clock and disk are the kit's.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Chooses other histories, where there are too many to try all.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Tries, and fails the test with the smallest history that shows a fault.
    ///
    /// # Panics
    /// If a history ends otherwise than one delivery does.
    #[track_caller]
    #[expect(clippy::panic, reason = "how a test says that it failed")]
    pub fn prove(&self) -> Proved {
        match self.check() {
            Ok(proved) => proved,
            Err(broken) => panic!("{broken}"),
        }
    }

    /// Tries, and gives the first history that ends otherwise than one delivery does. Short histories come first.
    ///
    /// # Errors
    /// The history, what differs after it, and the rule that the handler breaks.
    pub fn check(&self) -> Result<Proved, Box<Broken>> {
        histories::all(self)
    }

    /// The disk that every history begins with.
    pub(super) fn founded(&self) -> Result<SimDisk, Box<Broken>> {
        let disk = SimDisk::new();
        let options = self.options.clone().checkpoints_in_line();
        let options = options.clock(std::sync::Arc::new(crate::ManualClock::new()));
        let founded = options.create_on(std::sync::Arc::new(disk.clone())).and_then(|store| {
            (self.setup)(&store)?;
            store.close()
        });
        match founded {
            Ok(()) => Ok(disk),
            Err(cause) => Err(self.unfit(format!(
                "the store cannot be set up (a commit that is too large needs other `options`): {cause:?}"
            ))),
        }
    }

    /// What one delivery leaves, after a look at whether another first one leaves the same.
    pub(super) fn reference(&self, founded: &SimDisk) -> Result<(Once<R>, Size), Box<Broken>> {
        let (once, size) = self.once(founded, &[0])?;
        let mut trial = Trial::new(self, founded, None)?;
        trial.step("delivered to another new store");
        let told = trial.deliver(0, None);
        trial.heard(0, told);
        trial.judge(&once, SAME_EACH_TIME)?;
        Ok((once, size))
    }

    /// Each of these messages once, in this order, with nothing in the way.
    pub(super) fn once(&self, founded: &SimDisk, order: &[usize]) -> Result<(Once<R>, Size), Box<Broken>> {
        let mut trial = Trial::new(self, founded, None)?;
        let mut answers = BTreeMap::new();
        let mut size = Size {
            points: Vec::new(),
            events: 0,
            calls: 0,
        };
        for &message in order {
            let before = trial.events();
            match trial.deliver(message, None) {
                Told::Answer(answer) => answers.insert(message, answer),
                Told::Refused(what) => return Err(self.unfit(format!("the handler answers an error: {what}"))),
                Told::Stopped => return Err(self.unfit("the handler was stopped".to_owned())),
            };
            size = Size {
                points: trial.points(),
                events: trial.events() - before,
                calls: trial.far_calls(),
            };
        }
        let contents = trial
            .contents()
            .map_err(|cause| self.unfit(format!("the store cannot be read: {cause:?}")))?;
        let effects = self
            .far_end
            .as_ref()
            .map(|(far_end, _)| far_end.applied())
            .unwrap_or_default();
        Ok((
            Once {
                contents,
                answers,
                effects,
            },
            size,
        ))
    }

    fn unfit(&self, difference: String) -> Box<Broken> {
        Box::new(Broken {
            rule: Rule::FirstDelivery,
            deliveries: 1,
            steps: vec!["delivered".to_owned()],
            differences: vec![difference],
            seed: self.seed,
        })
    }
}
