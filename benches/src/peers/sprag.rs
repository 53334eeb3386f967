//! Sprag with its defaults: a remembered key around a conditional write and one more record.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::sprag::{
    Bincode, Claim, Codec, Condition, Keep, Keys, Level, Once, OnceKey, Options, Outgoing, Queue, Settled, Store,
    Table, Transitioned, WriteTx, Written, limits,
};

use crate::contents::Contents;
use crate::load::{HEADER, KEEP_DAYS, SCOPE};
use crate::op::{Ask, First, Held, Message, Op, Reply, See, Step};
use crate::peer::{Durability, Failure, Peer, Setup, Subject};

::sprag::machine! {
    /// The states of an order, over and over.
    pub enum OrderState: "orders" {
        New = "new",
        Packed = "packed",
        Shipped = "shipped",
    }
    initial New;
    cyclic;
    New => Packed;
    Packed => Shipped;
    Shipped => New;
}

const RECORDS: Table<u64, String> = Table::new("records");
const EXTRAS: Table<u64, String> = Table::new("extras");
const ORDERS: Table<u64, String, OrderState> = Table::new("orders");
const COUNTERS: Table<u64, u64> = Table::new("counters");
const MAIL: Queue<String> = Queue::new("mail");
/// Messages that are looked at in one go.
const PAGE: usize = 10_000;
const STATES: [OrderState; 3] = [OrderState::New, OrderState::Packed, OrderState::Shipped];
/// Well below what one commit may hold.
const LOT_BYTES: usize = 400_000;
const FILE: &str = "store.sprag";
/// A checkpoint that takes longer than this hangs.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// Sprag with its defaults.
pub const SYNC: Subject = Subject {
    name: "sprag",
    group: "sprag",
    durability: Durability::Sync,
    files: "sprag",
    lot_bytes: LOT_BYTES,
    open: |folder, setup| Sprag::open(folder, Level::Sync, limits::LOG_HALF_BYTES_DEFAULT, setup),
};

/// Sprag with log halves of 16 MiB, which trade memory for fewer bytes written.
pub const LARGE_HALVES: Subject = Subject {
    name: "sprag, halves of 16 MiB",
    group: "sprag, halves of 16 MiB",
    durability: Durability::Sync,
    files: "sprag-large-halves",
    lot_bytes: LOT_BYTES,
    open: |folder, setup| Sprag::open(folder, Level::Sync, 16 << 20, setup),
};

/// Sprag that answers before the sync.
pub const BUFFERED: Subject = Subject {
    name: "sprag buffered",
    group: "sprag",
    durability: Durability::Buffered,
    files: "sprag",
    lot_bytes: LOT_BYTES,
    open: |folder, setup| Sprag::open(folder, Level::Buffered, limits::LOG_HALF_BYTES_DEFAULT, setup),
};

/// An open store.
#[derive(Debug)]
struct Sprag {
    store: Store,
    /// What each thread has in its hands.
    claims: Vec<Mutex<Vec<Claim<String>>>>,
}

impl Sprag {
    /// A store that is there has the halves that it was made with.
    fn open(folder: &Path, level: Level, half: u64, setup: Setup) -> Result<Box<dyn Peer>, Failure> {
        let level = if setup.filling { Level::Buffered } else { level };
        let store = Options::new()
            .level(level)
            .log_half_bytes(half)
            .cache_bytes(super::cache_bytes(setup))
            .open_or_create(folder.join(FILE))?;
        let claims = (0..setup.threads).map(|_| Mutex::default()).collect();
        Ok(Box::new(Sprag { store, claims }))
    }

    /// The messages that a thread holds. An engine of ours finds them by more than their numbers.
    fn take(&self, thread: usize, held: &[Held]) -> Result<Vec<Claim<String>>, Failure> {
        let mut own = self.claims[thread].lock().unwrap_or_else(PoisonError::into_inner);
        let claims = std::mem::take(&mut *own);
        let theirs = held.iter().map(|one| (one.id, one.fence));
        if claims.iter().map(|claim| (claim.id().get(), claim.fence())).eq(theirs) {
            return Ok(claims);
        }
        Err("the thread holds other messages than these".into())
    }

