//! The proof kit: handlers that are wrong are found with a short history, and handlers that are right pass.

mod narrow;
mod wrong;

use std::time::Duration;

use sprag::testkit::{Broken, FarEnd, HungUp, Promise, Proof, Rule};
use sprag::{Condition, Error, ErrorKind, Keep, Once, OnceKey, Store, Table, Transitioned, Why, Written};

sprag::machine! {
    enum Stage: "stages" { New = "new", Packed = "packed", Shipped = "shipped" }
    initial New;
    New => Packed;
    Packed => Shipped;
}

const BALANCES: Table<u64, i64> = Table::new("balances");
const SEEN: Table<str, bool> = Table::new("seen");
const ATTEMPTS: Table<u64, u64> = Table::new("attempts");
const ORDERS: Table<u64, i64, Stage> = Table::new("orders");

/// Add this much to that account.
#[derive(Clone, Copy, Debug)]
struct Payment {
    id: &'static str,
    account: u64,
    amount: i64,
}

const PAYMENT: Payment = Payment {
    id: "evt-1",
    account: 51,
    amount: 40,
};

type Answer = Result<i64, Error>;

fn founded(store: &Store) -> Result<(), Error> {
    store.put(BALANCES, &51, &100)?;
    store.put(ORDERS, &904, &1).map(drop)
}

fn key(id: &str) -> OnceKey {
    OnceKey::new("payments", id, Keep::For(Duration::from_secs(7 * 86_400)))
}

fn balance(store: &Store) -> Answer {
    Ok(store.get(BALANCES, &51)?.map_or(0, |record| record.value))
}

fn add(store: &Store, payment: &Payment) -> Answer {
    store.write(|tx| {
        let balance = tx.get(BALANCES, &payment.account)?.map_or(0, |record| record.value) + payment.amount;
        tx.put(BALANCES, &payment.account, &balance)?;
        Ok(balance)
    })
}

/// Found, with a history of at most four deliveries.
#[track_caller]
fn found<E: std::fmt::Debug + Send>(
    handler: impl Fn(&Store, &Payment) -> Result<i64, E> + Sync,
    rule: Rule,
) -> Box<Broken> {
    let broken = Proof::of(handler, PAYMENT)
        .on(founded)
        .check()
        .expect_err("a wrong handler");
    println!("{broken}");
    assert_eq!(broken.rule(), rule, "{broken}");
    assert!(broken.deliveries() <= 4, "{broken}");
    broken
}

#[test]
fn a_key_in_an_earlier_commit_than_the_work_is_found() {
    let handler = |store: &Store, payment: &Payment| match store.once(&key(payment.id), |_| Ok::<_, Error>(()))? {
        Once::First(()) => add(store, payment),
        Once::Repeat { .. } => balance(store),
    };
    found(handler, Rule::OneCommit);
}

#[test]
fn a_check_in_one_transaction_and_the_write_in_another_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        if store.get(SEEN, payment.id)?.is_some() {
            return balance(store);
        }
        store.write(|tx| {
            let balance = tx.get(BALANCES, &payment.account)?.map_or(0, |record| record.value) + payment.amount;
            tx.put(BALANCES, &payment.account, &balance)?;
            tx.put(SEEN, payment.id, &true)?;
            Ok(balance)
        })
    };
    let broken = found(handler, Rule::LookAndWrite);
    assert_eq!(broken.deliveries(), 2);
    assert!(
        broken.steps()[0].starts_with("delivered 2 times at the same time"),
        "{broken}"
    );
}

/// What a handler with a far end fails with.
#[derive(Debug)]
#[expect(dead_code, reason = "shown by the kit only")]
enum Failed {
    Store(Error),
    FarEnd(HungUp),
}

impl From<Error> for Failed {
    fn from(cause: Error) -> Failed {
        Failed::Store(cause)
    }
}

impl From<HungUp> for Failed {
    fn from(cause: HungUp) -> Failed {
        Failed::FarEnd(cause)
    }
}

