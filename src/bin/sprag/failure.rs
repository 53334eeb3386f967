//! Why the command failed: a kind, a message, its causes, and the exit code.
//!
//! Owns which kind of error gives which code; [`args`](crate::args) says the same to users.

use std::io;
use std::path::Path;

use serde::Serialize;
use sprag::{DynKey, ErrorKind, Found, Receipt};

use crate::answer::{plain, time_text};

/// A failure as it is shown. In a box, since results carry it everywhere.
#[derive(Debug)]
pub struct Failure(Box<Told>);

/// The inside of the `error` object.
#[derive(Debug, Serialize)]
struct Told {
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<FoundRecord>,
    /// Why a transition was refused, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remembered: Option<FirstDelivery>,
    #[serde(skip)]
    code: u8,
}

/// What a condition or a transition found instead; null where there is no record or no state.
#[derive(Debug, Serialize)]
pub struct FoundRecord {
    version: Option<u64>,
    state: Option<String>,
}

impl FoundRecord {
    pub fn new(found: &Found) -> FoundRecord {
        FoundRecord {
            version: found.version().map(sprag::Version::get),
            state: found.state().map(str::to_owned),
        }
    }

    pub fn text(&self) -> String {
        let version = self
            .version
            .map_or_else(|| "none".to_owned(), |version| version.to_string());
        match &self.state {
            Some(state) => format!("found_version={version} found_state={state}"),
            None => format!("found_version={version}"),
        }
    }
}

/// When the other request came that a remembered key belongs to.
#[derive(Debug, Serialize)]
struct FirstDelivery {
    first_at: String,
}

#[derive(Serialize)]
struct Enclosed<'a> {
    error: &'a Told,
}

impl Failure {
    fn new(kind: &'static str, code: u8, message: impl Into<String>) -> Failure {
        Failure(Box::new(Told {
            kind,
            message: message.into(),
            causes: Vec::new(),
            found: None,
            why: None,
            remembered: None,
            code,
        }))
    }

