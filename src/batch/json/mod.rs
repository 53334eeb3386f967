//! Batches as JSON: what `docs/batch.schema.json` describes, both ways.
//!
//! A batch that was written here is complete: it describes each of its tables and queues, so that it can be read and applied
//! without a file at hand. One that people write may leave a table or a queue that the file has to the file.

mod forms;
mod read;
mod terms;
mod write;

pub(crate) use forms::{KeyText, Object, TableText, given};
pub(crate) use read::encode_value;
pub(crate) use write::{
    KeyText as KeyWritten, TableText as TableWritten, ValueText as ValueWritten, key_text, table_text, value_text,
};

use super::Batch;
use crate::error::Result;
use crate::outbox::QueueInfo;
use crate::table::TableInfo;

impl Batch {
    /// Reads a batch. Tables that it names and does not describe are taken from `tables`, those of the file; see
    /// [`ReadTx::tables`](crate::ReadTx::tables).
    ///
    /// A remembered key is bound to the values as they are encoded. So a batch that writes values, and comes again after its
    /// table was migrated to another codec, is another request, a `Mismatch`: migrate when no repeat can come any more. The
    /// same text with its own description of the tables is the same request.
    ///
    /// ```
    /// use sprag::{Batch, Outcome, Store};
    ///
    /// # fn main() -> sprag::Result<()> {
    /// let store = Store::in_memory()?;
    /// let text = r#"{
    ///     "once": {"scope": "payments", "key": "evt-1", "keep": "7d"},
    ///     "tables": {"accounts": {"key": "u64", "codec": "json"}},
    ///     "operations": [
    ///         {"op": "put", "table": "accounts", "key": 51, "condition": "absent", "value": {"balance": 140}}
    ///     ]
    /// }"#;
    /// let batch = Batch::from_json(text, &[])?;
    /// assert!(matches!(store.apply(&batch)?, Outcome::Applied { .. }));
    /// assert!(matches!(store.apply(&batch)?, Outcome::Repeat { .. }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid`, with the place (line and column, or the number of the operation, which begins at 0), for what is no JSON
    /// or no batch: a field that is unknown, missing, given twice or of another type, a table or queue that is neither
    /// described nor known; and for any mistake that a builder would keep. `TooLarge` for a key or a value above its limit.
    pub fn from_json(text: &str, tables: &[TableInfo]) -> Result<Batch> {
        Batch::from_json_with(text, tables, &[])
    }

    /// The same, and queues that it names and does not describe are taken from `queues`, those of the file; see
    /// [`ReadTx::queues`](crate::ReadTx::queues).
    ///
    /// ```
    /// use sprag::{Batch, Error, Outcome, Queue, Store};
    ///
    /// const EMAILS: Queue<String, sprag::Json> = Queue::new("emails");
    /// # fn main() -> sprag::Result<()> {
    /// let store = Store::in_memory()?;
    /// store.enqueue(EMAILS, &"the first".to_owned())?;
    /// let text = r#"{"operations": [{"op": "enqueue", "queue": "emails", "message": "the second", "delay": "1h"}]}"#;
    /// let (tables, queues) = store.read(|tx| Ok::<_, Error>((tx.tables()?, tx.queues()?)))?;
    /// let batch = Batch::from_json_with(text, &tables, &queues)?;
    /// assert!(matches!(store.apply(&batch)?, Outcome::Applied { .. }));
    /// assert_eq!(store.queue_stats("emails")?.map(|stats| (stats.ready, stats.scheduled)), Some((1, 1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::from_json`].
    pub fn from_json_with(text: &str, tables: &[TableInfo], queues: &[QueueInfo]) -> Result<Batch> {
        read::read(text, tables, queues)
    }

    /// The batch on one line, with a description of each of its tables and queues.
    ///
    /// # Errors
    /// The first mistake of the batch; `Invalid` for what has no form as JSON: values and messages of JSON that are none, two
    /// descriptions of one table or queue, a duration of more than 100 years, or a time before 1970.
    pub fn to_json(&self) -> Result<String> {
        write::write(self)
    }
}

/// Longest part of somebody's text that a message quotes, in characters.
const QUOTED_MAX: usize = 200;

/// The beginning and the end of a text that may be long.
pub(crate) fn quoted(text: &str) -> String {
    let count = text.chars().count();
    if count <= QUOTED_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(QUOTED_MAX / 2).collect();
    let tail: String = text.chars().skip(count - QUOTED_MAX / 2).collect();
    format!("{head} .. {tail}")
}
