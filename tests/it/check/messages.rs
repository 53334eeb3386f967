//! Queues and messages: each rule on them is found where it is broken, and a busy queue has no finding.

use std::collections::HashMap;

use sprag::internals::{Mark, Row, Stand, Tally};
use sprag::testkit::SimDisk;
use sprag::{Bincode, Codec, ManualClock, Outgoing, Queue, Reason, Store};

use super::forge::{Change, Forged};
use super::{check, lines};
use crate::common::{shared, small_with};
use crate::outbox::busy;

const MAIL: Queue<String> = Queue::new("mail");
/// What the messages below are due at.
const NOW: i64 = ManualClock::START_WALL_NS;
const HOUR_NS: i64 = 3600 * 1_000_000_000;

/// A store as a kill leaves it, and its entries.
struct Stored {
    image: Vec<u8>,
    entries: HashMap<Vec<u8>, Vec<u8>>,
}

/// Message 1 is claimed under fence 1, 3 is dead in turn 5, 6 is the head of key `a` in turn 7, 8 waits for it, and 9 is due in an hour
/// in turn 10.
fn stored() -> Stored {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock)
        .checkpoints_in_line()
        .create_on(shared(&disk))
        .expect("a store");
    let enqueue = |text: &str, with: fn(Outgoing<'_, String>) -> Outgoing<'_, String>| {
        let text = text.to_owned();
        store.enqueue(MAIL, with(Outgoing::of(&text))).expect("enqueued").get()
    };
    let claim = |store: &Store| store.claim(MAIL, 1).expect("a claim").remove(0);
    assert_eq!(enqueue("held", |text| text), 1);
    claim(&store).into_receipt().expect("a receipt");
    assert_eq!(enqueue("dead", |text| text), 3);
    let _ = store.bury(claim(&store), "no such person").expect("buried");
    assert_eq!(enqueue("a1", |text| text.key("a")), 6);
    assert_eq!(enqueue("a2", |text| text.key("a")), 8);
    assert_eq!(enqueue("later", |text| text.delay(crate::outbox::secs(3600))), 9);
    let entries = store.entries().expect("readable").into_iter().collect();
    Stored {
        image: disk.kill().cache_image(),
        entries,
    }
}

fn key(kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[4, 0, 0, 0, 0, kind][..], rest].concat()
}

fn numbered(kind: u8, number: u64) -> Vec<u8> {
    key(kind, &number.to_be_bytes())
}

fn waiting(due_ns: i64, turn: u64) -> Vec<u8> {
    let due = due_ns as u64 ^ 1 << 63;
    key(b'w', &[due.to_be_bytes(), turn.to_be_bytes()].concat())
}

fn line(of: &str, place: u64) -> Vec<u8> {
    key(b'l', &[&[of.len() as u8], of.as_bytes(), &place.to_be_bytes()].concat())
}

fn head(of: &str) -> Vec<u8> {
    key(b'k', &[&[of.len() as u8], of.as_bytes()].concat())
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// What docs/FORMAT.md puts in front of it.
fn sealed<T: serde::Serialize>(key: &[u8], thing: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    Bincode::encode(thing, &mut bytes).expect("encoded");
    let crc = crc32fast::hash(&[&key[1..], &bytes].concat());
    [&crc.to_le_bytes()[..], &bytes].concat()
}

impl Stored {
    fn change<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        key: Vec<u8>,
        change: impl FnOnce(&mut T),
    ) -> Change {
        let mut thing = Bincode::decode(&self.entries[&key][4..]).expect("decoded");
        change(&mut thing);
        let bytes = sealed(&key, &thing);
        (key, Some(bytes))
    }

    fn row(&self, id: u64, change: impl FnOnce(&mut Row)) -> Change {
        self.change(numbered(b'm', id), change)
    }

    fn tally(&self, change: impl FnOnce(&mut Tally)) -> Change {
        self.change(key(b't', &[]), change)
    }

    fn torn(&self, key: Vec<u8>) -> Change {
        let mut bytes = self.entries[&key].clone();
        *bytes.last_mut().expect("bytes") ^= 1;
        (key, Some(bytes))
    }
}

