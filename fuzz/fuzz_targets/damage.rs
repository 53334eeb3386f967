//! A small store with damaged bytes: opened, read in every way, written to, checked.
#![no_main]

#[path = "../../tests/it/common.rs"]
#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
mod common;
#[path = "../../tests/it/damage/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
mod damage;
#[path = "../../tests/it/random.rs"]
#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
mod random;

libfuzzer_sys::fuzz_target!(|input: &[u8]| damage::follow(input));
