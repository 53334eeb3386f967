//! What becomes of slices: percentiles, ratios, verdicts, and a file that several runs are merged into.

use std::time::Duration;

use serde_json::{Value, json};
use sprag_benches::entrant::Slice;
use sprag_benches::heat::Heat;
use sprag_benches::histogram::Histogram;
use sprag_benches::load::Load;
use sprag_benches::peer::{Failure, Subject};
use sprag_benches::peers;
use sprag_benches::race::{Contestant, Pace, Racer};
use sprag_benches::report::{Figures, Spread};
use sprag_benches::targets;

/// Times of all sizes: a walk that doubles and halves by a fixed rule.
fn times() -> Vec<u64> {
    let mut state = 0x5eed_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    (0..20_000).map(|_| (next() % 1_000_000) >> (next() % 20)).collect()
}

#[test]
fn percentiles_are_those_of_the_sorted_times_up_to_a_bucket() {
    let mut times = times();
    let mut histogram = Histogram::default();
    times.iter().for_each(|time| histogram.add(*time));
    times.sort_unstable();
    for share in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let place = (times.len() as f64 * share).ceil() as usize;
        let exact = times[place.max(1) - 1];
        let found = histogram.percentile(share).unwrap_or(0);
        assert!(found >= exact, "share={share}, exact={exact}, found={found}");
        assert!(
            found as f64 <= exact as f64 * 1.04,
            "share={share}, exact={exact}, found={found}"
        );
    }
    assert_eq!(histogram.percentile(1.0), times.last().copied());
    assert_eq!(Histogram::default().percentile(0.5), None);
}

#[test]
fn the_shortest_and_the_longest_time_have_a_bucket() {
    for time in [0, 1, 31, 32, 33, 63, 64, u64::MAX] {
        let mut histogram = Histogram::default();
        histogram.add(time);
        assert_eq!(histogram.percentile(0.5), Some(time), "time={time}");
    }
}

#[test]
fn histograms_merge_and_come_back_from_their_json() -> Result<(), Failure> {
    let times = times();
    let (mut all, mut parts) = (Histogram::default(), Histogram::default());
    times.iter().for_each(|time| all.add(*time));
    for half in times.chunks(7_000) {
        let mut part = Histogram::default();
        half.iter().for_each(|time| part.add(*time));
        parts.merge(&Histogram::from_json(&part.json())?);
    }
    assert_eq!(all, parts);
    assert!(Histogram::from_json(&json!({ "max": 1, "counts": [[1_000_000, 1]] })).is_err());
    Ok(())
}

#[test]
fn a_spread_is_the_middle_and_both_ends() {
    let spread = Spread::of([5.0, 1.0, 9.0]).map(|spread| (spread.median, spread.min, spread.max));
    assert_eq!(spread, Some((5.0, 1.0, 9.0)));
    assert!(Spread::of([]).is_none());
}

fn slice(rate: f64) -> Slice {
    let mut latency = Histogram::default();
    latency.add((1e9 / rate) as u64);
    Slice {
        done: 10,
        rate,
        settled_rate: rate,
        handed: Some(350.0),
        written: Some(400.0),
        latency,
        ..Slice::default()
    }
}

/// Its slices are given.
struct Nobody;

impl Racer for Nobody {
    fn slice(&mut self, _threads: usize, _time: Duration) -> Result<Slice, Failure> {
        Err("nobody runs".into())
    }

    fn check(&mut self) -> Result<(), Failure> {
        Err("nobody holds anything".into())
    }
}

fn contestant(subject: Subject, slices: Vec<Slice>) -> Contestant {
    let mut one = Contestant::new(subject, Load::new(1), Box::new(Nobody));
    one.slices = slices;
    one
}

fn heat(workload_threads: usize, contestants: &[Contestant]) -> Heat {
    let facts =
        json!({ "threads": workload_threads, "value_bytes": 100, "slow_sync_ms": 0, "keys": null, "variant": "" });
    let pace = Pace {
        threads: workload_threads,
        rounds: 3,
        slice: Duration::from_secs(1),
        patience: Duration::ZERO,
    };
    Heat::of(facts, "commits/s", pace, contestants, &[])
}

fn found(heat: &Heat, text: &str) -> (Option<f64>, Option<bool>) {
    let figures = Figures::from(Value::Null);
    let verdicts = targets::judge("hot-commit", heat, None, &figures);
    let verdict = verdicts.iter().find(|verdict| verdict.text.contains(text));
    verdict.map_or((None, None), |verdict| (verdict.found, verdict.met))
}

