//! The memory table: what the log holds and the base does not have yet.
//!
//! A persistent ordered map: keeping a root is a snapshot and a rollback, and costs one reference count. A value of
//! `None` says that the key was removed, and hides what the base has.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::view::Span;

/// Bytes shared between snapshots.
pub(crate) type Bytes = Arc<[u8]>;
/// A key with its newest value, or its removal.
pub(crate) type Entry = (Bytes, Option<Bytes>);

/// An ordered map from keys to their newest change.
#[derive(Clone, Debug)]
pub(crate) struct Memory(RedBlackTreeMapSync<Bytes, Option<Bytes>>);

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory(RedBlackTreeMapSync::new_sync())
    }

    pub(crate) fn insert(&mut self, key: Bytes, value: Option<Bytes>) {
        self.0.insert_mut(key, value);
    }

    /// `None`: says nothing of this key. `Some(None)`: the key was removed.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.0.get(key).cloned()
    }

    /// All changes in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.0.iter()
    }

    /// The changes inside a span, which must not be empty.
    pub(crate) fn range(&self, span: Span) -> impl DoubleEndedIterator<Item = Entry> + use<'_> {
        self.0
            .range::<[u8], _>(span)
            .map(|(key, value)| (key.clone(), value.clone()))
    }
}
