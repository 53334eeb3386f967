//! What the scenes are played on: a store on a simulated disk whose every commit is known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sprag::testkit::{CrashPlan, Event, EventKind, FaultKind, FaultMode, SimDisk};
use sprag::{Error, Level, ManualClock, Options, Store};

use super::super::frames::Layout;
use super::super::work::{self, History, Stamp};

pub(super) const HALF_BYTES: u64 = 16 << 10;
pub(super) const PAD: usize = 400;
pub(super) const SEEDS: u64 = 40;

/// A store on a simulated disk, and all commits that were staged on it.
pub(super) struct Scene {
    pub(super) disk: SimDisk,
    level: Level,
    /// Checkpoints run on a thread of their own.
    background: bool,
    clock: ManualClock,
    pub(super) history: Mutex<History>,
}

impl Scene {
    /// A founded store that was closed again.
    pub(super) fn new(level: Level) -> Scene {
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
    pub(super) fn on(&self, disk: SimDisk) -> Scene {
        Scene {
            disk,
            level: self.level,
            background: self.background,
            clock: self.clock.clone(),
            history: self.history().into(),
        }
    }

    pub(super) fn in_background(self) -> Scene {
        Scene {
            background: true,
            ..self
        }
    }

    pub(super) fn options(&self) -> Options {
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

    pub(super) fn open(&self) -> Store {
        self.options().open_on(Arc::new(self.disk.clone())).unwrap()
    }

    pub(super) fn history(&self) -> History {
        self.history.lock().unwrap().clone()
    }

    /// Commits once and gives the number.
    pub(super) fn commit(&self, store: &Store) -> Result<u64, Error> {
        self.commit_and(store, || {})
    }

    /// Runs `inside` at the end of the closure.
    pub(super) fn commit_and(&self, store: &Store, inside: impl FnOnce()) -> Result<u64, Error> {
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

    pub(super) fn commit_all(&self, store: &Store, count: u64) -> u64 {
        let numbers = (0..count).map(|_| self.commit(store).unwrap());
        numbers.last().unwrap()
    }

    /// What the store shows; it must be what a prefix of all commits left.
    pub(super) fn shown(&self, store: &Store) -> u64 {
        work::verify(store, &self.history(), PAD).unwrap()
    }

    /// Opens, and goes on from what is there.
    pub(super) fn reopen(&self) -> (Store, u64) {
        let store = self.open();
        let number = self.shown(&store);
        self.history.lock().unwrap().truncate(number as usize + 1);
        (store, number)
    }

    /// Opens a copy of this disk, and gives what a kill and so many power losses leave in each call of that.
    pub(super) fn images_of_open(&self, seeds: u64) -> Vec<SimDisk> {
        let images = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&images);
        let opened = self.on(self.disk.kill());
        opened.disk.on_event(move |event, disk| {
            let mut images = taken.lock().unwrap();
            images.push(disk.kill());
            images
                .extend((0..seeds).map(|seed| disk.power_loss_during(event, event.index << 8 | seed, CrashPlan::Any)));
        });
        let store = opened.open();
        opened.disk.stop_observing();
        drop(store);
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() as u64 > 4 * seeds, "an open makes some calls");
        images
    }

    /// What a copy of this disk shows after a power loss.
    pub(super) fn after_power_loss(&self, seed: u64, plan: CrashPlan) -> u64 {
        self.on(self.disk.power_loss(seed, plan)).reopen().1
    }

    /// After any power loss commit `at_least` is there, and nothing above `at_most`.
    pub(super) fn assert_durable(&self, at_least: u64, at_most: u64) {
        for seed in 0..SEEDS {
            let found = self.after_power_loss(seed, CrashPlan::Any);
            assert!((at_least..=at_most).contains(&found), "found={found}, seed={seed}");
        }
        assert!(self.after_power_loss(0, CrashPlan::DropAll) >= at_least);
    }

    pub(super) fn fail_forever(&self, kind: FaultKind) {
        self.disk
            .fail(kind, 0, FaultMode::FailForever, std::io::ErrorKind::Other);
    }

    /// The call with which the log becomes durable, failing so that the page cache has the bytes and the disk has not.
    pub(super) fn lose_log(&self) {
        self.fail_forever(match self.level {
            Level::Sync => FaultKind::WriteSyncedLost,
            Level::Buffered => FaultKind::Sync,
        });
    }

    /// Bytes of one frame.
    pub(super) fn frame_bytes(&self, store: &Store) -> u64 {
        let before = store.stats().unwrap().log_used_bytes;
        self.commit(store).unwrap();
        store.stats().unwrap().log_used_bytes - before
    }

    /// Commits until the half in use has room for exactly `frames` more.
    pub(super) fn fill(&self, store: &Store, frames: u64) {
        // Only later ones forget a key as well, and have one size.
        self.commit_all(store, 6);
        let frame = self.frame_bytes(store);
        while (HALF_BYTES - store.stats().unwrap().log_used_bytes) / frame != frames {
            self.commit(store).unwrap();
        }
    }
}

/// Calls `hook` once, in the next call of the disk for which `when` holds.
pub(super) fn once(
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

pub(super) fn is_log_write(layout: Layout) -> impl Fn(&Event<'_>) -> bool + Send + Sync + 'static {
    move |event| event.kind == EventKind::WriteSynced && layout.log().contains(&event.offset)
}

/// Returns when `sequence` is staged. Whoever calls this holds no writer lock.
pub(super) fn wait_until_staged(store: &Store, sequence: u64) {
    while store.stats().unwrap().sequence < sequence {
        std::thread::yield_now();
    }
}

pub(super) fn wait_for(done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}
