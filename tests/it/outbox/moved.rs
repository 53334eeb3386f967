//! Messages in what leaves a store whole: exports and imports, backups, restored and compacted files.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use sprag::{
    Claiming, Error, ErrorKind, ManualClock, MessageInfo, MessageState, OnceKey, Outgoing, QueueStats, Replay, Settled,
    Stats, Store,
};

use super::busy::{self, ALARMS, HOOKS, messages};
use super::{MAIL, secs, text};
use crate::common::{folder, kind_of, small_with};
use crate::random::{Random, seed};

/// How far the fences of a restored store lie above those of its backup.
pub const FENCES_APART: u64 = 1 << 32;

fn filled() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    let store = small_with(&clock).in_memory().expect("a store");
    busy::fill(&store, &clock);
    (store, clock)
}

fn exported(store: &Store) -> String {
    let mut out = Vec::new();
    let exported = store.export(&mut out).expect("exported");
    let text = String::from_utf8(out).expect("text");
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count() as u64;
    assert_eq!(exported.queues, count("{\"line\":\"queue\""));
    assert_eq!(exported.messages, count("{\"line\":\"message\""));
    text
}

fn imported(clock: &ManualClock, lines: &str) -> Store {
    let store = small_with(clock).in_memory().expect("a store");
    store.import(lines.as_bytes()).expect("imported");
    store
}

/// The lines but for the first one, which says whose they are, and the last one, which hangs on it.
fn body(lines: &str) -> Vec<&str> {
    let mut body: Vec<&str> = lines.lines().skip(1).collect();
    body.pop();
    body
}

fn queues(store: &Store) -> Vec<QueueStats> {
    store.stats().expect("figures").queues
}

fn dead(store: &Store) -> Vec<MessageInfo> {
    store.read(|tx| tx.dead_letters("mail", None, 100)).expect("readable")
}

/// As it stands once its claims are ended: those that were claimed are ready.
fn without_claims(mut messages: Vec<MessageInfo>) -> Vec<MessageInfo> {
    for message in &mut messages {
        if message.state == MessageState::Claimed {
            message.state = MessageState::Ready;
        }
    }
    messages
}

/// Everything that can be claimed until nothing is left, each with its key.
fn drain(store: &Store) -> Vec<(Option<String>, String)> {
    let mut order = Vec::new();
    loop {
        let claims = store.claim(MAIL, 100).expect("a claim");
        if claims.is_empty() {
            return order;
        }
        for claim in claims {
            let key = claim.key().map(|key| String::from_utf8_lossy(key).into_owned());
            order.push((key, text(&claim)));
            assert_eq!(store.ack(claim).expect("acknowledged"), Settled::Done);
        }
    }
}

pub fn is_sound(store: &Store) {
    let checked = store.check().expect("a look");
    assert!(checked.is_sound(), "{:#?}", checked.findings);
}

#[test]
fn an_import_of_an_export_has_every_message_where_it_stood_and_exports_the_same() {
    let (store, clock) = filled();
    let lines = exported(&store);
    let other = imported(&clock, &lines);
    is_sound(&other);
    assert_eq!(body(&exported(&other)), body(&lines));
    assert_eq!(messages(&other), without_claims(messages(&store)));
    let claimed = messages(&store)
        .iter()
        .filter(|message| message.state == MessageState::Claimed)
        .count() as u64;
    assert_eq!(claimed, 2);
    assert_eq!(dead(&other), dead(&store));
    assert_eq!(dead(&other).len(), 2);
    for (there, here) in queues(&other).into_iter().zip(queues(&store)) {
        let mail = here.queue == "mail";
        let ended = if mail { claimed } else { 0 };
        let oldest_ready_age = if mail {
            there.oldest_ready_age
        } else {
            here.oldest_ready_age
        };
        let mut wanted = here;
        wanted.ready += ended;
        wanted.claimed -= ended;
        wanted.oldest_ready_age = oldest_ready_age;
        assert_eq!(there, wanted);
    }

    // Fences go on far above those of the source, and the order is that of the source.
    let last = {
        let claim = store.claim(MAIL, 1).expect("a claim").remove(0);
        claim.fence()
    };
    let claim = other.claim(HOOKS, 1).expect("a claim").remove(0);
    assert_eq!(claim.fence(), last - 1 + FENCES_APART + 1);
    assert_eq!(claim.payload(), b"{\"a\":1.5,\"b\":null}");
    assert!(other.claim(ALARMS, 1).expect("a claim").is_empty(), "it is paused");
    assert!(other.resume("alarms").expect("resumed"));
    let numbers: Vec<_> = other
        .claim(ALARMS, 9)
        .expect("a claim")
        .iter()
        .map(sprag::Claim::message)
        .collect();
    assert_eq!(
        numbers.into_iter().collect::<Result<Vec<_>, _>>().expect("numbers"),
        [2, 3]
    );
}

