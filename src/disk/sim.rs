//! A simulated disk that loses, tears, reorders and fails, for tests of crashes.
//!
//! Owns two images, the cache that the program sees and the durable one, and in order what lies between them. What a power
//! loss makes of that is in [`crash`]. Knows nothing of the content.
//!
//! Invariants
//! - a synced write makes its own range durable, and with it the length up to its end; no other byte;
//! - a failed sync leaves the cache new, the disk old and later syncs clean: the writes it was to make durable are lost,
//!   and only a write of the same range brings one back. Lengths stay pending, as in the journal of a file system;
//! - the observer is called without a lock held, so it may use the disk, also to write.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Disk;
use super::crash::{self, Change, CrashPlan, Piece};
use super::fault::{Call, EventKind, FaultKind, FaultMode, Faults};
use super::marks::Marks;
use super::ram;
use super::sim_look::Held;
use crate::sync::Mutex;

/// Largest simulated disk in bytes: an offset out of thin air must not take the memory of the machine. Calls beyond are
/// refused before anything else, so every position below fits a `usize`.
const SIM_BYTES_MAX: u64 = 1 << 30;

/// A simulated disk. Clones share it; [`kill`](SimDisk::kill) and [`power_loss`](SimDisk::power_loss) give independent
/// ones without faults and observer. Images are shared until written to.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    observer: Mutex<Option<Observer>>,
    held: Held,
}

type Observer = Arc<dyn Fn(&Event<'_>, &SimDisk) + Send + Sync>;

#[derive(Default)]
struct State {
    cache: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    /// In order, what `cache` has and `durable` may lack; without what a failed sync lost.
    pending: Vec<Change>,
    faults: Faults,
    events: u64,
    capacity: Option<u64>,
}

/// A call that is about to take effect.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// Counts the calls of this disk that change something, from 0.
    pub index: u64,
    /// Which call.
    pub kind: EventKind,
    /// Where it writes; 0 for a sync and a length.
    pub offset: u64,
    /// What it writes; empty for a sync and a length.
    pub data: &'a [u8],
    /// Bytes written, or the new length.
    pub len: u64,
}

impl SimDisk {
    /// A disk of length zero.
    pub fn new() -> SimDisk {
        SimDisk::from_image(Vec::new())
    }

    /// A disk whose cache and durable image are these bytes.
    pub fn from_image(bytes: Vec<u8>) -> SimDisk {
        SimDisk::with_both(Arc::new(bytes))
    }

    fn with_both(image: Arc<Vec<u8>>) -> SimDisk {
        SimDisk::with_state(State {
            cache: Arc::clone(&image),
            durable: image,
            ..State::default()
        })
    }

    fn with_state(state: State) -> SimDisk {
        SimDisk(Arc::new(Shared {
            state: Mutex::new(state),
            observer: Mutex::new(None),
            held: Held::default(),
        }))
    }

    /// The disk after the power failed now: what is durable, and of the rest what the plan lets land. The same seed gives
    /// the same image.
    pub fn power_loss(&self, seed: u64, plan: CrashPlan) -> SimDisk {
        let (durable, pending) = self.halves();
        SimDisk::with_both(crash::settle(&durable, &pending, seed, plan))
    }

    /// The disk after the power failed inside the call that `event` announces: its bytes are one more write that is not
    /// durable. For an observer, which is called before the effect.
    pub fn power_loss_during(&self, event: &Event<'_>, seed: u64, plan: CrashPlan) -> SimDisk {
        let (durable, mut pending) = self.halves();
        pending.extend(change_of(event));
        SimDisk::with_both(crash::settle(&durable, &pending, seed, plan))
    }

    pub(super) fn held(&self) -> &Held {
        &self.0.held
    }

    fn halves(&self) -> (Arc<Vec<u8>>, Vec<Change>) {
        let state = self.0.state.lock();
        (Arc::clone(&state.durable), state.pending.clone())
    }

