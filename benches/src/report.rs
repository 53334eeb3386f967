//! Figures as people and scripts get them: spreads, and a file into which several runs are merged.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::peer::Failure;

/// Median with the extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// Of one's values by those of another one, round by round.
    pub fn of_ratios(own: &[f64], other: &[f64]) -> Option<Spread> {
        Spread::of(own.iter().zip(other).map(|(own, other)| own / other))
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

fn path_of(target: &Path, name: &str) -> PathBuf {
    target.join("sprag-bench").join(format!("{name}.json"))
}

/// Writes `value` to `sprag-bench/<name>.json` below the target folder and says where.
///
/// # Errors
/// What the operating system reports.
pub fn save(target: &Path, name: &str, value: &Value) -> Result<(), Failure> {
    let path = path_of(target, name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, format!("{value:#}\n"))?;
    println!("\nwritten to {}", path.display());
    Ok(())
}

/// What [`save`] wrote last; null if that was never.
///
/// # Errors
/// If it cannot be read.
pub fn saved(target: &Path, name: &str) -> Result<Value, Failure> {
    match std::fs::read_to_string(path_of(target, name)) {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(cause) => Err(cause.into()),
    }
}

/// What makes two runs of a workload the same one, so that the newer takes the place of the older.
const SAME: [&str; 5] = ["threads", "value_bytes", "slow_sync_ms", "keys", "variant"];

/// The figures of `compare`: by workload its runs, and by peer its costs.
#[derive(Debug)]
pub struct Figures(Value);

impl Figures {
    /// Goes on from what was saved; null begins anew, and so does another format.
    pub fn from(saved: Value) -> Figures {
        if saved["format"] == 1 && saved["runs"].is_object() && saved["costs"].is_object() {
            return Figures(saved);
        }
        Figures(json!({ "format": 1, "runs": {}, "costs": {} }))
    }

    /// All of them.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Adds a run, in place of the one of the same workload with as many threads and so on.
    pub fn add_run(&mut self, workload: &str, run: Value) {
        let runs = &mut self.0["runs"][workload];
        if !runs.is_array() {
            *runs = json!([]);
        }
        if let Some(runs) = runs.as_array_mut() {
            let same = |old: &Value| SAME.iter().all(|name| old[name] == run[name]);
            match runs.iter().position(same) {
                Some(place) => runs[place] = run,
                None => runs.push(run),
            }
        }
    }

    /// Sets what a peer costs.
    pub fn add_costs(&mut self, peer: &str, costs: Value) {
        self.0["costs"][peer] = costs;
    }

    /// Sets a fact that is the same for all runs.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0[name] = value;
    }

    /// The median rate of a peer in a run of this workload that is like `like` but for what the workload is about.
    pub fn rate(&self, workload: &str, like: &Map<String, Value>, peer: &str) -> Option<f64> {
        let runs = self.0["runs"][workload].as_array()?;
        let alike = |run: &&Value| SAME[..3].iter().all(|name| Some(&run[name]) == like.get(*name));
        let run = runs.iter().find(alike)?;
        let line = run["peers"].as_array()?.iter().find(|line| line["name"] == peer)?;
        line["rate"]["median"].as_f64()
    }
}