fn is_sent(store: &Store, id: &str) -> Result<bool, Error> {
    Ok(store.get(SEEN, id)?.is_some())
}

#[test]
fn a_sent_flag_before_the_send_loses_effects_and_keeps_them_from_happening_twice() {
    let far = FarEnd::new();
    let handler = |store: &Store, payment: &Payment| {
        let is_mine = store.put_if(SEEN, payment.id, Condition::Absent, &true)?;
        if matches!(is_mine, Written::Applied(_)) {
            far.call(payment.id)?;
        }
        Ok::<_, Failed>(())
    };
    for promise in [Promise::AtLeastOnce, Promise::OncePerEffectId] {
        let broken = Proof::of(handler, PAYMENT)
            .far_end(&far, promise)
            .check()
            .expect_err("a wrong handler");
        assert_eq!(
            (broken.rule(), broken.deliveries()),
            (Rule::RecordAfterEffect, 2),
            "{broken}"
        );
        assert_eq!(
            broken.differences(),
            ["effects at the far end: none, and of one delivery: evt-1 1 times"]
        );
    }
    Proof::of(handler, PAYMENT).far_end(&far, Promise::AtMostOnce).prove();
}

#[test]
fn a_sent_flag_after_the_send_sends_twice_and_loses_nothing() {
    let far = FarEnd::new();
    let handler = |store: &Store, payment: &Payment| {
        if !is_sent(store, payment.id)? {
            far.call(payment.id)?;
            store.put(SEEN, payment.id, &true)?;
        }
        Ok::<_, Failed>(())
    };
    let broken = Proof::of(handler, PAYMENT)
        .far_end(&far, Promise::AtMostOnce)
        .check()
        .expect_err("a wrong handler");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::RecordBeforeEffect, 2),
        "{broken}"
    );
    assert_eq!(
        broken.differences(),
        ["effects at the far end: evt-1 2 times, and of one delivery: evt-1 1 times"]
    );
    for promise in [Promise::AtLeastOnce, Promise::OncePerEffectId] {
        let proved = Proof::of(handler, PAYMENT).far_end(&far, promise).prove();
        assert_eq!(proved.effects(), 1);
    }
}

#[test]
fn an_effect_id_for_each_attempt_is_no_exactly_once_in_effect() {
    let far = FarEnd::new();
    let handler = |store: &Store, payment: &Payment| {
        let attempt = store.write(|tx| {
            let attempt = tx.get(ATTEMPTS, &1)?.map_or(0, |record| record.value) + 1;
            tx.put(ATTEMPTS, &1, &attempt)?;
            Ok::<_, Error>(attempt)
        })?;
        if !is_sent(store, payment.id)? {
            far.call(format!("{} {attempt}", payment.id))?;
            store.put(SEEN, payment.id, &true)?;
        }
        Ok::<_, Failed>(())
    };
    let proof = Proof::of(handler, PAYMENT).table_may_differ("attempts");
    let broken = proof
        .far_end(&far, Promise::OncePerEffectId)
        .check()
        .expect_err("a wrong handler");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::SameEffectId, 2),
        "{broken}"
    );
}

/// One message is right by itself; another one that comes at the same time is lost.
#[test]
fn an_update_that_another_message_takes_away_is_found() {
    let read_outside = |store: &Store, payment: &Payment| {
        let read = balance(store)?;
        store.once(&key(payment.id), |tx| {
            tx.put(BALANCES, &51, &(read + payment.amount)).map(drop)
        })?;
        Ok::<_, Error>(())
    };
    Proof::of(read_outside, PAYMENT).on(founded).prove();
    let other = Payment {
        id: "evt-2",
        amount: -7,
        ..PAYMENT
    };
    let broken = Proof::of(read_outside, PAYMENT)
        .on(founded)
        .among([other])
        .check()
        .expect_err("a lost update");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::LookAndWrite, 2),
        "{broken}"
    );
    assert!(
        broken.steps()[0].starts_with("message 1 and message 2 delivered at the same time"),
        "{broken}"
    );
    // So is a conflict that is passed over.
    let passed_over = |store: &Store, payment: &Payment| {
        let seen = store
            .get(BALANCES, &51)?
            .map_or((0, 1), |record| (record.value, record.version.get()));
        store.once(&key(payment.id), |tx| {
            let _ = tx.put_if(BALANCES, &51, Condition::Version(seen.1), &(seen.0 + payment.amount))?;
            Ok::<_, Error>(())
        })?;
        Ok::<_, Error>(())
    };
    let broken = Proof::of(passed_over, PAYMENT)
        .on(founded)
        .among([other])
        .check()
        .expect_err("a lost update");
    assert_eq!(broken.rule(), Rule::LookAndWrite, "{broken}");
}

