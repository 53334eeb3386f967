//! Field reports about transactional outboxes (kind OB).

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sprag::testkit::SimDisk;
use sprag::{
    Bincode, Claiming, Codec as _, Condition, Error, ManualClock, MessageId, MessageState, OnDead, Outgoing, Queue,
    Reason, Retry, Settled, Store, Table,
};

use crate::common::{at_once, folder, shared, small, small_with};
use crate::outbox::{MAIL, counts, open, secs, stats, text};
use crate::random::{Random, seed, trials};

const ORDERS: Table<u64, u64> = Table::new("orders");
const EVENTS: Queue<u64> = Queue::new("events");

/// OB-1: numbers were handed out before the commit, so an event with a lower one became visible after the reader had passed it.
#[test]
fn numbers_grow_in_the_order_of_commits_so_a_reader_behind_the_last_one_misses_nothing() {
    const ENQUEUES: u64 = 50_000;
    let store = Store::in_memory().expect("a store");
    store.enqueue(EVENTS, &u64::MAX).expect("enqueued");
    let (next, kept) = (AtomicU64::new(0), std::sync::Mutex::new(HashSet::new()));
    let is_over = AtomicBool::new(false);
    let seed = seed();
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut after, mut seen) = (None, Vec::new());
            loop {
                let ended = is_over.load(Ordering::Acquire);
                let page = store.read(|tx| tx.messages("events", after, 1000)).expect("a page");
                after = page.last().map_or(after, |info| Some(info.id));
                if page.is_empty() && ended {
                    return seen;
                }
                seen.extend(page.into_iter().map(|info| info.payload));
            }
        });
        at_once(16, |thread| {
            let mut random = Random::new(seed.wrapping_add(thread as u64 * 0x1234_5679));
            loop {
                let lot = 1 + random.below(40);
                let first = next.fetch_add(lot, Ordering::Relaxed);
                if first >= ENQUEUES {
                    return;
                }
                let aborts = random.below(5) == 0;
                let written = store.write(|tx| {
                    for number in first..first + lot {
                        tx.enqueue(EVENTS, &number)?;
                        (0..random.below(200)).for_each(|_| std::hint::spin_loop());
                    }
                    if aborts {
                        tx.pause("nobody").map(drop)
                    } else {
                        Ok::<_, Error>(())
                    }
                });
                assert_eq!(written.is_err(), aborts);
                if !aborts {
                    kept.lock().expect("no panic").extend(first..first + lot);
                }
            }
        });
        is_over.store(true, Ordering::Release);
        reader.join().expect("no panic")
    });
    let seen: Vec<u64> = seen
        .iter()
        .map(|bytes| Bincode::decode(bytes).expect("a number"))
        .collect();
    let kept = kept.into_inner().expect("no panic");
    assert_eq!(seen[0], u64::MAX);
    assert_eq!(seen.len(), kept.len() + 1, "each once");
    assert!(
        seen[1..].iter().all(|number| kept.contains(number)),
        "and none of those that were aborted"
    );
}

/// OB-2: a job ran before its row existed, or for a row that was rolled back.
#[test]
fn a_message_is_there_with_its_data_or_not_at_all() {
    const ROUNDS: u64 = 1000;
    let store = Store::in_memory().expect("a store");
    store.put(ORDERS, &u64::MAX, &1).expect("written");
    for order in 0..ROUNDS {
        let written = store.write(|tx| {
            tx.put(ORDERS, &order, &order)?;
            tx.enqueue(EVENTS, &order)?;
            tx.put_if(ORDERS, &u64::MAX, Condition::Absent, &2)?.or_abort()
        });
        assert!(written.is_err());
        assert!(store.get(ORDERS, &order).expect("readable").is_none());
    }
    assert!(
        store.queue_stats("events").expect("a look").is_none(),
        "no message, and not even the queue"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = 0;
            while got < ROUNDS {
                for claim in store.claim_wait(EVENTS, 1, secs(5)).expect("a claim") {
                    let order = claim.message().expect("a number");
                    let record = store
                        .get(ORDERS, &order)
                        .expect("readable")
                        .expect("there with its message");
                    assert_eq!(record.value, order + 140);
                    assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
                    got += 1;
                }
            }
        });
        for order in 0..ROUNDS {
            let written = store.write(|tx| {
                tx.enqueue(EVENTS, &order)?;
                tx.put(ORDERS, &order, &(order + 140))
            });
            written.expect("written");
        }
    });
}

const CHILD_FILE: &str = "SPRAG_SENDER_FILE";

/// The process that sends and dies before it says so; a trial of its own if nobody names a file.
#[test]
fn a_child_sends_a_message_and_dies_before_it_marks_it_sent() {
    let named = std::env::var_os(CHILD_FILE).map(PathBuf::from);
    let store = match &named {
        Some(path) => Store::open(path).expect("opened"),
        None => Store::in_memory().expect("a store"),
    };
    if named.is_none() {
        store.enqueue(MAIL, &"m".to_owned()).expect("enqueued");
    }
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    println!("sent={}:{}:{}.", claim.id(), claim.effect_id(), text(&claim));
    if named.is_some() {
        std::process::abort();
    }
    assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
}

