//! The five ways in which the demo handles the same message: "the balance grows by 40, from 100 to 140".
//!
//! Owns the tables, what a delivery does in each, and what must be stored after it. Each record begins at 100 and version
//! 7; after one delivery it must be at 140 and version 8.

use sprag::{
    Condition, Error, Json, Keep, Once, OnceKey, Result, Stateless, Store, Table, Transitioned, Why, WriteTx, Written,
};

use crate::failure::Failure;

sprag::machine! {
    /// Where an order stands.
    pub enum Order: "orders" {
        New = "new",
        Packed = "packed",
        Shipped = "shipped",
        Delivered = "delivered",
    }
    initial New;
    New => Packed;
    Packed => Shipped;
    Shipped => Delivered;
}

type Balances = Table<str, i64, Stateless, Json>;

const NONE: Balances = Table::new("none");
const SET: Balances = Table::new("set");
const REMEMBERED_KEY: Balances = Table::new("remembered key");
const CONDITIONAL_WRITE: Balances = Table::new("conditional write");
const STATE_MACHINE: Table<str, i64, Order, Json> = Table::new("state machine");

/// What is stored of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    pub amount: i64,
    pub version: u64,
}

/// Before the first delivery.
pub const BEFORE: Balance = Balance {
    amount: 100,
    version: 7,
};
/// After exactly one delivery.
const AFTER: Balance = Balance {
    amount: 140,
    version: 8,
};
/// What the message adds.
const ADDED: i64 = 40;
/// How long the demo remembers its messages.
const KEEP: Keep = Keep::For(std::time::Duration::from_secs(7 * 24 * 3600));

/// How a message is made safe to be handled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    None,
    Set,
    RememberedKey,
    ConditionalWrite,
    StateMachine,
}

impl Technique {
    pub const ALL: [Technique; 5] = [
        Technique::None,
        Technique::Set,
        Technique::RememberedKey,
        Technique::ConditionalWrite,
        Technique::StateMachine,
    ];

    /// Also the name of its table.
    pub fn name(self) -> &'static str {
        match self {
            Technique::None => NONE.name(),
            Technique::Set => SET.name(),
            Technique::RememberedKey => REMEMBERED_KEY.name(),
            Technique::ConditionalWrite => CONDITIONAL_WRITE.name(),
            Technique::StateMachine => STATE_MACHINE.name(),
        }
    }

    pub fn from_name(name: &str) -> Option<Technique> {
        Technique::ALL.into_iter().find(|technique| technique.name() == name)
    }

    /// What it does, in a line.
    pub fn explained(self) -> &'static str {
        match self {
            Technique::None => "adds 40 in a transaction, and every delivery adds again: wrong on purpose",
            Technique::Set => "the message says 140 instead of \"add 40\", so saying it again changes nothing",
            Technique::RememberedKey => "adds 40 and remembers the name of the message, both in one commit",
            Technique::ConditionalWrite => "writes 140 only over version 7, which is gone once it was written",
            Technique::StateMachine => "moves the order from packed to shipped, and refuses messages out of order",
        }
    }

    /// Brings a new record to [`BEFORE`] by seven writes, and reads it back.
    pub fn prepare(self, store: &Store, key: &str) -> Result<Balance> {
        store.write(|tx: &mut WriteTx<'_>| match self.balances() {
            Some(table) => (94..=BEFORE.amount).try_for_each(|amount| tx.put(table, key, &amount).map(drop)),
            None => {
                (95..=BEFORE.amount).try_for_each(|amount| tx.put(STATE_MACHINE, key, &amount).map(drop))?;
                tx.transition(STATE_MACHINE, key, Order::New, Order::Packed)?
                    .or_abort()
                    .map(drop)
            }
        })?;
        self.read(store, key)
    }

    /// Handles the message once. That a repeat is told something else than the first makes no difference here.
    pub fn deliver(self, store: &Store, key: &str) -> Result<()> {
        match self {
            Technique::None => store.write(|tx| add(tx, NONE, key)),
            Technique::Set => store.put(SET, key, &AFTER.amount).map(drop),
            Technique::RememberedKey => {
                let name = OnceKey::new("demo", key, KEEP).bound_to(ADDED.to_le_bytes());
                match store.once(&name, |tx| add(tx, REMEMBERED_KEY, key))? {
                    Once::First(()) | Once::Repeat { .. } => Ok(()),
                }
            }
            Technique::ConditionalWrite => {
                let seen = Condition::Version(BEFORE.version);
                match store.put_if(CONDITIONAL_WRITE, key, seen, &AFTER.amount)? {
                    Written::Applied(_) | Written::Unchanged(_) => Ok(()),
                    lost @ Written::Conflict(_) => lost.or_abort().map(drop),
                }
            }
            Technique::StateMachine => store.write(|tx| {
                let moved = tx.transition_with(STATE_MACHINE, key, Order::Packed, Order::Shipped, &AFTER.amount)?;
                moved.or_abort().map(drop)
            }),
        }
    }

    /// Sends "delivered" before "shipped". True if it was refused as too early; others than the machine have no order.
    pub fn refuses_too_early(self, store: &Store, key: &str) -> Result<bool> {
        self.refuses(store, key, (Order::Shipped, Order::Delivered), Why::Early)
    }

    /// Sends "packed" after "shipped". True if it was refused as too late.
    pub fn refuses_too_late(self, store: &Store, key: &str) -> Result<bool> {
        self.refuses(store, key, (Order::New, Order::Packed), Why::Late)
    }

    fn refuses(self, store: &Store, key: &str, (from, to): (Order, Order), why: Why) -> Result<bool> {
        if self != Technique::StateMachine {
            return Ok(true);
        }
        let moved = store.transition(STATE_MACHINE, key, from, to)?;
        Ok(matches!(moved, Transitioned::Refused(refusal) if refusal.why == why))
    }

    /// What is stored now.
    pub fn read(self, store: &Store, key: &str) -> Result<Balance> {
        let found = match self.balances() {
            Some(table) => store.get(table, key)?.map(|record| (record.value, record.version)),
            None => store
                .get(STATE_MACHINE, key)?
                .map(|record| (record.value, record.version)),
        };
        // Nothing removes a record here, so this is what a wrong row shows.
        Ok(
            found.map_or(Balance { amount: 0, version: 0 }, |(amount, version)| Balance {
                amount,
                version: version.get(),
            }),
        )
    }

    /// What must be stored after so many deliveries; of `none`, how wrong it must be.
    pub fn expected(self, deliveries: u32) -> Balance {
        if self != Technique::None {
            return AFTER;
        }
        let amount = BEFORE.amount + ADDED * i64::from(deliveries);
        Balance {
            amount,
            version: BEFORE.version + u64::from(deliveries),
        }
    }

    /// Its table, if the records of that have no state.
    fn balances(self) -> Option<Balances> {
        match self {
            Technique::None => Some(NONE),
            Technique::Set => Some(SET),
            Technique::RememberedKey => Some(REMEMBERED_KEY),
            Technique::ConditionalWrite => Some(CONDITIONAL_WRITE),
            Technique::StateMachine => None,
        }
    }
}

/// The work that is not safe to be done again by itself.
fn add(tx: &mut WriteTx<'_>, table: Balances, key: &str) -> Result<(), Error> {
    tx.update(table, key, |amount| Some(amount.unwrap_or(0) + ADDED))
        .map(drop)
}

/// A technique by the name that a child process is given.
pub fn named(name: &str) -> Result<Technique, Failure> {
    Technique::from_name(name).ok_or_else(|| Failure::invalid(format!("there is no such technique, technique={name}")))
}
