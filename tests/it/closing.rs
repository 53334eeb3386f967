//! The end of a store, and its lock: who may open, who is told what, and what is free when a close returns.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sprag::{Error, ErrorKind, Keep, Level, OnceKey, Options, Store, Table};

use crate::common::{folder, in_time, kind_of, small, text_of};

const NUMBERS: Table<u64, u64> = Table::new("numbers");

/// Descriptors of this process that lead to `path`. Only of that path: other tests run at the same time.
#[cfg(target_os = "linux")]
fn descriptors(path: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("the descriptors");
    open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target == path)
        .count()
}

#[cfg(not(target_os = "linux"))]
fn descriptors(_path: &Path) -> usize {
    0
}

#[test]
fn a_second_open_is_busy_at_once_also_in_the_same_process_and_by_another_name() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let other_name = folder.path().join("other.sprag");
    let store = Store::create_new(&path).expect("a new store");
    fs::hard_link(&path, &other_name).expect("a second name");
    for path in [&path, &other_name] {
        let owned = path.clone();
        let text = in_time("open", move || text_of(ErrorKind::Busy, Store::open(owned)));
        assert!(text.contains(&format!("path={}", path.display())), "{text}");
        assert_eq!(kind_of(Store::open_or_create(path)), ErrorKind::Busy);
    }
    #[cfg(unix)]
    {
        let link = folder.path().join("link.sprag");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert_eq!(kind_of(Store::open(&link)), ErrorKind::Busy);
    }
    // Those who were refused took nothing away from the one who has it.
    store.put(NUMBERS, &1, &1).expect("written");
    assert_eq!(kind_of(Store::open(&path)), ErrorKind::Busy);
    store.close().expect("closed");
    let store = Store::open(&other_name).expect("free by either name");
    assert_eq!(store.get(NUMBERS, &1).expect("readable").expect("there").value, 1);
}

#[test]
fn an_open_that_was_told_to_wait_gets_the_file_when_it_is_free_and_busy_when_its_time_is_over() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a new store");
    let began = Instant::now();
    let wait = Duration::from_millis(60);
    assert_eq!(kind_of(Options::new().wait(wait).open(&path)), ErrorKind::Busy);
    assert!(began.elapsed() >= wait, "it gave up too early");

    let (answer, answered) = mpsc::channel();
    let waiting = {
        let path = path.clone();
        thread::spawn(move || {
            let opened = Options::new().wait(Duration::from_secs(60)).open(path);
            answer.send(opened.map(drop)).expect("the test listens");
        })
    };
    assert!(
        answered.recv_timeout(Duration::from_millis(50)).is_err(),
        "an answer while the file is taken"
    );
    store.put(NUMBERS, &1, &1).expect("the one who has it goes on");
    store.close().expect("closed");
    let opened = answered
        .recv_timeout(Duration::from_secs(5))
        .expect("an answer once the file is free");
    opened.expect("opened");
    waiting.join().expect("no panic");
}

#[test]
fn close_frees_lock_and_descriptors_before_it_returns_and_so_does_the_drop_of_the_last_handle() {
    let folder = folder();
    let path = folder.path().canonicalize().expect("a path").join("t.sprag");
    small().create_new(&path).expect("a new store").close().expect("closed");
    for round in 0..60 {
        let level = if round % 2 == 0 { Level::Sync } else { Level::Buffered };
        let store = small().level(level).open(&path).expect("never busy");
        let clone = store.clone();
        // Enough for a checkpoint to be under way now and then.
        for key in 0..40 {
            store.put(NUMBERS, &key, &round).expect("written");
        }
        store
            .read(|tx| Ok::<_, Error>(tx.scan(NUMBERS, sprag::Keys::all())?.count()))
            .expect("a scan");
        if cfg!(target_os = "linux") {
            // One with the lock, and one that hears of failed synced writes by itself.
            assert_eq!(descriptors(&path), 2, "round {round}");
        }
        if round % 3 == 0 {
            drop(store);
            assert_eq!(kind_of(Store::open(&path)), ErrorKind::Busy, "a handle is left");
            drop(clone);
        } else {
            store.close().expect("closed");
        }
        assert_eq!(descriptors(&path), 0, "round {round}");
    }
    let store = Store::open(&path).expect("opened");
    assert_eq!(store.get(NUMBERS, &39).expect("readable").expect("there").value, 59);
}

