//! Reproducible files to sync: random bytes or worst cases, and changes in pieces at random positions (SkySync §4.1,
//! NetSync §5.1). Files are streamed, so that large files need no memory.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use deltic_core::Crc32c;

use super::words::{ChangeKind, DataKind, EditPlaces};
use crate::random::Random;

/// Length of a piece of a change. The last piece may be shorter.
const PIECE_BYTES: u64 = 256;
const BUFFER_BYTES: usize = 256 << 10;
/// Words of generated text: a power of two.
const WORDS: usize = 8192;
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
    let mut words = TextMaker::new();
    let mut left = len;
    while left > 0 {
        let piece = match data {
            DataKind::Random => Cow::Owned(random.bytes(BUFFER_BYTES)),
            DataKind::Text => Cow::Owned(words.text(BUFFER_BYTES, &mut random)),
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

/// A vocabulary in which word `n` is used about 1/n as often as the first (Zipf).
struct TextMaker(Vec<Vec<u8>>);

impl TextMaker {
    fn new() -> Self {
        let mut random = Random::new(SEED);
        let mut word = || {
            let len = 2 + random.place(9);
            random.bytes(len).iter().map(|byte| b'a' + byte % 26).chain([b' ']).collect()
        };
        Self((0..WORDS).map(|_| word()).collect())
    }

    /// Returns `len` bytes of words.
    fn text(&mut self, len: usize, random: &mut Random) -> Vec<u8> {
        let mut text = Vec::with_capacity(len + 16);
        while text.len() < len {
            // The power of two of the rank is uniform, so that each word is rarer than the words before.
            let below = 1 << random.place(WORDS.ilog2() as usize + 1);
            text.extend_from_slice(&self.0[random.place(below)]);
        }
        text.truncate(len);
        text
    }
}

/// A change of a file.
#[derive(Clone, Copy)]
pub(crate) struct FileChange {
    pub(crate) kind: ChangeKind,
    /// Number of changed bytes.
    pub(crate) bytes: u64,
    pub(crate) places: EditPlaces,
}

/// Writes a changed copy of `old` to `new`.
pub(crate) fn write_new(old: &Path, new: &Path, change: FileChange) -> io::Result<()> {
    let len = old.metadata()?.len();
    let open = || Ok::<_, io::Error>(BufReader::with_capacity(BUFFER_BYTES, File::open(old)?));
    let mut to = BufWriter::with_capacity(BUFFER_BYTES, File::create(new)?);
    if change.kind == ChangeKind::Move {
        moved(&mut open()?, len, change, &mut to)?;
    } else {
        changed(open()?, len, change, &mut to)?;
    }
    to.flush()
}

/// Writes `old` with the pieces of the change in the order of the next: each piece takes the place of the piece before,
/// and the first one the place of the last.
fn moved(
    old: &mut (impl Read + Seek),
    len: u64,
    change: FileChange,
    new: &mut impl Write,
) -> io::Result<()> {
    let places = pieces(len, change, &mut change.random());
    let mut at = 0;
    for (n, (place, piece)) in places.iter().enumerate() {
        old.seek(SeekFrom::Start(at))?;
        io::copy(&mut old.by_ref().take(place - at), new)?;
        at = place + piece;
        let (from, bytes) = places[(n + 1) % places.len()];
        old.seek(SeekFrom::Start(from))?;
        io::copy(&mut old.by_ref().take(bytes), new)?;
    }
    old.seek(SeekFrom::Start(at))?;
    io::copy(old, new).map(drop)
}

impl FileChange {
    fn random(self) -> Random {
        Random::new(SEED ^ self.bytes.rotate_left(17) ^ self.kind as u64)
    }
}

fn changed(mut old: impl Read, len: u64, edit: FileChange, new: &mut impl Write) -> io::Result<()> {
    let FileChange { kind: change, .. } = edit;
    let mut random = edit.random();
    let mut at = 0;
    for (place, piece) in pieces(len, edit, &mut random) {
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
fn pieces(len: u64, change: FileChange, random: &mut Random) -> Vec<(u64, u64)> {
    let FileChange { kind: change, bytes, places: spread } = change;
    let count = bytes.div_ceil(PIECE_BYTES);
    // Positions are drawn among the bytes that stay, then moved by the pieces before.
    let (stay, width) =
        if change == ChangeKind::Insert { (len, 0) } else { (len - bytes, PIECE_BYTES) };
    let place = |n: u64| match spread {
        EditPlaces::Even => random.below(stay + 1),
        EditPlaces::Netsync => {
            let third = match n * 10 / count {
                ..7 => 0,
                7 => 1,
                _ => 2,
            };
            third * stay / 3 + random.below(stay / 3 + 1)
        }
    };
    let mut places: Vec<_> = (0..count).map(place).collect();
    places.sort_unstable();
    let piece = |at: u64| PIECE_BYTES.min(bytes - at * PIECE_BYTES);
    (0..).zip(places).map(|(at, place)| (place + at * width, piece(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(kind: ChangeKind, bytes: u64) -> FileChange {
        FileChange { kind, bytes, places: EditPlaces::Even }
    }

    fn new_of(old: &[u8], change: ChangeKind, bytes: u64) -> Vec<u8> {
        let mut new = Vec::new();
        changed(old, old.len() as u64, edit(change, bytes), &mut new).unwrap();
        new
    }

    #[test]
    fn moved_bytes_are_the_bytes_of_old() {
        let old = Random::new(5).bytes(100_000);
        let mut new = Vec::new();
        let change = edit(ChangeKind::Move, 4096);
        moved(&mut io::Cursor::new(&old), 100_000, change, &mut new).unwrap();
        let sorted = |mut bytes: Vec<u8>| {
            bytes.sort_unstable();
            bytes
        };
        let differ = old.iter().zip(&new).filter(|(old, new)| old != new).count();
        assert!((4000..=4096).contains(&differ), "{differ}");
        assert!(sorted(old) == sorted(new));
    }

    #[test]
    fn edits_of_netsync_are_mostly_at_the_begin() {
        let change =
            FileChange { places: EditPlaces::Netsync, ..edit(ChangeKind::Inverse, 25_600) };
        let places = pieces(3_000_000, change, &mut change.random());
        let thirds = [0, 1, 2]
            .map(|third| places.iter().filter(|(place, _)| place / 1_000_000 == third).count());
        assert!(thirds[0] >= 69 && (9..=11).contains(&thirds[1]), "{thirds:?}");
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
            let pieces = pieces(100_000, edit(change, 50_001), &mut Random::new(3));
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
