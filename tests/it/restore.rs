//! Restoring: from a whole source only, never over what somebody uses, and what comes out is another store.
//!
//! Field reports: BK-2 ("verified" meant "larger than 1 KiB"), BK-3 (old work runs again after a restore).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sprag::{Condition, Error, ErrorKind, Keep, ManualClock, Once, OnceKey, Options, Restored, Store, Written};

use crate::common::{self, folder, identity_in, kind_of, names_in, small, small_with, text_of};
use crate::furnished::{self, BALANCES};
use crate::random::{Random, seed};

/// Both ways, of which one replaces what is there.
fn both(from: &Path, to: &Path) -> [Result<Restored, Error>; 2] {
    [
        small().restore(from, to.with_extension("new")),
        small().restore_over(from, to),
    ]
}

fn made(path: PathBuf) -> PathBuf {
    let store = small().create_new(&path).expect("a store");
    furnished::fill(&store);
    store.close().expect("closed");
    path
}

/// A store that is not the source, and its bytes.
fn target(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join("target.sprag");
    let store = small().create_new(&path).expect("a store");
    store.put(BALANCES, &51, &-7).expect("written");
    store.close().expect("closed");
    let bytes = fs::read(&path).expect("the file");
    (path, bytes)
}

#[test]
fn a_restored_store_holds_every_entry_and_is_another_store() {
    let folder = folder();
    let clock = ManualClock::new();
    let path = folder.path().join("live.sprag");
    let store = small_with(&clock).create_new(&path).expect("a store");
    furnished::fill(&store);
    let (entries, stats) = (store.entries().expect("readable"), store.stats().expect("figures"));
    let backup = folder.path().join("backup.sprag");
    store.backup(&backup).expect("backed up");
    drop(store);
    assert!(stats.log_used_bytes > 0, "some of it is in the log only");

    // From a backup, and from a store that was not closed.
    for (number, source) in [&backup, &path].into_iter().enumerate() {
        let before = fs::read(source).expect("the file");
        let to = folder.path().join(format!("{number}.sprag"));
        let restored = small().restore(source, &to).expect("restored");
        assert_eq!(restored.sequence, stats.sequence);
        assert_eq!(restored.bytes, fs::metadata(&to).expect("the file").len());
        assert!(fs::read(source).expect("the file") == before, "the source was changed");
        assert_ne!(identity_in(&to), identity_in(source));
        let copy = small_with(&clock).open(&to).expect("it opens");
        assert_eq!(copy.entries().expect("readable"), common::restored(entries.clone()));
        let copied = copy.stats().expect("figures");
        assert_eq!(
            (copied.sequence, copied.retention_ns),
            (stats.sequence, stats.retention_ns)
        );
        copy.close().expect("closed");
    }
}

/// BK-2.
#[test]
fn only_a_whole_source_is_restored_and_nothing_else_is_touched() {
    let folder = folder();
    let whole = fs::read(made(folder.path().join("s"))).expect("the file");
    fs::remove_file(folder.path().join("s")).expect("removed");
    let (to, before) = target(folder.path());
    let mut newer = whole.clone();
    newer[16] = 2;
    let crc = crc32fast::hash(&newer[..4092]).to_le_bytes();
    newer[4092..4096].copy_from_slice(&crc);
    let sources: [(&str, Vec<u8>, &[ErrorKind]); 6] = [
        ("cut by one", whole[..whole.len() - 1].to_vec(), &[ErrorKind::Corrupt]),
        ("cut by half", whole[..whole.len() / 2].to_vec(), &[ErrorKind::Corrupt]),
        ("no bytes", Vec::new(), &[ErrorKind::NotAStore]),
        (
            "of another program",
            b"SQLite format 3\0".repeat(4000),
            &[ErrorKind::NotAStore],
        ),
        ("newer", newer, &[ErrorKind::NewerFormat]),
        ("zeros", vec![0; whole.len()], &[ErrorKind::NotAStore]),
    ];
    let source = folder.path().join("source");
    for (what, bytes, kinds) in sources {
        fs::write(&source, &bytes).expect("a source");
        for outcome in both(&source, &to) {
            let kind = kind_of(outcome);
            assert!(kinds.contains(&kind), "{what}: {kind:?}");
        }
        assert!(
            fs::read(&to).expect("the target") == before,
            "{what}: the target was changed"
        );
        assert!(
            fs::read(&source).expect("the source") == bytes,
            "{what}: the source was changed"
        );
        assert_eq!(names_in(folder.path()), ["source", "target.sprag"], "{what}");
    }
    fs::remove_file(&source).expect("removed");
    for outcome in both(&source, &to) {
        assert_eq!(kind_of(outcome), ErrorKind::NotFound);
    }
    fs::write(&source, &whole).expect("a source");
    small().restore_over(&source, &to).expect("restored");
    assert_eq!(names_in(folder.path()), ["source", "target.sprag"]);
    let store = Store::open(&to).expect("it opens");
    assert_eq!(
        store
            .get(BALANCES, &51)
            .expect("readable")
            .expect("there")
            .version
            .get(),
        7
    );
}

