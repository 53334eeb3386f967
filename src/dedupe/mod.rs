//! Remembered keys: did this operation already happen, and what did it answer?
//!
//! Owns the keys, their entries and their ends. An entry lies in the key space whose entries end, so that the checkpoint
//! frees its space; whether it is over is judged here, when it is read, with the one `now` of the transaction. The
//! layout behind [`look_up`], [`remember`] and [`forget`] is this module's own matter.

pub mod decide;
mod keep;
mod listing;
#[cfg(feature = "json")]
mod moved;

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::codec::time::{wall_ns, wall_time};
use crate::engine::{Bytes, Now, Space};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ONCE_KEY_BYTES_MAX, SCOPE_BYTES_MAX};
use crate::txn::Txn;

pub use keep::Keep;
pub use listing::RememberedKey;
pub(crate) use listing::{list, name_of};
#[cfg(feature = "json")]
pub(crate) use moved::{Moved, take_in};

use decide::{Delivery, OnceVerdict, Remembering, decide_once, is_alive};

/// The name of one logical operation, what it is bound to, and how long it is remembered.
///
/// # Limits
/// Scope: 1 to 64 bytes of `[A-Za-z0-9._-]`. Key: 1 to 255 bytes, compared byte for byte. A name outside of them, or a
/// keep of zero, makes the call that uses it answer `Invalid`.
#[must_use = "a key does nothing until a call is given it"]
#[derive(Clone, Debug)]
pub struct OnceKey {
    scope: String,
    key: Vec<u8>,
    /// The key under which the entry lies, made once and shared with whatever keeps it.
    stored: Bytes,
    delivery: Delivery,
}

impl OnceKey {
    /// Names an operation.
    pub fn new(scope: impl Into<String>, key: impl AsRef<[u8]>, keep: Keep) -> OnceKey {
        let delivery = Delivery {
            keep,
            fingerprint: None,
            issued_ns: None,
        };
        let (scope, key) = (scope.into(), key.as_ref().to_vec());
        OnceKey {
            stored: stored_key(&scope, &key).into(),
            scope,
            key,
            delivery,
        }
    }

    /// Binds the key to the bytes of its request: the same key with other bytes, or with none, is a `Mismatch` error.
    pub fn bound_to(mut self, request: impl AsRef<[u8]>) -> OnceKey {
        let digest = blake3::hash(request.as_ref());
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&digest.as_bytes()[..16]);
        self.delivery.fingerprint = Some(fingerprint);
        self
    }

    /// Says when the message was made, by its sender's clock. A delivery that is not remembered and at least as old as
    /// its keep is then refused with `TooOld`, since it may have run and been forgotten.
    pub fn issued_at(mut self, time: SystemTime) -> OnceKey {
        self.delivery.issued_ns = Some(wall_ns(time));
        self
    }

    /// The scope.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The key within its scope.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// How long it is remembered.
    pub fn keep(&self) -> Keep {
        self.delivery.keep
    }

    /// When the message was made, if that was said; cut off at what 64 bits of nanoseconds hold.
    pub fn issued(&self) -> Option<SystemTime> {
        self.delivery.issued_ns.map(wall_time)
    }

    /// Whether it is bound to a request.
    pub(crate) fn is_bound(&self) -> bool {
        self.delivery.fingerprint.is_some()
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_scope(&self.scope)?;
        check_key(&self.key)?;
        if self.delivery.keep == Keep::For(Duration::ZERO) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a keep of zero remembers nothing, keep=0",
            ));
        }
        Ok(())
    }

    /// The key under which the entry lies.
    pub(crate) fn stored_key(&self) -> &Bytes {
        &self.stored
    }
}

impl fmt::Display for OnceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.scope, self.key.escape_ascii())
    }
}

/// The two answers for a remembered key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once<R> {
    /// The work was done now; this is its result.
    First(R),
    /// The work was done before; this is what it answered then.
    Repeat {
        /// The result that the first delivery got.
        result: R,
        /// Wall time of the first delivery's commit.
        first_at: SystemTime,
    },
}

impl<R> Once<R> {
    /// The result, whichever delivery made it.
    pub fn into_result(self) -> R {
        match self {
            Once::First(result) | Once::Repeat { result, .. } => result,
        }
    }

    /// Whether the work was done before.
    pub fn is_repeat(&self) -> bool {
        matches!(self, Once::Repeat { .. })
    }
}

/// What is remembered under a key. Two are equal if the same is remembered, whenever each was read.
#[derive(Clone)]
pub struct Remembered {
    /// Retention time of the read that gave it.
    now_ns: u64,
    end_ns: u64,
    first_ns: i64,
    fingerprint: Option<[u8; 16]>,
    result: Vec<u8>,
}

