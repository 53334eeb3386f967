//! The rules themselves: each takes sources and gives what breaks it, as `file:line: what`.

use super::lex::{Kind, Token, code, lex};
use super::table::Table;

/// Lines a source file may have. About 400 is the aim; at this one the file must be cut.
pub const LINES_MAX: usize = 500;

/// One source file, by its path from the root of the repository.
pub struct Source {
    pub path: String,
    pub text: String,
    tokens: Vec<Token>,
    code: Vec<Token>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let tokens = lex(text);
        let code = code(&tokens);
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens,
            code,
        }
    }

    fn finding(&self, line: usize, says: &str) -> String {
        format!("{}:{line}: {says}", self.path)
    }

    /// The path of modules from the root of the crate to this file: `src/engine/base.rs` is `engine`, `base`.
    fn module_path(&self) -> Vec<&str> {
        let inner = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let inner = inner.strip_suffix(".rs").unwrap_or(inner);
        let inner = inner.strip_suffix("/mod").unwrap_or(inner);
        if inner == "lib" {
            Vec::new()
        } else {
            inner.split('/').collect()
        }
    }

    /// The module whose row judges this file.
    fn module(&self) -> &str {
        self.module_path().first().copied().unwrap_or("lib")
    }

    /// Whether the file is `place` or lies in the folder of that name; `place` has no ending.
    fn is_at(&self, place: &str) -> bool {
        self.path
            .strip_prefix(place)
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// Lines at which these tokens follow one another.
    fn lines_with(&self, words: &[&str]) -> impl Iterator<Item = usize> {
        let hits = self.code.windows(words.len());
        hits.filter(move |window| window.iter().zip(words).all(|(token, word)| token.is(word)))
            .map(|window| window[0].line)
    }
}

/// Each import is one that the table allows, and each file belongs to a module with a row.
pub fn imports(source: &Source, table: &Table) -> Vec<String> {
    let from = source.module();
    if !table.knows(from) {
        return vec![source.finding(1, &format!("module {from} has no row in the layer table"))];
    }
    // The command is a crate of its own: its `crate::` is itself, and the compiler keeps it to the public API.
    if from == "bin" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, name) in named_from_root(source) {
        let to = if table.knows(&name) { name.as_str() } else { "lib" };
        if !table.allows(from, to) {
            findings.push(source.finding(line, &format!("{from} may not import {to}")));
        }
    }
    findings
}

/// Each row of the table is about a module that exists.
pub fn rows_are_alive(sources: &[Source], table: &Table) -> Vec<String> {
    let gone = table
        .modules()
        .filter(|module| !sources.iter().any(|source| source.module() == *module));
    gone.map(|module| format!("the layer table has a row for {module}, which is no module"))
        .collect()
}

/// What the file names right below the root of the crate, through `crate::` or enough `super::`.
fn named_from_root(source: &Source) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    // Braces opened so far, and the depth at which each module written inside this file was opened.
    let mut depth = 0_usize;
    let mut inside = Vec::new();
    for at in 0..code.len() {
        if code[at].is("{") {
            depth += 1;
            if at >= 2 && code[at - 2].is("mod") {
                inside.push(depth);
            }
        } else if code[at].is("}") {
            if inside.last() == Some(&depth) {
                inside.pop();
            }
            depth = depth.saturating_sub(1);
        }
        let starts = code[at].is("crate") || code[at].is("super") || code[at].is("self");
        // `$crate` in an exported macro is a path of the user's; what follows `::` belongs to a path seen before.
        let goes_on = at > 0 && (code[at - 1].is("$") || code[at - 1].is("::"));
        let in_use_group = at > 0 && (code[at - 1].is("{") || code[at - 1].is(",")) && !code[at].is("crate");
        if starts && !goes_on && !(in_use_group && in_group_of_use(code, at)) {
            follow(code, at, source.module_path().len() + inside.len(), &mut found);
        }
    }
    found
}

/// Whether the braces around `at` belong to a path: `super::{self, super::x}` was followed from its beginning.
fn in_group_of_use(code: &[Token], at: usize) -> bool {
    let mut depth = 0_i32;
    for back in (1..at).rev() {
        if code[back].is("}") {
            depth += 1;
        } else if code[back].is("{") {
            depth -= 1;
            if depth < 0 {
                return code[back - 1].is("::");
            }
        } else if code[back].is(";") {
            return false;
        }
    }
    false
}

