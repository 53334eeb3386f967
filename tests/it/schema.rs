//! Program and file disagree about a table: an error that names both sides, at the first use or at the open, and nothing
//! is changed.

use sprag::{
    CodecId, Condition, DynKey, DynTable, ErrorKind, Json, KeyKind, Keys, MachineDef, Options, State, StateOf,
    Stateless, Store, Table, TableSpec, Why, limits,
};

use sprag::testkit::SimDisk;

use crate::common::{folder, kind_of, shared, small, tables, text_of, version};

macro_rules! states {
    ($name:ident: $machine:literal, [$($state:literal),+], initial $initial:literal, $moves:expr $(, $cyclic:ident)?) => {
        /// States by number of place, so that machines that disagree are written down side by side.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        struct $name(&'static str);

        impl State for $name {
            const MACHINE: MachineDef = MachineDef::new($machine, &[$($state),+], $initial, $moves)$(.$cyclic())?;

            fn name(self) -> &'static str {
                self.0
            }

            fn from_name(name: &str) -> Option<$name> {
                [$($state),+].into_iter().find(|state| *state == name).map($name)
            }
        }
    };
}

states!(Orders: "orders", ["new", "packed", "shipped"], initial "new", &[("new", "packed"), ("packed", "shipped")]);
states!(Grown: "orders", ["lost", "new", "packed", "shipped"], initial "new",
    &[("new", "packed"), ("packed", "shipped"), ("packed", "lost")]);
states!(Fewer: "orders", ["new", "packed"], initial "new", &[("new", "packed")]);
states!(Sideways: "orders", ["new", "packed", "sold"], initial "new", &[("new", "packed"), ("packed", "sold")]);
states!(Renamed: "deals", ["new", "packed", "shipped"], initial "new", &[("new", "packed"), ("packed", "shipped")]);
states!(Started: "orders", ["new", "packed", "shipped"], initial "packed", &[("new", "packed"), ("packed", "shipped")]);

const ORDERS: Table<u64, u64, Orders> = Table::new("orders");
const PLAIN: Table<u64, u64> = Table::new("plain");
const NUMBERED: Table<u64, u64> = Table::new("numbered").schema(3);

/// A file with the tables, closed.
fn made(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a new store");
    store.put(ORDERS, &1, &10).expect("written");
    store.put(PLAIN, &1, &10).expect("written");
    store.put(NUMBERED, &1, &10).expect("written");
    store.close().expect("closed");
    path
}

/// Every use of `table`, and an open that declares it, must answer `Schema`, name both sides, and change nothing.
fn disagrees<T>(table: T, key: &T::Key, value: &T::Value, both: [&str; 2])
where
    T: TableSpec + Copy,
    T::Value: std::fmt::Debug,
    T::State: std::fmt::Debug,
    T::OwnedKey: std::borrow::Borrow<T::Key>,
{
    let folder = folder();
    let path = made(&folder);
    let bytes = std::fs::read(&path).expect("the file");
    let names_both = |text: String| assert!(both.iter().all(|side| text.contains(side)), "{both:?}: {text}");
    names_both(text_of(ErrorKind::Schema, Options::new().declare(table).open(&path)));
    names_both(text_of(
        ErrorKind::Schema,
        Options::new().declare(table).open_or_create(&path),
    ));
    assert!(
        std::fs::read(&path).expect("the file") == bytes,
        "an open that failed changed the file"
    );

    let store = Store::open(&path).expect("opened");
    names_both(text_of(ErrorKind::Schema, store.get(table, key)));
    names_both(text_of(ErrorKind::Schema, store.put(table, key, value)));
    names_both(text_of(
        ErrorKind::Schema,
        store.put_if(table, key, Condition::Present, value),
    ));
    names_both(text_of(ErrorKind::Schema, store.delete(table, key)));
    names_both(text_of(
        ErrorKind::Schema,
        store.read(|tx| tx.scan(table, Keys::all()).map(Iterator::count)),
    ));
    names_both(text_of(
        ErrorKind::Schema,
        store.write(|tx| tx.retain(table, Keys::all(), |_, _| false).map(drop)),
    ));
    assert_eq!(store.stats().expect("figures").sequence, 3);
    assert_eq!(store.get(ORDERS, &1).expect("readable").expect("there").value, 10);
    let before = tables(&store);
    store.close().expect("closed");
    assert_eq!(tables(&Store::open(&path).expect("opened again")), before);
}

#[test]
fn another_kind_of_key_is_refused() {
    disagrees(
        Table::<i64, u64>::new("plain"),
        &1,
        &1,
        ["key_in_file=u64", "key_in_program=i64"],
    );
    disagrees(
        Table::<str, u64>::new("plain"),
        "1",
        &1,
        ["key_in_file=u64", "key_in_program=str"],
    );
    disagrees(
        Table::<[u8; 8], u64>::new("plain"),
        &[1; 8],
        &1,
        ["key_in_file=u64", "key_in_program=bytes[8]"],
    );
    disagrees(
        Table::<(u64, u64), u64>::new("plain"),
        &(1, 1),
        &1,
        ["key_in_file=u64", "key_in_program=(u64,u64)"],
    );
}

