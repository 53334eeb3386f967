//! Crash images of checkpoints that append, merge, retire and drop: a power loss or a kill in every call of the disk.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sprag::internals::catalog_of;
use sprag::testkit::{CrashPlan, Disk, Event, EventKind, SimDisk};
use sprag::{Keep, ManualClock};

use super::{BASE_AT, Op, Reference, Scene, looked_up, must_be_sound, secs};
use crate::common::shared;
use crate::random::{Random, seed, trials};

/// What is known while a call of the disk is under way, and what was judged.
struct Judge {
    acknowledged: Reference,
    /// With the commit that is under way.
    next: Reference,
    random: Random,
    seen: HashSet<u64>,
    counts: BTreeMap<&'static str, u64>,
    listed: Vec<u64>,
}

impl Judge {
    fn saw(&mut self, what: &'static str, yes: bool) {
        *self.counts.entry(what).or_default() += u64::from(yes);
    }

    /// The image shows what was acknowledged, or that and the commit under way.
    fn judge(&mut self, clock: &ManualClock, image: SimDisk, what: &str) {
        if !self.seen.insert(image.image_hash()) {
            return;
        }
        let scene = Scene::on(image, clock, self.acknowledged.clone());
        let keys: Vec<u64> = self.next.kept.keys().copied().collect();
        let fewer: Vec<u64> = (0..50)
            .map(|_| keys[self.random.below(keys.len() as u64) as usize])
            .collect();
        let last = keys.iter().rev().take(20).copied();
        let found = looked_up(scene.store(), fewer.iter().copied().chain(last.clone()));
        let of = |reference: &Reference| {
            let mut all = reference.remembered();
            all.retain(|key, _| fewer.contains(key) || last.clone().any(|last| last == *key));
            all
        };
        let next = found != of(&self.acknowledged);
        assert!(!next || found == of(&self.next), "{what}: a key is missed or came back");
        if self.random.below(12) == 0 {
            self.in_full(scene, what);
        }
    }

    /// Everything is compared, it goes on, and everything is compared again.
    fn in_full(&mut self, mut scene: Scene, what: &str) {
        let catalog = catalog_of(Arc::new(scene.disk.kill()) as Arc<dyn Disk>).expect("sound");
        self.saw("a merge is under way", !catalog.unfinished.is_empty());
        self.saw("something is being dropped", !catalog.dropping.is_empty());
        let listed: Vec<u64> = catalog.segments.iter().map(|about| about.id).collect();
        self.saw("merged, retired or appended", listed != self.listed);
        self.listed = listed;
        if super::listed(scene.store()) != self.acknowledged.remembered() {
            scene.reference = self.next.clone();
        }
        scene.reference.must_be(scene.store(), what);
        must_be_sound(&scene.options(), &scene.disk.kill(), what);
        self.saw("judged in full", true);
        let first = 1_000_000 + self.random.below(1 << 40);
        scene.once(first..first + 60, secs(500), 1);
        let again: Vec<u64> = scene.reference.kept.keys().copied().step_by(31).collect();
        scene.forget(again.iter().copied());
        scene.checkpoints_more(1 + self.random.below(4));
        scene.once(again, secs(3), 2);
        scene.kill();
        scene.reference.must_be(scene.store(), &format!("{what}, gone on"));
        must_be_sound(&scene.options(), &scene.disk.kill(), &format!("{what}, gone on"));
    }

    /// In every call of a checkpoint.
    fn meet(judge: &Mutex<Judge>, clock: &ManualClock, event: &Event<'_>, disk: &SimDisk) {
        if event.kind == EventKind::WriteSynced || event.kind == EventKind::Write && event.offset < BASE_AT {
            return;
        }
        let mut judge = judge.lock().expect("no panic before");
        let seed = judge.random.below(u64::MAX);
        let what = format!("event {}, {:?}, seed {seed}", event.index, event.kind);
        judge.judge(clock, disk.power_loss_during(event, seed, CrashPlan::Any), &what);
        if seed.is_multiple_of(4) {
            judge.judge(clock, disk.kill(), &format!("{what}, killed"));
        }
    }
}

impl Scene {
    /// A store that is opened on an image.
    fn on(disk: SimDisk, clock: &ManualClock, reference: Reference) -> Scene {
        let mut scene = Scene {
            reference,
            ..Scene::unopened(disk, clock.clone())
        };
        scene.store = Some(scene.options().open_on(shared(&scene.disk)).expect("opened"));
        scene
    }

    /// Some keys are stored, some forgotten, some of those that were over or forgotten are stored again.
    fn random_ops(&self, random: &mut Random, fresh: u64) -> Vec<Op> {
        let old: Vec<u64> = self.reference.kept.keys().copied().collect();
        let keeps = [Keep::Forever, secs(40), secs(40), secs(4000)];
        let op = |number| {
            let any = old[random.below(old.len() as u64) as usize];
            let key = if random.below(3) == 0 { any } else { fresh + number };
            match random.below(5) {
                0 => Op::Forget { key: any },
                _ => Op::Once {
                    key,
                    keep: keeps[random.below(4) as usize],
                    result: fresh + number,
                },
            }
        };
        (0..5).map(op).collect()
    }
}

#[test]
fn an_image_of_a_checkpoint_that_appends_merges_retires_and_drops_remembers_what_was_acknowledged() {
    let mut random = Random::new(seed());
    let wanted = trials(3000, 40_000);
    let (mut images, mut counts) = (0, BTreeMap::new());
    while images < wanted {
        let mut scene = Scene::new();
        scene.pad = 200;
        scene.begin_merge(Keep::Forever, 220);
        let judge = Arc::new(Mutex::new(Judge {
            acknowledged: scene.reference.clone(),
            next: scene.reference.clone(),
            random: Random::new(random.below(u64::MAX)),
            seen: HashSet::new(),
            counts: std::mem::take(&mut counts),
            listed: Vec::new(),
        }));
        let (judges, clock) = (Arc::clone(&judge), scene.clock.clone());
        scene
            .disk
            .on_event(move |event, disk| Judge::meet(&judges, &clock, event, disk));
        for round in 0..40 {
            let ops = scene.random_ops(&mut random, 500_000 + 100 * round);
            let mut next = scene.reference.clone();
            for op in &ops {
                next.apply(*op);
            }
            judge.lock().expect("no panic").next = next;
            scene.commit(&ops);
            judge.lock().expect("no panic").acknowledged = scene.reference.clone();
            // So that checkpoints bring little, and merges take their time.
            scene.fill().expect("written");
            if round % 6 == 5 {
                scene.pass(Duration::from_secs(9));
                let now = scene.reference.clone();
                let mut judge = judge.lock().expect("no panic");
                (judge.acknowledged, judge.next) = (now.clone(), now);
            }
        }
        scene.disk.stop_observing();
        scene.must_be_right("at the end");
        let mut judge = judge.lock().expect("no panic");
        images += judge.seen.len() as u64;
        counts = std::mem::take(&mut judge.counts);
    }
    println!("distinct images={images} {counts:?}");
    for what in [
        "a merge is under way",
        "something is being dropped",
        "merged, retired or appended",
    ] {
        assert!(
            counts.get(what).is_some_and(|count| *count >= 20),
            "too few: {what}, {counts:?}"
        );
    }
}
