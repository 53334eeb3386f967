//! From slices to lines: rates, and ratios that are taken within each round.
//!
//! A ratio is taken within each round and then its median over the rounds, since that is what a drifting machine leaves
//! true. A group is shown at its best: the fastest of its ways by median.

use serde_json::{Value, json};

use crate::entrant::Slice;
use crate::histogram::Histogram;
use crate::peer::{Durability, Subject};
use crate::race::{Contestant, Pace};
use crate::report::Spread;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose.
    pub subject: Subject,
    /// Results per second, by round.
    pub rates: Vec<f64>,
    /// Their spread.
    pub rate: Spread,
    /// The same with the tail of background work charged.
    pub settled_rate: Spread,
    /// Bytes given to the log per operation.
    pub handed: Option<Spread>,
    /// Bytes given to write calls per operation.
    pub written: Option<Spread>,
    /// Bytes sent to the device per operation.
    pub device: Option<Spread>,
    /// Processor time per operation, in microseconds.
    pub cpu_us: Spread,
    /// How long operations took, over all rounds.
    pub latency: Histogram,
    /// The most memory that its process had resident, in bytes.
    pub peak_memory: Option<u64>,
    /// Of its files at the end.
    pub file_bytes: Option<u64>,
    /// Operations done in all rounds.
    pub done: u64,
    /// Over all rounds, since a checkpoint falls into one slice and not into the next.
    pub mean: Means,
}

/// What one operation cost, on average over all rounds.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Bytes given to write calls.
    pub written: Option<f64>,
    /// Bytes sent to the device.
    pub device: Option<f64>,
    /// Processor time in microseconds.
    pub cpu_us: Option<f64>,
}

/// All lines of one race.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What was measured, as it stands in the figures: threads, value_bytes, slow_sync_ms, keys, variant.
    pub facts: Value,
    /// What a rate counts.
    pub unit: &'static str,
    /// How it was paced.
    pub pace: Pace,
    /// One for each peer.
    pub lines: Vec<Line>,
    /// The share of the processors that other programs took, over all slices.
    pub others: Option<Spread>,
    /// What the probes showed.
    pub probe: Option<Spread>,
}

impl Line {
    /// `None` if no slice was run.
    fn of(one: &Contestant) -> Option<Line> {
        let slices = &one.slices;
        let spread = |of: fn(&Slice) -> Option<f64>| Spread::of(slices.iter().filter_map(of));
        let mut latency = Histogram::default();
        slices.iter().for_each(|slice| latency.merge(&slice.latency));
        Some(Line {
            subject: one.subject,
            rates: slices.iter().map(|slice| slice.rate).collect(),
            rate: spread(|slice| Some(slice.rate))?,
            settled_rate: spread(|slice| Some(slice.settled_rate))?,
            handed: spread(|slice| slice.handed),
            written: spread(|slice| slice.written),
            device: spread(|slice| slice.device),
            cpu_us: spread(|slice| Some(slice.cpu_us))?,
            latency,
            peak_memory: one.peak_memory,
            file_bytes: one.file_bytes,
            done: slices.iter().map(|slice| slice.done).sum(),
            mean: Means {
                written: mean(slices, |slice| slice.written),
                device: mean(slices, |slice| slice.device),
                cpu_us: mean(slices, |slice| Some(slice.cpu_us)),
            },
        })
    }
}

/// Weighted by operations; `None` if a slice does not know.
fn mean(slices: &[Slice], of: impl Fn(&Slice) -> Option<f64>) -> Option<f64> {
    let done: u64 = slices.iter().map(|slice| slice.done).sum();
    let sum: Option<f64> = slices.iter().map(|slice| Some(of(slice)? * slice.done as f64)).sum();
    Some(sum? / done as f64)
}

