//! Records: one key, its value, version and state.

pub mod decide;
