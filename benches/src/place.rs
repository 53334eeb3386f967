//! Where the bench keeps its files, and what the machine was doing meanwhile.
//!
//! A folder in memory is refused, since a sync there costs nothing and every ratio would be a lie.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::peer::Failure;

/// A fresh folder for one run, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// A folder below `SPRAG_BENCH_DIR`, or else below `target`.
    ///
    /// # Errors
    /// If it cannot be made, or lies in memory.
    pub fn new(target: &Path) -> Result<Place, Failure> {
        let parent = match std::env::var_os("SPRAG_BENCH_DIR") {
            Some(named) => PathBuf::from(named),
            None => target.join("sprag-bench"),
        };
        let folder = parent.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|cause| format!("cannot make the folder, path={}: {cause}", folder.display()))?;
        let place = Place { folder };
        refuse_memory(&place.folder)?;
        Ok(place)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// A fresh, empty folder inside.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let inner = self.folder.join(name);
        if inner.exists() {
            std::fs::remove_dir_all(&inner)?;
        }
        std::fs::create_dir(&inner)?;
        Ok(inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(cause) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("could not remove {}: {cause}", self.folder.display());
        }
    }
}

/// The target folder of this build, from the folder that Cargo gives to benches below it.
///
/// # Errors
/// If that path has no parent.
pub fn target_folder(tmp: &str) -> Result<&Path, Failure> {
    Path::new(tmp)
        .parent()
        .ok_or_else(|| "the target folder has no parent".into())
}

#[cfg(target_os = "linux")]
fn refuse_memory(folder: &Path) -> Result<(), Failure> {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    // The type is a signed or unsigned word of 4 or 8 bytes, by architecture; the magic numbers have 32 bits.
    let kind = rustix::fs::statfs(folder)?.f_type as u32;
    match kind {
        TMPFS | RAMFS => Err(format!(
            "a folder in memory cannot be measured, set SPRAG_BENCH_DIR to one on a disk, path={}",
            folder.display()
        )
        .into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_memory(_folder: &Path) -> Result<(), Failure> {
    Ok(())
}

/// The length of all files in `folder` and below.
///
/// # Errors
/// What the operating system reports.
pub fn bytes_of(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_of(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// Copies all files in `from` and below into `to`, which is made, and syncs them, so that nobody pays for it later.
///
/// # Errors
/// What the operating system reports.
pub fn copy_all(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &copy)?;
        } else {
            std::fs::copy(entry.path(), &copy)?;
            std::fs::File::open(&copy)?.sync_all()?;
        }
    }
    Ok(())
}

/// Bytes that this process gave to write calls so far, if the system counts them.
pub fn written_bytes() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = counters.lines().find_map(|line| line.strip_prefix("wchar: "))?;
    line.trim().parse().ok()
}

/// Processor time of this process so far.
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A number of seconds from the environment, or else `normal`.
///
/// # Errors
/// If it is set to something else.
pub fn seconds(variable: &str, normal: f64) -> Result<Duration, Failure> {
    let secs = match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("not a number of seconds, {variable}={text}"))?,
        Err(_) => normal,
    };
    Ok(Duration::try_from_secs_f64(secs)?)
}

/// The machine's load average over the last minute, if it tells.
pub fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The share of the processors from which on a slice says little: a sync then waits for a processor, not for the disk.
pub const BUSY: f64 = 0.15;

/// Returns when for half a second others took at most a third of [`BUSY`], or `longest` is over.
pub fn wait_until_quiet(longest: Duration) {
    let started = Instant::now();
    while started.elapsed() < longest {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(500));
        if share_of_others(before, ticks()).is_none_or(|share| share < BUSY / 3.0) {
            return;
        }
    }
}

/// Processor time since the machine started, in the system's ticks.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    idle: u64,
    busy: u64,
    own: u64,
}

/// The present reading, if the system tells.
pub fn ticks() -> Option<Ticks> {
    let machine = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> = machine
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .map_while(|n| n.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in the first two already.
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    let process = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold blanks and ends with a parenthesis; user and system time are the 12th and 13th after it.
    let mut times = process
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .skip(11)
        .map_while(|n| n.parse::<u64>().ok());
    Some(Ticks {
        idle: idle + iowait,
        busy: user + nice + system + irq + softirq + steal,
        own: times.next()? + times.next()?,
    })
}

/// The share of all processors' time between two readings that others took; `None` if that is too short to tell.
pub fn share_of_others(before: Option<Ticks>, after: Option<Ticks>) -> Option<f64> {
    let (before, after) = (before?, after?);
    let busy = after.busy.saturating_sub(before.busy);
    let all = busy + after.idle.saturating_sub(before.idle);
    let others = busy.saturating_sub(after.own.saturating_sub(before.own));
    (all > 0).then(|| others as f64 / all as f64)
}

/// Bytes sent so far to the block device that `folder` lies on, by anybody, if the system counts them.
///
/// Counted at the device and not for this process, since the process is charged for whole folios of the page cache:
/// 2 MiB for a commit of 350 bytes, where one block is written. Other programs' writes are in it.
pub fn device_bytes(folder: &Path) -> Option<u64> {
    let counters = std::fs::read_to_string(device_stat(folder)?).ok()?;
    // The seventh number is sectors written; a sector is 512 bytes here whatever the device has.
    let sectors: u64 = counters.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

#[cfg(target_os = "linux")]
fn device_stat(folder: &Path) -> Option<PathBuf> {
    let device = rustix::fs::stat(folder).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")))
}

#[cfg(not(target_os = "linux"))]
fn device_stat(_folder: &Path) -> Option<PathBuf> {
    None
}
