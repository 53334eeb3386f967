//! The bytes of segments: filters, blocks, the list.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq};

use sprag::ErrorKind;
use sprag::internals::filter::{self, Filter};
use sprag::internals::segment::{About, Block, BlockBuilder, Catalog, Entry, decode_part, encode_part, is_over};

use crate::common::kind_of;
use crate::random::{Random, for_random, seed};

/// Key and value of a block together, unless one entry is longer or the key of the next block is.
const PAGE: usize = 4080;

fn filter_of(bytes: &[u8]) -> Option<Filter> {
    let mut filter = Filter::default();
    filter.reserve(bytes.len());
    filter.extend(bytes).then_some(filter)
}

#[test]
fn a_filter_knows_every_key_that_it_was_given_and_few_others() {
    let mut random = Random::new(seed());
    for keys in [1, 2, 3, 51, 52, 100, 1000, 10_000, 100_000] {
        let start = random.below(u64::MAX);
        let hash = |number: u64| filter::hash(&start.wrapping_add(number).to_be_bytes());
        let mut full = Filter::with_room(keys);
        assert_eq!(full.bytes().len() as u64, (keys * 10).div_ceil(512) * 64);
        for number in 0..keys {
            full.insert(hash(number));
        }
        assert!((0..keys).all(|number| full.may_hold(hash(number))), "keys={keys}");
        let read = filter_of(full.bytes()).expect("whole blocks");
        assert_eq!(read, full);
        let (asked, from) = (50_000, 1 << 40);
        let seeming = (from..from + asked)
            .filter(|number| read.may_hold(hash(*number)))
            .count() as u64;
        // Few blocks are filled by chance more or less than others.
        let percent = if keys < 1000 { 10 } else { 2 };
        assert!(
            seeming * 100 < asked * percent,
            "keys={keys}, seeming={seeming} of {asked}"
        );
    }
}

#[test]
fn a_filter_that_was_given_more_than_it_has_room_for_knows_them_all() {
    let mut filter = Filter::with_room(10);
    for number in 0_u64..2000 {
        filter.insert(filter::hash(&number.to_be_bytes()));
    }
    assert!((0_u64..2000).all(|number| filter.may_hold(filter::hash(&number.to_be_bytes()))));
}

/// The bits of a filter as docs/FORMAT.md has them, by arithmetic of another kind.
fn bits_by_hand(hash: u64, keys: u64) -> Vec<u8> {
    let blocks = (10 * keys).div_ceil(512).max(1) as usize;
    let mut bytes = vec![0; 64 * blocks];
    let block = (u128::from(hash) * blocks as u128 / (1 << 64)) as usize;
    let spread = (u128::from(hash) * 0x9e37_79b9_7f4a_7c15 % (1 << 64)) as u64;
    for place in 0..6 {
        let bit = (spread / (1 << (55 - 9 * place)) % 512) as usize;
        bytes[64 * block + bit / 8] |= 1 << (bit % 8);
    }
    bytes
}

#[test]
fn the_hash_and_the_bits_of_a_filter_are_those_of_the_format() {
    // As the authors of XXH3 publish them.
    assert_eq!(filter::hash(b""), 0x2d06_8005_38d3_94c2);
    assert_eq!(filter::hash(b"abc"), 0x78af_5f94_892f_3950);
    let mut filter = Filter::with_room(1000);
    let mut by_hand = vec![0; filter.bytes().len()];
    for number in 0_u64..1000 {
        let hash = filter::hash(&number.to_be_bytes());
        filter.insert(hash);
        for (all, one) in by_hand.iter_mut().zip(bits_by_hand(hash, 1000)) {
            *all |= one;
        }
        assert_eq!(filter.bytes(), by_hand);
    }
}

