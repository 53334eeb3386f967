//! What goes in, and how it is looked at.

use sprag::{CodecId, DynQueue, Queue, Store};

use super::super::Place;
use super::{counts, enqueue, lines, object, steady};

#[test]
fn a_message_is_listed_without_its_payload_unless_that_is_asked_for() {
    let place = Place::with_store();
    place
        .run(&["outbox", "enqueue", "FILE", "mail", "{\"to\": \"ann\"}", "--key", "k"])
        .says("enqueued id=1");
    enqueue(&place, "mail", &["2", "--key", "k"]);
    enqueue(&place, "mail", &["3", "--at", "2199-12-31T23:59:59Z"]);
    enqueue(&place, "mail", &["4", "--delay", "1h 30m"]);
    assert_eq!(counts(&place, "mail"), [1, 2, 0, 1, 0, 0, 0]);
    let list = |more: &[&str]| lines(&place.run(&[&["outbox", "list", "FILE", "mail"], more].concat()));
    let all = [
        "1\tready\tk\tTIME\t0",
        "3\tblocked\tk\tTIME\t0",
        "4\tscheduled\tnone\tTIME\t0",
        "6\tscheduled\tnone\tTIME\t0",
    ];
    assert_eq!(list(&[]), all);
    assert_eq!(list(&["--limit", "2"]), all[..2]);
    assert_eq!(list(&["--limit", "0"]), all[..0]);
    assert_eq!(list(&["--after", "3"]), all[2..]);
    assert_eq!(list(&["--after", "3", "--limit", "1"]), all[2..3]);
    assert_eq!(list(&["--after", "18446744073709551615"]), all[..0]);
    assert_eq!(
        list(&["--payload", "--limit", "1"]),
        ["1\tready\tk\tTIME\t0\t{\"to\":\"ann\"}"]
    );
    assert_eq!(
        list(&["--payload", "--limit", "1", "--json"]),
        ["{\"id\":1,\"state\":\"ready\",\"key\":\"k\",\"due\":\"TIME\",\"attempts\":0,\"payload\":{\"to\":\"ann\"}}"]
    );
    let third = place.json(&["outbox", "list", "FILE", "mail", "--after", "3", "--limit", "1"]);
    let third = object(&third);
    assert_eq!(
        (&third["due"], &third["key"]),
        (&"2199-12-31T23:59:59.000000000Z".into(), &serde_json::Value::Null)
    );
    place.json(&["outbox", "list", "FILE", "nobody"]).fails(4, "no_queue");
}

#[test]
fn queues_are_listed_with_their_figures_and_stand_in_the_stats() {
    let place = Place::with_store();
    assert!(lines(&place.run(&["outbox", "list", "FILE"])).is_empty());
    enqueue(&place, "mail", &["\"four\"", "--delay", "1h"]);
    enqueue(&place, "alarms", &["7", "--at-most-once"]);
    let seen = lines(&place.run(&["outbox", "list", "FILE"]));
    let alarms = "queue \"alarms\" codec=json at_most_once=true paused=false ready=1 scheduled=0 claimed=0 blocked=0 dead=0 bytes=1 \
        oldest_ready=";
    assert!(
        seen[0].starts_with(alarms) && !seen[0].contains("oldest_ready=none"),
        "{seen:?}"
    );
    let mail = "queue \"mail\" codec=json at_most_once=false paused=false ready=0 scheduled=1 claimed=0 blocked=0 dead=0 bytes=6 \
        oldest_ready=none interruptions=0 discarded=0";
    assert_eq!(seen[1], mail);
    let stats = place.run(&["stats", "FILE"]).out;
    assert!(stats.ends_with(&format!("\n{mail}\n")), "{stats}");
    let objects = place.json(&["outbox", "list", "FILE"]).out;
    let mail = "{\"queue\":\"mail\",\"codec\":\"json\",\"at_most_once\":false,\"paused\":false,\"ready\":0,\"scheduled\":1,\
        \"claimed\":0,\"blocked\":0,\"dead\":0,\"bytes\":6,\"oldest_ready_ns\":null,\"interruptions\":0,\"discarded\":0}";
    assert_eq!(objects.lines().nth(1), Some(mail));
    let queues = object(&place.json(&["stats", "FILE"]))["queues"].take();
    assert_eq!(
        queues[1],
        serde_json::from_str::<serde_json::Value>(mail).expect("an object")
    );
    assert!(
        queues[0]["oldest_ready_ns"].as_u64().is_some_and(|age| age > 0),
        "{queues}"
    );
}

