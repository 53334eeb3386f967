//! What happens to the file between two calls of a look.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use sprag::testkit::{Disk, FaultKind, FaultMode, Marks, SimDisk, SimLook};
use sprag::{ErrorKind, Options, Store, Table};

use crate::common::{shared, small};

const VALUES: Table<u64, Vec<u8>> = Table::new("values");
const HALF: usize = 16 << 10;
const BASE_AT: u64 = 4096 + 2 * HALF as u64;

/// A call of a look: its length, or a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Len,
    Before(u64, usize),
    After(u64, usize),
}

type Hook = Arc<dyn Fn(Call) + Send + Sync>;

/// A look's disk that tells of each call.
struct Told {
    disk: SimLook,
    hook: Mutex<Option<Hook>>,
}

impl Told {
    fn new(disk: &SimDisk) -> Arc<Told> {
        Arc::new(Told {
            disk: SimLook::new(disk),
            hook: Mutex::new(None),
        })
    }

    fn tell(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        *self.hook.lock().expect("no panic") = Some(Arc::new(hook));
    }

    fn call(&self, call: Call) {
        let hook = self.hook.lock().expect("no panic").clone();
        if let Some(hook) = hook {
            hook(call);
        }
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(out)
    }
}

impl Disk for Told {
    fn len(&self) -> io::Result<u64> {
        self.call(Call::Len);
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(Call::Before(offset, out.len()));
        let read = self.disk.read(offset, out);
        self.call(Call::After(offset, out.len()));
        read
    }

    fn marks(&self) -> Option<&dyn Marks> {
        self.disk.marks()
    }
}

fn uncached() -> Options {
    small().cache_bytes(0).checkpoints_in_line()
}

fn put(store: &Store, key: u64, value: u8) {
    store.put(VALUES, &key, &vec![value; 900]).expect("a put");
}

/// Writes until a half is full and the next commits go to the other one; gives the last key.
fn until_frozen(store: &Store) -> u64 {
    let mut key = 1000;
    while !store.stats().expect("figures").checkpoint_pending {
        key += 1;
        put(store, key, 1);
    }
    key
}

#[test]
fn a_look_that_stands_finds_what_came_after_a_half_that_was_empty() {
    let disk = SimDisk::new();
    let store = uncached().create_on(shared(&disk)).expect("a store");
    put(&store, 0, 1);
    // From here on the second half is in use, and empty.
    store.sweep().expect("a sweep");
    let looking = uncached().look_on(Arc::new(SimLook::new(&disk))).expect("a look");
    assert!(looking.get(VALUES, &0).expect("readable").is_some());
    let last = until_frozen(&store);
    assert!(
        looking.get(VALUES, &last).expect("readable").is_some(),
        "an answered commit is not seen"
    );
}

#[test]
fn of_two_threads_whose_state_was_given_up_neither_is_told_another() {
    let disk = SimDisk::new();
    let store = uncached().create_on(shared(&disk)).expect("a store");
    for key in 0..200 {
        put(&store, key, 1);
    }
    store.sweep().expect("a sweep");
    let told = Told::new(&disk);
    let looking = small().cache_bytes(4 << 20).look_on(told.clone()).expect("a look");
    let answers = looking.read::<_, sprag::Error>(|tx| {
        assert_eq!(tx.get(VALUES, &100)?.expect("there").value[0], 1);
        drop(store);
        let store = uncached().open_on(shared(&disk)).expect("the store again");
        for value in 2..6 {
            (0..200).for_each(|key| put(&store, key, value));
        }
        store.sweep().expect("a sweep");
        // The first call of each thread waits for the other, so that both are past redb's own look at errors.
        let (met, both) = (AtomicUsize::new(0), Barrier::new(2));
        told.tell(move |call| {
            if call == Call::Len && met.fetch_add(1, Ordering::SeqCst) < 2 {
                both.wait();
            }
        });
        Ok(thread::scope(|scope| {
            let read = |key: u64| scope.spawn(move || tx.get(VALUES, &key));
            [5, 150].map(read).map(|thread| thread.join().expect("no panic"))
        }))
    });
    for answer in answers.expect("no error of its own") {
        match answer {
            Ok(record) => assert_eq!(record.expect("it was there").value[0], 1),
            Err(cause) => assert!(matches!(cause.kind(), ErrorKind::Busy | ErrorKind::Io), "{cause:?}"),
        }
    }
}

