//! Random operations: whatever was done, and whatever instant a crash comes at, the look-up by state says what a scan of
//! all records says.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use sprag::testkit::{CrashPlan, Event, EventKind, SimDisk};
use sprag::{Error, Keep, Keys, Level, OnceKey, ReadTx, Store, Table, TableSpec, Transitioned, WriteTx, Written};

use super::OrderState::{Cancelled, New, Packed, Shipped};
use super::TaskState::{On, OnHold, Over};
use super::{LINES, OrderState, TaskState};
use crate::common::{folder, shared, small};
use crate::random::{Random, seed};

const OPERATIONS: u64 = 100_000;
/// Keys of each of the two tables.
const KEYS: u64 = 2000;
const HALF_BYTES: u64 = 16 << 10;
/// Crash images that are judged.
const IMAGES_MIN: usize = 300;

const ORDERS: Table<u64, u64, OrderState> = Table::new("orders");
const ORDER_MOVES: [(OrderState, OrderState); 4] =
    [(New, Packed), (New, Cancelled), (Packed, Shipped), (Packed, Cancelled)];
const LINE_MOVES: [(TaskState, TaskState); 4] = [(On, OnHold), (On, Over), (OnHold, On), (Over, On)];

/// Every state of a table, both ways: the look-up and the counts say what a scan of all records says.
fn table_agrees<T>(tx: &ReadTx<'_>, table: T, page: usize) -> Result<(), Error>
where
    T: TableSpec + Copy,
    T::OwnedKey: PartialEq + Debug,
    T::Value: PartialEq + Debug,
    T::State: PartialEq + Copy + Debug,
{
    let all: Vec<_> = tx.scan(table, Keys::all())?.collect::<Result<_, _>>()?;
    let counts = tx.state_counts(table)?;
    let sum: u64 = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, all.len() as u64);
    for (state, count) in counts {
        let mut expected: Vec<_> = all.iter().filter(|(_, record)| record.state == state).collect();
        assert_eq!(count, expected.len() as u64, "{state:?}");
        assert_eq!(tx.count_in_state(table, state)?, count, "{state:?}");
        let found: Vec<_> = tx.in_state(table, state)?.collect::<Result<_, _>>()?;
        assert!(found.iter().eq(expected.iter().copied()), "{state:?}: {found:?}");
        let mut paged = Vec::new();
        let mut rest = Some(Keys::all().rev());
        while let Some(keys) = rest {
            let page = tx.in_state_page(table, state, keys, page)?;
            paged.extend(page.records);
            rest = page.next;
        }
        expected.reverse();
        assert!(paged.iter().eq(expected), "{state:?}, reverse: {paged:?}");
    }
    Ok(())
}

fn agrees(tx: &ReadTx<'_>) -> Result<(), Error> {
    table_agrees(tx, ORDERS, 7)?;
    table_agrees(tx, LINES, 300)
}

/// What ends a write: an error of the store, or the wish of the trial.
type Stop = Box<dyn std::error::Error>;