#[test]
fn a_message_is_shown_with_all_that_is_known_of_it() {
    let place = Place::with_store();
    let expires = [
        "--expires-at",
        "2199-01-01T00:00:00Z",
        "--header",
        "a=b=c",
        "--header",
        "d=e\u{1b}\nf",
    ];
    enqueue(
        &place,
        "mail",
        &[&["\"hidden\"", "--key", "hex:00ff"][..], &expires].concat(),
    );
    let shown = [
        "queue mail",
        "id 1",
        "state ready",
        "reason none",
        "key hex:00ff",
        "due TIME",
        "effect_id EFFECT",
        "attempts 0",
        "failures 0",
        "interruptions 0",
        "replays 0",
        "enqueued_at TIME",
        "expires_at TIME",
        "died_at none",
        "header a=b=c",
        "header d=e\\u{1b}\\nf",
        "bytes 8",
        "payload \"hidden\"",
    ];
    let show = ["outbox", "show", "FILE", "mail", "1"];
    assert_eq!(lines(&place.run(&show)), shown[..17]);
    assert_eq!(lines(&place.run(&[&show[..], &["--payload"]].concat())), shown);
    let whole = "{\"queue\":\"mail\",\"id\":1,\"state\":\"ready\",\"reason\":null,\"key\":\"hex:00ff\",\"due\":\"TIME\",\
        \"effect_id\":\"EFFECT\",\"attempts\":0,\"failures\":0,\"interruptions\":0,\"replays\":0,\"enqueued_at\":\"TIME\",\
        \"expires_at\":\"TIME\",\"died_at\":null,\"headers\":[[\"a\",\"b=c\"],[\"d\",\"e\\u001b\\nf\"]],\"errors\":[],\"bytes\":8}";
    assert_eq!(steady(place.json(&show).out.trim_end()), whole);
    place
        .json(&["outbox", "show", "FILE", "mail", "2"])
        .fails(4, "no_message");
    place
        .json(&["outbox", "show", "FILE", "mail", "18446744073709551615"])
        .fails(4, "no_message");
    place
        .json(&["outbox", "show", "FILE", "nobody", "1"])
        .fails(4, "no_queue");
}

