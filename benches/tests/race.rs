//! The race itself: who does less is found out, and who does all of it passes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sprag_benches::load::{Contents, Load, Step};
use sprag_benches::peer::{Failure, Peer};
use sprag_benches::race::{Entrant, Pace, Slice, race};
use sprag_benches::report::{Goal, Heat, Spread, Target};

const RECORDS: u64 = 100_000;

/// What a peer leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lazy {
    Nothing,
    EveryHundredthKey,
    TheLastValue,
}

/// Keeps everything in memory, except what it is too lazy for.
struct Paper {
    name: &'static str,
    lazy: Lazy,
    steps: Mutex<Vec<Step>>,
}

impl Peer for Paper {
    fn name(&self) -> &str {
        self.name
    }

    fn commit(&self, _thread: usize, step: &Step) -> Result<(), Failure> {
        std::thread::yield_now();
        let step = Step {
            value: step.value.clone(),
            extra_value: step.extra_value.clone(),
            ..*step
        };
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step);
        Ok(())
    }

    fn contents(&self) -> Result<Option<Contents>, Failure> {
        let mut records: Vec<(u64, String)> = (0..RECORDS).map(|id| (1, Load::first_value(id))).collect();
        let mut contents = Contents::default();
        for step in self.steps.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let record = &mut records[step.record as usize];
            assert_eq!(record.0, step.version, "a step expects a version that is not there");
            record.0 += 1;
            if self.lazy != Lazy::TheLastValue {
                record.1.clone_from(&step.value);
            }
            if self.lazy != Lazy::EveryHundredthKey || step.extra % 100 != 99 {
                contents.add_key(&step.key);
            }
            contents.add_extra(step.extra, &step.extra_value);
        }
        for (id, (version, value)) in (0..).zip(&records) {
            contents.add_record(id, *version, value);
        }
        Ok(Some(contents))
    }
}

fn ran(name: &'static str, lazy: Lazy, threads: usize) -> (Vec<Entrant>, Result<(), Failure>) {
    let paper = Paper {
        name,
        lazy,
        steps: Mutex::default(),
    };
    let mut entrants = vec![Entrant::new(Box::new(paper), std::path::Path::new("."))];
    let pace = Pace {
        rounds: 3,
        slice: Duration::from_millis(20),
        patience: Duration::ZERO,
    };
    let outcome = race(&mut entrants, &Load::new(RECORDS), threads, pace);
    (entrants, outcome)
}

#[test]
fn a_peer_that_does_all_of_it_passes_at_any_number_of_threads() {
    for threads in [1, 8] {
        let (entrants, outcome) = ran("all", Lazy::Nothing, threads);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(entrants[0].slices.len(), 3);
    }
}

#[test]
fn a_peer_that_leaves_out_a_key_or_a_value_is_found_out() {
    for lazy in [Lazy::EveryHundredthKey, Lazy::TheLastValue] {
        let (_, outcome) = ran("lazy", lazy, 1);
        let text = outcome.map_err(|failure| failure.to_string());
        assert!(
            text.as_ref()
                .is_err_and(|text| text.contains("does not hold what it was given")),
            "{text:?}"
        );
    }
}

#[test]
fn the_expected_versions_follow_the_steps_over_several_laps() {
    let load = Load::new(RECORDS);
    let steps = 2 * RECORDS + 17;
    let expected = load.expected(steps);
    assert_eq!(expected.records, RECORDS);
    assert_eq!(expected.versions, RECORDS + steps);
    assert_eq!((expected.keys, expected.extras), (steps, steps));
    assert_eq!(load.step(steps).version, 3);
    assert_eq!(load.step(17).record, load.step(RECORDS + 17).record);
}

#[test]
fn a_heat_without_a_yardstick_is_refused() {
    let (entrants, _) = ran("floor of paper", Lazy::Nothing, 1);
    let refused = Heat::of(1, &entrants)
        .map(|_| ())
        .map_err(|failure| failure.to_string());
    assert_eq!(refused, Err("nobody raced as sqlite".to_owned()));
}

#[test]
fn a_spread_is_the_middle_and_both_ends() {
    let spread = Spread::of([5.0, 1.0, 9.0]).map(|spread| (spread.median, spread.min, spread.max));
    assert_eq!(spread, Some((5.0, 1.0, 9.0)));
    assert!(Spread::of([]).is_none());
}

#[test]
fn a_target_that_nobody_ran_for_is_not_met() {
    let target = Target {
        threads: 8,
        goal: Goal::OfFloor(2.0),
    };
    let verdict = target.judge(&[], "sprag");
    assert_eq!(verdict.met, None);
    assert_eq!(verdict.text(), " 8 threads, 2.00 of floor or better: - not measured");
}

#[test]
fn a_ratio_is_taken_within_a_round_and_judged_by_its_median() -> Result<(), Failure> {
    let paper = |name, rates: [f64; 3]| {
        let steps = Mutex::default();
        let lazy = Lazy::Nothing;
        let mut entrant = Entrant::new(Box::new(Paper { name, lazy, steps }), std::path::Path::new("."));
        entrant.slices = rates.map(slice).to_vec();
        entrant
    };
    // The machine slows down from round to round; of the two floors the second is faster by median.
    let entrants = [
        paper("floor one", [900.0, 90.0, 9.0]),
        paper("floor two", [1000.0, 100.0, 10.0]),
        paper("sqlite", [500.0, 50.0, 5.0]),
        paper("sprag", [1900.0, 200.0, 30.0]),
    ];
    let heat = Heat::of(8, &entrants)?;
    let goal = |goal| Target { threads: 8, goal }.judge(std::slice::from_ref(&heat), "sprag");
    let spread = goal(Goal::OfFloor(2.0))
        .found
        .map(|spread| (spread.median, spread.min, spread.max));
    assert_eq!(spread, Some((2.0, 1.9, 3.0)));
    assert_eq!(goal(Goal::OfFloor(2.0)).met, Some(true));
    assert_eq!(goal(Goal::OfFloor(2.01)).met, Some(false));
    assert_eq!(goal(Goal::OfSqlite(4.0)).met, Some(true));
    assert_eq!(goal(Goal::OfSqlite(4.01)).met, Some(false));
    assert_eq!(goal(Goal::LogBytesBelow(351.0)).met, Some(true));
    assert_eq!(goal(Goal::LogBytesBelow(350.0)).met, Some(false));
    Ok(())
}

#[test]
fn ratios_from_a_busy_machine_are_shown_and_not_judged() -> Result<(), Failure> {
    let paper = |name| {
        let (steps, lazy) = (Mutex::default(), Lazy::Nothing);
        let mut entrant = Entrant::new(Box::new(Paper { name, lazy, steps }), std::path::Path::new("."));
        let others = Some(0.5);
        entrant.slices = vec![Slice { others, ..slice(10.0) }];
        entrant
    };
    let heat = Heat::of(8, &["floor", "sqlite", "sprag"].map(paper))?;
    let verdict = |goal| Target { threads: 8, goal }.judge(std::slice::from_ref(&heat), "sprag");
    let ratio = verdict(Goal::OfFloor(0.5));
    assert_eq!((ratio.met, ratio.found.map(|spread| spread.median)), (None, Some(1.0)));
    assert!(
        ratio.text().ends_with("not judged, the machine was busy"),
        "{}",
        ratio.text()
    );
    assert_eq!(verdict(Goal::LogBytesBelow(400.0)).met, Some(true));
    Ok(())
}

fn slice(rate: f64) -> Slice {
    Slice {
        rate,
        settled_rate: rate,
        handed: Some(350.0),
        device: None,
        others: None,
    }
}
