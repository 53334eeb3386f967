//! Bounded growth: what is rewritten, deleted and over leaves its space to what comes.
//!
//! Report: GR-3 (records with a lifetime are never freed). The ordinary trial makes a part of the commits; `SPRAG_TRIALS=all`
//! makes a million.

use std::sync::Arc;
use std::time::Duration;

use sprag::testkit::{Disk as _, RamDisk};
use sprag::{Error, Keep, ManualClock, OnceKey, Options, Store, Table};

use crate::random::{Random, seed, trials};

const RECORDS: Table<u64, Vec<u8>> = Table::new("records");
/// Commits for each record, and for each key that is kept at any time.
const TURNS: u64 = 50;

/// A store in memory, and its disk, of which the length can be asked.
struct Grown {
    disk: Arc<RamDisk>,
    store: Store,
    clock: ManualClock,
    random: Random,
    commits: u64,
    /// Records that are there or not, and commits for which a key is kept.
    keys: u64,
}

impl Grown {
    fn new(keys: u64) -> Grown {
        let (disk, clock) = (Arc::new(RamDisk::new()), ManualClock::new());
        let options = Options::new().log_half_bytes(256 << 10).clock(Arc::new(clock.clone()));
        let store = options.checkpoints_in_line().create_on(disk.clone()).expect("a store");
        Grown {
            disk,
            store,
            clock,
            random: Random::new(seed()),
            commits: 0,
            keys,
        }
    }

    fn len(&self) -> u64 {
        self.disk.len().expect("its length")
    }

    /// Rewrites, deletes and remembers, each commit a millisecond after the one before.
    fn commit(&mut self, count: u64) {
        for _ in 0..count {
            self.commits += 1;
            self.clock.advance(Duration::from_millis(1));
            let (key, len) = (self.random.below(self.keys), 20 + self.random.below(200) as usize);
            let commit = self.commits;
            let name = OnceKey::new(
                "growth",
                commit.to_be_bytes(),
                Keep::For(Duration::from_millis(self.keys)),
            );
            let done = match commit % 3 {
                0 => self.store.delete(RECORDS, &key).map(drop),
                1 => self.store.put(RECORDS, &key, &vec![commit as u8; len]).map(drop),
                _ => self.store.once(&name, |_| Ok::<_, Error>(commit)).map(drop),
            };
            done.expect("done");
        }
    }
}

#[test]
fn a_file_does_not_grow_by_what_is_rewritten_deleted_and_over() {
    let commits = trials(100_000, 1_000_000);
    let mut grown = Grown::new(commits / TURNS);
    grown.commit(commits / 5);
    let early = grown.len();
    grown.commit(commits - commits / 5);
    let late = grown.len();
    println!("commits={commits} bytes_after_a_fifth={early} bytes_at_the_end={late}");
    assert!(late <= early + early / 2, "the file grew from {early} to {late} bytes");
    let (records, keys) = grown
        .store
        .read(|tx| {
            let records = tx.scan(RECORDS, sprag::Keys::all())?.count() as u64;
            Ok::<_, Error>((records, tx.remembered_keys(None)?.count() as u64))
        })
        .expect("readable");
    assert!(
        records > grown.keys / 4,
        "nothing is left to be rewritten, records={records}"
    );
    assert!(keys.abs_diff(grown.keys / 3) < 10, "kept={keys}");
}

/// A reader that stays pins what it sees: pages that commits free meanwhile are not used again. What that costs, and that it is
/// over with the reader.
#[test]
fn a_long_reader_costs_what_is_written_beside_it_until_it_ends() {
    let commits = trials(30_000, 200_000);
    let mut grown = Grown::new(commits / TURNS);
    grown.commit(2 * commits);
    let before = grown.len();
    grown.commit(commits);
    let without = grown.len().saturating_sub(before);
    let store = grown.store.clone();
    let with = store.read(|_| {
        let before = grown.len();
        grown.commit(commits);
        let behind = store.stats()?.oldest_reader_behind;
        assert!((commits / 2..2 * commits).contains(&behind), "behind={behind}");
        Ok::<_, Error>(grown.len().saturating_sub(before))
    });
    let with = with.expect("read");
    assert_eq!(
        store.stats().expect("figures").oldest_reader_behind,
        0,
        "no reader is left"
    );
    // What it pinned is free with the checkpoints after it.
    grown.commit(commits);
    let settled = grown.len();
    grown.commit(2 * commits);
    let after = grown.len().saturating_sub(settled);
    println!(
        "commits={commits} grown_before={without} grown_beside_a_reader={with} settled={settled} grown_after_it={after}"
    );
    println!("bytes_per_commit_beside_a_reader={}", with / commits);
    assert!(with > without + after, "a reader costs nothing, or it costs for ever");
}