#[test]
fn what_was_imported_is_delivered_in_the_order_of_its_keys() {
    let (store, clock) = filled();
    let other = imported(&clock, &exported(&store));
    for store in [&store, &other] {
        // What is claimed in the one is ready in the other.
        clock.advance(secs(31));
        let replayed = store.replay("mail", &Replay::new().forced()).expect("replayed");
        assert_eq!(replayed.replayed, 2);
        store
            .enqueue(MAIL, Outgoing::of(&"a4".to_owned()).key("a"))
            .expect("enqueued");
    }
    clock.advance(secs(3600));
    let mut by_key: HashMap<_, Vec<String>> = HashMap::new();
    for (key, text) in drain(&other) {
        by_key.entry(key).or_default().push(text);
    }
    let mut wanted: HashMap<_, Vec<String>> = HashMap::new();
    for (key, text) in drain(&store) {
        wanted.entry(key).or_default().push(text);
    }
    for (key, order) in [
        ("a", &["a1", "a2", "a4"][..]),
        ("held", &["held 1", "held 2"]),
        ("stuck", &["stuck 1", "stuck 2"]),
        ("passed", &["passed 3", "passed 1", "passed 2"]),
    ] {
        assert_eq!(by_key[&Some(key.to_owned())], order);
        assert_eq!(wanted[&Some(key.to_owned())], order);
    }
    let sorted = |mut texts: Vec<String>| {
        texts.sort();
        texts
    };
    assert_eq!(
        sorted(by_key.remove(&None).expect("some")),
        ["failed", "kept", "later", "once", "plain"]
    );
    assert_eq!(
        sorted(wanted.remove(&None).expect("some")),
        ["failed", "kept", "later", "once", "plain"]
    );
    is_sound(&other);
    is_sound(&store);
    // What is left is due in 2033, and a number is never given twice.
    let left: Vec<_> = messages(&other).into_iter().map(|message| message.id).collect();
    let before: Vec<_> = messages(&store).into_iter().map(|message| message.id).collect();
    assert_eq!(left, before);
}

/// The input ends behind each line once: a call with the whole input goes on there, also if somebody claims meanwhile.
#[test]
fn an_import_of_messages_that_stops_anywhere_goes_on_with_the_same_input() {
    let mut random = Random::new(seed());
    let (store, clock) = filled();
    // More messages than one page.
    for number in 0..100u64 {
        let text = format!("{number:0>100}");
        let message = Outgoing::of(&text).key((number % 7).to_string());
        store.enqueue(MAIL, message).expect("enqueued");
    }
    let lines = exported(&store);
    let whole = imported(&clock, &lines);
    let mut partly = 0;
    for round in 0..30 {
        let other = small_with(&clock).in_memory().expect("a store");
        for _ in 0..3 {
            let cut = random.below(lines.len() as u64 - 1) as usize;
            let Some(head) = lines.get(..cut) else { continue };
            assert_eq!(kind_of(other.import(head.as_bytes())), ErrorKind::Invalid);
            is_sound(&other);
        }
        let there = messages(&other).len();
        partly += u64::from(there > 0 && there < messages(&whole).len());
        // What is claimed and given back meanwhile is there as well.
        let claims = other.claim(MAIL, 3).expect("a claim").len();
        assert!(claims > 0 || there == 0);
        other.import(lines.as_bytes()).expect("imported");
        is_sound(&other);
        let of = |store: &Store| -> Vec<_> {
            let all = messages(store);
            all.into_iter()
                .map(|message| {
                    (
                        message.id,
                        message.key,
                        message.effect_id,
                        message.payload,
                        message.errors,
                    )
                })
                .collect()
        };
        assert_eq!(of(&other), of(&whole), "round {round}");
        if claims == 0 {
            assert_eq!(messages(&other), messages(&whole), "round {round}");
        }
    }
    assert!(partly >= 10, "cuts hit the messages, partly={partly}");
}

