//! Buffers of tables that are gone, for those that follow: a table is as large as the one before it, and writers that allocate
//! what a checkpoint frees would leave an allocator with many holes.

use crate::sync::{Arc, Mutex};

/// Empty buffers of one length, shared by a table and its successors.
#[derive(Debug)]
pub(super) struct Spare<T>(Arc<Mutex<Vec<Vec<T>>>>);

impl<T> Default for Spare<T> {
    fn default() -> Spare<T> {
        Spare(Arc::default())
    }
}

impl<T> Clone for Spare<T> {
    fn clone(&self) -> Spare<T> {
        Spare(self.0.clone())
    }
}

impl<T> Spare<T> {
    /// An empty buffer; with `room` if a new one is needed.
    pub(super) fn take(&self, room: usize) -> Vec<T> {
        let spare = self.0.lock().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(room))
    }

    /// Keeps the buffers of a table that goes, and lets go of those that are left of the one before.
    pub(super) fn keep(&self, buffers: impl Iterator<Item = Vec<T>>) {
        let kept = buffers.map(|mut buffer| {
            buffer.clear();
            buffer
        });
        let kept = kept.collect();
        let left = std::mem::replace(&mut *self.0.lock(), kept);
        drop(left);
    }
}
