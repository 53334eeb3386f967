//! A disk that fails under claims and answers: no message is lost for the life of the process, and none is half of one thing and
//! half of another.

use std::io;

use sprag::testkit::{FaultKind, FaultMode, SimDisk};
use sprag::{
    Error, ErrorKind, Keep, ManualClock, MessageId, MessageState, OnDead, OnceKey, Outgoing, Queue, Replay, Retry,
    Settled, Store, Table,
};

use super::{MAIL, counts, open, secs, stats, store, text, texts};
use crate::common::{in_time, kind_of, shared, small_with};

const NUMBERS: Table<u64, u64> = Table::new("numbers");

const LOG_FAULTS: [FaultKind; 4] = [
    FaultKind::WriteSynced,
    FaultKind::WriteSyncedShort,
    FaultKind::WriteSyncedLost,
    FaultKind::WriteSyncedLanded,
];

/// A store with one message, and its disk.
fn with_one_message() -> (Store, SimDisk) {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    store.enqueue(MAIL, &"one".to_owned()).expect("enqueued");
    (store, disk)
}

fn fail(disk: &SimDisk, kind: FaultKind) {
    disk.fail(kind, 0, FaultMode::FailForever, io::ErrorKind::Other);
}

fn told<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let kind = kind_of(answer);
    assert!(matches!(kind, ErrorKind::InDoubt | ErrorKind::Io), "{kind:?}");
}

#[test]
fn a_claim_that_failed_or_is_in_doubt_is_given_back_once_the_disk_is_well() {
    for kind in LOG_FAULTS {
        let (store, disk) = with_one_message();
        fail(&disk, kind);
        for _ in 0..3 {
            told(store.claim(MAIL, 9));
        }
        disk.heal();
        let claim = store.claim(MAIL, 9).expect("a claim").pop().expect("the message");
        assert_eq!(
            (text(&claim), stats(&store).interruptions),
            ("one".to_owned(), 0),
            "{kind:?}"
        );
        assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
        assert_eq!(counts(&store), [0; 5]);
    }
}

/// An answer whose outcome nobody knows: answered again with the claim that came back it is done, or was done.
#[test]
fn an_answer_that_failed_comes_back_with_its_claim() {
    for kind in LOG_FAULTS {
        let (store, disk) = with_one_message();
        let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
        fail(&disk, kind);
        let unsettled = store.ack(claim).expect_err("the disk fails");
        assert!(matches!(unsettled.error.kind(), ErrorKind::InDoubt | ErrorKind::Io));
        disk.heal();
        let settled = store.ack(unsettled.claim).expect("answered");
        assert!(matches!(settled, Settled::Done | Settled::Stale), "{settled:?}");
        assert_eq!(counts(&store), [0; 5], "{kind:?}");
    }
}

/// An answer inside of a transaction that fails: the claim is used up, so the message is given back unless it is gone.
#[test]
fn an_answer_in_a_transaction_that_failed_gives_the_message_back_or_it_is_gone() {
    for kind in LOG_FAULTS {
        let (store, disk) = with_one_message();
        let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
        fail(&disk, kind);
        told(store.write(|tx| {
            tx.put(NUMBERS, &1, &140)?;
            tx.ack(claim)
        }));
        disk.heal();
        let again = store.claim(MAIL, 1).expect("a claim").pop();
        let worked = store.get(NUMBERS, &1).expect("readable").is_some();
        assert_eq!(
            again.is_none(),
            worked,
            "{kind:?}: the work, and the message is gone, or neither"
        );
        if let Some(claim) = again {
            assert_eq!((claim.attempt(), stats(&store).interruptions), (2, 0));
            assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
        }
        assert_eq!(counts(&store), [0; 5]);
    }
}

