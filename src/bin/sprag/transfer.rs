//! `export` and `import`: a store as lines of JSON, and back.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use sprag::{Exported, Imported, Store};

use crate::answer::{Answer, Work};
use crate::args::ImportArgs;
use crate::failure::Failure;
use crate::file;
use crate::progress::Progress;

/// Bytes of lines that are written at once.
const OUT_BYTES: usize = 64 << 10;

/// The lines are the answer.
pub fn export(store: &Store) -> Result<Answer, Failure> {
    let mut out = BufWriter::with_capacity(OUT_BYTES, io::stdout().lock());
    let Exported { .. } = store.export(&mut out)?;
    out.flush()
        .map_err(|cause| Failure::io("write the export to stdout", None, &cause))?;
    Ok(Answer::written())
}

#[derive(Serialize)]
struct Shown {
    outcome: &'static str,
    tables: u64,
    records: u64,
    remembered_keys: u64,
    queues: u64,
    messages: u64,
}

pub fn import(args: &ImportArgs, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let source = open_input(&args.lines)?;
    let store = file::open(&args.file, wait)?;
    let progress = Progress::of("importing");
    let imported = store.import(BufReader::with_capacity(OUT_BYTES, source));
    drop(progress);
    let Imported {
        tables,
        records,
        remembered_keys,
        queues,
        messages,
        lines_before,
        lines,
        ..
    } = imported?;
    let outcome = match lines_before {
        0 => "imported",
        before if before < lines => "completed",
        _ => "already imported",
    };
    let shown = Shown {
        outcome,
        tables,
        records,
        remembered_keys,
        queues,
        messages,
    };
    Answer::new(json, Work::Write, &shown, || {
        format!(
            "{outcome} tables={tables} records={records} remembered_keys={remembered_keys} queues={queues} messages={messages}"
        )
    })
}

fn open_input(lines: &Path) -> Result<Box<dyn Read>, Failure> {
    if lines.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(lines).map_err(|cause| Failure::io("read the export", Some(lines), &cause))?;
    Ok(Box::new(file))
}
