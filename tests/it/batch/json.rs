//! Batches as JSON: there and back, and against the page that describes them.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use sprag::{
    Batch, CodecId, Condition, DynKey, DynQueue, DynTable, ErrorKind, Json, Keep, KeyKind, OnDead, OnceKey, Outcome,
    Outgoing, Queue, Retry, Store, Table,
};

use super::messages::MAIL;
use crate::common::{kind_of, queues, small, tables, text_of};

sprag::machine! {
    enum Stage: "stages" { New = "new", Packed = "packed", Shipped = "shipped" }
    initial New;
    New => Packed;
    Packed => Shipped;
}

const BALANCES: Table<u64, i64> = Table::new("balances");
const NOTES: Table<(String, i64), Value, sprag::Stateless, Json> = Table::new("notes");
const ORDERS: Table<str, i64, Stage> = Table::new("orders").schema(3);
const BLOBS: Table<[u8], Vec<u8>> = Table::new("blobs");
const NEWS: Queue<Value, Json> = Queue::new("news").at_most_once();

#[test]
fn a_batch_is_the_same_after_it_was_text() {
    let key = OnceKey::new("payments", [0, 255, b'h'], Keep::For(Duration::new(90, 5)))
        .issued_at(UNIX_EPOCH + Duration::new(1_796_000_000, 7));
    let note = json!({"text": "a \"b\"\n", "big": u64::MAX, "list": [null, 1.5]});
    let batch = Batch::new()
        .once(&key)
        .check(BALANCES, &u64::MAX, Condition::Absent)
        .put_if(BALANCES, &51, Condition::Version(7), &-140)
        .put(NOTES, &("a,b)\\".to_owned(), i64::MIN), &note)
        .create(ORDERS, "904", &5, &Stage::Packed)
        .delete_if(BLOBS, b"hex:\x00\xff", Condition::Present)
        .delete(BLOBS, b"plain")
        .transition(ORDERS, "905", Stage::New, Stage::Packed)
        .transition_with(ORDERS, "906", Stage::Packed, Stage::Shipped, &6);
    let text = batch.to_json().unwrap();
    assert!(!text.contains('\n'), "{text}");
    let wanted = json!({
        "once": {"scope": "payments", "key": "hex:00ff68", "keep": "90s 5ns", "issued_at": "2026-11-30T00:53:20.000000007Z"},
        "tables": {
            "balances": {"key": "u64", "codec": "bincode", "schema": 0, "machine": null},
            "blobs": {"key": "bytes", "codec": "bincode", "schema": 0, "machine": null},
            "notes": {"key": "(str,i64)", "codec": "json", "schema": 0, "machine": null},
            "orders": {"key": "str", "codec": "bincode", "schema": 3, "machine": {
                "name": "stages", "states": ["new", "packed", "shipped"], "initial": "new",
                "moves": [["new", "packed"], ["packed", "shipped"]], "cyclic": false}},
        },
        "operations": [
            {"op": "check", "table": "balances", "key": u64::MAX, "condition": "absent"},
            {"op": "put", "table": "balances", "key": 51, "condition": {"version": 7}, "value": {"base64": "+xcB"}},
            {"op": "put", "table": "notes", "key": "(a\\,b\\)\\\\,-9223372036854775808)", "condition": "any", "value": note},
            {"op": "create", "table": "orders", "key": "904", "state": "packed", "value": {"base64": "Cg=="}},
            {"op": "delete", "table": "blobs", "key": "hex:6865783a00ff", "condition": "present"},
            {"op": "delete", "table": "blobs", "key": "plain", "condition": "any"},
            {"op": "transition", "table": "orders", "key": "905", "from": "new", "to": "packed"},
            {"op": "transition", "table": "orders", "key": "906", "from": "packed", "to": "shipped",
                "value": {"base64": "DA=="}},
        ],
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wanted);
    let read = Batch::from_json(&text, &[]).unwrap();
    assert_eq!(read.to_json().unwrap(), text);

    // The same request under the same key: what the one remembered is a repeat for the other.
    let one = |text: bool| {
        let batch = Batch::new()
            .once(&key)
            .put(NOTES, &("n".to_owned(), 1), &note)
            .delete(BALANCES, &1);
        if text {
            Batch::from_json(&batch.to_json().unwrap(), &[]).unwrap()
        } else {
            batch
        }
    };
    let clock = sprag::ManualClock::new();
    for [first, second] in [[true, false], [false, true]] {
        let store = small().clock(std::sync::Arc::new(clock.clone())).in_memory().unwrap();
        assert!(matches!(store.apply(&one(first)).unwrap(), Outcome::Applied { .. }));
        assert!(matches!(store.apply(&one(second)).unwrap(), Outcome::Repeat { .. }));
        assert_eq!(store.get(NOTES, &("n".to_owned(), 1)).unwrap().unwrap().value, note);
    }
}

#[test]
fn what_has_no_form_as_text_is_refused_and_not_changed() {
    let put = || Batch::new().put(BALANCES, &1, &1);
    let text = "text".to_owned();
    let mail = |outgoing: Outgoing<'_, String>| Batch::new().enqueue(MAIL, outgoing);
    let raw = DynTable::new("raw", KeyKind::U64, CodecId::Json);
    let balances = DynTable::new("balances", KeyKind::U64, CodecId::Json);
    let once = |keep| OnceKey::new("s", "k", keep);
    let century = Keep::For(Duration::from_secs(36_525 * 86_400));
    assert!(
        put()
            .once(&once(century))
            .to_json()
            .unwrap()
            .contains("\"keep\":\"36525d\"")
    );
    let refused = [
        (
            put().once(&once(Keep::For(Duration::from_secs(36_525 * 86_400 + 1)))),
            "longer than 100 years",
        ),
        (
            put().once(&once(Keep::Forever).issued_at(UNIX_EPOCH - Duration::from_secs(1))),
            "before 1970",
        ),
        (
            put().put(&raw, &DynKey::U64(1), &b"not json".to_vec()),
            "not JSON without whitespace",
        ),
        (
            put().put(&raw, &DynKey::U64(1), &b"[1, 2]".to_vec()),
            "not JSON without whitespace",
        ),
        (
            put().put(&balances, &DynKey::U64(2), &b"1".to_vec()),
            "described in two ways, table=balances",
        ),
        (Batch::new(), "no operations"),
        (
            mail(Outgoing::of(&text).at(UNIX_EPOCH - Duration::from_nanos(1))),
            "operation=0: time before 1970",
        ),
        (
            mail(Outgoing::of(&text).expires_at(UNIX_EPOCH - Duration::from_nanos(1))),
            "operation=0: time before 1970",
        ),
        (
            mail(Outgoing::of(&text).delay(Duration::MAX)),
            "operation=0: a duration longer than 100 years",
        ),
        (
            mail(Outgoing::of(&text)).enqueue(MAIL.at_most_once(), &text),
            "operation=1: queue is described in two ways, queue=mail",
        ),
        (
            Batch::new().enqueue(&DynQueue::new("raw", CodecId::Json), &b"[1, 2]".to_vec()),
            "operation=0: value of a table of JSON values",
        ),
    ];
    for (batch, text) in refused {
        let answer = text_of(ErrorKind::Invalid, batch.to_json());
        assert!(answer.contains(text), "{answer} instead of {text}");
    }
}

#[test]
fn a_text_that_is_no_unicode_is_refused_and_a_number_is_kept_as_it_is() {
    for kept in [
        r#""\ud83d\ude00""#,
        r#"{"\u0061":1e999}"#,
        "123456789012345678901234567890",
        r#""\\ud800""#,
    ] {
        assert_eq!(Json::compact(kept.as_bytes()).unwrap(), kept.as_bytes());
    }
    for refused in [
        r#""\ud800""#,
        r#""\ude00\ud83d""#,
        r#"{"a":["\ud83d\u0041"]}"#,
        r#"{"\udfff":1}"#,
    ] {
        let told = text_of(ErrorKind::Invalid, Json::compact(refused.as_bytes()));
        assert!(told.contains("cannot be read back"), "{told}");
    }
}

#[test]
fn a_table_that_is_not_described_is_the_one_of_the_file() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    store.put(ORDERS, "904", &1).unwrap();
    let text = r#"{"operations":[
        {"op":"check","table":"balances","key":"51","condition":{"version":1}},
        {"op":"put","table":"balances","key":52,"value":{"base64":"yA=="}},
        {"op":"transition","table":"orders","key":"904","from":"new","to":"packed"}]}"#;
    assert_eq!(kind_of(Batch::from_json(text, &[])), ErrorKind::Invalid);
    let batch = Batch::from_json(text, &tables(&store)).unwrap();
    assert!(matches!(store.apply(&batch).unwrap(), Outcome::Applied { .. }));
    assert_eq!(store.get(BALANCES, &52).unwrap().unwrap().value, 100);
    assert_eq!(store.get(ORDERS, "904").unwrap().unwrap().state, Stage::Packed);
    // One that is described must be as in the file.
    for described in [
        r#"{"key":"i64","codec":"bincode"}"#,
        r#"{"key":"u64","codec":"json"}"#,
        r#"{"key":"u64","codec":"bincode","schema":1}"#,
        r#"{"key":"u64","codec":"bincode","machine":{"name":"m","states":["a"],"initial":"a","moves":[]}}"#,
    ] {
        let text = format!(
            r#"{{"tables":{{"balances":{described}}},"operations":[{{"op":"delete","table":"balances","key":51}}]}}"#
        );
        let batch = Batch::from_json(&text, &[]).unwrap();
        let told = text_of(ErrorKind::Schema, store.apply(&batch));
        assert!(told.contains("in_file=") && told.contains("in_program="), "{told}");
    }
    assert_eq!(store.get(BALANCES, &51).unwrap().unwrap().value, 100);
}

