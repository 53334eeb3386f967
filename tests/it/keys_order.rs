//! Properties of keys and decoders over random values: order of encodings, round trips, any bytes.

use crate::random::for_random;
use proptest::collection::vec;
use proptest::prelude::*;
use sprag::internals::{encode_key, envelope, keys_are_empty, keys_contain, varint};
use sprag::{Bincode, Codec, DynKey, ErrorKind, Json, Key, KeyKind, Keys};
use std::collections::BTreeMap;
use std::fmt::Debug;

const CASES: u32 = 2_000;

fn encoded<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    encode_key(key).expect("a short key")
}

/// Few different bytes, those that escaping and ends are about among them: then keys begin alike and collide.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![
            Just(0),
            Just(1),
            Just(2),
            Just(0xfe),
            Just(0xff),
            Just(b','),
            any::<u8>()
        ],
        0..6,
    )
}

fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        Just('\0'),
        Just('\u{1}'),
        Just('a'),
        Just(','),
        Just(')'),
        Just('\\'),
        any::<char>()
    ];
    vec(character, 0..6).prop_map(String::from_iter)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4u64,
        (u64::MAX - 3)..=u64::MAX,
        (0..64u32).prop_map(|bit| 1 << bit)
    ]
}

fn signed() -> impl Strategy<Value = i64> {
    number().prop_map(u64::cast_signed)
}

/// Order, equality and the round trip, through the typed key and through the key of the same kind named at run time.
fn keeps_order<K>(keys: impl Strategy<Value = K>)
where
    K: Key<Owned = K> + Clone + Ord + Debug,
{
    for_random(CASES, &(vec(keys, 2..5)), |keys| {
        for one in &keys {
            prop_assert_eq!(&K::decode(&encoded(one)).expect("its own encoding"), one);
            prop_assert_eq!(dynamic(one).map(|key| reencoded(&key)), Some(encoded(one)));
            for other in &keys {
                prop_assert_eq!(
                    encoded(one).cmp(&encoded(other)),
                    one.cmp(other),
                    "{:?} {:?}",
                    one,
                    other
                );
                prop_assert_eq!(
                    dynamic(one).cmp(&dynamic(other)),
                    one.cmp(other),
                    "{:?} {:?}",
                    one,
                    other
                );
            }
        }
        Ok(())
    });
}

fn dynamic<K: Key>(key: &K) -> Option<DynKey> {
    DynKey::decode(&K::kind(), &encoded(key)).ok()
}

fn reencoded(key: &DynKey) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode(&mut out);
    out
}

#[test]
fn numbers_keep_their_order() {
    keeps_order(number());
    keeps_order(signed());
}

#[test]
fn text_and_bytes_keep_their_order() {
    keeps_order(text());
    keeps_order(bytes());
    keeps_order(any::<[u8; 3]>());
}

#[test]
fn pairs_keep_their_order() {
    keeps_order((number(), signed()));
    keeps_order((text(), number()));
    keeps_order((bytes(), bytes()));
    keeps_order((any::<[u8; 2]>(), text()));
    keeps_order((0..2u64, text()));
}

#[test]
fn pairs_of_pairs_keep_their_order() {
    keeps_order(((text(), bytes()), signed()));
    keeps_order(((bytes(), bytes()), (bytes(), text())));
    keeps_order((text(), (text(), (bytes(), number()))));
}

#[test]
fn borrowed_keys_encode_as_owned_ones() {
    for_random(CASES, &(text(), bytes()), |(text, bytes)| {
        prop_assert_eq!(encoded(text.as_str()), encoded(&text));
        prop_assert_eq!(encoded(bytes.as_slice()), encoded(&bytes));
        Ok(())
    });
}

fn kind() -> impl Strategy<Value = KeyKind> {
    let single = prop_oneof![
        Just(KeyKind::U64),
        Just(KeyKind::I64),
        Just(KeyKind::Str),
        Just(KeyKind::Bytes),
        (0..5u16).prop_map(KeyKind::Array),
    ];
    single.prop_recursive(3, 8, 2, |part| {
        (part.clone(), part).prop_map(|(first, second)| KeyKind::Pair(Box::new(first), Box::new(second)))
    })
}

