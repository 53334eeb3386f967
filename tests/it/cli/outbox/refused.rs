//! What no verb takes, and that nothing changes then.
//!
//! Field reports: CK-4 (units of durations), KV-3 (a command ends with 0 although it failed).

use super::super::Place;
use super::{claim, counts, enqueue};

/// The file as it is, a message that is claimed, and one that waits.
fn furnished() -> (Place, String) {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1"]);
    let receipt = claim(&place, "mail", "1h");
    enqueue(&place, "mail", &["2"]);
    (place, receipt)
}

#[test]
fn a_number_without_a_unit_is_no_duration_and_a_time_has_its_zone() {
    let (place, receipt) = furnished();
    let before = std::fs::read(&place.file).expect("its bytes");
    let outbox: [&[&str]; 8] = [
        &["enqueue", "FILE", "mail", "1", "--delay"],
        &["enqueue", "FILE", "mail", "1", "--give-up-after"],
        &["claim", "FILE", "mail", "--lease"],
        &["extend", "FILE", "mail", &receipt, "--lease"],
        &["nack", "FILE", "mail", &receipt, "--after"],
        &["defer", "FILE", "mail", &receipt, "--for"],
        &["replay", "FILE", "mail", "--dead-for"],
        &["watch", "FILE", "--count", "1", "--every"],
    ];
    for args in outbox {
        for refused in ["5", "0", "1M", "-1s", "", "forever", "99999999999999999999s"] {
            place.json(&[&["outbox"], args, &[refused]].concat()).fails(2, "usage");
        }
    }
    for args in [
        &["enqueue", "FILE", "mail", "1", "--at"][..],
        &["defer", "FILE", "mail", &receipt, "--until"],
    ] {
        for refused in [
            "5",
            "2026-12-01",
            "2026-12-01 10:00:00",
            "2026-12-01T10:00:00",
            "2026-12-01T10:00:00+01:00",
            "now",
        ] {
            place.json(&[&["outbox"], args, &[refused]].concat()).fails(2, "usage");
        }
    }
    for verb in ["claim", "extend"] {
        let which = if verb == "claim" { "mail" } else { &receipt };
        let args = [
            &["outbox", verb, "FILE", "mail"],
            &[which][..usize::from(verb == "extend")],
            &["--lease", "0s"],
        ];
        place.json(&args.concat()).fails(2, "usage");
    }
    assert!(std::fs::read(&place.file).expect("its bytes") == before);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let (place, receipt) = furnished();
    let usage: [&[&str]; 24] = [
        &[],
        &["bogus"],
        &["enqueue", "FILE", "mail"],
        &["enqueue", "FILE", "mail", "1", "--header", "none"],
        &["enqueue", "FILE", "mail", "1", "--header", "=text"],
        &["enqueue", "FILE", "mail", "1", "--key", "hex:0"],
        &[
            "enqueue",
            "FILE",
            "mail",
            "1",
            "--delay",
            "1s",
            "--at",
            "2026-12-01T10:00:00Z",
        ],
        &["enqueue", "FILE", "mail", "1", "--failures", "-1"],
        &["enqueue", "FILE", "mail", "1", "--failures", "4294967296"],
        &["enqueue", "FILE", "mail", "1", "--on-dead", "stop"],
        &["enqueue", "FILE", "mail", "1", "--once", "s/k"],
        &["list", "FILE", "--payload"],
        &["list", "FILE", "--limit", "1"],
        &["list", "FILE", "mail", "--after", "18446744073709551616"],
        &["show", "FILE", "mail", "-1"],
        &["show", "FILE", "mail", "18446744073709551616"],
        &["claim", "FILE", "mail", "-n", "0"],
        &["claim", "FILE", "mail", "-n", "10001"],
        &["defer", "FILE", "mail", &receipt],
        &[
            "defer",
            "FILE",
            "mail",
            &receipt,
            "--for",
            "1s",
            "--until",
            "2026-12-01T10:00:00Z",
        ],
        &["replay", "FILE", "mail", "--reason", "bored"],
        &["replay", "FILE", "mail", "--per-second", "0"],
        &["discard", "FILE", "mail"],
        &["discard", "FILE", "mail", "1", "--dead"],
    ];
    for args in usage {
        let args = [&["outbox"], args].concat();
        let seen = place.run(&args);
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{args:?} {seen:?}");
        place.json(&args).fails(2, "usage");
    }
    let invalid: [&[&str]; 5] = [
        &["enqueue", "FILE", "mail", "1", "--failures", "0"],
        &["enqueue", "FILE", "mail", "1", "--interruptions", "0"],
        &["enqueue", "FILE", "mail", "1", "--key", ""],
        &["enqueue", "FILE", "mail", "1", "--key", &"k".repeat(256)],
        &["enqueue", "FILE", "mail", "{"],
    ];
    for args in invalid {
        place.json(&[&["outbox"], args].concat()).fails(2, "invalid");
    }
    let header = format!("h={}", "x".repeat(16 << 10));
    place
        .json(&["outbox", "enqueue", "FILE", "mail", "1", "--header", &header])
        .fails(2, "too_large");
    assert_eq!(counts(&place, "mail"), [1, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_receipt_that_is_none_is_refused_and_one_that_was_never_given_is_stale() {
    let (place, receipt) = furnished();
    for refused in [
        "",
        ":",
        "1",
        "1:",
        ":1",
        "1:1:1",
        "a:b",
        "1 :1",
        "-1:1",
        "1:18446744073709551616",
        "1:1\u{1b}[31m",
    ] {
        let seen = place.run(&["outbox", "ack", "FILE", "mail", refused]);
        assert_eq!((seen.code, seen.out.as_str()), (Some(2), ""), "{refused:?} {seen:?}");
        assert!(!seen.err.contains('\u{1b}'), "{seen:?}");
        place
            .json(&["outbox", "nack", "FILE", "mail", refused])
            .fails(2, "usage");
    }
    for stale in [
        "1:0",
        "1:2",
        "2:1",
        "3:0",
        "18446744073709551615:18446744073709551615",
        "0:0",
    ] {
        place.json(&["outbox", "ack", "FILE", "mail", stale]).fails(3, "stale");
        place.json(&["outbox", "bury", "FILE", "mail", stale]).fails(3, "stale");
    }
    place
        .json(&["outbox", "ack", "FILE", "other", &receipt])
        .fails(4, "no_queue");
    assert_eq!(counts(&place, "mail"), [1, 0, 1, 0, 0, 0, 0]);
    place.run(&["outbox", "ack", "FILE", "mail", &receipt]).says("done");
}

#[test]
fn a_name_of_a_queue_forges_no_line() {
    let (place, _) = furnished();
    let odd = "no\n\u{1b}[31mqueue\u{9b}\u{202e}";
    let shown = "no\\n\\u{1b}[31mqueue\\u{9b}\\u{202e}";
    for args in [
        &["list", "FILE", odd][..],
        &["show", "FILE", odd, "1"],
        &["claim", "FILE", odd],
        &["ack", "FILE", odd, "1:1"],
        &["dead", "FILE", odd],
        &["replay", "FILE", odd],
        &["discard", "FILE", odd, "1"],
        &["pause", "FILE", odd],
        &["watch", "FILE", odd],
    ] {
        let seen = place.run(&[&["outbox"], args].concat());
        let wanted = format!("sprag: no queue: there is no such queue, queue={shown}\n");
        assert_eq!((seen.code, seen.err), (Some(4), wanted), "{args:?}");
    }
    for refused in [odd, "", &"q".repeat(256)] {
        let seen = place.run(&["outbox", "enqueue", "FILE", refused, "1"]);
        assert_eq!(seen.code, Some(2), "{seen:?}");
        assert!(
            !seen.err.contains('\u{1b}') && seen.err.lines().count() == 1,
            "{seen:?}"
        );
    }
    // A name of the longest, in quotes so that it is no part of the line.
    let longest = format!("{}\" ready=9", "q".repeat(244));
    enqueue(&place, &longest, &["1"]);
    let listed = place.run(&["outbox", "list", "FILE"]).out;
    assert!(listed.contains("qq\\\" ready=9\" codec=json"), "{listed}");
}
