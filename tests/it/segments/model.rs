//! Random operations on thousands of keys against the rules of keep, through merges that go on over many checkpoints, sweeps,
//! closes, kills and power losses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sprag::internals::segment::Catalog;
use sprag::testkit::{CrashPlan, Disk};
use sprag::{Keep, Level, Store};

use super::{Op, Scene, secs};
use crate::common::{folder, shared};
use crate::random::{Random, seed, trials};

const COMMITS: u64 = 4000;
const KEYS: u64 = 40_000;

struct World {
    scene: Scene,
    random: Random,
    results: u64,
    /// How many checkpoints each merge was seen under way in.
    merges: BTreeMap<u64, u64>,
    looked_at: u64,
    under_way: bool,
    segments: usize,
    seen: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            scene: Scene::with_half(16 << 10),
            random: Random::new(seed),
            results: 0,
            merges: BTreeMap::new(),
            looked_at: 0,
            under_way: false,
            segments: 0,
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str, count: u64) {
        *self.seen.entry(what).or_default() += count;
    }

    fn keep(&mut self) -> Keep {
        match self.random.below(24) {
            0 => secs(1),
            1 | 2 => secs(3),
            3..=5 => secs(20 + self.random.below(5)),
            6..=8 => secs(100),
            9..=15 => secs(3600),
            16 => Keep::For(Duration::from_nanos(1 + self.random.below(1 << 33))),
            _ => Keep::Forever,
        }
    }

    fn op(&mut self) -> Op {
        let key = self.random.below(KEYS);
        if self.random.below(10) < 2 {
            return Op::Forget { key };
        }
        self.results += 1;
        Op::Once {
            key,
            keep: self.keep(),
            result: self.results,
        }
    }

    fn write(&mut self) {
        let count = 1 + self.random.below(40);
        let ops: Vec<Op> = (0..count).map(|_| self.op()).collect();
        for op in &ops {
            let over = self.scene.reference.kept.contains_key(&key_of(*op))
                && self.scene.reference.alive(key_of(*op)).is_none();
            self.saw("once again after it was over", u64::from(over));
        }
        self.scene.commit(&ops);
    }

    fn pass(&mut self) {
        let ms = [1, 100, 1000, 4000, 10_000][self.random.below(5) as usize];
        let time = Duration::from_millis(ms) + Duration::from_nanos(self.random.below(3));
        self.scene.pass(time);
    }

    fn look(&mut self) {
        let checkpoints = self.scene.checkpoints();
        if checkpoints == self.looked_at {
            return;
        }
        self.looked_at = checkpoints;
        let Catalog {
            segments, unfinished, ..
        } = self.scene.catalog();
        self.under_way = !unfinished.is_empty();
        for id in unfinished {
            *self.merges.entry(id).or_default() += 1;
        }
        self.segments = self.segments.max(segments.len());
    }

    fn reopen(&mut self, commit: u64) {
        let cut_off = !self.scene.catalog().unfinished.is_empty();
        let how = match self.random.below(3) {
            0 => {
                self.scene.close();
                "closed"
            }
            1 => {
                self.scene.kill();
                "killed"
            }
            _ => {
                self.scene.disk = self.scene.disk.power_loss(self.random.below(u64::MAX), CrashPlan::Any);
                self.scene.kill();
                "without power"
            }
        };
        self.saw(how, 1);
        self.saw("a merge cut off", u64::from(cut_off));
        self.looked_at = 0;
        self.under_way = false;
        self.scene.must_be_right(&format!("commit {commit}, {how}"));
    }

    fn run(&mut self, commits: u64) {
        for commit in 0..commits {
            self.write();
            match self.random.below(1000) {
                0..=149 => self.pass(),
                150..=152 => self.reopen(commit),
                157..=159 => {
                    self.scene.store().sweep().expect("swept");
                    self.saw("swept", 1);
                }
                160..=162 => self.copies(commit),
                // Checkpoints that bring nothing, so that merges take their time.
                163..=192 => {
                    for _ in 0..=self.random.below(12) {
                        self.scene.checkpoints_more(1);
                        self.look();
                    }
                }
                _ => {}
            }
            self.look();
            if self.under_way && self.random.below(30) == 0 {
                self.reopen(commit);
            }
        }
        self.reopen(commits);
    }

    /// A backup, and a look from outside, show the same.
    fn copies(&mut self, commit: u64) {
        let copy: Arc<dyn Disk> = shared(&sprag::testkit::SimDisk::new());
        self.scene.store().backup_on(&copy).expect("a backup");
        let store = self.scene.options().open_on(copy).expect("the backup");
        self.scene
            .reference
            .must_be(&store, &format!("commit {commit}, backup"));
        let look = self.scene.options().look_on(shared(&self.scene.disk)).expect("a look");
        self.scene.reference.must_be(&look, &format!("commit {commit}, look"));
        self.saw("copied", 1);
    }
}

