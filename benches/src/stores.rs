//! Filled stores: each kind is filled once and copied for everybody who works on it.

use std::path::{Path, PathBuf};

use crate::load::{Load, Work};
use crate::machine;
use crate::peer::{Failure, Subject};
use crate::place::{self, Place};

/// Where filled stores are kept. `SPRAG_BENCH_KEEP` names a folder that outlives the run.
pub struct Stores<'p> {
    place: &'p Place,
    kept: PathBuf,
}

impl<'p> Stores<'p> {
    /// Nothing is filled yet, unless an earlier run kept it.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(place: &'p Place) -> Result<Stores<'p>, Failure> {
        let kept = match std::env::var_os("SPRAG_BENCH_KEEP") {
            Some(folder) => PathBuf::from(folder),
            None => place.path().join("kept"),
        };
        std::fs::create_dir_all(&kept)?;
        Ok(Stores { place, kept })
    }

    /// A fresh store of its own for `subject`, filled for `load`, in a folder with this name.
    ///
    /// # Errors
    /// What the engine or the operating system reports.
    pub fn fresh(&self, subject: &Subject, load: &Load, name: &str) -> Result<PathBuf, Failure> {
        if subject.group == "floor" {
            return self.place.folder(name);
        }
        let kept = self.filled(subject, load)?;
        let folder = self.place.folder(name)?;
        std::fs::remove_dir(&folder)?;
        place::copy_all(&kept, &folder)?;
        Ok(folder)
    }

    fn filled(&self, subject: &Subject, load: &Load) -> Result<PathBuf, Failure> {
        let kept = self.kept.join(label(subject, load));
        if !kept.exists() {
            let filling = self.place.folder("filling")?;
            subject.fill(&filling, load)?;
            move_folder(&filling, &kept)?;
        }
        Ok(kept)
    }
}

/// Says all that the contents depend on, and for the library under test which one made them, since its format may change.
fn label(subject: &Subject, load: &Load) -> String {
    let kind = match load.work {
        _ if load.is_of_messages() => "messages",
        Work::Transition => "orders",
        Work::Count => "counter",
        _ => "records",
    };
    let by = match subject.group {
        group if group.starts_with("sprag") => machine::commit_of_library(),
        _ => String::new(),
    };
    let Load {
        records,
        value_bytes,
        keys,
        done,
        ..
    } = load;
    format!("{}{by}-{kind}-{records}-{value_bytes}-{keys}-{done}", subject.files)
}

/// The folder to move to may lie on another file system. What is there under its name is always whole.
fn move_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    if std::fs::rename(from, to).is_err() {
        let part = to.with_extension("part");
        if part.exists() {
            std::fs::remove_dir_all(&part)?;
        }
        place::copy_all(from, &part)?;
        std::fs::rename(&part, to)?;
        std::fs::remove_dir_all(from)?;
    }
    Ok(())
}
