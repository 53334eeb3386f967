//! A look at the queues of a file that a service has open.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use sprag::{Json, Queue, Store};

use super::super::Place;
use super::{enqueue, lines, object};

const MAIL: Queue<u64, Json> = Queue::new("mail");

/// The numbers of a line: ready and claimed.
fn seen(line: &str) -> (u64, u64) {
    let object: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    let number = |name: &str| object[name].as_u64().expect("a number");
    (number("ready"), number("claimed"))
}

/// Each change is seen from another process, and what is as it was is not told again.
#[test]
fn figures_are_printed_as_the_service_changes_them() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    store.enqueue(MAIL, &1).expect("enqueued");
    let mut command = place.command(&[
        "outbox", "watch", "FILE", "mail", "--every", "1ms", "--count", "4", "--json",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut out = BufReader::new(child.stdout.take().expect("its stdout")).lines();
    let mut next = || seen(&out.next().expect("a line").expect("text"));
    assert_eq!(next(), (1, 0));
    store.enqueue(MAIL, &2).expect("enqueued");
    assert_eq!(next(), (2, 0));
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(next(), (1, 1));
    // The one that has it open is started anew, which ends the claim.
    drop(claim);
    store.close().expect("closed");
    let store = Store::open(&place.file).expect("the store");
    assert_eq!(next(), (2, 0));
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    store.close().expect("closed");
}

#[test]
fn a_watch_of_all_queues_begins_with_each_and_ends_after_its_count() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1", "--delay", "1h"]);
    enqueue(&place, "alarms", &["1", "--delay", "1h"]);
    let listed = lines(&place.run(&["outbox", "list", "FILE"]));
    assert_eq!(listed.len(), 2);
    assert_eq!(lines(&place.run(&["outbox", "watch", "FILE", "--count", "2"])), listed);
    assert_eq!(
        lines(&place.run(&["outbox", "watch", "FILE", "--count", "1"])),
        listed[..1]
    );
    assert_eq!(
        lines(&place.run(&["outbox", "watch", "FILE", "mail", "--count", "1"])),
        listed[1..]
    );
    let one = place.json(&["outbox", "watch", "FILE", "mail", "--count", "1"]);
    assert_eq!(
        (&object(&one)["queue"], &object(&one)["scheduled"]),
        (&"mail".into(), &1.into())
    );
    place.json(&["outbox", "watch", "FILE", "nobody"]).fails(4, "no_queue");
}
