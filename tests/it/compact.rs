//! Compacting: never larger, the same content, and whoever has the file open is named.
//!
//! Field reports: GR-1 (the file keeps its highest mark), GR-2 (compact makes it bigger, stops, or gives the wrong
//! reason), RO-2 (a passing "access denied").

use std::fs;
use std::io;
use std::path::Path;

use sprag::internals::patiently;
use sprag::{Compacted, Error, ErrorKind, Keys, Level, Options, Store, Table};

use crate::common::{folder, identity_in, kind_of, names_in, small, text_of};
use crate::furnished::{self, BALANCES};

const BLOBS: Table<u64, Vec<u8>> = Table::new("blobs");

fn compact(path: &Path) -> Compacted {
    let before = fs::metadata(path).expect("the file").len();
    let compacted = small().compact(path).expect("compacted");
    assert_eq!(compacted.bytes_before, before);
    assert_eq!(compacted.bytes_after, fs::metadata(path).expect("the file").len());
    assert!(compacted.bytes_after <= before);
    compacted
}

/// Fills a store with blobs and removes those that `keep` does not want.
fn holed(path: &Path, count: u64, bytes: usize, keep: impl Fn(u64) -> bool) {
    let options = Options::new().level(Level::Buffered).log_half_bytes(1 << 20);
    let store = options.create_new(path).expect("a store");
    for page in 0..count.div_ceil(64) {
        let filled = store.write(|tx| {
            for key in (page * 64..(page + 1) * 64).take_while(|key| *key < count) {
                tx.put(BLOBS, &key, &vec![key as u8; bytes])?;
            }
            Ok::<_, Error>(())
        });
        filled.expect("written");
    }
    for page in 0..count.div_ceil(256) {
        let keys = Keys::between(&(page * 256), &((page + 1) * 256));
        let removed = store.write(|tx| tx.retain(BLOBS, keys, |key, _| keep(*key)));
        removed.expect("removed");
    }
    store.close().expect("closed");
}

/// GR-1, with a fifth of the bytes.
#[test]
fn a_file_that_lost_95_percent_is_about_as_long_as_what_is_left() {
    const COUNT: u64 = 5120;
    // What the page about backups says an empty store takes at most: the log, and a quarter of a megabyte.
    const LEAST: u64 = (2 << 20) + (256 << 10);
    let folder = folder();
    let path = folder.path().join("t.sprag");
    holed(&path, COUNT, 4096, |key| key % 20 == 0);
    let live = COUNT / 20 * 4096;
    let Compacted {
        bytes_before,
        bytes_after,
        ..
    } = compact(&path);
    println!("before={bytes_before} after={bytes_after} live={live}");
    assert!(bytes_before > COUNT * 4096);
    assert!(bytes_after <= 2 * live + LEAST);
    let store = Store::open(&path).expect("it opens");
    let left = store.read(|tx| {
        let items = tx.scan(BLOBS, Keys::all())?.collect::<Result<Vec<_>, Error>>()?;
        Ok::<_, Error>(
            items
                .into_iter()
                .map(|(key, record)| (key, record.value))
                .collect::<Vec<_>>(),
        )
    });
    let wanted: Vec<_> = (0..COUNT).step_by(20).map(|key| (key, vec![key as u8; 4096])).collect();
    assert!(left.expect("readable") == wanted);
    store.close().expect("closed");
    assert!(
        fs::metadata(&path).expect("the file").len() <= bytes_after,
        "it stays so"
    );
}

type Make<'a> = &'a dyn Fn(&Path);

/// GR-2: six files.
#[test]
fn compacting_never_makes_a_file_larger_and_a_second_time_changes_nothing() {
    let folder = folder();
    let make: [(&str, Make); 6] = [
        ("empty", &|path| drop(small().create_new(path).expect("a store"))),
        ("one key", &|path| holed(path, 1, 10, |_| true)),
        ("dense", &|path| holed(path, 3000, 300, |_| true)),
        ("half holes", &|path| holed(path, 3000, 300, |key| key % 2 == 0)),
        ("furnished", &|path| {
            let store = small().create_new(path).expect("a store");
            furnished::fill(&store);
            store.close().expect("closed");
        }),
        ("not closed", &|path| {
            let store = small().create_new(path).expect("a store");
            furnished::fill(&store);
            assert!(store.stats().expect("figures").log_used_bytes > 0);
        }),
    ];
    for (name, make) in make {
        let path = folder.path().join(name);
        make(&path);
        let first = compact(&path);
        println!("{name}: {first:?}");
        if name == "half holes" {
            assert!(first.bytes_after < first.bytes_before);
        }
        let bytes = fs::read(&path).expect("the file");
        let changed = fs::metadata(&path).expect("the file").modified().expect("a time");
        let second = compact(&path);
        assert_eq!(second.bytes_after, second.bytes_before, "{name}");
        assert!(
            fs::read(&path).expect("the file") == bytes,
            "{name}: the second time changed it"
        );
        assert_eq!(
            fs::metadata(&path).expect("the file").modified().expect("a time"),
            changed
        );
    }
    assert_eq!(names_in(folder.path()).len(), 6, "something was left beside them");
}

