//! Remembered keys in the segments of the base: none is missed, and none comes back.
//!
//! A key that is missed is work that is done twice. So bytes, plan, merges, crashes, faults and damage are tried each for
//! itself and all together, with a plan that the tests can look at: `catalog_of` says what the base of a file lists.

mod checks;
mod codec;
mod damage;
mod images;
mod large;
mod model;
mod plan;
mod scenes;
mod space;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sprag::internals::catalog_of;
use sprag::internals::segment::Catalog;
use sprag::testkit::{Disk, SimDisk};
use sprag::{Bincode, Codec as _, Error, Keep, ManualClock, Once, OnceKey, Options, Store, Table};

use crate::common::{shared, small_with};

const SCOPE: &str = "segments";
/// A checkpoint that brings nothing else reads 512 entries, so a half has room for more than that.
const HALF_BYTES: u64 = 64 << 10;
/// Where the base begins.
const BASE_AT: u64 = 4096 + 2 * HALF_BYTES;
const FILLER: Table<u64, Vec<u8>> = Table::new("filler");

/// What a store must remember, by the rules of keep alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reference {
    now_ns: u64,
    /// End and result of each key that was stored and not forgotten.
    kept: BTreeMap<u64, (u64, u64)>,
}

/// One change of a reference and of a store.
#[derive(Clone, Copy, Debug)]
enum Op {
    Once { key: u64, keep: Keep, result: u64 },
    Forget { key: u64 },
}

fn once_key(key: u64, keep: Keep) -> OnceKey {
    OnceKey::new(SCOPE, key.to_be_bytes(), keep)
}

const fn secs(secs: u64) -> Keep {
    Keep::For(Duration::from_secs(secs))
}

impl Reference {
    fn alive(&self, key: u64) -> Option<(u64, u64)> {
        let kept = self.kept.get(&key).copied();
        kept.filter(|(end, _)| *end == u64::MAX || self.now_ns < *end)
    }

    /// What the operation must answer: the result that is remembered, or nothing.
    fn apply(&mut self, op: Op) -> Option<u64> {
        match op {
            Op::Forget { key } => {
                let alive = self.alive(key);
                self.kept.remove(&key);
                alive.map(|(_, result)| result)
            }
            Op::Once { key, keep, result } => {
                if let Some((_, result)) = self.alive(key) {
                    return Some(result);
                }
                let end = match keep {
                    Keep::Forever => u64::MAX,
                    Keep::For(time) => self.now_ns + time.as_nanos() as u64,
                };
                self.kept.insert(key, (end, result));
                None
            }
        }
    }

    fn pass(&mut self, clock: &ManualClock, time: Duration) {
        clock.advance(time);
        self.now_ns += time.as_nanos() as u64;
    }

    /// All keys that are remembered, with what is left of each and its result.
    fn remembered(&self) -> BTreeMap<u64, (Option<Duration>, u64)> {
        let alive = self.kept.keys().filter_map(|key| Some((*key, self.alive(*key)?)));
        let left = |end| (end != u64::MAX).then(|| Duration::from_nanos(end - self.now_ns));
        alive.map(|(key, (end, result))| (key, (left(end), result))).collect()
    }

    /// Each key that ever was is looked up, and all are listed.
    fn must_be(&self, store: &Store, what: &str) {
        let wanted = self.remembered();
        assert!(listed(store) == wanted, "{what}: {}", differ(&listed(store), &wanted));
        let found = looked_up(store, self.kept.keys().copied());
        assert!(found == wanted, "{what}: {}", differ(&found, &wanted));
    }
}

type Shown = BTreeMap<u64, (Option<Duration>, u64)>;

fn result_of(bytes: &[u8]) -> u64 {
    // The result may be longer than what the tests want of it.
    Bincode::decode::<(u64, Vec<u8>)>(bytes).expect("a result").0
}

fn listed(store: &Store) -> Shown {
    let all = store.read(|tx| {
        let one = |found: Result<sprag::RememberedKey, Error>| {
            let found = found?;
            let key = u64::from_be_bytes(found.key.as_slice().try_into().expect("eight bytes"));
            Ok((
                key,
                (found.remembered.left(), result_of(found.remembered.result_bytes())),
            ))
        };
        tx.remembered_keys(Some(SCOPE))?.map(one).collect::<Result<_, Error>>()
    });
    all.expect("listed")
}

fn looked_up(store: &Store, keys: impl Iterator<Item = u64>) -> Shown {
    let found = store.read(|tx| {
        let mut all = Shown::new();
        for key in keys {
            if let Some(found) = tx.remembered(SCOPE, key.to_be_bytes())? {
                all.insert(key, (found.left(), result_of(found.result_bytes())));
            }
        }
        Ok::<_, Error>(all)
    });
    found.expect("looked up")
}

/// The first keys that two do not agree on.
fn differ(found: &Shown, wanted: &Shown) -> String {
    let keys = found.keys().chain(wanted.keys());
    let differing = keys.filter(|key| found.get(key) != wanted.get(key));
    let one = |key| format!("key {key}: found {:?}, wanted {:?}", found.get(key), wanted.get(key));
    differing.take(3).map(one).collect::<Vec<_>>().join("; ")
}

