//! Field reports about leases, claims and acknowledgements (kind LQ), and those of other kinds that are about them.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use sprag::testkit::SimDisk;
use sprag::{
    Claim, Claiming, Error, Keep, ManualClock, MessageId, MessageState, OnceKey, Outgoing, Queue, Reason, Retry,
    Settled, Store,
};

use crate::common::{at_once, shared, small_with};
use crate::outbox::{MAIL, counts, open, secs, stats, store, text, texts};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn enqueue(store: &Store, text: &str) {
    store.enqueue(MAIL, &text.to_owned()).expect("enqueued");
}

fn claim_for(store: &Store, lease: Duration) -> Vec<Claim<String>> {
    store.claim(MAIL, Claiming::new(10).lease(lease)).expect("a claim")
}

/// LQ-1: after exactly the default window a second worker ran the same long job, since the lease was never renewed.
#[test]
fn an_extended_lease_holds_to_its_new_end_and_not_longer() {
    let (store, clock) = store();
    enqueue(&store, "long");
    let first = claim_for(&store, ms(1000)).remove(0);
    clock.advance(ms(900));
    assert_eq!(store.extend(&first, ms(2100)).expect("extended"), Settled::Done);
    clock.advance(ms(101));
    assert!(claim_for(&store, ms(1000)).is_empty(), "at 1,001");
    clock.advance(ms(1998));
    assert!(claim_for(&store, ms(1000)).is_empty(), "at 2,999");
    clock.advance(ms(1));
    let second = claim_for(&store, ms(1000)).remove(0);
    assert!(second.fence() > first.fence());
    assert_eq!(second.attempt(), 2);
    clock.advance(ms(1));
    assert_eq!(store.ack(first).expect("answered"), Settled::Stale);
    assert_eq!(store.ack(second).expect("answered"), Settled::Done);
}

/// LQ-2: after a kill the items stayed locked for hours. Ours are claimable as soon as the store is open, and counted.
#[test]
fn what_a_killed_process_held_is_claimable_at_once_with_the_attempt_counted() {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    for number in 0..5 {
        enqueue(&store, &number.to_string());
    }
    let held = claim_for(&store, secs(2));
    let before: Vec<_> = held
        .iter()
        .map(|claim| (claim.id(), claim.payload().to_vec()))
        .collect();
    let killed = open(&disk.kill(), &clock);
    let again = claim_for(&killed, secs(2));
    let after: Vec<_> = again
        .iter()
        .map(|claim| (claim.id(), claim.payload().to_vec()))
        .collect();
    assert_eq!((after.len(), after), (5, before));
    assert!(again.iter().all(|claim| claim.attempt() == 2));
    assert!(
        again
            .iter()
            .all(|claim| held.iter().all(|old| claim.fence() > old.fence()))
    );
    assert_eq!(stats(&killed).interruptions, 5);
    assert!(claim_for(&killed, secs(2)).is_empty());
}

/// LQ-3: choosing and marking were two steps, so one task ran twice at the same moment.
#[test]
fn sixteen_threads_get_each_message_once() {
    const MESSAGES: u64 = 20_000;
    const NUMBERS: Queue<u64> = Queue::new("numbers");
    let store = Store::in_memory().expect("a store");
    for first in (0..MESSAGES).step_by(1000) {
        let filled =
            store.write(|tx| (first..first + 1000).try_for_each(|number| tx.enqueue(NUMBERS, &number).map(drop)));
        filled.expect("enqueued");
    }
    let held: Mutex<HashSet<u64>> = Mutex::default();
    let seen: Vec<Vec<u64>> = at_once(16, |_| {
        let mut seen = Vec::new();
        while let Some(claim) = store.claim(NUMBERS, 1).expect("a claim").pop() {
            let number = claim.message().expect("a number");
            assert!(held.lock().expect("no panic").insert(number), "{number} is held twice");
            seen.push(number);
            assert!(held.lock().expect("no panic").remove(&number));
            assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
        }
        seen
    });
    let mut all: Vec<u64> = seen.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..MESSAGES));
}

