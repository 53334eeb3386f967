//! The dangerous cases by hand, one by one, so that none depends on chance.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sprag::testkit::{CrashPlan, Disk, Event, EventKind, FaultKind, FaultMode, SimDisk};
use sprag::{Error, ErrorKind, Level, ManualClock, Options, Store};

use super::frames::Layout;
use super::work::{self, History, Stamp};

const HALF_BYTES: u64 = 16 << 10;
const PAD: usize = 400;
const SEEDS: u64 = 40;

/// A store on a simulated disk, and all commits that were staged on it.
struct Scene {
    disk: SimDisk,
    level: Level,
    /// Checkpoints run on a thread of their own.
    background: bool,
    clock: ManualClock,
    history: Mutex<History>,
}

impl Scene {
    /// A founded store that was closed again.
    fn new(level: Level) -> Scene {
        let disk = SimDisk::new();
        let clock = ManualClock::new();
        let scene = Scene {
            disk,
            level,
            background: false,
            clock,
            history: Mutex::new(vec![work::salt(7, false)]),
        };
        let store = scene
            .options()
            .log_half_bytes(HALF_BYTES)
            .create_on(Arc::new(scene.disk.clone()))
            .unwrap();
        work::found(&store, work::salt(7, false), PAD).unwrap();
        store.close().unwrap();
        scene
    }

    /// The same past on another disk.
    fn on(&self, disk: SimDisk) -> Scene {
        Scene {
            disk,
            level: self.level,
            background: self.background,
            clock: self.clock.clone(),
            history: self.history().into(),
        }
    }

    fn in_background(self) -> Scene {
        Scene {
            background: true,
            ..self
        }
    }

    fn options(&self) -> Options {
        let options = Options::new()
            .level(self.level)
            .clock(Arc::new(self.clock.clone()))
            .sync_interval(Duration::from_secs(3600));
        if self.background {
            options
        } else {
            options.checkpoints_in_line()
        }
    }

    fn open(&self) -> Store {
        self.options().open_on(Arc::new(self.disk.clone())).unwrap()
    }

    fn history(&self) -> History {
        self.history.lock().unwrap().clone()
    }

    /// Commits once and gives the number.
    fn commit(&self, store: &Store) -> Result<u64, Error> {
        self.commit_and(store, || {})
    }

    /// Runs `inside` at the end of the closure.
    fn commit_and(&self, store: &Store, inside: impl FnOnce()) -> Result<u64, Error> {
        store.write(|tx| {
            let number = work::number(tx)? + 1;
            let stamp = {
                let mut history = self.history.lock().unwrap();
                let salt = work::salt(
                    number << 20 | history.len() as u64 | history[history.len() - 1] << 32,
                    false,
                );
                history.truncate(number as usize);
                history.push(salt);
                Stamp { number, salt }
            };
            work::apply(tx, stamp, PAD)?;
            inside();
            Ok(number)
        })
    }

    fn commit_all(&self, store: &Store, count: u64) -> u64 {
        let numbers = (0..count).map(|_| self.commit(store).unwrap());
        numbers.last().unwrap()
    }

    /// What the store shows; it must be what a prefix of all commits left.
    fn shown(&self, store: &Store) -> u64 {
        work::verify(store, &self.history(), PAD).unwrap()
    }

    /// Opens, and goes on from what is there.
    fn reopen(&self) -> (Store, u64) {
        let store = self.open();
        let number = self.shown(&store);
        self.history.lock().unwrap().truncate(number as usize + 1);
        (store, number)
    }

    /// What a copy of this disk shows after a power loss.
    fn after_power_loss(&self, seed: u64, plan: CrashPlan) -> u64 {
        self.on(self.disk.power_loss(seed, plan)).reopen().1
    }

