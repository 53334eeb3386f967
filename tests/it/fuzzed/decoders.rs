//! Any bytes into every decoder: a value that encodes to the same bytes again, or an error; never a panic.

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
    match choice % 6 {
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

/// What was read as a batch is written as one that reads as the same.
fn batch(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(batch) = Batch::from_json(text, &[]) else { return };
    if let Ok(text) = batch.to_json() {
        let again = Batch::from_json(&text, &[]).expect("a batch");
        assert_eq!(again.to_json().expect("the same batch"), text);
    }
}
