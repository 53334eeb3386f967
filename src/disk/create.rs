//! Making a new file: built under a temporary name, locked before anybody can see it, named only when it is whole.
//!
//! Owns the temporary name and the moment at which the file gets its own. Refuses to replace anything but a file that it
//! holds the lock of, and that is empty unless the caller says that this one may go. Knows nothing of the content.
//!
//! Others may rely on
//! - a kill at any instant leaves the path as it was, or with a whole, synced file; beside it at most a temporary file
//!   that no later creation meets, since its name is random;
//! - of two creations of one path at most one is finished; the other is told that the path exists;
//! - what replaces a file has its owner and its mode, and whoever waits for its lock opens the new one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{Access, FileDisk, open_regular, pause, still_at, try_lock};
use crate::error::{Error, ErrorKind, Result};
use crate::random;

/// Longest name that is repeated in the temporary name, in bytes, so that the latter stays below the usual 255.
const NAME_REPEATED_MAX: usize = 200;
/// How many random names are tried.
const NAMES_TRIED_MAX: usize = 16;
/// Pauses before a refused renaming is tried again: a virus scanner may hold a new file for a moment.
const RENAME_PAUSES: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
];

/// What [`create`] came to.
#[derive(Debug)]
pub(crate) enum Creation {
    /// An empty, locked file under a temporary name.
    Building(Building),
    /// The path names something already, or a creation of it is under way. Nothing was changed.
    Exists,
}

/// What [`Building::finish`] came to.
#[derive(Debug)]
pub(crate) enum Finished {
    /// The file has its name, and both are durable.
    Created(FileDisk),
    /// Somebody else gave the path to another file meanwhile. What was built is gone.
    Exists,
}

/// A file that is being made. Dropped before it is finished, it disappears. Clones of its [`FileDisk`] stay good.
#[derive(Debug)]
pub(crate) struct Building {
    disk: FileDisk,
    temporary: TemporaryName,
    replaced: Replaced,
}

/// What is at the path, with its lock: as long as that is held nobody else begins to create there.
#[derive(Debug)]
enum Replaced {
    Nothing,
    Empty(File),
    Held(FileDisk),
}

/// Begins a file that will be at `path`. With `replace_empty` a regular file of zero bytes counts as none.
///
/// # Errors
/// `NotFound` if the folder is missing, or the path is a symbolic link to nothing. `ReadOnly`, `Full` and `Io` as the
/// operating system reports them; `Io` also if the file system has no locks. `Invalid` if the path ends in no name.
pub(crate) fn create(path: &Path, replace_empty: bool) -> Result<Creation> {
    let mut target = path.to_owned();
    let mut replaced = Replaced::Nothing;
    match fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(Error::io("look at the file", Some(path), cause)),
        Ok(found) => {
            if found.is_symlink() {
                target =
                    fs::canonicalize(path).map_err(|cause| Error::io("follow the symbolic link", Some(path), cause))?;
            }
            match empty_file(&target, replace_empty)? {
                Some(file) => replaced = Replaced::Empty(file),
                None => return Ok(Creation::Exists),
            }
        }
    }
    let (file, temporary) = new_file(&target)?;
    let disk = FileDisk::locked(file, target);
    Ok(Creation::Building(Building {
        disk,
        temporary,
        replaced,
    }))
}

/// Asks early what [`create`] asks again: whether there is nothing at `path`.
///
/// # Errors
/// `Invalid` if there is something.
pub(crate) fn check_free(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(exists(path)),
        Err(_) => Ok(()),
    }
}

/// Begins a file that will take the place of one that is open, whatever that holds.
///
/// # Errors
/// As [`create`]; `Invalid` if the file has a second name, which would be left with the old one; `ReadOnly` if the owner of
/// the old one cannot be kept; `Io` if its path leads elsewhere by now.
pub(crate) fn replace(held: &FileDisk) -> Result<Building> {
    let path = held.path();
    let failed = |cause| Error::io("replace the file", Some(path), cause);
    let target = fs::canonicalize(path).map_err(failed)?;
    let found = held.file().metadata().map_err(failed)?;
    check_one_name(path, &found)?;
    let (file, temporary) = new_file(&target)?;
    keep_owner(&file, &found).map_err(failed)?;
    file.set_permissions(found.permissions()).map_err(failed)?;
    Ok(Building {
        disk: FileDisk::locked(file, target),
        temporary,
        replaced: Replaced::Held(held.clone()),
    })
}

/// The error for a caller that wanted a new file and met another.
pub(crate) fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, format!("the file exists, path={}", path.display()))
}

