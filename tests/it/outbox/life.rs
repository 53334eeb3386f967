//! One message at a time: enqueued, claimed, answered in every way, dead and delivered again.

use sprag::testkit::SimDisk;
use sprag::{
    Error, ErrorKind, ManualClock, MessageState, OnDead, Outgoing, Queue, Reason, Refused, Replay, Retry, Settled,
};

use super::{MAIL, counts, open, secs, stats, store, text, texts};
use crate::common::{kind_of, small_with};

fn enqueue(store: &sprag::Store, text: &str) -> u64 {
    store.enqueue(MAIL, &text.to_owned()).expect("enqueued").get()
}

fn with_key(store: &sprag::Store, key: &str, text: &str) -> u64 {
    let text = text.to_owned();
    store
        .enqueue(MAIL, Outgoing::of(&text).key(key))
        .expect("enqueued")
        .get()
}

#[test]
fn a_message_leaves_with_its_transaction_and_is_gone_once_acknowledged() {
    let (store, _) = store();
    let kept: Result<(), Error> = store.write(|tx| {
        tx.enqueue(MAIL, &"never".to_owned())?;
        Err(store
            .enqueue(MAIL, &"inside".to_owned())
            .expect_err("a write inside of a write"))
    });
    assert_eq!(kind_of(kept), ErrorKind::Invalid);
    assert!(store.queue_stats("mail").expect("a look").is_none());
    enqueue(&store, "one");
    assert_eq!(counts(&store), [1, 0, 0, 0, 0]);
    let mut claims = store.claim(MAIL, 10).expect("a claim");
    assert_eq!(texts(&claims), ["one"]);
    assert_eq!((claims[0].attempt(), claims[0].fence()), (1, 1));
    assert_eq!(counts(&store), [0, 0, 1, 0, 0]);
    assert_eq!(store.ack(claims.remove(0)).expect("acknowledged"), Settled::Done);
    assert_eq!((counts(&store), stats(&store).bytes), ([0; 5], 0));
    assert!(store.claim(MAIL, 10).expect("a claim").is_empty());
}

#[test]
fn a_key_hands_out_its_messages_one_by_one_in_their_order() {
    let (store, _) = store();
    for (key, text) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3")] {
        with_key(&store, key, text);
    }
    assert_eq!(counts(&store), [2, 0, 0, 2, 0]);
    let first = store.claim(MAIL, 10).expect("a claim");
    assert_eq!(texts(&first), ["a1", "b1"]);
    assert!(store.claim(MAIL, 10).expect("a claim").is_empty());
    for claim in first {
        assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
    }
    let ((), second) = store
        .write_then_claim(MAIL, 10, |_| Ok::<_, Error>(()))
        .expect("a claim");
    assert_eq!(texts(&second), ["a2"]);
    let ((), third) = store
        .write_then_claim(MAIL, 10, |tx| {
            second.into_iter().try_for_each(|claim| tx.ack(claim).map(drop))
        })
        .expect("a claim");
    assert_eq!(texts(&third), ["a3"]);
    assert_eq!(counts(&store), [0, 0, 1, 0, 0]);
}

#[test]
fn a_failure_waits_for_its_delay_and_the_last_one_is_a_dead_letter_that_can_be_replayed() {
    let (store, clock) = store();
    let queue: Queue<String> = MAIL.retry(Retry::DEFAULT.failures(2).base(secs(8)));
    store.enqueue(queue, &"bad".to_owned()).expect("enqueued");
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    let effect = claim.effect_id();
    let Settled::Again { at } = store.nack(claim, Some(secs(300)), "far end is down").expect("answered") else {
        panic!("it is delivered again");
    };
    clock.advance(secs(299));
    assert!(store.claim(MAIL, 1).expect("a claim").is_empty());
    clock.advance(secs(1));
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!((claim.attempt(), claim.effect_id()), (2, effect));
    assert_eq!(
        store.nack(claim, None, "still down").expect("answered"),
        Settled::Dead(Reason::Failed)
    );
    assert_eq!(counts(&store), [0, 0, 0, 0, 1]);
    let letter = store
        .read(|tx| tx.dead_letters("mail", None, 10))
        .expect("dead letters")
        .remove(0);
    let errors: Vec<_> = letter.errors.iter().map(|one| (one.attempt(), one.text())).collect();
    assert_eq!(errors, [(1, "far end is down"), (2, "still down")]);
    assert_eq!((letter.state, letter.failures), (MessageState::Dead(Reason::Failed), 2));
    assert!(letter.died_at.expect("a time") >= at);
    let replayed = store.replay("mail", &Replay::new()).expect("replayed");
    assert_eq!((replayed.replayed, replayed.refused.len()), (1, 0));
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(
        (claim.attempt(), claim.effect_id(), text(&claim)),
        (1, effect, "bad".to_owned())
    );
}

