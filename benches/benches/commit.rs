//! One durable commit: a conditional write, a remembered key that is new, one more record; at 1, 8 and 64 threads.
//!
//! First the race, whose table and JSON (`target/sprag-bench/commit.json`) are the result; then criterion's own
//! groups for one thread. `SPRAG_BENCH_DIR` names the folder to measure in, which must not lie in memory;
//! `SPRAG_BENCH_SECS` shortens a slice for a smoke run; `SPRAG_BENCH_PATIENCE` says for how many seconds, at each number of
//! threads, the race may wait for other programs and run disturbed rounds again (none if it is not set).

use std::process::ExitCode;
use std::time::Duration;

use criterion::Criterion;
use serde_json::json;
use sprag_benches::floor::{Floor, Way};
use sprag_benches::load::Load;
use sprag_benches::peer::Failure;
use sprag_benches::place::{self, Place};
use sprag_benches::race::{Entrant, Pace, race};
use sprag_benches::report::{self, Goal, Heat, Target};
use sprag_benches::sprag::{self, Sprag};
use sprag_benches::sqlite::{self, Sharing, Sqlite};

const THREADS: [usize; 3] = [1, 8, 64];
/// Records before the first commit.
const RECORDS: u64 = 100_000;
const ROUNDS: usize = 9;
const SLICE_SECS: f64 = 1.0;
/// The name of the peer that the targets speak of.
const OURS: &str = "sprag";
const TARGETS: [Target; 6] = [
    Target {
        threads: 1,
        goal: Goal::OfFloor(0.85),
    },
    Target {
        threads: 8,
        goal: Goal::OfFloor(2.0),
    },
    Target {
        threads: 64,
        goal: Goal::OfFloor(2.5),
    },
    Target {
        threads: 1,
        goal: Goal::OfSqlite(1.3),
    },
    Target {
        threads: 8,
        goal: Goal::OfSqlite(3.0),
    },
    Target {
        threads: 1,
        goal: Goal::LogBytesBelow(400.0),
    },
];
/// Commits by which the floor learns how many bytes one of them hands to the log.
const SAMPLE: u64 = 200;

fn main() -> ExitCode {
    report::exit(run())
}

fn run() -> Result<(), Failure> {
    let target = place::target_folder(env!("CARGO_TARGET_TMPDIR"))?;
    let place = Place::new(target)?;
    let time = place::seconds("SPRAG_BENCH_SECS", SLICE_SECS)?;
    let patience = place::seconds("SPRAG_BENCH_PATIENCE", 0.0)?;
    let pace = Pace {
        rounds: ROUNDS,
        slice: time,
        patience,
    };
    let load_average = place::load_average();
    if load_average.is_some_and(|average| average > 0.5) {
        println!("the machine is busy and the ratios are worth less for it, load_average={load_average:?}");
    }
    let load = Load::new(RECORDS);
    let bytes = log_bytes(&place, &load)?;
    let mut heats = Vec::new();
    for threads in THREADS {
        let mut entrants = entrants(&place, &load, threads, bytes)?;
        race(&mut entrants, &load, threads, pace)?;
        let heat = Heat::of(threads, &entrants)?;
        print!("{}", heat.table());
        heats.push(heat);
    }
    println!("\ntargets");
    let verdicts = TARGETS.map(|target| target.judge(&heats, OURS));
    verdicts.iter().for_each(|verdict| println!("{}", verdict.text()));
    let figures = json!({
        "slice_seconds": time.as_secs_f64(),
        "rounds": ROUNDS,
        "floor_bytes": bytes,
        "load_average_before": load_average,
        "load_average_after": place::load_average(),
        "heats": heats.iter().map(Heat::json).collect::<Vec<_>>(),
        "targets": verdicts.map(|verdict| verdict.json()),
    });
    report::save(target, "commit", &figures)?;
    criterion_groups(&place, &load, bytes, time)
}

/// What one commit hands to Sprag's log, rounded down in favour of the floor.
fn log_bytes(place: &Place, load: &Load) -> Result<usize, Failure> {
    let folder = place.folder("sample")?;
    sprag::fill(&folder, load)?;
    let sample = Entrant::new(Box::new(Sprag::open(&folder)?), &folder);
    sample.commit_count(load, SAMPLE)?;
    let handed = sample.peer.bytes_handed().ok_or("the log does not count its bytes")?;
    Ok(usize::try_from(handed / SAMPLE)?.max(1))
}

/// Everybody with a fresh store of the same contents.
fn entrants(place: &Place, load: &Load, threads: usize, bytes: usize) -> Result<Vec<Entrant>, Failure> {
    let folder = |name: &str| place.folder(&format!("{name}-{threads}"));
    let mut all = Vec::new();
    for (name, way) in [("fdatasync", Way::Fdatasync), ("dsync", Way::Dsync)] {
        let folder = folder(name)?;
        all.push(Entrant::new(Box::new(Floor::new(&folder, way, bytes)?), &folder));
    }
    let ours = folder(OURS)?;
    sprag::fill(&ours, load)?;
    all.push(Entrant::new(Box::new(Sprag::open(&ours)?), &ours));
    let sharings = [
        ("one-connection", Sharing::OneConnection),
        ("connection-each", Sharing::ConnectionEach),
    ];
    // With one thread both are the same.
    for (name, sharing) in &sharings[..threads.min(2)] {
        let folder = folder(name)?;
        sqlite::fill(&folder, load)?;
        all.push(Entrant::new(
            Box::new(Sqlite::open(&folder, *sharing, threads)?),
            &folder,
        ));
    }
    Ok(all)
}

/// The same commit by one thread as criterion sees it, for its history and its plots.
fn criterion_groups(place: &Place, load: &Load, bytes: usize, time: Duration) -> Result<(), Failure> {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(time / 2)
        .measurement_time(time * 3)
        .configure_from_args();
    let mut group = criterion.benchmark_group("commit by one thread");
    let contestants = entrants(place, load, 1, bytes)?;
    for entrant in &contestants {
        let mut failure = None;
        group.bench_function(entrant.peer.name(), |bencher| {
            bencher.iter_custom(|count| {
                entrant.commit_count(load, count).unwrap_or_else(|cause| {
                    failure.get_or_insert(cause);
                    // Criterion cannot stop and divides by what it gets.
                    Duration::from_secs(1)
                })
            });
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        entrant.check(load)?;
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
