//! The race: slices of a fixed time, alternating between the peers.
//!
//! A round gives every peer one slice, and the next round starts with another peer, so that a change of the machine
//! between rounds hits all of them and a ratio within a round stays true. Background work that a slice leaves behind
//! is waited for before the next peer starts. That tail is outside of the slice's rate, as it overlaps with commits
//! when they go on, and is charged in `settled_rate`; the truth of a long run lies between the two.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::Load;
use crate::peer::{Failure, Peer};
use crate::place::{self, Ticks};

/// A peer with what was measured of it.
pub struct Entrant {
    /// The engine.
    pub peer: Box<dyn Peer>,
    /// Where its files are.
    folder: PathBuf,
    /// One for each round, in order.
    pub slices: Vec<Slice>,
    /// The number of the next step, and so the count of steps done.
    next: AtomicU64,
}

/// What one slice showed.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Commits per second.
    pub rate: f64,
    /// The same with the time until background work was done.
    pub settled_rate: f64,
    /// Bytes given to the log per commit.
    pub handed: Option<f64>,
    /// Bytes sent to the device per commit, checkpoints included, and other programs' writes.
    pub device: Option<f64>,
    /// The share of the processors that was taken, but not by this process; the kernel's own threads are in it.
    pub others: Option<f64>,
}

/// What only grows, read before and after a slice.
struct Counters {
    steps: u64,
    handed: Option<u64>,
    device: Option<u64>,
    ticks: Option<Ticks>,
}

impl Entrant {
    /// At the start, nothing done; its files are in `folder`.
    pub fn new(peer: Box<dyn Peer>, folder: &Path) -> Entrant {
        Entrant {
            peer,
            folder: folder.to_owned(),
            slices: Vec::new(),
            next: AtomicU64::new(0),
        }
    }

    /// Runs one slice with `threads` threads, if the peer wants as many, and waits for the work it leaves behind.
    ///
    /// # Errors
    /// The first failure of any thread.
    pub fn run(&self, load: &Load, threads: usize, time: Duration) -> Result<Slice, Failure> {
        self.run_watched(load, threads, time, &|| ())
    }

    /// The same; each thread calls `watch` after each of its commits.
    ///
    /// # Errors
    /// The first failure of any thread.
    pub fn run_watched(
        &self,
        load: &Load,
        threads: usize,
        time: Duration,
        watch: &(dyn Fn() + Sync),
    ) -> Result<Slice, Failure> {
        let before = self.counters();
        let started = Instant::now();
        let elapsed = self.commit_until(load, self.peer.threads(threads), time, watch)?;
        let committing = started.elapsed();
        self.peer.settle()?;
        let tail = started.elapsed() - committing;
        let after = self.counters();
        let commits = (after.steps - before.steps) as f64;
        let per_commit = |before: Option<u64>, after: Option<u64>| Some((after? - before?) as f64 / commits);
        Ok(Slice {
            rate: commits / elapsed.as_secs_f64(),
            settled_rate: commits / (elapsed + tail).as_secs_f64(),
            handed: per_commit(before.handed, after.handed),
            device: per_commit(before.device, after.device),
            others: place::share_of_others(before.ticks, after.ticks),
        })
    }

    /// Fails unless the peer holds exactly what its steps must have left.
    ///
    /// # Errors
    /// With both contents if they differ.
    pub fn check(&self, load: &Load) -> Result<(), Failure> {
        let steps = self.next.load(Ordering::Relaxed);
        let Some(found) = self.peer.contents()? else {
            return Ok(());
        };
        let expected = load.expected(steps);
        if found != expected {
            let name = self.peer.name();
            return Err(format!("{name} does not hold what it was given, {found:?} instead of {expected:?}").into());
        }
        Ok(())
    }

    /// Does the next `count` steps on this thread and returns the time they took.
    ///
    /// # Errors
    /// What the peer reports.
    pub fn commit_count(&self, load: &Load, count: u64) -> Result<Duration, Failure> {
        let started = Instant::now();
        for _ in 0..count {
            self.peer
                .commit(0, &load.step(self.next.fetch_add(1, Ordering::Relaxed)))?;
        }
        Ok(started.elapsed())
    }

    fn counters(&self) -> Counters {
        Counters {
            steps: self.next.load(Ordering::Relaxed),
            handed: self.peer.bytes_handed(),
            device: place::device_bytes(&self.folder),
            ticks: place::ticks(),
        }
    }

    /// The time from the first thread's start to the last one's end. Each step that was taken is done at the end.
    fn commit_until(
        &self,
        load: &Load,
        threads: usize,
        time: Duration,
        watch: &(dyn Fn() + Sync),
    ) -> Result<Duration, Failure> {
        let barrier = Barrier::new(threads);
        let one = |thread: usize| -> Result<(Instant, Instant), Failure> {
            barrier.wait();
            let started = Instant::now();
            while started.elapsed() < time {
                let step = load.step(self.next.fetch_add(1, Ordering::Relaxed));
                self.peer.commit(thread, &step)?;
                watch();
            }
            Ok((started, Instant::now()))
        };
        let ends: Vec<(Instant, Instant)> = thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            let joined = running
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked")?);
            joined.collect::<Result<_, Failure>>()
        })?;
        let first = ends.iter().map(|(start, _)| *start).min();
        let last = ends.iter().map(|(_, end)| *end).max();
        match (first, last) {
            (Some(first), Some(last)) => Ok(last - first),
            _ => Err("a slice needs a thread".into()),
        }
    }
}

/// How long a race goes on.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Rounds that count.
    pub rounds: usize,
    /// Length of a slice.
    pub slice: Duration,
    /// How long the race waits, all in all, for others to leave the processors alone.
    pub patience: Duration,
}

/// Gives every entrant one slice in each round, after a short one that warms up and is not counted.
///
/// While there is patience, a round waits until others take next to none of the processors, and one in which they took more
/// than [`place::BUSY`] is run again. What decides is what others did, never what was measured.
///
/// # Errors
/// The first failure, or an entrant that at the end does not hold what it was given.
pub fn race(entrants: &mut [Entrant], load: &Load, threads: usize, pace: Pace) -> Result<(), Failure> {
    for entrant in entrants.iter() {
        entrant.run(load, threads, pace.slice / 4)?;
    }
    let count = entrants.len();
    let mut patience = pace.patience;
    let mut round = 0;
    while round < pace.rounds {
        let started = Instant::now();
        place::wait_until_quiet(patience);
        let mut slices = Vec::new();
        for place in 0..count {
            let index = (place + round) % count;
            slices.push((index, entrants[index].run(load, threads, pace.slice)?));
        }
        let disturbed = slices
            .iter()
            .any(|(_, slice)| slice.others.is_some_and(|share| share > place::BUSY));
        if disturbed && !patience.is_zero() {
            patience = patience.saturating_sub(started.elapsed());
            continue;
        }
        for (index, slice) in slices {
            entrants[index].slices.push(slice);
        }
        round += 1;
    }
    entrants.iter().try_for_each(|entrant| entrant.check(load))
}
