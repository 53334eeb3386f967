//! The superblock: the first 4 KiB of a file, written once at create.
//!
//! Says that the file is a store, in which format, how large the log halves are, and who it is. Never rewritten, so it
//! can only be damaged from outside.

use super::frame::Stamp;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;

/// Length of the superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
const MAGIC: [u8; 16] = *b"sprag store\0\r\n\x1a\n";
/// The format that this version writes and the newest that it reads.
const FORMAT: u32 = 1;
/// The checksum's place is the same in every format, so that damage is told from a newer format.
const CRC_AT: usize = SUPERBLOCK_BYTES - 4;
/// Where nothing is said any more.
const PADDING_AT: usize = 44;

/// What the superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Identity of the store, drawn at create.
    pub(crate) store_id: [u8; 16],
    /// Length of one log half in bytes; a multiple of 4 KiB.
    pub(crate) log_half_bytes: u64,
}

impl Superblock {
    /// What marks the frames of this store.
    pub(crate) fn stamp(&self) -> Stamp {
        let [a, b, c, d, e, f, g, h, ..] = self.store_id;
        Stamp {
            salt: u32::from_le_bytes([a, b, c, d]),
            marker: [e, f, g, h],
        }
    }

    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut out = [0; SUPERBLOCK_BYTES];
        out[..16].copy_from_slice(&MAGIC);
        out[16..20].copy_from_slice(&FORMAT.to_le_bytes());
        out[20..36].copy_from_slice(&self.store_id);
        out[36..44].copy_from_slice(&self.log_half_bytes.to_le_bytes());
        let crc = crc32fast::hash(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a superblock back.
    ///
    /// # Errors
    /// `NotAStore` without the magic, `Corrupt` if the checksum or a value is wrong, `NewerFormat` for a later format.
    pub(crate) fn decode(bytes: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock> {
        if bytes[..16] != MAGIC {
            return Err(Error::new(
                ErrorKind::NotAStore,
                "not a store: the file begins with other bytes",
            ));
        }
        let crc = u32::from_le_bytes(field(bytes, CRC_AT));
        if crc != crc32fast::hash(&bytes[..CRC_AT]) {
            return Err(Error::new(ErrorKind::Corrupt, "superblock checksum is wrong"));
        }
        Superblock::decode_unsummed(bytes)
    }

    /// The same without a look at magic and checksum, for whoever wants to know what a damaged one most likely said.
    ///
    /// # Errors
    /// `Corrupt` if a value is out of its range, `NewerFormat` for a later format.
    pub(crate) fn decode_unsummed(bytes: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock> {
        let format = u32::from_le_bytes(field(bytes, 16));
        if format > FORMAT {
            let message = format!("file has a newer format, format={format}, newest_known={FORMAT}");
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        let log_half_bytes = u64::from_le_bytes(field(bytes, 36));
        if format == 0 || !valid_half(log_half_bytes) {
            let message = format!("superblock value out of range, format={format}, log_half_bytes={log_half_bytes}");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(Superblock {
            store_id: field(bytes, 20),
            log_half_bytes,
        })
    }
}

/// Whether a file that begins so is a store, or was one.
pub(crate) fn is_begun(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The first byte of the padding that is no zero.
pub(crate) fn first_of_padding(bytes: &[u8; SUPERBLOCK_BYTES]) -> Option<usize> {
    (PADDING_AT..CRC_AT).find(|at| bytes.get(*at) != Some(&0))
}

/// Whether a log half may have this length in bytes.
pub(crate) fn valid_half(bytes: u64) -> bool {
    (limits::LOG_HALF_BYTES_MIN..=limits::LOG_HALF_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(4096)
}

/// `N` bytes at a place inside the block.
fn field<const N: usize>(bytes: &[u8; SUPERBLOCK_BYTES], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}