/// Later lines are due earlier than what was claimed while the import was stopped.
#[test]
fn a_message_that_arrives_before_what_was_claimed_meanwhile_is_claimed_as_well() {
    let clock = ManualClock::new();
    let source = small_with(&clock).in_memory().expect("a store");
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(ManualClock::START_WALL_NS.unsigned_abs());
    for number in 1..=40 {
        let text = number.to_string();
        source
            .enqueue(MAIL, Outgoing::of(&text).at(start - secs(number)))
            .expect("enqueued");
    }
    let lines = exported(&source);
    let other = small_with(&clock).in_memory().expect("a store");
    assert_eq!(
        kind_of(other.import(&lines.as_bytes()[..lines.len() * 3 / 5])),
        ErrorKind::Invalid
    );
    let mut numbers: Vec<u64> = Vec::new();
    let first = drain(&other);
    assert!((5..35).contains(&first.len()), "{first:?}");
    other.import(lines.as_bytes()).expect("imported");
    is_sound(&other);
    let second = drain(&other);
    for part in [first, second] {
        let part: Vec<u64> = part.iter().map(|(_, text)| text.parse().expect("a number")).collect();
        assert!(part.is_sorted_by(|one, next| one > next), "by due time: {part:?}");
        numbers.extend(part);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_backup_and_a_compacted_file_have_every_message_and_go_on_with_the_fences() {
    let folder = folder();
    let clock = ManualClock::new();
    let path = folder.path().join("live.sprag");
    let store = small_with(&clock).create_new(&path).expect("a store");
    busy::fill(&store, &clock);
    let before = messages(&store);
    let entries = store.entries().expect("readable");
    let backup = folder.path().join("backup.sprag");
    store.backup(&backup).expect("backed up");
    // So that there is something to leave out.
    let table = sprag::Table::<u64, Vec<u8>>::new("t");
    for number in 0..60 {
        store.put(table, &number, &vec![7; 6000]).expect("written");
    }
    for number in 0..60 {
        store.delete(table, &number).expect("deleted");
    }
    store.close().expect("closed");
    let compacted = small_with(&clock).compact(&path).expect("compacted");
    assert!(compacted.bytes_after < compacted.bytes_before);
    for path in [&backup, &path] {
        // A look ends no claim.
        let look = small_with(&clock).open_read_only(path).expect("a look");
        assert_eq!(messages(&look), before);
        let of_messages = |entries: Vec<(Vec<u8>, Vec<u8>)>| -> Vec<_> {
            entries
                .into_iter()
                .filter(|(key, _)| key[0] == 4 || *key == [0, b'f'])
                .collect()
        };
        assert_eq!(
            of_messages(look.entries().expect("readable")),
            of_messages(entries.clone())
        );
        drop(look);
        let store = small_with(&clock).open(path).expect("it opens");
        is_sound(&store);
        assert!(store.claim(MAIL, 1).expect("a claim")[0].fence() < 100);
        store.close().expect("closed");
    }
}

/// A backup while a message is claimed, and claims behind it: no fence is given twice, and what the far end knows an effect by stays.
#[test]
fn a_restored_store_has_fences_and_claims_of_its_own_and_the_effect_ids_of_its_source() {
    let folder = folder();
    let clock = ManualClock::new();
    let path = folder.path().join("live.sprag");
    let store = small_with(&clock).create_new(&path).expect("a store");
    for text in ["one", "two"] {
        store.enqueue(MAIL, &text.to_owned()).expect("enqueued");
    }
    let held = store
        .claim(MAIL, Claiming::new(1).lease(secs(3600)))
        .expect("a claim")
        .remove(0);
    let effects: Vec<_> = messages(&store).iter().map(|message| message.effect_id).collect();
    let backup = folder.path().join("backup.sprag");
    store.backup(&backup).expect("backed up");
    let behind = store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!((held.fence(), behind.fence()), (1, 2));

    let to = folder.path().join("restored.sprag");
    small_with(&clock).restore(&backup, &to).expect("restored");
    let restored = small_with(&clock).open(&to).expect("it opens");
    is_sound(&restored);
    let claims = restored.claim(MAIL, 9).expect("a claim");
    assert_eq!(
        claims
            .iter()
            .map(|claim| (text(claim), claim.fence()))
            .collect::<Vec<_>>(),
        [
            ("two".to_owned(), FENCES_APART + 2),
            ("one".to_owned(), FENCES_APART + 3)
        ]
    );
    assert_eq!([claims[1].effect_id(), claims[0].effect_id()], effects[..]);
    for old in [held, behind] {
        let receipt = old.into_receipt().expect("a receipt");
        assert!(restored.take_up(MAIL, receipt, secs(1)).expect("an answer").is_none());
        // In the store that it was made in, it holds.
        let taken = store.take_up(MAIL, receipt, secs(1)).expect("an answer").expect("held");
        assert_eq!(store.ack(taken).expect("answered"), Settled::Done);
    }
    for claim in claims {
        assert_eq!(restored.ack(claim).expect("answered"), Settled::Done);
    }
    assert_eq!(messages(&restored), []);
    // Also of a backup that knows of no queue: there may have been one since.
    let empty = folder.path().join("empty.sprag");
    small_with(&clock)
        .create_new(&empty)
        .expect("a store")
        .close()
        .expect("closed");
    small_with(&clock)
        .restore_over(&empty, folder.path().join("new.sprag"))
        .expect("restored");
    let new = small_with(&clock)
        .open(folder.path().join("new.sprag"))
        .expect("it opens");
    new.enqueue(MAIL, &"first".to_owned()).expect("enqueued");
    assert_eq!(new.claim(MAIL, 1).expect("a claim")[0].fence(), FENCES_APART + 1);
}

#[test]
fn the_figures_of_a_store_have_those_of_its_queues_by_name() {
    let (store, _) = filled();
    let late = store.claim(MAIL, 1).expect("a claim").remove(0);
    let receipt = late.into_receipt().expect("a receipt");
    let taken = store.take_up(MAIL, receipt, secs(5)).expect("answered").expect("held");
    assert_eq!(store.ack(taken).expect("answered"), Settled::Done);
    assert!(store.take_up(MAIL, receipt, secs(5)).expect("answered").is_none());
    let Stats { queues, .. } = store.stats().expect("figures");
    let names: Vec<_> = queues.iter().map(|queue| queue.queue.as_str()).collect();
    assert_eq!(names, ["alarms", "hooks", "mail"]);
    for queue in &queues {
        let alone = store.queue_stats(&queue.queue).expect("figures");
        assert_eq!(alone.as_ref(), Some(queue));
    }
    assert!(queues[0].paused && !queues[1].paused);
    assert_eq!((queues[1].ready, queues[2].dead, queues[2].stale), (3, 2, 1));
    assert_eq!((queues[2].interruptions, queues[2].discarded), (1, 1));
    let once = OnceKey::new("jobs", b"\0one", sprag::Keep::Forever);
    assert!(store.once(&once, |_| Ok::<_, Error>(())).expect("answered").is_repeat());
}