#[test]
fn a_table_that_is_made_by_text_is_the_one_that_a_program_declares() {
    let store = small().in_memory().unwrap();
    let text = r#"{"tables":{"orders":{"key":"str","codec":"bincode","schema":3,"machine":{
            "name":"stages","states":["new","packed","shipped"],"initial":"new","moves":[["new","packed"],["packed","shipped"]]}}},
        "operations":[{"op":"put","table":"orders","key":"904","value":{"base64":"Cg=="}}]}"#;
    let batch = Batch::from_json(text, &[]).unwrap();
    assert!(matches!(store.apply(&batch).unwrap(), Outcome::Applied { .. }));
    let record = store.get(ORDERS, "904").unwrap().unwrap();
    assert_eq!((record.value, record.state), (5, Stage::New));
    let store: Store = small().in_memory().unwrap();
    store.put(ORDERS, "904", &5).unwrap();
    assert!(matches!(store.apply(&batch).unwrap(), Outcome::Applied { .. }));
    assert_eq!(
        store.get(ORDERS, "904").unwrap().unwrap().version.get(),
        1,
        "the very bytes were there"
    );
}

#[test]
fn a_message_is_the_same_after_it_was_text() {
    let (note, text) = (json!({"a": [1, null]}), "text".to_owned());
    let at = |secs, nanos| UNIX_EPOCH + Duration::new(secs, nanos);
    let retry = Retry::DEFAULT.base(Duration::from_millis(1500)).never_too_old();
    let said = Outgoing::of(&note)
        .key([0, 255])
        .at(at(1_796_000_000, 7))
        .header("b", "")
        .header("a", "\"");
    let batch = Batch::new()
        .enqueue(NEWS, said.expires_at(at(1_796_000_060, 0)))
        .enqueue(
            MAIL.retry(retry).on_dead(OnDead::GoOn),
            Outgoing::of(&text).key("k,1").delay(Duration::from_secs(90)),
        )
        .enqueue(MAIL.retry(retry), Outgoing::of(&text).retry(Retry::DEFAULT))
        .put(BALANCES, &51, &-140);
    let wanted = json!({
        "tables": {"balances": {"key": "u64", "codec": "bincode", "schema": 0, "machine": null}},
        "queues": {
            "mail": {"codec": "bincode", "at_most_once": false},
            "news": {"codec": "json", "at_most_once": true},
        },
        "operations": [
            {"op": "enqueue", "queue": "news", "key": "hex:00ff", "at": "2026-11-30T00:53:20.000000007Z",
                "expires_at": "2026-11-30T00:54:20.000000000Z", "headers": [["b", ""], ["a", "\""]], "message": note},
            {"op": "enqueue", "queue": "mail", "key": "k,1", "delay": "90s", "on_dead": "go on",
                "retry": {"base": "1s 500000000ns", "cap": "30m", "failures": 100, "interruptions": 10, "give_up_after": null},
                "message": {"base64": "BHRleHQ="}},
            {"op": "enqueue", "queue": "mail", "message": {"base64": "BHRleHQ="}},
            {"op": "put", "table": "balances", "key": 51, "condition": "any", "value": {"base64": "+xcB"}},
        ],
    });
    let text = batch.to_json().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wanted);
    assert_eq!(Batch::from_json(&text, &[]).unwrap().to_json().unwrap(), text);
    // What is left out is as by default, and as the file has it.
    let store = small().in_memory().unwrap();
    assert!(matches!(store.apply(&batch).unwrap(), Outcome::Applied { .. }));
    let queues = queues(&store);
    let short =
        r#"{"operations":[{"op":"enqueue","queue":"news","message":{"a": [1, null]},"retry":{"failures":100}}]}"#;
    assert_eq!(kind_of(Batch::from_json(short, &tables(&store))), ErrorKind::Invalid);
    let short = Batch::from_json_with(short, &[], &queues).unwrap();
    assert_eq!(
        short.to_json().unwrap(),
        Batch::new().enqueue(NEWS, &note).to_json().unwrap()
    );
    assert!(matches!(store.apply(&short).unwrap(), Outcome::Applied { .. }));
}

