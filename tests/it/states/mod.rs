//! Look-up by state: the records in a state in key order, and their number, in the commit of the record itself.

mod damage;
mod trial;

use sprag::{
    DynKey, DynTable, Error, ErrorKind, InState, Keep, Keys, MachineDef, OnceKey, ReadTx, State, Store, Table,
    TableSpec, WriteTx,
};

use crate::common::{kind_of, small, tables};

sprag::machine! {
    /// Where an order stands.
    pub enum OrderState: "orders" {
        New = "new", Packed = "packed", Shipped = "shipped", Cancelled = "cancelled",
    }
    initial New;
    New => Packed, Cancelled;
    Packed => Shipped, Cancelled;
}
use OrderState::{Cancelled, New, Packed, Shipped};

sprag::machine! {
    /// Where a task stands. The name of one state is the beginning of another's.
    pub enum TaskState: "tasks" { On = "on", OnHold = "on hold", Over = "over" }
    initial On;
    cyclic;
    On => OnHold, Over;
    OnHold => On;
    Over => On;
}
use TaskState::{On, OnHold, Over};

const ORDERS: Table<u64, u64, OrderState> = Table::new("orders");
const RETURNS: Table<u64, u64, OrderState> = Table::new("returns");
const TASKS: Table<str, u64, TaskState> = Table::new("tasks");
const LINES: Table<(String, u64), u64, TaskState> = Table::new("lines");
const PLAIN: Table<u64, u64> = Table::new("plain");
/// No write ever makes it.
const NOWHERE: Table<u64, u64> = Table::new("nowhere");

fn keys_of<T: TableSpec>(found: InState<'_, T>) -> Vec<T::OwnedKey> {
    found.map(|item| item.expect("a record").0).collect()
}

fn orders(tx: &ReadTx<'_>, state: OrderState) -> Vec<u64> {
    keys_of(tx.in_state(ORDERS, state).expect("found"))
}

fn count(tx: &ReadTx<'_>, state: OrderState) -> u64 {
    tx.count_in_state(ORDERS, state).expect("counted")
}

/// The keys in each state, and that the counts say the same.
fn stand(store: &Store) -> [Vec<u64>; 4] {
    reading(store, |tx| {
        [New, Packed, Shipped, Cancelled].map(|state| {
            let keys = orders(tx, state);
            assert_eq!(count(tx, state), keys.len() as u64, "{state:?}");
            keys
        })
    })
}