impl Building {
    /// Makes the content durable and gives the file its name, without replacing anything but the file it began with.
    ///
    /// # Errors
    /// As the operating system reports them; the file is gone then. `InDoubt` if it has taken the place of another, and
    /// which of the two a power loss leaves there is not known.
    pub(crate) fn finish(self) -> Result<Finished> {
        let Building {
            disk,
            mut temporary,
            replaced,
        } = self;
        let path = disk.path();
        let failed = |cause| Error::io("give the new file its name", Some(path), cause);
        disk.file()
            .sync_all()
            .map_err(|cause| Error::io("sync the new file", Some(path), cause))?;
        let named = match &replaced {
            Replaced::Empty(empty) if still_at(path, empty)? => {
                if empty.metadata().map_err(failed)?.len() > 0 {
                    return Ok(Finished::Exists);
                }
                patiently(|| fs::rename(&temporary.0, path))
            }
            Replaced::Held(held) if still_at(path, held.file())? => patiently(|| fs::rename(&temporary.0, path)),
            Replaced::Held(_) => {
                let message = format!("the file was moved away meanwhile, path={}", path.display());
                return Err(Error::new(ErrorKind::Io, message));
            }
            Replaced::Empty(_) | Replaced::Nothing => patiently(|| rename_to_free(&temporary.0, path)),
        };
        match named {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => return Ok(Finished::Exists),
            Err(cause) => return Err(failed(cause)),
        }
        let synced =
            sync_folder(folder_of(path)).map_err(|cause| Error::io("sync the folder of the file", Some(path), cause));
        if matches!(replaced, Replaced::Held(_)) {
            temporary.keep();
            let message = format!(
                "the new file has its name, which may not survive a power loss, path={}",
                path.display()
            );
            synced.map_err(|cause| cause.into_kind(ErrorKind::InDoubt, message))?;
            return Ok(Finished::Created(disk));
        }
        // A failure removes the file under its own name: the caller hears that nothing was created.
        temporary.0 = path.to_owned();
        synced?;
        temporary.keep();
        Ok(Finished::Created(disk))
    }
}

impl Deref for Building {
    type Target = FileDisk;

    fn deref(&self) -> &FileDisk {
        &self.disk
    }
}

/// Removes the file of this name when dropped.
#[derive(Debug)]
struct TemporaryName(PathBuf);

impl TemporaryName {
    fn keep(mut self) {
        self.0 = PathBuf::new();
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // A file that cannot be removed stays under a name that nobody will choose again.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// The file at `path`, locked, if it is a regular one of zero bytes and may be replaced.
fn empty_file(path: &Path, replace_empty: bool) -> Result<Option<File>> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        // Removed since the caller's look: it existed a moment ago, and the next call will see.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::io("look at the file", Some(path), cause)),
    };
    if !replace_empty || !found.is_file() || found.len() > 0 {
        return Ok(None);
    }
    let file = open_regular(path, Access::Write)?;
    // Whoever holds the lock is creating the file right now, or has just done so.
    if !try_lock(&file, path)? || !still_at(path, &file)? {
        return Ok(None);
    }
    let len = file
        .metadata()
        .map_err(|cause| Error::io("read the length of the file", Some(path), cause))?
        .len();
    Ok((len == 0).then_some(file))
}

/// A rename moves one name only.
#[cfg(unix)]
fn check_one_name(path: &Path, found: &Metadata) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    match found.nlink() {
        0 | 1 => Ok(()),
        names => {
            let message = format!(
                "the file has other names, which would be left with the old one, names={names}, path={}",
                path.display()
            );
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

#[cfg(not(unix))]
fn check_one_name(_path: &Path, _found: &Metadata) -> Result<()> {
    Ok(())
}

/// Gives a new file the owner of another. Whoever may not do that must not take the file away from its owner.
#[cfg(unix)]
fn keep_owner(file: &File, wanted: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let has = file.metadata()?;
    if (has.uid(), has.gid()) == (wanted.uid(), wanted.gid()) {
        return Ok(());
    }
    fchown(file, Some(wanted.uid()), Some(wanted.gid()))
}

#[cfg(not(unix))]
fn keep_owner(_file: &File, _wanted: &Metadata) -> io::Result<()> {
    Ok(())
}

/// A new locked file beside `target` that only its owner may read.
fn new_file(target: &Path) -> Result<(File, TemporaryName)> {
    let Some(name) = target.file_name() else {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("the path names no file, path={}", target.display()),
        ));
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..NAMES_TRIED_MAX {
        let path = folder_of(target).join(temporary_name(name)?);
        match options.open(&path) {
            Ok(file) => {
                let temporary = TemporaryName(path);
                if try_lock(&file, target)? {
                    return Ok((file, temporary));
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => refused = cause,
            Err(cause) => return Err(Error::io("create the file", Some(target), cause)),
        }
    }
    Err(Error::with_source(
        ErrorKind::Io,
        format!("no temporary name is free, path={}", target.display()),
        refused,
    ))
}

fn temporary_name(name: &OsStr) -> Result<OsString> {
    let random = u32::from_le_bytes(random::bytes()?);
    let mut temporary = OsString::from(".");
    temporary.push(if name.len() <= NAME_REPEATED_MAX {
        name
    } else {
        OsStr::new("sprag")
    });
    temporary.push(format!(".new-{random:08x}"));
    Ok(temporary)
}

/// The folder of a path; the current one for a bare name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Calls again after a short pause while access is refused.
///
/// # Errors
/// The last one.
pub fn patiently(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for time in RENAME_PAUSES {
        match call() {
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => pause(time),
            outcome => return outcome,
        }
    }
    call()
}

/// Renames in one step; `AlreadyExists` if the new name is taken.
#[cfg(target_os = "linux")]
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => link_to_free(from, to),
        outcome => Ok(outcome?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    link_to_free(from, to)
}

/// The same in two steps: a kill between them leaves a second name of the same whole file.
fn link_to_free(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    // The file has its name; a temporary name that stays is no reason to take it away again.
    let _ = fs::remove_file(from);
    Ok(())
}

/// Makes the names in a folder durable. Some file systems cannot sync a folder and say so; then there is no more to do.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(cause) if matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}
