//! System calls of btrfs, fs-verity and project quotas that rustix lacks. Each call takes an open file and memory of
//! a fixed size.
#![allow(unsafe_code, reason = "ioctl: see docs/ARCHITECTURE.md, walls")]

use std::ops::Range;
use std::os::fd::BorrowedFd;

use deltic_core::verity::{BLOCK_BYTES, VerityDescriptor};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Writes all dirty pages of `file`. Afterwards the extents of `file` hold the bytes that a read returns. Uses
/// `FS_IOC_FIEMAP` without mapping; the call flushes the whole file, whatever range is to be mapped.
pub(super) fn flush(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut request = [0_u64; 4];
    request[1] = 1;
    request[2] = FIEMAP_FLAG_SYNC;
    // SAFETY: a `struct fiemap` is these 32 bytes; no extent follows, as `fm_extent_count` in the last of them is 0.
    let call = unsafe { Updater::<FIEMAP, _>::new(&mut request) };
    // SAFETY: the call reads and writes nothing but the struct.
    unsafe { ioctl(file, call) }
}

/// True if a range of `file` has no data on disk, no dirty pages and no reserved space (`FS_IOC_FIEMAP`). Extents that
/// are being replaced stay locked until the new extents are in place.
pub(super) fn is_hole(file: BorrowedFd<'_>, range: &Range<u64>) -> Result<bool, Errno> {
    const COUNT_OF_FOUND: usize = 20;
    const COUNT_OF_ROOM: usize = 24;
    let mut request = [0_u8; FIEMAP_BYTES + FIEMAP_EXTENT_BYTES];
    request[..8].copy_from_slice(&range.start.to_ne_bytes());
    request[8..16].copy_from_slice(&(range.end - range.start).to_ne_bytes());
    request[COUNT_OF_ROOM..COUNT_OF_ROOM + 4].copy_from_slice(&1_u32.to_ne_bytes());
    // SAFETY: a `struct fiemap` is the first 32 bytes. Room for one extent follows, which is what its
    // `fm_extent_count` says.
    let call = unsafe { Updater::<FIEMAP, _>::new(&mut request) };
    // SAFETY: the call reads and writes the struct, and writes no more behind it than the extents that it says.
    unsafe { ioctl(file, call)? };
    Ok(request[COUNT_OF_FOUND..COUNT_OF_FOUND + 4] == [0; 4])
}

/// An extent of a file as its file system maps it (`struct fiemap_extent`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Offset in the file, in bytes.
    pub(super) start: u64,
    /// Address on the device, in bytes.
    pub(super) address: u64,
    /// Length in bytes.
    pub(super) len: u64,
    pub(super) flags: u32,
}

/// Returns the mapped extents of `file` from `start` on, as many as a call reports (`FS_IOC_FIEMAP`). Dirty pages are
/// written first.
pub(super) fn mapped_extents(file: BorrowedFd<'_>, start: u64) -> Result<Vec<Extent>, Errno> {
    const COUNT: usize = 512;
    let mut request = vec![0_u64; (FIEMAP_BYTES + COUNT * FIEMAP_EXTENT_BYTES) / 8];
    (request[0], request[1], request[2]) = (start, u64::MAX - start, FIEMAP_FLAG_SYNC);
    let halves = [(COUNT as u32).to_ne_bytes(), [0; 4]];
    request[3] = u64::from_ne_bytes(halves.as_flattened().try_into().expect("8 bytes"));
    let room: &mut [u64; (FIEMAP_BYTES + COUNT * FIEMAP_EXTENT_BYTES) / 8] =
        request.as_mut_slice().try_into().expect("it is as long");
    // SAFETY: a `struct fiemap` is the first 32 bytes. Room for so many extents of 56 bytes follows as its
    // `fm_extent_count` says.
    let call = unsafe { Updater::<FIEMAP, _>::new(room) };
    // SAFETY: the call reads and writes the struct, and writes no more behind it than the extents that it says.
    unsafe { ioctl(file, call)? };
    let found = u32::from_ne_bytes(*request[2].to_ne_bytes().last_chunk().ok_or(Errno::INVAL)?);
    let extents = request[FIEMAP_BYTES / 8..].chunks_exact(FIEMAP_EXTENT_BYTES / 8);
    let flags =
        |words: &[u64]| u32::from_ne_bytes(*words[5].to_ne_bytes().first_chunk().expect("8 bytes"));
    let extent = |words: &[u64]| Extent {
        start: words[0],
        address: words[1],
        len: words[2],
        flags: flags(words),
    };
    Ok(extents.take((found as usize).min(COUNT)).map(extent).collect())
}

