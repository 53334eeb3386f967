//! A round of the group that is lost: who hears what, and what is left.

use std::sync::{Arc, Mutex, mpsc};

use sprag::testkit::{CrashPlan, FaultKind, FaultMode};
use sprag::{Error, ErrorKind, Level, Store};

use super::super::frames::Layout;
use super::super::work::{self};
use super::scene::{Scene, is_log_write, once, wait_until_staged};

/// One commit is handed over while `more` others wait for the next round; then the disk loses what it is given.
fn lose_a_round(scene: &Scene, store: &Store, more: u64) -> (Result<u64, Error>, Vec<Result<u64, Error>>) {
    lose_a_round_after(scene, store, more, || {})
}

/// Calls `meanwhile` when all are staged.
fn lose_a_round_after(
    scene: &Scene,
    store: &Store,
    more: u64,
    meanwhile: impl FnOnce(),
) -> (Result<u64, Error>, Vec<Result<u64, Error>>) {
    let pending = store.stats().unwrap().checkpoint_pending;
    assert!(
        !pending,
        "a checkpoint in line would wait for the write that is held back"
    );
    let layout = Layout::of(&scene.disk);
    let (started, begin) = mpsc::channel();
    let (staged, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    once(&scene.disk, is_log_write(layout), move || {
        started.send(()).unwrap();
        go_on.lock().unwrap().recv().unwrap();
    });
    let answers = std::thread::scope(|scope| {
        let first = scope.spawn(|| scene.commit(store));
        begin.recv().unwrap();
        let mut others = Vec::new();
        for _ in 0..more {
            let sequence = store.stats().unwrap().sequence + 1;
            others.push(scope.spawn(|| scene.commit(store)));
            wait_until_staged(store, sequence);
        }
        meanwhile();
        scene.lose_log();
        staged.send(()).unwrap();
        let others = others.into_iter().map(|other| other.join().unwrap()).collect();
        (first.join().unwrap(), others)
    });
    scene.disk.stop_observing();
    answers
}

/// What callers were told is true, on the spot and after every crash: the first commit of the round is in doubt, those
/// after it are not applied; and it goes on when the disk is well.
fn judge_lost_round(scene: &Scene, store: &Store, before: u64, more: u64) {
    let (first, others) = lose_a_round(scene, store, more);
    assert_eq!(first.unwrap_err().kind(), ErrorKind::InDoubt);
    for other in others {
        assert_eq!(
            other.unwrap_err().kind(),
            ErrorKind::Io,
            "never handed over, so not applied"
        );
    }
    assert_eq!(scene.shown(store), before, "readers see what is durable");
    for _ in 0..3 {
        assert_eq!(
            scene.commit(store).unwrap_err().kind(),
            ErrorKind::Io,
            "told within the call"
        );
    }
    scene.history.lock().unwrap().truncate(before as usize + 2);
    scene.assert_durable(before, before + 1);
    assert_eq!(
        scene.on(scene.disk.kill()).reopen().1,
        before + 1,
        "the page cache has it"
    );

    scene.disk.heal();
    assert_eq!(
        scene.commit(store).unwrap(),
        before + 2,
        "the one in doubt is there, and its successor's number is given again"
    );
    scene.assert_durable(before + 2, before + 2);
    for _ in 0..60 {
        scene.commit(store).unwrap();
    }
    assert_eq!(scene.shown(store), before + 62);
    scene.assert_durable(before + 62, before + 62);
}

#[test]
fn a_round_that_is_lost_is_told_truly_and_healed() {
    for more in [0, 1, 3] {
        let scene = Scene::new(Level::Sync);
        let store = scene.open();
        let before = scene.commit_all(&store, 5);
        judge_lost_round(&scene, &store, before, more);
        store.close().unwrap();
        assert_eq!(scene.reopen().1, before + 62);
    }
}

#[test]
fn a_freeze_stands_if_only_the_frames_behind_it_are_dropped() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    scene.fill(&store, 1);
    let before = scene.shown(&store);
    // The first one fills the half; the others begin the next.
    judge_lost_round(&scene, &store, before, 2);
}

#[test]
fn a_freeze_is_undone_if_frames_of_its_half_are_dropped() {
    for more in [2, 3] {
        let scene = Scene::new(Level::Sync);
        let store = scene.open();
        scene.fill(&store, 2);
        let before = scene.shown(&store);
        // The second one fills the half; the others begin the next.
        judge_lost_round(&scene, &store, before, more);
    }
}

