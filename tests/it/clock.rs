//! Both readings of time, as tables of what the hands show and what must come out.

use crate::random::{Random, seed};
use sprag::internals::{Retention, RetentionMark, Schedule};
use sprag::{Clock, ManualClock, Sample, SystemClock};
use std::time::Duration;

const SEC: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SEC;
const YEARS_80: i64 = 80 * 365 * DAY as i64;
/// 2026-01-01T00:00:00Z.
const Y2026: i64 = 1_767_225_600 * SEC as i64;
const MONTH: Duration = Duration::from_secs(31 * 86_400);

fn at(wall_ns: i64, mono_ns: u64) -> Sample {
    Sample { wall_ns, mono_ns }
}

/// What was kept of a store whose wall clock was never ahead.
fn kept(now_ns: u64, wall_ns: i64) -> RetentionMark {
    RetentionMark {
        now_ns,
        highest_wall_ns: wall_ns,
        last_wall_ns: wall_ns,
    }
}

fn plus(wall_ns: i64, ns: u64) -> i64 {
    wall_ns + i64::try_from(ns).expect("a time of the test")
}

#[test]
fn retention_advances_by_the_smaller_progress_of_the_two_hands() {
    // (wall step, mono step, aged)
    let steps: [(i64, u64, u64); 9] = [
        (10, 10, 10),
        (10, 7, 7),
        (7, 10, 7),
        (0, 10, 0),
        (10, 0, 0),
        (-10, 10, 0),
        (YEARS_80, 5, 5),
        (-YEARS_80, 5, 0),
        (i64::MIN / 2, u64::MAX, 0),
    ];
    for (wall, mono, aged) in steps {
        let mut retention = Retention::open(kept(100, Y2026), at(Y2026, 1000), MONTH);
        let sample = at(Y2026 + wall, mono.saturating_add(1000));
        assert_eq!(retention.advance(sample), 100 + aged, "wall={wall} mono={mono}");
        assert_eq!(retention.now_ns(), 100 + aged);
    }
}

#[test]
fn retention_counts_each_sample_from_the_one_before_it() {
    let mut retention = Retention::open(kept(0, Y2026), at(Y2026, 0), Duration::ZERO);
    let mut aged = Vec::new();
    for (wall, mono) in [(5, 5), (3, 8), (6, 11), (6, 20), (50, 21)] {
        aged.push(retention.advance(at(Y2026 + wall, mono)));
    }
    assert_eq!(aged, [5, 5, 8, 8, 9]);
}

#[test]
fn a_monotonic_hand_that_goes_back_ages_nothing() {
    let mut retention = Retention::open(kept(0, Y2026), at(Y2026, 500), Duration::ZERO);
    assert_eq!(retention.advance(at(Y2026 + 100, 400)), 0);
    assert_eq!(retention.advance(at(Y2026 + 130, 430)), 30);
}

#[test]
fn an_open_ages_by_the_wall_time_since_the_mark_unless_that_is_too_long() {
    let max = 31 * DAY;
    // (wall at open relative to the mark, aged)
    let opens: [(i64, u64); 7] = [
        (0, 0),
        (1, 1),
        (max as i64, max),
        (max as i64 + 1, 0),
        (-1, 0),
        (YEARS_80, 0),
        (-YEARS_80, 0),
    ];
    for (later, aged) in opens {
        let retention = Retention::open(kept(77, Y2026), at(Y2026 + later, 3), MONTH);
        assert_eq!(retention.now_ns(), 77 + aged, "later={later}");
        assert_eq!(retention.highest_wall_ns(), Y2026.max(Y2026 + later), "later={later}");
    }
}

#[test]
fn no_longest_time_offline_means_that_closed_time_ages_nothing() {
    assert_eq!(
        Retention::open(kept(5, Y2026), at(Y2026 + 1, 0), Duration::ZERO).now_ns(),
        5
    );
}

