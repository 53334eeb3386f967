//! The proof kit over handlers that consume a message, change state and enqueue the next.

use sprag::testkit::{Proof, Rule};
use sprag::{Consumed, Error, Keep, OnceKey, Outgoing, Queue, Store, Table};

const BALANCES: Table<u64, i64> = Table::new("balances");
const PAYMENTS: Queue<(u64, i64)> = Queue::new("payments");
const RECEIPTS: Queue<String> = Queue::new("receipts");

/// Takes a message in, once, and does the work of whatever is there.
fn takes_in_and_consumes(store: &Store, message: &(u64, i64)) -> Result<(), Error> {
    let key = OnceKey::new("inbox", message.0.to_be_bytes(), Keep::Forever);
    store.once(&key, |tx| tx.enqueue(PAYMENTS, message).map(sprag::MessageId::get))?;
    for claim in store.claim(PAYMENTS, 10)? {
        let done = store.consume(claim, |tx, claim| {
            let (account, amount) = claim.message()?;
            let balance = tx.get(BALANCES, &account)?.map_or(0, |record| record.value) + amount;
            tx.put(BALANCES, &account, &balance)?;
            let receipt = format!("{amount} to {account}");
            tx.enqueue(RECEIPTS, Outgoing::of(&receipt).key(account.to_be_bytes()))?;
            Ok::<_, Error>(())
        });
        let (Consumed::Done(()) | Consumed::Stale) = done.map_err(sprag::Unsettled::into_error)?;
    }
    Ok(())
}

/// The same with the acknowledgement in a commit of its own.
fn acknowledges_later(store: &Store, message: &(u64, i64)) -> Result<(), Error> {
    let key = OnceKey::new("inbox", message.0.to_be_bytes(), Keep::Forever);
    store.once(&key, |tx| tx.enqueue(PAYMENTS, message).map(sprag::MessageId::get))?;
    for claim in store.claim(PAYMENTS, 10)? {
        store.write(|tx| {
            let (account, amount) = claim.message()?;
            let balance = tx.get(BALANCES, &account)?.map_or(0, |record| record.value) + amount;
            tx.put(BALANCES, &account, &balance).map(drop)
        })?;
        let _ = store.ack(claim).map_err(sprag::Unsettled::into_error)?;
    }
    Ok(())
}

fn founded(store: &Store) -> Result<(), Error> {
    store.put(BALANCES, &51, &100).map(drop)
}

#[test]
fn a_handler_that_consumes_changes_state_and_enqueues_the_next_is_safe_to_run_again() {
    let proved = Proof::of(takes_in_and_consumes, (51, 40))
        .among([(51, 2), (52, 7)])
        .on(founded)
        .check();
    let proved = proved.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{proved:?}");
}

#[test]
fn a_handler_that_acknowledges_in_a_commit_of_its_own_is_found() {
    let broken = Proof::of(acknowledges_later, (51, 40)).on(founded).check();
    let broken = broken.expect_err("a crash between the two commits");
    println!("{broken}");
    assert!(broken.deliveries() <= 4, "{broken}");
    assert_ne!(broken.rule(), Rule::SameEachTime, "{broken}");
}
