//! Lines as a store: read page by page, each of which becomes one commit with the position behind it.

use std::collections::HashMap;
use std::io::BufRead;

use super::Imported;
use super::input::Input;
use super::lines::{Header, Read, RecordRead, RememberedRead, TableRead, from_base64, from_hex, invalid};
use super::messages::QueueRead;
use super::position::Position;
use crate::batch::json::{Object, encode_value};
use crate::codec::envelope::Envelope;
use crate::codec::{CodecId, DynKey, KeyKind, Version};
use crate::dedupe::{self, Moved};
use crate::engine::{Space, Span};
use crate::error::{Error, ErrorKind, Result};
use crate::lease;
use crate::outbox::arrive::{self, Arriving};
use crate::outbox::line::Line;
use crate::outbox::{DescribedQueue as _, catalog as queues};
use crate::record;
use crate::table::{Declared, DynTable, TableInfo, TableSpec, catalog};
use crate::txn::Txn;

/// Most lines of one page.
const PAGE_LINES_MAX: usize = 1000;
/// What a commit needs for an entry beyond its own bytes: counts, lengths, the index once more.
const ENTRY_BYTES: usize = 256;

/// An import that is under way.
pub(crate) struct Import<R> {
    input: Input<R>,
    header: Header,
    header_line: String,
    /// The tables that were read so far.
    declared: HashMap<String, Declared>,
    /// The queues that were read so far.
    queues: HashMap<String, CodecId>,
    /// What was read so far, and how many lines of it were taken in by earlier calls.
    imported: Imported,
    /// Bytes after which a page is full.
    page_bytes: usize,
    /// What the page before had no room for.
    held: Option<Numbered>,
}

/// Lines that become one commit.
pub(crate) struct Page {
    entries: Vec<Numbered>,
    before: Option<Position>,
    after: Position,
}

/// An entry and the number of its line, which begins at 1.
type Numbered = (u64, Entry);

/// What a line is to write.
enum Entry {
    Table {
        declared: Declared,
        highest_removed: u64,
    },
    Record {
        table: String,
        key: Vec<u8>,
        version: Version,
        state: Option<String>,
        value: Vec<u8>,
    },
    Remembered(Moved),
    Queue(Box<QueueRead>),
    Message {
        queue: String,
        arriving: Box<Arriving>,
    },
}

