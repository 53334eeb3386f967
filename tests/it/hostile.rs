//! Arguments at the edge of what is possible, and a disk that panics: an error, no waiting for ever, nothing left behind.

use sprag::{CodecId, DynKey, DynTable, ErrorKind, KeyKind, Store, Table};

use crate::common::{kind_of};

const SOUND: Table<u64, u64> = Table::new("sound");

fn nested(levels: usize) -> (KeyKind, DynKey) {
    let mut kind = KeyKind::U64;
    let mut key = DynKey::U64(1);
    for _ in 0..levels {
        kind = KeyKind::Pair(Box::new(KeyKind::U64), Box::new(kind));
        key = DynKey::Pair(Box::new(DynKey::U64(1)), Box::new(key));
    }
    (kind, key)
}

#[test]
fn a_kind_of_key_that_the_catalogue_could_not_read_back_is_refused_when_the_table_is_made() {
    let store = Store::in_memory().expect("a store");
    let (kind, key) = nested(9);
    let table = DynTable::new("deep", kind, CodecId::Bincode);
    assert_eq!(kind_of(store.put(&table, &key, &vec![1])), ErrorKind::Invalid);
    store.put(SOUND, &1, &1).expect("a put elsewhere");
    let names = store.read(|tx| tx.tables()).expect("the tables");
    assert_eq!(names.len(), 1);
    let (kind, key) = nested(8);
    let table = DynTable::new("deep enough", kind, CodecId::Bincode);
    store.put(&table, &key, &vec![1]).expect("a put");
    assert!(store.get(&table, &key).expect("a read").is_some());
}
