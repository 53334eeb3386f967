//! What an open believes, and what it makes durable before anything builds on it.

use std::sync::{Arc, Mutex};

use sprag::testkit::{CrashPlan, Disk, EventKind};
use sprag::{ErrorKind, Level};

use super::super::frames::Layout;
use super::super::work::{self, Stamp};
use super::scene::{HALF_BYTES, PAD, SEEDS, Scene};

#[test]
fn bytes_that_only_the_page_cache_shows_are_written_again_before_anything_builds_on_them() {
    for level in [Level::Sync, Level::Buffered] {
        let scene = Scene::new(level);
        let store = scene.open();
        scene.commit(&store).unwrap();
        store.sync().unwrap();
        scene.lose_log();
        match level {
            Level::Sync => assert_eq!(scene.commit(&store).unwrap_err().kind(), ErrorKind::InDoubt),
            Level::Buffered => {
                scene.commit(&store).unwrap();
                assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::Io);
            }
        }
        let killed = scene.on(scene.disk.kill());
        assert_eq!(
            killed.on(killed.disk.power_loss(0, CrashPlan::KeepAll)).reopen().1,
            1,
            "the disk never had it"
        );
        let (store, found) = killed.reopen();
        assert_eq!(found, 2, "the page cache shows it");
        killed.commit(&store).unwrap();
        store.sync().unwrap();
        killed.assert_durable(3, 3);
    }
}

#[test]
fn a_crash_in_the_middle_of_that_rewrite_takes_nothing_that_was_acknowledged() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    scene.fill(&store, 1);
    let acked = scene.commit_all(&store, 3);
    scene.lose_log();
    scene.commit(&store).unwrap_err();
    let killed = scene.on(scene.disk.kill());
    for image in killed.images_of_open(SEEDS) {
        let after = killed.on(image);
        let (store, found) = after.reopen();
        assert!(found == acked || found == acked + 1, "found={found}, acked={acked}");
        after.commit(&store).unwrap();
        after.assert_durable(found + 1, found + 1);
    }
}

#[test]
fn frames_in_the_next_half_are_dead_if_those_before_them_are_lost() {
    let scene = Scene::new(Level::Buffered);
    let store = scene.open();
    let layout = Layout::of(&scene.disk);
    scene.commit(&store).unwrap();
    store.sync().unwrap();
    scene.fill(&store, 1);
    let last = scene.commit_all(&store, 6);
    let mut dead = 0;
    for seed in 0..400 {
        let image = scene.disk.power_loss(seed, CrashPlan::Random { keep_percent: 90 });
        let after = scene.on(image);
        let log = layout.read_log(&after.disk);
        let in_next = layout.frames(&log[HALF_BYTES as usize..]).len();
        let (store, found) = after.reopen();
        assert!((1..=last).contains(&found));
        if in_next > 0 && found + 8 < last {
            dead += 1;
            // On top of the dead frames, with the same sequences, in both halves.
            let acked = after.commit_all(&store, 1 + seed % 50);
            store.sync().unwrap();
            after.assert_durable(acked, acked);
        }
    }
    assert!(dead > 20, "dead={dead}");
}

#[test]
fn a_log_that_lacks_what_it_knows_to_be_durable_is_corrupt_and_left_as_it_is() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    let last = scene.commit_all(&store, 8);
    drop(store);
    let layout = Layout::of(&scene.disk);
    let frames = layout.frames(&layout.read_log(&scene.disk)[..HALF_BYTES as usize]);
    assert_eq!(frames.len(), 8);
    for (nth, frame) in frames.iter().enumerate() {
        let damaged = scene.disk.kill();
        damaged
            .write_synced(layout.log().start + frame.at as u64 + 40, &[0x5A; 8])
            .unwrap();
        damaged.sync().unwrap();
        let before = damaged.durable_image();
        let after = scene.on(damaged);
        if nth + 1 == frames.len() {
            assert_eq!(after.reopen().1, last - 1, "no later frame knows of the last one");
            continue;
        }
        let refused = after.options().open_on(Arc::new(after.disk.clone())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "frame {nth}");
        assert!(after.disk.cache_image() == before, "a refused file was changed");
    }
}

#[test]
fn a_dead_frame_does_not_rise_when_a_torn_write_brings_the_sector_that_it_lacks() {
    const SECTOR: usize = 512;
    let scene = Scene::new(Level::Sync);
    scene.commit_all(&scene.open(), 1);
    let layout = Layout::of(&scene.disk);
    // The same commit twice, first of its life both times: one size, one payload, two headers.
    let stamp = Stamp {
        number: 2,
        salt: work::salt(99, false),
    };
    let write = |scene: &Scene| {
        let store = scene.open();
        let bytes = Arc::new(Mutex::new((0, Vec::new())));
        let taken = Arc::clone(&bytes);
        scene.disk.on_event(move |event, _| {
            if event.kind == EventKind::WriteSynced {
                *taken.lock().unwrap() = (event.offset, event.data.to_vec());
            }
        });
        let before = scene.disk.kill();
        store.write(|tx| work::apply(tx, stamp, PAD)).unwrap();
        scene.disk.stop_observing();
        (before, std::mem::take(&mut *bytes.lock().unwrap()))
    };
    let (before, (at, dead)) = write(&scene);
    assert_eq!(layout.frames(&dead).len(), 1);
    // A sector that holds nothing but payload is lost.
    let sector = (at as usize + 100).next_multiple_of(SECTOR) - at as usize;
    let payload = sector..dead.len().min(sector + SECTOR);
    assert!(payload.len() > 100);
    before.write(at, &dead[..payload.start]).unwrap();
    before.write(at + payload.end as u64, &dead[payload.end..]).unwrap();
    before.sync().unwrap();
    let torn = scene.on(before);
    assert_eq!(torn.reopen().1, 1);

    let (before, (next_at, next)) = write(&torn);
    assert_eq!((next_at, next.len()), (at, dead.len()), "they line up");
    assert_eq!(next[payload.clone()], dead[payload.clone()], "and say the same");
    before.write(at + payload.start as u64, &next[payload.clone()]).unwrap();
    before.sync().unwrap();
    assert_eq!(
        torn.on(before).reopen().1,
        1,
        "what was seen to be absent is there again"
    );
}