/// LQ-4: whether a lapsed receipt still deleted its item was never stated. Ours counts until somebody else has claimed.
#[test]
fn an_answer_counts_until_somebody_else_has_claimed_and_never_by_the_number_of_the_message() {
    let (store, clock) = store();
    // (a) Nobody claims.
    enqueue(&store, "a");
    let a = claim_for(&store, secs(1)).remove(0);
    clock.advance(secs(100));
    assert_eq!(store.ack(a).expect("answered"), Settled::Done);
    // (b) Another one claims, and the first one acknowledges.
    enqueue(&store, "b");
    let first = claim_for(&store, secs(1)).remove(0);
    clock.advance(secs(1));
    let second = claim_for(&store, secs(1)).remove(0);
    assert_eq!(store.ack(first).expect("answered"), Settled::Stale);
    assert_eq!(store.ack(second).expect("answered"), Settled::Done);
    // (c) The other one fails it, and then the first one acknowledges: it stays.
    enqueue(&store, "c");
    let first = claim_for(&store, secs(1)).remove(0);
    clock.advance(secs(1));
    let second = claim_for(&store, secs(1)).remove(0);
    assert!(matches!(
        store.nack(second, Some(ms(0)), "no"),
        Ok(Settled::Again { .. })
    ));
    for (verb, answered) in [
        ("ack", store.ack(first).expect("answered")),
        ("release", {
            clock.advance(secs(1));
            let first = claim_for(&store, secs(1)).remove(0);
            clock.advance(secs(1));
            let second = claim_for(&store, secs(1)).remove(0);
            assert!(matches!(store.release(second), Ok(Settled::Again { .. })));
            store.release(first).expect("answered")
        }),
    ] {
        assert_eq!(answered, Settled::Stale, "{verb}");
    }
    assert_eq!((counts(&store), stats(&store).stale), ([1, 0, 0, 0, 0], 3));
}

/// LQ-5: a renewal that failed was taken for one that did not.
#[test]
fn an_extension_says_whether_it_holds_before_and_after_its_end() {
    let (store, clock) = store();
    let holds = |claim: &Claim<String>| store.extend(claim, ms(500)).expect("answered");
    enqueue(&store, "one");
    let claim = claim_for(&store, ms(1000)).remove(0);
    // A shorter time than is left counts from now on.
    assert_eq!(holds(&claim), Settled::Done);
    clock.advance(ms(499));
    assert!(claim_for(&store, ms(1000)).is_empty());
    // At its end and behind it, as long as nobody else has claimed.
    clock.advance(ms(1));
    assert_eq!(holds(&claim), Settled::Done);
    clock.advance(ms(5000));
    assert_eq!(store.extend(&claim, ms(5000)).expect("answered"), Settled::Done);
    clock.advance(ms(4999));
    assert!(claim_for(&store, ms(1000)).is_empty(), "a good one resets the alarm");
    clock.advance(ms(1));
    let next = claim_for(&store, ms(1000)).remove(0);
    assert_eq!(holds(&claim), Settled::Stale);
    assert_eq!(store.ack(next).expect("answered"), Settled::Done);
    assert_eq!(holds(&claim), Settled::Stale);
    assert_eq!(stats(&store).stale, 2);
}

/// LQ-5, of a lease that was counted as lost while a claim got others first: taken up again it holds.
#[test]
fn an_extension_takes_up_a_lapsed_message_that_nobody_got() {
    let (store, clock) = store();
    for text in ["one", "two"] {
        enqueue(&store, text);
    }
    let first = store
        .claim(MAIL, Claiming::new(1).lease(ms(1000)))
        .expect("a claim")
        .remove(0);
    clock.advance(ms(1000));
    assert_eq!(texts(&store.claim(MAIL, 1).expect("a claim")), ["two"]);
    assert_eq!(stats(&store).interruptions, 1);
    assert_eq!(store.extend(&first, ms(1000)).expect("extended"), Settled::Done);
    clock.advance(ms(999));
    assert_eq!(texts(&store.claim(MAIL, 9).expect("a claim")), ["two"]);
    assert_eq!(store.ack(first).expect("answered"), Settled::Done);
}

