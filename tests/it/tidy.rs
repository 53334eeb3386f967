//! The repository checks its own rules: who may import whom, one door for each dangerous thing, the shape of files, and
//! that each guarantee names a test that exists.
//!
//! Each rule is shown twice: the repository obeys it, and a small made-up source that breaks it is found.

mod lex;
pub mod rules;
mod table;

use std::fs;
use std::path::Path;

use rules::Source;
use table::Table;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> Source {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|cause| panic!("cannot read {path}: {cause}"));
    Source::new(path, &text)
}

/// All Rust sources below a folder, in the order of their paths. A folder that is not there has none.
pub fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root().join(&folder)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.expect("a readable folder");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("a file type").is_dir() {
                folders.push(path);
            } else if path.ends_with(".rs") {
                found.push(read(&path));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn layer_table() -> Table {
    Table::parse(&read("docs/ARCHITECTURE.md").text).unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")))
}

/// Fails with everything that was found, so that one run shows all there is to do.
fn must_be_clean(folder: &str, rule: impl Fn(&Source) -> Vec<String>) {
    let sources = sources(folder);
    assert!(!sources.is_empty(), "no source was read, folder={folder}");
    let findings: Vec<String> = sources.iter().flat_map(rule).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn imports_follow_the_layer_table() {
    let table = layer_table();
    must_be_clean("src", |source| rules::imports(source, &table));
}

#[test]
fn the_layer_table_is_not_stale() {
    let findings = rules::rows_are_alive(&sources("src"), &layer_table());
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn only_the_base_names_redb() {
    must_be_clean("src", rules::base_names_redb);
}

#[test]
fn time_threads_and_files_have_one_door_each() {
    must_be_clean("src", rules::doors);
}

#[test]
fn source_files_have_a_head_and_fit_their_length() {
    must_be_clean("src", rules::shape);
}

#[test]
fn comments_are_ascii() {
    must_be_clean("src", rules::comments);
    must_be_clean("tests", rules::comments);
}

#[test]
fn tests_of_behaviour_live_in_tests() {
    must_be_clean("src", rules::tests_live_in_tests);
}

#[test]
fn tests_do_not_sleep_and_are_not_switched_off() {
    must_be_clean("tests", rules::tests_behave);
}

#[test]
fn each_guarantee_names_a_test_that_exists() {
    let mut homes = sources("tests");
    homes.extend(sources("src"));
    let findings = rules::guarantees(&read("docs/GUARANTEES.md"), &homes);
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

// From here on: the checker is shown to be able to fail.

const TABLE: &str = "
| layer | module | owns | may import |
|---|---|---|---|
| 0 | `error` | kinds | - |
| 1 | `disk` | bytes | `error` |
| 1 | `group` | order | `error` |
| 2 | `engine` | log | `error`, `disk`, `group` |
| 3 | `lib` | facade | `engine`, `error` |
| 4 | `bin` | command | `lib` |
";

/// What the import rule finds in a made-up file.
fn imports_in(path: &str, text: &str) -> Vec<String> {
    let table = Table::parse(TABLE).expect("a sound table");
    rules::imports(&Source::new(path, text), &table)
}

#[test]
fn an_import_upward_is_named_with_its_line_and_both_modules() {
    let found = imports_in(
        "src/group.rs",
        "//! head\n\nuse crate::error::Error;\nuse crate::engine::View;\n",
    );
    assert_eq!(found, ["src/group.rs:4: group may not import engine"]);
}

#[test]
fn an_import_sideways_is_found() {
    assert_eq!(
        imports_in("src/disk/file.rs", "use crate::group::Group;"),
        ["src/disk/file.rs:1: disk may not import group"]
    );
}

#[test]
fn an_allowed_import_and_the_own_module_pass() {
    let text = "use crate::disk::Disk;\nuse crate::engine::log;\nuse super::base;\nuse super::super::group::Group;\nuse self::x::y;";
    assert_eq!(
        imports_in("src/engine/log/mod.rs", "use super::super::error;"),
        Vec::<String>::new()
    );
    assert_eq!(imports_in("src/engine/log.rs", text), Vec::<String>::new());
}

#[test]
fn every_way_of_naming_a_module_is_seen() {
    let ways = [
        "use crate::engine::View;",
        "pub use crate::engine as e;",
        "use crate::{error::Error, engine::{self, View}};",
        "use crate::{error::{Error, ErrorKind}, engine};",
        "fn f() { crate::engine::open(); }",
        "fn f(x: &crate::engine::View) {}",
        "fn f() { g(1, crate::engine::x) }",
        "use super::engine::View;",
        "use super::{error, engine::View};",
        "use self::super::engine;",
        "fn f() { super::engine::open() }",
        "mod inner { use super::super::engine; }",
        "mod inner { use super::{x, super::engine}; }",
        "pub(in crate::engine) fn f() {}",
        "use crate::r#engine;",
        "use crate :: /* why */ engine;",
        "const A: &str = \"\\\"\"; const B: char = '\"'; const C: &str = r#\"\"\"#; use crate::engine;",
    ];
    for text in ways {
        assert_eq!(
            imports_in("src/group.rs", text),
            ["src/group.rs:1: group may not import engine"],
            "{text}"
        );
    }
}

#[test]
fn taking_a_name_from_the_facade_is_an_import_of_lib() {
    for text in [
        "use crate::Store;",
        "use crate::*;",
        "use super::*;",
        "use crate as root;",
        "use crate::{self as root};",
    ] {
        assert_eq!(
            imports_in("src/engine.rs", text),
            ["src/engine.rs:1: engine may not import lib"],
            "{text}"
        );
    }
    assert_eq!(
        imports_in("src/lib.rs", "pub use crate::engine::View; fn f() { crate::g() }"),
        Vec::<String>::new()
    );
}

#[test]
fn what_only_looks_like_an_import_passes() {
    let texts = [
        "// use crate::engine::View;",
        "/* use crate::engine; /* nested */ use crate::engine; */",
        "/// See [`crate::engine`].\nfn f() {}",
        "const A: &str = \"use crate::engine;\";",
        "const A: &str = r#\"use \"crate::engine\";\"#;",
        "macro_rules! m { () => { $crate::engine::open() } }",
        "mod inner { use super::engine_of_group; }",
        "pub(crate) fn f<'a>(x: &'a str) {} pub(super) fn g() {}",
        "use other::{self, engine}; fn f(&self) { self.engine() }",
    ];
    for text in texts {
        assert_eq!(imports_in("src/group.rs", text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(
        imports_in("src/bin/sprag/main.rs", "use crate::engine;"),
        Vec::<String>::new()
    );
}

#[test]
fn a_module_without_a_row_is_found() {
    assert_eq!(
        imports_in("src/helpers.rs", "//! head"),
        ["src/helpers.rs:1: module helpers has no row in the layer table"]
    );
}

#[test]
fn a_row_without_a_module_is_found() {
    let table = Table::parse(TABLE).expect("a sound table");
    let paths = [
        "src/error.rs",
        "src/disk/mod.rs",
        "src/disk/file.rs",
        "src/engine.rs",
        "src/lib.rs",
        "src/bin/sprag.rs",
    ];
    let sources = paths.map(|path| Source::new(path, ""));
    let found = rules::rows_are_alive(&sources, &table);
    assert_eq!(found, ["the layer table has a row for group, which is no module"]);
}

#[test]
fn a_table_that_allows_a_circle_is_refused() {
    let head = "| layer | module | owns | may import |\n|---|---|---|---|\n";
    let wrong_rows = [
        (
            "| 0 | `a` | x | `b` |\n| 1 | `b` | x | - |",
            "names b, which stands in no layer above it",
        ),
        (
            "| 0 | `a` | x | - |\n| 0 | `b` | x | `a` |",
            "names a, which stands in no layer above it",
        ),
        ("| 0 | `a` | x | `a` |", "names a, which stands in no layer above it"),
        (
            "| 0 | `a` | x | `nowhere` |",
            "names nowhere, which stands in no layer above it",
        ),
        ("| 0 | `a` | x | - |\n| 1 | `a` | x | - |", "a has two rows"),
        ("| 0 | `a` | x | everything |", "names no module and is not `-`"),
        ("| 0 | `a`, `b` | x | - |", "must own one module"),
        ("| 0 | `a` |  | - |", "does not say what it owns"),
        ("| 0 | `a` | - |", "3 cells instead of 4"),
    ];
    for (rows, says) in wrong_rows {
        let wrong = Table::parse(&format!("{head}{rows}\n")).expect_err(rows);
        assert!(wrong.iter().any(|line| line.contains(says)), "{rows}: {wrong:?}");
    }
    assert!(Table::parse("no table at all").is_err());
}

#[test]
fn redb_outside_the_base_is_found() {
    let text = "//! About redb.\nuse redb::Database;\n";
    assert_eq!(
        rules::base_names_redb(&Source::new("src/engine/base.rs", text)),
        Vec::<String>::new()
    );
    assert_eq!(
        rules::base_names_redb(&Source::new("src/engine/base_cache.rs", text)),
        Vec::<String>::new()
    );
    let found = rules::base_names_redb(&Source::new("src/engine/mod.rs", text));
    assert_eq!(found, ["src/engine/mod.rs:2: only src/engine/base names redb"]);
}

#[test]
fn a_second_door_is_found() {
    let cases = [
        ("let t = std::time::SystemTime::now();", "src/clock.rs"),
        ("let t = Instant::now();", "src/clock/system.rs"),
        ("std::thread::spawn(f);", "src/sync.rs"),
        ("thread::Builder::new()", "src/sync.rs"),
        ("std::thread::sleep(d);", "src/disk/file.rs"),
        ("std::thread::sleep(d);", "src/bin/sprag/demo/kill.rs"),
        ("std::fs::rename(a, b)", "src/disk/file.rs"),
        ("File::open(p)", "src/disk/file.rs"),
        ("OpenOptions::new()", "src/bin/sprag/main.rs"),
    ];
    for (text, door) in cases {
        assert_eq!(rules::doors(&Source::new("src/store.rs", text)).len(), 1, "{text}");
        assert_eq!(rules::doors(&Source::new(door, text)), Vec::<String>::new(), "{text}");
        assert_eq!(
            rules::doors(&Source::new("src/store.rs", &format!("// {text}"))),
            Vec::<String>::new(),
            "{text}"
        );
    }
    assert_eq!(
        rules::doors(&Source::new("src/clockwork.rs", "Instant::now()")).len(),
        1
    );
}

#[test]
fn a_missing_head_and_a_long_file_are_found() {
    let fits = format!("//! head\n{}", "fn f() {}\n".repeat(rules::LINES_MAX - 1));
    assert_eq!(rules::shape(&Source::new("src/a.rs", &fits)), Vec::<String>::new());
    let found = rules::shape(&Source::new("src/a.rs", &format!("{fits}\n")));
    assert_eq!(found, ["src/a.rs:501: file too long, lines=501, lines_max=500"]);
    assert_eq!(
        rules::shape(&Source::new("src/a.rs", "use std::fmt;\n//! late\n")).len(),
        1
    );
}

#[test]
fn a_comment_that_is_not_ascii_is_found_and_a_text_may_be() {
    let found = rules::comments(&Source::new(
        "src/a.rs",
        "//! head\n/* one\n caf\u{e9} */\nlet s = \"\u{e9}\";",
    ));
    assert_eq!(found, ["src/a.rs:3: comment is not ASCII, found='\u{e9}'"]);
}

#[test]
fn tests_at_the_foot_of_a_source_file_are_found() {
    let foot = "fn f() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn works() {}\n}\n";
    let found = rules::tests_live_in_tests(&Source::new("src/a.rs", foot));
    assert_eq!(
        found,
        [
            "src/a.rs:2: tests of behaviour live in tests/",
            "src/a.rs:4: tests of behaviour live in tests/"
        ]
    );
    assert_eq!(
        rules::tests_live_in_tests(&Source::new("src/a.rs", "#![cfg(all(unix, test))]")).len(),
        1
    );
    for fine in [
        "#[cfg(all(test, loom))]\nmod model { #[test]\n fn x() { loom::model(|| {}); } }",
        "#[cfg(any(test, feature = \"test-util\"))]\npub mod sim;",
        "#[cfg(target_os = \"linux\")]\nfn f() {}",
        "fn test() {}",
    ] {
        assert_eq!(
            rules::tests_live_in_tests(&Source::new("src/a.rs", fine)),
            Vec::<String>::new(),
            "{fine}"
        );
    }
}

#[test]
fn a_sleeping_or_ignored_test_is_found() {
    let text =
        "#[test]\n#[ignore = \"slow\"]\nfn a() { std::thread::sleep(d); }\n#[test]\n#[should_panic]\nfn b() {}\n";
    assert_eq!(rules::tests_behave(&Source::new("tests/it/a.rs", text)).len(), 3);
    let fine = "#[test]\nfn a() { clock.advance(d); }\n";
    assert_eq!(
        rules::tests_behave(&Source::new("tests/it/a.rs", fine)),
        Vec::<String>::new()
    );
}

#[test]
fn a_guarantee_without_a_living_test_is_found() {
    let homes = [
        Source::new(
            "tests/it/records.rs",
            "#[test]\nfn holds() {}\nfn helper() {}\n// #[test] fn dead() {}\n",
        ),
        Source::new(
            "tests/it/crash/mod.rs",
            "proptest! {\n#[test]\n#[expect(x)]\nfn survives(n in 0..9) {} }",
        ),
        Source::new("src/group/model.rs", "#[test]\nfn nobody_is_lost() { loom::model(f) }"),
    ];
    let judge = |text: &str| rules::guarantees(&Source::new("docs/GUARANTEES.md", text), &homes);
    let fine = "# Title\n\nProse.\n\n- One. (test: it::records::holds)\n- Two\n  lines (tests: it::crash::survives,\n  \
                `it::records::holds`) (model: group::model::nobody_is_lost)\n";
    assert_eq!(judge(fine), Vec::<String>::new());
    assert_eq!(
        judge("- One.\n\n(test: it::records::holds)\n"),
        ["docs/GUARANTEES.md:1: a guarantee names no test"]
    );
    assert_eq!(judge("Only prose.\n"), ["docs/GUARANTEES.md:1: no guarantee is listed"]);
    for gone in [
        "it::records::helper",
        "it::records::dead",
        "it::records::missing",
        "it::other::holds",
        "records::holds",
        "x",
        "",
    ] {
        assert_eq!(judge(&format!("- One. (test: {gone})\n")).len(), 1, "{gone}");
    }
}