#[test]
fn a_dead_letter_blocks_its_key_or_lets_it_go_on() {
    for (on_dead, after) in [(OnDead::BlockKey, vec![]), (OnDead::GoOn, vec!["second".to_owned()])] {
        let (store, _) = store();
        let queue = MAIL.on_dead(on_dead);
        for text in ["first", "second", "third"] {
            let text = text.to_owned();
            store.enqueue(queue, Outgoing::of(&text).key("k")).expect("enqueued");
        }
        let claim = store.claim(MAIL, 9).expect("a claim").remove(0);
        assert_eq!(
            store.bury(claim, "no such person").expect("buried"),
            Settled::Dead(Reason::Buried)
        );
        assert_eq!(texts(&store.claim(MAIL, 9).expect("a claim")), after);
        assert!(store.replay("mail", &Replay::new()).expect("replayed").replayed == 1);
        let mut order = Vec::new();
        while let Some(claim) = store.claim(MAIL, 1).expect("a claim").pop() {
            order.push(text(&claim));
            assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
        }
        let expected = match on_dead {
            OnDead::BlockKey => ["first", "second", "third"],
            OnDead::GoOn => ["second", "third", "first"],
        };
        assert_eq!(order, expected);
        assert_eq!(counts(&store), [0; 5]);
    }
}

#[test]
fn a_lost_lease_goes_to_the_next_and_the_late_answer_is_stale() {
    let (store, clock) = store();
    enqueue(&store, "slow");
    let late = store.claim(MAIL, 1).expect("a claim").remove(0);
    clock.advance(secs(29));
    assert!(store.claim(MAIL, 1).expect("a claim").is_empty());
    clock.advance(secs(1));
    let next = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!((late.fence(), next.fence(), next.attempt()), (1, 2, 2));
    assert_eq!(store.ack(late).expect("answered"), Settled::Stale);
    assert_eq!((stats(&store).stale, stats(&store).interruptions), (1, 1));
    assert_eq!(store.ack(next).expect("answered"), Settled::Done);
}

#[test]
fn a_claim_that_is_dropped_gives_the_message_back_and_spends_nothing() {
    let (store, _) = store();
    enqueue(&store, "again");
    for attempt in 1..20 {
        let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
        assert_eq!(claim.attempt(), attempt);
    }
    assert_eq!(stats(&store).interruptions, 0);
}

#[test]
fn an_opening_ends_older_claims_and_the_budget_of_interruptions_ends_the_message() {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock)
        .create_on(crate::common::shared(&disk))
        .expect("a store");
    store
        .enqueue(MAIL.retry(Retry::DEFAULT.interruptions(3)), &"killer".to_owned())
        .expect("enqueued");
    drop(store);
    for attempt in 1..=3 {
        let store = open(&disk, &clock);
        let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
        assert_eq!(claim.attempt(), attempt);
        claim.into_receipt().expect("a receipt");
        drop(store);
    }
    let store = open(&disk, &clock);
    assert!(store.claim(MAIL, 1).expect("a claim").is_empty());
    let letter = store
        .read(|tx| tx.dead_letters("mail", None, 9))
        .expect("dead")
        .remove(0);
    assert_eq!(
        (letter.state, letter.attempts),
        (MessageState::Dead(Reason::Interrupted), 3)
    );
}

#[test]
fn what_is_scheduled_is_handed_out_when_it_is_due_and_what_expired_is_a_dead_letter() {
    let (store, clock) = store();
    let (later, short) = ("later".to_owned(), "short".to_owned());
    store
        .enqueue(MAIL, Outgoing::of(&later).delay(secs(60)))
        .expect("enqueued");
    let end = std::time::SystemTime::UNIX_EPOCH
        + std::time::Duration::from_nanos(u64::try_from(ManualClock::START_WALL_NS).expect("after 1970"))
        + secs(10);
    store
        .enqueue(MAIL, Outgoing::of(&short).expires_at(end))
        .expect("enqueued");
    assert_eq!(counts(&store), [1, 1, 0, 0, 0]);
    clock.advance(secs(10));
    assert!(store.claim(MAIL, 9).expect("a claim").is_empty());
    assert_eq!(counts(&store), [0, 1, 0, 0, 1]);
    clock.advance(secs(50));
    assert_eq!(counts(&store), [1, 0, 0, 0, 1]);
    let held = store.claim(MAIL, 9).expect("a claim");
    assert_eq!(texts(&held), ["later"]);
    let replayed = store.replay("mail", &Replay::new()).expect("replayed");
    assert_eq!(
        replayed.refused.iter().map(|(_, why)| *why).collect::<Vec<_>>(),
        [Refused::Expired]
    );
    assert_eq!(
        store
            .replay("mail", &Replay::new().forced())
            .expect("replayed")
            .replayed,
        1
    );
    assert_eq!(texts(&store.claim(MAIL, 9).expect("a claim")), ["short"]);
}
