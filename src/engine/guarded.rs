//! The disk of a file as long as its base is in one state, for a look from outside: a read that could be of a later state fails.
//!
//! Owns the reading side of the marks (`base/outside`). A state that was given up stays so, whoever asks.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::base::{HEADER_BYTES, Place};
use crate::disk::Disk;
use crate::disk::marks::Marks;
use crate::sync::Mutex;

/// The marks of one look, counted, since several states of it may stand under one place.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<BTreeMap<u64, usize>>>);

/// One mark; taken away with the last one of its place.
#[derive(Debug)]
struct Mark {
    disk: Arc<dyn Disk>,
    places: Places,
    place: Place,
}

impl Mark {
    fn set(disk: &Arc<dyn Disk>, marks: &dyn Marks, places: &Places, place: Place) -> io::Result<Mark> {
        let mut counts = places.0.lock();
        marks.set(place.reading())?;
        *counts.entry(place.reading()).or_insert(0) += 1;
        Ok(Mark {
            disk: disk.clone(),
            places: places.clone(),
            place,
        })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let at = self.place.reading();
        let mut counts = self.places.0.lock();
        if let Some(count) = counts.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&at);
                if let Some(marks) = self.disk.marks() {
                    // One that stays keeps a state too long, and goes with the descriptor.
                    let _ = marks.clear(at);
                }
            }
        }
    }
}

/// The disk as long as its base is in one state: a read that could be of a later one fails.
#[derive(Debug)]
pub(super) struct Guarded {
    disk: Arc<dyn Disk>,
    base_at: u64,
    places: Places,
    /// The first bytes of the base, which every transaction changes.
    header: Vec<u8>,
    /// Set once the base is open: what it reads from then on belongs to one state of its data, which a writer keeps if it
    /// is told to. Before, nothing is kept.
    settled: AtomicBool,
    held: Mutex<Held>,
}

/// What keeps a state.
#[derive(Debug, Default)]
struct Held {
    /// The mark, if a writer was seen and marks can be set.
    mark: Option<Mark>,
    /// A writer was seen, marked or not.
    has_writer: bool,
    /// The state was given up. It stays so, whatever is asked later: pages were used again.
    is_lost: bool,
}

impl Guarded {
    pub(super) fn begin(disk: Arc<dyn Disk>, base_at: u64, places: Places) -> io::Result<Guarded> {
        let header = header_of(&*disk, base_at)?;
        let guarded = Guarded {
            disk,
            base_at,
            places,
            header,
            settled: AtomicBool::new(false),
            held: Mutex::default(),
        };
        guarded.holds()?;
        Ok(guarded)
    }

    pub(super) fn has_writer(&self) -> bool {
        self.held.lock().has_writer
    }

    /// Whether the base is in another state by now, or may be.
    pub(super) fn moved(&self) -> io::Result<bool> {
        Ok(header_of(&*self.disk, self.base_at)? != self.header)
    }

    /// From now on the base may move on, if this state is kept.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.holds()?;
        self.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// Says whether what was read up to now is of this state.
    pub(super) fn holds(&self) -> io::Result<()> {
        let writer = match self.disk.marks() {
            // Without an answer the bytes alone decide.
            Some(marks) => Place::of_writer(marks).unwrap_or(None).map(|place| (marks, place)),
            None => None,
        };
        let mut held = self.held.lock();
        if held.is_lost {
            return Err(given_up());
        }
        let mut next = None;
        if let Some((marks, place)) = writer {
            held.has_writer = true;
            let same = held
                .mark
                .as_ref()
                .is_some_and(|mark| mark.place.opening() == place.opening());
            if same && self.settled.load(Ordering::Acquire) {
                return Ok(());
            }
            if !same {
                // Marked before the look at the header: if that is still the same, the writer sees the mark in time.
                next = Mark::set(&self.disk, marks, &self.places, place).ok();
            }
        }
        if self.moved()? {
            held.is_lost = true;
            return Err(given_up());
        }
        if next.is_some() {
            held.mark = next;
        }
        Ok(())
    }

    /// Nobody reads this state now. It can be gone on with as long as it is the newest.
    pub(super) fn rest(&self) {
        self.settled.store(false, Ordering::Release);
        self.held.lock().mark = None;
    }
}

fn given_up() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "the file was changed by a writer that did not know of this look; read again",
    )
}

fn header_of(disk: &dyn Disk, base_at: u64) -> io::Result<Vec<u8>> {
    let mut header = vec![0; HEADER_BYTES];
    disk.read(base_at, &mut header)?;
    Ok(header)
}

impl Disk for Guarded {
    /// A file that became shorter is no damage if this state was given up.
    fn len(&self) -> io::Result<u64> {
        let len = self.disk.len();
        self.holds()?;
        len
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.disk.read(offset, out);
        self.holds()?;
        read
    }
}
