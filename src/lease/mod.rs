//! Fences and leases: who holds what, until when, and who is woken when that changes.
//!
//! Owns the one number of the store that fences are taken from, the leases of this process, and the bells by which those who
//! wait for work are woken. A fence lies in the file and only grows; a lease lies in memory, by running time, so that
//! extending one costs no write, and it ends with the process.
//!
//! A lease says when others may look at what somebody holds. Whether they get it is decided on the row that they find, so an
//! entry here that is out of date does no harm: [`Leases::over`] offers it, and the row refuses.

mod bell;
#[cfg(all(test, loom))]
mod models;

use std::collections::{BTreeSet, HashMap};

use crate::engine::Space;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use crate::txn::Txn;

pub(crate) use bell::Bell;

/// The meta key that holds the last fence that was given.
const FENCE: u8 = b'f';

/// How far the fences of a restored store begin above those of its backup: what was claimed behind the backup has none of them.
const FENCES_OF_A_RESTORE: u64 = 1 << 32;

/// Gives fences, each above every one given before, also above those of commits of this process that were not applied.
#[must_use = "fences that are not kept are given again by the next process"]
pub(crate) struct Fences<'l> {
    last: u64,
    leases: &'l Leases,
}

impl Fences<'_> {
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn of<'l>(txn: &Txn, leases: &'l Leases) -> Result<Fences<'l>> {
        let last = last_fence(txn)?.max(leases.given.load(Ordering::Acquire));
        Ok(Fences { last, leases })
    }

    /// # Errors
    /// `Full` if none is left.
    pub(crate) fn next(&mut self) -> Result<u64> {
        let next = self.last.checked_add(1);
        self.last = next.ok_or_else(|| Error::new(ErrorKind::Full, "no fence is left"))?;
        self.leases.given.fetch_max(self.last, Ordering::AcqRel);
        Ok(self.last)
    }

    pub(crate) fn keep(self, txn: &mut Txn) {
        put_last_fence(txn, self.last);
    }
}

/// The last fence that was given; 0 before the first.
pub(crate) fn last_fence(txn: &Txn) -> Result<u64> {
    txn.get(&fence_key())?.map_or(Ok(0), |bytes| decode_fence(&bytes))
}

fn put_last_fence(txn: &mut Txn, fence: u64) {
    txn.put(fence_key(), fence.to_be_bytes().to_vec());
}

/// Fences of this store begin far above `last`, the last one that is known of another store with the same messages.
///
/// # Errors
/// `Full` if none is left; `Corrupt`, `Io`.
pub(crate) fn begin_far_above(txn: &mut Txn, last: u64) -> Result<()> {
    let fence = last
        .checked_add(FENCES_OF_A_RESTORE)
        .ok_or_else(|| Error::new(ErrorKind::Full, "no fence is left"))?;
    put_last_fence(txn, fence);
    Ok(())
}

/// The last fence, if this is its key.
pub(crate) fn fence_of(key: &[u8], bytes: &[u8]) -> Option<Result<u64>> {
    (*key == *fence_key()).then(|| decode_fence(bytes))
}

fn decode_fence(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes
        .try_into()
        .map_err(|_| Error::new(ErrorKind::Corrupt, "last fence is damaged"))?;
    Ok(u64::from_be_bytes(bytes))
}

fn fence_key() -> Vec<u8> {
    let mut key = Space::Meta.key(1);
    key.push(FENCE);
    key
}

/// What somebody holds, and under which fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Holding {
    /// The number of the queue.
    pub(crate) of: u32,
    pub(crate) id: u64,
    pub(crate) fence: u64,
}

/// A lease that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) holding: Holding,
    /// Its holder gave it back, and did not lose it.
    pub(crate) given_back: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    deadline_ns: u64,
    given_back: bool,
    /// A claim of this process stands for it.
    in_hand: bool,
    /// A transaction is ending it.
    ending: bool,
}