#[test]
fn a_ratio_is_taken_within_a_round_and_judged_by_its_median() -> Result<(), Failure> {
    let of = |subject, rates: [f64; 3]| contestant(subject, rates.map(slice).to_vec());
    // The machine slows down from round to round; of the two ways of SQLite the second is faster by median.
    let heat = heat(
        8,
        &[
            of(peers::sqlite::ONE_CONNECTION, [900.0, 90.0, 9.0]),
            of(peers::sqlite::CONNECTION_EACH, [1000.0, 100.0, 10.0]),
            of(peers::sqlite::NORMAL, [9000.0, 9000.0, 9000.0]),
            of(peers::sqlite::GROUPED, [1000.0, 101.0, 10.0]),
            of(peers::sprag::SYNC, [3900.0, 400.0, 60.0]),
        ],
    );
    let ours = heat.line("sprag").and_then(|line| heat.ratio(line, "sqlite"));
    let spread = ours.map(|spread| (spread.median, spread.min, spread.max));
    assert_eq!(spread, Some((4.0, 3.9, 6.0)));
    assert_eq!(found(&heat, "at least 4 x sqlite"), (Some(4.0), Some(true)));
    assert_eq!(found(&heat, "at least 2 x sqlite grouped").1, Some(true));
    assert_eq!(found(&heat, "at least 1 x fjall grouped"), (None, None));
    assert_eq!(found(&heat, "at most 0.1 of the bytes"), (Some(1.0), Some(false)));
    // Ours is the one with the longer tail of its slowest round only if it is slower there.
    assert_eq!(found(&heat, "p99.9").1, Some(true));
    Ok(())
}

#[test]
fn ratios_from_a_busy_machine_are_shown_and_not_judged() -> Result<(), Failure> {
    let busy = |subject| {
        let others = Some(0.5);
        contestant(subject, vec![Slice { others, ..slice(10.0) }])
    };
    let heat = heat(8, &[busy(peers::sqlite::ONE_CONNECTION), busy(peers::sprag::SYNC)]);
    assert_eq!(found(&heat, "at least 4 x sqlite"), (Some(1.0), None));
    assert_eq!(found(&heat, "at most 0.1 of the bytes"), (Some(1.0), Some(false)));
    Ok(())
}

#[test]
fn a_heat_without_a_yardstick_has_no_ratios() -> Result<(), Failure> {
    let heat = heat(1, &[contestant(peers::sprag::SYNC, vec![slice(10.0)])]);
    let run = heat.json();
    assert_eq!(run["peers"][0]["of_sqlite"], Value::Null);
    assert_eq!(run["peers"][0]["of_floor"], Value::Null);
    assert_eq!(found(&heat, "at least 1.5 x sqlite"), (None, None));
    Ok(())
}

fn run(threads: u64, keys: Option<u64>, rate: f64) -> Value {
    json!({
        "threads": threads, "value_bytes": 100, "slow_sync_ms": 0, "keys": keys, "variant": "",
        "peers": [{ "name": "sprag", "rate": { "median": rate } }],
    })
}

#[test]
fn a_run_takes_the_place_of_the_same_one_and_leaves_the_others() {
    let mut figures = Figures::from(Value::Null);
    figures.add_run("hot-commit", run(1, None, 10.0));
    figures.add_run("hot-commit", run(8, None, 80.0));
    figures.add_costs("sprag", json!({ "commits": 1 }));
    // Another day, another process: what was saved is read again.
    let mut figures = Figures::from(figures.value().clone());
    figures.add_run("hot-commit", run(8, None, 88.0));
    figures.add_run("growth", run(8, Some(10_000), 70.0));
    figures.add_run("growth", run(8, Some(1_000_000), 60.0));
    figures.add_costs("sqlite", json!({ "commits": 2 }));
    let value = figures.value();
    let rates = |workload: &str| -> Vec<f64> {
        let runs = value["runs"][workload].as_array().map_or(&[][..], |runs| runs);
        runs.iter()
            .filter_map(|run| run["peers"][0]["rate"]["median"].as_f64())
            .collect()
    };
    assert_eq!(
        (rates("hot-commit"), rates("growth")),
        (vec![10.0, 88.0], vec![70.0, 60.0])
    );
    assert_eq!(
        (
            &value["costs"]["sprag"]["commits"],
            &value["costs"]["sqlite"]["commits"]
        ),
        (&json!(1), &json!(2))
    );
    let like = run(8, Some(7), 0.0);
    let like = like.as_object().expect("an object");
    assert_eq!(figures.rate("hot-commit", like, "sprag"), Some(88.0));
    assert_eq!(figures.rate("hot-commit", like, "sqlite"), None);
}

#[test]
fn figures_of_another_format_are_not_gone_on_with() {
    let figures = Figures::from(json!({ "format": 2, "runs": { "hot-commit": [1] }, "costs": {} }));
    assert_eq!(figures.value(), &json!({ "format": 1, "runs": {}, "costs": {} }));
}

#[test]
fn what_a_commit_costs_is_averaged_over_commits_and_not_over_slices() {
    // A checkpoint falls into the slice with fewer commits.
    let slices = [(900, 100.0), (100, 1100.0)].map(|(done, written)| Slice {
        done,
        written: Some(written),
        ..slice(10.0)
    });
    let heat = heat(8, &[contestant(peers::sprag::SYNC, slices.to_vec())]);
    let costs = heat.costs();
    assert_eq!(costs[0].1["written_bytes_per_commit"], 200.0);
    assert_eq!(costs[0].1["commits"], 1000);
}
