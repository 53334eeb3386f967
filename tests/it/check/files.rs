//! What is no store, a newer one, or the beginning of one: what `check` answers, and that it leaves no trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use sprag::{Checked, ErrorKind, Options, Store};

use super::{check, in_the_log, lines, rules};
use crate::common::{folder, in_time, kind_of, small, text_of};

fn look(path: &Path) -> (Vec<u8>, SystemTime) {
    let changed = fs::metadata(path).and_then(|found| found.modified());
    (fs::read(path).expect("the bytes"), changed.expect("a time of change"))
}

fn check_file(path: &Path) -> sprag::Result<Checked> {
    let path = path.to_owned();
    in_time("check", move || Options::new().check(path, |_| ()))
}

/// CF-1
#[test]
fn a_file_of_another_program_is_not_a_store_and_stays_as_it_was() {
    let folder = folder();
    let foreign: [(&str, Vec<u8>); 7] = [
        ("text.sprag", b"Dear diary,\n".repeat(500)),
        ("picture.png", [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 9000]].concat()),
        ("base.sqlite", [b"SQLite format 3\0".as_slice(), &[0; 8176]].concat()),
        ("program", [b"\x7fELF\x02\x01\x01\0".as_slice(), &[1; 60_000]].concat()),
        ("one", vec![b's']),
        ("empty", Vec::new()),
        ("zeros", vec![0; 4096]),
    ];
    for (name, bytes) in &foreign {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a foreign file");
        let before = look(&path);
        let text = text_of(ErrorKind::NotAStore, check_file(&path));
        assert!(text.contains(&format!("path={}", path.display())), "{text}");
        assert!(look(&path) == before, "the file was changed, name={name}");
    }
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, foreign.len(), "something was left beside them");
}

/// CF-1
#[cfg(unix)]
#[test]
fn a_folder_a_pipe_and_a_device_are_no_stores_and_nobody_hangs() {
    let folder = folder();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    for path in [folder.path().to_owned(), pipe, PathBuf::from("/dev/null")] {
        assert_eq!(kind_of(check_file(&path)), ErrorKind::NotAStore, "{}", path.display());
    }
}

/// CF-3
#[test]
fn a_newer_format_is_refused_by_number_and_an_impossible_one_is_a_finding() {
    let bytes = in_the_log();
    let patched = |format: u32| {
        let mut patched = bytes.clone();
        patched[16..20].copy_from_slice(&format.to_le_bytes());
        let crc = crc32fast::hash(&patched[..4092]).to_le_bytes();
        patched[4092..4096].copy_from_slice(&crc);
        patched
    };
    let folder = folder();
    let path = folder.path().join("t.sprag");
    for format in [2, 255, u32::MAX] {
        fs::write(&path, patched(format)).expect("a newer file");
        let before = look(&path);
        let text = text_of(ErrorKind::NewerFormat, check_file(&path));
        assert!(text.contains(&format!("format={format}, newest_known=1")), "{text}");
        assert!(look(&path) == before);
    }
    assert_eq!(rules(&check(patched(0))), ["superblock"]);
    let mut flipped = bytes;
    flipped[16] = 2;
    assert_eq!(rules(&check(flipped)), ["superblock"]);
}

/// CF-4
#[test]
fn a_wrong_path_is_not_found_and_nothing_is_made() {
    let folder = folder();
    for path in ["missing.sprag", "no/t.sprag"] {
        let path = folder.path().join(path);
        assert_eq!(kind_of(check_file(&path)), ErrorKind::NotFound);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

/// CF-6
#[test]
fn a_store_whose_first_page_is_gone_is_not_a_store_and_its_beginning_alone_is_a_finding() {
    let mut bytes = in_the_log();
    assert_eq!(rules(&check(bytes[..16].to_vec())), ["superblock"]);
    assert_eq!(rules(&check(bytes[..4095].to_vec())), ["superblock"]);
    assert_eq!(
        lines(&check(bytes[..4096].to_vec())),
        ["superblock offset=0 | file.length | bytes=4096, base_begins=36864"]
    );
    assert_eq!(rules(&check(bytes[..36_864].to_vec())), ["file.length"]);
    bytes[..4096].fill(0);
    let folder = folder();
    let path = folder.path().join("t.sprag");
    fs::write(&path, &bytes).expect("a damaged file");
    assert_eq!(kind_of(check_file(&path)), ErrorKind::NotAStore);
}

#[test]
fn a_damaged_superblock_is_a_finding_and_what_lies_behind_it_is_looked_at() {
    let bytes = in_the_log();
    let mut flipped = bytes.clone();
    flipped[1000] ^= 1;
    let checked = check(flipped);
    let wanted = [
        "superblock offset=0 | superblock | superblock checksum is wrong",
        "superblock offset=1000 | superblock.padding | byte=0x01",
    ];
    assert_eq!(lines(&checked), wanted);
    assert_eq!((checked.records, checked.frames), (4, 1));
    // With another identity no frame is one of this store: what the base has is left.
    let mut flipped = bytes;
    flipped[21] ^= 1;
    let checked = check(flipped);
    assert_eq!(
        (rules(&checked), checked.records, checked.frames),
        (vec!["superblock"], 0, 0)
    );
}

/// As everywhere: the file, its time of change and its folder stay as they are.
#[test]
fn a_store_is_as_it_was_after_a_check_whatever_was_found() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = small().create_new(&path).expect("a store");
    super::fill(&store);
    store.close().expect("closed");
    let before = look(&path);
    assert!(check_file(&path).expect("a look").is_sound());
    assert!(look(&path) == before);
    let mut bytes = before.0;
    for at in (40_000..bytes.len()).step_by(1000) {
        bytes[at] ^= 1;
    }
    fs::write(&path, &bytes).expect("a damaged file");
    let before = look(&path);
    assert!(!check_file(&path).expect("a look").is_sound());
    assert!(look(&path) == before);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
}

#[test]
fn a_store_that_is_open_elsewhere_is_checked_but_for_the_checksums_of_its_pages() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    super::fill(&store);
    let beside = check_file(&path).expect("a look");
    assert!(beside.is_sound() && !beside.base_verified, "{beside:?}");
    assert_eq!((beside.records, beside.remembered_keys), (4, 2));
    store.close().expect("closed");
    let alone = check_file(&path).expect("a look");
    assert!(alone.is_sound() && alone.base_verified, "{alone:?}");
    assert_eq!((alone.records, alone.remembered_keys), (4, 2));
}
