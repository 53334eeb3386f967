//! The one trait by which every engine takes part, and how it comes to its files.

use std::path::Path;

use crate::contents::Contents;
use crate::load::Load;
use crate::op::{Ask, Op, Reply, See};

/// Why a peer could not go on. A bench has no use for kinds: it stops and shows the text.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An engine that makes operations durable.
pub trait Peer: Send + Sync {
    /// How many threads it wants when `asked` are measured. Only the floor, which is one thread by definition, differs.
    fn threads(&self, asked: usize) -> usize {
        asked
    }

    /// Does `op`, all or nothing. Called by at most one thread at a time for each value of `thread`.
    ///
    /// # Errors
    /// What the engine reports.
    fn write(&self, thread: usize, op: Op) -> Result<Reply, Failure>;

    /// Does all of `ops` in one durable transaction, in which each is done or leaves nothing. Called by one thread at a time,
    /// and never together with [`Peer::write`].
    ///
    /// # Errors
    /// What the engine reports; then none is done.
    fn lot(&self, ops: &[Op]) -> Result<Vec<Reply>, Failure>;

    /// Reads, and shows each record that it finds.
    ///
    /// # Errors
    /// What the engine reports.
    fn read(&self, thread: usize, ask: &Ask, see: See<'_>) -> Result<(), Failure>;

    /// Bytes given to the log since the peer was built, if it counts them.
    fn bytes_handed(&self) -> Option<u64> {
        None
    }

    /// Returns when no background work is left that would disturb the next peer's slice.
    ///
    /// # Errors
    /// What the engine reports.
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The share of what its log can hold that a kill at this moment would leave to recover; 0 without a log.
    fn to_recover(&self) -> f64 {
        0.0
    }

    /// Everything it holds, read back through its public face; `None` for a floor, which holds nothing.
    ///
    /// # Errors
    /// What the engine reports.
    fn contents(&self) -> Result<Option<Contents>, Failure>;
}

/// What an engine is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How many threads will work at once.
    pub threads: usize,
    /// Bytes of one append of the floor.
    pub floor_bytes: usize,
    /// Only to fill the store: no sync is needed, and memory is no matter.
    pub filling: bool,
}

impl Setup {
    /// For one thread and no floor.
    pub const ONE: Setup = Setup {
        threads: 1,
        floor_bytes: 512,
        filling: false,
    };
}

/// Whether a commit is on the disk when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is.
    Sync,
    /// It is safe from a kill of the process only.
    Buffered,
}

impl Durability {
    /// The name in the figures.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Buffered => "buffered",
        }
    }
}

/// Opens the store in a folder, or makes one.
pub type Open = fn(&Path, Setup) -> Result<Box<dyn Peer>, Failure>;

/// An engine in one way to use it, and how to make and open its store.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The name in the table.
    pub name: &'static str,
    /// What it is compared as; the best of a group stands for it.
    pub group: &'static str,
    /// The class it races in.
    pub durability: Durability,
    /// The kind of its files: subjects with the same one can open each other's.
    pub files: &'static str,
    /// About how many bytes one transaction of a filling may have.
    pub lot_bytes: usize,
    /// Opens the store in this folder, after whatever happened to it, or makes one.
    pub open: Open,
}

/// Enough for one transaction of a filling that nothing limits.
pub const LOT_BYTES: usize = 128_000_000;
/// Bytes that are counted for each operation of a filling beside its value.
const FILL_OP_BYTES: usize = 60;

impl Subject {
    /// Makes the store in `folder` with what exists before the first operation, and closes it.
    ///
    /// # Errors
    /// What the engine reports.
    pub fn fill(&self, folder: &Path, load: &Load) -> Result<(), Failure> {
        let setup = Setup {
            filling: true,
            ..Setup::ONE
        };
        let peer = (self.open)(folder, setup)?;
        let flush = |ops: &mut Vec<Op>| -> Result<(), Failure> {
            let replies = peer.lot(ops)?;
            ops.clear();
            match replies.iter().find(|reply| **reply != Reply::Done) {
                Some(other) => Err(format!("{} did not take the filling, {other:?}", self.name).into()),
                None => Ok(()),
            }
        };
        let mut ops = Vec::new();
        let mut bytes = 0;
        for op in load.filling() {
            bytes += FILL_OP_BYTES + op.value_bytes();
            ops.push(op);
            if bytes >= self.lot_bytes {
                flush(&mut ops)?;
                bytes = 0;
            }
        }
        flush(&mut ops)?;
        peer.settle()
    }
}
