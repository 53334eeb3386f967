//! The table this project exists for: whatever the number of deliveries, the record is as after one.
//!
//! Each technique, and each way to get it wrong, is a handler for the message "add 40 to 100", that is "140, from
//! version 7 to 8". One function delivers and returns what is stored afterwards; the right handlers must give exactly the
//! expected record, and the wrong ones, through the same function, must not.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use sprag::{Condition, Error, Keep, Once, OnceKey, Options, Store, Table, Transitioned, Written};

use crate::common::{at_once, folder, version};

sprag::machine! {
    /// Where an order stands.
    enum OrderState: "orders" { New = "new", Packed = "packed", Shipped = "shipped" }
    initial New;
    New => Packed;
    Packed => Shipped;
}

/// Every handler works on the same sort of record, so that one function can look at all of them.
const ACCOUNTS: Table<u64, i64, OrderState> = Table::new("accounts");
const DONE: Table<str, ()> = Table::new("done");
const ACCOUNT: u64 = 51;
const MESSAGE: &str = "add 40";

/// Why a delivery ended without an answer.
#[derive(Debug)]
enum Failed {
    Store(Error),
    /// The process would have died here.
    Cut,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
}

/// One arrival of the message.
struct Delivery<'a> {
    attempt: usize,
    /// Deliveries that come at once wait here for each other: outside of a write, at the handler's weakest place.
    meet: &'a (dyn Fn() + Sync),
    /// This delivery ends at the handler's weakest place.
    is_cut: bool,
}

impl Delivery<'_> {
    fn may_be_cut(&self) -> Result<(), Failed> {
        if self.is_cut { Err(Failed::Cut) } else { Ok(()) }
    }
}

/// What one delivery was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    DoneNow,
    DoneBefore,
    Lost,
}

type Handler = fn(&Store, &Delivery<'_>) -> Result<Answer, Failed>;

/// What is stored after all deliveries.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    value: i64,
    version: u64,
    state: OrderState,
    /// How many deliveries were told that they did it.
    done_now: usize,
}

fn once_applied(state: OrderState) -> Found {
    Found {
        value: 140,
        version: 8,
        state,
        done_now: 1,
    }
}

#[derive(Clone, Copy, Debug)]
enum Deliveries {
    OneByOne(usize),
    /// On as many threads.
    AtOnce(usize),
    /// The first one ends at the handler's weakest place, and the message comes again.
    CutThenAgain,
    /// The store is closed and opened between any two.
    Reopened(usize),
}

const ALL: [Deliveries; 7] = [
    Deliveries::OneByOne(1),
    Deliveries::OneByOne(2),
    Deliveries::OneByOne(3),
    Deliveries::OneByOne(11),
    Deliveries::AtOnce(8),
    Deliveries::CutThenAgain,
    Deliveries::Reopened(3),
];

/// Delivers to a record with 100 at version 7, and returns what is stored then.
fn deliver(handler: Handler, deliveries: Deliveries) -> Found {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let mut store = Options::new()
        .log_half_bytes(64 << 10)
        .create_new(&path)
        .expect("a new store");
    prepare(&store);
    let done_now = AtomicUsize::new(0);
    let hand_in = |store: &Store, delivery: Delivery<'_>| match handler(store, &delivery) {
        Ok(Answer::DoneNow) => drop(done_now.fetch_add(1, Ordering::Relaxed)),
        Ok(Answer::DoneBefore | Answer::Lost) => {}
        Err(Failed::Cut) => assert!(delivery.is_cut, "only a delivery that is to be cut is"),
        Err(Failed::Store(error)) => panic!("{error:?}"),
    };
    let alone = |attempt, is_cut| Delivery {
        attempt,
        meet: &|| {},
        is_cut,
    };
    match deliveries {
        Deliveries::OneByOne(count) => (0..count).for_each(|attempt| hand_in(&store, alone(attempt, false))),
        Deliveries::AtOnce(count) => {
            let barrier = Barrier::new(count);
            let meet = || {
                barrier.wait();
            };
            at_once(count, |attempt| {
                hand_in(
                    &store,
                    Delivery {
                        attempt,
                        meet: &meet,
                        is_cut: false,
                    },
                );
            });
        }
        Deliveries::CutThenAgain => {
            hand_in(&store, alone(0, true));
            hand_in(&store, alone(1, false));
        }
        Deliveries::Reopened(count) => {
            for attempt in 0..count {
                hand_in(&store, alone(attempt, false));
                store.close().expect("closed");
                store = Store::open(&path).expect("opened again");
            }
        }
    }
    let record = store.get(ACCOUNTS, &ACCOUNT).expect("readable").expect("there");
    let done_now = done_now.into_inner();
    Found {
        value: record.value,
        version: record.version.get(),
        state: record.state,
        done_now,
    }
}

