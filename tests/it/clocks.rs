//! Time as the store uses it: a remembered key never ends early, whatever the clock does, and ends when it should if the
//! clock behaves. The arithmetic alone is in `clock`; here it goes through closes, opens, kills and frames.
//!
//! Reports: CK-1 (clock set back), CK-2 (wall clock shifted), CK-3 (over but not yet swept), CK-4 (short times and units),
//! CK-5 (machine sleeps); of each the part about keys. GR-3 (records with a lifetime are never freed).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sprag::testkit::{Disk, RamDisk, SimDisk};
use sprag::{Clock, Error, ErrorKind, Keep, ManualClock, Once, OnceKey, Options, Store, Table, limits};

use crate::common::{kind_of, shared, small_with};

const NUMBERS: Table<u64, u64> = Table::new("numbers");
const SEC: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const YEARS_80_SECS: i64 = 80 * 365 * 86_400;

fn in_memory(clock: &ManualClock) -> Store {
    small_with(clock).in_memory().expect("a store")
}

fn keep(secs: u64) -> Keep {
    Keep::For(Duration::from_secs(secs))
}

/// Delivers once more; whether it was a repeat.
fn deliver(store: &Store, key: &OnceKey) -> bool {
    store.once(key, |_| Ok::<_, Error>(())).expect("an answer").is_repeat()
}

fn is_remembered(store: &Store, key: &str) -> bool {
    store.remembered("s", key).expect("readable").is_some()
}

/// How a program happens to look at the time: a clock that was set back must be got over by any of them.
type Look = fn(&Store, second: u64);

const LOOKS: [(&str, Look); 4] = [
    ("writes", |store, second| {
        store.put(NUMBERS, &1, &second).map(drop).expect("written");
    }),
    ("empty writes", |store, _| {
        store.write(|_| Ok::<_, Error>(())).expect("written");
    }),
    ("repeats of that key", |store, _| {
        assert!(deliver(store, &OnceKey::new("s", "d", keep(60))));
    }),
    ("reads", |store, _| drop(store.remembered("s", "d").expect("readable"))),
];

/// CK-1: the clock was set back by hours, and due work waited for as long.
#[test]
fn after_the_clock_was_set_back_a_key_lives_its_time_and_one_look_longer() {
    for (name, look) in LOOKS {
        for hours in [1, 12, 24 * 365 * 80] {
            let clock = ManualClock::new();
            clock.advance(12 * HOUR);
            let store = in_memory(&clock);
            let key = OnceKey::new("s", "d", keep(60));
            assert!(!deliver(&store, &key));
            clock.jump_wall_secs(-hours * 3600);
            let mut ended = None;
            for second in 1..=120 {
                clock.advance(SEC);
                if !is_remembered(&store, "d") {
                    ended = Some(second);
                    break;
                }
                look(&store, second);
            }
            let ended = ended.unwrap_or_else(|| panic!("{name}, {hours} h: it never ended"));
            assert!(ended >= 60, "{name}, {hours} h: it ended early, after {ended} s");
            assert!(ended <= 61, "{name}, {hours} h: it ended after {ended} s");
            assert!(!deliver(&store, &key), "and runs again");
        }
    }
}

/// CK-2: the wall clock was moved forward, and short locks ended early.
#[test]
fn a_wall_clock_that_jumps_ahead_ends_no_key_while_the_store_is_open() {
    let clock = ManualClock::new();
    let store = in_memory(&clock);
    deliver(&store, &OnceKey::new("s", "k", keep(5)));
    for jump in [3600, YEARS_80_SECS, -2 * YEARS_80_SECS, YEARS_80_SECS, -7200] {
        clock.jump_wall_secs(jump);
        assert!(is_remembered(&store, "k"), "the jump alone ages nothing");
        store.put(NUMBERS, &1, &1).expect("written");
        store.put(NUMBERS, &1, &2).expect("written");
    }
    clock.advance(5 * SEC - Duration::from_nanos(1));
    assert!(is_remembered(&store, "k"));
    clock.advance(Duration::from_nanos(1));
    assert!(!is_remembered(&store, "k"), "five seconds passed by either hand");
}