/// Messages of which no two are the same request.
fn different_messages() -> Vec<Batch> {
    let secs = Duration::from_secs;
    let (text, other) = ("text".to_owned(), "other".to_owned());
    let bytes = b"\x04text".to_vec();
    let dynamic = |codec| DynQueue::new("mail", codec);
    let of = || Outgoing::of(&text);
    let retry = Retry::DEFAULT;
    let mail = |outgoing: Outgoing<'_, String>| Batch::new().enqueue(MAIL, outgoing);
    vec![
        mail(of()),
        Batch::new().enqueue(MAIL, &other),
        mail(of()).enqueue(MAIL, &text),
        mail(of()).enqueue(MAIL, &other),
        Batch::new().enqueue(Queue::<String>::new("mails"), &text),
        Batch::new().enqueue(MAIL.at_most_once(), &text),
        Batch::new().enqueue(&dynamic(CodecId::Json), &bytes),
        mail(of().key("k")),
        mail(of().key("header")),
        mail(of().header("key", "k")),
        mail(of().header("k", "")),
        mail(of().header("", "k")),
        mail(of().header("k", "").header("l", "")),
        mail(of().header("l", "").header("k", "")),
        mail(of().delay(secs(0))),
        mail(of().delay(secs(1))),
        mail(of().at(UNIX_EPOCH + secs(1))),
        mail(of().expires_at(UNIX_EPOCH + secs(1))),
        mail(of().at(UNIX_EPOCH + secs(1)).expires_at(UNIX_EPOCH + secs(1))),
        mail(of().retry(retry.base(secs(2)))),
        mail(of().retry(retry.cap(secs(2)))),
        mail(of().retry(retry.failures(10))),
        mail(of().retry(retry.interruptions(100))),
        mail(of().retry(retry.give_up_after(secs(2)))),
        mail(of().retry(retry.never_too_old())),
        Batch::new().enqueue(MAIL.on_dead(OnDead::GoOn), &text),
        mail(of()).delete(BALANCES, &1),
        Batch::new().delete(BALANCES, &1).enqueue(MAIL, &text),
    ]
}

