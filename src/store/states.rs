//! Reading by state: which records are in a state, in key order, and how many.
//!
//! Owns no bytes: entries and counts are kept by the records (`record::states`), in the commit of the record itself.

use std::sync::Arc;

use super::Store;
use super::read::{ItemOf, PageOf, Paged, ReadTx, page_of, span_of};
use crate::codec::Keys;
use crate::engine::{Held, Merge};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::Machine;
use crate::record::{self, states};
use crate::table::catalog::TableInfo;
use crate::table::{TableSpec, in_record, no_such_state, record_of};
use crate::txn::Txn;

impl ReadTx<'_> {
    /// The records of a table that are in `state`, in the order of their keys. Sees this transaction's own writes.
    ///
    /// Costs what it gives: records in other states are not looked at. The look-up is kept in the commit that writes the
    /// record, so after a crash it says what the records say.
    ///
    /// ```
    /// # use sprag::{Error, ReadTx, Store, Table};
    /// sprag::machine! {
    ///     /// Where an order stands.
    ///     pub enum OrderState: "orders" { New = "new", Packed = "packed", Shipped = "shipped" }
    ///     initial New;
    ///     New => Packed;
    ///     Packed => Shipped;
    /// }
    /// const ORDERS: Table<u64, String, OrderState> = Table::new("orders");
    ///
    /// fn packed(tx: &ReadTx) -> Result<Vec<u64>, Error> {
    ///     tx.in_state(ORDERS, OrderState::Packed)?.map(|item| item.map(|(key, _)| key)).collect()
    /// }
    ///
    /// # fn main() -> Result<(), Error> {
    /// let store = Store::in_memory()?;
    /// for order in [903, 904, 905] {
    ///     store.put(ORDERS, &order, &"one chair".to_owned())?;
    /// }
    /// store.transition(ORDERS, &905, OrderState::New, OrderState::Packed)?.or_abort()?;
    /// store.transition(ORDERS, &903, OrderState::New, OrderState::Packed)?.or_abort()?;
    /// assert_eq!(store.read(packed)?, [903, 905]);
    /// assert_eq!(store.count_in_state(ORDERS, OrderState::New)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A table that the file does not have has no records.
    ///
    /// # Errors
    /// As [`ReadTx::get`]; `Invalid` if the table has no states or not this one. Items fail as those of [`ReadTx::scan`];
    /// one whose record is missing or in another state is `Corrupt`.
    pub fn in_state<T: TableSpec>(&self, table: T, state: T::State) -> Result<InState<'_, T>> {
        self.scan_in_state(table, state, Keys::all())
    }

    /// The records of a range that are in `state`, one by one, in the direction of the range; see [`ReadTx::in_state`].
    ///
    /// # Errors
    /// As [`ReadTx::in_state`].
    #[expect(clippy::needless_pass_by_value, reason = "a state is given as a transition takes it")]
    pub fn scan_in_state<T: TableSpec>(&self, table: T, state: T::State, keys: Keys<T::Key>) -> Result<InState<'_, T>> {
        let entries = self.entries_in_state(&table, &state, &keys)?;
        Ok(InState { table, entries })
    }

    /// At most `limit` records of a range that are in `state`, and the rest of the range. For long scans in short
    /// transactions, and for scans between whose pages the same transaction writes, as one that moves what it finds.
    ///
    /// # Errors
    /// As [`ReadTx::in_state`].
    #[expect(clippy::needless_pass_by_value, reason = "a state is given as a transition takes it")]
    pub fn in_state_page<T: TableSpec>(
        &self,
        table: T,
        state: T::State,
        keys: Keys<T::Key>,
        limit: usize,
    ) -> Result<PageOf<T>> {
        let entries = self.entries_in_state(&table, &state, &keys)?;
        page_of(InState { table, entries }, keys, limit)
    }

    /// How many records of a table are in `state`: one look-up, however many they are. 0 in a table that the file does not
    /// have.
    ///
    /// # Errors
    /// `Invalid` if the table has no states or not this one; `Schema` if it is declared otherwise in the file; `Corrupt`
    /// if the count is damaged; `Io`.
    #[expect(clippy::needless_pass_by_value, reason = "a state is given as a transition takes it")]
    pub fn count_in_state<T: TableSpec>(&self, table: T, state: T::State) -> Result<u64> {
        let info = self.resolve(&table)?;
        let state = asked_state(&table, info.as_deref(), table.state_name(&state))?;
        info.map_or(Ok(0), |info| self.count_of(&info, state))
    }

    /// How many records are in each state, in the order in which the file first heard of the states, zeros included. Empty
    /// for a table that the file does not have.
    ///
    /// A state that the file has and the program does not know is left out while no record is in it.
    ///
    /// # Errors
    /// As [`ReadTx::count_in_state`]; `Schema` if a record is in a state that the program does not know.
    pub fn state_counts<T: TableSpec>(&self, table: T) -> Result<Vec<(T::State, u64)>> {
        let mut counts = Vec::new();
        let is_new = self.resolve(&table)?.is_none();
        // The entry as it is now: what the catalogue has cached may lack states that another description added.
        let info = self.table(table.table_name())?;
        let Some((info, machine)) = info.as_ref().and_then(|info| Some((info, info.machine()?))) else {
            let declared = table.declared()?;
            if is_new && declared.machine != Some(None) {
                return Ok(counts);
            }
            let message = format!("table has no states, table={}", table.table_name());
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        for name in machine.states() {
            let count = self.count_of(info, name)?;
            match table.parse_state(Some(name)) {
                Ok(state) => counts.push((state, count)),
                Err(_) if count == 0 => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(counts)
    }

    fn count_of(&self, info: &TableInfo, state: &str) -> Result<u64> {
        states::count(&self.txn, info.id, state).map_err(|cause| {
            let message = format!(
                "cannot count the records in a state, table={:?}, state={state}",
                info.name()
            );
            cause.within(message)
        })
    }

    /// The entries of a range; `None` if there can be none.
    fn entries_in_state<T: TableSpec>(
        &self,
        table: &T,
        state: &T::State,
        keys: &Keys<T::Key>,
    ) -> Result<Option<Entries<'_>>> {
        let info = self.resolve(table)?;
        let state = asked_state(table, info.as_deref(), table.state_name(state))?;
        let Some(info) = info.filter(|_| !keys.is_empty()) else {
            return Ok(None);
        };
        let prefix = states::entry_prefix(info.id, state, 0);
        let left = self.txn.scan(&span_of(&prefix, keys))?;
        Ok(Some(Entries {
            txn: &self.txn,
            info,
            state: state.into(),
            prefix_len: prefix.len(),
            left,
            at: None,
        }))
    }
}

impl Store {
    /// How many records of a table are in `state`, in the newest durable state of the store; see
    /// [`ReadTx::count_in_state`].
    ///
    /// # Errors
    /// As [`ReadTx::count_in_state`].
    pub fn count_in_state<T: TableSpec>(&self, table: T, state: T::State) -> Result<u64> {
        self.read(|tx| tx.count_in_state(table, state))
    }
}

/// The records in one state; see [`ReadTx::in_state`].
#[must_use = "a scan reads nothing until it is iterated"]
pub struct InState<'a, T> {
    table: T,
    entries: Option<Entries<'a>>,
}

