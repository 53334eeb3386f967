//! What it costs to enqueue, claim and acknowledge a message beside very many that cannot be claimed.
//!
//! For each kind of them a queue that holds so many and one that holds none, with the same options, take turns; medians of
//! each verb, and what they are of those with none. On a store in memory and on a file, which answers before the sync, since
//! a sync would hide the rest. Printed and written to `target/sprag-bench/queue-depth.json`. `SPRAG_BENCH_DIR` as in
//! `compare`; argument `--quick` for a hundredth of the messages. Takes 8 GiB of memory and 2 minutes on an idle machine with two processors.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use sprag::{Claim, Error, Level, Options, Outgoing, Queue, Settled, Store, limits};
use sprag_benches::peer::Failure;
use sprag_benches::place::{self, Place};
use sprag_benches::report;

const MAIL: Queue<String> = Queue::new("mail");
const PAYLOAD_BYTES: usize = 200;
const MANY: u64 = 1_000_000;
const KEYS: u64 = 100_000;
const LOT: u64 = 1000;
const ROUNDS: usize = 40;
const CYCLES: usize = 100;
/// Claim and acknowledgement are to stay within so many times those with none.
const TARGET: f64 = 1.5;
const VERBS: [&str; 4] = ["enqueue", "claim", "ack", "stats"];

/// What lies in the queue.
#[derive(Clone, Copy)]
struct Depth {
    name: &'static str,
    messages: u64,
    log_half_bytes: u64,
    fill: fn(&Store, u64) -> Result<(), Failure>,
    /// Ready, scheduled, blocked, dead, for so many messages.
    counts: fn(u64) -> [u64; 4],
}

const DEPTHS: [Depth; 4] = [
    Depth {
        name: "as many keys, one of them blocked by a dead letter",
        messages: KEYS,
        log_half_bytes: limits::LOG_HALF_BYTES_DEFAULT,
        fill: keys,
        counts: |messages| [messages - 1, 0, 1, 1],
    },
    Depth {
        name: "scheduled",
        messages: MANY,
        log_half_bytes: limits::LOG_HALF_BYTES_DEFAULT,
        fill: scheduled,
        counts: |messages| [0, messages, 0, 0],
    },
    Depth {
        name: "dead",
        messages: MANY,
        log_half_bytes: limits::LOG_HALF_BYTES_DEFAULT,
        fill: dead,
        counts: |messages| [0, 0, 0, messages],
    },
    Depth {
        name: "just acknowledged in the same log half",
        messages: MANY,
        log_half_bytes: limits::LOG_HALF_BYTES_MAX,
        fill: acknowledged,
        counts: |_| [0; 4],
    },
];

fn main() -> ExitCode {
    report::exit(run())
}

fn run() -> Result<(), Failure> {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let target = place::target_folder(env!("CARGO_TARGET_TMPDIR"))?;
    let place = Place::new(target)?;
    let mut found = Vec::new();
    for depth in DEPTHS {
        let messages = if quick { depth.messages / 100 } else { depth.messages };
        for on_file in [false, true] {
            let folder = place.folder("queues")?;
            let file = |name: &str| on_file.then(|| folder.join(name));
            let (many, none) = (file("many"), file("none"));
            let began = Instant::now();
            let many = open(depth, many.as_deref())?;
            (depth.fill)(&many, messages)?;
            holds(&many, (depth.counts)(messages))?;
            let filled = began.elapsed();
            let none = open(depth, none.as_deref())?;
            let where_ = if on_file { "on a file" } else { "in memory" };
            println!(
                "{messages} {}, {where_} (filled in {:.0} s)",
                depth.name,
                filled.as_secs_f64()
            );
            // Of keys, what is claimed has one, whatever was enqueued.
            let with_keys: &[bool] = if depth.messages == KEYS {
                &[true]
            } else {
                &[false, true]
            };
            for key in with_keys.iter().copied() {
                found.push(measure(&many, &none, depth.name, where_, key)?);
            }
            holds(&many, (depth.counts)(messages))?;
        }
    }
    report::save(target, "queue-depth", &json!({ "depths": found }))
}

fn open(depth: Depth, file: Option<&Path>) -> Result<Store, Failure> {
    let options = Options::new().log_half_bytes(depth.log_half_bytes);
    Ok(match file {
        Some(file) => options.level(Level::Buffered).create_new(file)?,
        None => options.in_memory()?,
    })
}

fn holds(store: &Store, counts: [u64; 4]) -> Result<(), Failure> {
    let stats = store.queue_stats(MAIL.name())?.ok_or("no queue")?;
    let found = [stats.ready, stats.scheduled, stats.blocked, stats.dead];
    if found == counts && stats.claimed == 0 {
        return Ok(());
    }
    Err(format!("the queue holds something else, expected={counts:?}, {stats:?}").into())
}

