//! `check`: broken rules of a file, a line each, and what was looked at.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use sprag::{Checked, Finding, Options, Place};

use crate::answer::{Answer, Lines, plain};
use crate::failure::Failure;
use crate::progress::Progress;

/// Exit code if something was found.
const FOUND: u8 = 1;

#[derive(Serialize)]
struct ShownFinding<'a> {
    place: ShownPlace<'a>,
    rule: &'a str,
    says: &'a str,
    seen: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ShownPlace<'a> {
    Bytes { region: &'a str, offset: u64 },
    Table { table: &'a str },
    Record { table: &'a str, key: &'a str },
    Remembered { scope: &'a str, key: &'a str },
    Queue { queue: &'a str },
    Message { queue: &'a str, message: u64 },
    Entry { space: &'a str, key: &'a str },
    Other(String),
}

impl<'a> ShownPlace<'a> {
    fn new(place: &'a Place) -> ShownPlace<'a> {
        match place {
            Place::Bytes { region, offset } => ShownPlace::Bytes {
                region,
                offset: *offset,
            },
            Place::Table { table } => ShownPlace::Table { table },
            Place::Record { table, key } => ShownPlace::Record { table, key },
            Place::Remembered { scope, key } => ShownPlace::Remembered { scope, key },
            Place::Queue { queue } => ShownPlace::Queue { queue },
            Place::Message { queue, id } => ShownPlace::Message { queue, message: *id },
            Place::Entry { space, key } => ShownPlace::Entry { space, key },
            // A place that came after this command.
            other => ShownPlace::Other(other.to_string()),
        }
    }
}

/// The last line.
#[derive(Serialize)]
struct Summary {
    findings: u64,
    bytes: u64,
    frames: u64,
    pages: u64,
    base_verified: bool,
    tables: u64,
    records: u64,
    remembered_keys: u64,
    queues: u64,
    messages: u64,
    segments: u64,
    index_entries: u64,
}

impl Summary {
    fn new(checked: &Checked) -> Summary {
        Summary {
            findings: checked.findings.len() as u64 + checked.findings_beyond,
            bytes: checked.bytes,
            frames: checked.frames,
            pages: checked.pages,
            base_verified: checked.base_verified,
            tables: checked.tables,
            records: checked.records,
            remembered_keys: checked.remembered_keys,
            queues: checked.queues,
            messages: checked.messages,
            segments: checked.segments,
            index_entries: checked.index_entries,
        }
    }

    fn text(&self) -> String {
        let Summary {
            findings,
            bytes,
            frames,
            pages,
            base_verified,
            tables,
            records,
            remembered_keys,
            queues,
            messages,
            segments,
            index_entries,
        } = self;
        format!(
            "findings={findings} bytes={bytes} frames={frames} pages={pages} base_verified={base_verified} tables={tables} \
             records={records} remembered_keys={remembered_keys} queues={queues} messages={messages} \
             segments={segments} index_entries={index_entries}"
        )
    }
}

pub fn check(file: &Path, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let progress = Progress::of("checking");
    let options = Options::new().wait(wait.unwrap_or(Duration::ZERO));
    let checked = options.check(file, |at| progress.now(&format!("checking {} {}", at.step, at.done)));
    drop(progress);
    let checked = checked?;
    let mut lines = Lines::new(json);
    let mut outcome = checked
        .findings
        .iter()
        .try_for_each(|finding| lines.push(&shown(finding), || line(finding)));
    if outcome.is_ok() {
        let summary = Summary::new(&checked);
        outcome = lines.push(&summary, || summary.text());
    }
    let answer = lines.finish(outcome)?;
    Ok(if checked.is_sound() {
        answer
    } else {
        answer.with_code(FOUND)
    })
}

fn shown(finding: &Finding) -> ShownFinding<'_> {
    ShownFinding {
        place: ShownPlace::new(&finding.place),
        rule: finding.rule.name(),
        says: finding.rule.says(),
        seen: &finding.seen,
    }
}

/// Place, rule and what was seen, with tabs between.
fn line(finding: &Finding) -> String {
    let place = plain(&finding.place.to_string());
    format!("{place}\t{}\t{}", finding.rule, plain(&finding.seen))
}
