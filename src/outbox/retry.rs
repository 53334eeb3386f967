//! How often, how long and how soon a message is delivered again. Pure.
//!
//! Delays grow exponentially with full jitter: each is drawn evenly from nothing up to the whole delay, so that messages that
//! failed together do not come back together (M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codec::time::nanos;
use crate::error::{Error, ErrorKind, Result};

/// When a message is delivered again, and when it is given up as a dead letter. Kept with each message.
///
/// Failures, interruptions and age have a budget each. A failure is a delivery that was answered with one. An interruption is
/// a delivery that was never answered: its process died, the store was closed, or its lease was lost. Deferring, giving back
/// and a paused queue spend nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    base_ns: u64,
    cap_ns: u64,
    failures: u32,
    interruptions: u32,
    give_up_after_ns: Option<u64>,
}

impl Retry {
    /// The default: 1 second, then twice as long each time up to 30 minutes, jittered; 100 failures, 10 interruptions, and
    /// 72 hours from the first delivery.
    pub const DEFAULT: Retry = Retry {
        base_ns: 1_000_000_000,
        cap_ns: 1800 * 1_000_000_000,
        failures: 100,
        interruptions: 10,
        give_up_after_ns: Some(72 * 3600 * 1_000_000_000),
    };

    /// The longest delay after the first failure; each further one doubles it. Zero: at once, always.
    #[must_use]
    pub const fn base(mut self, delay: Duration) -> Retry {
        self.base_ns = nanos(delay);
        self
    }

    /// No delay is longer than this, but for one that a failure asks for itself.
    #[must_use]
    pub const fn cap(mut self, delay: Duration) -> Retry {
        self.cap_ns = nanos(delay);
        self
    }

    /// How many failures make a message a dead letter; at least 1.
    #[must_use]
    pub const fn failures(mut self, count: u32) -> Retry {
        self.failures = count;
        self
    }

    /// How many interruptions make a message a dead letter; at least 1.
    #[must_use]
    pub const fn interruptions(mut self, count: u32) -> Retry {
        self.interruptions = count;
        self
    }

    /// A failure this long after the first delivery makes a message a dead letter. Time in which the queue was paused or the
    /// message deferred does not count.
    #[must_use]
    pub const fn give_up_after(mut self, age: Duration) -> Retry {
        self.give_up_after_ns = Some(nanos(age));
        self
    }

    /// A message is never given up for its age.
    #[must_use]
    pub const fn never_too_old(mut self) -> Retry {
        self.give_up_after_ns = None;
        self
    }

    /// The longest delay after the first failure.
    pub fn base_delay(&self) -> Duration {
        Duration::from_nanos(self.base_ns)
    }

    /// The longest delay after any failure.
    pub fn delay_max(&self) -> Duration {
        Duration::from_nanos(self.cap_ns)
    }

    /// How many failures make a message a dead letter.
    pub fn failures_max(&self) -> u32 {
        self.failures
    }

    /// How many interruptions make a message a dead letter.
    pub fn interruptions_max(&self) -> u32 {
        self.interruptions
    }

    /// The longest time after which a failure still leads to another delivery; `None`: there is none.
    pub fn age_max(&self) -> Option<Duration> {
        self.give_up_after_ns.map(Duration::from_nanos)
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.failures > 0 && self.interruptions > 0 {
            return Ok(());
        }
        let message = format!(
            "a retry without any attempt, failures={}, interruptions={}",
            self.failures, self.interruptions
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// The delay after failure number `failures`, which begins at 1, in nanoseconds: evenly from 0 to the whole one, as
    /// `random` says.
    pub fn delay_ns(&self, failures: u32, random: u64) -> u64 {
        let doublings = failures.saturating_sub(1).min(u64::BITS - 1);
        let whole = self.base_ns.saturating_mul(1 << doublings).min(self.cap_ns);
        // The product of two numbers of 64 bits fits into 128.
        let share = u128::from(random) * (u128::from(whole) + 1);
        u64::try_from(share >> 64).unwrap_or(whole)
    }

    /// Whether a message of this age has become too old to be tried again.
    pub(super) fn is_too_old(&self, age_ns: u64) -> bool {
        self.give_up_after_ns.is_some_and(|max| age_ns >= max)
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::DEFAULT
    }
}