#[test]
fn what_is_in_the_log_only_is_taken_along_and_identity_mode_and_sequence_stay() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = small().create_new(&path).expect("a store");
    furnished::fill(&store);
    for key in 0..3000 {
        store.put(BALANCES, &key, &1).expect("written");
    }
    for key in 300..3000 {
        store.delete(BALANCES, &key).expect("deleted");
    }
    let (entries, stats) = (store.entries().expect("readable"), store.stats().expect("figures"));
    assert!(stats.log_used_bytes > 0);
    drop(store);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).expect("a mode");
    }
    let identity = identity_in(&path);
    let compacted = compact(&path);
    assert!(compacted.bytes_after < compacted.bytes_before, "{compacted:?}");
    assert_eq!(identity_in(&path), identity);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&path).expect("the file").permissions().mode() & 0o777,
            0o660
        );
    }
    let store = Store::open(&path).expect("it opens");
    assert_eq!(store.entries().expect("readable"), entries);
    let after = store.stats().expect("figures");
    assert_eq!((after.sequence, after.log_half_bytes), (stats.sequence, 16 << 10));
    // Versions go on above the highest one that was removed, as before.
    assert_eq!(store.put(BALANCES, &2999, &1).expect("written").get(), 4);
}

/// GR-2: the reason given is the true one.
#[test]
fn a_file_that_somebody_has_open_is_busy_and_stays_as_it_is() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    holed(&path, 1000, 300, |key| key % 2 == 0);
    let store = Store::open(&path).expect("it opens");
    let before = fs::read(&path).expect("the file");
    let text = text_of(ErrorKind::Busy, small().compact(&path));
    assert!(text.contains("another process or handle has the file open"), "{text}");
    assert!(fs::read(&path).expect("the file") == before);
    store.close().expect("closed");
    compact(&path);
    let store = Store::open(&path).expect("it opens");
    assert_eq!(
        store.get(BLOBS, &998).expect("readable").expect("there").value,
        vec![230; 300]
    );
}

#[test]
fn a_damaged_store_and_what_is_none_are_refused_and_stay_as_they_are() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    holed(&path, 1000, 300, |key| key % 2 == 0);
    let whole = fs::read(&path).expect("the file");
    let mut turned = 0;
    for at in (4096 + (2 << 20)..whole.len()).step_by(10_007) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&path, &bytes).expect("damaged");
        match small().compact(&path) {
            Ok(_) => {}
            Err(cause) => {
                assert_eq!(cause.kind(), ErrorKind::Corrupt, "{cause:?}");
                assert!(fs::read(&path).expect("the file") == bytes);
                turned += 1;
            }
        }
    }
    assert!(turned > 5, "damage is found, found={turned}");
    fs::write(&path, b"no store").expect("a file");
    assert_eq!(kind_of(small().compact(&path)), ErrorKind::NotAStore);
    assert_eq!(
        kind_of(small().compact(folder.path().join("missing"))),
        ErrorKind::NotFound
    );
    assert_eq!(names_in(folder.path()), ["t.sprag"]);
}

/// RO-2: a scanner that holds a file for a moment. The one place that renames calls this.
#[test]
fn a_rename_that_is_refused_for_a_moment_is_tried_again_and_not_for_ever() {
    for refusals in [0, 1, 3] {
        let mut calls = 0;
        let outcome = patiently(|| {
            calls += 1;
            if calls <= refusals {
                Err(io::ErrorKind::PermissionDenied.into())
            } else {
                Ok(())
            }
        });
        outcome.expect("done in the end");
        assert_eq!(calls, refusals + 1);
    }
    let mut calls = 0;
    let outcome = patiently(|| {
        calls += 1;
        Err(io::ErrorKind::PermissionDenied.into())
    });
    assert_eq!(outcome.expect_err("refused").kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(calls, 5);
    // Any other error is told at once.
    let mut calls = 0;
    let outcome = patiently(|| {
        calls += 1;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(
        (outcome.expect_err("full").kind(), calls),
        (io::ErrorKind::StorageFull, 1)
    );
}