#[test]
fn a_base_that_moves_while_a_look_begins_is_looked_at_once_more() {
    let disk = SimDisk::new();
    let store = uncached().create_on(shared(&disk)).expect("a store");
    put(&store, 0, 1);
    let told = Told::new(&disk);
    let moved = AtomicBool::new(false);
    {
        let store = store.clone();
        told.tell(move |call| {
            if call == Call::After(BASE_AT, 512) && !moved.swap(true, Ordering::SeqCst) {
                put(&store, 1, 1);
                store.sweep().expect("a sweep");
            }
        });
    }
    let looking = uncached().look_on(told.clone()).expect("a look");
    assert!(looking.get(VALUES, &1).expect("readable").is_some());
}

#[test]
fn an_idle_look_keeps_nothing_and_the_file_does_not_grow_for_it() {
    let grown = |idle: bool| {
        let disk = SimDisk::new();
        let store = uncached().create_on(shared(&disk)).expect("a store");
        let rewrite = |rounds: u8| (0..rounds).for_each(|value| (0..200).for_each(|key| put(&store, key, value)));
        rewrite(4);
        let looking = idle.then(|| {
            let looking = uncached().look_on(Arc::new(SimLook::new(&disk))).expect("a look");
            assert!(looking.get(VALUES, &0).expect("readable").is_some());
            looking
        });
        rewrite(20);
        assert_eq!(store.stats().expect("figures").states_kept_for_others, 0);
        if let Some(looking) = looking {
            assert_eq!(looking.get(VALUES, &0).expect("readable").expect("there").value[0], 19);
        }
        disk.cache_image().len()
    };
    assert_eq!(grown(true), grown(false));
}

/// The writer had to open redb anew, and has not written to its base since.
#[test]
fn a_look_and_a_check_beside_a_writer_that_healed_take_no_gap_for_a_loss() {
    let disk = SimDisk::new();
    let store = uncached().create_on(shared(&disk)).expect("a store");
    (0..30).for_each(|key| put(&store, key, 1));
    store.sweep().expect("a sweep");
    disk.fail(FaultKind::Read, 0, FaultMode::FailOnce, io::ErrorKind::Other);
    let _ = store.get(VALUES, &29);
    assert_eq!(disk.faults_fired(), 1);
    put(&store, 1, 7);

    let told = Told::new(&disk);
    let frozen = AtomicBool::new(false);
    {
        let store = store.clone();
        told.tell(move |call| {
            // The first half was read; the second one gets frames that continue what was not there yet.
            let second = call == Call::Before(4096 + HALF as u64, HALF);
            if second && !frozen.swap(true, Ordering::SeqCst) {
                until_frozen(&store);
                (0..3).for_each(|key| put(&store, key, 9));
            }
        });
    }
    let checked = small().check_on(told.clone(), |_| ()).expect("a look");
    assert!(checked.is_sound(), "{checked:?}");
    let looking = uncached().look_on(told).expect("a look");
    assert_eq!(looking.get(VALUES, &2).expect("readable").expect("there").value[0], 9);
}

#[test]
fn a_check_beside_checkpoints_that_fail_finds_no_damage() {
    let disk = SimDisk::new();
    let store = uncached().create_on(shared(&disk)).expect("a store");
    (0..600).for_each(|key| put(&store, key, 1));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !over.load(Ordering::SeqCst) {
                disk.fail(FaultKind::Write, 0, FaultMode::FailOnce, io::ErrorKind::Other);
                for _ in 0..40 {
                    number += 1;
                    put(&store, number % 600, 2);
                }
            }
        });
        let looked: Vec<_> = (0..60).map(|_| store.check()).collect();
        over.store(true, Ordering::SeqCst);
        for checked in looked {
            match checked {
                Ok(checked) => assert!(checked.is_sound(), "{checked:?}"),
                Err(cause) => assert_eq!(cause.kind(), ErrorKind::Io, "{cause:?}"),
            }
        }
    });
    assert!(disk.faults_fired() > 0);
    disk.heal();
    assert!(store.check().expect("a look").is_sound());
}
