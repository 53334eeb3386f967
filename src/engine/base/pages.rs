//! The pages of redb's file, read without redb: does each have the checksum that its parent names?
//!
//! redb trusts what it reads. What it holds of its own in damaged pages (which pages are free, where tables begin) can
//! make it panic while it commits, and again while that unwinds, which ends the process. So these pages, which are few,
//! are judged before redb is given the file; `check` judges all of them. Of the others redb is given no branch that is
//! damaged: it could lead to a page that is no longer in use, and to records as they once were. What is damaged in a leaf
//! shows by the checksums of its entries, or is missing.
//!
//! Owns the layout of redb's file format 3 as far as a walk needs it. Total over any bytes: a page is read only if it lies
//! inside the file, and nothing is followed from a page whose checksum is wrong.

use std::collections::HashMap;
use std::io;

use twox_hash::XxHash3_128;

use crate::disk::Disk;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
const HEADER_BYTES: usize = 320;
const PAGE_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 128;
/// The slot in use, and that it was written in two phases: so is every commit of a store.
const PRIMARY: u8 = 1;
const TWO_PHASES: u8 = 4;
/// That it was not closed. What else the byte can say is of modes that a store never uses, and would choose another slot.
const NOT_CLOSED: u8 = 2;
const VERSION: u8 = 3;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// No tree of this fan-out is deeper.
const DEPTH_MAX: usize = 64;

/// Damage that a walk met.
#[derive(Debug)]
pub(super) struct Bad {
    /// Where in the base the page begins.
    pub(super) at: u64,
    pub(super) seen: String,
}

/// The base as a disk: `len` bytes from `offset` on.
struct Pages<'a> {
    disk: &'a dyn Disk,
    offset: u64,
    len: u64,
    geometry: Geometry,
    /// Pages that may still be visited: no more than the file has.
    left: u64,
    /// Which tables are judged, by their names; of the others only where they begin.
    judged: &'a dyn Fn(&[u8]) -> bool,
    bad: &'a mut dyn FnMut(Bad),
    expected: Expected,
}

/// The checksums that pages must have, as far as their parents were read: half of each, at the number of its page. A page
/// leaves when it was read, so that the rest of the base can be larger than what is kept of it.
#[derive(Debug, Default)]
pub(super) struct Expected {
    sums: HashMap<u64, u64>,
    geometry: Geometry,
}

impl Expected {
    /// Judges a page that was read. One of which nothing is known passes, and a leaf does.
    pub(super) fn passes(&mut self, at: u64, page: &[u8]) -> bool {
        let Some(sum) = self.sums.remove(&(at / PAGE_BYTES)) else {
            return true;
        };
        if page.first() == Some(&LEAF) {
            return true;
        }
        let end = branch_end(page, Widths::default());
        let covered = end.and_then(|end| page.get(..end));
        if page.first() != Some(&BRANCH) || covered.map(half) != Some(sum) {
            self.sums.insert(at / PAGE_BYTES, sum);
            return false;
        }
        for child in children(page) {
            self.expect(child);
        }
        true
    }

    /// What is written anew has no parent yet that names its checksum.
    pub(super) fn forget(&mut self, at: u64, len: usize) {
        if self.sums.is_empty() {
            return;
        }
        for page in at / PAGE_BYTES..(at + len as u64).div_ceil(PAGE_BYTES) {
            self.sums.remove(&page);
        }
    }

    fn expect(&mut self, child: Child) {
        if let Some((at, _)) = self.geometry.place(child.page) {
            self.sums.insert(at / PAGE_BYTES, child.checksum as u64);
        }
    }
}

fn half(bytes: &[u8]) -> u64 {
    XxHash3_128::oneshot(bytes) as u64
}

/// What the header says of where pages lie.
#[derive(Clone, Copy, Debug, Default)]
struct Geometry {
    region_header_pages: u64,
    region_max_pages: u64,
}

/// A reference to a tree or to a part of it.
#[derive(Clone, Copy)]
struct Child {
    page: u64,
    checksum: u128,
}

/// Lengths of keys and values, for tables in which they are all the same.
#[derive(Clone, Copy, Default)]
struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

/// What the values of a tree are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Tables, whose own trees begin there: redb's, or the store's.
    Tables {
        of_redb: bool,
    },
    Values,
}

