//! What a check says of segments that are not as they are listed, and damage that a merge meets, that comes with other damage,
//! or that goes away again.

use std::collections::BTreeMap;
use std::time::Duration;

use sprag::internals::filter::{self, Filter};
use sprag::internals::segment::{Block, BlockBuilder, Entry};
use sprag::testkit::SimDisk;
use sprag::{ErrorKind, Keep};

use super::damage::nothing_is_missed;
use super::{BASE_AT, SCOPE, Scene, result_of, secs};
use crate::common::{kind_of, shared};

fn stored_key(key: u64) -> Vec<u8> {
    [&[SCOPE.len() as u8], SCOPE.as_bytes(), &key.to_be_bytes()].concat()
}

/// What the entry of a key begins with.
fn entry_of(key: u64) -> Vec<u8> {
    [&[stored_key(key).len() as u8][..], &stored_key(key)].concat()
}

/// Where `what` lies in the base of an image, old pages included.
fn places(bytes: &[u8], what: &[u8]) -> Vec<usize> {
    let base = BASE_AT as usize..bytes.len();
    let found: Vec<usize> = base.filter(|at| bytes[*at..].starts_with(what)).collect();
    assert!(!found.is_empty());
    found
}

/// The block of a segment that begins with this key and is its only one, and has less than 128 entries.
fn block(bytes: &[u8], segment: u64, first: u64) -> &[u8] {
    let (entry, first) = (entry_of(first), stored_key(first));
    let decoded = places(bytes, &entry).into_iter().find_map(|at| {
        // Checksum, number of entries, and no key of a next block.
        let from = at.checked_sub(4 + 1 + 1)?;
        let mut all = (entry.len()..4096).filter_map(|len| bytes.get(from..at + len));
        all.find(|block| Block::decode(segment, &first, block).is_ok())
    });
    decoded.expect("the block of a segment")
}

/// The image with other entries in a block, whose length stays and whose checksum is right.
fn forged(bytes: &[u8], segment: u64, first: u64, change: impl Fn(&mut Vec<Entry>)) -> Vec<u8> {
    let before = block(bytes, segment, first);
    let key = stored_key(first);
    let mut entries: Vec<Entry> = Block::decode(segment, &key, before)
        .expect("a block")
        .entries()
        .collect();
    change(&mut entries);
    let mut builder = BlockBuilder::default();
    for entry in &entries {
        builder.push(segment, entry);
    }
    let after = builder.finish(None);
    assert!(after.len() == before.len() && after != before);
    let mut forged = bytes.to_vec();
    for at in places(bytes, before) {
        forged[at..at + after.len()].copy_from_slice(&after);
    }
    forged
}

/// What a check finds of segments, with its place and what it saw.
fn found(scene: &Scene, bytes: Vec<u8>) -> Vec<String> {
    let disk = SimDisk::from_image(bytes);
    let checked = scene.options().check_on(shared(&disk), |_| ()).expect("a look");
    let of_segments = |name: &str| name == "base.segment" || name == "base.filter";
    let findings = checked.findings.iter().filter(|one| of_segments(one.rule.name()));
    let line = |one: &sprag::Finding| format!("{} | {} | {}", one.place, one.rule, one.seen);
    findings.map(line).collect()
}

#[test]
fn a_check_names_a_segment_that_is_not_as_listed_a_key_that_its_filter_does_not_know_and_a_stray_block() {
    let mut scene = Scene::new();
    scene.once([10, 20, 30], secs(5000), 0);
    scene.checkpoint();
    scene.close();
    let bytes = scene.disk.cache_image();
    assert_eq!(found(&scene, bytes.clone()), [""; 0]);
    let id = scene.catalog().segments[0].id;
    let place = format!("entry of segments key=\"{id}\"");

    let other_key = |entries: &mut Vec<Entry>| entries[1].key = stored_key(21).into();
    let unknown = format!("{place} | base.filter | unknown_keys=1");
    assert_eq!(found(&scene, forged(&bytes, id, 10, other_key)), [unknown]);

    let later_end = |entries: &mut Vec<Entry>| {
        let end = entries[1].hides_ns + 1;
        let mut value = entries[1].value.as_deref().expect("a value").to_vec();
        value[..8].copy_from_slice(&end.to_be_bytes());
        (entries[1].hides_ns, entries[1].value) = (end, Some(value.into()));
    };
    let differs = format!("{place} | base.segment | entries=3, noted=3");
    assert_eq!(found(&scene, forged(&bytes, id, 10, later_end)), [differs]);

    let mut stray = bytes.clone();
    for at in places(&bytes, &[&id.to_be_bytes()[..], &stored_key(10)].concat()) {
        stray[at + 6] = 1;
    }
    let other = 256 + id;
    let stands_apart = format!("entry of segments key=\"{other}\" | base.segment | not in the list, entries=1");
    assert_eq!(found(&scene, stray), [stands_apart]);
}

/// Two keys, of which the second takes the place of the first in each entry of the image.
fn renamed(mut bytes: Vec<u8>, [from, to]: [u64; 2]) -> Vec<u8> {
    for at in places(&bytes, &entry_of(from)) {
        bytes[at..at + entry_of(to).len()].copy_from_slice(&entry_of(to));
    }
    bytes
}

