//! What the benches of Sprag share: the work to be done, those who do it, and the race between them.
//!
//! Every engine is a [`peer::Peer`] and gets the very same steps from [`load::Load`], which also knows what each of
//! them must hold afterwards, so that nobody wins by doing less. [`race`] alternates short slices of all peers, since
//! machine and disk drift more than the differences sought; [`report`] turns slices into ratios. Absolute figures
//! are shown for orientation only.

pub mod child;
pub mod floor;
pub mod load;
pub mod peer;
pub mod place;
pub mod race;
pub mod report;
pub mod sprag;
pub mod sqlite;
