//! How a queue stands is true at every moment: inside a transaction, after a part of it was undone, and in the next opening.

use std::time::Duration;

use sprag::testkit::SimDisk;
use sprag::{Keep, ManualClock, OnceKey, Queue, WriteTx};

use super::{MAIL, counts, open, texts};
use crate::common::{shared, small_with};

type Failed = Box<dyn std::error::Error>;

const CALLS: Queue<u64> = Queue::new("calls");

fn key(name: &str) -> OnceKey {
    OnceKey::new("mail", name, Keep::For(Duration::from_secs(60)))
}

/// Messages that are ready in both queues, as the transaction sees it.
fn ready(tx: &WriteTx<'_>) -> Result<[u64; 2], Failed> {
    let of = |name| Ok::<_, Failed>(tx.queue_stats(name)?.map_or(0, |stats| stats.ready));
    Ok([of("mail")?, of("calls")?])
}

#[test]
fn a_transaction_counts_its_messages_as_it_goes_and_without_what_it_undid() {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    let text = |text: &str| text.to_owned();
    let written = store.write(|tx| {
        tx.enqueue(MAIL, &text("one"))?;
        assert_eq!(ready(tx)?, [1, 0]);
        tx.enqueue(CALLS, &1)?;
        assert_eq!(ready(tx)?, [1, 1]);
        let undone = tx.once(&key("undone"), |tx| {
            tx.enqueue(MAIL, &text("never"))?;
            tx.enqueue(CALLS, &0)?;
            assert_eq!(ready(tx)?, [2, 2]);
            Err::<u64, Failed>("not now".into())
        });
        assert_eq!(undone.map_err(|cause| cause.to_string()).err(), Some(text("not now")));
        assert_eq!(ready(tx)?, [1, 1]);
        let _ = tx.once(&key("kept"), |tx| {
            tx.enqueue(MAIL, &text("two"))?;
            tx.enqueue(CALLS, &2)?;
            tx.enqueue(MAIL, &text("three"))?;
            Ok::<u64, Failed>(3)
        })?;
        assert_eq!(ready(tx)?, [3, 2]);
        tx.enqueue(MAIL, &text("four"))?;
        ready(tx)
    });
    assert_eq!(written.expect("written"), [4, 2]);
    assert_eq!(counts(&store), [4, 0, 0, 0, 0]);
    drop(store);
    let store = open(&disk, &clock);
    assert_eq!(counts(&store), [4, 0, 0, 0, 0]);
    let claims = store.claim(MAIL, 10).expect("claims");
    assert_eq!(texts(&claims), ["one", "two", "three", "four"]);
    let calls = store.claim(CALLS, 10).expect("claims");
    let calls: Vec<u64> = calls.iter().map(|claim| claim.message().expect("a number")).collect();
    assert_eq!(calls, [1, 2]);
}
