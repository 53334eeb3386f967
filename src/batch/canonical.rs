//! The operations of a batch as bytes, whose digest is what a remembered key is bound to.
//!
//! Each part stands behind its length, so that no two batches have the same bytes. Changing this makes repeats of batches
//! that are remembered a mismatch.

use super::enqueue::Enqueue;
use super::operation::{Act, OnRecord, Operation};
use crate::codec::CodecId;
use crate::outbox::queue::When;
use crate::outbox::{OnDead, Retry};

pub(super) fn canonical(operations: &[Operation]) -> Vec<u8> {
    let mut out = Vec::new();
    part(&mut out, b"batch 1");
    for operation in operations {
        match operation {
            Operation::Record(record) => put_on_record(&mut out, record),
            Operation::Enqueue(enqueue) => put_enqueue(&mut out, enqueue),
        }
    }
    out
}

fn put_on_record(out: &mut Vec<u8>, record: &OnRecord) {
    let declared = &record.table.declared;
    part(out, word(&record.act).as_bytes());
    part(out, declared.name.as_bytes());
    part(out, declared.key.to_string().as_bytes());
    part(out, &record.key);
    match &record.act {
        Act::Check(condition) | Act::Delete(condition) => part(out, condition.to_string().as_bytes()),
        Act::Put(condition, value) => {
            part(out, condition.to_string().as_bytes());
            put_value(out, declared.codec, value);
        }
        Act::Create(state, value) => {
            part(out, state.as_bytes());
            put_value(out, declared.codec, value);
        }
        Act::Transition { from, to, value } => {
            part(out, from.as_bytes());
            part(out, to.as_bytes());
            // The word says whether there is one.
            if let Some(value) = value {
                put_value(out, declared.codec, value);
            }
        }
    }
}

/// What is not said of a message has no part. What is said stands behind its name, which is none of the words of operations, so
/// that the end needs no mark.
fn put_enqueue(out: &mut Vec<u8>, enqueue: &Enqueue) {
    let Enqueue { queue, terms, payload } = enqueue;
    let promise = if queue.at_most_once {
        "at most once"
    } else {
        "at least once"
    };
    for text in ["enqueue", &queue.name, promise] {
        part(out, text.as_bytes());
    }
    put_value(out, queue.codec, payload);
    if let Some(key) = &terms.key {
        part(out, b"key");
        part(out, key);
    }
    match terms.when {
        When::Now => {}
        When::After(delay_ns) => put_number(out, "after", delay_ns),
        When::At(time_ns) => put_number(out, "at", time_ns),
    }
    if let Some(time_ns) = terms.expires_ns {
        put_number(out, "expires", time_ns);
    }
    for (name, text) in &terms.headers {
        for text in ["header", name, text] {
            part(out, text.as_bytes());
        }
    }
    if queue.retry != Retry::DEFAULT {
        put_retry(out, &queue.retry);
    }
    if queue.on_dead == OnDead::GoOn {
        part(out, b"go on");
    }
}

fn put_retry(out: &mut Vec<u8>, retry: &Retry) {
    part(out, b"retry");
    part(out, retry.base_delay().as_nanos().to_string().as_bytes());
    part(out, retry.delay_max().as_nanos().to_string().as_bytes());
    part(out, retry.failures_max().to_string().as_bytes());
    part(out, retry.interruptions_max().to_string().as_bytes());
    let age = retry.age_max().map(|age| age.as_nanos().to_string());
    part(out, age.as_deref().unwrap_or("never").as_bytes());
}

fn put_number(out: &mut Vec<u8>, name: &str, number: impl ToString) {
    part(out, name.as_bytes());
    part(out, number.to_string().as_bytes());
}

fn word(act: &Act) -> &'static str {
    match act {
        Act::Check(_) => "check",
        Act::Put(..) => "put",
        Act::Create(..) => "create",
        Act::Delete(_) => "delete",
        Act::Transition { value: None, .. } => "transition",
        Act::Transition { value: Some(_), .. } => "transition with",
    }
}

/// The same bytes of another codec are another value.
fn put_value(out: &mut Vec<u8>, codec: CodecId, value: &[u8]) {
    part(out, codec.to_string().as_bytes());
    part(out, value);
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}
