//! Extents of btrfs, which never overwrites an extent of a file, except with `nodatacow`.
//!
//! The identity of an extent is its address and the transaction that allocated it, as recorded in the *extent tree*.
//! The items of a file do not serve: an item keeps its transaction where the file is cloned, and where a balance moves
//! the extent to a reused address. Freed space is allocated again only in a later transaction. So two allocations of
//! one address differ in their transaction (`docs/decisions/0035`).

use std::ops::Range;
use std::os::fd::BorrowedFd;

use deltic_core::SumKind;
use deltic_store::Extents;
use deltic_store::facts::{ExtentContent, MAX_PARTS, TooMany};
use rustix::fs::{IFlags, fstat, ioctl_getflags};
use rustix::io::Errno;

use super::history::mount_digest;
use super::ioctl;
use super::search::{By, Search, u32_at, u64_at};

/// Returns the extents of the first `len` bytes of `file`, after a flush; `None` if the extents cannot be read.
pub(super) fn extents(file: BorrowedFd<'_>, len: u64, by: By) -> Result<Option<Extents>, Errno> {
    let mut search = Search::new(file, by);
    // The call that needs a privilege comes first.
    let (number, flags) = inode_number_and_flags(&mut search)?;
    by.flush(file)?;
    for _ in 0..TRIES {
        let before = Info::of(file)?;
        let Some(history) = mount_digest(file, &before.fsid) else { return Ok(None) };
        let Some(mut items) = extent_items(&mut search, number, before.sector_bytes)? else {
            return Ok(None);
        };
        if flags & (NODATASUM | NODATACOW) != 0 {
            items.iter_mut().for_each(Item::clear_extent);
        }
        add_identities(&mut search, &mut items, before.transaction)?;
        // Within a transaction, no address is freed and allocated again.
        if Info::of(file)?.transaction == before.transaction {
            return Ok(add_parts(&items, Extents::new(history), len, hole_check(file, by)).ok());
        }
    }
    Ok(None)
}

/// Most tries to read within one transaction. Transactions are committed every 30 seconds, and on demand.
pub(super) const TRIES: usize = 5;

/// Present state of the file system that a file is on.
pub(super) struct Info {
    pub(super) fsid: [u8; 16],
    pub(super) sector_bytes: u64,
    /// Length of a tree node in bytes.
    pub(super) node_bytes: u64,
    /// The running transaction, or the last committed transaction.
    pub(super) transaction: u64,
    /// Kind of the checksums of data, if known.
    pub(super) sums: Option<SumKind>,
}

impl Info {
    pub(super) fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        const SUMS: u64 = 1;
        const GENERATION: u64 = 1 << 1;
        let info = ioctl::fs_info(file, SUMS | GENERATION)?;
        let fsid = *info[16..].first_chunk().ok_or(Errno::INVAL)?;
        let told = u64_at(&info, 48)?;
        if told & GENERATION == 0 {
            return Err(Errno::OPNOTSUPP);
        }
        // Kind, and length of a checksum in bytes.
        let sums = match info[44..48] {
            _ if told & SUMS == 0 => None,
            [0, 0, 4, 0] => Some(SumKind::Crc32c),
            [1, 0, 8, 0] => Some(SumKind::Xxh64),
            [2, 0, 32, 0] => Some(SumKind::Sha256),
            [3, 0, 32, 0] => Some(SumKind::Blake2b),
            _ => None,
        };
        let (node_bytes, sector_bytes) = (u32_at(&info, 32)?, u32_at(&info, 36)?);
        Ok(Self { fsid, sector_bytes, node_bytes, transaction: u64_at(&info, 56)?, sums })
    }
}

/// Returns the inode's number and flags.
pub(super) fn inode_number_and_flags(search: &mut Search<'_>) -> Result<(u64, u64), Errno> {
    let number = fstat(search.file)?.st_ino;
    let (key, mut flags) = ([number, INODE_ITEM, 0], None);
    search.for_each_item(TREE_OF_FILE, key, key, |_, item| {
        flags = Some(u64_at(item, 64)?);
        Ok(())
    })?;
    let mut flags = flags.ok_or(Errno::NOENT)?;
    // The item may be older than a `chattr +C` until the next transaction.
    if ioctl_getflags(search.file)?.contains(IFlags::NOCOW) {
        flags |= NODATACOW;
    }
    Ok((number, flags))
}

