//! Messages: from the commit that enqueues them to the one that ends them.

pub mod busy;
mod crash;
mod decide;
mod far_end;
mod faults;
mod growth;
mod idle;
mod life;
mod lines;
mod model;
mod moved;
mod proof;
mod reference;
mod relay;
mod storm;
mod tally;
#[cfg(feature = "tokio")]
mod tasks;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use sprag::testkit::SimDisk;
use sprag::{Claim, ManualClock, Options, Queue, QueueStats, Store};

pub const MAIL: Queue<String> = Queue::new("mail");

/// A store in memory whose time only the test moves.
pub fn store() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    let store = Options::new().clock(Arc::new(clock.clone())).in_memory();
    (store.expect("a store"), clock)
}

/// A store on a disk that outlives it.
pub fn open(disk: &SimDisk, clock: &ManualClock) -> Store {
    let options = crate::common::small_with(clock);
    let disk = crate::common::shared(disk);
    options.open_on(disk).expect("the store")
}

pub fn text(claim: &Claim<String>) -> String {
    claim.message().expect("a text")
}

pub fn texts(claims: &[Claim<String>]) -> Vec<String> {
    claims.iter().map(text).collect()
}

pub fn stats(store: &Store) -> QueueStats {
    store.queue_stats("mail").expect("the figures").expect("the queue")
}

/// Ready, scheduled, claimed, blocked, dead.
pub fn counts(store: &Store) -> [u64; 5] {
    let stats = stats(store);
    [stats.ready, stats.scheduled, stats.claimed, stats.blocked, stats.dead]
}

pub fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}