/// CK-2 after a reopen: the documented exception, and the option that closes it.
#[test]
fn a_wall_clock_that_is_ahead_at_an_open_ages_keys_by_that_much_unless_time_offline_does_not_count() {
    for (max_offline, jump_secs, is_alive) in [
        (None, 3600, false),
        (None, 4, true),
        (None, YEARS_80_SECS, true),
        (Some(Duration::ZERO), 3600, true),
        (Some(HOUR), 3600, false),
        (Some(HOUR), 3601, true),
    ] {
        let clock = ManualClock::new();
        let disk = Arc::new(RamDisk::new());
        let options = || match max_offline {
            Some(time) => small_with(&clock).max_offline(time),
            None => small_with(&clock),
        };
        let store = options().create_on(disk.clone()).expect("a new store");
        deliver(&store, &OnceKey::new("s", "k", keep(5)));
        store.close().expect("closed");
        clock.jump_wall_secs(jump_secs);
        let store = options().open_on(disk).expect("opened again");
        assert_eq!(is_remembered(&store, "k"), is_alive, "{max_offline:?}, {jump_secs}");
        // And it still ends in its own time afterwards.
        clock.advance(5 * SEC);
        assert!(!is_remembered(&store, "k"));
    }
}

/// A way to ask whether a key answers.
type Path = fn(&Store) -> bool;

/// CK-3: what was over and not yet swept still answered, on some paths.
#[test]
fn a_key_is_alive_to_the_last_millisecond_and_dead_at_the_next_on_every_path() {
    let paths: [(&str, Path); 7] = [
        ("once", |store| deliver(store, &OnceKey::new("s", "k", keep(1)))),
        ("once in a write", |store| {
            let key = OnceKey::new("s", "k", keep(1));
            store
                .write(|tx| tx.once(&key, |_| Ok::<_, Error>(())))
                .expect("an answer")
                .is_repeat()
        }),
        ("a mismatch", |store| {
            let key = OnceKey::new("s", "k", keep(1)).bound_to("another request");
            store
                .once(&key, |_| Ok::<_, Error>(()))
                .is_err_and(|error| error.kind() == ErrorKind::Mismatch)
        }),
        ("remembered", |store| is_remembered(store, "k")),
        ("remembered in a write", |store| {
            store.write(|tx| tx.remembered("s", "k")).expect("readable").is_some()
        }),
        ("forget", |store| store.forget("s", "k").expect("an answer")),
        ("forget in a write", |store| {
            store.write(|tx| tx.forget("s", "k")).expect("an answer")
        }),
    ];
    for reopens in [false, true] {
        for (name, path) in paths {
            for (ms, is_alive) in [(999, true), (1000, false), (1001, false)] {
                let clock = ManualClock::new();
                let disk = Arc::new(RamDisk::new());
                let first = small_with(&clock).create_on(disk.clone()).expect("a new store");
                deliver(&first, &OnceKey::new("s", "k", keep(1)));
                let store = if reopens {
                    first.close().expect("closed");
                    clock.advance(Duration::from_millis(ms));
                    small_with(&clock).open_on(disk).expect("opened again")
                } else {
                    clock.advance(Duration::from_millis(ms));
                    first
                };
                assert_eq!(path(&store), is_alive, "{name}, T={ms}, reopened: {reopens}");
            }
        }
    }
}

/// CK-4: a short time was rounded to zero, or taken for another unit.
#[test]
fn a_short_keep_ends_at_exactly_its_own_time() {
    let nanos = |ms: u64| ms * 1_000_000;
    for keep_ns in [
        1,
        999,
        nanos(1),
        nanos(500),
        nanos(999),
        nanos(1000),
        nanos(1001),
        nanos(86_400_000) + 1,
    ] {
        for steps in [1, 7] {
            let clock = ManualClock::new();
            let store = in_memory(&clock);
            let keep = Keep::For(Duration::from_nanos(keep_ns));
            deliver(&store, &OnceKey::new("s", "k", keep));
            // In some steps with a sample at each: their sum loses nothing.
            for step in 0..steps {
                assert!(is_remembered(&store, "k"), "{keep_ns} ns, step {step} of {steps}");
                store.put(NUMBERS, &1, &step).expect("written");
                clock.advance(Duration::from_nanos(
                    (keep_ns - 1) * (step + 1) / steps - (keep_ns - 1) * step / steps,
                ));
            }
            assert!(is_remembered(&store, "k"), "{keep_ns} ns, the last nanosecond");
            clock.advance(Duration::from_nanos(1));
            assert!(!is_remembered(&store, "k"), "{keep_ns} ns");
        }
    }
}