fn enqueue<'m>(store: &Store, messages: u64, wish: impl Fn(u64) -> Outgoing<'m, String>) -> Result<(), Failure> {
    for first in (0..messages).step_by(LOT as usize) {
        store.write(|tx| {
            for number in first..messages.min(first + LOT) {
                tx.enqueue(MAIL, wish(number))?;
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// Claims all that is ready, lot by lot, and answers each lot with the claim of the next.
fn answer_all(
    store: &Store,
    answer: fn(&mut sprag::WriteTx<'_>, Claim<String>) -> sprag::Result<()>,
) -> Result<(), Failure> {
    let mut held = store.claim(MAIL, LOT as usize)?;
    while !held.is_empty() {
        let write = |tx: &mut sprag::WriteTx<'_>| held.into_iter().try_for_each(|claim| answer(tx, claim));
        ((), held) = store.write_then_claim(MAIL, LOT as usize, write)?;
    }
    Ok(())
}

fn answered(settled: Settled) -> Result<(), Failure> {
    match settled {
        Settled::Done | Settled::Dead(_) => Ok(()),
        other => Err(format!("the answer of a holder came to nothing, {other:?}").into()),
    }
}

fn keys(store: &Store, messages: u64) -> Result<(), Failure> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    enqueue(store, messages, |number| {
        Outgoing::of(&payload).key(number.to_be_bytes())
    })?;
    let first = store.claim(MAIL, 1)?.pop().ok_or("nothing to claim")?;
    answered(store.bury(first, "a dead letter at the head")?)?;
    store.enqueue(MAIL, Outgoing::of(&payload).key(0_u64.to_be_bytes()))?;
    Ok(())
}

fn scheduled(store: &Store, messages: u64) -> Result<(), Failure> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    enqueue(store, messages, |number| {
        Outgoing::of(&payload).delay(Duration::from_secs(86_400 + number))
    })
}

fn dead(store: &Store, messages: u64) -> Result<(), Failure> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    enqueue(store, messages, |_| Outgoing::of(&payload))?;
    answer_all(store, |tx, claim| tx.bury(claim, "cannot be delivered").map(drop))
}

fn acknowledged(store: &Store, messages: u64) -> Result<(), Failure> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    enqueue(store, messages, |_| Outgoing::of(&payload))?;
    answer_all(store, |tx, claim| tx.ack(claim).map(drop))?;
    let stats = store.stats()?;
    if stats.checkpoint_pending || stats.checkpoints > 0 {
        return Err("a checkpoint moved what was to lie in one half".into());
    }
    Ok(())
}

/// Cycles in turns, and the table of them.
fn measure(many: &Store, none: &Store, name: &str, where_: &str, key: bool) -> Result<Value, Failure> {
    let mut times: [[Vec<Duration>; 4]; 2] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            cycles([many, none][which], key, &mut times[which])?;
        }
    }
    let medians = times.map(|verbs| verbs.map(median_us));
    let both = medians.map(|[_, claim, ack, _]| claim + ack);
    let ratio = both[0] / both[1];
    let word = if ratio <= TARGET { "met" } else { "MISSED" };
    let kind = if key { "with a key" } else { "without a key" };
    println!(
        "  a message {kind}: claim + ack {:.2} us of {:.2} us, {ratio:.2} of at most {TARGET} {word}",
        both[0], both[1]
    );
    for (verb, (many, none)) in VERBS.iter().zip(medians[0].iter().zip(medians[1])) {
        println!(
            "    {verb:8} {many:8.2} us, with none {none:8.2} us, ratio {:.2}",
            many / none
        );
    }
    Ok(json!({
        "depth": name, "where": where_, "key": key, "verbs": VERBS,
        "many_us": medians[0], "none_us": medians[1], "claim_and_ack_ratio": ratio, "met": ratio <= TARGET,
    }))
}

/// The message is due before those that are due later, and each has a key of its own, if any.
fn cycles(store: &Store, key: bool, times: &mut [Vec<Duration>; 4]) -> Result<(), Failure> {
    let payload = "y".repeat(PAYLOAD_BYTES);
    for _ in 0..CYCLES {
        let mut wish = Outgoing::of(&payload).at(SystemTime::UNIX_EPOCH);
        if key {
            wish = wish.key(format!("measured-{}", times[0].len()));
        }
        let start = Instant::now();
        store.enqueue(MAIL, wish)?;
        let enqueued = Instant::now();
        let claim = store.claim(MAIL, 1)?.pop().ok_or("nothing to claim")?;
        let claimed = Instant::now();
        answered(store.ack(claim)?)?;
        let acknowledged = Instant::now();
        store.queue_stats(MAIL.name())?;
        let looked = Instant::now();
        let took = [
            enqueued - start,
            claimed - enqueued,
            acknowledged - claimed,
            looked - acknowledged,
        ];
        for (times, took) in times.iter_mut().zip(took) {
            times.push(took);
        }
    }
    Ok(())
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
