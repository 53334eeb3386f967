//! `demo`: each technique against each delivery, for real, and what is stored in the end.
//!
//! Owns the rows and what is expected of them. A row is made of one record, or of one record for each round of kills, and
//! of what is read back from the file: nothing is computed that could be looked up.

mod aim;
mod kill;
mod report;
mod technique;

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use serde::Serialize;
use sprag::{Clock as _, Store, SystemClock};

use crate::answer::{Answer, Work};
use crate::failure::Failure;
use crate::progress::Progress;
use kill::Kills;
use technique::{BEFORE, Balance, Technique};

pub use kill::deliver_and_exit;

/// How often and how a message comes. The kill is another matter: see [`kill`].
#[derive(Clone, Copy, Debug)]
enum Deliveries {
    OneByOne(u32),
    EightAtOnce,
}

const DELIVERIES: [Deliveries; 5] = [
    Deliveries::OneByOne(1),
    Deliveries::OneByOne(2),
    Deliveries::OneByOne(3),
    Deliveries::OneByOne(11),
    Deliveries::EightAtOnce,
];

const AT_ONCE: usize = 8;

impl Deliveries {
    /// Also the key of the row's record.
    fn name(self) -> String {
        match self {
            Deliveries::OneByOne(count) => count.to_string(),
            Deliveries::EightAtOnce => format!("{AT_ONCE} at once"),
        }
    }

    fn count(self) -> u32 {
        match self {
            Deliveries::OneByOne(count) => count,
            Deliveries::EightAtOnce => AT_ONCE as u32,
        }
    }
}

/// What a technique made of its deliveries.
#[derive(Debug, Serialize)]
struct Row {
    technique: &'static str,
    deliveries: String,
    before: i64,
    after: i64,
    version: u64,
    expected: i64,
    as_expected: bool,
    /// Kills after which the work was not there, and kills after which it was.
    absent: u32,
    present: u32,
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    rows: Vec<Row>,
    /// What was made for this run and stays.
    #[serde(skip)]
    stays: String,
}

/// Makes the file and fills it row by row.
pub fn run(file: Option<&Path>, json: bool) -> Result<Answer, Failure> {
    let (file, stays) = match file {
        Some(file) => (file.to_owned(), format!("file {}", file.display())),
        None => {
            let folder = fresh_folder()?;
            (folder.join("demo.sprag"), format!("folder {}", folder.display()))
        }
    };
    let progress = Progress::of("delivering");
    let rows = fill(&file, &progress);
    drop(progress);
    let rows = rows?;
    let code = if rows.iter().all(|row| row.as_expected) { 0 } else { 1 };
    let report = Report {
        file: file.display().to_string(),
        rows,
        stays,
    };
    Ok(Answer::new(json, Work::Read, &report, || report::text(&report))?.with_code(code))
}

/// Makes every row, technique by technique.
fn fill(file: &Path, progress: &Progress) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    drop(Store::create_new(file)?);
    for technique in Technique::ALL {
        let store = Store::open(file)?;
        progress.now(&format!("delivering: {}", technique.name()));
        for deliveries in DELIVERIES {
            rows.push(delivered(&store, technique, deliveries)?);
        }
        // One process at a time has the file open, and each kill is a process of its own.
        store.close()?;
        if technique != Technique::None {
            progress.now(&format!(
                "killing processes in the middle of their work: {}",
                technique.name()
            ));
            rows.push(killed(technique, &kill::rounds(file, technique)?));
        }
    }
    Ok(rows)
}

/// One row in which nobody dies.
fn delivered(store: &Store, technique: Technique, deliveries: Deliveries) -> Result<Row, Failure> {
    let key = deliveries.name();
    let before = technique.prepare(store, &key)?;
    let early_refused = technique.refuses_too_early(store, &key)?;
    match deliveries {
        Deliveries::OneByOne(count) => {
            for _ in 0..count {
                technique.deliver(store, &key)?;
            }
        }
        Deliveries::EightAtOnce => at_once(store, technique, &key)?,
    }
    let late_refused = technique.refuses_too_late(store, &key)?;
    let after = technique.read(store, &key)?;
    let expected = technique.expected(deliveries.count());
    Ok(Row {
        technique: technique.name(),
        deliveries: key,
        before: before.amount,
        after: after.amount,
        version: after.version,
        expected: expected.amount,
        as_expected: before == BEFORE && after == expected && early_refused && late_refused,
        absent: 0,
        present: 0,
    })
}

/// Delivers from eight threads that start at the same moment.
fn at_once(store: &Store, technique: Technique, key: &str) -> Result<(), Failure> {
    let start = Barrier::new(AT_ONCE);
    std::thread::scope(|scope| {
        let deliver = || {
            start.wait();
            technique.deliver(store, key)
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(deliver)).collect();
        for thread in threads {
            // A panic of a delivery is a fault of the program and goes on as one.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    })
}

/// One row of kills. If the rounds disagree, what the first wrong one left is shown.
fn killed(technique: Technique, kills: &Kills) -> Row {
    let expected = technique.expected(1);
    let Balance { amount, version } = kills.wrong.unwrap_or(expected);
    Row {
        technique: technique.name(),
        deliveries: "kill".to_owned(),
        before: BEFORE.amount,
        after: amount,
        version,
        expected: expected.amount,
        as_expected: kills.wrong.is_none() && kills.enough(),
        absent: kills.absent,
        present: kills.present,
    }
}

/// A folder that nobody else has, for this user only.
fn fresh_folder() -> Result<PathBuf, Failure> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let process = std::process::id();
    // Unique by process and time, however wrong the clock is.
    let time = SystemClock::new().sample().wall_ns;
    let folder = std::env::temp_dir().join(format!("sprag-demo-{process}-{time}"));
    match builder.create(&folder) {
        Ok(()) => Ok(folder),
        Err(cause) => Err(Failure::io("make a folder for the demo", Some(&folder), &cause)),
    }
}
