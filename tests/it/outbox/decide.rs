//! Tables of values for the pure decisions about messages.

use std::time::Duration;

use sprag::internals::outbox::{
    Mark, Row, Stand, Tally, Times, Verb, Verdict, decide_claim, decide_lapse, decide_replay, decide_verb,
};
use sprag::{Reason, Retry};

const NOW: i64 = 1_000_000;
const AT: Times = Times {
    now_ns: NOW,
    active_ns: NOW - 300,
};

fn retry() -> Retry {
    Retry::DEFAULT
        .failures(3)
        .interruptions(3)
        .base(Duration::from_nanos(100))
        .cap(Duration::from_nanos(1000))
        .give_up_after(Duration::from_nanos(5000))
}

fn row(stand: Stand, fence: u64) -> Row {
    Row {
        stand,
        key: Some(b"k".to_vec()),
        line: 7,
        due_ns: NOW - 50,
        turn: 9,
        fence,
        attempts: 4,
        failures: 1,
        interruptions: 1,
        aged_from_ns: Some(NOW - 1000),
        kept_until_ns: Some(NOW + 5),
        died_ns: 0,
        replays: 2,
        bytes: 140,
    }
}

/// A row that waits for `due_ns` and is nobody's.
fn waits(before: &Row, due_ns: i64) -> Row {
    Row {
        stand: Stand::Waiting,
        due_ns,
        fence: 0,
        kept_until_ns: None,
        ..before.clone()
    }
}

fn is_dead(before: &Row, reason: Reason) -> Row {
    Row {
        stand: Stand::Dead(reason),
        fence: 0,
        kept_until_ns: None,
        died_ns: NOW,
        ..before.clone()
    }
}

const NACK: Verb = Verb::Nack {
    after_ns: None,
    random: u64::MAX,
};

fn verbs() -> [Verb; 7] {
    let after = Verb::Nack {
        after_ns: Some(77),
        random: 0,
    };
    let extend = Verb::Extend { kept_until_ns: Some(5) };
    let defer = Verb::Defer { until_ns: NOW + 20 };
    [
        Verb::Ack,
        NACK,
        after,
        defer,
        Verb::Release,
        Verb::Bury(Reason::Buried),
        extend,
    ]
}

/// What each verb makes of a row under a fence that is honoured.
fn wanted(before: &Row, verb: Verb) -> Verdict {
    let failed = |due_ns| Row {
        failures: 2,
        ..waits(before, due_ns)
    };
    Verdict::Become(match verb {
        Verb::Ack => return Verdict::Remove,
        // The second failure, the whole of twice the base.
        Verb::Nack { after_ns: None, .. } => failed(NOW + 200),
        Verb::Nack {
            after_ns: Some(after), ..
        } => failed(NOW + after as i64),
        Verb::Defer { until_ns } => Row {
            aged_from_ns: Some(NOW - 1000 + 20),
            ..waits(before, until_ns)
        },
        Verb::Release => waits(before, NOW),
        Verb::Bury(reason) => is_dead(before, reason),
        Verb::Extend { kept_until_ns } => Row {
            stand: Stand::Claimed,
            kept_until_ns,
            ..before.clone()
        },
    })
}

#[test]
fn a_verb_counts_for_who_holds_the_current_fence_and_changes_nothing_otherwise() {
    let stands = [
        (Stand::Claimed, true),
        // The lease is over, and nobody else has it.
        (Stand::Waiting, true),
        (Stand::Behind, false),
        (Stand::Dead(Reason::Failed), false),
    ];
    for verb in verbs() {
        assert_eq!(
            decide_verb(None, &retry(), 5, verb, AT),
            Verdict::Stale,
            "{verb:?} of what is gone"
        );
        for (stand, honours) in stands {
            for (stored, offered) in [(5, 5), (5, 4), (5, 6), (0, 0), (0, 5), (u64::MAX, u64::MAX)] {
                let before = row(stand, stored);
                let found = decide_verb(Some(&before), &retry(), offered, verb, AT);
                let is_current = honours && stored == offered && stored != 0;
                let expected = if is_current {
                    wanted(&before, verb)
                } else {
                    Verdict::Stale
                };
                assert_eq!(
                    found, expected,
                    "{verb:?} of {stand:?}, stored={stored} offered={offered}"
                );
            }
        }
    }
}

