//! A store above 4 GiB: filled with values of 1 MiB, a tenth rewritten, a third deleted, opened again, read whole.
//!
//! Fails if a record is not what was written last. `SPRAG_BENCH_DIR` as in `compare`; takes 12 GiB of disk and minutes.

use std::process::ExitCode;
use std::time::Instant;

use sprag::{CodecId, Condition, DynKey, DynTable, KeyKind, Keys, Level, Options};
use sprag_benches::peer::Failure;
use sprag_benches::place::{self, Place};
use sprag_benches::report;

const RECORDS: u64 = 5 << 10;
const VALUE_BYTES: usize = 1 << 20;
const FILE_BYTES_MIN: u64 = 4 << 30;

fn main() -> ExitCode {
    report::exit(run())
}

fn options() -> Options {
    Options::new().log_half_bytes(64 << 20).level(Level::Buffered)
}

/// A value that holds its key and says how often it was written.
fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![(key ^ round) as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&key.to_be_bytes());
    value[8..16].copy_from_slice(&round.to_be_bytes());
    value
}

fn run() -> Result<(), Failure> {
    let place = Place::new(place::target_folder(env!("CARGO_TARGET_TMPDIR"))?)?;
    let path = place.path().join("large.sprag");
    let table = DynTable::new("large", KeyKind::U64, CodecId::Bincode);
    let began = Instant::now();
    let store = options().create_new(&path)?;
    for key in 0..RECORDS {
        store.put(&table, &DynKey::U64(key), &value(key, 0))?;
    }
    for key in (0..RECORDS).step_by(10) {
        store.put(&table, &DynKey::U64(key), &value(key, 1))?;
    }
    for key in (0..RECORDS).step_by(3) {
        store
            .delete_if(&table, &DynKey::U64(key), Condition::Present)?
            .or_abort()?;
    }
    store.close()?;
    let bytes = std::fs::metadata(&path)?.len();
    println!(
        "written in {:.0} s, file {:.2} GiB",
        began.elapsed().as_secs_f64(),
        bytes as f64 / f64::from(1 << 30)
    );
    if bytes <= FILE_BYTES_MIN {
        return Err(format!("the file is too small, bytes={bytes}, bytes_min={FILE_BYTES_MIN}").into());
    }
    let began = Instant::now();
    let store = options().open(&path)?;
    println!("opened in {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    let mut expected = (0..RECORDS).filter(|key| key % 3 != 0);
    store.read(|tx| {
        for item in tx.scan(&table, Keys::all())? {
            let (key, record) = item?;
            let Some(wanted) = expected.next() else {
                return Err(Failure::from("more records than were written"));
            };
            if key != DynKey::U64(wanted) || record.value != value(wanted, u64::from(wanted % 10 == 0)) {
                return Err(format!("record {wanted} is not what was written, found_key={key}").into());
            }
        }
        Ok(())
    })?;
    match expected.next() {
        None => println!("every record is what was written last"),
        Some(missing) => return Err(format!("record {missing} is missing").into()),
    }
    Ok(())
}