#[test]
fn any_bytes_are_a_filter_or_none() {
    for_random(200, &prop::collection::vec(any::<u8>(), 0..300), |bytes| {
        let filter = filter_of(&bytes);
        prop_assert_eq!(filter.is_some(), bytes.len() % 64 == 0);
        prop_assert!(filter.is_none_or(|filter| filter.bytes() == bytes));
        Ok(())
    });
    assert!(filter_of(&[0xff; 64]).expect("a block").may_hold(7));
    assert!(filter_of(&[]).expect("no block").may_hold(7), "it knows nothing");
    assert!(!filter_of(&[0; 64]).expect("a block").may_hold(7));
}

/// `at`, `hides` and value of an entry.
type Rest = (u64, Option<u64>, Option<Vec<u8>>);

/// Entries with keys of few letters, so that some are the beginning of others, in their order.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..60));
    let rest = (any::<u64>(), any::<Option<u64>>(), value);
    let key = prop::collection::vec(0..3_u8, 1..12);
    let entries = prop::collection::btree_map(key, rest, 1..40);
    entries.prop_map(|entries: BTreeMap<Vec<u8>, Rest>| {
        let entries = entries.into_iter().map(|(key, (at, hides, value))| {
            let end = value
                .as_deref()
                .and_then(|value| value.first_chunk())
                .map(|end| u64::from_be_bytes(*end));
            Entry {
                key: key.into(),
                at,
                hides_ns: hides.or(end).unwrap_or(u64::MAX),
                value: value.map(Into::into),
            }
        });
        entries.collect()
    })
}

/// One block with all of them.
fn block_of(segment: u64, entries: &[Entry], next: Option<&[u8]>) -> Vec<u8> {
    let mut block = BlockBuilder::default();
    for entry in entries {
        block.push(segment, entry);
    }
    block.finish(next)
}