fn prepare(store: &Store) {
    let create = |tx: &mut sprag::WriteTx<'_>| tx.create(ACCOUNTS, &ACCOUNT, &10, &OrderState::Packed);
    assert_eq!(store.write(create).expect("created"), Written::Applied(version(1)));
    for value in [20, 30, 40, 50, 60, 100] {
        store.put(ACCOUNTS, &ACCOUNT, &value).expect("written");
    }
    assert_eq!(
        store.get(ACCOUNTS, &ACCOUNT).expect("readable").expect("there").version,
        version(7)
    );
}

fn answer_of(written: Written) -> Answer {
    match written {
        Written::Applied(_) => Answer::DoneNow,
        Written::Unchanged(_) => Answer::DoneBefore,
        Written::Conflict(_) => Answer::Lost,
    }
}

fn answer_of_once<R>(once: &Once<R>) -> Answer {
    if once.is_repeat() {
        Answer::DoneBefore
    } else {
        Answer::DoneNow
    }
}

fn add_40(tx: &mut sprag::WriteTx<'_>) -> Result<i64, Failed> {
    let value = tx.get(ACCOUNTS, &ACCOUNT)?.map_or(0, |record| record.value) + 40;
    tx.put(ACCOUNTS, &ACCOUNT, &value)?;
    Ok(value)
}

// The right ones.

fn set(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    let written = store.put_if(ACCOUNTS, &ACCOUNT, Condition::Any, &140)?;
    delivery.may_be_cut()?;
    Ok(answer_of(written))
}

fn conditional_write(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    let written = store.put_if(ACCOUNTS, &ACCOUNT, Condition::Version(7), &140)?;
    delivery.may_be_cut()?;
    Ok(answer_of(written))
}

fn state_machine(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    let moved =
        store.write(|tx| tx.transition_with(ACCOUNTS, &ACCOUNT, OrderState::Packed, OrderState::Shipped, &140))?;
    delivery.may_be_cut()?;
    Ok(match moved {
        Transitioned::Applied(_) => Answer::DoneNow,
        Transitioned::AlreadyThere(_) => Answer::DoneBefore,
        Transitioned::Refused(_) => Answer::Lost,
    })
}

fn remembered_key(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    let key = OnceKey::new("messages", MESSAGE, Keep::Forever).bound_to("+40");
    let once = store.once(&key, |tx| {
        let value = add_40(tx)?;
        delivery.may_be_cut()?;
        Ok::<_, Failed>(value)
    })?;
    assert_eq!(
        once.clone().into_result(),
        140,
        "every delivery gets the first one's result"
    );
    Ok(answer_of_once(&once))
}

// The wrong ones.

fn nothing_at_all(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    store.write(add_40)?;
    delivery.may_be_cut()?;
    Ok(Answer::DoneNow)
}

fn check_outside_of_the_write(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    let is_done = store.get(DONE, MESSAGE)?.is_some();
    (delivery.meet)();
    if is_done {
        return Ok(Answer::DoneBefore);
    }
    store.write(|tx| {
        add_40(tx)?;
        tx.put(DONE, MESSAGE, &())?;
        Ok::<_, Failed>(Answer::DoneNow)
    })
}

fn key_in_an_earlier_commit(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    let once = store.once(&OnceKey::new("messages", MESSAGE, Keep::Forever), |_| {
        Ok::<_, Failed>(())
    })?;
    delivery.may_be_cut()?;
    if !once.is_repeat() {
        store.write(add_40)?;
    }
    Ok(answer_of_once(&once))
}

fn key_in_a_later_commit(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    if store.remembered("messages", MESSAGE)?.is_some() {
        return Ok(Answer::DoneBefore);
    }
    store.write(add_40)?;
    delivery.may_be_cut()?;
    store.once(&OnceKey::new("messages", MESSAGE, Keep::Forever), |_| {
        Ok::<_, Failed>(())
    })?;
    Ok(Answer::DoneNow)
}

fn key_per_attempt(store: &Store, delivery: &Delivery<'_>) -> Result<Answer, Failed> {
    (delivery.meet)();
    let key = OnceKey::new("messages", format!("{MESSAGE} #{}", delivery.attempt), Keep::Forever);
    Ok(answer_of_once(&store.once(&key, add_40)?))
}

fn is_right(handler: Handler, state: OrderState) {
    for deliveries in ALL {
        let found = deliver(handler, deliveries);
        let mut expected = once_applied(state);
        if matches!(deliveries, Deliveries::CutThenAgain) {
            // A delivery that is cut behind its commit did the work and told nobody.
            expected.done_now = found.done_now.min(1);
        }
        assert_eq!(found, expected, "{deliveries:?}");
    }
}

#[test]
fn a_message_that_carries_the_value_sets_it_once_however_often_it_comes() {
    is_right(set, OrderState::Packed);
}

#[test]
fn a_conditional_write_is_applied_once_however_often_it_comes() {
    is_right(conditional_write, OrderState::Packed);
}

