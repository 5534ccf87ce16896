//! Names of contents, for users who trust both stores: made of the sums that stores keep of blocks
//! (docs/decisions/0044).
//!
//! A name is made of the length of the content and the sum of each block, or is the digest of fs-verity. Sums that the
//! store keeps are used. Blocks without a stored sum are read and summed, so both ends compute the same name.

use std::ops::Range;

use blake2::Blake2b;
use blake2::digest::consts::U32;
use deltic_core::stored::BlockSum;
use deltic_core::verity::VerityHasher;
use deltic_core::{Crc32c, Digest, StoredSums, SumKind};
use deltic_protocol::options::TrustedSums;
use deltic_store::{Snapshot, StoreError};
use sha2::Digest as _;
use xxhash_rust::xxh64::xxh64;

use super::Buffers;
use super::steps::{asking_pays, read_exact};

/// Returns the digest that identifies a file's content: a hash of its block sums, or its fs-verity digest.
///
/// # Errors
/// Errors of the store, if the file changed or a block cannot be read.
pub(super) fn name_of(
    file: &impl Snapshot,
    by: TrustedSums,
    buffers: &Buffers,
) -> Result<Digest, StoreError> {
    match by {
        TrustedSums::Blocks { kind, block_bytes } => {
            let taking = Taking { file, kind, block_bytes, buffers };
            taking.name().map(|name| Digest::from_bytes(name.into()))
        }
        TrustedSums::Verity => verity_of(file, buffers).map(Digest::from_bytes),
    }
}

/// Returns the fs-verity digest of a file: the stored digest, or a digest computed from the bytes.
fn verity_of(file: &impl Snapshot, buffers: &Buffers) -> Result<[u8; 32], StoreError> {
    if let Some(kept) = file.verity() {
        return Ok(kept);
    }
    let mut verity = VerityHasher::new();
    read(file, &(0..file.meta().len), buffers, |bytes| verity.push(bytes))?;
    Ok(verity.finish())
}

/// A file, and the kind of block sums to compute.
struct Taking<'a, S> {
    file: &'a S,
    kind: SumKind,
    block_bytes: u32,
    buffers: &'a Buffers,
}

impl<S: Snapshot> Taking<'_, S> {
    fn name(&self) -> Result<blake3::Hash, StoreError> {
        let (len, block) = (self.file.meta().len, u64::from(self.block_bytes));
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher
            .update(&[self.kind.number()])
            .update(&block.to_le_bytes())
            .update(&len.to_le_bytes());
        let zeros = sum_of(self.kind, &vec![0; self.block_bytes as usize]);
        for start in (0..len).step_by(WINDOW_BYTES as usize) {
            let window = start..len.min(start + WINDOW_BYTES);
            let kept = match asking_pays(self.file) {
                true => self.file.stored_sums(&window)?,
                false => None,
            };
            let is_it = |kept: &StoredSums| {
                kept.kind() == self.kind && kept.block_bytes() == self.block_bytes
            };
            let kept = kept.filter(is_it);
            // Range of bytes before the present block that must be read.
            let mut unread = start..start;
            for at in window.clone().step_by(self.block_bytes as usize) {
                let end = window.end.min(at + block);
                let told = kept.as_ref().filter(|_| end - at == block);
                let sum = match told.map_or(BlockSum::Unknown, |kept| kept.sum_at(at)) {
                    BlockSum::Sum(sum) => sum,
                    BlockSum::Zero => &zeros,
                    BlockSum::Unknown => {
                        unread.end = end;
                        continue;
                    }
                };
                self.take(&unread, &mut hasher)?;
                hasher.update(sum);
                unread = end..end;
            }
            self.take(&unread, &mut hasher)?;
        }
        Ok(hasher.finalize())
    }

    /// Reads blocks, and adds their sums to `hasher`.
    fn take(&self, range: &Range<u64>, hasher: &mut blake3::Hasher) -> Result<(), StoreError> {
        read(self.file, range, self.buffers, |bytes| {
            for block in bytes.chunks(self.block_bytes as usize) {
                hasher.update(&sum_of(self.kind, block));
            }
        })
    }
}

