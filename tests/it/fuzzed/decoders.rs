//! Any bytes into every decoder: a value that encodes to the same bytes again, or an error; never a panic.

use sprag::internals::filter::Filter;
use sprag::internals::segment::{Block, BlockBuilder, Catalog, decode_part, encode_part};
use sprag::internals::{Stamp, decode_frame, envelope, varint};
use sprag::{Batch, Bincode, Codec as _, DynKey, Json, Key, KeyKind};

const STAMP: Stamp = Stamp {
    marker: *b"mark",
    salt: 7,
};

/// The first byte chooses the decoder.
pub fn decode(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else {
        return;
    };
    match choice % 7 {
        0 => {
            if let Some(len) = decode_frame(STAMP, bytes) {
                assert!(len <= bytes.len());
            }
        }
        1 => {
            if let Ok(record) = envelope::decode(b"key", bytes) {
                let mut again = Vec::new();
                envelope::encode(b"key", &record, &mut again);
                assert_eq!(again, bytes);
            }
        }
        2 => {
            let mut rest = bytes;
            if let Ok(number) = varint::take(&mut rest) {
                let mut again = Vec::new();
                varint::put(&mut again, number);
                assert_eq!(again, bytes[..bytes.len() - rest.len()]);
            }
        }
        3 => keys(bytes),
        4 => batch(bytes),
        6 => segments(bytes),
        _ => {
            drop(Bincode::decode::<(String, Vec<Option<i64>>)>(bytes));
            drop(Json::decode::<Vec<(String, f64)>>(bytes));
        }
    }
}

fn keys(bytes: &[u8]) {
    if let Ok((text, number)) = <(String, u64) as Key>::decode(bytes) {
        let mut again = Vec::new();
        (text, number).encode(&mut again);
        assert_eq!(again, bytes);
    }
    for kind in ["u64", "i64", "str", "bytes", "bytes[3]", "((str,bytes),i64)"] {
        let kind: KeyKind = kind.parse().expect("a kind");
        if let Ok(key) = DynKey::decode(&kind, bytes) {
            let mut again = Vec::new();
            key.encode(&mut again);
            assert_eq!(again, bytes);
        }
    }
}

/// A block, a list, a part of a filter, a filter. What a block says in another way than it is written stays readable.
fn segments(bytes: &[u8]) {
    // Where the first key of a short last block lies.
    let first = bytes.get(7..11).unwrap_or_default();
    if let Ok(block) = Block::decode(1, first, bytes) {
        let mut again = BlockBuilder::default();
        for entry in block.entries() {
            assert_eq!(block.find(&entry.key).expect("in the block"), Some(entry.clone()));
            again.push(1, &entry);
        }
        let again = again.finish(block.next);
        let same = Block::decode(1, first, &again).expect("a block");
        assert!(same.entries().eq(block.entries()) && same.next == block.next);
    }
    if let Ok(catalog) = Catalog::decode(bytes) {
        assert_eq!(catalog.encode(), bytes);
    }
    if let Ok((parts, rest)) = decode_part(1, 0, bytes) {
        assert_eq!(encode_part(1, 0, parts, rest), bytes);
    }
    let mut filter = Filter::default();
    if filter.extend(bytes) {
        assert_eq!(filter.bytes(), bytes);
        let _ = filter.may_hold(u64::MAX);
    }
}

/// What was read as a batch is written as one that reads as the same.
fn batch(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(batch) = Batch::from_json(text, &[]) else { return };
    if let Ok(text) = batch.to_json() {
        let again = Batch::from_json(&text, &[]).expect("a batch");
        assert_eq!(again.to_json().expect("the same batch"), text);
    }
}
