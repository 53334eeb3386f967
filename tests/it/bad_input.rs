//! What a wrong argument gets: a typed error that names the limit or the fact, before anything is written.
//!
//! Reports: KV-1 (sizes are checked at the edge). Files and locks are in `bad_files`, declarations that disagree in
//! `schema`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sprag::{
    CodecId, Condition, DynKey, DynTable, Error, ErrorKind, Json, Keep, KeyKind, Keys, Level, OnceKey, Options, Store,
    Table, Version, limits,
};

use crate::common::{folder, kind_of, panic_of, tables, text_of};
use crate::random::{Random, seed};

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const BLOBS: Table<[u8], Vec<u8>> = Table::new("blobs");
const PAGE: usize = 4096;
const BIG: usize = 64 << 20;

sprag::machine! {
    /// Where an order stands.
    enum OrderState: "orders" { New = "new", Packed = "packed", Shipped = "shipped" }
    initial New;
    New => Packed;
    Packed => Shipped;
}
const ORDERS: Table<u64, u64, OrderState> = Table::new("orders");

/// Runs `call`, which must fail, and asserts that nothing was written: neither a commit nor a table.
fn changes_nothing<T: std::fmt::Debug>(
    store: &Store,
    kind: ErrorKind,
    call: impl FnOnce() -> Result<T, Error>,
) -> String {
    let state = |store: &Store| (store.stats().expect("figures").sequence, tables(store));
    let before = state(store);
    let text = text_of(kind, call());
    assert_eq!(state(store), before, "{text}");
    text
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

#[test]
fn a_key_up_to_its_limit_comes_back_byte_for_byte_and_a_longer_one_is_refused() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a new store");
    let mut random = Random::new(seed());
    assert_eq!(
        limits::KEY_BYTES_MAX,
        PAGE,
        "page and limit are the same, so both sides of both are tried"
    );
    let sizes = [0, 1, PAGE - 1, PAGE];
    let keys: Vec<Vec<u8>> = sizes.iter().map(|len| random_bytes(&mut random, *len)).collect();
    for key in &keys {
        store.put(BLOBS, key, key).expect("a key within the limit");
    }
    for len in [PAGE + 1, BIG] {
        let long = random_bytes(&mut random, len);
        let names_it = |text: String| assert!(text.contains(&format!("bytes={len}, bytes_max={PAGE}")), "{text}");
        names_it(changes_nothing(&store, ErrorKind::TooLarge, || {
            store.put(BLOBS, &long, &vec![])
        }));
        names_it(changes_nothing(&store, ErrorKind::TooLarge, || {
            store.delete(BLOBS, &long)
        }));
        names_it(changes_nothing(&store, ErrorKind::TooLarge, || store.get(BLOBS, &long)));
        // A batch that ends with it writes nothing of what came before.
        names_it(changes_nothing(&store, ErrorKind::TooLarge, || {
            store.write(|tx| {
                tx.put(NUMBERS, &1, &1)?;
                tx.put(BLOBS, &long, &vec![])
            })
        }));
        let dynamic = DynTable::new("blobs", KeyKind::Bytes, CodecId::Bincode);
        let key = DynKey::Bytes(long.clone());
        names_it(changes_nothing(&store, ErrorKind::TooLarge, || {
            store.put(&dynamic, &key, &vec![0])
        }));
        // As a bound of a scan it is no key, and has its place among the others.
        let count = |keys| {
            store
                .read(|tx| tx.scan(BLOBS, keys).map(Iterator::count))
                .expect("a scan")
        };
        assert_eq!(count(Keys::to(&long)) + count(Keys::from(&long)), keys.len());
    }
    store.close().expect("closed");
    let store = Store::open(&path).expect("opened again");
    for key in &keys {
        assert_eq!(&store.get(BLOBS, key).expect("readable").expect("there").value, key);
    }
}

/// Values as bytes, so that their size is exactly the encoded one.
fn raw() -> DynTable {
    DynTable::new("raw", KeyKind::U64, CodecId::Bincode)
}

