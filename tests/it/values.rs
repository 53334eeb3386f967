//! Values as bytes: what comes back, what is refused, and that damaged or forged bytes cost no more than they are.

use serde::{Deserialize, Serialize};
use sprag::internals::encode_verified;
use sprag::{Bincode, Codec, CodecId, ErrorKind, Json, limits};
use std::fmt::Debug;

fn kind_of<T: Debug>(result: sprag::Result<T>) -> ErrorKind {
    result.expect_err("an error").kind()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    lines: Vec<(String, i128)>,
    note: Option<Box<Order>>,
}

fn order() -> Order {
    let inner = Order {
        id: 1,
        lines: Vec::new(),
        note: None,
    };
    Order {
        id: u64::MAX,
        lines: vec![("screw".into(), i128::MIN), (String::new(), 0)],
        note: Some(Box::new(inner)),
    }
}

fn round_trip<C: Codec>() {
    let mut out = vec![9];
    C::encode(&order(), &mut out).expect("a value");
    assert_eq!(out.first(), Some(&9), "bytes before are kept");
    assert_eq!(C::decode::<Order>(&out[1..]).expect("its own encoding"), order());
    out.push(0);
    assert_eq!(
        kind_of(C::decode::<Order>(&out[1..])),
        ErrorKind::Decode,
        "trailing bytes"
    );
    for end in 1..out.len() - 2 {
        assert_eq!(
            kind_of(C::decode::<Order>(&out[1..end])),
            ErrorKind::Decode,
            "cut at {end}"
        );
    }
}

#[test]
fn values_come_back_and_bytes_left_over_or_missing_are_refused() {
    round_trip::<Bincode>();
    round_trip::<Json>();
}

#[test]
fn a_value_at_the_limit_passes_and_one_byte_more_is_too_large() {
    // Bincode writes the length of text in five bytes here, JSON puts it into two quotes.
    fn both_sides<C: Codec>(overhead: usize) {
        let mut text = "x".repeat(limits::VALUE_BYTES_MAX - overhead);
        let mut out = Vec::new();
        C::encode(&text, &mut out).expect("a value of the longest length");
        assert_eq!(out.len(), limits::VALUE_BYTES_MAX);
        assert!(C::decode::<String>(&out).expect("it comes back") == text);
        text.push('x');
        out.truncate(3);
        assert_eq!(kind_of(C::encode(&text, &mut out)), ErrorKind::TooLarge);
        assert_eq!(out.len(), 3, "nothing was appended");
        let too_long = vec![b'0'; limits::VALUE_BYTES_MAX + 1];
        assert_eq!(kind_of(C::decode::<u64>(&too_long)), ErrorKind::Decode);
    }
    both_sides::<Bincode>(5);
    both_sides::<Json>(2);
}

#[test]
fn a_small_value_may_be_all_of_numbers_that_are_large_in_memory() {
    for count in [4096usize, 5000, (1 << 20) + 1] {
        let zeros = vec![0u128; count];
        let mut out = Vec::new();
        Bincode::encode(&zeros, &mut out).expect("a value");
        assert!(Bincode::decode::<Vec<u128>>(&out).expect("its own encoding") == zeros);
    }
}

