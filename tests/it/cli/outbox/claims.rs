//! Claims that outlive the process that made them, and their answers.
//!
//! Field reports: LQ-2 (work of a killed worker stays locked), LQ-4 (an answer with a receipt that is no longer ours).

use std::process::Stdio;

use super::super::{Place, Seen};
use super::{claim, counts, enqueue, lines, object, steady};

#[test]
fn a_claim_prints_what_is_due_in_order_and_nothing_if_nothing_is() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["{\"to\":\"ann\"}", "--key", "k", "--header", "a=b"]);
    enqueue(&place, "mail", &["2", "--key", "k"]);
    enqueue(&place, "mail", &["3"]);
    enqueue(&place, "mail", &["4", "--delay", "1h"]);
    let claimed = lines(&place.run(&["outbox", "claim", "FILE", "mail", "-n", "10"]));
    let wanted = [
        "1\t1:1\tEFFECT\t1\tk\t[[\"a\",\"b\"]]\t{\"to\":\"ann\"}",
        "4\t4:2\tEFFECT\t1\tnone\t[]\t3",
    ];
    assert_eq!(claimed, wanted);
    place.run(&["outbox", "ack", "FILE", "mail", "1:1"]).says("done");
    let seen = place.json(&["outbox", "claim", "FILE", "mail"]);
    let second = "{\"id\":3,\"receipt\":\"3:3\",\"effect_id\":\"EFFECT\",\"attempt\":1,\"key\":\"k\",\"headers\":[],\
        \"enqueued_at\":\"TIME\",\"payload\":2}";
    assert_eq!(steady(seen.out.trim_end()), second);
    let shown = object(&place.json(&["outbox", "show", "FILE", "mail", "3"]));
    assert_eq!(shown["effect_id"], object(&seen)["effect_id"]);
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "mail", "-n", "10"])).is_empty());
    assert!(lines(&place.json(&["outbox", "claim", "FILE", "mail"])).is_empty());
    place.json(&["outbox", "claim", "FILE", "nobody"]).fails(4, "no_queue");
}

/// Each command opens the file anew. That ends nobody's claim before its time, and is no interruption.
#[test]
fn a_claim_outlives_what_others_do_with_the_file_until_it_is_answered() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    let receipt = claim(&place, "mail", "1h");
    for value in ["2", "3"] {
        enqueue(&place, "mail", &[value, "--delay", "1h"]);
    }
    place
        .run(&["put", "FILE", "users", "ada", "1"])
        .says("applied version=1");
    assert_eq!(counts(&place, "mail"), [0, 2, 1, 0, 0, 0, 0]);
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "mail"])).is_empty());
    place.run(&["outbox", "ack", "FILE", "mail", &receipt]).says("done");
    assert_eq!(counts(&place, "mail"), [0, 2, 0, 0, 0, 0, 0]);
    // A script that did not hear of it calls again, and is told.
    let error = place
        .json(&["outbox", "ack", "FILE", "mail", &receipt])
        .fails(3, "stale");
    assert_eq!(
        error["message"],
        "the claim is superseded: somebody else has claimed the message since, or it is gone; nothing was changed, receipt=1:1"
    );
    let text = place.run(&["outbox", "ack", "FILE", "mail", &receipt]);
    assert!(
        text.code == Some(3) && text.err.starts_with("sprag: stale: the claim is superseded: "),
        "{text:?}"
    );
}

/// A lease of a millisecond is over by the time another process runs.
#[test]
fn a_receipt_is_stale_once_somebody_else_has_claimed_the_message_after_its_lease() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    let late = claim(&place, "mail", "1ms");
    let next = claim(&place, "mail", "1h");
    assert_eq!((late.as_str(), next.as_str()), ("1:1", "1:2"));
    for verb in ["ack", "nack", "release", "bury", "extend"] {
        place.json(&["outbox", verb, "FILE", "mail", &late]).fails(3, "stale");
    }
    place
        .json(&["outbox", "defer", "FILE", "mail", &late, "--for", "1m"])
        .fails(3, "stale");
    assert_eq!(counts(&place, "mail"), [0, 0, 1, 0, 0, 1, 0]);
    let shown = object(&place.json(&["outbox", "show", "FILE", "mail", "1"]));
    assert_eq!((&shown["attempts"], &shown["failures"]), (&2.into(), &0.into()));
    place.run(&["outbox", "ack", "FILE", "mail", &next]).says("done");
    assert_eq!(counts(&place, "mail")[2], 0);
}

#[test]
fn an_answer_after_the_lease_counts_as_long_as_nobody_else_has_the_message() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    let late = claim(&place, "mail", "1ms");
    place.run(&["outbox", "ack", "FILE", "mail", &late]).says("done");
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 0, 1, 0]);
}

#[test]
fn extend_holds_a_message_that_would_be_lost() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    let receipt = claim(&place, "mail", "1ms");
    place
        .run(&["outbox", "extend", "FILE", "mail", &receipt, "--lease", "1h"])
        .says("extended");
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "mail"])).is_empty());
    place
        .json(&["outbox", "extend", "FILE", "mail", &receipt, "--lease", "1ms"])
        .says("{\"outcome\":\"extended\"}");
    assert_eq!(claim(&place, "mail", "1h"), "1:2");
}

