//! Orders and the payments that they ask for, over a line that breaks: each payment is made exactly once.
//!
//! ```text
//! cargo run --release --example relay_http -- [STORE URL]
//! ```
//!
//! Without arguments it keeps its store in `relay_http.sprag`, in the current folder, and starts a far end of its own, on a port
//! of this machine: one that now and then hangs up before it reads a request, hangs up after it has done what was asked, or
//! has no time. Kill it and run it again, as often as you like. With a URL it posts to a far end of yours.
//!
//! Three things make it exact. The order and its message are one commit, so there is no order without a message and no message
//! without an order. A message stays until its delivery is acknowledged, so none is lost. And each delivery of it carries the
//! same effect id, so that the far end knows what it has done already.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use sprag::{Condition, Delivery, Handled, Queue, Relay, Retry, Store, Table, Written};

type AnyError = Box<dyn Error + Send + Sync>;

/// What each order costs, by its number.
const ORDERS: Table<u64, u64> = Table::new("orders");
/// The payments to ask for: what to post.
const PAYMENTS: Queue<String> = Queue::new("payments").retry(
    // Sooner than one would ask a far end that is not one's own.
    Retry::DEFAULT.base(Duration::from_millis(10)),
);

const ORDER_COUNT: u64 = 200;

fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: relay_http [STORE URL]";
    let (path, url) = match args.next() {
        Some(path) => (path, Some(args.next().ok_or(usage)?)),
        None => ("relay_http.sprag".to_owned(), None),
    };
    let (own, url) = match url {
        Some(url) => (None, url),
        None => {
            let (own, url) = FarEnd::start()?;
            (Some(own), url)
        }
    };

    let store = Store::open_or_create(path)?;
    let placed = place_orders(&store)?;
    let waiting = unfinished(&store)?;
    println!("orders placed: {placed}, payments to ask for: {waiting}");

    let agent = agent();
    let relay = Relay::new(&store, PAYMENTS)
        .workers(4)
        .start(move |delivery| post(&agent, &url, delivery))?;
    while unfinished(&store)? > 0 {
        thread::sleep(Duration::from_millis(10));
    }
    // Nothing is left for it, so this only ends its threads.
    let _ = relay.drain(Duration::from_secs(10));
    let dead = store.queue_stats(PAYMENTS.name())?.map_or(0, |stats| stats.dead);
    store.close()?;
    println!("dead letters: {dead}");
    own.map_or(Ok(()), |far_end| far_end.judge(waiting, dead))
}

/// Places each order, unless an earlier run did.
fn place_orders(store: &Store) -> Result<u64, AnyError> {
    let mut placed = 0;
    for number in 1..=ORDER_COUNT {
        let price = number * 10;
        placed += store.write(|tx| {
            let written = tx.put_if(ORDERS, &number, Condition::Absent, &price)?;
            // The order says whether its message was enqueued: they are one commit.
            let Written::Applied(_) = written else {
                return Ok(0);
            };
            tx.enqueue(PAYMENTS, &format!("order={number}&amount={price}"))?;
            Ok::<_, AnyError>(1)
        })?;
    }
    Ok(placed)
}

/// How many messages are neither delivered nor dead.
fn unfinished(store: &Store) -> Result<u64, AnyError> {
    let Some(stats) = store.queue_stats(PAYMENTS.name())? else {
        return Ok(0);
    };
    Ok(stats.ready + stats.scheduled + stats.claimed + stats.blocked)
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        // A status is an answer; only what happened to the line is an error.
        .http_status_as_error(false)
        // A far end that says nothing must not hold up a worker for ever.
        .timeout_global(Some(Duration::from_secs(5)))
        .proxy(None);
    config.build().into()
}