/// A part of a file that has an item. Holes have no item.
pub(super) struct Item {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) is: Place,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    Zero,
    Unknown,
    /// A piece of an extent. The item's `transaction` is that of the extent or a later one.
    In(Extent, Piece),
    Identified(ExtentContent),
}

/// An address on the device, and a length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub(super) address: u64,
    len: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Piece {
    transaction: u64,
    /// Method of compression; 0 if not compressed.
    pub(super) method: u8,
    /// Offset into the uncompressed bytes of the extent.
    pub(super) from: u64,
}

impl Item {
    /// Parses the item of extent data at offset `start` of the file.
    pub(super) fn read(start: u64, item: &[u8], sector_bytes: u64) -> Result<Self, Errno> {
        let byte = |at: usize| item.get(at).copied().ok_or(Errno::INVAL);
        let (method, kind) = (byte(16)?, byte(20)?);
        let is_plain = byte(17)? == 0 && byte(18)? == 0 && byte(19)? == 0;
        if kind == INLINE {
            // The rest of the last sector of an inline extent is zeros, or bytes written later.
            let len = u64_at(item, 8)?.next_multiple_of(sector_bytes);
            return Ok(Self { start, len, is: Place::Unknown });
        }
        let extent = Extent { address: u64_at(item, 21)?, len: u64_at(item, 29)? };
        let is = match kind {
            REGULAR | PREALLOCATED if extent.address == 0 => Place::Zero,
            PREALLOCATED => Place::Zero,
            REGULAR if is_plain => {
                let (transaction, from) = (u64_at(item, 0)?, u64_at(item, 37)?);
                Place::In(extent, Piece { transaction, method, from })
            }
            _ => Place::Unknown,
        };
        Ok(Self { start, len: u64_at(item, 45)?, is })
    }

    fn clear_extent(&mut self) {
        if matches!(self.is, Place::In(..)) {
            self.is = Place::Unknown;
        }
    }

    const fn extent(&self) -> Option<Extent> {
        match self.is {
            Place::In(extent, _) => Some(extent),
            _ => None,
        }
    }
}

/// Returns the extent items of an inode in order; `None` if there are too many.
fn extent_items(
    search: &mut Search<'_>,
    inode: u64,
    sector_bytes: u64,
) -> Result<Option<Vec<Item>>, Errno> {
    let mut items = Vec::new();
    let (first, last) = ([inode, EXTENT_DATA, 0], [inode, EXTENT_DATA, u64::MAX]);
    let read = search.for_each_item(TREE_OF_FILE, first, last, |[_, _, start], item| {
        if items.len() == MAX_PARTS {
            return Err(Errno::FBIG);
        }
        items.push(Item::read(start, item, sector_bytes)?);
        Ok(())
    });
    match read {
        Err(Errno::FBIG) => Ok(None),
        read => read.map(|()| Some(items)),
    }
}

/// Gives an identity to each item in an extent: the address of the extent and the transaction of its allocation.
///
/// Extents that the running `transaction` allocated may be missing from the extent tree. A file item of the same
/// transaction identifies such an extent. An older item without an extent in the tree belongs to an extent that was
/// moved meanwhile: the item stays unknown.
fn add_identities(
    search: &mut Search<'_>,
    items: &mut [Item],
    transaction: u64,
) -> Result<(), Errno> {
    let mut extents: Vec<_> = items.iter().filter_map(Item::extent).collect();
    extents.sort_unstable();
    extents.dedup();
    let mut allocated = vec![None; extents.len()];
    let mut at = 0;
    for near in extents
        .chunk_by(|one, next| next.address - one.address <= one.len.saturating_add(NEAR_BYTES))
    {
        let (mut rest, first) = (at, near[0]);
        at += near.len();
        let end = [near[near.len() - 1].address, EXTENT_ITEM, u64::MAX];
        search.for_each_item(
            EXTENT_TREE,
            [first.address, EXTENT_ITEM, 0],
            end,
            |[address, _, len], item| {
                rest += extents[rest..at].partition_point(|extent| extent.address < address);
                if extents[rest..at].first() == Some(&Extent { address, len }) {
                    allocated[rest] = Some(u64_at(item, 8)?);
                }
                Ok(())
            },
        )?;
    }
    for item in items {
        if let Place::In(extent, piece) = item.is {
            let found = extents.binary_search(&extent).ok().and_then(|at| allocated[at]);
            let is_new = (piece.transaction == transaction).then_some(transaction);
            item.is = match found.or(is_new) {
                Some(since) => {
                    let id = [extent.address, since, piece.method.into()];
                    Place::Identified(ExtentContent::Id { id, from: piece.from })
                }
                None => Place::Unknown,
            };
        }
    }
    Ok(())
}