/// The operations of a trial, and what came of them: one in which something never happens shows nothing about it.
struct Trial {
    random: Random,
    /// Operations whose commit was answered.
    done: u64,
    seen: BTreeMap<&'static str, u64>,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        Trial {
            random: Random::new(seed),
            done: 0,
            seen: BTreeMap::new(),
        }
    }

    fn one_in(&mut self, turns: u64) -> bool {
        self.random.below(turns) == 0
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// One commit of 1 to 50 operations; some fail as a whole, some in a part of theirs.
    fn commit(&mut self, store: &Store) {
        let count = 1 + self.random.below(50);
        let fails = self.one_in(12);
        let looks = self.one_in(100);
        let outcome = store.write(|tx| {
            for _ in 0..count / 2 {
                self.operate(tx)?;
            }
            if self.one_in(8) {
                self.unit(tx, count)?;
            }
            for _ in count / 2..count {
                self.operate(tx)?;
            }
            if looks {
                agrees(tx)?;
                self.saw("own writes");
            }
            if fails { Err("wanted".into()) } else { Ok::<_, Stop>(()) }
        });
        match outcome {
            Ok(()) => self.done += count,
            Err(stop) if fails && stop.to_string() == "wanted" => self.saw("failed"),
            Err(stop) => panic!("{stop:?}"),
        }
    }

    /// A part that is undone or kept on its own.
    fn unit(&mut self, tx: &mut WriteTx<'_>, count: u64) -> Result<(), Stop> {
        let fails = self.one_in(2);
        let key = OnceKey::new("trial", self.random.below(u64::MAX).to_be_bytes(), Keep::Forever);
        let outcome = tx.once(&key, |tx| {
            for _ in 0..count.min(5) {
                self.operate(tx)?;
            }
            if fails { Err("wanted".into()) } else { Ok::<_, Stop>(()) }
        });
        match outcome {
            Ok(_) => Ok(()),
            Err(stop) if fails && stop.to_string() == "wanted" => {
                self.saw("undone");
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    fn operate(&mut self, tx: &mut WriteTx<'_>) -> Result<(), Error> {
        let number = self.random.below(KEYS);
        if self.one_in(2) {
            self.operate_on(tx, ORDERS, &number, &ORDER_MOVES)
        } else {
            // A few orders have most of the lines.
            let order = ["", "a", "a\0", "ab", "on", "on hold"][(number % 6) as usize];
            self.operate_on(tx, LINES, &(order.to_owned(), number / 6), &LINE_MOVES)
        }
    }

    fn operate_on<T>(
        &mut self,
        tx: &mut WriteTx<'_>,
        table: T,
        key: &T::Key,
        moves: &[(T::State, T::State)],
    ) -> Result<(), Error>
    where
        T: TableSpec<Value = u64> + Copy,
        T::State: Copy + PartialEq,
    {
        let value = self.random.below(4);
        let (from, to) = moves[self.random.below(moves.len() as u64) as usize];
        let what = match self.random.below(16) {
            0..=3 => {
                let state = if self.one_in(2) { from } else { to };
                match tx.create(table, key, &value, &state)? {
                    Written::Applied(_) => "created",
                    Written::Unchanged(_) => "unchanged",
                    Written::Conflict(_) => "conflict",
                }
            }
            4..=6 => {
                tx.put(table, key, &value)?;
                "put"
            }
            7..=12 => {
                // Mostly a move that the record can make now.
                let state = tx.get(table, key)?.map(|record| record.state);
                let possible = moves.iter().find(|(from, _)| Some(*from) == state && value > 0);
                let (from, to) = possible.copied().unwrap_or((from, to));
                let moved = if value == 1 {
                    tx.transition_with(table, key, from, to, &value)?
                } else {
                    tx.transition(table, key, from, to)?
                };
                match moved {
                    Transitioned::Applied(_) => "moved",
                    Transitioned::AlreadyThere(_) => "already there",
                    Transitioned::Refused(_) => "refused",
                }
            }
            _ => match tx.delete(table, key)? {
                Some(_) => "removed",
                None => "gone",
            },
        };
        self.saw(what);
        Ok(())
    }

    fn must_have_seen(&self, more: &[&'static str]) {
        println!("{} operations, {:?}", self.done, self.seen);
        let always = [
            "created",
            "unchanged",
            "conflict",
            "put",
            "moved",
            "already there",
            "refused",
            "removed",
            "gone",
            "failed",
            "undone",
            "own writes",
            "checkpoints",
        ];
        for what in always.iter().chain(more) {
            assert!(self.seen.contains_key(what), "never happened: {what}");
        }
    }

    fn note_checkpoints(&mut self, store: &Store) {
        if store.stats().expect("figures").checkpoints > 0 {
            self.saw("checkpoints");
        }
    }
}

#[test]
fn after_100_000_random_operations_look_up_and_counts_are_those_of_a_full_scan() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let options = || small().level(Level::Buffered);
    let mut trial = Trial::new(seed());
    let mut store = options().create_new(&path).expect("a store");
    while trial.done < OPERATIONS {
        trial.commit(&store);
        if trial.one_in(80) {
            store.read(agrees).expect("a read");
        }
        if trial.one_in(120) {
            trial.note_checkpoints(&store);
            if trial.one_in(2) {
                store.close().expect("closed");
                trial.saw("closed");
            } else {
                drop(store);
                trial.saw("dropped");
            }
            store = options().open(&path).expect("opened");
            store.read(agrees).expect("a read");
        }
    }
    store.read(agrees).expect("a read");
    store.close().expect("closed");
    options().open(&path).expect("opened").read(agrees).expect("a read");
    trial.must_have_seen(&["closed", "dropped"]);
}

/// What a crash left, and whether it came while the base was written.
struct Image {
    disk: SimDisk,
    at: u64,
    in_base: bool,
}

/// Takes an image at random instants.
struct Camera {
    random: Mutex<Random>,
    images: Mutex<Vec<Image>>,
}

impl Camera {
    fn watch(self: &Arc<Camera>, disk: &SimDisk) {
        let camera = Arc::clone(self);
        disk.on_event(move |event, disk| camera.meet(event, disk));
    }

    /// Most calls are those of checkpoints, so those of the log are taken more often.
    fn meet(&self, event: &Event<'_>, disk: &SimDisk) {
        let mut random = self.random.lock().expect("no panic");
        let in_base = event.kind != EventKind::WriteSynced || event.offset >= 4096 + 2 * HALF_BYTES;
        if random.below(if in_base { 90 } else { 20 }) > 0 {
            return;
        }
        let disk = if random.below(4) == 0 {
            disk.kill()
        } else {
            disk.power_loss_during(event, random.below(u64::MAX), CrashPlan::Any)
        };
        let at = event.index;
        self.images.lock().expect("no panic").push(Image { disk, at, in_base });
    }

    fn take(&self) -> Vec<Image> {
        std::mem::take(&mut *self.images.lock().expect("no panic"))
    }
}

/// On a simulated disk, with images of it taken while commits and checkpoints run. Now and then the trial goes on from one.
#[test]
fn a_crash_image_of_100_000_random_operations_has_the_look_up_and_counts_of_a_full_scan() {
    let seed = seed();
    let options = || small().log_half_bytes(HALF_BYTES).checkpoints_in_line();
    let mut trial = Trial::new(seed);
    let mut disk = SimDisk::new();
    let mut store = options().create_on(shared(&disk)).expect("a store");
    let camera = Arc::new(Camera {
        random: Mutex::new(Random::new(seed.rotate_left(32))),
        images: Mutex::new(Vec::new()),
    });
    // The tables are made before the first image.
    trial.commit(&store);
    camera.watch(&disk);
    let (mut distinct, mut judged) = (HashSet::new(), 0);
    while trial.done < OPERATIONS {
        trial.commit(&store);
        for image in camera.take() {
            let copy = image.disk.kill();
            let opened = options().open_on(shared(&copy));
            let opened =
                opened.unwrap_or_else(|cause| panic!("image {judged} at {} does not open: {cause:?}", image.at));
            opened.read(agrees).expect("a read");
            if trial.one_in(4) {
                // Once more from the base alone.
                opened.close().expect("closed");
                options()
                    .open_on(shared(&copy))
                    .expect("opened")
                    .read(agrees)
                    .expect("a read");
            }
            distinct.insert(image.disk.image_hash());
            judged += 1;
            trial.saw(if image.in_base {
                "images of the base"
            } else {
                "images of the log"
            });
            if trial.one_in(10) {
                trial.note_checkpoints(&store);
                disk.stop_observing();
                drop(store);
                disk = image.disk;
                store = options().open_on(shared(&disk)).expect("opened");
                camera.watch(&disk);
                trial.saw("went on from an image");
            }
        }
    }
    disk.stop_observing();
    store.read(agrees).expect("a read");
    trial.must_have_seen(&["went on from an image", "images of the base", "images of the log"]);
    assert!(
        distinct.len() >= IMAGES_MIN,
        "images={judged}, distinct={}",
        distinct.len()
    );
}
