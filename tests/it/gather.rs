//! Whether a leader waits for members, as tables of what it knows and what must come out.

use sprag::internals::{Gather, Window};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// After rounds of (members, waiting behind them, length), in order.
fn after(rounds: &[(u64, u64, Duration)]) -> Gather {
    let mut gather = Gather::default();
    for (members, waiting, length) in rounds {
        gather.ended(*members, *waiting, *length);
    }
    gather
}

fn window(until: u64, at_most: Duration) -> Option<Window> {
    Some(Window { until, at_most })
}

#[test]
fn a_leader_waits_for_those_who_were_under_way_half_as_long_as_a_round_takes() {
    let table: [(&str, &[(u64, u64, Duration)], u64, Option<Window>); 9] = [
        ("the first round", &[], 1, None),
        ("one thread alone", &[(1, 0, 2 * MS), (1, 0, 2 * MS)], 1, None),
        (
            "two that take turns",
            &[(1, 1, 2 * MS), (1, 1, 2 * MS)],
            1,
            window(2, MS),
        ),
        (
            "eight in two halves",
            &[(4, 4, 2 * MS), (4, 4, 2 * MS)],
            4,
            window(8, MS),
        ),
        (
            "the first back of eight",
            &[(8, 0, 2 * MS), (8, 0, 2 * MS)],
            1,
            window(8, MS),
        ),
        ("all are there", &[(4, 4, 2 * MS), (4, 4, 2 * MS)], 8, None),
        ("more than expected", &[(4, 4, 2 * MS), (4, 4, 2 * MS)], 9, None),
        (
            "the last round counts heads",
            &[(8, 0, 2 * MS), (1, 0, 2 * MS)],
            1,
            None,
        ),
        (
            "one round was slow",
            &[(2, 0, 2 * MS), (2, 0, 90 * MS)],
            1,
            window(2, MS),
        ),
    ];
    for (what, rounds, staged, expected) in table {
        assert_eq!(after(rounds).window(staged), expected, "{what}");
    }
}

#[test]
fn who_does_not_come_is_waited_for_less_and_less_often() {
    let mut gather = after(&[(2, 0, 2 * MS), (2, 0, 2 * MS)]);
    let mut rests = Vec::new();
    for _ in 0..8 {
        let expected = gather.window(1).expect("the rest is over");
        gather.waited(expected, 1, 1);
        let mut rest = 0;
        loop {
            gather.ended(2, 0, 2 * MS);
            if gather.window(1).is_some() {
                break;
            }
            rest += 1;
        }
        rests.push(rest);
    }
    assert_eq!(rests, [0, 2, 6, 14, 30, 62, 62, 62]);
}

#[test]
fn who_comes_is_waited_for_again() {
    let expected = Window { until: 8, at_most: MS };
    // Members before and after a wait, and whether the next round waits again.
    for (before, staged, again) in [
        (4, 8, true),
        (4, 9, true),
        (4, 6, true),
        (4, 5, false),
        (7, 7, false),
        (1, 5, true),
    ] {
        let mut gather = after(&[(4, 4, 2 * MS), (4, 4, 2 * MS)]);
        // In vain before, so that the next time in vain costs more than the round that is about to end.
        gather.waited(expected, 4, 4);
        gather.ended(4, 4, 2 * MS);
        gather.waited(expected, before, staged);
        gather.ended(4, 4, 2 * MS);
        assert_eq!(gather.window(4).is_some(), again, "before={before}, staged={staged}");
    }
}
