//! A file and a folder that nobody may write to can be read (field report RO-1), and nothing is made beside them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{Place, Seen};
use crate::cli::faults::{READING, WRITING, furnished};

/// Runs the command as somebody whom permissions bind; `None` if this machine cannot.
fn bound(place: &Place, program: &Path, args: &[&str]) -> Option<Seen> {
    let args = args.iter().map(|arg| match *arg {
        "FILE" => place.file.as_os_str(),
        arg => arg.as_ref(),
    });
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(args).output().ok().map(Seen::from)
}

#[test]
fn a_read_only_file_in_a_read_only_folder_is_read_and_a_write_is_told() {
    let place = furnished();
    let program = place.path("sprag");
    fs::copy(env!("CARGO_BIN_EXE_sprag"), &program).expect("the program");
    fs::set_permissions(&program, Permissions::from_mode(0o555)).expect("mode");
    fs::set_permissions(&place.file, Permissions::from_mode(0o444)).expect("mode");
    fs::set_permissions(place.dir.path(), Permissions::from_mode(0o555)).expect("mode");
    let before = fs::read(&place.file).expect("its bytes");
    let open_up = || fs::set_permissions(place.dir.path(), Permissions::from_mode(0o755)).expect("mode");
    for args in READING {
        let Some(seen) = bound(&place, &program, args) else {
            open_up();
            println!("SKIPPED: run as root without setpriv, so that permissions bind nobody");
            return;
        };
        assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""), "{args:?} {seen:?}");
        assert!(!seen.out.is_empty(), "{args:?}");
    }
    for (args, _) in WRITING {
        let args: Vec<&str> = std::iter::once("--json").chain(args.iter().copied()).collect();
        let seen = bound(&place, &program, &args).expect("it ran before");
        seen.fails(7, "read_only");
    }
    let names = fs::read_dir(place.dir.path()).expect("the folder").count();
    assert_eq!(names, 2, "the store and the program");
    assert_eq!(fs::read(&place.file).expect("its bytes"), before);
    open_up();
}
