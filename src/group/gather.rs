//! Whether a leader waits for further members before it takes the lot. Pure: counts and lengths go in, a window comes out.
//!
//! Who was answered by the last round is often back soon, and would only just miss this one: with a slow disk two halves of
//! the writers take turns then, and each sync carries half of what it could. So a leader waits for as many as were under
//! way when the last round ended, for part of the time that a round takes. Nothing but speed depends on any number here.

use std::time::Duration;

/// Longest time that a leader waits for members: nobody hears later than that for it.
const WAIT_MAX: Duration = Duration::from_millis(5);
/// Shortest: a wait for less takes as long, since the system wakes nobody on the microsecond.
const WAIT_MIN: Duration = Duration::from_micros(10);
/// Part of the length of a round that a leader waits at most.
const PART: u32 = 2;
/// Most rounds in a row in which nobody waits, after those who were waited for did not come.
const REST_MAX: u32 = 63;

/// What the rounds so far tell.
#[derive(Clone, Debug, Default)]
pub struct Gather {
    /// Who was answered when the last round ended, or was staged behind it by then.
    under_way: u64,
    /// How long the last two rounds took. The shorter one counts: a thread that had to wait for a processor says nothing
    /// about the disk.
    lengths: [Duration; 2],
    /// Rounds for which nobody waits, as it was in vain before.
    resting: u32,
    /// How many such rounds the next wait in vain costs.
    rest: u32,
}

/// For whom a leader waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Until so many are staged.
    pub until: u64,
    /// At most so long.
    pub at_most: Duration,
}

impl Gather {
    /// A round of `members` ended that took `length`; `waiting` were staged behind it by then.
    pub fn ended(&mut self, members: u64, waiting: u64, length: Duration) {
        self.under_way = members.saturating_add(waiting);
        self.lengths = [self.lengths[1], length];
        self.resting = self.resting.saturating_sub(1);
    }

    /// For whom a leader waits that would take `staged`; `None` if it takes them now.
    pub fn window(&self, staged: u64) -> Option<Window> {
        let at_most = (self.lengths[0].min(self.lengths[1]) / PART).min(WAIT_MAX);
        (self.resting == 0 && at_most >= WAIT_MIN && staged < self.under_way).then_some(Window {
            until: self.under_way,
            at_most,
        })
    }

    /// A leader that had `before` waited, and has `staged` now. If not even half of the others came, the next rounds do
    /// without: each time this happens about twice as many.
    pub fn waited(&mut self, window: Window, before: u64, staged: u64) {
        let missed = window.until.saturating_sub(staged);
        let came = staged.saturating_sub(before);
        if came >= missed {
            self.rest /= 2;
        } else {
            self.rest = (2 * self.rest + 1).min(REST_MAX);
            self.resting = self.rest;
        }
    }
}
