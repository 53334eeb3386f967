//! A peer at work: slices of operations, what they cost, and whether they left what they must.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::load::{Load, Work};
use crate::op::{Ask, Held, Op, Reply};
use crate::peer::{Failure, Peer};
use crate::place::{self, Ticks};
use crate::race::Racer;

/// One of so many reads is compared byte for byte, the others by their length and beginning.
const COMPARED_EACH: u64 = 64;

/// A peer in this process.
pub struct Entrant {
    /// The engine.
    pub peer: Box<dyn Peer>,
    /// Where its files are.
    folder: PathBuf,
    pub(crate) load: Load,
    /// The number of the next operation, and so the count of those done.
    pub(crate) next: AtomicU64,
    /// Messages that were enqueued in place of those that were delivered.
    pub(crate) made_up: AtomicU64,
}

/// What one slice showed.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Operations done.
    pub done: u64,
    /// Results per second: operations, or gets for many gets in one.
    pub rate: f64,
    /// The same with the time until background work was done.
    pub settled_rate: f64,
    /// Bytes given to the log per operation, if the peer counts them.
    pub handed: Option<f64>,
    /// Bytes given to write calls by this process per operation, checkpoints included.
    pub written: Option<f64>,
    /// Bytes sent to the device per operation, checkpoints included, and other programs' writes.
    pub device: Option<f64>,
    /// Processor time of this process per operation, in microseconds.
    pub cpu_us: f64,
    /// The share of the processors that was taken, but not by this process; the kernel's own threads are in it.
    pub others: Option<f64>,
    /// How long each operation took.
    pub latency: Histogram,
}

/// What only grows, read before and after a slice.
struct Counters {
    done: u64,
    handed: Option<u64>,
    written: Option<u64>,
    device: Option<u64>,
    cpu: Duration,
    ticks: Option<Ticks>,
}

/// What a thread comes back with: when it began, when it ended, and how long its operations took.
type Ran = (Instant, Instant, Histogram);

impl Entrant {
    /// At the start, nothing done; its files are in `folder`.
    pub fn new(peer: Box<dyn Peer>, folder: &Path, load: Load) -> Entrant {
        Entrant {
            peer,
            folder: folder.to_owned(),
            load,
            next: AtomicU64::new(0),
            made_up: AtomicU64::new(0),
        }
    }

    /// Runs one slice with `threads` threads, if the peer wants as many, and waits for the work it leaves behind; each thread
    /// calls `watch` after each of its operations.
    ///
    /// # Errors
    /// The first failure of any thread.
    pub fn run_watched(&self, threads: usize, time: Duration, watch: &(dyn Fn() + Sync)) -> Result<Slice, Failure> {
        self.make_up()?;
        let before = self.counters();
        let started = Instant::now();
        let (elapsed, latency) = self.work_until(self.peer.threads(threads), time, watch)?;
        let working = started.elapsed();
        self.peer.settle()?;
        let tail = started.elapsed() - working;
        let after = self.counters();
        let done = after.done - before.done;
        let per_op = |before: Option<u64>, after: Option<u64>| Some((after? - before?) as f64 / done as f64);
        let results = (done * self.load.results()) as f64;
        Ok(Slice {
            done,
            rate: results / elapsed.as_secs_f64(),
            settled_rate: results / (elapsed + tail).as_secs_f64(),
            handed: per_op(before.handed, after.handed),
            written: per_op(before.written, after.written),
            device: per_op(before.device, after.device),
            cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6 / done as f64,
            others: place::share_of_others(before.ticks, after.ticks),
            latency,
        })
    }

    /// Does the next `count` operations on this thread.
    ///
    /// # Errors
    /// What the peer reports.
    pub fn work_count(&self, count: u64) -> Result<(), Failure> {
        let mut held = Vec::new();
        (0..count).try_for_each(|_| self.one(0, Instant::now(), &mut held).map(drop))?;
        self.put_down(0, held)
    }

    fn counters(&self) -> Counters {
        Counters {
            done: self.next.load(Ordering::Relaxed),
            handed: self.peer.bytes_handed(),
            written: place::written_bytes(),
            device: place::device_bytes(&self.folder),
            cpu: place::processor_time(),
            ticks: place::ticks(),
        }
    }