/// LQ-6: an item that was given back stayed hidden for the full lease.
#[test]
fn an_item_that_is_given_back_is_there_when_it_is_said_to_be() {
    let (store, clock) = store();
    enqueue(&store, "one");
    let lease = secs(1800);
    let claim = claim_for(&store, lease).remove(0);
    assert!(matches!(
        store.nack(claim, Some(ms(0)), "no"),
        Ok(Settled::Again { .. })
    ));
    let claim = claim_for(&store, lease).remove(0);
    assert!(matches!(
        store.nack(claim, Some(ms(300)), "no"),
        Ok(Settled::Again { .. })
    ));
    clock.advance(ms(299));
    assert!(claim_for(&store, lease).is_empty());
    clock.advance(ms(1));
    let claim = claim_for(&store, lease).remove(0);
    drop(claim);
    let claim = claim_for(&store, lease).remove(0);
    assert!(matches!(store.release(claim), Ok(Settled::Again { .. })));
    assert_eq!(texts(&claim_for(&store, lease)), ["one"]);
}

/// SM-2: one job ended both finished and failed, since its live worker finished it while a sweeper failed it.
#[test]
fn a_message_whose_owner_answers_while_its_lease_is_ended_ends_in_one_place() {
    let (store, clock) = store();
    let (mut finished, mut died) = (0, 0);
    for round in 0..2000 {
        let number = round.to_string();
        let outgoing = Outgoing::of(&number).retry(Retry::DEFAULT.interruptions(1));
        let id = store.enqueue(MAIL, outgoing).expect("enqueued");
        let claim = Mutex::new(claim_for(&store, ms(10)).pop());
        clock.advance(ms(10));
        let answers = at_once(2, |thread| {
            if thread == 0 {
                let claim = claim.lock().expect("no panic").take().expect("the claim");
                return Some(store.ack(claim).expect("answered"));
            }
            assert!(claim_for(&store, ms(10)).is_empty());
            None
        });
        let letter = store.read(|tx| tx.message("mail", id)).expect("a look");
        match (answers[0], letter.map(|letter| letter.state)) {
            (Some(Settled::Done), None) => finished += 1,
            (Some(Settled::Stale), Some(MessageState::Dead(Reason::Interrupted))) => died += 1,
            other => panic!("ended in two places, or none: {other:?}"),
        }
    }
    assert_eq!(counts(&store), [0, 0, 0, 0, died]);
    println!("finished={finished} died={died}");
}

/// CK-1: the clock was set back by half a day, and due work waited that long.
#[test]
fn a_clock_that_is_set_back_delays_neither_leases_nor_schedules() {
    let (store, clock) = store();
    clock.advance(secs(12 * 3600));
    enqueue(&store, "a");
    let a = claim_for(&store, secs(10)).remove(0);
    let b = "b".to_owned();
    store.enqueue(MAIL, Outgoing::of(&b).delay(secs(5))).expect("enqueued");
    let key = OnceKey::new("mail", "d", Keep::For(secs(60)));
    store.once(&key, |_| Ok::<_, Error>(1)).expect("done");
    clock.set_wall_ns(ManualClock::START_WALL_NS);
    let (mut got, mut freed) = (Vec::new(), None);
    for second in 1..=120 {
        clock.advance(secs(1));
        for claim in claim_for(&store, secs(1000)) {
            got.push((second, text(&claim)));
            claim.into_receipt().expect("a receipt");
        }
        assert!(stats(&store).oldest_ready_age.is_none_or(|age| age < secs(13 * 3600)));
        if freed.is_none() && store.remembered("mail", "d").expect("a look").is_none() {
            freed = Some(second);
        }
    }
    assert_eq!(got, [(5, "b".to_owned()), (10, "a".to_owned())]);
    assert_eq!(store.ack(a).expect("answered"), Settled::Stale);
    assert!(freed.is_some_and(|second| (60..=62).contains(&second)), "{freed:?}");
}

