//! Queues and messages from a shell: each verb's words, its object, its exit codes, and what is stored then.

mod claims;
mod dead;
mod messages;
#[cfg(unix)]
mod page;
mod refused;
mod watch;

use super::{Place, Seen};

/// What a queue has: ready, scheduled, claimed, blocked, dead, interruptions, discarded.
fn counts(place: &Place, queue: &str) -> [u64; 7] {
    let seen = place.json(&["outbox", "list", "FILE"]);
    let queues = seen
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    let mut named = queues.filter(|object: &serde_json::Value| object["queue"] == queue);
    let object = named.next().unwrap_or_else(|| panic!("no such queue in {seen:?}"));
    let names = [
        "ready",
        "scheduled",
        "claimed",
        "blocked",
        "dead",
        "interruptions",
        "discarded",
    ];
    names.map(|name| object[name].as_u64().expect("a number"))
}

/// The answer as an object.
fn object(seen: &Seen) -> serde_json::Value {
    serde_json::from_str(&seen.out).unwrap_or_else(|_| panic!("{seen:?}"))
}

/// The lines of an answer with exit code 0 and an empty stderr, with TIME and EFFECT for what differs from run to run.
fn lines(seen: &Seen) -> Vec<String> {
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{seen:?}");
    seen.out.lines().map(steady).collect()
}

fn steady(line: &str) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, ':' | '.' | '-');
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let is_effect = word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_time = humantime::parse_rfc3339(word).is_ok();
        out.push_str(match (is_effect, is_time) {
            (true, _) => "EFFECT",
            (_, true) => "TIME",
            _ => word,
        });
        let next = behind.find(is_part).unwrap_or(behind.len());
        out.push_str(&behind[..next]);
        rest = &behind[next..];
    }
    out
}

/// Claims one message, and gives its receipt.
fn claim(place: &Place, queue: &str, lease: &str) -> String {
    let seen = place.json(&["outbox", "claim", "FILE", queue, "--lease", lease]);
    let receipt = object(&seen)["receipt"].as_str().map(str::to_owned);
    receipt.unwrap_or_else(|| panic!("nothing was claimed: {seen:?}"))
}

fn enqueue(place: &Place, queue: &str, more: &[&str]) {
    let seen = place.run(&[&["outbox", "enqueue", "FILE", queue], more].concat());
    assert!(seen.code == Some(0) && seen.out.starts_with("enqueued id="), "{seen:?}");
}
