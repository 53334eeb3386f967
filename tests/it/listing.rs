//! What can be listed: ranges of keys whose kind only the run knows, and all that is remembered.

use std::time::Duration;

use sprag::internals::{encode_key, keys_contain};
use sprag::testkit::SimDisk;
use sprag::{
    Bincode, Codec, CodecId, DynKey, DynTable, Error, ErrorKind, Keep, KeyKind, Keys, ManualClock, Once, OnceKey,
    Options, RememberedKey, Store,
};

use crate::common::{kind_of, shared, small, small_with, text_of};

/// A range over keys named at run time is the range over the typed keys.
#[test]
fn ranges_of_keys_known_at_run_time_are_those_of_the_typed_keys() {
    let keys = [-7, -1, 0, 3, 8, i64::MAX];
    let dynamic = DynKey::I64;
    for low in keys {
        for high in keys {
            let (from, to) = (dynamic(low), dynamic(high));
            let pairs = [
                (Keys::<i64>::from(&low), Keys::<DynKey>::from(&from)),
                (Keys::<i64>::after(&low), Keys::<DynKey>::after(&from)),
                (Keys::<i64>::to(&low), Keys::<DynKey>::to(&from)),
                (Keys::<i64>::through(&low), Keys::<DynKey>::through(&from)),
                (Keys::<i64>::between(&low, &high), Keys::<DynKey>::between(&from, &to)),
                (
                    Keys::<i64>::all().resume_after(&low),
                    Keys::<DynKey>::all().resume_after(&from),
                ),
                (
                    Keys::<i64>::all().rev().resume_after(&low),
                    Keys::<DynKey>::all().rev().resume_after(&from),
                ),
            ];
            for (number, (typed, dynamic)) in pairs.into_iter().enumerate() {
                for key in keys {
                    let encoded = encode_key(&key).expect("a short key");
                    assert_eq!(
                        keys_contain(&dynamic, &encoded),
                        keys_contain(&typed, &encoded),
                        "range {number} of {low} and {high}, key {key}"
                    );
                }
            }
        }
    }
}

/// Writes the keys into a table of their kind, and gives those that a prefix finds, in their text form.
fn found(kind: &str, keys: &[&str], prefix: &str) -> Result<Vec<String>, Error> {
    let store = Store::in_memory().expect("a store");
    let kind: KeyKind = kind.parse().expect("a kind");
    let table = DynTable::new("t", kind.clone(), CodecId::Json);
    for key in keys {
        let key = DynKey::parse(&kind, key).expect("a key");
        store.put(&table, &key, &b"1".to_vec()).expect("a put");
    }
    let range = Keys::<DynKey>::prefix(&kind, prefix)?;
    store.read(|tx| {
        let records = tx.scan(&table, range)?;
        records.map(|record| Ok(record?.0.to_string())).collect()
    })
}

#[test]
fn a_prefix_finds_texts_and_bytes_that_begin_with_it_and_pairs_of_that_first_part() {
    let is = |kind, keys: &[&str], prefix, wanted: &[&str]| {
        let found = found(kind, keys, prefix).expect("a prefix");
        assert_eq!(found, wanted, "{kind} {prefix:?}");
    };
    let texts = ["", "a", "ab", "abc", "b", "a\u{e4}"];
    is("str", &texts, "ab", &["ab", "abc"]);
    is("str", &texts, "a", &["a", "ab", "abc", "a\u{e4}"]);
    is("str", &texts, "", &["", "a", "ab", "abc", "a\u{e4}", "b"]);
    is("str", &texts, "c", &[]);
    let bytes = ["hex:00", "hex:ff", "hex:ffff", "hex:ffff00", "plain"];
    is("bytes", &bytes, "hex:ff", &["hex:ff", "hex:ffff", "hex:ffff00"]);
    is("bytes", &bytes, "pl", &["plain"]);
    is("bytes[2]", &["aa", "ab", "ba"], "a", &["aa", "ab"]);
    is("bytes[2]", &["aa", "ab", "ba"], "abc", &[]);
    // The first part is this one, and does not only begin with it.
    let pairs = ["(a,1)", "(a,2)", "(ab,1)", "(a\\,b,9)"];
    is("(str,u64)", &pairs, "a", &["(a,1)", "(a,2)"]);
    is("(str,u64)", &pairs, "a,b", &["(a\\,b,9)"]);
    is("(u64,str)", &["(1,a)", "(1,b)", "(12,a)"], "1", &["(1,a)", "(1,b)"]);
    let nested = ["((a,1),x)", "((a,1),y)", "((a,2),x)"];
    is("((str,u64),str)", &nested, "(a,1)", &["((a,1),x)", "((a,1),y)"]);
    for (kind, prefix) in [
        ("u64", "1"),
        ("i64", "-"),
        ("bytes", "hex:f"),
        ("bytes[2]", "hex:0g"),
        ("(u64,str)", "a"),
        ("((str,u64),str)", "a"),
    ] {
        assert_eq!(kind_of(found(kind, &[], prefix)), ErrorKind::Invalid, "{kind} {prefix}");
    }
}