/// Follows one path from `at`, `height` modules below the root, into its groups. Gives where it ends.
fn follow(code: &[Token], mut at: usize, mut height: usize, found: &mut Vec<(usize, String)>) -> usize {
    while let Some(token) = code.get(at) {
        if token.is("{") {
            return follow_group(code, at, height, found);
        }
        if token.is("crate") {
            height = 0;
        } else if token.is("super") {
            height = height.saturating_sub(1);
        } else if !token.is("self") {
            if height == 0 && (token.word().is_some() || token.is("*")) {
                found.push((token.line, token.word().unwrap_or("*").to_owned()));
            }
            return at;
        }
        if !code.get(at + 1).is_some_and(|next| next.is("::")) {
            // `use crate as root` and `use super::{self as root}` would give the root another name.
            if height == 0 && code.get(at + 1).is_some_and(|next| next.is("as")) {
                found.push((token.line, "*".to_owned()));
            }
            return at;
        }
        at += 2;
    }
    at
}

fn follow_group(code: &[Token], open: usize, height: usize, found: &mut Vec<(usize, String)>) -> usize {
    let mut at = open + 1;
    let mut begins = true;
    let mut depth = 1;
    while let Some(token) = code.get(at) {
        if begins && !token.is("}") {
            at = follow(code, at, height, found);
            begins = false;
        } else if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        } else if token.is(",") && depth == 1 {
            begins = true;
        }
        at += 1;
    }
    at
}

/// Only the base names redb.
pub fn base_names_redb(source: &Source) -> Vec<String> {
    if source.path.starts_with("src/engine/base") {
        return Vec::new();
    }
    let lines = source.lines_with(&["redb"]);
    lines
        .map(|line| source.finding(line, "only src/engine/base names redb"))
        .collect()
}

/// Time, threads and files are reached through their doors only.
pub fn doors(source: &Source) -> Vec<String> {
    const DOORS: [(&[&str], &[&str], &str); 9] = [
        (&["getrandom"], &["src/random"], "randomness comes from random"),
        (
            &["SystemTime", "::", "now"],
            &["src/clock"],
            "the wall clock is read in clock",
        ),
        (
            &["Instant", "::", "now"],
            &["src/clock"],
            "the monotonic clock is read in clock",
        ),
        (&["thread", "::", "spawn"], &["src/sync"], "threads are started in sync"),
        (
            &["thread", "::", "Builder"],
            &["src/sync"],
            "threads are started in sync",
        ),
        (
            &["thread", "::", "sleep"],
            &["src/disk/file", "src/bin/sprag/demo/kill", "src/bin/sprag/outbox/watch"],
            "only what another process does is slept for: its lock, its queues, and in the demo the time to kill it",
        ),
        (
            &["fs", "::"],
            &["src/disk", "src/bin"],
            "files are reached through disk",
        ),
        (&["File", "::"], &["src/disk", "src/bin"], "files are opened in disk"),
        (
            &["OpenOptions", "::"],
            &["src/disk", "src/bin"],
            "files are opened in disk",
        ),
    ];
    let mut findings = Vec::new();
    for (words, places, says) in DOORS {
        if !places.iter().any(|place| source.is_at(place)) {
            findings.extend(source.lines_with(words).map(|line| source.finding(line, says)));
        }
    }
    findings
}

/// A source file starts with its head and fits its length.
pub fn shape(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    // The facade's head is the README.
    let heads = ["//!", "#![doc = include_str!(\"../README.md\")]"];
    if !heads.iter().any(|head| source.text.starts_with(head)) {
        findings.push(source.finding(
            1,
            "a source file begins with `//!`: what it owns, refuses, and may be relied on for",
        ));
    }
    let lines = source.text.lines().count();
    if lines > LINES_MAX {
        findings.push(source.finding(lines, &format!("file too long, lines={lines}, lines_max={LINES_MAX}")));
    }
    findings
}

/// Comments are ASCII.
pub fn comments(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for token in &source.tokens {
        let Kind::Comment(text) = &token.kind else { continue };
        for (offset, line) in text.lines().enumerate().filter(|(_, line)| !line.is_ascii()) {
            let foreign = line.chars().find(|c| !c.is_ascii()).unwrap_or_default();
            findings.push(source.finding(token.line + offset, &format!("comment is not ASCII, found={foreign:?}")));
        }
    }
    findings
}

/// No test at the foot of a source file; the models of the model checker are the exception.
pub fn tests_live_in_tests(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let is_model = source.code.iter().any(|token| token.is("loom"));
    for (line, attribute) in attributes(&source.code) {
        let says = |word: &str| attribute.iter().any(|token| token.is(word));
        let for_tests = attribute.first().is_some_and(|token| token.is("cfg")) && says("test") && !says("feature");
        let is_test = attribute.len() == 1 && says("test");
        if (for_tests && !says("loom")) || (is_test && !is_model) {
            findings.push(source.finding(line, "tests of behaviour live in tests/"));
        }
    }
    findings
}

