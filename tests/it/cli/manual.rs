//! Completions and pages of the manual, which need no store.

use std::process::{Command, Stdio};

use super::Place;

const COMMANDS: [&str; 24] = [
    "demo",
    "init",
    "get",
    "put",
    "scan",
    "delete",
    "transition",
    "apply",
    "tables",
    "machine",
    "keys",
    "forget",
    "sweep",
    "stats",
    "check",
    "backup",
    "restore",
    "compact",
    "export",
    "import",
    "outbox",
    "clock",
    "completions",
    "man",
];

#[test]
fn each_shell_gets_completions_that_name_every_command() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let seen = place.run(&["completions", shell]);
        assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{shell}");
        for command in COMMANDS {
            assert!(seen.out.contains(command), "{shell} {command}");
        }
        assert!(
            seen.out.contains("--if-version") || seen.out.contains("if-version"),
            "{shell}"
        );
        assert!(!seen.out.contains("demo-delivery"), "{shell}");
        let object: serde_json::Value =
            serde_json::from_str(&place.json(&["completions", shell]).out).expect("an object");
        assert_eq!(object["shell"], shell);
        let script = object["script"].as_str().expect("a script");
        assert_eq!(script.trim_end(), seen.out.trim_end());
    }
    place.json(&["completions", "csh"]).fails(2, "usage");
    place.json(&["completions"]).fails(2, "usage");
}

/// bash reads the script and completes a command by it.
#[cfg(target_os = "linux")]
#[test]
fn bash_completes_a_command_by_its_script() {
    let place = Place::new();
    let script = "source <(\"$0\" completions bash) && COMP_WORDS=(sprag tran) COMP_CWORD=1 && _sprag sprag tran sprag && \
        echo \"${COMPREPLY[@]}\"";
    let seen: super::Seen = Command::new("bash")
        .args(["--norc", "-c", script, env!("CARGO_BIN_EXE_sprag")])
        .stdin(Stdio::null())
        .output()
        .expect("bash starts")
        .into();
    seen.says("transition");
    drop(place);
}

#[test]
fn each_command_has_a_page_with_its_exit_codes() {
    let place = Place::new();
    let root = place.run(&["man"]);
    assert_eq!((root.code, root.err.as_str()), (Some(0), ""));
    assert!(root.out.contains("\n.TH sprag 1"), "{}", root.out);
    for command in COMMANDS {
        assert!(root.out.contains(&format!("sprag\\-{command}(1)")), "{command}");
        let page = place.run(&["man", command]);
        assert_eq!((page.code, page.err.as_str()), (Some(0), ""), "{command}");
        assert!(page.out.contains(&format!("\n.TH sprag-{command} 1")), "{}", page.out);
        assert!(
            page.out.contains("\n.SH \"OUTPUT AND EXIT CODES\"\n.nh\n.ad l\n"),
            "{command}"
        );
        assert!(page.out.contains("\nExit codes:\n"), "{command}");
        assert!(page.out.contains(&format!("\\fBsprag {command}\\fR ")), "{}", page.out);
        let object: serde_json::Value = serde_json::from_str(&place.json(&["man", command]).out).expect("an object");
        assert_eq!(object["command"], format!("sprag {command}"));
        let text = object["page"].as_str().expect("a page");
        assert_eq!(text.trim_end(), page.out.trim_end());
    }
    // A text behind a list begins a new line.
    assert!(root.out.contains("}]}\n.br\nIf a change was made"), "{}", root.out);
    for verb in ["enqueue", "claim", "watch"] {
        let page = place.run(&["man", "outbox", verb]);
        assert!(
            page.out.contains(&format!("\\fBsprag outbox {verb}\\fR ")),
            "{}",
            page.out
        );
        assert!(page.out.contains("\nExit codes:\n"), "{verb}");
    }
    let reset = place.run(&["man", "clock", "reset"]);
    assert!(reset.out.contains("\\fBsprag clock reset\\fR "), "{}", reset.out);
    for none in [
        &["man", "bogus"][..],
        &["man", "clock", "bogus"],
        &["man", "demo-delivery"],
        &["man", "help"],
    ] {
        place.json(none).fails(2, "usage");
    }
}