/// A repeat answers what the first call did, also once that message is gone, and nothing is enqueued.
#[test]
fn a_message_under_a_remembered_key_is_enqueued_once() {
    let place = Place::with_store();
    let message = |value| {
        [
            "outbox", "enqueue", "FILE", "mail", value, "--key", "k", "--header", "a=b",
        ]
    };
    let once = ["--once", "orders/904", "--keep", "7d"];
    let first = [&message("{\"to\":\"ann\"}")[..], &once].concat();
    place.run(&first).says("enqueued id=1");
    let repeat = place.run(&first);
    assert!(
        repeat.code == Some(0) && repeat.out.starts_with("repeat id=1 first_at=20"),
        "{repeat:?}"
    );
    // The same payload written otherwise, and kept for longer.
    let spaced = [
        &message("{\"to\": \"ann\"}")[..],
        &["--once", "orders/904", "--keep", "forever"],
    ]
    .concat();
    let repeat = object(&place.json(&spaced));
    assert_eq!((&repeat["outcome"], &repeat["id"]), (&"repeat".into(), &1.into()));
    assert!(
        repeat["first_at"].as_str().is_some_and(|time| time.starts_with("20")),
        "{repeat}"
    );
    let with = |queue, key, header| {
        let ann = "{\"to\":\"ann\"}";
        [
            "outbox", "enqueue", "FILE", queue, ann, "--key", key, "--header", header,
        ]
    };
    let others: [&[&str]; 8] = [
        &message("{\"to\":\"bob\"}"),
        &with("other", "k", "a=b"),
        &with("mail", "l", "a=b"),
        &with("mail", "k", "a=c"),
        &[&message("{\"to\":\"ann\"}")[..], &["--delay", "1s"]].concat(),
        &[
            &message("{\"to\":\"ann\"}")[..],
            &["--expires-at", "2199-01-01T00:00:00Z"],
        ]
        .concat(),
        &[&message("{\"to\":\"ann\"}")[..], &["--failures", "3"]].concat(),
        &[&message("{\"to\":\"ann\"}")[..], &["--on-dead", "go-on"]].concat(),
    ];
    for other in others {
        place.json(&[other, &once].concat()).fails(3, "mismatch");
    }
    assert_eq!(counts(&place, "mail"), [1, 0, 0, 0, 0, 0, 0]);
    place
        .run(&["outbox", "discard", "FILE", "mail", "1"])
        .says("discarded messages=1");
    assert!(place.run(&first).out.starts_with("repeat id=1 "));
    assert_eq!(counts(&place, "mail")[0], 0);
}

#[test]
fn a_payload_has_the_forms_of_a_value() {
    let place = Place::with_store();
    let path = place.path("payload.json");
    std::fs::write(&path, " [1,\n 2]\n").expect("a file");
    let at_path = format!("@{}", path.display());
    enqueue(&place, "mail", &[&at_path]);
    place
        .run_with_input(&["outbox", "enqueue", "FILE", "mail", "-"], b"{\"a\" : 1}")
        .says("enqueued id=3");
    enqueue(&place, "mail", &["-x", "--text"]);
    enqueue(&place, "mail", &["--base64", "IDcg"]);
    let listed = lines(&place.run(&["outbox", "list", "FILE", "mail", "--payload"]));
    let payloads: Vec<_> = listed.iter().filter_map(|line| line.rsplit('\t').next()).collect();
    assert_eq!(payloads, ["[1,2]", "{\"a\":1}", "\"-x\"", "7"]);
    for value in ["{", "@/nonexistent/payload"] {
        let seen = place.json(&["outbox", "enqueue", "FILE", "mail", value]);
        assert_ne!(seen.code, Some(0), "{value}");
    }
    assert_eq!(counts(&place, "mail")[0], 4);
}

/// The command does not know the type, so it takes bytes only, and shows them as base64.
#[test]
fn messages_of_a_bincode_queue_are_base64() {
    let place = Place::with_store();
    let texts: Queue<String> = Queue::new("texts");
    let store = Store::open(&place.file).expect("the store");
    store.enqueue(texts, &"ann".to_owned()).expect("enqueued");
    store.close().expect("closed");
    place
        .json(&["outbox", "enqueue", "FILE", "texts", "\"bob\""])
        .fails(2, "invalid");
    enqueue(&place, "texts", &["--base64", "A2JvYg=="]);
    let listed = lines(&place.run(&["outbox", "list", "FILE", "texts", "--payload"]));
    assert_eq!(
        listed,
        ["1\tready\tnone\tTIME\t0\tA2Fubg==", "3\tready\tnone\tTIME\t0\tA2JvYg=="]
    );
    let claimed = place.run(&["outbox", "claim", "FILE", "texts"]);
    assert_eq!(lines(&claimed), ["1\t1:1\tEFFECT\t1\tnone\t[]\tA2Fubg=="]);
    let claimed = object(&place.json(&["outbox", "claim", "FILE", "texts"]));
    assert_eq!(claimed["payload"], serde_json::json!({"base64": "A2JvYg=="}));
    let store = Store::open(&place.file).expect("the store");
    let receipt = "3:2".parse().expect("a receipt");
    let claim = store
        .take_up(texts, receipt, std::time::Duration::from_secs(9))
        .expect("a look");
    assert_eq!(claim.expect("still held").message().expect("a text"), "bob");
}