/// A merge that met damage has no place in the list any more, and what it wrote before must not stay in the file for ever.
#[test]
fn what_a_merge_wrote_before_it_met_damage_is_dropped() {
    for is_damaged in [false, true] {
        let mut scene = Scene::new();
        scene.begin_merge(Keep::Forever, 400);
        scene.close();
        scene.store = None;
        assert_eq!(scene.catalog().segments.len(), 8);
        // In the last block of the last segment, which a merge comes to at its end.
        let key = scene.fresh + 390;
        if is_damaged {
            scene.disk = SimDisk::from_image(renamed(scene.disk.cache_image(), [key, 1]));
        }
        scene.open();
        scene.checkpoints_more(20);
        assert_eq!(found(&scene, scene.disk.cache_image()), [""; 0]);
        let read = scene.store().remembered(SCOPE, key.to_be_bytes());
        if is_damaged {
            assert_eq!(kind_of(read), ErrorKind::Corrupt, "its segment stays as it is");
        } else {
            assert!(read.expect("readable").is_some());
            assert_eq!(scene.catalog().segments.len(), 1, "so many checkpoints end a merge");
        }
    }
}

/// The pages of the base that hold a block of this segment, by the first keys of the blocks; old ones included.
fn pages_of_blocks(bytes: &[u8], segment: u64) -> Vec<Vec<usize>> {
    const LEAF: u8 = 1;
    let begins = [&segment.to_be_bytes()[..], &stored_key(0)[..=SCOPE.len()]].concat();
    let mut pages: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for at in places(bytes, &begins) {
        let page = at - (at - BASE_AT as usize) % 4096;
        if bytes[page] == LEAF {
            pages.entry(&bytes[at..at + begins.len() + 8]).or_default().push(page);
        }
    }
    pages.into_values().collect()
}

/// A page that was written where another one of its segment belongs: its block is whole, and another one is missing.
#[test]
fn a_block_that_lies_where_another_one_belongs_takes_no_key_along_through_merges() {
    let mut scene = Scene::new();
    scene.begin_merge(Keep::Forever, 400);
    scene.close();
    scene.store = None;
    let catalog = scene.catalog();
    assert_eq!(catalog.segments.len(), 8);
    let bytes = scene.disk.cache_image();
    let pages = pages_of_blocks(&bytes, catalog.segments[3].id);
    assert!(pages.len() >= 5, "blocks={}", pages.len());
    let pairs = (0..pages.len()).flat_map(|to| (0..pages.len()).map(move |from| (from, to)));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        let what = format!("block {from} where block {to} belongs");
        let mut damaged = bytes.clone();
        for page in &pages[to] {
            damaged.copy_within(pages[from][0]..pages[from][0] + 4096, *page);
        }
        scene.disk = SimDisk::from_image(damaged);
        scene.open();
        assert!(nothing_is_missed(scene.store(), &scene.reference, &what) > 0, "{what}");
        scene.checkpoints_more(20);
        let what = format!("{what}, merged");
        assert!(nothing_is_missed(scene.store(), &scene.reference, &what) > 0, "{what}");
    }
}

/// Without its filter, and without the entries that it could be made anew from, nothing can be said of a key but by its block.
#[test]
fn a_segment_whose_filter_and_one_of_whose_blocks_are_damaged_gives_what_its_other_blocks_hold() {
    const KEYS: u64 = 400;
    let mut scene = Scene::new();
    scene.once(0..KEYS, Keep::Forever, 0);
    scene.checkpoint();
    scene.close();
    scene.store = None;
    let mut filter = Filter::with_room(KEYS);
    for key in 0..KEYS {
        filter.insert(filter::hash(&stored_key(key)));
    }
    let mut bytes = renamed(scene.disk.cache_image(), [KEYS - 2, 1]);
    for at in places(&bytes, filter.bytes()) {
        bytes[at] ^= 1;
    }
    scene.disk = SimDisk::from_image(bytes);
    scene.open();
    let mut unread = Vec::new();
    for key in 0..KEYS {
        match scene.store().remembered(SCOPE, key.to_be_bytes()) {
            Ok(found) => assert_eq!(found.map(|found| result_of(found.result_bytes())), Some(key)),
            Err(cause) => {
                assert_eq!(cause.kind(), ErrorKind::Corrupt);
                unread.push(key);
            }
        }
    }
    let first = unread[0];
    assert!(first > KEYS / 2, "the damage spread, first={first}");
    assert_eq!(unread, (first..KEYS).collect::<Vec<_>>(), "one block");
}

/// What is stored anew hides what cannot be read just now: a disk may give tomorrow what it does not give today.
#[test]
fn what_is_forgotten_while_its_block_cannot_be_read_does_not_come_back_when_it_can() {
    const BESIDE: u64 = 4;
    const OTHER: u64 = 99;
    let mut scene = Scene::new();
    scene.once(0..9, secs(5000), 0);
    scene.checkpoint();
    scene.close();
    // In the log alone.
    scene.forget([1, 2]);
    scene.once([2], secs(2), 7);
    scene.must_be_right("before the damage");
    scene.store = None;
    scene.disk = SimDisk::from_image(renamed(scene.disk.cache_image(), [BESIDE, OTHER]));
    scene.open();
    let unread = scene.store().remembered(SCOPE, BESIDE.to_be_bytes());
    assert_eq!(kind_of(unread), ErrorKind::Corrupt);
    scene.checkpoint();
    scene.store = None;
    scene.disk = SimDisk::from_image(renamed(scene.disk.cache_image(), [OTHER, BESIDE]));
    scene.open();
    scene.reference.must_be(scene.store(), "readable again");
    scene.pass(Duration::from_secs(2));
    scene.checkpoint();
    scene.reference.must_be(scene.store(), "over");
}
