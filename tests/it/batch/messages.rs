//! Messages that a batch enqueues: there exactly if the batch is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sprag::limits::VALUE_BYTES_MAX;
use sprag::{
    Batch, Claim, CodecId, Condition, DynQueue, Error, ErrorKind, Keep, ManualClock, MessageInfo, MessageState, OnDead,
    OnceKey, Outcome, Outgoing, Queue, Reason, Refused, Replay, Retry, Settled, Store, Verdict,
};

use super::{BALANCES, balance, once, words};
use crate::common::{kind_of, queues, small, small_with, text_of};

pub const MAIL: Queue<String> = Queue::new("mail");

pub fn text(text: &str) -> String {
    text.to_owned()
}

/// The payloads of a queue, in the order of the numbers.
pub fn payloads(store: &Store, queue: &str) -> Vec<String> {
    let messages = messages(store, queue).into_iter();
    // What stands before the text is its length.
    let text = |message: MessageInfo| String::from_utf8(message.payload[1..].to_vec()).expect("a text");
    messages.map(text).collect()
}

fn messages(store: &Store, queue: &str) -> Vec<MessageInfo> {
    store.read(|tx| tx.messages(queue, None, 100)).expect("readable")
}

fn claim(store: &Store) -> Claim<String> {
    let mut claims = store.claim(MAIL, 1).expect("a claim");
    claims.pop().expect("a message")
}

fn at(secs: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(secs)
}

/// Batches with a message that is a mistake, and what is said of it.
pub fn mistakes() -> Vec<(Batch, ErrorKind, &'static str)> {
    let (short, long) = ("m".to_owned(), "x".repeat(16 << 10));
    let with = |outgoing: Outgoing<'_, String>| Batch::new().put(BALANCES, &1, &1).enqueue(MAIL, outgoing);
    let nameless: Queue<String> = Queue::new("");
    let no_attempt = Retry::DEFAULT.interruptions(0);
    let one_way: Queue<OneWay> = Queue::new("one-way");
    vec![
        (
            with(Outgoing::of(&short).key("")),
            ErrorKind::Invalid,
            "operation=1: key of a message has 0 bytes",
        ),
        (
            with(Outgoing::of(&short).key(&long[..256])),
            ErrorKind::Invalid,
            "operation=1: key of a message has 256 bytes",
        ),
        (
            with(Outgoing::of(&short).header(&long, "x")),
            ErrorKind::TooLarge,
            "operation=1: headers of a message too long, bytes=16385, bytes_max=16384",
        ),
        (
            with(Outgoing::of(&short).retry(no_attempt)),
            ErrorKind::Invalid,
            "operation=1: a retry without any attempt, failures=100, interruptions=0",
        ),
        (
            Batch::new().enqueue(MAIL.retry(no_attempt), &short),
            ErrorKind::Invalid,
            "operation=0: a retry without any attempt",
        ),
        (
            Batch::new().enqueue(nameless, &short),
            ErrorKind::Invalid,
            "operation=0: queue name is not 1 to 255 bytes",
        ),
        (
            with(Outgoing::of(&"x".repeat(VALUE_BYTES_MAX))),
            ErrorKind::TooLarge,
            "operation=1: value too large",
        ),
        (
            Batch::new().enqueue(&DynQueue::new("raw", CodecId::Bincode), &vec![0; VALUE_BYTES_MAX + 1]),
            ErrorKind::TooLarge,
            "operation=0: value too large",
        ),
        (
            Batch::new().enqueue(one_way, &OneWay),
            ErrorKind::Invalid,
            "operation=0: ",
        ),
    ]
}

/// A message that is written as text and wants to be read as a number.
struct OneWay;

impl serde::Serialize for OneWay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("text")
    }
}

impl<'de> serde::Deserialize<'de> for OneWay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<OneWay, D::Error> {
        <[u64; 4]>::deserialize(deserializer).map(|_| OneWay)
    }
}