fn remember(store: &Store, scope: &str, key: impl AsRef<[u8]>, keep: Keep, result: &str) {
    let once = OnceKey::new(scope, key, keep);
    let answer = store.once(&once, |_| Ok::<_, Error>(result.to_owned())).expect("once");
    assert_eq!(answer, Once::First(result.to_owned()));
}

fn listed(store: &Store, scope: Option<&str>) -> Vec<RememberedKey> {
    store
        .read(|tx| tx.remembered_keys(scope)?.collect::<Result<_, Error>>())
        .expect("readable")
}

fn names(keys: &[RememberedKey]) -> Vec<(String, Vec<u8>)> {
    keys.iter().map(|key| (key.scope.clone(), key.key.clone())).collect()
}

const LONGEST: &str = "z234567890123456789012345678901234567890123456789012345678901234";

/// Names in the order in which a listing must give them; scopes of many lengths, one the beginning of another.
const NAMES: [(&str, &[u8]); 9] = [
    ("-", b"k"),
    ("a", b"\0"),
    ("a", b"b"),
    ("a.b", b"b"),
    ("aa", b"a"),
    ("b", b"a"),
    ("b", b"a\xff"),
    ("payments", b"evt-1"),
    (LONGEST, b"k"),
];

/// The same in memory, half in the base, and all in the base.
#[test]
fn all_that_is_remembered_is_listed_by_scope_and_key_wherever_it_lies() {
    assert_eq!(LONGEST.len(), sprag::limits::SCOPE_BYTES_MAX);
    for swept_after in [NAMES.len(), 4, 1] {
        let store = small().in_memory().expect("a store");
        // Stored in another order than they are listed in.
        for (number, (scope, key)) in NAMES.iter().rev().enumerate() {
            remember(&store, scope, key, Keep::Forever, &format!("{scope}!"));
            if number + 1 == swept_after {
                store.sweep().expect("a checkpoint");
            }
        }
        let all = listed(&store, None);
        let wanted = NAMES.iter().map(|(scope, key)| ((*scope).to_owned(), key.to_vec()));
        assert_eq!(names(&all), wanted.clone().collect::<Vec<_>>(), "{swept_after}");
        for one in &all {
            let same = store.remembered(&one.scope, &one.key).expect("readable");
            assert_eq!(same.as_ref(), Some(&one.remembered));
            assert_eq!(
                one.remembered.result_bytes(),
                encoded_text(&format!("{}!", one.scope)),
                "{one:?}"
            );
        }
        for scope in ["a", "b", "aa", LONGEST] {
            let inside: Vec<_> = wanted.clone().filter(|(name, _)| name == scope).collect();
            assert_eq!(names(&listed(&store, Some(scope))), inside, "{scope}");
        }
        assert_eq!(names(&listed(&store, Some("nobody"))), []);
    }
}

fn encoded_text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    Bincode::encode(text, &mut out).expect("encoded");
    out
}