/// Largest gap in bytes between extents of a single search. Passing the items in between costs less than another call.
const NEAR_BYTES: u64 = 256 << 10;

/// Returns a function that checks if a range of `file` without items is a hole. The function returns false after
/// `MAX_GAPS` ranges, and when late.
pub(super) fn hole_check(file: BorrowedFd<'_>, by: By) -> impl FnMut(&Range<u64>) -> bool {
    let mut left = MAX_GAPS;
    move |gap| {
        let is_asked = left > 0 && !by.is_flushed_by_client();
        left = left.saturating_sub(1);
        is_asked && ioctl::is_hole(file, gap).unwrap_or(false)
    }
}

/// Most ranges that are checked; each check takes some 5 µs.
const MAX_GAPS: u32 = 1 << 16;

/// Appends the parts of the first `len` bytes of a file to `extents`.
///
/// A hole has no item. But while deduplication or defragmentation replaces items, there may also be a gap between two
/// items, which changes no time of the file. So a range without an item is taken for zeros only if the file system
/// confirms a hole.
fn add_parts(
    items: &[Item],
    mut extents: Extents,
    len: u64,
    mut is_hole: impl FnMut(&Range<u64>) -> bool,
) -> Result<Extents, TooMany> {
    let mut gap = |extents: &mut Extents, end: u64| {
        let gap = extents.len()..end;
        let is = if gap.is_empty() || is_hole(&gap) {
            ExtentContent::Zero
        } else {
            ExtentContent::Unknown
        };
        extents.push(gap.end - gap.start, is)
    };
    for item in items {
        // Preallocated space may lie behind the end of the file.
        let (start, end) = (item.start.min(len), item.start.saturating_add(item.len).min(len));
        // No valid file has two items for one offset.
        if start < extents.len() {
            return Err(TooMany);
        }
        gap(&mut extents, start)?;
        let is = match item.is {
            Place::Zero => ExtentContent::Zero,
            Place::Identified(is) => is,
            Place::Unknown | Place::In(..) => ExtentContent::Unknown,
        };
        extents.push(end - start, is)?;
    }
    gap(&mut extents, len)?;
    Ok(extents)
}

