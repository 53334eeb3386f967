//! Segments that are larger than those of the other tests: filters of several parts, and more keys than one segment takes.

use std::time::Duration;

use super::{Scene, secs};

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