#[test]
fn a_transition_is_made_once_however_often_it_comes() {
    is_right(state_machine, OrderState::Shipped);
}

#[test]
fn work_under_a_remembered_key_is_done_once_however_often_it_comes() {
    is_right(remembered_key, OrderState::Packed);
}

#[test]
fn a_handler_without_a_technique_adds_at_every_delivery() {
    let counts = [(1, 140), (2, 180), (3, 220), (11, 540)];
    for (count, value) in counts {
        let found = deliver(nothing_at_all, Deliveries::OneByOne(count));
        let version = 7 + count as u64;
        assert_eq!(
            found,
            Found {
                value,
                version,
                state: OrderState::Packed,
                done_now: count
            }
        );
    }
    let at_once = deliver(nothing_at_all, Deliveries::AtOnce(8));
    assert_eq!((at_once.value, at_once.version), (420, 15));
    assert_ne!(
        deliver(nothing_at_all, Deliveries::CutThenAgain),
        once_applied(OrderState::Packed)
    );
}

/// A wrong handler gets through the easy deliveries and must be caught by the one that it is wrong about.
fn is_wrong(handler: Handler, deliveries: Deliveries, value: i64, version: u64) {
    let found = deliver(handler, Deliveries::OneByOne(1));
    assert_eq!(found, once_applied(OrderState::Packed), "one delivery shows nothing");
    let found = deliver(handler, deliveries);
    assert_ne!(
        found,
        once_applied(OrderState::Packed),
        "the wrong handler was not caught"
    );
    assert_eq!((found.value, found.version), (value, version));
}

#[test]
fn a_check_outside_of_the_write_lets_eight_through() {
    is_wrong(check_outside_of_the_write, Deliveries::AtOnce(8), 420, 15);
}

#[test]
fn a_key_in_an_earlier_commit_loses_the_work_of_a_cut_delivery() {
    is_wrong(key_in_an_earlier_commit, Deliveries::CutThenAgain, 100, 7);
}

#[test]
fn a_key_in_a_later_commit_doubles_the_work_of_a_cut_delivery() {
    is_wrong(key_in_a_later_commit, Deliveries::CutThenAgain, 180, 9);
}

#[test]
fn a_key_per_attempt_remembers_nothing() {
    is_wrong(key_per_attempt, Deliveries::OneByOne(2), 180, 9);
    is_wrong(key_per_attempt, Deliveries::AtOnce(8), 420, 15);
}

/// The documented limit of conditions: they make repeats harmless and prove no ownership.
#[test]
fn two_writers_of_equal_bytes_are_both_told_success() {
    let store = Store::in_memory().expect("a store");
    prepare(&store);
    let answers = at_once(2, |_| {
        store
            .put_if(ACCOUNTS, &ACCOUNT, Condition::Version(7), &140)
            .expect("an answer")
    });
    assert!(answers.contains(&Written::Applied(version(8))), "{answers:?}");
    assert!(answers.contains(&Written::Unchanged(version(8))), "{answers:?}");
    assert!(answers.into_iter().all(|written| written.or_abort().is_ok()));

    let answers = at_once(2, |_| {
        store.put_if(ACCOUNTS, &52, Condition::Absent, &1).expect("an answer")
    });
    assert!(answers.contains(&Written::Applied(version(1))) && answers.contains(&Written::Unchanged(version(1))));

    // With an owner in the value one of them is told that it lost, and by whom.
    let answers = at_once(2, |owner| {
        store
            .put_if(ACCOUNTS, &53, Condition::Absent, &(owner as i64))
            .expect("an answer")
    });
    let lost: Vec<_> = answers
        .into_iter()
        .filter_map(|written| written.or_abort().err())
        .collect();
    let [lost] = &lost[..] else {
        panic!("one of the two loses: {lost:?}")
    };
    let found = lost
        .found()
        .expect("what was found")
        .decode(ACCOUNTS)
        .expect("readable")
        .expect("there");
    assert_eq!(Some(found), store.get(ACCOUNTS, &53).expect("readable"));
}

/// A repeat that arrives after yet another write hears Conflict: that is what remembered keys are for.
#[test]
fn a_conditional_write_that_is_repeated_late_hears_conflict_and_changes_nothing() {
    let store = Store::in_memory().expect("a store");
    prepare(&store);
    let write = || {
        store
            .put_if(ACCOUNTS, &ACCOUNT, Condition::Version(7), &140)
            .expect("an answer")
    };
    assert_eq!(write(), Written::Applied(version(8)));
    store.put(ACCOUNTS, &ACCOUNT, &500).expect("written");
    let Written::Conflict(found) = write() else {
        panic!("a late repeat is no success")
    };
    assert_eq!((found.version(), found.state()), (Some(version(9)), Some("packed")));
    assert_eq!(
        store.get(ACCOUNTS, &ACCOUNT).expect("readable").expect("there").value,
        500
    );
}
