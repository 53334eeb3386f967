//! The relay: what becomes of a message by what its handler does, and how workers stop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use sprag::{Consumed, Error, Handled, MessageState, Outgoing, Queue, Reason, Relay, Retry, Store, Table};

use super::{MAIL, counts, secs, stats};
use crate::common::in_time;

/// Longer than anything here takes, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);

fn store() -> Store {
    Store::in_memory().expect("a store")
}

fn enqueue(store: &Store, text: &str) {
    // Failures come again at once.
    let queue = MAIL.retry(Retry::DEFAULT.base(Duration::ZERO).failures(3).interruptions(3));
    store.enqueue(queue, &text.to_owned()).expect("enqueued");
}

/// Where a handler waits until the test lets it go on, after it said that it is there.
struct Stop {
    came: Sender<String>,
    go: Mutex<Receiver<()>>,
}

fn stop() -> (Arc<Stop>, Receiver<String>, Sender<()>) {
    let ((came, comes), (lets_go, go)) = (mpsc::channel(), mpsc::channel());
    let stop = Stop {
        came,
        go: Mutex::new(go),
    };
    (Arc::new(stop), comes, lets_go)
}

impl Stop {
    fn here(&self, text: &str) {
        self.came.send(text.to_owned()).expect("the test listens");
        self.go
            .lock()
            .expect("no panic")
            .recv_timeout(LONG)
            .expect("the test lets it go");
    }
}

#[test]
fn each_answer_of_a_handler_does_to_its_message_what_it_says() {
    let store = store();
    for text in ["done", "retry", "asks for later", "later", "never", "unknown", "panic"] {
        enqueue(&store, text);
    }
    let called = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
    let (said, heard) = mpsc::channel();
    let until = SystemTime::now() + secs(3600);
    let calls = called.clone();
    let relay = Relay::new(&store, MAIL).workers(3).start(move |delivery| {
        *calls
            .lock()
            .expect("no panic")
            .entry(delivery.message.clone())
            .or_default() += 1;
        said.send(()).expect("the test listens");
        match delivery.message.as_str() {
            "done" => Handled::Done,
            "retry" => Handled::failed("far end is down"),
            "asks for later" => Handled::Retry {
                after: Some(secs(3600)),
                error: "busy".to_owned(),
            },
            "later" => Handled::Defer { until },
            "never" => Handled::Dead {
                reason: "no such person".to_owned(),
            },
            "unknown" => Handled::Unknown {
                error: "hung up".to_owned(),
            },
            _ => panic!("a handler that breaks"),
        }
    });
    let relay = relay.expect("a relay");
    // done, later twice, never: once each; retry, unknown, panic: three times each.
    for _ in 0..4 + 9 {
        heard.recv_timeout(LONG).expect("a call");
    }
    assert_eq!(relay.drain(LONG).left, 0);
    let called: Vec<_> = called.lock().expect("no panic").clone().into_iter().collect();
    let expected = [
        ("asks for later", 1),
        ("done", 1),
        ("later", 1),
        ("never", 1),
        ("panic", 3),
        ("retry", 3),
        ("unknown", 3),
    ];
    assert_eq!(called, expected.map(|(text, count)| (text.to_owned(), count)));
    assert_eq!(counts(&store), [0, 2, 0, 0, 4]);
    let failed = MessageState::Dead(Reason::Failed);
    let of = |text: &str, state, error: &str| (text.to_owned(), state, error.to_owned());
    assert_eq!(
        why_dead(&store),
        [
            of("never", MessageState::Dead(Reason::Buried), "no such person"),
            of("panic", failed, "the handler panicked: a handler that breaks"),
            of("retry", failed, "far end is down"),
            of("unknown", failed, "outcome unknown: hung up"),
        ]
    );
}

/// The dead letters by their texts, each with where it stands and its last error.
fn why_dead(store: &Store) -> Vec<(String, MessageState, String)> {
    let dead = store.read(|tx| tx.dead_letters("mail", None, 9)).expect("dead letters");
    let mut why: Vec<_> = dead
        .iter()
        .map(|letter| {
            let error = letter.errors.last().expect("an error").text();
            (bincode_text(&letter.payload), letter.state, error.to_owned())
        })
        .collect();
    why.sort_by(|one, other| one.0.cmp(&other.0));
    why
}

