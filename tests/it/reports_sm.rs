//! Field reports about guards of state machines (kind SM).

use sprag::{Condition, Error, ErrorKind, Keys, Store, Table, Transitioned, Why};

use crate::common::{at_once, kind_of, version};

sprag::machine! {
    /// Where an order stands.
    enum Paying: "paying" { Pending = "pending", Paid = "paid", Cancelled = "cancelled", Refunded = "refunded" }
    initial Pending;
    Pending => Paid, Cancelled;
    Paid => Refunded;
}

sprag::machine! {
    /// Where a job stands.
    enum Running: "running" { Ready = "ready", Claimed = "claimed", Finished = "finished", Failed = "failed" }
    initial Ready;
    Ready => Claimed;
    Claimed => Finished, Failed;
}

const ORDERS: Table<u64, String, Paying> = Table::new("orders");
const HISTORY: Table<(u64, u64), String> = Table::new("history");
const JOBS: Table<u64, u64, Running> = Table::new("jobs");
const CLAIMS: Table<u64, u64> = Table::new("claims");
const OUTCOMES: Table<(u64, u64), ()> = Table::new("outcomes");

/// SM-1: the rule was checked on a copy in memory, so two moves that exclude each other both succeeded.
#[test]
fn of_eight_moves_out_of_one_state_one_side_wins_and_the_other_is_told_by_whom() {
    const RECORDS: u64 = 1000;
    let store = Store::in_memory().expect("a store");
    store
        .write(|tx| (0..RECORDS).try_for_each(|order| tx.put(ORDERS, &order, &"an order".to_owned()).map(drop)))
        .expect("written");
    let barrier = std::sync::Barrier::new(8);
    let answers: Vec<Vec<Transitioned>> = at_once(8, |thread| {
        let to = if thread % 2 == 0 {
            Paying::Paid
        } else {
            Paying::Cancelled
        };
        let one = |order: u64| {
            barrier.wait();
            let moved = store.write(|tx| {
                let moved = tx.transition(ORDERS, &order, Paying::Pending, to)?;
                if let Transitioned::Applied(version) = &moved {
                    tx.put(HISTORY, &(order, version.get()), &format!("{to:?} by {thread}"))?;
                }
                Ok::<_, Error>(moved)
            });
            moved.expect("an answer, and no error")
        };
        (0..RECORDS).map(one).collect()
    });
    for order in 0..RECORDS {
        let record = store.get(ORDERS, &order).expect("readable").expect("there");
        assert_eq!(record.version, version(2));
        let (mut applied, mut already, mut refused) = (0, 0, 0);
        for answers in &answers {
            match &answers[order as usize] {
                Transitioned::Applied(_) => applied += 1,
                Transitioned::AlreadyThere(version) => {
                    assert_eq!(version.get(), 2);
                    already += 1;
                }
                Transitioned::Refused(refusal) => {
                    assert_eq!(refusal.why, Why::NoPath, "paid and cancelled exclude each other");
                    let found = refusal.found.decode(ORDERS).expect("readable").expect("there");
                    assert_eq!(found, record, "the loser is told the state that the winner set");
                    refused += 1;
                }
            }
        }
        assert_eq!((applied, already, refused), (1, 3, 4), "order {order}");
        let lines = store
            .read(|tx| tx.scan(HISTORY, Keys::first(&order)).map(Iterator::count))
            .expect("a scan");
        assert_eq!(lines, 1, "order {order}");
    }
}

/// SM-1: a refused move of a longer write takes the rest with it if its caller says so, and only then.
#[test]
fn a_refused_move_writes_nothing_and_says_why() {
    let store = Store::in_memory().expect("a store");
    let put = |order, state: Paying| {
        let create = store.write(|tx| tx.create(ORDERS, &order, &"an order".to_owned(), &state));
        create.expect("created").or_abort().expect("absent");
    };
    put(1, Paying::Pending);
    put(2, Paying::Paid);
    put(3, Paying::Cancelled);
    put(4, Paying::Refunded);
    let cases = [
        (1, Paying::Paid, Paying::Refunded, Why::Early),
        (4, Paying::Pending, Paying::Paid, Why::Late),
        (3, Paying::Pending, Paying::Paid, Why::NoPath),
        (3, Paying::Paid, Paying::Refunded, Why::NoPath),
        (2, Paying::Pending, Paying::Cancelled, Why::NoPath),
        (9, Paying::Pending, Paying::Paid, Why::Missing),
    ];
    for (order, from, to, why) in cases {
        let sequence = store.stats().expect("figures").sequence;
        let before = store.get(ORDERS, &order).expect("readable");
        let Transitioned::Refused(refusal) = store.transition(ORDERS, &order, from, to).expect("an answer") else {
            panic!("order {order} moved to {to:?}")
        };
        assert_eq!(refusal.why, why, "order {order} to {to:?}");
        assert_eq!(refusal.found.decode(ORDERS).expect("readable"), before);
        assert_eq!(store.stats().expect("figures").sequence, sequence);
        let aborted = store.write(|tx| {
            tx.put(HISTORY, &(order, 0), &"a note".to_owned())?;
            tx.transition(ORDERS, &order, from, to)?.or_abort()
        });
        let error = aborted.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(
            error.found().and_then(sprag::Found::version),
            before.map(|record| record.version)
        );
        assert_eq!(store.get(HISTORY, &(order, 0)).expect("readable"), None);
        // Who ignores the refusal commits the rest.
        let ignored = store.write(|tx| {
            tx.put(HISTORY, &(order, 0), &"a note".to_owned())?;
            tx.transition(ORDERS, &order, from, to).map(drop)
        });
        ignored.expect("written");
        assert!(store.delete(HISTORY, &(order, 0)).expect("removed").is_some());
    }
}

