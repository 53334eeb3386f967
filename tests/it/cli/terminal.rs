//! What is shown on a terminal while the command works, and that nothing of it is in a pipe.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use rustix::pty;

use super::Place;

/// A terminal: the end that the command writes to, and the end on which a person reads.
fn terminal() -> (File, File) {
    let reader = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).expect("a terminal");
    pty::grantpt(&reader).expect("granted");
    pty::unlockpt(&reader).expect("unlocked");
    let name = pty::ptsname(&reader, Vec::new()).expect("its name");
    let name = name.to_str().expect("a name of text");
    let writer = File::options()
        .read(true)
        .write(true)
        .open(name)
        .expect("the other end");
    (writer, File::from(reader))
}

/// What the command shows on stderr, which is a terminal, while its stdout is a pipe.
fn shown(place: &Place, args: &[&str]) -> (String, String) {
    let (writer, mut reader) = terminal();
    let mut command = place.command(args);
    command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(writer);
    let child = command.spawn().expect("the command starts");
    // It holds the other end too.
    drop(command);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    // Linux keeps what was written, and answers an error once it is read and nobody has the other end open.
    let mut seen = Vec::new();
    let mut some = [0; 4096];
    while let Ok(count @ 1..) = reader.read(&mut some) {
        seen.extend_from_slice(&some[..count]);
    }
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(seen))
}

#[test]
fn long_work_is_shown_on_a_terminal_and_taken_away_at_its_end() {
    let place = Place::with_store();
    for key in ["ada", "bob"] {
        place.run(&["put", "FILE", "users", key, "1"]).says("applied version=1");
    }
    place.run(&["sweep", "FILE"]).says("applied keys=0");
    let checked = place.run(&["check", "FILE"]).out;
    assert!(
        checked.starts_with("findings=0 ") && checked.contains(" records=2 "),
        "{checked}"
    );
    for (args, answer, word) in [
        (
            &["scan", "FILE", "users"][..],
            "ada\t1\tnone\t1\nbob\t1\tnone\t1\n",
            "records",
        ),
        (&["keys", "FILE"], "", "keys"),
        (&["check", "FILE"], &checked, "checking"),
        (&["sweep", "FILE"], "applied keys=0\n", "sweeping"),
    ] {
        let (out, seen) = shown(&place, args);
        assert_eq!(out, answer);
        assert!(seen.contains(word), "{args:?} shows nothing: {seen:?}");
        // The line is cleared, and nothing comes behind that.
        assert!(seen.ends_with("\r\u{1b}[2K"), "{args:?} {seen:?}");
        // In a pipe there is nothing: `says` looks at all of stderr.
        let seen = place.run(args);
        assert_eq!((seen.out.as_str(), seen.err.as_str()), (answer, ""));
    }
    // An answer that is there at once shows nothing.
    assert_eq!(
        shown(&place, &["get", "FILE", "users", "ada"]),
        ("1\n".to_owned(), String::new())
    );
}