/// Walks the trees of the base that begins at `offset`. Gives how many pages it judged, and what those must be that it
/// left out: tables of the store that are not `judged`.
///
/// # Errors
/// What the disk reports. Damage goes to `bad`.
pub(super) fn judge(
    disk: &dyn Disk,
    offset: u64,
    judged: &dyn Fn(&[u8]) -> bool,
    bad: &mut dyn FnMut(Bad),
) -> io::Result<(u64, Expected)> {
    let len = disk.len()?.saturating_sub(offset);
    let mut header = [0; HEADER_BYTES];
    if len < PAGE_BYTES {
        bad(Bad {
            at: 0,
            seen: format!("bytes={len}"),
        });
        return Ok((0, Expected::default()));
    }
    disk.read(offset, &mut header)?;
    let (geometry, [user, system]) = match read_header(&header) {
        Ok(read) => read,
        Err(seen) => {
            bad(Bad { at: 0, seen });
            return Ok((1, Expected::default()));
        }
    };
    let pages_max = len / PAGE_BYTES;
    let mut pages = Pages {
        disk,
        offset,
        len,
        geometry,
        left: pages_max,
        judged,
        bad,
        expected: Expected {
            geometry,
            ..Expected::default()
        },
    };
    for (root, of_redb) in [(system, true), (user, false)] {
        if let Some(root) = root {
            pages.tree(root, Widths::default(), Holds::Tables { of_redb }, 0)?;
        }
    }
    Ok((pages_max - pages.left + 1, pages.expected))
}

/// Geometry, and the roots of the user's and of redb's own tables; or what is wrong.
fn read_header(header: &[u8; HEADER_BYTES]) -> Result<(Geometry, [Option<Child>; 2]), String> {
    if !header.starts_with(&MAGIC) {
        return Err("the header begins with other bytes".to_owned());
    }
    let flags = header.get(9).copied().unwrap_or_default();
    let page_bytes = u32_at(header, 12).unwrap_or_default();
    if u64::from(page_bytes) != PAGE_BYTES {
        return Err(format!("page_bytes={page_bytes}"));
    }
    if flags & TWO_PHASES == 0 {
        return Err(format!("the last commit has not two phases, flags={flags}"));
    }
    if flags & !(PRIMARY | NOT_CLOSED | TWO_PHASES) != 0 {
        return Err(format!("the header has flags that no store has, flags={flags}"));
    }
    let geometry = Geometry {
        region_header_pages: u64::from(u32_at(header, 16).unwrap_or_default()),
        region_max_pages: u64::from(u32_at(header, 20).unwrap_or_default()),
    };
    let begins = 64 + usize::from(flags & PRIMARY) * SLOT_BYTES;
    let slot = header.get(begins..begins + SLOT_BYTES).unwrap_or_default();
    let (fields, checksum) = slot.split_at_checked(SLOT_BYTES - 16).unwrap_or_default();
    if u128_at(checksum, 0) != Some(XxHash3_128::oneshot(fields)) {
        return Err(format!("the checksum of commit slot {} is wrong", flags & PRIMARY));
    }
    match fields.first() {
        Some(&VERSION) => {}
        version => return Err(format!("version={}", version.copied().unwrap_or_default())),
    }
    let root = |present: usize, at: usize| {
        let is_there = fields.get(present).is_some_and(|flag| *flag != 0);
        is_there.then(|| child_at(fields, at)).flatten()
    };
    Ok((geometry, [root(1, 8), root(2, 40)]))
}

impl Pages<'_> {
    /// Judges a page and what is below it.
    fn tree(&mut self, child: Child, widths: Widths, holds: Holds, depth: usize) -> io::Result<()> {
        let Some((at, len)) = self.place(child.page) else {
            self.found(0, format!("a page lies outside of the base, page={:#x}", child.page));
            return Ok(());
        };
        if depth == DEPTH_MAX || self.left == 0 {
            self.found(at, "the tree is deeper or larger than the base".to_owned());
            return Ok(());
        }
        self.left -= 1;
        let mut page = vec![0; len];
        self.disk.read(self.offset + at, &mut page)?;
        let end = match page.first() {
            Some(&LEAF) => leaf_end(&page, widths),
            Some(&BRANCH) => branch_end(&page, widths),
            _ => None,
        };
        let covered = end.and_then(|end| page.get(..end));
        if covered.map(XxHash3_128::oneshot) != Some(child.checksum) {
            let kind = page.first().copied().unwrap_or_default();
            self.found(at, format!("another checksum than its parent names, kind={kind}"));
            return Ok(());
        }
        match (page.first(), holds) {
            (Some(&BRANCH), _) => {
                for below in children(&page) {
                    self.tree(below, widths, holds, depth + 1)?;
                }
            }
            (_, Holds::Tables { of_redb }) => {
                for Root { name, child, widths } in roots(&page) {
                    if of_redb || (self.judged)(name) {
                        self.tree(child, widths, Holds::Values, depth + 1)?;
                    } else {
                        // Keys and values of the store's tables are of any length.
                        self.expected.expect(child);
                    }
                }
            }
            (_, Holds::Values) => {}
        }
        Ok(())
    }

    /// Where a page lies that is inside of the base, and its length.
    fn place(&self, page: u64) -> Option<(u64, usize)> {
        let (at, len) = self.geometry.place(page)?;
        let is_inside = at.checked_add(len)? <= self.len;
        is_inside.then_some((at, usize::try_from(len).ok()?))
    }

    fn found(&mut self, at: u64, seen: String) {
        (self.bad)(Bad { at, seen });
    }
}

