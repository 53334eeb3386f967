//! Numbers of one to ten bytes: LEB128, least significant group first.
//!
//! Canonical: a number has one encoding, and any other is refused, so that equal records are equal bytes.

use crate::error::{Error, ErrorKind, Result};

/// Longest encoding in bytes.
pub const BYTES_MAX: usize = 10;

/// Number of bytes that [`put`] appends for a number.
pub fn len(number: u64) -> usize {
    let bits = (u64::BITS - number.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Appends `number`.
pub fn put(out: &mut Vec<u8>, number: u64) {
    let mut rest = number;
    while rest >= 0x80 {
        out.push((rest as u8 & 0x7f) | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes a number from the front of `input`.
///
/// # Errors
/// `Corrupt` if the input ends inside the number, or the number is not in its one encoding. `input` is as before then.
pub fn take(input: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for (index, &byte) in input.iter().take(BYTES_MAX).enumerate() {
        let group = u64::from(byte & 0x7f);
        // The tenth group holds the one bit that nine groups leave over.
        if index == BYTES_MAX - 1 && group > 1 {
            return Err(refused("too large", input));
        }
        number |= group << (7 * index);
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return Err(refused("not canonical", input));
            }
            *input = input.get(index + 1..).unwrap_or_default();
            return Ok(number);
        }
    }
    Err(refused("not complete", input))
}

fn refused(why: &str, input: &[u8]) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("number is {why}, bytes_left={}", input.len()),
    )
}