    /// The disk after the process was killed now: the cache stays and a later power loss still drops what is not durable.
    pub fn kill(&self) -> SimDisk {
        let state = self.0.state.lock();
        SimDisk::with_state(State {
            cache: Arc::clone(&state.cache),
            durable: Arc::clone(&state.durable),
            pending: state.pending.clone(),
            ..State::default()
        })
    }

    /// Calls `observer` before each call that changes something takes effect, with the disk as it is then. Calls that
    /// overlap in time may be observed at the same time. An observer that captures a clone of this disk keeps it alive
    /// until [`stop_observing`](SimDisk::stop_observing); it is handed one, so it need not.
    pub fn on_event(&self, observer: impl Fn(&Event<'_>, &SimDisk) + Send + Sync + 'static) {
        *self.0.observer.lock() = Some(Arc::new(observer));
    }

    /// Ends the calls of the observer.
    pub fn stop_observing(&self) {
        *self.0.observer.lock() = None;
    }

    /// Lets `passing` calls of this kind through from now on, then fails with `error`.
    pub fn fail(&self, kind: FaultKind, passing: u64, mode: FaultMode, error: io::ErrorKind) {
        self.0.state.lock().faults.add(kind, passing, mode, error);
    }

    /// Bytes that the disk has room for; writes and lengths beyond answer `StorageFull` and change nothing.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.state.lock().capacity = bytes;
    }

    /// Takes all faults and the capacity away.
    pub fn heal(&self) {
        let mut state = self.0.state.lock();
        state.faults.clear();
        state.capacity = None;
    }

    /// How often a fault struck. 0 means that the whole workload ran through.
    pub fn faults_fired(&self) -> u64 {
        self.0.state.lock().faults.fired()
    }

    /// How many calls that change something began.
    pub fn events(&self) -> u64 {
        self.0.state.lock().events
    }

    /// How many changes are not durable. A write of which the middle became durable counts twice.
    pub fn pending_changes(&self) -> usize {
        self.0.state.lock().pending.len()
    }

    /// What a program sees.
    pub fn cache_image(&self) -> Vec<u8> {
        self.0.state.lock().cache.to_vec()
    }

    /// What surely survives a power loss.
    pub fn durable_image(&self) -> Vec<u8> {
        self.0.state.lock().durable.to_vec()
    }

    /// A digest of the durable image, to count distinct ones.
    pub fn image_hash(&self) -> u64 {
        let durable = Arc::clone(&self.0.state.lock().durable);
        let digest = blake3::hash(&durable);
        digest
            .as_bytes()
            .iter()
            .take(8)
            .fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
    }

    /// Announces a change, then makes it, or what a fault leaves of it.
    fn change(&self, kind: EventKind, offset: u64, data: &[u8], len: u64) -> io::Result<()> {
        if offset.saturating_add(len) > SIM_BYTES_MAX {
            return Err(full());
        }
        let index = {
            let mut state = self.0.state.lock();
            state.events += 1;
            state.events - 1
        };
        let event = Event {
            index,
            kind,
            offset,
            data,
            len,
        };
        let observer = self.0.observer.lock().clone();
        if let Some(observer) = observer {
            observer(&event, self);
        }
        let mut state = self.0.state.lock();
        match state.faults.strike(Call::Change(kind)) {
            None => {
                state.check_room(&event)?;
                state.apply(&event);
                Ok(())
            }
            Some((fault, error)) => {
                state.apply_failing(fault, &event)?;
                Err(error)
            }
        }
    }
}

impl State {
    fn check_room(&self, event: &Event<'_>) -> io::Result<()> {
        let end = event.offset.saturating_add(event.len);
        let grows = end > self.cache.len() as u64;
        let refused = grows && self.capacity.is_some_and(|capacity| end > capacity);
        if refused { Err(full()) } else { Ok(()) }
    }

