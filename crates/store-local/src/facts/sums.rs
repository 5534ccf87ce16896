//! Checksums that btrfs keeps of the sectors of files, read without reading the files.
//!
//! A checksum covers the bytes of a sector as they were written, so dirty pages are flushed first. The last sector of a
//! file has no valid checksum: `truncate` leaves old bytes behind the end there, under the old checksum. Compressed,
//! inline, encrypted and unsummed parts are unknown; holes and reserved space are zeros.
//!
//! New kernels return the checksums of a file to anyone who may read the file. On older kernels the checksum tree is
//! searched, which needs `CAP_SYS_ADMIN` (`docs/decisions/0038`).

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use deltic_core::StoredSums;
use rustix::io::Errno;

use super::btrfs::{
    EXTENT_DATA, Info, Item, NODATACOW, NODATASUM, Place, TREE_OF_FILE, TRIES, hole_check,
    inode_number_and_flags,
};
use super::ioctl::{self, SUMS_HEAD_BYTES, SumsBuffer};
use super::search::{By, Search, u32_at, u64_at};

/// Returns the checksums of a range of a file of `len` bytes, after a flush; `None` if the checksums cannot be read.
pub(super) fn file_sums(
    file: BorrowedFd<'_>,
    range: &Range<u64>,
    len: u64,
    by: By,
) -> Result<Option<StoredSums>, Errno> {
    by.flush(file)?;
    for _ in 0..TRIES {
        let before = Info::of(file)?;
        let (Some(kind), Ok(sector)) = (before.sums, before.sector_bytes.try_into()) else {
            return Ok(None);
        };
        let mut sums = StoredSums::new(kind, sector, &(range.start..range.end.min(len)));
        fill_sums(&mut Search::new(file, by), &before, &mut sums)?;
        // Within a transaction, no address is freed and allocated again.
        if Info::of(file)?.transaction == before.transaction {
            if !len.is_multiple_of(before.sector_bytes) {
                sums.forget_block(len);
            }
            return Ok(Some(sums));
        }
    }
    Ok(None)
}

fn fill_sums(search: &mut Search<'_>, info: &Info, sums: &mut StoredSums) -> Result<(), Errno> {
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    if !IS_MISSING.load(Ordering::Relaxed) {
        match read_by_ioctl(search, sums) {
            Err(Errno::NOTTY) => IS_MISSING.store(true, Ordering::Relaxed),
            told => return told,
        }
    }
    read_from_csum_tree(search, info, sums)
}

/// Reads the checksums by `BTRFS_IOC_GET_CSUMS`.
fn read_by_ioctl(search: &Search<'_>, sums: &mut StoredSums) -> Result<(), Errno> {
    let mut is_hole = hole_check(search.file, search.by);
    let buffer = vec![0; size_of::<SumsBuffer>()].into_boxed_slice();
    let mut buffer: Box<SumsBuffer> = buffer.try_into().unwrap_or_else(|_| unreachable!());
    let Range { mut start, end } = sums.range();
    while start < end {
        let head = [start, end - start, 0, 0].map(u64::to_ne_bytes);
        buffer[..SUMS_HEAD_BYTES].copy_from_slice(head.as_flattened());
        ioctl::read_sums(search.file, &mut buffer)?;
        let (head, entries) = buffer.split_at(SUMS_HEAD_BYTES);
        let written = entries.get(..u64_at(head, 16)? as usize).ok_or(Errno::INVAL)?;
        let next = add_entries(written, sums, &mut is_hole)?;
        if next <= start {
            // The end of the file, or an unknown answer.
            break;
        }
        start = next;
    }
    Ok(())
}

/// Adds the checksums of one kernel answer to `sums`. Returns the end of the last range in the answer. A range that the
/// kernel reports as zeros counts as zeros only if it is a hole, for the reason in [`super::btrfs`]. So reserved space
/// is unknown here.
fn add_entries(
    mut entries: &[u8],
    sums: &mut StoredSums,
    mut is_hole: impl FnMut(&Range<u64>) -> bool,
) -> Result<u64, Errno> {
    let (mut next, sector, asked) = (0, u64::from(sums.block_bytes()), sums.range());
    while !entries.is_empty() {
        let (start, len, kind) = (u64_at(entries, 0)?, u64_at(entries, 8)?, u32_at(entries, 16)?);
        let end = start.checked_add(len).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(sector) || end.checked_next_multiple_of(sector).is_none() {
            return Err(Errno::INVAL);
        }
        entries = entries.get(24..).ok_or(Errno::INVAL)?;
        if kind == HAS_SUMS {
            let bytes = len.div_ceil(sector).checked_mul(sums.kind().bytes() as u64);
            let of = bytes.and_then(|bytes| entries.split_at_checked(bytes.try_into().ok()?));
            let (told, rest) = of.ok_or(Errno::INVAL)?;
            sums.put_sums(start, told);
            entries = rest;
        } else if kind == ZEROED {
            let zeros = start.max(asked.start)..end.min(asked.end);
            if zeros.start < zeros.end && is_hole(&zeros) {
                sums.put_zeros(&zeros);
            }
        }
        next = end;
    }
    Ok(next)
}

