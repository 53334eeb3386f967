//! Damage: a filter is made anew, a block is refused, and no key that is remembered reads as if it were not.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use sprag::internals::catalog_of;
use sprag::internals::filter::{self, Filter};
use sprag::testkit::SimDisk;
use sprag::{Error, ErrorKind, Keep, OnceKey, Store};

use super::{BASE_AT, Reference, SCOPE, Scene, Shown, listed, looked_up, result_of, secs};
use crate::common::shared;
use crate::random::{Random, seed, trials};

/// A scope whose keys lie before all others.
const BEFORE: &str = "before";

/// A closed store with some segments of several blocks, all of it in the base.
struct Image {
    bytes: Vec<u8>,
    reference: Reference,
    clock: sprag::ManualClock,
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let mut scene = Scene::new();
        // Each with higher keys than the one before, so that a block with another number may lie where it lay.
        scene.once(0..200, Keep::Forever, 0);
        scene.checkpoint();
        scene.once(1000..1150, secs(5000), 0);
        scene.checkpoint();
        // The last block begins with keys of one scope and ends with those of the next.
        for key in 0..130_u64 {
            let once = OnceKey::new(BEFORE, key.to_be_bytes(), secs(90_000));
            let done = scene.store().once(&once, |_| Ok::<_, Error>(key));
            assert!(!done.expect("written").is_repeat());
        }
        scene.once(2000..2010, secs(90_000), 0);
        scene.checkpoint();
        scene.once(3000..3150, secs(20_000), 0);
        scene.checkpoint();
        // A first block that is short, since what follows is long, so that it shares its page with another segment.
        scene.once(4000..4001, secs(5000), 0);
        scene.checkpoint();
        scene.once(5000..5001, secs(5000), 0);
        scene.pad = 5000;
        scene.once(5001..5002, secs(5000), 0);
        scene.pad = 0;
        scene.checkpoint();
        let ids: Vec<u64> = scene.catalog().segments.iter().map(|about| about.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
        scene.once(300..301, secs(5), 0);
        scene.forget((0..200).step_by(7).chain((1000..1150).step_by(7)));
        scene.once((0..200).step_by(14), secs(70_000), 9);
        scene.pass(Duration::from_secs(1));
        scene.close();
        scene.must_be_right("before the damage");
        scene.store = None;
        Image {
            bytes: scene.disk.cache_image(),
            reference: scene.reference,
            clock: scene.clock,
        }
    })
}

/// Places of the base where a block may lie, by what its key begins with: the number of a segment and the scope.
fn places_of_blocks(bytes: &[u8]) -> Vec<usize> {
    let scopes = [SCOPE, BEFORE].map(|scope| [&[scope.len() as u8], scope.as_bytes()].concat());
    let is_key = |at: &usize| {
        let key = &bytes[*at..];
        let begins = |rest: &[u8]| scopes.iter().any(|scope| rest.starts_with(scope));
        key.starts_with(&[0; 7]) && key.get(8..).is_some_and(begins)
    };
    (BASE_AT as usize..bytes.len()).filter(is_key).collect()
}

/// Damages a filter that begins there.
type Damage<'a> = &'a dyn Fn(&mut [u8], usize);