#[test]
fn a_value_up_to_the_limit_of_the_log_comes_back_and_a_larger_commit_is_refused() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a new store");
    let mut random = Random::new(seed());
    let max = limits::commit_bytes_max(limits::LOG_HALF_BYTES_DEFAULT) as usize;
    // What a commit adds to its value, from the size that the refusal names.
    let refused = changes_nothing(&store, ErrorKind::TooLarge, || {
        store.put(&raw(), &DynKey::U64(0), &vec![0; max])
    });
    store
        .put(&raw(), &DynKey::U64(0), &vec![])
        .expect("the table is made by a commit of its own");
    assert!(refused.contains(&format!("bytes_max={max}")), "{refused}");
    let text = text_of(ErrorKind::TooLarge, store.put(&raw(), &DynKey::U64(1), &vec![0; max]));
    let named = text
        .split("bytes=")
        .nth(1)
        .and_then(|rest| rest.split(',').next())
        .expect("a named size");
    let limit = max - (named.parse::<usize>().expect("a number") - max);

    let sizes = [0, 1, PAGE - 1, PAGE, PAGE + 1, limit - 1, limit];
    let values: Vec<Vec<u8>> = sizes.iter().map(|len| random_bytes(&mut random, *len)).collect();
    for (key, value) in (1..).zip(&values) {
        store
            .put(&raw(), &DynKey::U64(key), value)
            .expect("a value within the limit");
    }
    for len in [limit + 1, BIG] {
        let value = vec![7; len];
        let text = changes_nothing(&store, ErrorKind::TooLarge, || {
            store.put(&raw(), &DynKey::U64(1), &value)
        });
        assert!(
            text.contains("commit too large for the log") && text.contains(&format!("bytes_max={max}")),
            "{text}"
        );
    }
    // Many small values count together.
    changes_nothing(&store, ErrorKind::TooLarge, || {
        store.write(|tx| {
            (0..=max as u64 / 1000).try_for_each(|key| tx.put(&raw(), &DynKey::U64(key), &vec![1; 1000]).map(drop))
        })
    });
    let key = OnceKey::new("s", "k", Keep::Forever);
    changes_nothing(&store, ErrorKind::TooLarge, || {
        store.once(&key, |_| Ok::<_, Error>(vec![1_u8; max]))
    });
    assert_eq!(store.remembered("s", "k").expect("readable"), None);

    store.close().expect("closed");
    let store = Store::open(&path).expect("opened again");
    for (key, value) in (1..).zip(&values) {
        assert_eq!(
            &store
                .get(&raw(), &DynKey::U64(key))
                .expect("readable")
                .expect("there")
                .value,
            value
        );
    }
}

#[test]
fn a_value_of_64_mib_comes_back_from_a_store_made_for_it_and_one_byte_more_is_refused() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let options = || Options::new().level(Level::Buffered);
    let store = options()
        .log_half_bytes(132 << 20)
        .create_new(&path)
        .expect("a new store");
    assert_eq!(limits::VALUE_BYTES_MAX, BIG);
    let largest: Vec<u8> = (0..BIG).map(|at| (at >> 8) as u8 ^ at as u8).collect();
    store
        .put(&raw(), &DynKey::U64(1), &largest[1..].to_vec())
        .expect("one less than the limit");
    store.put(&raw(), &DynKey::U64(2), &largest).expect("the limit");
    let larger = [&largest[..], &[1]].concat();
    let limit = format!("bytes={}, bytes_max={BIG}", BIG + 1);
    let text = changes_nothing(&store, ErrorKind::TooLarge, || {
        store.put(&raw(), &DynKey::U64(3), &larger)
    });
    assert!(text.contains(&limit), "{text}");
    // Typed values are measured as they are encoded, by either codec.
    let blobs: Table<u64, Vec<u8>> = Table::new("typed");
    changes_nothing(&store, ErrorKind::TooLarge, || store.put(blobs, &1, &largest));
    let texts: Table<u64, String, sprag::Stateless, Json> = Table::new("texts");
    changes_nothing(&store, ErrorKind::TooLarge, || {
        store.put(texts, &1, &"x".repeat(BIG - 1))
    });
    drop(store);
    let store = options().open(&path).expect("opened again");
    let read = |key| {
        store
            .get(&raw(), &DynKey::U64(key))
            .expect("readable")
            .expect("there")
            .value
    };
    assert!(read(1) == largest[1..], "the value of one less came back otherwise");
    assert!(read(2) == largest, "the value at the limit came back otherwise");
}

