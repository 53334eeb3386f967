//! `keys`, `forget`, `sweep`: what a store remembers.

use std::io::{self, IsTerminal as _};

use serde::Serialize;
use sprag::{DynKey, RememberedKey, Store, limits};

use crate::answer::{Answer, Lines, Work, span_text, time_text};
use crate::args::OnceName;
use crate::failure::Failure;
use crate::progress::Progress;

/// A remembered key as it is shown.
#[derive(Serialize)]
struct ShownKey {
    scope: String,
    key: String,
    first_at: String,
    /// How long it is kept at least; null for ever.
    left_ns: Option<u128>,
}

impl ShownKey {
    fn new(found: RememberedKey) -> ShownKey {
        ShownKey {
            key: DynKey::Bytes(found.key).to_string(),
            scope: found.scope,
            first_at: time_text(found.remembered.first_at()),
            left_ns: found.remembered.left().map(|left| left.as_nanos()),
        }
    }
}

pub fn list(store: &Store, scope: Option<&str>, json: bool) -> Result<Answer, Failure> {
    let mut lines = Lines::new(json);
    let progress = Progress::counting("keys", io::stdout().is_terminal());
    let outcome = store.read(|tx| {
        for found in tx.remembered_keys(scope)? {
            let found = found?;
            // At least so long.
            let left = found.remembered.left().map_or_else(|| "forever".to_owned(), span_text);
            let shown = ShownKey::new(found);
            let ShownKey {
                scope, key, first_at, ..
            } = &shown;
            lines.push(&shown, || format!("{scope}\t{key}\t{first_at}\t{left}"))?;
            progress.count();
        }
        Ok(())
    });
    drop(progress);
    lines.finish(outcome)
}

#[derive(Serialize)]
struct Forgot {
    outcome: &'static str,
}

pub fn forget(store: &Store, name: &OnceName, json: bool) -> Result<Answer, Failure> {
    let bytes = name.key.len();
    let max = limits::ONCE_KEY_BYTES_MAX;
    if !(1..=max).contains(&bytes) {
        let message = format!("remembered key has {bytes} bytes, bytes_min=1, bytes_max={max}");
        return Err(Failure::invalid(message));
    }
    let outcome = if store.forget(&name.scope, &name.key)? {
        "applied"
    } else {
        "already gone"
    };
    Answer::new(json, Work::Write, &Forgot { outcome }, || outcome.to_owned())
}

#[derive(Serialize)]
struct Freed {
    outcome: &'static str,
    keys: u64,
}

pub fn sweep(store: &Store, json: bool) -> Result<Answer, Failure> {
    let progress = Progress::of("sweeping");
    let swept = store.sweep();
    drop(progress);
    let freed = Freed {
        outcome: "applied",
        keys: swept?.keys,
    };
    Answer::new(json, Work::Write, &freed, || format!("applied keys={}", freed.keys))
}