#[test]
fn a_commit_that_a_failed_sync_overtakes_leaves_no_trace() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    let before = scene.commit_all(&store, 3);
    let layout = Layout::of(&scene.disk);
    let (started, begin) = mpsc::channel();
    let (decided, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    once(&scene.disk, is_log_write(layout), move || {
        started.send(()).unwrap();
        go_on.lock().unwrap().recv().unwrap();
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| scene.commit(&store));
        begin.recv().unwrap();
        // While this closure runs the sync of the first one fails, so that it cannot be staged any more.
        let second = scene.commit_and(&store, || {
            scene.lose_log();
            decided.send(()).unwrap();
            assert_eq!(first.join().unwrap().unwrap_err().kind(), ErrorKind::InDoubt);
        });
        assert_eq!(second.unwrap_err().kind(), ErrorKind::Io);
    });
    scene.disk.stop_observing();
    scene.disk.heal();
    assert_eq!(scene.commit(&store).unwrap(), before + 2);
    let acked = scene.commit_all(&store, 60);
    assert_eq!(scene.shown(&store), acked);
    scene.assert_durable(acked, acked);
}

#[test]
fn a_sync_that_fails_once_is_noticed_by_nobody() {
    let kinds = [
        FaultKind::WriteSynced,
        FaultKind::WriteSyncedShort,
        FaultKind::WriteSyncedLost,
        FaultKind::WriteSyncedLanded,
    ];
    for kind in kinds {
        let scene = Scene::new(Level::Sync);
        let store = scene.open();
        // Also the first frame of a half, in front of which nothing is written again.
        for number in 1..120 {
            scene.disk.fail(kind, 0, FaultMode::FailOnce, std::io::ErrorKind::Other);
            assert_eq!(scene.commit(&store).unwrap(), number);
        }
        assert!(scene.disk.faults_fired() >= 119, "{kind:?}");
        scene.assert_durable(119, 119);
    }
}

#[test]
fn a_repeat_is_not_told_before_the_first_is_durable() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    let before = scene.commit_all(&store, 2);
    let layout = Layout::of(&scene.disk);
    let (started, begin) = mpsc::channel();
    let (decided, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    once(&scene.disk, is_log_write(layout), move || {
        started.send(()).unwrap();
        go_on.lock().unwrap().recv().unwrap();
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| scene.commit(&store));
        begin.recv().unwrap();
        // It is decided that this is a repeat, and only then the first one fails.
        let repeat = work::deliver_again(&store, before + 1, || {
            scene.lose_log();
            decided.send(()).unwrap();
        });
        assert_eq!(repeat.unwrap_err().kind(), ErrorKind::InDoubt);
        assert_eq!(first.join().unwrap().unwrap_err().kind(), ErrorKind::InDoubt);
    });
    assert_eq!(scene.after_power_loss(0, CrashPlan::DropAll), before);
}

#[test]
fn readers_see_no_commit_before_it_is_durable() {
    let scene = Scene::new(Level::Sync);
    let store = scene.open();
    let before = scene.commit_all(&store, 2);
    let layout = Layout::of(&scene.disk);
    let seen = Arc::new(Mutex::new(None));
    let (reader, sees) = (store.clone(), Arc::clone(&seen));
    once(&scene.disk, is_log_write(layout), move || {
        *sees.lock().unwrap() = Some(reader.read(work::number));
    });
    scene.commit(&store).unwrap();
    scene.disk.stop_observing();
    let seen = seen.lock().unwrap().take().unwrap();
    assert_eq!(seen.unwrap(), before);
    assert_eq!(scene.shown(&store), before + 1);
}

#[test]
fn a_checkpoint_waits_until_what_it_takes_is_handed_over_and_durable() {
    let scene = Scene::new(Level::Sync).in_background();
    let store = scene.open();
    scene.fill(&store, 2);
    let before = scene.shown(&store);
    // The second one fills the half, the third begins the next: the checkpoint may start, and waits for the second.
    let (first, others) = lose_a_round_after(&scene, &store, 2, || {
        for _ in 0..20_000 {
            std::thread::yield_now();
        }
    });
    assert_eq!(first.unwrap_err().kind(), ErrorKind::InDoubt);
    assert!(others.into_iter().all(|other| other.is_err()));
    scene.history.lock().unwrap().truncate(before as usize + 2);
    scene.assert_durable(before, before + 1);
    scene.disk.heal();
    let last = scene.commit_all(&store, 100);
    scene.assert_durable(last, last);
}
