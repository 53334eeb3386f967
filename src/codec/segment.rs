//! The bytes of a segment: blocks of entries in the order of their keys, and what the base notes of it.
//!
//! A block is `crc32 LE 4 | count varint | length varint | key that the next block begins with | entries`, where a length of
//! zero says that there is no next one. An entry is `length varint | key | at varint | shape u8 | [hides u64 BE] | [length
//! varint | value]`. The checksum covers the number of the segment, the key that the block lies under, of each entry
//! everything up to the end that its value begins with, and count and next key: whatever could lead a look-up astray, or
//! let an entry go before its time. What follows in a value has a checksum of its own, so that damage there takes no other
//! entry with it.
//!
//! Total: any bytes give a block or `Corrupt`.

use std::sync::Arc;

use super::varint;
use crate::error::{Error, ErrorKind, Result};

/// Bytes that the key and the value of a block share; a page of the base holds one such block.
const BLOCK_BYTES: usize = 4080;
/// Checksum and number of entries.
const BLOCK_HEAD_BYTES: usize = 4 + varint::BYTES_MAX;

/// A value; what it hides is over when it is.
const SHAPE_PLAIN: u8 = 0;
/// A value, and how long it hides what is older.
const SHAPE_HIDES: u8 = 1;
/// No value: the key was removed, and what is older stays hidden.
const SHAPE_REMOVED: u8 = 2;

/// An entry of a segment. A value begins with its end, as everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the byte of its space.
    pub key: Arc<[u8]>,
    /// The sequence of the checkpoint that it came with. Of two entries of a key the one with the higher number counts.
    pub at: u64,
    /// Until when older entries of its key must not be seen: at least until their ends.
    pub hides_ns: u64,
    /// `None`: removed.
    pub value: Option<Arc<[u8]>>,
}

impl Entry {
    /// When the value is over; `None` for a removal.
    pub fn end_ns(&self) -> Option<u64> {
        self.value.as_deref().map(end_of)
    }
}

/// Length of the end that a value begins with, in bytes.
const END_BYTES: usize = 8;

/// The end that a value begins with; none ends that is too short for one, so that a check finds it.
pub fn end_of(value: &[u8]) -> u64 {
    value.first_chunk().map_or(u64::MAX, |end| u64::from_be_bytes(*end))
}

/// Whether what ends then is over. What never ends is not, also at the last instant that a clock can show.
pub fn is_over(end_ns: u64, now_ns: u64) -> bool {
    end_ns != u64::MAX && end_ns <= now_ns
}

/// A block under construction.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    first: Option<Arc<[u8]>>,
    count: u64,
    entries: Vec<u8>,
    covered: crc32fast::Hasher,
}

impl BlockBuilder {
    /// The key it begins with; `None` while it is empty.
    pub fn first(&self) -> Option<&Arc<[u8]>> {
        self.first.as_ref()
    }

    /// Whether the block still fits a page with `entry`, whose key may have to be named as the next one as well.
    pub fn fits(&self, entry: &Entry) -> bool {
        let Some(first) = &self.first else { return true };
        let used = 8 + first.len() + BLOCK_HEAD_BYTES + self.entries.len();
        let names_next = varint::BYTES_MAX + entry.key.len();
        used + entry_len_max(entry) + names_next <= BLOCK_BYTES
    }

    /// Adds an entry with a higher key than those before.
    pub fn push(&mut self, segment: u64, entry: &Entry) {
        if self.first.is_none() {
            self.covered = covering(segment, &entry.key);
            self.first = Some(entry.key.clone());
        }
        let out = &mut self.entries;
        let from = out.len();
        put_bytes(out, &entry.key);
        varint::put(out, entry.at);
        match &entry.value {
            Some(value) if end_of(value) == entry.hides_ns => out.push(SHAPE_PLAIN),
            Some(_) => out.push(SHAPE_HIDES),
            None => out.push(SHAPE_REMOVED),
        }
        if entry.value.as_deref().map(end_of) != Some(entry.hides_ns) {
            out.extend_from_slice(&entry.hides_ns.to_be_bytes());
        }
        let mut uncovered = 0;
        if let Some(value) = &entry.value {
            put_bytes(out, value);
            uncovered = value.len().saturating_sub(END_BYTES);
        }
        self.covered
            .update(out.get(from..out.len() - uncovered).unwrap_or_default());
        self.count += 1;
    }

