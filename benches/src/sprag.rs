//! Sprag with its defaults: a remembered key around a conditional write and one more record.

use std::path::Path;
use std::time::{Duration, Instant};

use ::sprag::{Condition, Keep, Keys, Once, OnceKey, Store, Table, WriteTx, Written};

use crate::load::{self, Contents, KEEP_DAYS, Load, SCOPE, Step};
use crate::peer::{Failure, Peer, Subject};

const RECORDS: Table<u64, String> = Table::new("records");
const EXTRAS: Table<u64, String> = Table::new("extras");
const FILE: &str = "store.sprag";
/// Records per commit while filling: far below what one commit may hold.
const FILL_STEP: u64 = 5_000;
/// A checkpoint that takes longer than this hangs.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Sprag with its defaults.
pub const SUBJECT: Subject = Subject {
    name: "sprag",
    fill,
    open: |folder| Ok(Box::new(Sprag::open(folder)?)),
};

/// Makes the store in `folder` with the records that exist before the first step.
///
/// # Errors
/// What the store reports.
pub fn fill(folder: &Path, load: &Load) -> Result<(), Failure> {
    let store = Store::create_new(folder.join(FILE))?;
    let mut from = 0;
    while from < load.records() {
        let to = load.records().min(from + FILL_STEP);
        store.write(|tx| put_first_values(tx, from, to))?;
        from = to;
    }
    Ok(store.close()?)
}

fn put_first_values(tx: &mut WriteTx<'_>, from: u64, to: u64) -> ::sprag::Result<()> {
    for record in from..to {
        tx.put(RECORDS, &record, &Load::first_value(record))?;
    }
    Ok(())
}

/// An open store.
#[derive(Debug)]
pub struct Sprag {
    store: Store,
}

impl Sprag {
    /// Opens the store in `folder`.
    ///
    /// # Errors
    /// What the store reports.
    pub fn open(folder: &Path) -> Result<Sprag, Failure> {
        Ok(Sprag {
            store: Store::open(folder.join(FILE))?,
        })
    }
}

impl Peer for Sprag {
    fn name(&self) -> &str {
        SUBJECT.name
    }

    fn commit(&self, _thread: usize, step: &Step) -> Result<(), Failure> {
        let keep = Keep::For(Duration::from_secs(KEEP_DAYS * 86_400));
        match self
            .store
            .once(&OnceKey::new(SCOPE, step.key, keep), |tx| write(tx, step))?
        {
            Once::First(()) => Ok(()),
            Once::Repeat { .. } => Err(format!("the key of a new step was known, step={}", step.extra).into()),
        }
    }

    fn bytes_handed(&self) -> Option<u64> {
        self.store.stats().ok().map(|stats| stats.log_bytes)
    }

    fn settle(&self) -> Result<(), Failure> {
        let started = Instant::now();
        while self.store.stats()?.checkpoint_pending {
            if started.elapsed() > SETTLE_MAX {
                return Err("a checkpoint does not end".into());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    /// A half that is in its checkpoint counts whole.
    fn to_recover(&self) -> f64 {
        let Ok(stats) = self.store.stats() else { return 0.0 };
        let frozen = if stats.checkpoint_pending {
            stats.log_half_bytes
        } else {
            0
        };
        (frozen + stats.log_used_bytes) as f64 / (2 * stats.log_half_bytes) as f64
    }

    /// Remembered keys cannot be listed; those of all steps that left an extra record are looked up.
    fn contents(&self) -> Result<Option<Contents>, Failure> {
        self.store.read(|tx| {
            let mut contents = Contents::default();
            for item in tx.scan(RECORDS, Keys::all())? {
                let (id, record) = item?;
                contents.add_record(id, record.version.get(), &record.value);
            }
            for item in tx.scan(EXTRAS, Keys::all())? {
                let (id, record) = item?;
                contents.add_extra(id, &record.value);
                let key = load::key_of(id);
                if tx.remembered(SCOPE, key)?.is_some() {
                    contents.add_key(&key);
                }
            }
            Ok(Some(contents))
        })
    }
}

fn write(tx: &mut WriteTx<'_>, step: &Step) -> Result<(), Failure> {
    match tx.put_if(RECORDS, &step.record, Condition::Version(step.version), &step.value)? {
        Written::Applied(_) => {}
        other => return Err(format!("not applied, step={}, {other:?}", step.extra).into()),
    }
    tx.put(EXTRAS, &step.extra, &step.extra_value)?;
    Ok(())
}
