//! This program once more, as a process of its own that can be killed and whose memory can be measured.
//!
//! The parent names a role in the environment; a bench asks for its role first of all. A child answers with lines on
//! its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::peer::{Failure, Subject};
use crate::peers::STORES;

const SUBJECT: &str = "SPRAG_BENCH_CHILD_SUBJECT";
const FOLDER: &str = "SPRAG_BENCH_CHILD_FOLDER";

/// What a child is to work on.
#[derive(Debug)]
pub struct Role {
    /// The engine.
    pub subject: Subject,
    /// Where its store is.
    pub folder: PathBuf,
}

/// The role of this process, or `None` for the parent.
///
/// # Errors
/// If the subject is unknown.
pub fn role() -> Result<Option<Role>, Failure> {
    let (Ok(name), Some(folder)) = (std::env::var(SUBJECT), std::env::var_os(FOLDER)) else {
        return Ok(None);
    };
    let subject = STORES.into_iter().find(|subject| subject.name == name);
    let subject = subject.ok_or_else(|| format!("no such subject, name={name}"))?;
    Ok(Some(Role {
        subject,
        folder: folder.into(),
    }))
}

/// Runs a child to its end, whatever that is. Its complaints go where this process's go.
///
/// # Errors
/// If it cannot be started.
pub fn run(subject: &Subject, folder: &Path) -> Result<Output, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .env(SUBJECT, subject.name)
        .env(FOLDER, folder)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    Ok(child)
}

/// The most memory this process ever had resident, in bytes, if the system tells.
pub fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
