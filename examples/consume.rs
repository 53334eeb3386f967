//! A reader that can be killed at any moment and started again, and whose total is exact all the same.
//!
//! ```text
//! cargo run --release --example consume -- [STORE FEED [PAGE]]
//! ```
//!
//! Without arguments it makes `feed.txt` in the current folder, a thousand messages that sum up to 500,500, and reads that
//! into `consume.sprag`. Run it again, or kill it and run it again: the total stays.
//!
//! FEED is a text file with a message a line: an id, a space, an amount. The same id may come again, as it does from any
//! sender that retries. The reader takes PAGE messages (100 if not said) at a time, and commits their effects together with
//! its position in the feed: after a crash it goes on behind the last page that was committed, and there is no moment at
//! which effects are counted and the position is not, or the other way round. That is what makes the restart exact. A
//! message that comes again much later, on another page, is caught by its remembered key.

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use sprag::{Keep, OnceKey, Store, Table, WriteTx};

type AnyError = Box<dyn Error + Send + Sync>;

/// Where a reader stands: the byte of the feed at which its next page begins.
const POSITIONS: Table<str, u64> = Table::new("positions");
const TOTALS: Table<str, u64> = Table::new("totals");

/// Must be longer than the longest time after which a sender still retries.
const KEEP: Keep = Keep::For(Duration::from_secs(7 * 24 * 3600));

struct Message {
    id: String,
    amount: u64,
}

/// A feed to begin with, made unless it is there.
fn own_feed() -> Result<OsString, AnyError> {
    let path = "feed.txt";
    if !std::fs::exists(path)? {
        let lines: String = (1..=1000).map(|number| format!("m-{number} {number}\n")).collect();
        std::fs::write(path, lines)?;
    }
    Ok(path.into())
}

fn main() -> Result<(), AnyError> {
    let mut args = std::env::args_os().skip(1);
    let usage = "usage: consume [STORE FEED [PAGE]]";
    let (store, feed) = match args.next() {
        Some(store) => (store, args.next().ok_or(usage)?),
        None => ("consume.sprag".into(), own_feed()?),
    };
    let page = match args.next() {
        Some(text) => text.to_str().ok_or(usage)?.parse()?,
        None => 100,
    };

    let store = Store::open_or_create(store)?;
    let mut position = store.get(POSITIONS, "feed")?.map_or(0, |record| record.value);
    let mut feed = BufReader::new(File::open(feed)?);
    feed.seek(SeekFrom::Start(position))?;
    loop {
        let (messages, bytes) = next_page(&mut feed, page)?;
        if messages.is_empty() {
            break;
        }
        position += bytes;
        let total = commit(&store, &messages, position)?;
        say(&format!("position={position} total={total}"))?;
    }
    let total = store.get(TOTALS, "all")?.map_or(0, |record| record.value);
    say(&format!("done total={total}"))?;
    Ok(store.close()?)
}

/// The effects of a page and the position behind it, in one commit.
fn commit(store: &Store, messages: &[Message], position: u64) -> Result<u64, AnyError> {
    store.write(|tx| {
        for message in messages {
            let key = OnceKey::new("feed", &message.id, KEEP).bound_to(message.amount.to_le_bytes());
            tx.once(&key, |tx| count(tx, message))?;
        }
        tx.put(POSITIONS, "feed", &position)?;
        Ok(tx.get(TOTALS, "all")?.map_or(0, |record| record.value))
    })
}

/// The effect of one message.
fn count(tx: &mut WriteTx<'_>, message: &Message) -> Result<(), AnyError> {
    tx.update(TOTALS, "all", |total| Some(total.unwrap_or(0) + message.amount))?;
    Ok(())
}

/// Up to `limit` messages, and the number of bytes that they take up. A last line without its end is not there yet.
fn next_page(feed: &mut BufReader<File>, limit: usize) -> Result<(Vec<Message>, u64), AnyError> {
    let (mut messages, mut bytes) = (Vec::new(), 0);
    let mut line = String::new();
    while messages.len() < limit {
        line.clear();
        feed.read_line(&mut line)?;
        let Some(message) = line.strip_suffix('\n') else { break };
        let (id, amount) = message
            .split_once(' ')
            .ok_or_else(|| format!("not a message, line={message:?}"))?;
        messages.push(Message {
            id: id.to_owned(),
            amount: amount.parse()?,
        });
        bytes += line.len() as u64;
    }
    Ok((messages, bytes))
}

fn say(line: &str) -> Result<(), AnyError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
