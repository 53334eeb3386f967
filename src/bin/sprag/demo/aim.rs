//! When to kill: delays are moved until both kinds of kill happen, those before the commit and those behind it.
//!
//! Pure: what a kill met goes in, the next delay comes out. Nothing about the machine is assumed but that a delivery
//! takes some time before its commit and some after it; both are learned, and learned again when they change.

use std::time::Duration;

/// What was found after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The work was not there: the kill came before the commit.
    Absent,
    /// The work was there: the kill came behind the commit.
    Present,
    /// The process had ended by itself: the kill came too late and does not count.
    Ended,
}

/// When to kill next, on either side of the commit.
///
/// Each side has a delay of its own that grows when a kill came too soon for it and shrinks when one came too late. It
/// keeps no bounds: one slow delivery would leave a bound that no other delivery reaches.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    before: Duration,
    behind: Duration,
    absent: u32,
    present: u32,
    shots: usize,
}

/// Parts of a side's delay by which the moments of its kills vary, in percent: those before the commit may lie anywhere.
const BEFORE_PARTS: [u32; 5] = [90, 35, 70, 10, 50];
const BEHIND_PARTS: [u32; 5] = [100, 90, 110, 95, 105];

impl Aim {
    /// `run` is how long a delivery took that nobody killed.
    pub fn new(run: Duration) -> Aim {
        Aim {
            before: run / 2,
            behind: run * 3 / 4,
            absent: 0,
            present: 0,
            shots: 0,
        }
    }

    /// The next delay: on the side of the commit that was met less often.
    pub fn delay(&self) -> Duration {
        let (delay, parts) = match self.is_for_absent() {
            true => (self.before, BEFORE_PARTS),
            false => (self.behind, BEHIND_PARTS),
        };
        delay * parts.get(self.shots % parts.len()).copied().unwrap_or(100) / 100
    }

    /// Learns from what the kill of the last delay met.
    pub fn learn(&mut self, met: Met) {
        self.shots += 1;
        let is_for_absent = self.is_for_absent();
        match met {
            Met::Absent => self.absent += 1,
            Met::Present => self.present += 1,
            Met::Ended => {}
        }
        match (is_for_absent, met) {
            (true, Met::Absent) => self.before = longer(self.before),
            (true, Met::Present | Met::Ended) => self.before = shorter(self.before),
            (false, Met::Absent) => self.behind = longer(self.behind),
            (false, Met::Ended) => self.behind = shorter(self.behind),
            (false, Met::Present) => {}
        }
    }

    fn is_for_absent(&self) -> bool {
        self.absent <= self.present
    }
}

fn longer(delay: Duration) -> Duration {
    delay * 9 / 8 + Duration::from_micros(1)
}

fn shorter(delay: Duration) -> Duration {
    delay * 7 / 8
}
