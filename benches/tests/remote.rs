//! A peer in a process of its own: it works as told, tells what it costs, and its complaints reach the parent.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use sprag_benches::load::Load;
use sprag_benches::peer::{Failure, Setup};
use sprag_benches::peers;
use sprag_benches::race::Racer;
use sprag_benches::remote::{self, Remote, Task};
use sprag_benches::report;

const SLICE: Duration = Duration::from_millis(60);
const SLOW: Duration = Duration::from_millis(3);

fn main() -> ExitCode {
    report::exit(remote::serve().and_then(|served| if served { Ok(()) } else { tests() }))
}

fn tests() -> Result<(), Failure> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("remote-{}", std::process::id()));
    let outcome = works_as_told(folder.clone()).and_then(|()| complains(folder.clone()));
    std::fs::remove_dir_all(&folder)?;
    outcome?;
    println!("remote: ok");
    Ok(())
}

fn task(folder: PathBuf, load: Load) -> Task {
    Task {
        subject: peers::sprag::SYNC,
        load,
        setup: Setup::ONE,
        slow_sync: SLOW,
        folder,
    }
}

fn start(task: &Task) -> Result<Remote, Failure> {
    Remote::start(&std::env::current_exe()?, task)
}

fn works_as_told(folder: PathBuf) -> Result<(), Failure> {
    std::fs::create_dir_all(&folder)?;
    let load = Load::new(100);
    peers::sprag::SYNC.fill(&folder, &load)?;
    let mut remote = start(&task(folder, load))?;
    let slice = remote.slice(1, SLICE)?;
    remote.check()?;
    let most = SLICE.as_secs_f64() / SLOW.as_secs_f64() + 1.0;
    assert!(
        slice.done > 0 && slice.done as f64 <= most,
        "its syncs are not slow, {slice:?}"
    );
    assert_eq!(
        slice
            .latency
            .percentile(1.0)
            .map(|nanos| nanos >= SLOW.as_nanos() as u64),
        Some(true)
    );
    let (written, handed) = (slice.written.unwrap_or(0.0), slice.handed.unwrap_or(f64::MAX));
    assert!(written >= handed, "written={written}, handed={handed}");
    let peak = remote.peak_memory()?.ok_or("no peak of memory")?;
    assert!((1 << 20..1 << 30).contains(&peak), "peak={peak}");
    Ok(())
}

/// The store is not the one that the load is for.
fn complains(folder: PathBuf) -> Result<(), Failure> {
    let mut remote = start(&task(folder.clone(), Load::new(200)))?;
    let checked = remote.check().map_err(|cause| cause.to_string());
    assert!(
        checked
            .as_ref()
            .is_err_and(|text| text.contains("does not hold what it was given")),
        "{checked:?}"
    );
    drop(remote);
    // A process that cannot open its store ends, and the parent hears of it.
    let mut gone = start(&task(folder.join("nowhere"), Load::new(100)))?;
    let ended = gone.slice(1, SLICE).map(|_| ()).map_err(|cause| cause.to_string());
    assert!(
        ended.as_ref().is_err_and(|text| text.contains("the process ended")),
        "{ended:?}"
    );
    Ok(())
}
