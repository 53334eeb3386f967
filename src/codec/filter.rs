//! The filter of a segment: which keys are certainly not in it.
//!
//! A Bloom filter in blocks of one cache line (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters",
//! 2007): all bits of a key lie in one block, so that a look-up touches memory once. About ten bits a key, of which six are
//! set; about one key in a hundred that is not there seems to be.
//!
//! The hash and the places of the bits are part of the format. A filter never says no of a key that it was given.

use twox_hash::XxHash3_64;

/// Length of a block in bytes.
pub const BLOCK_BYTES: usize = 64;
const BITS_PER_KEY: u64 = 10;
const BITS_PER_BLOCK: u64 = 8 * BLOCK_BYTES as u64;
const BITS_SET: u32 = 6;
/// Spreads the hash anew, so that the bits inside of a block do not follow from its place: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a key: XXH3 with 64 bits and the seed zero.
pub fn hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// Bits in blocks. The default has none and is for reading into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    blocks: Vec<[u8; BLOCK_BYTES]>,
}

impl Filter {
    /// An empty filter for `keys` keys. It takes more, and tells fewer of them apart then.
    pub fn with_room(keys: u64) -> Filter {
        let blocks = keys.saturating_mul(BITS_PER_KEY).div_ceil(BITS_PER_BLOCK).max(1);
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        let mut filter = Filter::default();
        // How many keys there are may be read from a damaged file.
        let fits = filter.blocks.try_reserve_exact(blocks).is_ok();
        filter.blocks.resize(if fits { blocks } else { 1 }, [0; BLOCK_BYTES]);
        filter
    }

    /// Makes room for so many bytes more, as far as there is any: what follows may be less.
    pub fn reserve(&mut self, bytes: usize) {
        let _ = self.blocks.try_reserve_exact(bytes / BLOCK_BYTES);
    }

    /// Adds blocks of a filter that is read; `false`, and nothing is added, if the bytes are no whole number of them.
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        if rest.is_empty() {
            self.blocks.extend_from_slice(blocks);
        }
        rest.is_empty()
    }

    /// Its bytes, block by block.
    pub fn bytes(&self) -> &[u8] {
        self.blocks.as_flattened()
    }

    /// Takes in the key with this hash.
    pub fn insert(&mut self, hash: u64) {
        let place = self.place(hash);
        if let Some(block) = self.blocks.get_mut(place) {
            for (byte, bit) in bits(hash) {
                if let Some(byte) = block.get_mut(byte) {
                    *byte |= bit;
                }
            }
        }
    }

    /// Whether the key with this hash may have been taken in; `false` is certain.
    pub fn may_hold(&self, hash: u64) -> bool {
        self.blocks
            .get(self.place(hash))
            .is_none_or(|block| bits(hash).all(|(byte, bit)| block.get(byte).is_none_or(|byte| byte & bit != 0)))
    }

    /// The upper half of the hash as a fraction of all blocks.
    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.blocks.len() as u128) >> 64) as usize
    }
}

/// Byte and bit of each place inside of a block: nine bits of the spread hash for each, from the highest on.
fn bits(hash: u64) -> impl Iterator<Item = (usize, u8)> {
    let spread = hash.wrapping_mul(SPREAD);
    (0..BITS_SET).map(move |number| {
        let place = (spread >> (55 - 9 * number)) & 511;
        ((place / 8) as usize, 1 << (place % 8))
    })
}