/// Forged changes, and all findings that they make.
type Case = (Vec<Change>, Vec<&'static str>);

fn of_messages(stored: &Stored) -> Vec<Case> {
    vec![
        (
            vec![(numbered(b'm', 8), None)],
            vec![
                "queue=\"mail\" message=8 | messages.body | payload_bytes=3, found=no message",
                "queue=\"mail\" message=8 | messages.line | key=\"a\", place=8, found=no message",
                "queue=\"mail\" | messages.tally | count=blocked, stored=1, found=0",
                "queue=\"mail\" | messages.tally | count=bytes, stored=22, found=19",
            ],
        ),
        (
            vec![stored.torn(numbered(b'm', 9))],
            vec![
                "queue=\"mail\" message=9 | messages.row | row of a message is damaged",
                "queue=\"mail\" | messages.tally | count=waiting, stored=2, found=1",
                "queue=\"mail\" | messages.tally | count=bytes, stored=22, found=16",
            ],
        ),
        (
            vec![stored.row(1, |row| row.turn = 11)],
            vec!["queue=\"mail\" message=1 | messages.row | number=11, next=11"],
        ),
        (
            vec![
                stored.row(9, |row| row.stand = Stand::Behind),
                (waiting(NOW + HOUR_NS, 10), None),
            ],
            vec![
                "queue=\"mail\" message=9 | messages.row | stand=Behind, line=9",
                "queue=\"mail\" | messages.tally | count=waiting, stored=2, found=1",
                "queue=\"mail\" | messages.tally | count=blocked, stored=1, found=2",
            ],
        ),
        (
            vec![stored.row(1, |row| row.fence = 3)],
            vec!["queue=\"mail\" message=1 | messages.fence | fence=3, last=2"],
        ),
        (
            vec![(numbered(b'b', 1), None)],
            vec!["queue=\"mail\" message=1 | messages.body | there is none"],
        ),
        (
            vec![stored.torn(numbered(b'b', 1))],
            vec!["queue=\"mail\" message=1 | messages.body | body of a message is damaged"],
        ),
        (
            vec![
                stored.row(1, |row| row.bytes = 6),
                stored.tally(|tally| tally.bytes += 1),
            ],
            vec!["queue=\"mail\" message=1 | messages.body | payload_bytes=5, found=Claimed"],
        ),
        (
            vec![stored.torn(numbered(b'e', 3))],
            vec!["queue=\"mail\" message=3 | messages.errors | errors of a message is damaged"],
        ),
        (
            vec![(numbered(b'e', 9), Some(sealed(&numbered(b'e', 9), &Vec::<u8>::new())))],
            vec!["queue=\"mail\" message=9 | messages.errors | errors=0, found=Waiting"],
        ),
        (
            vec![(numbered(b'e', 7), Some(sealed(&numbered(b'e', 7), &Vec::<u8>::new())))],
            vec!["queue=\"mail\" message=7 | messages.errors | errors=0, found=no message"],
        ),
    ]
}

fn of_entries() -> Vec<Case> {
    let claimed = "queue=\"mail\" message=1 | messages.index | stand=Claimed, line=1, found=None";
    let other = "queue=\"mail\" message=1 | messages.index | stand=Claimed, line=1, found=Some(Some(6))";
    vec![
        (vec![(numbered(b'c', 1), None)], vec![claimed]),
        (
            vec![(numbered(b'c', 1), Some(number(6)))],
            vec![
                "queue=\"mail\" message=6 | messages.index | key=\"\\x00\\x00\\x00\\x00c\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\", found=Waiting",
                other,
            ],
        ),
        (
            vec![(numbered(b'd', 4), Some(number(3)))],
            vec![
                "queue=\"mail\" message=3 | messages.index | key=\"\\x00\\x00\\x00\\x00d\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x04\", found=Dead(Buried)",
            ],
        ),
        (
            vec![(waiting(7, 2), Some(number(1)))],
            vec![
                "queue=\"mail\" message=1 | messages.index | key=\"\\x00\\x00\\x00\\x00w\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\", found=Claimed",
            ],
        ),
        (
            vec![(numbered(b'd', 5), Some(vec![1]))],
            vec![
                "queue=\"mail\" | messages.index | key=\"\\x00\\x00\\x00\\x00d\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05\"",
                "queue=\"mail\" message=3 | messages.index | stand=Dead(Buried), line=3, found=Some(None)",
            ],
        ),
    ]
}

fn of_lines(stored: &Stored) -> Vec<Case> {
    vec![
        (
            vec![(line("a", 8), None)],
            vec!["queue=\"mail\" message=8 | messages.line | stand=Behind, line=8, found=None"],
        ),
        (
            vec![(line("a", 9), Some(number(8)))],
            vec!["queue=\"mail\" message=8 | messages.line | key=\"a\", place=9, found=Behind"],
        ),
        (
            vec![(line("b", 8), Some(number(8)))],
            vec!["queue=\"mail\" message=8 | messages.line | key=\"b\", place=8, found=Behind"],
        ),
        (
            vec![(line("b", 8), Some(vec![]))],
            vec!["queue=\"mail\" | messages.line | key=\"b\", place=8"],
        ),
        (
            vec![(head("a"), Some(number(8)))],
            vec![
                "queue=\"mail\" message=6 | messages.head | stand=Waiting, line=6, head=Some(8)",
                "queue=\"mail\" message=8 | messages.head | stand=Behind, line=8, head=Some(8)",
            ],
        ),
        (
            vec![(head("b"), Some(number(8)))],
            vec!["queue=\"mail\" | messages.head | key=\"b\", head=8, nobody stands there"],
        ),
        (
            // Two of one key that can be claimed at once.
            vec![
                stored.row(8, |row| {
                    row.stand = Stand::Dead(Reason::Failed);
                    row.turn = 4;
                }),
                (numbered(b'd', 4), Some(number(8))),
                stored.tally(|tally| {
                    tally.blocked -= 1;
                    tally.dead += 1;
                }),
            ],
            vec!["queue=\"mail\" message=8 | messages.head | stand=Dead(Failed), line=8, head=Some(6)"],
        ),
    ]
}

fn of_tallies(stored: &Stored) -> Vec<Case> {
    let count = |change: fn(&mut Tally), seen: &'static str| (vec![stored.tally(change)], vec![seen]);
    vec![
        count(
            |tally| tally.waiting = 3,
            "queue=\"mail\" | messages.tally | count=waiting, stored=3, found=2",
        ),
        count(
            |tally| tally.ready = 0,
            "queue=\"mail\" | messages.tally | count=ready, stored=0, found=1",
        ),
        count(
            |tally| tally.claimed = 0,
            "queue=\"mail\" | messages.tally | count=claimed, stored=0, found=1",
        ),
        count(
            |tally| tally.dead = 2,
            "queue=\"mail\" | messages.tally | count=dead, stored=2, found=1",
        ),
        (
            vec![stored.tally(|tally| tally.counted = Mark::START)],
            vec![
                "queue=\"mail\" | messages.tally | count=ready, stored=1, found=0",
                "queue=\"mail\" | messages.tally | next_due_ns=1767229200000000000, found=1767225600000000000",
            ],
        ),
        count(
            |tally| tally.next_due_ns += 1,
            "queue=\"mail\" | messages.tally | next_due_ns=1767229200000000001, found=1767229200000000000",
        ),
        count(
            |tally| tally.head.turn = 7,
            "queue=\"mail\" message=6 | messages.tally | due_ns=1767225600000000000, turn=7, head_due_ns=1767225600000000000, head_turn=7",
        ),
        count(
            |tally| tally.next = 10,
            "queue=\"mail\" message=9 | messages.row | number=10, next=10",
        ),
        (
            vec![stored.torn(key(b't', &[]))],
            vec!["queue=\"mail\" | messages.tally | tally of a queue is damaged"],
        ),
    ]
}

fn of_names(stored: &Stored) -> Vec<Case> {
    let meta = |name: &[u8]| [&[0], name].concat();
    let strange = |key: &[u8]| [&[4], key].concat();
    vec![
        (
            vec![(strange(b"\0\0\0\x07d\0\0\0\0\0\0\0\x01"), Some(number(1)))],
            vec![
                "queue=\"7\" | messages.key | there is no such queue",
                "queue=\"7\" message=1 | messages.index | key=\"\\x00\\x00\\x00\\x07d\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\", found=no message",
            ],
        ),
        (
            vec![
                (strange(b"\0\0\0\0x"), Some(vec![])),
                (strange(b"\0\0\0\0m\0\0\x01"), Some(vec![1])),
                (strange(b"\0\0\0\0w\0\0\0\0\0\0\0\x01"), Some(number(1))),
                (strange(b"\0\0\0\0k\x02a"), Some(number(1))),
                (strange(b"\0\0\0\0l\0\0\0\0\0\0\0\0\x01"), Some(number(1))),
                (strange(b"\0\0\0\0t\0"), Some(vec![])),
                (strange(b"\0\0"), Some(vec![])),
            ],
            vec![
                "entry of messages key=\"\\x00\\x00\" | messages.key | value_bytes=0",
                "entry of messages key=\"\\x00\\x00\\x00\\x00k\\x02a\" | messages.key | value_bytes=8",
                "entry of messages key=\"\\x00\\x00\\x00\\x00l\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\" | messages.key | value_bytes=8",
                "entry of messages key=\"\\x00\\x00\\x00\\x00m\\x00\\x00\\x01\" | messages.key | value_bytes=1",
                "entry of messages key=\"\\x00\\x00\\x00\\x00t\\x00\" | messages.key | value_bytes=0",
                "entry of messages key=\"\\x00\\x00\\x00\\x00w\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\" | messages.key | value_bytes=8",
                "entry of messages key=\"\\x00\\x00\\x00\\x00x\" | messages.key | value_bytes=0",
            ],
        ),
        (
            vec![(meta(b"o"), Some(0_u32.to_be_bytes().to_vec()))],
            vec!["queue=\"mail\" | catalogue.queue | number=0, next=0"],
        ),
        (
            vec![(meta(b"o"), Some(vec![0; 3]))],
            vec![
                "entry of meta key=\"o\" | catalogue.entry | number of the next queue is damaged",
                "queue=\"mail\" | catalogue.queue | number=0, next=0",
            ],
        ),
        (
            vec![(meta(b"qother"), Some(sealed(&meta(b"qother"), &(0_u32, 1_u8, false))))],
            vec!["queue=\"other\" | catalogue.queue | number=0, also_of=\"mail\""],
        ),
        (
            vec![stored.torn(meta(b"qmail"))],
            vec![
                "entry of meta key=\"qmail\" | catalogue.entry | entry of a queue is damaged",
                "queue=\"0\" | messages.key | there is no such queue",
            ],
        ),
        (
            vec![(meta(b"f"), Some(vec![0; 7]))],
            vec!["entry of meta key=\"f\" | catalogue.fence | last fence is damaged"],
        ),
    ]
}

#[test]
fn each_rule_on_messages_is_found_with_its_place() {
    let stored = stored();
    assert_eq!(lines(&check(stored.image.clone())), Vec::<String>::new());
    let cases = [
        of_messages(&stored),
        of_entries(),
        of_lines(&stored),
        of_tallies(&stored),
        of_names(&stored),
    ]
    .concat();
    for (changes, wanted) in cases {
        let found = check(Forged::new(&stored.image).with(&changes));
        assert_eq!(lines(&found), wanted);
    }
}

#[test]
fn a_sound_busy_queue_has_no_finding_in_the_log_and_in_the_base() {
    let (disk, clock) = (SimDisk::new(), ManualClock::new());
    let store = small_with(&clock).create_on(shared(&disk)).expect("a store");
    busy::fill(&store, &clock);
    let messages = busy::messages(&store).len() as u64;
    let open = store.check().expect("a look");
    store.close().expect("closed");
    for checked in [open, check(disk.cache_image())] {
        assert_eq!(lines(&checked), Vec::<String>::new());
        assert_eq!((checked.queues, checked.messages), (3, messages));
    }
    assert!(messages > 15);
}