pub(super) const TREE_OF_FILE: u64 = 0;
const EXTENT_TREE: u64 = 2;
const INODE_ITEM: u64 = 1;
pub(super) const EXTENT_DATA: u64 = 108;
const EXTENT_ITEM: u64 = 168;
pub(super) const NODATASUM: u64 = 1;
pub(super) const NODATACOW: u64 = 2;
const INLINE: u8 = 0;
const REGULAR: u8 = 1;
const PREALLOCATED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 4096;

    fn item(kind: u8, encodings: [u8; 4], [address, from, len]: [u64; 3]) -> Vec<u8> {
        let mut item = Vec::new();
        item.extend(9_u64.to_le_bytes());
        item.extend(5000_u64.to_le_bytes());
        item.extend(encodings);
        item.push(kind);
        for field in [address, SECTOR * 100, from, len] {
            item.extend(field.to_le_bytes());
        }
        item
    }

    fn parts_of(items: &[(u64, &[u8])], len: u64) -> Option<Vec<(u64, ExtentContent)>> {
        parts_where(items, len, |_| true)
    }

    fn parts_where(
        items: &[(u64, &[u8])],
        len: u64,
        is_hole: impl Fn(&Range<u64>) -> bool,
    ) -> Option<Vec<(u64, ExtentContent)>> {
        let read = |(start, item): &(u64, &[u8])| Item::read(*start, item, SECTOR).unwrap();
        let mut items: Vec<_> = items.iter().map(read).collect();
        for item in &mut items {
            if let Place::In(Extent { address, .. }, Piece { transaction, method, from }) = item.is
            {
                let id = [address, transaction, method.into()];
                item.is = Place::Identified(ExtentContent::Id { id, from });
            }
        }
        let parts = add_parts(&items, Extents::new([0; 32]), len, is_hole).ok()?;
        Some(parts.parts().map(|(range, is)| (range.end - range.start, is)).collect())
    }

    #[test]
    fn only_plain_and_compressed_extents_have_identities() {
        let place = [SECTOR * 7, SECTOR, SECTOR * 2];
        let is = |kind, encodings, place| {
            parts_of(&[(0, &item(kind, encodings, place))], SECTOR * 2).unwrap()[0].1
        };
        let id = |method| ExtentContent::Id { id: [SECTOR * 7, 9, method], from: SECTOR };
        assert_eq!(is(REGULAR, [0; 4], place), id(0));
        assert_eq!(is(REGULAR, [3, 0, 0, 0], place), id(3));
        assert_eq!(is(REGULAR, [0, 1, 0, 0], place), ExtentContent::Unknown);
        assert_eq!(is(REGULAR, [0, 0, 1, 0], place), ExtentContent::Unknown);
        assert_eq!(is(PREALLOCATED, [0; 4], place), ExtentContent::Zero);
        assert_eq!(is(REGULAR, [0; 4], [0, 0, SECTOR * 2]), ExtentContent::Zero);
        assert_eq!(is(INLINE, [0; 4], place), ExtentContent::Unknown);
        assert_eq!(is(3, [0; 4], place), ExtentContent::Unknown);
    }

    #[test]
    fn ranges_without_an_item_are_holes_up_to_the_file_length() {
        let [one, two] = [SECTOR * 2, SECTOR].map(|len| item(REGULAR, [0; 4], [SECTOR, 0, len]));
        let (id, items) = (
            ExtentContent::Id { id: [SECTOR, 9, 0], from: 0 },
            [(SECTOR, &one[..]), (SECTOR * 5, &two)],
        );
        let parts = |len| parts_of(&items, len).unwrap();
        let front =
            [(SECTOR, ExtentContent::Zero), (SECTOR * 2, id), (SECTOR * 2, ExtentContent::Zero)];
        assert_eq!(
            parts(SECTOR * 6 + 3),
            [&front[..], &[(SECTOR, id), (3, ExtentContent::Zero)]].concat()
        );
        assert_eq!(parts(SECTOR * 5 + 7), [&front[..], &[(7, id)]].concat());
        assert_eq!(parts(SECTOR + 1), [(SECTOR, ExtentContent::Zero), (1, id)]);
        assert_eq!(parts(0), []);
        // Unknown, because the file system does not confirm a hole there.
        let gaps = parts_where(&items, SECTOR * 9, |gap| gap.start == SECTOR * 3).unwrap();
        let is: Vec<_> = gaps.into_iter().map(|(_, is)| is).collect();
        assert_eq!(
            is,
            [ExtentContent::Unknown, id, ExtentContent::Zero, id, ExtentContent::Unknown]
        );
        // An inline extent covers whole sectors, even if the file is longer by now.
        let inline = item(INLINE, [0; 4], [0; 3]);
        let unknown = parts_of(&[(0, &inline)], SECTOR * 3).unwrap();
        assert_eq!(unknown, [(SECTOR * 2, ExtentContent::Unknown), (SECTOR, ExtentContent::Zero)]);
    }

    #[test]
    fn items_that_no_file_system_has_tell_nothing() {
        let whole = item(REGULAR, [0; 4], [SECTOR, 0, SECTOR * 2]);
        let cut = (0..whole.len()).filter(|len| Item::read(0, &whole[..*len], SECTOR).is_ok());
        assert_eq!(cut.count(), 0);
        assert_eq!(parts_of(&[(0, &whole), (SECTOR, &whole)], SECTOR * 9), None, "they overlap");
    }
}
