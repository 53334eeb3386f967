//! Faults that only one kind of history shows, what may differ, and what does not end.

use super::*;

/// Takes a key back if the work behind it was not done; a guard does so for a panic, and for nothing else.
struct TakeBack<'s>(&'s Store, &'static str);

impl Drop for TakeBack<'_> {
    fn drop(&mut self) {
        if balance(self.0).is_ok_and(|balance| balance == 100) {
            let _ = self.0.forget("payments", self.1);
        }
    }
}

#[test]
fn a_guard_that_helps_against_panics_only_is_found_by_a_kill() {
    let handler = |store: &Store, payment: &Payment| {
        let _guard = TakeBack(store, payment.id);
        if store.once(&key(payment.id), |_| Ok::<_, Error>(()))?.is_repeat() {
            return balance(store);
        }
        add(store, payment)
    };
    let broken = found(handler, Rule::OneCommit);
    assert!(
        broken.steps()[0].contains("the process is killed after call 2 (write)"),
        "{broken}"
    );
}

#[test]
fn a_flag_that_is_not_synced_is_found_by_a_power_loss() {
    let far = FarEnd::new();
    let handler = |store: &Store, payment: &Payment| {
        if let Written::Applied(_) = store.put_if(SEEN, payment.id, Condition::Absent, &true)? {
            far.call(payment.id)?;
        }
        Ok::<_, Failed>(())
    };
    let buffered = sprag::Options::new()
        .log_half_bytes(256 << 10)
        .level(sprag::Level::Buffered);
    let proof = Proof::of(handler, PAYMENT)
        .far_end(&far, Promise::AtMostOnce)
        .options(buffered);
    let broken = proof.check().expect_err("a flag that is lost");
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::RecordBeforeEffect, 2),
        "{broken}"
    );
    assert!(broken.steps()[0].contains("the power fails"), "{broken}");
}

fn attempt(store: &Store, by: i64) -> Result<i64, Error> {
    store.write(|tx| {
        let number = tx.get(ATTEMPTS, &1)?.map_or(0, |record| record.value as i64) + by;
        tx.put(ATTEMPTS, &1, &(number as u64))?;
        Ok(number)
    })
}

#[test]
fn what_goes_wrong_at_the_third_delivery_only_is_found() {
    let handler = |store: &Store, payment: &Payment| {
        let number = attempt(store, 1)?;
        if number == 3 {
            return add(store, payment);
        }
        store.once(&key(payment.id), |tx| tx.put(BALANCES, &51, &140).map(drop))?;
        Ok::<_, Error>(140)
    };
    let proof = Proof::of(handler, PAYMENT).on(founded).table_may_differ("attempts");
    let broken = proof.check().expect_err("a wrong handler");
    assert_eq!((broken.rule(), broken.deliveries()), (Rule::FindRepeats, 3), "{broken}");
}

/// Wrong if three are at it at the same time.
fn third_at_once(store: &Store, payment: &Payment) -> Answer {
    let number = attempt(store, 1)?;
    let done = store.once(&key(payment.id), |tx| tx.put(BALANCES, &51, &140).map(drop));
    if number == 3 {
        add(store, payment)?;
    }
    attempt(store, -1)?;
    done.map(|_| 140)
}

#[test]
fn what_goes_wrong_for_three_copies_only_is_found_and_the_same_seed_finds_it_again() {
    let proof = |seed| {
        let proof = Proof::of(third_at_once, PAYMENT)
            .on(founded)
            .table_may_differ("attempts");
        proof.seed(seed).check().expect_err("a wrong handler")
    };
    let broken = proof(7);
    assert_eq!(
        (broken.rule(), broken.deliveries()),
        (Rule::LookAndWrite, 3),
        "{broken}"
    );
    assert!(broken.steps()[0].contains("in this order: 2 3 1 2 3 1"), "{broken}");
    assert_eq!(proof(7).to_string(), broken.to_string());
}

#[test]
fn what_may_differ_is_what_the_user_names() {
    let handler = |store: &Store, payment: &Payment| {
        let number = attempt(store, 1)?;
        store.once(&OnceKey::new("log", number.to_string(), Keep::Forever), |_| {
            Ok::<_, Error>(())
        })?;
        let done = store.once(&key(payment.id), |tx| tx.put(BALANCES, &51, &140).map(drop))?;
        Ok::<_, Error>(done.is_repeat())
    };
    let proof = || Proof::of(handler, PAYMENT).on(founded).table_may_differ("attempts");
    let broken = proof().check().expect_err("a log of keys");
    assert!(
        broken.differences()[0].starts_with("key log/2 is remembered"),
        "{broken}"
    );
    let broken = proof().keys_may_differ("log").check().expect_err("another answer");
    assert_eq!(broken.rule(), Rule::RememberResult, "{broken}");
    proof().keys_may_differ("log").answers_may_differ().prove();
}

#[test]
fn effects_are_counted_each_by_itself_and_a_delivery_that_does_not_end_is_told() {
    let far = FarEnd::new();
    let lost = |store: &Store, payment: &Payment| {
        far.call("a")?;
        if let Written::Applied(_) = store.put_if(SEEN, payment.id, Condition::Absent, &true)? {
            far.call("b")?;
        }
        Ok::<_, Failed>(())
    };
    for promise in [Promise::AtLeastOnce, Promise::OncePerEffectId] {
        let broken = Proof::of(lost, PAYMENT)
            .far_end(&far, promise)
            .check()
            .expect_err("b is lost");
        assert_eq!(broken.rule(), Rule::RecordAfterEffect, "{broken}");
    }
    let endless = |store: &Store, _: &Payment| loop {
        balance(store)?;
    };
    let broken = Proof::of(endless, PAYMENT)
        .check()
        .map(|_| ())
        .map_err(|broken: Box<Broken>| broken.to_string());
    let _: &dyn Fn(&Store, &Payment) -> Answer = &endless;
    assert!(broken.expect_err("no end").contains("it does not end"));
}