    fn hand_out(&self, thread: usize, claims: Vec<Claim<String>>) -> Result<Reply, Failure> {
        let held = claims.iter().map(held_of).collect::<Result<_, Failure>>()?;
        *self.claims[thread].lock().unwrap_or_else(PoisonError::into_inner) = claims;
        Ok(Reply::Claimed(held))
    }
}

impl Peer for Sprag {
    fn write(&self, thread: usize, op: Op) -> Result<Reply, Failure> {
        match op {
            Op::Commit(step) => {
                let answer = self.store.once(&key(&step.key), |tx| commit(tx, &step))?;
                Ok(replied(answer))
            }
            Op::PutIf(step) => {
                let condition = Condition::Version(step.version);
                let written = self.store.put_if(RECORDS, &step.record, condition, &step.value)?;
                Ok(done_if(matches!(written, Written::Applied(_))))
            }
            Op::Move(to_move) => {
                let (from, to) = (state(to_move.from)?, state(to_move.to)?);
                let moved = self.store.transition(ORDERS, &to_move.record, from, to)?;
                Ok(done_if(matches!(moved, Transitioned::Applied(_))))
            }
            Op::Enqueue(message) => {
                self.store.enqueue(MAIL, outgoing(&message))?;
                Ok(Reply::Done)
            }
            Op::Claim(count) => self.hand_out(thread, self.store.claim(MAIL, count)?),
            Op::Ack(held) => {
                let mut claims = self.take(thread, &held)?;
                let settled = match claims.pop() {
                    Some(one) if claims.is_empty() => self.store.ack(one)? == Settled::Done,
                    last => self.store.write(|tx| ack(tx, claims.into_iter().chain(last)))?,
                };
                Ok(done_if(settled))
            }
            Op::AckThenClaim(held, count) => {
                let claims = self.take(thread, &held)?;
                let (settled, next) = self.store.write_then_claim(MAIL, count, |tx| ack(tx, claims))?;
                if settled {
                    self.hand_out(thread, next)
                } else {
                    Ok(Reply::Conflict)
                }
            }
            Op::Count | Op::First(_) => self.store.write(|tx| apply(tx, &op)),
        }
    }

    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure> {
        self.store
            .write(|tx| ops.iter().map(|op| apply(tx, op)).collect::<Result<_, Failure>>())
    }

    fn read(&self, _thread: usize, ask: &Ask, see: See<'_>) -> Result<(), Failure> {
        match ask {
            Ask::Get(id) => {
                if let Some(record) = self.store.get(RECORDS, id)? {
                    see(*id, record.version.get(), &record.value);
                }
                Ok(())
            }
            Ask::Gets(ids) => self.store.read(|tx| {
                for id in ids {
                    if let Some(record) = tx.get(RECORDS, id)? {
                        see(*id, record.version.get(), &record.value);
                    }
                }
                Ok(())
            }),
            Ask::Scan { from, count } => self.store.read(|tx| {
                for item in tx.scan(RECORDS, Keys::from(from))?.take(*count as usize) {
                    let (id, record) = item?;
                    see(id, record.version.get(), &record.value);
                }
                Ok(())
            }),
        }
    }

    fn bytes_handed(&self) -> Option<u64> {
        self.store.stats().ok().map(|stats| stats.log_bytes)
    }