    /// The arguments are no command.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new("usage", 2, message)
    }

    /// The arguments are a command that makes no sense here.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new("invalid", 2, message)
    }

    /// A transition in a table whose records have no states.
    pub fn no_states(table: &str) -> Failure {
        Failure::invalid(format!("the table has no states, table={table}"))
    }

    pub fn too_large(message: impl Into<String>) -> Failure {
        Failure::new("too_large", 2, message)
    }

    /// The file has the table, and it is not what the arguments say.
    pub fn schema(message: impl Into<String>) -> Failure {
        Failure::new("schema", 6, message)
    }

    /// A stored value is not what its table says.
    pub fn decode(message: impl Into<String>) -> Failure {
        Failure::new("decode", 6, message)
    }

    pub fn no_table(table: &str) -> Failure {
        Failure::new("no_table", 4, format!("there is no such table, table={table}"))
    }

    pub fn no_machine(name: &str) -> Failure {
        let message = format!("there is no such table with states, and no such machine, name={name}");
        Failure::new("no_machine", 4, message)
    }

    /// Tables keep machines of one name that are not the same.
    pub fn machines_differ(name: &str, tables: &[&str]) -> Failure {
        let tables = tables.join(",");
        Failure::invalid(format!(
            "tables have different machines of this name; name a table, machine={name}, tables={tables}"
        ))
    }

    pub fn no_record(table: &str, key: &str) -> Failure {
        Failure::new(
            "no_record",
            4,
            format!("there is no such record, table={table}, key={key}"),
        )
    }

    pub fn no_queue(queue: &str) -> Failure {
        Failure::new("no_queue", 4, format!("there is no such queue, queue={queue}"))
    }

    pub fn no_message(queue: &str, id: u64) -> Failure {
        let message = format!("there is no such message: it is gone, or never was, queue={queue}, id={id}");
        Failure::new("no_message", 4, message)
    }

    /// The claim is not the last one of its message, or the message is gone.
    pub fn stale(receipt: Receipt) -> Failure {
        let message = format!(
            "the claim is superseded: somebody else has claimed the message since, or it is gone; nothing was changed, \
             receipt={receipt}"
        );
        Failure::new("stale", 3, message)
    }

    pub fn conflict(found: &Found) -> Failure {
        let message = match found.version() {
            Some(version) => format!("the condition does not hold, found_version={version}"),
            None => "the condition does not hold: there is no such record".to_owned(),
        };
        Failure::new("conflict", 3, message).with_found(found)
    }

    pub fn refused(why: sprag::Why, found: &Found) -> Failure {
        let state = found.state().unwrap_or("none");
        let message = format!("the transition is refused, why={why}, found_state={state}");
        let mut failure = Failure::new("refused", 3, message).with_found(found);
        failure.0.why = Some(why.name());
        failure
    }

    /// Whether a transition was refused since there is no record.
    pub fn is_missing(&self) -> bool {
        self.0.why == Some(sprag::Why::Missing.name())
    }

    /// Reading or writing something other than the store. `path` names it if it is a file.
    pub fn io(doing: &str, path: Option<&Path>, cause: &io::Error) -> Failure {
        let (kind, code) = match cause.kind() {
            io::ErrorKind::NotFound => ("not_found", 4),
            _ => ("io", 7),
        };
        let message = match path {
            Some(path) => format!("cannot {doing}, path={}", path.display()),
            None => format!("cannot {doing}"),
        };
        Failure::new(kind, code, message).because(cause)
    }

    /// A process of the demo did something that no delivery does.
    pub fn child(message: impl Into<String>) -> Failure {
        Failure::new("io", 7, message)
    }

    /// The same failure with its cause, and the causes of that.
    pub fn because(mut self, cause: &dyn std::error::Error) -> Failure {
        let mut next = Some(cause);
        while let Some(cause) = next {
            self.0.causes.push(cause.to_string());
            next = cause.source();
        }
        self
    }

    /// The same failure, with the place where it happened.
    pub fn inside(mut self, place: &str) -> Failure {
        self.0.message = format!("{}, {place}", self.0.message);
        self
    }

    /// The failure of one record among many, which is named; what it was becomes its first cause.
    pub fn in_record(mut self, table: &str, key: &DynKey) -> Failure {
        let key = key.to_string();
        let message = format!("cannot read a record, table={table:?}, key={key:?}");
        let was = std::mem::replace(&mut self.0.message, message);
        self.0.causes.insert(0, was);
        self
    }

    fn with_found(mut self, found: &Found) -> Failure {
        self.0.found = Some(FoundRecord::new(found));
        self
    }

    /// The answer of a command cannot be written.
    pub fn unwritten(cause: &io::Error) -> Failure {
        Failure::io("write the answer to stdout", None, cause)
    }

    /// Whether to call again is all there is to do.
    pub fn is_busy(&self) -> bool {
        self.0.code == 5
    }

    pub fn code(&self) -> u8 {
        self.0.code
    }

    /// As text with a line for each cause, without control characters; or as one line of JSON.
    pub fn shown(&self, json: bool) -> String {
        if json {
            // Texts and numbers only: this does not fail.
            return serde_json::to_string(&Enclosed { error: &self.0 }).unwrap_or_default();
        }
        // Some messages of the library begin with the words of their kind, which stand here already.
        let kind = format!("{}: ", self.0.kind.replace('_', " "));
        let said_once = |text: &str| plain(text.strip_prefix(&kind).unwrap_or(text));
        let mut text = format!("sprag: {kind}{}", said_once(&self.0.message));
        for cause in &self.0.causes {
            text.push_str("\n  caused by: ");
            text.push_str(&said_once(cause));
        }
        if self.0.code == 8 {
            text.push_str("\n  whether it was applied is not known: call again, with the same --once if there was one");
        }
        text
    }
}

impl From<sprag::Error> for Failure {
    fn from(error: sprag::Error) -> Failure {
        let (kind, code) = name_and_code(error.kind());
        let mut failure = Failure::new(kind, code, error.to_string());
        if let Some(cause) = std::error::Error::source(&error) {
            failure = failure.because(cause);
        }
        if let Some(remembered) = error.remembered() {
            failure.0.remembered = Some(FirstDelivery {
                first_at: time_text(remembered.first_at()),
            });
        }
        failure
    }
}

fn name_and_code(kind: ErrorKind) -> (&'static str, u8) {
    match kind {
        ErrorKind::TooLarge => ("too_large", 2),
        ErrorKind::Invalid => ("invalid", 2),
        ErrorKind::Conflict => ("conflict", 3),
        ErrorKind::Mismatch => ("mismatch", 3),
        ErrorKind::TooOld => ("too_old", 3),
        ErrorKind::NotFound => ("not_found", 4),
        ErrorKind::Busy => ("busy", 5),
        ErrorKind::NotAStore => ("not_a_store", 6),
        ErrorKind::NewerFormat => ("newer_format", 6),
        ErrorKind::Corrupt => ("corrupt", 6),
        ErrorKind::Schema => ("schema", 6),
        ErrorKind::Decode => ("decode", 6),
        ErrorKind::Full => ("full", 7),
        ErrorKind::ReadOnly => ("read_only", 7),
        ErrorKind::Io => ("io", 7),
        ErrorKind::Closed => ("closed", 7),
        ErrorKind::InDoubt => ("in_doubt", 8),
        // A kind that came after this command: not applied is the one thing that must not be claimed.
        _ => ("unknown", 8),
    }
}
