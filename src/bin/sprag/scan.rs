//! `scan`: the records of a range, a line each, as they are read.

use std::io::{self, IsTerminal as _};

use sprag::{DynKey, DynTable, KeyKind, Keys, ReadTx, Store};

use crate::answer::{Answer, Lines};
use crate::args::ScanArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::records::{Shown, StoredRecord};

pub fn scan(store: &Store, args: &ScanArgs, json: bool) -> Result<Answer, Failure> {
    let mut lines = Lines::new(json);
    // On a terminal the lines themselves show that it goes on.
    let progress = Progress::counting("records", io::stdout().is_terminal());
    let outcome = store.read(|tx| {
        each(tx, args, |table, key, record| {
            let shown = Shown::new(table, key, record).map_err(|cause| cause.in_record(table.name(), key))?;
            lines.push(&shown, || shown.line(key))?;
            progress.count();
            Ok(())
        })
    });
    drop(progress);
    lines.finish(outcome)
}

fn each(
    tx: &ReadTx<'_>,
    args: &ScanArgs,
    mut show: impl FnMut(&DynTable, &DynKey, &StoredRecord) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let info = tx.table(&args.table)?.ok_or_else(|| Failure::no_table(&args.table))?;
    let table = info.open();
    let keys = range(table.key_kind(), args)?;
    let limit = args
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut shown = |item: sprag::Result<(DynKey, StoredRecord)>| -> Result<(), Failure> {
        let (key, record) = item?;
        show(&table, &key, &record)
    };
    match &args.state {
        None => tx.scan(&table, keys)?.take(limit).try_for_each(&mut shown),
        Some(_) if info.machine().is_none() => Err(Failure::no_states(&args.table)),
        Some(state) => {
            let records = tx.scan_in_state(&table, Some(state.clone()), keys)?;
            records.take(limit).try_for_each(&mut shown)
        }
    }
}

fn range(kind: &KeyKind, args: &ScanArgs) -> Result<Keys<DynKey>, Failure> {
    let key = |text: &Option<String>| text.as_deref().map(|text| DynKey::parse(kind, text)).transpose();
    let keys = match (&args.prefix, key(&args.from)?, key(&args.to)?) {
        (Some(prefix), ..) => Keys::<DynKey>::prefix(kind, prefix)?,
        (None, Some(from), Some(to)) => Keys::between(&from, &to),
        (None, Some(from), None) => Keys::from(&from),
        (None, None, Some(to)) => Keys::to(&to),
        (None, None, None) => Keys::all(),
    };
    Ok(if args.reverse { keys.rev() } else { keys })
}