impl Lease {
    /// One that somebody holds.
    fn until(deadline_ns: u64, in_hand: bool) -> Lease {
        Lease {
            deadline_ns,
            given_back: false,
            in_hand,
            ending: false,
        }
    }
}

/// The leases of this process, by running time.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    state: Mutex<State>,
    /// The highest fence that this process gave.
    given: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<Holding, Lease>,
    /// Those that nobody is ending, by queue and deadline.
    deadlines: BTreeSet<(u32, u64, Holding)>,
    /// Answers under superseded fences, by queue.
    stale: HashMap<u32, u64>,
    /// Queues in which claims of earlier processes are still to be ended, and behind which message.
    older: HashMap<u32, u64>,
}

impl State {
    fn put(&mut self, holding: Holding, lease: Lease) {
        self.remove(holding);
        self.held.insert(holding, lease);
        if !lease.ending {
            self.deadlines.insert((holding.of, lease.deadline_ns, holding));
        }
    }

    fn remove(&mut self, holding: Holding) {
        if let Some(lease) = self.held.remove(&holding) {
            self.deadlines.remove(&(holding.of, lease.deadline_ns, holding));
        }
    }
}

impl Leases {
    /// Somebody holds this until `deadline_ns`: this process, or one before it that may be answered for.
    pub(crate) fn hold(&self, holding: Holding, deadline_ns: u64, in_hand: bool) {
        self.state.lock().put(holding, Lease::until(deadline_ns, in_hand));
    }

    /// The lease goes on, and no claim of this process stands for it any more.
    pub(crate) fn leave(&self, holding: Holding) {
        if let Some(lease) = self.state.lock().held.get_mut(&holding) {
            lease.in_hand = false;
        }
    }

    /// Whether this process has it in its hands.
    pub(crate) fn is_in_hand(&self, holding: Holding) -> bool {
        self.state.lock().held.get(&holding).is_some_and(|lease| lease.in_hand)
    }

    /// The holder wants it longer. `false`: only what is stored can tell whether it still holds it.
    pub(crate) fn extend(&self, holding: Holding, deadline_ns: u64) -> bool {
        let mut state = self.state.lock();
        let is_held = state
            .held
            .get(&holding)
            .is_some_and(|lease| !lease.given_back && !lease.ending);
        if is_held {
            state.put(holding, Lease::until(deadline_ns, true));
        }
        is_held
    }

    /// The holder is done with it without a word.
    pub(crate) fn give_back(&self, holding: Holding) {
        let mut state = self.state.lock();
        let ending = state.held.get(&holding).is_some_and(|lease| lease.ending);
        // Also if it is not known: the row says whether there is anything to be given back.
        let lease = Lease {
            deadline_ns: 0,
            given_back: true,
            in_hand: false,
            ending,
        };
        state.put(holding, lease);
    }

    /// The holder answered, and the answer is durable.
    pub(crate) fn settle(&self, holding: Holding) {
        self.state.lock().remove(holding);
    }

    /// Leases of a queue that are over, as long as `fits` says so, which is told of each whether it was given back; at least one, if
    /// there is any. They are the caller's to end: see [`Leases::ended`].
    pub(crate) fn over(&self, of: u32, now_ns: u64, mut fits: impl FnMut(bool) -> bool) -> Vec<Over> {
        let mut state = self.state.lock();
        let first = Holding { of, id: 0, fence: 0 };
        let mut over: Vec<Over> = Vec::new();
        let due = state.deadlines.range((of, 0, first)..);
        for (_, _, holding) in due.take_while(|(queue, deadline, _)| *queue == of && *deadline <= now_ns) {
            let given_back = state.held.get(holding).is_some_and(|lease| lease.given_back);
            if !fits(given_back) && !over.is_empty() {
                break;
            }
            over.push(Over {
                holding: *holding,
                given_back,
            });
        }
        for Over { holding, .. } in &over {
            if let Some(lease) = state.held.get(holding).copied() {
                state.put(*holding, Lease { ending: true, ..lease });
            }
        }
        over
    }

