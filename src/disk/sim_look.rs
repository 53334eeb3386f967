//! Marks on a simulated disk, and a second opening of it, as another process has one.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Disk;
use super::marks::Marks;
use super::sim::SimDisk;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Who holds which places. The disk itself is holder 0.
#[derive(Debug, Default)]
pub(super) struct Held {
    places: Mutex<Vec<(u64, u64)>>,
    holders: AtomicU64,
}

impl Held {
    pub(super) fn set(&self, holder: u64, place: u64) {
        let mut places = self.places.lock();
        if !places.contains(&(holder, place)) {
            places.push((holder, place));
        }
    }

    pub(super) fn clear(&self, holder: u64, place: u64) {
        self.places.lock().retain(|held| *held != (holder, place));
    }

    pub(super) fn find(&self, holder: u64, range: &Range<u64>) -> Option<u64> {
        let places = self.places.lock();
        let of_others = places.iter().filter(|(other, _)| *other != holder);
        of_others.map(|(_, place)| *place).find(|place| range.contains(place))
    }

    fn new_holder(&self) -> u64 {
        self.holders.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn leave(&self, holder: u64) {
        self.places.lock().retain(|(other, _)| *other != holder);
    }
}

/// Another opening of a simulated disk, for reading. Its marks end with its last clone.
#[derive(Clone, Debug)]
pub struct SimLook(Arc<Opening>);

#[derive(Debug)]
struct Opening {
    disk: SimDisk,
    holder: u64,
}

impl SimLook {
    /// Opens the disk once more.
    pub fn new(disk: &SimDisk) -> SimLook {
        let holder = disk.held().new_holder();
        SimLook(Arc::new(Opening {
            disk: disk.clone(),
            holder,
        }))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.disk.held().leave(self.holder);
    }
}

impl Marks for Opening {
    fn set(&self, place: u64) -> io::Result<()> {
        self.disk.held().set(self.holder, place);
        Ok(())
    }

    fn clear(&self, place: u64) -> io::Result<()> {
        self.disk.held().clear(self.holder, place);
        Ok(())
    }

    fn find(&self, range: Range<u64>) -> io::Result<Option<u64>> {
        Ok(self.disk.held().find(self.holder, &range))
    }
}

impl Disk for SimLook {
    fn len(&self) -> io::Result<u64> {
        self.0.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.disk.read(offset, out)
    }

    fn marks(&self) -> Option<&dyn Marks> {
        Some(&*self.0)
    }
}