fn key_of(op: Op) -> u64 {
    match op {
        Op::Once { key, .. } | Op::Forget { key } => key,
    }
}

#[test]
fn thousands_of_keys_are_remembered_as_their_keeps_say_through_merges_sweeps_copies_kills_and_power_losses() {
    let seed = seed();
    for number in 0..trials(1, 40) {
        let mut world = World::new(seed.wrapping_add(number));
        world.run(COMMITS);
        let longest = world.merges.values().max().copied().unwrap_or_default();
        let over_several = world.merges.values().filter(|checkpoints| **checkpoints > 1).count();
        println!(
            "merges under way={}, over several checkpoints={over_several}, longest={longest}, segments_max={}, {:?}",
            world.merges.len(),
            world.segments,
            world.seen
        );
        // How many is chance here; the scenes make sure of what goes over several.
        assert!(world.merges.len() >= 5, "{:?}", world.merges);
        assert!(world.segments < 80, "segments={}", world.segments);
        for must in [
            "closed",
            "killed",
            "without power",
            "swept",
            "copied",
            "a merge cut off",
            "once again after it was over",
        ] {
            assert!(
                world.seen.get(must).is_some_and(|count| *count > 0),
                "never happened: {must}"
            );
        }
    }
}

/// The same in a file, with checkpoints on a thread of their own.
#[test]
fn keys_of_a_file_that_is_restored_and_compacted_are_remembered_as_their_keeps_say() {
    let (folder, mut world) = (folder(), World::new(seed()));
    let path = folder.path().join("store");
    let options = |world: &World| crate::common::small_with(&world.scene.clock).level(Level::Buffered);
    let open = |world: &World| options(world).open(&path).expect("opened");
    world.scene.store = Some(options(&world).create_new(&path).expect("a store"));
    for round in 0..8 {
        for _ in 0..150 {
            world.write();
            if world.random.below(4) == 0 {
                world.pass();
            }
        }
        if round % 2 == 0 {
            world.scene.store().sweep().expect("swept");
        }
        let copy = folder.path().join(format!("copy {round}"));
        world.scene.store().backup(&copy).expect("a backup");
        world
            .scene
            .store
            .take()
            .map(Store::close)
            .expect("open")
            .expect("closed");
        match round % 3 {
            0 => drop(options(&world).restore_over(&copy, &path).expect("restored")),
            1 => drop(options(&world).compact(&path).expect("compacted")),
            _ => {}
        }
        world.scene.store = Some(open(&world));
        world
            .scene
            .reference
            .must_be(world.scene.store(), &format!("round {round}"));
    }
    world
        .scene
        .store
        .take()
        .map(Store::close)
        .expect("open")
        .expect("closed");
    let checked = options(&world).check(&path, |_| ()).expect("a look");
    assert!(checked.is_sound(), "{:?}", checked.findings);
}
