//! A frame: one commit as it lies in the log.
//!
//! Owns the bytes of a frame, both ways. Total: any bytes give a frame or [`None`], never a panic. Knows neither where a
//! frame lies nor whether it may be believed; `engine::recovery` decides that.
//!
//! Others may rely on: a frame that decodes is byte for byte one that [`encode`] made for the same store (marker and
//! salt are drawn with its identity).

use super::varint;

/// What marks the frames of one store, drawn with its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// First bytes of every frame, so that good frames can be found behind a bad one. No constant: whoever chose values full
    /// of it could make a search through them as slow as they like.
    pub marker: [u8; 4],
    /// What checksums begin with, so that a frame inside somebody's value is no frame of this log.
    pub salt: u32,
}

/// Bytes before the body: marker, checksum, body length, sequence, life.
pub(crate) const HEAD: usize = 28;
/// Where the checksummed part begins: behind marker and checksum.
const SUMMED_FROM: usize = 8;
const FIRST_OF_LIFE: u8 = 1;

/// Most bytes of a frame beside its operations: head, life before, distance to what is durable, three readings of time.
const BESIDE_OPS_MAX: usize = HEAD + 1 + 8 + varint::BYTES_MAX + 24;

/// What a frame says besides its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// One more than the frame before.
    pub(crate) sequence: u64,
    /// Drawn at random by the open that wrote the frame.
    pub(crate) life: u64,
    /// The life before, in the first frame of a life only.
    pub(crate) previous_life: Option<u64>,
    /// The highest sequence known to be durable when the frame was written; below `sequence`.
    pub(crate) synced: u64,
    /// Retention time at the commit, in nanoseconds.
    pub(crate) retention_ns: u64,
    /// The highest wall time seen up to the commit, in nanoseconds since 1970.
    pub(crate) highest_wall_ns: i64,
    /// The wall time of the commit, in nanoseconds since 1970.
    pub(crate) last_wall_ns: i64,
}

/// One change: the new value of a key, or its removal.
pub(crate) type Op<'a> = (&'a [u8], Option<&'a [u8]>);

/// A frame read back; borrows the bytes it was read from.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: Header,
    /// Length of the whole frame in bytes.
    pub(crate) len: usize,
    ops: &'a [u8],
}

/// Appends the frame of `ops` to `out` and gives its length in bytes.
pub(crate) fn encode<'a>(stamp: Stamp, header: &Header, ops: impl Iterator<Item = Op<'a>>, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&stamp.marker);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.life.to_le_bytes());
    match header.previous_life {
        Some(life) => {
            out.push(FIRST_OF_LIFE);
            out.extend_from_slice(&life.to_le_bytes());
        }
        None => out.push(0),
    }
    varint::put(out, header.sequence.saturating_sub(header.synced));
    out.extend_from_slice(&header.retention_ns.to_le_bytes());
    out.extend_from_slice(&header.highest_wall_ns.to_le_bytes());
    out.extend_from_slice(&header.last_wall_ns.to_le_bytes());
    for (key, value) in ops {
        encode_op(key, value, out);
    }
    let len = out.len() - start;
    if let Some(frame) = out.get_mut(start..) {
        seal(stamp.salt, frame);
    }
    len
}

/// Length that the frame of `ops` has at most. Goes by the operations alone, so that a limit on it is the same at any time.
pub(crate) fn len_max<'a>(ops: impl Iterator<Item = Op<'a>>) -> usize {
    let of_op = |(key, value): Op<'_>| {
        let value_len = value.map_or(0, |value| varint::len(value.len() as u64) + value.len());
        varint::len((key.len() as u64) << 1) + key.len() + value_len
    };
    BESIDE_OPS_MAX + ops.map(of_op).sum::<usize>()
}

fn encode_op(key: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    // One number holds the key's length and whether a value follows.
    varint::put(out, (key.len() as u64) << 1 | u64::from(value.is_some()));
    out.extend_from_slice(key);
    if let Some(value) = value {
        varint::put(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

/// Fills in length and checksum.
fn seal(salt: u32, frame: &mut [u8]) {
    let body = (frame.len() - HEAD) as u32;
    let Some((head, rest)) = frame.split_first_chunk_mut::<SUMMED_FROM>() else {
        return;
    };
    if let Some(len) = rest.first_chunk_mut::<4>() {
        *len = body.to_le_bytes();
    }
    let crc = checksum(salt, rest);
    if let Some(place) = head.last_chunk_mut() {
        *place = crc.to_le_bytes();
    }
}

fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

/// Reads the frame at the start of `bytes`; `None` if there is no good one.
pub(crate) fn decode(stamp: Stamp, bytes: &[u8]) -> Option<Frame<'_>> {
    let mut head = Cursor(bytes);
    if head.array::<4>()? != stamp.marker {
        return None;
    }
    let crc = u32::from_le_bytes(head.array()?);
    let body = u32::from_le_bytes(head.array()?) as usize;
    let len = HEAD.checked_add(body)?;
    let whole = bytes.get(..len)?;
    if checksum(stamp.salt, whole.get(SUMMED_FROM..)?) != crc {
        return None;
    }
    let mut rest = Cursor(whole.get(12..)?);
    let sequence = u64::from_le_bytes(rest.array()?);
    let life = u64::from_le_bytes(rest.array()?);
    let previous_life = match rest.array::<1>()? {
        [0] => None,
        [FIRST_OF_LIFE] => Some(u64::from_le_bytes(rest.array()?)),
        _ => return None,
    };
    let synced = sequence.checked_sub(rest.varint()?)?;
    let retention_ns = u64::from_le_bytes(rest.array()?);
    let highest_wall_ns = i64::from_le_bytes(rest.array()?);
    let last_wall_ns = i64::from_le_bytes(rest.array()?);
    let header = Header {
        sequence,
        life,
        previous_life,
        synced,
        retention_ns,
        highest_wall_ns,
        last_wall_ns,
    };
    let frame = Frame {
        header,
        len,
        ops: rest.0,
    };
    // Operations are judged here, so that a frame that decodes can be applied whole.
    let mut ops = Cursor(frame.ops);
    while !ops.0.is_empty() {
        ops.op()?;
    }
    Some(frame)
}

impl Frame<'_> {
    /// The operations in the order in which they were encoded.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let mut cursor = Cursor(self.ops);
        std::iter::from_fn(move || cursor.op())
    }
}

/// The bytes not yet read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn varint(&mut self) -> Option<u64> {
        varint::take(&mut self.0).ok()
    }

    fn op(&mut self) -> Option<Op<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let head = self.varint()?;
        let key = self.take(usize::try_from(head >> 1).ok()?)?;
        if head & 1 == 0 {
            return Some((key, None));
        }
        let len = self.varint()?;
        let value = self.take(usize::try_from(len).ok()?)?;
        Some((key, Some(value)))
    }
}