impl<R: BufRead> Import<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// `Invalid` if the input does not begin as an export; `NewerFormat`; `Io`.
    pub(crate) fn begin(source: R, commit_bytes_max: u64) -> Result<Import<R>> {
        let mut input = Input::new(source);
        let line = input.next().map_err(|cause| at_line(1, cause))?;
        let header_line = line.ok_or_else(|| invalid("the input is empty"))?;
        let header = Header::read(&header_line).map_err(|cause| at_line(1, cause))?;
        Ok(Import {
            input,
            header,
            header_line,
            declared: HashMap::new(),
            queues: HashMap::new(),
            imported: Imported {
                tables: 0,
                records: 0,
                remembered_keys: 0,
                queues: 0,
                messages: 0,
                lines_before: 0,
                lines: 1,
            },
            page_bytes: usize::try_from(commit_bytes_max / 2).unwrap_or(usize::MAX),
            held: None,
        })
    }

    /// How far a store has come.
    ///
    /// # Errors
    /// `Invalid` if it is neither empty nor what an import of this input left.
    pub(crate) fn standing(&self, txn: &Txn) -> Result<Option<Position>> {
        let position = Position::load(txn, self.header_line.as_bytes())?;
        if position.is_none() {
            check_empty(txn)?;
        }
        Ok(position)
    }

    /// Reads what was taken in before.
    ///
    /// # Errors
    /// `Invalid` if it is not the same.
    pub(crate) fn skip(&mut self, position: &Position) -> Result<()> {
        self.imported.lines_before = position.lines;
        while self.input.number < position.lines {
            let number = self.input.number + 1;
            let skipped = self.input.next().and_then(|line| {
                let line = line.ok_or_else(|| invalid("the input ends within what was imported before"))?;
                self.take(&line)
            });
            skipped.map_err(|cause| at_line(number, cause))?;
        }
        if self.input.digest() != position.digest {
            let message = format!(
                "the input is not the one whose import was begun, lines={}",
                position.lines
            );
            return Err(invalid(message));
        }
        Ok(())
    }

    /// The next lines; `None` behind the last one.
    ///
    /// # Errors
    /// `Invalid`, with the number of the line, for what is no line of an export, an input that is cut off, and a last line
    /// that does not speak of those before it; `TooLarge`, `Io`.
    pub(crate) fn page(&mut self, before: Option<Position>) -> Result<Option<Page>> {
        if before.is_some_and(|position| position.is_end) {
            return Ok(None);
        }
        let mut entries: Vec<Numbered> = self.held.take().into_iter().collect();
        let mut bytes: usize = entries.iter().map(|(_, entry)| entry.bytes()).sum();
        let mut after = self.position(false);
        while entries.len() < PAGE_LINES_MAX {
            let number = self.input.number + 1;
            let Some(entry) = self.entry().map_err(|cause| at_line(number, cause))? else {
                after = self.position(true);
                if self.input.next()?.is_some() {
                    return Err(at_line(number + 1, invalid("something follows the last line")));
                }
                break;
            };
            bytes += entry.bytes();
            if !entries.is_empty() && bytes > self.page_bytes {
                self.held = Some((number, entry));
                break;
            }
            entries.push((number, entry));
            after = self.position(false);
        }
        Ok(Some(Page { entries, before, after }))
    }

    /// Writes a page, if the store still is where the page begins. Gives the new position, and the queues that it gives messages.
    ///
    /// # Errors
    /// `Invalid`, with the number of the line, if something is there already, or another import runs; as for a write.
    pub(crate) fn write(&self, txn: &mut Txn, page: &Page) -> Result<(Position, Vec<String>)> {
        if self.standing(txn)? != page.before {
            return Err(invalid("another import of the same input is under way in this store"));
        }
        if let (None, Some(fence)) = (page.before, self.header.fence) {
            lease::begin_far_above(txn, fence)?;
        }
        let mut known = Known::default();
        for (number, entry) in &page.entries {
            entry.write(txn, &mut known).map_err(|cause| at_line(*number, cause))?;
        }
        page.after.store(txn, self.header_line.as_bytes())?;
        Ok((page.after, known.queues.into_keys().collect()))
    }

    pub(crate) fn imported(&self) -> Imported {
        Imported {
            lines: self.input.number,
            ..self.imported
        }
    }

    fn position(&self, is_end: bool) -> Position {
        Position {
            lines: self.input.number,
            digest: self.input.digest(),
            is_end,
        }
    }

    /// What the next line is to write; `None` for the last one.
    fn entry(&mut self) -> Result<Option<Entry>> {
        let line = self.input.next()?;
        let line = line.ok_or_else(|| invalid("the input is cut off: it has no last line"))?;
        self.take(&line)
    }

    /// Takes a line to its own: what it describes, what it counts, what it is to write.
    fn take(&mut self, line: &str) -> Result<Option<Entry>> {
        let counts = &mut self.imported;
        match Read::line(line)? {
            Read::Table(table) => {
                counts.tables += 1;
                let declared = described(&table)?;
                let (name, highest_removed) = (declared.name.clone(), table.highest_removed);
                if self.declared.insert(name, declared.clone()).is_some() {
                    return Err(invalid("the table is described twice"));
                }
                Ok(Some(Entry::Table {
                    declared,
                    highest_removed,
                }))
            }
            Read::Record(record) => {
                counts.records += 1;
                let declared = self.declared.get(&record.table);
                let declared = declared.ok_or_else(|| invalid("the table is not described"))?;
                record_of(record, declared).map(Some)
            }
            Read::Remembered(key) => {
                counts.remembered_keys += 1;
                moved(key).map(|moved| Some(Entry::Remembered(moved)))
            }
            Read::Queue(queue) => {
                counts.queues += 1;
                let read = queue.read()?;
                let name = read.queue.name().to_owned();
                if self.queues.insert(name, read.queue.codec()).is_some() {
                    return Err(invalid("the queue is described twice"));
                }
                Ok(Some(Entry::Queue(Box::new(read))))
            }
            Read::Message(message) => {
                counts.messages += 1;
                let queue = message.queue.clone();
                let codec = self.queues.get(&queue);
                let codec = codec.ok_or_else(|| invalid("the queue is not described"))?;
                let arriving = Box::new(message.read(*codec)?);
                Ok(Some(Entry::Message { queue, arriving }))
            }
            Read::End(end) => {
                let header = &self.header;
                let of_tables = (header.tables, header.records, header.remembered_keys);
                let of_queues = (header.queues, header.messages);
                if of_tables != (counts.tables, counts.records, counts.remembered_keys)
                    || of_queues != (counts.queues, counts.messages)
                {
                    return Err(invalid("the input has not as many entries as its first line says"));
                }
                if Some(self.input.number) != end.lines.checked_add(1) || end.digest != self.input.digest_before() {
                    return Err(invalid(
                        "the lines are not those that were exported: their digest is another",
                    ));
                }
                Ok(None)
            }
        }
    }
}

