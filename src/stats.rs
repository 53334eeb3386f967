//! Figures of an open store.

use crate::engine::Figures;
use crate::outbox::QueueStats;

/// What a store did since it was opened, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Sequence of the newest commit.
    pub sequence: u64,
    /// Commits since the open.
    pub commits: u64,
    /// Hand-overs of the log to the disk since the open; at `Sync`, one sync each.
    pub hand_overs: u64,
    /// Bytes handed to the log since the open.
    pub log_bytes: u64,
    /// Checkpoints since the open.
    pub checkpoints: u64,
    /// Whether a full half of the log waits for its checkpoint or is in it.
    pub checkpoint_pending: bool,
    /// Length of one log half in bytes.
    pub log_half_bytes: u64,
    /// Bytes in use of the half that takes frames.
    pub log_used_bytes: u64,
    /// Retention time in nanoseconds: what remembered keys end by.
    pub retention_ns: u64,
    /// The highest wall time ever seen, in nanoseconds since 1970. Far ahead of the wall clock, it keeps keys from
    /// ageing while the store is closed; `clock reset` takes it back.
    pub highest_wall_ns: i64,
    /// Whether the path that the store was opened at leads to its file. If not, the file was removed, moved or replaced while
    /// it was open: this handle goes on with the file that it holds, which nobody will find again.
    pub is_at_its_path: bool,
    /// How many commits there are since the state of the base that the oldest reader holds; 0 if no reader holds one from before
    /// the last checkpoint. While it does, the space that these commits freed is not used again, so the file grows.
    pub oldest_reader_behind: u64,
    /// States of the base that are kept because other processes read them. Each makes the file grow as long as it is kept.
    pub states_kept_for_others: u64,
    /// How each queue stands, by name.
    pub queues: Vec<QueueStats>,
}

impl Stats {
    pub(crate) fn new(figures: Figures, queues: Vec<QueueStats>) -> Stats {
        let Figures {
            sequence,
            commits,
            hand_overs,
            log_bytes,
            checkpoints,
            checkpoint_pending,
            log_half_bytes,
            log_used_bytes,
            retention_ns,
            highest_wall_ns,
            is_at_its_path,
            oldest_reader_behind,
            states_kept_for_others,
        } = figures;
        Stats {
            sequence,
            commits,
            hand_overs,
            log_bytes,
            checkpoints,
            checkpoint_pending,
            log_half_bytes,
            log_used_bytes,
            retention_ns,
            highest_wall_ns,
            is_at_its_path,
            oldest_reader_behind,
            states_kept_for_others,
            queues,
        }
    }
}
