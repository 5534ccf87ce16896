//! Reproducible files to sync: random bytes or worst cases, and changes in pieces at random positions (SkySync §4.1,
//! NetSync §5.1). Files are streamed, so that large files need no memory.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use deltic_core::Crc32c;

use super::words::{ChangeKind, DataKind};
use crate::random::Random;

/// Length of a piece of a change. The last piece may be shorter.
const PIECE_BYTES: u64 = 256;
const BUFFER_BYTES: usize = 256 << 10;
/// Seed of the files and changes: "deltic" in ASCII.
const SEED: u64 = 0x6465_6c74_6963;

/// Writes `len` bytes of `data` to `path`.
pub(crate) fn write_old(path: &Path, data: DataKind, len: u64) -> io::Result<()> {
    let mut random = Random::new(SEED ^ len);
    let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let repeated = match data {
        DataKind::Repeated(bytes) => {
            let times = (BUFFER_BYTES / bytes as usize).max(1);
            random.bytes(bytes as usize).repeat(times)
        }
        _ => vec![0; BUFFER_BYTES],
    };
    let mut left = len;
    while left > 0 {
        let piece = match data {
            DataKind::Random => Cow::Owned(random.bytes(BUFFER_BYTES)),
            DataKind::Forged => Cow::Owned(forged(&mut random)),
            DataKind::Zeros | DataKind::Repeated(_) => Cow::Borrowed(&repeated),
        };
        let now = left.min(piece.len() as u64);
        file.write_all(&piece[..now as usize])?;
        left -= now;
    }
    file.flush()
}

/// Makes a random block. All blocks of this function have the same CRC-32C, because the last four bytes cancel the
/// state of the checksum.
fn forged(random: &mut Random) -> Vec<u8> {
    let mut block = random.bytes(DataKind::FORGED_BYTES - 4);
    let state = !Crc32c::of(&block).get();
    block.extend_from_slice(&state.to_le_bytes());
    block
}

/// Writes a changed copy of `old` to `new`.
pub(crate) fn write_new(old: &Path, new: &Path, change: ChangeKind, bytes: u64) -> io::Result<()> {
    let len = old.metadata()?.len();
    let from = BufReader::with_capacity(BUFFER_BYTES, File::open(old)?);
    let mut to = BufWriter::with_capacity(BUFFER_BYTES, File::create(new)?);
    changed(from, len, change, bytes, &mut to)?;
    to.flush()
}

fn changed(
    mut old: impl Read,
    len: u64,
    change: ChangeKind,
    bytes: u64,
    new: &mut impl Write,
) -> io::Result<()> {
    let mut random = Random::new(SEED ^ bytes.rotate_left(17) ^ change as u64);
    let mut at = 0;
    for (place, piece) in pieces(len, change, bytes, &mut random) {
        io::copy(&mut (&mut old).take(place - at), new)?;
        at = place;
        if change == ChangeKind::Insert {
            new.write_all(&random.bytes(piece as usize))?;
            continue;
        }
        let mut gone = vec![0; piece as usize];
        old.read_exact(&mut gone)?;
        at += piece;
        if change == ChangeKind::Inverse {
            gone.iter_mut().for_each(|byte| *byte = !*byte);
            new.write_all(&gone)?;
        }
    }
    io::copy(&mut old, new).map(drop)
}

/// Returns position and length of the pieces, in order and without overlap.
fn pieces(len: u64, change: ChangeKind, bytes: u64, random: &mut Random) -> Vec<(u64, u64)> {
    let count = bytes.div_ceil(PIECE_BYTES);
    // Positions are drawn among the bytes that stay, then moved by the pieces before.
    let (stay, width) =
        if change == ChangeKind::Insert { (len, 0) } else { (len - bytes, PIECE_BYTES) };
    let mut places: Vec<_> = (0..count).map(|_| random.below(stay + 1)).collect();
    places.sort_unstable();
    let piece = |at: u64| PIECE_BYTES.min(bytes - at * PIECE_BYTES);
    (0..).zip(places).map(|(at, place)| (place + at * width, piece(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_of(old: &[u8], change: ChangeKind, bytes: u64) -> Vec<u8> {
        let mut new = Vec::new();
        changed(old, old.len() as u64, change, bytes, &mut new).unwrap();
        new
    }

    #[test]
    fn forged_blocks_differ_and_have_the_same_sum() {
        let mut random = Random::new(4);
        let [one, other] = [(); 2].map(|()| forged(&mut random));
        assert_ne!(one, other);
        assert_eq!([one.len(), other.len()], [DataKind::FORGED_BYTES; 2]);
        assert_eq!(Crc32c::of(&one), Crc32c::of(&other));
    }

    #[test]
    fn old_versions_match_their_description() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let old = |data| {
            write_old(&path, data, 1_000_001).unwrap();
            std::fs::read(&path).unwrap()
        };
        assert!(old(DataKind::Zeros) == vec![0; 1_000_001]);
        let lines = old(DataKind::Repeated(100));
        assert!(lines.len() == 1_000_001 && lines[100..] == lines[..lines.len() - 100]);
        assert!(lines[1..] != lines[..lines.len() - 1]);
        let [random, forged] = [DataKind::Random, DataKind::Forged].map(old);
        assert!(random.len() == forged.len() && random != forged);
    }

    #[test]
    fn the_requested_number_of_bytes_changes() {
        let old = Random::new(1).bytes(100_000);
        for bytes in [0, 1, 255, 256, 257, 10_000, 100_000] {
            let inserted = new_of(&old, ChangeKind::Insert, bytes);
            assert_eq!(inserted.len() as u64, 100_000 + bytes);
            assert_eq!(new_of(&old, ChangeKind::Cut, bytes).len() as u64, 100_000 - bytes);
            let inverse = new_of(&old, ChangeKind::Inverse, bytes);
            let differ = old.iter().zip(&inverse).filter(|(old, new)| old != new).count();
            assert_eq!((inverse.len(), differ as u64), (100_000, bytes));
        }
    }

    #[test]
    fn pieces_are_of_one_length_but_the_last_and_lie_apart() {
        for change in [ChangeKind::Cut, ChangeKind::Inverse] {
            let pieces = pieces(100_000, change, 50_001, &mut Random::new(3));
            assert!(pieces.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{pieces:?}");
            let (last, others) = pieces.split_last().unwrap();
            assert!(others.iter().all(|(_, len)| *len == PIECE_BYTES));
            assert_eq!(last.1, 50_001 % PIECE_BYTES);
            assert!(last.0 + last.1 <= 100_000);
        }
    }

    #[test]
    fn a_change_is_the_same_each_time_and_differs_by_kind() {
        let old = Random::new(2).bytes(10_000);
        assert_eq!(new_of(&old, ChangeKind::Insert, 512), new_of(&old, ChangeKind::Insert, 512));
        assert_ne!(new_of(&old, ChangeKind::Cut, 512), new_of(&old, ChangeKind::Inverse, 512));
    }
}