/// Reads a range of a file in pieces of whole blocks.
fn read(
    file: &impl Snapshot,
    range: &Range<u64>,
    buffers: &Buffers,
    mut take: impl FnMut(&[u8]),
) -> Result<(), StoreError> {
    for start in range.clone().step_by(READ_BYTES as usize) {
        let len = READ_BYTES.min(range.end - start) as usize;
        buffers.with(len, |bytes| {
            read_exact(file, start, bytes)?;
            take(bytes);
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns the sum of a block in the form in which a store keeps it.
fn sum_of(kind: SumKind, block: &[u8]) -> Vec<u8> {
    match kind {
        SumKind::Crc32c => Crc32c::of(block).get().to_le_bytes().into(),
        SumKind::Xxh64 => xxh64(block, 0).to_le_bytes().into(),
        SumKind::Sha256 => sha2::Sha256::digest(block).to_vec(),
        SumKind::Blake2b => Blake2b::<U32>::digest(block).to_vec(),
    }
}

const CONTEXT: &str = "deltic 2026-11-26 contents by sums of their blocks";
const READ_BYTES: u64 = 1 << 20;
/// Bytes of a file for which sums are requested at once; SHA-256 sums of a window take eight megabytes.
const WINDOW_BYTES: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use deltic_tree::{Kind, Meta, Timestamp};

    use super::*;

    /// A file in a store that keeps sums of some blocks.
    struct Bytes {
        bytes: Vec<u8>,
        meta: Meta,
        /// True if the block has a stored sum, or is known to be zeros.
        keeps: fn(u64) -> bool,
        read: AtomicU64,
    }

    impl Bytes {
        fn new(bytes: Vec<u8>, keeps: fn(u64) -> bool) -> Self {
            let time = Timestamp { secs: 0, nanos: 0 };
            let meta = Meta::without_owner(Kind::File, bytes.len() as u64, time, 0o600);
            Self { bytes, meta, keeps, read: AtomicU64::new(0) }
        }
    }

    impl Snapshot for Bytes {
        fn meta(&self) -> &Meta {
            &self.meta
        }

        fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
            buf.copy_from_slice(&self.bytes[start as usize..][..buf.len()]);
            self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
            Ok(buf.len())
        }

        fn check_unchanged(&self) -> Result<(), StoreError> {
            Ok(())
        }

        fn stored_sums(&self, range: &Range<u64>) -> Result<Option<StoredSums>, StoreError> {
            let mut kept = StoredSums::new(SumKind::Xxh64, 4096, range);
            for (no, block) in
                (0..).zip(self.bytes.chunks_exact(4096)).filter(|(no, _)| (self.keeps)(*no))
            {
                match block.iter().all(|byte| *byte == 0) {
                    true => kept.put_zeros(&(no * 4096..no * 4096 + 4096)),
                    false => kept.put_sums(no * 4096, &sum_of(SumKind::Xxh64, block)),
                }
            }
            Ok(Some(kept))
        }
    }

    fn bytes() -> Vec<u8> {
        let noise = (0..100_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8);
        noise.chain(std::iter::repeat_n(0, 50_000)).chain([1; 77]).collect()
    }

    fn name(file: &Bytes, by: TrustedSums) -> String {
        name_of(file, by, &Buffers::default()).unwrap().to_string()
    }

    const XXH64: TrustedSums = TrustedSums::Blocks { kind: SumKind::Xxh64, block_bytes: 4096 };

    /// Names of contents are sent to the other end, so they must not change.
    #[test]
    fn content_names_do_not_change() {
        let file = Bytes::new(bytes(), |_| false);
        let sha256 = TrustedSums::Blocks { kind: SumKind::Sha256, block_bytes: 4096 };
        let blake2b = TrustedSums::Blocks { kind: SumKind::Blake2b, block_bytes: 16_384 };
        let all = [XXH64, sha256, blake2b, TrustedSums::Verity].map(|by| name(&file, by));
        let expected = [
            "cbab3a7f23db3471fddc55ba0f60c8ab9cd7ff948df4243d17dcd44173c9edc6",
            "de745732e3226d47ed8a18481874a7aaec3d4718208dbcdd1679bee987ab37e8",
            "edc2cb344dc400cfc2c6588d4abe931d10c62a453ac5224c6fc3e1cc527b759d",
            // The output of `fsverity digest`. The other names are made of sums that other programs computed.
            "c1dde5c750f3074fd7310c81333d758819e805e91e70bc72fb213bfa6cbc8299",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn it_is_one_name_whatever_the_store_keeps() {
        let all: [fn(u64) -> bool; 4] =
            [|_| false, |_| true, |no| no % 2 == 0, |no| no > 3 && no != 20];
        let names = all.map(|keeps| name(&Bytes::new(bytes(), keeps), XXH64));
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
        let kept = Bytes::new(bytes(), |_| true);
        name(&kept, XXH64);
        assert_eq!(kept.read.into_inner(), kept.meta.len % 4096, "the end is read");
        let short = Bytes::new(bytes()[..40_960].to_vec(), |_| true);
        name(&short, XXH64);
        assert_eq!(short.read.into_inner(), 40_960, "asking about short files does not pay");
        for at in [0, 4095, 90_000, 120_000, 150_076] {
            let mut other = bytes();
            other[at] ^= 1;
            for keeps in all {
                assert_ne!(name(&Bytes::new(other.clone(), keeps), XXH64), names[0], "{at}");
            }
        }
    }
}
