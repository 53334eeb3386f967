//! A file that is not a store, or is a damaged or newer one: a typed error, and not one byte of it is changed.
//!
//! Reports: CF-1 (opening a file that is not ours changes it), CF-3 (another format), CF-4 (a wrong path makes a new
//! store), CF-6 (a file of zero bytes).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use sprag::testkit::SimDisk;
use sprag::{ErrorKind, Options, Store, Table};

use crate::common::{folder, in_time, kind_of, shared, small, text_of};
use crate::random::{Random, seed};

const NUMBERS: Table<u64, String> = Table::new("numbers");
const RECORDS: u64 = 300;
/// The ways to open what is there.
const OPENS: [fn(PathBuf) -> sprag::Result<Store>; 2] = [|path| Store::open(path), |path| Store::open_or_create(path)];
/// Where the base begins in a file with log halves of 16 KiB.
const BASE_AT: usize = 4096 + 2 * (16 << 10);

fn made(path: &Path) {
    let store = small().create_new(path).expect("a new store");
    fill(&store);
    store.close().expect("closed");
}

fn fill(store: &Store) {
    for key in 0..RECORDS {
        store.put(NUMBERS, &key, &"x".repeat(100)).expect("written");
    }
}

/// The bytes of a store with records in its base and in its log.
fn image() -> Vec<u8> {
    let disk = SimDisk::new();
    let store = small()
        .checkpoints_in_line()
        .create_on(shared(&disk))
        .expect("a new store");
    fill(&store);
    assert!(store.stats().expect("figures").log_used_bytes > 0);
    disk.kill().cache_image()
}

/// What an open of these bytes answers; a failed one must have left them alone, and no open may panic.
fn open_image(bytes: &[u8]) -> Result<Store, ErrorKind> {
    let disk = SimDisk::from_image(bytes.to_vec());
    let opened = small().open_on(shared(&disk));
    opened.map_err(|error| {
        assert!(
            disk.cache_image() == bytes,
            "a failed open changed the bytes: {error:?}"
        );
        assert!(disk.events() == 0, "a failed open wrote: {error:?}");
        error.kind()
    })
}

fn look(path: &Path) -> (Vec<u8>, SystemTime) {
    let changed = fs::metadata(path)
        .and_then(|found| found.modified())
        .expect("a time of change");
    (fs::read(path).expect("the bytes"), changed)
}

/// Every way to open answers in time, and the file stays as it was.
fn is_refused(path: &Path, kind: ErrorKind) {
    let before = look(path);
    for open in OPENS {
        let owned = path.to_owned();
        let text = in_time("open", move || text_of(kind, open(owned)));
        assert!(
            text.contains(&format!("path={}", path.display())),
            "no path is named: {text}"
        );
    }
    assert_eq!(kind_of(Store::create_new(path)), ErrorKind::Invalid, "the file exists");
    assert!(look(path) == before, "the file was changed, path={}", path.display());
}

#[test]
fn a_file_of_another_program_is_not_a_store_and_stays_as_it_was() {
    let folder = folder();
    let foreign: [(&str, Vec<u8>); 6] = [
        ("text.sprag", b"Dear diary,\n".repeat(500)),
        ("picture.png", [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 9000]].concat()),
        ("base.sqlite", [b"SQLite format 3\0".as_slice(), &[0; 8176]].concat()),
        ("program", [b"\x7fELF\x02\x01\x01\0".as_slice(), &[1; 60_000]].concat()),
        ("one", vec![b's']),
        ("zeros", vec![0; 4096]),
    ];
    for (name, bytes) in foreign {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a foreign file");
        is_refused(&path, ErrorKind::NotAStore);
    }
    let only_the_beginning = folder.path().join("begins");
    fs::write(&only_the_beginning, b"sprag store\0\r\n\x1a\n").expect("a file");
    is_refused(&only_the_beginning, ErrorKind::NotAStore);
    assert_eq!(
        fs::read_dir(folder.path()).expect("the folder").count(),
        7,
        "something was left beside them"
    );
}

#[cfg(unix)]
#[test]
fn a_folder_a_pipe_and_a_device_are_no_stores_and_nobody_hangs() {
    let folder = folder();
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo runs")
            .success()
    );
    for path in [folder.path().to_owned(), pipe, PathBuf::from("/dev/null")] {
        for open in OPENS {
            let owned = path.clone();
            in_time("open", move || text_of(ErrorKind::NotAStore, open(owned)));
        }
        let owned = path.clone();
        assert_eq!(
            in_time("create", move || kind_of(Store::create_new(owned))),
            ErrorKind::Invalid
        );
    }
}

