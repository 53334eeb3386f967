//! The machine that a run was made on, and when.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// What is known of the machine; `sync_us` is what one append and sync takes, where it was measured.
pub fn describe(folder: &Path, sync_us: Option<f64>) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo.lines().find(|line| line.starts_with("model name"));
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": cpu.and_then(|line| line.split_once(": ")).map(|(_, name)| name),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "filesystem": filesystem(folder, &read("/proc/self/mounts")),
        "sync_us": sync_us,
        "load_average": crate::place::load_average(),
    })
}

/// The type of the file system whose mount point is the longest one above `folder`.
fn filesystem(folder: &Path, mounts: &str) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(point, _)| folder.starts_with(point));
    above
        .max_by_key(|(point, _)| point.len())
        .map(|(_, kind)| kind.to_owned())
}

/// The commit that is checked out, shortened; `unknown` outside of a checkout.
pub fn commit() -> String {
    git(&["rev-parse", "--short", "HEAD"])
}

/// The last commit that changed the library, which is what the format of its files can depend on.
pub fn commit_of_library() -> String {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/../src");
    git(&["log", "-1", "--format=%h", "--", src])
}

fn git(args: &[&str]) -> String {
    match Command::new("git").args(args).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Today in UTC, as 2026-12-01.
pub fn today() -> String {
    let secs = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    date(secs / 86_400)
}

/// The date so many days after 1970-01-01: years are counted from March, so that the day that a leap year adds comes last.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
