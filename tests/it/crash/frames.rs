//! Frames as docs/FORMAT.md describes them, read by code of its own: what lies in the log of an image, and where.

use std::ops::Range;

use sprag::testkit::{Disk, SimDisk};

const SUPERBLOCK_BYTES: u64 = 4096;
const HEAD: usize = 28;

/// Where the regions of a file are.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub half_bytes: u64,
    salt: u32,
    marker: [u8; 4],
}

/// A frame whose checksum is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Good {
    /// From the beginning of the bytes looked at.
    pub at: usize,
    pub len: usize,
    pub sequence: u64,
}

impl Layout {
    pub fn of(disk: &SimDisk) -> Layout {
        let mut block = [0; 64];
        disk.read(0, &mut block).unwrap();
        let salt = u32::from_le_bytes(block[20..24].try_into().unwrap());
        let half_bytes = u64::from_le_bytes(block[36..44].try_into().unwrap());
        let marker = block[24..28].try_into().unwrap();
        Layout {
            half_bytes,
            salt,
            marker,
        }
    }

    /// Both halves.
    pub fn log(self) -> Range<u64> {
        SUPERBLOCK_BYTES..SUPERBLOCK_BYTES + 2 * self.half_bytes
    }

    /// Whether a half begins here.
    pub fn begins_half(self, offset: u64) -> bool {
        offset == SUPERBLOCK_BYTES || offset == SUPERBLOCK_BYTES + self.half_bytes
    }

    /// The bytes of both halves, as a program sees them.
    pub fn read_log(self, disk: &SimDisk) -> Vec<u8> {
        let log = self.log();
        let mut out = vec![0; (log.end - log.start) as usize];
        disk.read(log.start, &mut out).unwrap();
        out
    }

    /// The good frames of a half of the log, or of what is written to it.
    pub fn frames(self, bytes: &[u8]) -> Vec<Good> {
        let mut found = Vec::new();
        let mut at = 0;
        while at + HEAD <= bytes.len() {
            match self.frame(bytes, at) {
                Some(good) => {
                    at += good.len;
                    found.push(good);
                }
                None => at += 1,
            }
        }
        found
    }

    fn frame(self, bytes: &[u8], at: usize) -> Option<Good> {
        let head = bytes.get(at..at + HEAD)?;
        if !head.starts_with(&self.marker) {
            return None;
        }
        let crc = u32::from_le_bytes(head[4..8].try_into().unwrap());
        let len = HEAD + u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let summed = bytes.get(at + 8..at.checked_add(len)?)?;
        let mut hasher = crc32fast::Hasher::new_with_initial(self.salt);
        hasher.update(summed);
        let sequence = u64::from_le_bytes(head[12..20].try_into().unwrap());
        (hasher.finalize() == crc).then_some(Good { at, len, sequence })
    }
}