#[test]
fn a_remembered_batch_enqueues_its_message_once_however_often_it_comes() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    let batch = Batch::new()
        .once(&once("evt-1"))
        .put_if(BALANCES, &51, Condition::Version(1), &140)
        .enqueue(MAIL, &text("40 have come"));
    let told = ["holds 2", "enqueued 1"];
    for delivery in 0..11 {
        let outcome = store.apply(&batch).unwrap();
        assert_eq!(matches!(outcome, Outcome::Applied { .. }), delivery == 0, "{outcome:?}");
        assert_eq!(outcome.verdicts().iter().map(words).collect::<Vec<_>>(), told);
        assert_eq!(store.dry_run(&batch).unwrap().verdicts(), outcome.verdicts());
    }
    assert_eq!(balance(&store, 51), Some((140, 2)));
    assert_eq!(payloads(&store, "mail"), ["40 have come"]);
    // Without a key, an enqueue is never already so.
    let plain = Batch::new()
        .put_if(BALANCES, &51, Condition::Absent, &140)
        .enqueue(MAIL, &text("again"));
    let Outcome::Rejected(verdicts) = store.apply(&plain).unwrap() else {
        panic!("a part is already so, and a part is not");
    };
    assert_eq!(
        verdicts.iter().map(words).collect::<Vec<_>>(),
        ["already 2", "enqueued 3"]
    );
    assert_eq!(payloads(&store, "mail"), ["40 have come"]);
}

/// OB-2: the message must not leave although the data did not.
#[test]
fn a_batch_that_is_not_applied_leaves_neither_data_nor_message() {
    let store = small().in_memory().unwrap();
    store.put(BALANCES, &51, &100).unwrap();
    let commits = || store.stats().unwrap().commits;
    let before = commits();
    let rejected = Batch::new()
        .once(&once("rejected"))
        .enqueue(MAIL, &text("never"))
        .put(BALANCES, &52, &1)
        .put_if(BALANCES, &51, Condition::Version(7), &140);
    let outcome = store.apply(&rejected).unwrap();
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    assert_eq!(
        outcome.verdicts().iter().map(words).collect::<Vec<_>>(),
        ["enqueued 1", "unguarded 1", "fails 1"]
    );
    let tried = Batch::new().put(BALANCES, &52, &1).enqueue(MAIL, &text("never"));
    assert!(matches!(store.dry_run(&tried).unwrap(), Outcome::Applied { .. }));
    let failed: Result<(), Error> = store.write(|tx| {
        assert!(matches!(tx.apply(&tried)?, Outcome::Applied { .. }));
        tx.put_if(BALANCES, &51, Condition::Absent, &1)?.or_abort().map(drop)
    });
    assert_eq!(kind_of(failed), ErrorKind::Conflict);
    let too_large = Batch::new().put(BALANCES, &52, &1).enqueue(MAIL, &"x".repeat(16 << 10));
    for answer in [store.apply(&too_large), store.dry_run(&too_large)] {
        assert_eq!(kind_of(answer), ErrorKind::TooLarge);
    }
    assert_eq!(commits(), before);
    assert_eq!((balance(&store, 51), balance(&store, 52)), (Some((100, 1)), None));
    assert_eq!(queues(&store), []);
    assert!(store.remembered("batches", "rejected").unwrap().is_none());
    // Inside a write it is undone alone.
    store
        .write(|tx| {
            assert!(matches!(tx.apply(&rejected)?, Outcome::Rejected(_)));
            tx.enqueue(MAIL, &text("kept"))
        })
        .unwrap();
    assert_eq!(payloads(&store, "mail"), ["kept"]);
}

