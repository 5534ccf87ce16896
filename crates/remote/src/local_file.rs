//! Checksums of a local file in the algorithm of a remote system: from the CRC-32C that the local file system stores,
//! else by reading.

use std::ops::Range;

use deltic_core::stored::StoredSums;
use deltic_core::{Crc32c, SumKind};
use deltic_store::facts::ExtentContent;
use deltic_store::{Extents, Snapshot, StoreError};

use crate::sums::{ContentSum, ObjectSums, STORE, SumAlgorithm, SumHasher, SummedUnit, pad};

/// A local file, checksummed part by part in ascending order.
pub(crate) struct LocalFile<'a> {
    file: &'a dyn Snapshot,
    buffer: Vec<u8>,
    /// Stored checksums of the window used last.
    kept: Option<SumWindow>,
    keeps_none: bool,
    /// Bytes read so far.
    read: u64,
    /// Bytes covered by stored checksums instead of a read.
    joined: u64,
}

struct SumWindow {
    sums: StoredSums,
    /// The CRC-32C of a block of zeros.
    zeros: Crc32c,
}

impl<'a> LocalFile<'a> {
    pub(crate) fn new(file: &'a dyn Snapshot) -> Self {
        let buffer = vec![0; READ_BYTES.min(file.meta().len as usize)];
        Self { file, buffer, kept: None, keeps_none: false, read: 0, joined: 0 }
    }

    /// Bytes read from the file so far.
    pub(crate) const fn read(&self) -> u64 {
        self.read
    }

    /// True if any stored checksum was used.
    pub(crate) const fn used_stored_sums(&self) -> bool {
        self.joined > 0
    }

    /// Splits the file into the units of a remote object and returns them as extents, identified by checksum. `None` if
    /// there are too many units.
    ///
    /// # Errors
    /// The file cannot be read, or changed.
    pub(crate) fn extents(&mut self, of: &ObjectSums) -> Result<Option<Extents>, StoreError> {
        let len = self.file.meta().len;
        let (mut extents, mut start) = (Extents::new(STORE), 0);
        for unit in &of.units {
            if start + unit.len > len {
                break;
            }
            let sum = self.unit(unit, start)?;
            if extents.push(unit.len, unit.identity(sum.as_ref())).is_err() {
                return Ok(None);
            }
            start += unit.len;
        }
        Ok(extents.push(len - start, ExtentContent::Unknown).is_ok().then_some(extents))
    }

    /// Compares the file with an object of the same length and the checksums `with`. Prefers a set of checksums that
    /// the local file system stores too.
    ///
    /// Returns true if both are equal, and the algorithm. Returns `None` if the object has no
    /// [content digest](ObjectSums::content_digest).
    ///
    /// # Errors
    /// The file cannot be read, or changed.
    pub(crate) fn compare(
        &mut self,
        with: &ObjectSums,
    ) -> Result<Option<(bool, SumAlgorithm)>, StoreError> {
        let comparable_units = with.comparable_units(self.file.meta().len);
        let is_kind = |unit: &SummedUnit| unit.algorithm() == Some(SumAlgorithm::Crc32c);
        let joins = comparable_units.iter().find(|way| way.iter().all(is_kind));
        let way = match joins {
            Some(way) if self.load(0)? => Some(way),
            _ => comparable_units.first(),
        };
        let Some(way) = way else { return Ok(None) };
        let (mut start, mut is_same) = (0, true);
        for unit in way.iter() {
            is_same = self.unit(unit, start)? == unit.sum;
            start += unit.len;
            if !is_same {
                break;
            }
        }
        Ok(way.first().and_then(SummedUnit::algorithm).map(|by| (is_same, by)))
    }

    /// True if the file has the bytes of `unit` from offset `start` on, by the checksum of the unit.
    ///
    /// # Errors
    /// The file cannot be read, or changed.
    pub(crate) fn has(&mut self, unit: &SummedUnit, start: u64) -> Result<bool, StoreError> {
        let end = start.checked_add(unit.len).filter(|end| *end <= self.file.meta().len);
        Ok(end.is_some() && unit.sum.is_some() && self.unit(unit, start)? == unit.sum)
    }

    /// The checksum of the file's bytes at the place of `unit`, which begins at `start`.
    fn unit(&mut self, unit: &SummedUnit, start: u64) -> Result<Option<ContentSum>, StoreError> {
        let Some(algorithm) = unit.algorithm() else { return Ok(None) };
        self.sum(algorithm, &(start..start + unit.len), unit.padded - unit.len)
    }

    /// The checksum of `range` followed by `zeros` zero bytes. `None` if the algorithm cannot be computed here.
    ///
    /// # Errors
    /// The file cannot be read, or changed.
    fn sum(
        &mut self,
        algorithm: SumAlgorithm,
        range: &Range<u64>,
        zeros: u64,
    ) -> Result<Option<ContentSum>, StoreError> {
        let Some(mut summer) = algorithm.summer() else { return Ok(None) };
        if algorithm == SumAlgorithm::Crc32c && self.load(range.start)? {
            summer = SumHasher::Crc32c(self.join(range)?.get());
        } else {
            self.feed(range, |bytes| summer.push(bytes))?;
        }
        pad(&mut summer, zeros);
        Ok(Some(ContentSum { algorithm, bytes: summer.finish() }))
    }