#[test]
fn the_mark_never_falls_while_open() {
    let mut retention = Retention::open(kept(0, Y2026), at(Y2026, 0), Duration::ZERO);
    retention.advance(at(Y2026 + YEARS_80, 1));
    assert_eq!(retention.highest_wall_ns(), Y2026 + YEARS_80);
    retention.advance(at(Y2026, 2));
    assert_eq!(retention.highest_wall_ns(), Y2026 + YEARS_80);
}

/// A device that boots in 1970 ages its keys by the five days it runs, and not by the same five days again when it is next
/// opened with the right clock. Guards against a highest wall time that stands still while the wall clock is behind it.
#[test]
fn days_run_in_1970_are_not_aged_a_second_time_at_the_next_open() {
    let run = 5 * DAY;
    let mut behind = Retention::open(kept(0, Y2026), at(Y2026 - DAY as i64, 0), MONTH);
    assert_eq!(behind.now_ns(), 0);
    assert_eq!(behind.advance(at(plus(Y2026, run - DAY), run)), run);
    let right = Retention::open(behind.mark(), at(plus(Y2026, run + SEC), 0), MONTH);
    assert_eq!(right.now_ns(), run + SEC);

    let mut in_1970 = Retention::open(kept(0, Y2026), at(0, 0), MONTH);
    assert_eq!(in_1970.advance(at(plus(0, run), run)), run);
    let right = Retention::open(in_1970.mark(), at(plus(Y2026, run + SEC), 0), MONTH);
    assert_eq!(right.now_ns(), run, "how long it was closed is not known");
}

/// A store closed for ten days is opened in 1970, keeps a key there, and is opened with the right clock a moment later: the
/// ten days before the key are not its age. Guards against a leap that is counted from the highest wall time.
#[test]
fn time_before_a_key_was_stored_under_a_wrong_clock_does_not_age_it() {
    let in_1970 = Retention::open(kept(0, Y2026), at(0, 0), MONTH);
    let stored_at = in_1970.now_ns();
    let right = Retention::open(in_1970.mark(), at(plus(Y2026, 10 * DAY), 0), MONTH);
    assert_eq!(right.now_ns(), stored_at);
    // And the next time it is closed counts again.
    let next = Retention::open(right.mark(), at(plus(Y2026, 11 * DAY), 0), MONTH);
    assert_eq!(next.now_ns(), stored_at + DAY);
}

#[test]
fn a_mark_that_was_reset_lets_the_next_open_age_again() {
    let mut retention = Retention::open(kept(9, Y2026 + YEARS_80), at(Y2026, 0), MONTH);
    let opened_again = |r: &Retention| Retention::open(r.mark(), at(Y2026 + 60, 0), MONTH).now_ns();
    assert_eq!(opened_again(&retention), 9);
    retention.reset_mark(at(Y2026, 0));
    assert_eq!(opened_again(&retention), 69);
}

#[test]
fn time_stays_at_the_ends_of_its_range() {
    let end = at(i64::MAX, u64::MAX);
    let mut retention = Retention::open(kept(u64::MAX - 1, i64::MIN), at(i64::MIN, 0), MONTH);
    assert_eq!(retention.advance(end), u64::MAX);
    assert_eq!(retention.highest_wall_ns(), i64::MAX);
    assert_eq!(
        Retention::open(kept(u64::MAX, i64::MIN), end, Duration::MAX).now_ns(),
        u64::MAX
    );
    assert_eq!(Schedule::open(at(i64::MAX, 0)).now(end), i64::MAX);
    assert_eq!(Schedule::open(at(i64::MIN, 0)).now(at(i64::MIN, u64::MAX)), i64::MAX);
}

/// Random life of a device: true time passes, the wall clock is set at will, the store is closed and opened. The wall clock
/// never leaps ahead by less than the longest time offline from a close to an open, which is the one case the design gives
/// up. Retention time must then never gain on true time, from whatever moment a key is counted.
#[test]
fn retention_is_never_early_through_jumps_and_opens() {
    let mut random = Random::new(seed());
    let mut aged_at_all = 0u64;
    for _ in 0..2_000 {
        aged_at_all += one_life(&mut random);
    }
    assert!(aged_at_all > 0, "a time that never moves is never early");
}

