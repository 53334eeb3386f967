//! The one error type: a kind that says what to do, a message that says what happened.
//!
//! A kind exists only if a caller would act differently on it. Messages are lower case, with facts last as
//! `name=value`; the cause is in `source()` and never pasted into the text. Cloning is cheap, since one failed sync
//! answers every member of its group.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process, or another handle of this one, has the file open for writing. Wait, or ask it.
    Busy,
    /// The file does not exist and the call does not create one.
    NotFound,
    /// The file is something else. No byte of it was changed.
    NotAStore,
    /// The file was written by a newer version of this library. Update the program.
    NewerFormat,
    /// The file breaks a rule of its format. Restore from a copy; a check lists what is wrong.
    Corrupt,
    /// No room: the disk is full or the log waits for it. Nothing was written; make room and call again.
    Full,
    /// The file or its folder may not be written. Nothing was written.
    ReadOnly,
    /// The operating system reported an error. Nothing of this call was applied; call again.
    Io,
    /// The store was closed, or its background thread is gone. Open it again.
    Closed,
    /// A sync failed, or takes too long, and the outcome is not known. Call again with the same remembered key.
    InDoubt,
    /// A key, a value or a commit exceeds a limit named in the message. Make it smaller.
    TooLarge,
    /// The call itself is wrong: an empty scope, version 0, a write inside a write. Fix the program.
    Invalid,
    /// The remembered key belongs to another request; [`Error::remembered`] carries what is remembered.
    Mismatch,
    /// The delivery is older than its keep, so whether it already ran is not known. Refuse it.
    TooOld,
    /// Program and file disagree on a machine, a key kind, a codec or a schema number, or the table is in the middle of a
    /// migration. Both sides are named.
    Schema,
    /// Stored bytes are not a value of the asked type.
    Decode,
    /// A condition did not hold and the caller chose to abort; [`Error::found`] carries what was found.
    Conflict,
}

/// Why a call failed. Opaque: ask [`kind`](Error::kind), show it, or look at its source.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    carried: Option<Box<dyn Any + Send + Sync>>,
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::build(kind, message.into(), None, None)
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::build(kind, message.into(), Some(source.into()), None)
    }

    pub(crate) fn carrying(kind: ErrorKind, message: impl Into<String>, carried: impl Any + Send + Sync) -> Error {
        Error::build(kind, message.into(), None, Some(Box::new(carried)))
    }

    fn build(
        kind: ErrorKind,
        message: String,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
        carried: Option<Box<dyn Any + Send + Sync>>,
    ) -> Error {
        Error(Arc::new(Inner {
            kind,
            message,
            source,
            carried,
        }))
    }

    /// An operating system error with the kind that its cause deserves.
    pub(crate) fn io(doing: &str, path: Option<&Path>, cause: std::io::Error) -> Error {
        let kind = kind_of_io(&cause);
        let message = match path {
            Some(path) => format!("cannot {doing}, path={}", path.display()),
            None => format!("cannot {doing}"),
        };
        Error::with_source(kind, message, cause)
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether it is one of a file: the operating system reported it, or a disk of a test.
    pub(crate) fn is_of_disk(&self) -> bool {
        self.0
            .source
            .as_ref()
            .is_some_and(|source| source.is::<std::io::Error>())
    }

    /// What a lower layer attached for the layer that knows its type.
    pub(crate) fn carried<T: 'static>(&self) -> Option<&T> {
        self.0.carried.as_ref().and_then(|any| any.downcast_ref())
    }

    /// The same kind of error with a message that says more, and the old one as its source.
    pub(crate) fn within(self, message: impl Into<String>) -> Error {
        let kind = self.kind();
        self.into_kind(kind, message)
    }

    /// The same error under another kind, with the old one as its source.
    pub(crate) fn into_kind(self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::with_source(kind, message, self)
    }
}

fn kind_of_io(cause: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Os;
    match cause.kind() {
        Os::NotFound => ErrorKind::NotFound,
        Os::PermissionDenied | Os::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        Os::StorageFull | Os::QuotaExceeded | Os::FileTooLarge => ErrorKind::Full,
        Os::ResourceBusy => ErrorKind::Busy,
        _ => ErrorKind::Io,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.0.kind, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(out, " ({source:?})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as _)
    }
}