/// Asks for one payment, and says what is to become of its message.
fn post(agent: &ureq::Agent, url: &str, delivery: &Delivery<String>) -> Handled {
    let request = agent
        .post(url)
        .header("Idempotency-Key", delivery.effect_id().to_string());
    let response = match request.send(&delivery.message) {
        Ok(response) => response,
        // The line broke, perhaps behind the far end's work. It is asked again, and knows the effect id.
        Err(cause) => {
            return Handled::Unknown {
                error: cause.to_string(),
            };
        }
    };
    let status = response.status();
    let after = response.headers().get("Retry-After");
    let after = after.and_then(|text| text.to_str().ok()?.parse().ok());
    match status.as_u16() {
        200..=299 => Handled::Done,
        // It has no time, and may have said when to come again.
        429 | 503 => Handled::Retry {
            after: after.map(Duration::from_secs),
            error: status.to_string(),
        },
        // What it refuses now it would refuse for ever.
        400..=499 => Handled::Dead {
            reason: status.to_string(),
        },
        _ => Handled::Unknown {
            error: status.to_string(),
        },
    }
}

/// What a far end has to do for its part: know what it has done, by the id that the request carries.
#[derive(Clone, Default)]
struct FarEnd(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    requests: u64,
    /// What was paid, by effect id.
    paid: HashMap<String, u64>,
}

impl FarEnd {
    /// Answers on a port of its own, whose URL it gives, as long as the process lives.
    fn start() -> Result<(FarEnd, String), AnyError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/payments", listener.local_addr()?);
        let far_end = FarEnd::default();
        let own = far_end.clone();
        thread::spawn(move || {
            for line in listener.incoming() {
                let far_end = far_end.clone();
                // Whatever breaks a line is for the other side to cope with.
                thread::spawn(move || far_end.answer(&line?));
            }
        });
        Ok((own, url))
    }

    fn books(&self) -> Result<MutexGuard<'_, Books>, AnyError> {
        self.0.lock().map_err(|_| "a panic before".into())
    }

    fn answer(&self, line: &TcpStream) -> Result<(), AnyError> {
        let number = {
            let mut books = self.books()?;
            books.requests += 1;
            books.requests
        };
        if number % 7 == 0 {
            return Ok(()); // hangs up before it has read anything
        }
        let (id, body) = read_request(line)?;
        if number % 11 == 0 {
            return reply(line, "503 Service Unavailable\r\nRetry-After: 1");
        }
        let Some((_, amount)) = body.rsplit_once("amount=") else {
            return reply(line, "400 Bad Request");
        };
        let amount = amount.parse()?;
        // An effect that it knows changes nothing, and is answered as it was the first time.
        self.books()?.paid.entry(id).or_insert(amount);
        if number % 5 == 0 {
            return Ok(()); // hangs up, and what was asked is done
        }
        reply(line, "204 No Content")
    }

    /// Whether each of so many payments was made exactly once.
    fn judge(&self, expected: u64, dead: u64) -> Result<(), AnyError> {
        let books = self.books()?;
        let (requests, effects) = (books.requests, books.paid.len() as u64);
        let paid: u64 = books.paid.values().sum();
        println!("requests: {requests}, effects: {effects}, each counted once, paid: {paid}");
        if effects == expected && dead == 0 {
            return Ok(());
        }
        Err(format!("not exactly once, expected={expected}, effects={effects}, dead={dead}").into())
    }
}

/// The idempotency key and the body of a request.
fn read_request(line: &TcpStream) -> Result<(String, String), AnyError> {
    let mut reader = BufReader::new(line);
    let (mut key, mut length) = (None, 0);
    loop {
        let mut text = String::new();
        reader.read_line(&mut text)?;
        let Some((name, value)) = text.trim_end().split_once(": ") else {
            // The request line has no colon and a blank; the empty line ends the head.
            if text.trim_end().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = Some(value.to_owned()),
            "content-length" => length = value.parse()?,
            _ => {}
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    Ok((key.ok_or("a request without an idempotency key")?, body))
}

fn reply(mut line: &TcpStream, status: &str) -> Result<(), AnyError> {
    Ok(write!(
        line,
        "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?)
}