fn key_of(kind: &KeyKind) -> BoxedStrategy<DynKey> {
    match kind {
        KeyKind::U64 => number().prop_map(DynKey::U64).boxed(),
        KeyKind::I64 => signed().prop_map(DynKey::I64).boxed(),
        KeyKind::Str => text().prop_map(DynKey::Str).boxed(),
        KeyKind::Bytes => bytes().prop_map(DynKey::Bytes).boxed(),
        KeyKind::Array(len) => vec(any::<u8>(), usize::from(*len)).prop_map(DynKey::Array).boxed(),
        KeyKind::Pair(first, second) => (key_of(first), key_of(second))
            .prop_map(|(first, second)| DynKey::Pair(Box::new(first), Box::new(second)))
            .boxed(),
    }
}

/// Keys of one kind, whatever kind it is.
fn keys_of_one_kind() -> impl Strategy<Value = (KeyKind, Vec<DynKey>)> {
    kind().prop_flat_map(|kind| {
        let keys = vec(key_of(&kind), 1..4);
        (Just(kind), keys)
    })
}

#[test]
fn a_key_of_any_kind_reads_back_from_its_bytes_and_from_its_text() {
    for_random(CASES, &keys_of_one_kind(), |(kind, keys)| {
        prop_assert_eq!(&kind.to_string().parse::<KeyKind>().expect("its own text"), &kind);
        for key in keys {
            prop_assert_eq!(&key.kind(), &kind);
            prop_assert_eq!(&DynKey::decode(&kind, &reencoded(&key)).expect("its own bytes"), &key);
            prop_assert_eq!(&DynKey::parse(&kind, &key.to_string()).expect("its own text"), &key);
        }
        Ok(())
    });
}

#[test]
fn keys_of_any_one_kind_keep_their_order() {
    for_random(CASES, &keys_of_one_kind(), |(_, keys)| {
        for one in &keys {
            for other in &keys {
                prop_assert_eq!(
                    reencoded(one).cmp(&reencoded(other)),
                    one.cmp(other),
                    "{:?} {:?}",
                    one,
                    other
                );
            }
        }
        Ok(())
    });
}

#[test]
fn ranges_have_exactly_the_keys_between_their_ends() {
    for_random(CASES, &(text(), text(), text()), |(from, to, key)| {
        let has = |keys: &Keys<str>| keys_contain(keys, key.as_bytes());
        let between = Keys::between(from.as_str(), to.as_str());
        prop_assert_eq!(has(&between), from <= key && key < to);
        prop_assert_eq!(keys_are_empty(&between), from >= to);
        prop_assert_eq!(has(&between.clone().resume_after(&to)), false);
        prop_assert_eq!(has(&Keys::from(from.as_str())), key >= from);
        prop_assert_eq!(has(&Keys::after(from.as_str())), key > from);
        prop_assert_eq!(has(&Keys::to(to.as_str())), key < to);
        prop_assert_eq!(has(&Keys::through(to.as_str())), key <= to);
        prop_assert_eq!(has(&Keys::<str>::prefix(&from)), key.starts_with(&from));
        prop_assert_eq!(has(&Keys::all().resume_after(&from)), key > from);
        prop_assert_eq!(has(&Keys::all().rev().resume_after(&from)), key < from);
        Ok(())
    });
}

#[test]
fn the_pairs_of_a_first_part_are_exactly_those() {
    for_random(CASES, &(bytes(), bytes(), bytes()), |(wanted, first, second)| {
        let has = |keys: &Keys<(Vec<u8>, Vec<u8>)>| keys_contain(keys, &encoded(&(first.clone(), second.clone())));
        prop_assert_eq!(has(&Keys::<(Vec<u8>, Vec<u8>)>::first(&wanted)), first == wanted);
        Ok(())
    });
}

/// Bytes of a shape that decoders get somewhere with: short runs, lengths, and the odd large number.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..64),
        vec(prop_oneof![0..4u8, Just(0x80), 250..=255u8], 0..64),
        vec(
            prop_oneof![Just(b'['), Just(b'{'), Just(b'"'), Just(b'0'), Just(b','), Just(b'}')],
            0..64
        ),
    ]
}

