//! The guide: each page tells its failure first, can be found, points to what is there, and shows nothing that is not run.
//!
//! Its Rust is run by the tests of the documentation (`guide` in `src/lib.rs`), its commands here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::tidy::rules::{self, Source};
use crate::tidy::{read, root, sources};

const FOLDER: &str = "docs/guide";
const START: &str = "docs/guide/README.md";

/// What the page of a technique has to say, in this order.
const SECTIONS: [&str; 6] = [
    "What goes wrong",
    "What to write",
    "The answers, and what to do",
    "What it does not protect from",
    "Limits",
    "Shown by",
];

/// Pages that are no technique. They too begin with what goes wrong.
const OTHERS: [&str; 2] = ["docs/guide/from-sqlite.md", "docs/guide/operations.md"];

/// All texts in a folder and below.
fn texts(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let path = format!("{folder}/{name}");
        if root().join(&path).is_dir() {
            found.extend(texts(&path));
        } else if path.ends_with(".md") {
            found.push(read(&path));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The pages behind the first one.
fn pages() -> Vec<Source> {
    let pages: Vec<Source> = texts(FOLDER).into_iter().filter(|page| page.path != START).collect();
    assert!(pages.len() >= 9, "pages are missing, pages={}", pages.len());
    pages
}

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// A fenced block: its language as written, and its lines.
struct Block<'a> {
    language: &'a str,
    lines: Vec<&'a str>,
}

/// The blocks of a text, and the text without them.
fn split(text: &str) -> (Vec<Block<'_>>, String) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut open: Option<Block<'_>> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block {
                    language,
                    lines: Vec::new(),
                });
            }
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {
                prose.push_str(line);
                prose.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block does not end");
    (blocks, prose)
}

fn headings(prose: &str) -> Vec<&str> {
    prose.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

/// Destinations of the links of a text.
fn links(prose: &str) -> Vec<&str> {
    let ends = prose.split("](").skip(1);
    ends.filter_map(|rest| rest.split(')').next()).collect()
}

/// The name by which a link reaches a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let (_, prose) = split(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim_start()))
        .collect()
}

/// A path without `..`; `None` if it leads out of the repository.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !out.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            other => out.push(other),
        }
    }
    Some(out)
}

/// Links that lead nowhere. `there` gives the text of a file, or nothing of a folder, or nothing at all.
fn broken_links(page: &Source, there: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let (_, prose) = split(&page.text);
    let mut findings = Vec::new();
    for link in links(&prose) {
        if link.contains("://") {
            continue;
        }
        let (file, part) = link.split_once('#').unwrap_or((link, ""));
        let text = if file.is_empty() {
            Some(page.text.clone())
        } else {
            let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
            plain(&folder.join(file)).and_then(|target| there(&target))
        };
        if text.is_none_or(|text| !part.is_empty() && !anchors(&text).contains(part)) {
            findings.push(format!("{}: a link leads nowhere, link={link}", page.path));
        }
    }
    findings
}

