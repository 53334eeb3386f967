//! A frame as docs/FORMAT.md describes it, made by code of its own: a commit that says whatever a test wants it to.

use sprag::Version;
use sprag::internals::envelope::{self, Envelope};

/// A key with its space, and its value, or none to remove it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// A store's image that takes one more frame behind those of its first half.
pub struct Forged {
    bytes: Vec<u8>,
    /// Where the last frame of the first half begins, and where it ends.
    last: (usize, usize),
}

const HALF_AT: usize = 4096;
const HEAD: usize = 28;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

impl Forged {
    pub fn new(bytes: &[u8]) -> Forged {
        let mut last = (HALF_AT, HALF_AT);
        while bytes[last.1..last.1 + 4] == bytes[24..28] {
            last = (last.1, last.1 + HEAD + word(bytes, last.1 + 8) as usize);
        }
        assert!(last.0 < last.1, "there is no frame to continue");
        Forged {
            bytes: bytes.to_vec(),
            last,
        }
    }

    /// With a commit of these changes at the end.
    pub fn with(mut self, changes: &[Change]) -> Vec<u8> {
        let (before, at) = self.last;
        let sequence = u64::from_le_bytes(self.bytes[before + 12..before + 20].try_into().expect("8 bytes")) + 1;
        let mut rest = sequence.to_le_bytes().to_vec();
        rest.extend_from_slice(&self.bytes[before + 20..before + 28]);
        // Not the first of its life; one behind what is durable; three readings of time.
        rest.extend_from_slice(&[0, 1]);
        rest.extend_from_slice(&[0; 24]);
        for (key, value) in changes {
            rest.push(
                (key.len() * 2 + usize::from(value.is_some()))
                    .try_into()
                    .expect("a short key"),
            );
            assert!(key.len() < 64);
            rest.extend_from_slice(key);
            if let Some(value) = value {
                assert!(value.len() < 128);
                rest.push(value.len() as u8);
                rest.extend_from_slice(value);
            }
        }
        let body = (rest.len() - 16) as u32;
        let summed = [&body.to_le_bytes()[..], &rest].concat();
        let mut crc = crc32fast::Hasher::new_with_initial(word(&self.bytes, 20));
        crc.update(&summed);
        let frame = [&self.bytes[24..28], &crc.finalize().to_le_bytes(), &summed].concat();
        self.bytes[at..at + frame.len()].copy_from_slice(&frame);
        self.bytes
    }
}

/// Key and bytes of a record.
pub fn record(table: u32, key: &[u8], version: u64, state: Option<&str>, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let key = [&[1][..], &table.to_be_bytes(), key].concat();
    let mut bytes = Vec::new();
    let version = Version::try_from(version).expect("a version");
    envelope::encode(&key[1..], &Envelope { version, state, value }, &mut bytes);
    (key, bytes)
}

pub fn put((key, bytes): (Vec<u8>, Vec<u8>)) -> Change {
    (key, Some(bytes))
}

/// Key of the entry of a record in a state.
pub fn state_entry(table: u32, state: &str, key: u64) -> Vec<u8> {
    let name = state.as_bytes();
    [
        &[3][..],
        &table.to_be_bytes(),
        &[name.len() as u8],
        name,
        &key.to_be_bytes(),
    ]
    .concat()
}

/// Key of the count of a state.
pub fn count(table: u32, state: &str) -> Vec<u8> {
    [&[0, b'c'][..], &table.to_be_bytes(), state.as_bytes()].concat()
}