    fn apply(&mut self, event: &Event<'_>) {
        let offset = event.offset as usize;
        match event.kind {
            EventKind::Write => {
                crash::put(Arc::make_mut(&mut self.cache), offset, event.data);
                self.pending.extend(change_of(event));
            }
            EventKind::WriteSynced if event.data.is_empty() => {}
            EventKind::WriteSynced => {
                crash::put(Arc::make_mut(&mut self.cache), offset, event.data);
                crash::supersede(&mut self.pending, offset, offset + event.data.len());
                crash::put(Arc::make_mut(&mut self.durable), offset, event.data);
            }
            EventKind::Sync => {
                if !self.pending.is_empty() {
                    crash::apply_all(Arc::make_mut(&mut self.durable), &self.pending);
                    self.pending.clear();
                }
            }
            EventKind::SetLen => {
                // Also if the length is the same: a caller repeats what a failed sync may have lost.
                Arc::make_mut(&mut self.cache).resize(event.len as usize, 0);
                self.pending.extend(change_of(event));
            }
        }
    }

    fn apply_failing(&mut self, fault: FaultKind, event: &Event<'_>) -> io::Result<()> {
        match fault {
            FaultKind::WriteShort | FaultKind::WriteSyncedShort => {
                let data = event.data.get(..event.data.len() / 2).unwrap_or_default();
                let short = Event {
                    kind: EventKind::Write,
                    data,
                    len: data.len() as u64,
                    ..*event
                };
                self.check_room(&short)?;
                self.apply(&short);
            }
            FaultKind::WriteSyncedLost => {
                self.check_room(event)?;
                let offset = event.offset as usize;
                crash::put(Arc::make_mut(&mut self.cache), offset, event.data);
                crash::lose(&mut self.pending, offset, offset + event.data.len());
            }
            FaultKind::WriteSyncedLanded | FaultKind::SyncLanded => {
                self.check_room(event)?;
                self.apply(event);
            }
            FaultKind::Sync => self.pending.retain(|change| matches!(change, Change::Len(_))),
            FaultKind::Len | FaultKind::Read | FaultKind::Write | FaultKind::WriteSynced | FaultKind::SetLen => {}
        }
        Ok(())
    }
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full")
}

/// What a call leaves behind if the power fails inside it.
fn change_of(event: &Event<'_>) -> Option<Change> {
    match event.kind {
        EventKind::Write | EventKind::WriteSynced if event.data.is_empty() => None,
        EventKind::Write | EventKind::WriteSynced => Some(Change::Write(Piece::new(event.offset as usize, event.data))),
        EventKind::SetLen => Some(Change::Len(event.len as usize)),
        EventKind::Sync => None,
    }
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        let (cache, durable) = (state.cache.len(), state.durable.len());
        write!(
            out,
            "SimDisk {{ cache: {cache} bytes, durable: {durable} bytes, pending: {} }}",
            state.pending.len()
        )
    }
}

impl Disk for SimDisk {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.0.state.lock();
        match state.faults.strike(Call::Len) {
            None => Ok(state.cache.len() as u64),
            Some((_, error)) => Err(error),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        match state.faults.strike(Call::Read) {
            None => ram::read_from(&state.cache, offset, out),
            Some((_, error)) => Err(error),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(EventKind::Write, offset, data, data.len() as u64)
    }

    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(EventKind::WriteSynced, offset, data, data.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        self.change(EventKind::Sync, 0, &[], 0)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(EventKind::SetLen, 0, &[], len)
    }

    fn marks(&self) -> Option<&dyn Marks> {
        Some(self)
    }
}

/// The marks of the disk itself, which count as those of one opening.
impl Marks for SimDisk {
    fn set(&self, place: u64) -> io::Result<()> {
        self.held().set(0, place);
        Ok(())
    }

    fn clear(&self, place: u64) -> io::Result<()> {
        self.held().clear(0, place);
        Ok(())
    }

    fn find(&self, range: Range<u64>) -> io::Result<Option<u64>> {
        Ok(self.held().find(0, &range))
    }
}
