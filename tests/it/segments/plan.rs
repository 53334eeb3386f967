//! Which segments are merged, by tables of values, and what that costs over a thousand checkpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use sprag::internals::plan::{MERGED_ENTRIES_MAX, class_of, next_merge, window_of};
use sprag::internals::segment::About;

const SEC: u64 = 1_000_000_000;
const FOREVER: u8 = u8::MAX;

fn about(id: u64, class: u8, window: u64, entries: u64) -> About {
    About {
        id,
        class,
        window,
        entries,
        values: entries,
        first_end_ns: u64::MAX,
        over_ns: u64::MAX,
        first_key: Arc::default(),
        last_key: Arc::default(),
    }
}

/// Segments of one class and window with these lengths, numbered from zero.
fn of_lengths(class: u8, window: u64, lengths: &[u64]) -> Vec<About> {
    let segments = (0..).zip(lengths);
    segments
        .map(|(id, entries)| about(id, class, window, *entries))
        .collect()
}

fn planned(segments: &[About], busy: &[u64], now_ns: u64) -> Option<Vec<u64>> {
    let segments: Vec<&About> = segments.iter().collect();
    let sources = next_merge(&segments, &busy.iter().copied().collect(), now_ns);
    sources.map(|ids| ids.into_iter().collect())
}

#[test]
fn a_class_goes_from_one_power_of_four_seconds_to_the_next() {
    let table = [
        (0, 0),
        (1, 0),
        (SEC, 0),
        (4 * SEC - 1, 0),
        (4 * SEC, 1),
        (16 * SEC - 1, 1),
        (16 * SEC, 2),
        (3600 * SEC, 5),
        (7 * 86_400 * SEC, 9),
        (u64::MAX - 1, 17),
    ];
    for (rest, class) in table {
        assert_eq!(class_of(rest, 0), class, "rest={rest}");
        let now = SEC.min(u64::MAX - 1 - rest);
        assert_eq!(class_of(rest + now, now), class, "rest={rest}, now={now}");
    }
    assert_eq!(class_of(5, 9), 0, "what is over is of the shortest class");
    for now in [0, SEC, u64::MAX] {
        assert_eq!(class_of(u64::MAX, now), FOREVER);
    }
}

#[test]
fn a_window_has_half_of_the_shortest_time_of_its_class() {
    for (class, half) in [(0, SEC / 2), (1, 2 * SEC), (5, 512 * SEC), (17, (SEC / 2) << 34)] {
        let edges = [(0, 0), (half - 1, 0), (half, 1), (2 * half - 1, 1), (2 * half, 2)];
        for (now, window) in edges {
            assert_eq!(window_of(class, now), window, "class={class}, now={now}");
        }
    }
    assert_eq!((window_of(FOREVER, 0), window_of(FOREVER, u64::MAX)), (0, 0));
    assert_eq!(
        window_of(254, u64::MAX),
        1,
        "no class is so long that a window overflows"
    );
}

#[test]
fn eight_segments_of_a_level_are_merged_and_smaller_ones_with_them() {
    let plan = |lengths: &[u64]| planned(&of_lengths(FOREVER, 0, lengths), &[], 0);
    assert_eq!(plan(&[]), None);
    assert_eq!(plan(&[10; 7]), None);
    assert_eq!(plan(&[10; 8]), Some((0..8).collect()));
    assert_eq!(plan(&[10; 20]), Some((0..20).collect()), "all that there are");
    // The levels begin at 1, 8, 64 and 512 entries.
    assert_eq!(plan(&[8, 63, 8, 63, 8, 63, 8, 63]), Some((0..8).collect()));
    assert_eq!(plan(&[7, 8, 8, 8, 8, 8, 8, 64]), None, "six of a level, and neighbours");
    assert_eq!(
        plan(&[600, 3, 100, 100, 100, 100, 100, 100, 100, 100]),
        Some((1..10).collect())
    );
    assert_eq!(plan(&[100; 65]), Some((0..64).collect()), "no more than 64 at once");
    // Eight of the lowest level come first, whatever is above.
    let both: Vec<u64> = [[100; 8], [2; 8]].concat();
    assert_eq!(plan(&both), Some((8..16).collect()));
}

#[test]
fn what_is_being_merged_is_left_alone() {
    let segments = of_lengths(FOREVER, 0, &[10; 16]);
    assert_eq!(
        planned(&segments, &[0, 1, 2, 3, 4, 5, 6, 7], 0),
        Some((8..16).collect())
    );
    assert_eq!(planned(&segments, &[0, 2, 4, 6, 8, 10, 12, 14, 15], 0), None);
}

#[test]
fn a_closed_window_becomes_one_segment_and_others_stay_apart() {
    // The windows of class 1 have two seconds.
    let open = of_lengths(1, 3, &[10, 1000]);
    assert_eq!(planned(&open, &[], 7 * SEC), None);
    assert_eq!(planned(&open, &[], 8 * SEC), Some(vec![0, 1]));
    assert_eq!(
        planned(&open[..1], &[], 8 * SEC),
        None,
        "one alone is merged with nothing"
    );
    let apart = [
        about(1, 1, 3, 10),
        about(2, 1, 4, 10),
        about(3, 2, 3, 10),
        about(4, FOREVER, 0, 10),
    ];
    assert_eq!(planned(&apart, &[], 1000 * SEC), None);
    assert_eq!(
        planned(&of_lengths(FOREVER, 0, &[10, 1000]), &[], u64::MAX),
        None,
        "that never closes"
    );
}