#[test]
fn a_listing_leaves_out_what_is_over_and_says_how_long_the_rest_is_kept() {
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().expect("a store");
    let hour = Duration::from_secs(3600);
    remember(&store, "s", "ever", Keep::Forever, "");
    remember(&store, "s", "hour", Keep::For(hour), "");
    remember(&store, "s", "two", Keep::For(2 * hour), "");
    let lefts = || -> Vec<_> {
        let all = listed(&store, Some("s"));
        all.iter().map(|one| (one.key.clone(), one.remembered.left())).collect()
    };
    let (ever, an_hour, two) = (b"ever".to_vec(), b"hour".to_vec(), b"two".to_vec());
    assert_eq!(
        lefts(),
        [
            (ever.clone(), None),
            (an_hour.clone(), Some(hour)),
            (two.clone(), Some(2 * hour))
        ]
    );
    let nanosecond = Duration::from_nanos(1);
    clock.advance(hour - nanosecond);
    let first = store.remembered("s", "hour").expect("readable").expect("remembered");
    assert_eq!(first.left(), Some(nanosecond));
    assert_eq!(
        lefts(),
        [
            (ever.clone(), None),
            (an_hour, Some(nanosecond)),
            (two.clone(), Some(hour + nanosecond))
        ]
    );
    clock.advance(nanosecond);
    assert_eq!(lefts(), [(ever.clone(), None), (two.clone(), Some(hour))]);
    // When it was read is no part of what is remembered.
    let before = store.remembered("s", "two").expect("readable");
    clock.advance(nanosecond);
    assert_eq!(store.remembered("s", "two").expect("readable"), before);
    assert!(store.forget("s", "ever").expect("a forget"));
    assert_eq!(lefts(), [(two, Some(hour - nanosecond))]);
}

#[test]
fn a_listing_inside_of_a_write_sees_what_it_remembered_and_forgot() {
    let store = Store::in_memory().expect("a store");
    remember(&store, "s", "gone", Keep::Forever, "");
    remember(&store, "s", "stays", Keep::Forever, "");
    let seen = store.write(|tx| {
        tx.forget("s", "gone")?;
        tx.once(&OnceKey::new("r", "new", Keep::Forever), |_| Ok::<_, Error>(()))?;
        let seen: Result<Vec<_>, Error> = tx.remembered_keys(None)?.collect();
        seen
    });
    let wanted = [("r", "new"), ("s", "stays")].map(|(scope, key)| (scope.to_owned(), key.as_bytes().to_vec()));
    assert_eq!(names(&seen.expect("written")), wanted);
    for scope in ["", "a b", "65".repeat(33).as_str()] {
        let refused = store.read(|tx| Ok::<_, Error>(tx.remembered_keys(Some(scope))?.count()));
        assert_eq!(kind_of(refused), ErrorKind::Invalid, "{scope}");
    }
}

/// An entry that is damaged is an error with its name; those behind it are listed.
#[test]
fn a_damaged_entry_is_named_and_the_listing_goes_on_behind_it() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    for (key, result) in [("1", "fine"), ("2\n", "struck by a ray"), ("3", "fine")] {
        remember(&store, "scope", key, Keep::Forever, result);
    }
    store.close().expect("closed");
    let mut image = disk.cache_image();
    let base = 4096 + 2 * (16 << 10);
    let at = |image: &[u8]| image.windows(5).skip(base).position(|window| window == b"a ray");
    while let Some(place) = at(&image) {
        image[base + place] = b'A';
    }
    let store = Options::new()
        .open_on(shared(&SimDisk::from_image(image)))
        .expect("the store");
    let items = store.read(|tx| Ok::<_, Error>(tx.remembered_keys(None)?.collect::<Vec<_>>()));
    let [first, second, third] = <[_; 3]>::try_from(items.expect("readable")).expect("three");
    assert_eq!(first.expect("a key").key, b"1");
    assert_eq!(
        text_of(ErrorKind::Corrupt, second),
        "entry of a remembered key is damaged, key=scope/2\\n"
    );
    assert_eq!(third.expect("a key").key, b"3");
}
