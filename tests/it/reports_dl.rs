//! Field reports about attempts and dead letters (kind DL).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sprag::{MessageState, OnDead, Outgoing, Queue, Reason, Retry, Settled, Store};

use crate::common::folder;
use crate::outbox::{MAIL, counts, open, secs, stats, store, text};

const CHILD_FILE: &str = "SPRAG_DEADLY_FILE";
const BUDGET: u32 = 3;

fn deadly() -> Queue<String> {
    MAIL.retry(Retry::DEFAULT.interruptions(BUDGET))
}

/// The process that its message kills; a trial of its own, in which nothing is deadly, if nobody names a file.
#[test]
fn a_child_handles_each_message_and_is_killed_by_a_bad_one() {
    let named = std::env::var_os(CHILD_FILE).map(PathBuf::from);
    let store = match &named {
        Some(path) => Store::open(path).expect("opened"),
        None => Store::in_memory().expect("a store"),
    };
    if named.is_none() {
        store.enqueue(deadly(), &"good".to_owned()).expect("enqueued");
    }
    while let Some(claim) = store.claim(MAIL, 1).expect("a claim").pop() {
        println!("got={},{}.", text(&claim), claim.attempt());
        if text(&claim) == "bad" {
            std::process::abort();
        }
        assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
    }
    assert_eq!(counts(&store), [0, 0, 0, 0, u64::from(named.is_some())]);
}

/// What a child says that it got, and whether it came to its end.
fn handle_all(path: &Path) -> (Vec<String>, bool) {
    let out = Command::new(std::env::current_exe().expect("path of this test"))
        .args([
            "--exact",
            "reports_dl::a_child_handles_each_message_and_is_killed_by_a_bad_one",
        ])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, path)
        .stderr(Stdio::null())
        .output()
        .expect("the child runs");
    let said = String::from_utf8(out.stdout).expect("text");
    let got = said
        .split("got=")
        .skip(1)
        .map(|rest| rest.split('.').next().expect("a part").to_owned());
    (got.collect(), out.status.success())
}

/// DL-1: out of memory, restart, same message, and so on; it never reached the dead letters, since only polite failures counted.
#[test]
fn a_message_that_kills_its_process_is_dead_after_its_interruptions_and_others_do_not_wait_for_it() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    store.enqueue(deadly(), &"bad".to_owned()).expect("enqueued");
    store.enqueue(deadly(), &"good".to_owned()).expect("enqueued");
    store.close().expect("closed");
    let lives: Vec<_> = (0..=BUDGET).map(|_| handle_all(&path)).collect();
    let got: Vec<Vec<&str>> = lives
        .iter()
        .map(|(got, _)| got.iter().map(String::as_str).collect())
        .collect();
    // What the kill gave back is behind what was ready by then.
    assert_eq!(got, [vec!["bad,1"], vec!["good,1", "bad,2"], vec!["bad,3"], vec![]]);
    assert_eq!(
        lives.iter().map(|(_, ended)| *ended).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let store = Store::open(&path).expect("opened");
    let letter = store
        .read(|tx| tx.dead_letters("mail", None, 9))
        .expect("dead letters")
        .remove(0);
    assert_eq!(letter.state, MessageState::Dead(Reason::Interrupted));
    assert_eq!(
        (letter.attempts, letter.interruptions, letter.failures),
        (BUDGET, BUDGET, 0)
    );
    let errors: Vec<_> = letter.errors.iter().map(|one| (one.attempt(), one.text())).collect();
    let why = "the store was opened anew";
    assert_eq!(errors, [(1, why), (2, why), (3, why)]);
    assert_eq!(stats(&store).interruptions, u64::from(BUDGET));
}

/// DL-2: the head of the queue failed, the loop stopped, and the next tick took the same head.
#[test]
fn bad_messages_at_the_head_hold_up_nothing_and_are_dead_after_their_failures() {
    for (bad, at_once) in [(1, 1), (1, 10), (10, 10)] {
        let (store, _) = store();
        let queue = MAIL.retry(Retry::DEFAULT.failures(3));
        for number in 0..bad + 100 {
            let text = if number < bad {
                format!("bad {number}")
            } else {
                format!("good {number}")
            };
            store.enqueue(queue, &text).expect("enqueued");
        }
        let (mut good, mut failed) = (0, 0);
        loop {
            let claims = store.claim(MAIL, at_once).expect("a claim");
            if claims.is_empty() {
                break;
            }
            for claim in claims {
                if text(&claim).starts_with("bad") {
                    failed += 1;
                    let settled = store.nack(claim, Some(secs(0)), "unreadable").expect("answered");
                    assert_ne!(settled, Settled::Stale);
                } else {
                    good += 1;
                    assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
                }
            }
        }
        assert_eq!((good, failed, counts(&store)), (100, 3 * bad, [0, 0, 0, 0, bad]));
        let letters = store
            .read(|tx| tx.dead_letters("mail", None, 99))
            .expect("dead letters");
        assert!(
            letters
                .iter()
                .all(|letter| letter.attempts == 3 && letter.state == MessageState::Dead(Reason::Failed))
        );
    }
}

/// DL-2: a body of arbitrary bytes. It is claimed like any other, and whoever decodes it is told.
#[test]
fn a_payload_that_is_no_message_is_claimed_and_can_be_buried() {
    let (disk, clock) = (sprag::testkit::SimDisk::new(), sprag::ManualClock::new());
    let store = crate::common::small_with(&clock)
        .create_on(crate::common::shared(&disk))
        .expect("a store");
    store.enqueue(MAIL, &"first".to_owned()).expect("enqueued");
    let bytes = crate::common::queues(&store).remove(0).open();
    for body in [vec![], vec![0xff; 9], vec![200, 1, 2]] {
        let outgoing = Outgoing::of(&body);
        store
            .enqueue(&bytes.clone().on_dead(OnDead::GoOn), outgoing.key("k"))
            .expect("enqueued");
    }
    drop(store);
    let store = open(&disk, &clock);
    let mut undecodable = 0;
    while let Some(claim) = store.claim(MAIL, 1).expect("a claim").pop() {
        match claim.message() {
            Ok(text) => {
                assert_eq!(text, "first");
                assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
            }
            Err(error) => {
                assert_eq!(error.kind(), sprag::ErrorKind::Decode);
                undecodable += 1;
                let settled = store.bury(claim, "no text").expect("buried");
                assert_eq!(settled, Settled::Dead(Reason::Buried));
            }
        }
    }
    assert_eq!((undecodable, counts(&store)), (3, [0, 0, 0, 0, 3]));
}
