//! Randomness that can be had again: every random test prints its seed and takes it back from `SPRAG_SEED`.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use std::collections::VecDeque;
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

/// Numbers that a seed or given bytes decide.
pub enum Random {
    /// Xorshift: enough for a test, and the same everywhere.
    Seed(u64),
    /// What is left of the bytes.
    Bytes(VecDeque<u8>),
}

impl Random {
    /// A sequence that the seed decides.
    pub fn new(seed: u64) -> Random {
        Random::Seed(seed | 1)
    }

    /// A sequence that the bytes decide; zeros behind them.
    pub fn of_bytes(bytes: &[u8]) -> Random {
        Random::Bytes(bytes.iter().copied().collect())
    }

    /// Whether only zeros follow.
    pub fn is_over(&self) -> bool {
        matches!(self, Random::Bytes(bytes) if bytes.is_empty())
    }

    /// A number from 0 up to `end`, without it. Bytes give as many as the largest such number has.
    pub fn below(&mut self, end: u64) -> u64 {
        match self {
            Random::Seed(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                *state % end
            }
            Random::Bytes(bytes) => {
                let (mut number, mut largest) = (0, end - 1);
                while largest > 0 {
                    number = number << 8 | u64::from(bytes.pop_front().unwrap_or(0));
                    largest >>= 8;
                }
                number % end
            }
        }
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
