//! What the trials share: stores of every sort, a watchdog, threads that start together, and short words for answers.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use sprag::testkit::SimDisk;
use sprag::{Error, ErrorKind, ManualClock, Options, QueueInfo, Store, TableInfo, Version};

/// Where the base begins in a file that was made with the defaults: behind the superblock and both halves of the log.
pub const BASE_BEGINS: usize = 4096 + 2 * sprag::limits::LOG_HALF_BYTES_DEFAULT as usize;

/// No call of a trial may take longer than this. Generous, since the machine may be busy with something else.
const WATCHDOG: Duration = Duration::from_secs(5);

/// Small log halves and a small cache, so that checkpoints happen within a test.
pub fn small() -> Options {
    Options::new().log_half_bytes(16 << 10).cache_bytes(1 << 20)
}

/// The same with a clock that only the test moves.
pub fn small_with(clock: &ManualClock) -> Options {
    small().clock(Arc::new(clock.clone()))
}

/// A disk to hand to `create_on` and `open_on`.
pub fn shared(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.clone())
}

/// A folder of the test's own, gone with the value.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// What is in a folder, hidden files too, in order.
pub fn names_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("the folder").map(|entry| {
        let entry = entry.expect("an entry");
        entry.file_name().into_string().expect("a name")
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The entries that a store without queues has once it was restored: its fences begin far above.
pub fn restored(mut entries: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries.push((vec![0, b'f'], (1_u64 << 32).to_be_bytes().to_vec()));
    entries.sort();
    entries
}

/// The identity of the store in a file.
pub fn identity_in(path: &Path) -> [u8; 16] {
    let bytes = fs::read(path).expect("the file");
    bytes[20..36].try_into().expect("16 bytes")
}

/// Says that a trial cannot be made on this machine, also where a passing test is silent.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "!! SKIPPED: {why}").expect("a stream for errors");
}

/// The kind of the error that a call must have answered.
pub fn kind_of<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("an error").kind()
}

/// The text of the error that a call must have answered, after a look at its kind.
pub fn text_of<T: std::fmt::Debug>(kind: ErrorKind, result: Result<T, Error>) -> String {
    let error = result.expect_err("an error");
    assert_eq!(error.kind(), kind, "{error:?}");
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The tables of the file, by name.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the path names the method of one lifetime, and a read needs it for all"
)]
pub fn tables(store: &Store) -> Vec<TableInfo> {
    store.read(|tx| tx.tables()).expect("readable")
}

/// The queues of a store, by name.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the path names the method of one lifetime, and a read needs it for all"
)]
pub fn queues(store: &Store) -> Vec<QueueInfo> {
    store.read(|tx| tx.queues()).expect("readable")
}

pub fn version(number: u64) -> Version {
    Version::try_from(number).expect("a version")
}

/// Runs `f` on a thread of its own, and fails if it is not done in time. A panic of `f` goes on here.
pub fn in_time<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more if the watchdog was faster.
        let _ = done.send(catch_unwind(AssertUnwindSafe(f)));
    });
    match outcome.recv_timeout(WATCHDOG) {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("{what}: not done within {WATCHDOG:?}"),
    }
}

/// Runs `f` on `count` threads that start together; gives their results in the order of their numbers.
pub fn at_once<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let barrier = Barrier::new(count);
    let (f, barrier) = (&f, &barrier);
    thread::scope(|scope| {
        let run = |number| {
            move || {
                barrier.wait();
                f(number)
            }
        };
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(run(number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread without a panic"))
            .collect()
    })
}

/// The message of a panic that `f` must end with.
pub fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else {
        panic!("no panic came out")
    };
    match panic.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(_) => panic!("another panic came out"),
    }
}

/// A place where a thread is held: a sync, say, in the observer of a simulated disk. Open at first.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    waiting: usize,
}

impl Gate {
    pub fn shut(&self) {
        self.state.lock().expect("no panic").is_shut = true;
    }

    pub fn open(&self) {
        self.state.lock().expect("no panic").is_shut = false;
        self.changed.notify_all();
    }

    /// Goes through once it is open.
    pub fn pass(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.is_shut).expect("no panic");
        state.waiting -= 1;
    }

    /// Returns once somebody is held.
    pub fn wait_for_visitor(&self) {
        let state = self.state.lock().expect("no panic");
        let (_state, timeout) = self
            .changed
            .wait_timeout_while(state, WATCHDOG, |state| state.waiting == 0)
            .expect("no panic");
        assert!(!timeout.timed_out(), "nobody came to the gate");
    }
}

/// Opens its gate when it is dropped, also by a failing assertion: who is held there must not hold up the failure.
pub struct Opens(pub Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}