impl<T: TableSpec> Iterator for InState<'_, T> {
    type Item = Result<ItemOf<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.entries.as_mut()?.step()? {
            Ok(entry) => Some(entry.item(&self.table)),
            Err(cause) => Some(Err(cause)),
        }
    }
}

impl<T: TableSpec> Paged<T> for InState<'_, T> {
    fn step(&mut self) -> Option<Result<&[u8]>> {
        let entry = self.entries.as_mut()?.step()?;
        Some(entry.map(Entry::key))
    }

    fn item(&self) -> Option<Result<ItemOf<T>>> {
        let entry = self.entries.as_ref()?.at.as_ref()?;
        Some(entry.item(&self.table))
    }
}

/// The entries under a state that are left, each with what lies under its key.
struct Entries<'a> {
    txn: &'a Txn,
    info: Arc<TableInfo>,
    state: Arc<str>,
    prefix_len: usize,
    left: Merge<'a>,
    at: Option<Entry<'a>>,
}

struct Entry<'a> {
    info: Arc<TableInfo>,
    state: Arc<str>,
    whole_key: Vec<u8>,
    stored: Option<Held<'a>>,
}

impl<'a> Entries<'a> {
    /// Goes to the next one. An error here is one of the file, and ends the scan.
    fn step(&mut self) -> Option<Result<&Entry<'a>>> {
        self.at = None;
        let key = match self.left.step()? {
            Ok((entry_key, _)) => entry_key.get(self.prefix_len..).unwrap_or_default(),
            Err(cause) => return Some(Err(cause)),
        };
        let whole_key = self.info.record_key(key);
        match self.txn.get(&whole_key) {
            Ok(stored) => {
                let (info, state) = (self.info.clone(), self.state.clone());
                Some(Ok(self.at.insert(Entry {
                    info,
                    state,
                    whole_key,
                    stored,
                })))
            }
            Err(cause) => {
                self.left = Merge::nothing();
                Some(Err(cause))
            }
        }
    }
}

impl Entry<'_> {
    /// As encoded.
    fn key(&self) -> &[u8] {
        record::encoded_key(&self.whole_key)
    }

    /// Key and record, if the record is what the entry says.
    fn item<T: TableSpec>(&self, table: &T) -> Result<ItemOf<T>> {
        let named = |cause| in_record(&self.info, self.key(), cause);
        let damaged = |message| named(Error::new(ErrorKind::Corrupt, message));
        let state = &*self.state;
        let bytes = self.stored.as_ref();
        let bytes =
            bytes.ok_or_else(|| damaged(format!("a record that is listed in a state is missing, state={state}")))?;
        let stored = record::decode(&self.whole_key, bytes).map_err(named)?;
        if stored.state != Some(state) {
            let found = stored.state.unwrap_or("none");
            return Err(damaged(format!(
                "a record is listed in another state than its own, state={state}, found_state={found}"
            )));
        }
        let key = table.decode_key(self.key()).map_err(named)?;
        Ok((key, record_of(table, &self.info, self.key(), &stored)?))
    }
}

/// The state to look for: one that the file has, or one that the program will add with its first write.
fn asked_state<'a, T: TableSpec>(table: &T, info: Option<&TableInfo>, state: Option<&'a str>) -> Result<&'a str> {
    let unknown = || no_such_state(table.table_name(), state);
    let name = state.ok_or_else(unknown)?;
    let has = |machine: &Machine| machine.has_state(name);
    if info.and_then(TableInfo::machine).is_some_and(has) {
        return Ok(name);
    }
    let declared = table.declared()?;
    // Of a table that neither knows, no state can be said to be missing.
    match &declared.machine {
        None if info.is_none() => Ok(name),
        Some(Some(machine)) if has(machine) => Ok(name),
        _ => Err(unknown()),
    }
}
