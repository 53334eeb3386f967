//! Sixteen threads, twenty thousand messages, and everything that can happen to a delivery: each message is acknowledged or dead
//! exactly once, the order within a key is never broken, and no message is held under two current fences.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sprag::{
    Bincode, Claim, Claiming, Clock as _, Codec as _, Error, MessageState, OnDead, Options, Outgoing, Queue, Reason,
    Retry, Settled, Store, SystemClock,
};

use super::secs;
use crate::common::{at_once, folder};
use crate::kill_loop::{CHILD_FILE, child};
use crate::random::{Random, seed, trials};

pub const STORM: Queue<u64> = Queue::new("storm").on_dead(OnDead::GoOn).retry(
    Retry::DEFAULT
        .failures(2)
        .interruptions(2)
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(4)),
);
pub const KEYS: u64 = 400;
pub const THREADS: usize = 16;
const LEASE: Duration = Duration::from_millis(40);

pub fn messages() -> u64 {
    trials(20_000, 200_000)
}

/// Message `number` has the key of its remainder; one in four has none.
pub fn key_of(number: u64) -> Option<u64> {
    let key = number % KEYS;
    (!key.is_multiple_of(4)).then_some(key)
}

pub fn fill(store: &Store) {
    for first in (0..messages()).step_by(200) {
        let filled = store.write(|tx| {
            for number in first..(first + 200).min(messages()) {
                let outgoing = Outgoing::of(&number);
                let outgoing = match key_of(number) {
                    Some(key) => outgoing.key(key.to_be_bytes()),
                    None => outgoing,
                };
                tx.enqueue(STORM, outgoing)?;
            }
            Ok::<_, Error>(())
        });
        filled.expect("enqueued");
    }
}

/// What is known of a message.
#[derive(Clone, Default)]
struct Known {
    /// Fence and attempt of each.
    deliveries: Vec<(u64, u32)>,
    fence: u64,
    /// Until when, at least, nobody else may have it; `None` once its holder has begun to end its claim.
    held_until: Option<u64>,
    /// An answer that may take it out of its line was begun.
    may_be_over: bool,
    acknowledged: bool,
    dead: bool,
}

struct Recorder {
    clock: SystemClock,
    known: Mutex<Vec<Known>>,
    fences: Mutex<HashSet<u64>>,
    /// Messages that must have died of their interruptions: one behind them was handed out.
    passed: Mutex<HashSet<u64>>,
    stale: AtomicU64,
    panics: AtomicU64,
}

impl Recorder {
    fn now(&self) -> u64 {
        self.clock.sample().mono_ns
    }

    fn handed_out(&self, claim: &Claim<u64>, before: u64) {
        let (now, number) = (self.now(), claim.message().expect("a number"));
        assert!(
            self.fences.lock().expect("no panic").insert(claim.fence()),
            "a fence that was given before"
        );
        let mut known = self.known.lock().expect("no panic");
        known[number as usize].deliveries.push((claim.fence(), claim.attempt()));
        if claim.fence() < known[number as usize].fence {
            // So slow to tell of it that it has lost it already.
            return;
        }
        if key_of(number).is_some() {
            for earlier in (0..number / KEYS).rev().map(|round| round * KEYS + number % KEYS) {
                let before = &known[earlier as usize];
                if !(before.acknowledged || before.dead || before.may_be_over) {
                    self.passed.lock().expect("no panic").insert(earlier);
                }
                if before.acknowledged {
                    // What is before it was looked at when it was handed out.
                    break;
                }
            }
        }
        let one = &mut known[number as usize];
        assert!(!one.acknowledged && !one.dead, "{number} is handed out after its end");
        if let Some(until) = one.held_until {
            assert!(now >= until, "{number} is held by two");
        }
        one.fence = claim.fence();
        one.held_until = Some(before + LEASE.as_nanos() as u64);
        one.may_be_over = false;
    }

    /// The holder of a fence begins to end its claim.
    fn ends(&self, claim: &Claim<u64>, may_be_over: bool) {
        let mut known = self.known.lock().expect("no panic");
        let one = &mut known[claim.message().expect("a number") as usize];
        if one.fence == claim.fence() {
            one.held_until = None;
            one.may_be_over |= may_be_over;
        }
    }

