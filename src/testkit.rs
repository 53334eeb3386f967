//! The proof kit: what tests of this store, and of programs that embed it, are made of.
//!
//! Owns nothing itself; everything here is re-exported from the layer it belongs to.

pub use crate::disk::Disk;
pub use crate::disk::crash::CrashPlan;
pub use crate::disk::fault::{EventKind, FaultKind, FaultMode};
pub use crate::disk::ram::RamDisk;
pub use crate::disk::sim::{Event, SimDisk};
