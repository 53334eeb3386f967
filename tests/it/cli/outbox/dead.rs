//! Dead letters: looked at, delivered again, discarded.

use super::super::Place;
use super::{claim, counts, enqueue, lines, object, steady};

/// Three dead letters: one failed, one was buried, one expired.
fn furnished() -> Place {
    let place = Place::with_store();
    enqueue(&place, "mail", &["{\"to\":\"ann\"}", "--failures", "1", "--key", "k"]);
    let receipt = claim(&place, "mail", "1h");
    place
        .run(&["outbox", "nack", "FILE", "mail", &receipt, "--error", "far\nend"])
        .says("dead reason=failed");
    enqueue(&place, "mail", &["2"]);
    let receipt = claim(&place, "mail", "1h");
    place
        .run(&["outbox", "bury", "FILE", "mail", &receipt])
        .says("dead reason=buried");
    enqueue(&place, "mail", &["3", "--expires-at", "2001-01-01T00:00:00Z"]);
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "mail"])).is_empty());
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 3, 0, 0]);
    place
}

#[test]
fn dead_letters_are_listed_in_the_order_of_their_deaths_with_reason_and_last_error() {
    let place = furnished();
    let dead = |more: &[&str]| lines(&place.run(&[&["outbox", "dead", "FILE", "mail"], more].concat()));
    let all = dead(&[]);
    let ids: Vec<u64> = all
        .iter()
        .map(|line| line.split('\t').next().expect("an id").parse().expect("a number"))
        .collect();
    let wanted = [
        format!("{}\tfailed\tk\tTIME\t1\tfar\\nend", ids[0]),
        format!("{}\tburied\tnone\tTIME\t1\t", ids[1]),
        format!("{}\texpired\tnone\tTIME\t0\tnone", ids[2]),
    ];
    assert_eq!(all, wanted);
    assert_eq!(dead(&["--limit", "1"]), wanted[..1]);
    assert_eq!(dead(&["--after", &ids[0].to_string()]), wanted[1..]);
    assert_eq!(
        dead(&["--payload", "--limit", "1"]),
        [format!("{}\t{{\"to\":\"ann\"}}", wanted[0])]
    );
    let seen = place.json(&["outbox", "dead", "FILE", "mail", "--limit", "1"]);
    let first = format!(
        "{{\"id\":{},\"reason\":\"failed\",\"key\":\"k\",\"died_at\":\"TIME\",\"attempts\":1,\
         \"last_error\":{{\"attempt\":1,\"at\":\"TIME\",\"text\":\"far\\nend\"}}}}",
        ids[0]
    );
    assert_eq!(steady(seen.out.trim_end()), first);
    let expired = lines(&place.json(&[
        "outbox",
        "dead",
        "FILE",
        "mail",
        "--payload",
        "--after",
        &ids[1].to_string(),
    ]));
    let expired_as = format!(
        "{{\"id\":{},\"reason\":\"expired\",\"key\":null,\"died_at\":\"TIME\",\"attempts\":0,\"last_error\":null,\"payload\":3}}",
        ids[2]
    );
    assert_eq!(expired, [expired_as]);
    let shown = lines(&place.run(&["outbox", "show", "FILE", "mail", &ids[0].to_string()]));
    assert_eq!((shown[2].as_str(), shown[3].as_str()), ("state dead", "reason failed"));
    assert_eq!(shown[14], "error attempt=1 at=TIME far\\nend");
    place.json(&["outbox", "dead", "FILE", "nobody"]).fails(4, "no_queue");
}

#[test]
fn a_replay_says_how_many_and_which_were_refused_and_why() {
    let place = furnished();
    let dead = place.json(&["outbox", "dead", "FILE", "mail"]).out;
    let letters: Vec<serde_json::Value> = dead
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let effect = |id: &serde_json::Value| {
        object(&place.json(&["outbox", "show", "FILE", "mail", &id.to_string()]))["effect_id"].clone()
    };
    let (failed, expired) = (&letters[0]["id"], &letters[2]["id"]);
    let first_effect = effect(failed);
    let replay = |more: &[&str]| place.run(&[&["outbox", "replay", "FILE", "mail"], more].concat());
    assert_eq!(
        lines(&replay(&["--reason", "interrupted"])),
        ["replayed messages=0 refused=0 more=false"]
    );
    assert_eq!(
        lines(&replay(&["--dead-for", "1h"])),
        ["replayed messages=0 refused=0 more=false"]
    );
    assert_eq!(
        lines(&replay(&["--limit", "1"])),
        ["replayed messages=1 refused=0 more=true"]
    );
    assert_eq!(effect(failed), first_effect);
    let seen = replay(&[]);
    let refused = format!("replayed messages=1 refused=1 more=false\nrefused id={expired} why=expired\n");
    assert_eq!((seen.code, seen.out, seen.err.as_str()), (Some(3), refused, ""));
    let seen = place.json(&["outbox", "replay", "FILE", "mail", &expired.to_string(), "99"]);
    let refused = format!(
        "{{\"outcome\":\"replayed\",\"messages\":0,\"refused\":[{{\"id\":99,\"why\":\"not-dead\"}},\
         {{\"id\":{expired},\"why\":\"expired\"}}],\"more\":false}}\n"
    );
    assert_eq!((seen.code, seen.out), (Some(3), refused));
    let expired_effect = effect(expired);
    let forced = replay(&[&expired.to_string(), "--force", "--new-effect-ids"]);
    assert_eq!(lines(&forced), ["replayed messages=1 refused=0 more=false"]);
    assert_ne!(effect(expired), expired_effect);
    assert_eq!(counts(&place, "mail"), [3, 0, 0, 0, 0, 0, 0]);
    place.json(&["outbox", "replay", "FILE", "nobody"]).fails(4, "no_queue");
}

