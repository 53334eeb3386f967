//! First, repeat or mismatch: the decision about a remembered key. Pure.

use super::Keep;

/// Nanoseconds in retention time at which an entry that is kept for ever ends: never.
pub(crate) const NEVER: u64 = u64::MAX;

/// What is remembered, as far as the decision needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembering {
    /// Retention time of the end in nanoseconds; dead at this instant.
    pub end_ns: u64,
    /// Digest of the request, if the key was bound to one.
    pub fingerprint: Option<[u8; 16]>,
}

/// What a delivery offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// How long the key is to be kept.
    pub keep: Keep,
    /// Digest of the request, if the key is bound to one.
    pub fingerprint: Option<[u8; 16]>,
    /// When the message was made, in wall nanoseconds since 1970, if it says so.
    pub issued_ns: Option<i64>,
}

/// What to do about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnceVerdict {
    /// Not remembered: run, and remember until this retention time in nanoseconds.
    First {
        /// When the new entry ends.
        end_ns: u64,
    },
    /// Remembered, and the same request: give back the stored result.
    Repeat,
    /// Remembered for another request.
    Mismatch,
    /// Not remembered, but so old that it may have been: refuse.
    TooOld,
}

/// Judges a delivery against what is stored, at one `now`: retention time, and wall time that is never behind.
pub fn decide_once(
    stored: Option<Remembering>,
    delivery: Delivery,
    retention_ns: u64,
    schedule_ns: i64,
) -> OnceVerdict {
    if let Some(stored) = stored.filter(|stored| is_alive(stored.end_ns, retention_ns)) {
        return if stored.fingerprint == delivery.fingerprint {
            OnceVerdict::Repeat
        } else {
            OnceVerdict::Mismatch
        };
    }
    let Keep::For(keep) = delivery.keep else {
        return OnceVerdict::First { end_ns: NEVER };
    };
    let age_ns = delivery
        .issued_ns
        .map_or(0, |issued| i128::from(schedule_ns) - i128::from(issued));
    if age_ns >= i128::try_from(keep.as_nanos()).unwrap_or(i128::MAX) {
        return OnceVerdict::TooOld;
    }
    let keep_ns = u64::try_from(keep.as_nanos()).unwrap_or(NEVER);
    OnceVerdict::First {
        end_ns: retention_ns.saturating_add(keep_ns),
    }
}

/// Whether an entry still answers. An end of [`NEVER`] does not come, whatever the clock says.
pub fn is_alive(end_ns: u64, retention_ns: u64) -> bool {
    end_ns == NEVER || retention_ns < end_ns
}