    /// What [`Leases::over`] gave was ended durably, or not at all.
    pub(crate) fn ended(&self, over: &[Over], durably: bool) {
        let mut state = self.state.lock();
        for Over { holding, .. } in over {
            // One that is not being ended was taken up anew meanwhile, behind the transaction that ended it.
            let Some(lease) = state.held.get(holding).copied().filter(|lease| lease.ending) else {
                continue;
            };
            if durably {
                state.remove(*holding);
            } else {
                state.put(*holding, Lease { ending: false, ..lease });
            }
        }
    }

    /// When the first lease of a queue is over.
    pub(crate) fn next_deadline(&self, of: u32) -> Option<u64> {
        let state = self.state.lock();
        let first = Holding { of, id: 0, fence: 0 };
        let next = state.deadlines.range((of, 0, first)..).next();
        next.filter(|(queue, ..)| *queue == of)
            .map(|(_, deadline, _)| *deadline)
    }

    /// Claims of earlier processes are to be ended in this queue, behind message number `after`; `None`: they are ended.
    pub(crate) fn end_older(&self, of: u32, after: Option<u64>) {
        let mut state = self.state.lock();
        match after {
            Some(after) => state.older.insert(of, after),
            None => state.older.remove(&of),
        };
    }

    /// Behind which message of a queue there may be claims of earlier processes.
    pub(crate) fn older(&self, of: u32) -> Option<u64> {
        self.state.lock().older.get(&of).copied()
    }

    /// How many of each queue were given back.
    pub(crate) fn given_back(&self) -> HashMap<u32, usize> {
        let state = self.state.lock();
        let mut counts = HashMap::new();
        for (holding, _) in state.held.iter().filter(|(_, lease)| lease.given_back) {
            *counts.entry(holding.of).or_default() += 1;
        }
        counts
    }

    /// Whether its holder gave it back.
    pub(crate) fn is_given_back(&self, holding: Holding) -> bool {
        self.state
            .lock()
            .held
            .get(&holding)
            .is_some_and(|lease| lease.given_back)
    }

    /// Takes it into the hands of a claim, until `deadline_ns`. `false` if one has it.
    pub(crate) fn take_up(&self, holding: Holding, deadline_ns: u64) -> bool {
        let mut state = self.state.lock();
        let is_free = !state.held.get(&holding).is_some_and(|lease| lease.in_hand);
        if is_free {
            state.put(holding, Lease::until(deadline_ns, true));
        }
        is_free
    }

    /// An answer came under a superseded fence.
    pub(crate) fn count_stale(&self, of: u32) {
        *self.state.lock().stale.entry(of).or_default() += 1;
    }

    /// How many such answers there were since the open.
    pub(crate) fn stale(&self, of: u32) -> u64 {
        self.state.lock().stale.get(&of).copied().unwrap_or_default()
    }
}

/// The bells of a store, by what is waited for.
#[derive(Debug, Default)]
pub(crate) struct Bells(Mutex<HashMap<String, Arc<Bell>>>);

impl Bells {
    /// The bell of a name; there is one from the first call on.
    pub(crate) fn of(&self, name: &str) -> Arc<Bell> {
        let mut bells = self.0.lock();
        if let Some(bell) = bells.get(name) {
            return bell.clone();
        }
        bells.entry(name.to_owned()).or_default().clone()
    }

    /// Wakes whoever waits for a name.
    pub(crate) fn ring(&self, name: &str) {
        let bell = self.0.lock().get(name).cloned();
        if let Some(bell) = bell {
            bell.ring();
        }
    }

    /// Wakes everybody.
    pub(crate) fn ring_all(&self) {
        let bells: Vec<_> = self.0.lock().values().cloned().collect();
        for bell in bells {
            bell.ring();
        }
    }
}