#[test]
fn another_encoding_of_values_is_refused() {
    let json = Table::<u64, u64, Stateless, Json>::new("plain");
    disagrees(json, &1, &1, ["codec_in_file=bincode", "codec_in_program=json"]);
}

#[test]
fn a_program_of_another_schema_number_is_refused_the_older_as_well_as_the_newer() {
    disagrees(
        PLAIN.schema(1),
        &1,
        &1,
        ["table=plain, schema_in_file=0", "schema_in_program=1"],
    );
    for (older, says) in [(0, "schema_in_program=0"), (2, "schema_in_program=2")] {
        let both = ["table=numbered, schema_in_file=3", says];
        disagrees(Table::<u64, u64>::new("numbered").schema(older), &1, &1, both);
    }
    disagrees(NUMBERED.schema(4), &1, &1, ["schema_in_file=3", "schema_in_program=4"]);
}

/// Guards against: one comparison for both numbers, since they are of one type.
#[test]
fn a_number_is_compared_also_after_another_one_of_the_same_type_agreed() {
    let store = Store::in_memory().expect("a store");
    store.put(NUMBERED, &1, &10).expect("written");
    store.put(NUMBERED, &1, &11).expect("written, and compared from memory");
    for number in [0, 2, 4] {
        let other = NUMBERED.schema(number);
        let says = format!("schema_in_file=3, schema_in_program={number}");
        let text = text_of(ErrorKind::Schema, store.get(other, &1));
        assert!(text.contains(&says), "{text}");
        let text = text_of(ErrorKind::Schema, store.put(other, &1, &12));
        assert!(text.contains(&says), "{text}");
    }
    let record = store.get(NUMBERED, &1).expect("readable").expect("there");
    assert_eq!((record.value, record.version), (11, version(2)));
}

#[test]
fn a_table_known_at_run_time_goes_by_the_number_of_the_file() {
    let folder = folder();
    let path = made(&folder);
    let store = Store::open(&path).expect("opened");
    let info = store.read(|tx| tx.table("numbered")).expect("readable").expect("there");
    assert_eq!((info.schema(), info.migrating_to()), (3, None));
    let open = info.open();
    assert_eq!(
        store
            .put(&open, &DynKey::U64(1), &vec![11])
            .expect("a number in bincode"),
        version(2)
    );
    assert_eq!(store.get(NUMBERED, &1).expect("readable").expect("there").value, 11);
    let fresh = DynTable::new("fresh", KeyKind::U64, CodecId::Bincode);
    store.put(&fresh, &DynKey::U64(1), &vec![1]).expect("written");
    let numbers: Vec<_> = tables(&store).iter().map(sprag::TableInfo::schema).collect();
    assert_eq!(numbers, [0, 3, 0, 0], "fresh, numbered, orders, plain");
}

#[test]
fn a_value_of_another_type_is_named_with_all_that_is_known_of_both_sides() {
    let store = Store::in_memory().expect("a store");
    store.put(NUMBERED, &7, &10).expect("written");
    let texts = Table::<u64, String>::new("numbered").schema(3);
    let names = "table=\"numbered\", key=\"7\", codec=bincode, schema_in_file=3, schema_in_program=3, \
                 type_in_program=alloc::string::String";
    let text = text_of(ErrorKind::Decode, store.get(texts, &7));
    assert!(text.contains(names), "{text}");
    let scanned = store.read(|tx| tx.scan(texts, Keys::all())?.collect::<sprag::Result<Vec<_>>>());
    let text = text_of(ErrorKind::Decode, scanned);
    assert!(text.contains(names), "{text}");

    let conflict = store.put_if(NUMBERED, &7, Condition::Absent, &11).expect("an answer");
    let error = conflict.or_abort().expect_err("there is one");
    let found = error.found().expect("what was found");
    let text = text_of(ErrorKind::Decode, found.decode(texts));
    let names = "table=\"numbered\", codec=bincode, schema_in_file=unknown, schema_in_program=3, \
                 type_in_program=alloc::string::String";
    assert!(text.contains(names), "{text}");
}

#[test]
fn a_machine_where_there_is_none_and_none_where_there_is_one_are_refused() {
    disagrees(
        Table::<u64, u64, Orders>::new("plain"),
        &1,
        &1,
        ["machine_in_file=none", "machine_in_program=orders"],
    );
    disagrees(
        Table::<u64, u64>::new("orders"),
        &1,
        &1,
        ["machine_in_file=orders", "machine_in_program=none"],
    );
}

