//! A small store as a kill leaves it, with something in every region and every table of the base.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use sprag::testkit::SimDisk;
use sprag::{Error, Json, Keep, ManualClock, OnceKey, Options, Stateless, Store, Table};

use super::contents::Contents;
use crate::common::{shared, small_with};

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

pub const BLOBS: Table<u64, String> = Table::new("blobs");
pub const USERS: Table<str, u64, Stateless, Json> = Table::new("users");
pub const ORDERS: Table<u64, u64, Order> = Table::new("orders");
const COMMITS: u64 = 130;

pub struct Image {
    pub bytes: Vec<u8>,
    pub truth: Contents,
    /// What there was before the last commit.
    pub without_last: Contents,
    /// Where the frame of the last commit lies.
    pub last_frame: Range<usize>,
}

/// One clock for all, so that no key ends between two readings.
pub fn options() -> Options {
    small_with(&ManualClock::new()).checkpoints_in_line()
}

impl Image {
    pub fn new() -> Image {
        Image::of(|_| ())
    }

    /// With so many records that a branch of their tree lies below another one, each of them written twice.
    pub fn of_many_records() -> Image {
        Image::of(|store| {
            for number in 0..400 {
                let first = 1000 + (number % 200) * 30;
                let written = store.write(|tx| {
                    (first..first + 30)
                        .try_for_each(|key| tx.put(BLOBS, &key, &format!("{number} {key:0100}")).map(drop))
                });
                written.expect("written");
            }
        })
    }

    fn of(before: impl FnOnce(&Store)) -> Image {
        let disk = SimDisk::new();
        let store = options().create_on(shared(&disk)).expect("a store");
        before(&store);
        for number in 0..COMMITS - 1 {
            commit(&store, number).expect("written");
        }
        let without_last = Contents::of(&store);
        let before = disk.kill().cache_image();
        commit(&store, COMMITS - 1).expect("written");
        let stats = store.stats().expect("figures");
        assert!(stats.checkpoints >= 2 && stats.checkpoint_pending, "{stats:?}");
        assert!(stats.log_used_bytes > 0, "{stats:?}");
        let bytes = disk.kill().cache_image();
        let truth = Contents::of(&store);
        let changed = |at: &usize| bytes[*at] != before[*at];
        let first = (0..bytes.len()).find(changed).expect("a frame");
        let last = (0..bytes.len()).rfind(changed).expect("a frame");
        assert!(first > 4096 && last < 4096 + (32 << 10), "{first} {last}");
        assert!(!truth.failed() && truth != without_last);
        let again = options().open_on(Arc::new(SimDisk::from_image(bytes.clone())));
        assert!(Contents::of(&again.expect("opened")) == truth);
        Image {
            bytes,
            truth,
            without_last,
            last_frame: first..last + 1,
        }
    }
}

fn commit(store: &Store, number: u64) -> Result<(), Error> {
    store.write(|tx| {
        tx.put(BLOBS, &(number % 25), &format!("blob {number} {}", "x".repeat(300)))?;
        tx.put(USERS, &format!("user {}", number % 9), &number)?;
        tx.put(ORDERS, &(number % 12), &number)?;
        if number.is_multiple_of(3) {
            let _ = tx.transition(ORDERS, &(number % 12), Order::New, Order::Packed)?;
        }
        if number.is_multiple_of(5) {
            let _ = tx.transition(ORDERS, &(number % 12), Order::Packed, Order::Shipped)?;
        }
        if number.is_multiple_of(7) {
            tx.delete(USERS, &format!("user {}", (number + 4) % 9))?;
        }
        let keep = if number.is_multiple_of(2) {
            Keep::Forever
        } else {
            Keep::For(Duration::from_hours(number))
        };
        tx.once(&OnceKey::new("orders", format!("key {number}"), keep), |_| {
            Ok::<_, Error>(number)
        })?;
        Ok(())
    })
}