    /// The bytes of the block, which is empty afterwards. `next` is the key that the next block begins with.
    pub fn finish(&mut self, next: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 * BLOCK_HEAD_BYTES + self.entries.len() + next.map_or(0, <[u8]>::len));
        out.extend_from_slice(&[0; 4]);
        varint::put(&mut out, self.count);
        put_bytes(&mut out, next.unwrap_or_default());
        if let Some((crc, head)) = out.split_first_chunk_mut::<4>() {
            self.covered.update(head);
            *crc = std::mem::take(&mut self.covered).finalize().to_le_bytes();
        }
        out.extend_from_slice(&self.entries);
        self.entries.clear();
        self.count = 0;
        self.first = None;
        out
    }
}

/// A block as it was read.
#[derive(Debug)]
pub struct Block<'a> {
    /// The key that the next block begins with; `None` if this is the last one.
    pub next: Option<&'a [u8]>,
    entries: Vec<RawEntry<'a>>,
}

impl<'a> Block<'a> {
    /// Reads what lies under the key `first` of a segment, and judges it.
    ///
    /// # Errors
    /// `Corrupt` if it is not what was written there.
    pub fn decode(segment: u64, first: &[u8], bytes: &'a [u8]) -> Result<Block<'a>> {
        let (crc, head_and_rest) = bytes.split_first_chunk::<4>().ok_or_else(|| damaged("too short"))?;
        let mut rest = head_and_rest;
        let count = varint::take(&mut rest)?;
        let next = take_bytes(&mut rest)?;
        let head = head_and_rest
            .get(..head_and_rest.len() - rest.len())
            .unwrap_or_default();
        let mut covered = covering(segment, first);
        let mut entries: Vec<RawEntry<'a>> = Vec::new();
        for _ in 0..count {
            let from = rest;
            let entry = RawEntry::take(&mut rest)?;
            let uncovered = entry.value.map_or(0, |value| value.len().saturating_sub(END_BYTES));
            covered.update(from.get(..from.len() - rest.len() - uncovered).unwrap_or_default());
            if entries.last().is_some_and(|last| last.key >= entry.key) {
                return Err(damaged("entries are out of order"));
            }
            entries.push(entry);
        }
        covered.update(head);
        let is_whole = u32::from_le_bytes(*crc) == covered.finalize() && rest.is_empty();
        if !is_whole || entries.first().is_none_or(|entry| entry.key != first) {
            return Err(damaged("a block is not what was written there (checksum)"));
        }
        Ok(Block {
            next: (!next.is_empty()).then_some(next),
            entries,
        })
    }

    /// The entry of a key.
    ///
    /// # Errors
    /// `Corrupt` if the key cannot lie in this block.
    pub fn find(&self, key: &[u8]) -> Result<Option<Entry>> {
        if self.next.is_some_and(|next| next <= key) {
            return Err(damaged("a block is missing"));
        }
        let found = self.entries.binary_search_by(|entry| entry.key.cmp(key));
        let found = found.ok().and_then(|index| self.entries.get(index));
        Ok(found.map(RawEntry::owned))
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries.iter().map(RawEntry::owned)
    }
}

/// An entry where it lies.
#[derive(Debug)]
struct RawEntry<'a> {
    key: &'a [u8],
    at: u64,
    hides_ns: u64,
    value: Option<&'a [u8]>,
}

