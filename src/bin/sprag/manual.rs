//! `completions` and `man`: made from the same description as the help, so that they tell of the same words.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use serde::Serialize;

use crate::answer::{Answer, Work};
use crate::args::Cli;
use crate::failure::Failure;

#[derive(Serialize)]
struct Completions {
    shell: String,
    script: String,
}

pub fn completions(shell: Shell, json: bool) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "sprag", &mut script);
    let shown = Completions {
        shell: shell.to_string(),
        script: text(script),
    };
    Answer::new(json, Work::Read, &shown, || shown.script.trim_end().to_owned())
}

/// The command without what is nobody's: scripts would offer it.
fn visible() -> Command {
    let all = Cli::command();
    let subcommands = all.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("sprag")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments())
        .subcommands(subcommands)
}

#[derive(Serialize)]
struct Page {
    command: String,
    page: String,
}

pub fn page(names: &[String], json: bool) -> Result<Answer, Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut command = &root;
    for name in names {
        command = subcommand(command, name).ok_or_else(|| {
            let asked = names.join(" ");
            Failure::usage(format!("there is no such command, command={asked}"))
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .source(format!("sprag {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .map_err(|cause| Failure::io("make the page", None, &cause))?;
    let shown = Page {
        command: command.get_bin_name().unwrap_or("sprag").to_owned(),
        page: with_lists(&text(page)),
    };
    Answer::new(json, Work::Read, &shown, || shown.page.trim_end().to_owned())
}

fn subcommand<'c>(command: &'c Command, name: &str) -> Option<&'c Command> {
    command.find_subcommand(name).filter(|command| !command.is_hide_set())
}

/// What stands behind the arguments in a help are lists as well as text. Their lines are indented, which begins a new line
/// also here; that they end is to be said. Nothing in them is filled up with spaces or hyphenated.
fn with_lists(page: &str) -> String {
    let Some((arguments, extra)) = page.split_once(".SH EXTRA\n") else {
        return page.to_owned();
    };
    let mut out = format!("{arguments}.SH \"OUTPUT AND EXIT CODES\"\n.nh\n.ad l\n");
    let mut in_list = false;
    for line in extra.lines() {
        if in_list && !line.starts_with(' ') {
            out.push_str(".br\n");
        }
        in_list = line.starts_with(' ');
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