#[test]
fn an_answer_in_a_unit_that_fails_is_undone_and_other_writes_stay() {
    let (store, _) = store();
    store.enqueue(MAIL, &"one".to_owned()).expect("enqueued");
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    let key = OnceKey::new("mail", "1", Keep::Forever);
    let written = store.write(|tx| {
        tx.put(NUMBERS, &1, &140)?;
        let undone = tx.once(&key, |tx| {
            tx.put(NUMBERS, &2, &1)?;
            assert_eq!(tx.ack(claim)?, Settled::Done);
            Err::<u64, Error>(tx.pause("nobody").expect_err("no such queue"))
        });
        assert_eq!(kind_of(undone), ErrorKind::NotFound);
        Ok::<_, Error>(())
    });
    written.expect("written");
    assert_eq!(store.get(NUMBERS, &1).expect("readable").expect("there").value, 140);
    assert!(store.get(NUMBERS, &2).expect("readable").is_none());
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!((claim.attempt(), stats(&store).interruptions), (2, 0));
}

/// Whoever waits hears of a message whose enqueue was in doubt once it is durable, and of one whose claim was.
#[test]
fn what_was_in_doubt_wakes_those_who_wait_once_the_disk_is_well() {
    for kind in LOG_FAULTS {
        let (store, disk) = with_one_message();
        let first = store.claim(MAIL, 1).expect("a claim").remove(0);
        assert_eq!(store.ack(first).expect("acknowledged"), Settled::Done);
        let waits = store.clone();
        let waiter = std::thread::spawn(move || {
            loop {
                match waits.claim_wait(MAIL, 1, secs(3600)) {
                    Ok(mut claims) => return claims.remove(0),
                    // Woken by a claim of ours that failed, it fails as well.
                    Err(error) => assert!(matches!(error.kind(), ErrorKind::InDoubt | ErrorKind::Io)),
                }
            }
        });
        fail(&disk, kind);
        told(store.enqueue(MAIL, &"two".to_owned()));
        disk.heal();
        // The next commit, whoever makes it.
        store.put(NUMBERS, &1, &140).expect("written");
        if counts(&store) == [0; 5] {
            store.enqueue(MAIL, &"two".to_owned()).expect("enqueued");
        }
        let claim = in_time("the waiter", move || waiter.join().expect("no panic"));
        assert_eq!(text(&claim), "two", "{kind:?}");
    }
}

/// A read of the disk fails inside of an answer, and the caller goes on without it: all of the answer is there or nothing.
#[test]
fn an_answer_that_failed_inside_of_a_transaction_leaves_no_half_of_it() {
    let (made, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock).create_on(shared(&made)).expect("a store");
    let queue: Queue<String> = MAIL.on_dead(OnDead::GoOn).retry(Retry::DEFAULT.failures(1));
    for number in 0..400 {
        let text = format!("{number}{}", "-".repeat(700));
        let key = format!("key {}", number % 40);
        store.enqueue(queue, Outgoing::of(&text).key(key)).expect("enqueued");
    }
    store.close().expect("closed");
    let mut struck = 0;
    for verb in ["ack", "nack", "enqueue", "discard", "replay"] {
        for passing in 0.. {
            let disk = made.kill();
            let store = small_with(&clock)
                .cache_bytes(0)
                .open_on(shared(&disk))
                .expect("the store");
            let mut claims = store.claim(MAIL, 2).expect("a claim");
            let _ = store.bury(claims.remove(0), "a dead letter").expect("buried");
            let claim = claims.remove(0);
            let (before, fired) = (list(&store), disk.faults_fired());
            disk.fail(FaultKind::Read, passing, FaultMode::FailForever, io::ErrorKind::Other);
            let mut failed = false;
            let written = store.write(|tx| {
                failed = match verb {
                    "ack" => tx.ack(claim).is_err(),
                    "nack" => tx.nack(claim, None, "down").is_err(),
                    "enqueue" => tx.enqueue(queue, Outgoing::of(&"new".to_owned()).key("key 1")).is_err(),
                    "discard" => tx.discard("mail", MessageId::from(1)).is_err(),
                    _ => tx.replay("mail", &Replay::new()).is_err(),
                };
                disk.heal();
                tx.put(NUMBERS, &1, &1).map(drop)
            });
            let hit = disk.faults_fired() > fired;
            struck += u64::from(failed && written.is_ok());
            judge(&store);
            if failed && written.is_ok() {
                assert_eq!(list(&store), before, "{verb} after {passing} reads");
            }
            if !hit {
                break;
            }
        }
    }
    assert!(struck > 10, "a read that failed inside of an answer, struck={struck}");
}

