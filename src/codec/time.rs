//! Wall times as the file keeps them: nanoseconds since 1970 in 64 bits with a sign; and lengths of time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall nanoseconds of a time, cut off at what 64 bits hold (years 1677 to 2262).
pub(crate) fn wall_ns(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

/// The time of wall nanoseconds.
pub(crate) fn wall_time(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    let time = if ns < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// Nanoseconds of a length of time, at most what 64 bits hold (584 years).
pub(crate) const fn nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}