#[test]
fn an_empty_file_is_no_store_to_open_and_room_for_one_to_open_or_create() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    fs::write(&path, []).expect("an empty file");
    let text = text_of(ErrorKind::NotAStore, Store::open(&path));
    assert!(text.contains("zero bytes"), "{text}");
    assert_eq!(kind_of(Store::create_new(&path)), ErrorKind::Invalid);
    assert!(fs::read(&path).expect("the file").is_empty());
    let store = Store::open_or_create(&path).expect("an empty file counts as new");
    store.put(NUMBERS, &1, &"a".to_owned()).expect("written");
    store.close().expect("closed");
    Store::open(&path).expect("a store now").close().expect("closed");
}

#[test]
fn a_wrong_path_is_not_found_and_nothing_is_made() {
    let folder = folder();
    let missing = folder.path().join("missing.sprag");
    let text = text_of(ErrorKind::NotFound, Store::open(&missing));
    assert!(text.contains("missing.sprag"), "{text}");
    let no_parent = folder.path().join("no").join("t.sprag");
    for open in OPENS {
        assert_eq!(kind_of(open(no_parent.clone())), ErrorKind::NotFound);
    }
    assert_eq!(kind_of(Store::create_new(&no_parent)), ErrorKind::NotFound);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn a_store_whose_first_page_is_gone_is_never_made_anew() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    made(&path);
    let mut bytes = fs::read(&path).expect("the file");
    bytes[..4096].fill(0);
    fs::write(&path, &bytes).expect("a damaged file");
    is_refused(&path, ErrorKind::NotAStore);
}

/// The superblock with one value changed and its checksum made good again.
fn patched(bytes: &[u8], at: usize, value: &[u8]) -> Vec<u8> {
    let mut patched = bytes.to_vec();
    patched[at..at + value.len()].copy_from_slice(value);
    let crc = crc32fast::hash(&patched[..4092]).to_le_bytes();
    patched[4092..4096].copy_from_slice(&crc);
    patched
}

#[test]
fn a_newer_format_is_refused_by_number_and_an_impossible_one_is_damage() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    made(&path);
    let bytes = fs::read(&path).expect("the file");
    for format in [2_u32, 255, u32::MAX] {
        fs::write(&path, patched(&bytes, 16, &format.to_le_bytes())).expect("a newer file");
        is_refused(&path, ErrorKind::NewerFormat);
        let text = text_of(ErrorKind::NewerFormat, Store::open(&path));
        assert!(text.contains(&format!("format={format}, newest_known=1")), "{text}");
    }
    fs::write(&path, patched(&bytes, 16, &[0; 4])).expect("a file of no format");
    is_refused(&path, ErrorKind::Corrupt);
    // A number that was changed without its checksum is damage and no newer format.
    let mut flipped = bytes.clone();
    flipped[16] = 2;
    fs::write(&path, &flipped).expect("a damaged file");
    is_refused(&path, ErrorKind::Corrupt);
    fs::write(&path, &bytes).expect("the file as it was");
    Store::open(&path).expect("as it was").close().expect("closed");
}

#[test]
fn log_halves_of_an_impossible_length_are_damage_and_take_no_memory() {
    let bytes = image();
    for half in [0_u64, 1, 4096, (16 << 10) + 1, 1 << 40, u64::MAX, u64::MAX - 4095] {
        assert_eq!(
            open_image(&patched(&bytes, 36, &half.to_le_bytes())).err(),
            Some(ErrorKind::Corrupt),
            "half={half}"
        );
    }
    // Possible, but not of this file: the base is not where it should be.
    for half in [20_u64 << 10, 1 << 20, 1 << 30] {
        assert_eq!(
            open_image(&patched(&bytes, 36, &half.to_le_bytes())).err(),
            Some(ErrorKind::Corrupt),
            "half={half}"
        );
    }
}

#[test]
fn a_superblock_with_one_flipped_bit_is_refused() {
    let bytes = image();
    for at in (0..4096).filter(|at| at % 37 == 0 || *at < 64 || *at >= 4088) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let kind = if at < 16 {
            ErrorKind::NotAStore
        } else {
            ErrorKind::Corrupt
        };
        assert_eq!(open_image(&damaged).err(), Some(kind), "at={at}");
    }
}

/// All records as they were written, or what the first failing read answered.
fn read_all(store: &Store) -> Result<u64, ErrorKind> {
    let mut count = 0;
    for key in 0..RECORDS {
        match store.get(NUMBERS, &key) {
            Ok(Some(record)) => {
                assert_eq!(
                    record.value,
                    "x".repeat(100),
                    "a damaged value was given out, key={key}"
                );
                count += 1;
            }
            Ok(None) => {}
            Err(error) => return Err(error.kind()),
        }
    }
    Ok(count)
}