    /// After any power loss commit `at_least` is there, and nothing above `at_most`.
    fn assert_durable(&self, at_least: u64, at_most: u64) {
        for seed in 0..SEEDS {
            let found = self.after_power_loss(seed, CrashPlan::Any);
            assert!((at_least..=at_most).contains(&found), "found={found}, seed={seed}");
        }
        assert!(self.after_power_loss(0, CrashPlan::DropAll) >= at_least);
    }

    fn fail_forever(&self, kind: FaultKind) {
        self.disk
            .fail(kind, 0, FaultMode::FailForever, std::io::ErrorKind::Other);
    }

    /// The call with which the log becomes durable, failing so that the page cache has the bytes and the disk has not.
    fn lose_log(&self) {
        self.fail_forever(match self.level {
            Level::Sync => FaultKind::WriteSyncedLost,
            Level::Buffered => FaultKind::Sync,
        });
    }

    /// Bytes of one frame.
    fn frame_bytes(&self, store: &Store) -> u64 {
        let before = store.stats().unwrap().log_used_bytes;
        self.commit(store).unwrap();
        store.stats().unwrap().log_used_bytes - before
    }

    /// Commits until the half in use has room for exactly `frames` more.
    fn fill(&self, store: &Store, frames: u64) {
        // Only later ones forget a key as well, and have one size.
        self.commit_all(store, 6);
        let frame = self.frame_bytes(store);
        while (HALF_BYTES - store.stats().unwrap().log_used_bytes) / frame != frames {
            self.commit(store).unwrap();
        }
    }
}

/// Calls `hook` once, in the next call of the disk for which `when` holds.
fn once(
    disk: &SimDisk,
    when: impl Fn(&Event<'_>) -> bool + Send + Sync + 'static,
    hook: impl FnOnce() + Send + 'static,
) {
    let hook = Mutex::new(Some(hook));
    disk.on_event(move |event, _| {
        if when(event)
            && let Some(hook) = hook.lock().unwrap().take()
        {
            hook();
        }
    });
}

fn is_log_write(layout: Layout) -> impl Fn(&Event<'_>) -> bool + Send + Sync + 'static {
    move |event| event.kind == EventKind::WriteSynced && layout.log().contains(&event.offset)
}

/// Returns when `sequence` is staged. Whoever calls this holds no writer lock.
fn wait_until_staged(store: &Store, sequence: u64) {
    while store.stats().unwrap().sequence < sequence {
        std::thread::yield_now();
    }
}

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
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    killed.disk.on_event(move |event, disk| {
        let mut images = taken.lock().unwrap();
        images.push(disk.kill());
        images.extend((0..SEEDS).map(|seed| disk.power_loss_during(event, event.index << 8 | seed, CrashPlan::Any)));
    });
    drop(killed.open());
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(
        images.len() as u64 > 4 * SEEDS,
        "the recovery of two halves and the base makes some calls"
    );
    for image in images {
        let after = killed.on(image);
        let (store, found) = after.reopen();
        assert!(found == acked || found == acked + 1, "found={found}, acked={acked}");
        after.commit(&store).unwrap();
        after.assert_durable(found + 1, found + 1);
    }
}

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
        let (store, found) = killed.reopen();
        assert_eq!(found, acked - 1, "at={at}");
        let acked = killed.commit_all(&store, 80);
        killed.assert_durable(acked, acked);
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
            let acked = killed.commit_all(&store, 80);
            assert_eq!(acked, found + 80);
            killed.assert_durable(acked, acked);
        }
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

/// Calls `hook` once, in the call of the checkpoint's thread that comes `passing` calls of this kind after the last half
/// begins to be frozen.
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

fn wait_for(done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn a_checkpoint_whose_sync_fails_takes_no_frame_from_a_later_sync_of_the_log() {
    // The first sync is that of the log, the second the first one of the base.
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
    // Waits for the checkpoint where it needs its half.
    let mut last = 0;
    for _ in 0..120 {
        if let Ok(number) = scene.commit(&store) {
            last = number;
        }
    }
    scene.disk.stop_observing();
    store.sync().unwrap();
    scene.assert_durable(last, last);
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
