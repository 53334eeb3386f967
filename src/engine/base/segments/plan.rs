//! Which segments are merged next, and where entries go. Pure.
//!
//! A class has the entries that are kept for between 4^n and 4^(n+1) seconds, a window those of one class that were stored
//! within half of 4^n seconds; so where all keeps are alike a segment is over at most half a keep after its first entry.

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::segment::About;

/// The class of what never ends.
const FOREVER: u8 = u8::MAX;
/// So many segments of about one length are merged into one.
const FAN_IN: usize = 8;
/// Most entries of a merged segment: its filter has 5 MB, and lies in memory while the segment is written.
pub const MERGED_ENTRIES_MAX: u64 = 4_000_000;
/// Most segments that are merged at once.
const SOURCES_MAX: usize = 64;

const NS_PER_SEC: u64 = 1_000_000_000;

/// The class of an entry that is needed until `hides_ns`.
pub fn class_of(hides_ns: u64, now_ns: u64) -> u8 {
    if hides_ns == u64::MAX {
        return FOREVER;
    }
    let secs = hides_ns.saturating_sub(now_ns) / NS_PER_SEC;
    (secs.max(1).ilog2() / 2) as u8
}

/// The window that a moment lies in.
pub fn window_of(class: u8, now_ns: u64) -> u64 {
    if class == FOREVER {
        return 0;
    }
    now_ns / (NS_PER_SEC / 2).saturating_mul(4u64.saturating_pow(u32::from(class)))
}

/// The sources of the merge that should begin next: numbers of segments that are not `busy` in another one.
pub fn next_merge(segments: &[&About], busy: &BTreeSet<u64>, now_ns: u64) -> Option<BTreeSet<u64>> {
    let mut groups: BTreeMap<(u8, u64), Vec<&About>> = BTreeMap::new();
    for about in segments.iter().filter(|about| !busy.contains(&about.id)) {
        groups.entry((about.class, about.window)).or_default().push(about);
    }
    groups.into_iter().find_map(|((class, window), mut group)| {
        group.sort_by_key(|about| about.entries);
        let is_closed = window != window_of(class, now_ns);
        let sources = if is_closed {
            &group[..]
        } else {
            up_to_full_level(&group)
        };
        fitting(sources)
    })
}

/// The segments up to the first level that has enough of them, and may become one. A level is a power of that number.
fn up_to_full_level<'a>(by_entries: &'a [&'a About]) -> &'a [&'a About] {
    let level = |about: &&About| about.entries.max(1).ilog(FAN_IN as u64);
    let mut below = 0;
    for levels in by_entries.chunk_by(|one, next| level(one) == level(next)) {
        let half = by_entries.get(..below + FAN_IN / 2).unwrap_or_default();
        below += levels.len();
        if levels.len() >= FAN_IN {
            // Of the highest level only as many as become one, and none if that are few: the smaller ones would be merged
            // again and again.
            let entries: u64 = half.iter().map(|about| about.entries).sum();
            let pays = entries <= MERGED_ENTRIES_MAX;
            return by_entries.get(..below).filter(|_| pays).unwrap_or_default();
        }
    }
    &[]
}

/// As many of them, from the smallest on, as may become one; `None` unless that are two.
fn fitting(by_entries: &[&About]) -> Option<BTreeSet<u64>> {
    let mut entries = 0_u64;
    let fits = by_entries.iter().take(SOURCES_MAX).take_while(|about| {
        entries = entries.saturating_add(about.entries);
        entries <= MERGED_ENTRIES_MAX
    });
    let sources: BTreeSet<u64> = fits.map(|about| about.id).collect();
    (sources.len() >= 2).then_some(sources)
}