fn reading<R>(store: &Store, f: impl FnOnce(&ReadTx<'_>) -> R) -> R {
    store.read(|tx| Ok::<_, Error>(f(tx))).expect("a read")
}

fn writing<R>(store: &Store, f: impl FnOnce(&mut WriteTx<'_>) -> Result<R, Error>) -> R {
    store.write(f).expect("a write")
}

/// Six orders: 1 and 4 new, 2 and 6 packed, 3 shipped, 5 cancelled.
fn six() -> Store {
    let store = small().in_memory().expect("a store");
    let states = [New, Packed, Shipped, New, Cancelled, Packed];
    writing(&store, |tx| {
        for (key, state) in (1..).zip(states) {
            tx.create(ORDERS, &key, &(key * 10), &state)?.or_abort()?;
        }
        Ok(())
    });
    store
}

#[test]
fn a_record_is_found_in_the_state_it_was_created_in_and_its_count_is_there() {
    let store = six();
    assert_eq!(stand(&store), [vec![1, 4], vec![2, 6], vec![3], vec![5]]);
    store.put(ORDERS, &7, &70).expect("a put");
    assert_eq!(
        stand(&store),
        [vec![1, 4, 7], vec![2, 6], vec![3], vec![5]],
        "the initial state"
    );
    assert_eq!(store.count_in_state(ORDERS, New).expect("counted"), 3);
    let found = reading(&store, |tx| {
        let found = tx.in_state(ORDERS, Packed).expect("found");
        found.map(|item| item.expect("a record")).collect::<Vec<_>>()
    });
    let seen: Vec<_> = found
        .iter()
        .map(|(key, record)| (*key, record.value, record.version.get(), record.state))
        .collect();
    assert_eq!(seen, [(2, 20, 1, Packed), (6, 60, 1, Packed)]);
}

#[test]
fn a_transition_takes_the_record_from_one_state_to_the_other_and_what_writes_no_other_state_moves_nothing() {
    let store = six();
    store
        .transition(ORDERS, &4, New, Packed)
        .expect("moved")
        .or_abort()
        .expect("applied");
    assert_eq!(stand(&store), [vec![1], vec![2, 4, 6], vec![3], vec![5]]);
    writing(&store, |tx| {
        tx.transition_with(ORDERS, &4, Packed, Shipped, &44)?.or_abort()
    });
    assert_eq!(stand(&store), [vec![1], vec![2, 6], vec![3, 4], vec![5]]);
    // Already there, refused, the same bytes, other bytes, a conflict.
    store
        .transition(ORDERS, &4, Packed, Shipped)
        .expect("a repeat")
        .or_abort()
        .expect("already there");
    assert!(
        store
            .transition(ORDERS, &3, New, Packed)
            .expect("an answer")
            .or_abort()
            .is_err()
    );
    store.put(ORDERS, &6, &60).expect("a put");
    store.put(ORDERS, &6, &61).expect("a put");
    assert!(
        writing(&store, |tx| tx.create(ORDERS, &6, &62, &New))
            .or_abort()
            .is_err()
    );
    assert_eq!(stand(&store), [vec![1], vec![2, 6], vec![3, 4], vec![5]]);
    // The last one leaves: its count is zero, not gone wrong.
    store
        .transition(ORDERS, &1, New, Cancelled)
        .expect("moved")
        .or_abort()
        .expect("applied");
    assert_eq!(stand(&store), [vec![], vec![2, 6], vec![3, 4], vec![1, 5]]);
}

#[test]
fn a_deleted_record_is_in_no_state_and_one_that_is_created_again_in_its_new_one() {
    let store = six();
    store.delete(ORDERS, &3).expect("removed");
    store.delete(ORDERS, &3).expect("gone already");
    assert_eq!(stand(&store), [vec![1, 4], vec![2, 6], vec![], vec![5]]);
    writing(&store, |tx| tx.create(ORDERS, &3, &30, &Cancelled)?.or_abort());
    assert_eq!(stand(&store), [vec![1, 4], vec![2, 6], vec![], vec![3, 5]]);
    writing(&store, |tx| {
        tx.delete(ORDERS, &3)?;
        tx.create(ORDERS, &3, &30, &Shipped)?.or_abort()?;
        tx.retain(ORDERS, Keys::all(), |key, _| *key != 6)
    });
    assert_eq!(stand(&store), [vec![1, 4], vec![2], vec![3], vec![5]]);
}

#[test]
fn a_write_that_fails_moves_nothing_and_a_nested_unit_only_its_own_part() {
    let store = six();
    let failed = store.write(|tx| {
        tx.transition(ORDERS, &1, New, Packed)?.or_abort()?;
        tx.delete(ORDERS, &3)?;
        assert_eq!((orders(tx, Packed), orders(tx, Shipped)), (vec![1, 2, 6], vec![]));
        tx.transition(ORDERS, &2, New, Shipped)?.or_abort()
    });
    assert_eq!(kind_of(failed), ErrorKind::Invalid);
    assert_eq!(stand(&store), [vec![1, 4], vec![2, 6], vec![3], vec![5]]);
    writing(&store, |tx| {
        tx.transition(ORDERS, &4, New, Cancelled)?.or_abort()?;
        let undone = tx.once(&OnceKey::new("states", "undone", Keep::Forever), |tx| {
            tx.transition(ORDERS, &1, New, Packed)?.or_abort()?;
            tx.delete(ORDERS, &4)?;
            assert_eq!((orders(tx, Packed), count(tx, Packed)), (vec![1, 2, 6], 3));
            assert_eq!((orders(tx, Cancelled), count(tx, Cancelled)), (vec![5], 1));
            tx.transition(ORDERS, &3, Packed, Shipped)?.or_abort()?;
            tx.transition(ORDERS, &3, New, Packed)?.or_abort()
        });
        assert_eq!(kind_of(undone), ErrorKind::Conflict);
        assert_eq!((orders(tx, Packed), count(tx, Packed)), (vec![2, 6], 2));
        assert_eq!((orders(tx, Cancelled), count(tx, Cancelled)), (vec![4, 5], 2));
        tx.once(&OnceKey::new("states", "kept", Keep::Forever), |tx| {
            tx.transition(ORDERS, &2, Packed, Shipped)?.or_abort()
        })?;
        Ok(())
    });
    assert_eq!(stand(&store), [vec![1], vec![6], vec![2, 3], vec![4, 5]]);
}

#[test]
fn a_write_sees_what_it_moved_itself_and_a_read_beside_it_does_not() {
    let store = six();
    writing(&store, |tx| {
        tx.transition(ORDERS, &4, New, Packed)?.or_abort()?;
        tx.create(ORDERS, &0, &0, &Packed)?.or_abort()?;
        tx.delete(ORDERS, &6)?;
        assert_eq!((orders(tx, Packed), count(tx, Packed)), (vec![0, 2, 4], 3));
        let rev = tx.scan_in_state(ORDERS, Packed, Keys::all().rev())?;
        assert_eq!(keys_of(rev), [4, 2, 0]);
        reading(&store, |tx| {
            assert_eq!((orders(tx, Packed), count(tx, Packed)), (vec![2, 6], 2));
        });
        Ok(())
    });
    assert_eq!(stand(&store), [vec![1], vec![0, 2, 4], vec![3], vec![5]]);
}

#[test]
fn a_range_of_a_state_comes_in_its_direction_and_in_pages() {
    let store = small().in_memory().expect("a store");
    writing(&store, |tx| {
        for key in 0..20 {
            let state = if key % 3 == 0 { Packed } else { New };
            tx.create(ORDERS, &key, &key, &state)?.or_abort()?;
        }
        Ok(())
    });
    reading(&store, |tx| {
        let range = |keys| keys_of(tx.scan_in_state(ORDERS, Packed, keys).expect("found"));
        assert_eq!(range(Keys::all()), [0, 3, 6, 9, 12, 15, 18]);
        assert_eq!(range(Keys::all().rev()), [18, 15, 12, 9, 6, 3, 0]);
        assert_eq!(range(Keys::between(&3, &12)), [3, 6, 9]);
        assert_eq!(range(Keys::after(&3)), [6, 9, 12, 15, 18]);
        assert_eq!(range(Keys::from(&4)), [6, 9, 12, 15, 18]);
        assert_eq!(range(Keys::to(&6).rev()), [3, 0]);
        assert_eq!(range(Keys::through(&6).rev()), [6, 3, 0]);
        assert_eq!(range(Keys::between(&12, &3)), [0; 0]);
        assert_eq!(range(Keys::between(&4, &6)), [0; 0]);

        let page = |keys, limit| {
            let page = tx.in_state_page(ORDERS, Packed, keys, limit).expect("a page");
            let keys: Vec<u64> = page.records.iter().map(|(key, _)| *key).collect();
            (keys, page.next)
        };
        let (keys, next) = page(Keys::all(), 3);
        assert_eq!(keys, [0, 3, 6]);
        let (keys, next) = page(next.expect("more"), 3);
        assert_eq!(keys, [9, 12, 15]);
        let (keys, next) = page(next.expect("more"), 1);
        assert_eq!((keys, next.is_none()), (vec![18], true));
        let (keys, next) = page(Keys::through(&12).rev(), 4);
        assert_eq!(keys, [12, 9, 6, 3]);
        let (keys, next) = page(next.expect("more"), 4);
        assert_eq!((keys, next.is_none()), (vec![0], true));
        let (keys, next) = page(Keys::from(&7), 0);
        assert_eq!(keys, [0; 0]);
        assert_eq!(page(next.expect("all of it"), 9).0, [9, 12, 15, 18]);
        assert!(page(Keys::between(&4, &6), 1).1.is_none());
    });
    // Moving what was found, page by page, in one transaction.
    let pages = writing(&store, |tx| {
        let (mut rest, mut pages) = (Some(Keys::all()), 0);
        while let Some(keys) = rest {
            let page = tx.in_state_page(ORDERS, New, keys, 5)?;
            for (key, _) in &page.records {
                tx.transition(ORDERS, key, New, Packed)?.or_abort()?;
            }
            (rest, pages) = (page.next, pages + 1);
        }
        Ok(pages)
    });
    assert_eq!(pages, 3, "13 records");
    assert_eq!(stand(&store), [vec![], (0..20).collect(), vec![], vec![]]);
}

/// The entries of a state must not be taken for those of one whose name is longer: "on" and " hold 2" are the letters of
/// "on hold" and " 2".
#[test]
fn states_whose_names_begin_alike_and_tables_with_the_same_states_do_not_mix() {
    let store = small().in_memory().expect("a store");
    writing(&store, |tx| {
        tx.create(TASKS, " hold 1", &1, &On)?.or_abort()?;
        tx.create(TASKS, " 2", &2, &OnHold)?.or_abort()?;
        tx.create(TASKS, "", &3, &OnHold)?.or_abort()?;
        tx.create(TASKS, " 1", &4, &On)?.or_abort()?;
        tx.create(TASKS, "over", &5, &Over)?.or_abort()?;
        tx.put(ORDERS, &1, &1)?;
        tx.put(RETURNS, &2, &2)?;
        tx.put(RETURNS, &3, &3)?;
        tx.transition(RETURNS, &2, New, Packed)?.or_abort()?;
        Ok(())
    });
    reading(&store, |tx| {
        let tasks = |state| keys_of(tx.in_state(TASKS, state).expect("found"));
        assert_eq!(tasks(On), [" 1", " hold 1"]);
        assert_eq!(tasks(OnHold), ["", " 2"]);
        assert_eq!(tasks(Over), ["over"]);
        let prefix = tx
            .scan_in_state(TASKS, On, Keys::<str>::prefix(" hold "))
            .expect("found");
        assert_eq!(keys_of(prefix), [" hold 1"]);
        assert_eq!(
            tx.state_counts(TASKS).expect("counted"),
            [(On, 2), (OnHold, 2), (Over, 1)]
        );
        let returns = |state| keys_of(tx.in_state(RETURNS, state).expect("found"));
        assert_eq!((orders(tx, New), orders(tx, Packed)), (vec![1], vec![]));
        assert_eq!((returns(New), returns(Packed)), (vec![3], vec![2]));
        assert_eq!((count(tx, New), count(tx, Packed)), (1, 0));
        let counted = |state| tx.count_in_state(RETURNS, state).expect("counted");
        assert_eq!((counted(New), counted(Packed)), (1, 1));
    });
}

#[test]
fn pairs_are_found_by_their_first_part() {
    let store = small().in_memory().expect("a store");
    let line = |order: &str, number: u64| (order.to_owned(), number);
    writing(&store, |tx| {
        for (order, number, state) in [("a", 2, On), ("a", 1, Over), ("a", 10, On), ("ab", 1, On), ("", 7, On)] {
            tx.create(LINES, &line(order, number), &number, &state)?.or_abort()?;
        }
        Ok(())
    });
    reading(&store, |tx| {
        let of_a = |keys: Keys<_>| keys_of(tx.scan_in_state(LINES, On, keys).expect("found"));
        assert_eq!(
            of_a(Keys::all()),
            [line("", 7), line("a", 2), line("a", 10), line("ab", 1)]
        );
        assert_eq!(of_a(Keys::first(&"a".to_owned())), [line("a", 2), line("a", 10)]);
        assert_eq!(of_a(Keys::first(&"a".to_owned()).rev()), [line("a", 10), line("a", 2)]);
    });
}

/// The first program's machine, and a later one's that adds a state before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Door<const LATER: bool>(&'static str);

impl<const LATER: bool> State for Door<LATER> {
    const MACHINE: MachineDef = if LATER {
        MachineDef::new(
            "doors",
            &["locked", "shut", "open"],
            "shut",
            &[("shut", "open"), ("shut", "locked")],
        )
    } else {
        MachineDef::new("doors", &["shut", "open"], "shut", &[("shut", "open")])
    };

    fn name(self) -> &'static str {
        self.0
    }

    fn from_name(name: &str) -> Option<Self> {
        let known = ["shut", "open", "locked"].into_iter().take(if LATER { 3 } else { 2 });
        known.into_iter().find(|state| *state == name).map(Door)
    }
}

#[test]
fn counts_come_in_the_order_of_the_file_with_its_zeros_and_a_state_that_is_new_to_it_is_empty() {
    const DOORS: Table<u64, u64, Door<false>> = Table::new("doors");
    const LATER: Table<u64, u64, Door<true>> = Table::new("doors");
    let store = small().in_memory().expect("a store");
    reading(&store, |tx| {
        assert_eq!(tx.state_counts(DOORS).expect("no table yet"), []);
        assert_eq!(tx.count_in_state(DOORS, Door("open")).expect("no table yet"), 0);
        assert_eq!(keys_of(tx.in_state(DOORS, Door("open")).expect("no table yet")), [0; 0]);
    });
    store.put(DOORS, &1, &1).expect("a put");
    reading(&store, |tx| {
        assert_eq!(
            tx.state_counts(DOORS).expect("counted"),
            [(Door("shut"), 1), (Door("open"), 0)]
        );
        // The later program has not written yet.
        assert_eq!(tx.count_in_state(LATER, Door("locked")).expect("counted"), 0);
        assert_eq!(keys_of(tx.in_state(LATER, Door("locked")).expect("found")), [0; 0]);
    });
    store.put(LATER, &2, &2).expect("a put");
    let counts = [(Door("shut"), 2), (Door("open"), 0), (Door("locked"), 0)];
    reading(&store, |tx| {
        assert_eq!(tx.state_counts(LATER).expect("counted"), counts);
    });
    reading(&store, |tx| {
        assert_eq!(
            tx.state_counts(DOORS).expect("counted"),
            [(Door("shut"), 2), (Door("open"), 0)]
        );
    });
    store
        .transition(LATER, &2, Door("shut"), Door("locked"))
        .expect("moved")
        .or_abort()
        .expect("applied");
    reading(&store, |tx| {
        assert_eq!(
            kind_of(tx.state_counts(DOORS)),
            ErrorKind::Schema,
            "a record it could not read"
        );
        assert_eq!(tx.count_in_state(DOORS, Door("shut")).expect("counted"), 1);
    });
}

/// The first program has long used the table when the later one comes to it, for one write.
#[test]
fn counts_leave_out_no_record_in_a_state_that_was_added_behind_the_back_of_the_program() {
    const DOORS: Table<u64, u64, Door<false>> = Table::new("doors");
    const LATER: Table<u64, u64, Door<true>> = Table::new("doors");
    let store = small().in_memory().expect("a store");
    for key in 1..=3 {
        store.put(DOORS, &key, &1).expect("a put");
    }
    let counted = |tx: &ReadTx<'_>| tx.state_counts(DOORS).expect("counted");
    let before = [(Door("shut"), 3), (Door("open"), 0)];
    assert_eq!(reading(&store, counted), before);
    let created = store.write(|tx| {
        tx.create(LATER, &4, &1, &Door("locked"))?.or_abort()?;
        assert_eq!(kind_of(tx.state_counts(DOORS)), ErrorKind::Schema);
        Ok::<_, Error>(())
    });
    created.expect("created");
    assert_eq!(kind_of(store.read(|tx| tx.state_counts(DOORS))), ErrorKind::Schema);
    writing(&store, |tx| tx.delete(LATER, &4));
    assert_eq!(reading(&store, counted), before);
}

#[test]
fn a_state_that_the_table_does_not_have_is_invalid_and_so_is_a_table_without_states() {
    let store = six();
    store.put(PLAIN, &1, &1).expect("a put");
    let orders: DynTable = tables(&store)
        .iter()
        .find(|info| info.name() == "orders")
        .expect("a table")
        .open();
    let nowhere = DynTable::new("nowhere", orders.key_kind().clone(), orders.codec());
    reading(&store, |tx| {
        for table in [PLAIN, NOWHERE] {
            assert_eq!(
                tx.in_state(table, ()).err().map(|error| error.kind()),
                Some(ErrorKind::Invalid)
            );
            assert_eq!(kind_of(tx.in_state_page(table, (), Keys::all(), 1)), ErrorKind::Invalid);
            assert_eq!(kind_of(tx.count_in_state(table, ())), ErrorKind::Invalid);
            assert_eq!(kind_of(tx.state_counts(table)), ErrorKind::Invalid);
        }
        for state in [Some("lost".to_owned()), None] {
            assert_eq!(kind_of(tx.count_in_state(&orders, state.clone())), ErrorKind::Invalid);
            assert_eq!(
                tx.in_state(&orders, state).err().map(|error| error.kind()),
                Some(ErrorKind::Invalid)
            );
        }
        let packed = || Some("packed".to_owned());
        assert_eq!(tx.count_in_state(&orders, packed()).expect("counted"), 2);
        assert_eq!(
            keys_of(tx.in_state(&orders, packed()).expect("found")),
            [DynKey::U64(2), DynKey::U64(6)]
        );
        assert_eq!(tx.state_counts(&orders).expect("counted").len(), 4);
        assert_eq!(tx.count_in_state(&nowhere, packed()).expect("no table yet"), 0);
        assert_eq!(tx.state_counts(&nowhere).expect("no table yet"), []);
    });
    assert_eq!(kind_of(store.count_in_state(PLAIN, ())), ErrorKind::Invalid);
}
