//! The two clocks and the two readings of time that are made of them.
//!
//! Owns the only calls that read a real clock, the clock that tests move by hand, and the pure arithmetic of retention
//! time and schedule time. Refuses to judge a clock: any hand may stand anywhere and may jump, and every sum saturates.
//!
//! Invariants
//! - Retention time never runs faster than true time, from whatever moment it is counted: what is kept for a day is kept
//!   for at least a day, whatever the wall clock does, except that a wall clock which leaps ahead between a close and an
//!   open, by less than the longest time offline, ages by that much.
//! - Schedule time never runs slower than the monotonic clock since the open.
//!
//! Not here: who takes a sample and when (each transaction, once), and what is done with the result.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// Both hands of a clock, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Wall clock: nanoseconds since 1970-01-01T00:00:00Z, negative before, saturating at both ends (1677 and 2262).
    pub wall_ns: i64,
    /// Monotonic clock: nanoseconds since some moment that stays the same while the process runs. Time in which the
    /// machine is suspended may or may not count.
    pub mono_ns: u64,
}

/// Where time comes from. The store asks nothing else for the time.
///
/// An implementation must be cheap and must not block: it is called under the writer lock. `mono_ns` must not go back;
/// where it does, the store takes the step as zero. `wall_ns` may do whatever it likes.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Reads both hands.
    fn sample(&self) -> Sample;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic hand starts at zero now.
    pub fn new() -> SystemClock {
        SystemClock {
            origin: read_system().1,
        }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn sample(&self) -> Sample {
        let (wall, mono) = read_system();
        let wall_ns = match wall.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => signed_ns(after),
            Err(before) => signed_ns(before.duration()).saturating_neg(),
        };
        Sample {
            wall_ns,
            mono_ns: unsigned_ns(mono.saturating_duration_since(self.origin)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one door for time")]
fn read_system() -> (SystemTime, Instant) {
    (SystemTime::now(), Instant::now())
}

/// Nanoseconds of a duration, at most `i64::MAX` (292 years).
fn signed_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Nanoseconds of a duration, at most `u64::MAX` (584 years).
fn unsigned_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds from `earlier` to `later`, zero if `later` is not later. Exact over the whole range of both.
fn wall_progress(earlier: i64, later: i64) -> u64 {
    if later > earlier { later.abs_diff(earlier) } else { 0 }
}

/// What the file keeps of retention time, with each commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionMark {
    /// Retention time in nanoseconds.
    pub now_ns: u64,
    /// The highest wall time seen, moved along by what was aged. At the next open, wall time behind it ages nothing.
    pub highest_wall_ns: i64,
    /// The wall time of that commit. A wall clock that leapt since, says nothing about the time that passed.
    pub last_wall_ns: i64,
}

/// Retention time: ages remembered keys, late or just right but not early.
///
/// While open it advances by the smaller of wall and monotonic progress from sample to sample. At an open it advances by
/// the wall time since the highest one that was kept, and by nothing if the wall clock has leapt by more than the longest
/// time offline since the last one that was kept.
///
/// Whatever is aged moves the highest wall time along too. Without that a device that boots in 1970 would age its keys
/// while it runs, and age them by the same hours once more at the next open with the right wall clock. And the leap is
/// counted from the last wall time and not from the highest: otherwise a key that was stored in 1970 would be aged, once
/// the wall clock is right again, by the time before it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    now_ns: u64,
    last: Sample,
    highest_wall_ns: i64,
}

impl Retention {
    /// Retention time of a store that was closed for a time only the wall clock knows.
    pub fn open(kept: RetentionMark, sample: Sample, max_offline: Duration) -> Retention {
        let leap = wall_progress(kept.last_wall_ns, sample.wall_ns);
        let aged = if leap <= unsigned_ns(max_offline) {
            wall_progress(kept.highest_wall_ns, sample.wall_ns).min(leap)
        } else {
            0
        };
        Retention {
            now_ns: kept.now_ns.saturating_add(aged),
            last: sample,
            highest_wall_ns: kept.highest_wall_ns.max(sample.wall_ns),
        }
    }

    /// Takes a sample in and gives the new retention time.
    pub fn advance(&mut self, sample: Sample) -> u64 {
        let step = self.step(sample);
        self.now_ns = self.now_ns.saturating_add(step);
        self.highest_wall_ns = self.highest_wall_ns.saturating_add_unsigned(step).max(sample.wall_ns);
        self.last = sample;
        self.now_ns
    }

    /// Retention time as of the last sample taken in: nanoseconds that this store is known to have aged.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What to keep in the file, as of the last sample taken in.
    pub fn mark(&self) -> RetentionMark {
        RetentionMark {
            now_ns: self.now_ns,
            highest_wall_ns: self.highest_wall_ns,
            last_wall_ns: self.last.wall_ns,
        }
    }

    /// The highest wall time seen, moved along by what was aged.
    pub fn highest_wall_ns(&self) -> i64 {
        self.highest_wall_ns
    }

    /// Puts a mark that is absurdly ahead back to the wall clock of `sample`. Whoever calls this vouches for that clock.
    pub fn reset_mark(&mut self, sample: Sample) {
        self.highest_wall_ns = sample.wall_ns;
    }

    fn step(&self, sample: Sample) -> u64 {
        let mono = sample.mono_ns.saturating_sub(self.last.mono_ns);
        mono.min(wall_progress(self.last.wall_ns, sample.wall_ns))
    }
}

/// Schedule time: the wall clock, but never behind the wall clock at open plus the monotonic time since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    wall_at_open_ns: i64,
    mono_at_open_ns: u64,
}

