//! Whoever waits for messages is woken by whatever makes one claimable, and by nothing less than the end of its patience.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use sprag::{Claim, Error, ErrorKind, Outgoing, Queue, Settled, Store};

use super::{MAIL, secs, text};
use crate::common::{in_time, kind_of};

/// Real time, since sleepers sleep by it: long enough that a sleeper sleeps, and short enough for a test.
const SOON: Duration = Duration::from_millis(60);

type Got = Result<Vec<String>, Error>;

/// A thread that waits for one message at a time, for an hour each, acknowledges it and tells of it; until the store is closed.
fn waiter(store: &Store) -> Receiver<Got> {
    waiter_for(store, secs(3600))
}

fn waiter_for(store: &Store, patience: Duration) -> Receiver<Got> {
    let (tell, told) = channel();
    let store = store.clone();
    thread::spawn(move || {
        loop {
            let got = store.claim_wait(MAIL, 1, patience);
            let goes_on = got.as_ref().is_ok_and(|claims| !claims.is_empty());
            let got = got.map(|claims| claims.into_iter().map(|claim| acknowledged(&store, claim)).collect());
            // Who does not listen any more has failed already.
            if tell.send(got).is_err() || !goes_on {
                return;
            }
        }
    });
    told
}

/// Time for others to fall asleep: a wait in vain for messages of a queue that nobody has.
fn a_moment(store: &Store) {
    const NOBODYS: Queue<String> = Queue::new("nobody's");
    assert!(store.claim_wait(NOBODYS, 1, SOON / 3).expect("no error").is_empty());
}

fn acknowledged(store: &Store, claim: Claim<String>) -> String {
    let text = text(&claim);
    assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
    text
}

fn next(told: Receiver<Got>) -> (Got, Receiver<Got>) {
    in_time("the waiter", move || (told.recv().expect("it tells"), told))
}

fn hears(told: Receiver<Got>, text: &str) -> Receiver<Got> {
    let (got, told) = next(told);
    assert_eq!(got.expect("a claim"), [text]);
    told
}

#[test]
fn a_sleeper_is_woken_by_an_enqueue_a_release_a_drop_a_resume_and_a_close() {
    let store = Store::in_memory().expect("a store");
    let told = waiter(&store);
    a_moment(&store);
    store.enqueue(MAIL, &"enqueued".to_owned()).expect("enqueued");
    let told = hears(told, "enqueued");
    assert!(store.pause("mail").expect("paused"));
    store.enqueue(MAIL, &"resumed".to_owned()).expect("enqueued");
    a_moment(&store);
    assert!(store.resume("mail").expect("resumed"));
    let told = hears(told, "resumed");
    // A claim in the commit of the enqueue, so that nobody is faster.
    for how in ["dropped", "released", "nacked", "deferred", "a key"] {
        let (_, mut claims) = store
            .write_then_claim(MAIL, 1, |tx| {
                let first = format!("{how}, first");
                tx.enqueue(MAIL, Outgoing::of(&first).key("k"))?;
                tx.enqueue(MAIL, Outgoing::of(&how.to_owned()).key("k"))
            })
            .expect("a claim");
        let claim = claims.remove(0);
        assert_eq!(text(&claim), format!("{how}, first"));
        a_moment(&store);
        let settled = match how {
            "dropped" => {
                drop(claim);
                Settled::Done
            }
            "released" => store.release(claim).expect("released"),
            "nacked" => store.nack(claim, Some(SOON), "not yet").expect("answered"),
            "deferred" => store.defer(claim, SystemTime::now() + SOON).expect("deferred"),
            _ => store.ack(claim).expect("acknowledged"),
        };
        assert_ne!(settled, Settled::Stale);
        if how != "a key" {
            let got = told.recv_timeout(secs(5));
            assert_eq!(got.expect("in time").expect("a claim"), [format!("{how}, first")]);
        }
        let got = told.recv_timeout(secs(5)).expect("in time");
        assert_eq!(got.expect("a claim"), [how]);
    }
    a_moment(&store);
    let closing = store.clone();
    in_time("the close", move || closing.close().expect("closed"));
    let (got, _) = next(told);
    assert_eq!(kind_of(got), ErrorKind::Closed);
}