/// CK-5: the machine slept, and one hand moved by eight hours while the other one stood.
#[test]
fn a_machine_that_sleeps_ages_keys_by_the_hand_that_moved_less() {
    for (wall, mono) in [(8 * HOUR, 10 * SEC), (10 * SEC, 8 * HOUR)] {
        let clock = ManualClock::new();
        let store = in_memory(&clock);
        deliver(&store, &OnceKey::new("s", "k", keep(60)));
        clock.advance(wall.min(mono));
        if wall > mono {
            clock.jump_wall_secs((wall - mono).as_secs() as i64);
        } else {
            clock.advance_mono(mono - wall);
        }
        assert!(is_remembered(&store, "k"));
        store.put(NUMBERS, &1, &1).expect("written");
        clock.advance(50 * SEC - Duration::from_nanos(1));
        assert!(is_remembered(&store, "k"));
        clock.advance(Duration::from_nanos(1));
        assert!(!is_remembered(&store, "k"));
    }
}

#[test]
fn time_offline_counts_up_to_its_limit_and_a_leap_beyond_it_counts_nothing() {
    let max = Duration::from_secs(limits::MAX_OFFLINE_SECS_DEFAULT);
    assert_eq!(max, 31 * DAY);
    for (offline, aged) in [
        (SEC, SEC),
        (30 * DAY, 30 * DAY),
        (max, max),
        (max + Duration::from_nanos(1), Duration::ZERO),
    ] {
        let clock = ManualClock::new();
        let disk = Arc::new(RamDisk::new());
        let store = small_with(&clock).create_on(disk.clone()).expect("a new store");
        deliver(&store, &OnceKey::new("s", "k", Keep::For(32 * DAY)));
        store.close().expect("closed");
        clock.reboot();
        clock.advance(offline);
        let store = small_with(&clock).open_on(disk).expect("opened again");
        let retention = Duration::from_nanos(store.stats().expect("figures").retention_ns);
        assert_eq!(retention, aged, "{offline:?}");
        clock.advance(32 * DAY - aged - Duration::from_nanos(1));
        assert!(is_remembered(&store, "k"));
        clock.advance(Duration::from_nanos(1));
        assert!(!is_remembered(&store, "k"));
    }
}

#[test]
fn a_device_that_boots_in_1970_ages_its_keys_by_what_it_ran_and_once() {
    let clock = ManualClock::new();
    let disk = Arc::new(RamDisk::new());
    let store = small_with(&clock).create_on(disk.clone()).expect("a new store");
    deliver(&store, &OnceKey::new("s", "k", Keep::For(24 * HOUR)));
    store.close().expect("closed");
    // Three boots in 1970, five hours each; then the right time, which is sixteen hours after the beginning. How long it
    // was closed is not known, so that hour is lost, and the key ends late.
    for _ in 0..3 {
        clock.reboot();
        clock.set_wall_ns(0);
        let store = small_with(&clock).open_on(disk.clone()).expect("opened in 1970");
        assert!(is_remembered(&store, "k"));
        for _ in 0..5 {
            clock.advance(HOUR);
            store.put(NUMBERS, &1, &clock.sample().mono_ns).expect("written");
        }
        assert!(is_remembered(&store, "k"));
        store.close().expect("closed");
    }
    clock.reboot();
    clock.set_wall_ns(ManualClock::START_WALL_NS + i64::try_from((16 * HOUR).as_nanos()).expect("a short time"));
    let store = small_with(&clock).open_on(disk).expect("opened at the right time");
    assert_eq!(
        store.stats().expect("figures").retention_ns,
        u64::try_from((15 * HOUR).as_nanos()).expect("short")
    );
    clock.advance(9 * HOUR - Duration::from_nanos(1));
    assert!(is_remembered(&store, "k"));
    clock.advance(Duration::from_nanos(1));
    assert!(!is_remembered(&store, "k"));
}

