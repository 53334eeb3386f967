//! Sprag beside a bare log and what a user would pick instead, on the same work with the same durability.
//!
//! Each peer works in a process of its own, slice by slice in turn with the others. The tables are printed, and the figures
//! merged into `target/sprag-bench/compare.json`, so that a report can be made from several runs. Arguments, after `--`:
//! `--workload NAME,..`, `--peer NAME,..` (or of a group), `--threads 1,8`, `--rounds N`, `--seconds S` for a slice, `--quick` for a smoke run
//! (into `compare-quick.json`), `--list`. `SPRAG_BENCH_DIR` names the folder to measure in, which must not lie in memory;
//! `SPRAG_BENCH_KEEP` one in which filled stores outlive the run; `SPRAG_BENCH_PATIENCE` says for how many seconds each race
//! may wait for other programs and run disturbed rounds again (none if it is not set).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sprag_benches::entrant::Entrant;
use sprag_benches::heat::Heat;
use sprag_benches::load::{Load, Work};
use sprag_benches::machine;
use sprag_benches::peer::{Failure, Setup, Subject};
use sprag_benches::peers;
use sprag_benches::place::{self, Place};
use sprag_benches::plan::{self, Plan, Workload};
use sprag_benches::race::{Contestant, Pace, Probe, Racer, race};
use sprag_benches::remote::{self, Remote, Task};
use sprag_benches::report::{self, Figures};
use sprag_benches::stores::Stores;
use sprag_benches::targets;

/// Operations by which the floor learns how many bytes one of them hands to the log.
const SAMPLE: u64 = 200;
/// Time in which the machine's sync is measured.
const SYNC_TIME: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    report::exit(remote::serve().and_then(|served| if served { Ok(()) } else { run() }))
}

/// What is asked for on the command line. An empty list means all.
#[derive(Default)]
struct Asked {
    workloads: Vec<String>,
    peers: Vec<String>,
    threads: Vec<String>,
    rounds: Option<usize>,
    slice: Option<f64>,
    quick: bool,
    list: bool,
}

impl Asked {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Asked, Failure> {
        let mut asked = Asked::default();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let list = |text: String| text.split(',').map(|part| part.trim().to_owned()).collect();
            match arg.as_str() {
                "--workload" => asked.workloads = list(value()?),
                "--peer" => asked.peers = names(&value()?),
                "--threads" => asked.threads = list(value()?),
                "--rounds" => asked.rounds = Some(value()?.parse()?),
                "--seconds" => asked.slice = Some(value()?.parse()?),
                "--quick" => asked.quick = true,
                "--list" => asked.list = true,
                // What Cargo says to every bench.
                "--bench" => {}
                other => return Err(format!("no such argument, {other}").into()),
            }
        }
        asked.check()?;
        Ok(asked)
    }

    /// A name that is nobody's would measure nothing and say so nowhere.
    fn check(&self) -> Result<(), Failure> {
        let workloads = plan::workloads();
        let unknown = self
            .workloads
            .iter()
            .find(|name| workloads.iter().all(|own| own.name != **name));
        if let Some(name) = unknown {
            return Err(format!("no such workload, name={name}").into());
        }
        let is_peer = |name: &str| peers::ALL.iter().any(|own| own.name == name || own.group == name);
        match self.peers.iter().find(|name| !is_peer(name)) {
            Some(name) => Err(format!("no such peer, name={name}").into()),
            None => Ok(()),
        }
    }

    fn wants(&self, subject: &Subject) -> bool {
        self.peers.is_empty()
            || self
                .peers
                .iter()
                .any(|peer| subject.name == peer || subject.group == peer)
    }

    /// The races of a workload that are asked for.
    fn races(&self, workload: Workload) -> Vec<Plan> {
        let named = self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload.name);
        let races = workload
            .races
            .into_iter()
            .filter(|plan| named && (self.threads.is_empty() || self.threads.contains(&plan.threads.to_string())));
        let paced = |plan: Plan| {
            let plan = if self.quick { plan::quick(plan) } else { plan };
            Plan {
                rounds: self.rounds.unwrap_or(plan.rounds).max(1),
                slice: self.slice.unwrap_or(plan.slice),
                ..plan
            }
        };
        races.map(paced).collect()
    }
}