impl<'a> RawEntry<'a> {
    fn take(rest: &mut &'a [u8]) -> Result<RawEntry<'a>> {
        let key = take_bytes(rest)?;
        let at = varint::take(rest)?;
        let shape = take_byte(rest)?;
        let hides_ns = match shape {
            SHAPE_PLAIN => None,
            SHAPE_HIDES | SHAPE_REMOVED => {
                let (hides, behind) = rest.split_first_chunk::<8>().ok_or_else(|| damaged("cut short"))?;
                *rest = behind;
                Some(u64::from_be_bytes(*hides))
            }
            _ => return Err(damaged("an entry is of an unknown shape")),
        };
        let value = match shape {
            SHAPE_REMOVED => None,
            _ => Some(take_bytes(rest)?),
        };
        Ok(RawEntry {
            key,
            at,
            hides_ns: hides_ns.or(value.map(end_of)).unwrap_or_default(),
            value,
        })
    }

    fn owned(&self) -> Entry {
        Entry {
            key: self.key.into(),
            at: self.at,
            hides_ns: self.hides_ns,
            value: self.value.map(Into::into),
        }
    }
}

/// What the base notes of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Never given twice.
    pub id: u64,
    /// How long its keys are kept, by factors of four.
    pub class: u8,
    /// When they were stored, in steps of the length that belongs to the class.
    pub window: u64,
    /// How many there are.
    pub entries: u64,
    /// Those of them that have a value.
    pub values: u64,
    /// The earliest end of a value; [`u64::MAX`] without one that ends.
    pub first_end_ns: u64,
    /// From then on no entry of it is needed.
    pub over_ns: u64,
    /// The lowest.
    pub first_key: Arc<[u8]>,
    /// The highest.
    pub last_key: Arc<[u8]>,
}

impl About {
    /// Of a segment without entries.
    pub fn new(id: u64, class: u8, window: u64) -> About {
        About {
            id,
            class,
            window,
            entries: 0,
            values: 0,
            first_end_ns: u64::MAX,
            over_ns: 0,
            first_key: Arc::default(),
            last_key: Arc::default(),
        }
    }

    /// Counts the entry with the next higher key.
    pub fn count(&mut self, entry: &Entry) {
        if self.entries == 0 {
            self.first_key = entry.key.clone();
        }
        self.entries += 1;
        self.last_key = entry.key.clone();
        self.over_ns = self.over_ns.max(entry.hides_ns);
        if let Some(end_ns) = entry.end_ns() {
            self.values += 1;
            self.first_end_ns = self.first_end_ns.min(end_ns);
        }
    }
}

/// Everything the base notes of its segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The number of the next segment.
    pub next_id: u64,
    /// Those that count, by their numbers.
    pub segments: Vec<About>,
    /// Of what is being written. Blocks may lie under these numbers, and do not count.
    pub unfinished: Vec<u64>,
    /// Of what is being dropped; neither do these count.
    pub dropping: Vec<u64>,
}

impl Catalog {
    /// `crc32 LE 4 | next varint | segments | unfinished | dropping`, each list with its length before it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        varint::put(&mut out, self.next_id);
        varint::put(&mut out, self.segments.len() as u64);
        for about in &self.segments {
            let numbers = [
                about.id,
                about.window,
                about.entries,
                about.values,
                about.first_end_ns,
                about.over_ns,
            ];
            for number in numbers {
                varint::put(&mut out, number);
            }
            out.push(about.class);
            put_bytes(&mut out, &about.first_key);
            put_bytes(&mut out, &about.last_key);
        }
        for list in [&self.unfinished, &self.dropping] {
            varint::put(&mut out, list.len() as u64);
            for id in list {
                varint::put(&mut out, *id);
            }
        }
        if let Some((crc, covered)) = out.split_first_chunk_mut::<4>() {
            *crc = crc32fast::hash(covered).to_le_bytes();
        }
        out
    }

    /// # Errors
    /// `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Catalog> {
        let (crc, mut rest) = bytes
            .split_first_chunk::<4>()
            .ok_or_else(|| damaged("without a list"))?;
        if u32::from_le_bytes(*crc) != crc32fast::hash(rest) {
            return Err(damaged("not as they were listed (checksum)"));
        }
        let rest = &mut rest;
        let next_id = varint::take(rest)?;
        let segments = take_list(rest, take_about)?;
        let unfinished = take_list(rest, varint::take)?;
        let dropping = take_list(rest, varint::take)?;
        let ascending = segments.iter().zip(segments.iter().skip(1)).all(|(a, b)| a.id < b.id);
        let known = segments
            .iter()
            .map(|about| &about.id)
            .chain(&unfinished)
            .chain(&dropping);
        if !rest.is_empty() || !ascending || known.into_iter().any(|id| *id >= next_id) {
            return Err(damaged("listed in a way that cannot be"));
        }
        Ok(Catalog {
            next_id,
            segments,
            unfinished,
            dropping,
        })
    }
}

