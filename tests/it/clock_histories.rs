//! Random histories of a clock: jumps of 80 years both ways, boots in 1970, sleep, closes, opens and kills.
//!
//! The test knows the true time. No key may be gone before its keep has truly passed; retention time never goes back;
//! nothing panics. The one documented exception, a wall clock that is ahead by less than the longest time offline at an
//! open, is kept out of the one property, and closed by its option in the other. The seed is printed.

use std::time::Duration;

use sprag::testkit::{CrashPlan, SimDisk};
use sprag::{Clock, Error, Keep, ManualClock, OnceKey, Options, Store, Table};

use crate::common::{shared, small_with};
use crate::random::{Random, seed};

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const YEARS_80_SECS: i64 = 80 * 365 * 86_400;
const HISTORIES: u64 = 60;
const STEPS: u64 = 150;

/// Where the wall clock stands against the true time.
#[derive(Clone, Copy, Debug)]
enum Wall {
    Right,
    Off(i64),
    /// Boots in 1970 and runs from there.
    Boot1970,
}

struct Device {
    clock: ManualClock,
    disk: SimDisk,
    store: Option<Store>,
    max_offline: Option<Duration>,
    random: Random,
    /// True time since the beginning.
    truth: Duration,
    /// Name, true time of its commit, keep.
    keys: Vec<(String, Duration, Duration)>,
    named: u64,
    retention_ns: u64,
    ended: u64,
}

impl Device {
    fn new(seed: u64, max_offline: Option<Duration>) -> Device {
        let mut device = Device {
            clock: ManualClock::new(),
            disk: SimDisk::new(),
            store: None,
            max_offline,
            random: Random::new(seed),
            truth: Duration::ZERO,
            keys: Vec::new(),
            named: 0,
            retention_ns: 0,
            ended: 0,
        };
        device.store = Some(device.options().create_on(shared(&device.disk)).expect("a new store"));
        device
    }

