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

/// Where in a delivery its commit seems to lie.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// The longest delay that came before the commit, and the shortest that came behind it.
    early: Duration,
    late: Duration,
    /// The shortest delay that came behind the end.
    end: Duration,
    absent: u32,
    present: u32,
    shots: usize,
}

/// Parts of the way by which the moments of the kills vary, in percent.
const PARTS: [u32; 5] = [90, 35, 70, 10, 50];

impl Aim {
    /// `run` is how long a delivery took that nobody killed.
    pub fn new(run: Duration) -> Aim {
        Aim {
            early: Duration::ZERO,
            late: run,
            end: run,
            absent: 0,
            present: 0,
            shots: 0,
        }
    }

    /// The next delay: on the side of the commit that was met less often.
    pub fn delay(&self) -> Duration {
        let commit = (self.early + self.late) / 2;
        let part = PARTS.get(self.shots % PARTS.len()).copied().unwrap_or(50);
        if self.absent <= self.present {
            commit * part / 100
        } else {
            commit + self.end.saturating_sub(commit) * part / 100
        }
    }

    /// Learns from what a kill after `delay` met.
    pub fn learn(&mut self, delay: Duration, met: Met) {
        self.shots += 1;
        match met {
            Met::Absent => {
                self.absent += 1;
                self.early = self.early.max(delay);
            }
            Met::Present => {
                self.present += 1;
                self.late = self.late.min(delay);
            }
            Met::Ended => {
                self.end = self.end.min(delay);
                self.late = self.late.min(delay);
            }
        }
        self.reconcile(delay, met);
    }

    /// What was learned before and no longer fits gives way to what was met last.
    fn reconcile(&mut self, delay: Duration, met: Met) {
        if self.early >= self.late {
            match met {
                Met::Absent => self.late = (delay + self.end.max(delay)) / 2 + delay / 8,
                Met::Present | Met::Ended => self.early = delay / 2,
            }
        }
        self.end = self.end.max(self.late + self.late / 8);
    }
}