/// Reads the checksums from the checksum tree of the whole file system.
fn read_from_csum_tree(
    search: &mut Search<'_>,
    info: &Info,
    sums: &mut StoredSums,
) -> Result<(), Errno> {
    let (inode, flags) = inode_number_and_flags(search)?;
    if flags & (NODATASUM | NODATACOW) != 0 {
        return Ok(());
    }
    let range = sums.range();
    let items = csum_items(search, inode, &range, info.sector_bytes)?;
    let mut pieces = pieces_to_look_up(&items, sums, hole_check(search.file, search.by));
    pieces.sort_unstable();
    let mut rest = &pieces[..];
    while let Some(first) = rest.first() {
        let (mut end, mut count) = (first.end(), 1);
        while let Some(next) =
            rest.get(count).filter(|next| next.address <= end.saturating_add(NEAR_BYTES))
        {
            end = end.max(next.end());
            count += 1;
        }
        let (near, after) = rest.split_at(count);
        look_up_sums(search, info, near, sums)?;
        rest = after;
    }
    Ok(())
}

/// Returns the items that overlap `range`, and perhaps an item before the range. No item points to the previous item,
/// so the search starts further and further back.
fn csum_items(
    search: &mut Search<'_>,
    inode: u64,
    range: &Range<u64>,
    sector_bytes: u64,
) -> Result<Vec<Item>, Errno> {
    let mut back = 0;
    loop {
        let from = range.start.saturating_sub(back);
        let (mut items, mut is_reached) = (Vec::new(), from == 0);
        let last = [inode, EXTENT_DATA, range.end.saturating_sub(1)];
        search.for_each_item(
            TREE_OF_FILE,
            [inode, EXTENT_DATA, from],
            last,
            |[_, _, start], item| {
                if start <= range.start {
                    // Earlier items, perhaps millions, end where this item starts.
                    is_reached = true;
                    items.clear();
                }
                items.push(Item::read(start, item, sector_bytes)?);
                Ok(())
            },
        )?;
        if is_reached {
            return Ok(items);
        }
        back = back.saturating_mul(16).max(FIRST_LOOK_BACK);
    }
}

/// Bytes of the first look back. Most extents are no longer.
const FIRST_LOOK_BACK: u64 = 128 << 10;

/// A part of a file, stored from `address` on the device. `start` is its offset in the file; `len` is in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    address: u64,
    len: u64,
    start: u64,
}

impl Piece {
    const fn end(&self) -> u64 {
        self.address.saturating_add(self.len)
    }
}

/// Returns the pieces that have checksums. Notes zeros in `sums`: a gap between items counts as zeros only if it is a
/// hole, for the reason in [`super::btrfs`].
fn pieces_to_look_up(
    items: &[Item],
    sums: &mut StoredSums,
    mut is_hole: impl FnMut(&Range<u64>) -> bool,
) -> Vec<Piece> {
    let range = sums.range();
    let (mut pieces, mut at) = (Vec::new(), range.start);
    let mut gap = |sums: &mut StoredSums, gap: Range<u64>| {
        if !gap.is_empty() && is_hole(&gap) {
            sums.put_zeros(&gap);
        }
    };
    for item in items {
        let end = item.start.saturating_add(item.len);
        let start = item.start.clamp(range.start, range.end);
        gap(sums, at..start);
        let of = start..end.min(range.end);
        at = at.max(of.end);
        if of.is_empty() {
            continue;
        }
        match item.is {
            Place::Zero => sums.put_zeros(&of),
            Place::In(extent, piece) if piece.method == 0 => {
                let into = piece.from.saturating_add(of.start - item.start);
                let address = extent.address.saturating_add(into);
                pieces.push(Piece { address, len: of.end - of.start, start: of.start });
            }
            Place::In(..) | Place::Unknown | Place::Identified(_) => {}
        }
    }
    gap(sums, at..range.end);
    pieces
}

/// Looks up the checksums of pieces that are near each other. The pieces are sorted by address.
fn look_up_sums(
    search: &mut Search<'_>,
    info: &Info,
    pieces: &[Piece],
    sums: &mut StoredSums,
) -> Result<(), Errno> {
    let each = sums.kind().bytes() as u64;
    // An item holds the checksums of consecutive sectors, as many as fit in a node.
    let longest = info.node_bytes / each * info.sector_bytes;
    let from = pieces.first().map_or(0, |piece| piece.address.saturating_sub(longest));
    let to = pieces.iter().map(Piece::end).max().unwrap_or(0);
    let first = [SUMS_OBJECT, SUMS, from];
    let mut passed = 0;
    search.for_each_item(
        SUM_TREE,
        first,
        [SUMS_OBJECT, SUMS, to.saturating_sub(1)],
        |[_, _, start], item| {
            let end = start.saturating_add(item.len() as u64 / each * info.sector_bytes);
            passed += pieces[passed..].iter().take_while(|piece| piece.end() <= start).count();
            for piece in &pieces[passed..] {
                let both = piece.address.max(start)..piece.end().min(end);
                if piece.address >= end {
                    break;
                }
                if both.is_empty() {
                    continue;
                }
                let at = |address: u64| ((address - start) / info.sector_bytes * each) as usize;
                let told = item.get(at(both.start)..at(both.end)).ok_or(Errno::INVAL)?;
                sums.put_sums(piece.start + (both.start - piece.address), told);
            }
            Ok(())
        },
    )
}