/// Nothing of a payload, a key or a header moves a cursor, and the payload is the same JSON still.
#[test]
fn no_control_character_of_a_message_reaches_the_terminal() {
    let place = Place::with_store();
    let payload = "\"a\u{9b}b\u{202e}c\u{7f}\"";
    enqueue(
        &place,
        "mail",
        &[payload, "--key", "k\u{1b}", "--header", "h\u{9b}=t\u{2028}"],
    );
    let shown = "\"a\\u009bb\\u202ec\\u007f\"";
    let listed = lines(&place.run(&["outbox", "list", "FILE", "mail", "--payload"]));
    assert_eq!(listed, [format!("1\tready\thex:6b1b\tTIME\t0\t{shown}")]);
    let claimed = lines(&place.run(&["outbox", "claim", "FILE", "mail", "--lease", "1ms"]));
    let headers = "[[\"h\\u009b\",\"t\\u2028\"]]";
    assert_eq!(claimed, [format!("1\t1:1\tEFFECT\t1\thex:6b1b\t{headers}\t{shown}")]);
    let parsed: String = serde_json::from_str(shown).expect("JSON");
    assert_eq!(format!("\"{parsed}\""), payload);
    let show = lines(&place.run(&["outbox", "show", "FILE", "mail", "1", "--payload"]));
    assert!(show.contains(&"header h\\u{9b}=t\\u{2028}".to_owned()), "{show:?}");
    assert_eq!(show.last(), Some(&format!("payload {shown}")));
    let receipt = claim_again(&place);
    let nack = [
        "outbox",
        "nack",
        "FILE",
        "mail",
        &receipt,
        "--error",
        "bad\u{1b}[31m\nline",
    ];
    assert_eq!(lines(&place.run(&nack)), ["again at=TIME"]);
    let show = lines(&place.run(&["outbox", "show", "FILE", "mail", "1"]));
    let error = "error attempt=2 at=TIME bad\\u{1b}[31m\\nline";
    assert!(show.contains(&error.to_owned()), "{show:?}");
}

fn claim_again(place: &Place) -> String {
    super::claim(place, "mail", "1h")
}

/// One unreadable message stops nobody: whoever delivers it says what becomes of it.
#[test]
fn a_payload_that_is_not_json_in_a_queue_of_json_is_shown_as_its_bytes() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    let queue = DynQueue::new("mail", CodecId::Json);
    store.enqueue(&queue, &b"{\"a".to_vec()).expect("enqueued");
    store.enqueue(&queue, &b"7".to_vec()).expect("enqueued");
    store.close().expect("closed");
    let odd = "{\"base64\":\"eyJh\"}";
    let listed = lines(&place.run(&["outbox", "list", "FILE", "mail", "--payload"]));
    assert_eq!(
        listed,
        [
            format!("1\tready\tnone\tTIME\t0\t{odd}"),
            "3\tready\tnone\tTIME\t0\t7".to_owned()
        ]
    );
    let claimed = lines(&place.run(&["outbox", "claim", "FILE", "mail", "-n", "2"]));
    let wanted = [
        format!("1\t1:1\tEFFECT\t1\tnone\t[]\t{odd}"),
        "3\t3:2\tEFFECT\t1\tnone\t[]\t7".to_owned(),
    ];
    assert_eq!(claimed, wanted);
    let shown = object(&place.json(&["outbox", "show", "FILE", "mail", "1", "--payload"]));
    assert_eq!(shown["payload"], serde_json::json!({"base64": "eyJh"}));
}
