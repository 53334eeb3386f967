//! A store that has one of everything, for trials of what takes all of it along.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sprag::{Error, Json, Keep, Once, OnceKey, Stateless, Store, Table};

sprag::machine! {
    /// Where an order stands.
    pub enum Order: "orders" {
        New = "new",
        Packed = "packed",
        Shipped = "shipped",
    }
    initial New;
    New => Packed;
    Packed => Shipped;
}

/// A value with numbers that JSON readers like to round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub count: u64,
    pub degrees: f64,
    pub note: String,
}

pub const BALANCES: Table<u64, i64> = Table::new("balances");
pub const ORDERS: Table<u64, String, Order> = Table::new("orders");
pub const USERS: Table<str, Reading, Stateless, Json> = Table::new("users \"and\" others");
pub const PAIRS: Table<(String, [u8; 4]), u8> = Table::new("pairs");
pub const SIGNED: Table<i64, f64> = Table::new("signed").schema(7);
pub const BYTES: Table<[u8], Vec<u8>> = Table::new("bytes");

/// Fills a store, with deletes, many versions, states, and remembered keys that end and that do not.
pub fn fill(store: &Store) {
    let filled = store.write(|tx| {
        for key in 0..300u64 {
            tx.put(BALANCES, &key, &(key as i64 - 150))?;
        }
        Ok::<_, Error>(())
    });
    filled.expect("written");
    let filled = store.write(|tx| {
        for key in 0..40u64 {
            tx.put(ORDERS, &key, &format!("order {key}"))?;
        }
        let odd = Reading {
            count: u64::MAX,
            degrees: 0.1 + 0.2,
            note: "tab\t quote\" \u{1f600} \0".to_owned(),
        };
        tx.put(USERS, "ada \n lovelace", &odd)?;
        tx.put(
            USERS,
            "",
            &Reading {
                count: 1 << 53 | 1,
                ..odd
            },
        )?;
        tx.put(PAIRS, &("a,b)\\".to_owned(), [0, 255, 1, 2]), &1)?;
        tx.put(PAIRS, &(String::new(), *b"text"), &2)?;
        tx.put(SIGNED, &i64::MIN, &f64::NAN)?;
        tx.put(SIGNED, &-1, &-0.0)?;
        tx.put(BYTES, b"hex:00", &vec![0; 3000])?;
        tx.put(BYTES, &[0, 1, 0xFF], &Vec::new())?;
        Ok::<_, Error>(())
    });
    filled.expect("written");
    for _ in 0..6 {
        let again = store.write(|tx| tx.update(BALANCES, &51, |value| value.map(|value| value + 40)));
        again.expect("written");
    }
    for key in (0..300).step_by(3).filter(|key| *key != 51) {
        store.delete(BALANCES, &key).expect("deleted");
    }
    for key in 0..20 {
        let moved = store.transition(ORDERS, &key, Order::New, Order::Packed);
        moved.expect("moved").or_abort().expect("applied");
    }
    for key in 0..60u64 {
        let keep = match key % 3 {
            0 => Keep::Forever,
            1 => Keep::For(Duration::from_secs(3600 + key)),
            _ => Keep::For(Duration::from_secs(1)),
        };
        let once = OnceKey::new("payments", key.to_le_bytes(), keep);
        let once = if key % 2 == 0 {
            once.bound_to(key.to_string())
        } else {
            once
        };
        let done = store.once(&once, |tx| tx.put(BALANCES, &(1000 + key), &7).map(sprag::Version::get));
        // The records above were removed at version 1, so a new one begins at 2.
        assert_eq!(done.expect("done"), Once::First(2));
    }
}
