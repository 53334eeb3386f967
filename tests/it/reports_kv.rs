//! Field reports of kind KV: sizes at their limits by batch and by the command, and plain volume.
//! Files above 4 GiB (KV-2) are too large for a test: `cargo bench -p sprag-benches --bench large`.

use std::ops::Range;
use std::path::Path;

use sprag::{
    Batch, CodecId, DynKey, DynTable, ErrorKind, Json, Keep, KeyKind, Keys, OnceKey, Options, Outcome, Stateless,
    Store, Table, limits,
};

use crate::common::{folder, text_of};
use crate::random::{Random, seed};

const PAGE: usize = 4096;

fn raw() -> DynTable {
    DynTable::new("raw", KeyKind::Bytes, CodecId::Bincode)
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn stored(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    let record = store.get(&raw(), &DynKey::Bytes(key.to_vec())).expect("readable");
    record.map(|record| record.value)
}

/// KV-1: large keys and values ended programs of other stores, or failed without a word of the limit.
#[test]
fn a_batch_takes_keys_and_values_up_to_their_limits_and_names_the_limit_above() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Options::new()
        .log_half_bytes(32 << 20)
        .create_new(&path)
        .expect("a store");
    let mut random = Random::new(seed());
    let sizes = [0, 1, PAGE - 1, PAGE, PAGE + 1, 1 << 20];
    let mut written = Vec::new();
    for (key_len, value_len) in [0, 1, PAGE - 1, PAGE]
        .into_iter()
        .flat_map(|key| sizes.map(|value| (key, value)))
    {
        let mut key = random_bytes(&mut random, key_len);
        key.truncate(PAGE - 8);
        // A key of its own for each value, and still as long as it should be.
        if key_len > 8 {
            key.extend_from_slice(&(value_len as u64).to_be_bytes());
        }
        let value = random_bytes(&mut random, value_len);
        let batch = Batch::new().put(&raw(), &DynKey::Bytes(key.clone()), &value);
        let batch = Batch::from_json(&batch.to_json().expect("text"), &[]).expect("a batch");
        assert!(matches!(store.apply(&batch).expect("applied"), Outcome::Applied { .. }));
        written.retain(|(other, _)| *other != key);
        written.push((key, value));
    }
    let commits = store.stats().expect("figures").commits;
    for len in [PAGE + 1, 64 << 20] {
        let long =
            DynKey::Bytes(random_bytes(&mut random, len.min(1 << 20)).repeat(len.div_ceil(1 << 20))[..len].to_vec());
        let batch = Batch::new()
            .put(&raw(), &DynKey::Bytes(vec![7; 2]), &vec![1])
            .delete(&raw(), &long);
        let told = text_of(ErrorKind::TooLarge, store.apply(&batch));
        assert!(
            told.contains(&format!("operation=1: key too long, bytes={len}, bytes_max=4096")),
            "{told}"
        );
    }
    for (len, limit) in [
        (limits::VALUE_BYTES_MAX + 1, limits::VALUE_BYTES_MAX),
        (limits::VALUE_BYTES_MAX, 16 << 20),
    ] {
        let batch = Batch::new().put(&raw(), &DynKey::Bytes(vec![7; 2]), &vec![1; len]);
        let told = text_of(ErrorKind::TooLarge, store.apply(&batch));
        assert!(told.contains(&format!("bytes_max={limit}")), "{told}");
    }
    assert_eq!(store.stats().expect("figures").commits, commits);
    store.close().expect("closed");
    let store = Store::open(&path).expect("opened again");
    assert_eq!(stored(&store, &[7; 2]), None);
    for (key, value) in &written {
        assert_eq!(stored(&store, key).as_ref(), Some(value));
    }
}

