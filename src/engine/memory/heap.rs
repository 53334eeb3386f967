//! Where the changes lie: one behind the other in chunks, so that few take an allocation of their own and all of them are
//! freed in a few pieces.

use super::Bytes;
use super::spare::Spare;

/// Room of a chunk in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// How many chunks are kept for the table that follows: what one of the usual length takes, and half as much again.
const CHUNKS_KEPT: usize = 64;
/// A longer value lies apart and is shared: it is not copied while anybody waits for the table.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// In the place of a value's length: the key was removed.
const REMOVED: u32 = u32::MAX;
/// In the place of a value's length: its number among those that lie apart follows.
const APART: u32 = u32::MAX - 1;

/// A change of one key by one commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'h> {
    pub(super) sequence: u64,
    pub(super) key: &'h [u8],
    /// `None`: the key was removed.
    pub(super) value: Option<Value<'h>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'h> {
    Here(&'h [u8]),
    Apart(&'h Bytes),
}

impl Value<'_> {
    pub(super) fn share(self) -> Bytes {
        match self {
            Value::Here(bytes) => bytes.into(),
            Value::Apart(bytes) => bytes.clone(),
        }
    }

    /// How much sharing it copies.
    pub(super) fn copied(self) -> usize {
        match self {
            Value::Here(bytes) => bytes.len(),
            Value::Apart(_) => 0,
        }
    }
}

/// Where a change begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    chunk: u32,
    at: u32,
}

/// Where a heap ended at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    chunks: usize,
    len: usize,
    apart: usize,
}

/// Changes in the order of their commits, never moved.
#[derive(Debug, Default)]
pub(super) struct Heap {
    chunks: Vec<Vec<u8>>,
    apart: Vec<Bytes>,
    spare: Spare<u8>,
}

impl Drop for Heap {
    fn drop(&mut self) {
        // A long key makes its chunk longer.
        let alike = self.chunks.drain(..).filter(|chunk| chunk.capacity() == CHUNK_BYTES);
        self.spare.keep(alike.take(CHUNKS_KEPT));
    }
}

impl Heap {
    /// An empty one that takes the chunks of those before it.
    pub(super) fn successor(&self) -> Heap {
        Heap {
            chunks: Vec::new(),
            apart: Vec::new(),
            spare: self.spare.clone(),
        }
    }

    /// Whether a value lies apart.
    pub(super) fn is_apart(value: &[u8]) -> bool {
        value.len() > VALUE_BYTES_MAX
    }

    /// Takes a change in.
    pub(super) fn push(&mut self, change: Change<'_>) -> Place {
        let number;
        let (kind, value) = match change.value {
            None => (REMOVED, &[][..]),
            Some(Value::Here(bytes)) => (number_of(bytes.len()), bytes),
            Some(Value::Apart(bytes)) => {
                number = number_of(self.apart.len()).to_le_bytes();
                self.apart.push(bytes.clone());
                (APART, &number[..])
            }
        };
        let len = size_of::<u64>() + 2 * size_of::<u32>() + change.key.len() + value.len();
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= len;
        if !self.chunks.last().is_some_and(fits) {
            self.chunks.push(self.spare.take(CHUNK_BYTES));
        }
        let number = self.chunks.len() - 1;
        let Some(chunk) = self.chunks.last_mut() else {
            return Place::default();
        };
        let at = chunk.len();
        chunk.extend_from_slice(&change.sequence.to_le_bytes());
        chunk.extend_from_slice(&number_of(change.key.len()).to_le_bytes());
        chunk.extend_from_slice(&kind.to_le_bytes());
        chunk.extend_from_slice(change.key);
        chunk.extend_from_slice(value);
        Place {
            chunk: number_of(number),
            at: number_of(at),
        }
    }

    /// The change at a place that [`Heap::push`] gave; `None` for any other.
    pub(super) fn get(&self, place: Place) -> Option<Change<'_>> {
        let chunk = self.chunks.get(place.chunk as usize)?;
        let (sequence, rest) = chunk.get(place.at as usize..)?.split_first_chunk()?;
        let (key_len, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        let value = match u32::from_le_bytes(*kind) {
            REMOVED => None,
            APART => {
                let number = u32::from_le_bytes(*rest.first_chunk()?);
                Some(Value::Apart(self.apart.get(number as usize)?))
            }
            len => Some(Value::Here(rest.get(..len as usize)?)),
        };
        Some(Change {
            sequence: u64::from_le_bytes(*sequence),
            key,
            value,
        })
    }

    pub(super) fn end(&self) -> End {
        End {
            chunks: self.chunks.len(),
            len: self.chunks.last().map_or(0, Vec::len),
            apart: self.apart.len(),
        }
    }

    /// Drops what came behind an end.
    pub(super) fn truncate(&mut self, end: End) {
        self.chunks.truncate(end.chunks);
        if let Some(last) = self.chunks.last_mut() {
            last.truncate(end.len);
        }
        self.apart.truncate(end.apart);
    }
}

/// Lengths and places are below a log half's greatest length, which fits.
fn number_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(REMOVED)
}