#[test]
fn after_a_close_every_other_handle_answers_closed() {
    let folder = folder();
    for store in [Store::in_memory(), Store::create_new(folder.path().join("t.sprag"))] {
        let store = store.expect("a store");
        store.put(NUMBERS, &1, &1).expect("written");
        let key = OnceKey::new("s", "k", Keep::Forever);
        store.once(&key, |_| Ok::<_, Error>(())).expect("remembered");
        let other = store.clone();
        store.close().expect("closed");
        let answers = [
            other.get(NUMBERS, &1).map(drop),
            other.put(NUMBERS, &1, &2).map(drop),
            other.delete(NUMBERS, &1).map(drop),
            other.once(&key, |_| Ok::<_, Error>(())).map(drop),
            other.remembered("s", "k").map(drop),
            other.forget("s", "k").map(drop),
            other.read(|_| -> Result<(), Error> { panic!("a closure ran on a closed store") }),
            other.write(|_| -> Result<(), Error> { panic!("a closure ran on a closed store") }),
            other.stats().map(drop),
            other.reset_clock(),
            other.sync(),
            other.clone().close(),
        ];
        for answer in answers {
            assert_eq!(kind_of(answer), ErrorKind::Closed);
        }
    }
}

/// A close waits for those under way; those who come while it waits are told, so that it does not wait for ever.
#[test]
fn a_close_waits_for_the_call_under_way_and_a_call_inside_of_that_one_is_told() {
    let store = Store::in_memory().expect("a store");
    let (inside, is_inside) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let reader = {
        let store = store.clone();
        thread::spawn(move || {
            store.read(|tx| {
                inside.send(()).expect("the test listens");
                may_go_on.recv().expect("the test goes on");
                // The close has begun or not: an answer either way, and the snapshot still reads.
                let nested = store.get(NUMBERS, &1).map_err(|error| error.kind());
                Ok::<_, Error>((tx.get(NUMBERS, &1)?.is_none(), nested))
            })
        })
    };
    is_inside.recv().expect("the reader is inside");
    let (closed, is_closed) = mpsc::channel();
    let closing = {
        let store = store.clone();
        thread::spawn(move || closed.send(store.close()).expect("the test listens"))
    };
    // New calls are refused as soon as the close has begun.
    let refused = in_time("a call beside a close", {
        let store = store.clone();
        move || {
            loop {
                if let Err(error) = store.get(NUMBERS, &1) {
                    return error.kind();
                }
                thread::yield_now();
            }
        }
    });
    assert_eq!(refused, ErrorKind::Closed);
    assert!(is_closed.try_recv().is_err(), "the close did not wait for the reader");
    go_on.send(()).expect("the reader listens");
    let (snapshot_reads, nested) = reader.join().expect("no panic").expect("a read");
    assert!(snapshot_reads);
    assert_eq!(nested, Err(ErrorKind::Closed));
    is_closed
        .recv_timeout(Duration::from_secs(5))
        .expect("the close ends")
        .expect("closed");
    closing.join().expect("no panic");
}

#[test]
fn a_store_whose_file_was_replaced_answers_as_before_on_the_file_it_holds() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let old = Store::create_new(&path).expect("a new store");
    old.put(NUMBERS, &1, &1).expect("written");
    assert!(old.stats().expect("figures").is_at_its_path);
    fs::remove_file(&path).expect("removed");
    assert!(!old.stats().expect("figures").is_at_its_path);
    old.put(NUMBERS, &1, &2).expect("written to the file that it holds");
    let new = Store::create_new(&path).expect("the name is free");
    assert_eq!(
        new.get(NUMBERS, &1).expect("readable"),
        None,
        "the new file is never written by the old handle"
    );
    old.put(NUMBERS, &1, &3).expect("written");
    assert_eq!(old.get(NUMBERS, &1).expect("readable").expect("there").value, 3);
    assert_eq!(new.get(NUMBERS, &1).expect("readable"), None);
    let at_their_path = [&old, &new].map(|store| store.stats().expect("figures").is_at_its_path);
    assert_eq!(at_their_path, [false, true]);
    old.close().expect("closed");
    new.close().expect("closed");
    assert_eq!(
        Store::open(&path).expect("opened").get(NUMBERS, &1).expect("readable"),
        None
    );
}
