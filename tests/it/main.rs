//! Features through the public API, in one binary.

mod clock;
mod codec;
mod keys_order;
mod machine;
mod random;