/// Carries the operations out in one commit, and gives what each answered.
fn commit(store: &Store, ops: &[Op], pad: usize) -> Result<Vec<Option<u64>>, Error> {
    store.write(|tx| {
        let mut answers = Vec::new();
        for op in ops {
            answers.push(match *op {
                Op::Once { key, keep, result } => {
                    match tx.once(&once_key(key, keep), |_| Ok::<_, Error>((result, vec![7_u8; pad])))? {
                        Once::First(_) => None,
                        Once::Repeat { result, .. } => Some(result.0),
                    }
                }
                Op::Forget { key } => {
                    let found = tx.remembered(SCOPE, key.to_be_bytes())?;
                    let result = found.map(|found| result_of(found.result_bytes()));
                    assert_eq!(tx.forget(SCOPE, key.to_be_bytes())?, result.is_some());
                    result
                }
            });
        }
        Ok(answers)
    })
}

/// A store on a simulated disk whose checkpoints come when they are told to.
struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    store: Option<Store>,
    reference: Reference,
    /// Bytes that each result has beside what the tests look at.
    pad: usize,
    /// From here on no key was used for a merge.
    fresh: u64,
    half_bytes: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene::with_half(HALF_BYTES)
    }

    fn with_half(half_bytes: u64) -> Scene {
        let mut scene = Scene::unopened(SimDisk::new(), ManualClock::new());
        scene.half_bytes = half_bytes;
        scene.store = Some(scene.options().create_on(shared(&scene.disk)).expect("a store"));
        scene
    }

    fn unopened(disk: SimDisk, clock: ManualClock) -> Scene {
        Scene {
            disk,
            clock,
            store: None,
            reference: Reference::default(),
            pad: 0,
            fresh: 0,
            half_bytes: HALF_BYTES,
        }
    }

    fn options(&self) -> Options {
        small_with(&self.clock)
            .log_half_bytes(self.half_bytes)
            .checkpoints_in_line()
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn commit(&mut self, ops: &[Op]) {
        let wanted: Vec<_> = ops.iter().map(|op| self.reference.apply(*op)).collect();
        assert_eq!(commit(self.store(), ops, self.pad).expect("written"), wanted);
    }

    /// Remembers keys, whose results are theirs and `more`.
    fn once(&mut self, keys: impl IntoIterator<Item = u64>, keep: Keep, more: u64) {
        let once = |key| Op::Once {
            key,
            keep,
            result: key + more,
        };
        let ops: Vec<Op> = keys.into_iter().map(once).collect();
        for some in ops.chunks(50) {
            self.commit(some);
        }
    }

    fn forget(&mut self, keys: impl IntoIterator<Item = u64>) {
        let ops: Vec<Op> = keys.into_iter().map(|key| Op::Forget { key }).collect();
        for some in ops.chunks(50) {
            self.commit(some);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.reference.pass(&self.clock, time);
    }

    fn checkpoints(&self) -> u64 {
        self.store().stats().expect("figures").checkpoints
    }

    /// Fills the log until nothing of before is in it.
    fn checkpoint(&mut self) {
        self.checkpoints_more(2);
    }

    fn checkpoints_more(&mut self, more: u64) {
        let wanted = self.checkpoints() + more;
        while self.checkpoints() < wanted {
            self.fill().expect("written");
        }
    }

    /// A part of a half of the log. Never what is there already, since that would write nothing.
    fn fill(&self) -> Result<(), Error> {
        let sequence = self.store().stats()?.sequence;
        self.store()
            .put(
                FILLER,
                &(sequence % 3),
                &vec![sequence as u8; self.half_bytes as usize / 6],
            )
            .map(drop)
    }

    fn catalog(&self) -> Catalog {
        catalog_of(Arc::new(self.disk.kill()) as Arc<dyn Disk>).expect("a sound file")
    }

    fn must_be_right(&self, what: &str) {
        self.reference.must_be(self.store(), what);
        must_be_sound(&self.options(), &self.disk.kill(), what);
    }

    /// The process is killed and started again.
    fn kill(&mut self) {
        self.store = None;
        self.disk = self.disk.kill();
        self.open();
    }

    fn close(&mut self) {
        self.store.take().expect("open").close().expect("closed");
        self.open();
    }

    fn open(&mut self) {
        self.store = Some(self.options().open_on(shared(&self.disk)).expect("opened"));
    }

    /// Segments of one length, until a merge is under way that the next checkpoints go on with.
    fn begin_merge(&mut self, keep: Keep, keys_each: u64) {
        for _ in 0..20 {
            self.fresh += 10_000;
            self.once(self.fresh..self.fresh + keys_each, keep, 0);
            self.checkpoint();
            // It begins with a checkpoint that brings nothing, which reads little.
            self.checkpoints_more(1);
            if !self.catalog().unfinished.is_empty() {
                return;
            }
        }
        panic!("no merge is under way");
    }

    /// Enough short segments that all that can be merged is.
    fn merge_all(&mut self, keep: Keep) {
        for _ in 0..9 {
            self.fresh += 10_000;
            self.once(self.fresh..self.fresh + 20, keep, 0);
            self.checkpoint();
        }
        self.end_merges();
    }

    /// Checkpoints that bring nothing, until no merge is under way. Says how many that were.
    fn end_merges(&mut self) -> u64 {
        let mut checkpoints = 0;
        while !self.catalog().unfinished.is_empty() {
            self.checkpoints_more(1);
            checkpoints += 1;
            assert!(checkpoints < 500, "a merge does not end");
        }
        checkpoints
    }
}

fn must_be_sound(options: &Options, disk: &SimDisk, what: &str) {
    let checked = options.clone().check_on(shared(disk), |_| ()).expect("a look");
    assert!(checked.is_sound(), "{what}: {:?}", checked.findings);
}
