//! What a peer holds, counted and digested, so that two can be compared without keeping either.

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
    /// Records with a state.
    pub orders: u64,
    /// The sum of all counters.
    pub counted: u64,
    /// Messages that are not acknowledged.
    pub messages: u64,
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

    /// Counts one record with a state, which is one of [`crate::load::STATES`].
    pub fn add_order(&mut self, record: u64, version: u64, state: u64, value: &str) {
        self.orders += 1;
        self.versions += version;
        self.add(&[
            b"order",
            &record.to_le_bytes(),
            &version.to_le_bytes(),
            &state.to_le_bytes(),
            value.as_bytes(),
        ]);
    }

    /// Counts one counter.
    pub fn add_counter(&mut self, counter: u64, count: u64) {
        self.counted += count;
        self.add(&[b"counter", &counter.to_le_bytes(), &count.to_le_bytes()]);
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

    /// Counts one message that nobody holds.
    pub fn add_message(&mut self, attempts: u64, payload: &str) {
        self.messages += 1;
        self.add(&[b"message", &attempts.to_le_bytes(), payload.as_bytes()]);
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
