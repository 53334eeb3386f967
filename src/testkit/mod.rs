//! The proof kit: is my handler safe to run again? And what tests of this store are made of.
//!
//! [`Proof`] puts a handler through histories and compares the whole stored state with that after one delivery. The
//! simulated disk below it is re-exported from the layer that it belongs to.

mod contents;
mod director;
mod far_end;
mod histories;
mod proof;
mod report;
mod trial;

pub use crate::disk::Disk;
pub use crate::disk::crash::CrashPlan;
pub use crate::disk::fault::{EventKind, FaultKind, FaultMode};
pub use crate::disk::marks::Marks;
pub use crate::disk::ram::RamDisk;
pub use crate::disk::sim::{Event, SimDisk};
pub use crate::disk::sim_look::SimLook;
pub use far_end::{FarEnd, HungUp, Promise};
pub use proof::Proof;
pub use report::{Broken, Proved, Rule};
