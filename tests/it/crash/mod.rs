//! Crashes: whatever instant the power fails or the process is killed at, what was acknowledged is there, and what is
//! there is what some prefix of the staged order left.
//!
//! Every image is judged on a simulated disk that drops, keeps, tears and reorders whatever was not synced. Images come
//! in chains: the store is opened on one, goes on with commits of the same size, and crashes again, so that dead frames
//! line up with new ones. `SPRAG_SEED` makes the chains again; with several threads their schedule is left to chance.

mod chain;
mod dice;
mod frames;
mod ledger;
mod tally;
mod trap;
mod work;

use sprag::Level;

use crate::random::seed;
use chain::{Chain, Mode};
use dice::Dice;
use tally::{Kind, Tally};

/// What one test has to show.
struct Quota {
    images: u64,
    /// Of each kind.
    each: u64,
}

/// Every kind that a part must reach.
const KINDS: [Kind; 7] = [
    Kind::Survived,
    Kind::Dropped,
    Kind::Torn,
    Kind::Dead,
    Kind::Checkpoint,
    Kind::Reused,
    Kind::Recovery,
];

fn judge_chains(mode: Mode, quota: &Quota) {
    let mut dice = Dice::new(seed());
    let tally = Tally::new();
    if let Ok(text) = std::env::var("SPRAG_CHAIN") {
        return Chain::run(mode, text.parse().unwrap(), &tally);
    }
    let begun = std::time::Instant::now();
    while tally.distinct() < quota.images {
        Chain::run(mode, dice.any(), &tally);
    }
    println!("{}, {:.1?}:\n{tally}", mode.name, begun.elapsed());
    for kind in KINDS {
        assert!(tally.of(kind) >= quota.each, "too few images of kind {kind:?}");
    }
}

#[test]
fn one_thread() {
    let mode = Mode { name: "one thread", level: Level::Sync, background: false, threads_max: 1, faults: false };
    judge_chains(mode, &Quota { images: 300, each: 1 });
}

#[test]
fn groups() {
    let mode = Mode { name: "groups", level: Level::Sync, background: false, threads_max: 4, faults: false };
    judge_chains(mode, &Quota { images: 300, each: 1 });
}

#[test]
fn background() {
    let mode = Mode { name: "background", level: Level::Sync, background: true, threads_max: 4, faults: false };
    judge_chains(mode, &Quota { images: 300, each: 1 });
}

#[test]
fn buffered() {
    let mode = Mode { name: "buffered", level: Level::Buffered, background: false, threads_max: 3, faults: false };
    judge_chains(mode, &Quota { images: 300, each: 1 });
}

#[test]
fn faulty() {
    let mode = Mode { name: "faults", level: Level::Sync, background: false, threads_max: 3, faults: true };
    judge_chains(mode, &Quota { images: 300, each: 1 });
}
