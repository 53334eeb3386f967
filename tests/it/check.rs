//! `check`: each rule that a file can break is found, by name and place, and nothing is changed by looking.
//!
//! Rules on what stands in the file are tried with frames that are made here, byte by byte as `docs/FORMAT.md` has them, behind
//! those of a sound store: so that nothing is wrong but what they say. Reports: CF-1, CF-3, CF-4, CF-6.

mod files;
pub mod forge;
mod live;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use sprag::testkit::SimDisk;
use sprag::{
    CheckStep, Checked, CodecId, DynKey, DynTable, Error, ErrorKind, Json, Keep, KeyKind, OnceKey, Stateless, Store,
    Table, limits,
};

use crate::common::{kind_of, shared, small};
use forge::{Forged, record};

sprag::machine! {
    /// Where an order stands.
    pub enum Order: "orders" {
        New = "new",
        Packed = "packed",
    }
    initial New;
    New => Packed;
}

const ORDERS: Table<u64, u64, Order> = Table::new("orders");
const USERS: Table<str, u64, Stateless, Json> = Table::new("users");
/// Where the base begins in a file with log halves of 16 KiB.
const BASE_AT: usize = 4096 + 2 * (16 << 10);

/// Two tables, three orders of which one is packed, two users of whom one was removed, two keys.
fn fill(store: &Store) {
    let filled = store.write(|tx| {
        for key in 1..=3 {
            tx.put(ORDERS, &key, &(key * 10))?;
        }
        tx.transition(ORDERS, &2, Order::New, Order::Packed)?.or_abort()?;
        tx.put(USERS, "ann", &41)?;
        tx.put(USERS, "bob", &42)?;
        tx.delete(USERS, "bob")?;
        for (key, keep) in [("one", Keep::Forever), ("two", Keep::For(Duration::from_hours(5)))] {
            tx.once(&OnceKey::new("jobs", key, keep), |_| Ok::<_, Error>("done".to_owned()))?;
        }
        Ok::<_, Error>(())
    });
    filled.expect("written");
}

/// A store as a kill leaves it, with all of it in the log.
fn in_the_log() -> Vec<u8> {
    let disk = SimDisk::new();
    let store = small().checkpoints_in_line().create_on(shared(&disk)).expect("a store");
    fill(&store);
    disk.kill().cache_image()
}

/// The same, closed: all of it is in the base.
fn in_the_base() -> Vec<u8> {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    fill(&store);
    store.close().expect("closed");
    disk.cache_image()
}

fn check(bytes: Vec<u8>) -> Checked {
    let disk = SimDisk::from_image(bytes);
    let checked = small().check_on(shared(&disk), |_| ()).expect("a look");
    assert_eq!(disk.events(), 0, "a check wrote");
    checked
}

/// Findings as a line each: place, rule, what was seen.
fn lines(checked: &Checked) -> Vec<String> {
    let line = |finding: &sprag::Finding| format!("{} | {} | {}", finding.place, finding.rule, finding.seen);
    checked.findings.iter().map(line).collect()
}

