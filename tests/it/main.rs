//! Behaviour through the public API, one binary.
#![cfg(all(feature = "test-util", not(loom)))]

mod disk;
mod tidy;
