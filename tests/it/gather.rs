//! Whether a leader waits for members, as tables of what it knows and what must come out.

use sprag::internals::{Gather, Window};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const US15: Duration = Duration::from_micros(15);
const SECS8: Duration = Duration::from_secs(8);
const MS2: Duration = Duration::from_millis(2);
const MS90: Duration = Duration::from_millis(90);

/// Members, waiting behind them, length.
type Round = (u64, u64, Duration);
/// What it is about, the rounds so far, how many are staged, and for whom the leader waits.
type Row = (&'static str, &'static [Round], u64, Option<Window>);

/// After these rounds, in order.
fn after(rounds: &[Round]) -> Gather {
    let mut gather = Gather::default();
    for (members, waiting, length) in rounds {
        gather.ended(*members, *waiting, *length);
    }
    gather
}

fn until(until: u64, at_most: Duration) -> Window {
    Window { until, at_most }
}

#[test]
fn a_leader_waits_for_those_who_were_under_way_half_as_long_as_a_round_takes() {
    let table: [Row; 11] = [
        ("the first round", &[], 1, None),
        ("one thread alone", &[(1, 0, MS2), (1, 0, MS2)], 1, None),
        (
            "two that take turns",
            &[(1, 1, MS2), (1, 1, MS2)],
            1,
            Some(until(2, MS)),
        ),
        (
            "eight in two halves",
            &[(4, 4, MS2), (4, 4, MS2)],
            4,
            Some(until(8, MS)),
        ),
        (
            "the first back of eight",
            &[(8, 0, MS2), (8, 0, MS2)],
            1,
            Some(until(8, MS)),
        ),
        ("all are there", &[(4, 4, MS2), (4, 4, MS2)], 8, None),
        ("more than expected", &[(4, 4, MS2), (4, 4, MS2)], 9, None),
        ("the last round counts heads", &[(8, 0, MS2), (1, 0, MS2)], 1, None),
        (
            "one round was slow",
            &[(2, 0, MS2), (2, 0, MS90)],
            1,
            Some(until(2, MS)),
        ),
        (
            "a disk that hangs",
            &[(8, 0, MS90), (8, 0, SECS8)],
            3,
            Some(until(8, Duration::from_millis(5))),
        ),
        ("a disk that takes no time", &[(8, 0, US15), (8, 0, US15)], 3, None),
    ];
    for (what, rounds, staged, expected) in table {
        assert_eq!(after(rounds).window(staged), expected, "{what}");
    }
}

#[test]
fn who_does_not_come_is_waited_for_less_and_less_often() {
    let mut gather = after(&[(2, 0, MS2), (2, 0, MS2)]);
    let mut rests = Vec::new();
    for _ in 0..8 {
        let expected = gather.window(1).expect("the rest is over");
        gather.waited(expected, 1, 1);
        let mut rest = 0;
        loop {
            gather.ended(2, 0, MS2);
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
        let mut gather = after(&[(4, 4, MS2), (4, 4, MS2)]);
        // In vain before, so that the next time in vain costs more than the round that is about to end.
        gather.waited(expected, 4, 4);
        gather.ended(4, 4, MS2);
        gather.waited(expected, before, staged);
        gather.ended(4, 4, MS2);
        assert_eq!(gather.window(4).is_some(), again, "before={before}, staged={staged}");
    }
}