#[test]
fn an_error_that_is_swallowed_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        let _ = store.once(&key(payment.id), |tx| {
            let balance = tx.get(BALANCES, &51)?.map_or(0, |record| record.value) + payment.amount;
            tx.put(BALANCES, &51, &balance).map(drop)
        });
        Ok::<_, Error>(())
    };
    let broken = Proof::of(handler, PAYMENT)
        .on(founded)
        .check()
        .expect_err("a wrong handler");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::PassErrorsOn, 1),
        "{broken}"
    );
}

#[test]
fn an_effect_that_is_given_up_is_found() {
    let far = FarEnd::new();
    let handler = |_: &Store, payment: &Payment| {
        let _ = (0..5).find(|_| far.call(payment.id).is_ok());
        Ok::<_, Error>(())
    };
    let broken = Proof::of(handler, PAYMENT)
        .far_end(&far, Promise::AtLeastOnce)
        .check()
        .expect_err("a wrong handler");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::RecordAfterEffect, 1),
        "{broken}"
    );
    assert!(
        broken.steps()[0].contains("the far end is down from before effect 1"),
        "{broken}"
    );
}

#[test]
fn what_does_not_follow_from_the_message_is_called_by_its_name() {
    let count = std::sync::atomic::AtomicI64::new(0);
    let handler = |store: &Store, payment: &Payment| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        store.once(&key(payment.id), |tx| tx.put(BALANCES, &51, &number).map(drop))?;
        Ok::<_, Error>(())
    };
    let broken = Proof::of(handler, PAYMENT)
        .on(founded)
        .check()
        .expect_err("a wrong handler");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::SameEachTime, 1),
        "{broken}"
    );
    let panics = |_: &Store, payment: &Payment| -> Answer { panic!("no such account, account={}", payment.account) };
    let broken = Proof::of(panics, PAYMENT).check().expect_err("a panic");
    assert!(
        broken.differences()[0].contains("a panic: no such account, account=51"),
        "{broken}"
    );
}

#[test]
fn a_value_that_is_set_is_right_if_nothing_else_sets_it() {
    let handler = |store: &Store, payment: &Payment| {
        store.put(BALANCES, &payment.account, &140)?;
        Ok::<_, Error>(140)
    };
    let proved = Proof::of(handler, PAYMENT).on(founded).prove();
    assert!(proved.histories() > 100, "{}", proved.histories());
}

#[test]
fn a_remembered_key_with_its_work_is_right_also_among_other_messages() {
    let handler = |store: &Store, payment: &Payment| {
        let answer = store.once(&key(payment.id), |tx| {
            let balance = tx.get(BALANCES, &payment.account)?.map_or(0, |record| record.value) + payment.amount;
            tx.put(BALANCES, &payment.account, &balance)?;
            Ok::<_, Error>(balance)
        })?;
        Ok::<_, Error>(answer.into_result())
    };
    let others = [
        Payment {
            id: "evt-2",
            account: 51,
            amount: -7,
        },
        Payment {
            id: "evt-3",
            account: 52,
            amount: 5,
        },
    ];
    let late = Duration::from_secs(7 * 86_400);
    let proved = Proof::of(handler, PAYMENT)
        .on(founded)
        .among(others)
        .repeats_within(late)
        .prove();
    assert!(proved.histories() > 120, "{}", proved.histories());
}