fn one_life(random: &mut Random) -> u64 {
    let mut truth = Y2026;
    let mut mono = random.below(DAY);
    let mut wall = truth;
    let mut retention = Retention::open(kept(0, wall), at(wall, mono), Duration::ZERO);
    let mut most_behind = 0;
    for _ in 0..60 {
        let passed = random.below(3 * DAY);
        truth = plus(truth, passed);
        match random.below(6) {
            0 => {
                // Closed for that time; the machine may have started again, and the wall clock is one of the three.
                mono = random.below(DAY);
                wall = [truth, truth - YEARS_80 / 2, 0, truth + YEARS_80][random.below(4) as usize];
                retention = Retention::open(retention.mark(), at(wall, mono), MONTH);
            }
            1 => {
                // Set while open; true time passes too.
                mono += passed;
                wall = [truth, truth + 3 * DAY as i64, 0, truth + YEARS_80][random.below(4) as usize];
                retention.advance(at(wall, mono));
            }
            _ => {
                mono += passed;
                wall = plus(wall, passed);
                retention.advance(at(wall, mono));
            }
        }
        let behind = i128::from(truth - Y2026) - i128::from(retention.now_ns());
        assert!(behind >= most_behind, "early by {}", most_behind - behind);
        most_behind = behind;
    }
    retention.now_ns()
}

#[test]
fn schedule_time_follows_the_wall_clock_but_never_falls_behind_the_monotonic_one() {
    let schedule = Schedule::open(at(Y2026, 1000));
    // (wall, mono, schedule time), relative to the open
    for (wall, mono, now) in [
        (0, 0, 0),
        (10, 10, 10),
        (5, 10, 10),
        (-YEARS_80, 10, 10),
        (YEARS_80, 10, YEARS_80),
    ] {
        assert_eq!(
            schedule.now(at(Y2026 + wall, 1000 + mono)),
            Y2026 + now,
            "wall={wall} mono={mono}"
        );
    }
    assert_eq!(schedule.now(at(Y2026, 0)), Y2026);
}

#[test]
fn a_manual_clock_stands_still_until_it_is_moved() {
    let clock = ManualClock::new();
    let start = at(Y2026, 0);
    assert_eq!([clock.sample(), clock.sample()], [start, start]);
    clock.advance(Duration::from_secs(3));
    assert_eq!(clock.sample(), at(plus(Y2026, 3 * SEC), 3 * SEC));
    clock.advance_mono(Duration::from_secs(1));
    assert_eq!(clock.sample(), at(plus(Y2026, 3 * SEC), 4 * SEC));
    clock.jump_wall_secs(-3);
    assert_eq!(clock.sample(), at(Y2026, 4 * SEC));
    clock.set_wall_ns(-1);
    assert_eq!(clock.sample(), at(-1, 4 * SEC));
    clock.reboot();
    assert_eq!(clock.sample(), at(-1, 0));
    clock.jump_wall_secs(i64::MAX);
    clock.advance(Duration::MAX);
    assert_eq!(clock.sample(), at(i64::MAX, u64::MAX));
}

#[test]
fn clones_of_a_manual_clock_share_their_hands_between_threads() {
    let clock = ManualClock::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let clone = clock.clone();
            scope.spawn(move || (0..1000).for_each(|_| clone.advance(Duration::from_nanos(1))));
        }
    });
    assert_eq!(clock.sample(), at(Y2026 + 4000, 4000));
}

#[test]
fn the_system_clock_shows_this_century_and_its_monotonic_hand_does_not_go_back() {
    let clock = SystemClock::new();
    let (first, second) = (clock.sample(), clock.sample());
    assert!(second.mono_ns >= first.mono_ns);
    assert!(
        first.wall_ns > Y2026 - 30 * 365 * DAY as i64,
        "wall_ns={}",
        first.wall_ns
    );
}
