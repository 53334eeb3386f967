//! Features through the public API, in one binary.
#![cfg(all(feature = "test-util", feature = "json", not(loom)))]

mod bad_files;
mod bad_input;
mod batch;
mod cli;
mod clock;
mod clock_histories;
mod clocks;
mod closing;
mod codec;
mod common;
mod conditions;
mod consume;
mod crash;
mod demo;
mod disk;
mod guide;
mod healing;
mod hostile;
mod isolation;
mod keys_order;
mod machine;
mod migrate;
mod migrate_kill;
mod model;
mod random;
mod reports_cv;
mod reports_id;
mod reports_kv;
mod reports_sm;
mod reports_tx;
mod schema;
mod states;
mod techniques;
mod tidy;
mod values;