#[test]
fn a_failure_ends_a_message_at_its_budgets_of_failures_and_of_age() {
    let late = |age_ns| Some(AT.active_ns - age_ns);
    for (failures, aged_from_ns, reason) in [
        (0, late(0), None),
        (1, late(4999), None),
        (1, late(5000), Some(Reason::GaveUp)),
        (1, late(i64::MAX / 2), Some(Reason::GaveUp)),
        (1, late(-70), None),
        (1, None, None),
        (2, late(0), Some(Reason::Failed)),
        (2, late(5000), Some(Reason::Failed)),
        (3, late(0), Some(Reason::Failed)),
        (u32::MAX, late(0), Some(Reason::Failed)),
    ] {
        let before = Row {
            failures,
            aged_from_ns,
            ..row(Stand::Claimed, 5)
        };
        let Verdict::Become(after) = decide_verb(Some(&before), &retry(), 5, NACK, AT) else {
            panic!("it becomes something");
        };
        let stand = reason.map_or(Stand::Waiting, Stand::Dead);
        assert_eq!(
            (after.stand, after.failures),
            (stand, failures.saturating_add(1)),
            "{failures} {aged_from_ns:?}"
        );
        assert_eq!(after.interruptions, 1);
    }
    let before = row(Stand::Claimed, 5);
    let for_ever = retry().never_too_old();
    let old = Times {
        active_ns: i64::MAX,
        ..AT
    };
    assert!(
        matches!(decide_verb(Some(&before), &for_ever, 5, NACK, old), Verdict::Become(row) if row.stand == Stand::Waiting)
    );
    let far = Verb::Nack {
        after_ns: Some(u64::MAX),
        random: 0,
    };
    assert_eq!(decide_verb(Some(&before), &retry(), 5, far, AT), {
        let failed = Row {
            failures: 2,
            ..waits(&before, i64::MAX)
        };
        Verdict::Become(failed)
    });
}

#[test]
fn a_lease_that_is_over_spends_an_interruption_if_it_was_lost_and_nothing_if_it_was_given_back() {
    let lapse = |before: &Row, fence, given_back| decide_lapse(Some(before), &retry(), fence, given_back, AT);
    assert_eq!(decide_lapse(None, &retry(), 5, false, AT), None);
    for given_back in [false, true] {
        for stand in [Stand::Waiting, Stand::Behind, Stand::Dead(Reason::Buried)] {
            assert_eq!(
                lapse(&row(stand, 5), 5, given_back),
                None,
                "{stand:?} is held by nobody"
            );
        }
        assert_eq!(
            lapse(&row(Stand::Claimed, 6), 5, given_back),
            None,
            "another one holds it"
        );
    }
    for (interruptions, is_over) in [(0, false), (1, false), (2, true), (u32::MAX, true)] {
        let before = Row {
            interruptions,
            ..row(Stand::Claimed, 5)
        };
        assert_eq!(lapse(&before, 5, true), Some(waits(&before, NOW)));
        let counted = Row {
            interruptions: interruptions.saturating_add(1),
            ..before.clone()
        };
        let expected = if is_over {
            is_dead(&counted, Reason::Interrupted)
        } else {
            // A late answer is honoured until somebody else has it.
            Row {
                fence: 5,
                ..waits(&counted, NOW)
            }
        };
        assert_eq!(lapse(&before, 5, false), Some(expected), "{interruptions}");
    }
}

#[test]
fn a_claim_counts_an_attempt_and_what_has_expired_is_dead() {
    for (expires_ns, is_dead_then) in [
        (None, false),
        (Some(NOW + 1), false),
        (Some(NOW), true),
        (Some(i64::MIN), true),
    ] {
        let before = row(Stand::Waiting, 5);
        let after = decide_claim(&before, expires_ns, 6, Some(9), AT);
        if is_dead_then {
            assert_eq!(after, is_dead(&before, Reason::Expired));
            continue;
        }
        let expected = Row {
            stand: Stand::Claimed,
            fence: 6,
            kept_until_ns: Some(9),
            attempts: 5,
            ..before
        };
        assert_eq!(after, expected, "{expires_ns:?}");
    }
    let first = Row {
        attempts: u32::MAX,
        aged_from_ns: None,
        ..row(Stand::Waiting, 0)
    };
    let claimed = decide_claim(&first, None, 1, None, AT);
    assert_eq!((claimed.attempts, claimed.aged_from_ns), (u32::MAX, Some(AT.active_ns)));
}

#[test]
fn a_replay_begins_from_the_start_and_is_counted() {
    let dead = Row {
        replays: u32::MAX - 1,
        ..row(Stand::Dead(Reason::Failed), 0)
    };
    let expected = Row {
        attempts: 0,
        failures: 0,
        interruptions: 0,
        aged_from_ns: None,
        replays: u32::MAX,
        ..waits(&dead, 44)
    };
    let once = decide_replay(&dead, 44);
    assert_eq!(once, expected);
    assert_eq!(decide_replay(&once, 44).replays, u32::MAX);
}

