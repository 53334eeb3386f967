//! A thousand messages of an outbox, relayed to a broker: its stream has each of them exactly once, also if this process or the
//! broker is killed in between.
//!
//! ```text
//! nats-server --jetstream &
//! cargo run --release -p sprag-relay-nats -- [STORE URL]
//! ```
//!
//! Without arguments the store is `relay_nats.sprag` in the current folder, and the broker `nats://127.0.0.1:4222`.
//! `scripts/relay-nats` starts a broker, kills this program again and again, and looks at the count.
//!
//! Each message is published under its effect id as `Nats-Msg-Id`. JetStream remembers these for the duplicate window of the
//! stream, and drops what comes again. Beyond the window it cannot know: it must be longer than a message may be on its way,
//! from its first delivery to its last.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, context::PublishErrorKind, message::PublishMessage, stream};
use sprag::{Delivery, Handled, Keep, OnceKey, Queue, Relay, Retry, Store};

type AnyError = Box<dyn Error + Send + Sync>;

const MESSAGES: u64 = 1000;
const STREAM: &str = "ORDERS";
const SUBJECT: &str = "orders.placed";
/// Longer than `ORDERS` goes on with a message.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);

const ORDERS: Queue<String> = Queue::new("orders").retry(
    Retry::DEFAULT
        .base(Duration::from_millis(10))
        .cap(Duration::from_secs(1))
        .give_up_after(Duration::from_secs(300)),
);

/// What this run has heard of the broker.
#[derive(Default)]
struct Heard {
    taken: AtomicU64,
    dropped: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "relay_nats.sprag".to_owned());
    let url = args.next().unwrap_or_else(|| "nats://127.0.0.1:4222".to_owned());

    let store = Store::open_or_create(path)?;
    enqueue(&store).await?;
    let broker = jetstream::new(async_nats::connect(url).await?);
    let config = stream::Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        duplicate_window: DUPLICATE_WINDOW,
        ..stream::Config::default()
    };
    let mut stream = broker.get_or_create_stream(config).await?;

    println!("messages to relay: {}", unfinished(&store)?);
    let heard = Arc::new(Heard::default());
    let relay = Relay::new(&store, ORDERS).workers(8);
    let relay = {
        let heard = heard.clone();
        relay.start_async(move |delivery| publish(broker.clone(), heard.clone(), delivery))
    };
    let relay = relay.await?;
    while unfinished(&store)? > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Nothing is left for it, so this only ends its tasks.
    let _ = relay.drain(Duration::from_secs(10)).await?;
    store.close()?;

    let (taken, dropped) = (
        heard.taken.load(Ordering::Relaxed),
        heard.dropped.load(Ordering::Relaxed),
    );
    println!("taken by the broker in this run: {taken}, dropped as repeats: {dropped}");
    let messages = stream.info().await?.state.messages;
    println!("messages in the stream: {messages}");
    if messages != MESSAGES {
        return Err(format!("not exactly once, messages={messages}, expected={MESSAGES}").into());
    }
    Ok(())
}

/// Puts the messages into the queue, once, however often the program is started.
async fn enqueue(store: &Store) -> Result<(), AnyError> {
    let key = OnceKey::new("relay-nats", "orders", Keep::Forever);
    let once = store.once_async(key, |tx| {
        for number in 1..=MESSAGES {
            tx.enqueue(ORDERS, &format!("order {number}"))?;
        }
        Ok::<_, sprag::Error>(())
    });
    once.await?;
    Ok(())
}

/// How many messages are neither delivered nor dead.
fn unfinished(store: &Store) -> Result<u64, AnyError> {
    let stats = store.queue_stats(ORDERS.name())?.ok_or("no such queue")?;
    Ok(stats.ready + stats.scheduled + stats.claimed + stats.blocked)
}

/// Publishes a message, and says what is to become of it.
async fn publish(broker: jetstream::Context, heard: Arc<Heard>, delivery: Delivery<String>) -> Handled {
    // What the client is given while the broker is away it would send once it is back, and nobody would wait for the answer.
    if broker.client().connection_state() != State::Connected {
        return Handled::failed("the broker is away");
    }
    let message = PublishMessage::build()
        .payload(delivery.message.clone().into())
        .message_id(delivery.effect_id().to_string());
    let sent = match broker.send_publish(SUBJECT, message).await {
        Ok(sent) => sent,
        Err(cause) => return Handled::failed(cause),
    };
    match sent.await {
        Ok(ack) => {
            let count = if ack.duplicate { &heard.dropped } else { &heard.taken };
            count.fetch_add(1, Ordering::Relaxed);
        }
        Err(cause) if cause.kind() == PublishErrorKind::StreamNotFound => return Handled::failed(cause),
        // It may be in the stream; it is published again, and the stream knows its id.
        Err(cause) => {
            return Handled::Unknown {
                error: cause.to_string(),
            };
        }
    }
    // As if the answer had been lost: so that this example sees repeats on a good line too.
    if delivery.attempt() == 1 && delivery.id().get() % 10 == 0 {
        return Handled::Unknown {
            error: "the answer was lost".to_owned(),
        };
    }
    Handled::Done
}
