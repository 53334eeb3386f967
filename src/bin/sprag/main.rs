//! The command `sprag`: looks at a store and changes it from a shell, and shows what a store is for.
//!
//! Uses the public interface only. Owns words, forms and exit codes of the command; decides nothing about records.
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answer;
mod apply;
mod args;
mod check;
mod copies;
mod demo;
mod failure;
mod file;
mod help;
mod json;
mod keys;
mod machine;
mod manual;
mod outbox;
mod progress;
mod records;
mod scan;
mod transfer;
mod value;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue};

use answer::Answer;
use args::{Cli, ClockCommand, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refused) => return not_a_command(&quoted(refused)),
    };
    quiet_about_redb();
    match run(&cli) {
        Ok(answer) => answer.finish(cli.json),
        Err(failure) => answer::fail(&failure, cli.json),
    }
}

/// redb panics on some damage, which the library takes for what it is: a finding about the file, which is answered as such.
fn quiet_about_redb() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_redb = panic.location().is_some_and(|at| at.file().contains("/redb-"));
        if !is_redb {
            told(panic);
        }
    }));
}

fn run(cli: &Cli) -> Result<Answer, Failure> {
    let json = cli.json;
    let open = |file| file::open(file, cli.wait);
    let look = |file| file::look(file, cli.wait);
    match &cli.command {
        Command::Demo { file } => demo::run(file.as_deref(), json),
        Command::Init(args) => file::init(args, json),
        Command::Get(args) => records::get(&look(&args.place.file)?, args, json),
        Command::Put(args) => {
            let input = value::Input::read(&args.value, args.text, args.base64)?;
            records::put(&*open(&args.place.file)?, args, input, json)
        }
        Command::Scan(args) => scan::scan(&look(&args.file)?, args, json),
        Command::Delete(args) => records::delete(&*open(&args.place.file)?, args, json),
        Command::Transition(args) => records::transition(&*open(&args.place.file)?, args, json),
        Command::Apply(args) => apply::apply(args, cli.wait, json),
        Command::Tables { file } => file::tables(&look(file)?, json),
        Command::Machine(args) => machine::machine(&look(&args.file)?, args, json),
        Command::Keys { file, scope } => keys::list(&look(file)?, scope.as_deref(), json),
        Command::Forget { file, name } => keys::forget(&*open(file)?, name, json),
        Command::Sweep { file } => keys::sweep(&*open(file)?, json),
        Command::Stats { file } => file::stats(&look(file)?, file, json),
        Command::Check { file } => check::check(file, cli.wait, json),
        Command::Backup { file, to } => copies::backup(&look(file)?, to, json),
        Command::Restore(args) => copies::restore(args, cli.wait, json),
        Command::Compact { file } => copies::compact(file, cli.wait, json),
        Command::Export { file } => transfer::export(&look(file)?),
        Command::Import(args) => transfer::import(args, cli.wait, json),
        Command::Outbox(command) => outbox::run(command, cli.wait, json),
        Command::Clock(ClockCommand::Reset { file }) => file::reset_clock(&*open(file)?, json),
        Command::Completions { shell } => manual::completions(*shell, json),
        Command::Man { command } => manual::page(command, json),
        Command::DemoDelivery { file, technique, key } => demo::deliver_and_exit(file, technique, key),
    }
}

/// The same refusal, with what it quotes of the arguments made fit for a terminal.
fn quoted(mut refused: clap::Error) -> clap::Error {
    let of = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(ContextValue::String(answer::plain(text))),
        ContextValue::Strings(texts) => Some(ContextValue::Strings(
            texts.iter().map(|text| answer::plain(text)).collect(),
        )),
        _ => None,
    };
    let changed: Vec<_> = refused
        .context()
        .filter_map(|(kind, value)| Some((kind, of(value)?)).filter(|(_, new)| new != value))
        .collect();
    if !changed.is_empty() {
        // The tips quote as well, in a form that cannot be changed.
        refused.remove(ContextKind::Suggested);
    }
    for (kind, value) in changed {
        refused.insert(kind, value);
    }
    refused
}

/// Help and version are answers; all else is a usage error. The arguments could not be read, so whether JSON is wanted is
/// seen by the flag alone.
fn not_a_command(refused: &clap::Error) -> ExitCode {
    let json = std::env::args_os()
        .skip(1)
        .take_while(|arg| arg != "--")
        .any(|arg| arg == "--json");
    if refused.exit_code() == 0 {
        return match refused.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(cause) => answer::fail(&Failure::io("write the help to stdout", None, &cause), json),
        };
    }
    if json {
        let text = refused.to_string();
        let message = text.trim_end().strip_prefix("error: ").unwrap_or(&text);
        return answer::fail(&Failure::usage(message.trim_end()), true);
    }
    // There is nobody left to tell if stderr is closed too.
    let _ = refused.print();
    ExitCode::from(Failure::usage("").code())
}
