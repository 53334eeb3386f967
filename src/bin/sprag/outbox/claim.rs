//! `outbox claim`, and the verbs that answer a claim by its receipt.
//!
//! A claim is kept in the file, since this process ends with its answer. What could not be printed is given back, since nobody
//! could answer it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use sprag::{Claim, Claiming, Clock as _, CodecId, Receipt, Settled, Store, SystemClock, Unsettled};

use super::args::{BuryArgs, ClaimArgs, DeferArgs, ExtendArgs, Held, NackArgs};
use super::show::{key_text, payload, payload_text, reason_name};
use super::{Said, queue_of};
use crate::answer::{Answer, Work, time_text};
use crate::failure::Failure;
use crate::file;
use crate::json as text_json;
use crate::records::ShownValue;

/// For how long a message is held while it is answered.
const ANSWER: Duration = Duration::from_secs(30);

#[derive(Serialize)]
struct Claimed<'c> {
    id: u64,
    receipt: Option<String>,
    effect_id: String,
    attempt: u32,
    key: Option<String>,
    headers: &'c [(String, String)],
    enqueued_at: String,
    payload: ShownValue<'c>,
}

impl<'c> Claimed<'c> {
    fn new(claim: &'c Claim<Vec<u8>>, codec: CodecId, is_held: bool) -> Claimed<'c> {
        let receipt = Receipt {
            id: claim.id(),
            fence: claim.fence(),
        };
        Claimed {
            id: claim.id().get(),
            receipt: is_held.then(|| receipt.to_string()),
            effect_id: claim.effect_id().to_string(),
            attempt: claim.attempt(),
            key: claim.key().map(key_text),
            headers: claim.headers(),
            enqueued_at: time_text(claim.enqueued_at()),
            payload: payload(codec, claim.payload()),
        }
    }

    /// No field is empty, so that a shell can read them.
    fn line(&self, codec: CodecId) -> String {
        let Claimed {
            id,
            receipt,
            effect_id,
            attempt,
            key,
            headers,
            ..
        } = self;
        let receipt = receipt.as_deref().unwrap_or("none");
        let key = key.as_deref().unwrap_or("none");
        // Texts have a form as JSON.
        let headers = serde_json::to_string(headers).unwrap_or_default();
        let headers = text_json::printable(&headers);
        let payload = payload_text(codec, &self.payload);
        format!("{id}\t{receipt}\t{effect_id}\t{attempt}\t{key}\t{headers}\t{payload}")
    }
}

/// A message that was handed out, and its line.
struct Told {
    line: Answer,
    /// `None` of what is gone with its claim.
    receipt: Option<Receipt>,
}

/// The file is closed before anything is printed: whoever reads the first line may answer it at once.
pub fn claim(args: &ClaimArgs, wait: Option<Duration>, json: bool) -> Result<Answer, Failure> {
    let told = claim_in(&*file::open(&args.line.file, wait)?, args, json)?;
    let mut left = told.iter();
    while let Some(Told { line, receipt }) = left.next() {
        if let (Err(cause), Some(receipt)) = (line.write_line(json), receipt) {
            give_back(
                args,
                wait,
                std::iter::once(receipt).chain(left.flat_map(|one| &one.receipt)),
            );
            return Err(Failure::unwritten(&cause));
        }
    }
    Ok(Answer::written())
}

fn claim_in(store: &Store, args: &ClaimArgs, json: bool) -> Result<Vec<Told>, Failure> {
    let info = queue_of(store, &args.line.queue)?;
    let number = usize::try_from(args.number).unwrap_or(usize::MAX);
    let claiming = Claiming::new(number).lease(args.lease).kept_in_file();
    let is_held = !info.is_at_most_once();
    // What is gone is told of wherever there is somebody to tell.
    let work = if is_held { Work::Read } else { Work::Write };
    let claims = store.claim(&info.open(), claiming)?;
    let lines = claims.iter().map(|claim| {
        let shown = Claimed::new(claim, info.codec(), is_held);
        Answer::new(json, work, &shown, || shown.line(info.codec()))
    });
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let told = lines.into_iter().zip(claims).map(|(line, claim)| Told {
        line,
        receipt: claim.into_receipt(),
    });
    Ok(told.collect())
}

/// Where that fails, the lease ends it.
fn give_back<'r>(args: &ClaimArgs, wait: Option<Duration>, receipts: impl Iterator<Item = &'r Receipt>) {
    let Ok(store) = file::open(&args.line.file, wait) else {
        return;
    };
    let Ok(info) = queue_of(&store, &args.line.queue) else {
        return;
    };
    for receipt in receipts {
        if let Ok(Some(claim)) = store.take_up(&info.open(), *receipt, ANSWER) {
            let _ = store.release(claim);
        }
    }
}

