//! `apply`: batches from a file or a pipe, each in a commit of its own, a verdict line for each.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use sprag::{Batch, Outcome, Store, Verdict, Version};

use crate::answer::{Answer, Work, plain, time_text};
use crate::args::ApplyArgs;
use crate::failure::{Failure, FoundRecord};
use crate::file;
use crate::progress::Progress;
use crate::value::INPUT_BYTES_MAX;

#[derive(Serialize)]
struct Shown {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_at: Option<String>,
    verdicts: Vec<ShownVerdict>,
}

#[derive(Serialize)]
struct ShownVerdict {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<FoundRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl Shown {
    fn new(outcome: &Outcome, dry_run: bool) -> Shown {
        let (word, first_at) = match outcome {
            Outcome::Applied { .. } => ("applied", None),
            Outcome::Already { .. } => ("already", None),
            Outcome::Repeat { first_at, .. } => ("repeat", Some(time_text(*first_at))),
            Outcome::Rejected(_) => ("rejected", None),
        };
        Shown {
            outcome: word,
            dry_run: dry_run.then_some(true),
            first_at,
            verdicts: outcome.verdicts().iter().map(ShownVerdict::new).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = if self.dry_run.is_some() { "dry run: " } else { "" }.to_owned();
        text.push_str(self.outcome);
        if let Some(first_at) = &self.first_at {
            text.push_str(&format!(" first_at={first_at}"));
        }
        let verdicts: Vec<String> = self.verdicts.iter().map(ShownVerdict::text).collect();
        format!("{text}: {}", verdicts.join("; "))
    }
}

impl ShownVerdict {
    fn new(verdict: &Verdict) -> ShownVerdict {
        let of = |verdict, version: &Option<Version>| ShownVerdict {
            version: version.map(Version::get),
            ..ShownVerdict::plain(verdict)
        };
        match verdict {
            Verdict::Holds(version) => of("holds", version),
            Verdict::Unguarded(version) => of("unguarded", version),
            Verdict::Already(version) => of("already", version),
            Verdict::Fails { found, why } => ShownVerdict {
                found: Some(FoundRecord::new(found)),
                why: why.map(sprag::Why::name),
                ..ShownVerdict::plain("fails")
            },
            Verdict::Enqueued(id) => ShownVerdict {
                id: Some(id.get()),
                ..ShownVerdict::plain("enqueued")
            },
        }
    }

    fn plain(verdict: &'static str) -> ShownVerdict {
        ShownVerdict {
            verdict,
            version: None,
            id: None,
            found: None,
            why: None,
        }
    }

    fn text(&self) -> String {
        let mut text = self.verdict.to_owned();
        if let Some(version) = self.version {
            text.push_str(&format!(" version={version}"));
        }
        if let Some(id) = self.id {
            text.push_str(&format!(" id={id}"));
        }
        if let Some(found) = &self.found {
            text.push_str(&format!(" {}", plain(&found.text())));
        }
        if let Some(why) = self.why {
            text.push_str(&format!(" why={why}"));
        }
        text
    }
}

/// A source that ends with an error once a batch has taken more than its share.
struct Bounded {
    source: Box<dyn Read>,
    left: Rc<Cell<usize>>,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        match self.left.get().checked_sub(read) {
            Some(left) => {
                self.left.set(left);
                Ok(read)
            }
            None => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
        }
    }
}

fn open_input(batch: &Path) -> Result<Box<dyn Read>, Failure> {
    if batch.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(batch).map_err(|cause| Failure::io("read the batches", Some(batch), &cause))?;
    Ok(Box::new(file))
}

/// Carries out one batch after the other. Each answer is written before the next batch is waited for, so that whoever feeds a pipe
/// can go by it.
pub fn apply(args: &ApplyArgs, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let left = Rc::new(Cell::new(INPUT_BYTES_MAX));
    let source = Bounded {
        source: open_input(&args.batch)?,
        left: left.clone(),
    };
    let texts = serde_json::Deserializer::from_reader(BufReader::new(source)).into_iter::<Box<RawValue>>();
    let progress = Progress::counting("batches", io::stdout().is_terminal());
    let mut store = None;
    let mut is_empty = true;
    let mut unseen: Option<io::Error> = None;
    let mut any_rejected = false;
    for (done, text) in texts.enumerate() {
        if let Some(cause) = &unseen {
            let doing = format!("write the verdicts to stdout, batches_done={done}");
            return Err(Failure::io(&doing, None, cause));
        }
        let in_batch = |failure: Failure| failure.inside(&format!("batch={done}"));
        let text = text.map_err(|cause| in_batch(unreadable(&cause)))?;
        left.set(INPUT_BYTES_MAX);
        // Opened only now, so that a slow pipe keeps nobody out of the file.
        let store = match &store {
            Some(store) => store,
            None => store.insert(file::open(&args.file, wait)?),
        };
        let outcome = carry_out(store, text.get(), args.dry_run).map_err(in_batch)?;
        progress.count();
        any_rejected |= matches!(outcome, Outcome::Rejected(_));
        let shown = Shown::new(&outcome, args.dry_run);
        let work = if args.dry_run { Work::Read } else { Work::Write };
        unseen = Answer::new(json, work, &shown, || shown.text())?.write_line(json).err();
        is_empty = false;
    }
    match unseen {
        Some(cause) if args.dry_run => Err(Failure::io("write the answer to stdout", None, &cause)),
        _ if is_empty => Err(Failure::invalid("the input holds no batch")),
        _ => Ok(Answer::written().with_code(if any_rejected { 3 } else { 0 })),
    }
}

fn carry_out(store: &Store, text: &str, dry_run: bool) -> Result<Outcome, Failure> {
    // Read anew for each batch, since the one before may have made a table or a queue.
    let (tables, queues) = store.read(|tx| Ok::<_, Failure>((tx.tables()?, tx.queues()?)))?;
    let batch = Batch::from_json_with(text, &tables, &queues)?;
    Ok(if dry_run {
        store.dry_run(&batch)?
    } else {
        store.apply(&batch)?
    })
}

fn unreadable(cause: &serde_json::Error) -> Failure {
    match cause.io_error_kind() {
        Some(io::ErrorKind::FileTooLarge) => {
            Failure::too_large(format!("batch too large to be read, bytes_max={INPUT_BYTES_MAX}"))
        }
        Some(_) => Failure::io("read the batches", None, &io::Error::other(cause.to_string())),
        None => {
            let (line, column) = (cause.line(), cause.column());
            Failure::invalid(format!("the input is not JSON, line={line}, column={column}")).because(cause)
        }
    }
}