    fn options(&self) -> Options {
        let options = small_with(&self.clock);
        match self.max_offline {
            Some(time) => options.max_offline(time),
            None => options,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open between two steps")
    }

    fn span(&mut self) -> Duration {
        let unit = [1, 1000, 60_000, 3_600_000, 86_400_000, 20 * 86_400_000][self.random.below(6) as usize];
        Duration::from_millis(1 + self.random.below(unit))
    }

    /// True time passes. Asleep, or in a device whose oscillator stands, the monotonic hand stays.
    fn pass(&mut self) {
        let span = self.span();
        self.truth += span;
        if self.random.below(5) == 0 {
            let wall_ns = self.clock.sample().wall_ns;
            let span_ns = u64::try_from(span.as_nanos()).expect("a short time");
            self.clock.set_wall_ns(wall_ns.saturating_add_unsigned(span_ns));
        } else {
            self.clock.advance(span);
        }
    }

    fn set(&mut self, wall: Wall) {
        let right = ManualClock::START_WALL_NS + i64::try_from(self.truth.as_nanos()).expect("a few years");
        match wall {
            Wall::Right => self.clock.set_wall_ns(right),
            Wall::Off(secs) => {
                self.clock.set_wall_ns(right);
                self.clock.jump_wall_secs(secs);
            }
            Wall::Boot1970 => self.clock.set_wall_ns(0),
        }
    }

    fn remember(&mut self) {
        let keep = self.span();
        let name = format!("k{}", self.named);
        self.named += 1;
        let key = OnceKey::new("s", &name, Keep::For(keep));
        assert!(
            !self
                .store()
                .once(&key, |_| Ok::<_, Error>(()))
                .expect("a first")
                .is_repeat()
        );
        self.keys.push((name, self.truth, keep));
    }

    fn reopen(&mut self, wall: Option<Wall>) {
        let store = self.store.take().expect("open between two steps");
        match self.random.below(3) {
            0 => store.close().expect("closed"),
            1 => drop(store),
            _ => {
                self.disk = self.disk.power_loss(self.random.below(u64::MAX), CrashPlan::Any);
                drop(store);
            }
        }
        if self.random.below(2) == 0 {
            self.clock.reboot();
        }
        if self.random.below(2) == 0 {
            self.pass();
        }
        if let Some(wall) = wall {
            self.set(wall);
        }
        self.store = Some(self.options().open_on(shared(&self.disk)).expect("opened"));
        // What a read has aged and no frame has carried is aged again from the wall clock, or not at all.
        self.retention_ns = 0;
    }

    fn check(&mut self) {
        let store = self.store.as_ref().expect("open between two steps");
        let retention_ns = store.stats().expect("figures").retention_ns;
        assert!(retention_ns >= self.retention_ns, "retention time went back");
        assert!(
            u128::from(retention_ns) <= self.truth.as_nanos(),
            "retention time is ahead of the true time"
        );
        self.retention_ns = retention_ns;
        let truth = self.truth;
        let mut ended = 0;
        self.keys.retain(|(name, since, keep)| {
            let is_alive = store.remembered("s", name).expect("readable").is_some();
            assert!(
                is_alive || truth - *since >= *keep,
                "{name} ended early: kept {keep:?}, since {:?}",
                truth - *since
            );
            ended += u64::from(!is_alive);
            is_alive
        });
        self.ended += ended;
    }

    fn run(&mut self, walls: fn(&mut Random) -> Wall) -> u64 {
        for _ in 0..STEPS {
            match self.random.below(12) {
                0..=3 => self.pass(),
                4 | 5 => self.remember(),
                6 | 7 => drop(self.store().put(NUMBERS, &1, &self.truth.as_secs()).expect("written")),
                8 | 9 => {
                    let wall = walls(&mut self.random);
                    self.set(wall);
                }
                10 => self.reopen(None),
                _ => {
                    let wall = walls(&mut self.random);
                    self.reopen(Some(wall));
                }
            }
            self.check();
        }
        self.ended
    }
}

#[test]
fn a_key_never_ends_early_through_leaps_of_80_years_and_boots_in_1970() {
    let seed = seed();
    let walls = |random: &mut Random| match random.below(5) {
        0 | 1 => Wall::Right,
        2 => Wall::Off(YEARS_80_SECS),
        3 => Wall::Off(-YEARS_80_SECS),
        _ => Wall::Boot1970,
    };
    let ended: u64 = (0..HISTORIES)
        .map(|history| Device::new(seed.wrapping_add(history), None).run(walls))
        .sum();
    assert!(ended > 100, "hardly a key ended, so nothing was shown: {ended}");
}

#[test]
fn a_key_never_ends_early_under_any_wall_clock_if_time_offline_does_not_count() {
    let seed = seed();
    let walls = |random: &mut Random| match random.below(8) {
        0 => Wall::Right,
        1 => Wall::Boot1970,
        2 => Wall::Off(YEARS_80_SECS),
        3 => Wall::Off(-YEARS_80_SECS),
        4 => Wall::Off(i64::MAX),
        5 => Wall::Off(i64::MIN),
        _ => Wall::Off(random.below(80 * 86_400) as i64 - 40 * 86_400),
    };
    let zero = Some(Duration::ZERO);
    let ended: u64 = (0..HISTORIES)
        .map(|history| Device::new(seed.wrapping_add(history), zero).run(walls))
        .sum();
    assert!(ended > 100, "hardly a key ended, so nothing was shown: {ended}");
}

#[test]
fn hands_at_the_ends_of_their_range_stop_nothing() {
    let clock = ManualClock::new();
    let disk = SimDisk::new();
    let mut store = small_with(&clock).create_on(shared(&disk)).expect("a new store");
    let mut count = 0;
    for wall_ns in [i64::MAX, i64::MIN, 0, -1, i64::MAX, 1, i64::MIN] {
        for mono in [Duration::ZERO, Duration::MAX] {
            clock.set_wall_ns(wall_ns);
            clock.advance_mono(mono);
            let key = OnceKey::new("s", format!("{count}"), Keep::For(Duration::MAX));
            assert!(
                !store
                    .once(&key, |tx| tx.put(NUMBERS, &1, &count))
                    .expect("a first")
                    .is_repeat()
            );
            assert!(
                store
                    .once(&key, |tx| tx.put(NUMBERS, &1, &count))
                    .expect("a repeat")
                    .is_repeat()
            );
            count += 1;
            store.close().expect("closed");
            store = small_with(&clock).open_on(shared(&disk)).expect("opened again");
            assert!(
                store
                    .once(&key, |tx| tx.put(NUMBERS, &1, &count))
                    .expect("a repeat")
                    .is_repeat()
            );
        }
        clock.reboot();
        store.reset_clock().expect("reset");
    }
    assert_eq!(
        store.get(NUMBERS, &1).expect("readable").expect("there").value,
        count - 1
    );
}
