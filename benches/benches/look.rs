//! What a second process that scans the store over and over costs the one that writes.
//!
//! Rounds of three slices of commits: nobody beside; a process that scans a copy of the file nobody writes to, so that it
//! takes the same processor and memory and meets the writer nowhere else; a process that scans the file itself. The last
//! two set apart what any busy process costs on a machine with few processors and what the look costs the writer. Printed
//! and written to `target/sprag-bench/look.json`. `SPRAG_BENCH_DIR` and `SPRAG_BENCH_SECS` as in `compare`.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::sprag::{Keys, Store, Table};
use serde_json::{Value, json};
use sprag_benches::entrant::Entrant;
use sprag_benches::load::Load;
use sprag_benches::peer::{Failure, Setup};
use sprag_benches::peers::sprag::SYNC;
use sprag_benches::place::{self, Place};
use sprag_benches::race::Racer;
use sprag_benches::report::{self, Spread};

const RECORDS: u64 = 100_000;
const ROUNDS: usize = 9;
const SECS: f64 = 2.0;
const THREADS: [usize; 2] = [1, 8];
/// The least that the writer is to keep of its rate.
const TARGET: f64 = 0.95;
/// Names the file that a child scans.
const FILE: &str = "SPRAG_BENCH_LOOK_FILE";

fn main() -> ExitCode {
    report::exit(match std::env::var_os(FILE) {
        Some(file) => scan_until_told(Path::new(&file)),
        None => measure(),
    })
}

/// The child: scans until its input ends, and says how many records it saw in how many scans.
fn scan_until_told(file: &Path) -> Result<(), Failure> {
    let told = Arc::new(AtomicBool::new(false));
    let ends = told.clone();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        // However the input ends, so does the child.
        let _ = std::io::stdin().read_to_end(&mut rest);
        ends.store(true, Ordering::Relaxed);
    });
    let records: Table<u64, String> = Table::new("records");
    let store = Store::open_read_only(file)?;
    let (mut scans, mut seen) = (0_u64, 0_u64);
    while !told.load(Ordering::Relaxed) {
        let found = store.read(|tx| {
            let mut found = 0;
            for item in tx.scan(records, Keys::all())? {
                item?;
                found += 1;
            }
            Ok::<u64, ::sprag::Error>(found)
        })?;
        if found != RECORDS {
            return Err(format!("a scan saw another number of records, found={found}").into());
        }
        scans += 1;
        seen += found;
    }
    println!("{scans} {seen}");
    Ok(())
}

/// A child that scans, and what it did.
struct Scanner(Child);

impl Scanner {
    fn start(file: &Path) -> Result<Scanner, Failure> {
        let child = Command::new(std::env::current_exe()?)
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // It opens the store first; a slice is to find it at work.
        std::thread::sleep(Duration::from_millis(200));
        Ok(Scanner(child))
    }

    fn stop(mut self) -> Result<u64, Failure> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        match (text.split_whitespace().next(), output.status.success()) {
            (Some(scans), true) => Ok(scans.parse()?),
            _ => Err(format!("the scanning process failed, status={}, output={text:?}", output.status).into()),
        }
    }
}

/// What one slice showed, with somebody beside it or not.
struct Slice {
    rate: f64,
    scans_per_second: f64,
}

fn slice(entrant: &Entrant, threads: usize, beside: Option<&Path>) -> Result<Slice, Failure> {
    let time = place::seconds("SPRAG_BENCH_SECS", SECS)?;
    let scanner = beside.map(Scanner::start).transpose()?;
    let started = Instant::now();
    let slice = entrant.run_watched(threads, time, &|| ())?;
    let scans = scanner.map_or(Ok(0), Scanner::stop)?;
    Ok(Slice {
        rate: slice.rate,
        scans_per_second: scans as f64 / started.elapsed().as_secs_f64(),
    })
}

fn measure() -> Result<(), Failure> {
    let target = place::target_folder(env!("CARGO_TARGET_TMPDIR"))?;
    let place = Place::new(target)?;
    let folder = place.folder("look")?;
    let load = Load::new(RECORDS);
    SYNC.fill(&folder, &load)?;
    let file = folder.join("store.sprag");
    let copy = place.folder("copy")?.join("store.sprag");
    std::fs::copy(&file, &copy)?;
    let mut entrant = Entrant::new((SYNC.open)(&folder, Setup::ONE)?, &folder, load);
    let figures: Result<Vec<Value>, Failure> = THREADS
        .iter()
        .map(|threads| one(&entrant, *threads, &file, &copy))
        .collect();
    entrant.check()?;
    report::save(target, "look", &json!({ "records": RECORDS, "threads": figures? }))
}

fn one(entrant: &Entrant, threads: usize, file: &Path, copy: &Path) -> Result<Value, Failure> {
    let ways = [None, Some(copy), Some(file)];
    let (mut rates, mut scans) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut slices: [Option<Slice>; 3] = [None, None, None];
        for step in 0..ways.len() {
            let way = (round + step) % ways.len();
            slices[way] = Some(slice(entrant, threads, ways[way])?);
        }
        let [Some(alone), Some(apart), Some(look)] = slices else {
            return Err("a way was not measured".into());
        };
        rates.push([alone.rate, apart.rate, look.rate]);
        scans.push([apart.scans_per_second, look.scans_per_second]);
    }
    let ratio = |of: usize, to: usize| Spread::of(rates.iter().map(|round| round[of] / round[to]));
    let of = |values: Vec<f64>| Spread::of(values).ok_or("no round was run");
    let (apart, look) = (ratio(1, 0).ok_or("no round")?, ratio(2, 0).ok_or("no round")?);
    let own = ratio(2, 1).ok_or("no round")?;
    let alone = of(rates.iter().map(|round| round[0]).collect())?;
    let scanned = of(scans.iter().map(|round| round[1]).collect())?;
    let word = if own.median >= TARGET { "met" } else { "MISSED" };
    println!(
        "{threads} threads: alone {:.0} commits/s; beside a process that scans another file {}; beside one that scans this file {} \
         ({:.1} scans/s); the look itself {}, target at least {TARGET} {word}",
        alone.median,
        apart.show(3),
        look.show(3),
        scanned.median,
        own.show(3)
    );
    Ok(json!({
        "threads": threads, "alone": alone.json(), "beside_another_file": apart.json(), "beside_this_file": look.json(),
        "look_itself": own.json(), "scans_per_second": scanned.json()
    }))
}