impl Remembered {
    /// Wall time of the commit that stored the key.
    pub fn first_at(&self) -> SystemTime {
        wall_time(self.first_ns)
    }

    /// Digest of the request that the key is bound to.
    pub fn fingerprint(&self) -> Option<[u8; 16]> {
        self.fingerprint
    }

    /// The stored result, encoded.
    pub fn result_bytes(&self) -> &[u8] {
        &self.result
    }

    /// Whether it is kept for as long as the store exists.
    pub fn is_forever(&self) -> bool {
        self.end_ns == decide::NEVER
    }

    /// How long it is still kept at least, from the read that gave it; `None` for as long as the store exists.
    pub fn left(&self) -> Option<Duration> {
        (!self.is_forever()).then(|| Duration::from_nanos(self.end_ns.saturating_sub(self.now_ns)))
    }

    fn is_alive(&self) -> bool {
        is_alive(self.end_ns, self.now_ns)
    }
}

impl PartialEq for Remembered {
    fn eq(&self, other: &Remembered) -> bool {
        let Remembered {
            now_ns: _,
            end_ns,
            first_ns,
            fingerprint,
            result,
        } = self;
        (*end_ns, *first_ns, *fingerprint) == (other.end_ns, other.first_ns, other.fingerprint)
            && *result == other.result
    }
}

impl Eq for Remembered {}

impl fmt::Debug for Remembered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remembered")
            .field("first_at", &self.first_at())
            .field("fingerprint", &self.fingerprint)
            .field("result_bytes", &self.result.len())
            .finish_non_exhaustive()
    }
}

/// What a sweep freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Remembered keys whose time was over, and whose space is free now; also those that checkpoints freed meanwhile. Off by
    /// some if the disk failed for a moment, and a transaction was made twice.
    pub keys: u64,
}

impl Error {
    /// What is remembered under the key, for kind `Mismatch`.
    pub fn remembered(&self) -> Option<&Remembered> {
        self.carried()
    }
}

/// What a delivery meets.
#[derive(Debug)]
pub(crate) enum Met {
    /// Nothing: run, and remember until `end_ns`.
    First { end_ns: u64 },
    /// A repeat of what is remembered.
    Repeat(Remembered),
}

/// Judges a delivery. Looked at before any other condition.
///
/// # Errors
/// `Mismatch` with what is remembered; `TooOld`; `Corrupt` if the entry is damaged.
pub(crate) fn meet(txn: &Txn, key: &OnceKey) -> Result<Met> {
    let remembered = read(txn, key.stored_key())?;
    let now = txn.now();
    let stored = remembered.as_ref().map(|entry| Remembering {
        end_ns: entry.end_ns,
        fingerprint: entry.fingerprint,
    });
    match (
        decide_once(stored, key.delivery, now.retention_ns, now.schedule_ns),
        remembered,
    ) {
        (OnceVerdict::First { end_ns }, _) => Ok(Met::First { end_ns }),
        (OnceVerdict::Repeat, Some(remembered)) => Ok(Met::Repeat(remembered)),
        (OnceVerdict::Mismatch, Some(remembered)) => {
            let message = format!("remembered key belongs to another request, key={key}");
            Err(Error::carrying(ErrorKind::Mismatch, message, remembered))
        }
        (OnceVerdict::TooOld, _) => {
            let message = format!("delivery is older than its keep and not remembered, key={key}");
            Err(Error::new(ErrorKind::TooOld, message))
        }
        (OnceVerdict::Repeat | OnceVerdict::Mismatch, None) => Err(damaged()),
    }
}

/// Stores a key with its result.
pub(crate) fn remember(txn: &mut Txn, key: &OnceKey, end_ns: u64, result: Vec<u8>) {
    let Now {
        retention_ns,
        schedule_ns,
        ..
    } = txn.now();
    let entry = Remembered {
        now_ns: retention_ns,
        end_ns,
        first_ns: schedule_ns,
        fingerprint: key.delivery.fingerprint,
        result,
    };
    let bytes = encode(key.stored_key(), &entry);
    txn.put(key.stored_key().clone(), bytes);
}

/// What is remembered under a name, if it is not over.
pub(crate) fn look_up(txn: &Txn, scope: &str, key: &[u8]) -> Result<Option<Remembered>> {
    check_scope(scope)?;
    let remembered = read(txn, &stored_key(scope, key))?;
    Ok(remembered.filter(Remembered::is_alive))
}