/// CK-2: a clock that was put right made short locks end early or late. Ours go by running time, and end with the process.
#[test]
fn a_shift_of_the_wall_clock_changes_no_lease() {
    for shift in [3600, -3600] {
        let (disk, clock) = (SimDisk::new(), ManualClock::new());
        let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
        enqueue(&store, "one");
        let first = claim_for(&store, secs(5)).remove(0);
        clock.jump_wall_secs(shift);
        clock.advance(secs(1));
        assert!(claim_for(&store, secs(5)).is_empty(), "one second of five");
        clock.advance(secs(4));
        let second = claim_for(&store, secs(5)).remove(0);
        assert_eq!(store.ack(first).expect("answered"), Settled::Stale);
        let receipt = second.into_receipt().expect("a receipt");
        clock.jump_wall_secs(shift);
        drop(store);
        let store = open(&disk, &clock);
        let third = claim_for(&store, secs(5)).remove(0);
        assert_eq!((third.attempt(), third.fence() > receipt.fence), (3, true));
        assert!(store.take_up(MAIL, receipt, secs(5)).expect("an answer").is_none());
        assert_eq!(store.ack(third).expect("answered"), Settled::Done);
    }
}

/// CK-5: a machine slept, and live work was declared dead when it woke. Time in which it sleeps ages no lease.
#[test]
fn a_machine_that_slept_has_lost_no_lease() {
    for claimed_between in [false, true] {
        let (store, clock) = store();
        enqueue(&store, "one");
        let owner = claim_for(&store, secs(60)).remove(0);
        clock.advance(secs(10));
        clock.jump_wall_secs(8 * 3600);
        assert!(claim_for(&store, secs(60)).is_empty(), "50 seconds are left");
        if claimed_between {
            clock.advance(secs(50));
            let second = claim_for(&store, secs(60)).remove(0);
            assert_eq!(store.extend(&owner, secs(60)).expect("answered"), Settled::Stale);
            assert_eq!(store.ack(owner).expect("answered"), Settled::Stale);
            assert_eq!(store.ack(second).expect("answered"), Settled::Done);
        } else {
            assert_eq!(store.extend(&owner, secs(60)).expect("answered"), Settled::Done);
            assert_eq!(store.ack(owner).expect("answered"), Settled::Done);
        }
        assert_eq!(counts(&store), [0; 5]);
    }
}

/// ID-6: an operator removed a job and its dedupe key stayed, so adding it again was refused. Here discarding leaves the key, and
/// to forget it in the same commit frees it; the same after a reopen.
#[test]
fn a_discarded_message_leaves_its_remembered_key_until_that_is_forgotten() {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let mut store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    let key = OnceKey::new("jobs", "u", Keep::For(secs(3600)));
    let job = "a job".to_owned();
    let add = |store: &Store| {
        store
            .once(&key, |tx| {
                tx.enqueue(MAIL, Outgoing::of(&job).delay(secs(3600)))
                    .map(MessageId::get)
            })
            .expect("an answer")
    };
    for reopens in [false, true] {
        let first = add(&store);
        assert!(!first.is_repeat());
        let id = MessageId::from(first.into_result());
        assert!(store.write(|tx| tx.discard("mail", id)).expect("discarded"));
        if reopens {
            drop(store);
            store = open(&disk, &clock);
        }
        assert!(add(&store).is_repeat(), "the key stays");
        assert_eq!(counts(&store), [0; 5]);
        assert!(store.forget("jobs", "u").expect("forgotten"));
        let again = add(&store);
        assert!(!again.is_repeat());
        let id = MessageId::from(again.into_result());
        let freed = store.write(|tx| {
            assert!(tx.discard("mail", id)?);
            tx.forget("jobs", "u")
        });
        assert!(freed.expect("one commit"));
    }
}
