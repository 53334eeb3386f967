//! A transaction: a view and the changes made on top of it.
//!
//! Reads see the transaction's own changes. Nothing leaves it but by [`Txn::into_changes`], so a transaction that is
//! dropped leaves no trace. Changes lie in layers: a unit that may fail on its own opens one, and either folds it into
//! the one below or throws it away.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{Bytes, Change, Held, Layer, Merge, Now, Span, View};
use crate::error::Result;

/// Changes by key; `None` removes.
type WriteSet = BTreeMap<Bytes, Option<Bytes>>;

/// A view with changes.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    view: Arc<View>,
    /// Never empty in a transaction that writes; the last one takes the changes.
    layers: Vec<WriteSet>,
    now: Now,
}

impl Txn {
    /// The state below the changes.
    #[cfg(feature = "json")]
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    pub(crate) fn new(view: Arc<View>, now: Now) -> Txn {
        Txn {
            view,
            layers: Vec::new(),
            now,
        }
    }

    /// The last commit that the state below contains.
    #[cfg(feature = "json")]
    pub(crate) fn sequence(&self) -> u64 {
        self.view.sequence
    }

    /// The one reading of time of this transaction.
    pub(crate) fn now(&self) -> Now {
        self.now
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Held<'_>>> {
        for layer in self.layers.iter().rev() {
            if let Some(change) = layer.get(key) {
                return Ok(change.clone().map(Held::Shared));
            }
        }
        self.view.get(key)
    }

    pub(crate) fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.change(key.into(), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, key: Vec<u8>) {
        self.change(key.into(), None);
    }

    fn change(&mut self, key: Bytes, value: Option<Bytes>) {
        if let Some(layer) = self.layers.last_mut() {
            layer.insert(key, value);
        } else {
            self.layers.push(BTreeMap::from([(key, value)]));
        }
    }

    /// The live entries inside `span`, which lies in one key space, with this transaction's own changes.
    pub(crate) fn scan(&self, span: &Span) -> Result<Merge<'_>> {
        if span.is_empty() {
            return Ok(Merge::nothing());
        }
        let mut layers: Vec<Layer<'_>> = Vec::with_capacity(4);
        for own in self.layers.iter().rev() {
            let range = own.range::<[u8], _>(span.clone());
            let range = span.direct(range);
            layers.push(Box::new(range.map(|(key, value)| (key.clone(), value.clone()))));
        }
        self.view.scan(layers, span)
    }

    /// Opens a layer and gives the depth to go back to.
    pub(crate) fn open_layer(&mut self) -> usize {
        if self.layers.is_empty() {
            self.layers.push(WriteSet::new());
        }
        let depth = self.layers.len();
        self.layers.push(WriteSet::new());
        depth
    }

    /// Folds all layers above `depth` into the one below them.
    pub(crate) fn keep_layers(&mut self, depth: usize) {
        while self.layers.len() > depth
            && let Some(top) = self.layers.pop()
        {
            match self.layers.last_mut() {
                Some(below) if below.is_empty() => *below = top,
                Some(below) => below.extend(top),
                None => self.layers.push(top),
            }
        }
    }

    /// Throws all layers above `depth` away.
    pub(crate) fn drop_layers(&mut self, depth: usize) {
        self.layers.truncate(depth);
    }

    /// All changes in key order, each key once.
    pub(crate) fn into_changes(mut self) -> Vec<Change> {
        self.keep_layers(1);
        self.layers
            .pop()
            .map_or_else(Vec::new, |layer| layer.into_iter().collect())
    }
}
