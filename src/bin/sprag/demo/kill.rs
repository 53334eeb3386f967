//! Kills for real: a child process is killed with SIGKILL between its "ready" line and its exit, in the middle of a
//! delivery, and the message is delivered again.
//!
//! Owns the child and the rounds. The child says that it is ready before it opens the file, so a kill can meet the
//! recovery of the file, the commit, or the close.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use sprag::{Clock as _, Store, SystemClock};

use super::aim::{Aim, Met};
use super::technique::{self, BEFORE, Balance, Technique};
use crate::answer::{Answer, Work};
use crate::failure::Failure;

/// Kills of one technique; more only if one side was met less than [`EACH_MIN`] times by then.
const ROUNDS: u32 = 20;
const EACH_MIN: u32 = 3;
/// Bounds on all of it, so that a machine on which one side cannot be met ends with a row that is not as expected.
const TRIES_MAX: u32 = 200;
const TIME_MAX: Duration = Duration::from_secs(60);

const READY: &str = "ready";

/// What the kills of one technique met.
#[derive(Debug, Default)]
pub struct Kills {
    pub absent: u32,
    pub present: u32,
    /// What the first round left that did not end with exactly one delivery.
    pub wrong: Option<Balance>,
}

impl Kills {
    /// Whether there were enough kills, and enough on either side of the commit.
    pub fn enough(&self) -> bool {
        self.absent + self.present >= ROUNDS && self.absent >= EACH_MIN && self.present >= EACH_MIN
    }
}

/// Kills and delivers again until there were enough kills.
pub fn rounds(file: &Path, technique: Technique) -> Result<Kills, Failure> {
    let clock = SystemClock::new();
    let start = clock.sample().mono_ns;
    let elapsed = || Duration::from_nanos(clock.sample().mono_ns.saturating_sub(start));
    let mut kills = Kills::default();
    let mut aim = Aim::new(unharmed(file, technique)?);
    for number in 1..=TRIES_MAX {
        if kills.enough() || kills.wrong.is_some() || elapsed() > TIME_MAX {
            break;
        }
        let delay = aim.delay();
        let met = round(file, technique, &format!("kill {number}"), delay, &mut kills)?;
        aim.learn(met);
    }
    Ok(kills)
}

/// A delivery that nobody kills, to learn how long one takes.
fn unharmed(file: &Path, technique: Technique) -> Result<Duration, Failure> {
    let key = "unharmed";
    technique.prepare(&Store::open(file)?, key)?;
    let mut delivery = Delivery::start(file, technique, key)?;
    let clock = SystemClock::new();
    let ready = clock.sample().mono_ns;
    let status = delivery.wait()?;
    match status.success() {
        true => Ok(Duration::from_nanos(clock.sample().mono_ns.saturating_sub(ready))),
        false => Err(Failure::child(format!(
            "a delivery that nobody killed failed, status={status}"
        ))),
    }
}

/// One kill, and the message once more.
fn round(file: &Path, technique: Technique, key: &str, delay: Duration, kills: &mut Kills) -> Result<Met, Failure> {
    // Not closed but dropped: what was written lies in the log, and the child begins with a recovery.
    technique.prepare(&Store::open(file)?, key)?;
    let was_killed = killed_after(file, technique, key, delay)?;
    let store = Store::open(file)?;
    let found = technique.read(&store, key)?;
    if found == BEFORE && !technique.refuses_too_early(&store, key)? {
        kills.wrong = Some(found);
    }
    technique.deliver(&store, key)?;
    let after = technique.read(&store, key)?;
    let expected = technique.expected(1);
    let sound = (found == BEFORE || found == expected) && technique.refuses_too_late(&store, key)?;
    if after != expected {
        kills.wrong = Some(after);
    } else if !sound {
        kills.wrong = Some(found);
    }
    if !was_killed {
        return Ok(Met::Ended);
    }
    if found == BEFORE {
        kills.absent += 1;
        Ok(Met::Absent)
    } else {
        kills.present += 1;
        Ok(Met::Present)
    }
}

/// Starts a delivery and kills it some time after its "ready" line. False if it had ended before.
fn killed_after(file: &Path, technique: Technique, key: &str, delay: Duration) -> Result<bool, Failure> {
    let mut delivery = Delivery::start(file, technique, key)?;
    pause(delay);
    let status = delivery.kill()?;
    if was_killed(status) {
        return Ok(true);
    }
    match status.success() {
        true => Ok(false),
        false => Err(Failure::child(format!(
            "a delivery failed before it was killed, status={status}"
        ))),
    }
}

/// The one place of the command that waits for time to pass: it is what varies the moment of the kill.
fn pause(delay: Duration) {
    std::thread::sleep(delay);
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    const SIGKILL: i32 = 9;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}

/// A child process in the middle of a delivery. Killed when dropped, so that none is left behind by an error.
struct Delivery {
    child: Child,
    /// Held, so that the child can say more; nobody listens.
    out: BufReader<ChildStdout>,
}

impl Delivery {
    /// Starts the child and returns when it said that it is ready.
    fn start(file: &Path, technique: Technique, key: &str) -> Result<Delivery, Failure> {
        let started = |cause: io::Error| Failure::child("cannot start a process of the demo").because(&cause);
        let program = std::env::current_exe().map_err(started)?;
        let mut command = Command::new(program);
        command
            .arg("demo-delivery")
            .arg("--")
            .arg(file)
            .arg(technique.name())
            .arg(key);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(started)?;
        let out = child
            .stdout
            .take()
            .ok_or_else(|| Failure::child("a process of the demo has no stdout"))?;
        let mut delivery = Delivery {
            child,
            out: BufReader::new(out),
        };
        let mut line = String::new();
        delivery.out.read_line(&mut line).map_err(started)?;
        match line.trim_end() == READY {
            true => Ok(delivery),
            false => Err(Failure::child(format!(
                "a process of the demo said something else, line={line:?}"
            ))),
        }
    }

    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .map_err(|cause| Failure::io("wait for a process of the demo", None, &cause))
    }

    fn kill(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .kill()
            .map_err(|cause| Failure::io("kill a process of the demo", None, &cause))?;
        self.wait()
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        // Nothing to do if it ended already, and nobody to tell if it cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: says that it is ready, then opens the file, delivers and closes.
pub fn deliver_and_exit(file: &Path, technique: &str, key: &str) -> Result<Answer, Failure> {
    let technique = technique::named(technique)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{READY}")
        .and_then(|()| out.flush())
        .map_err(|cause| Failure::io("say ready", None, &cause))?;
    drop(out);
    let store = Store::open(file)?;
    technique.deliver(&store, key)?;
    store.close()?;
    Answer::new(false, Work::Write, &"delivered", || "delivered".to_owned())
}
