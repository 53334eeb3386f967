//! The workload of the crash tests: numbered commits of one size, whose state follows from their numbers alone.
//!
//! Commit `n` writes a counter, puts one record, deletes another, moves a record to its next state, remembers a key and
//! forgets an older one. Its values carry its number and a salt of its own, so that what two commits wrote at the same
//! place, or what is left of a dropped one, is never taken for each other.

use std::time::{Duration, SystemTime};

use sprag::{Error, Keep, Keys, Once, OnceKey, ReadTx, State, Store, Table, WriteTx, machine};

const COUNTER: Table<str, Vec<u8>> = Table::new("counter");
const SLOTS: Table<u64, [u8; 16]> = Table::new("slots");
const LAPS: Table<u64, [u8; 16], Lap> = Table::new("laps");

/// Records that are put in turn; half of them are there at any time.
const SLOTS_COUNT: u64 = 6;
/// Keys remembered at any time.
const KEYS_COUNT: u64 = 4;
const SCOPE: &str = "crash";

machine! {
    enum Lap: "lap" {
        First = "first",
        Second = "other",
        Third = "third",
    }
    initial First;
    cyclic;
    First => Second;
    Second => Third;
    Third => First;
}

/// In a salt: the commit is the first one after an open.
const FIRST_OF_LIFE: u64 = 1 << 62;

/// A salt of a fixed encoded length.
pub fn salt(any: u64, first_of_life: bool) -> u64 {
    let salt = any | 1 << 63;
    if first_of_life {
        salt | FIRST_OF_LIFE
    } else {
        salt & !FIRST_OF_LIFE
    }
}

/// Who wrote a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub number: u64,
    pub salt: u64,
}

impl Stamp {
    fn bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.number.to_be_bytes());
        out[8..].copy_from_slice(&self.salt.to_be_bytes());
        out
    }

    /// The counter's value: the stamp, then `pad` bytes that follow from it. The first frame of a life names the life
    /// before it, and has that much less of them, so that all frames have one size and line up with dead ones.
    fn padded(self, pad: usize) -> Vec<u8> {
        let pad = if self.salt & FIRST_OF_LIFE == 0 { pad } else { pad - 8 };
        let mut out = self.bytes().to_vec();
        let mut word = self.salt ^ self.number;
        while out.len() < 16 + pad {
            word = word
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x1405_7B7E_F767_814F);
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(16 + pad);
        out
    }
}

/// The salts of all commits that may be there, in stage order: that of commit `n` is at `n`, 0 is the founding commit.
pub type History = Vec<u64>;

fn stamp(history: &[u64], number: u64) -> Stamp {
    let salt = usize::try_from(number)
        .ok()
        .and_then(|at| history.get(at))
        .copied()
        .unwrap_or_default();
    Stamp { number, salt }
}

const LAP_ORDER: [Lap; 3] = [Lap::First, Lap::Second, Lap::Third];

fn lap(number: u64) -> Lap {
    LAP_ORDER[(number % 3) as usize]
}

/// The remembered key of a commit.
pub fn key(number: u64) -> OnceKey {
    OnceKey::new(SCOPE, number.to_be_bytes(), Keep::For(Duration::from_secs(3600)))
}

/// Commit 0: as many records and keys as there will always be, so that all later commits have one size.
pub fn found(store: &Store, salt: u64, pad: usize) -> Result<(), Error> {
    let stamp = Stamp { number: 0, salt };
    store.write(|tx| {
        tx.put(COUNTER, "counter", &stamp.padded(pad))?;
        for slot in 0..SLOTS_COUNT {
            tx.put(SLOTS, &slot, &stamp.bytes())?;
        }
        tx.put(LAPS, &0, &stamp.bytes())?;
        Ok::<(), Error>(())
    })
}

