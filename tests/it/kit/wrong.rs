//! Ordinary wrong handlers, each found with a short history.

use super::*;

#[test]
fn an_add_without_a_key_is_found() {
    let broken = found(add, Rule::FindRepeats);
    assert_eq!(broken.deliveries(), 2);
    assert_eq!(
        broken.differences(),
        ["record balances/51 is 0xfb6801 at version 3, and after one delivery 0xfb1801 at version 2"]
    );
    assert_eq!(broken.steps(), ["delivered: 140", "delivered again: 180"]);
}

#[test]
fn a_key_in_a_later_commit_than_the_work_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        if store.remembered("payments", payment.id)?.is_some() {
            return balance(store);
        }
        let balance = add(store, payment)?;
        store.once(&key(payment.id), |_| Ok::<_, Error>(()))?;
        Ok(balance)
    };
    found(handler, Rule::OneCommit);
}

#[test]
fn a_key_for_each_attempt_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        let attempt = store.write(|tx| {
            let attempt = tx.get(ATTEMPTS, &1)?.map_or(0, |record| record.value) + 1;
            tx.put(ATTEMPTS, &1, &attempt)?;
            Ok::<_, Error>(attempt)
        })?;
        let answer = store.once(&key(&format!("{} {attempt}", payment.id)), |tx| {
            let balance = tx.get(BALANCES, &payment.account)?.map_or(0, |record| record.value) + payment.amount;
            tx.put(BALANCES, &payment.account, &balance)?;
            Ok::<_, Error>(balance)
        })?;
        Ok::<_, Error>(answer.into_result())
    };
    let proof = Proof::of(handler, PAYMENT).on(founded).table_may_differ("attempts");
    let broken = proof.check().expect_err("a wrong handler");
    assert_eq!((broken.rule(), broken.deliveries()), (Rule::FindRepeats, 2), "{broken}");
    assert!(
        broken
            .differences()
            .iter()
            .any(|line| line.starts_with("key payments/evt-1 2 is remembered")),
        "{broken}"
    );
}

#[test]
fn a_conditional_write_against_a_stale_read_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        if store.get(SEEN, payment.id)?.is_some() {
            return balance(store);
        }
        let read = store.get(BALANCES, &payment.account)?.map_or(0, |record| record.value);
        // The version is asked for again, so the condition is about something else than what was read.
        let version = store
            .get(BALANCES, &payment.account)?
            .map_or(0, |record| record.version.get());
        store.write(|tx| {
            let new = read + payment.amount;
            match tx.put_if(BALANCES, &payment.account, Condition::Version(version), &new)? {
                Written::Applied(_) | Written::Unchanged(_) => tx.put(SEEN, payment.id, &true)?,
                Written::Conflict(found) => return Ok(found.decode(BALANCES)?.map_or(0, |record| record.value)),
            };
            Ok(new)
        })
    };
    found(handler, Rule::LookAndWrite);
}

#[test]
fn a_move_that_does_not_say_from_where_is_found() {
    let handler = |store: &Store, _: &Payment| {
        let state = store.get(ORDERS, &904)?.map(|record| record.state);
        let (from, to) = match state {
            Some(Stage::New) => (Stage::New, Stage::Packed),
            _ => (Stage::Packed, Stage::Shipped),
        };
        store.transition(ORDERS, &904, from, to)?.or_abort()?;
        Ok::<_, Error>(0)
    };
    let broken = found(handler, Rule::FindRepeats);
    assert_eq!(
        broken.differences(),
        [
            "record orders/904 is 0x02 at version 3, state shipped, and after one delivery 0x02 at version 2, state packed"
        ]
    );
}

#[test]
fn a_result_that_is_not_remembered_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        let done = store.once(&key(payment.id), |tx| {
            let balance = tx.get(BALANCES, &payment.account)?.map_or(0, |record| record.value) + payment.amount;
            tx.put(BALANCES, &payment.account, &balance)?;
            Ok::<_, Error>(())
        })?;
        // Whoever repeats hears nothing of the balance.
        Ok::<_, Error>(if done.is_repeat() { 0 } else { balance(store)? })
    };
    let broken = found(handler, Rule::RememberResult);
    assert_eq!(broken.differences(), ["a repeat is told 0, and the first delivery 140"]);
}

#[test]
fn a_key_that_is_not_kept_long_enough_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        let key = OnceKey::new("payments", payment.id, Keep::For(Duration::from_secs(60)));
        let answer = store.once(&key, |tx| {
            let balance = tx.get(BALANCES, &payment.account)?.map_or(0, |record| record.value) + payment.amount;
            tx.put(BALANCES, &payment.account, &balance)?;
            Ok::<_, Error>(balance)
        })?;
        Ok::<_, Error>(answer.into_result())
    };
    found(handler, Rule::KeepLongEnough);
}

#[test]
fn a_repeat_that_undoes_what_came_after_it_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        store.put(BALANCES, &payment.account, &payment.amount)?;
        Ok::<_, Error>(payment.amount)
    };
    let later = Payment {
        id: "evt-2",
        amount: 150,
        ..PAYMENT
    };
    let proof = Proof::of(handler, PAYMENT).on(founded).among([later]);
    let broken = proof.check().expect_err("a wrong handler");
    assert_eq!((broken.rule(), broken.deliveries()), (Rule::LateRepeat, 3), "{broken}");
}
