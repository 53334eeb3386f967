//! A peer in a process of its own: nobody else's memory, bytes and processor time are in its figures.
//!
//! The parent starts this program once more, with the task in the environment, and then asks by lines; each answer is a line
//! of JSON. The child ends when the parent closes its input.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::child;
use crate::entrant::{Entrant, Slice};
use crate::histogram::Histogram;
use crate::load::Load;
use crate::peer::{Failure, Setup, Subject};
use crate::peers;
use crate::race::Racer;

const TASK: &str = "SPRAG_BENCH_TASK";

/// What a child is to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// Who.
    pub subject: Subject,
    /// What.
    pub load: Load,
    /// For how many threads, and how many bytes are an append of the floor.
    pub setup: Setup,
    /// By how much each sync is longer.
    pub slow_sync: Duration,
    /// Where the store is.
    pub folder: PathBuf,
}

impl Task {
    fn json(&self) -> Value {
        json!({
            "subject": self.subject.name,
            "load": self.load.json(),
            "threads": self.setup.threads,
            "floor_bytes": self.setup.floor_bytes,
            "slow_sync_us": self.slow_sync.as_micros() as u64,
            "folder": self.folder,
        })
    }

    fn from_json(value: &Value) -> Result<Task, Failure> {
        let subject = peers::ALL.into_iter().find(|subject| value["subject"] == subject.name);
        let number = |name: &str| value[name].as_u64().ok_or_else(|| format!("no {name} in the task"));
        Ok(Task {
            subject: subject.ok_or("no such subject")?,
            load: Load::from_json(&value["load"])?,
            setup: Setup {
                threads: usize::try_from(number("threads")?)?,
                floor_bytes: usize::try_from(number("floor_bytes")?)?,
                filling: false,
            },
            slow_sync: Duration::from_micros(number("slow_sync_us")?),
            folder: value["folder"].as_str().ok_or("no folder in the task")?.into(),
        })
    }
}

/// Does the task of this process, and says whether it had one.
///
/// # Errors
/// What the peer reports.
pub fn serve() -> Result<bool, Failure> {
    let Ok(text) = std::env::var(TASK) else {
        return Ok(false);
    };
    let task = Task::from_json(&serde_json::from_str(&text)?)?;
    sprag_bench_raw::slow::set(task.slow_sync);
    let peer = (task.subject.open)(&task.folder, task.setup)?;
    let mut entrant = Entrant::new(peer, &task.folder, task.load);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ') {
            Some(("slice", nanos)) => {
                let time = Duration::from_nanos(nanos.parse()?);
                entrant.slice(task.setup.threads, time).map(|slice| slice.json())
            }
            _ if line == "check" => entrant.check().map(|()| Value::Null),
            _ => Ok(json!({ "peak": child::peak_memory() })),
        };
        let answer = match answer {
            Ok(value) => json!({ "ok": value }),
            Err(cause) => json!({ "failed": cause.to_string() }),
        };
        println!("{answer}");
    }
    Ok(true)
}

/// The parent's end.
pub struct Remote {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Remote {
    /// Starts the process; `program` is this one, or another one whose `main` begins with [`serve`].
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn start(program: &Path, task: &Task) -> Result<Remote, Failure> {
        let mut child = Command::new(program)
            .env(TASK, task.json().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = child.stdout.take().ok_or("a child without output")?;
        Ok(Remote {
            child,
            answers: BufReader::new(answers),
        })
    }

    fn ask(&mut self, question: &str) -> Result<Value, Failure> {
        let input = self.child.stdin.as_mut().ok_or("a child without input")?;
        // A child that is gone is told by its silence.
        let _ = writeln!(input, "{question}");
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("the process ended, {}", self.child.wait()?).into());
        }
        let mut answer: Value = serde_json::from_str(&line)?;
        match answer["failed"].as_str() {
            Some(text) => Err(text.into()),
            None => Ok(answer["ok"].take()),
        }
    }
}

impl Racer for Remote {
    /// The number of threads is that of the task.
    fn slice(&mut self, _threads: usize, time: Duration) -> Result<Slice, Failure> {
        Slice::from_json(&self.ask(&format!("slice {}", time.as_nanos()))?)
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.ask("check").map(|_| ())
    }

    fn peak_memory(&mut self) -> Result<Option<u64>, Failure> {
        Ok(self.ask("peak")?["peak"].as_u64())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Slice {
    /// For another process.
    fn json(&self) -> Value {
        json!({
            "done": self.done,
            "rate": self.rate,
            "settled_rate": self.settled_rate,
            "handed": self.handed,
            "written": self.written,
            "device": self.device,
            "cpu_us": self.cpu_us,
            "others": self.others,
            "latency": self.latency.json(),
        })
    }

    fn from_json(value: &Value) -> Result<Slice, Failure> {
        let number = |name: &str| value[name].as_f64().ok_or_else(|| format!("no {name} in a slice"));
        Ok(Slice {
            done: value["done"].as_u64().ok_or("no done in a slice")?,
            rate: number("rate")?,
            settled_rate: number("settled_rate")?,
            handed: value["handed"].as_f64(),
            written: value["written"].as_f64(),
            device: value["device"].as_f64(),
            cpu_us: number("cpu_us")?,
            others: value["others"].as_f64(),
            latency: Histogram::from_json(&value["latency"])?,
        })
    }
}