#[test]
fn a_machine_that_lacks_what_the_file_has_and_has_what_the_file_lacks_is_refused() {
    disagrees(
        Table::<u64, u64, Sideways>::new("orders"),
        &1,
        &1,
        ["only in file: state shipped", "only in program: state sold"],
    );
    disagrees(
        Table::<u64, u64, Renamed>::new("orders"),
        &1,
        &1,
        ["name in file=orders", "name in program=deals"],
    );
    disagrees(
        Table::<u64, u64, Started>::new("orders"),
        &1,
        &1,
        ["initial in file=new", "initial in program=packed"],
    );
}

#[test]
fn a_program_that_knows_fewer_states_may_open_and_is_told_of_a_record_in_another_one() {
    let folder = folder();
    let path = made(&folder);
    let fewer = Table::<u64, u64, Fewer>::new("orders");
    let store = Options::new().declare(fewer).open(&path).expect("a subset may open");
    assert_eq!(
        store
            .transition(fewer, &1, Fewer("new"), Fewer("packed"))
            .expect("a move")
            .or_abort()
            .ok(),
        Some(version(2))
    );
    store
        .transition(ORDERS, &1, Orders("packed"), Orders("shipped"))
        .expect("a move")
        .or_abort()
        .expect("applied");
    let text = text_of(ErrorKind::Schema, store.get(fewer, &1));
    assert!(
        text.contains("state=shipped") && text.contains("machine=orders"),
        "{text}"
    );
    // It may still be told why it cannot move it.
    let refused = store
        .transition(fewer, &1, Fewer("new"), Fewer("packed"))
        .expect("an answer")
        .or_abort();
    assert_eq!(
        refused
            .expect_err("refused")
            .found()
            .and_then(|found| found.state().map(str::to_owned)),
        Some("shipped".into())
    );
    // What the file knows is not forgotten by that.
    let states = |store: &Store| {
        let info = store.read(|tx| tx.table("orders")).expect("readable").expect("there");
        info.machine().expect("a machine").states().to_vec()
    };
    assert_eq!(states(&store), ["new", "packed", "shipped"]);
}

#[test]
fn added_states_and_moves_are_recorded_once_and_outlive_a_reopen() {
    let folder = folder();
    let path = made(&folder);
    let grown = Table::<u64, u64, Grown>::new("orders");
    let store = Options::new().declare(grown).open(&path).expect("a superset may open");
    let sequence = store.stats().expect("figures").sequence;
    store.close().expect("closed");
    let store = Options::new()
        .declare(grown)
        .declare(ORDERS)
        .open(&path)
        .expect("opened again");
    assert_eq!(
        store.stats().expect("figures").sequence,
        sequence,
        "there was nothing more to record"
    );
    let info = store.read(|tx| tx.table("orders")).expect("readable").expect("there");
    assert_eq!(
        info.machine().expect("a machine").states(),
        ["new", "packed", "shipped", "lost"]
    );
    store
        .transition(grown, &1, Grown("new"), Grown("packed"))
        .expect("a move")
        .or_abort()
        .expect("applied");
    store
        .transition(grown, &1, Grown("packed"), Grown("lost"))
        .expect("a move")
        .or_abort()
        .expect("applied");
    let refused = store
        .transition(ORDERS, &1, Orders("packed"), Orders("shipped"))
        .expect("an answer");
    let sprag::Transitioned::Refused(refusal) = refused else {
        panic!("it is lost")
    };
    assert_eq!((refusal.why, refusal.found.state()), (Why::NoPath, Some("lost")));
}

#[test]
fn states_that_a_failed_write_added_are_not_recorded() {
    let folder = folder();
    let path = made(&folder);
    let grown = Table::<u64, u64, Grown>::new("orders");
    let store = Store::open(&path).expect("opened");
    let failed = store.write(|tx| {
        tx.transition(grown, &1, Grown("new"), Grown("packed"))?.or_abort()?;
        tx.put_if(PLAIN, &1, Condition::Absent, &0)?.or_abort()
    });
    assert_eq!(kind_of(failed), ErrorKind::Conflict);
    let info = store.read(|tx| tx.table("orders")).expect("readable").expect("there");
    assert_eq!(
        info.machine().expect("a machine").states(),
        ["new", "packed", "shipped"]
    );
    // And they are by the first write that stays, although a call agreed with them before.
    store
        .transition(grown, &1, Grown("new"), Grown("packed"))
        .expect("a move")
        .or_abort()
        .expect("applied");
    store
        .transition(grown, &1, Grown("packed"), Grown("lost"))
        .expect("a move")
        .or_abort()
        .expect("applied");
    store.close().expect("closed");
    let store = Options::new().declare(grown).open(&path).expect("opened again");
    assert_eq!(
        store.get(grown, &1).expect("readable").expect("there").state,
        Grown("lost")
    );
}

