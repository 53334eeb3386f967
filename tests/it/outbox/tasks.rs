//! The calls for tasks, on a runtime of one thread: whatever blocked it would block everything.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use sprag::testkit::{EventKind, SimDisk};
use sprag::{Batch, Error, Handled, Keep, Once, OnceKey, Outcome, Relay, Store, Table};

use super::{MAIL, counts, texts};
use crate::common::{Gate, Opens, shared, small};

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const LONG: Duration = Duration::from_secs(60);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

fn put(tx: &mut sprag::WriteTx<'_>) -> Result<u64, Error> {
    tx.put(NUMBERS, &1, &140).map(sprag::Version::get)
}

fn value(store: &Store) -> Option<u64> {
    store.get(NUMBERS, &1).expect("readable").map(|record| record.value)
}

#[test]
fn a_task_writes_remembers_applies_and_claims() {
    let store = Store::in_memory().expect("a store");
    runtime().block_on(async {
        assert_eq!(store.write_async(put).await.expect("written"), 1);
        let key = OnceKey::new("tasks", "one", Keep::Forever);
        let once = |key: OnceKey| store.once_async(key, put);
        assert_eq!(once(key.clone()).await.expect("done"), Once::First(1));
        assert!(once(key).await.expect("done").is_repeat());
        let batch = Batch::new().put(NUMBERS, &1, &141);
        assert!(matches!(
            store.apply_async(batch).await.expect("applied"),
            Outcome::Applied { .. }
        ));
        let failed = store.write_async(|tx| {
            put(tx)?;
            Err::<(), Error>(Store::open("no such file").expect_err("there is no such file"))
        });
        assert_eq!(failed.await.expect_err("an error").kind(), sprag::ErrorKind::NotFound);
        assert_eq!(value(&store), Some(141));
        assert!(store.claim_async(MAIL, 1).await.expect("a claim").is_empty());
        store
            .write_async(|tx| tx.enqueue(MAIL, &"one".to_owned()))
            .await
            .expect("enqueued");
        let claims = store.claim_async(MAIL, 9).await.expect("a claim");
        assert_eq!(texts(&claims), ["one"]);
    });
}

#[test]
fn a_task_that_waits_for_a_sync_lets_others_of_its_thread_go_on() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    let gate = Arc::new(Gate::default());
    let at_sync = gate.clone();
    disk.on_event(move |event, _| {
        if event.kind == EventKind::Sync || event.kind == EventKind::WriteSynced {
            at_sync.pass();
        }
    });
    gate.shut();
    let _opens = Opens(gate.clone());
    runtime().block_on(async {
        let written = tokio::spawn({
            let store = store.clone();
            async move { store.write_async(put).await }
        });
        // Goes on only if this thread does.
        let beside = tokio::spawn(async move {
            tokio::task::spawn_blocking(move || {
                gate.wait_for_visitor();
                gate.open();
            })
            .await
        });
        beside.await.expect("no panic").expect("no panic");
        assert_eq!(written.await.expect("no panic").expect("written"), 1);
    });
    assert_eq!(value(&store), Some(140));
}

#[test]
fn a_task_that_waits_for_messages_sleeps_until_there_is_one_and_can_be_dropped() {
    let store = Store::in_memory().expect("a store");
    runtime().block_on(async {
        let waits = tokio::spawn({
            let store = store.clone();
            async move { store.claim_wait_async(MAIL, 9, Duration::MAX).await }
        });
        let dropped = tokio::time::timeout(
            Duration::from_millis(30),
            store.claim_wait_async(MAIL, 9, Duration::MAX),
        );
        assert!(dropped.await.is_err());
        store
            .write_async(|tx| tx.enqueue(MAIL, &"one".to_owned()))
            .await
            .expect("enqueued");
        let claims = waits.await.expect("no panic").expect("a claim");
        assert_eq!(texts(&claims), ["one"]);
        let none = store.claim_wait_async(MAIL, 9, Duration::from_millis(30));
        assert!(none.await.expect("a claim").is_empty());
    });
}

#[test]
fn asynchronous_handlers_are_extended_counted_when_they_panic_and_drained() {
    let store = Store::in_memory().expect("a store");
    let queue = MAIL.retry(sprag::Retry::DEFAULT.base(Duration::ZERO).failures(3));
    for text in ["fine", "panics", "slow"] {
        store.enqueue(queue, &text.to_owned()).expect("enqueued");
    }
    let (said, heard) = mpsc::channel();
    runtime().block_on(async {
        let relay = Relay::new(&store, MAIL).workers(3).lease(Duration::from_millis(60));
        let relay = relay.start_async(move |delivery| {
            let said = said.clone();
            async move {
                match delivery.message.as_str() {
                    "panics" => panic!("a handler that breaks"),
                    "slow" => tokio::time::sleep(Duration::from_millis(400)).await,
                    _ => {}
                }
                said.send((delivery.message.clone(), delivery.attempt(), delivery.is_current()))
                    .expect("the test listens");
                Handled::Done
            }
        });
        let relay = relay.await.expect("a relay");
        let wait = tokio::task::spawn_blocking(move || [0, 1].map(|_| heard.recv_timeout(LONG).expect("a message")));
        let mut seen = wait.await.expect("no panic");
        seen.sort();
        let of = |text: &str| (text.to_owned(), 1, true);
        assert_eq!(seen, [of("fine"), of("slow")]);
        while counts(&store) != [0, 0, 0, 0, 1] {
            tokio::task::yield_now().await;
        }
        assert_eq!(relay.drain(LONG).await.expect("drained").left, 0);
    });
    let dead = store
        .read(|tx| tx.dead_letters("mail", None, 9))
        .expect("dead")
        .remove(0);
    assert_eq!((dead.failures, dead.interruptions), (3, 0));
}
