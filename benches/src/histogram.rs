//! How long operations took, in buckets that grow with the time, so that one count of each is all that a commit costs.

use serde_json::{Value, json};

use crate::peer::Failure;

/// Each power of two has so many buckets, so that a bucket is 3 % wide.
const PARTS: u64 = 32;
const PART_BITS: u32 = PARTS.trailing_zeros();
const BUCKETS: usize = ((64 - PART_BITS as usize) + 1) * PARTS as usize;

/// Counts of times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; BUCKETS],
            max: 0,
        }
    }
}

impl Histogram {
    /// Counts one time.
    pub fn add(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    /// Counts all of another one's.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.max = self.max.max(other.max);
    }

    /// The time that this share of all stays within, at most a bucket too high; `None` of none.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.counts.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(last_of(index).min(self.max));
            }
        }
        None
    }

    /// The percentiles that are reported, in microseconds; null of none.
    pub fn figures(&self) -> Value {
        let micros = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e3);
        if self.max == 0 {
            return Value::Null;
        }
        json!({
            "p50": micros(self.percentile(0.5)),
            "p99": micros(self.percentile(0.99)),
            "p999": micros(self.percentile(0.999)),
            "max": micros(Some(self.max)),
        })
    }

    /// For another process.
    pub fn json(&self) -> Value {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        json!({ "max": self.max, "counts": counts.collect::<Vec<_>>() })
    }

    /// What [`Histogram::json`] said.
    ///
    /// # Errors
    /// If it is something else.
    pub fn from_json(value: &Value) -> Result<Histogram, Failure> {
        let mut histogram = Histogram {
            max: value["max"].as_u64().ok_or("a histogram without its maximum")?,
            ..Histogram::default()
        };
        for pair in value["counts"].as_array().ok_or("a histogram without counts")? {
            let index = pair[0].as_u64().and_then(|index| usize::try_from(index).ok());
            let place = index.and_then(|index| histogram.counts.get_mut(index));
            let (Some(place), Some(count)) = (place, pair[1].as_u64()) else {
                return Err(format!("no count of a histogram, pair={pair}").into());
            };
            *place = count;
        }
        Ok(histogram)
    }
}

/// Times below `PARTS` have a bucket each; above, the highest bit and the bits after it say which.
fn bucket(nanos: u64) -> usize {
    if nanos < PARTS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - PART_BITS;
    (u64::from(shift + 1) * PARTS + ((nanos >> shift) - PARTS)) as usize
}

/// The highest time of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (shift, part) = (bucket / PARTS - 1, bucket % PARTS + PARTS);
    ((part + 1) << shift).wrapping_sub(1)
}
