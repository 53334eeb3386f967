//! `outbox`: queues and their messages, from a shell.
//!
//! What reads opens the file read-only, and works while a service has it open. What writes is told Busy then: the service has
//! the same verbs as methods of its store.

pub mod args;
mod claim;
mod dead;
mod enqueue;
pub mod help;
pub mod show;
mod watch;

use std::time::Duration;

use serde::Serialize;
use sprag::{QueueInfo, ReadTx, Store};

use crate::answer::{Answer, Work};
use crate::failure::Failure;
use crate::{file, value};
use args::{Line, OutboxCommand};

pub fn run(command: &OutboxCommand, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let open = |file| file::open(file, wait);
    let look = |file| file::look(file, wait);
    match command {
        OutboxCommand::Enqueue(args) => {
            let input = value::Input::read(&args.value, args.text, args.base64)?;
            enqueue::enqueue(&*open(&args.line.file)?, args, input, json)
        }
        OutboxCommand::List(args) => show::list(&look(&args.file)?, args, json),
        OutboxCommand::Show(args) => show::show(&look(&args.line.file)?, args, json),
        OutboxCommand::Claim(args) => claim::claim(args, wait, json),
        OutboxCommand::Ack(held) => claim::ack(&*open(&held.line.file)?, held, json),
        OutboxCommand::Nack(args) => claim::nack(&*open(&args.held.line.file)?, args, json),
        OutboxCommand::Defer(args) => claim::defer(&*open(&args.held.line.file)?, args, json),
        OutboxCommand::Release(held) => claim::release(&*open(&held.line.file)?, held, json),
        OutboxCommand::Bury(args) => claim::bury(&*open(&args.held.line.file)?, args, json),
        OutboxCommand::Extend(args) => claim::extend(&*open(&args.held.line.file)?, args, json),
        OutboxCommand::Dead(args) => dead::list(&look(&args.line.file)?, args, json),
        OutboxCommand::Replay(args) => dead::replay(&*open(&args.line.file)?, args, json),
        OutboxCommand::Discard(args) => dead::discard(&*open(&args.line.file)?, args, json),
        OutboxCommand::Pause(line) => pause(&*open(&line.file)?, line, json),
        OutboxCommand::Resume(line) => resume(&*open(&line.file)?, line, json),
        OutboxCommand::Watch(args) => watch::watch(&look(&args.file)?, args, json),
    }
}

/// A queue of the file, if there is one of this name.
fn find(tx: &ReadTx<'_>, name: &str) -> Result<Option<QueueInfo>, Failure> {
    Ok(tx.queues()?.into_iter().find(|info| info.name() == name))
}

/// A queue that must be in the file.
fn queue_in(tx: &ReadTx<'_>, name: &str) -> Result<QueueInfo, Failure> {
    find(tx, name)?.ok_or_else(|| Failure::no_queue(name))
}

fn queue_of(store: &Store, name: &str) -> Result<QueueInfo, Failure> {
    store.read(|tx| queue_in(tx, name))
}

#[derive(Serialize)]
struct Said {
    outcome: &'static str,
}

impl Said {
    fn answer(outcome: &'static str, json: bool) -> Result<Answer, Failure> {
        Answer::new(json, Work::Write, &Said { outcome }, || outcome.to_owned())
    }
}

fn pause(store: &Store, line: &Line, json: bool) -> Result<Answer, Failure> {
    queue_of(store, &line.queue)?;
    let changed = store.pause(&line.queue)?;
    Said::answer(if changed { "paused" } else { "already paused" }, json)
}

fn resume(store: &Store, line: &Line, json: bool) -> Result<Answer, Failure> {
    queue_of(store, &line.queue)?;
    let changed = store.resume(&line.queue)?;
    Said::answer(if changed { "resumed" } else { "already running" }, json)
}
