//! A far end that counts what reaches it, beside relays whose process is killed again and again.
//!
//! The far end is the process of the test, which nobody kills. What a killed relay had sent reaches it all the same.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sprag::{Delivery, Handled, MessageState, Outgoing, Queue, Reason, Relay, Retry, Store};

use crate::common::{folder, small};
use crate::kill_loop::{CHILD_FILE, child, kill};
use crate::random::{Random, seed};

const PAYMENTS: Queue<u64> = Queue::new("payments").retry(Retry::DEFAULT.interruptions(u32::MAX));
const ALARMS: Queue<u64> = Queue::new("alarms").at_most_once();

const CHILD: &str = "outbox::far_end::a_child_relays_until_nothing_is_left";
const CHILD_FAR_END: &str = "SPRAG_KILL_FAR_END";
/// Workers of each queue: as many of its messages as a kill can meet in somebody's hands.
const PAYMENT_WORKERS: u64 = 4;
const ALARM_WORKERS: u64 = 2;
const KILLS: u64 = 50;
/// Requests after which a life is ended, at most, and what it may come to until that is done.
const LIFE_REQUESTS: u64 = 60;
const LIFE_REQUESTS_MAX: u64 = 100;
/// A payment whose handler takes its process along.
const POISON: u64 = u64::MAX;
/// Longer than anything here takes, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);

/// What reached the far end.
#[derive(Debug, Default)]
struct Books {
    requests: u64,
    /// Those behind so many are answered later: a life that is over late must not use up the work of others.
    answered_max: u64,
    /// The payment, by effect id.
    effects: HashMap<String, u64>,
    /// How often each alarm was raised.
    alarms: HashMap<u64, u64>,
    fences: HashSet<u64>,
    /// Whose call ends the far end.
    last: Option<SocketAddr>,
}

impl Books {
    /// Requests are `payment|alarm FENCE EFFECT NUMBER`.
    fn enter(&mut self, request: &str) {
        let words: Vec<_> = request.split(' ').collect();
        let [kind, fence, effect, number] = words[..] else {
            panic!("no request: {request:?}")
        };
        let number = number.parse().expect("a number");
        self.requests += 1;
        assert!(
            self.fences.insert(fence.parse().expect("a fence")),
            "two claims under one fence: {request}"
        );
        if kind == "payment" {
            let known = *self.effects.entry(effect.to_owned()).or_insert(number);
            assert_eq!(known, number, "two payments under one effect id");
        } else {
            *self.alarms.entry(number).or_default() += 1;
        }
    }
}

struct FarEnd {
    address: SocketAddr,
    books: Arc<(Mutex<Books>, Condvar)>,
    serving: JoinHandle<()>,
}

impl FarEnd {
    fn start() -> FarEnd {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let books = Books {
            answered_max: u64::MAX,
            ..Books::default()
        };
        let books = Arc::new((Mutex::new(books), Condvar::new()));
        let serving = thread::spawn({
            let books = books.clone();
            move || serve(&listener, &books)
        });
        FarEnd {
            address,
            books,
            serving,
        }
    }

    fn requests(&self) -> u64 {
        self.books.0.lock().expect("no panic").requests
    }

    fn answer_at_most(&self, requests: u64) {
        self.books.0.lock().expect("no panic").answered_max = requests;
        self.books.1.notify_all();
    }

    fn wait_for(&self, requests: u64) {
        let (books, came) = &*self.books;
        let books = books.lock().expect("no panic");
        let waited = came.wait_timeout_while(books, LONG, |books| books.requests < requests);
        let (books, timeout) = waited.expect("no panic");
        assert!(!timeout.timed_out(), "it stopped at {} requests", books.requests);
    }

    /// What reached it in all, also from those who are dead.
    fn end(self) -> Books {
        {
            let mut books = self.books.0.lock().expect("no panic");
            let line = TcpStream::connect(self.address).expect("a line");
            books.last = Some(line.local_addr().expect("an address"));
        }
        self.serving.join().expect("no panic");
        std::mem::take(&mut *self.books.0.lock().expect("no panic"))
    }
}

fn serve(listener: &TcpListener, books: &Arc<(Mutex<Books>, Condvar)>) {
    let mut lines = Vec::new();
    loop {
        let (line, from) = listener.accept().expect("a line");
        if books.0.lock().expect("no panic").last == Some(from) {
            break;
        }
        let books = books.clone();
        lines.push(thread::spawn(move || answer(line, &books)));
    }
    for line in lines {
        line.join().expect("no panic");
    }
}

