//! What goes in comes out: numbers, texts, keys of every kind, and bytes.
//!
//! Field reports: KV-1 (sizes are checked at the edge), C24 of the contract (machine output loses nothing).

use sprag::{Json, Store, Table};

use super::Place;

/// Numbers, escapes and double names come back as they went in; only whitespace outside of texts is left out.
#[test]
fn json_comes_back_as_it_went_in() {
    let place = Place::with_store();
    let values = [
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-0", "-0"),
        ("1e400", "1e400"),
        ("0.1000", "0.1000"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        ("null", "null"),
        (" [ 1 ,\t2\n] ", "[1,2]"),
        ("{\"b\" : 1, \"a\" : 2, \"b\" : 3}", "{\"b\":1,\"a\":2,\"b\":3}"),
        ("\" a \\\" b \\\\\"", "\" a \\\" b \\\\\""),
        ("[\"\\\\\", \" \"]", "[\"\\\\\",\" \"]"),
        ("\"\\u00e4 \u{e4}\"", "\"\\u00e4 \u{e4}\""),
    ];
    for (number, (given, stored)) in values.into_iter().enumerate() {
        let key = number.to_string();
        place
            .run(&["put", "FILE", "values", &key, given])
            .says("applied version=1");
        place
            .run(&["put", "FILE", "values", &key, stored])
            .says("unchanged version=1");
        place.run(&["get", "FILE", "values", &key]).says(stored);
        let object =
            format!("{{\"table\":\"values\",\"key\":\"{key}\",\"version\":1,\"state\":null,\"value\":{stored}}}");
        place.json(&["get", "FILE", "values", &key]).says(&object);
    }
    for refused in [
        "",
        "nan",
        "01",
        "1.",
        "+1",
        "'a'",
        "\"a\nb\"",
        "[1,]",
        "{\"a\"}",
        "1 2",
        "\u{feff}1",
        "tru",
    ] {
        place
            .json(&["put", "FILE", "values", "bad", refused])
            .fails(2, "invalid");
    }
    place.json(&["put", "FILE", "values", "bad", "@"]).fails(4, "not_found");
    place.json(&["get", "FILE", "values", "bad"]).fails(4, "no_record");
}

#[test]
fn a_value_is_taken_from_a_file_or_stdin_or_quoted_as_a_text() {
    let place = Place::with_store();
    let path = place.path("value.json");
    std::fs::write(&path, "{\n  \"a\": 1\n}\n").expect("a file");
    let from_file = format!("@{}", path.to_str().expect("a path of text"));
    place
        .run(&["put", "FILE", "values", "file", &from_file])
        .says("applied version=1");
    place.run(&["get", "FILE", "values", "file"]).says("{\"a\":1}");
    place
        .run_with_input(&["put", "FILE", "values", "pipe", "-"], b" [true]\n")
        .says("applied version=1");
    place.run(&["get", "FILE", "values", "pipe"]).says("[true]");
    for text in ["@file", "-", "say \"hi\"\n", "12"] {
        let key = format!("text {text}");
        assert_eq!(
            place.run(&["put", "FILE", "values", &key, text, "--text"]).code,
            Some(0)
        );
        let quoted = serde_json::to_string(text).expect("a text");
        place.run(&["get", "FILE", "values", &key]).says(&quoted);
    }
    let missing = format!("{from_file}.missing");
    place
        .json(&["put", "FILE", "values", "none", &missing])
        .fails(4, "not_found");
    let not_text = place.run_with_input(&["put", "FILE", "values", "none", "-", "--json"], b"\"\xff\"");
    not_text.fails(2, "invalid");
    let large = format!("\"{}\"", "x".repeat(8 << 20));
    let seen = place.run_with_input(&["put", "FILE", "values", "none", "-", "--json"], large.as_bytes());
    seen.fails(2, "too_large");
    place.json(&["get", "FILE", "values", "none"]).fails(4, "no_record");
}

#[test]
fn keys_of_every_kind_go_in_and_come_out_whole() {
    let place = Place::with_store();
    let keys = [
        ("u64", "18446744073709551615", "18446744073709551615"),
        ("i64", "-9223372036854775808", "-9223372036854775808"),
        ("str", "", "\"\""),
        ("str", "a b/\u{e4}", "\"a b/\u{e4}\""),
        ("bytes", "hex:00ff", "\"hex:00ff\""),
        ("bytes", "plain", "\"plain\""),
    ];
    for (kind, key, shown) in keys {
        place
            .run(&["put", "FILE", kind, key, "1", "--key", kind])
            .says("applied version=1");
        // The kind is in the file now, and need not be said.
        let object = format!("{{\"table\":\"{kind}\",\"key\":{shown},\"version\":1,\"state\":null,\"value\":1}}");
        place.json(&["get", "FILE", kind, key]).says(&object);
    }
    let store = Store::open(&place.file).expect("the store");
    let bytes: Table<[u8], u64, sprag::Stateless, Json> = Table::new("bytes");
    assert_eq!(store.get(bytes, &[0, 255]).expect("a read").expect("a record").value, 1);
    drop(store);

    for (table, key) in [
        ("u64", "-1"),
        ("u64", "18446744073709551616"),
        ("u64", "ada"),
        ("i64", "1.5"),
        ("bytes", "hex:0"),
    ] {
        place.json(&["get", "FILE", table, key]).fails(2, "invalid");
        place.json(&["put", "FILE", table, key, "1"]).fails(2, "invalid");
    }
    let long = "k".repeat(4097);
    place.json(&["put", "FILE", "str", &long, "1"]).fails(2, "too_large");
    place
        .json(&["put", "FILE", "str", "ada", "1", "--key", "u64"])
        .fails(6, "schema");
    place
        .run(&["put", "FILE", "str", "ada", "1", "--key", "str"])
        .says("applied version=1");
}

const PAIRS: Table<(String, u64), u64> = Table::new("pairs");

/// Values of a bincode table are bytes to everybody but its program.
#[test]
fn a_table_of_bincode_values_prints_base64_and_takes_nothing_else() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    store.put(PAIRS, &("a,b".to_owned(), 7), &300).expect("a put");
    store.close().expect("closed");
    let key = "(a\\,b,7)";
    place.run(&["get", "FILE", "pairs", key]).says("+ywB");
    place.json(&["get", "FILE", "pairs", key]).says(
        "{\"table\":\"pairs\",\"key\":\"(a\\\\,b,7)\",\"version\":1,\"state\":null,\"value\":{\"base64\":\"+ywB\"}}",
    );
    place.json(&["put", "FILE", "pairs", key, "301"]).fails(2, "invalid");
    place
        .json(&["put", "FILE", "pairs", key, "301", "--text"])
        .fails(2, "invalid");
    place
        .json(&["put", "FILE", "pairs", key, "+ywB!", "--base64"])
        .fails(2, "invalid");
    place
        .run(&["put", "FILE", "pairs", key, "+ywB", "--base64"])
        .says("unchanged version=1");
    place
        .run_with_input(&["put", "FILE", "pairs", key, "-", "--base64"], b"+y0B\n")
        .says("applied version=2");
    let store = Store::open(&place.file).expect("the store");
    assert_eq!(
        store
            .get(PAIRS, &("a,b".to_owned(), 7))
            .expect("a read")
            .expect("a record")
            .value,
        301
    );
}

/// What a program wrote that is no JSON is told of, and not printed in halves.
#[test]
fn a_stored_value_that_is_not_json_exits_6() {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    let table = sprag::DynTable::new("users", sprag::KeyKind::Str, sprag::CodecId::Json);
    store
        .put(&table, &sprag::DynKey::Str("ada".to_owned()), &b"{\"a\": 1".to_vec())
        .expect("a put");
    store.close().expect("closed");
    let error = place.json(&["get", "FILE", "users", "ada"]).fails(6, "decode");
    assert_eq!(error["causes"].as_array().map(Vec::len), Some(1), "{error}");
}
