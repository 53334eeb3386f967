//! The race: slices of a fixed time, alternating between the contestants.
//!
//! A round gives everybody one slice, and the next round starts with another one, so that a change of the machine between
//! rounds hits all of them and a ratio within a round stays true. Background work that a slice leaves behind is waited for
//! before the next one starts. That tail is outside of the slice's rate, as it overlaps with commits when they go on, and
//! is charged in `settled_rate`; the truth of a long run lies between the two. Before each round and after the last
//! a probe shows what the disk does just then.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::entrant::{Entrant, Slice};
use crate::load::Load;
use crate::peer::{Failure, Setup, Subject};
use crate::peers;
use crate::place;

/// What can be made to run slices.
pub trait Racer {
    /// Runs one slice and waits for the work it leaves behind.
    ///
    /// # Errors
    /// The first failure of any thread.
    fn slice(&mut self, threads: usize, time: Duration) -> Result<Slice, Failure>;

    /// Fails unless the peer holds exactly what it must by now.
    ///
    /// # Errors
    /// With both contents if they differ.
    fn check(&mut self) -> Result<(), Failure>;

    /// The most memory that the process of this peer ever had resident, in bytes; `None` if it has none of its own.
    ///
    /// # Errors
    /// If the process does not answer.
    fn peak_memory(&mut self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }
}

/// One that takes part, with what was measured of it.
pub struct Contestant {
    /// Who it is.
    pub subject: Subject,
    /// What it does.
    pub load: Load,
    /// By whom.
    pub racer: Box<dyn Racer>,
    /// One for each round, in order.
    pub slices: Vec<Slice>,
    /// After the last round and before the check.
    pub peak_memory: Option<u64>,
    /// The length of its files at the end.
    pub file_bytes: Option<u64>,
}

impl Contestant {
    /// At the start.
    pub fn new(subject: Subject, load: Load, racer: Box<dyn Racer>) -> Contestant {
        Contestant {
            subject,
            load,
            racer,
            slices: Vec::new(),
            peak_memory: None,
            file_bytes: None,
        }
    }
}

/// How long a race goes on.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many threads work at once.
    pub threads: usize,
    /// Rounds that count.
    pub rounds: usize,
    /// Length of a slice.
    pub slice: Duration,
    /// How long the race waits, all in all, for others to leave the processors alone.
    pub patience: Duration,
}

/// Gives everybody one slice in each round, after a short one that warms up and is not counted, and answers what the probes
/// showed, in appends per second.
///
/// While there is patience, a round waits until others take next to none of the processors, and one in which they took more
/// than [`place::BUSY`] is run again. What decides is what others did, never what was measured.
///
/// # Errors
/// The first failure, or a contestant that at the end does not hold what it was given.
pub fn race(contestants: &mut [Contestant], probe: Option<&mut Probe>, pace: Pace) -> Result<Vec<f64>, Failure> {
    let mut probe = Probing {
        probe,
        rates: Vec::new(),
    };
    for one in contestants.iter_mut() {
        one.racer
            .slice(pace.threads, pace.slice / 4)
            .map_err(|cause| named(one, &cause))?;
    }
    let count = contestants.len();
    let mut patience = pace.patience;
    let mut round = 0;
    while round < pace.rounds {
        let started = Instant::now();
        place::wait_until_quiet(patience);
        probe.look(pace)?;
        let mut slices = Vec::new();
        for place in 0..count {
            let one = &mut contestants[(place + round) % count];
            slices.push(
                one.racer
                    .slice(pace.threads, pace.slice)
                    .map_err(|cause| named(one, &cause))?,
            );
        }
        let disturbed = slices
            .iter()
            .any(|slice| slice.others.is_some_and(|share| share > place::BUSY));
        if disturbed && !patience.is_zero() {
            patience = patience.saturating_sub(started.elapsed());
            continue;
        }
        for (place, slice) in slices.into_iter().enumerate() {
            contestants[(place + round) % count].slices.push(slice);
        }
        round += 1;
    }
    probe.look(pace)?;
    for one in contestants {
        one.peak_memory = one.racer.peak_memory()?;
        one.racer.check().map_err(|cause| named(one, &cause))?;
    }
    Ok(probe.rates)
}

fn named(one: &Contestant, cause: &Failure) -> Failure {
    format!("{}: {cause}", one.subject.name).into()
}

/// What shows between rounds how fast the disk is: the floor for a tenth of a slice.
pub struct Probe(Entrant);

impl Probe {
    /// Its file is in `folder`.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(folder: &Path, setup: Setup) -> Result<Probe, Failure> {
        let floor = (peers::floor::DSYNC.open)(folder, setup)?;
        Ok(Probe(Entrant::new(floor, folder, Load::new(1))))
    }
}

struct Probing<'p> {
    probe: Option<&'p mut Probe>,
    rates: Vec<f64>,
}

impl Probing<'_> {
    fn look(&mut self, pace: Pace) -> Result<(), Failure> {
        if let Some(probe) = &mut self.probe {
            self.rates.push(probe.0.slice(1, pace.slice / 10)?.rate);
        }
        Ok(())
    }
}