    fn settle(&self) -> Result<(), Failure> {
        let started = Instant::now();
        while self.store.stats()?.checkpoint_pending {
            if started.elapsed() > SETTLE_MAX {
                return Err("a checkpoint does not end".into());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    /// A half that is in its checkpoint counts whole.
    fn to_recover(&self) -> f64 {
        let Ok(stats) = self.store.stats() else { return 0.0 };
        let frozen = if stats.checkpoint_pending {
            stats.log_half_bytes
        } else {
            0
        };
        (frozen + stats.log_used_bytes) as f64 / (2 * stats.log_half_bytes) as f64
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        self.store.read(|tx| {
            let mut contents = Contents::default();
            for item in tx.scan(RECORDS, Keys::all())? {
                let (id, record) = item?;
                contents.add_record(id, record.version.get(), &record.value);
            }
            for item in tx.scan(EXTRAS, Keys::all())? {
                let (id, record) = item?;
                contents.add_extra(id, &record.value);
            }
            for item in tx.scan(ORDERS, Keys::all())? {
                let (id, record) = item?;
                let state = STATES.iter().position(|state| *state == record.state);
                let state = state.ok_or("a state of no order")? as u64;
                contents.add_order(id, record.version.get(), state, &record.value);
            }
            for item in tx.scan(COUNTERS, Keys::all())? {
                let (id, record) = item?;
                contents.add_counter(id, record.value);
            }
            let mut after = None;
            while tx.queue_stats(MAIL.name())?.is_some() {
                let page = tx.messages(MAIL.name(), after, PAGE)?;
                for info in &page {
                    let payload = <Bincode as Codec>::decode::<String>(&info.payload)?;
                    contents.add_message(u64::from(info.attempts), &payload);
                }
                match page.last() {
                    Some(last) => after = Some(last.id),
                    None => break,
                }
            }
            for item in tx.remembered_keys(Some(SCOPE))? {
                contents.add_key(&item?.key);
            }
            Ok(Some(contents))
        })
    }
}

fn key(key: &[u8; 16]) -> OnceKey {
    OnceKey::new(SCOPE, key, Keep::For(Duration::from_secs(KEEP_DAYS * 86_400)))
}

fn state(number: u64) -> Result<OrderState, Failure> {
    let state = usize::try_from(number).ok().and_then(|number| STATES.get(number));
    Ok(*state.ok_or("a state of no order")?)
}

fn done_if(done: bool) -> Reply {
    if done { Reply::Done } else { Reply::Conflict }
}

fn replied(answer: Once<u64>) -> Reply {
    match answer {
        Once::First(_) => Reply::Done,
        Once::Repeat { result, .. } => Reply::Repeat(result),
    }
}

/// The number, the fence and the length of what was handed out, which is read for it.
fn held_of(claim: &Claim<String>) -> Result<Held, Failure> {
    Ok(Held {
        id: claim.id().get(),
        fence: claim.fence(),
        bytes: claim.message()?.len(),
    })
}

fn outgoing(message: &Message) -> Outgoing<'_, String> {
    Outgoing::of(&message.payload).header(HEADER.0, HEADER.1)
}

/// Whether all of them were still held.
fn ack(tx: &mut WriteTx<'_>, claims: impl IntoIterator<Item = Claim<String>>) -> Result<bool, Failure> {
    for claim in claims {
        if tx.ack(claim)? != Settled::Done {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An error, and with it nothing of the step, if the version is another one.
fn commit(tx: &mut WriteTx<'_>, step: &Step) -> Result<u64, Failure> {
    match tx.put_if(RECORDS, &step.record, Condition::Version(step.version), &step.value)? {
        Written::Applied(_) => {}
        other => return Err(format!("not applied, step={}, {other:?}", step.extra).into()),
    }
    tx.put(EXTRAS, &step.extra, &step.extra_value)?;
    Ok(step.extra)
}

fn apply(tx: &mut WriteTx<'_>, op: &Op) -> Result<Reply, Failure> {
    match op {
        Op::Commit(step) => return Ok(replied(tx.once(&key(&step.key), |tx| commit(tx, step))?)),
        Op::PutIf(step) => {
            let condition = Condition::Version(step.version);
            let written = tx.put_if(RECORDS, &step.record, condition, &step.value)?;
            return Ok(done_if(matches!(written, Written::Applied(_))));
        }
        Op::Move(to_move) => {
            let (from, to) = (state(to_move.from)?, state(to_move.to)?);
            let moved = tx.transition(ORDERS, &to_move.record, from, to)?;
            return Ok(done_if(matches!(moved, Transitioned::Applied(_))));
        }
        Op::Count => {
            tx.update(COUNTERS, &0, |count| count.map(|count| count + 1))?;
        }
        Op::First(First::Record(id, value)) => {
            tx.put(RECORDS, id, value)?;
        }
        Op::First(First::Order(id, value)) => {
            tx.put(ORDERS, id, value)?;
        }
        Op::First(First::Counter(id)) => {
            tx.put(COUNTERS, id, &0)?;
        }
        Op::Enqueue(message) => {
            tx.enqueue(MAIL, outgoing(message))?;
        }
        Op::Claim(_) | Op::Ack(_) | Op::AckThenClaim(..) => return Err("not part of a lot".into()),
        Op::First(First::Key(new)) => return Ok(replied(tx.once(&key(new), |_| Ok::<_, Failure>(0))?)),
    }
    Ok(Reply::Done)
}
