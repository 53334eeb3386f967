//! Operations, kills, power losses and reopens, against the reference of the tests.
#![no_main]

#[path = "../../tests/it/common.rs"]
#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
mod common;
#[path = "../../tests/it/model/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
mod model;
#[path = "../../tests/it/random.rs"]
#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
mod random;

libfuzzer_sys::fuzz_target!(|input: &[u8]| model::follow(input));