/// Answer of `FS_IOC_FSGETXATTR`: the flags that `chattr` lacks, and the project id.
pub(super) struct FsXattr {
    pub(super) flags: u32,
    /// Project to whose quota the file belongs.
    pub(super) project: u32,
}

/// Flag of a directory: new files inherit the project of the directory.
pub(super) const HANDS_DOWN_PROJECT: u32 = 1 << 9;

/// Calls `FS_IOC_FSGETXATTR` for `file`.
pub(super) fn fs_xattr(file: BorrowedFd<'_>) -> Result<FsXattr, Errno> {
    let mut attributes = [0_u32; 7];
    // SAFETY: a `struct fsxattr` is these 28 bytes; the number of the call has their count in it.
    let call = unsafe { Updater::<FS_GET_XATTR, _>::new(&mut attributes) };
    // SAFETY: the call writes nothing but the struct.
    unsafe { ioctl(file, call)? };
    Ok(FsXattr { flags: attributes[0], project: attributes[3] })
}

/// Returns the information on the file system of `file` (`BTRFS_IOC_FS_INFO`). `asked` has the flags of the optional
/// fields.
pub(super) fn fs_info(file: BorrowedFd<'_>, asked: u64) -> Result<[u8; INFO_BYTES], Errno> {
    let mut info = [0; INFO_BYTES];
    info[INFO_FLAGS..INFO_FLAGS + 8].copy_from_slice(&asked.to_ne_bytes());
    // SAFETY: a `struct btrfs_ioctl_fs_info_args` is of as many bytes; the number of the call has their count in it.
    let call = unsafe { Updater::<FS_INFO, _>::new(&mut info) };
    // SAFETY: the call reads and writes nothing but the struct.
    unsafe { ioctl(file, call)? };
    Ok(info)
}

/// The key of a search, and a buffer for the items found.
pub(super) type SearchBuffer = [u8; SEARCH_HEAD_BYTES + SEARCH_ROOM_BYTES];

/// Searches the trees of the file system of `file` for items (`BTRFS_IOC_TREE_SEARCH_V2`).
pub(super) fn tree_search(file: BorrowedFd<'_>, buffer: &mut SearchBuffer) -> Result<(), Errno> {
    let room = (SEARCH_ROOM_BYTES as u64).to_ne_bytes();
    buffer[SEARCH_HEAD_BYTES - room.len()..SEARCH_HEAD_BYTES].copy_from_slice(&room);
    // SAFETY: the head is a `struct btrfs_ioctl_search_args_v2`, whose `buf_size` is the length of the room behind it.
    let call = unsafe { Updater::<TREE_SEARCH_V2, _>::new(buffer) };
    // SAFETY: the call reads and writes the head, and writes no more behind it than `buf_size`.
    unsafe { ioctl(file, call) }
}

/// Returns the digest that the kernel checks reads of `file` against (`FS_IOC_MEASURE_VERITY`); `None` if the digest
/// is not SHA-256.
pub(super) fn measure_verity(file: BorrowedFd<'_>) -> Result<Option<[u8; 32]>, Errno> {
    const SHA256: u16 = 1;
    let mut digest = [0_u8; VERITY_HEAD_BYTES + MAX_DIGEST_BYTES];
    digest[2..4].copy_from_slice(&(MAX_DIGEST_BYTES as u16).to_ne_bytes());
    // SAFETY: a `struct fsverity_digest` is these bytes, of which `digest_size` tells how many follow its head.
    let call = unsafe { Updater::<MEASURE_VERITY, _>::new(&mut digest) };
    // SAFETY: the call reads the head, and writes no more behind it than `digest_size`.
    unsafe { ioctl(file, call)? };
    let [algorithm, len] = [0, 2].map(|at| u16::from_ne_bytes([digest[at], digest[at + 1]]));
    let bytes = digest[VERITY_HEAD_BYTES..].first_chunk().copied();
    Ok(bytes.filter(|_| (algorithm, len) == (SHA256, 32)))
}