#[test]
fn a_queue_that_is_declared_otherwise_stops_the_batch() {
    let store = small().in_memory().unwrap();
    store.enqueue(MAIL, &text("first")).unwrap();
    let json: Queue<String, sprag::Json> = Queue::new("mail");
    for batch in [
        Batch::new().put(BALANCES, &51, &1).enqueue(json, &text("second")),
        Batch::new()
            .put(BALANCES, &51, &1)
            .enqueue(MAIL.at_most_once(), &text("second")),
    ] {
        let told = text_of(ErrorKind::Schema, store.apply(&batch));
        assert!(
            told.contains("operation=1: queue is declared otherwise, queue=mail"),
            "{told}"
        );
    }
    assert_eq!((balance(&store, 51), payloads(&store, "mail").len()), (None, 1));
}

#[test]
fn messages_of_a_batch_have_their_order_and_all_that_was_said_of_them() {
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().unwrap();
    let now_s = u64::try_from(ManualClock::START_WALL_NS).unwrap() / 1_000_000_000;
    let queue = MAIL.retry(Retry::DEFAULT.failures(1)).on_dead(OnDead::GoOn);
    let [first, second, later, scheduled] = ["first", "second", "later", "scheduled"].map(text);
    let batch = Batch::new()
        .enqueue(
            queue,
            Outgoing::of(&first).key("k").header("kind", "a").header("kind", "b"),
        )
        .enqueue(
            MAIL,
            Outgoing::of(&second).key([0, 255]).retry(Retry::DEFAULT.failures(2)),
        )
        .enqueue(queue, Outgoing::of(&later).key("k").delay(Duration::from_secs(60)))
        .enqueue(
            queue,
            Outgoing::of(&scheduled).at(at(now_s + 90)).expires_at(at(now_s + 100)),
        );
    let Outcome::Applied { verdicts } = store.apply(&batch).unwrap() else {
        panic!("not applied");
    };
    let found = messages(&store, "mail");
    let ids: Vec<Verdict> = found.iter().map(|message| Verdict::Enqueued(message.id)).collect();
    assert_eq!(ids, verdicts);
    assert_eq!(payloads(&store, "mail"), ["first", "second", "later", "scheduled"]);
    let header = |of: &str| (text("kind"), text(of));
    assert_eq!(found[0].headers, [header("a"), header("b")]);
    assert_eq!(
        (found[0].key.as_deref(), found[1].key.as_deref()),
        (Some(&b"k"[..]), Some(&[0, 255][..]))
    );
    assert_eq!(found[2].state, MessageState::Blocked);
    assert_eq!(
        (found[3].due, found[3].expires_at),
        (at(now_s + 90), Some(at(now_s + 100)))
    );
    assert!(found[0].effect_id != found[1].effect_id);
    // The one has the retry of its queue, and the other its own.
    let [one, other] = [claim(&store), claim(&store)];
    assert_eq!(store.nack(one, None, "no").unwrap(), Settled::Dead(Reason::Failed));
    assert!(matches!(store.nack(other, None, "no").unwrap(), Settled::Again { .. }));
    // A dead letter does not block the key, as was said, and the delay counts from the commit.
    let due_after = |secs| {
        clock.advance(Duration::from_secs(secs));
        let claims = store.claim(MAIL, 9).unwrap();
        let mut due: Vec<String> = claims.iter().map(|claim| claim.message().unwrap()).collect();
        due.sort();
        due
    };
    assert_eq!(due_after(59), ["second"]);
    assert_eq!(due_after(1), ["later", "second"]);
    assert_eq!(due_after(40), ["later", "second"]);
    assert_eq!(messages(&store, "mail")[3].state, MessageState::Dead(Reason::Expired));
}

/// A dead letter, of a message that this enqueues, that is replayed two hours later.
fn refused_after_two_hours(enqueue: impl FnOnce(&Store)) -> Option<Refused> {
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().unwrap();
    enqueue(&store);
    let bury = || {
        let settled = store.bury(claim(&store), "no such person").unwrap();
        assert_eq!(settled, Settled::Dead(Reason::Buried));
    };
    bury();
    let replayed = store.replay("mail", &Replay::new()).unwrap();
    assert_eq!((replayed.replayed, replayed.refused), (1, vec![]));
    bury();
    clock.advance(Duration::from_secs(7200));
    let replayed = store.replay("mail", &Replay::new()).unwrap();
    let refused = replayed.refused.first().map(|(_, why)| *why);
    assert_eq!(replayed.replayed, u64::from(refused.is_none()));
    if refused.is_some() {
        assert_eq!(store.replay("mail", &Replay::new().forced()).unwrap().replayed, 1);
    }
    assert_eq!(claim(&store).message().unwrap(), "once");
    refused
}