#[test]
fn each_answer_says_what_becomes_of_the_message() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1", "--failures", "2"]);
    let answer = |verb: &str, more: &[&str]| {
        let receipt = claim(&place, "mail", "1h");
        let seen = place.run(&[&["outbox", verb, "FILE", "mail", &receipt], more].concat());
        (lines(&seen).join("\n"), counts(&place, "mail"))
    };
    assert_eq!(
        answer("release", &[]),
        ("again at=TIME".to_owned(), [1, 0, 0, 0, 0, 0, 0])
    );
    let nacked = answer("nack", &["--after", "0s", "--error", "no route"]);
    assert_eq!(nacked, ("again at=TIME".to_owned(), [1, 0, 0, 0, 0, 0, 0]));
    let nacked = answer("nack", &["--error", "--no route--"]);
    assert_eq!(nacked, ("dead reason=failed".to_owned(), [0, 0, 0, 0, 1, 0, 0]));
    enqueue(&place, "mail", &["2"]);
    let buried = answer("bury", &["--error", "no such person"]);
    assert_eq!(buried, ("dead reason=buried".to_owned(), [0, 0, 0, 0, 2, 0, 0]));
    enqueue(&place, "mail", &["3"]);
    let receipt = claim(&place, "mail", "1h");
    let until = ["--until", "2199-01-01T00:00:00Z", "--json"];
    place
        .run(&[&["outbox", "defer", "FILE", "mail", &receipt], &until[..]].concat())
        .says("{\"outcome\":\"again\",\"at\":\"2199-01-01T00:00:00.000000000Z\"}");
    enqueue(&place, "mail", &["4"]);
    assert_eq!(
        answer("defer", &["--for", "1h"]),
        ("again at=TIME".to_owned(), [0, 2, 0, 0, 2, 0, 0])
    );
    enqueue(&place, "mail", &["5"]);
    assert_eq!(answer("ack", &[]).0, "done");
    enqueue(&place, "mail", &["6"]);
    let receipt = claim(&place, "mail", "1h");
    place
        .json(&["outbox", "bury", "FILE", "mail", &receipt])
        .says("{\"outcome\":\"dead\",\"reason\":\"buried\"}");
}

/// There is no second delivery, and nothing to answer.
#[test]
fn a_message_of_an_at_most_once_queue_is_gone_with_its_claim() {
    let place = Place::with_store();
    enqueue(&place, "alarms", &["7", "--at-most-once"]);
    // Later ones need not say so, and cannot change it.
    enqueue(&place, "alarms", &["8"]);
    enqueue(&place, "mail", &["1"]);
    place
        .json(&["outbox", "enqueue", "FILE", "mail", "1", "--at-most-once"])
        .fails(6, "schema");
    let claimed = lines(&place.run(&["outbox", "claim", "FILE", "alarms"]));
    assert_eq!(claimed, ["1\tnone\tEFFECT\t1\tnone\t[]\t7"]);
    assert_eq!(counts(&place, "alarms"), [1, 0, 0, 0, 0, 0, 0]);
    place
        .json(&["outbox", "ack", "FILE", "alarms", "1:1"])
        .fails(3, "stale");
    let last = object(&place.json(&["outbox", "claim", "FILE", "alarms", "-n", "9"]));
    assert_eq!(
        (&last["payload"], &last["receipt"]),
        (&8.into(), &serde_json::Value::Null)
    );
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "alarms"])).is_empty());
}

/// Nobody was told of the claims, so nobody could answer them.
#[test]
fn what_could_not_be_printed_is_not_held() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    enqueue(&place, "mail", &["2"]);
    enqueue(&place, "alarms", &["3", "--at-most-once"]);
    let unread = |args: &[&str]| -> Seen {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = place.command(args);
        let command = command.stdout(writer).stderr(Stdio::piped());
        command.output().expect("the command starts").into()
    };
    let seen = unread(&["outbox", "claim", "FILE", "mail", "-n", "5", "--lease", "1h"]);
    assert_eq!(seen.code, Some(7), "{seen:?}");
    assert!(
        seen.err.starts_with("sprag: io: cannot write the answer to stdout"),
        "{seen:?}"
    );
    assert_eq!(counts(&place, "mail"), [2, 0, 0, 0, 0, 0, 0]);
    // What is gone cannot be given back: it is told of where there is somebody to tell.
    let seen = unread(&["outbox", "claim", "FILE", "alarms"]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(
        seen.err.starts_with("sprag: note: cannot write the answer to stdout: "),
        "{seen:?}"
    );
    assert!(seen.err.ends_with("\t[]\t3\n"), "{seen:?}");
}

/// Its file is closed by then, also if the pipe does not take all of it.
#[cfg(unix)]
#[test]
fn whoever_reads_the_first_line_of_a_claim_may_answer_it_at_once() {
    let place = Place::with_store();
    let large = format!("\"{}\"", "x".repeat(100_000));
    for _ in 0..3 {
        enqueue(&place, "mail", &[&large]);
    }
    let script = "\"$0\" outbox claim \"$1\" mail -n 3 | while read -r id receipt rest; do \"$0\" outbox ack \"$1\" mail $receipt; done";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_sprag")]).arg(&place.file);
    let seen: Seen = shell.output().expect("a shell").into();
    seen.says("done\ndone\ndone");
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_paused_queue_gives_nothing_out_and_takes_answers() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    enqueue(&place, "mail", &["2"]);
    let receipt = claim(&place, "mail", "1h");
    place.run(&["outbox", "pause", "FILE", "mail"]).says("paused");
    place
        .json(&["outbox", "pause", "FILE", "mail"])
        .says("{\"outcome\":\"already paused\"}");
    assert_eq!(object(&place.json(&["outbox", "list", "FILE"]))["paused"], true);
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "mail"])).is_empty());
    place.run(&["outbox", "ack", "FILE", "mail", &receipt]).says("done");
    place.run(&["outbox", "resume", "FILE", "mail"]).says("resumed");
    place.run(&["outbox", "resume", "FILE", "mail"]).says("already running");
    assert_eq!(claim(&place, "mail", "1h"), "3:2");
    for verb in ["pause", "resume"] {
        place.json(&["outbox", verb, "FILE", "nobody"]).fails(4, "no_queue");
    }
}