#[test]
fn a_file_that_was_cut_short_is_refused_or_whole() {
    let bytes = image();
    let mut random = Random::new(seed());
    let whole = open_image(&bytes).expect("not cut");
    assert_eq!(read_all(&whole), Ok(RECORDS));
    let fixed = [
        0,
        1,
        4095,
        4096,
        4097,
        BASE_AT - 1,
        BASE_AT,
        BASE_AT + 1,
        BASE_AT + 4096,
        bytes.len() - 1,
    ];
    let drawn: Vec<usize> = (0..60).map(|_| random.below(bytes.len() as u64) as usize).collect();
    for len in fixed.into_iter().chain(drawn) {
        match open_image(&bytes[..len]) {
            Err(kind) if len < 4096 => assert_eq!(kind, ErrorKind::NotAStore, "len={len}"),
            Err(kind) => assert_eq!(kind, ErrorKind::Corrupt, "len={len}"),
            Ok(store) => assert_eq!(
                read_all(&store),
                Ok(RECORDS),
                "a store that lacks something was opened, len={len}"
            ),
        }
    }
}

/// What reading everything and one write answer after one bit was flipped. Whatever they answer, it must be an answer.
fn flip(bytes: &[u8], at: usize, bit: u64) -> Result<u64, ErrorKind> {
    let mut damaged = bytes.to_vec();
    damaged[at] ^= 1 << bit;
    let store = open_image(&damaged)?;
    let read = read_all(&store);
    let written = store.put(NUMBERS, &RECORDS, &"y".to_owned());
    assert!(written.is_ok() || read.is_err(), "at={at}: {written:?}");
    read
}

#[test]
fn a_flipped_bit_in_the_log_is_noticed_or_takes_nothing_that_was_acknowledged_before_the_last_sync() {
    let bytes = image();
    let mut random = Random::new(seed());
    for _ in 0..300 {
        let at = 4096 + random.below(BASE_AT as u64 - 4096) as usize;
        match flip(&bytes, at, random.below(8)) {
            // The last frame has nobody behind it who knows that it was durable.
            Ok(count) => assert!(count >= RECORDS - 1, "at={at}: {count} records are left"),
            Err(kind) => assert_eq!(kind, ErrorKind::Corrupt, "at={at}"),
        }
    }
}

/// The sequence is fixed: on some damage of its allocator redb panics while it unwinds, which ends the process, and
/// which nobody outside of redb can catch.
#[test]
fn a_flipped_bit_in_the_base_is_an_error_or_changes_no_value() {
    let bytes = image();
    let mut random = Random::new(20_260_101);
    for round in 0..300 {
        // Half of them in the first pages of the base, where its own bookkeeping lies.
        let within = if round % 2 == 0 {
            3 * 4096
        } else {
            bytes.len() - BASE_AT
        };
        let at = BASE_AT + random.below(within as u64) as usize;
        if let Err(kind) = flip(&bytes, at, random.below(8)) {
            let known = [ErrorKind::Corrupt, ErrorKind::NewerFormat, ErrorKind::Io];
            assert!(known.contains(&kind), "at={at}: {kind:?}");
        }
    }
}

#[test]
fn a_log_half_out_of_range_makes_no_file() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    for half in [0, 1, (16 << 10) - 4096, (16 << 10) + 1, (1 << 30) + 4096, u64::MAX] {
        let text = text_of(
            ErrorKind::Invalid,
            Options::new().log_half_bytes(half).create_new(&path),
        );
        assert!(
            text.contains(&format!("bytes={half}, bytes_min=16384, bytes_max=1073741824")),
            "{text}"
        );
        assert_eq!(
            kind_of(Options::new().log_half_bytes(half).in_memory()),
            ErrorKind::Invalid
        );
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn a_disk_that_cannot_be_read_is_an_error_of_the_disk_and_not_of_the_file() {
    use sprag::testkit::{FaultKind, FaultMode};
    let bytes = image();
    for passing in 0..6 {
        let disk = SimDisk::from_image(bytes.clone());
        disk.fail(
            FaultKind::Read,
            passing,
            FaultMode::FailForever,
            std::io::ErrorKind::Other,
        );
        let error = small()
            .open_on(Arc::new(disk.clone()))
            .expect_err("nothing can be read");
        assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
        assert_eq!(disk.events(), 0);
        disk.heal();
        assert_eq!(
            read_all(&small().open_on(Arc::new(disk)).expect("readable again")),
            Ok(RECORDS)
        );
    }
}
