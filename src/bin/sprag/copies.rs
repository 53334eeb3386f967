//! `backup`, `restore`, `compact`: copies of a whole store.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use sprag::{BackedUp, Compacted, Options, Restored, Store};

use crate::answer::{Answer, Work, plain};
use crate::args::RestoreArgs;
use crate::failure::Failure;
use crate::progress::Progress;

/// A new file, and up to which commit it goes.
#[derive(Serialize)]
struct Copied {
    outcome: &'static str,
    file: String,
    sequence: u64,
    bytes: u64,
}

impl Copied {
    fn answer(&self, json: bool) -> Result<Answer, Failure> {
        let Copied {
            outcome,
            file,
            sequence,
            bytes,
        } = self;
        Answer::new(json, Work::Write, self, || {
            format!("{outcome} file={} sequence={sequence} bytes={bytes}", plain(file))
        })
    }
}

pub fn backup(store: &Store, to: &Path, json: bool) -> Result<Answer, Failure> {
    let progress = Progress::of("copying");
    let BackedUp { sequence, bytes, .. } = store.backup(to)?;
    drop(progress);
    let copied = Copied {
        outcome: "backed up",
        file: to.display().to_string(),
        sequence,
        bytes,
    };
    copied.answer(json)
}

pub fn restore(args: &RestoreArgs, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let progress = Progress::of("checking and copying");
    let options = Options::new().wait(wait.unwrap_or_default());
    let restored = if args.replace {
        options.restore_over(&args.from, &args.to)
    } else {
        options.restore(&args.from, &args.to)
    };
    drop(progress);
    let Restored { sequence, bytes, .. } = restored?;
    let copied = Copied {
        outcome: "restored",
        file: args.to.display().to_string(),
        sequence,
        bytes,
    };
    copied.answer(json)
}

#[derive(Serialize)]
struct ShownCompacted {
    outcome: &'static str,
    bytes_before: u64,
    bytes_after: u64,
}

pub fn compact(file: &Path, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let progress = Progress::of("copying");
    let compacted = Options::new().wait(wait.unwrap_or_default()).compact(file);
    drop(progress);
    let Compacted {
        bytes_before,
        bytes_after,
        ..
    } = compacted?;
    let outcome = if bytes_after < bytes_before {
        "compacted"
    } else {
        "unchanged"
    };
    let shown = ShownCompacted {
        outcome,
        bytes_before,
        bytes_after,
    };
    Answer::new(json, Work::Write, &shown, || {
        format!("{outcome} bytes_before={bytes_before} bytes_after={bytes_after}")
    })
}
