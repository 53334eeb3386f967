//! Features through the public API, in one binary.
#![cfg(all(feature = "test-util", not(loom)))]

mod clock;
mod codec;
mod disk;
mod keys_order;
mod machine;
mod random;
mod tidy;
mod values;
