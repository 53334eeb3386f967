//! Features through the public API, in one binary.
#![cfg(all(feature = "test-util", feature = "json", not(loom)))]

#[cfg(feature = "cli")]
mod cli;
mod clock;
mod codec;
mod conditions;
mod crash;
mod consume;
#[cfg(feature = "cli")]
mod demo;
mod disk;
mod keys_order;
mod machine;
mod random;
mod tidy;
mod values;