impl Heat {
    /// What contestants showed that ran the same rounds; those without a slice are left out.
    pub fn of<'c>(
        facts: Value,
        unit: &'static str,
        pace: Pace,
        contestants: impl IntoIterator<Item = &'c Contestant> + Clone,
        probes: &[f64],
    ) -> Heat {
        let shares = contestants.clone().into_iter().flat_map(|one| &one.slices);
        Heat {
            facts,
            unit,
            pace,
            others: Spread::of(shares.filter_map(|slice| slice.others)),
            lines: contestants.into_iter().filter_map(Line::of).collect(),
            probe: Spread::of(probes.iter().copied()),
        }
    }

    /// The line with this name.
    pub fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.subject.name == name)
    }

    /// The fastest of a group in this class of durability.
    pub fn best(&self, group: &str, durability: Durability) -> Option<&Line> {
        let own = |line: &&Line| line.subject.group == group && line.subject.durability == durability;
        let candidates = self.lines.iter().filter(own);
        candidates.max_by(|left, right| left.rate.median.total_cmp(&right.rate.median))
    }

    /// How many times as fast as the best of a group a line was. The floor is that of everybody, SQLite of one's own class.
    pub fn ratio(&self, line: &Line, group: &str) -> Option<Spread> {
        let durability = match group {
            "floor" => Durability::Sync,
            _ => line.subject.durability,
        };
        Spread::of_ratios(&line.rates, &self.best(group, durability)?.rates)
    }

    /// The table, ready to print.
    pub fn table(&self) -> String {
        let best = |group| {
            self.best(group, Durability::Sync)
                .map_or("none", |line| line.subject.name)
        };
        let mut text = format!(
            "floor = {}; sqlite = {}\n{:26} {:>28} {:>8} {:>17} {:>18} {:>9} {:>9} {:>9} {:>7} {:>8} {:>7}\n",
            best("floor"),
            best("sqlite"),
            "",
            format!("{} (min..max)", self.unit),
            "settled",
            "of floor",
            "of sqlite",
            "p50 us",
            "p99.9 us",
            "written B",
            "log B",
            "device B",
            "cpu us",
        );
        for line in &self.lines {
            let short = |spread: Option<Spread>, digits: usize| {
                spread.map_or("-".to_owned(), |spread| format!("{:.digits$}", spread.median))
            };
            let micros = |share| line.latency.percentile(share).map_or(0.0, |nanos| nanos as f64 / 1e3);
            let ratio = |group| self.ratio(line, group).map_or("-".to_owned(), |spread| spread.show(2));
            text += &format!(
                "{:26} {:>28} {:>8.0} {:>17} {:>18} {:>9.1} {:>9.0} {:>9} {:>7} {:>8} {:>7.1}\n",
                line.subject.name,
                line.rate.show(0),
                line.settled_rate.median,
                ratio("floor"),
                ratio("sqlite"),
                micros(0.5),
                micros(0.999),
                line.mean.written.map_or("-".to_owned(), |bytes| format!("{bytes:.0}")),
                short(line.handed, 0),
                short(line.device, 0),
                line.cpu_us.median,
            );
        }
        let spread = |spread: Option<Spread>, digits| spread.map_or("-".to_owned(), |spread| spread.show(digits));
        text + &format!(
            "probe of the disk, appends/s: {}; processors taken by others, as a share: {}\n",
            spread(self.probe, 0),
            spread(self.others, 2)
        )
    }

    /// The same for scripts, without what is judged.
    pub fn json(&self) -> Value {
        let mut run = self.facts.clone();
        run["unit"] = json!(self.unit);
        run["rounds"] = json!(self.pace.rounds);
        run["slice_seconds"] = json!(self.pace.slice.as_secs_f64());
        run["floor_probe"] = json!(self.probe.map(Spread::json));
        run["others_share"] = json!(self.others.map(Spread::json));
        run["peers"] = self.lines.iter().map(|line| self.line_json(line)).collect();
        run
    }

    fn line_json(&self, line: &Line) -> Value {
        json!({
            "name": line.subject.name,
            "group": line.subject.group,
            "durability": line.subject.durability.name(),
            "rate": line.rate.json(),
            "settled_rate": line.settled_rate.json(),
            "of_floor": self.ratio(line, "floor").map(Spread::json),
            "of_sqlite": self.ratio(line, "sqlite").map(Spread::json),
            "latency_us": line.latency.figures(),
            "log_bytes_per_commit": line.handed.map(Spread::json),
            "written_bytes_per_commit": line.written.map(Spread::json),
            "device_bytes_per_commit": line.device.map(Spread::json),
            "cpu_us_per_commit": line.cpu_us.json(),
            "peak_memory_bytes": line.peak_memory,
            "file_bytes": line.file_bytes,
        })
    }

    /// What each peer costs, by its name.
    pub fn costs(&self) -> Vec<(&'static str, Value)> {
        let one = |line: &Line| {
            let costs = json!({
                "written_bytes_per_commit": line.mean.written,
                "device_bytes_per_commit": line.mean.device,
                "cpu_us_per_commit": line.mean.cpu_us,
                "peak_memory_bytes": line.peak_memory,
                "file_bytes": line.file_bytes,
                "commits": line.done,
                "threads": self.pace.threads,
            });
            (line.subject.name, costs)
        };
        self.lines.iter().map(one).collect()
    }
}