/// A message came before the one that it builds upon: its sender is to try again.
#[derive(Debug)]
struct Early;

impl From<Error> for Early {
    fn from(cause: Error) -> Early {
        panic!("{cause:?}")
    }
}

#[test]
fn a_conditional_write_and_a_guarded_move_are_right_also_among_other_messages() {
    // The message says at which version it was made.
    let conditional = |store: &Store, payment: &Payment| {
        let version = payment.amount as u64;
        match store.put_if(BALANCES, &51, Condition::Version(version), &(100 + payment.amount))? {
            Written::Conflict(found) if found.version().is_none_or(|found| found.get() < version) => Err(Early),
            Written::Applied(_) | Written::Unchanged(_) | Written::Conflict(_) => Ok(()),
        }
    };
    let first = Payment {
        id: "a",
        account: 51,
        amount: 1,
    };
    let second = Payment {
        id: "b",
        account: 51,
        amount: 2,
    };
    Proof::of(conditional, first).on(founded).among([second]).prove();
    let guarded = |store: &Store, payment: &Payment| {
        let (from, to) = if payment.id == "pack" {
            (Stage::New, Stage::Packed)
        } else {
            (Stage::Packed, Stage::Shipped)
        };
        match store.transition(ORDERS, &904, from, to)? {
            Transitioned::Refused(refusal) if refusal.why == Why::Early => Err(Early),
            Transitioned::Applied(_) | Transitioned::AlreadyThere(_) | Transitioned::Refused(_) => Ok(()),
        }
    };
    let pack = Payment { id: "pack", ..PAYMENT };
    let ship = Payment { id: "ship", ..PAYMENT };
    Proof::of(guarded, pack).on(founded).among([ship]).prove();
}

#[test]
fn a_batch_with_its_key_is_right() {
    let handler = |store: &Store, payment: &Payment| {
        let batch = sprag::Batch::new()
            .once(&key(payment.id))
            .put_if(
                BALANCES,
                &payment.account,
                Condition::Version(1),
                &(100 + payment.amount),
            )
            .transition(ORDERS, &904, Stage::New, Stage::Packed);
        store.apply(&batch)?.or_abort().map(|_| ())
    };
    Proof::of(handler, PAYMENT).on(founded).prove();
}

#[test]
fn a_handler_that_fails_at_its_first_delivery_or_a_store_that_cannot_be_set_up_is_told() {
    let refuses = |store: &Store, _: &Payment| {
        store
            .put_if(BALANCES, &51, Condition::Version(9), &1)?
            .or_abort()
            .map(|_| 0)
    };
    let broken = Proof::of(refuses, PAYMENT)
        .on(founded)
        .check()
        .expect_err("a handler that fails");
    assert_eq!(broken.rule(), Rule::FirstDelivery);
    assert!(
        broken.to_string().contains("the handler answers an error: Conflict"),
        "{broken}"
    );
    let broken = Proof::of(add, PAYMENT)
        .on(|store| store.put(BALANCES, &51, &1).and(Err(Error::from(ErrorKindOf))))
        .check();
    assert_eq!(broken.expect_err("no store").rule(), Rule::FirstDelivery);
}

/// Any error of the library.
struct ErrorKindOf;

impl From<ErrorKindOf> for Error {
    fn from(_: ErrorKindOf) -> Error {
        let error = Store::open("/nonexistent/folder/t.sprag").expect_err("no such folder");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        error
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let report = |seed| {
        Proof::of(add, PAYMENT)
            .on(founded)
            .seed(seed)
            .check()
            .expect_err("a wrong handler")
            .to_string()
    };
    assert_eq!(report(7), report(7));
    let text = report(7);
    for line in [
        "  1. delivered: 140\n",
        "  2. delivered again: 180\n",
        "rule: a repeat must find out",
        "(docs/guide/README.md)",
        "seed: 7",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