impl Geometry {
    /// Where a page begins, and its length.
    fn place(self, page: u64) -> Option<(u64, u64)> {
        let order = (page >> 59) as u32;
        let index = page & (0x000f_ffff >> order);
        let region = (page >> 20) & 0x000f_ffff;
        let len = PAGE_BYTES.checked_shl(order)?;
        let Geometry {
            region_header_pages,
            region_max_pages,
        } = self;
        let region_bytes = (region_header_pages + region_max_pages) * PAGE_BYTES;
        let within = (region_header_pages * PAGE_BYTES).checked_add(index.checked_mul(len)?)?;
        let at = PAGE_BYTES
            .checked_add(region.checked_mul(region_bytes)?)?
            .checked_add(within)?;
        Some((at, len))
    }
}

fn count_of(page: &[u8]) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(page.get(2..4)?.try_into().ok()?)))
}

/// Where what the checksum covers ends: behind the last value.
fn leaf_end(page: &[u8], widths: Widths) -> Option<usize> {
    let count = count_of(page)?;
    let last = count.checked_sub(1)?;
    let values_at = 4 + if widths.key.is_none() { 4 * count } else { 0 };
    match widths.value {
        None => offset_at(page, values_at + 4 * last),
        Some(value) => keys_end(page, widths, count)?.checked_add(value.checked_mul(count)?),
    }
}

fn keys_end(page: &[u8], widths: Widths, count: usize) -> Option<usize> {
    match widths.key {
        None => offset_at(page, 4 * count),
        Some(key) => {
            let begins = 4 + if widths.value.is_none() { 4 * count } else { 0 };
            key.checked_mul(count)?.checked_add(begins)
        }
    }
}

/// Where what the checksum covers ends: behind the last key.
fn branch_end(page: &[u8], widths: Widths) -> Option<usize> {
    let keys = count_of(page)?;
    let last = keys.checked_sub(1)?;
    let behind_children = 8 + 24 * (keys + 1);
    match widths.key {
        None => offset_at(page, behind_children + 4 * last),
        Some(key) => key.checked_mul(keys)?.checked_add(behind_children),
    }
}

/// The parts below a branch. What is not there is not followed: the checksum was right.
fn children(page: &[u8]) -> Vec<Child> {
    let count = count_of(page).unwrap_or_default() + 1;
    let one = |index: usize| {
        Some(Child {
            checksum: u128_at(page, 8 + 16 * index)?,
            page: u64_at(page, 8 + 16 * count + 8 * index)?,
        })
    };
    (0..count).filter_map(one).collect()
}

/// Where a table begins.
struct Root<'a> {
    name: &'a [u8],
    child: Child,
    widths: Widths,
}

/// The tables that a leaf defines, without those that are empty.
fn roots(page: &[u8]) -> Vec<Root<'_>> {
    let count = count_of(page).unwrap_or_default();
    let (mut name_at, mut value_at) = (4 + 8 * count, keys_end(page, Widths::default(), count));
    let one = |index: usize| {
        let name_ends = offset_at(page, 4 + 4 * index)?;
        let value_ends = offset_at(page, 4 + 4 * count + 4 * index)?;
        let name = page.get(std::mem::replace(&mut name_at, name_ends)..name_ends)?;
        let value = page.get(value_at.replace(value_ends)?..value_ends)?;
        let width = |at: usize| match value.get(at) {
            Some(0) | None => None,
            Some(_) => offset_at(value, at + 1),
        };
        let widths = Widths {
            key: width(42),
            value: width(47),
        };
        let child = child_at(value, 10).filter(|_| value.get(9) != Some(&0))?;
        Some(Root { name, child, widths })
    };
    (0..count).filter_map(one).collect()
}

fn child_at(bytes: &[u8], at: usize) -> Option<Child> {
    Some(Child {
        page: u64_at(bytes, at)?,
        checksum: u128_at(bytes, at + 8)?,
    })
}

fn offset_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    bytes.get(at..)?.first_chunk().copied().map(u128::from_le_bytes)
}
