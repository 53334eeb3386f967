//! Where the changes lie: one behind the other in chunks, so that none takes an allocation of its own and all of them are
//! freed in a few pieces.

use super::spare::Spare;

/// Room of a chunk in bytes. A change that takes more has a chunk to itself.
const CHUNK_BYTES: usize = 256 << 10;
/// In the place of a value's length: the key was removed.
const REMOVED: u32 = u32::MAX;

/// A change of one key by one commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'h> {
    pub(super) sequence: u64,
    pub(super) key: &'h [u8],
    /// `None`: the key was removed.
    pub(super) value: Option<&'h [u8]>,
}

/// Where a change begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    chunk: u32,
    at: u32,
}

/// Changes, never moved and never dropped singly.
#[derive(Debug, Default)]
pub(super) struct Heap {
    chunks: Vec<Vec<u8>>,
    spare: Spare<u8>,
}

impl Drop for Heap {
    fn drop(&mut self) {
        let chunks = self.chunks.drain(..);
        self.spare.keep(chunks.filter(|chunk| chunk.capacity() == CHUNK_BYTES));
    }
}

impl Heap {
    /// An empty one that takes the chunks of those before it.
    pub(super) fn successor(&self) -> Heap {
        Heap {
            chunks: Vec::new(),
            spare: self.spare.clone(),
        }
    }

    /// Copies a change in.
    pub(super) fn push(&mut self, change: Change<'_>) -> Place {
        let value = change.value.unwrap_or_default();
        let len = size_of::<u64>() + 2 * size_of::<u32>() + change.key.len() + value.len();
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= len;
        if !self.chunks.last().is_some_and(fits) {
            let chunk = match len {
                ..=CHUNK_BYTES => self.spare.take(CHUNK_BYTES),
                _ => Vec::with_capacity(len),
            };
            self.chunks.push(chunk);
        }
        let number = self.chunks.len() - 1;
        let Some(chunk) = self.chunks.last_mut() else {
            return Place::default();
        };
        let at = chunk.len();
        chunk.extend_from_slice(&change.sequence.to_le_bytes());
        chunk.extend_from_slice(&number_of(change.key.len()).to_le_bytes());
        let value_len = change.value.map_or(REMOVED, |value| number_of(value.len()));
        chunk.extend_from_slice(&value_len.to_le_bytes());
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
        let (value_len, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        let value = match u32::from_le_bytes(*value_len) {
            REMOVED => None,
            len => Some(rest.get(..len as usize)?),
        };
        Some(Change {
            sequence: u64::from_le_bytes(*sequence),
            key,
            value,
        })
    }
}

/// Lengths and places are below a log half's greatest length, which fits.
fn number_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(REMOVED)
}
