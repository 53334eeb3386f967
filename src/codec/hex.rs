//! Sixteen bytes as 32 hex digits: identities, fingerprints, effect ids.

/// The digits, in lower case.
pub(crate) fn encode(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// The bytes of exactly 32 digits.
pub(crate) fn decode(text: &str) -> Option<[u8; 16]> {
    let is_plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_plain)?;
    Some(number.to_be_bytes())
}
