//! Loom models of the bell: every interleaving of one who makes work with those who wait for it.

use std::sync::atomic::{AtomicUsize, Ordering as Counted};
use std::time::Duration;

use super::Bell;
use crate::sync::atomic::{AtomicUsize as Work, Ordering};
use crate::sync::{Arc, spawn};

/// How often something was reached over all executions of a model. A model in which nobody ever sleeps proves nothing.
#[derive(Default)]
struct Reached {
    slept: AtomicUsize,
    found_at_once: AtomicUsize,
}

/// Takes one piece of work, or sleeps until there is some.
fn take_one(bell: &Bell, work: &Work, limit: Option<(Duration, u64)>, reached: &Reached) {
    let mut slept = false;
    loop {
        let seen = bell.rung();
        let took = work.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if took.is_ok() {
            let count = if slept { &reached.slept } else { &reached.found_at_once };
            count.fetch_add(1, Counted::Relaxed);
            return;
        }
        slept = true;
        bell.wait(seen, limit);
    }
}

fn check(name: &str, body: impl Fn(&std::sync::Arc<Reached>) + Send + Sync + 'static) {
    let reached = std::sync::Arc::new(Reached::default());
    let seen = reached.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || body(&seen));
    assert!(reached.slept.load(Counted::Relaxed) > 0, "{name}: nobody ever slept");
    assert!(
        reached.found_at_once.load(Counted::Relaxed) > 0,
        "{name}: nobody was ever in time"
    );
}

#[test]
fn whoever_sleeps_is_woken_by_work_that_comes() {
    check("one ring for each piece of work", |reached| {
        let (bell, work) = (Arc::new(Bell::default()), Arc::new(Work::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (bell, work, reached) = (bell.clone(), work.clone(), reached.clone());
                spawn("worker", move || take_one(&bell, &work, None, &reached)).expect("a thread")
            })
            .collect();
        for _ in 0..2 {
            work.fetch_add(1, Ordering::AcqRel);
            bell.ring();
        }
        for worker in workers {
            worker.join().expect("it took one");
        }
        assert_eq!(work.load(Ordering::Acquire), 0);
    });
}

#[test]
fn a_lease_that_ends_earlier_than_anybody_looks_again_wakes_a_sleeper() {
    check("a lease that nobody would look at", |reached| {
        let (bell, work) = (Arc::new(Bell::default()), Arc::new(Work::new(0)));
        let sleeper = {
            let (bell, work, reached) = (bell.clone(), work.clone(), reached.clone());
            // Looks again by itself only at 9 of running time.
            spawn("sleeper", move || {
                take_one(&bell, &work, Some((Duration::MAX, 9)), &reached)
            })
            .expect("a thread")
        };
        work.fetch_add(1, Ordering::AcqRel);
        bell.ring_unless_awake_by(5);
        sleeper.join().expect("it took one");
    });
}