#[test]
fn a_replay_of_so_many_a_second_makes_the_rest_wait() {
    let place = Place::with_store();
    for value in ["1", "2", "3"] {
        enqueue(&place, "mail", &[value]);
        let receipt = claim(&place, "mail", "1h");
        place
            .run(&["outbox", "bury", "FILE", "mail", &receipt])
            .says("dead reason=buried");
    }
    let seen = place.run(&["outbox", "replay", "FILE", "mail", "--per-second", "1"]);
    assert_eq!(lines(&seen), ["replayed messages=3 refused=0 more=false"]);
    let listed = place.json(&["outbox", "list", "FILE", "mail"]).out;
    let due: Vec<_> = listed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|object| humantime::parse_rfc3339(object["due"].as_str().expect("a time")).expect("a time"))
        .collect();
    let gaps: Vec<_> = due
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).expect("later").as_secs())
        .collect();
    assert_eq!(gaps, [1, 1]);
}

/// What is enqueued in the work of a remembered key can be asked for twice once the key is over.
#[test]
fn a_letter_whose_remembered_key_is_over_is_replayed_by_force_only() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1", "--once", "s/k", "--keep", "1ms"]);
    let receipt = claim(&place, "mail", "1h");
    place
        .run(&["outbox", "bury", "FILE", "mail", &receipt])
        .says("dead reason=buried");
    let seen = place.run(&["outbox", "replay", "FILE", "mail"]);
    let refused = "replayed messages=0 refused=1 more=false\nrefused id=1 why=key-is-over\n";
    assert_eq!((seen.code, seen.out.as_str()), (Some(3), refused));
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 1, 0, 0]);
    let seen = place.run(&["outbox", "replay", "FILE", "mail", "--force"]);
    assert_eq!(lines(&seen), ["replayed messages=1 refused=0 more=false"]);
}

#[test]
fn discard_removes_by_number_wherever_a_message_stands_or_the_dead_ones() {
    let place = furnished();
    enqueue(&place, "mail", &["9"]);
    let receipt = claim(&place, "mail", "1h");
    let id = receipt.split(':').next().expect("an id");
    let discard = |more: &[&str]| place.run(&[&["outbox", "discard", "FILE", "mail"], more].concat());
    discard(&[id, id, "77"]).says("discarded messages=1");
    place
        .json(&["outbox", "ack", "FILE", "mail", &receipt])
        .fails(3, "stale");
    discard(&["--dead", "--reason", "gave-up"]).says("discarded messages=0");
    discard(&["--dead", "--dead-for", "1h"]).says("discarded messages=0");
    discard(&["--dead", "--reason", "buried"]).says("discarded messages=1");
    discard(&["--dead", "--limit", "1"]).says("discarded messages=1");
    assert_eq!(counts(&place, "mail"), [0, 0, 0, 0, 1, 0, 3]);
    let left = place.run(&["outbox", "dead", "FILE", "mail"]);
    assert!(lines(&left)[0].contains("\texpired\t"), "{left:?}");
    discard(&["--dead", "--json"]).says("{\"outcome\":\"discarded\",\"messages\":1}");
    discard(&["--dead"]).says("discarded messages=0");
    place
        .json(&["outbox", "discard", "FILE", "nobody", "1"])
        .fails(4, "no_queue");
}

/// Later messages of a key wait for a dead one, or go on without it, as each was enqueued.
#[test]
fn a_dead_letter_blocks_its_key_unless_it_was_to_go_on() {
    for (on_dead, after) in [("block", [0, 0, 0, 1, 1, 0, 0]), ("go-on", [1, 0, 0, 0, 1, 0, 0])] {
        let place = Place::with_store();
        for value in ["1", "2"] {
            enqueue(&place, "mail", &[value, "--key", "k", "--on-dead", on_dead]);
        }
        let receipt = claim(&place, "mail", "1h");
        place
            .run(&["outbox", "bury", "FILE", "mail", &receipt])
            .says("dead reason=buried");
        assert_eq!(counts(&place, "mail"), after, "{on_dead}");
    }
}

/// A message that is never answered is dead after its budget of interruptions.
#[test]
fn deliveries_that_are_never_answered_end_a_message() {
    let place = Place::with_store();
    enqueue(&place, "mail", &["1", "--interruptions", "2"]);
    for _ in 0..2 {
        claim(&place, "mail", "1ms");
    }
    assert!(lines(&place.run(&["outbox", "claim", "FILE", "mail"])).is_empty());
    let letter = object(&place.json(&["outbox", "dead", "FILE", "mail"]));
    assert_eq!(
        (&letter["reason"], &letter["attempts"]),
        (&"interrupted".into(), &2.into())
    );
}
