//! Any bytes into every decoder.
#![no_main]

#[path = "../../tests/it/fuzzed/decoders.rs"]
mod decoders;

libfuzzer_sys::fuzz_target!(|input: &[u8]| decoders::decode(input));