#[test]
fn a_remembered_batch_is_bound_to_all_that_is_said_of_its_messages() {
    let key = OnceKey::new("s", "k", Keep::Forever);
    let batches: Vec<Batch> = different_messages().into_iter().map(|batch| batch.once(&key)).collect();
    for (place, batch) in batches.iter().enumerate() {
        let store = small().in_memory().unwrap();
        assert!(matches!(store.apply(batch).unwrap(), Outcome::Applied { .. }));
        for (other, batch) in batches.iter().enumerate() {
            // Bytes that are no JSON have no form as text.
            let text = batch.to_json().ok().map(|text| Batch::from_json(&text, &[]).unwrap());
            assert_eq!(text.is_none(), other == 6, "{other}");
            for batch in [Some(batch), text.as_ref()].into_iter().flatten() {
                match store.dry_run(batch) {
                    Ok(outcome) => assert!(
                        place == other && matches!(outcome, Outcome::Repeat { .. }),
                        "{place} {other}"
                    ),
                    Err(error) => assert!(place != other && error.kind() == ErrorKind::Mismatch, "{place} {other}"),
                }
            }
        }
    }
    // By whom a message has its retry is no part of it.
    let text = "text".to_owned();
    let three = Retry::DEFAULT.failures(3);
    let same = [
        [
            Batch::new().enqueue(MAIL.retry(three), &text),
            Batch::new().enqueue(MAIL, Outgoing::of(&text).retry(three)),
        ],
        [
            Batch::new().enqueue(MAIL.retry(three), Outgoing::of(&text).retry(Retry::DEFAULT)),
            Batch::new().enqueue(MAIL, &text),
        ],
    ];
    for [one, other] in same {
        let store = small().in_memory().unwrap();
        assert!(matches!(store.apply(&one.once(&key)).unwrap(), Outcome::Applied { .. }));
        assert!(matches!(
            store.apply(&other.once(&key)).unwrap(),
            Outcome::Repeat { .. }
        ));
    }
}