    fn told(&self, number: u64, is_ack: bool, settled: Settled) {
        let mut known = self.known.lock().expect("no panic");
        let one = &mut known[number as usize];
        match settled {
            Settled::Stale => {
                self.stale.fetch_add(1, Ordering::Relaxed);
            }
            Settled::Done if is_ack => {
                assert!(!one.acknowledged && !one.dead, "{number} ends twice");
                one.acknowledged = true;
            }
            Settled::Dead(_) => {
                assert!(!one.acknowledged && !one.dead, "{number} ends twice");
                one.dead = true;
            }
            Settled::Done | Settled::Again { .. } => {}
        }
    }
}

struct Worker<'a> {
    store: &'a Store,
    recorder: &'a Recorder,
    random: Random,
    /// Claims that are answered when others may have their messages.
    late: Vec<Claim<u64>>,
}

impl Worker<'_> {
    fn run(mut self) {
        loop {
            let claiming = Claiming::new(1 + self.random.below(8) as usize).lease(LEASE);
            let before = self.recorder.now();
            let claims = self.store.claim_wait(STORM, claiming, LEASE).expect("a claim");
            for claim in &claims {
                self.recorder.handed_out(claim, before);
            }
            let is_idle = claims.is_empty();
            for claim in claims {
                self.handle(claim);
            }
            if self.late.len() > 6 || is_idle {
                let late = std::mem::take(&mut self.late);
                for claim in late {
                    self.acknowledge(claim);
                }
            }
            let stats = self.store.queue_stats("storm").expect("a look").expect("the queue");
            if is_idle && stats.ready + stats.scheduled + stats.claimed + stats.blocked == 0 {
                return;
            }
        }
    }

    fn acknowledge(&self, claim: Claim<u64>) {
        let number = claim.message().expect("a number");
        self.recorder.ends(&claim, true);
        let settled = self.store.ack(claim).expect("answered");
        self.recorder.told(number, true, settled);
    }

    fn handle(&mut self, claim: Claim<u64>) {
        let (store, recorder) = (self.store, self.recorder);
        let number = claim.message().expect("a number");
        let may_be_over = |may| recorder.ends(&claim, may);
        let settled = match self.random.below(100) {
            0..=7 => {
                may_be_over(true);
                store.nack(claim, None, "down").expect("answered")
            }
            8 => {
                may_be_over(true);
                store.bury(claim, "no such number").expect("answered")
            }
            9..=11 => {
                may_be_over(false);
                store.release(claim).expect("answered")
            }
            12..=15 => {
                may_be_over(false);
                recorder.panics.fetch_add(1, Ordering::Relaxed);
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    let _held = claim;
                    resume_unwind(Box::new(()))
                }));
                return assert!(outcome.is_err());
            }
            16..=18 => {
                may_be_over(false);
                let kept = store.write(|tx| {
                    let settled = tx.ack(claim)?;
                    // It is undone, whatever it is, and counts only as stale.
                    recorder.told(number, false, settled);
                    tx.pause("nobody")
                });
                return assert!(kept.is_err());
            }
            19..=21 => return self.late.push(claim),
            22 => {
                claim.into_receipt().expect("a receipt");
                return;
            }
            23..=30 => {
                let before = recorder.now();
                let settled = store.extend(&claim, LEASE).expect("answered");
                recorder.told(number, false, settled);
                if settled == Settled::Done {
                    let mut known = recorder.known.lock().expect("no panic");
                    let one = &mut known[number as usize];
                    if one.fence == claim.fence() {
                        one.held_until = Some(before + LEASE.as_nanos() as u64);
                    }
                }
                return self.acknowledge(claim);
            }
            _ => return self.acknowledge(claim),
        };
        recorder.told(number, false, settled);
    }
}