#[test]
fn a_length_that_the_bytes_do_not_pay_for_is_refused() {
    for length in [1u64 << 20, 1 << 32, 1 << 50, u64::MAX] {
        let mut bytes = vec![253];
        bytes.extend_from_slice(&length.to_le_bytes());
        assert_eq!(kind_of(Bincode::decode::<String>(&bytes)), ErrorKind::Decode);
        assert_eq!(kind_of(Bincode::decode::<Vec<u64>>(&bytes)), ErrorKind::Decode);
        assert_eq!(
            kind_of(Bincode::decode::<std::collections::BTreeMap<u64, String>>(&bytes)),
            ErrorKind::Decode
        );
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Nest {
    End,
    Deeper(Box<Nest>),
    Many(Vec<Option<Nest>>),
}

/// Forged bytes that nest a million levels deep end in an error, not at the end of the stack.
#[test]
fn a_value_may_nest_as_deep_as_the_limit_and_no_deeper() {
    let nested = |levels: usize| (1..levels).fold(Nest::End, |inner, _| Nest::Deeper(Box::new(inner)));
    let mut out = Vec::new();
    encode_verified::<Bincode, _>(&nested(128), &mut out).expect("as deep as allowed");
    assert_eq!(Bincode::decode::<Nest>(&out).expect("its own encoding"), nested(128));
    assert_eq!(
        kind_of(encode_verified::<Bincode, _>(&nested(129), &mut Vec::new())),
        ErrorKind::Invalid
    );
    assert_eq!(kind_of(Bincode::decode::<Nest>(&[1; 1_000_000])), ErrorKind::Decode);
    assert_eq!(
        kind_of(Bincode::decode::<Nest>(&[2, 1, 1].repeat(300_000))),
        ErrorKind::Decode
    );
    assert_eq!(
        kind_of(Json::decode::<serde_json::Value>(&[b'['; 1_000_000])),
        ErrorKind::Decode
    );
}

/// Elements that take no bytes could be counted to 2^64 by nine bytes.
#[test]
fn elements_that_take_no_bytes_are_limited() {
    let mut out = Vec::new();
    // The three bytes of the length pay for three more.
    encode_verified::<Bincode, _>(&vec![(); (1 << 16) - 1], &mut out).expect("as many as allowed");
    assert_eq!(
        Bincode::decode::<Vec<()>>(&out).expect("its own encoding").len(),
        (1 << 16) - 1
    );
    assert_eq!(
        kind_of(encode_verified::<Bincode, _>(&vec![(); 1 << 17], &mut Vec::new())),
        ErrorKind::Invalid
    );
    let mut forged = vec![253];
    forged.extend_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(kind_of(Bincode::decode::<Vec<()>>(&forged)), ErrorKind::Decode);
    assert_eq!(
        kind_of(Bincode::decode::<Vec<Vec<()>>>(
            &[&[3][..], &forged, &forged, &forged].concat()
        )),
        ErrorKind::Decode
    );
}

/// Every shape that serde knows, through the guard and back.
#[test]
fn values_of_every_shape_come_back_from_bincode() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Unit;
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Newtype(u8);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Tuple(i8, char);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Variants {
        Unit,
        Newtype(Newtype),
        Tuple(Unit, Tuple),
        Struct { small: i16, large: u128 },
    }
    type Scalars = (
        bool,
        (i8, i16, i32, i64, i128),
        (u8, u16, u32, u64, u128),
        (f32, f64),
        (char, String, ()),
    );
    fn back<V: Serialize + serde::de::DeserializeOwned + PartialEq + Debug>(value: &V) {
        let mut out = Vec::new();
        encode_verified::<Bincode, _>(value, &mut out).expect("a value");
        assert_eq!(&Bincode::decode::<V>(&out).expect("its own encoding"), value);
    }
    let scalars: Scalars = (
        true,
        (i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN),
        (u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX),
        (f32::MIN, f64::MAX),
        ('\u{1f600}', "text".into(), ()),
    );
    back(&scalars);
    back(&vec![
        Variants::Unit,
        Variants::Newtype(Newtype(1)),
        Variants::Tuple(Unit, Tuple(-1, 'x')),
    ]);
    back(&Some(Variants::Struct {
        small: -1,
        large: u128::MAX,
    }));
    back(&std::collections::BTreeMap::from([
        (1u64, vec![None, Some("a".to_owned())]),
        (2, Vec::new()),
    ]));
    back(&[[1u8, 2], [3, 4]]);
    back(&std::time::Duration::from_nanos(7));
}

/// Shapes that ask the bytes what they are encode and do not come back. Found when put, and nothing is written.
#[test]
fn a_value_that_would_not_come_back_is_refused_before_it_is_written() {
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Number(u64),
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Skips {
        #[serde(skip_serializing_if = "Option::is_none")]
        first: Option<u64>,
        second: u64,
    }
    let mut out = vec![1, 2];
    assert_eq!(
        kind_of(encode_verified::<Bincode, _>(&Untagged::Number(1), &mut out)),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind_of(encode_verified::<Bincode, _>(
            &Skips { first: None, second: 7 },
            &mut out
        )),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind_of(encode_verified::<Json, _>(&f64::NAN, &mut out)),
        ErrorKind::Invalid
    );
    let by_pair = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert_eq!(
        kind_of(encode_verified::<Json, _>(&by_pair, &mut out)),
        ErrorKind::Invalid
    );
    assert_eq!(out, [1, 2]);
    encode_verified::<Json, _>(&Untagged::Number(1), &mut out).expect("JSON has a form for it");
    assert_eq!(out, [1, 2, b'1']);
}

#[test]
fn codecs_have_a_name_and_a_number_that_read_back() {
    for (codec, code, name) in [(CodecId::Bincode, 1, "bincode"), (CodecId::Json, 2, "json")] {
        assert_eq!((codec.code(), codec.to_string().as_str()), (code, name));
        assert_eq!(CodecId::from_code(code).expect("a codec"), codec);
        assert_eq!(name.parse::<CodecId>().expect("a codec"), codec);
    }
    assert_eq!(kind_of(CodecId::from_code(0)), ErrorKind::Corrupt);
    assert_eq!(kind_of(CodecId::from_code(3)), ErrorKind::Corrupt);
    assert_eq!(kind_of("yaml".parse::<CodecId>()), ErrorKind::Invalid);
}
