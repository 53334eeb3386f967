//! Checkpoints and the log share one file, and one failed sync can hit both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sprag::testkit::{Event, EventKind, FaultKind, FaultMode};
use sprag::{ErrorKind, Level};

use super::super::frames::Layout;
use super::scene::{SEEDS, Scene, once, wait_for};

#[test]
fn a_checkpoint_that_only_the_page_cache_shows_frees_no_half() {
    // The calls of a checkpoint, one after the other: killed before it, or failing there and killed then.
    for at in 0.. {
        let scene = Scene::new(Level::Sync);
        let store = scene.open();
        scene.fill(&store, 0);
        // The half is frozen, and the next one is filled up to the checkpoint.
        scene.commit(&store).unwrap();
        scene.fill(&store, 0);
        let reached = Arc::new(AtomicBool::new(false));
        let killed = Arc::new(Mutex::new(None));
        let (image, hit) = (Arc::clone(&killed), Arc::clone(&reached));
        let begins = scene.disk.events();
        scene.disk.on_event(move |event, disk| {
            if event.index == begins + at && event.kind != EventKind::WriteSynced {
                *image.lock().unwrap() = Some(disk.kill());
                hit.store(true, Ordering::Release);
            }
        });
        let acked = scene.commit(&store).unwrap();
        scene.disk.stop_observing();
        if !reached.load(Ordering::Acquire) {
            assert!(at > 8, "a checkpoint makes more calls than {at}");
            return;
        }
        let killed = scene.on(killed.lock().unwrap().take().unwrap());
        for image in killed.images_of_open(SEEDS / 4) {
            assert_eq!(killed.on(image).reopen().1, acked - 1, "at={at}");
        }
        let (store, found) = killed.reopen();
        assert_eq!(found, acked - 1, "at={at}");
        for more in [1, 79] {
            let acked = killed.commit_all(&store, more);
            killed.assert_durable(acked, acked);
        }
    }
}

#[test]
fn a_checkpoint_whose_sync_fails_and_is_seen_in_the_page_cache_frees_no_half() {
    for passing in 0..5 {
        for kind in [FaultKind::Sync, FaultKind::SyncLanded] {
            let scene = Scene::new(Level::Sync);
            let store = scene.open();
            scene.fill(&store, 0);
            scene.commit(&store).unwrap();
            scene.fill(&store, 0);
            scene
                .disk
                .fail(kind, passing, FaultMode::FailForever, std::io::ErrorKind::StorageFull);
            let full = scene.commit(&store);
            if scene.disk.faults_fired() > 0 {
                assert_eq!(full.unwrap_err().kind(), ErrorKind::Full, "passing={passing}");
            }
            let killed = scene.on(scene.disk.kill());
            let (store, found) = killed.reopen();
            // Before the next checkpoint, and after it.
            for more in [1, 79] {
                let acked = killed.commit_all(&store, more);
                killed.assert_durable(acked, acked);
            }
            assert_eq!(killed.shown(&store), found + 80);
        }
    }
}

#[test]
fn a_full_disk_is_told_as_full_while_the_log_has_room_nothing_is_told() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    scene.commit_all(&store, 3);
    for kind in [FaultKind::Write, FaultKind::Sync, FaultKind::SetLen] {
        scene
            .disk
            .fail(kind, 0, FaultMode::FailForever, std::io::ErrorKind::StorageFull);
    }
    let mut acked = 3;
    let refused = loop {
        match scene.commit(&store) {
            Ok(number) => acked = number,
            Err(cause) => break cause,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert!(acked > 30, "both halves take commits, acked={acked}");
    assert_eq!(scene.commit(&store).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(scene.shown(&store), acked, "reads work");
    scene.assert_durable(acked, acked);
    scene.disk.heal();
    assert_eq!(scene.commit(&store).unwrap(), acked + 1);
    let acked = scene.commit_all(&store, 80);
    scene.assert_durable(acked, acked);
    store.close().unwrap();
    assert_eq!(scene.reopen().1, acked);
}

/// Calls `hook` once, in the call of this kind that comes after `passing` of them: a sync of the file, or a write to the
/// base.
fn in_checkpoint(
    scene: &Scene,
    kind: EventKind,
    passing: u64,
    hook: impl FnOnce() + Send + 'static,
) -> Arc<AtomicBool> {
    let base_at = Layout::of(&scene.disk).log().end;
    let left = Mutex::new(passing);
    let done = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&done);
    let when = move |event: &Event<'_>| {
        let mut left = left.lock().unwrap();
        let here = event.kind == kind && (kind == EventKind::Sync || event.offset >= base_at);
        if here && *left > 0 {
            *left -= 1;
            return false;
        }
        here
    };
    once(&scene.disk, when, move || {
        hook();
        ends.store(true, Ordering::Release);
    });
    done
}

#[test]
fn a_checkpoint_whose_sync_fails_takes_no_frame_from_a_later_sync_of_the_log() {
    // The first sync is that of the log; the base makes the next two.
    for passing in [1, 2] {
        let scene = Arc::new(Scene::new(Level::Buffered).in_background());
        let store = scene.open();
        scene.fill(&store, 0);
        let (inner, held) = (Arc::clone(&scene), store.clone());
        let done = in_checkpoint(&scene, EventKind::Sync, passing, move || {
            inner.commit(&held).unwrap();
            inner
                .disk
                .fail(FaultKind::Sync, 0, FaultMode::FailOnce, std::io::ErrorKind::Other);
        });
        scene.commit(&store).unwrap();
        wait_for(&done);
        let last = scene.commit_all(&store, 2);
        store.sync().unwrap();
        assert_eq!(scene.disk.faults_fired(), 1, "the sync of the base came first");
        scene.assert_durable(last, last);
    }
}

#[test]
fn a_sync_of_the_log_that_fails_takes_no_page_from_a_checkpoint() {
    let scene = Arc::new(Scene::new(Level::Buffered).in_background());
    let store = scene.open();
    scene.fill(&store, 0);
    // A frame that is written while the log is synced for the checkpoint waits for the next sync of the log; that one
    // comes between the pages of the checkpoint, and fails.
    let (inner, held) = (Arc::clone(&scene), store.clone());
    let layout = Layout::of(&scene.disk);
    let calls = Mutex::new((0, 0));
    let done = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&done);
    scene.disk.on_event(move |event, disk| {
        let (syncs, pages) = {
            let mut calls = calls.lock().unwrap();
            calls.0 += u64::from(event.kind == EventKind::Sync);
            calls.1 += u64::from(event.kind == EventKind::Write && event.offset >= layout.log().end);
            *calls
        };
        if event.kind == EventKind::Sync && syncs == 1 {
            inner.commit(&held).unwrap();
        }
        if event.kind == EventKind::Write && pages == 4 && !ends.swap(true, Ordering::AcqRel) {
            disk.fail(FaultKind::Sync, 0, FaultMode::FailOnce, std::io::ErrorKind::Other);
            assert_eq!(held.sync().unwrap_err().kind(), ErrorKind::Io);
        }
    });
    scene.commit(&store).unwrap();
    wait_for(&done);
    while store.stats().unwrap().checkpoint_pending {
        std::thread::yield_now();
    }
    scene.disk.stop_observing();
    // Before the next checkpoint writes over what this one lost, and after it.
    for more in [1, 120] {
        let last = scene.commit_all(&store, more);
        store.sync().unwrap();
        scene.assert_durable(last, last);
    }
}