#[test]
fn sixteen_threads_end_each_of_twenty_thousand_messages_once_and_in_order() {
    let folder = folder();
    let clock = SystemClock::new();
    let store = Options::new()
        .clock(Arc::new(clock))
        .create_new(folder.path().join("t.sprag"))
        .expect("a store");
    fill(&store);
    let recorder = Recorder {
        clock,
        known: Mutex::new(vec![Known::default(); messages() as usize]),
        fences: Mutex::default(),
        passed: Mutex::default(),
        stale: AtomicU64::new(0),
        panics: AtomicU64::new(0),
    };
    let seed = seed();
    at_once(THREADS, |thread| {
        let worker = Worker {
            store: &store,
            recorder: &recorder,
            random: Random::new(seed.wrapping_add(0x9e37_79b9 * thread as u64)),
            late: Vec::new(),
        };
        worker.run();
    });
    let letters = store
        .read(|tx| tx.dead_letters("storm", None, usize::MAX))
        .expect("dead letters");
    let mut reasons: HashMap<Reason, u64> = HashMap::new();
    let mut dead = HashSet::new();
    for letter in &letters {
        let MessageState::Dead(reason) = letter.state else {
            panic!("a dead letter")
        };
        *reasons.entry(reason).or_default() += 1;
        // Numbers were given in the order of the enqueues, and turns beside them: the payload says which one it is.
        let number: u64 = Bincode::decode(&letter.payload).expect("a number");
        dead.insert(number);
    }
    let known = recorder.known.into_inner().expect("no panic");
    for (number, one) in known.iter().enumerate() {
        let is_dead = dead.contains(&(number as u64));
        let mut deliveries = one.deliveries.clone();
        deliveries.sort_unstable();
        let attempts: Vec<u32> = deliveries.into_iter().map(|(_, attempt)| attempt).collect();
        assert!(
            (1..=attempts.len() as u32).eq(attempts),
            "each attempt of {number} was handed out, under a higher fence"
        );
        assert_ne!(one.acknowledged, is_dead, "{number} is acknowledged or dead");
        assert!(is_dead || !one.dead, "{number} was told to be dead");
    }
    let passed = recorder.passed.into_inner().expect("no panic");
    assert!(passed.is_subset(&dead), "one behind them was handed out");
    let stats = store.queue_stats("storm").expect("a look").expect("the queue");
    assert_eq!(
        (stats.dead, stats.stale),
        (dead.len() as u64, recorder.stale.into_inner())
    );
    println!(
        "messages={} dead={reasons:?} stale={} interruptions={}",
        messages(),
        stats.stale,
        stats.interruptions
    );
    assert!(stats.stale > 0 && stats.interruptions > 0 && recorder.panics.into_inner() > 0 && reasons.len() > 1);
    assert!(store.claim_wait(STORM, 1, secs(0)).expect("a claim").is_empty());
    assert!(store.check().expect("a check").is_sound());
}

/// What a process that is killed writes down of its deliveries, which is what a far end would see.
mod journal {
    use std::collections::{HashMap, HashSet};
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;
    use std::path::Path;

    use super::{KEYS, key_of};

    pub fn open(path: &Path) -> File {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("the journal")
    }

    /// One line in one write: a kill leaves all of it or nothing.
    pub fn note(mut journal: &File, line: &str) {
        journal.write_all(format!("{line}\n").as_bytes()).expect("written");
    }

    #[derive(Default)]
    pub struct Told {
        pub deliveries: HashMap<u64, u32>,
        pub acknowledged: HashSet<u64>,
    }

    /// Reads it and judges what it says by itself.
    pub fn judge(text: &str) -> Told {
        let (mut told, mut fences) = (Told::default(), HashSet::new());
        let (mut last, mut furthest): (HashMap<u64, (u64, u32)>, HashMap<u64, u64>) = Default::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let what = words.next().expect("a word");
            let mut numbers = words.map(|word| word.parse::<u64>().expect("a number"));
            let number = numbers.next().expect("a message");
            if what == "done" {
                assert!(told.acknowledged.insert(number), "{number} is acknowledged twice");
                continue;
            }
            let (fence, attempt) = (
                numbers.next().expect("a fence"),
                numbers.next().expect("an attempt") as u32,
            );
            assert!(
                !told.acknowledged.contains(&number),
                "{number} is delivered after its end"
            );
            assert!(fences.insert(fence), "a fence that was given before");
            let (last_fence, last_attempt) = last.insert(number, (fence, attempt)).unwrap_or_default();
            assert!(
                fence > last_fence && attempt > last_attempt,
                "fences and attempts of {number} grow"
            );
            *told.deliveries.entry(number).or_default() += 1;
            if let Some(key) = key_of(number) {
                let furthest = furthest.entry(key).or_insert(number);
                assert!(
                    number >= *furthest,
                    "{number} is delivered after {furthest}, {KEYS} keys"
                );
                *furthest = number;
            }
        }
        told
    }
}

const CHILD_THREADS: usize = 8;