/// Returns the fs-verity descriptor, which says how the digest is computed (`FS_IOC_READ_VERITY_METADATA`). Bytes
/// that the kernel does not return are zeros.
pub(super) fn verity_descriptor(
    file: BorrowedFd<'_>,
) -> Result<[u8; VerityDescriptor::BYTES], Errno> {
    const DESCRIPTOR: u64 = 2;
    let mut bytes = [0; VerityDescriptor::BYTES];
    let mut request = [DESCRIPTOR, 0, bytes.len() as u64, bytes.as_mut_ptr() as u64, 0];
    // SAFETY: a `struct fsverity_read_metadata_arg` is these five words.
    let call = unsafe { Updater::<READ_VERITY, _>::new(&mut request) };
    // SAFETY: the call writes no more than so many bytes to the buffer, which is as long and outlives it.
    unsafe { ioctl(file, call)? };
    Ok(bytes)
}

/// Reads block `no` of the file's Merkle tree, highest level first (`FS_IOC_READ_VERITY_METADATA`). Bytes that the
/// kernel does not return are zeros.
pub(super) fn verity_tree(
    file: BorrowedFd<'_>,
    no: u64,
    into: &mut [u8; BLOCK_BYTES],
) -> Result<(), Errno> {
    const MERKLE_TREE: u64 = 1;
    into.fill(0);
    let start = no.checked_mul(into.len() as u64).ok_or(Errno::OVERFLOW)?;
    let mut request = [MERKLE_TREE, start, into.len() as u64, into.as_mut_ptr() as u64, 0];
    // SAFETY: a `struct fsverity_read_metadata_arg` is these five words.
    let call = unsafe { Updater::<READ_VERITY, _>::new(&mut request) };
    // SAFETY: the call writes no more than so many bytes to the buffer, which is as long and outlives it.
    unsafe { ioctl(file, call) }
}

/// The request, and a buffer for the answer.
pub(super) type SumsBuffer = [u8; SUMS_HEAD_BYTES + SUMS_ROOM_BYTES];

/// Reads the checksums of a part of `file` (`BTRFS_IOC_GET_CSUMS`), which needs no privilege.
pub(super) fn read_sums(file: BorrowedFd<'_>, buffer: &mut SumsBuffer) -> Result<(), Errno> {
    let room = (SUMS_ROOM_BYTES as u64).to_ne_bytes();
    buffer[16..16 + room.len()].copy_from_slice(&room);
    // SAFETY: the head is a `struct btrfs_ioctl_get_csums_args`, whose `buf_size` is the length of the room behind it.
    let call = unsafe { Updater::<GET_CSUMS, _>::new(buffer) };
    // SAFETY: the call reads and writes the head, and writes no more behind it than `buf_size`.
    unsafe { ioctl(file, call) }
}

pub(super) const INFO_BYTES: usize = 1024;
const INFO_FLAGS: usize = 48;
/// Bytes of `struct btrfs_ioctl_search_key` and of the buffer size.
pub(super) const SEARCH_HEAD_BYTES: usize = 104 + 8;
/// Bytes of the buffer for items. Larger buffers are slower: the kernel touches the whole buffer at each call.
pub(super) const SEARCH_ROOM_BYTES: usize = 256 << 10;
/// Bytes of offset, length, buffer size and flags.
pub(super) const SUMS_HEAD_BYTES: usize = 32;
const SUMS_ROOM_BYTES: usize = 256 << 10;

const FIEMAP_FLAG_SYNC: u64 = if cfg!(target_endian = "little") { 1 } else { 1 << 32 };
const FIEMAP_BYTES: usize = 32;
const FIEMAP_EXTENT_BYTES: usize = 56;
const FIEMAP: Opcode = opcode::read_write::<[u8; FIEMAP_BYTES]>(b'f', 11);
const FS_GET_XATTR: Opcode = opcode::read::<[u32; 7]>(b'X', 31);
const FS_INFO: Opcode = opcode::read::<[u8; INFO_BYTES]>(BTRFS, 31);
const TREE_SEARCH_V2: Opcode = opcode::read_write::<[u8; SEARCH_HEAD_BYTES]>(BTRFS, 17);
const GET_CSUMS: Opcode = opcode::read_write::<[u8; SUMS_HEAD_BYTES]>(BTRFS, 66);
const VERITY_HEAD_BYTES: usize = 4;
const MAX_DIGEST_BYTES: usize = 64;
const MEASURE_VERITY: Opcode = opcode::read_write::<[u8; VERITY_HEAD_BYTES]>(b'f', 134);
const READ_VERITY: Opcode = opcode::read_write::<[u64; 5]>(b'f', 135);
const BTRFS: u8 = 0x94;
