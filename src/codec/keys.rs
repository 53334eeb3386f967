//! Ranges of keys, kept as bounds of their encodings.
//!
//! Order of encodings is order of keys, so a range of the one is a range of the other, and layers below need no types.

use super::{Key, KeyPart};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;

/// Which keys of a table, and in which direction.
///
/// Keys longer than [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX) may be bounds: no record has them, all have a place
/// before or behind them.
pub struct Keys<K: ?Sized> {
    lo: Bound<Vec<u8>>,
    hi: Bound<Vec<u8>>,
    reverse: bool,
    of: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Keys<K> {
    /// Every key, in order.
    pub fn all() -> Keys<K> {
        Keys::from_bounds(Bound::Unbounded, Bound::Unbounded)
    }

    /// The same keys in the opposite direction.
    #[must_use]
    pub fn rev(mut self) -> Keys<K> {
        self.reverse = !self.reverse;
        self
    }

    /// Bounds of encodings, for whoever knows the kind of the keys only at run time.
    pub(crate) fn from_bounds(lo: Bound<Vec<u8>>, hi: Bound<Vec<u8>>) -> Keys<K> {
        Keys {
            lo,
            hi,
            reverse: false,
            of: PhantomData,
        }
    }

    /// All encodings that begin with `prefix`.
    pub(crate) fn from_prefix(prefix: Vec<u8>) -> Keys<K> {
        let hi = successor_of_prefix(&prefix);
        Keys::from_bounds(Bound::Included(prefix), hi)
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.lo.as_ref().map(Vec::as_slice), self.hi.as_ref().map(Vec::as_slice))
    }

    pub(crate) fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// Whether the bounds leave no room for any key. Ordered maps panic on such bounds, so ask before.
    pub(crate) fn is_empty(&self) -> bool {
        match self.bounds() {
            (Bound::Included(lo), Bound::Included(hi)) => lo > hi,
            (Bound::Included(lo) | Bound::Excluded(lo), Bound::Included(hi) | Bound::Excluded(hi)) => lo >= hi,
            (_, Bound::Excluded(hi)) => hi.is_empty(),
            _ => false,
        }
    }

    /// What of this range lies behind the encoded key, in the direction of the range.
    #[must_use]
    pub(crate) fn resume_after_encoded(mut self, key: &[u8]) -> Keys<K> {
        if self.reverse {
            let tighter = match &self.hi {
                Bound::Included(hi) | Bound::Excluded(hi) => key <= hi.as_slice(),
                Bound::Unbounded => true,
            };
            if tighter {
                self.hi = Bound::Excluded(key.to_vec());
            }
        } else {
            let tighter = match &self.lo {
                Bound::Included(lo) | Bound::Excluded(lo) => key >= lo.as_slice(),
                Bound::Unbounded => true,
            };
            if tighter {
                self.lo = Bound::Excluded(key.to_vec());
            }
        }
        self
    }
}

/// What can bound a range: a typed key, and a [`DynKey`](super::DynKey).
pub trait Bounding {
    #[doc(hidden)]
    fn encoded(&self) -> Vec<u8>;
}

impl<K: Key + ?Sized> Bounding for K {
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// Bounds are compared by their encodings. A [`DynKey`](super::DynKey) must be of the table's kind: with one of another kind
/// a range covers whatever happens to lie there.
impl<K: Bounding + ?Sized> Keys<K> {
    /// `key` and every key behind it.
    pub fn from(key: &K) -> Keys<K> {
        Keys::from_bounds(Bound::Included(key.encoded()), Bound::Unbounded)
    }

    /// Every key behind `key`, without it.
    pub fn after(key: &K) -> Keys<K> {
        Keys::from_bounds(Bound::Excluded(key.encoded()), Bound::Unbounded)
    }

    /// Every key before `key`, without it.
    pub fn to(key: &K) -> Keys<K> {
        Keys::from_bounds(Bound::Unbounded, Bound::Excluded(key.encoded()))
    }

    /// Every key up to `key`, with it.
    pub fn through(key: &K) -> Keys<K> {
        Keys::from_bounds(Bound::Unbounded, Bound::Included(key.encoded()))
    }

    /// From `from` up to `to`, without `to`. No key at all if `to` is not behind `from`.
    pub fn between(from: &K, to: &K) -> Keys<K> {
        Keys::from_bounds(Bound::Included(from.encoded()), Bound::Excluded(to.encoded()))
    }

    /// What of this range lies behind `key`, in the direction of the range: the next page after one that ended there.
    #[must_use]
    pub fn resume_after(self, key: &K) -> Keys<K> {
        self.resume_after_encoded(&key.encoded())
    }
}

impl Keys<str> {
    /// Every key that begins with this text.
    pub fn prefix(prefix: &str) -> Keys<str> {
        Keys::from_prefix(prefix.as_bytes().to_vec())
    }
}

impl Keys<String> {
    /// Every key that begins with this text.
    pub fn prefix(prefix: &str) -> Keys<String> {
        Keys::from_prefix(prefix.as_bytes().to_vec())
    }
}

impl Keys<[u8]> {
    /// Every key that begins with these bytes.
    pub fn prefix(prefix: &[u8]) -> Keys<[u8]> {
        Keys::from_prefix(prefix.to_vec())
    }
}

impl Keys<Vec<u8>> {
    /// Every key that begins with these bytes.
    pub fn prefix(prefix: &[u8]) -> Keys<Vec<u8>> {
        Keys::from_prefix(prefix.to_vec())
    }
}

impl<const N: usize> Keys<[u8; N]> {
    /// Every key that begins with these bytes.
    pub fn prefix(prefix: &[u8]) -> Keys<[u8; N]> {
        Keys::from_prefix(prefix.to_vec())
    }
}

impl<A: KeyPart, B: KeyPart> Keys<(A, B)> {
    /// Every pair whose first part is this one.
    pub fn first(first: &A) -> Keys<(A, B)> {
        let mut prefix = Vec::new();
        first.encode_part(&mut prefix);
        Keys::from_prefix(prefix)
    }
}

/// The end of the range of all bytes that begin with `prefix`: the prefix with its last byte that can grow grown by one.
pub(crate) fn successor_of_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(grown) = last.checked_add(1) {
            end.push(grown);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

impl<K: ?Sized> Clone for Keys<K> {
    fn clone(&self) -> Keys<K> {
        Keys {
            lo: self.lo.clone(),
            hi: self.hi.clone(),
            reverse: self.reverse,
            of: PhantomData,
        }
    }
}

impl<K: ?Sized> fmt::Debug for Keys<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Keys { lo, hi, reverse, of: _ } = self;
        out.debug_struct("Keys")
            .field("lo", lo)
            .field("hi", hi)
            .field("reverse", reverse)
            .finish()
    }
}
