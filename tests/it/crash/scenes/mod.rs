//! The dangerous cases by hand, one by one, so that none depends on chance.

mod checkpoints;
mod recovery;
mod rounds;
mod scene;