/// A device without a clock of its own was off for ten hours, boots in 1970, handles a message, and is started again once
/// the time is known: the ten hours before the message are not the age of its key.
#[test]
fn a_key_that_is_stored_under_a_wrong_clock_is_not_aged_by_the_time_before_it() {
    let right = |after: Duration| ManualClock::START_WALL_NS + i64::try_from(after.as_nanos()).expect("a short time");
    for wrong in [
        0,
        right(10 * HOUR) - YEARS_80_SECS * 1_000_000_000,
        right(10 * HOUR) + YEARS_80_SECS * 1_000_000_000,
    ] {
        let clock = ManualClock::new();
        let disk = Arc::new(RamDisk::new());
        small_with(&clock)
            .create_on(disk.clone())
            .expect("a new store")
            .close()
            .expect("closed");
        clock.reboot();
        clock.set_wall_ns(wrong);
        let store = small_with(&clock)
            .open_on(disk.clone())
            .expect("opened under a wrong clock");
        assert!(!deliver(&store, &OnceKey::new("s", "k", keep(3600))));
        store.close().expect("closed");
        clock.set_wall_ns(right(10 * HOUR));
        let store = small_with(&clock).open_on(disk).expect("opened under the right one");
        assert!(
            deliver(&store, &OnceKey::new("s", "k", keep(3600))),
            "it would have run twice"
        );
        clock.advance(HOUR);
        assert!(!is_remembered(&store, "k"), "and it ends in its time");
    }
}

#[test]
fn a_mark_that_is_absurdly_ahead_is_shown_and_reset_and_the_reset_is_durable() {
    let clock = ManualClock::new();
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| small_with(&clock).open_on(shared(disk)).expect("opened again");
    let store = small_with(&clock).create_on(shared(&disk)).expect("a new store");
    deliver(&store, &OnceKey::new("s", "k", keep(7200)));
    clock.jump_wall_secs(YEARS_80_SECS);
    store.put(NUMBERS, &1, &1).expect("written");
    clock.jump_wall_secs(-YEARS_80_SECS);
    let ahead = store.stats().expect("figures").highest_wall_ns - clock.sample().wall_ns;
    assert_eq!(ahead, YEARS_80_SECS * 1_000_000_000);
    store.close().expect("closed");
    // Until then time offline ages nothing.
    clock.advance(HOUR);
    let store = open(&disk);
    assert_eq!(store.stats().expect("figures").retention_ns, 0);
    store.reset_clock().expect("reset");
    assert_eq!(store.stats().expect("figures").highest_wall_ns, clock.sample().wall_ns);
    let killed = disk.kill();
    drop(store);
    clock.advance(HOUR);
    let store = open(&killed);
    assert_eq!(Duration::from_nanos(store.stats().expect("figures").retention_ns), HOUR);
    assert!(is_remembered(&store, "k"));
    drop(store);
    clock.advance(HOUR);
    assert!(!is_remembered(&open(&killed), "k"));
}

fn wall_time(clock: &ManualClock) -> SystemTime {
    let wall_ns = clock.sample().wall_ns;
    let distance = Duration::from_nanos(wall_ns.unsigned_abs());
    if wall_ns < 0 {
        UNIX_EPOCH - distance
    } else {
        UNIX_EPOCH + distance
    }
}

