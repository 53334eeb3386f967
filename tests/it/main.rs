//! Features through the public API, in one binary.
#![cfg(all(feature = "test-util", feature = "json", not(loom)))]

mod bad_files;
mod bad_input;
mod clock;
mod closing;
mod codec;
mod common;
mod conditions;
mod disk;
mod keys_order;
mod machine;
mod random;
mod reports_cv;
mod reports_id;
mod reports_sm;
mod reports_tx;
mod schema;
mod techniques;
mod tidy;
mod values;
