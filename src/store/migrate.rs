//! Migrating a table: one run in which everything is tried, then commits until the table has its new shape.

use super::Store;
use super::inside::{self, Inside};
use super::read::ReadTx;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::table::migrate::Migrate;
use crate::table::{Record, TableSpec};

impl Store {
    /// Gives every record of a table the value and state that `f` makes of it, and the table the codec, schema number and
    /// machine of `new`. Answers how many records this call rewrote.
    ///
    /// `old` and `new` describe one table with one kind of key; the schema number rises. (For other keys copy the records
    /// into a table of another name.) Each record gets its next version, as by any other write. A state that `new` does not
    /// have leaves the machine of the file with this, and with nothing else.
    ///
    /// Call it at every start, before the first use of the table, one call for each step from an older number:
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use sprag::{Json, Stateless, Store, Table};
    ///
    /// // As the program was, and as it is: an amount got its currency, and values are text now.
    /// #[derive(Serialize, Deserialize)]
    /// struct Amount(i64);
    /// #[derive(Serialize, Deserialize, Debug, PartialEq)]
    /// struct Money {
    ///     cents: i64,
    ///     currency: String,
    /// }
    /// const OLD: Table<u64, Amount> = Table::new("balances");
    /// const BALANCES: Table<u64, Money, Stateless, Json> = Table::new("balances").schema(1);
    ///
    /// fn with_currency(_key: &u64, record: sprag::Record<Amount>) -> sprag::Result<(Money, ())> {
    ///     let cents = record.value.0 * 100;
    ///     Ok((Money { cents, currency: "EUR".into() }, ()))
    /// }
    ///
    /// fn main() -> sprag::Result<()> {
    ///     let store = Store::in_memory()?;
    ///     store.put(OLD, &51, &Amount(140))?;
    ///     assert_eq!(store.migrate(OLD, BALANCES, with_currency)?, 1);
    ///     assert_eq!(store.migrate(OLD, BALANCES, with_currency)?, 0); // it is done
    ///     let record = store.get(BALANCES, &51)?.expect("it was written");
    ///     assert_eq!(record.value, Money { cents: 14_000, currency: "EUR".into() });
    ///     assert_eq!(record.version.get(), 2);
    ///     store.close()
    /// }
    /// ```
    ///
    /// # Outcomes
    /// `Ok(n)`: the table has the shape of `new`, or a later schema number. `Ok(0)` also if there is no such table: none is
    /// made, and none of its records were there to be rewritten.
    ///
    /// `f` runs about twice for each record, so it must make the same of the same record each time, and do nothing else; least
    /// of all look into the table itself, which from the second commit on answers `Schema` to it as well. It runs first
    /// on all of them on a snapshot, with all that could be refused of what it makes, then again in the commits, up to 256
    /// records in each, while other writers wait. What fails in the first run changes nothing. A record that somebody else
    /// writes between that run and the first commit is new to the second one.
    ///
    /// From the first commit to the last, every other use of the table answers `Schema`; snapshots that began before still
    /// read it with `old`. Uses of other tables go on. A table given to [`Options::declare`](crate::Options::declare) is
    /// compared when the store is opened, before this could be called: declare no table that is to be migrated.
    ///
    /// # After a crash
    /// Each commit holds the records that it rewrote and the mark behind which the next one begins. Until this is called again
    /// with the same two tables, the table answers `Schema`; then it goes on behind the mark, so every record is rewritten
    /// once. The same after an error of a commit.
    ///
    /// # Errors
    /// `Invalid` if the two tables do not differ as said, or inside a write of the same store. `Schema` if the table in the
    /// file is like neither, or is being migrated to something else. What `f` returns, as it is: `f` has the key. With the
    /// record named: `Decode`, `Corrupt`, `TooLarge`, and `Invalid` for a value that would not come back. As
    /// [`Store::write`] for the commits.
    pub fn migrate<O, N, E>(
        &self,
        old: O,
        new: N,
        mut f: impl FnMut(&O::OwnedKey, Record<O::Value, O::State>) -> Result<(N::Value, N::State), E>,
    ) -> Result<u64, E>
    where
        O: TableSpec + Copy,
        N: TableSpec<Key = O::Key, OwnedKey = O::OwnedKey> + Copy,
        E: From<Error>,
    {
        inside::refuse_in_write(self.inner.id, "migrate")?;
        let bytes_max = self.with_engine("migrate", Engine::commit_bytes_max)?;
        let migrate = Migrate::new(old, new, self.inner.verify_values, bytes_max)?;
        // It could see its own table change under it, and fail in the middle for good.
        let mut f = |key: &O::OwnedKey, record| {
            let _inside = inside::enter(self.inner.id, Inside::Migrate);
            f(key, record)
        };
        let mut is_under_way = self.read(|tx| rehearse(tx, &migrate, &mut f))?;
        let mut rewritten = 0;
        while is_under_way {
            is_under_way = self.write(|tx| {
                // Asked each time: another thread may be at the same migration, or have ended it.
                let Some(standing) = migrate.standing(tx.txn_mut())? else {
                    return Ok(false);
                };
                self.inner.catalog.entries_change();
                let rewrote = migrate.page(tx.txn_mut(), standing, &mut f)?;
                rewritten += rewrote.records;
                Ok::<_, E>(!rewrote.is_last)
            })?;
        }
        Ok(rewritten)
    }
}

/// Makes every page that the commits will, and throws it away. Says whether there is any.
fn rehearse<O, N, E, F>(tx: &ReadTx<'_>, migrate: &Migrate<O, N>, f: &mut F) -> Result<bool, E>
where
    O: TableSpec + Copy,
    N: TableSpec<Key = O::Key, OwnedKey = O::OwnedKey> + Copy,
    E: From<Error>,
    F: FnMut(&O::OwnedKey, Record<O::Value, O::State>) -> Result<(N::Value, N::State), E>,
{
    let mut next = migrate.standing(&tx.txn)?;
    let is_under_way = next.is_some();
    while let Some(standing) = next {
        let mut scratch = tx.txn.clone();
        let rewrote = migrate.page(&mut scratch, standing, f)?;
        let changes = scratch.into_changes();
        let checked = changes.and_then(|changes| tx.engine.fits(&changes));
        checked.map_err(|cause| rewrote.end.refused(cause))?;
        next = (!rewrote.is_last).then_some(rewrote.end);
    }
    Ok(is_under_way)
}