    /// Combines stored checksums of blocks into the CRC-32C of `range`. Reads blocks without a stored checksum.
    fn join(&mut self, range: &Range<u64>) -> Result<Crc32c, StoreError> {
        let (mut sum, mut at, mut odd) = (Crc32c::EMPTY, range.start, range.start);
        while at < range.end {
            let (kept, next) = self.block(at, range.end)?;
            if let Some(kept) = kept {
                sum = self.append(sum, &(odd..at))?.concat(kept, next - at);
                self.joined += next - at;
                odd = next;
            }
            at = next;
        }
        self.append(sum, &(odd..range.end))
    }

    /// The stored checksum of the block at `at`, if stored and if the block ends within `end`; and the start of the
    /// next block.
    fn block(&mut self, at: u64, end: u64) -> Result<(Option<Crc32c>, u64), StoreError> {
        self.load(at)?;
        let Some(SumWindow { sums, zeros }) = &self.kept else { return Ok((None, end)) };
        let block = u64::from(sums.block_bytes());
        let next = at - at % block + block;
        let is_whole = at.is_multiple_of(block) && next <= end;
        let sum = if is_whole { sums.crc32c(at, *zeros) } else { None };
        Ok((sum, next.min(end)))
    }

    /// Loads the stored checksums around offset `at`. False if the file system stores none.
    fn load(&mut self, at: u64) -> Result<bool, StoreError> {
        let has = self.kept.as_ref().is_some_and(|kept| kept.sums.range().contains(&at));
        if self.keeps_none || has {
            return Ok(has);
        }
        let start = at - at % WINDOW_BYTES;
        let window = start..self.file.meta().len.min(start + WINDOW_BYTES);
        let sums = self.file.stored_sums(&window)?;
        let sums = sums.filter(|sums| sums.kind() == SumKind::Crc32c && sums.range().contains(&at));
        let zeros = |sums: &StoredSums| Crc32c::of(&vec![0; sums.block_bytes() as usize]);
        self.kept = sums.map(|sums| SumWindow { zeros: zeros(&sums), sums });
        self.keeps_none = self.kept.is_none();
        Ok(!self.keeps_none)
    }

    /// Reads `range` and updates `sum`.
    fn append(&mut self, mut sum: Crc32c, range: &Range<u64>) -> Result<Crc32c, StoreError> {
        self.feed(range, |bytes| sum = sum.append(bytes))?;
        Ok(sum)
    }

    fn feed(&mut self, range: &Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        let mut at = range.start;
        while at < range.end {
            let want = (range.end - at).min(self.buffer.len() as u64) as usize;
            let got = self.file.read_at(at, &mut self.buffer[..want])?;
            if got == 0 {
                let (path, len) = (deltic_tree::RelPath::root(), self.file.meta().len);
                return Err(StoreError::Short { path, len });
            }
            take(&self.buffer[..got]);
            at += got as u64;
            self.read += got as u64;
        }
        Ok(())
    }
}