    /// The time from the first thread's start to the last one's end. Each operation that was taken is done at the end.
    fn work_until(
        &self,
        threads: usize,
        time: Duration,
        watch: &(dyn Fn() + Sync),
    ) -> Result<(Duration, Histogram), Failure> {
        let barrier = Barrier::new(threads);
        let one = |thread: usize| -> Result<Ran, Failure> {
            let mut latency = Histogram::default();
            let mut held = Vec::new();
            barrier.wait();
            let started = Instant::now();
            let mut now = started;
            while now - started < time {
                let took = self.one(thread, now, &mut held)?;
                now = took.1;
                latency.add((took.1 - took.0).as_nanos() as u64);
                watch();
            }
            if !held.is_empty() {
                self.put_down(thread, held)?;
                now = Instant::now();
            }
            Ok((started, now, latency))
        };
        let ran: Vec<Ran> = thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            let joined = running
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked")?);
            joined.collect::<Result<_, Failure>>()
        })?;
        let first = ran.iter().map(|(start, ..)| *start).min();
        let last = ran.iter().map(|(_, end, _)| *end).max();
        let mut latency = Histogram::default();
        ran.iter().for_each(|(.., one)| latency.merge(one));
        match (first, last) {
            (Some(first), Some(last)) => Ok((last - first, latency)),
            _ => Err("a slice needs a thread".into()),
        }
    }

    /// The next operation, and when it began and ended. Making what is written takes time that is not the peer's; making
    /// what is read takes next to none, less than another look at the clock.
    fn one(&self, thread: usize, now: Instant, held: &mut Vec<Held>) -> Result<(Instant, Instant), Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begun = match self.load.op(number) {
            None if self.load.delivers() => {
                self.deliver(thread, held)?;
                now
            }
            None => {
                self.read(thread, number)?;
                now
            }
            Some(op) => {
                let expected = self.expected_reply(&op);
                let begun = Instant::now();
                let reply = self.peer.write(thread, op)?;
                check_reply(number, reply, expected)?;
                begun
            }
        };
        Ok((begun, Instant::now()))
    }

    fn expected_reply(&self, op: &Op) -> Reply {
        match (self.load.work, op) {
            (Work::Duplicate, Op::Commit(step)) => Reply::Repeat(step.extra),
            _ => Reply::Done,
        }
    }

    fn read(&self, thread: usize, number: u64) -> Result<(), Failure> {
        let ask = self.load.ask(number);
        let (mut next, expected) = match &ask {
            Ask::Get(record) => (*record, 1),
            Ask::Gets(records) => (0, records.len() as u64),
            Ask::Scan { from, count } => (*from, *count),
        };
        let whole = number.is_multiple_of(COMPARED_EACH);
        let (mut found, mut right) = (0, true);
        self.peer.read(thread, &ask, &mut |record, version, value| {
            let wanted = match &ask {
                Ask::Gets(records) => records.get(found as usize).copied(),
                _ => Some(next),
            };
            right &= wanted == Some(record) && version == 1 && self.load.begins_as_first_value(record, value);
            right &= !whole || value == self.load.first_value(record);
            found += 1;
            next += 1;
        })?;
        if right && found == expected {
            return Ok(());
        }
        Err(format!("read something else than what is there, found={found}, expected={expected}, right={right}").into())
    }
}

impl Racer for Entrant {
    fn slice(&mut self, threads: usize, time: Duration) -> Result<Slice, Failure> {
        self.run_watched(threads, time, &|| ())
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.make_up()?;
        let done = self.next.load(Ordering::Relaxed);
        let Some(found) = self.peer.contents()? else {
            return Ok(());
        };
        let expected = self.load.expected(done);
        if found != expected {
            return Err(format!("does not hold what it was given, {found:?} instead of {expected:?}").into());
        }
        Ok(())
    }
}

fn check_reply(number: u64, reply: Reply, expected: Reply) -> Result<(), Failure> {
    if reply == expected {
        return Ok(());
    }
    Err(format!("answered something else, operation={number}, {reply:?} instead of {expected:?}").into())
}