/// The process that the storm below kills; a trial of its own if nobody names a file.
#[test]
fn a_child_delivers_and_writes_down_what_it_does() {
    let named = std::env::var_os(CHILD_FILE).map(std::path::PathBuf::from);
    let own = folder();
    let path = named.clone().unwrap_or_else(|| own.path().join("t.sprag"));
    let store = match &named {
        Some(path) => Store::open(path).expect("opened"),
        None => {
            let store = Store::create_new(&path).expect("a store");
            store.enqueue(STORM, &1).expect("enqueued");
            store
        }
    };
    if named.is_some() {
        // Whoever kills us may die first.
        std::thread::spawn(|| {
            let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
            std::process::exit(3);
        });
    }
    let journal = journal::open(&path.with_extension("journal"));
    let delivered = AtomicU64::new(0);
    at_once(CHILD_THREADS, |thread| {
        let mut random = Random::new(path.as_os_str().len() as u64 + thread as u64 + u64::from(std::process::id()));
        loop {
            let claims = store.claim_wait(STORM, 4, Duration::from_millis(50)).expect("a claim");
            if claims.is_empty() {
                let stats = store.queue_stats("storm").expect("a look").expect("the queue");
                if stats.ready + stats.scheduled + stats.claimed + stats.blocked == 0 {
                    return;
                }
            }
            for claim in claims {
                let number = claim.message().expect("a number");
                journal::note(
                    &journal,
                    &format!("deliver {number} {} {}", claim.fence(), claim.attempt()),
                );
                if delivered.fetch_add(1, Ordering::Relaxed).is_multiple_of(100) && named.is_some() {
                    println!("storm.");
                }
                if random.below(10) == 0 {
                    assert_ne!(store.nack(claim, None, "down").expect("answered"), Settled::Stale);
                } else {
                    assert_eq!(store.ack(claim).expect("answered"), Settled::Done);
                    journal::note(&journal, &format!("done {number}"));
                }
            }
        }
    });
    if named.is_none() {
        let told = journal::judge(&std::fs::read_to_string(path.with_extension("journal")).expect("the journal"));
        assert!(told.deliveries[&1] >= 1);
    }
}

/// Runs a child and kills it once it said so often that it delivers. Says whether it was still alive then.
fn deliver_and_die(path: &std::path::Path, said: u64) -> bool {
    use std::io::{BufRead as _, BufReader};
    let test = "outbox::storm::a_child_delivers_and_writes_down_what_it_does";
    let mut child = child(test, path).spawn().expect("the child starts");
    let out = BufReader::new(child.stdout.take().expect("its stdout"));
    let lines = out.lines().map_while(Result::ok).filter(|line| line.contains("storm."));
    let heard = lines.take(said as usize).count() as u64;
    // It may have ended by itself meanwhile.
    let _ = child.kill();
    let status = child.wait().expect("it is gone");
    assert!(
        status.success() || status.code().is_none(),
        "the child failed: {status}"
    );
    heard == said && !status.success()
}

#[test]
fn a_process_that_is_killed_while_it_delivers_ends_each_message_once_and_in_order() {
    let folder = folder();
    let path = folder.path().join("t.sprag");
    let store = Store::create_new(&path).expect("a store");
    fill(&store);
    store.close().expect("closed");
    let mut random = Random::new(seed());
    let mut kills = 0_u32;
    while deliver_and_die(&path, 1 + random.below(messages() / 600)) {
        kills += 1;
    }
    let told = journal::judge(&std::fs::read_to_string(path.with_extension("journal")).expect("the journal"));
    let store = Store::open(&path).expect("opened");
    let stats = store.queue_stats("storm").expect("a look").expect("the queue");
    assert_eq!([stats.ready, stats.scheduled, stats.claimed, stats.blocked], [0; 4]);
    assert!(store.check().expect("a check").is_sound());
    let letters = store
        .read(|tx| tx.dead_letters("storm", None, usize::MAX))
        .expect("dead letters");
    let mut not_noted = 0;
    let mut attempts: HashMap<u64, u32> = HashMap::new();
    for letter in letters {
        let number: u64 = Bincode::decode(&letter.payload).expect("a number");
        attempts.insert(number, letter.attempts);
    }
    for number in 0..messages() {
        let noted = told.deliveries.get(&number).copied().unwrap_or(0);
        let acknowledged = told.acknowledged.contains(&number);
        if let Some(attempts) = attempts.get(&number) {
            assert!(!acknowledged, "{number} is acknowledged and dead");
            assert!(noted <= *attempts, "deliveries of {number} that nobody counted");
        } else {
            assert!(noted > 0, "{number} is gone and was never delivered");
            not_noted += u64::from(!acknowledged);
        }
    }
    println!(
        "kills={kills} dead={} acknowledged_but_killed_before_the_note={not_noted}",
        attempts.len()
    );
    assert!(not_noted <= u64::from(kills) * CHILD_THREADS as u64);
    assert!(kills >= 3, "hardly ever killed");
}
