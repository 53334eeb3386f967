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

use std::panic;
use std::sync::Once;

/// The fuzzer ends at every panic. redb panics on some damage, and the library answers that as an error; only what comes out
/// of the library is found.
fn let_redb_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ends = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if !what.location().is_some_and(|at| at.file().contains("/redb-")) {
                ends(what);
            }
        }));
    });
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let_redb_panic();
    damage::follow(input);
});