fn answer(line: TcpStream, (books, came): &(Mutex<Books>, Condvar)) {
    let mut line = BufReader::new(line);
    let mut request = String::new();
    // What was cut off by a kill is no request.
    while line.read_line(&mut request).is_ok() && request.ends_with('\n') {
        let mut entered = books.lock().expect("no panic");
        entered.enter(request.trim_end());
        came.notify_all();
        let waited = came.wait_while(entered, |books| books.requests > books.answered_max);
        drop(waited.expect("no panic"));
        request.clear();
        // Nobody listens any more if it was killed meanwhile.
        if line.get_mut().write_all(b"ok\n").is_err() {
            break;
        }
    }
}

/// Asks the far end, over the line of this worker.
fn ask(far_end: SocketAddr, kind: &str, delivery: &Delivery<u64>) -> Handled {
    thread_local! {
        static LINE: RefCell<Option<BufReader<TcpStream>>> = const { RefCell::new(None) };
    }
    if delivery.message == POISON {
        std::process::abort();
    }
    let (fence, effect) = (delivery.fence(), delivery.effect_id());
    let request = format!("{kind} {fence} {effect} {}\n", delivery.message);
    let asked = LINE.with_borrow_mut(|line| {
        let line = match line {
            Some(line) => line,
            None => line.insert(BufReader::new(TcpStream::connect(far_end)?)),
        };
        line.get_mut().write_all(request.as_bytes())?;
        let mut answer = String::new();
        line.read_line(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    });
    match asked {
        Ok(answer) if answer == "ok\n" => Handled::Done,
        other => Handled::Unknown {
            error: format!("{other:?}"),
        },
    }
}

fn fill(path: &Path, numbers: u64) {
    let store = small().create_new(path).expect("a store");
    for first in (0..numbers).step_by(20) {
        let filled = store.write(|tx| {
            for number in first..(first + 20).min(numbers) {
                tx.enqueue(PAYMENTS, &number)?;
                tx.enqueue(ALARMS, &number)?;
            }
            Ok::<_, sprag::Error>(())
        });
        filled.expect("enqueued");
    }
    store.close().expect("closed");
}

/// Messages that are neither delivered nor dead.
fn left(store: &Store) -> u64 {
    let left = |name| {
        let stats = store.queue_stats(name).expect("figures").expect("the queue");
        stats.ready + stats.scheduled + stats.claimed + stats.blocked
    };
    left("payments") + left("alarms")
}

fn relay(path: &Path, far_end: SocketAddr) {
    let store = small().open(path).expect("opened by itself after a kill");
    let (said, heard) = mpsc::channel();
    let heard_alarm = said.clone();
    let payments = Relay::new(&store, PAYMENTS)
        .workers(PAYMENT_WORKERS as usize)
        .start(move |delivery| {
            let _ = said.send(());
            ask(far_end, "payment", delivery)
        });
    let alarms = Relay::new(&store, ALARMS)
        .workers(ALARM_WORKERS as usize)
        .start(move |delivery| {
            let _ = heard_alarm.send(());
            ask(far_end, "alarm", delivery)
        });
    let begun = Instant::now();
    while left(&store) > 0 {
        assert!(begun.elapsed() < LONG, "some are never delivered");
        // An answer is written down a while after it was given.
        let _ = heard.recv_timeout(Duration::from_millis(10));
    }
    assert_eq!(payments.expect("a relay").drain(LONG).left, 0);
    assert_eq!(alarms.expect("a relay").drain(LONG).left, 0);
    store.close().expect("closed");
}

/// The process that is killed below; a trial of its own if nobody tells it where the far end is.
#[test]
fn a_child_relays_until_nothing_is_left() {
    if let Ok(far_end) = std::env::var(CHILD_FAR_END) {
        // Whoever kills us may die first.
        thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(3);
        });
        println!("opening.");
        let path = std::env::var_os(CHILD_FILE).expect("a file");
        relay(path.as_ref(), far_end.parse().expect("an address"));
        return;
    }
    let folder = folder();
    let path = folder.path().join("t.sprag");
    fill(&path, 20);
    let far_end = FarEnd::start();
    relay(&path, far_end.address);
    let books = far_end.end();
    assert_eq!((books.requests, books.effects.len(), books.alarms.len()), (40, 20, 20));
}

fn start(path: &Path, far_end: &FarEnd) -> Child {
    let mut command = child(CHILD, path);
    command.env(CHILD_FAR_END, far_end.address.to_string());
    command.spawn().expect("the child starts")
}

/// Lets a relay run; says whether it came to its end.
fn live(path: &Path, far_end: &FarEnd) -> bool {
    let mut child = start(path, far_end);
    // To wait would close it, and the child would take us for dead.
    let _open = child.stdin.take();
    child.wait().expect("it is gone").success()
}

