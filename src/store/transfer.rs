//! Export and import: a store as lines of JSON, and back.

use std::io::{BufRead, Write};

use super::{Store, inside};
use crate::check;
use crate::engine::Engine;
use crate::error::Result;
use crate::transfer::export::export;
use crate::transfer::import::Import;
use crate::transfer::{Exported, Imported};

impl Store {
    /// Writes everything that this store holds as lines of JSON: tables with their machines, records with version and
    /// state, remembered keys with their results and the life that is left to them, queues with their messages. `docs/FORMAT.md`
    /// describes the lines. Nothing is lost: numbers of 64 bits are whole, and values that are no JSON are base64. Only claims stay
    /// behind: a message that somebody delivers comes over as one that waits, and spends no interruption.
    ///
    /// It is one state: the newest that is durable at the store's level. Remembered keys that are over are left out, and so is
    /// what an import keeps of itself. The last line says how many there are, with a digest, so that a cut is noticed. The
    /// output is written in small pieces: give it a buffer.
    ///
    /// # Errors
    /// `Schema` while a table is being migrated; `Corrupt`, `Decode` with the record named; `Io`, `Full` and others as the output
    /// reports them. What was written before has no last line then. `Closed`.
    pub fn export(&self, mut out: impl Write) -> Result<Exported> {
        self.read(|tx| {
            // A key that lost a bit hides others from a scan, which answers no error for them.
            check::open(tx.txn.view(), 0, |_| ())?.or_corrupt()?;
            let id = tx.engine.store_id();
            export(&tx.txn, id, tx.txn.sequence(), &mut out)
        })
    }

    /// Takes in what [`Store::export`] wrote, into a store without tables, queues and remembered keys. Versions, states and
    /// highest removed versions are those of the source; remembered keys are kept from now on for the life that was left to them;
    /// messages have their numbers, effect ids and order, and fences go on 2^32 above those of the source.
    ///
    /// Calling it again is safe: the store remembers, under the reserved name `sprag.import/position`, which input it is and how
    /// many of its lines are in. The same input goes on from there, and changes nothing once all of it is in. Until then the
    /// store holds a part; whoever writes to it meanwhile makes the import stop where it meets that.
    ///
    /// # After a crash
    /// Each commit holds lines and the number of those that are in. Call it again with the same input.
    ///
    /// # Errors
    /// `Invalid` if the store is not empty, or holds a part of another input, or inside a write of it; with the number of the
    /// line, what is no line of an export, and an input that is cut off or was changed. `NewerFormat` for a later form; `TooLarge`
    /// for a record that the log cannot take; `Io` as the input reports it; as [`Store::write`]. The commits before stay.
    pub fn import(&self, input: impl BufRead) -> Result<Imported> {
        inside::refuse_in_write(self.inner.id, "import")?;
        let bytes_max = self.with_engine("import", Engine::commit_bytes_max)?;
        let mut import = Import::begin(input, bytes_max)?;
        let mut position = self.read(|tx| import.standing(&tx.txn))?;
        if let Some(position) = &position {
            import.skip(position)?;
        }
        while let Some(page) = import.page(position)? {
            let written = self.write(|tx| {
                let (position, queues) = import.write(tx.txn_mut(), &page)?;
                for queue in queues {
                    tx.woke(&queue);
                }
                Ok(position)
            });
            position = Some(written.map_err(|cause| page.refused(cause))?);
        }
        Ok(import.imported())
    }
}