#[test]
fn a_block_gives_back_its_entries_under_its_key_and_segment_and_under_no_other() {
    for_random(300, &(any::<u64>(), entries()), |(segment, entries)| {
        let next = [9];
        let bytes = block_of(segment, &entries, Some(&next));
        let first = &entries[0].key;
        let block = Block::decode(segment, first, &bytes).expect("a block");
        prop_assert_eq!(block.next, Some(next.as_slice()));
        prop_assert_eq!(&block.entries().collect::<Vec<_>>(), &entries);
        for entry in &entries {
            prop_assert_eq!(block.find(&entry.key).expect("looked up"), Some(entry.clone()));
            let other = [&*entry.key, &[3]].concat();
            prop_assert_eq!(block.find(&other).expect("looked up"), None);
        }
        prop_assert_eq!(
            kind_of(block.find(&next)),
            ErrorKind::Corrupt,
            "it lies in the next one"
        );
        prop_assert_eq!(kind_of(Block::decode(segment ^ 1, first, &bytes)), ErrorKind::Corrupt);
        let other = [&**first, &[0]].concat();
        prop_assert_eq!(kind_of(Block::decode(segment, &other, &bytes)), ErrorKind::Corrupt);
        for len in 0..bytes.len() {
            prop_assert_eq!(
                kind_of(Block::decode(segment, first, &bytes[..len])),
                ErrorKind::Corrupt
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(kind_of(Block::decode(segment, first, &longer)), ErrorKind::Corrupt);
        Ok(())
    });
}

/// Bytes that were made by a program of another language, from docs/FORMAT.md.
#[test]
fn a_block_and_a_list_are_byte_for_byte_as_the_format_says() {
    let kept = |name: &str| {
        let path = format!("{}/tests/it/fuzzed/corpus/decoders/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).expect("a kept input")[1..].to_vec()
    };
    let value = |rest: &[u8]| Some([&(1_u64 << 40).to_be_bytes(), rest].concat().into());
    let entry = |key: &[u8], at, hides_ns, value| Entry {
        key: key.into(),
        at,
        hides_ns,
        value,
    };
    let entries = [
        entry(b"abcd", 300, 1 << 40, value(b"result")),
        entry(b"abce", 301, u64::MAX, None),
        entry(b"b", 302, 1 << 50, value(b"xy")),
    ];
    assert_eq!(block_of(1, &entries, None), kept("segment-block"));
    let catalog = Catalog {
        next_id: 9,
        segments: vec![About {
            id: 3,
            class: 5,
            window: 17,
            entries: 500,
            values: 499,
            first_end_ns: 1 << 40,
            over_ns: 1 << 41,
            first_key: Arc::from(&b"abcd"[..]),
            last_key: Arc::from(&b"xyz"[..]),
        }],
        unfinished: vec![7],
        dropping: vec![1, 2],
    };
    assert_eq!(catalog.encode(), kept("segment-list"));
    let part: Vec<u8> = (0..64).collect();
    assert_eq!(encode_part(1, 0, 1, &part), kept("segment-filter-part"));
}

#[test]
fn any_bytes_are_a_block_a_list_a_part_of_a_filter_or_corrupt() {
    for_random(2000, &prop::collection::vec(any::<u8>(), 0..200), |bytes| {
        let found = [
            Block::decode(1, &[0], &bytes).err(),
            Catalog::decode(&bytes).err(),
            decode_part(1, 0, &bytes).err(),
        ];
        prop_assert!(found.iter().flatten().all(|error| error.kind() == ErrorKind::Corrupt));
        Ok(())
    });
}

/// An entry whose value begins with this end.
fn kept(key: &[u8], end_ns: u64, rest: &[u8]) -> Entry {
    Entry {
        key: key.into(),
        at: 300,
        hides_ns: end_ns,
        value: Some([&end_ns.to_be_bytes(), rest].concat().into()),
    }
}

#[test]
fn a_flipped_bit_of_a_block_is_refused_or_lies_in_a_value_behind_its_end_and_takes_no_other_entry_along() {
    const REST: &[u8] = b"what a value has beside its end";
    let removed = Entry {
        value: None,
        ..kept(b"bc", 77, b"")
    };
    let hiding = Entry {
        hides_ns: 9_999_999,
        ..kept(b"cd", 4_000_000, REST)
    };
    let entries = [kept(b"ab", 1 << 40, REST), removed, hiding, kept(b"de", u64::MAX, REST)];
    let bytes = block_of(5, &entries, Some(b"f"));
    let mut refused = 0;
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match Block::decode(5, b"ab", &flipped) {
            Err(cause) => {
                assert_eq!(cause.kind(), ErrorKind::Corrupt, "bit={bit}");
                refused += 1;
            }
            Ok(block) => {
                assert_eq!(block.next, Some(&b"f"[..]));
                let read: Vec<Entry> = block.entries().collect();
                let differ: Vec<_> = read
                    .iter()
                    .zip(&entries)
                    .filter(|(read, entry)| read != entry)
                    .collect();
                assert_eq!((read.len(), differ.len()), (4, 1), "bit={bit}");
                let (read, entry) = differ[0];
                assert_eq!(
                    (&read.key, read.at, read.hides_ns),
                    (&entry.key, entry.at, entry.hides_ns)
                );
                assert_eq!(read.end_ns(), entry.end_ns(), "bit={bit}");
            }
        }
    }
    assert_eq!(
        8 * bytes.len() - refused,
        3 * 8 * REST.len(),
        "bits that a value answers for itself"
    );
}

#[test]
fn a_block_is_full_before_it_is_longer_than_a_page() {
    let mut random = Random::new(seed());
    for _ in 0..30 {
        let mut block = BlockBuilder::default();
        let longest = [10, 100, 1500][random.below(3) as usize];
        for number in 0_u64.. {
            let entry = kept(&number.to_be_bytes(), 1, &vec![7; random.below(longest) as usize]);
            if !block.fits(&entry) {
                let first = block.first().expect("an entry").clone();
                let bytes = block.finish(Some(&entry.key));
                assert!(8 + first.len() + bytes.len() <= PAGE, "bytes={}", bytes.len());
                assert!(
                    PAGE - bytes.len() < 200 + longest as usize,
                    "hardly full, entries={number}"
                );
                break;
            }
            block.push(1, &entry);
        }
    }
    let long = kept(b"k", 1, &[7; 10_000]);
    assert!(BlockBuilder::default().fits(&long), "an empty block takes any entry");
}

fn catalogues() -> impl Strategy<Value = Catalog> {
    let key = || prop::collection::vec(any::<u8>(), 1..20);
    let about = (any::<(u8, u64, u64, u64, u64, u64)>(), key(), key());
    let segments = prop::collection::btree_map(0..1000_u64, about, 0..12);
    let ids = || prop::collection::vec(0..1000_u64, 0..5);
    (segments, ids(), ids(), 1000..u64::MAX).prop_map(|(segments, unfinished, dropping, next_id)| {
        let segments = segments.into_iter().map(|(id, (numbers, first, last))| {
            let (class, window, entries, values, first_end_ns, over_ns) = numbers;
            About {
                id,
                class,
                window,
                entries,
                values,
                first_end_ns,
                over_ns,
                first_key: first.into(),
                last_key: last.into(),
            }
        });
        Catalog {
            next_id,
            segments: segments.collect(),
            unfinished,
            dropping,
        }
    })
}

#[test]
fn a_list_gives_back_what_was_listed_and_every_flipped_bit_is_refused() {
    for_random(200, &catalogues(), |catalog| {
        let bytes = catalog.encode();
        prop_assert_eq!(&Catalog::decode(&bytes).expect("a list"), &catalog);
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(kind_of(Catalog::decode(&flipped)), ErrorKind::Corrupt);
        }
        Ok(())
    });
}

#[test]
fn a_list_that_cannot_be_is_refused_although_its_checksum_is_right() {
    let about = |id| About {
        id,
        class: 1,
        window: 2,
        entries: 3,
        values: 3,
        first_end_ns: 4,
        over_ns: 5,
        first_key: Arc::from(&b"a"[..]),
        last_key: Arc::from(&b"b"[..]),
    };
    let sound = Catalog {
        next_id: 9,
        segments: vec![about(3), about(8)],
        unfinished: vec![4],
        dropping: vec![5],
    };
    Catalog::decode(&sound.encode()).expect("a list");
    let change = |change: &dyn Fn(&mut Catalog)| {
        let mut changed = sound.clone();
        change(&mut changed);
        kind_of(Catalog::decode(&changed.encode()))
    };
    assert_eq!(
        change(&|list| list.next_id = 8),
        ErrorKind::Corrupt,
        "a number that was not given"
    );
    assert_eq!(
        change(&|list| list.segments[0] = about(8)),
        ErrorKind::Corrupt,
        "one twice"
    );
    assert_eq!(change(&|list| list.segments.reverse()), ErrorKind::Corrupt);
    assert_eq!(change(&|list| list.unfinished = vec![9]), ErrorKind::Corrupt);
    assert_eq!(change(&|list| list.dropping = vec![u64::MAX]), ErrorKind::Corrupt);
    let mut longer = [&sound.encode()[..], &[0]].concat();
    let crc = crc32fast::hash(&longer[4..]);
    longer[..4].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(kind_of(Catalog::decode(&longer)), ErrorKind::Corrupt, "bytes behind it");
}

#[test]
fn a_part_of_a_filter_is_given_back_for_its_segment_and_number_and_no_flipped_bit_passes() {
    let bytes: Vec<u8> = (0..640_u32).map(|number| (number * 7) as u8).collect();
    let part = encode_part(3, 1, 4, &bytes);
    assert_eq!(decode_part(3, 1, &part).expect("a part"), (4, bytes.as_slice()));
    assert_eq!(kind_of(decode_part(4, 1, &part)), ErrorKind::Corrupt);
    assert_eq!(kind_of(decode_part(3, 2, &part)), ErrorKind::Corrupt);
    for bit in 0..8 * part.len() {
        let mut flipped = part.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(kind_of(decode_part(3, 1, &flipped)), ErrorKind::Corrupt, "bit={bit}");
    }
}

#[test]
fn what_never_ends_is_not_over_at_the_last_instant_either() {
    assert!(is_over(5, 5) && is_over(4, 5) && !is_over(6, 5));
    assert!(is_over(u64::MAX - 1, u64::MAX) && !is_over(u64::MAX, u64::MAX));
}
