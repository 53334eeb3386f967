//! A check of an open store, while others write.

use std::sync::atomic::{AtomicBool, Ordering};

use sprag::testkit::{FaultKind, FaultMode, SimDisk};
use sprag::{ErrorKind, Store};

use super::{ORDERS, Order, fill, forge, in_the_log, lines};
use crate::common::{at_once, kind_of, shared, small};

#[test]
fn an_open_store_is_checked_on_one_state_and_does_not_claim_its_pages() {
    let store = Store::in_memory().expect("a store");
    fill(&store);
    let checked = store.check().expect("a look");
    assert_eq!(lines(&checked), Vec::<String>::new());
    assert!(!checked.base_verified && checked.pages == 0);
    let counted = (checked.tables, checked.records, checked.remembered_keys, checked.frames);
    assert_eq!(counted, (2, 4, 2, 1));
    assert!(checked.bytes > 4 << 20);
    let again = store.clone();
    store.close().expect("closed");
    assert_eq!(kind_of(again.check()), ErrorKind::Closed);
}

#[test]
fn an_open_store_whose_entries_do_not_agree_has_findings() {
    let bytes = forge::Forged::new(&in_the_log()).with(&[(forge::state_entry(0, "new", 1), None)]);
    let store = small().open_on(shared(&SimDisk::from_image(bytes))).expect("opened");
    let wanted = ["table=\"orders\" key=\"1\" | states.missing | state=new"];
    assert_eq!(lines(&store.check().expect("a look")), wanted);
}

/// Six threads move orders and four check meanwhile: each sees one state, in which records, entries and counts agree.
#[test]
fn a_check_beside_writers_sees_one_state() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    let done = AtomicBool::new(false);
    let looks = at_once(7, |number| {
        if number == 0 {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks < 5 {
                assert_eq!(lines(&store.check().expect("a look")), Vec::<String>::new());
                looks += 1;
            }
            return looks;
        }
        for round in 0..40 {
            let key = number as u64 * 100 + round;
            store.put(ORDERS, &key, &round).expect("a put");
            let moved = store
                .transition(ORDERS, &key, Order::New, Order::Packed)
                .expect("an answer");
            moved.or_abort().expect("moved");
            if round % 3 == 0 {
                store.delete(ORDERS, &key).expect("a delete");
            }
        }
        done.store(true, Ordering::Relaxed);
        0
    });
    assert!(looks[0] >= 5);
    assert_eq!(store.check().expect("a look").records, 6 * 26);
}

/// A disk that does not read is no finding about the file.
#[test]
fn a_disk_that_cannot_be_read_is_an_error_of_the_disk() {
    let bytes = super::in_the_base();
    for passing in 0..40 {
        let disk = SimDisk::from_image(bytes.clone());
        disk.fail(
            FaultKind::Read,
            passing,
            FaultMode::FailForever,
            std::io::ErrorKind::Other,
        );
        match small().check_on(shared(&disk), |_| ()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "passing={passing}: {error:?}"),
            Ok(checked) => assert!(disk.faults_fired() == 0 && checked.is_sound(), "passing={passing}"),
        }
    }
}
