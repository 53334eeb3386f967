//! The command line, run as a script runs it: exit codes, words, and what goes in comes out.

mod apply;
mod check;
mod copies;
mod faults;
mod listings;
mod machines;
mod manual;
mod messages;
mod outbox;
#[cfg(target_os = "linux")]
mod read_only;
#[cfg(target_os = "linux")]
mod terminal;
mod values;
mod words;
mod writes;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use sprag::Store;

/// A folder with one store in it.
struct Place {
    dir: tempfile::TempDir,
    file: PathBuf,
}

/// What a command did, as a script sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Seen {
    fn from(output: Output) -> Seen {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Seen {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Seen {
    /// Exit code 0, this on stdout, nothing on stderr.
    fn says(&self, out: &str) {
        let wanted = Seen {
            code: Some(0),
            out: format!("{out}\n"),
            err: String::new(),
        };
        assert_eq!(*self, wanted);
    }

    /// This exit code, nothing on stdout, and on stderr one object with this kind.
    fn fails(&self, code: i32, kind: &str) -> serde_json::Value {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{self:?}");
        let mut object: serde_json::Value = serde_json::from_str(&self.err).unwrap_or_else(|_| panic!("{self:?}"));
        assert_eq!(object["error"]["kind"], kind, "{self:?}");
        assert!(
            object["error"]["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{self:?}"
        );
        object["error"].take()
    }
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("shop.sprag");
        Place { dir, file }
    }

    fn with_store() -> Place {
        let place = Place::new();
        Store::create_new(&place.file)
            .expect("a store")
            .close()
            .expect("closed");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command with `FILE` standing for the store.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sprag"));
        for arg in args {
            match *arg {
                "FILE" => command.arg(&self.file),
                arg => command.arg(arg),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Seen {
        self.command(args).output().expect("the command starts").into()
    }

    /// With --json.
    fn json(&self, args: &[&str]) -> Seen {
        self.command(args)
            .arg("--json")
            .output()
            .expect("the command starts")
            .into()
    }

    fn run_with_input(&self, args: &[&str], input: &[u8]) -> Seen {
        let mut command = self.command(args);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        child
            .stdin
            .take()
            .expect("its stdin")
            .write_all(input)
            .expect("it reads its stdin");
        child.wait_with_output().expect("it ends").into()
    }
}