/// The page that describes a batch says what the code says.
#[test]
fn the_json_schema_names_the_fields_that_are_taken_and_those_that_are_needed() {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/batch.schema.json")).expect("JSON");
    let takes = |batch: &Value| Batch::from_json(&batch.to_string(), &[]).is_ok();
    let numbers = json!({"key": "u64", "codec": "json"});
    let emails = json!({"codec": "json"});
    let doors = json!({"key": "str", "codec": "json", "machine": schema["$defs"]["machine"]["examples"][0]});
    let with = |part: &str, value: Value| {
        let delete = json!([{"op": "delete", "table": "numbers", "key": 1}]);
        match part {
            "batch" => value,
            "once" => json!({"once": value, "tables": {"numbers": numbers}, "operations": delete}),
            "table" => {
                json!({"tables": {"numbers": value}, "operations": [{"op": "delete", "table": "numbers", "key": "(a,1)"}]})
            }
            "machine" => {
                json!({"tables": {"numbers": {"key": "u64", "codec": "json", "machine": value}}, "operations": delete})
            }
            "queue" => json!({"queues": {"emails": value}, "tables": {"numbers": numbers}, "operations": delete}),
            "retry" => {
                json!({"queues": {"emails": emails}, "operations": [
                    {"op": "enqueue", "queue": "emails", "message": 1, "retry": value}]})
            }
            _ => {
                let tables = json!({"numbers": numbers, "doors": doors});
                json!({"tables": tables, "queues": {"emails": emails}, "operations": [value]})
            }
        }
    };
    let defs = schema["$defs"].as_object().expect("definitions");
    let mut described: Vec<(&str, &Value)> = vec![("batch", &schema)];
    described.extend(defs.iter().map(|(name, definition)| (name.as_str(), definition)));
    let mut seen = 0;
    for (part, definition) in described {
        let Some(examples) = definition["examples"].as_array() else {
            continue;
        };
        assert_eq!(definition["additionalProperties"], false, "{part}");
        let named = definition["properties"].as_object().expect("properties");
        let needed: Vec<&str> = definition["required"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut used = Map::new();
        for example in examples {
            assert!(takes(&with(part, example.clone())), "{part} example {example}");
            let fields = example.as_object().expect("an object");
            used.extend(fields.clone());
            let mut more = fields.clone();
            more.insert("x".to_owned(), Value::Null);
            assert!(!takes(&with(part, more.into())), "{part} takes an unknown field");
            for field in fields.keys() {
                let mut fewer = fields.clone();
                fewer.remove(field);
                // A table or queue that nothing describes is not known here.
                let is_description = part == "batch" && (field == "tables" || field == "queues");
                let is_needed = needed.contains(&field.as_str()) || is_description;
                assert_eq!(takes(&with(part, fewer.into())), !is_needed, "{part} without {field}");
            }
            seen += 1;
        }
        assert_eq!(
            used.keys().collect::<Vec<_>>(),
            named.keys().collect::<Vec<_>>(),
            "{part}: examples show every field"
        );
    }
    assert_eq!(seen, 15);
}