/// What became of an answer.
#[derive(Serialize)]
struct Answered {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Answered {
    fn new(settled: Settled, receipt: Receipt) -> Result<Answered, Failure> {
        let (outcome, at, reason) = match settled {
            Settled::Done => ("done", None, None),
            Settled::Again { at } => ("again", Some(time_text(at)), None),
            Settled::Dead(reason) => ("dead", None, Some(reason_name(reason))),
            Settled::Stale => return Err(Failure::stale(receipt)),
        };
        Ok(Answered { outcome, at, reason })
    }

    fn text(&self) -> String {
        let mut text = self.outcome.to_owned();
        for (name, value) in [("at", &self.at), ("reason", &self.reason)] {
            if let Some(value) = value {
                text.push_str(&format!(" {name}={value}"));
            }
        }
        text
    }
}

/// Takes the claim of a receipt up, and answers it.
fn answer(
    store: &Store,
    held: &Held,
    json: bool,
    verb: impl FnOnce(Claim<Vec<u8>>) -> Result<Settled, Unsettled<Vec<u8>>>,
) -> Result<Answer, Failure> {
    let claim = take_up(store, held, ANSWER)?;
    let settled = verb(claim).map_err(|unsettled| {
        // Still claimed under the receipt, for another try.
        let _ = unsettled.claim.into_receipt();
        unsettled.error
    })?;
    let answered = Answered::new(settled, held.receipt)?;
    Answer::new(json, Work::Write, &answered, || answered.text())
}

fn take_up(store: &Store, held: &Held, lease: Duration) -> Result<Claim<Vec<u8>>, Failure> {
    let queue = queue_of(store, &held.line.queue)?.open();
    let claim = store.take_up(&queue, held.receipt, lease)?;
    claim.ok_or_else(|| Failure::stale(held.receipt))
}

pub fn ack(store: &Store, held: &Held, json: bool) -> Result<Answer, Failure> {
    answer(store, held, json, |claim| store.ack(claim))
}

pub fn nack(store: &Store, args: &NackArgs, json: bool) -> Result<Answer, Failure> {
    answer(store, &args.held, json, |claim| {
        store.nack(claim, args.after, &args.error)
    })
}

pub fn defer(store: &Store, args: &DeferArgs, json: bool) -> Result<Answer, Failure> {
    let until = match (args.until, args.delay) {
        (Some(until), _) => until,
        (None, delay) => from_now(delay.unwrap_or_default()),
    };
    answer(store, &args.held, json, |claim| store.defer(claim, until))
}

fn from_now(delay: Duration) -> SystemTime {
    let now_ns = SystemClock::new().sample().wall_ns;
    let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    let until_ns = now_ns.saturating_add_unsigned(delay_ns);
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(until_ns).unwrap_or(0))
}

pub fn release(store: &Store, held: &Held, json: bool) -> Result<Answer, Failure> {
    answer(store, held, json, |claim| store.release(claim))
}

pub fn bury(store: &Store, args: &BuryArgs, json: bool) -> Result<Answer, Failure> {
    answer(store, &args.held, json, |claim| store.bury(claim, &args.error))
}

pub fn extend(store: &Store, args: &ExtendArgs, json: bool) -> Result<Answer, Failure> {
    let claim = take_up(store, &args.held, args.lease)?;
    let _receipt = claim.into_receipt();
    Said::answer("extended", json)
}