/// A text as bincode keeps it: its length in one byte, and its bytes.
fn bincode_text(payload: &[u8]) -> String {
    String::from_utf8(payload[1..].to_vec()).expect("a text")
}

#[test]
fn a_handler_that_takes_many_leases_keeps_its_message() {
    let store = store();
    enqueue(&store, "slow");
    let (stop, comes, lets_go) = stop();
    let relay = Relay::new(&store, MAIL)
        .lease(Duration::from_millis(60))
        .start(move |delivery| {
            stop.here(&delivery.message);
            assert!(delivery.is_current());
            Handled::Done
        });
    let relay = relay.expect("a relay");
    comes.recv_timeout(LONG).expect("it is handled");
    // Somebody else waits for ten leases, and gets nothing.
    let others = store.claim_wait(MAIL, 1, Duration::from_millis(600)).expect("a claim");
    assert!(others.is_empty());
    lets_go.send(()).expect("the handler waits");
    assert_eq!(relay.drain(LONG).left, 0);
    assert_eq!(
        (counts(&store), stats(&store).interruptions, stats(&store).stale),
        ([0; 5], 0, 0)
    );
}

#[test]
fn a_drain_lets_handlers_end_extends_meanwhile_and_gives_the_rest_of_the_lot_back() {
    let store = store();
    for text in ["one", "two", "three"] {
        enqueue(&store, text);
    }
    let (stop, comes, lets_go) = stop();
    let relay = Relay::new(&store, MAIL)
        .lot(3)
        .lease(Duration::from_millis(60))
        .start(move |delivery| {
            stop.here(&delivery.message);
            Handled::Done
        });
    let relay = relay.expect("a relay");
    assert_eq!(comes.recv_timeout(LONG).expect("it is handled"), "one");
    let drained = std::thread::spawn(move || relay.drain(LONG));
    assert!(
        store
            .claim_wait(MAIL, 3, Duration::from_millis(400))
            .expect("a claim")
            .is_empty()
    );
    lets_go.send(()).expect("the handler waits");
    assert_eq!(drained.join().expect("no panic").left, 0);
    let rest = store.claim(MAIL, 3).expect("a claim");
    let attempts: Vec<_> = rest.iter().map(|claim| (super::text(claim), claim.attempt())).collect();
    assert_eq!(attempts, [("two".to_owned(), 2), ("three".to_owned(), 2)]);
    assert_eq!((stats(&store).interruptions, stats(&store).stale), (0, 0));
}

#[test]
fn a_drain_that_is_out_of_patience_gives_back_what_a_handler_holds_and_its_late_answer_is_stale() {
    let store = store();
    enqueue(&store, "stuck");
    let (stop, comes, lets_go) = stop();
    let (ended, ends) = mpsc::channel();
    let relay = Relay::new(&store, MAIL).start(move |delivery| {
        stop.here(&delivery.message);
        ended.send(delivery.is_current()).expect("the test listens");
        Handled::Done
    });
    let relay = relay.expect("a relay");
    comes.recv_timeout(LONG).expect("it is handled");
    assert_eq!(relay.drain(Duration::from_millis(50)).left, 1);
    let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(claim.attempt(), 2);
    lets_go.send(()).expect("the handler waits");
    assert!(!ends.recv_timeout(LONG).expect("it ends"));
    assert_eq!(store.ack(claim).expect("acknowledged"), sprag::Settled::Done);
    assert_eq!(counts(&store), [0; 5]);
}

