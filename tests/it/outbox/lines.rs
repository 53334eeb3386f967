//! Lines of queues and messages with a digest of their own: written by hand, or by somebody else's program.

use serde_json::{Value, json};
use sprag::{CodecId, DynQueue, Error, ErrorKind, ManualClock, Store};

use super::busy::ALARMS;
use super::moved::{FENCES_APART, is_sound};
use crate::common::{kind_of, small_with, text_of};

fn empty() -> Store {
    small_with(&ManualClock::new()).in_memory().expect("a store")
}

fn header(messages: usize) -> Value {
    json!({
        "line": "sprag export", "form": 1, "store": "0".repeat(32), "sequence": 1, "tables": 0, "records": 0,
        "remembered_keys": 0, "queues": 1, "messages": messages, "fence": 7,
    })
}

/// The line with other fields; one that is to be `"gone"` is left out.
fn with(mut line: Value, changes: &Value) -> Value {
    let fields = line.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        if value == "gone" {
            fields.remove(name).expect("a field");
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    line
}

fn queue() -> Value {
    json!({
        "line": "queue", "name": "q", "codec": "json", "at_most_once": false, "next": 20, "interruptions": 1,
        "discarded": 2, "paused_since_ns": null, "paused_ns": 0,
    })
}

/// Message 1, at the head of key `k`.
fn first() -> Value {
    json!({
        "line": "message", "queue": "q", "id": 1, "key": "k", "place": 1, "stand": "waiting", "reason": null,
        "due_ns": 5, "turn": 2, "attempts": 0, "failures": 0, "interruptions": 0, "aged_from_ns": null, "died_ns": 0,
        "replays": 0, "effect_id": "1".repeat(32), "enqueued_ns": 5, "expires_ns": null, "headers": [["a", "b"]],
        "retry": {
            "base_ns": 1, "cap_ns": 1, "failures": 1, "interruptions": 1, "give_up_after_ns": null,
        },
        "on_dead": "block_key", "once": null, "errors": [], "value": [1.5],
    })
}

/// Message 3, behind it, with other fields.
fn second(changes: &Value) -> Value {
    let behind = with(first(), &json!({"id": 3, "place": 3, "turn": 4, "stand": "blocked"}));
    with(behind, changes)
}

fn import(lines: &[Value]) -> Result<Store, Error> {
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let digest = blake3::hash(text.as_bytes()).to_string();
    let end = json!({"line": "end", "lines": lines.len(), "digest": digest});
    text.push_str(&format!("{end}\n"));
    let store = empty();
    store.import(text.as_bytes()).map(|_| store)
}

fn import_second(second: Value) -> Result<Store, Error> {
    import(&[header(2), queue(), first(), second])
}

#[test]
fn a_message_that_a_queue_could_have_is_taken_in_and_can_be_claimed() {
    let error = json!([{"at_ns": 1, "attempt": 1, "text": "e"}]);
    let good = [
        (json!({}), 1),
        (json!({"key": "l", "stand": "waiting"}), 2),
        (json!({"key": null, "stand": "waiting"}), 2),
        (json!({"errors": error, "replays": 1}), 1),
        (json!({"place": 0, "stand": "dead", "reason": "gave up"}), 1),
        (json!({"once": {"scope": "s", "key": "hex:00"}}), 1),
        (json!({"value": "gone", "raw": "/w=="}), 1),
    ];
    for (changes, claimed) in good {
        let store = import_second(second(&changes)).expect("imported");
        is_sound(&store);
        let claims = store.claim(&DynQueue::new("q", CodecId::Json), 9).expect("a claim");
        assert_eq!(claims.len(), claimed, "{changes}");
        assert_eq!((claims[0].id().get(), claims[0].fence()), (1, 8 + FENCES_APART));
        assert_eq!(claims[0].payload(), b"[1.5]");
    }
}

#[test]
fn a_message_that_no_queue_could_have_is_refused_by_its_line() {
    let waiting = |changes: Value| with(json!({"key": "l", "stand": "waiting"}), &changes);
    let retry = |changes: Value| json!({"retry": with(first()["retry"].clone(), &changes)});
    let bad = [
        (json!({"stand": "waiting"}), "at its head already"),
        (json!({"place": 1}), "waits for none that is there"),
        (json!({"key": "l"}), "waits for none that is there"),
        (json!({"key": null}), "without a place in a line"),
        (json!({"place": 0}), "without a place in a line"),
        (waiting(json!({"turn": 2})), "the turn of the message"),
        (waiting(json!({"turn": 0})), "the turn of the message"),
        (waiting(json!({"turn": 20})), "none that its queue has given"),
        (json!({"place": 20}), "none that its queue has given"),
        (json!({"id": 20}), "none that its queue has given"),
        (json!({"id": 0}), "none that its queue has given"),
        (json!({"id": 1}), "has the message already"),
        (
            json!({"errors": [{"at_ns": 1, "attempt": 1, "text": "e"}]}),
            "nothing went wrong",
        ),
        (retry(json!({"failures": 0})), "without any attempt"),
        (retry(json!({"more": 1})), "no line of an export"),
        (json!({"reason": "failed"}), "has a reason"),
        (json!({"stand": "dead"}), "has a reason"),
        (json!({"stand": "dead", "reason": "bored"}), "no reason"),
        (json!({"stand": "claimed"}), "no line of an export"),
        (json!({"key": ""}), "key of a message has 0 bytes"),
        (json!({"effect_id": "1"}), "32 hex digits"),
        (json!({"once": {"scope": "no scope", "key": "k"}}), "scope"),
        (json!({"queue": "r"}), "not described"),
        (json!({"raw": ""}), "either a value or raw"),
        (json!({"value": "gone"}), "either a value or raw"),
        (json!({"more": 1}), "no line of an export"),
    ];
    for (changes, why) in bad {
        let text = text_of(ErrorKind::Invalid, import_second(second(&changes)).map(drop));
        assert!(text.contains(why) && text.contains("line=4"), "{changes}: {text}");
    }
    let long = json!({"headers": [["a", "b".repeat(16 << 10)]]});
    assert_eq!(kind_of(import_second(second(&long)).map(drop)), ErrorKind::TooLarge);
}

#[test]
fn a_queue_that_no_store_could_have_is_refused_by_its_line() {
    let text = text_of(ErrorKind::Invalid, import_second(queue()).map(drop));
    assert!(text.contains("described twice") && text.contains("line=4"), "{text}");
    for (changes, why) in [
        (json!({"next": 0}), "begin at 1"),
        (json!({"name": ""}), "queue name"),
        (json!({"codec": "xml"}), "codec"),
        (json!({"more": 1}), "no line of an export"),
    ] {
        let lines = [header(0), with(queue(), &changes)];
        let text = text_of(ErrorKind::Invalid, import(&lines).map(drop));
        assert!(text.contains(why) && text.contains("line=2"), "{changes}: {text}");
    }
    // Other numbers than the first line says.
    for (queues, messages) in [(1, 2), (1, 0), (0, 1), (2, 1)] {
        let header = with(header(messages), &json!({"queues": queues}));
        assert_eq!(
            kind_of(import(&[header, queue(), first()]).map(drop)),
            ErrorKind::Invalid
        );
    }
    import(&[header(1), queue(), first()]).expect("imported");
    let full = empty();
    full.enqueue(ALARMS, &1).expect("enqueued");
    let header = format!("{}\n", header(1));
    let text = text_of(ErrorKind::Invalid, full.import(header.as_bytes()).map(drop));
    assert!(text.contains("not empty, queue=alarms"), "{text}");
}
