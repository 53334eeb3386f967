//! Every byte of a small store flipped, one at a time, and every length it can be cut to.
//!
//! The store is left as by a kill: frames in both halves of the log, records, states, removed versions and remembered keys in
//! the base. What must hold for each damaged image:
//!
//! 1. `open` answers a store, or `Corrupt`, or `NotAStore` if the file no longer begins as one; it changed nothing then.
//! 2. Of an open store everything is read. No record, no remembered key and no look-up by state is given with another value,
//!    version or state than it had, and none that was never there. The one exception: all that was given is the truth without
//!    the last commit, and the damage lies in the frame of that commit. Nobody can tell it from a torn tail.
//! 3. If otherwise something is missing, or a count of a state is wrong, and no reading answered an error, then `check` has a
//!    finding.
//! 4. A write and a close after that answer something.
//! 5. `check` answers findings, or `NotAStore` as `open` does, and changes nothing. What `open` refuses it finds.
//!
//! And nothing panics, ends the process or waits for ever. `SPRAG_SEED` decides which bytes are taken and what they become;
//! `SPRAG_TRIALS=all` takes all of them.

mod contents;
mod image;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use sprag::testkit::SimDisk;
use sprag::{Checked, Error, ErrorKind, Keys, Store};

use crate::common::{in_time, shared};
use crate::random::{Random, in_full, seed};
use contents::Contents;
use image::{Image, options};

/// Of so many bytes, and of so many lengths, the ordinary run takes one.
const STRIDE: u64 = 32;
const STRIDE_OF_LENGTHS: u64 = 64;
/// Where the base begins.
const BASE_AT: usize = 4096 + 2 * (16 << 10);
/// Images that are judged between two looks at the clock.
const TOGETHER: usize = 4;

/// What became of a damaged image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// An open refused it.
    RefusedAtOpen,
    /// A reading answered an error.
    RefusedAtReading,
    /// Only a check finds it.
    FoundByCheck,
    /// The last commit is gone, as if its frame had been torn.
    TornTail,
    /// Everything is there; a check finds it all the same.
    HarmlessAndFound,
    /// Everything is there, and no rule is broken: the bytes say nothing.
    Harmless,
}

#[derive(Default)]
struct Fates(BTreeMap<Fate, u64>);

impl fmt::Display for Fates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.0.values().sum();
        write!(out, "{all} images: {:?}", self.0)
    }
}

impl Fates {
    fn of(&self, fate: Fate) -> u64 {
        self.0.get(&fate).copied().unwrap_or_default()
    }
}

fn check(disk: &SimDisk, opened: Option<ErrorKind>) -> Option<Checked> {
    let before = disk.cache_image();
    let checked = options().check_on(shared(disk), |_| ());
    assert!(disk.cache_image() == before && disk.events() == 0, "a check wrote");
    match checked {
        Ok(checked) => {
            assert!(
                opened.is_none() || !checked.is_sound(),
                "what open refuses is found: {checked:?}"
            );
            Some(checked)
        }
        Err(error) => {
            let kinds = (Some(error.kind()), opened);
            assert_eq!(
                kinds,
                (Some(ErrorKind::NotAStore), Some(ErrorKind::NotAStore)),
                "{error:?}"
            );
            None
        }
    }
}

/// Judges one image by the rules above.
fn judge(image: &Image, bytes: Vec<u8>, at: usize) -> Fate {
    let disk = SimDisk::from_image(bytes.clone());
    let store = match options().open_on(shared(&disk)) {
        Ok(store) => store,
        Err(error) => {
            let begins = bytes.len() >= 4096 && bytes.starts_with(b"sprag store\0\r\n\x1a\n");
            let wanted = if begins {
                ErrorKind::Corrupt
            } else {
                ErrorKind::NotAStore
            };
            assert_eq!(error.kind(), wanted, "{error:?}");
            assert!(disk.events() == 0, "a failed open wrote");
            check(&disk, Some(error.kind()));
            return Fate::RefusedAtOpen;
        }
    };
    let checked = check(&SimDisk::from_image(bytes), None).expect("what is opened is a store");
    let seen = Contents::of(&store);
    write_and_close(store);
    if seen == image.without_last {
        assert!(image.last_frame.contains(&at), "the last commit is lost without a word");
        return Fate::TornTail;
    }
    seen.has_nothing_wrong(&image.truth);
    if seen.failed() {
        return Fate::RefusedAtReading;
    }
    if seen == image.truth {
        return if checked.is_sound() {
            Fate::Harmless
        } else {
            Fate::HarmlessAndFound
        };
    }
    assert!(!checked.is_sound(), "lost without a word: {}", seen.lacks(&image.truth));
    Fate::FoundByCheck
}