/// Whether what lies under a key of the space is still remembered.
pub(crate) fn is_remembered(txn: &Txn, stored_key: &[u8]) -> Result<bool> {
    Ok(read(txn, stored_key)?.is_some_and(|remembered| remembered.is_alive()))
}

/// Forgets a name. Says whether something was remembered.
pub(crate) fn forget(txn: &mut Txn, scope: &str, key: &[u8]) -> Result<bool> {
    let alive = look_up(txn, scope, key)?.is_some();
    if alive {
        txn.remove(stored_key(scope, key));
    }
    Ok(alive)
}

fn read(txn: &Txn, stored_key: &[u8]) -> Result<Option<Remembered>> {
    txn.get(stored_key)?
        .map(|bytes| decode(stored_key, &bytes, txn.now()).ok_or_else(damaged))
        .transpose()
}

/// Judges an entry and its name.
///
/// # Errors
/// `Corrupt` if the entry is damaged, `Invalid` for a name out of its limits.
pub(crate) fn judge(stored_key: &[u8], bytes: &[u8]) -> Result<()> {
    decode(stored_key, bytes, Now::default()).ok_or_else(damaged)?;
    let (scope, key) = name_of(stored_key).ok_or_else(damaged)?;
    check_scope(std::str::from_utf8(scope).map_err(|_| damaged())?)?;
    check_key(key)
}

fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "entry of a remembered key is damaged")
}

fn check_key(key: &[u8]) -> Result<()> {
    if (1..=ONCE_KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    let bytes = key.len();
    let message = format!("remembered key has {bytes} bytes, bytes_min=1, bytes_max={ONCE_KEY_BYTES_MAX}");
    Err(Error::new(ErrorKind::Invalid, message))
}

fn check_scope(scope: &str) -> Result<()> {
    let fits = (1..=SCOPE_BYTES_MAX).contains(&scope.len());
    if fits
        && scope
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    {
        return Ok(());
    }
    let shown: String = scope.chars().take(SCOPE_BYTES_MAX).collect();
    let message = format!("scope is not 1 to {SCOPE_BYTES_MAX} of A-Z a-z 0-9 . _ -, scope={shown:?}");
    Err(Error::new(ErrorKind::Invalid, message))
}

/// Length of the scope, scope, key: so that no scope is the beginning of another. Of use only for names within their limits.
fn stored_key(scope: &str, key: &[u8]) -> Vec<u8> {
    let mut out = Space::Ending.key(1 + scope.len() + key.len());
    out.push(scope.len() as u8);
    out.extend_from_slice(scope.as_bytes());
    out.extend_from_slice(key);
    out
}

const HAS_FINGERPRINT: u8 = 1;

/// `end u64 BE | crc32 LE | flags | first i64 LE | [fingerprint 16] | result`. The checksum covers the key without its
/// space, the end, and everything behind itself.
fn encode(stored_key: &[u8], entry: &Remembered) -> Vec<u8> {
    let mut out = Vec::with_capacity(37 + entry.result.len());
    out.extend_from_slice(&entry.end_ns.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.push(if entry.fingerprint.is_some() {
        HAS_FINGERPRINT
    } else {
        0
    });
    out.extend_from_slice(&entry.first_ns.to_le_bytes());
    out.extend_from_slice(entry.fingerprint.as_ref().map_or(&[], |digest| digest.as_slice()));
    out.extend_from_slice(&entry.result);
    let crc = checksum(stored_key, &out).to_le_bytes();
    if let Some(place) = out.get_mut(8..12) {
        place.copy_from_slice(&crc);
    }
    out
}

fn decode(stored_key: &[u8], bytes: &[u8], now: Now) -> Option<Remembered> {
    let (end, rest) = bytes.split_first_chunk::<8>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*crc) != checksum(stored_key, bytes) {
        return None;
    }
    let ([flags], rest) = rest.split_first_chunk::<1>()?;
    let (first, rest) = rest.split_first_chunk::<8>()?;
    let (fingerprint, result) = match *flags {
        0 => (None, rest),
        HAS_FINGERPRINT => rest
            .split_first_chunk::<16>()
            .map(|(digest, rest)| (Some(*digest), rest))?,
        _ => return None,
    };
    Some(Remembered {
        now_ns: now.retention_ns,
        end_ns: u64::from_be_bytes(*end),
        first_ns: i64::from_le_bytes(*first),
        fingerprint,
        result: result.to_vec(),
    })
}

/// Of the key without its space, and of the entry with its checksum left out.
fn checksum(stored_key: &[u8], entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(stored_key.get(1..).unwrap_or_default());
    hasher.update(entry.get(..8).unwrap_or_default());
    hasher.update(entry.get(12..).unwrap_or_default());
    hasher.finalize()
}
