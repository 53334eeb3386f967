//! Bounded growth: what was delivered leaves its space to what comes.
//!
//! Report: OB-4 (finished items are kept for ever). The ordinary trial delivers a part of the messages; `SPRAG_TRIALS=all` a
//! million.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sprag::testkit::{Disk as _, RamDisk};
use sprag::{Claim, Error, Options, Settled, Store};

use super::{MAIL, counts};
use crate::random::trials;

/// Messages that are enqueued in one commit, and claimed in the next with the answers to those before.
const LOT: u64 = 100;
/// How often the length is looked at.
const LOOKS: u64 = 10;
/// A log of half a megabyte, and what two checkpoints and the reader beside them may hold; less than the payloads of an
/// ordinary trial.
const BYTES_MAX: u64 = 4 << 20;

/// Tells the reader that it is over, however that came.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Delivers so many messages, a lot at a time, and gives what it still holds.
fn deliver(store: &Store, messages: u64, held: Vec<Claim<String>>) -> Vec<Claim<String>> {
    let payload = "x".repeat(200);
    (0..messages / LOT).fold(held, |held, _| {
        let (settled, next) = store
            .write_then_claim(MAIL, LOT as usize, |tx| {
                for _ in 0..LOT {
                    tx.enqueue(MAIL, &payload)?;
                }
                held.into_iter()
                    .map(|claim| tx.ack(claim))
                    .collect::<Result<Vec<_>, Error>>()
            })
            .expect("done");
        assert!(settled.iter().all(|settled| *settled == Settled::Done));
        assert_eq!(next.len() as u64, LOT);
        next
    })
}

#[test]
fn a_file_does_not_grow_by_what_was_delivered() {
    let messages = trials(30_000, 1_000_000);
    let disk = Arc::new(RamDisk::new());
    let options = Options::new().log_half_bytes(256 << 10).checkpoints_in_line();
    let store = options.create_on(disk.clone()).expect("a store");
    let (ends, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let lengths: Vec<u64> = std::thread::scope(|scope| {
        // A short reader after the other, each in a transaction of its own.
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let looked = store.read(|tx| Ok::<_, Error>((tx.queue_stats("mail")?, tx.messages("mail", None, 10)?)));
                looked.expect("a look");
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _ends = Ends(&ends);
        let mut held = Vec::new();
        let lengths = (0..LOOKS).map(|_| {
            held = deliver(&store, messages / LOOKS, std::mem::take(&mut held));
            disk.len().expect("its length")
        });
        let lengths = lengths.collect();
        assert_eq!(counts(&store), [0, 0, LOT, 0, 0]);
        lengths
    });
    println!("messages={messages} bytes={lengths:?} reads={reads:?}");
    assert!(reads.into_inner() > LOOKS, "there was a reader all the time");
    let most = lengths.into_iter().max().unwrap_or(0);
    assert!(most <= BYTES_MAX, "the file grew to {most} bytes");
}