impl Page {
    /// The error of a commit that the log cannot take, with the lines named; any other as it is.
    pub(crate) fn refused(&self, cause: Error) -> Error {
        match (cause.kind(), self.entries.first()) {
            (ErrorKind::TooLarge, Some((number, _))) => at_line(*number, cause),
            _ => cause,
        }
    }
}

impl Entry {
    /// What it takes of a commit, rather more.
    fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match self {
                Entry::Table { declared, .. } => {
                    let machine = declared.machine.iter().flatten();
                    let names = machine.flat_map(|machine| machine.states().iter().map(String::len));
                    // A move is two places, and there are fewer than pairs of states.
                    let moves = declared
                        .machine
                        .iter()
                        .flatten()
                        .map(|machine| machine.moves().count() * 8);
                    declared.name.len() + names.sum::<usize>() + moves.sum::<usize>()
                }
                Entry::Record { key, value, .. } => 2 * key.len() + value.len(),
                Entry::Remembered(moved) => moved.key.len() + moved.result.len(),
                Entry::Queue(read) => read.queue.name().len(),
                Entry::Message { arriving, .. } => arriving.bytes(),
            }
    }

    fn write(&self, txn: &mut Txn, known: &mut Known) -> Result<()> {
        match self {
            Entry::Table {
                declared,
                highest_removed,
            } => {
                if catalog::find(txn, &declared.name)?.is_some() {
                    return Err(invalid("the store has the table already"));
                }
                let (info, _) = catalog::declare(txn, declared)?;
                if *highest_removed > 0 {
                    record::set_removed_max(txn, info.id, *highest_removed);
                }
                Ok(())
            }
            Entry::Record {
                table,
                key,
                version,
                state,
                value,
            } => {
                let info = known.table(txn, table)?;
                let stored_key = info.record_key(key);
                if txn.get(&stored_key)?.is_some() {
                    return Err(invalid("the store has the record already"));
                }
                let state = state
                    .as_deref()
                    .map(|state| info.named_state(Some(state)))
                    .transpose()?;
                let envelope = Envelope {
                    version: *version,
                    state,
                    value,
                };
                record::write(txn, info.id, stored_key, None, &envelope)
            }
            Entry::Remembered(moved) => {
                if dedupe::look_up(txn, &moved.scope, &moved.key)?.is_some() {
                    return Err(invalid("the store has the remembered key already"));
                }
                dedupe::take_in(txn, moved.clone())
            }
            Entry::Queue(read) => arrive::begin(txn, &(&read.queue).declared(), read.standing).map(drop),
            Entry::Message { queue, arriving } => {
                let number = known.queue(txn, queue)?;
                let mut line = Line::open(txn, number)?;
                line.take_in(Arriving::clone(arriving))?;
                line.close().map(drop)
            }
        }
    }
}

