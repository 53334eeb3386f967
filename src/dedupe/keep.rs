//! How long a key is remembered, and the text form of that.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::KEEP_TEXT_DAYS_MAX;

/// How long a key is remembered, from the commit that stored it. There is no safe default: it must cover the longest
/// time after which the same delivery can still arrive.
///
/// The text form is `forever`, or a duration with its units: `7d`, `1h 30m`; one of ns, us, ms, s, m, h, d, w behind each
/// number, and at most 100 years.
///
/// ```
/// use std::time::Duration;
/// use sprag::Keep;
///
/// # fn main() -> sprag::Result<()> {
/// assert_eq!("7d".parse::<Keep>()?, Keep::For(Duration::from_secs(7 * 86400)));
/// assert_eq!(Keep::For(Duration::from_secs(90)).to_string(), "90s");
/// assert_eq!(Keep::Forever.to_string(), "forever");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// At least this long, counted in retention time. Not zero.
    For(Duration),
    /// For as long as the store exists.
    Forever,
}

const FOREVER: &str = "forever";

/// Months and years are left out: their length is not one number, and `M` is too near to `m`.
const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "m", "h", "d", "w"];

/// Units that hold a whole number of the next one, largest first.
const WHOLE: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

impl fmt::Display for Keep {
    /// In the largest unit of which it is a whole number, up to days.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Keep::For(time) = self else {
            return out.write_str(FOREVER);
        };
        let whole = WHOLE.into_iter().find(|(_, secs)| time.as_secs().is_multiple_of(*secs));
        match whole.filter(|_| time.subsec_nanos() == 0) {
            Some((unit, secs)) => write!(out, "{}{unit}", time.as_secs() / secs),
            None => write!(out, "{}s {}ns", time.as_secs(), time.subsec_nanos()),
        }
    }
}

impl FromStr for Keep {
    type Err = Error;

    /// # Errors
    /// `Invalid` without a unit, with another unit, or for more than 100 years: a slip of the hand, which could not be told
    /// from what is meant for ever.
    fn from_str(text: &str) -> Result<Keep> {
        if text == FOREVER {
            return Ok(Keep::Forever);
        }
        let mut units = text
            .split(|letter: char| !letter.is_alphabetic())
            .filter(|unit| !unit.is_empty())
            .peekable();
        if units.peek().is_none() {
            return Err(refused(
                text,
                &format!("without a unit, units={}, or {FOREVER}", UNITS.join(" ")),
            ));
        }
        if units.any(|unit| !UNITS.contains(&unit)) {
            return Err(refused(
                text,
                &format!("with another unit, units={}, or {FOREVER}", UNITS.join(" ")),
            ));
        }
        match humantime::parse_duration(text) {
            Ok(time) if time <= Duration::from_secs(KEEP_TEXT_DAYS_MAX * 86_400) => Ok(Keep::For(time)),
            Ok(_) | Err(humantime::DurationError::NumberOverflow) => Err(refused(
                text,
                &format!("longer than 100 years, days_max={KEEP_TEXT_DAYS_MAX}"),
            )),
            Err(cause) => Err(Error::with_source(
                ErrorKind::Invalid,
                format!("not a duration, text={:?}", shown(text)),
                cause,
            )),
        }
    }
}

fn refused(text: &str, why: &str) -> Error {
    let message = format!("a duration {why}, text={:?}", shown(text));
    Error::new(ErrorKind::Invalid, message)
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
