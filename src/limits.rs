//! Every bound of the store, with its unit. A number that limits a caller stands here and nowhere else.

/// Longest key of a record in bytes, as encoded for its order.
pub const KEY_BYTES_MAX: usize = 4096;
/// Longest value of a record in bytes, as encoded. The log may set a lower bound: see [`commit_bytes_max`].
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Deepest nesting of one value in levels: each option, newtype, tuple, sequence, map, struct and enum is one.
pub const VALUE_DEPTH_MAX: usize = 128;
/// Elements that the sequences and maps of one value may have beyond one for each encoded byte. Only elements that take no
/// byte, as of `Vec<()>`, ever need them.
pub const VALUE_FREE_ELEMENTS_MAX: usize = 1 << 16;
/// Deepest nesting of pairs in a kind of key, in levels.
pub const KEY_PAIR_DEPTH_MAX: usize = 8;
/// Longest name of a table in bytes.
pub const TABLE_NAME_BYTES_MAX: usize = 255;
/// Longest name of a state or a machine in bytes.
pub const STATE_NAME_BYTES_MAX: usize = 64;
/// Most states of one machine.
pub const STATES_MAX: usize = 256;
/// Longest scope of a remembered key in bytes; the alphabet is `[A-Za-z0-9._-]`.
pub const SCOPE_BYTES_MAX: usize = 64;
/// Longest time for which a key is kept by its text form, in days (100 years). A program may ask for more.
pub const KEEP_TEXT_DAYS_MAX: u64 = 36_525;
/// Longest remembered key in bytes.
pub const ONCE_KEY_BYTES_MAX: usize = 255;
/// Longest name of a queue in bytes.
pub const QUEUE_NAME_BYTES_MAX: usize = 255;
/// Longest key of a message in bytes.
pub const MESSAGE_KEY_BYTES_MAX: usize = 255;
/// Most bytes that the names and texts of a message's headers have together.
pub const HEADERS_BYTES_MAX: usize = 16 << 10;
/// Most messages that one claim hands out.
pub const CLAIM_MESSAGES_MAX: usize = 10_000;
/// Payload in bytes after which one claim hands out no more messages.
pub const CLAIM_BYTES_MAX: usize = 16 << 20;
/// Lease of a claim if nothing else is asked for, in seconds.
pub const LEASE_SECS_DEFAULT: u64 = 30;
/// Longest sleep in seconds of who waits for a message that is scheduled: the wall clock may be set meanwhile.
pub const SCHEDULE_LOOK_SECS_MAX: u64 = 30;
/// Most dead letters that one replay or discard looks at.
pub const DEAD_LETTERS_AT_ONCE_MAX: usize = 10_000;
/// Most errors that are kept of a message; the first ones go.
pub const ERRORS_KEPT_MAX: usize = 5;
/// Longest text that is kept of an error or a reason, in bytes.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;
/// Longest line of an export in bytes that an import takes.
pub const EXPORT_LINE_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;
/// Most findings that a check keeps; it counts the others.
pub const FINDINGS_MAX: usize = 1000;

/// Smallest log half in bytes.
pub const LOG_HALF_BYTES_MIN: u64 = 16 << 10;
/// Largest log half in bytes.
pub const LOG_HALF_BYTES_MAX: u64 = 1 << 30;
/// Log half in bytes if nothing else is asked for at create.
pub const LOG_HALF_BYTES_DEFAULT: u64 = 8 << 20;
/// Page cache of the base in bytes if nothing else is asked for.
pub const CACHE_BYTES_DEFAULT: usize = 7 << 20;
/// Longest time that a commit waits for a sync that another thread runs, in milliseconds; then its outcome is in doubt.
pub const MEMBER_WAIT_MS_MAX: u64 = 1000;
/// Longest time a store may have been closed, in seconds, for that time to age its remembered keys (31 days).
pub const MAX_OFFLINE_SECS_DEFAULT: u64 = 31 * 24 * 3600;

/// Most bytes that one commit may put into the log: half of a log half, so that a half always holds two.
pub const fn commit_bytes_max(log_half_bytes: u64) -> u64 {
    log_half_bytes / 2
}

const _: () = assert!(LOG_HALF_BYTES_MIN >= 2 * 4096);
const _: () = assert!(VALUE_BYTES_MAX as u64 <= commit_bytes_max(LOG_HALF_BYTES_MAX));