/// Largest gap in bytes between pieces of a single search. Reading the checksums of a larger gap costs more than
/// another search.
const NEAR_BYTES: u64 = 1 << 20;

const SUM_TREE: u64 = 7;
const SUMS_OBJECT: u64 = -10_i64 as u64;
const SUMS: u64 = 128;
const HAS_SUMS: u64 = 1;
const ZEROED: u64 = 2;

#[cfg(test)]
mod tests {
    use deltic_core::SumKind;
    use deltic_core::stored::BlockSum;

    use super::*;

    const SECTOR: u64 = 4096;

    fn entry(start: u64, len: u64, kind: u32, sums: &[u8]) -> Vec<u8> {
        let mut entry = Vec::new();
        entry.extend(start.to_le_bytes());
        entry.extend(len.to_le_bytes());
        entry.extend(kind.to_le_bytes());
        entry.extend([0; 4]);
        entry.extend(sums);
        entry
    }

    /// The answer of a kernel that has the call, after the header of the answer (`struct btrfs_ioctl_get_csums_entry`).
    #[test]
    fn an_answer_of_a_file_is_taken_as_far_as_it_goes() {
        let answer = [
            entry(0, SECTOR * 2, 1, &[1, 1, 1, 1, 2, 2, 2, 2]),
            entry(SECTOR * 2, SECTOR, 2, &[]),
            entry(SECTOR * 3, SECTOR, 4, &[]),
            entry(SECTOR * 4, SECTOR, 8, &[]),
            entry(SECTOR * 5, 10, 1, &[3; 4]),
        ]
        .concat();
        let mut sums = StoredSums::new(SumKind::Crc32c, SECTOR as u32, &(0..SECTOR * 9));
        assert_eq!(add_entries(&answer, &mut sums, |_| true), Ok(SECTOR * 5 + 10));
        let expected = [
            BlockSum::Sum(&[1; 4]),
            BlockSum::Sum(&[2; 4]),
            BlockSum::Zero,
            BlockSum::Unknown,
            BlockSum::Unknown,
            BlockSum::Sum(&[3; 4]),
            BlockSum::Unknown,
        ];
        for (no, expected) in (0..).zip(expected) {
            assert_eq!(sums.sum_at(no * SECTOR), expected, "{no}");
        }
        assert_eq!(add_entries(&[], &mut sums, |_| true), Ok(0));
    }

    /// While extents are replaced, a gap between two items looks like a hole.
    #[test]
    fn zeros_of_an_answer_are_unknown_unless_they_are_a_hole() {
        let answer = [
            entry(0, SECTOR * 3, 2, &[]),
            entry(SECTOR * 3, SECTOR, 1, &[7; 4]),
            entry(SECTOR * 4, SECTOR * 2, 2, &[]),
            entry(SECTOR * 6, SECTOR * 9, 2, &[]),
        ]
        .concat();
        // The requested range begins and ends inside reported ranges.
        let mut sums = StoredSums::new(SumKind::Crc32c, SECTOR as u32, &(SECTOR..SECTOR * 9));
        let mut asked = Vec::new();
        let told = add_entries(&answer, &mut sums, |range| {
            asked.push(range.start / SECTOR..range.end / SECTOR);
            range.start != SECTOR * 4
        });
        assert_eq!((told, asked), (Ok(SECTOR * 15), vec![1..3, 4..6, 6..9]));
        let is = |no| sums.sum_at(no * SECTOR);
        assert_eq!([1, 2, 6, 7, 8].map(is), [BlockSum::Zero; 5]);
        assert_eq!(is(3), BlockSum::Sum(&[7; 4]));
        assert_eq!([0, 4, 5, 9].map(is), [BlockSum::Unknown; 4]);
    }

    #[test]
    fn an_answer_that_no_kernel_gives_is_refused() {
        let mut sums = StoredSums::new(SumKind::Crc32c, SECTOR as u32, &(0..SECTOR * 9));
        let refused = [
            entry(0, SECTOR * 2, 1, &[1; 4]),
            entry(5, SECTOR, 1, &[1; 4]),
            entry(u64::MAX - SECTOR + 1, SECTOR * 2, 1, &[1; 8]),
            entry(u64::MAX - SECTOR + 1, 10, 1, &[1; 4]),
            entry(0, u64::MAX, 1, &[1; 8]),
            entry(0, SECTOR, 1, &[1; 4])[..20].to_vec(),
        ];
        for answer in refused {
            let told = add_entries(&answer, &mut sums, |_| true);
            assert_eq!(told, Err(Errno::INVAL), "{answer:?}");
        }
    }
}