/// What a test may not do: wait for real time, be switched off, or pass because something panicked.
pub fn tests_behave(source: &Source) -> Vec<String> {
    let mut findings: Vec<String> = Vec::new();
    findings.extend(
        source
            .lines_with(&["thread", "::", "sleep"])
            .map(|line| source.finding(line, "a test never sleeps")),
    );
    for (line, attribute) in attributes(&source.code) {
        if attribute
            .first()
            .is_some_and(|token| token.is("ignore") || token.is("should_panic"))
        {
            findings.push(source.finding(line, "a test is neither ignored nor asked to panic"));
        }
    }
    findings
}

/// The attributes of a file: line and the tokens between the brackets.
fn attributes(code: &[Token]) -> Vec<(usize, &[Token])> {
    let mut found = Vec::new();
    for at in 0..code.len() {
        let inner = usize::from(code.get(at + 1).is_some_and(|token| token.is("!")));
        if !code[at].is("#") || !code.get(at + 1 + inner).is_some_and(|token| token.is("[")) {
            continue;
        }
        let open = at + 2 + inner;
        let mut depth = 1;
        let end = (open..code.len()).find(|&i| {
            depth += i32::from(code[i].is("[")) - i32::from(code[i].is("]"));
            depth == 0
        });
        found.push((code[at].line, &code[open..end.unwrap_or(code.len())]));
    }
    found
}

/// The functions of a file that are run as tests.
pub fn test_functions(source: &Source) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for (at, token) in source.code.iter().enumerate() {
        if token.is("#")
            && source.code[at..]
                .iter()
                .zip(["#", "[", "test", "]"])
                .all(|(token, word)| token.is(word))
        {
            marked = true;
        } else if token.is("fn") && marked {
            marked = false;
            names.extend(source.code.get(at + 1).and_then(Token::word).map(str::to_owned));
        }
    }
    names
}

/// Each guarantee names tests that exist. A guarantee is an item of a list; it names them as
/// `(test: it::module::function)` or, for a model, `(model: module::function)`; several are divided by commas.
pub fn guarantees(document: &Source, tests: &[Source]) -> Vec<String> {
    let items = items(&document.text);
    let mut findings = Vec::new();
    if items.is_empty() {
        findings.push(document.finding(1, "no guarantee is listed"));
    }
    for (line, item) in items {
        if named_tests(&item).is_empty() {
            findings.push(document.finding(line, "a guarantee names no test"));
        }
        findings.extend(gone(document, line, &item, tests));
    }
    findings
}

/// Each test that a page names exists. Which of its sentences need one is for the page to say.
pub fn named_tests_exist(document: &Source, tests: &[Source]) -> Vec<String> {
    let lines = document.text.lines().enumerate();
    lines
        .flat_map(|(index, line)| gone(document, index + 1, line, tests))
        .collect()
}

fn gone(document: &Source, line: usize, text: &str, tests: &[Source]) -> Vec<String> {
    let missing = named_tests(text).into_iter().filter(|name| !exists(name, tests));
    missing
        .map(|name| document.finding(line, &format!("no such test, name={name}")))
        .collect()
}

/// The items of all lists: where each begins, and its text with the lines that go on with it.
fn items(text: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("- ") {
            items.push((index + 1, line.to_owned()));
            open = true;
        } else if open && line.starts_with("  ") {
            if let Some((_, item)) = items.last_mut() {
                item.push(' ');
                item.push_str(line.trim());
            }
        } else {
            open = false;
        }
    }
    items
}

pub fn named_tests(item: &str) -> Vec<String> {
    let mut names = Vec::new();
    for marker in ["(test: ", "(tests: ", "(model: ", "(models: "] {
        for part in item.split(marker).skip(1) {
            let list = part.split(')').next().unwrap_or("");
            names.extend(list.split(',').map(|name| name.trim().trim_matches('`').to_owned()));
        }
    }
    names
}

/// `it::a::b` is test function `b` in `tests/it/a.rs` or in the folder of that name; `a::b` is a model in `src/`.
fn exists(name: &str, tests: &[Source]) -> bool {
    let Some((module, function)) = name.rsplit_once("::") else {
        return false;
    };
    let place = match module.strip_prefix("it::") {
        Some(inner) => format!("tests/it/{}", inner.replace("::", "/")),
        None => format!("src/{}", module.replace("::", "/")),
    };
    let files = [format!("{place}.rs"), format!("{place}/mod.rs")];
    let mut homes = tests.iter().filter(|source| files.contains(&source.path));
    homes.any(|source| test_functions(source).iter().any(|known| known == function))
}
