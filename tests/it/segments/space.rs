//! Space and failing disks: what is over, forgotten, or cut off leaves its room to what comes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sprag::testkit::{Disk as _, FaultKind, FaultMode, RamDisk};
use sprag::{ErrorKind, Keep, ManualClock};

use super::{Op, Scene, commit, secs};
use crate::common::small_with;
use crate::random::{Random, seed};

/// Rounds of new keys, each remembered and then forgotten or over, and the length of the file after a third and at the end.
fn lengths(rounds: u64, keys: u64, pad: usize, keep: Keep, forgets: bool) -> (u64, u64) {
    let (disk, clock) = (Arc::new(RamDisk::new()), ManualClock::new());
    let store = small_with(&clock)
        .checkpoints_in_line()
        .create_on(disk.clone())
        .expect("a store");
    let mut third = 0;
    for round in 0..rounds {
        clock.advance(Duration::from_secs(1));
        let once = |key| Op::Once { key, keep, result: key };
        let first = round * keys;
        let ops: Vec<Op> = (first..first + keys).map(once).collect();
        for some in ops.chunks(4) {
            commit(&store, some, pad).expect("written");
        }
        if let (true, Some(before)) = (forgets, first.checked_sub(4 * keys)) {
            let ops: Vec<Op> = (before..before + keys).map(|key| Op::Forget { key }).collect();
            commit(&store, &ops, pad).expect("written");
        }
        if round == rounds / 3 {
            third = disk.len().expect("its length");
        }
    }
    (third, disk.len().expect("its length"))
}

#[test]
fn a_file_does_not_grow_by_keys_that_are_over_or_forgotten_whatever_they_are_kept_for_and_however_long_their_results() {
    let sorts = [
        ("short", 300, 120, 0, secs(10), false),
        ("long results", 300, 40, 900, secs(10), false),
        ("forgotten", 300, 60, 0, Keep::Forever, true),
        ("forgotten, long results", 300, 20, 900, secs(100_000), true),
    ];
    for (name, rounds, keys, pad, keep, forgets) in sorts {
        let (third, end) = lengths(rounds, keys, pad, keep, forgets);
        println!("{name}: after_a_third={third} at_the_end={end}");
        assert!(
            end <= third + third / 4,
            "{name}: the file grew from {third} to {end} bytes"
        );
    }
}

#[test]
fn a_key_that_was_kept_for_ever_and_forgotten_leaves_nothing_behind_once_it_is_merged() {
    let mut scene = Scene::new();
    scene.once([7], Keep::Forever, 0);
    for round in 0..30 {
        let keys = 1000 * (round + 1)..1000 * (round + 1) + 40;
        scene.once(keys.clone(), Keep::Forever, 0);
        scene.checkpoint();
        scene.forget(keys);
        scene.checkpoint();
    }
    scene.merge_all(Keep::Forever);
    let catalog = scene.catalog();
    let entries: u64 = catalog.segments.iter().map(|about| about.entries).sum();
    let alive = scene.reference.remembered().len() as u64;
    assert!(entries < alive + 400, "entries={entries}, alive={alive}");
    scene.must_be_right("merged");
}

/// A disk that fails once in the middle of a checkpoint, or until it is mended, over and over, while merges go on.
#[test]
fn a_disk_that_fails_while_segments_are_merged_takes_no_key_and_no_space() {
    let mut random = Random::new(seed());
    let mut scene = Scene::new();
    let kinds = [
        FaultKind::Write,
        FaultKind::WriteShort,
        FaultKind::Sync,
        FaultKind::SyncLanded,
        FaultKind::Read,
    ];
    let (mut lengths, mut refused, mut cut_off) = (Vec::new(), 0, 0);
    for round in 0..40 {
        scene.begin_merge(secs(60), 350);
        let under_way = scene.catalog().unfinished;
        let kind = kinds[random.below(5) as usize];
        let mode = if round % 2 == 0 {
            FaultMode::FailForever
        } else {
            FaultMode::FailOnce
        };
        let before = scene.disk.faults_fired();
        scene.disk.fail(kind, random.below(6), mode, io::ErrorKind::Other);
        for number in 0..16 {
            let key = 1_000_000 + round * 100 + number;
            let op = Op::Once {
                key,
                keep: secs(60),
                result: key,
            };
            match commit(scene.store(), &[op], 6000) {
                Ok(answers) => assert_eq!(answers, [scene.reference.apply(op)]),
                Err(cause) => {
                    assert_eq!(cause.kind(), ErrorKind::Io, "round {round}, {kind:?}: {cause:?}");
                    assert_eq!(mode, FaultMode::FailForever, "{kind:?}");
                    refused += 1;
                }
            }
        }
        let fired = scene.disk.faults_fired() > before;
        scene.disk.heal();
        scene
            .reference
            .must_be(scene.store(), &format!("round {round}, {kind:?}, {mode:?}"));
        // It begins anew, unless it had ended before.
        scene.checkpoints_more(1);
        let catalog = scene.catalog();
        cut_off += u64::from(fired && under_way.iter().all(|id| !catalog.unfinished.contains(id)));
        scene.must_be_right(&format!("round {round}, {kind:?}, {mode:?}"));
        scene.pass(Duration::from_secs(10));
        lengths.push(scene.disk.cache_image().len());
    }
    let fired = scene.disk.faults_fired();
    println!("fired={fired} refused={refused} cut_off={cut_off} lengths={lengths:?}");
    assert!(fired > 20 && cut_off > 10, "fired={fired}, cut_off={cut_off}");
    let (early, late) = lengths.split_at(lengths.len() / 2);
    assert!(late.iter().max() <= early.iter().max(), "the file grows: {lengths:?}");
    scene.close();
    scene.store().sweep().expect("swept");
    assert_eq!(scene.catalog().dropping, [0; 0]);
    scene.must_be_right("at the end");
}