/// The names of the rules that are broken, each once.
fn rules(checked: &Checked) -> Vec<&'static str> {
    let mut rules: Vec<_> = checked.findings.iter().map(|finding| finding.rule.name()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

#[test]
fn a_sound_store_has_no_findings_and_all_of_it_was_looked_at() {
    let mut steps = Vec::new();
    let disk = SimDisk::from_image(in_the_log());
    let logged = small()
        .check_on(shared(&disk), |at| {
            if steps.last() != Some(&at.step) {
                steps.push(at.step);
            }
        })
        .expect("a look");
    let all = [
        CheckStep::Log,
        CheckStep::Base,
        CheckStep::Catalogue,
        CheckStep::Records,
        CheckStep::States,
        CheckStep::Remembered,
        CheckStep::Messages,
        CheckStep::Segments,
    ];
    assert_eq!(steps, all);
    let based = check(in_the_base());
    // The two keys are kept for unlike times, so each lies in a segment of its own.
    for (checked, frames, segments) in [(&logged, 1, 0), (&based, 0, 2)] {
        assert_eq!(lines(checked), Vec::<String>::new());
        assert!(checked.is_sound() && checked.base_verified && checked.pages > 5);
        let counted = (checked.tables, checked.records, checked.remembered_keys);
        assert_eq!(counted, (2, 4, 2));
        assert_eq!(
            (checked.frames, checked.segments, checked.index_entries),
            (frames, segments, 3)
        );
    }
    assert_eq!(logged.bytes, disk.cache_image().len() as u64);
}

/// A forged commit, and the finding that it makes.
type Case = (Vec<forge::Change>, &'static str);

fn of_states() -> Vec<Case> {
    let entry = |state: &str, key: u64| forge::state_entry(0, state, key);
    let count = |state: &str| forge::count(0, state);
    let lost = vec![(entry("new", 1), None)];
    let led = vec![(entry("packed", 7), Some(vec![]))];
    let full = vec![(entry("new", 1), Some(vec![1]))];
    let nobody = |state| forge::state_entry(9, state, 1);
    vec![
        (lost, "table=\"orders\" key=\"1\" | states.missing | state=new"),
        (
            led,
            "table=\"orders\" key=\"7\" | states.record | state=packed, found=no record",
        ),
        (
            vec![(entry("packed", 1), Some(vec![]))],
            "table=\"orders\" key=\"1\" | states.record | state=packed, found=new",
        ),
        (
            full,
            "entry of states key=\"\\x00\\x00\\x00\\x00\\x03new\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\" | states.entry | value_bytes=1",
        ),
        (
            vec![(nobody("new"), Some(vec![]))],
            "entry of states key=\"\\x00\\x00\\x00\\t\\x03new\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\" | states.entry | value_bytes=0",
        ),
        (
            vec![(count("packed"), Some(3_u64.to_be_bytes().to_vec()))],
            "table=\"orders\" | states.count | state=packed, stored=3, found=1",
        ),
        (
            vec![(count("packed"), None)],
            "table=\"orders\" | states.count | state=packed, stored=0, found=1",
        ),
    ]
}

fn of_records() -> Vec<Case> {
    let order = |key: u64, state: Option<&str>| record(0, &key.to_be_bytes(), 5, state, b"x");
    let mut torn = order(1, Some("new"));
    torn.1[9] ^= 1;
    vec![
        (
            vec![(torn.0, Some(torn.1))],
            "table=\"orders\" key=\"1\" | record | stored record is not what was written under this key (checksum), bytes=11",
        ),
        (
            vec![(order(9, Some("lost")).0, Some(order(9, Some("lost")).1))],
            "table=\"orders\" key=\"9\" | record.state | state=lost",
        ),
        (
            vec![forge::put(record(0, b"abc", 1, None, b"x"))],
            "table=\"orders\" key=\"abc\" | record.key | stored key is too short, kind=u64",
        ),
        (
            vec![forge::put(record(7, b"abc", 1, None, b"x"))],
            "table=\"7\" key=\"abc\" | record.table | there is no such table",
        ),
    ]
}

fn of_the_store_itself() -> Vec<Case> {
    vec![
        (
            vec![(vec![0, b'r', 0, 0, 0, 7], Some(vec![0; 8]))],
            "table=\"7\" | catalogue.removed | there is no such table",
        ),
        (
            vec![(vec![0, b'r', 0, 0, 0, 1], Some(vec![0; 7]))],
            "entry of meta key=\"r\\x00\\x00\\x00\\x01\" | catalogue.removed | highest removed version is damaged, table_id=1",
        ),
        (
            vec![(vec![0, b'x', 1], Some(vec![]))],
            "entry of meta key=\"x\\x01\" | catalogue.key | value_bytes=0",
        ),
        (
            vec![(b"\0tusers2".to_vec(), Some(vec![1; 30]))],
            "entry of meta key=\"tusers2\" | catalogue.entry | entry of a table is damaged",
        ),
        (
            vec![(vec![0, b'n'], Some(1_u32.to_be_bytes().to_vec()))],
            "table=\"users\" | catalogue.number | number=1, next=1",
        ),
        (
            vec![(b"\x02\x04jobsone".to_vec(), Some(vec![255; 30]))],
            "remembered key=jobs/one | remembered | entry of a remembered key is damaged",
        ),
        (
            vec![(vec![9, 1, 2], Some(vec![]))],
            "entry of log key=\"\\t\\x01\\x02\" | log.space | first_byte=Some(9)",
        ),
    ]
}

#[test]
fn each_rule_on_what_is_stored_is_found_with_its_place() {
    let cases = [of_states(), of_records(), of_the_store_itself()].concat();
    let bytes = in_the_log();
    for (changes, wanted) in cases {
        let checked = check(Forged::new(&bytes).with(&changes));
        assert_eq!(checked.frames, 2, "the frame counts, {wanted}");
        let found = lines(&checked);
        assert!(found.iter().any(|line| line == wanted), "{wanted} is not in {found:#?}");
        let rule = wanted.split(" | ").nth(1).expect("a rule");
        // A record in a state that no machine has breaks the look-up by state too.
        let strange = found
            .iter()
            .filter(|line| !line.contains(rule) && !line.contains("states."));
        assert_eq!(strange.collect::<Vec<_>>(), Vec::<&String>::new(), "{wanted}");
    }
}

#[test]
fn a_value_that_is_no_json_is_found_in_a_table_of_json_values_only() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    for codec in [CodecId::Json, CodecId::Bincode] {
        let table = DynTable::new(codec.to_string(), KeyKind::Str, codec);
        store
            .put(&table, &DynKey::Str("ann".to_owned()), &b"{\"a\": 1".to_vec())
            .expect("a put");
    }
    drop(store);
    let found = lines(&check(disk.cache_image()));
    let [line] = found.as_slice() else { panic!("{found:?}") };
    assert!(
        line.starts_with("table=\"json\" key=\"ann\" | record.json | stored value is not of the asked type"),
        "{line}"
    );
}

#[test]
fn a_table_number_that_is_given_twice_is_found() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    store.put(USERS, "ann", &1).expect("a put");
    drop(store);
    // The number of the next table is set back, so that the next one gets the number of the first.
    let bytes = Forged::new(&disk.cache_image()).with(&[(vec![0, b'n'], Some(0_u32.to_be_bytes().to_vec()))]);
    let disk = SimDisk::from_image(bytes);
    let store = small().open_on(shared(&disk)).expect("opened");
    store.put(Table::<str, u64>::new("others"), "bob", &1).expect("a put");
    drop(store);
    let checked = check(disk.cache_image());
    let wanted = "table=\"users\" | catalogue.number | number=0, also_of=\"others\"";
    assert_eq!(lines(&checked).first().map(String::as_str), Some(wanted));
}