/// `decoded` gave a value whose encoding is those very bytes, or the error that such bytes get.
fn total<T: Debug>(decoded: sprag::Result<T>, kind: ErrorKind, same: impl Fn(&T) -> bool) -> Result<(), TestCaseError> {
    match decoded {
        Ok(value) => prop_assert!(same(&value), "{:?} has other bytes", value),
        Err(error) => prop_assert_eq!(error.kind(), kind, "{:?}", error),
    }
    Ok(())
}

fn any_bytes_as<K: Key<Owned = K> + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    total(K::decode(bytes), ErrorKind::Decode, |key| encoded(key) == bytes)
}

#[test]
fn any_bytes_are_a_key_with_those_bytes_or_a_decode_error() {
    for_random(CASES, &(any_bytes(), kind()), |(bytes, kind)| {
        any_bytes_as::<u64>(&bytes)?;
        any_bytes_as::<i64>(&bytes)?;
        any_bytes_as::<String>(&bytes)?;
        any_bytes_as::<Vec<u8>>(&bytes)?;
        any_bytes_as::<[u8; 4]>(&bytes)?;
        any_bytes_as::<(String, u64)>(&bytes)?;
        any_bytes_as::<(Vec<u8>, Vec<u8>)>(&bytes)?;
        any_bytes_as::<((Vec<u8>, String), [u8; 1])>(&bytes)?;
        total(DynKey::decode(&kind, &bytes), ErrorKind::Decode, |key| {
            reencoded(key) == bytes
        })
    });
}

#[test]
fn any_bytes_are_a_number_with_those_bytes_or_corrupt() {
    for_random(CASES, &any_bytes(), |bytes| {
        let mut input = bytes.as_slice();
        let taken = varint::take(&mut input);
        let used = bytes.len() - input.len();
        total(taken, ErrorKind::Corrupt, |number| {
            let mut out = Vec::new();
            varint::put(&mut out, *number);
            bytes.get(..used) == Some(out.as_slice())
        })
    });
}

/// With a checksum that fits, so that the fields behind it are looked at.
#[test]
fn any_bytes_are_a_record_with_those_bytes_or_corrupt() {
    for_random(CASES, &(any_bytes(), bytes(), any::<bool>()), |(body, key, sealed)| {
        let mut bytes = body;
        if sealed {
            let crc = crc32fast::hash(&[key.as_slice(), &bytes].concat());
            bytes.splice(0..0, crc.to_le_bytes());
        }
        total(envelope::decode(&key, &bytes), ErrorKind::Corrupt, |record| {
            let mut out = Vec::new();
            envelope::encode(&key, record, &mut out);
            out == bytes
        })
    });
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Shape {
    Unit,
    Number(i128),
    Text { text: String, character: char },
    Many(Vec<Option<Shape>>),
    Named(BTreeMap<String, Vec<u8>>),
}

#[test]
fn any_bytes_are_a_value_or_a_decode_error() {
    for_random(CASES, &any_bytes(), |bytes| {
        total(Bincode::decode::<Shape>(&bytes), ErrorKind::Decode, |_| true)?;
        total(
            Bincode::decode::<(String, Vec<Vec<u64>>, bool)>(&bytes),
            ErrorKind::Decode,
            |_| true,
        )?;
        total(Json::decode::<Shape>(&bytes), ErrorKind::Decode, |_| true)?;
        total(Json::decode::<serde_json::Value>(&bytes), ErrorKind::Decode, |_| true)
    });
}

#[test]
fn any_text_is_a_kind_and_a_key_or_invalid() {
    for_random(
        CASES,
        &(any::<String>(), "[(),a-z0-9\\[\\]\\\\:]{0,24}", kind()),
        |(any, shaped, kind)| {
            for text in [any, shaped] {
                total(text.parse::<KeyKind>(), ErrorKind::Invalid, |kind| {
                    kind.to_string() == text
                })?;
                total(DynKey::parse(&kind, &text), ErrorKind::Invalid, |key| {
                    key.kind() == kind
                })?;
            }
            Ok(())
        },
    );
}