/// Starts a relay and kills it at a moment that nobody chose: while it opens, or after some requests.
fn live_and_die(path: &Path, far_end: &FarEnd, random: &mut Random) {
    let before = far_end.requests();
    far_end.answer_at_most(before + LIFE_REQUESTS_MAX);
    let mut child = start(path, far_end);
    if random.below(6) == 0 {
        let out = BufReader::new(child.stdout.as_mut().expect("its stdout"));
        let opens = out.lines().any(|line| line.expect("a line").contains("opening."));
        assert!(opens, "the child ended by itself");
    } else {
        far_end.wait_for(before + random.below(LIFE_REQUESTS));
    }
    for _ in 0..random.below(400_000) {
        std::hint::spin_loop();
    }
    kill(&mut child);
}

#[test]
fn a_far_end_that_counts_by_effect_id_sees_each_effect_once_over_fifty_kills_and_no_alarm_twice() {
    let mut random = Random::new(seed());
    let folder = folder();
    let path = folder.path().join("t.sprag");
    // Two requests each: more than all lives together get done before they are killed.
    let numbers = KILLS * LIFE_REQUESTS_MAX / 2 + 200;
    fill(&path, numbers);
    let far_end = FarEnd::start();
    for _ in 0..KILLS {
        live_and_die(&path, &far_end, &mut random);
    }
    far_end.answer_at_most(u64::MAX);
    assert!(live(&path, &far_end));
    let books = far_end.end();

    let mut paid: Vec<_> = books.effects.values().copied().collect();
    paid.sort_unstable();
    assert!(
        paid.iter().copied().eq(0..numbers),
        "a payment is lost, or has two effect ids: {}",
        paid.len()
    );
    let raised: u64 = books.alarms.values().sum();
    assert_eq!(raised, books.alarms.len() as u64, "an alarm came twice");
    let (repeats, lost) = (books.requests - numbers - raised, numbers - raised);

    let store = Store::open(&path).expect("opened");
    for name in ["payments", "alarms"] {
        let stats = store.queue_stats(name).expect("figures").expect("the queue");
        let left = [
            stats.ready,
            stats.scheduled,
            stats.claimed,
            stats.blocked,
            stats.dead,
            stats.bytes,
        ];
        assert_eq!(left, [0; 6], "{name}");
    }
    let checked = store.check().expect("a check");
    assert!(checked.is_sound(), "{checked:?}");
    let stats = store.queue_stats("payments").expect("figures").expect("the queue");
    let interrupted = stats.interruptions;
    println!("kills={KILLS} effects={numbers} repeats={repeats} interrupted={interrupted} alarms_lost={lost}");
    assert!(repeats > 0, "no kill met a request that was not acknowledged yet");
    assert!(repeats <= interrupted, "something came twice without a kill");
    assert!(interrupted <= KILLS * PAYMENT_WORKERS);
    assert!(lost <= KILLS * ALARM_WORKERS);
}

#[test]
fn a_message_that_kills_its_process_each_time_is_dead_after_its_interruptions_and_others_are_delivered_meanwhile() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = small().create_new(&path).expect("a store");
    let poison = Outgoing::of(&POISON).retry(Retry::DEFAULT.interruptions(3));
    let id = store.enqueue(PAYMENTS, poison).expect("enqueued");
    for number in 0..40 {
        store.enqueue(PAYMENTS, &number).expect("enqueued");
    }
    store.enqueue(ALARMS, &0).expect("enqueued");
    store.close().expect("closed");

    let far_end = FarEnd::start();
    let mut deaths = 0;
    while !live(&path, &far_end) {
        deaths += 1;
        if deaths == 2 {
            // Behind all but the three that it took along at first; and as many it takes along now.
            assert!(
                far_end.requests() >= 34,
                "the others wait for it, requests={}",
                far_end.requests()
            );
        }
    }
    assert_eq!(deaths, 3);
    assert_eq!(far_end.end().effects.len(), 40);
    let store = Store::open(&path).expect("opened");
    let dead = store
        .read(|tx| tx.dead_letters("payments", None, 9))
        .expect("dead letters");
    let [letter] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((letter.id, letter.state), (id, MessageState::Dead(Reason::Interrupted)));
    assert_eq!((letter.attempts, letter.interruptions, letter.failures), (3, 3, 0));
    let errors: Vec<_> = letter
        .errors
        .iter()
        .map(|error| (error.attempt(), error.text()))
        .collect();
    assert_eq!(errors, [1, 2, 3].map(|attempt| (attempt, "the store was opened anew")));
}