#[test]
fn a_table_that_a_failed_write_made_is_not_there() {
    let store = Store::in_memory().expect("a store");
    let fails = |table: &DynTable| {
        store.write(|tx| {
            tx.put(table, &DynKey::U64(1), &vec![1])?;
            tx.put_if(table, &DynKey::U64(1), Condition::Absent, &vec![2])?
                .or_abort()
        })
    };
    assert_eq!(
        kind_of(fails(&DynTable::new("t", KeyKind::U64, CodecId::Json))),
        ErrorKind::Conflict
    );
    assert_eq!(tables(&store), []);
    // So the name is free for another declaration.
    store.put(Table::<str, u64>::new("t"), "a", &1).expect("written");
}

fn breaks<S>(rule: &str)
where
    S: State + StateOf<Value = S>,
{
    let store = Store::in_memory().expect("a store");
    let table = Table::<u64, u64, S>::new("broken");
    for text in [
        text_of(ErrorKind::Invalid, store.put(table, &1, &1)),
        text_of(ErrorKind::Invalid, store.get(table, &1)),
        text_of(ErrorKind::Invalid, Options::new().declare(table).in_memory()),
    ] {
        assert!(text.contains(rule), "{rule}: {text}");
    }
    assert_eq!(store.stats().expect("figures").sequence, 0);
    let folder = folder();
    let path = folder.path().join("t.sprag");
    assert_eq!(
        kind_of(Options::new().declare(table).create_new(&path)),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind_of(Options::new().declare(table).open_or_create(&path)),
        ErrorKind::Invalid
    );
    assert!(!path.exists(), "a store was made although its tables are wrong");
}

const LONG: &str = "0123456789012345678901234567890123456789012345678901234567890123-";

#[test]
fn a_machine_that_breaks_a_rule_is_refused_and_makes_neither_a_table_nor_a_file() {
    assert_eq!(LONG.len(), limits::STATE_NAME_BYTES_MAX + 1);
    states!(Twice: "m", ["a", "a"], initial "a", &[]);
    states!(NoName: "m", ["a", ""], initial "a", &[]);
    states!(TooLong: "m", ["a", "0123456789012345678901234567890123456789012345678901234567890123-"], initial "a", &[]);
    states!(NoInitial: "m", ["a", "b"], initial "c", &[]);
    states!(Unknown: "m", ["a", "b"], initial "a", &[("a", "c")]);
    states!(InPlace: "m", ["a", "b"], initial "a", &[("a", "a")]);
    states!(Listed: "m", ["a", "b"], initial "a", &[("a", "b"), ("a", "b")]);
    states!(Cycle: "m", ["a", "b"], initial "a", &[("a", "b"), ("b", "a")]);
    states!(Allowed: "m", ["a", "b"], initial "a", &[("a", "b"), ("b", "a")], cyclic);
    breaks::<Twice>("state is named twice, state=a");
    breaks::<NoName>("name has 0 bytes");
    breaks::<TooLong>("name has 65 bytes, bytes_min=1, bytes_max=64");
    breaks::<NoInitial>("unknown state, state=c");
    breaks::<Unknown>("unknown state, state=c");
    breaks::<InPlace>("move leads to where it starts, state=a");
    breaks::<Listed>("move is listed twice, from=a, to=b");
    breaks::<Cycle>("cycle in a machine not declared cyclic");
    let store = Store::in_memory().expect("a store");
    store
        .put(Table::<u64, u64, Allowed>::new("t"), &1, &1)
        .expect("a cycle that is declared");
}

/// Judged before recovery has written anything, since a failed open changes no byte.
#[test]
fn declared_tables_that_one_commit_cannot_hold_are_refused_and_the_file_stays_as_it_was() {
    let disk = SimDisk::new();
    let store = small().create_on(shared(&disk)).expect("a new store");
    let old: Table<u64, u64> = Table::new("old");
    store.put(old, &1, &1).expect("written");
    drop(store);
    let disk = disk.kill();
    let before = disk.cache_image();
    let names: Vec<&'static str> = (0..60).map(|number| &*format!("{number:0>200}").leak()).collect();
    let declaring = |count: usize| {
        let declare = |options: Options, name: &&'static str| options.declare(Table::<u64, u64>::new(name));
        names.iter().take(count).fold(small(), declare)
    };
    let text = text_of(ErrorKind::TooLarge, declaring(60).open_on(shared(&disk)));
    assert!(text.contains("bytes_max=8192"), "{text}");
    assert_eq!(disk.events(), 0, "a failed open wrote");
    assert!(disk.cache_image() == before);
    let store = declaring(20).open_on(shared(&disk)).expect("as many as fit");
    assert_eq!(tables(&store).len(), 21);
    assert_eq!(store.get(old, &1).expect("readable").expect("there").value, 1);
}