/// Length of a part of a filter in bytes, as many blocks of it as a page of 16 KiB takes with their key.
pub const FILTER_PART_BYTES: usize = 16_000;

/// A part of a filter: `crc32 LE 4 | number of parts u32 LE | bytes`. The checksum covers segment, number of the part, and
/// everything behind itself.
pub fn encode_part(segment: u64, part: u32, parts: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&parts.to_le_bytes());
    out.extend_from_slice(bytes);
    if let Some((crc, covered)) = out.split_first_chunk_mut::<4>() {
        *crc = checksum(segment, &part.to_le_bytes(), covered).to_le_bytes();
    }
    out
}

/// The number of parts, and the bytes of this one.
///
/// # Errors
/// `Corrupt`.
pub fn decode_part(segment: u64, part: u32, bytes: &[u8]) -> Result<(u32, &[u8])> {
    let (crc, covered) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("a filter is cut short"))?;
    let (parts, rest) = covered
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("a filter is cut short"))?;
    if u32::from_le_bytes(*crc) != checksum(segment, &part.to_le_bytes(), covered) {
        return Err(damaged("a filter is not what was written (checksum)"));
    }
    Ok((u32::from_le_bytes(*parts), rest))
}

fn take_about(rest: &mut &[u8]) -> Result<About> {
    let mut number = || varint::take(rest);
    let (id, window, entries, values) = (number()?, number()?, number()?, number()?);
    let (first_end_ns, over_ns) = (number()?, number()?);
    Ok(About {
        id,
        class: take_byte(rest)?,
        window,
        entries,
        values,
        first_end_ns,
        over_ns,
        first_key: take_bytes(rest)?.into(),
        last_key: take_bytes(rest)?.into(),
    })
}

fn take_list<T>(rest: &mut &[u8], take: impl Fn(&mut &[u8]) -> Result<T>) -> Result<Vec<T>> {
    let count = varint::take(rest)?;
    // Each takes a byte at least, so a length that the bytes do not pay for ends with an error.
    (0..count).map(|_| take(rest)).collect()
}

fn entry_len_max(entry: &Entry) -> usize {
    3 * varint::BYTES_MAX + 1 + 8 + entry.key.len() + entry.value.as_ref().map_or(0, |value| value.len())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_byte(rest: &mut &[u8]) -> Result<u8> {
    let (byte, behind) = rest.split_first().ok_or_else(|| damaged("cut short"))?;
    *rest = behind;
    Ok(*byte)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = usize::try_from(varint::take(rest)?).unwrap_or(usize::MAX);
    let (bytes, behind) = rest.split_at_checked(len).ok_or_else(|| damaged("cut short"))?;
    *rest = behind;
    Ok(bytes)
}

/// A checksum of what belongs to a segment and lies under `key`.
fn covering(segment: u64, key: &[u8]) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(key);
    hasher
}

fn checksum(segment: u64, key: &[u8], covered: &[u8]) -> u32 {
    let mut hasher = covering(segment, key);
    hasher.update(covered);
    hasher.finalize()
}

/// A segment, or the list of all, is not as it was written.
pub fn damaged(how: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("segments of remembered keys are damaged: {how}"),
    )
}
