//! Hostile text: unknown fields, wrong types, ten megabytes, deep nesting.

mod messages;

use sprag::{Batch, ErrorKind};

use crate::common::text_of;

/// A text, and what the answer must say: the place, and what is wrong with it.
type Trial = (String, &'static str);

fn deep(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn long() -> String {
    "x".repeat(10 << 20)
}

fn whole_texts() -> Vec<Trial> {
    let long = long();
    vec![
        (String::new(), "line=1, column=0"),
        ("null".into(), "line=1, column=4"),
        ("[]".into(), "line=1"),
        ("{}".into(), "line=1, column=2: missing field `operations`"),
        (r#"{"operations":[]}"#.into(), "no operations"),
        (r#"{"operations":[]} x"#.into(), "line=1, column=19"),
        (
            r#"{"operations":[],"operations":[]}"#.into(),
            "duplicate field `operations`",
        ),
        (r#"{"operations":{}}"#.into(), "line=1, column=14"),
        (
            r#"[{"scope":"s","key":"k","keep":"1d"},{},[{"op":"delete","table":"t","key":1}]]"#.into(),
            "line=1, column=0: invalid type: sequence, expected an object",
        ),
        (format!(r#"{{"{long}":1}}"#), "unknown field `xxx"),
        (deep(100_000), "line=1"),
        (format!(r#"{{"operations":{}}}"#, deep(100_000)), "line=1"),
    ]
}

/// A batch whose second operation is this one; it stands on the third line.
fn with(operation: &str) -> String {
    format!(
        r#"{{"tables":{{"t":{{"key":"u64","codec":"json"}},"b":{{"key":"u64","codec":"bincode"}},"s":{{"key":"str","codec":"json"}}}},"queues":{{"q":{{"codec":"json"}},"r":{{"codec":"bincode"}}}},
"operations":[{{"op":"check","table":"t","key":1,"condition":"any"}},
{operation}]}}"#
    )
}

fn fields_of_operations() -> Vec<Trial> {
    vec![
        (
            with(r#"{"op":"put","table":"t","key":1,"value":1,"valeu":2}"#),
            "line=3, column=49: unknown field `valeu`",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1}"#),
            "operation=1: this operation lacks a field, field=value",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"value":1,"state":"x"}"#),
            "operation=1: this operation takes no such field, field=state",
        ),
        (
            with(r#"{"op":"check","table":"t","key":1}"#),
            "operation=1: this operation lacks a field, field=condition",
        ),
        (
            with(r#"{"op":"delete","table":"t","key":1,"value":null}"#),
            "operation=1: this operation takes no such field, field=value",
        ),
        (
            with(r#"{"op":"transition","table":"t","key":1,"from":"a"}"#),
            "operation=1: this operation lacks a field, field=to",
        ),
        (
            with(r#"{"op":"create","table":"t","key":1,"value":1}"#),
            "operation=1: this operation lacks a field, field=state",
        ),
        (
            with(r#"{"op":"PUT","table":"t","key":1,"value":1}"#),
            "line=3, column=11: unknown variant `PUT`",
        ),
        (
            with(r#"{"op":"put","table":7,"key":1,"value":1}"#),
            "line=3, column=21: invalid type",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1.5,"value":1}"#),
            "line=3, column=33: invalid type: floating point `1.5`, expected a key",
        ),
        (
            with(r#"{"op":"put","table":"t","key":null,"value":1}"#),
            "expected a key",
        ),
        (
            with(r#"{"op":"put","table":"t","key":[1],"value":1}"#),
            "expected a key",
        ),
        (
            with(r#"{"op":"put","table":"t","key":-1,"value":1}"#),
            "operation=1: not a key of this kind, kind=u64",
        ),
    ]
}

/// Lists for objects, objects for words, and nulls.
fn forms_of_operations() -> Vec<Trial> {
    vec![
        (
            with(r#"["put","t",1,null,5,null,null,null]"#),
            "invalid type: sequence, expected an object",
        ),
        (
            with(r#"{"op":{"put":null},"table":"t","key":1,"value":1}"#),
            "invalid type: map, expected a string",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":null,"value":1}"#),
            "invalid type: null, expected a condition",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":{"any":null},"value":1}"#),
            "unknown field `any`, expected `version`",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":[7],"value":1}"#),
            "invalid type: sequence, expected a condition",
        ),
        (
            with(r#"{"op":"put","table":"b","key":1,"value":["AA=="]}"#),
            "operation=1: value is not bytes",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"state":null,"value":1}"#),
            "invalid type: null",
        ),
    ]
}

fn keys_of_operations() -> Vec<Trial> {
    vec![
        (
            with(r#"{"op":"put","table":"t","key":18446744073709551616,"value":1}"#),
            "line=3",
        ),
        (
            with(r#"{"op":"put","table":"t","key":"one","value":1}"#),
            "operation=1: not a key of this kind",
        ),
        (
            with(r#"{"op":"put","table":"s","key":1,"value":1}"#),
            "operation=1: key is a number, and keys of its table are not, kind=str",
        ),
        (
            with(r#"{"op":"put","table":"u","key":1,"value":1}"#),
            "operation=1: table is neither in the file nor described under tables, table=\"u\"",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":"maybe","value":1}"#),
            "line=3, column=51: unknown variant `maybe`",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":{"version":0},"value":1}"#),
            "operation=1: versions start at 1",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":{"version":-1},"value":1}"#),
            "line=3, column=57: invalid value",
        ),
        (
            with(r#"{"op":"put","table":"t","key":1,"condition":{"version":1,"absent":null},"value":1}"#),
            "line=3",
        ),
        (
            with(r#"{"op":"put","table":"b","key":1,"value":1}"#),
            "operation=1: value is not bytes",
        ),
        (
            with(r#"{"op":"put","table":"b","key":1,"value":{"base64":"?"}}"#),
            "operation=1: value is not bytes",
        ),
        (
            with(r#"{"op":"put","table":"b","key":1,"value":{"base64":"","x":1}}"#),
            "unknown field `x`",
        ),
        (
            with(&format!(
                r#"{{"op":"put","table":"t","key":1,"value":{}}}"#,
                deep(100_000)
            )),
            "operation=1: the value nests too deep, levels_max=128",
        ),
    ]
}

fn values_and_sizes() -> Vec<Trial> {
    let long = long();
    vec![
        (
            with(&format!(r#"{{"op":"put","table":"s","key":"{long}","value":1}}"#)),
            "operation=1: key too long, bytes=10485760, bytes_max=4096",
        ),
        (
            with(&format!(r#"{{"op":"put","table":"{long}","key":1,"value":1}}"#)),
            "operation=1: table name is not 1 to 255 bytes",
        ),
        (with(&format!(r#"{{"op":"{long}","table":"t","key":1}}"#)), "line=3"),
        (
            with(&format!(
                r#"{{"op":"create","table":"t","key":1,"value":1,"state":"{long}"}}"#
            )),
            "operation=1: name of a state or a machine is too long",
        ),
        (
            with(r#"{"op":"delete","table":"t","key":1},{"op":"put","table":"t","key":"1","value":1}"#),
            "operation=2: batch writes twice to one key, table=t",
        ),
    ]
}

fn remembered_keys() -> Vec<Trial> {
    let long = long();
    let once = |once: &str| format!(r#"{{"once":{once},"operations":[{{"op":"delete","table":"t","key":1}}]}}"#);
    vec![
        (once(r#"{"scope":"s","key":"k"}"#), "missing field `keep`"),
        (
            once(r#"{"scope":"s p","key":"k","keep":"7d"}"#),
            "remembered key of a batch is refused: scope is not",
        ),
        (
            once(&format!(r#"{{"scope":"s","key":"{long}","keep":"7d"}}"#)),
            "remembered key has 10485760 bytes",
        ),
        (
            once(r#"{"scope":"s","key":"hex:0","keep":"7d"}"#),
            "not a key of this kind",
        ),
        (once("null"), "invalid type: null, expected an object"),
        (
            once(r#"["s","k","7d",null]"#),
            "invalid type: sequence, expected an object",
        ),
        (
            once(r#"{"scope":"s","key":"k","keep":"7d","issued_at":null}"#),
            "invalid type: null",
        ),
        (
            once(r#"{"scope":"s","key":"k","keep":"7"}"#),
            "a duration without a unit",
        ),
        (
            once(r#"{"scope":"s","key":"k","keep":"1M"}"#),
            "a duration with another unit",
        ),
        (once(r#"{"scope":"s","key":"k","keep":"0s"}"#), "a keep of zero"),
        (
            once(r#"{"scope":"s","key":"k","keep":"7d","issued_at":"yesterday"}"#),
            "not a time",
        ),
        (
            once(&format!(r#"{{"scope":"s","key":"k","keep":"{long}"}}"#)),
            "remembered key of a batch is refused",
        ),
    ]
}

fn descriptions_of_tables() -> Vec<Trial> {
    let long = long();
    let table =
        |table: &str| format!(r#"{{"tables":{{"t":{table}}},"operations":[{{"op":"delete","table":"t","key":1}}]}}"#);
    vec![
        (
            table(r#"{"key":"u128","codec":"json"}"#),
            "operation=0: not a kind of key",
        ),
        (table(r#"{"key":"u64","codec":"xml"}"#), "operation=0: not a codec"),
        (table(r#"{"key":"u64"}"#), "missing field `codec`"),
        (
            table(r#"["u64","json",null,null]"#),
            "invalid type: sequence, expected an object",
        ),
        (
            table(r#"{"key":"u64","codec":"json","machine":["m",["a"],"a",[],false]}"#),
            "invalid type: sequence, expected an object",
        ),
        (
            table(r#"{"key":"u64","codec":"json"},"no one's":{"key":"u128","codec":"json"}"#),
            "description of a table is refused, table=\"no one's\": not a kind of key",
        ),
        (
            table(r#"{"key":"u64","codec":"json"},"t":{"key":"u64","codec":"json"}"#),
            "table `t` is described twice",
        ),
        (
            table(r#"{"key":"u64","codec":"json","machine":{"name":"m","states":["a"],"initial":"b","moves":[]}}"#),
            "unknown state, state=b",
        ),
        (
            table(
                r#"{"key":"u64","codec":"json","machine":{"name":"m","states":["a","b"],"initial":"a","moves":[["a","b"],["b","a"]]}}"#,
            ),
            "cycle in a machine not declared cyclic",
        ),
        (
            table(&format!(
                r#"{{"key":"u64","codec":"json","machine":{{"name":"m","states":["a"],"initial":"a","moves":[["a","{long}"]]}}}}"#
            )),
            "too long, bytes=10485760",
        ),
        (
            table(&format!(
                r#"{{"key":"{}u64{}","codec":"json"}}"#,
                "(u64,".repeat(5000),
                ")".repeat(5000)
            )),
            "operation=0: not a kind of key",
        ),
    ]
}

#[test]
fn hostile_text_is_refused_with_its_place_and_a_short_message() {
    let trials = [
        whole_texts(),
        fields_of_operations(),
        forms_of_operations(),
        keys_of_operations(),
        values_and_sizes(),
        messages::what_is_said(),
        messages::fields(),
        messages::descriptions_of_queues(),
        remembered_keys(),
        descriptions_of_tables(),
    ];
    for (text, place) in trials.into_iter().flatten() {
        let error = Batch::from_json(&text, &[]).expect_err("a refusal");
        assert!(
            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge),
            "{error:?}"
        );
        let told = text_of(error.kind(), Err::<(), _>(error));
        let shown: String = text.chars().take(200).collect();
        assert!(told.contains(place), "{told} instead of {place} for {shown}");
        assert!(told.len() < 1000, "{} bytes of message for {shown}", told.len());
    }
}
