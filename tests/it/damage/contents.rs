//! All that a store has, read in every way it can be read.

use std::collections::BTreeMap;

use sprag::{Error, Keys, ReadTx, Remembered, Store, Table};

use super::image::{BLOBS, ORDERS, Order, USERS};

/// What was read, by what was asked; and what answered an error.
#[derive(PartialEq, Eq, Default)]
pub struct Contents {
    given: BTreeMap<String, String>,
    /// Not checked by a checksum of its own.
    counts: BTreeMap<&'static str, u64>,
    errors: Vec<String>,
}

impl Contents {
    pub fn of(store: &Store) -> Contents {
        let mut all = Contents::default();
        let read = store.read(|tx| {
            all.scans(tx);
            all.records(tx);
            all.states(tx);
            all.keys(tx);
            Ok::<_, Error>(())
        });
        all.note("read", read);
        all
    }

    pub fn failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// What is given is what was there.
    pub fn has_nothing_wrong(&self, truth: &Contents) {
        for (asked, given) in &self.given {
            let right = truth.given.get(asked);
            assert!(
                right == Some(given),
                "a wrong value was given, asked={asked}, given={given}, right={right:?}"
            );
        }
    }

    pub fn lacks(&self, truth: &Contents) -> String {
        let missing = truth.given.keys().filter(|asked| !self.given.contains_key(*asked));
        format!("{:?}, counts={:?}", missing.collect::<Vec<_>>(), self.counts)
    }

    fn note<T>(&mut self, asked: &str, read: Result<T, Error>) -> Option<T> {
        read.map_err(|error| self.errors.push(format!("{asked}: {error:?}")))
            .ok()
    }

    fn give(&mut self, asked: String, given: String) {
        self.given.insert(asked, given);
    }

    /// By tables that are known from the file only.
    fn scans(&mut self, tx: &ReadTx<'_>) {
        for info in self.note("tables", tx.tables()).unwrap_or_default() {
            let table = info.open();
            self.give(format!("table {}", info.name()), format!("{info:?}"));
            let Some(items) = self.note("scan", tx.scan(&table, Keys::all())) else {
                continue;
            };
            for item in items {
                if let Some((key, record)) = self.note("item", item) {
                    self.give(format!("{} {key}", info.name()), format!("{record:?}"));
                }
            }
        }
    }

    /// One by one.
    fn records(&mut self, tx: &ReadTx<'_>) {
        for key in 0..25 {
            self.record(&format!("get blob {key}"), tx.get(BLOBS, &key));
            self.record(&format!("get order {key}"), tx.get(ORDERS, &key));
            self.record(&format!("get user {key}"), tx.get(USERS, &format!("user {key}")));
        }
    }

    fn record<R: std::fmt::Debug>(&mut self, asked: &str, read: Result<Option<R>, Error>) {
        if let Some(Some(record)) = self.note(asked, read) {
            self.give(asked.to_owned(), format!("{record:?}"));
        }
    }

    fn states(&mut self, tx: &ReadTx<'_>) {
        let table: Table<u64, u64, Order> = ORDERS;
        for (name, state) in [
            ("new", Order::New),
            ("packed", Order::Packed),
            ("shipped", Order::Shipped),
        ] {
            if let Some(count) = self.note("count", tx.count_in_state(table, state)) {
                self.counts.insert(name, count);
            }
            let Some(items) = self.note("in state", tx.in_state(table, state)) else {
                continue;
            };
            for item in items {
                if let Some((key, record)) = self.note("item in state", item) {
                    self.give(format!("in state {name} {key}"), format!("{record:?}"));
                }
            }
        }
    }

    fn keys(&mut self, tx: &ReadTx<'_>) {
        for number in 0..130 {
            let key = format!("key {number}");
            let found = tx.remembered("orders", &key);
            self.record(&format!("look up {key}"), found.map(|found| found.as_ref().map(text)));
        }
        let Some(keys) = self.note("keys", tx.remembered_keys(None)) else {
            return;
        };
        for key in keys {
            if let Some(found) = self.note("key", key) {
                self.give(
                    format!("listed {}/{}", found.scope, found.key.escape_ascii()),
                    text(&found.remembered),
                );
            }
        }
    }
}

fn text(found: &Remembered) -> String {
    format!("{found:?} {:?} {:?}", found.result_bytes(), found.left())
}