/// SM-1: a write beside the state keeps it, and what a create would have made is not what a later state is.
#[test]
fn a_put_keeps_the_state_and_a_move_keeps_the_value() {
    let store = Store::in_memory().expect("a store");
    let value = |text: &str| text.to_owned();
    store.put(ORDERS, &1, &value("a")).expect("written");
    let read = || store.get(ORDERS, &1).expect("readable").expect("there");
    assert_eq!((read().state, read().version), (Paying::Pending, version(1)));
    store
        .transition(ORDERS, &1, Paying::Pending, Paying::Paid)
        .expect("an answer")
        .or_abort()
        .expect("applied");
    assert_eq!(
        (read().value, read().state, read().version),
        (value("a"), Paying::Paid, version(2))
    );
    store.put(ORDERS, &1, &value("b")).expect("written");
    assert_eq!(
        (read().value, read().state, read().version),
        (value("b"), Paying::Paid, version(3))
    );
    let with =
        |text: &str| store.write(|tx| tx.transition_with(ORDERS, &1, Paying::Paid, Paying::Refunded, &value(text)));
    assert_eq!(with("c").expect("an answer"), Transitioned::Applied(version(4)));
    assert_eq!((read().value, read().state), (value("c"), Paying::Refunded));
    assert_eq!(
        with("d").expect("an answer"),
        Transitioned::AlreadyThere(version(4)),
        "nothing was written"
    );
    assert_eq!(read().value, value("c"));
    // The very bytes, but not the state of a new record: a create did not make this.
    let absent = store
        .put_if(ORDERS, &1, Condition::Absent, &value("c"))
        .expect("an answer");
    assert!(absent.or_abort().is_err());
    let created = store
        .write(|tx| tx.create(ORDERS, &1, &value("c"), &Paying::Refunded))
        .expect("an answer");
    assert_eq!(created, sprag::Written::Unchanged(version(4)));
}

/// SM-2: a job ended both finished and failed, since its worker and a pruner each acted on a claim that was gone.
#[test]
fn a_job_that_two_want_to_end_ends_in_exactly_one_place() {
    let store = Store::in_memory().expect("a store");
    let (mut finished, mut failed) = (0, 0);
    for job in 0..2000_u64 {
        store
            .write(|tx| {
                tx.create(JOBS, &job, &0, &Running::Claimed)?.or_abort()?;
                tx.put(CLAIMS, &job, &job)
            })
            .expect("claimed");
        let end = |to: Running| {
            store.write(|tx| {
                // Removing what is gone already is no success: whoever ends the job must be the one who removes the claim.
                let had_it = tx.delete(CLAIMS, &job)?.is_some();
                let moved = tx.transition(JOBS, &job, Running::Claimed, to)?;
                assert_eq!(
                    had_it,
                    matches!(moved, Transitioned::Applied(_)),
                    "claim and state agree"
                );
                moved.or_abort()?;
                tx.put(OUTCOMES, &(job, to as u64), &())
            })
        };
        let outcomes = at_once(2, |who| end(if who == 0 { Running::Finished } else { Running::Failed }));
        let state = store.get(JOBS, &job).expect("readable").expect("there").state;
        match (&outcomes[0], &outcomes[1]) {
            (Ok(_), Err(lost)) => {
                assert_eq!((state, lost.kind()), (Running::Finished, ErrorKind::Conflict));
                finished += 1;
            }
            (Err(lost), Ok(_)) => {
                assert_eq!((state, lost.kind()), (Running::Failed, ErrorKind::Conflict));
                failed += 1;
            }
            _ => panic!("job {job}: {outcomes:?}"),
        }
        let places = store
            .read(|tx| tx.scan(OUTCOMES, Keys::first(&job)).map(Iterator::count))
            .expect("a scan");
        assert_eq!(places, 1, "job {job}");
        assert_eq!(
            kind_of(end(Running::Finished).and(end(Running::Failed))),
            ErrorKind::Conflict,
            "both too late"
        );
    }
    println!("finished={finished}, failed={failed}");
}
