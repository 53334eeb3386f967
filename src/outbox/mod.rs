//! The outbox: messages that leave exactly with the work.
//!
//! Owns what is stored of queues and messages, and what becomes of a message. A message has a body, which is written once, a
//! row, which each step of its life rewrites, and the index entry that its row says. Who holds it meanwhile is the matter of
//! [`lease`](crate::lease), and running handlers that of the relay.

#[cfg(feature = "json")]
pub(crate) mod arrive;
pub(crate) mod catalog;
pub mod decide;
pub(crate) mod entries;
pub(crate) mod keys;
pub(crate) mod line;
pub(crate) mod list;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod retry;
pub(crate) mod row;
pub mod tally;

pub use catalog::QueueInfo;
pub use line::Settled;
pub use list::{MessageInfo, MessageState, QueueStats};
#[cfg(feature = "json")]
pub(crate) use queue::DescribedQueue;
pub use queue::{DynQueue, OnDead, Outgoing, Queue, QueueSpec};
pub use replay::{Discarded, Refused, Replay, Replayed};
pub use retry::Retry;
pub use row::{EffectId, Failure, MessageId, Reason};