#[test]
fn a_sleeper_is_woken_by_a_due_time_and_by_the_end_of_a_lease_also_one_that_became_shorter() {
    let store = Store::in_memory().expect("a store");
    let told = waiter(&store);
    a_moment(&store);
    let later = "due".to_owned();
    store.enqueue(MAIL, Outgoing::of(&later).delay(SOON)).expect("enqueued");
    let told = hears(told, "due");
    let claimed = |text: &str, lease| {
        a_moment(&store);
        let (_, mut claims) = store
            .write_then_claim(MAIL, sprag::Claiming::new(1).lease(lease), |tx| {
                tx.enqueue(MAIL, &text.to_owned())
            })
            .expect("a claim");
        a_moment(&store);
        claims.remove(0)
    };
    let lost = claimed("lost", SOON);
    let told = hears(told, "lost");
    assert_eq!(store.ack(lost).expect("answered"), Settled::Stale);
    let held = claimed("shorter", secs(3600));
    assert_eq!(store.extend(&held, SOON).expect("extended"), Settled::Done);
    let told = hears(told, "shorter");
    assert_eq!(store.ack(held).expect("answered"), Settled::Stale);
    let receipt = claimed("taken up", secs(3600)).into_receipt().expect("a receipt");
    let held = store
        .take_up(MAIL, receipt, SOON)
        .expect("taken up")
        .expect("still held");
    let _told = hears(told, "taken up");
    assert_eq!(store.ack(held).expect("answered"), Settled::Stale);
}

/// The one that leaves because its patience is over was the one whose alarm stood before the end of a lease.
#[test]
fn a_sleeper_is_woken_by_the_end_of_a_lease_after_an_impatient_one_has_left() {
    let store = Store::in_memory().expect("a store");
    store.enqueue(MAIL, &"one".to_owned()).expect("enqueued");
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
    let patient = waiter(&store);
    let impatient = waiter_for(&store, 4 * SOON);
    let (_, claims) = store
        .write_then_claim(MAIL, sprag::Claiming::new(1).lease(secs(3600)), |tx| {
            tx.enqueue(MAIL, &"lost".to_owned())
        })
        .expect("a claim");
    a_moment(&store);
    // Nobody is woken for this: the impatient one looks before.
    assert_eq!(store.extend(&claims[0], 5 * SOON).expect("extended"), Settled::Done);
    let (got, _) = next(impatient);
    assert!(got.expect("no error").is_empty(), "its patience was over");
    let _patient = hears(patient, "lost");
    for claim in claims {
        assert_eq!(store.ack(claim).expect("answered"), Settled::Stale);
    }
}

#[test]
fn who_waits_in_vain_gets_nothing_once_its_patience_is_over_and_may_not_wait_inside_a_closure() {
    let store = Store::in_memory().expect("a store");
    assert!(
        store.claim_wait(MAIL, 1, SOON).expect("no error").is_empty(),
        "no such queue"
    );
    let later = "later".to_owned();
    store
        .enqueue(MAIL, Outgoing::of(&later).delay(secs(3600)))
        .expect("enqueued");
    assert!(store.claim_wait(MAIL, 1, SOON).expect("no error").is_empty());
    assert!(store.claim_wait(MAIL, 1, Duration::ZERO).expect("no error").is_empty());
    let inside = store.clone();
    let refused = store.write(|_| inside.claim_wait(MAIL, 1, SOON).map(drop));
    assert_eq!(kind_of(refused), ErrorKind::Invalid);
    let refused = store.read(|_| inside.claim_wait(MAIL, 1, SOON).map(drop));
    assert_eq!(kind_of(refused), ErrorKind::Invalid);
}
