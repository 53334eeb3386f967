//! What the benches of Sprag share: the work to be done, those who do it, and the race between them.
//!
//! Every engine is a [`peer::Peer`] and gets the very same operations from [`load::Load`], which also knows what each of
//! them must hold afterwards, so that nobody wins by doing less. [`race`] alternates short slices of all peers, since
//! machine and disk drift more than the differences sought; [`heat`] turns slices into ratios, and [`report`] keeps them.
//! Absolute figures are shown for orientation only.

pub mod child;
pub mod contents;
mod deliver;
pub mod entrant;
pub mod group;
pub mod heat;
pub mod histogram;
pub mod load;
pub mod machine;
pub mod op;
pub mod peer;
pub mod peers;
pub mod place;
pub mod plan;
pub mod race;
pub mod remote;
pub mod report;
pub mod stores;
pub mod targets;