#[derive(Debug, Default)]
struct Fates(BTreeMap<&'static str, u64>);

impl Fates {
    fn saw(&mut self, fate: &'static str) {
        *self.0.entry(fate).or_default() += 1;
    }

    fn of(&self, fate: &str) -> u64 {
        self.0.get(fate).copied().unwrap_or_default()
    }
}

/// Looks everything up; what cannot be read is `Corrupt`, and nothing else is missing or wrong.
pub(super) fn nothing_is_missed(store: &Store, reference: &Reference, what: &str) -> u64 {
    let wanted = reference.remembered();
    let mut corrupt = 0;
    for key in reference.kept.keys() {
        match store.remembered(SCOPE, key.to_be_bytes()) {
            Ok(found) => {
                let found = found.map(|found| (found.left(), result_of(found.result_bytes())));
                assert_eq!(found, wanted.get(key).copied(), "{what}, key {key}");
            }
            Err(cause) => {
                assert_eq!(cause.kind(), ErrorKind::Corrupt, "{what}: {cause:?}");
                corrupt += 1;
            }
        }
    }
    let mut all = Shown::new();
    let whole = store.read(|tx| {
        for found in tx.remembered_keys(Some(SCOPE))? {
            let found = found?;
            let key = u64::from_be_bytes(found.key.as_slice().try_into().unwrap_or_default());
            all.insert(
                key,
                (found.remembered.left(), result_of(found.remembered.result_bytes())),
            );
        }
        Ok::<_, Error>(())
    });
    match whole {
        Ok(()) => assert_eq!(all, wanted, "{what}"),
        Err(cause) => {
            assert_eq!(cause.kind(), ErrorKind::Corrupt, "{what}: {cause:?}");
            assert!(all.iter().all(|(key, found)| wanted.get(key) == Some(found)), "{what}");
            corrupt += 1;
        }
    }
    corrupt
}

/// Opens the damaged bytes and looks; then goes on with what writes segments anew, and looks again.
fn judge(bytes: Vec<u8>, what: &str, goes_on: bool, fates: &mut Fates) {
    let Image { reference, clock, .. } = image();
    let disk = SimDisk::from_image(bytes);
    let mut reference = reference.clone();
    // A clock of the trial's own, which stands where that of the image does.
    let own = sprag::ManualClock::new();
    own.set_wall_ns(sprag::Clock::sample(clock).wall_ns);
    let mut scene = Scene::unopened(disk, own);
    scene.store = match scene.options().open_on(shared(&scene.disk)) {
        Ok(store) => Some(store),
        Err(cause) => {
            assert_eq!(cause.kind(), ErrorKind::Corrupt, "{what}: {cause:?}");
            return fates.saw("refused");
        }
    };
    let corrupt = nothing_is_missed(scene.store(), &reference, what);
    fates.saw(if corrupt > 0 { "corrupt" } else { "harmless" });
    if !goes_on {
        return;
    }
    // One key is over, so its segment is written anew; and the others with eight more of their class.
    reference.pass(&scene.clock, Duration::from_secs(5000));
    match scene.store().sweep() {
        Ok(_) => fates.saw("swept"),
        Err(cause) => {
            assert_eq!(cause.kind(), ErrorKind::Corrupt, "{what}: {cause:?}");
            fates.saw("stopped");
        }
    }
    nothing_is_missed(scene.store(), &reference, &format!("{what}, swept"));
    for round in 0..9_u64 {
        let op = super::Op::Once {
            key: 5000 + round,
            keep: Keep::Forever,
            result: round,
        };
        if super::commit(scene.store(), &[op], 0).is_ok() {
            reference.apply(op);
        }
        for _ in 0..8 {
            if scene.fill().is_err() {
                fates.saw("stopped");
            }
        }
    }
    nothing_is_missed(scene.store(), &reference, &format!("{what}, merged"));
    scene.kill();
    nothing_is_missed(scene.store(), &reference, &format!("{what}, killed"));
}

#[test]
fn a_block_whose_key_lost_a_bit_is_corrupt_and_no_key_of_it_reads_as_if_it_were_not_remembered() {
    let image = image();
    let mut random = Random::new(seed());
    let mut fates = Fates::default();
    let places = places_of_blocks(&image.bytes);
    assert!(places.len() >= 8, "blocks={}", places.len());
    for at in &places {
        let key = at + 7..at + 8 + 1 + SCOPE.len() + 8;
        for byte in key.clone() {
            // With another number a block is not where it is looked for; each bit of that is tried.
            let bits = if byte == key.start { 0..8 } else { 8..9 };
            for bit in bits {
                let bit = if bit < 8 { bit } else { random.below(8) };
                let mut bytes = image.bytes.clone();
                bytes[byte] ^= 1 << bit;
                let what = format!("block at {at}, byte {byte}, bit {bit}");
                judge(bytes, &what, random.below(3) == 0, &mut fates);
            }
        }
    }
    println!("{fates:?}");
    assert!(fates.of("corrupt") > 50, "{fates:?}");
}

#[test]
fn an_entry_that_lost_a_bit_of_its_key_harms_its_block_and_stops_neither_checkpoints_nor_sweeps() {
    let image = image();
    let mut random = Random::new(seed());
    let mut fates = Fates::default();
    let name = [&[SCOPE.len() as u8], SCOPE.as_bytes()].concat();
    let len = name.len() + 8;
    let is_entry = |at: &usize| image.bytes[*at] as usize == len && image.bytes[*at + 1..].starts_with(&name);
    let places: Vec<usize> = (BASE_AT as usize..image.bytes.len() - 1).filter(is_entry).collect();
    assert!(places.len() > 300, "entries={}", places.len());
    for _ in 0..trials(40, 1000) {
        let at = places[random.below(places.len() as u64) as usize] + 1 + name.len() + random.below(8) as usize;
        let mut bytes = image.bytes.clone();
        bytes[at] ^= 1 << random.below(8);
        judge(bytes, &format!("byte {at}"), true, &mut fates);
    }
    println!("{fates:?}");
    // The list of segments names keys as well, and is refused.
    assert!(fates.of("corrupt") > 10 && fates.of("stopped") == 0, "{fates:?}");
    assert_eq!(fates.of("swept") + fates.of("refused"), trials(40, 1000));
}

#[test]
fn no_flipped_bit_of_the_base_takes_a_remembered_key_away_or_brings_one_back() {
    let image = image();
    let mut random = Random::new(seed());
    let mut fates = Fates::default();
    let places: Vec<usize> = (BASE_AT as usize..image.bytes.len())
        .filter(|at| image.bytes[*at] != 0)
        .collect();
    for trial in 0..trials(600, 30_000) {
        let at = places[random.below(places.len() as u64) as usize];
        let mut bytes = image.bytes.clone();
        bytes[at] ^= 1 << random.below(8);
        judge(bytes, &format!("byte {at}"), trial % 4 == 0, &mut fates);
    }
    println!("{fates:?}");
    assert!(fates.of("corrupt") > 15 && fates.of("harmless") > 50, "{fates:?}");
}

#[test]
fn a_damaged_filter_is_made_anew_and_a_check_names_it() {
    let mut scene = Scene::new();
    scene.once(0..500, Keep::Forever, 0);
    scene.checkpoint();
    scene.close();
    let bytes = scene.disk.cache_image();
    // All that was stored in one checkpoint, by the words of the format.
    let catalog = scene.catalog();
    let mut places = Vec::new();
    let mut first = 0;
    for about in &catalog.segments {
        let mut filter = Filter::with_room(about.entries);
        for key in first..first + about.entries {
            let stored = [&[SCOPE.len() as u8], SCOPE.as_bytes(), &key.to_be_bytes()].concat();
            filter.insert(filter::hash(&stored));
        }
        first += about.entries;
        let wanted = filter.bytes();
        let found = bytes
            .windows(wanted.len())
            .enumerate()
            .filter(|(_, part)| *part == wanted);
        let at: Vec<usize> = found.map(|(at, _)| at).collect();
        assert!(!at.is_empty(), "the filter is not as the format says");
        places.push((at, wanted.len()));
    }
    scene.store = None;
    for (at, len) in places {
        // The whole of it, one bit, and its number in front.
        let kinds: [Damage<'_>; 3] = [
            &|bytes, at| bytes[at..at + len].fill(0),
            &|bytes, at| bytes[at + len / 2] ^= 4,
            &|bytes, at| bytes[at - 4] ^= 1,
        ];
        for damage in kinds {
            let mut damaged = bytes.clone();
            for at in &at {
                damage(&mut damaged, *at);
            }
            let disk = SimDisk::from_image(damaged);
            let checked = scene.options().check_on(shared(&disk), |_| ()).expect("a look");
            let rules: Vec<_> = checked.findings.iter().map(|finding| finding.rule.name()).collect();
            assert!(rules.contains(&"base.filter"), "{rules:?}");
            let store = scene.options().open_on(shared(&disk)).expect("opened");
            assert_eq!(looked_up(&store, 0..1000), scene.reference.remembered());
            assert_eq!(listed(&store), scene.reference.remembered());
            let again = super::once_key(499, Keep::Forever);
            let again = store.once(&again, |_| Ok::<_, Error>((0_u64, Vec::<u8>::new())));
            assert!(again.expect("a repeat").is_repeat());
        }
    }
    assert!(catalog_of(shared(&scene.disk)).is_ok());
}
