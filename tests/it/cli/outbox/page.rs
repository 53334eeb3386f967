//! The loop that the guide shows, run as it stands there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::super::Place;
use super::{counts, enqueue};

/// The second script of the page: the first one is wrong.
fn script(lease: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/outbox-shell.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let script = page.split("```sh\n").nth(2).and_then(|rest| rest.split("```").next());
    let script = script.expect("two scripts");
    assert!(script.contains("--lease 2m"), "{script}");
    script.replace("--lease 2m", &format!("--lease {lease}"))
}

/// Runs the loop with a `send` that says what it got, and ends as `more` says. Gives its exit code.
fn run(place: &Place, lease: &str, more: &str) -> Option<i32> {
    let program = Path::new(env!("CARGO_BIN_EXE_sprag"));
    let mut path = program.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let send = format!(
        "send() {{ printf '%s %s\\n' \"$2\" \"$3\" >> sent.txt; {more}; }}\n{}",
        script(lease)
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &send])
        .env("PATH", path)
        .current_dir(place.dir.path());
    shell.status().expect("a shell").code()
}

/// Of each payload, how often it was sent under which effect ids.
fn sent(place: &Place) -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(place.path("sent.txt")).expect("what was sent");
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let (effect, payload) = line.split_once(' ').expect("two parts");
        assert_eq!(effect.len(), 32, "{line}");
        sent.entry(payload.to_owned()).or_default().push(effect.to_owned());
    }
    sent
}

#[test]
fn the_loop_of_the_page_delivers_each_message_and_a_kill_repeats_its_effect_id() {
    let place = Place::with_store();
    enqueue(
        &place,
        "mail",
        &["{\"to\": \"ann\", \"text\": \"two  spaces \\\\ $HOME\"}", "--key", "k"],
    );
    enqueue(&place, "mail", &["2", "--key", "k"]);
    enqueue(&place, "mail", &["3"]);
    // This lease is over when the next run begins.
    assert_eq!(run(&place, "1ms", "kill -9 $$"), None);
    assert_eq!(counts(&place, "mail"), [1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(run(&place, "2m", "true"), Some(0));
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 0, 1, 0]);
    let sent = sent(&place);
    let times: Vec<_> = sent
        .iter()
        .map(|(payload, effects)| (payload.as_str(), effects.len()))
        .collect();
    let first = "{\"to\":\"ann\",\"text\":\"two  spaces \\\\ $HOME\"}";
    assert_eq!(times, [("2", 1), ("3", 1), (first, 2)]);
    assert_eq!(sent[first][0], sent[first][1]);
    // One that cannot be sent is delivered again later, and stops nobody.
    enqueue(&place, "mail", &["4", "--failures", "1"]);
    enqueue(&place, "mail", &["5"]);
    assert_eq!(run(&place, "2m", "[ \"$3\" != 4 ]"), Some(0));
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 1, 1, 0]);
    // A failure of the claim is the failure of the loop.
    std::fs::remove_file(&place.file).expect("removed");
    assert_eq!(run(&place, "2m", "true"), Some(4));
}