#[test]
fn a_delivery_that_is_as_old_as_its_keep_is_refused_unless_it_is_remembered() {
    let clock = ManualClock::new();
    let store = in_memory(&clock);
    let issued = wall_time(&clock);
    let key = |name: &str, keep| OnceKey::new("s", name, keep).issued_at(issued);
    let nano = Duration::from_nanos(1);
    assert!(!deliver(&store, &key("k", keep(60))));
    clock.advance(60 * SEC - nano);
    assert!(deliver(&store, &key("k", keep(60))));
    assert!(
        !deliver(&store, &key("young", keep(60))),
        "a nanosecond younger than its keep"
    );
    clock.advance(nano);
    let sequence = store.stats().expect("figures").sequence;
    for name in ["k", "never seen"] {
        let run = |_: &mut sprag::WriteTx<'_>| -> Result<(), Error> { panic!("it may have run and been forgotten") };
        assert_eq!(kind_of(store.once(&key(name, keep(60)), run)), ErrorKind::TooOld);
    }
    assert_eq!(store.stats().expect("figures").sequence, sequence);
    assert!(
        deliver(&store, &key("young", keep(60))),
        "what is remembered is a repeat at any age"
    );
    assert!(!deliver(&store, &key("longer", keep(61))));
    assert!(!deliver(&store, &key("for ever", Keep::Forever)));
    let ahead = OnceKey::new("s", "ahead", keep(1)).issued_at(issued + DAY);
    assert!(!deliver(&store, &ahead), "a sender whose clock is ahead is not refused");
    for extreme in [
        UNIX_EPOCH - Duration::from_secs(1 << 40),
        UNIX_EPOCH + Duration::from_secs(1 << 40),
    ] {
        let key = OnceKey::new("s", "extreme", keep(1)).issued_at(extreme);
        let answer = store.once(&key, |_| Ok::<_, Error>(()));
        assert_eq!(answer.is_err(), extreme < UNIX_EPOCH);
    }
    // A wall clock that is set back makes nobody young again: schedule time never goes back.
    clock.jump_wall_secs(-86_400);
    assert_eq!(
        kind_of(store.once(&key("never seen", keep(60)), |_| Ok::<_, Error>(()))),
        ErrorKind::TooOld
    );
}

#[test]
fn a_repeat_says_when_the_first_one_was_by_the_wall_clock() {
    let clock = ManualClock::new();
    let disk = Arc::new(RamDisk::new());
    let store = small_with(&clock).create_on(disk.clone()).expect("a new store");
    clock.advance(SEC);
    let first = wall_time(&clock);
    let key = OnceKey::new("s", "k", Keep::Forever);
    deliver(&store, &key);
    clock.advance(DAY);
    assert_eq!(
        store.once(&key, |_| Ok::<_, Error>(())).expect("an answer"),
        Once::Repeat {
            result: (),
            first_at: first
        }
    );
    store.close().expect("closed");
    let store = Options::new().open_on(disk).expect("opened with another clock");
    let remembered = store.remembered("s", "k").expect("readable").expect("remembered");
    assert_eq!((remembered.first_at(), remembered.is_forever()), (first, true));
}

/// GR-3: keys ended and the file did not shrink. Ours leave with the checkpoints, without anybody calling anything.
#[test]
fn keys_that_are_over_leave_the_file() {
    let size_at = |keep: Keep| {
        let clock = ManualClock::new();
        let disk = Arc::new(RamDisk::new());
        let options = Options::new()
            .log_half_bytes(64 << 10)
            .cache_bytes(1 << 20)
            .clock(Arc::new(clock.clone()));
        let store = options.create_on(disk.clone()).expect("a new store");
        [180, 600].map(|until| {
            while Duration::from_nanos(store.stats().expect("figures").retention_ns) < Duration::from_secs(until) {
                store
                    .write(|tx| {
                        (0..100).try_for_each(|number| {
                            let name = format!("{}-{number}", clock.sample().mono_ns);
                            tx.once(&OnceKey::new("s", name, keep), |_| Ok::<_, Error>("r".repeat(200)))
                                .map(drop)
                        })
                    })
                    .expect("written");
                clock.advance(SEC);
            }
            disk.len().expect("a length")
        })
    };
    let [early, late] = size_at(keep(60));
    assert!(
        late * 10 <= early * 13,
        "the file grows although its keys are over: {early}, {late}"
    );
    let [early, late] = size_at(Keep::Forever);
    assert!(
        late * 10 > early * 17,
        "the trial shows nothing: without an end the file must grow: {early}, {late}"
    );
}
