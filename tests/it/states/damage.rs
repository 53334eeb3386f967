//! A file in which entry, count and record do not agree: `Corrupt`, naming table and key, and nothing is changed.

use std::sync::Arc;

use sprag::testkit::SimDisk;
use sprag::{Error, ErrorKind, Options, Store};

use super::OrderState::{Cancelled, New, Packed};
use super::{ORDERS, keys_of, reading, writing};
use crate::check::forge;
use crate::common::{shared, small, text_of};

/// The entry of a record of the first table, as the base has it.
fn entry(state: &str, key: u64) -> Vec<u8> {
    let name = state.as_bytes();
    [&[0, 0, 0, 0, name.len() as u8], name, &key.to_be_bytes()].concat()
}

/// The store with these orders, opened after each `from` in its base was made `to`.
fn damaged(orders: &[(u64, super::OrderState)], from: &[u8], to: &[u8]) -> Store {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    writing(&store, |tx| {
        for (key, state) in orders {
            tx.create(ORDERS, key, key, state)?.or_abort()?;
        }
        Ok(())
    });
    store.close().expect("closed");
    let mut bytes = disk.cache_image();
    let places: Vec<usize> = (4096 + (32 << 10)..bytes.len() - from.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!places.is_empty(), "nothing to damage");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    Options::new()
        .open_on(Arc::new(SimDisk::from_image(bytes)))
        .expect("opened")
}

/// The keys in a state, or what is wrong with the record.
fn listed(store: &Store, state: super::OrderState) -> Vec<Result<u64, String>> {
    reading(store, |tx| {
        let found = tx.in_state(ORDERS, state).expect("found");
        let one = |item: Result<(u64, _), Error>| match item {
            Ok((key, _)) => Ok(key),
            bad => Err(text_of(ErrorKind::Corrupt, bad.map(|(key, _)| key))),
        };
        found.map(one).collect()
    })
}

#[test]
fn an_entry_whose_record_is_missing_is_corrupt_and_the_scan_goes_on_behind_it() {
    let orders = [(10, New), (20, New), (30, New)];
    let store = damaged(&orders, &entry("new", 20), &entry("new", 21));
    let missing =
        "cannot read a record, table=\"orders\", key=\"21\": a record that is listed in a state is missing, state=new";
    assert_eq!(listed(&store, New), [Ok(10), Err(missing.to_owned()), Ok(30)]);
    let page = reading(&store, |tx| tx.in_state_page(ORDERS, New, sprag::Keys::all(), 9));
    assert_eq!(text_of(ErrorKind::Corrupt, page), missing);
    let page = reading(&store, |tx| tx.in_state_page(ORDERS, New, sprag::Keys::after(&21), 9)).expect("a page");
    assert_eq!(page.records.len(), 1);
}

#[test]
fn an_entry_whose_record_is_in_another_state_is_corrupt() {
    let orders = [(10, New), (20, Cancelled)];
    let store = damaged(&orders, &entry("cancelled", 20), &entry("cancelled", 10));
    let other = "cannot read a record, table=\"orders\", key=\"10\": \
                 a record is listed in another state than its own, state=cancelled, found_state=new";
    assert_eq!(listed(&store, Cancelled), [Err(other.to_owned())]);
    assert_eq!(listed(&store, New), [Ok(10)]);
}

/// 77 new orders, and a commit that makes their count another one.
fn with_count(to: u64) -> Store {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    writing(&store, |tx| {
        (1..=77).try_for_each(|key| tx.put(ORDERS, &key, &key).map(drop))
    });
    let count = (forge::count(0, "new"), Some(to.to_be_bytes().to_vec()));
    let bytes = forge::Forged::new(&disk.kill().cache_image()).with(&[count]);
    drop(store);
    Options::new()
        .open_on(Arc::new(SimDisk::from_image(bytes)))
        .expect("opened")
}

#[test]
fn a_count_that_cannot_be_is_corrupt_for_who_asks_and_for_who_writes() {
    let store = with_count(0);
    let asked = "cannot count the records in a state, table=\"orders\", state=new: \
                 count of a state is damaged, table_id=0, state=new";
    let written =
        "cannot read a record, table=\"orders\", key=\"5\": count of a state is damaged, table_id=0, state=new";
    assert_eq!(text_of(ErrorKind::Corrupt, store.count_in_state(ORDERS, New)), asked);
    reading(&store, |tx| {
        assert_eq!(text_of(ErrorKind::Corrupt, tx.state_counts(ORDERS)), asked);
    });
    assert_eq!(text_of(ErrorKind::Corrupt, store.delete(ORDERS, &5)), written);
    assert_eq!(
        text_of(ErrorKind::Corrupt, store.transition(ORDERS, &5, New, Packed)),
        written
    );
    // Who goes on after the error finds nothing half done.
    writing(&store, |tx| {
        assert_eq!(
            text_of(ErrorKind::Corrupt, tx.transition(ORDERS, &5, New, Packed)),
            written
        );
        assert_eq!(tx.get(ORDERS, &5)?.map(|record| record.state), Some(New));
        assert_eq!(keys_of(tx.in_state(ORDERS, New)?), (1..=77).collect::<Vec<_>>());
        assert_eq!(tx.count_in_state(ORDERS, Packed)?, 0);
        tx.put(ORDERS, &5, &55)
    });
    let full = with_count(u64::MAX);
    assert_eq!(full.count_in_state(ORDERS, New).expect("a number"), u64::MAX);
    let written =
        "cannot read a record, table=\"orders\", key=\"78\": count of a state is damaged, table_id=0, state=new";
    assert_eq!(text_of(ErrorKind::Corrupt, full.put(ORDERS, &78, &1)), written);
}