impl Schedule {
    /// Schedule time of a store opened at `sample`.
    pub fn open(sample: Sample) -> Schedule {
        Schedule {
            wall_at_open_ns: sample.wall_ns,
            mono_at_open_ns: sample.mono_ns,
        }
    }

    /// Schedule time at `sample`, in nanoseconds since 1970.
    pub fn now(&self, sample: Sample) -> i64 {
        let running = sample.mono_ns.saturating_sub(self.mono_at_open_ns);
        self.wall_at_open_ns
            .saturating_add_unsigned(running)
            .max(sample.wall_ns)
    }
}

#[cfg(feature = "test-util")]
pub use manual::ManualClock;

#[cfg(feature = "test-util")]
mod manual {
    use super::{Clock, Sample, signed_ns, unsigned_ns};
    use crate::sync::Mutex;
    use std::sync::Arc;
    use std::time::Duration;

    /// A clock that stands still until a test moves it. Clones share their hands, also between threads.
    ///
    /// It starts at 2026-01-01T00:00:00Z with its monotonic hand at zero. Both hands saturate at the ends of their range.
    #[derive(Clone, Debug)]
    pub struct ManualClock {
        hands: Arc<Mutex<Sample>>,
    }

    impl ManualClock {
        /// Where the wall clock of a new manual clock stands: 2026-01-01T00:00:00Z in nanoseconds since 1970.
        pub const START_WALL_NS: i64 = 1_767_225_600 * 1_000_000_000;

        /// A clock at its constant start.
        pub fn new() -> ManualClock {
            let start = Sample {
                wall_ns: ManualClock::START_WALL_NS,
                mono_ns: 0,
            };
            ManualClock {
                hands: Arc::new(Mutex::new(start)),
            }
        }

        /// Time passes: both hands move on together.
        pub fn advance(&self, by: Duration) {
            self.change(|hands| {
                hands.wall_ns = hands.wall_ns.saturating_add(signed_ns(by));
                hands.mono_ns = hands.mono_ns.saturating_add(unsigned_ns(by));
            });
        }

        /// Only the monotonic hand moves on, as while the wall clock is set back by as much.
        pub fn advance_mono(&self, by: Duration) {
            self.change(|hands| hands.mono_ns = hands.mono_ns.saturating_add(unsigned_ns(by)));
        }

        /// Somebody sets the wall clock, in nanoseconds since 1970.
        pub fn set_wall_ns(&self, wall_ns: i64) {
            self.change(|hands| hands.wall_ns = wall_ns);
        }

        /// Somebody moves the wall clock forward (or back, if negative) by whole seconds.
        pub fn jump_wall_secs(&self, secs: i64) {
            let by = secs.saturating_mul(1_000_000_000);
            self.change(|hands| hands.wall_ns = hands.wall_ns.saturating_add(by));
        }

        /// The machine starts again: the monotonic hand is back at zero and the wall clock stands where it stood.
        pub fn reboot(&self) {
            self.change(|hands| hands.mono_ns = 0);
        }

        fn change(&self, how: impl FnOnce(&mut Sample)) {
            how(&mut self.hands.lock());
        }
    }

    impl Default for ManualClock {
        fn default() -> ManualClock {
            ManualClock::new()
        }
    }

    impl Clock for ManualClock {
        fn sample(&self) -> Sample {
            *self.hands.lock()
        }
    }
}