/// The number of the last commit.
pub fn number(tx: &ReadTx<'_>) -> Result<u64, Error> {
    let counter = tx
        .get(COUNTER, "counter")?
        .map(|record| record.value)
        .unwrap_or_default();
    Ok(counter.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}

/// Writes one commit.
pub fn apply(tx: &mut WriteTx<'_>, stamp: Stamp, pad: usize) -> Result<(), Error> {
    let number = stamp.number;
    tx.forget(SCOPE, number.saturating_sub(KEYS_COUNT).to_be_bytes())?;
    let once = tx.once(&key(number), |tx| {
        tx.put(COUNTER, "counter", &stamp.padded(pad))?;
        tx.put(SLOTS, &(number % SLOTS_COUNT), &stamp.bytes())?;
        tx.delete(SLOTS, &((number + SLOTS_COUNT / 2) % SLOTS_COUNT))?;
        tx.transition_with(LAPS, &0, lap(number - 1), lap(number), &stamp.bytes())?
            .or_abort()?;
        Ok::<u64, Error>(stamp.salt)
    })?;
    assert!(!once.is_repeat(), "key {number} is remembered before its commit");
    Ok(())
}

/// Delivers a commit's key again, and gives the salt that its first delivery answered; `None` if it was never applied.
pub fn deliver_again(store: &Store, number: u64, inside: impl FnOnce()) -> Result<Option<u64>, Error> {
    enum Stop {
        Unknown,
        Failed(Error),
    }
    impl From<Error> for Stop {
        fn from(cause: Error) -> Stop {
            Stop::Failed(cause)
        }
    }
    let answer = store.write(|tx| {
        let answer = tx.once(&key(number), |_| Err::<u64, Stop>(Stop::Unknown));
        inside();
        answer
    });
    match answer {
        Ok(Once::Repeat { result, .. }) => Ok(Some(result)),
        Ok(Once::First(_)) | Err(Stop::Unknown) => Ok(None),
        Err(Stop::Failed(cause)) => Err(cause),
    }
}

/// Compares all that the store shows with what some prefix of `history` leaves, and says how long that prefix is.
pub fn verify(store: &Store, history: &[u64], pad: usize) -> Result<u64, String> {
    let shown = store
        .read(shown)
        .map_err(|cause| format!("reading failed: {cause:?}"))?;
    let number = shown.number;
    if usize::try_from(number).map_or(true, |number| number >= history.len()) {
        return Err(format!(
            "commit {number} was never staged, staged={}",
            history.len() - 1
        ));
    }
    let wanted = expected(history, number, pad);
    match shown.differs(&wanted) {
        None => Ok(number),
        Some(what) => Err(format!("after commit {number}: {what}")),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    number: u64,
    counter: Vec<u8>,
    counter_version: u64,
    slots: Vec<(u64, [u8; 16])>,
    lap: Option<(&'static str, [u8; 16])>,
    /// For each state its count and the records in it.
    in_states: Vec<(u64, Vec<u64>)>,
    keys: Vec<Option<u64>>,
}

impl Shown {
    /// The first part that is not as it should be.
    fn differs(&self, wanted: &Shown) -> Option<String> {
        let start = |counter: &[u8]| counter.iter().take(24).copied().collect::<Vec<u8>>();
        if self.counter != wanted.counter {
            let (found, wanted) = (start(&self.counter), start(&wanted.counter));
            return Some(format!("counter begins with {found:?}, not {wanted:?}"));
        }
        let rest = |shown: &Shown| {
            let Shown {
                counter_version,
                slots,
                lap,
                in_states,
                keys,
                ..
            } = shown;
            format!("version {counter_version}, slots {slots:?}, lap {lap:?} {in_states:?}, keys {keys:?}")
        };
        let (found, wanted) = (rest(self), rest(wanted));
        (found != wanted).then(|| format!("found {found}\nwanted {wanted}"))
    }
}

fn shown(tx: &ReadTx<'_>) -> Result<Shown, Error> {
    let number = number(tx)?;
    let counter = tx.get(COUNTER, "counter")?;
    let counter_version = counter.as_ref().map_or(0, |record| record.version.get());
    let mut slots = Vec::new();
    for item in tx.scan(SLOTS, Keys::all())? {
        let (slot, record) = item?;
        slots.push((slot, record.value));
    }
    let lap = tx.get(LAPS, &0)?.map(|record| (record.state.name(), record.value));
    let mut in_states = Vec::new();
    for state in LAP_ORDER {
        let found: Result<Vec<u64>, Error> = tx.in_state(LAPS, state)?.map(|item| Ok(item?.0)).collect();
        in_states.push((tx.count_in_state(LAPS, state)?, found?));
    }
    let mut keys = Vec::new();
    for number in key_numbers(number) {
        let remembered = tx.remembered(SCOPE, number.to_be_bytes())?;
        keys.push(match remembered {
            Some(remembered) => {
                assert!(remembered.first_at() > SystemTime::UNIX_EPOCH);
                Some(result_of(remembered.result_bytes()))
            }
            None => None,
        });
    }
    Ok(Shown {
        number,
        counter: counter.map_or_else(Vec::new, |record| record.value),
        counter_version,
        slots,
        lap,
        in_states,
        keys,
    })
}

/// A bincode number of this size is a marker and eight bytes.
fn result_of(bytes: &[u8]) -> u64 {
    bytes.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The keys to look at after commit `number`: one that is forgotten, those remembered, one that is to come.
fn key_numbers(number: u64) -> impl Iterator<Item = u64> {
    number.saturating_sub(KEYS_COUNT)..number + 2
}

fn expected(history: &[u64], number: u64, pad: usize) -> Shown {
    let mut slots = Vec::new();
    for slot in 0..SLOTS_COUNT {
        let put = (0..=number)
            .rev()
            .find(|n| n % SLOTS_COUNT == slot || *n == 0)
            .unwrap_or(0);
        let deleted = (1..=number)
            .rev()
            .find(|n| (n + SLOTS_COUNT / 2) % SLOTS_COUNT == slot)
            .unwrap_or(0);
        if put >= deleted {
            slots.push((slot, stamp(history, put).bytes()));
        }
    }
    let keys = key_numbers(number)
        .map(|n| (n > 0 && n <= number && n + KEYS_COUNT > number).then(|| stamp(history, n).salt))
        .collect();
    let last = stamp(history, number);
    Shown {
        number,
        counter: last.padded(pad),
        counter_version: number + 1,
        slots,
        lap: Some((lap(number).name(), last.bytes())),
        in_states: LAP_ORDER
            .iter()
            .map(|state| {
                if *state == lap(number) {
                    (1, vec![0])
                } else {
                    (0, vec![])
                }
            })
            .collect(),
        keys,
    }
}