/// Damages one run of bytes as the input says (three bytes where, then what to xor there), and judges what that makes.
pub fn follow(input: &[u8]) {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    let image = IMAGE.get_or_init(Image::new);
    let Some((place, damage)) = input.split_first_chunk::<3>() else {
        return;
    };
    let [high, middle, low] = *place;
    let begins = u32::from_be_bytes([0, high, middle, low]) as usize % image.bytes.len();
    let mut bytes = image.bytes.clone();
    for (byte, damage) in bytes[begins..].iter_mut().zip(damage.iter().take(64)) {
        *byte ^= damage;
    }
    let last = &image.last_frame;
    let ends = begins + damage.len().min(64);
    if begins < last.start && ends > last.start {
        // Both of the last two frames: then the last two commits are gone without a word.
        if let Ok(store) = options().open_on(Arc::new(SimDisk::from_image(bytes))) {
            let _ = Contents::of(&store);
            write_and_close(store);
        }
        return;
    }
    judge(image, bytes, begins);
}

/// Whatever they answer, they must answer.
fn write_and_close(store: Store) {
    let _ = store.put(image::BLOBS, &1, &"another".to_owned());
    let _ = store.close();
}

/// Judges all images that `damaged` makes of the numbers in `places`.
fn judge_all(
    image: &Arc<Image>,
    places: Vec<usize>,
    damaged: impl Fn(&[u8], usize) -> Vec<u8> + Send + Sync + Clone + 'static,
) -> Fates {
    let mut fates = Fates::default();
    for together in places.chunks(TOGETHER) {
        let (image, together, damaged) = (image.clone(), together.to_vec(), damaged.clone());
        let one = move |at: usize| {
            let judged = catch_unwind(AssertUnwindSafe(|| judge(&image, damaged(&image.bytes, at), at)));
            judged.unwrap_or_else(|_| panic!("the panic above is that of at={at}"))
        };
        let judged = in_time("images", move || together.into_iter().map(one).collect::<Vec<_>>());
        for fate in judged {
            *fates.0.entry(fate).or_default() += 1;
        }
    }
    fates
}

/// Every place, or one of so many, from a random one on.
fn places(len: usize, stride: u64, random: &mut Random) -> Vec<usize> {
    if in_full() {
        return (0..len).collect();
    }
    (0..len as u64 / stride)
        .map(|step| (step * stride + random.below(stride)) as usize)
        .collect()
}

#[test]
fn a_flipped_byte_anywhere_is_refused_or_found_and_no_value_is_wrong() {
    let begun = Instant::now();
    let image = Arc::new(Image::new());
    let seed = seed();
    let places = places(image.bytes.len(), STRIDE, &mut Random::new(seed));
    let fates = judge_all(&image, places, move |bytes, at| {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= Random::new(seed ^ (at as u64) << 1).below(255) as u8 + 1;
        damaged
    });
    println!("flipped bytes, {:.1?}: {fates}", begun.elapsed());
    for fate in [
        Fate::RefusedAtOpen,
        Fate::RefusedAtReading,
        Fate::FoundByCheck,
        Fate::TornTail,
        Fate::HarmlessAndFound,
        Fate::Harmless,
    ] {
        assert!(fates.of(fate) > 0, "no image of {fate:?}");
    }
}

#[test]
fn a_file_that_is_cut_at_any_length_is_refused_or_whole() {
    let begun = Instant::now();
    let image = Arc::new(Image::new());
    let places = places(image.bytes.len(), STRIDE_OF_LENGTHS, &mut Random::new(seed()));
    let fates = judge_all(&image, places, |bytes, at| bytes[..at].to_vec());
    println!("cut files, {:.1?}: {fates}", begun.elapsed());
    assert!(fates.of(Fate::RefusedAtOpen) > 0);
}