#[test]
fn a_dead_letter_is_not_replayed_once_the_key_of_its_batch_is_over_unless_that_is_forced() {
    let hour = |key: &str| OnceKey::new("messages", key, Keep::For(Duration::from_secs(3600)));
    let ever = |key: &str| OnceKey::new("messages", key, Keep::Forever);
    let batch = || Batch::new().enqueue(MAIL, &text("once"));
    let applied = |store: &Store, batch: &Batch| {
        assert!(matches!(store.apply(batch).unwrap(), Outcome::Applied { .. }));
    };
    let within = |store: &Store, key: &OnceKey, batch: &Batch| {
        store
            .once(key, |tx| tx.apply(batch)?.or_abort().map(|told| told.len() as u64))
            .unwrap();
    };
    let over = Some(Refused::KeyIsOver);
    assert_eq!(refused_after_two_hours(|store| applied(store, &batch())), None);
    assert_eq!(
        refused_after_two_hours(|store| applied(store, &batch().once(&hour("own")))),
        over
    );
    assert_eq!(
        refused_after_two_hours(|store| applied(store, &batch().once(&ever("own")))),
        None
    );
    // Without a key of its own it has that of the work that it is a part of.
    assert_eq!(
        refused_after_two_hours(|store| within(store, &hour("work"), &batch())),
        over
    );
    let own = batch().once(&ever("own"));
    assert_eq!(
        refused_after_two_hours(|store| within(store, &hour("work"), &own)),
        None
    );
    let own = batch().once(&hour("own"));
    assert_eq!(
        refused_after_two_hours(|store| within(store, &ever("work"), &own)),
        over
    );
}

#[cfg(feature = "tokio")]
#[test]
fn a_batch_wakes_who_waits_for_its_messages_and_one_that_is_not_applied_nobody() {
    use std::pin::pin;
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Poll, Wake, Waker};

    struct Woken(mpsc::Sender<()>);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("somebody who counts");
        }
    }

    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let store = small().in_memory().unwrap();
    let (sender, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Woken(sender)));
    let mut context = Context::from_waker(&waker);
    let mut waiting = pin!(store.claim_wait_async(MAIL, 1, Duration::MAX));
    let mut look = || {
        if let Poll::Ready(claims) = waiting.as_mut().poll(&mut context) {
            return Poll::Ready(claims);
        }
        // It looks on the only thread for that: what comes behind it there, comes after it.
        runtime
            .block_on(runtime.spawn_blocking(|| ()))
            .expect("nothing was done");
        woken.try_iter().for_each(drop);
        waiting.as_mut().poll(&mut context)
    };
    assert!(look().is_pending(), "there is nothing");
    let batch = Batch::new().put(BALANCES, &51, &1).enqueue(MAIL, &text("come"));
    let rejected = Batch::new()
        .enqueue(MAIL, &text("never"))
        .check(BALANCES, &51, Condition::Present);
    assert!(matches!(store.dry_run(&batch).unwrap(), Outcome::Applied { .. }));
    assert!(matches!(store.apply(&rejected).unwrap(), Outcome::Rejected(_)));
    assert!(woken.try_recv().is_err(), "nothing was enqueued");
    assert!(matches!(store.apply(&batch).unwrap(), Outcome::Applied { .. }));
    assert!(woken.try_recv().is_ok(), "a sleeper slept on");
    let Poll::Ready(claims) = look() else {
        panic!("nothing was found");
    };
    assert_eq!(claims.unwrap()[0].message().unwrap(), "come");
}
