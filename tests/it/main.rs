//! Behaviour through the public API, one binary.
#![cfg(feature = "test-util")]

mod disk;