#[test]
fn no_merged_segment_is_larger_than_its_filter_may_be() {
    let plan = |lengths: &[u64], now| planned(&of_lengths(1, 0, lengths), &[], now);
    let eighth = MERGED_ENTRIES_MAX / 8;
    assert_eq!(plan(&[eighth; 8], 0), Some((0..8).collect()));
    assert_eq!(plan(&[eighth + 1; 8], 0), Some((0..7).collect()), "as many as fit");
    let few = [&[10; 7], &[MERGED_ENTRIES_MAX / 3; 8][..]].concat();
    assert_eq!(plan(&few, 0), None, "small ones would be merged again and again");
    assert_eq!(plan(&[eighth; 9], 0), Some((0..8).collect()), "as many as fit");
    let closed = 2 * SEC;
    assert_eq!(plan(&[MERGED_ENTRIES_MAX - 5, 5], closed), Some(vec![0, 1]));
    assert_eq!(plan(&[MERGED_ENTRIES_MAX - 5, 6], closed), None);
    assert_eq!(plan(&[MERGED_ENTRIES_MAX, 3, 4], closed), Some(vec![1, 2]));
}

/// What a thousand checkpoints made of a store.
#[derive(Debug, Default)]
struct Cost {
    /// Most segments at once.
    segments: usize,
    appended: u64,
    rewritten: u64,
}

/// A checkpoint each `every_ns` that brings so many keys with one keep; merges as the base makes them, in numbers only.
fn simulate(checkpoints: u64, keys: u64, every_ns: u64, keep_ns: u64) -> Cost {
    let mut cost = Cost::default();
    let mut segments: Vec<About> = Vec::new();
    // Sources, what is left to be read, and what will be there.
    let mut merges: Vec<(BTreeSet<u64>, u64, About)> = Vec::new();
    let mut next_id = 0;
    for checkpoint in 0..checkpoints {
        let now = checkpoint * every_ns;
        let mut id = || {
            next_id += 1;
            next_id
        };
        let busy: BTreeSet<u64> = merges.iter().flat_map(|(sources, ..)| sources.clone()).collect();
        segments.retain(|about| about.over_ns > now || busy.contains(&about.id));
        let readable = segments.len();
        let end = now.saturating_add(keep_ns);
        let class = class_of(end, now);
        segments.push(About {
            over_ns: end,
            ..about(id(), class, window_of(class, now), keys)
        });
        cost.appended += keys;
        let mut busy = busy;
        while let Some(sources) = next_merge(&segments[..readable].iter().collect::<Vec<_>>(), &busy, now) {
            busy.extend(&sources);
            let of: Vec<&About> = segments.iter().filter(|about| sources.contains(&about.id)).collect();
            let entries = of.iter().map(|about| about.entries).sum();
            let over_ns = of.iter().map(|about| about.over_ns).max().unwrap_or(0);
            let merged = About {
                over_ns,
                ..about(id(), of[0].class, of[0].window, entries)
            };
            merges.push((sources, entries, merged));
        }
        let mut budget = 512 + 8 * keys;
        merges.sort_by_key(|(.., merged)| merged.entries);
        while budget > 0 && !merges.is_empty() {
            let read = merges[0].1.min(budget);
            budget -= read;
            cost.rewritten += read;
            merges[0].1 -= read;
            if merges[0].1 == 0 {
                let (sources, _, merged) = merges.remove(0);
                segments.retain(|about| !sources.contains(&about.id));
                segments.push(merged);
            }
        }
        cost.segments = cost.segments.max(segments.len());
    }
    cost
}

#[test]
fn a_thousand_checkpoints_leave_few_segments_and_rewrite_each_entry_few_times() {
    let hour = 3600 * SEC;
    let sorts = [
        ("for ever", 6000, 30 * SEC, u64::MAX),
        ("seven days", 6000, 30 * SEC, 7 * 24 * hour),
        ("an hour", 6000, 30 * SEC, hour),
        ("ten minutes", 6000, 5 * SEC, 600 * SEC),
        ("a minute, rare checkpoints", 6000, 10 * SEC, 60 * SEC),
        ("small checkpoints", 200, SEC, 24 * hour),
        ("single keys", 1, SEC, 24 * hour),
    ];
    for (name, keys, every, keep) in sorts {
        let cost = simulate(1000, keys, every, keep);
        println!("{name}: {cost:?}");
        assert!(cost.segments <= 40, "{name}: {cost:?}");
        assert!(cost.rewritten <= 8 * cost.appended, "{name}: {cost:?}");
    }
    // Ten million keys are few segments as well.
    let cost = simulate(1700, 6000, SEC, u64::MAX);
    println!("ten million: {cost:?}");
    assert!(cost.segments <= 40 && cost.rewritten <= 8 * cost.appended, "{cost:?}");
}
