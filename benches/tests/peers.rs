//! Every peer does every workload right, and none of them escapes a slow sync.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sprag_bench_raw::slow;
use sprag_benches::entrant::Entrant;
use sprag_benches::load::{Load, Work};
use sprag_benches::peer::{Durability, Failure, Setup, Subject};
use sprag_benches::peers;
use sprag_benches::race::Racer;

const SETUP: Setup = Setup {
    threads: 4,
    floor_bytes: 512,
    filling: false,
};

/// More than one slice writes, so that a thread that is held up is not overtaken by a lap.
const RECORDS: u64 = 5_000;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Folder, Failure> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("peers-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn filled(subject: &Subject, load: &Load) -> Result<Folder, Failure> {
    let folder = Folder::new(subject.name)?;
    subject.fill(&folder.0, load)?;
    Ok(folder)
}

fn load(work: Work) -> Load {
    Load {
        work,
        keys: 20,
        done: 50,
        ..Load::new(if work == Work::Count { 1 } else { RECORDS })
    }
}

/// One after the other, since a slow sync is slow for the whole process.
#[test]
fn every_peer_does_every_workload_and_each_of_its_commits_is_slowed() -> Result<(), Failure> {
    for subject in peers::ALL {
        for work in [Work::Hot, Work::Duplicate, Work::PutIf, Work::Transition, Work::Count] {
            let load = Load {
                done: if work == Work::Duplicate { 50 } else { 0 },
                ..load(work)
            };
            does(&subject, load)?;
        }
        for work in [Work::Get, Work::GetInRead, Work::Scan] {
            if subject.group != "floor" {
                does(&subject, Load { done: 0, ..load(work) })?;
            }
        }
        if ["sprag", "sqlite", "sqlite grouped"].contains(&subject.group) {
            for work in [Work::Enqueue, Work::Deliver, Work::DeliverLots] {
                does(&subject, Load { done: 0, ..load(work) })?;
            }
        }
        if subject.durability == Durability::Sync {
            is_slowed(&subject)?;
        }
    }
    Ok(())
}

fn does(subject: &Subject, load: Load) -> Result<(), Failure> {
    if subject.group == "floor" && load.work == Work::Duplicate {
        return Ok(());
    }
    let folder = filled(subject, &load)?;
    let mut entrant = Entrant::new((subject.open)(&folder.0, SETUP)?, &folder.0, load);
    let named = |cause: Failure| format!("{}, {:?}: {cause}", subject.name, load.work);
    // Of what is delivered, the second slice finds as many messages as the first.
    for _ in 0..2 {
        let slice = entrant.slice(SETUP.threads, Duration::from_millis(15)).map_err(named)?;
        assert!(slice.done > 0 && slice.rate > 0.0);
    }
    Ok(entrant.check().map_err(named)?)
}

fn is_slowed(subject: &Subject) -> Result<(), Failure> {
    const COMMITS: u64 = 20;
    const DELAY: Duration = Duration::from_millis(2);
    let load = load(Work::Hot);
    let load = Load { done: 0, ..load };
    let folder = filled(subject, &load)?;
    let entrant = Entrant::new((subject.open)(&folder.0, SETUP)?, &folder.0, load);
    let before = slow::count();
    let started = Instant::now();
    slow::set(DELAY);
    let done = entrant.work_count(COMMITS);
    slow::set(Duration::ZERO);
    done?;
    let (took, slowed) = (started.elapsed(), slow::count() - before);
    assert!(slowed >= COMMITS, "{} escapes: slowed={slowed}", subject.name);
    assert!(took >= DELAY * COMMITS as u32, "{}: took={took:?}", subject.name);
    Ok(())
}
