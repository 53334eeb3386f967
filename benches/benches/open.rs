//! How long opening takes after the worst kill: a store of 200 MB, killed when the most was left to recover.
//!
//! A child commits with 64 threads until its engine says that a kill now leaves about as much to recover as can be,
//! and kills itself with SIGKILL. Then ten copies are opened, and ten more whose bytes were dropped from the page
//! cache. Every copy is synced before, so that opening does not pay for the copy. The first ten are judged; the
//! others tell what the device adds. `SPRAG_BENCH_DIR` as in `compare`; the figures go to
//! `target/sprag-bench/open.json`.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use sprag_benches::child::{self, Role};
use sprag_benches::entrant::Entrant;
use sprag_benches::load::Load;
use sprag_benches::peer::{Failure, Setup, Subject};
use sprag_benches::peers::STORES;
use sprag_benches::place::{self, Place};
use sprag_benches::report::{self, Spread};

/// Enough for a file of more than `FILE_BYTES_MIN`.
const RECORDS: u64 = 1_800_000;
const FILE_BYTES_MIN: u64 = 200_000_000;
const THREADS: usize = 64;
const OPENS: usize = 10;
/// What Sprag is to stay under with the file cached, median and maximum.
const TARGET_MS: f64 = 100.0;
/// The share of its log that the engine must have in use when it is killed. For two halves: one is in its checkpoint and
/// the other is 92 % full.
const KILL_AT: f64 = 0.96;
/// The share that an open must have found to count as hard. Frames on their way at the kill may be missing.
const HARD_FROM: f64 = 0.95;
/// The moment must come within this time.
const WAIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    report::exit(child::role().and_then(|role| match role {
        Some(role) => die(&role),
        None => measure(),
    }))
}

/// The child: commits until the moment has come. Returns only if it never came.
fn die(role: &Role) -> Result<(), Failure> {
    let peer = (role.subject.open)(&role.folder, Setup::ONE)?;
    let entrant = Entrant::new(peer, &role.folder, Load::new(RECORDS));
    let kill_self = || {
        if entrant.peer.to_recover() >= KILL_AT {
            // Nothing is flushed and no destructor runs; the same as a kill from outside, but at this instant.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    };
    entrant.run_watched(THREADS, WAIT, &kill_self)?;
    Err("the moment for the kill never came".into())
}

fn measure() -> Result<(), Failure> {
    let target = place::target_folder(env!("CARGO_TARGET_TMPDIR"))?;
    let place = Place::new(target)?;
    let figures: Result<Vec<_>, Failure> = STORES.iter().map(|subject| one(&place, subject)).collect();
    report::save(target, "open", &json!({ "subjects": figures? }))
}

fn one(place: &Place, subject: &Subject) -> Result<serde_json::Value, Failure> {
    let folder = place.folder(subject.name)?;
    subject.fill(&folder, &Load::new(RECORDS))?;
    let bytes = place::bytes_of(&folder)?;
    if bytes < FILE_BYTES_MIN {
        return Err(format!("the store is too small, bytes={bytes}, bytes_min={FILE_BYTES_MIN}").into());
    }
    let died = child::run(subject, &folder)?.status;
    if died.signal() != Some(rustix::process::Signal::KILL.as_raw()) {
        return Err(format!("the child was not killed, status={died}").into());
    }
    let mut figures = json!({ "name": subject.name, "store_bytes": bytes });
    for (name, cold) in [("cached", false), ("cold", true)] {
        let opens: Result<Vec<Opened>, Failure> = (0..OPENS).map(|_| time_one(place, subject, &folder, cold)).collect();
        let opens = opens?;
        let hard = opens.iter().filter(|open| open.hard).count();
        if hard == 0 {
            return Err(format!("{} had little to recover, so the times say nothing", subject.name).into());
        }
        let spread = Spread::of(opens.iter().map(|open| open.millis)).ok_or("no opens")?;
        let word = match (subject.name, spread.max < TARGET_MS) {
            ("sprag", true) => ", target under 100 ms met",
            ("sprag", false) => ", target under 100 ms MISSED",
            _ => "",
        };
        println!(
            "{:10} store {:.0} MB, {name:6} open: median {:.1} ms, maximum {:.1} ms, {hard} of {OPENS} hard{word}",
            subject.name,
            bytes as f64 / 1e6,
            spread.median,
            spread.max
        );
        figures[name] = json!({ "median_ms": spread.median, "max_ms": spread.max, "hard": hard });
    }
    Ok(figures)
}

/// What one open showed.
struct Opened {
    millis: f64,
    /// Right after it the engine was where the kill had left it. A checkpoint may already have changed that.
    hard: bool,
}

/// Opens a fresh copy of `folder` and looks whether every commit in it is whole.
fn time_one(place: &Place, subject: &Subject, folder: &Path, cold: bool) -> Result<Opened, Failure> {
    let copy = place.folder("copy")?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = copy.join(entry.file_name());
        std::fs::copy(entry.path(), &path)?;
        let file = File::open(&path)?;
        file.sync_all()?;
        if cold {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    let started = Instant::now();
    let peer = (subject.open)(&copy, Setup::ONE)?;
    let millis = started.elapsed().as_secs_f64() * 1e3;
    let hard = peer.to_recover() >= HARD_FROM;
    match peer.contents()? {
        Some(contents) if contents.whole() && contents.records == RECORDS && contents.keys > 0 => {
            Ok(Opened { millis, hard })
        }
        other => Err(format!("{} lost a part of a commit, {other:?}", subject.name).into()),
    }
}
