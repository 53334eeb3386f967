//! The operations of a batch as bytes, whose digest is what a remembered key is bound to.
//!
//! Each part stands behind its length, so that no two batches have the same bytes. Changing this makes repeats of batches
//! that are remembered a mismatch.

use super::operation::{Act, Operation};
use crate::codec::CodecId;

pub(super) fn canonical(operations: &[Operation]) -> Vec<u8> {
    let mut out = Vec::new();
    part(&mut out, b"batch 1");
    for operation in operations {
        let declared = &operation.table.declared;
        part(&mut out, word(&operation.act).as_bytes());
        part(&mut out, declared.name.as_bytes());
        part(&mut out, declared.key.to_string().as_bytes());
        part(&mut out, &operation.key);
        match &operation.act {
            Act::Check(condition) | Act::Delete(condition) => part(&mut out, condition.to_string().as_bytes()),
            Act::Put(condition, value) => {
                part(&mut out, condition.to_string().as_bytes());
                put_value(&mut out, declared.codec, value);
            }
            Act::Create(state, value) => {
                part(&mut out, state.as_bytes());
                put_value(&mut out, declared.codec, value);
            }
            Act::Transition { from, to, value } => {
                part(&mut out, from.as_bytes());
                part(&mut out, to.as_bytes());
                // The word says whether there is one.
                if let Some(value) = value {
                    put_value(&mut out, declared.codec, value);
                }
            }
        }
    }
    out
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
