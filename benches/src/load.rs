//! The work: numbered steps, the same for every peer, and what a peer must hold after the first n of them.
//!
//! One step is a conditional write on a record's version, a remembered key that is new, and one more record. Step n
//! is a pure function of n, so threads may take numbers from one counter. Each lap visits every record once in one
//! shuffled order, so that the version a step expects is its lap, and two steps for one record are a lap apart:
//! nobody conflicts and nobody needs to look before writing.

/// Length of every value, in bytes of ASCII.
pub const VALUE_BYTES: usize = 100;
/// The scope of all remembered keys.
pub const SCOPE: &str = "payments";
/// How long a key is to be remembered, in days.
pub const KEEP_DAYS: u64 = 7;

/// Everything that one durable commit has to hold.
#[derive(Debug)]
pub struct Step {
    /// The record to write.
    pub record: u64,
    /// The version it must have; it gets the next one.
    pub version: u64,
    /// The record's new value.
    pub value: String,
    /// The remembered key, never seen before.
    pub key: [u8; 16],
    /// The number of the one more record, never seen before.
    pub extra: u64,
    /// Its value.
    pub extra_value: String,
}

/// The source of steps. Holds no list, so that a process whose memory is measured may have one.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    records: u64,
}

impl Load {
    /// For a store that holds `records` records before the first step; at least one.
    pub fn new(records: u64) -> Load {
        Load {
            records: records.max(1),
        }
    }

    /// How many records exist before the first step; their keys are the numbers below.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The step with this number; the first is 0.
    pub fn step(&self, number: u64) -> Step {
        Step {
            record: self.shuffled(number % self.records),
            version: 1 + number / self.records,
            value: text(mix(number) ^ 1),
            key: key_of(number),
            extra: number,
            extra_value: text(mix(number) ^ 2),
        }
    }

    /// The value of a record before any step; its version is 1.
    pub fn first_value(record: u64) -> String {
        text(mix(record) ^ 3)
    }

    /// What a peer holds after steps `0..steps`, worked out without any engine.
    pub fn expected(&self, steps: u64) -> Contents {
        let mut contents = Contents::default();
        for place in 0..self.records {
            let record = self.shuffled(place);
            // Steps place, place + records, .. below `steps` wrote this record.
            let writes = (steps + self.records - 1 - place) / self.records;
            let value = match writes {
                0 => Load::first_value(record),
                _ => self.step(place + (writes - 1) * self.records).value,
            };
            contents.add_record(record, 1 + writes, &value);
        }
        for number in 0..steps {
            let step = self.step(number);
            contents.add_key(&step.key);
            contents.add_extra(step.extra, &step.extra_value);
        }
        contents
    }

    /// The record at this place of a lap: a Feistel network on the next even number of bits, walked until it comes back
    /// into the range, and so a bijection on the records.
    fn shuffled(&self, place: u64) -> u64 {
        let half = self.records.next_power_of_two().trailing_zeros().div_ceil(2);
        let mask = (1_u64 << half) - 1;
        let mut walked = place;
        loop {
            let (mut left, mut right) = (walked >> half, walked & mask);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(right ^ (round << 32)) & mask));
            }
            walked = (left << half) | right;
            if walked < self.records {
                return walked;
            }
        }
    }
}

/// Counts and order-free digests of what a peer holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Records, without the extra ones.
    pub records: u64,
    /// The sum of their versions: one more for each conditional write that was applied.
    pub versions: u64,
    /// Remembered keys.
    pub keys: u64,
    /// Extra records.
    pub extras: u64,
    /// The sum of the digests of everything counted above.
    pub digest: u64,
}

impl Contents {
    /// Counts one record.
    pub fn add_record(&mut self, record: u64, version: u64, value: &str) {
        self.records += 1;
        self.versions += version;
        self.add(&[
            b"record",
            &record.to_le_bytes(),
            &version.to_le_bytes(),
            value.as_bytes(),
        ]);
    }

    /// Counts one remembered key.
    pub fn add_key(&mut self, key: &[u8]) {
        self.keys += 1;
        self.add(&[b"key", key]);
    }

    /// Counts one extra record.
    pub fn add_extra(&mut self, extra: u64, value: &str) {
        self.extras += 1;
        self.add(&[b"extra", &extra.to_le_bytes(), value.as_bytes()]);
    }

    fn add(&mut self, parts: &[&[u8]]) {
        let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = parts
            .iter()
            .flat_map(|part| part.iter())
            .fold(0xcbf2_9ce4_8422_2325, fnv);
        self.digest = self.digest.wrapping_add(hash);
    }

    /// Whether every step is there whole or not at all, whichever steps they are.
    pub fn whole(&self) -> bool {
        self.versions == self.records + self.keys && self.keys == self.extras
    }
}

/// Sixteen bytes that look random, as message ids do; distinct, since `mix` is a bijection.
pub fn key_of(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    key
}

/// A value that does not repeat and does not compress.
fn text(mut seed: u64) -> String {
    let mut value = String::with_capacity(VALUE_BYTES + 7);
    while value.len() < VALUE_BYTES {
        seed = mix(seed);
        value.extend(seed.to_le_bytes().map(|byte| char::from(b'0' + byte % 64)));
    }
    value.truncate(VALUE_BYTES);
    value
}

/// The finaliser of splitmix64 after its increment: a bijection on u64.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