/// Peers by their names, some of which have a comma in them: a part that begins with a blank belongs to the one before.
fn names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',') {
        match names.last_mut() {
            Some(last) if part.starts_with(' ') => *last += &format!(",{part}"),
            _ => names.push(part.to_owned()),
        }
    }
    names
}

fn list() {
    for workload in plan::workloads() {
        println!("{:12} {}", workload.name, workload.about);
    }
    println!();
    for peer in peers::ALL {
        println!(
            "{:26} of the group {}, {}",
            peer.name,
            peer.group,
            peer.durability.name()
        );
    }
}

fn run() -> Result<(), Failure> {
    let asked = Asked::read(std::env::args().skip(1))?;
    if asked.list {
        list();
        return Ok(());
    }
    let target = place::target_folder(env!("CARGO_TARGET_TMPDIR"))?;
    let place = Place::new(target)?;
    let bench = Bench {
        stores: Stores::new(&place)?,
        place: &place,
        program: std::env::current_exe()?,
        patience: place::seconds("SPRAG_BENCH_PATIENCE", 0.0)?,
        asked,
    };
    let name = if bench.asked.quick { "compare-quick" } else { "compare" };
    let mut figures = Figures::from(report::saved(target, name)?);
    figures.set("not_measured", not_measured());
    let began = Instant::now();
    for workload in plan::workloads() {
        let name_of_workload = workload.name;
        for plan in bench.asked.races(workload) {
            println!("\n{name_of_workload}, {}", plan.title());
            bench.race(name_of_workload, &plan, &mut figures)?;
        }
        // After each, so that a run that is stopped leaves what it has.
        if bench.asked.workloads.is_empty() || bench.asked.workloads.iter().any(|name| name == name_of_workload) {
            report::save(target, name, figures.value())?;
        }
    }
    println!("\nall of it took {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn not_measured() -> Value {
    let one = |(name, reason): &(&str, &str)| json!({ "name": name, "reason": reason });
    peers::NOT_MEASURED.iter().map(one).collect()
}

struct Bench<'p> {
    place: &'p Place,
    stores: Stores<'p>,
    program: PathBuf,
    patience: Duration,
    asked: Asked,
}

