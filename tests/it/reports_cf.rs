//! Files that may not be written, and files that change under an open store, as other people met them.
//!
//! Reports: RO-1 (a read-only file or folder), IO-2 (a file cut short while it is open), CF-1 and CF-6 for what they say of
//! read-only places. Foreign, empty, newer and damaged files are in `bad_files`, removed and replaced ones in `closing`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sprag::{ErrorKind, Store, Table};

use crate::common::{folder, in_time, kind_of, skipped, small, text_of};

const VALUES: Table<u64, Vec<u8>> = Table::new("values");
const CHILD_FOLDER: &str = "SPRAG_CF_FOLDER";

/// A folder with a store that may not be written, in which nothing may be made either.
#[cfg(unix)]
fn read_only_folder(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("t.sprag");
    let store = small().create_new(&path).expect("a store");
    store.put(VALUES, &1, &vec![140]).expect("written");
    store.close().expect("closed");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("read-only");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).expect("read-only");
    path
}

/// The answers to a user who may only read.
fn is_refused(folder: &Path) {
    let path = folder.join("t.sprag");
    for opened in [Store::open(&path), Store::open_or_create(&path)] {
        let text = text_of(ErrorKind::ReadOnly, opened);
        assert!(text.contains(&format!("path={}", path.display())), "{text}");
    }
    assert_eq!(kind_of(Store::create_new(&path)), ErrorKind::Invalid, "the file exists");
    let new = folder.join("new.sprag");
    for made in [Store::create_new(&new), Store::open_or_create(&new)] {
        assert_eq!(kind_of(made), ErrorKind::ReadOnly);
    }
    assert_eq!(kind_of(Store::open(&new)), ErrorKind::NotFound);
}

/// What a user without rights does; a trial of its own if nobody names a folder.
#[test]
fn a_child_without_rights_is_refused() {
    match std::env::var_os(CHILD_FOLDER) {
        Some(folder) => is_refused(Path::new(&folder)),
        None => assert_eq!(kind_of(Store::open("no such folder/t.sprag")), ErrorKind::NotFound),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_and_a_folder_that_may_not_be_written_are_read_only_and_stay_as_they_are() {
    use std::os::unix::fs::PermissionsExt as _;
    let temporary = folder();
    let path = read_only_folder(temporary.path());
    let before = (
        fs::read(&path).expect("the bytes"),
        fs::metadata(&path).expect("there").modified().ok(),
    );
    if rustix::process::geteuid().is_root() {
        // Root may write everything, so somebody else has to try.
        let out = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(std::env::current_exe().expect("path of this test"))
            .args([
                "--exact",
                "reports_cf::a_child_without_rights_is_refused",
                "--nocapture",
            ])
            .env(CHILD_FOLDER, temporary.path())
            .output();
        match out {
            Ok(out) if String::from_utf8_lossy(&out.stdout).contains("running 1 test") => {
                assert!(out.status.success(), "{out:?}");
            }
            other => skipped(&format!("nobody without rights can run this test: {other:?}")),
        }
    } else {
        is_refused(temporary.path());
    }
    assert_eq!(fs::read_dir(temporary.path()).expect("the folder").count(), 1);
    assert!(before.0 == fs::read(&path).expect("the bytes"), "the file was changed");
    assert_eq!(before.1, fs::metadata(&path).expect("there").modified().ok());
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).expect("writable again");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("writable again");
    let store = Store::open(&path).expect("opened by who may write");
    assert_eq!(
        store.get(VALUES, &1).expect("readable").expect("there").value,
        vec![140]
    );
}

/// Somebody cuts the file short while it is open: errors by kind, no signal, no panic, and never a wrong value.
#[test]
fn a_file_that_is_cut_short_while_it_is_open_is_an_error_and_never_a_wrong_value() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = small().cache_bytes(0).create_new(&path).expect("a store");
    for key in 0..200 {
        store.put(VALUES, &key, &vec![key as u8; 2000]).expect("written");
    }
    let len = fs::metadata(&path).expect("there").len();
    let file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
    for part in [3, 2, 1] {
        file.set_len(len * part / 4).expect("cut");
        let reader = store.clone();
        let failed = in_time("reads of a file that was cut short", move || {
            let mut failed = 0;
            for key in 0..200 {
                match reader.get(VALUES, &key) {
                    Ok(Some(record)) => assert_eq!(record.value, vec![key as u8; 2000], "key={key}"),
                    Ok(None) => panic!("a record is gone without a word, key={key}"),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io), "{error:?}");
                        failed += 1;
                    }
                }
            }
            failed
        });
        assert!(failed > 0, "nothing was missed, part={part}");
        let writer = store.clone();
        let written = in_time("a write to a file that was cut short", move || {
            writer.put(VALUES, &1000, &vec![part as u8; 2000]).map(drop)
        });
        if let Err(error) = written {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io), "{error:?}");
        }
    }
    in_time("a close of a file that was cut short", move || drop(store.close()));
    let opened = Store::open(&path).and_then(|store| store.get(VALUES, &0).map(drop));
    if let Err(error) = opened {
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io), "{error:?}");
    }
}