/// KV-1, from the standard input of the command.
#[test]
fn the_command_takes_values_up_to_the_limit_from_its_stdin_and_names_it_above() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    Store::create_new(&path).expect("a store").close().expect("closed");
    let max = limits::commit_bytes_max(limits::LOG_HALF_BYTES_DEFAULT) as usize;
    let mut random = Random::new(seed());
    for len in [0, 1, PAGE - 1, PAGE, PAGE + 1, max - 512] {
        let text: String = (0..len).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        let (code, _, err) = sprag(
            &path,
            &["put", "FILE", "texts", "one", "-"],
            format!("\"{text}\"").as_bytes(),
        );
        assert_eq!((code, err.as_str()), (Some(0), ""), "{len}");
        let (code, out, _) = sprag(&path, &["get", "FILE", "texts", "one"], &[]);
        assert_eq!((code, out), (Some(0), format!("\"{text}\"\n")), "{len}");
    }
    for len in [max, 64 << 20, (64 << 20) + 1, (128 << 20) + 1] {
        let (code, out, err) = sprag(
            &path,
            &["put", "FILE", "texts", "two", "-"],
            format!("\"{}\"", "x".repeat(len)).as_bytes(),
        );
        assert_eq!((code, out.as_str()), (Some(2), ""), "{len} {err}");
        assert!(
            err.starts_with("sprag: too large: ") && err.contains("bytes_max="),
            "{len} {err}"
        );
    }
    let (code, ..) = sprag(&path, &["get", "FILE", "texts", "two"], &[]);
    assert_eq!(code, Some(4));
}

fn sprag(path: &Path, args: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprag"));
    for arg in args {
        match *arg {
            "FILE" => command.arg(path),
            arg => command.arg(arg),
        };
    }
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("the command starts");
    // One that refuses early does not read to the end.
    let _ = child.stdin.take().expect("its stdin").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

sprag::machine! {
    enum Stage: "stages" { New = "new", Done = "done" }
    initial New;
    New => Done;
}

/// Writes and reads back one row of 32 bytes in each kind of record.
const PLAIN: Table<u64, [u8; 32]> = Table::new("plain");
const STAGED: Table<u64, [u8; 32], Stage> = Table::new("staged");
const NAMED: Table<str, String, Stateless, Json> = Table::new("named");

const COMMITS: u64 = 2730;
const ROWS: u64 = 24;

fn row(number: u64) -> [u8; 32] {
    let mut row = [0xa5; 32];
    row[..8].copy_from_slice(&number.to_be_bytes());
    row
}

fn name(number: u64) -> String {
    format!("{number:08}")
}

/// KV-4: many small rows of one size, in order, over many commits, overfilled the pages of another store.
fn volume(order: impl Fn(u64) -> u64) {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let options = || Options::new().log_half_bytes(256 << 10).level(sprag::Level::Buffered);
    let store = options().create_new(&path).expect("a store");
    for commit in 0..COMMITS {
        let rows: Range<u64> = commit * ROWS..(commit + 1) * ROWS;
        let written = store.write(|tx| {
            for number in rows.map(&order) {
                tx.put(PLAIN, &number, &row(number))?;
                tx.put(STAGED, &number, &row(number))?;
                tx.put(NAMED, &name(number), &name(number))?;
                let key = OnceKey::new("volume", number.to_be_bytes(), Keep::Forever);
                tx.once(&key, |_| Ok::<_, sprag::Error>(row(number)))?;
            }
            Ok::<_, sprag::Error>(())
        });
        written.expect("written");
    }
    store.close().expect("closed");
    let store = options().open(&path).expect("opened again");
    store
        .read(|tx| {
            let numbers = || 0..COMMITS * ROWS;
            let plain = tx.scan(PLAIN, Keys::all())?;
            assert!(
                plain
                    .map(|item| item.map(|(key, record)| (key, record.value)).expect("a row"))
                    .eq(numbers().map(|n| (n, row(n))))
            );
            let staged = tx.scan(STAGED, Keys::all())?;
            assert!(
                staged
                    .map(|item| item.map(|(key, record)| (key, record.value)).expect("a row"))
                    .eq(numbers().map(|n| (n, row(n))))
            );
            let named = tx.scan(NAMED, Keys::all().rev())?;
            assert!(
                named
                    .map(|item| item.expect("a row").1.value)
                    .eq(numbers().rev().map(name))
            );
            for number in numbers().step_by(97) {
                let remembered = tx.remembered("volume", number.to_be_bytes())?.expect("remembered");
                assert_eq!(remembered.result_bytes(), row(number));
            }
            Ok::<_, sprag::Error>(())
        })
        .expect("readable");
}

#[test]
fn sixty_five_thousand_small_rows_come_back_whether_they_came_rising_or_falling() {
    volume(|number| number);
    volume(|number| COMMITS * ROWS - 1 - number);
}

#[test]
fn sixty_five_thousand_small_rows_come_back_if_they_came_in_no_order() {
    // Odd and prime to the count: every number once, far from its neighbours.
    volume(|number| number * 48_271 % (COMMITS * ROWS));
}