/// BK-2, with any byte. Where none is refused, the byte means nothing: what is restored is what was there.
#[test]
fn a_source_with_a_flipped_bit_is_refused_or_restored_as_it_was() {
    let mut random = Random::new(seed());
    let folder = folder();
    let source = made(folder.path().join("source"));
    let store = Store::open(&source).expect("it opens");
    let entries = store.entries().expect("readable");
    store.close().expect("closed");
    let whole = fs::read(&source).expect("the file");
    // Behind the log, which is empty here, and the first 4 KiB.
    let base = 4096 + (32 << 10);
    let (to, before) = target(folder.path());
    let (mut refused, mut harmless) = (0, 0);
    for round in 0..300 {
        let mut bytes = whole.clone();
        let begins = if round % 10 == 0 { 0 } else { base };
        let at = begins + random.below((whole.len() - begins) as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(&source, &bytes).expect("a source");
        match small().restore_over(&source, &to) {
            Err(cause) => {
                refused += 1;
                let wanted = [ErrorKind::Corrupt, ErrorKind::NotAStore, ErrorKind::NewerFormat];
                assert!(wanted.contains(&cause.kind()), "byte {at}: {cause:?}");
                assert!(
                    fs::read(&to).expect("the target") == before,
                    "byte {at}: the target was changed"
                );
            }
            Ok(_) => {
                harmless += 1;
                let copy = Store::open(&to).expect("it opens");
                let wanted = common::restored(entries.clone());
                assert_eq!(copy.entries().expect("readable"), wanted, "byte {at}");
                copy.close().expect("closed");
                fs::write(&to, &before).expect("put back");
            }
        }
        assert_eq!(names_in(folder.path()), ["source", "target.sprag"], "byte {at}");
    }
    println!("refused={refused} harmless={harmless}");
    assert!(refused > 20, "flips are found, refused={refused}");
}

/// BK-3: what was done after the backup is forgotten, and runs again. The page about backups says so.
#[test]
fn what_was_done_after_the_backup_is_forgotten_and_what_was_before_is_not() {
    let folder = folder();
    let clock = ManualClock::new();
    let path = folder.path().join("live.sprag");
    let store = small_with(&clock).create_new(&path).expect("a store");
    let key = |name: &str| OnceKey::new("payments", name, Keep::For(Duration::from_secs(3600)));
    let add = |store: &Store, name: &str| {
        store.once(&key(name), |tx| {
            tx.update(BALANCES, &51, |balance| Some(balance.unwrap_or(0) + 40))?;
            Ok::<_, Error>(name.to_owned())
        })
    };
    assert_eq!(add(&store, "before").expect("done"), Once::First("before".to_owned()));
    let backup = folder.path().join("backup.sprag");
    store.backup(&backup).expect("backed up");
    assert_eq!(add(&store, "after").expect("done"), Once::First("after".to_owned()));
    store.delete(BALANCES, &51).expect("deleted");
    store.close().expect("closed");

    clock.advance(Duration::from_secs(1800));
    small_with(&clock).restore_over(&backup, &path).expect("restored");
    let store = small_with(&clock).open(&path).expect("it opens");
    let record = store.get(BALANCES, &51).expect("readable").expect("there");
    assert_eq!((record.value, record.version.get()), (40, 1));
    let repeat = add(&store, "before").expect("answered");
    assert!(repeat.is_repeat(), "{repeat:?}");
    // Forgotten with the rest: it runs again, and gives version 2 once more.
    assert_eq!(add(&store, "after").expect("done"), Once::First("after".to_owned()));
    let late = store
        .put_if(BALANCES, &51, Condition::Version(2), &0)
        .expect("answered");
    assert!(
        matches!(late, Written::Applied(version) if version.get() == 3),
        "{late:?}"
    );
    // The key from before was aged by the time offline, and ends after the other half of its life.
    clock.advance(Duration::from_secs(1799));
    assert!(add(&store, "before").expect("answered").is_repeat());
    clock.advance(Duration::from_secs(2));
    assert!(!add(&store, "before").expect("answered").is_repeat());
}

#[test]
fn a_target_that_somebody_uses_or_that_is_no_store_is_left_alone() {
    let folder = folder();
    let source = made(folder.path().join("source"));
    let (to, _) = target(folder.path());
    let text = text_of(ErrorKind::Invalid, small().restore(&source, &to));
    assert!(text.contains("the file exists"), "{text}");
    {
        let _live = Store::open(&to).expect("it opens");
        assert_eq!(kind_of(small().restore_over(&source, &to)), ErrorKind::Busy);
        assert_eq!(kind_of(small().restore(&to, folder.path().join("x"))), ErrorKind::Busy);
    }
    let text = text_of(ErrorKind::Invalid, small().restore_over(&source, &source));
    assert!(text.contains("source and target are one file"), "{text}");
    let opened = fs::read(&to).expect("the target");
    let foreign = folder.path().join("foreign");
    for (bytes, kind) in [
        (b"Dear diary,\n".repeat(500), ErrorKind::NotAStore),
        (Vec::new(), ErrorKind::NotAStore),
        (vec![0; 100_000], ErrorKind::NotAStore),
    ] {
        fs::write(&foreign, &bytes).expect("a file");
        assert_eq!(kind_of(small().restore_over(&source, &foreign)), kind);
        assert_eq!(kind_of(small().restore(&source, &foreign)), ErrorKind::Invalid);
        assert!(fs::read(&foreign).expect("the file") == bytes);
    }
    fs::remove_file(&foreign).expect("removed");
    assert_eq!(
        kind_of(small().restore_over(&source, folder.path())),
        ErrorKind::NotAStore
    );
    assert_eq!(
        kind_of(small().restore_over(&source, folder.path().join("missing/t"))),
        ErrorKind::NotFound
    );
    assert!(fs::read(&to).expect("the target") == opened);
    assert_eq!(names_in(folder.path()), ["source", "target.sprag"]);
}

/// That is what a restore is for.
#[test]
fn a_damaged_target_is_replaced_and_a_missing_one_is_made() {
    let folder = folder();
    let source = made(folder.path().join("source"));
    let (to, whole) = target(folder.path());
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    for bytes in [&damaged[..], &whole[..5000], &whole[..whole.len() / 2]] {
        fs::write(&to, bytes).expect("damaged");
        small().restore_over(&source, &to).expect("restored");
        let store = Store::open(&to).expect("it opens");
        assert_eq!(
            store
                .get(BALANCES, &51)
                .expect("readable")
                .expect("there")
                .version
                .get(),
            7
        );
    }
    fs::remove_file(&to).expect("removed");
    small().restore_over(&source, &to).expect("restored");
    assert_eq!(names_in(folder.path()), ["source", "target.sprag"]);
}

#[cfg(unix)]
#[test]
fn the_mode_and_the_link_of_a_replaced_file_stay_and_a_second_name_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let source = made(folder.path().join("source"));
    let (to, _) = target(folder.path());
    fs::set_permissions(&to, fs::Permissions::from_mode(0o640)).expect("a mode");
    let link = folder.path().join("link");
    symlink("target.sprag", &link).expect("a link");
    small().restore_over(&source, &link).expect("restored");
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
    assert_eq!(fs::metadata(&to).expect("the file").permissions().mode() & 0o777, 0o640);
    assert_ne!(identity_in(&to), identity_in(&source));
    let restored = fs::read(&to).expect("the file");

    fs::hard_link(&to, folder.path().join("second")).expect("a name");
    assert_eq!(kind_of(small().restore_over(&source, &to)), ErrorKind::Invalid);
    assert_eq!(kind_of(small().compact(&to)), ErrorKind::Invalid);
    assert!(fs::read(&to).expect("the file") == restored);
    assert_eq!(names_in(folder.path()), ["link", "second", "source", "target.sprag"]);
}

/// A new file is for its owner only, whatever the source is.
#[cfg(unix)]
#[test]
fn a_restored_file_and_a_backup_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let source = made(folder.path().join("source"));
    fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).expect("a mode");
    let to = folder.path().join("to");
    Options::new().restore(&source, &to).expect("restored");
    assert_eq!(fs::metadata(&to).expect("the file").permissions().mode() & 0o777, 0o600);
    let backup = folder.path().join("backup");
    Store::open(&source)
        .expect("it opens")
        .backup(&backup)
        .expect("backed up");
    assert_eq!(
        fs::metadata(&backup).expect("the file").permissions().mode() & 0o777,
        0o600
    );
}