/// A file of the repository, or a folder as an empty text.
fn on_disk(path: &Path) -> Option<String> {
    let path = root().join(path);
    if path.is_dir() {
        return Some(String::new());
    }
    fs::read(path)
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What the page of a technique lacks.
fn lacks(page: &Source) -> Vec<String> {
    let (blocks, prose) = split(&page.text);
    let mut findings = Vec::new();
    let headings = headings(&prose);
    if headings.first() != SECTIONS.first() {
        findings.push(format!("{}: does not begin with what goes wrong", page.path));
    }
    if !blocks.first().is_some_and(|block| {
        block
            .lines
            .iter()
            .any(|line| line.contains("wrong") || line.contains("Wrong"))
    }) {
        findings.push(format!("{}: does not show the wrong code first", page.path));
    }
    if OTHERS.contains(&page.path.as_str()) {
        return findings;
    }
    let said: Vec<&str> = headings
        .into_iter()
        .filter(|heading| SECTIONS.contains(heading))
        .collect();
    if said != SECTIONS {
        findings.push(format!(
            "{}: sections are missing or in another order, found={said:?}",
            page.path
        ));
    }
    findings
}

#[test]
fn every_page_is_linked_from_the_first_one() {
    let start = read(START);
    let (_, prose) = split(&start.text);
    let linked: BTreeSet<String> = links(&prose)
        .into_iter()
        .map(|link| format!("{FOLDER}/{link}"))
        .collect();
    let unlinked = pages().into_iter().filter(|page| !linked.contains(&page.path));
    none(
        &unlinked
            .map(|page| format!("{}: not linked from the first page", page.path))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_link_of_the_documents_leads_to_what_is_there() {
    let mut documents = texts("docs");
    documents.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(read));
    none(
        &documents
            .iter()
            .flat_map(|page| broken_links(page, on_disk))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_test_that_a_page_names_exists_and_every_page_names_one() {
    let mut homes = sources("tests");
    homes.extend(sources("src"));
    let mut findings = Vec::new();
    for page in pages() {
        if rules::named_tests(&page.text).is_empty() {
            findings.push(format!("{}: names no test", page.path));
        }
        findings.extend(rules::named_tests_exist(&page, &homes));
    }
    none(&findings);
}

#[test]
fn every_page_tells_its_failure_first_and_then_all_that_a_technique_has_to_say() {
    none(&pages().iter().flat_map(lacks).collect::<Vec<_>>());
}

/// Rust is run by the tests of the documentation, if they know the page and no block is left out.
#[test]
fn nothing_is_shown_that_is_not_run() {
    let library = read("src/lib.rs").text;
    let mut findings = Vec::new();
    for page in pages() {
        if !library.contains(&format!("include_str!(\"../{}\")", page.path)) {
            findings.push(format!("{}: its code is not compiled", page.path));
        }
        let (blocks, _) = split(&page.text);
        if !blocks.iter().any(|block| matches!(block.language, "rust" | "console")) {
            findings.push(format!("{}: shows no code", page.path));
        }
        for block in blocks {
            let is_run = match block.language {
                "rust" => block.lines.iter().any(|line| line.contains("assert")),
                "sql" => page.path == "docs/guide/from-sqlite.md",
                language => matches!(language, "console" | "json" | "sh"),
            };
            if !is_run {
                findings.push(format!(
                    "{}: a block that shows nothing, language={}",
                    page.path, block.language
                ));
            }
        }
    }
    none(&findings);
}

/// Commands as a page shows them, with what comes out. A block of JSON is the file `batch.json`.
#[cfg(unix)]
#[test]
fn commands_say_what_the_pages_say_they_do() {
    let program = Path::new(env!("CARGO_BIN_EXE_sprag"));
    let mut folders = vec![program.parent().expect("a folder").to_path_buf()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(folders).expect("a path");
    let mut commands = 0;
    for page in pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let (blocks, _) = split(&page.text);
        for block in blocks {
            match block.language {
                "json" => fs::write(folder.path().join("batch.json"), block.lines.join("\n")).expect("written"),
                "console" => {
                    let whole = block.lines.join("\n");
                    for step in whole.strip_prefix("$ ").expect("a command first").split("\n$ ") {
                        let (command, wanted) = step.split_once('\n').unwrap_or((step, ""));
                        let mut shell = Command::new("sh");
                        shell.args(["-c", command]).env("PATH", &path).current_dir(&folder);
                        let output = shell.output().expect("a shell");
                        let said = [output.stdout, output.stderr].concat();
                        let said = String::from_utf8(said).expect("text");
                        assert_eq!(said.trim_end(), wanted, "{}: {command}", page.path);
                        commands += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(commands > 10, "hardly a command was run, commands={commands}");
}

// From here on: the checks are shown to be able to fail.

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let there = |path: &Path| match path.to_str() {
        Some("docs/a.md") => Some("# A\n\n```sh\n# no heading\n```\n\n## \"No\" that stays, it's so\n".to_owned()),
        Some("docs") => Some(String::new()),
        _ => None,
    };
    let judge = |text: &str| broken_links(&Source::new("docs/guide/b.md", text), there).len();
    for fine in [
        "[a](../a.md) [a](../a.md#no-that-stays-its-so) [d](../../docs) [s](https://example.org/x#y)",
        "# Here\n\n[here](#here)",
        "```rust\n[no](link.md)\n```",
    ] {
        assert_eq!(judge(fine), 0, "{fine}");
    }
    for broken in [
        "[a](a.md)",
        "[a](../a.md#no-heading)",
        "[a](#there)",
        "a [wrapped\nlink](../../../docs)",
    ] {
        assert_eq!(judge(broken), 1, "{broken}");
    }
}

#[test]
fn a_page_that_does_not_tell_its_failure_first_is_found() {
    let wrong = "```rust\n// Wrong: it adds.\n```\n";
    let page = |sections: &[&str], first: &str| {
        let sections: String = sections
            .iter()
            .map(|section| format!("## {section}\n\n{first}"))
            .collect();
        lacks(&Source::new("docs/guide/b.md", &format!("# Title\n\n{sections}"))).len()
    };
    assert_eq!(page(&SECTIONS, wrong), 0);
    assert_eq!(page(&SECTIONS, "```rust\n// right\n```\n"), 1);
    assert_eq!(page(&SECTIONS[..5], wrong), 1);
    let mut turned = SECTIONS;
    turned.swap(0, 1);
    assert_eq!(page(&turned, wrong), 2);
}