impl Bench<'_> {
    /// Runs one race, shows it, and adds what came of it to the figures.
    fn race(&self, workload: &str, plan: &Plan, figures: &mut Figures) -> Result<(), Failure> {
        let setup = Setup {
            threads: plan.threads,
            floor_bytes: self.floor_bytes(&plan.loads[0])?,
            filling: false,
        };
        let sync_us = self.sync_us(setup)?;
        let pace = Pace {
            threads: plan.threads,
            rounds: plan.rounds,
            slice: Duration::try_from_secs_f64(plan.slice)?,
            patience: self.patience,
        };
        let mut folders = Vec::new();
        let mut contestants = Vec::new();
        for load in &plan.loads {
            for subject in self.taking_part(plan) {
                let folder = self.stores.fresh(&subject, load, &format!("peer-{}", folders.len()))?;
                let racer = self.start(subject, *load, setup, plan.slow_sync, &folder)?;
                contestants.push(Contestant::new(subject, *load, racer));
                folders.push(folder);
            }
        }
        // What reads or repeats waits for no disk.
        let mut probe = match plan.loads[0].work {
            Work::Duplicate | Work::Get | Work::GetInRead | Work::Scan => None,
            _ => Some(Probe::new(&self.place.folder("probe")?, setup)?),
        };
        sprag_bench_raw::slow::set(plan.slow_sync);
        let raced = race(&mut contestants, probe.as_mut(), pace);
        sprag_bench_raw::slow::set(Duration::ZERO);
        let probes = raced?;
        for (one, folder) in contestants.iter_mut().zip(&folders) {
            one.file_bytes = Some(place::bytes_of(folder)?);
        }
        let machine = machine::describe(self.place.path(), sync_us);
        report_race(workload, plan, pace, &contestants, &probes, &machine, figures);
        drop(contestants);
        folders
            .iter()
            .try_for_each(|folder| Ok(std::fs::remove_dir_all(folder)?))
    }

    fn taking_part(&self, plan: &Plan) -> Vec<Subject> {
        let each = peers::sqlite::CONNECTION_EACH.name;
        // With one thread a connection each is one connection.
        let differs = |subject: &Subject| plan.threads > 1 || subject.name != each;
        let all = peers::ALL.into_iter();
        all.filter(|subject| (plan.peers)(subject) && differs(subject) && self.asked.wants(subject))
            .collect()
    }

    fn start(
        &self,
        subject: Subject,
        load: Load,
        setup: Setup,
        slow_sync: Duration,
        folder: &Path,
    ) -> Result<Box<dyn Racer>, Failure> {
        let task = Task {
            subject,
            load,
            setup,
            slow_sync,
            folder: folder.to_owned(),
        };
        Ok(Box::new(Remote::start(&self.program, &task)?))
    }

    /// What one operation hands to Sprag's log, rounded down in favour of the floor.
    fn floor_bytes(&self, load: &Load) -> Result<usize, Failure> {
        if load.only_reads() || load.delivers() || load.work == Work::Duplicate {
            return Ok(Setup::ONE.floor_bytes);
        }
        let load = Load {
            records: load.records.min(1000),
            keys: 0,
            ..*load
        };
        let folder = self.place.folder("sample")?;
        peers::sprag::SYNC.fill(&folder, &load)?;
        let sample = Entrant::new((peers::sprag::SYNC.open)(&folder, Setup::ONE)?, &folder, load);
        sample.work_count(SAMPLE)?;
        let handed = sample.peer.bytes_handed().ok_or("the log does not count its bytes")?;
        Ok(usize::try_from(handed / SAMPLE)?.max(1))
    }

    /// What an append and a sync take on this machine, in microseconds.
    fn sync_us(&self, setup: Setup) -> Result<Option<f64>, Failure> {
        let folder = self.place.folder("sync")?;
        let floor = (peers::floor::FDATASYNC.open)(&folder, setup)?;
        let slice = Entrant::new(floor, &folder, Load::new(1)).slice(1, SYNC_TIME)?;
        Ok(Some((1e6 / slice.rate).round()))
    }
}

/// One heat for each load of the plan: shown, judged and kept.
fn report_race(
    workload: &str,
    plan: &Plan,
    pace: Pace,
    contestants: &[Contestant],
    probes: &[f64],
    machine: &Value,
    figures: &mut Figures,
) {
    let heat_of = |load: &Load| {
        let own = contestants.iter().filter(move |one| one.load == *load);
        Heat::of(plan.facts(load), plan.unit(), pace, own, probes)
    };
    let heats: Vec<Heat> = plan.loads.iter().map(heat_of).collect();
    for heat in &heats {
        if plan.grows {
            println!("with {} remembered keys", heat.facts["keys"]);
        }
        print!("{}", heat.table());
        let verdicts = targets::judge(workload, heat, heats.first(), figures);
        let mut run = heat.json();
        for verdict in &verdicts {
            println!("  {}", verdict.line());
        }
        run["targets"] = verdicts.iter().map(targets::Verdict::json).collect();
        run["date"] = json!(machine::today());
        run["commit"] = json!(machine::commit());
        run["machine"] = machine.clone();
        figures.add_run(workload, run);
        if workload == "hot-commit" && pace.threads == 8 && heat.facts["value_bytes"] == 100 && plan.slow_sync.is_zero()
        {
            for (peer, costs) in heat.costs() {
                figures.add_costs(peer, costs);
            }
        }
    }
}