#[test]
fn version_0_is_refused_as_no_record_ever_has_it() {
    let store = Store::in_memory().expect("a store");
    store.put(NUMBERS, &1, &1).expect("written");
    for key in [1, 2] {
        let zero = Condition::Version(0);
        let text = changes_nothing(&store, ErrorKind::Invalid, || store.put_if(NUMBERS, &key, zero, &2));
        assert!(text.contains("version 0"), "{text}");
        changes_nothing(&store, ErrorKind::Invalid, || store.delete_if(NUMBERS, &key, zero));
    }
    assert_eq!(kind_of(Version::try_from(0)), ErrorKind::Invalid);
}

#[test]
fn a_scope_has_1_to_64_bytes_of_its_alphabet() {
    let store = Store::in_memory().expect("a store");
    let call = |scope: &str| store.once(&OnceKey::new(scope, "k", Keep::Forever), |_| Ok::<_, Error>(()));
    for scope in [
        String::new(),
        "a".repeat(limits::SCOPE_BYTES_MAX + 1),
        "\u{e4}".repeat(3),
    ] {
        let text = changes_nothing(&store, ErrorKind::Invalid, || call(&scope));
        assert!(text.contains("1 to 64 of A-Z a-z 0-9 . _ -"), "{text}");
        changes_nothing(&store, ErrorKind::Invalid, || store.remembered(&scope, "k"));
        changes_nothing(&store, ErrorKind::Invalid, || store.forget(&scope, "k"));
    }
    for byte in 0..=127_u8 {
        let scope = char::from(byte).to_string();
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            assert!(!call(&scope).expect("a scope of the alphabet").is_repeat());
        } else {
            changes_nothing(&store, ErrorKind::Invalid, || call(&scope));
        }
    }
    let longest = "Az09._-x".repeat(8);
    assert_eq!(longest.len(), limits::SCOPE_BYTES_MAX);
    assert!(!call(&longest).expect("the longest scope").is_repeat());
}

#[test]
fn a_remembered_key_has_1_to_255_bytes_of_any_value_and_a_keep_above_zero() {
    let store = Store::in_memory().expect("a store");
    let call = |key: &[u8], keep| store.once(&OnceKey::new("s", key, keep), |_| Ok::<_, Error>(()));
    let longest = [0xff; limits::ONCE_KEY_BYTES_MAX];
    for (len, key) in [(0, vec![]), (256, vec![1; 256]), (BIG, vec![1; BIG])] {
        let text = changes_nothing(&store, ErrorKind::Invalid, || call(&key, Keep::Forever));
        assert!(
            text.contains(&format!("{len} bytes, bytes_min=1, bytes_max=255")),
            "{text}"
        );
    }
    for key in [&[0][..], &[0, 0], b"\xff/\n", &longest] {
        assert!(!call(key, Keep::Forever).expect("a key within the limit").is_repeat());
        assert!(
            call(key, Keep::Forever).expect("a key within the limit").is_repeat(),
            "byte for byte"
        );
    }
    let text = changes_nothing(&store, ErrorKind::Invalid, || call(b"z", Keep::For(Duration::ZERO)));
    assert!(text.contains("keep=0"), "{text}");
    for keep in [Duration::from_nanos(1), Duration::MAX] {
        assert!(
            !call(&keep.as_nanos().to_be_bytes(), Keep::For(keep))
                .expect("any other keep")
                .is_repeat()
        );
    }
}