#[test]
fn messages_of_one_key_are_handled_one_by_one_in_order_by_many_workers() {
    let store = store();
    store
        .write(|tx| {
            for number in 0..400_u64 {
                let text = number.to_string();
                tx.enqueue(MAIL, Outgoing::of(&text).key([(number % 7) as u8]))?;
            }
            Ok::<_, sprag::Error>(())
        })
        .expect("enqueued");
    let inside: Arc<[AtomicU64; 7]> = Arc::new(Default::default());
    let (said, heard) = mpsc::channel();
    let relay = Relay::new(&store, MAIL).workers(8).lot(5).start(move |delivery| {
        let number: u64 = delivery.message.parse().expect("a number");
        let here = &inside[(number % 7) as usize];
        assert_eq!(here.fetch_add(1, Ordering::AcqRel), 0, "nobody else handles this key");
        said.send(number).expect("the test listens");
        here.fetch_sub(1, Ordering::AcqRel);
        Handled::Done
    });
    let relay = relay.expect("a relay");
    let mut last = [None; 7];
    for _ in 0..400 {
        let number = heard.recv_timeout(LONG).expect("a message");
        let of_key = &mut last[(number % 7) as usize];
        assert!(
            of_key.is_none_or(|before| before + 7 == number),
            "{number} behind {of_key:?}"
        );
        *of_key = Some(number);
    }
    assert_eq!(relay.drain(LONG).left, 0);
    assert_eq!(counts(&store), [0; 5]);
}

#[test]
fn what_is_no_message_of_the_handlers_type_is_a_dead_letter_and_nothing_waits_behind_it() {
    let store = store();
    let bytes = sprag::DynQueue::new("mail", sprag::CodecId::Bincode);
    for _ in 0..10 {
        store.enqueue(&bytes, &vec![9, 0xff, 0xfe]).expect("enqueued");
    }
    enqueue(&store, "good");
    let (said, heard) = mpsc::channel();
    let relay = Relay::new(&store, MAIL).start(move |delivery| {
        said.send(delivery.message.clone()).expect("the test listens");
        Handled::Done
    });
    let relay = relay.expect("a relay");
    assert_eq!(heard.recv_timeout(LONG).expect("a message"), "good");
    assert_eq!(relay.drain(LONG).left, 0);
    let dead = store
        .read(|tx| tx.dead_letters("mail", None, 99))
        .expect("dead letters");
    assert!(
        dead.iter()
            .all(|letter| letter.state == MessageState::Dead(Reason::Undecodable))
    );
    assert_eq!(counts(&store), [0, 0, 0, 0, 10]);
}

#[test]
fn an_at_most_once_queue_hands_each_message_out_once_whatever_its_handler_does() {
    const ALARMS: Queue<u64> = Queue::new("alarms").at_most_once();
    let store = store();
    for number in 0..30 {
        store.enqueue(ALARMS, &number).expect("enqueued");
    }
    let (said, heard) = mpsc::channel();
    let relay = Relay::new(&store, ALARMS).workers(3).lot(4).start(move |delivery| {
        said.send(delivery.message).expect("the test listens");
        match delivery.message % 3 {
            0 => Handled::failed("far end is down"),
            1 => panic!("a handler that breaks"),
            _ => Handled::Done,
        }
    });
    let relay = relay.expect("a relay");
    let mut seen: Vec<_> = (0..30).map(|_| heard.recv_timeout(LONG).expect("a message")).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..30).collect::<Vec<_>>());
    assert_eq!(relay.drain(LONG).left, 0);
    assert!(heard.try_recv().is_err());
    let stats = store.queue_stats("alarms").expect("figures").expect("the queue");
    assert_eq!([stats.ready, stats.claimed, stats.dead, stats.bytes], [0; 4]);
}

#[test]
fn a_closed_store_ends_its_relay() {
    let store = store();
    let relay = Relay::new(&store, MAIL)
        .workers(4)
        .start(|_| Handled::Done)
        .expect("a relay");
    store.close().expect("closed");
    assert_eq!(in_time("a drain", move || relay.drain(LONG)).left, 0);
}

