//! What Sprag is to reach, as data, and whether it does.

use serde_json::{Value, json};

use crate::heat::{Heat, Line};
use crate::peer::Durability;
use crate::peers;
use crate::place;
use crate::report::{Figures, Spread};

/// What a target speaks of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least so many times the best of a group, by round.
    Times(&'static str, f64),
    /// Its p99.9 below that of the best of a group.
    TailBelow(&'static str),
    /// At most this share of the bytes that the best of a group gives to write calls.
    WrittenShare(&'static str, f64),
    /// At least so many times its own rate in another workload with as many threads.
    TimesWorkload(&'static str, f64),
    /// At least this share of its own rate with the fewest keys, by round.
    OfFewestKeys(f64),
    /// A process that never has more bytes resident.
    PeakBelow(f64),
}

/// What Sprag is to reach in one race.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The workload.
    pub workload: &'static str,
    /// At how many threads; `None` for all that are measured.
    pub threads: Option<usize>,
    /// With syncs longer by so many milliseconds.
    pub slow_sync_ms: u64,
    /// With values of so many bytes.
    pub value_bytes: u64,
    /// With so many remembered keys, where that matters.
    pub keys: Option<u64>,
    /// What.
    pub goal: Goal,
}

const fn at(workload: &'static str, threads: usize, goal: Goal) -> Target {
    Target {
        workload,
        threads: Some(threads),
        slow_sync_ms: 0,
        value_bytes: 100,
        keys: None,
        goal,
    }
}

const fn messages(workload: &'static str, threads: usize, times: f64) -> Target {
    Target {
        value_bytes: 200,
        ..at(workload, threads, Goal::Times("sqlite", times))
    }
}

const fn always(workload: &'static str, goal: Goal) -> Target {
    Target {
        threads: None,
        ..at(workload, 0, goal)
    }
}

const fn slow(threads: usize, goal: Goal) -> Target {
    Target {
        slow_sync_ms: 2,
        ..at("hot-commit", threads, goal)
    }
}

const fn grown(threads: usize, goal: Goal) -> Target {
    Target {
        keys: Some(10_000_000),
        ..at("growth", threads, goal)
    }
}

/// All of them.
pub const TARGETS: [Target; 26] = [
    at("hot-commit", 1, Goal::Times("sqlite", 1.5)),
    at("hot-commit", 1, Goal::Times("floor", 0.9)),
    at("hot-commit", 8, Goal::Times("sqlite", 4.0)),
    at("hot-commit", 8, Goal::Times("sqlite grouped", 2.0)),
    at("hot-commit", 8, Goal::Times("fjall grouped", 1.0)),
    at("hot-commit", 64, Goal::Times("sqlite", 6.0)),
    at("hot-commit", 8, Goal::TailBelow("sqlite")),
    at("hot-commit", 1, Goal::WrittenShare("sqlite", 0.1)),
    at("hot-commit", 8, Goal::WrittenShare("sqlite", 0.1)),
    slow(1, Goal::Times("floor", 0.95)),
    slow(8, Goal::Times("sqlite", 7.0)),
    always("duplicate", Goal::TimesWorkload("hot-commit", 10.0)),
    always("get", Goal::Times("sqlite", 1.0)),
    always("get-in-read", Goal::Times("sqlite", 1.0)),
    always("scan", Goal::Times("sqlite", 1.5)),
    messages("enqueue", 1, 1.5),
    messages("enqueue", 8, 4.0),
    messages("deliver", 1, 1.5),
    messages("deliver", 8, 4.0),
    messages("deliver-lots", 1, 1.5),
    messages("deliver-lots", 8, 4.0),
    grown(1, Goal::OfFewestKeys(0.8)),
    grown(8, Goal::OfFewestKeys(0.8)),
    grown(8, Goal::Times("sqlite", 4.0)),
    grown(1, Goal::PeakBelow(64e6)),
    grown(8, Goal::PeakBelow(64e6)),
];

/// What came of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it says.
    pub text: String,
    /// The bound.
    pub wanted: Option<f64>,
    /// What was measured, if all that it needs took part.
    pub found: Option<f64>,
    /// Whether that reaches it. `None` if it was not measured, or if it is about time and others took more of the processors
    /// meanwhile than [`place::BUSY`]: with them it says nothing, in either direction.
    pub met: Option<bool>,
}

impl Verdict {
    /// One line for people.
    pub fn line(&self) -> String {
        let word = match (self.found, self.met) {
            (None, _) => "not measured",
            (Some(_), None) => "not judged, the machine was busy",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "MISSED",
        };
        let found = self.found.map_or("-".to_owned(), |found| format!("{found:.2}"));
        format!("{}: {found} {word}", self.text)
    }

    /// The same for scripts.
    pub fn json(&self) -> Value {
        json!({ "text": self.text, "wanted": self.wanted, "found": self.found, "met": self.met })
    }
}

impl Target {
    /// Whether it speaks of this race.
    fn concerns(&self, workload: &str, heat: &Heat) -> bool {
        let fact = |name: &str| heat.facts[name].as_u64();
        self.workload == workload
            && self.threads.is_none_or(|threads| threads == heat.pace.threads)
            && fact("slow_sync_ms") == Some(self.slow_sync_ms)
            && fact("value_bytes") == Some(self.value_bytes)
            && (self.keys.is_none() || self.keys == fact("keys"))
    }

    /// Judges Sprag. `fewest` is the race with the fewest keys in the same rounds; `figures` hold the other workloads.
    pub fn judge(&self, heat: &Heat, fewest: Option<&Heat>, figures: &Figures) -> Verdict {
        let ours = heat.line(peers::sprag::SYNC.name);
        let (text, wanted, found) = self.measure(heat, ours, fewest, figures);
        let busy = heat.others.is_some_and(|others| others.median > place::BUSY);
        let at_most = matches!(
            self.goal,
            Goal::TailBelow(_) | Goal::WrittenShare(..) | Goal::PeakBelow(_)
        );
        let timed = !matches!(self.goal, Goal::WrittenShare(..) | Goal::PeakBelow(_));
        let met = match (wanted, found) {
            (Some(wanted), Some(found)) if !(busy && timed) => Some(match self.goal {
                Goal::TailBelow(_) | Goal::PeakBelow(_) => found < wanted,
                _ if at_most => found <= wanted,
                _ => found >= wanted,
            }),
            _ => None,
        };
        let threads = heat.pace.threads;
        Verdict {
            text: format!("{threads} thread{}, {text}", if threads == 1 { "" } else { "s" }),
            wanted,
            found,
            met,
        }
    }

    fn measure(
        &self,
        heat: &Heat,
        ours: Option<&Line>,
        fewest: Option<&Heat>,
        figures: &Figures,
    ) -> (String, Option<f64>, Option<f64>) {
        let best = |group| heat.best(group, Durability::Sync);
        match self.goal {
            Goal::Times(group, times) => {
                let found = ours.and_then(|ours| heat.ratio(ours, group));
                (format!("at least {times} x {group}"), Some(times), median(found))
            }
            Goal::TailBelow(group) => {
                let tail = |line: &Line| line.latency.percentile(0.999).map(|nanos| nanos as f64 / 1e3);
                let text = format!("p99.9 in us below that of {group}");
                (text, best(group).and_then(tail), ours.and_then(tail))
            }
            Goal::WrittenShare(group, share) => {
                let written = |line: Option<&Line>| line?.mean.written;
                let found = written(ours)
                    .zip(written(best(group)))
                    .map(|(ours, theirs)| ours / theirs);
                (
                    format!("at most {share} of the bytes that {group} writes"),
                    Some(share),
                    found,
                )
            }
            Goal::TimesWorkload(other, times) => {
                let rate = heat
                    .facts
                    .as_object()
                    .and_then(|facts| figures.rate(other, facts, peers::sprag::SYNC.name));
                let found = ours.zip(rate).map(|(ours, rate)| ours.rate.median / rate);
                (format!("at least {times} x its own {other}"), Some(times), found)
            }
            Goal::OfFewestKeys(share) => {
                let few = fewest.and_then(|fewest| fewest.line(peers::sprag::SYNC.name));
                let found = ours
                    .zip(few)
                    .and_then(|(ours, few)| Spread::of_ratios(&ours.rates, &few.rates));
                (
                    format!("at least {share} of its own with the fewest keys"),
                    Some(share),
                    median(found),
                )
            }
            Goal::PeakBelow(bytes) => {
                let found = ours.and_then(|ours| ours.peak_memory).map(|peak| peak as f64);
                (format!("peak memory in bytes below {bytes}"), Some(bytes), found)
            }
        }
    }
}

fn median(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.median)
}

/// All targets of a race, judged.
pub fn judge(workload: &str, heat: &Heat, fewest: Option<&Heat>, figures: &Figures) -> Vec<Verdict> {
    let own = TARGETS.iter().filter(|target| target.concerns(workload, heat));
    own.map(|target| target.judge(heat, fewest, figures)).collect()
}
