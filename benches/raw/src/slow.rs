//! Every sync takes longer, the same for all engines of a process.
//!
//! The functions below have the names of those of the C library that sync or write, and a program that links this crate
//! calls them instead, whichever of its parts does so: Rust's standard library, rustix told to use the C library, SQLite
//! and LMDB. They pass each call on to the kernel, and sleep after it if it made something durable and a delay is set.
//! Without one they cost a look at an atomic. A program that makes its system calls by itself is not reached.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libc::{c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

/// Nanoseconds by which each sync is longer.
static DELAY_NS: AtomicU64 = AtomicU64::new(0);
/// Syncs that were made longer.
static DELAYED: AtomicU64 = AtomicU64::new(0);

/// Makes each sync of this process longer by `delay` from now on.
pub fn set(delay: Duration) {
    DELAY_NS.store(delay.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::SeqCst);
}

/// How many syncs were made longer so far.
pub fn count() -> u64 {
    DELAYED.load(Ordering::SeqCst)
}

/// Sleeps if a delay is set and the call is one that `syncs`; keeps the error number.
fn after(outcome: c_long, syncs: impl FnOnce() -> bool) -> c_long {
    let delay = DELAY_NS.load(Ordering::Relaxed);
    if delay > 0 && outcome >= 0 && syncs() {
        DELAYED.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_nanos(delay));
    }
    outcome
}

/// Whether each write through this descriptor is a sync.
fn is_synced(fd: c_int) -> bool {
    // SAFETY: asks for the flags of a descriptor; one that is not open gives -1, which a failed call never reaches.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_DSYNC != 0
}

// SAFETY of all that follow: each has the signature that C gives it and hands its arguments to the kernel as they came, so
// it asks no more of its caller than the function it stands for. `libc::syscall` sets errno as that function does.

/// As in C.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    after(unsafe { libc::syscall(libc::SYS_fsync, fd) }, || true) as c_int
}

/// As in C.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    after(unsafe { libc::syscall(libc::SYS_fdatasync, fd) }, || true) as c_int
}

/// As in C; only a synchronous one waits.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    let outcome = unsafe { libc::syscall(libc::SYS_msync, address, length, flags) };
    after(outcome, || flags & libc::MS_SYNC != 0) as c_int
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, count: size_t) -> ssize_t {
    after(unsafe { libc::syscall(libc::SYS_write, fd, data, count) }, || {
        is_synced(fd)
    }) as ssize_t
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, data: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    let outcome = unsafe { libc::syscall(libc::SYS_pwrite64, fd, data, count, offset) };
    after(outcome, || is_synced(fd)) as ssize_t
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, data: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    unsafe { pwrite(fd, data, count, offset) }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    after(unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) }, || {
        is_synced(fd)
    }) as ssize_t
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    let (low, high) = halves(offset);
    let outcome = unsafe { libc::syscall(libc::SYS_pwritev, fd, parts, count, low, high) };
    after(outcome, || is_synced(fd)) as ssize_t
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    unsafe { pwritev(fd, parts, count, offset) }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let (low, high) = halves(offset);
    let outcome = unsafe { libc::syscall(libc::SYS_pwritev2, fd, parts, count, low, high, flags) };
    let syncs = || flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0 || is_synced(fd);
    after(outcome, syncs) as ssize_t
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    unsafe { pwritev2(fd, parts, count, offset, flags) }
}

/// The offset as the kernel takes it: where a word has 64 bits, the first half is all of it.
fn halves(offset: off_t) -> (c_long, c_long) {
    (offset as c_long, (offset >> 32) as c_long)
}
