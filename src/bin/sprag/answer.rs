//! What the command answers, and what becomes of an answer that cannot be written.
//!
//! An answer is written whole or, if something fails before, not at all. Owns also how a text from outside is shown to
//! people: without its control characters, which could move their cursor or forge a line.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::failure::Failure;

/// What the command did to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing: the answer is all there is.
    Read,
    /// It changed the store, or found it as it was to be; the answer only says so.
    Write,
}

/// A whole answer. As JSON it is one object that is not empty.
#[derive(Debug)]
pub struct Answer {
    out: Vec<u8>,
    work: Work,
    code: u8,
}

impl Answer {
    /// The answer as JSON if asked for, else as text. A newline is added.
    pub fn new(
        json: bool,
        work: Work,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<Answer, Failure> {
        let mut out = if json {
            serde_json::to_vec(value)
                .map_err(|cause| Failure::decode("the answer has no form as JSON").because(&cause))?
        } else {
            text().into_bytes()
        };
        out.push(b'\n');
        Ok(Answer { out, work, code: 0 })
    }

    /// One of which every line is written already.
    pub fn written() -> Answer {
        Answer {
            out: Vec::new(),
            work: Work::Read,
            code: 0,
        }
    }

    /// The same answer with another exit code.
    pub fn with_code(mut self, code: u8) -> Answer {
        self.code = code;
        self
    }

    /// Writes the answer as one of several. If that fails it goes where it is seen, since what was done stays done.
    pub fn write_line(&self, json: bool) -> io::Result<()> {
        write_out(&self.out).inspect_err(|cause| {
            if self.work == Work::Write {
                self.tell_noted(cause, json);
            }
        })
    }

    /// Writes the answer and gives the exit code.
    pub fn finish(self, json: bool) -> ExitCode {
        let Err(cause) = write_out(&self.out) else {
            return ExitCode::from(self.code);
        };
        match self.work {
            Work::Read => fail(&Failure::unwritten(&cause), json),
            Work::Write => {
                // What was done stays done, and a caller who is told of an error would do it again.
                self.tell_noted(&cause, json);
                ExitCode::from(self.code)
            }
        }
    }

    fn tell_noted(&self, cause: &io::Error, json: bool) {
        tell(&self.noted(&format!("cannot write the answer to stdout: {cause}"), json));
    }

    /// The answer with a note of why it comes another way. As JSON it stays one object, since it is read as one.
    fn noted(&self, note: &str, json: bool) -> String {
        let text = String::from_utf8_lossy(&self.out);
        let text = text.trim_end();
        match text.strip_suffix('}') {
            Some(fields) if json => format!("{fields},\"note\":{}}}", serde_json::Value::from(note)),
            _ => format!("sprag: note: {note}; it is:\n{text}"),
        }
    }
}

/// An answer too long to be held: lines that are written as they come, and whole ones only.
#[derive(Debug)]
pub struct Lines {
    out: Vec<u8>,
    json: bool,
}

/// Bytes of lines that are written at once.
const LINES_BYTES: usize = 64 << 10;

impl Lines {
    pub fn new(json: bool) -> Lines {
        Lines { out: Vec::new(), json }
    }

    /// One more line, as JSON if asked for, else as text, which has no newline.
    pub fn push(&mut self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let line = Answer::new(self.json, Work::Read, value, text)?;
        self.out.extend_from_slice(&line.out);
        if self.out.len() < LINES_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// The end of the answer, or of what there is of it if something failed.
    pub fn finish(mut self, outcome: Result<(), Failure>) -> Result<Answer, Failure> {
        let flushed = self.flush();
        outcome.and(flushed)?;
        Ok(Answer::written())
    }

    /// Writes the lines that there are, for those who wait for them.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let lines = std::mem::take(&mut self.out);
        write_out(&lines).map_err(|cause| Failure::unwritten(&cause))
    }
}

/// Shows a failure and gives its exit code.
pub fn fail(failure: &Failure, json: bool) -> ExitCode {
    tell(&failure.shown(json));
    ExitCode::from(failure.code())
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// There is nobody left to tell if stderr is closed too.
fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether a terminal does something at this character instead of showing it. Those of the second kind end a line or turn its
/// direction where they are obeyed.
pub fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text from outside as people are shown it: each control character as its number.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_obeyed(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// A time that passed or is left, as text: whole seconds, or what there is below one.
pub fn span_text(span: Duration) -> String {
    let whole = Duration::from_secs(span.as_secs());
    humantime::format_duration(if whole.is_zero() { span } else { whole }).to_string()
}

/// A wall time as text. Times before 1970, which only a wrong clock gives, as their distance.
pub fn time_text(time: SystemTime) -> String {
    // The last second that has a calendar form of four digits.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) if after <= LAST => humantime::format_rfc3339_nanos(time).to_string(),
        Ok(after) => format!("{}s after 1970", after.as_secs()),
        Err(before) => format!("{}s before 1970", before.duration().as_secs()),
    }
}
