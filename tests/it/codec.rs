//! Bytes and what they mean, as tables: numbers, versions, keys, ranges, records.

use sprag::internals::{encode_key, envelope, keys_are_empty, keys_contain, varint};
use sprag::{DynKey, ErrorKind, Key, KeyKind, Keys, Version, limits};
use std::fmt::Debug;

fn kind_of<T: Debug>(result: sprag::Result<T>) -> ErrorKind {
    result.expect_err("an error").kind()
}

#[test]
fn a_number_takes_the_bytes_it_needs_and_comes_back() {
    let numbers: [(u64, &[u8]); 7] = [
        (0, &[0]),
        (1, &[1]),
        (127, &[0x7f]),
        (128, &[0x80, 1]),
        (300, &[0xac, 2]),
        (1 << 63, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
        (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ];
    for (number, bytes) in numbers {
        let mut out = Vec::new();
        varint::put(&mut out, number);
        assert_eq!(out, bytes);
        out.push(0xee);
        let mut input = out.as_slice();
        assert_eq!(varint::take(&mut input).expect("its own encoding"), number);
        assert_eq!(input, [0xee]);
    }
}

#[test]
fn a_number_in_another_form_than_its_own_is_refused_and_nothing_is_taken() {
    let refused: [&[u8]; 7] = [
        &[],
        &[0x80],
        &[0x80, 0],
        &[0xff, 0x80, 0],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
        &[0xff; 20],
    ];
    for bytes in refused {
        let mut input = bytes;
        assert_eq!(kind_of(varint::take(&mut input)), ErrorKind::Corrupt, "{bytes:?}");
        assert_eq!(input, bytes);
    }
}

#[test]
fn versions_start_at_one_and_end() {
    assert_eq!(Version::FIRST.get(), 1);
    assert_eq!(Version::FIRST.next().map(Version::get), Some(2));
    assert_eq!(Version::try_from(7).expect("a version").to_string(), "7");
    assert_eq!(kind_of(Version::try_from(0)), ErrorKind::Invalid);
    assert_eq!(Version::try_from(u64::MAX).expect("the last").next(), None);
    assert_eq!(serde_json::to_string(&Version::FIRST).expect("json"), "1");
    assert!(serde_json::from_str::<Version>("0").is_err());
}

fn encoded<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    encode_key(key).expect("a key within the limit")
}

#[test]
fn keys_have_the_bytes_that_the_format_says() {
    assert_eq!(encoded(&258u64), [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(encoded(&0i64), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(&-1i64), [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(encoded("a\0"), [b'a', 0]);
    assert_eq!(encoded([1u8, 2].as_slice()), [1, 2]);
    assert_eq!(encoded(&[3u8, 4]), [3, 4]);
    assert_eq!(
        encoded(&("a\0b".to_owned(), 1u64)),
        [b'a', 0, 0xff, b'b', 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    );
    assert_eq!(encoded(&(1u64, "a\0".to_owned())), [0, 0, 0, 0, 0, 0, 0, 1, b'a', 0]);
    assert_eq!(encoded(&(([7u8], vec![8u8]), vec![9u8])), [7, 8, 0, 1, 9]);
}

#[test]
fn a_key_at_the_limit_passes_and_one_byte_more_is_too_large() {
    let longest = "x".repeat(limits::KEY_BYTES_MAX);
    assert_eq!(encoded(longest.as_str()).len(), limits::KEY_BYTES_MAX);
    assert_eq!(kind_of(encode_key(format!("{longest}x").as_str())), ErrorKind::TooLarge);
    // Escaping counts.
    assert_eq!(
        kind_of(encode_key(&(vec![0u8; limits::KEY_BYTES_MAX / 2], 1u64))),
        ErrorKind::TooLarge
    );
}

#[test]
fn bytes_that_are_no_key_of_the_type_are_refused() {
    assert_eq!(kind_of(u64::decode(&[0; 7])), ErrorKind::Decode);
    assert_eq!(kind_of(u64::decode(&[0; 9])), ErrorKind::Decode);
    assert_eq!(kind_of(i64::decode(&[])), ErrorKind::Decode);
    assert_eq!(kind_of(str::decode(&[0xff])), ErrorKind::Decode);
    assert_eq!(kind_of(<[u8; 4]>::decode(&[0; 5])), ErrorKind::Decode);
    for bytes in [
        &[][..],
        b"ab",
        b"ab\0",
        b"a\0\x02",
        b"a\0\x01123",
        b"\xff\0\x0112345678",
    ] {
        assert_eq!(kind_of(<(String, u64)>::decode(bytes)), ErrorKind::Decode, "{bytes:?}");
    }
}

#[test]
fn kinds_have_a_text_form_that_reads_back() {
    let kinds = [
        "u64",
        "i64",
        "str",
        "bytes",
        "bytes[0]",
        "bytes[16]",
        "(str,u64)",
        "((u64,bytes),(i64,bytes[4]))",
    ];
    for text in kinds {
        let kind: KeyKind = text.parse().expect("a kind");
        assert_eq!(kind.to_string(), text);
        assert_eq!(serde_json::to_string(&kind).expect("json"), format!("{text:?}"));
    }
    assert_eq!(
        <((u64, Vec<u8>), (i64, [u8; 4]))>::kind().to_string(),
        "((u64,bytes),(i64,bytes[4]))"
    );
    assert_eq!([<str as Key>::kind(), String::kind()], [KeyKind::Str, KeyKind::Str]);
}

#[test]
fn a_text_that_is_no_kind_is_invalid() {
    let deep = format!("{}u64{}", "(".repeat(9), ",u64)".repeat(9));
    let very_deep = "(".repeat(1_000_000);
    let texts = [
        "",
        "u32",
        "u64 ",
        "(u64,str",
        "(u64)",
        "(u64,str))",
        "(u64 str)",
        "bytes[]",
        "bytes[-1]",
        "bytes[+1]",
        "bytes[01]",
        "bytes[4097]",
        "bytes[65536]",
        "bytes[16",
        &deep,
        &very_deep,
    ];
    for text in texts {
        assert_eq!(kind_of(text.parse::<KeyKind>()), ErrorKind::Invalid, "{text:.40}");
    }
    let as_deep_as_allowed = format!("{}u64{}", "(".repeat(8), ",u64)".repeat(8));
    assert!(as_deep_as_allowed.parse::<KeyKind>().is_ok());
}

fn parsed(kind: &str, text: &str) -> sprag::Result<DynKey> {
    DynKey::parse(&kind.parse().expect("a kind"), text)
}

#[test]
fn keys_of_every_kind_are_read_from_text_and_shown_again() {
    let single = |key: DynKey| Box::new(key);
    let keys = [
        ("u64", "51", DynKey::U64(51)),
        ("i64", "-9223372036854775808", DynKey::I64(i64::MIN)),
        ("str", "hex:zz, (\\", DynKey::Str("hex:zz, (\\".into())),
        ("str", "", DynKey::Str(String::new())),
        ("bytes", "abc", DynKey::Bytes(b"abc".to_vec())),
        ("bytes", "hex:00ff", DynKey::Bytes(vec![0, 0xff])),
        ("bytes", "hex:6865783a", DynKey::Bytes(b"hex:".to_vec())),
        ("bytes[2]", "ab", DynKey::Array(b"ab".to_vec())),
        (
            "(str,u64)",
            "(eu,5)",
            DynKey::Pair(single(DynKey::Str("eu".into())), single(DynKey::U64(5))),
        ),
        (
            "(str,str)",
            "(a\\,b,c\\)\\\\()",
            DynKey::Pair(single(DynKey::Str("a,b".into())), single(DynKey::Str("c)\\(".into()))),
        ),
        (
            "((u64,i64),bytes)",
            "((1,-2),hex:0a)",
            DynKey::Pair(
                single(DynKey::Pair(single(DynKey::U64(1)), single(DynKey::I64(-2)))),
                single(DynKey::Bytes(vec![10])),
            ),
        ),
    ];
    for (kind, text, key) in keys {
        assert_eq!(parsed(kind, text).expect(text), key);
        assert_eq!(key.to_string(), text);
        assert_eq!(key.kind().to_string(), kind);
    }
    assert_eq!(
        parsed("bytes", "hex:0A").expect("capital digits"),
        DynKey::Bytes(vec![10])
    );
    assert_eq!(
        parsed("bytes", "\u{e9}").expect("text"),
        DynKey::Bytes(vec![0xc3, 0xa9])
    );
}

#[test]
fn a_text_that_is_no_key_of_the_kind_is_invalid() {
    let texts = [
        ("u64", "-1"),
        ("u64", ""),
        ("u64", "18446744073709551616"),
        ("u64", "0x10"),
        ("i64", "1.0"),
        ("bytes", "hex:0"),
        ("bytes", "hex:0g"),
        ("bytes", "hex:\u{e9}"),
        ("bytes[2]", "abc"),
        ("bytes[2]", "hex:00"),
        ("(str,u64)", "eu,5"),
        ("(str,u64)", "(eu,5"),
        ("(str,u64)", "(eu,5)x"),
        ("(str,u64)", "(eu,5,6)"),
        ("(str,u64)", "(eu,x)"),
        ("(str,u64)", "(eu"),
        ("(str,u64)", "(eu\\"),
        ("(str,str)", "(a),b)"),
        ("((u64,u64),u64)", "(1,2,3)"),
        ("(u64,u64)", ""),
    ];
    for (kind, text) in texts {
        assert_eq!(kind_of(parsed(kind, text)), ErrorKind::Invalid, "{kind} {text}");
    }
}

/// Which of some keys a range has.
fn chosen<K: Key + ?Sized, Q: AsRef<K>>(keys: &Keys<K>, among: &[Q]) -> Vec<usize> {
    let has = |key: &Q| keys_contain(keys, &encoded(key.as_ref()));
    among
        .iter()
        .enumerate()
        .filter(|(_, key)| has(key))
        .map(|(index, _)| index)
        .collect()
}

#[test]
fn ranges_have_the_keys_that_their_names_say() {
    let among = ["", "a", "ab", "b", "ba", "c"];
    let ranges: [(Keys<str>, &[usize]); 12] = [
        (Keys::all(), &[0, 1, 2, 3, 4, 5]),
        (Keys::from("b"), &[3, 4, 5]),
        (Keys::after("b"), &[4, 5]),
        (Keys::to("b"), &[0, 1, 2]),
        (Keys::through("b"), &[0, 1, 2, 3]),
        (Keys::between("a", "b"), &[1, 2]),
        (Keys::between("b", "a"), &[]),
        (Keys::<str>::prefix("a"), &[1, 2]),
        (Keys::<str>::prefix(""), &[0, 1, 2, 3, 4, 5]),
        (Keys::from("a").resume_after("ab"), &[3, 4, 5]),
        (Keys::between("a", "c").rev().resume_after("b"), &[1, 2]),
        (Keys::from("b").resume_after("a"), &[3, 4, 5]),
    ];
    for (keys, has) in ranges {
        assert_eq!(chosen(&keys, &among), has, "{keys:?}");
    }
}

#[test]
fn a_range_without_room_for_a_key_says_so() {
    let ranges: [(Keys<str>, bool); 9] = [
        (Keys::all(), false),
        (Keys::to(""), true),
        (Keys::through(""), false),
        (Keys::between("b", "a"), true),
        (Keys::between("a", "a"), true),
        (Keys::between("a", "a\0"), false),
        (Keys::through("a").resume_after("a"), true),
        (Keys::through("a").rev().resume_after(""), true),
        (Keys::through("a").resume_after("b"), true),
    ];
    for (keys, empty) in ranges {
        assert_eq!(keys_are_empty(&keys), empty, "{keys:?}");
    }
}

#[test]
fn a_prefix_of_the_highest_bytes_has_no_end() {
    let keys = Keys::<[u8]>::prefix(&[0xff, 0xff]);
    assert!(keys_contain(&keys, &[0xff; 9]));
    assert!(!keys_contain(&keys, &[0xff, 0xfe]));
    let keys = Keys::<[u8]>::prefix(&[1, 0xff]);
    assert!(keys_contain(&keys, &[1, 0xff, 0xff]));
    assert!(!keys_contain(&keys, &[2]));
}

#[test]
fn the_pairs_of_a_first_part_are_those_and_no_others() {
    let of_a = Keys::<(String, u64)>::first(&"a".to_owned());
    for (first, has) in [
        ("a", true),
        ("", false),
        ("a\0", false),
        ("ab", false),
        ("a\u{1}", false),
        ("b", false),
    ] {
        for second in [0, u64::MAX] {
            assert_eq!(
                keys_contain(&of_a, &encoded(&(first.to_owned(), second))),
                has,
                "{first:?}"
            );
        }
    }
}

fn version(number: u64) -> Version {
    Version::try_from(number).expect("a version")
}

fn stored(key: &[u8], record: &envelope::Envelope<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    envelope::encode(key, record, &mut out);
    out
}

#[test]
fn a_record_has_the_bytes_that_the_format_says() {
    let plain = stored(
        b"k",
        &envelope::Envelope {
            version: version(300),
            state: None,
            value: b"v",
        },
    );
    assert_eq!(plain[4..], [0, 0xac, 2, b'v']);
    assert_eq!(plain[..4], crc32fast::hash(&[b'k', 0, 0xac, 2, b'v']).to_le_bytes());
    let with_state = stored(
        b"",
        &envelope::Envelope {
            version: version(1),
            state: Some("new"),
            value: b"",
        },
    );
    assert_eq!(with_state[4..], [1, 1, 3, b'n', b'e', b'w']);
}

#[test]
fn a_record_comes_back_under_its_own_key_only() {
    let longest = "s".repeat(limits::STATE_NAME_BYTES_MAX);
    for state in [None, Some("packed"), Some(longest.as_str())] {
        for value in [&b""[..], b"value"] {
            let record = envelope::Envelope {
                version: version(u64::MAX),
                state,
                value,
            };
            let bytes = stored(b"key", &record);
            assert_eq!(envelope::decode(b"key", &bytes).expect("its own bytes"), record);
            assert_eq!(kind_of(envelope::decode(b"kez", &bytes)), ErrorKind::Corrupt);
        }
    }
}

#[test]
fn every_damaged_bit_and_every_cut_of_a_record_is_noticed() {
    let bytes = stored(
        b"key",
        &envelope::Envelope {
            version: version(7),
            state: Some("new"),
            value: b"value",
        },
    );
    for end in 0..bytes.len() {
        assert_eq!(
            kind_of(envelope::decode(b"key", &bytes[..end])),
            ErrorKind::Corrupt,
            "cut at {end}"
        );
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            kind_of(envelope::decode(b"key", &damaged)),
            ErrorKind::Corrupt,
            "bit {bit}"
        );
    }
}

/// A good checksum over fields that break their rules: the rules are judged too.
#[test]
fn a_record_whose_fields_break_a_rule_is_corrupt_under_a_good_checksum() {
    let mut too_long = vec![1, 1, 65];
    too_long.extend([b's'; 65]);
    let bodies: [&[u8]; 10] = [
        &[],
        &[0],
        &[0, 0],
        &[2, 1],
        &[0, 0x81, 0],
        &[1, 1],
        &[1, 1, 0, b'v'],
        &[1, 1, 2, b's'],
        &[1, 1, 1, 0xff],
        &too_long,
    ];
    for body in bodies {
        let mut crc = crc32fast::Hasher::new();
        crc.update(b"key");
        crc.update(body);
        let bytes = [&crc.finalize().to_le_bytes(), body].concat();
        assert_eq!(
            kind_of(envelope::decode(b"key", &bytes)),
            ErrorKind::Corrupt,
            "{body:?}"
        );
    }
}