#[test]
fn what_is_kept_of_a_wrecked_file_is_bounded_and_all_is_counted() {
    let changes: Vec<forge::Change> = (0..limits::FINDINGS_MAX as u16 + 40)
        .map(|number| ([&[0, b'x'][..], &number.to_be_bytes()].concat(), Some(vec![])))
        .collect();
    let checked = check(Forged::new(&in_the_log()).with(&changes));
    assert_eq!(checked.findings.len(), limits::FINDINGS_MAX);
    assert_eq!(checked.findings_beyond, 40);
    assert_eq!(rules(&checked), ["catalogue.key"]);
}

/// Of three commits the second is damaged: the third one, which is good, knows that it was durable.
#[test]
fn a_commit_that_is_missing_is_found_by_a_later_one_that_knows_of_it() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a store");
    let used = || store.stats().expect("figures").log_used_bytes;
    store.put(USERS, "ann", &1).expect("a put");
    let second = used();
    store.put(USERS, "ann", &2).expect("a put");
    let third = used();
    store.put(USERS, "ann", &3).expect("a put");
    let mut bytes = disk.cache_image();
    bytes[4096 + second as usize + 40] ^= 1;
    assert_eq!(
        kind_of(small().open_on(Arc::new(SimDisk::from_image(bytes.clone())))),
        ErrorKind::Corrupt
    );
    let checked = check(bytes);
    let place = format!("log half A offset={}", 4096 + third);
    assert_eq!(
        lines(&checked),
        [format!("{place} | log.acknowledged | log_end=1, known_durable=2")]
    );
    assert_eq!(checked.frames, 1);
}

