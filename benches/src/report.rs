//! From slices to ratios, a table for people and JSON for scripts.
//!
//! A ratio is taken within each round and then its median over the rounds, since that is what a drifting machine
//! leaves true. The floor is the faster of its ways by median, and so is SQLite: each is shown at its best.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::peer::Failure;
use crate::place;
use crate::race::Entrant;

/// Median with the extremes.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The middle value; the upper one of an even count.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Some(Spread {
            median: *sorted.get(sorted.len() / 2)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
        })
    }

    /// As JSON.
    pub fn json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    /// As text, with so many digits behind the point.
    pub fn show(self, digits: usize) -> String {
        format!(
            "{:.digits$} ({:.digits$}..{:.digits$})",
            self.median, self.min, self.max
        )
    }
}

/// What a target speaks of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this many times the faster bare log.
    OfFloor(f64),
    /// At least this many times the faster way to use SQLite.
    OfSqlite(f64),
    /// Fewer bytes than this given to the log per commit.
    LogBytesBelow(f64),
}

/// What a peer is to reach at a number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// At how many threads.
    pub threads: usize,
    /// What.
    pub goal: Goal,
}

/// What came of a target.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The target.
    pub target: Target,
    /// What was measured, if the peer took part and counts it.
    pub found: Option<Spread>,
    /// Whether the median reaches it. `None` if it was not measured, or if it is a ratio of rates and others took more of
    /// the processors meanwhile than [`place::BUSY`]: with them a ratio says nothing, in either direction.
    pub met: Option<bool>,
}

impl Target {
    /// Judges the median of the peer with this name.
    pub fn judge(self, heats: &[Heat], peer: &str) -> Verdict {
        let heat = heats.iter().find(|heat| heat.threads == self.threads);
        let line = heat.and_then(|heat| heat.lines.iter().find(|line| line.name == peer));
        let found = line.and_then(|line| match self.goal {
            Goal::OfFloor(_) => Some(line.of_floor),
            Goal::OfSqlite(_) => Some(line.of_sqlite),
            Goal::LogBytesBelow(_) => line.handed,
        });
        let busy = heat
            .and_then(|heat| heat.others)
            .is_some_and(|others| others.median > place::BUSY);
        let met = found.and_then(|found| match self.goal {
            Goal::OfFloor(least) | Goal::OfSqlite(least) => (!busy).then_some(found.median >= least),
            Goal::LogBytesBelow(bound) => Some(found.median < bound),
        });
        Verdict {
            target: self,
            found,
            met,
        }
    }
}

impl Verdict {
    /// One line for people.
    pub fn text(&self) -> String {
        let wanted = match self.target.goal {
            Goal::OfFloor(least) => format!("{least:.2} of floor or better"),
            Goal::OfSqlite(least) => format!("{least:.2} of sqlite or better"),
            Goal::LogBytesBelow(bound) => format!("under {bound:.0} log bytes per commit"),
        };
        let word = match (self.found, self.met) {
            (None, _) => "not measured",
            (Some(_), None) => "not judged, the machine was busy",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "MISSED",
        };
        let found = self.found.map_or("-".to_owned(), |found| found.show(2));
        format!("{:2} threads, {wanted}: {found} {word}", self.target.threads)
    }

