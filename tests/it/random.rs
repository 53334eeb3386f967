//! Randomness that can be had again: every random test prints its seed and takes it back from `SPRAG_SEED`.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use std::hash::{BuildHasher, RandomState};

/// The seed of this run, printed.
pub fn seed() -> u64 {
    let given = std::env::var("SPRAG_SEED")
        .ok()
        .map(|text| text.parse().expect("SPRAG_SEED is a number"));
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("SPRAG_SEED={seed}");
    seed
}

/// Checks a property of random values.
pub fn for_random<S: Strategy>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(failure) = TestRunner::new(config).run(strategy, check) {
        panic!("{failure}");
    }
}

/// Xorshift: enough for a test, and the same everywhere.
pub struct Random(u64);

impl Random {
    /// A sequence that the seed decides.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number from 0 up to `end`, without it.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Whether the trials are to be run in full, as `SPRAG_TRIALS=all` asks for; otherwise each takes its part by its seed.
pub fn in_full() -> bool {
    std::env::var("SPRAG_TRIALS").is_ok_and(|which| which == "all")
}

/// How often a trial is to be made: `ordinary`, or `full` times, or as often as the number in `SPRAG_TRIALS` says.
pub fn trials(ordinary: u64, full: u64) -> u64 {
    match std::env::var("SPRAG_TRIALS") {
        Err(_) => ordinary,
        Ok(which) if which == "all" => full,
        Ok(which) => which.parse().expect("SPRAG_TRIALS is a number, or all"),
    }
}