#[test]
fn a_move_that_is_not_declared_and_a_state_that_is_not_known_are_refused() {
    let store = Store::in_memory().expect("a store");
    store.put(ORDERS, &1, &1).expect("written");
    let text = changes_nothing(&store, ErrorKind::Invalid, || {
        store.transition(ORDERS, &1, OrderState::New, OrderState::Shipped)
    });
    assert!(text.contains("from=new, to=shipped, machine=orders"), "{text}");
    changes_nothing(&store, ErrorKind::Invalid, || {
        store.transition(ORDERS, &1, OrderState::New, OrderState::New)
    });
    changes_nothing(&store, ErrorKind::Invalid, || {
        store.transition(ORDERS, &9, OrderState::Packed, OrderState::New)
    });

    let by_name = store
        .read(|tx| tx.table("orders"))
        .expect("readable")
        .expect("there")
        .open();
    let (key, sold) = (DynKey::U64(1), Some("sold".to_owned()));
    let new = || Some("new".to_owned());
    let text = changes_nothing(&store, ErrorKind::Invalid, || {
        store.transition(&by_name, &key, new(), sold.clone())
    });
    assert!(text.contains("table=orders, state=sold"), "{text}");
    changes_nothing(&store, ErrorKind::Invalid, || {
        store.transition(&by_name, &key, None, new())
    });
    let create = |state| store.write(|tx| tx.create(&by_name, &DynKey::U64(2), &vec![2], &state));
    changes_nothing(&store, ErrorKind::Invalid, || create(sold));
    changes_nothing(&store, ErrorKind::Invalid, || create(None));

    store.put(NUMBERS, &1, &1).expect("written");
    let stateless = store
        .read(|tx| tx.table("numbers"))
        .expect("readable")
        .expect("there")
        .open();
    changes_nothing(&store, ErrorKind::Invalid, || {
        store.transition(&stateless, &key, new(), Some("packed".into()))
    });
    let other_kind = DynKey::Str("1".to_owned());
    let text = changes_nothing(&store, ErrorKind::Invalid, || {
        store.put(&stateless, &other_kind, &vec![1])
    });
    assert!(text.contains("key_kind=str, table_key_kind=u64"), "{text}");
}

#[test]
fn a_table_name_has_1_to_255_bytes_without_control_characters() {
    let store = Store::in_memory().expect("a store");
    let named = |name: &str| DynTable::new(name, KeyKind::U64, CodecId::Json);
    for name in [String::new(), "n".repeat(256), "a\nb".to_owned(), "\0".to_owned()] {
        let text = changes_nothing(&store, ErrorKind::Invalid, || {
            store.put(&named(&name), &DynKey::U64(1), &vec![1])
        });
        assert!(text.contains("1 to 255 bytes without control characters"), "{text}");
        changes_nothing(&store, ErrorKind::Invalid, || store.get(&named(&name), &DynKey::U64(1)));
        changes_nothing(&store, ErrorKind::Invalid, || {
            store.delete(&named(&name), &DynKey::U64(1))
        });
        changes_nothing(&store, ErrorKind::Invalid, || {
            store.read(|tx| tx.scan(&named(&name), Keys::all()).map(Iterator::count))
        });
    }
    let longest = "\u{e4}".repeat(127) + "!";
    store
        .put(&named(&longest), &DynKey::U64(1), &vec![1])
        .expect("the longest name");
}

/// Encodes, and the bytes do not say which it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
}

/// Encodes one field less, and the bytes do not say that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skipping {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    note: Option<String>,
    #[serde(skip)]
    cache: u64,
}

fn skipping() -> Skipping {
    Skipping {
        name: "a".to_owned(),
        note: None,
        cache: 0,
    }
}

