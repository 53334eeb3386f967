//! Messages that batches enqueue, by the command.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sprag::{Batch, Json, OnDead, Outgoing, Queue, Retry, Store};

use super::Place;
use crate::common::queues;
use crate::random::Random;

const MAIL: Queue<String> = Queue::new("mail");
const ALARMS: Queue<Value, Json> = Queue::new("alarms").at_most_once();

/// An enqueue in one of all its forms.
pub fn enqueue(random: &mut Random, batch: Batch) -> Batch {
    let number = random.below(3);
    let message = format!("{number}");
    match random.below(3) {
        0 => batch.enqueue(ALARMS, &json!({"n": number})),
        1 => batch.enqueue(MAIL.on_dead(OnDead::GoOn), said(Outgoing::of(&message), random)),
        _ => batch.enqueue(MAIL, said(Outgoing::of(&message), random)),
    }
}

/// What may be said of a message.
fn said<'m>(outgoing: Outgoing<'m, String>, random: &mut Random) -> Outgoing<'m, String> {
    let number = random.below(3);
    let outgoing = match random.below(4) {
        0 => outgoing.delay(Duration::from_millis(random.below(3) * 500)),
        1 => outgoing.at(SystemTime::UNIX_EPOCH + Duration::from_nanos(random.below(1 << 62))),
        2 => outgoing.key([b'k', number as u8]),
        _ => outgoing,
    };
    match random.below(4) {
        0 => outgoing.header("kind", "a").header("kind", number.to_string()),
        1 => outgoing.retry(Retry::DEFAULT.failures(3).never_too_old()),
        2 => outgoing.expires_at(SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000)),
        _ => outgoing,
    }
}

/// All that is the same of the same messages in two stores.
pub fn contents(store: &Store) -> Vec<String> {
    let mut all = Vec::new();
    for info in queues(store) {
        let (codec, at_most_once) = (info.codec(), info.is_at_most_once());
        all.push(format!("{} {codec} {at_most_once}", info.name()));
        let messages = store
            .read(|tx| tx.messages(info.name(), None, 10_000))
            .expect("readable");
        // When a message is due after a delay is said by the clock, and the id of its effect by chance.
        all.extend(messages.iter().map(|message| {
            let (id, key, expires_at) = (message.id, &message.key, message.expires_at);
            format!(
                "{id} {key:?} {expires_at:?} {:?} {:?}",
                message.headers, message.payload
            )
        }));
    }
    all
}

#[test]
fn a_message_of_a_batch_has_its_id_in_the_verdict_and_its_queue_stands_in_the_file() {
    let place = Place::with_store();
    let first = r#"{"once":{"scope":"s","key":"1","keep":"7d"},"queues":{"mail":{"codec":"json"}},"operations":[
        {"op":"put","table":"users","key":"ann","value":1},{"op":"enqueue","queue":"mail","message":{"to":"ann"}}],
        "tables":{"users":{"key":"str","codec":"json"}}}"#;
    let run = |args: &[&str], batch: &str| place.run_with_input(args, batch.as_bytes());
    run(&["apply", "FILE", "--dry-run"], first).says("dry run: applied: unguarded version=1; enqueued id=1");
    run(&["apply", "FILE"], first).says("applied: unguarded version=1; enqueued id=1");
    let again = run(&["apply", "FILE"], first);
    assert!(
        again.out.ends_with(": unguarded version=1; enqueued id=1\n"),
        "{again:?}"
    );
    // The file says what the queue is.
    let second = r#"{"operations":[{"op":"enqueue","queue":"mail","message":{"to":"bob"},"key":"k"}]}"#;
    let seen = run(&["apply", "FILE", "--json"], second);
    let answer: Value = serde_json::from_str(&seen.out).expect("JSON");
    let id = answer["verdicts"][0]["id"].as_u64().expect("a number");
    assert_eq!(answer["verdicts"], json!([{"verdict": "enqueued", "id": id}]));
    let refused = r#"{"operations":[{"op":"enqueue","queue":"mail","message":1},
        {"op":"check","table":"users","key":"bob","condition":"present"}]}"#;
    let seen = run(&["apply", "FILE"], refused);
    assert_eq!(seen.code, Some(3), "{seen:?}");
    let otherwise = r#"{"queues":{"mail":{"codec":"bincode"}},"operations":[{"op":"enqueue","queue":"mail","message":{"base64":""}}]}"#;
    run(&["apply", "FILE", "--json"], otherwise).fails(6, "schema");
    let store = Store::open(&place.file).expect("opened");
    let messages = store.read(|tx| tx.messages("mail", None, 9)).expect("readable");
    let seen: Vec<_> = messages
        .iter()
        .map(|message| (message.id.get(), message.payload.as_slice()))
        .collect();
    assert_eq!(seen, [(1, &br#"{"to":"ann"}"#[..]), (id, br#"{"to":"bob"}"#)]);
    assert_eq!(messages[1].key.as_deref(), Some(&b"k"[..]));
}
