//! Segments that are larger than those of the other tests: filters of several parts, and more keys than one segment takes.

use std::sync::Arc;
use std::time::Duration;

use sprag::internals::catalog_of;
use sprag::testkit::RamDisk;
use sprag::{Keep, ManualClock};

use super::{Op, Scene, commit, listed, looked_up, secs};
use crate::common::small_with;

/// Enough that the filter does not fit into one part of 16,000 bytes at ten bits a key.
const KEYS: u64 = 14_000;

#[test]
fn a_filter_of_several_parts_is_read_whole_and_goes_whole() {
    let mut scene = Scene::with_half(4 << 20);
    scene.once(0..KEYS, secs(5000), 0);
    scene.checkpoint();
    let entries: Vec<u64> = scene.catalog().segments.iter().map(|about| about.entries).collect();
    assert_eq!(entries, [KEYS], "one filter for all");
    scene.close();
    scene.must_be_right("opened again");
    scene.pass(Duration::from_secs(5000));
    assert_eq!(scene.store().sweep().expect("swept").keys, KEYS);
    assert_eq!(scene.catalog().segments, []);
    scene.must_be_right("swept");
}

/// More than one segment takes from one checkpoint, so that the rest goes into another.
#[test]
fn half_a_million_keys_of_one_checkpoint_become_two_segments_and_are_all_remembered() {
    const KEYS: u64 = 500_003;
    let (disk, clock) = (Arc::new(RamDisk::new()), ManualClock::new());
    let options = || small_with(&clock).log_half_bytes(48 << 20).checkpoints_in_line();
    let store = options().create_on(disk.clone()).expect("a store");
    let keys: Vec<u64> = (0..KEYS).collect();
    for some in keys.chunks(10_000) {
        let once = |key| Op::Once {
            key,
            keep: Keep::Forever,
            result: key,
        };
        let ops: Vec<Op> = some.iter().map(|key| once(*key)).collect();
        commit(&store, &ops, 0).expect("written");
    }
    store.close().expect("closed");
    let entries = |disk| -> Vec<u64> {
        let catalog = catalog_of(disk).expect("a sound file");
        catalog.segments.iter().map(|about| about.entries).collect()
    };
    assert_eq!(entries(disk.clone()), [500_000, 3]);
    let store = options().open_on(disk).expect("opened");
    let kept = keys.iter().map(|key| (*key, (None, *key)));
    assert!(listed(&store) == kept.clone().collect());
    assert!(looked_up(&store, keys.iter().copied()) == kept.collect());
}