/// What a page has looked up.
#[derive(Default)]
struct Known {
    tables: HashMap<String, TableInfo>,
    queues: HashMap<String, u32>,
}

impl Known {
    fn table(&mut self, txn: &Txn, name: &str) -> Result<&TableInfo> {
        if !self.tables.contains_key(name) {
            let info = catalog::find(txn, name)?;
            let info = info.ok_or_else(|| invalid("the store has lost the table"))?;
            self.tables.insert(name.to_owned(), info);
        }
        self.tables
            .get(name)
            .ok_or_else(|| invalid("the store has lost the table"))
    }

    fn queue(&mut self, txn: &Txn, name: &str) -> Result<u32> {
        if let Some(number) = self.queues.get(name) {
            return Ok(*number);
        }
        let info = queues::find(txn, name)?;
        let info = info.ok_or_else(|| invalid("the store has lost the queue"))?;
        self.queues.insert(name.to_owned(), info.id);
        Ok(info.id)
    }
}

fn described(table: &TableRead) -> Result<Declared> {
    catalog::check_name(&table.name)?;
    let Object(shape) = &table.shape;
    let declared = shape.declared(&table.name)?;
    if declared.shape().is_none() {
        return Err(invalid(
            "the description of the table lacks its schema number or its machine",
        ));
    }
    Ok(declared)
}

fn record_of(record: RecordRead<'_>, declared: &Declared) -> Result<Entry> {
    let described = DynTable::new(&record.table, declared.key.clone(), declared.codec);
    let key = (&described).encode_key(&record.key.key(&declared.key)?)?;
    let value = match (record.value, &record.raw) {
        (Some(value), None) => encode_value(value, declared.codec)?,
        (None, Some(raw)) => from_base64(raw)?,
        _ => return Err(invalid("a record has either a value or raw")),
    };
    record::check_value(&value)?;
    Ok(Entry::Record {
        key,
        version: Version::try_from(record.version)?,
        state: record.state,
        value,
        table: record.table,
    })
}

fn moved(read: RememberedRead) -> Result<Moved> {
    let DynKey::Bytes(key) = DynKey::parse(&KeyKind::Bytes, &read.key)? else {
        return Err(invalid("the remembered key is not bytes"));
    };
    let result = from_base64(&read.result)?;
    record::check_value(&result)?;
    Ok(Moved {
        scope: read.scope,
        key,
        first_ns: read.first_ns,
        left_ns: read.left_ns,
        fingerprint: read.fingerprint.as_deref().map(from_hex).transpose()?,
        result,
    })
}

/// # Errors
/// `Invalid` if the store has a table or a queue, or remembers a key.
fn check_empty(txn: &Txn) -> Result<()> {
    let tables = catalog::list(txn)?;
    if let Some(info) = tables.first() {
        let message = format!("the store is not empty, table={}", info.name());
        return Err(invalid(message));
    }
    if let Some(info) = queues::list(txn)?.first() {
        let message = format!("the store is not empty, queue={}", info.name());
        return Err(invalid(message));
    }
    let mut keys = txn.scan(&Span::prefix(&Space::Ending.key(0)))?;
    match keys.step().transpose()? {
        Some(_) => Err(invalid("the store is not empty: it remembers keys")),
        None => Ok(()),
    }
}

fn at_line(number: u64, cause: Error) -> Error {
    cause.within(format!("cannot import, line={number}"))
}