    /// The same for scripts.
    pub fn json(&self) -> Value {
        let (goal, bound) = match self.target.goal {
            Goal::OfFloor(least) => ("of_floor", least),
            Goal::OfSqlite(least) => ("of_sqlite", least),
            Goal::LogBytesBelow(bound) => ("log_bytes_per_commit", bound),
        };
        json!({
            "threads": self.target.threads,
            "goal": goal,
            "bound": bound,
            "found": self.found.map(Spread::json),
            "met": self.met,
        })
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose.
    pub name: String,
    /// Commits per second.
    pub rate: Spread,
    /// The same with the tail of background work charged.
    pub settled_rate: Spread,
    /// Times the floor, by round.
    pub of_floor: Spread,
    /// Times SQLite, by round.
    pub of_sqlite: Spread,
    /// Bytes given to the log per commit.
    pub handed: Option<Spread>,
    /// Bytes sent to the device per commit.
    pub device: Option<Spread>,
}

/// All lines at one number of threads.
#[derive(Clone, Debug)]
pub struct Heat {
    /// How many threads committed.
    pub threads: usize,
    /// One for each peer.
    pub lines: Vec<Line>,
    /// The share of the processors that other programs took, over all slices.
    pub others: Option<Spread>,
    floor: String,
    sqlite: String,
}

impl Heat {
    /// Judges entrants that ran the same rounds. Names that begin with `floor` and `sqlite` are the yardsticks.
    ///
    /// # Errors
    /// If a yardstick or a slice is missing.
    pub fn of(threads: usize, entrants: &[Entrant]) -> Result<Heat, Failure> {
        let floor = fastest(entrants, "floor")?;
        let sqlite = fastest(entrants, "sqlite")?;
        let line = |entrant: &Entrant| -> Option<Line> {
            let slices = &entrant.slices;
            let ratios = |other: &Entrant| {
                Spread::of(
                    slices
                        .iter()
                        .zip(&other.slices)
                        .map(|(own, other)| own.rate / other.rate),
                )
            };
            Some(Line {
                name: entrant.peer.name().to_owned(),
                rate: Spread::of(slices.iter().map(|slice| slice.rate))?,
                settled_rate: Spread::of(slices.iter().map(|slice| slice.settled_rate))?,
                of_floor: ratios(floor)?,
                of_sqlite: ratios(sqlite)?,
                handed: Spread::of(slices.iter().filter_map(|slice| slice.handed)),
                device: Spread::of(slices.iter().filter_map(|slice| slice.device)),
            })
        };
        let lines: Option<Vec<Line>> = entrants.iter().map(line).collect();
        Ok(Heat {
            threads,
            lines: lines.ok_or("an entrant ran no slice")?,
            others: Spread::of(
                entrants
                    .iter()
                    .flat_map(|entrant| &entrant.slices)
                    .filter_map(|slice| slice.others),
            ),
            floor: floor.peer.name().to_owned(),
            sqlite: sqlite.peer.name().to_owned(),
        })
    }

    /// The table, ready to print.
    pub fn table(&self) -> String {
        let mut text = format!(
            "\n{} threads; floor = {}; sqlite = {}\n{:26} {:>26} {:>8} {:>19} {:>21} {:>8} {:>9}\n",
            self.threads,
            self.floor,
            self.sqlite,
            "",
            "commits/s (min..max)",
            "settled",
            "of floor",
            "of sqlite",
            "log B",
            "device B"
        );
        for line in &self.lines {
            let bytes =
                |spread: Option<Spread>| spread.map_or("-".to_owned(), |spread| format!("{:.0}", spread.median));
            text += &format!(
                "{:26} {:>26} {:>8.0} {:>19} {:>21} {:>8} {:>9}\n",
                line.name,
                line.rate.show(0),
                line.settled_rate.median,
                line.of_floor.show(2),
                line.of_sqlite.show(2),
                bytes(line.handed),
                bytes(line.device)
            );
        }
        if let Some(others) = self.others {
            text += &format!("processors taken by others, as a share: {}\n", others.show(2));
        }
        text
    }

    /// The same for scripts.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "name": line.name,
                "commits_per_second": line.rate.json(),
                "commits_per_second_settled": line.settled_rate.json(),
                "of_floor": line.of_floor.json(),
                "of_sqlite": line.of_sqlite.json(),
                "log_bytes_per_commit": line.handed.map(Spread::json),
                "device_bytes_per_commit": line.device.map(Spread::json),
            })
        };
        let lines: Vec<Value> = self.lines.iter().map(line).collect();
        json!({ "threads": self.threads, "floor": self.floor, "sqlite": self.sqlite, "peers": lines,
                "others_share": self.others.map(Spread::json) })
    }
}

/// The entrant with the highest median rate among those whose name begins so.
fn fastest<'a>(entrants: &'a [Entrant], prefix: &str) -> Result<&'a Entrant, Failure> {
    let rate = |entrant: &Entrant| {
        Spread::of(entrant.slices.iter().map(|slice| slice.rate)).map_or(0.0, |spread| spread.median)
    };
    let candidates = entrants
        .iter()
        .filter(|entrant| entrant.peer.name().starts_with(prefix));
    candidates
        .max_by(|left, right| rate(left).total_cmp(&rate(right)))
        .ok_or_else(|| format!("nobody raced as {prefix}").into())
}

/// What a bench's `main` returns.
pub fn exit(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Writes `value` to `sprag-bench/<name>.json` below the target folder and says where.
///
/// # Errors
/// What the operating system reports.
pub fn save(target: &Path, name: &str, value: &Value) -> Result<(), Failure> {
    let folder = target.join("sprag-bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, format!("{value:#}\n"))?;
    println!("\nwritten to {}", path.display());
    Ok(())
}