/// Damage in pages: each is named by its place, and the walk goes on behind it.
#[test]
fn a_damaged_page_of_the_base_is_found_where_it_is() {
    let bytes = in_the_base();
    let hits = |what: &[u8]| -> Vec<usize> {
        let places = BASE_AT..bytes.len() - what.len();
        places.filter(|at| bytes[*at..].starts_with(what)).collect()
    };
    // The list of segments names the key as well.
    let list = hits(b"appliedsegments");
    let in_list = |at: &usize| list.iter().any(|list| list / 4096 == at / 4096);
    let in_blocks = hits(b"\x04jobstwo").into_iter().filter(|at| !in_list(at));
    // A filter of one key: its number of parts, and 64 bytes of which six bits are set.
    let filters = (BASE_AT..bytes.len() - 68).filter(|at| {
        let (parts, bits) = bytes[*at..at + 68].split_at(4);
        let set: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        parts == [1, 0, 0, 0] && (4..=6).contains(&set)
    });
    let cases: [(Vec<usize>, &str); 4] = [
        (hits(b"done"), "remembered"),
        (in_blocks.collect(), "base.read"),
        (filters.map(|at| at + 4).collect(), "base.filter"),
        (hits(b"packed\0\0\0\0\0\0\0\x02"), "states.missing"),
    ];
    for (places, rule) in cases {
        assert!(!places.is_empty(), "nothing to damage, rule={rule}");
        let mut damaged = bytes.clone();
        for at in &places {
            damaged[*at] ^= 0x40;
        }
        let checked = check(damaged);
        let found = rules(&checked);
        assert!(
            found.contains(&"base.page") && found.contains(&rule),
            "{rule}: {:#?}",
            lines(&checked)
        );
        let pages: Vec<usize> = places.iter().map(|at| BASE_AT + (at - BASE_AT) / 4096 * 4096).collect();
        for finding in checked
            .findings
            .iter()
            .filter(|finding| finding.rule.name() == "base.page")
        {
            let sprag::Place::Bytes { region: "base", offset } = &finding.place else {
                panic!("{finding:?}")
            };
            assert!(pages.contains(&(*offset as usize)), "{finding:?} {pages:?}");
        }
        assert_eq!(checked.records, 4, "the walk went on");
    }
}

/// How many records the base says it has stands in the page that says where they begin.
#[test]
fn a_table_of_the_base_that_has_another_number_of_entries_than_it_says_is_found() {
    let mut bytes = in_the_base();
    let begins = |what: &[u8]| {
        (BASE_AT..bytes.len() - 7)
            .filter(|at| bytes[*at..].starts_with(what))
            .collect::<Vec<_>>()
    };
    let pages: Vec<usize> = begins(b"recordssegmentsstates").iter().map(|at| at / 4096).collect();
    let places: Vec<usize> = begins(&4_u64.to_le_bytes())
        .into_iter()
        .filter(|at| pages.contains(&(at / 4096)))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] = 5;
    }
    let opened = small().open_on(Arc::new(SimDisk::from_image(bytes.clone())));
    assert_eq!(kind_of(opened), ErrorKind::Corrupt);
    let checked = check(bytes);
    assert_eq!(rules(&checked), ["base.count", "base.page"]);
    assert!(lines(&checked).contains(&"entry of records key=\"\" | base.count | entries=4, stored=5".to_owned()));
}
