//! A transaction: a view and the changes made on top of it.
//!
//! Reads see the transaction's own changes. Nothing leaves it but by [`Txn::into_changes`], so a transaction that is
//! dropped leaves no trace. Changes lie in layers: a unit that may fail on its own opens one, and either folds it into
//! the one below or throws it away.
//!
//! One entry that a transaction rewrites over and over may be kept as what it means; see [`Late`].

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds as _;
use std::sync::Arc;

use crate::engine::{Bytes, Change, Held, Layer, Merge, Now, Span, View};
use crate::error::Result;

/// Changes by key; `None` removes.
type WriteSet = BTreeMap<Bytes, Option<Bytes>>;

/// What becomes the bytes of an entry only when somebody asks for them, or the transaction ends.
pub(crate) trait Late: Any + fmt::Debug + Send + Sync {
    /// The value under `key`.
    ///
    /// # Errors
    /// `TooLarge`.
    fn bytes(&self, key: &[u8]) -> Result<Vec<u8>>;
}

/// A view with changes.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    view: Arc<View>,
    /// Never empty in a transaction that writes; the last one takes the changes.
    layers: Vec<WriteSet>,
    /// A change above all layers. A layer is opened without one, so this belongs to the last.
    late: Option<(Bytes, Arc<dyn Late>)>,
    step: Option<Step>,
    now: Now,
}

/// What a step changed in the last layer, and what was there before: for work that is too small for a layer and may fail in
/// the middle. No layer is opened, kept or dropped inside of one.
#[derive(Clone, Debug)]
struct Step {
    before: Vec<(Bytes, Option<Option<Bytes>>)>,
    late: Option<(Bytes, Arc<dyn Late>)>,
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
            late: None,
            step: None,
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
        if let Some((_, late)) = self.late.as_ref().filter(|(own, _)| **own == *key) {
            return Ok(Some(Held::Shared(late.bytes(key)?.into())));
        }
        for layer in self.layers.iter().rev() {
            if let Some(change) = layer.get(key) {
                return Ok(change.clone().map(Held::Shared));
            }
        }
        self.view.get(key)
    }

    /// What [`Txn::put_late`] was given last, if it was under this key.
    pub(crate) fn late<T: Late>(&self, key: &[u8]) -> Option<&T> {
        let (_, late) = self.late.as_ref().filter(|(own, _)| **own == *key)?;
        let late: &dyn Any = &**late;
        late.downcast_ref()
    }

    /// Puts what a transaction rewrites over and over; nothing else is ever put under its key.
    pub(crate) fn put_late(&mut self, key: Vec<u8>, thing: impl Late) -> Result<()> {
        if self.late.as_ref().is_some_and(|(own, _)| **own != *key) {
            self.encode_late()?;
        }
        self.late = Some((key.into(), Arc::new(thing)));
        Ok(())
    }

    fn encode_late(&mut self) -> Result<()> {
        if let Some((key, late)) = self.late.take() {
            let bytes = late.bytes(&key)?;
            self.put(key, bytes);
        }
        Ok(())
    }

    pub(crate) fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.change(key.into(), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, key: Vec<u8>) {
        self.change(key.into(), None);
    }

    fn change(&mut self, key: Bytes, value: Option<Bytes>) {
        if self.layers.is_empty() {
            self.layers.push(WriteSet::new());
        }
        let Some(layer) = self.layers.last_mut() else { return };
        match &mut self.step {
            Some(step) => {
                let before = layer.insert(key.clone(), value);
                step.before.push((key, before));
            }
            None => drop(layer.insert(key, value)),
        }
    }

    /// From here on each change can be taken back, until the step is kept.
    pub(crate) fn begin_step(&mut self) {
        self.step = Some(Step {
            before: Vec::new(),
            late: self.late.clone(),
        });
    }

    /// The changes of the step stay.
    pub(crate) fn keep_step(&mut self) {
        self.step = None;
    }

    /// Takes back what the step changed, if one was begun and not kept.
    pub(crate) fn take_back(&mut self) {
        let Some(Step { before, late }) = self.step.take() else {
            return;
        };
        if let Some(layer) = self.layers.last_mut() {
            for (key, before) in before.into_iter().rev() {
                match before {
                    Some(change) => drop(layer.insert(key, change)),
                    None => drop(layer.remove(&key)),
                }
            }
        }
        self.late = late;
    }

    /// The live entries inside `span`, which lies in one key space, with this transaction's own changes.
    pub(crate) fn scan(&self, span: &Span) -> Result<Merge<'_>> {
        if span.is_empty() {
            return Ok(Merge::nothing());
        }
        let mut layers: Vec<Layer<'_>> = Vec::with_capacity(4);
        if let Some((key, late)) = self.late.as_ref().filter(|(key, _)| span.contains(&**key)) {
            let bytes = late.bytes(key)?;
            layers.push(Box::new(std::iter::once((key.clone(), Some(bytes.into())))));
        }
        for own in self.layers.iter().rev() {
            let range = own.range::<[u8], _>(span.clone());
            let range = span.direct(range);
            layers.push(Box::new(range.map(|(key, value)| (key.clone(), value.clone()))));
        }
        self.view.scan(layers, span)
    }

    /// Opens a layer and gives the depth to go back to.
    pub(crate) fn open_layer(&mut self) -> Result<usize> {
        self.encode_late()?;
        if self.layers.is_empty() {
            self.layers.push(WriteSet::new());
        }
        let depth = self.layers.len();
        self.layers.push(WriteSet::new());
        Ok(depth)
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
        if self.layers.len() > depth {
            self.late = None;
        }
        self.layers.truncate(depth);
    }

    /// All changes in key order, each key once.
    pub(crate) fn into_changes(mut self) -> Result<Vec<Change>> {
        self.encode_late()?;
        self.keep_layers(1);
        let changes = self.layers.pop();
        Ok(changes.map_or_else(Vec::new, |layer| layer.into_iter().collect()))
    }
}
