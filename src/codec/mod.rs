//! Bytes and what they mean: keys in their order, values, records with their checksum.
//!
//! Every function here is total: any bytes give a value or a typed error, never a panic and never an allocation that the
//! bytes do not pay for. No I/O.

mod dyn_key;
pub mod envelope;
pub mod filter;
pub(crate) mod frame;
mod guard;
pub(crate) mod hex;
#[cfg(feature = "json")]
mod json_text;
mod key;
mod keys;
pub(crate) mod sealed;
pub mod segment;
pub(crate) mod superblock;
pub(crate) mod time;
mod value;
pub mod varint;
mod version;

pub use dyn_key::DynKey;
pub use key::{Key, KeyKind, KeyPart, encode_key};
pub use keys::Keys;
pub(crate) use keys::successor_of_prefix;
#[cfg(feature = "json")]
pub use value::Json;
pub use value::{Bincode, Codec, CodecId, encode_verified};
pub use version::Version;
