//! What is kept of a crash whose image does not open: with several threads it may not come again.

use std::fmt;
use std::fs;
use std::path::Path;
use std::thread::{self, ThreadId};

use sprag::testkit::{Event, EventKind, SimDisk};

/// A call of the disk in the life that crashed.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    index: u64,
    kind: EventKind,
    offset: u64,
    len: u64,
    /// How often a fault had struck before it.
    faults: u64,
    by: ThreadId,
}

impl Call {
    pub fn of(event: &Event<'_>, disk: &SimDisk) -> Call {
        Call {
            index: event.index,
            kind: event.kind,
            offset: event.offset,
            len: event.len,
            faults: disk.faults_fired(),
            by: thread::current().id(),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call {
            index,
            kind,
            offset,
            len,
            faults,
            by,
        } = self;
        writeln!(
            out,
            "{index} {kind:?} offset={offset} len={len} faults={faults} by={by:?}"
        )
    }
}

/// Writes the disk as it was when the life began, its calls, and the image that the crash left; says where.
pub fn keep(name: &str, began: &SimDisk, calls: &[Call], image: &SimDisk) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    for (state, disk) in [("began", began), ("image", image)] {
        fs::write(folder.join(format!("{state}.cache")), disk.cache_image()).unwrap();
        fs::write(folder.join(format!("{state}.durable")), disk.durable_image()).unwrap();
    }
    let calls: String = calls.iter().map(Call::to_string).collect();
    fs::write(folder.join("calls"), calls).unwrap();
    folder.display().to_string()
}