/// Where the page number of a child of a branch stands, with the page that it is to be instead: each child, each page.
fn detours(bytes: &[u8]) -> Vec<(usize, u64)> {
    let base = &bytes[BASE_AT..];
    let pages = (base.len() / 4096) as u64 - 1;
    let mut detours = Vec::new();
    for (number, page) in base.chunks_exact(4096).enumerate().skip(1) {
        let children = usize::from(u16::from_le_bytes([page[2], page[3]])) + 1;
        // A branch, by its first byte; of the pages that are no longer in use it does not matter what is changed.
        if page[0] != 2 || children > 170 {
            continue;
        }
        let first = BASE_AT + number * 4096 + 8 + 16 * children;
        let places = (0..children).map(|child| first + 8 * child);
        detours.extend(places.flat_map(|at| (0..pages).map(move |other| (at, other))));
    }
    detours
}

/// Pages that are no longer in use have records as they once were, with good checksums.
#[test]
fn a_branch_that_leads_to_another_page_brings_no_record_back_as_it_once_was() {
    let image = Arc::new(Image::of_many_records());
    let all = Arc::new(detours(&image.bytes));
    let mut random = Random::new(seed());
    let drawn: Vec<usize> = (0..600).map(|_| random.below(all.len() as u64) as usize).collect();
    let fates = judge_all(&image, drawn, move |bytes, which| {
        let (at, other) = all[which];
        let mut damaged = bytes.to_vec();
        damaged[at..at + 8].copy_from_slice(&other.to_le_bytes());
        damaged
    });
    println!("detours: {fates}");
    // A build of redb with debug assertions reads every branch at the open.
    assert!(fates.of(Fate::RefusedAtOpen) + fates.of(Fate::RefusedAtReading) > 0);
    assert!(fates.of(Fate::Harmless) > 0, "no branch is out of use");
    assert_eq!(fates.of(Fate::FoundByCheck), 0, "a branch is judged when it is read");
}

/// Where the leaves that have records of `text` say that an entry ends in its page: the highest byte of each such number.
fn ends_in_leaves(bytes: &[u8], text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    for (number, page) in bytes[BASE_AT..].chunks_exact(4096).enumerate() {
        let has_text = page.windows(text.len()).any(|window| window == text.as_bytes());
        if page[0] == 1 && has_text {
            let entries = usize::from(u16::from_le_bytes([page[2], page[3]]));
            let begins = BASE_AT + number * 4096 + 4;
            ends.extend((0..2 * entries).map(|entry| begins + 4 * entry + 3));
        }
    }
    ends
}

/// redb finds such an entry, and panics only when its bytes are asked for.
#[test]
fn an_entry_that_ends_outside_of_its_page_is_corrupt_in_a_look_up_as_in_a_scan() {
    let text = |key: u64| format!("blob {key} {}", "x".repeat(100));
    let disk = SimDisk::new();
    let store = options().create_on(shared(&disk)).expect("a store");
    for key in 0..20 {
        store.put(image::BLOBS, &key, &text(key)).map(drop).expect("a put");
    }
    store.close().expect("closed, so that all of it is in the base");
    let bytes = disk.cache_image();
    let ends = ends_in_leaves(&bytes, &text(7));
    assert_eq!(ends.len(), 40, "of each record the end of its key and of its value");
    for at in ends {
        let (mut looked_up, mut scanned) = (0, 0);
        let mut damaged = bytes.clone();
        damaged[at] = 1;
        let store = options()
            .open_on(Arc::new(SimDisk::from_image(damaged)))
            .expect("opened");
        for key in 0..20 {
            match store.get(image::BLOBS, &key) {
                Ok(record) => assert!(
                    record.is_none_or(|record| record.value == text(key)),
                    "at={at}, key={key}"
                ),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
                    looked_up += 1;
                }
            }
        }
        let scan = store.read(|tx| {
            let items: Vec<_> = tx.scan(image::BLOBS, Keys::all())?.collect();
            Ok::<_, Error>(items)
        });
        for item in scan.expect("a scan that begins") {
            match item {
                Ok((key, record)) => assert_eq!(record.value, text(key), "at={at}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
                    scanned += 1;
                }
            }
        }
        assert!(
            looked_up > 0 && scanned == 1,
            "at={at}, looked_up={looked_up}, scanned={scanned}"
        );
    }
}
