//! Hostile text about messages and queues.

use super::{Trial, deep, long, with};

/// An enqueue of which more is said.
fn said(more: &str) -> String {
    with(&format!(r#"{{"op":"enqueue","queue":"q","message":1,{more}}}"#))
}

/// What may not be said of a message.
const SAID: [(&str, &str); 38] = [
    (r#""delay":"5""#, "operation=1: a duration without a unit"),
    (r#""delay":5"#, "invalid type: integer `5`, expected a string"),
    (r#""delay":"5 minutes""#, "a duration with another unit"),
    (r#""delay":"forever""#, "a duration without an end"),
    (r#""delay":"101 w","at":"2026-11-30T12:00:00Z""#, "not both"),
    (r#""delay":null"#, "invalid type: null"),
    (r#""delay":"5s","delay":"5s""#, "duplicate field `delay`"),
    (r#""at":"tomorrow""#, "operation=1: not a time"),
    (r#""at":1796000000"#, "invalid type: integer"),
    (r#""expires_at":"2026-11-30""#, "operation=1: not a time"),
    (r#""expires_at":null"#, "invalid type: null"),
    (r#""key":7"#, "operation=1: key of a message is not a text"),
    (r#""key":null"#, "expected a key"),
    (r#""key":"""#, "operation=1: key of a message has 0 bytes"),
    (r#""key":"hex:0""#, "operation=1: not a key of this kind"),
    (r#""headers":{"a":"b"}"#, "invalid type: map, expected a sequence"),
    (r#""headers":[["a"]]"#, "invalid length 1"),
    (r#""headers":[["a","b","c"]]"#, "line=3"),
    (r#""headers":[["a",1]]"#, "invalid type: integer"),
    (r#""headers":null"#, "invalid type: null"),
    (r#""retry":["1s"]"#, "invalid type: sequence, expected an object"),
    (r#""retry":null"#, "invalid type: null, expected an object"),
    (r#""retry":{"tries":3}"#, "unknown field `tries`"),
    (r#""retry":{"base":"1s","base":"1s"}"#, "duplicate field `base`"),
    (r#""retry":{"base":null}"#, "invalid type: null"),
    (r#""retry":{"cap":"30"}"#, "operation=1: a duration without a unit"),
    (
        r#""retry":{"failures":0}"#,
        "operation=1: a retry without any attempt, failures=0",
    ),
    (r#""retry":{"failures":4294967296}"#, "invalid value"),
    (r#""retry":{"interruptions":-1}"#, "invalid value"),
    (r#""retry":{"give_up_after":"forever"}"#, "a duration without an end"),
    (r#""retry":{"give_up_after":72}"#, "invalid type: integer"),
    (r#""on_dead":"skip""#, "unknown variant `skip`"),
    (r#""on_dead":{"go on":null}"#, "invalid type: map, expected a string"),
    (r#""on_dead":null"#, "invalid type: null"),
    (
        r#""table":"t""#,
        "operation=1: this operation takes no such field, field=table",
    ),
    (
        r#""value":1"#,
        "operation=1: this operation takes no such field, field=value",
    ),
    (
        r#""condition":"any""#,
        "operation=1: this operation takes no such field, field=condition",
    ),
    (r#""priority":1"#, "unknown field `priority`"),
];

pub fn what_is_said() -> Vec<Trial> {
    SAID.map(|(more, place)| (said(more), place)).into()
}

pub fn fields() -> Vec<Trial> {
    let long = long();
    vec![
        (
            with(r#"{"op":"enqueue","message":1}"#),
            "operation=1: this operation lacks a field, field=queue",
        ),
        (
            with(r#"{"op":"enqueue","queue":"q"}"#),
            "operation=1: this operation lacks a field, field=message",
        ),
        (
            with(r#"{"op":"enqueue","queue":7,"message":1}"#),
            "invalid type: integer",
        ),
        (
            with(r#"{"op":"enqueue","queue":"","message":1}"#),
            "operation=1: queue name is not 1 to 255 bytes",
        ),
        (
            with(r#"{"op":"enqueue","queue":"t","message":1}"#),
            "operation=1: queue is neither in the file nor described under queues, queue=\"t\"",
        ),
        (
            with(r#"{"op":"enqueue","queue":"r","message":1}"#),
            "operation=1: value is not bytes",
        ),
        (
            with(&format!(
                r#"{{"op":"enqueue","queue":"q","message":{}}}"#,
                deep(100_000)
            )),
            "operation=1: the value nests too deep",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"value":1,"queue":"q"}"#),
            "operation=1: this operation takes no such field, field=queue",
        ),
        (
            said(&format!(r#""headers":[["a","{long}"]]"#)),
            "operation=1: headers of a message too long",
        ),
        (
            said(&format!(r#""key":"{long}""#)),
            "operation=1: key of a message has 10485760 bytes",
        ),
        (
            said(&format!(r#""delay":"{long}""#)),
            "operation=1: a duration with another unit",
        ),
    ]
}

pub fn descriptions_of_queues() -> Vec<Trial> {
    let queues =
        |queues: &str| format!(r#"{{"queues":{queues},"operations":[{{"op":"enqueue","queue":"q","message":1}}]}}"#);
    vec![
        (
            queues("null"),
            "invalid type: null, expected descriptions of queues by name",
        ),
        (queues(r#"[["q","json"]]"#), "expected descriptions of queues by name"),
        (
            queues(r#"{"q":["json",false]}"#),
            "invalid type: sequence, expected an object",
        ),
        (queues(r#"{"q":{}}"#), "missing field `codec`"),
        (queues(r#"{"q":{"codec":"xml"}}"#), "operation=0: not a codec"),
        (
            queues(r#"{"q":{"codec":"json","at_most_once":null}}"#),
            "invalid type: null",
        ),
        (
            queues(r#"{"q":{"codec":"json","at_most_once":1}}"#),
            "invalid type: integer",
        ),
        (queues(r#"{"q":{"codec":"json","retry":{}}}"#), "unknown field `retry`"),
        (
            queues(r#"{"q":{"codec":"json"},"q":{"codec":"json"}}"#),
            "queue `q` is described twice",
        ),
        (
            queues(r#"{"q":{"codec":"json"},"no one's":{"codec":"xml"}}"#),
            "description of a queue is refused, queue=\"no one's\": not a codec",
        ),
        (
            queues(r#"{"q":{"codec":"json"},"":{"codec":"json"}}"#),
            "description of a queue is refused, queue=\"\": queue name is not 1 to 255 bytes",
        ),
    ]
}
