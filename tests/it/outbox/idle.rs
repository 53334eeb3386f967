//! An idle process: nobody looks at the disk, and nobody wakes up.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sprag::testkit::{Disk, RamDisk};
use sprag::{Handled, Options, Relay};

use super::{MAIL, secs};

/// Long enough that a look every so often would show.
const WHILE: Duration = Duration::from_millis(1500);
const CHILD: &str = "SPRAG_IDLE_CHILD";

/// Passes calls on, and counts them.
#[derive(Debug)]
struct Counting {
    disk: RamDisk,
    calls: Arc<AtomicU64>,
}

impl Counting {
    fn counted(&self) -> &RamDisk {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.disk
    }
}

impl Disk for Counting {
    fn len(&self) -> std::io::Result<u64> {
        self.counted().len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.counted().read(offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.counted().write(offset, data)
    }

    fn write_synced(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.counted().write_synced(offset, data)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.counted().sync()
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.counted().set_len(len)
    }
}

/// The process that is looked at: a relay with nothing to do, after it had something. Says how often its disk was called while it
/// was asked to wait.
#[test]
fn a_process_with_an_idle_relay() {
    let calls = Arc::new(AtomicU64::new(0));
    let disk = Counting {
        disk: RamDisk::new(),
        calls: calls.clone(),
    };
    let store = Options::new().create_on(Arc::new(disk)).expect("a store");
    let (said, heard) = mpsc::channel();
    let relay = Relay::new(&store, MAIL)
        .workers(4)
        .lease(Duration::from_millis(30))
        .start(move |delivery| {
            said.send(delivery.message.clone()).expect("the test listens");
            Handled::Done
        });
    let relay = relay.expect("a relay");
    store.enqueue(MAIL, &"one".to_owned()).expect("enqueued");
    assert_eq!(heard.recv_timeout(secs(60)).expect("a message"), "one");
    while super::counts(&store) != [0; 5] {
        std::thread::yield_now();
    }
    // The thread that extends leases looks once more, a third of a lease later.
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err());
    assert!(calls.load(Ordering::Relaxed) > 0, "the disk was used before");
    let before = calls.load(Ordering::Relaxed);
    if std::env::var_os(CHILD).is_some() {
        println!("idle.");
        let _ = std::io::stdin().read(&mut [0]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), before, "nobody called the disk");
    assert_eq!(relay.drain(secs(60)).left, 0);
}

/// How often each thread of the store in a process gave its processor up, by its number and name.
fn switches(process: u32) -> Vec<(String, u64)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
    let mut found: Vec<_> = tasks
        .map(|task| {
            let path = task.expect("a thread").path();
            let text = |file: &str| std::fs::read_to_string(path.join(file)).expect("what is known of it");
            let status = text("status");
            let count = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            let count = count.expect("the count").trim().parse().expect("a number");
            (format!("{} {}", path.display(), text("comm").trim()), count)
        })
        .collect();
    found.retain(|(name, _): &(String, u64)| name.contains("sprag"));
    found.sort();
    found
}

#[test]
fn an_idle_process_makes_no_disk_call_and_no_wake_up() {
    let mut child = Command::new(std::env::current_exe().expect("path of this test"))
        .args([
            "--exact",
            "outbox::idle::a_process_with_an_idle_relay",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(
        lines.any(|line| line.expect("a line").contains("idle.")),
        "it comes to rest"
    );
    let (ended, ends) = mpsc::channel();
    std::thread::spawn(move || ended.send(lines.count()));
    let before = switches(child.id());
    assert!(ends.recv_timeout(WHILE).is_err(), "it goes on until it is told");
    let after = switches(child.id());
    // Four workers, their leases, the checkpoints.
    assert_eq!(before.len(), 6, "{before:?}");
    assert_eq!(before, after, "nobody woke up");
    child.stdin.take().expect("its input").write_all(b"!").expect("told");
    assert!(child.wait().expect("it ends").success());
}
