//! Crashes: whatever instant the power fails or the process is killed at, what was acknowledged is there, and what is
//! there is what some prefix of the staged order left.
//!
//! Every image is judged on a simulated disk that drops, keeps, tears and reorders whatever was not synced. Images come
//! in chains: the store is opened on one, goes on with commits of the same size, and crashes again, so that dead frames
//! line up with new ones. `SPRAG_SEED` makes the chains again, `SPRAG_CHAIN` a single one by the seed that a failure names;
//! with several threads their schedule is left to chance.

mod chain;
mod dice;
mod evidence;
mod frames;
mod ledger;
mod scenes;
mod tally;
mod trap;
mod work;

use sprag::Level;

use crate::random::{seed, trials};
use chain::{Chain, Mode};
use dice::Dice;
use tally::{Kind, Tally};

/// What one test has to show: at least so many distinct images, and so many of each kind.
struct Quota {
    images: u64,
    dead: u64,
    each: u64,
}

/// Tests that make images.
const TESTS: u64 = 5;

/// Every kind that a part must reach; dead frames need a group, so they have a number of their own.
const KINDS: [Kind; 6] = [
    Kind::Survived,
    Kind::Dropped,
    Kind::Torn,
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
    // More if `SPRAG_TRIALS` asks for more, of which each of the tests makes its part.
    let images = trials(quota.images * TESTS, 200_000).div_ceil(TESTS);
    while tally.distinct() < images {
        Chain::run(mode, dice.any(), &tally);
    }
    println!("{}, {:.1?}:\n{tally}", mode.name, begun.elapsed());
    for kind in KINDS {
        assert!(tally.of(kind) >= quota.each, "too few images of kind {kind:?}");
    }
    assert!(tally.of(Kind::Dead) >= quota.dead, "too few images with dead frames");
}

const ONE: Quota = Quota {
    images: 6000,
    dead: 0,
    each: 200,
};
const GROUPS: Quota = Quota {
    images: 8000,
    dead: 400,
    each: 200,
};
const BUFFERED: Quota = Quota {
    images: 4000,
    dead: 200,
    each: 100,
};
const FAULTS: Quota = Quota {
    images: 4000,
    dead: 0,
    each: 100,
};

/// What is asked for in all.
const _: () = assert!(ONE.images + GROUPS.images + BUFFERED.images + FAULTS.images >= 20_000);
const _: () = assert!(ONE.each + GROUPS.each + BUFFERED.each >= 500);
const _: () = assert!(GROUPS.dead + BUFFERED.dead >= 500);

#[test]
fn an_image_of_one_writer_holds_what_was_acknowledged() {
    let mode = Mode {
        name: "one writer",
        level: Level::Sync,
        background_percent: 0,
        threads_max: 1,
        faults: false,
    };
    judge_chains(mode, &ONE);
}

#[test]
fn an_image_of_many_writers_holds_what_was_acknowledged() {
    let mode = Mode {
        name: "groups",
        level: Level::Sync,
        background_percent: 40,
        threads_max: 8,
        faults: false,
    };
    judge_chains(mode, &GROUPS);
}

#[test]
fn an_image_of_a_buffered_store_holds_what_was_synced_or_all_after_a_kill() {
    let mode = Mode {
        name: "buffered",
        level: Level::Buffered,
        background_percent: 40,
        threads_max: 4,
        faults: false,
    };
    judge_chains(mode, &BUFFERED);
}

#[test]
fn an_image_of_a_failing_disk_holds_what_was_acknowledged_and_nothing_refused() {
    let mode = Mode {
        name: "faults",
        level: Level::Sync,
        background_percent: 40,
        threads_max: 4,
        faults: true,
    };
    judge_chains(mode, &FAULTS);
}

#[test]
fn an_image_of_a_failing_disk_under_a_buffered_store_holds_what_was_synced() {
    let mode = Mode {
        name: "faults, buffered",
        level: Level::Buffered,
        background_percent: 40,
        threads_max: 4,
        faults: true,
    };
    judge_chains(mode, &FAULTS);
}
