//! The bodies of the fuzz targets, without a fuzzer: inputs that are kept, and random changes of them.
//!
//! `fuzz/fuzz_targets` runs the same functions with feedback. What it finds becomes a file in `corpus/`. An ordinary run
//! tries some changes of the files; `SPRAG_TRIALS` says how many.

mod decoders;

use std::path::Path;

use crate::random::{self, Random};

/// Runs `body` on every kept input and on `count` changes of them, all of them together.
fn on_kept_and_changed(name: &str, count: u64, body: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/fuzzed/corpus")
        .join(name);
    let files = std::fs::read_dir(&folder).expect("kept inputs");
    let mut kept: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let bytes = std::fs::read(&path).expect("its bytes");
            (path.display().to_string(), bytes)
        })
        .collect();
    kept.sort();
    assert!(!kept.is_empty(), "no input is kept, folder={}", folder.display());
    for (path, input) in &kept {
        println!("{path}");
        body(input);
    }
    let mut random = Random::new(random::seed());
    for _ in 0..count {
        let (_, input) = &kept[random.below(kept.len() as u64) as usize];
        let changed = changed(input, &kept, &mut random);
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&changed)));
        if let Err(panic) = run {
            println!("the input: {changed:?}");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{name}: {} inputs kept, {count} changed", kept.len());
}

/// A few changes of the kinds that find something: bytes set, flipped, doubled, left out, taken from another input.
fn changed(input: &[u8], kept: &[(String, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let len = (random.below(16) as usize).min(bytes.len() - at);
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + len)),
            2 => {
                let part = bytes[at..at + len].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let (_, other) = &kept[random.below(kept.len() as u64) as usize];
                let from = random.below(other.len() as u64 + 1) as usize;
                bytes.splice(at.., other[from..].iter().copied());
            }
            4 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.insert(at, random.below(256) as u8),
        }
    }
    bytes
}

#[test]
fn any_bytes_decode_to_a_value_that_encodes_the_same_or_to_an_error() {
    on_kept_and_changed("decoders", random::trials(20_000, 5_000_000), decoders::decode);
}

#[test]
fn operations_that_any_bytes_decide_agree_with_the_reference_through_kills_and_power_losses() {
    on_kept_and_changed("operations", random::trials(60, 20_000), crate::model::follow);
}

#[test]
fn a_small_store_with_any_bytes_damaged_is_refused_or_right_or_found_by_a_check() {
    on_kept_and_changed("damage", random::trials(150, 100_000), crate::damage::follow);
}
