//! A store whose queues have messages of every sort, for trials of what takes all of them along.

use serde_json::json;
use sprag::{
    Claiming, CodecId, DynQueue, Error, Json, Keep, ManualClock, MessageInfo, OnDead, OnceKey, Outgoing, Queue, Replay,
    Retry, Settled, Store,
};

use super::{MAIL, secs};

pub const ALARMS: Queue<u64> = Queue::<u64>::new("alarms").at_most_once();
pub const HOOKS: Queue<serde_json::Value, Json> = Queue::new("hooks");

/// Enqueues a text, under a key if one is given, and gives its number.
fn mail(store: &Store, queue: Queue<String>, key: &str, text: &str) -> u64 {
    let text = text.to_owned();
    let message = Outgoing::of(&text);
    let message = if key.is_empty() { message } else { message.key(key) };
    store.enqueue(queue, message).expect("enqueued").get()
}

fn claim(store: &Store) -> sprag::Claim<String> {
    store.claim(MAIL, 1).expect("a claim").remove(0)
}

pub fn fill(store: &Store, clock: &ManualClock) {
    // A claim that was lost, and then deferred.
    mail(store, MAIL, "", "deferred");
    claim(store).into_receipt().expect("a receipt");
    clock.advance(secs(31));
    let until = std::time::SystemTime::UNIX_EPOCH + secs(2_000_000_000);
    let deferred = store.defer(claim(store), until).expect("answered");
    assert!(matches!(deferred, Settled::Again { .. }));
    // One that failed, and one that somebody delivers with another of its key behind it.
    mail(store, MAIL.retry(Retry::DEFAULT.failures(3)), "", "failed");
    let failed = store.nack(claim(store), Some(secs(600)), "far end is down");
    assert!(matches!(failed.expect("answered"), Settled::Again { .. }));
    mail(store, MAIL, "held", "held 1");
    mail(store, MAIL, "held", "held 2");
    claim(store).into_receipt().expect("a receipt");
    mail(store, MAIL, "", "kept");
    let kept = store.claim(MAIL, Claiming::new(1).kept_in_file()).expect("a claim");
    for claim in kept {
        claim.into_receipt().expect("a receipt");
    }
    of_dead(store);
    // The rest waits.
    mail(store, MAIL, "", "plain");
    mail(store, MAIL, "a", "a1");
    mail(store, MAIL, "a", "a2");
    let discarded = mail(store, MAIL, "a", "a3");
    assert!(
        store
            .write(|tx| tx.discard("mail", discarded.into()))
            .expect("discarded")
    );
    let later = "later".to_owned();
    let later = Outgoing::of(&later)
        .delay(secs(3600))
        .header("to", "ada")
        .header("to", "bob \u{1f600}\n");
    store.enqueue(MAIL, later.expires_at(until)).expect("enqueued");
    let key = OnceKey::new("jobs", b"\0one", Keep::Forever);
    let once = store.once(&key, |tx| {
        let text = "once".to_owned();
        tx.enqueue(MAIL, &text)?;
        Ok::<_, Error>(())
    });
    assert!(!once.expect("done").is_repeat());
    of_others(store, clock);
}

/// A dead letter that blocks its key, one that was passed, and one that was passed and comes again behind its key.
fn of_dead(store: &Store) {
    mail(store, MAIL, "stuck", "stuck 1");
    mail(store, MAIL, "stuck", "stuck 2");
    let _ = store.bury(claim(store), "no such person").expect("buried");
    let passing = MAIL.on_dead(OnDead::GoOn);
    let again = mail(store, passing, "passed", "passed 1");
    mail(store, passing, "passed", "passed 2");
    mail(store, passing, "passed", "passed 3");
    let _ = store.bury(claim(store), "not now").expect("buried");
    let _ = store.bury(claim(store), "never").expect("buried");
    let replayed = store
        .replay("mail", &Replay::new().only([again.into()]))
        .expect("replayed");
    assert_eq!(replayed.replayed, 1);
}

/// A queue that is paused, of which a message was delivered, and one of JSON, of which a message has spaces.
fn of_others(store: &Store, clock: &ManualClock) {
    for number in [u64::MAX, 2, 3] {
        store.enqueue(ALARMS, &number).expect("enqueued");
    }
    assert_eq!(store.claim(ALARMS, 1).expect("a claim").len(), 1);
    store.pause("alarms").expect("paused");
    clock.advance(secs(1));
    store.resume("alarms").expect("resumed");
    store.pause("alarms").expect("paused");
    store.enqueue(HOOKS, &json!({"a": 1.5, "b": null})).expect("enqueued");
    let spaced = DynQueue::new("hooks", CodecId::Json);
    store.enqueue(&spaced, &b"{\"a\": 1}".to_vec()).expect("enqueued");
    store.enqueue(HOOKS, &json!(null)).expect("enqueued");
}

/// All messages of all queues.
pub fn messages(store: &Store) -> Vec<MessageInfo> {
    let all = store.read(|tx| {
        let mut all = Vec::new();
        for info in tx.queues()? {
            all.extend(tx.messages(info.name(), None, usize::MAX)?);
        }
        Ok::<_, Error>(all)
    });
    all.expect("readable")
}