#[test]
fn a_value_that_would_not_come_back_is_refused_before_it_is_stored() {
    const UNTAGGED: Table<u64, Untagged> = Table::new("untagged");
    const SKIPPING: Table<u64, Skipping> = Table::new("skipping");
    let store = Store::in_memory().expect("a store");
    for value in [Untagged::Number(1), Untagged::Text("a".to_owned())] {
        changes_nothing(&store, ErrorKind::Invalid, || store.put(UNTAGGED, &1, &value));
    }
    changes_nothing(&store, ErrorKind::Invalid, || store.put(SKIPPING, &1, &skipping()));
    changes_nothing(&store, ErrorKind::Invalid, || {
        store.write(|tx| {
            tx.put(NUMBERS, &1, &1)?;
            tx.put(SKIPPING, &1, &skipping())
        })
    });
    // The result of an operation as well: a repeat could not be answered.
    let key = OnceKey::new("s", "k", Keep::Forever);
    changes_nothing(&store, ErrorKind::Invalid, || {
        store.once(&key, |_| Ok::<_, Error>(skipping()))
    });
    assert_eq!(store.remembered("s", "k").expect("readable"), None);

    // Json says what it carries, so the same shapes come back.
    let texts: Table<u64, Skipping, sprag::Stateless, Json> = Table::new("skipping-json");
    store.put(texts, &1, &skipping()).expect("written");
    assert_eq!(
        store.get(texts, &1).expect("readable").expect("there").value,
        skipping()
    );

    let trusting = Options::new().verify_values(false).in_memory().expect("a store");
    trusting.put(SKIPPING, &1, &skipping()).expect("stored unread");
    assert_eq!(kind_of(trusting.get(SKIPPING, &1)), ErrorKind::Decode);
}

#[test]
fn a_panic_in_a_closure_writes_nothing_and_goes_on_and_the_store_stays_usable() {
    let store = Store::in_memory().expect("a store");
    store.put(NUMBERS, &1, &1).expect("written");
    let sequence = store.stats().expect("figures").sequence;
    let key = OnceKey::new("s", "k", Keep::Forever);
    let text = panic_of(|| {
        store.write(|tx| -> Result<(), Error> {
            tx.put(NUMBERS, &1, &2)?;
            panic!("in a write")
        })
    });
    assert_eq!(text, "in a write");
    let text = panic_of(|| {
        store.once(&key, |tx| -> Result<(), Error> {
            tx.put(NUMBERS, &1, &2)?;
            panic!("in a once")
        })
    });
    assert_eq!(text, "in a once");
    assert_eq!(
        panic_of(|| store.read(|_| -> Result<(), Error> { panic!("in a read") })),
        "in a read"
    );
    assert_eq!(
        panic_of(|| store.write(|tx| tx.update(NUMBERS, &1, |_| panic!("in an update")))),
        "in an update"
    );
    assert_eq!(
        panic_of(|| store.write(|tx| tx.retain(NUMBERS, Keys::all(), |_, _| panic!("in a retain")))),
        "in a retain"
    );
    assert_eq!(store.stats().expect("figures").sequence, sequence);
    assert_eq!(store.get(NUMBERS, &1).expect("readable").expect("there").value, 1);
    assert_eq!(store.remembered("s", "k").expect("readable"), None);

    // A panic that is caught inside of the write takes only its own unit with it.
    let first = store.write(|tx| {
        tx.put(NUMBERS, &2, &2)?;
        let unit = catch_unwind(AssertUnwindSafe(|| {
            tx.once(&key, |tx| -> Result<(), Error> {
                tx.put(NUMBERS, &3, &3)?;
                panic!("in a unit")
            })
        }));
        assert!(unit.is_err());
        assert_eq!(tx.get(NUMBERS, &3)?, None);
        tx.once(&key, |tx| tx.put(NUMBERS, &4, &4))
    });
    assert!(!first.expect("written").is_repeat());
    let keys: Vec<u64> = store
        .read(|tx| {
            tx.scan(NUMBERS, Keys::all())?
                .map(|item| Ok(item?.0))
                .collect::<Result<_, Error>>()
        })
        .expect("a scan");
    assert_eq!(keys, [1, 2, 4]);
    store.close().expect("closed");
}