#[test]
fn a_delay_is_drawn_evenly_up_to_what_the_failures_so_far_allow() {
    let nanos = Duration::from_nanos;
    for (base, cap, failures, whole) in [
        (100, 1000, 1, 100),
        (100, 1000, 0, 100),
        (100, 1000, 2, 200),
        (100, 1000, 4, 800),
        (100, 1000, 5, 1000),
        (100, 1000, 64, 1000),
        (100, 1000, 65, 1000),
        (100, 1000, u32::MAX, 1000),
        (100, 50, 1, 50),
        (0, 1000, 9, 0),
        (100, 0, 9, 0),
        (1, u64::MAX, 64, 1 << 63),
        (1, u64::MAX, 65, 1 << 63),
        (2, u64::MAX, 64, u64::MAX),
        (u64::MAX, u64::MAX, 1, u64::MAX),
        (u64::MAX, u64::MAX, u32::MAX, u64::MAX),
    ] {
        let retry = Retry::DEFAULT.base(nanos(base)).cap(nanos(cap));
        let drawn = [0, 1 << 63, u64::MAX].map(|random| retry.delay_ns(failures, random));
        let half = u64::try_from(u128::from(whole).div_ceil(2)).expect("a half");
        assert_eq!(drawn, [0, half, whole], "base={base} cap={cap} failures={failures}");
    }
    let long = Retry::DEFAULT.base(Duration::MAX).cap(Duration::MAX);
    assert_eq!(long.delay_ns(1, u64::MAX), u64::MAX);
}

fn mark(due_ns: i64, turn: u64) -> Mark {
    Mark { due_ns, turn }
}

#[test]
fn what_becomes_ready_goes_behind_the_head_unless_the_clock_went_back() {
    // Head, now, asked for; where it goes with turn 20, and the head then.
    let now = 100;
    for (head, due, placed, head_then) in [
        (Mark::START, 50, 50, Mark::START),
        (Mark::START, i64::MIN, i64::MIN, Mark::START),
        (mark(90, 3), 50, 90, mark(90, 3)),
        (mark(90, 3), 95, 95, mark(90, 3)),
        (mark(90, 3), 500, 500, mark(90, 3)),
        (mark(100, 3), 100, 100, mark(100, 3)),
        (mark(100, 3), 99, 100, mark(100, 3)),
        // The clock went back: what was handed out last was due later than now.
        (mark(101, 3), 101, 101, mark(101, 3)),
        (mark(101, 3), 100, 100, mark(100, 19)),
        (mark(500, 3), 50, 50, mark(50, 19)),
        (mark(500, 3), 501, 501, mark(500, 3)),
        (mark(500, 30), 500, 500, mark(500, 19)),
    ] {
        let mut tally = Tally {
            next: 20,
            head,
            ..Tally::default()
        };
        let found = tally.place(due, now).expect("a number is left");
        assert_eq!(
            (found, tally.head, tally.next),
            (mark(placed, 20), head_then, 21),
            "{head:?} due={due}"
        );
        assert!(found > tally.head, "no entry lies at or before the head");
    }
    let mut full = Tally {
        next: u64::MAX,
        ..Tally::default()
    };
    assert_eq!(
        full.place(1, 1).expect_err("no number is left").kind(),
        sprag::ErrorKind::Full
    );
}

#[test]
fn a_tally_counts_a_message_in_where_it_stands_and_out_again() {
    let counted = mark(NOW - 50, 9);
    for (stand, at) in [
        (Stand::Behind, 0),
        (Stand::Waiting, 1),
        (Stand::Claimed, 2),
        (Stand::Dead(Reason::Expired), 3),
    ] {
        let empty = Tally {
            counted,
            ..Tally::default()
        };
        let mut tally = empty.clone();
        let row = row(stand, 0);
        tally.enter(&row);
        let counts = [tally.blocked, tally.waiting, tally.claimed, tally.dead];
        let wanted: Vec<u64> = (0..4).map(|place| u64::from(place == at)).collect();
        assert_eq!((counts.to_vec(), tally.bytes), (wanted, 140));
        assert_eq!(
            tally.ready,
            u64::from(stand == Stand::Waiting),
            "it lies where was counted"
        );
        tally.leave(&row).expect("it was counted in");
        assert_eq!(tally, empty);
        assert_eq!(
            tally.leave(&row).expect_err("nothing is left").kind(),
            sprag::ErrorKind::Corrupt
        );
    }
    let mut tally = Tally {
        counted: mark(NOW - 50, 8),
        ..Tally::default()
    };
    tally.enter(&row(Stand::Waiting, 0));
    assert_eq!(
        (tally.ready, tally.next_due_ns),
        (0, NOW - 50),
        "behind what was counted"
    );
}

#[test]
fn a_pause_stops_the_active_time_and_spends_none() {
    let mut tally = Tally::default();
    assert_eq!(tally.active_ns(100), 100);
    assert!(!tally.pause(false, 100), "it is not paused");
    assert!(tally.pause(true, 100));
    assert!(!tally.pause(true, 150), "it is paused already");
    assert_eq!((tally.active_ns(150), tally.active_ns(90)), (100, 90));
    assert!(tally.pause(false, 160));
    assert_eq!(tally.active_ns(200), 140);
    assert!(tally.pause(true, 300));
    // The clock went back meanwhile.
    assert!(tally.pause(false, 250));
    assert_eq!((tally.paused_ns, tally.active_ns(250)), (60, 190));
    assert!(tally.pause(true, i64::MIN) && tally.pause(false, i64::MAX));
    assert_eq!(tally.active_ns(i64::MIN), i64::MIN);
}