/// Numbers and states of all messages.
fn list(store: &Store) -> Vec<(u64, MessageState)> {
    let all = store
        .read(|tx| tx.messages("mail", None, usize::MAX))
        .expect("messages");
    all.iter().map(|info| (info.id.get(), info.state)).collect()
}

/// The counts are those of the messages.
fn judge(store: &Store) {
    let all = list(store);
    let count = |wanted: fn(&MessageState) -> bool| all.iter().filter(|(_, state)| wanted(state)).count() as u64;
    let found = [
        count(|state| *state == MessageState::Ready),
        count(|state| *state == MessageState::Scheduled),
        count(|state| *state == MessageState::Claimed),
        count(|state| *state == MessageState::Blocked),
        count(|state| matches!(state, MessageState::Dead(_))),
    ];
    assert_eq!(counts(store), found);
    let checked = store.check().expect("a check");
    assert!(checked.is_sound(), "{checked:?}");
}

/// A log with room for little: an opening that ends many claims, and a claim that ends many leases, needs several commits.
#[test]
fn many_claims_are_ended_however_small_the_log_is() {
    const MESSAGES: u64 = 100;
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    for number in 0..MESSAGES {
        store.enqueue(MAIL, &number.to_string()).expect("enqueued");
        let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
        claim.into_receipt().expect("a receipt");
    }
    drop(store);
    let store = open(&disk, &clock);
    assert_eq!(
        (counts(&store), stats(&store).interruptions),
        ([MESSAGES, 0, 0, 0, 0], MESSAGES)
    );
    let mut held = Vec::new();
    for _ in 0..MESSAGES {
        held.extend(store.claim(MAIL, 1).expect("a claim"));
    }
    clock.advance(secs(30));
    let mut again = Vec::new();
    while let Some(claim) = store.claim(MAIL, 1).expect("a claim").pop() {
        again.push(claim);
    }
    assert_eq!(
        (again.len() as u64, stats(&store).interruptions),
        (MESSAGES, 2 * MESSAGES)
    );
    for claim in held {
        assert_eq!(store.ack(claim).expect("answered"), Settled::Stale);
    }
}

/// Of letters that are named in any order, those that died first are replayed.
#[test]
fn a_limit_takes_the_letters_that_died_first_in_whatever_order_they_are_named() {
    let (store, _) = store();
    for text in ["a", "b", "c"] {
        store.enqueue(MAIL, &text.to_owned()).expect("enqueued");
    }
    let claims = store.claim(MAIL, 3).expect("a claim");
    let mut ids: Vec<MessageId> = claims.iter().map(sprag::Claim::id).collect();
    for claim in claims {
        let _ = store.bury(claim, "no").expect("buried");
    }
    ids.reverse();
    let replayed = store
        .replay("mail", &Replay::new().only(ids).limit(2))
        .expect("replayed");
    assert_eq!((replayed.replayed, replayed.more), (2, true));
    assert_eq!(texts(&store.claim(MAIL, 3).expect("a claim")), ["a", "b"]);
}

/// A worker hears that its message was discarded when it next extends, and not only when it is done.
#[test]
fn an_extension_of_a_discarded_message_is_stale() {
    let (store, _) = store();
    let id = store.enqueue(MAIL, &"one".to_owned()).expect("enqueued");
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(store.extend(&claim, secs(60)).expect("extended"), Settled::Done);
    let undone = store.write(|tx| {
        assert!(tx.discard("mail", id)?);
        tx.pause("nobody")
    });
    assert_eq!(kind_of(undone), ErrorKind::NotFound);
    assert_eq!(store.extend(&claim, secs(60)).expect("extended"), Settled::Done);
    assert!(store.write(|tx| tx.discard("mail", id)).expect("discarded"));
    assert_eq!(store.extend(&claim, secs(60)).expect("answered"), Settled::Stale);
    assert_eq!(store.ack(claim).expect("answered"), Settled::Stale);
}