const READ_BYTES: usize = 1 << 20;
/// Bytes of a file whose stored checksums are loaded at once: little more than a megabyte of checksums.
const WINDOW_BYTES: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use deltic_tree::{Kind, Meta};

    use super::*;
    use crate::tree::UNTIMED;

    const BLOCK: u64 = 4096;

    /// A file in memory with stored checksums of a given kind.
    struct SummedBytes {
        bytes: Vec<u8>,
        meta: Meta,
        kind: SumKind,
        /// Numbers of blocks without a stored checksum, as of compressed blocks.
        unknown: Vec<u64>,
    }

    impl SummedBytes {
        fn new(bytes: Vec<u8>, kind: SumKind, unknown: &[u64]) -> Self {
            let meta = Meta::without_owner(Kind::File, bytes.len() as u64, UNTIMED, 0o666);
            Self { bytes, meta, kind, unknown: unknown.into() }
        }
    }

    impl Snapshot for SummedBytes {
        fn meta(&self) -> &Meta {
            &self.meta
        }

        fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
            let rest = &self.bytes[start as usize..];
            let some = rest.len().min(buf.len());
            buf[..some].copy_from_slice(&rest[..some]);
            Ok(some)
        }

        fn check_unchanged(&self) -> Result<(), StoreError> {
            Ok(())
        }

        fn stored_sums(&self, range: &Range<u64>) -> Result<Option<StoredSums>, StoreError> {
            let mut sums = StoredSums::new(self.kind, BLOCK as u32, range);
            for (no, block) in (0..).zip(self.bytes.chunks_exact(BLOCK as usize)) {
                let at = no * BLOCK;
                if block.iter().all(|byte| *byte == 0) {
                    sums.put_zeros(&(at..at + BLOCK));
                } else if !self.unknown.contains(&no) && self.kind == SumKind::Crc32c {
                    sums.put_sums(at, &crc32c::crc32c(block).to_le_bytes());
                }
            }
            Ok(Some(sums))
        }
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().update(&len.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    /// Checksums of units of `each` bytes, extended with zeros to `padded`.
    fn sums(bytes: &[u8], algorithm: SumAlgorithm, each: usize, padded: u64) -> ObjectSums {
        let unit = |bytes: &[u8]| {
            let mut summer = algorithm.summer().unwrap();
            summer.push(bytes);
            let len = bytes.len() as u64;
            pad(&mut summer, padded.saturating_sub(len));
            let sum = ContentSum::new(algorithm, &summer.finish()).unwrap();
            SummedUnit { len, padded: padded.max(len), sum: Some(sum) }
        };
        ObjectSums { units: bytes.chunks(each).map(unit).collect(), whole: None }
    }

    #[test]
    fn stored_checksums_are_combined_and_only_the_rest_is_read() {
        let mut bytes = noise(300_001);
        bytes[40_960..81_920].fill(0);
        let tail = 300_001 % BLOCK;
        let odd = |unknown: &[u64]| unknown.len() as u64 * BLOCK + tail;
        for (each, unknown, most) in [
            (65_536, &[][..], odd(&[])),
            (300_001, &[], odd(&[])),
            (65_536, &[0, 1, 17, 72], odd(&[0, 1, 17, 72])),
            // Every unit but the first begins within a block.
            (100_000, &[], tail + 4 * BLOCK),
        ] {
            let file = SummedBytes::new(bytes.clone(), SumKind::Crc32c, unknown);
            for padded in [0, 65_536, 400_000] {
                let mut here = LocalFile::new(&file);
                let known = sums(&bytes, SumAlgorithm::Crc32c, each, padded);
                let same = here.compare(&known).unwrap();
                assert_eq!(same, Some((true, SumAlgorithm::Crc32c)), "{each} {padded}");
                assert!(here.used_stored_sums() && here.read() <= most, "{each}: {}", here.read());
            }
        }
    }

    #[test]
    fn one_changed_byte_is_noticed_at_any_offset() {
        let bytes = noise(200_000);
        let known = sums(&bytes, SumAlgorithm::Crc32c, 65_536, 0);
        let whole = sums(&bytes, SumAlgorithm::Sha256, 200_000, 0);
        for at in [0, 4095, 4096, 65_535, 65_536, 196_607, 196_608, 199_999] {
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            for (kind, unknown) in [(SumKind::Crc32c, &[3, 20][..]), (SumKind::Sha256, &[])] {
                let file = SummedBytes::new(other.clone(), kind, unknown);
                for known in [&known, &whole] {
                    let (is_same, _) = LocalFile::new(&file).compare(known).unwrap().unwrap();
                    assert!(!is_same, "{at} {kind:?}");
                }
            }
        }
    }

    #[test]
    fn stored_checksums_of_another_algorithm_are_not_used() {
        let bytes = noise(100_000);
        for (kind, algorithm) in
            [(SumKind::Xxh64, SumAlgorithm::Crc32c), (SumKind::Crc32c, SumAlgorithm::Crc32)]
        {
            let file = SummedBytes::new(bytes.clone(), kind, &[]);
            let mut here = LocalFile::new(&file);
            let known = sums(&bytes, algorithm, 40_000, 0);
            assert_eq!(here.compare(&known).unwrap(), Some((true, algorithm)));
            assert_eq!((here.used_stored_sums(), here.read()), (false, 100_000));
        }
    }

    #[test]
    fn a_checksum_stored_at_both_ends_is_preferred_to_the_first_one() {
        let bytes = noise(50_000);
        let first = sums(&bytes, SumAlgorithm::Md5, 50_000, 0);
        let whole = sums(&bytes, SumAlgorithm::Crc32c, 50_000, 0).units.pop().unwrap().sum;
        let known = ObjectSums { whole, ..first };
        for (kind, by) in
            [(SumKind::Crc32c, SumAlgorithm::Crc32c), (SumKind::Blake2b, SumAlgorithm::Md5)]
        {
            let file = SummedBytes::new(bytes.clone(), kind, &[]);
            assert_eq!(LocalFile::new(&file).compare(&known).unwrap(), Some((true, by)));
        }
    }

    #[test]
    fn an_object_with_a_missing_checksum_is_not_compared() {
        let bytes = noise(50_000);
        let mut known = sums(&bytes, SumAlgorithm::Crc32c, 10_000, 0);
        let file = SummedBytes::new(bytes, SumKind::Crc32c, &[]);
        assert!(known.content_digest(50_000).is_some() && known.content_digest(50_001).is_none());
        known.units[3].sum = None;
        assert_eq!(
            (known.content_digest(50_000), LocalFile::new(&file).compare(&known).unwrap()),
            (None, None)
        );
        assert!(
            ObjectSums::default().content_digest(0).is_none()
                && ObjectSums::default().content_digest(9).is_none()
        );
        known.units[3].sum = Some(ContentSum::new(SumAlgorithm::Name, b"x").unwrap());
        assert_eq!(
            (known.content_digest(50_000), LocalFile::new(&file).compare(&known).unwrap()),
            (None, None)
        );
    }
}
