//! The memory table against a map of the standard library: every clone stays what it was, whatever comes
//! behind it, and a rollback leaves nothing of what it took back.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::random::{Random, seed};
use sprag::internals::{Memory, Span};

/// Which key comes at which place.
type Order = fn(u64) -> u64;
type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Few enough that keys meet again, of lengths on both sides of what is compared in place, and some with zeros at the end. Or so
/// many that a scan takes several pages.
fn key(random: &mut Random, many: bool) -> Vec<u8> {
    if many {
        return (random.below(600) as u16).to_be_bytes().to_vec();
    }
    let len = [0, 1, 3, 15, 16, 17, 20][random.below(7) as usize];
    let mut key = vec![0; len];
    if let Some(last) = key.last_mut() {
        *last = random.below(4) as u8;
    }
    if len > 1 {
        key[0] = random.below(2) as u8;
    }
    key
}

/// Short, or on either side of what is shared and not copied.
fn value(random: &mut Random, step: u32) -> Vec<u8> {
    let len = match random.below(64) {
        0 => 16 << 10,
        1 => (16 << 10) + 1,
        2 => 300 << 10,
        _ => 4,
    };
    step.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn bound(random: &mut Random, many: bool) -> Bound<Vec<u8>> {
    match random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(random, many)),
        _ => Bound::Excluded(key(random, many)),
    }
}

fn shared(bound: &Bound<Vec<u8>>) -> Bound<Arc<[u8]>> {
    bound.as_ref().map(|key| key.as_slice().into())
}

fn owned((key, value): (Arc<[u8]>, Option<Arc<[u8]>>)) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.to_vec(), value.map(|value| value.to_vec()))
}

fn compare(random: &mut Random, many: bool, table: &Memory, model: &Model) {
    for _ in 0..4 {
        let key = key(random, many);
        let found = table.get(&key).map(|change| change.map(|value| value.to_vec()));
        assert_eq!(found, model.get(&key).cloned(), "key={key:?}");
    }
    let all: Model = table.iter().map(owned).collect();
    assert_eq!(all, *model);
    let (from, to) = (bound(random, many), bound(random, many));
    let mut span = Span {
        from: shared(&from),
        to: shared(&to),
        reverse: false,
    };
    if span.is_empty() {
        return;
    }
    let mut expected: Vec<_> = model
        .range((from, to))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(table.range(&span).map(owned).collect::<Vec<_>>(), expected, "{span:?}");
    span.reverse = true;
    expected.reverse();
    assert_eq!(table.range(&span).map(owned).collect::<Vec<_>>(), expected, "{span:?}");
}

#[test]
fn a_clone_stays_what_it_was_and_a_rollback_goes_on_from_it() {
    let mut random = Random::new(seed());
    for round in 0..40 {
        let many = round % 2 == 0;
        // States of one table from the oldest to the newest, each with the sequence of its last commit.
        let mut states = vec![(Memory::new(), Model::new(), 0)];
        for step in 0..400_u32 {
            if random.below(128) == 0 {
                // What the old table took is given to the next one as soon as nobody has it any more.
                let next = states[0].0.successor();
                states = vec![(next, Model::new(), 0)];
            }
            if random.below(16) == 0 {
                let kept = random.below(states.len() as u64) as usize;
                states.truncate(kept + 1);
                states[kept].0.roll_back();
            }
            let (mut table, mut model, mut sequence) = states.last().expect("never empty").clone();
            sequence += 1;
            for _ in 0..=random.below(3) {
                let key = key(&mut random, many);
                let value = (random.below(3) > 0).then(|| value(&mut random, step));
                table.insert(sequence, &key, value.as_deref());
                model.insert(key, value);
            }
            states.push((table, model, sequence));
            let (table, model, _) = &states[random.below(states.len() as u64) as usize];
            compare(&mut random, many, table, model);
        }
    }
}

#[test]
fn no_order_of_keys_takes_a_leaf_for_each_change() {
    const CHANGES: u64 = 100_000;
    let of = |number: u64| number.to_be_bytes();
    // Full leaves, and then one key over and over: behind all of them, at the end of one, at the beginning of one.
    for hot in [u64::MAX, 127, 128] {
        let mut table = Memory::new();
        for number in 0..CHANGES {
            let key = if number < 1280 { number } else { hot };
            table.insert(number + 1, &of(key), Some(&of(number)[..]));
        }
        assert_eq!(table.get(&of(hot)), Some(Some(Arc::from(of(CHANGES - 1)))));
        let leaves = table.leaves() as u64;
        assert!(leaves <= 2 * CHANGES / 128, "hot={hot}, leaves={leaves}");
    }
    let orders: [(&str, Order); 4] = [
        ("rising", |number| number),
        ("falling", |number| CHANGES - number),
        ("any", |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ("rising in two places, one from behind", |number| match number % 2 {
            0 => number,
            _ => u64::MAX - number,
        }),
    ];
    for (name, order) in orders {
        let mut table = Memory::new();
        let mut model = BTreeMap::new();
        for number in 0..CHANGES {
            table.insert(number + 1, &of(order(number)), Some(&of(number)[..]));
            model.insert(of(order(number)).to_vec(), Some(of(number).to_vec()));
        }
        assert!(table.iter().map(owned).eq(model), "{name}");
        let leaves = table.leaves() as u64;
        assert!(leaves <= 2 * CHANGES / 128, "{name}, leaves={leaves}");
    }
}

#[test]
fn readers_see_whole_states_while_one_thread_adds() {
    // More than the first filter has room for.
    const CHANGES: u64 = 40_000;
    let newest = std::sync::Mutex::new((Memory::new(), 0_u64));
    let key = |number: u64| Arc::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let (table, len) = newest.lock().expect("nobody panics").clone();
                    assert_eq!(table.iter().count() as u64, len);
                    for number in len.saturating_sub(50)..len {
                        assert_eq!(
                            table.get(&key(number)),
                            Some(Some(key(number))),
                            "number={number}, len={len}"
                        );
                    }
                    assert_eq!(table.get(&key(len)), None, "len={len}");
                    if len == CHANGES {
                        return;
                    }
                }
            });
        }
        let mut table = Memory::new();
        for number in 0..CHANGES {
            table.insert(number + 1, &key(number), Some(key(number)));
            *newest.lock().expect("nobody panics") = (table.clone(), number + 1);
        }
    });
}