/// OB-3: the same message was sent twice, and the far end had nothing to notice it by.
#[test]
fn what_was_sent_before_a_crash_is_sent_again_under_the_same_effect_id_and_never_once_it_is_acknowledged() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    store.enqueue(MAIL, &"m".to_owned()).expect("enqueued");
    store.close().expect("closed");
    let out = Command::new(std::env::current_exe().expect("path of this test"))
        .args([
            "--exact",
            "reports_ob::a_child_sends_a_message_and_dies_before_it_marks_it_sent",
        ])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, &path)
        .stderr(Stdio::null())
        .output()
        .expect("the child runs");
    assert!(!out.status.success(), "it was to die");
    let said = String::from_utf8(out.stdout).expect("text");
    let sent = said
        .split_once("sent=")
        .and_then(|(_, rest)| rest.split_once('.'))
        .expect("what it sent")
        .0;
    let store = Store::open(&path).expect("opened");
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(format!("{}:{}:{}", claim.id(), claim.effect_id(), text(&claim)), sent);
    assert_eq!(claim.attempt(), 2);
    assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
    store.close().expect("closed");
    sprag::Options::new().compact(&path).expect("compacted");
    let store = Store::open(&path).expect("opened");
    assert!(store.claim(MAIL, 1).expect("a claim").is_empty());
    assert_eq!((counts(&store), stats(&store).bytes), ([0; 5], 0));
}

/// OB-4: finished items were kept for ever, or a huge clean-up held the only write lock.
#[test]
fn a_file_does_not_grow_with_what_was_acknowledged_and_nobody_waits_for_a_clean_up() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = small().create_new(&path).expect("a store");
    let bodies: Queue<Vec<u8>> = Queue::new("bodies");
    // The report has 200,000.
    let (lot, lots) = (4, trials(1500, 50_000));
    let (mut early, mut longest) = (0, Duration::ZERO);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Acquire) {
                let begun = Instant::now();
                store.put(ORDERS, &1, &140).expect("written");
                longest = longest.max(begun.elapsed());
                let _ = store
                    .claim_wait(EVENTS, 1, Duration::from_millis(10))
                    .expect("no error");
            }
            longest
        });
        let mut held = Vec::new();
        for done in 0..lots {
            let ((), claims) = store
                .write_then_claim(bodies, lot, |tx| {
                    for claim in std::mem::take(&mut held) {
                        assert_eq!(tx.ack(claim)?, Settled::Done);
                    }
                    (0..lot).try_for_each(|_| tx.enqueue(bodies, &vec![7; 1000]).map(drop))
                })
                .expect("written");
            assert_eq!(claims.len(), lot);
            held = claims;
            if done == lots / 5 {
                early = std::fs::metadata(&path).expect("the file").len();
            }
        }
        is_over.store(true, Ordering::Release);
        longest = other.join().expect("no panic");
    });
    let late = std::fs::metadata(&path).expect("the file").len();
    println!(
        "messages={} early={early} late={late} longest_put={longest:?}",
        lots * lot as u64
    );
    // Half as much again, and what a file of this length grows by at once.
    assert!(
        late <= early * 3 / 2 + (1 << 20),
        "the file grew, early={early} late={late}"
    );
    assert!(longest < secs(5), "a put waited, longest={longest:?}");
}

/// OB-6: a dead item at the head of its group blocked the group, and nothing said so. It is said in the figures, or the group
/// goes on; other groups never wait.
#[test]
fn a_dead_message_blocks_its_key_in_sight_or_lets_it_go_on_and_other_keys_never_wait() {
    for (on_dead, killed) in [OnDead::GoOn, OnDead::BlockKey]
        .into_iter()
        .flat_map(|on| [(on, false), (on, true)])
    {
        let (mut disk, clock) = (SimDisk::new(), ManualClock::new());
        let mut store = small_with(&clock).create_on(shared(&disk)).expect("a store");
        let queue = MAIL.on_dead(on_dead).retry(Retry::DEFAULT.failures(2).interruptions(2));
        let enqueue = |store: &Store, key: &str, text: &str| {
            let text = text.to_owned();
            store.enqueue(queue, Outgoing::of(&text).key(key)).expect("enqueued")
        };
        let bad: MessageId = enqueue(&store, "g", "bad");
        for text in ["good1", "good2"] {
            enqueue(&store, "g", text);
        }
        for _ in 0..2 {
            enqueue(&store, "other", "other");
            let claims = store.claim(MAIL, Claiming::new(9)).expect("a claim");
            assert_eq!(claims.iter().map(text).collect::<Vec<_>>(), ["bad", "other"]);
            let mut claims = claims.into_iter();
            let (first, other) = (claims.next().expect("bad"), claims.next().expect("other"));
            assert_eq!(store.ack(other).expect("acknowledged"), Settled::Done);
            if killed {
                first.into_receipt().expect("a receipt");
                disk = disk.kill();
                store = open(&disk, &clock);
            } else {
                assert_ne!(
                    store.nack(first, Some(secs(0)), "no").expect("answered"),
                    Settled::Stale
                );
            }
        }
        let reason = if killed { Reason::Interrupted } else { Reason::Failed };
        let letter = store
            .read(|tx| tx.message("mail", bad))
            .expect("a look")
            .expect("there");
        assert_eq!(letter.state, MessageState::Dead(reason));
        let mut order = Vec::new();
        while let Some(claim) = store.claim(MAIL, 9).expect("a claim").pop() {
            order.push(text(&claim));
            assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
        }
        match on_dead {
            OnDead::GoOn => assert_eq!(
                (order, counts(&store)),
                (vec!["good1".into(), "good2".into()], [0, 0, 0, 0, 1])
            ),
            OnDead::BlockKey => assert_eq!((order, counts(&store)), (vec![], [0, 0, 0, 2, 1])),
        }
        assert!(store.write(|tx| tx.discard("mail", bad)).expect("discarded"));
        assert_eq!(counts(&store)[0], u64::from(on_dead == OnDead::BlockKey));
    }
}