#[test]
fn a_handler_does_the_work_of_its_message_and_acknowledges_it_in_one_commit() {
    const SUMS: Table<u64, u64> = Table::new("sums");
    let store = store();
    store.put(SUMS, &51, &100).expect("written");
    for text in ["30", "not a number", "10"] {
        enqueue(&store, text);
    }
    let relay = Relay::new(&store, MAIL).workers(2).lot(3).start(|delivery| {
        let consumed = delivery.consume(|tx| {
            let sum = tx.get(SUMS, &51)?.map_or(0, |record| record.value);
            let amount = delivery.message.parse::<u64>().map_err(|cause| {
                let stream = std::io::Error::other(cause);
                Failed::Work(stream.to_string())
            })?;
            tx.put(SUMS, &51, &(sum + amount))?;
            Ok::<_, Failed>(())
        });
        match consumed {
            // Whatever is said after the work is done: it is done.
            Ok(Consumed::Done(())) => Handled::failed("too late"),
            Ok(Consumed::Stale) => Handled::Done,
            Err(Failed::Work(text)) => Handled::Dead { reason: text },
            Err(Failed::Store(error)) => Handled::failed(error),
        }
    });
    let relay = relay.expect("a relay");
    while counts(&store) != [0, 0, 0, 0, 1] {
        std::thread::yield_now();
    }
    assert_eq!(relay.drain(LONG).left, 0);
    let record = store.get(SUMS, &51).expect("readable").expect("there");
    assert_eq!((record.value, record.version.get()), (140, 3));
    assert_eq!((stats(&store).stale, stats(&store).interruptions), (0, 0));
}

enum Failed {
    Work(String),
    Store(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
}

/// A message whose reading breaks.
#[derive(serde::Serialize)]
struct Breaks;

impl<'de> serde::Deserialize<'de> for Breaks {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Breaks, D::Error> {
        panic!("a message that breaks")
    }
}

#[test]
fn a_message_that_panics_when_it_is_read_is_a_failure_and_its_worker_goes_on() {
    const BREAKS: Queue<Breaks> = Queue::new("mail");
    let store = store();
    for _ in 0..5 {
        enqueue(&store, "any");
    }
    let relay = Relay::new(&store, BREAKS)
        .lot(2)
        .start(|_| Handled::Done)
        .expect("a relay");
    while counts(&store) != [0, 0, 0, 0, 5] {
        std::thread::yield_now();
    }
    assert_eq!(relay.workers(), 1);
    assert_eq!(relay.drain(LONG).left, 0);
    let dead = store.read(|tx| tx.dead_letters("mail", None, 9)).expect("dead letters");
    assert!(
        dead.iter()
            .all(|letter| letter.state == MessageState::Dead(Reason::Failed) && letter.failures == 3)
    );
}

#[test]
fn a_drain_that_is_out_of_patience_keeps_what_other_handlers_of_the_lot_said() {
    let store = store();
    for text in ["one", "two", "stuck", "never begun"] {
        enqueue(&store, text);
    }
    let (stop, comes, lets_go) = stop();
    let relay = Relay::new(&store, MAIL).lot(4).start(move |delivery| {
        if delivery.message == "stuck" {
            stop.here(&delivery.message);
        }
        Handled::Done
    });
    let relay = relay.expect("a relay");
    comes.recv_timeout(LONG).expect("it is handled");
    assert_eq!(relay.drain(Duration::from_millis(50)).left, 2);
    let left = store.claim(MAIL, 9).expect("a claim");
    assert_eq!(super::texts(&left), ["stuck", "never begun"]);
    lets_go.send(()).expect("the handler waits");
}

#[test]
fn a_relay_that_is_dropped_by_its_own_handler_does_not_wait_for_itself() {
    let store = store();
    enqueue(&store, "one");
    let own: Arc<Mutex<Option<sprag::Running>>> = Arc::default();
    let (mine, (said, heard)) = (own.clone(), mpsc::channel());
    let relay = Relay::new(&store, MAIL).start(move |_| {
        let running = loop {
            if let Some(running) = mine.lock().expect("no panic").take() {
                break running;
            }
        };
        drop(running);
        said.send(()).expect("the test listens");
        Handled::Done
    });
    *own.lock().expect("no panic") = Some(relay.expect("a relay"));
    heard.recv_timeout(LONG).expect("the handler goes on");
    while counts(&store) != [0; 5] {
        std::thread::yield_now();
    }
}
