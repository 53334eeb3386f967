//! The most memory a process has that opens a store of 200 MB with defaults and commits random keys for a minute.
//!
//! Each engine works in a process of its own, which then reads its own high-water mark. The table is printed and
//! written to `target/sprag-bench/memory.json`. `SPRAG_BENCH_DIR` as in `compare`;
//! `SPRAG_BENCH_SECS` shortens the minute.

use std::process::ExitCode;

use serde_json::json;
use sprag_benches::child::{self, Role};
use sprag_benches::entrant::Entrant;
use sprag_benches::load::Load;
use sprag_benches::peer::{Failure, Setup, Subject};
use sprag_benches::peers::STORES;
use sprag_benches::place::{self, Place};
use sprag_benches::report;

/// Enough for a file of more than `FILE_BYTES_MIN`.
const RECORDS: u64 = 1_800_000;
const FILE_BYTES_MIN: u64 = 200_000_000;
const THREADS: usize = 8;
/// What Sprag is to stay under.
const TARGET_BYTES: u64 = 64_000_000;
const SECS: f64 = 60.0;

fn main() -> ExitCode {
    report::exit(child::role().and_then(|role| match role {
        Some(role) => work(&role),
        None => measure(),
    }))
}

/// The child: opens, commits, and tells its peak and how many steps it did.
fn work(role: &Role) -> Result<(), Failure> {
    let setup = Setup {
        threads: THREADS,
        ..Setup::ONE
    };
    let entrant = Entrant::new(
        (role.subject.open)(&role.folder, setup)?,
        &role.folder,
        Load::new(RECORDS),
    );
    let slice = entrant.run_watched(THREADS, place::seconds("SPRAG_BENCH_SECS", SECS)?, &|| ())?;
    let peak = child::peak_memory().ok_or("the system does not tell the peak of memory")?;
    println!("{peak} {:.0}", slice.rate);
    Ok(())
}

fn measure() -> Result<(), Failure> {
    let target = place::target_folder(env!("CARGO_TARGET_TMPDIR"))?;
    let place = Place::new(target)?;
    let figures: Result<Vec<_>, Failure> = STORES.iter().map(|subject| one(&place, subject)).collect();
    report::save(target, "memory", &json!({ "subjects": figures? }))
}

fn one(place: &Place, subject: &Subject) -> Result<serde_json::Value, Failure> {
    let folder = place.folder(subject.name)?;
    subject.fill(&folder, &Load::new(RECORDS))?;
    let bytes = place::bytes_of(&folder)?;
    if bytes < FILE_BYTES_MIN {
        return Err(format!("the store is too small, bytes={bytes}, bytes_min={FILE_BYTES_MIN}").into());
    }
    let output = child::run(subject, &folder)?;
    let text = String::from_utf8(output.stdout)?;
    let (Some((peak, rate)), true) = (text.trim().split_once(' '), output.status.success()) else {
        return Err(format!("the child failed, status={}, output={text:?}", output.status).into());
    };
    let (peak, rate): (u64, f64) = (peak.parse()?, rate.parse()?);
    let word = match (subject.name, peak < TARGET_BYTES) {
        ("sprag", true) => ", target under 64 MB met",
        ("sprag", false) => ", target under 64 MB MISSED",
        _ => "",
    };
    println!(
        "{:10} store {:.0} MB, peak memory {:.1} MB, {rate:.0} commits/s{word}",
        subject.name,
        bytes as f64 / 1e6,
        peak as f64 / 1e6
    );
    Ok(json!({ "name": subject.name, "store_bytes": bytes, "peak_bytes": peak, "commits_per_second": rate }))
}
