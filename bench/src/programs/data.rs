//! Generated files to sync. Files are made from a seed and streamed, so that large files need no memory.
//!
//! An edit changes a percentage of the bytes in scattered pieces, half of them inserted, half overwritten. This is the
//! worst common case for block matching, because every insert shifts the bytes after the piece.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use crate::random::Random;

/// Writes `len` random bytes to `path`.
pub(crate) fn write_base(path: &Path, len: u64, seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let mut file = File::create(path)?;
    let mut buffer = vec![0; BUFFER];
    let mut left = len;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
        random.fill(&mut buffer[..now]);
        file.write_all(&buffer[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// Parameters of an edit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EditSpec {
    /// Percentage of changed bytes.
    pub(crate) percent: f64,
    /// Seed of the positions and the new bytes.
    pub(crate) seed: u64,
}

/// Writes an edited copy of `old` to `new`.
pub(crate) fn write_edited(old: &Path, new: &Path, edit: EditSpec) -> io::Result<()> {
    let len = old.metadata()?.len();
    let from = BufReader::with_capacity(BUFFER, File::open(old)?);
    let mut to = BufWriter::with_capacity(BUFFER, File::create(new)?);
    edited(from, len, edit, &mut to)?;
    to.flush()
}

fn edited(mut old: impl Read, len: u64, edit: EditSpec, new: &mut impl Write) -> io::Result<()> {
    let mut random = Random::new(edit.seed);
    let mut at = 0;
    for place in places(len, edit.percent, &mut random) {
        // The previous overwritten piece may reach past this position.
        at += io::copy(&mut (&mut old).take(place.saturating_sub(at)), new)?;
        new.write_all(&random.bytes(PIECE))?;
        let overwrite = random.below(2) == 0;
        if overwrite {
            at += io::copy(&mut (&mut old).take(PIECE as u64), &mut io::sink())?;
        }
    }
    io::copy(&mut old, new).map(drop)
}

fn places(len: u64, percent: f64, random: &mut Random) -> Vec<u64> {
    let count = (len as f64 * percent / 100.0 / PIECE as f64).round() as usize;
    let mut places: Vec<u64> = (0..count).map(|_| random.below(len)).collect();
    places.sort_unstable();
    places
}

pub(crate) const PIECE: usize = 256;
const BUFFER: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn base(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8).collect()
    }

    fn edit_of(old: &[u8], percent: f64, seed: u64) -> Vec<u8> {
        let mut new = Vec::new();
        edited(old, old.len() as u64, EditSpec { percent, seed }, &mut new).unwrap();
        new
    }

    #[test]
    fn a_seed_gives_the_same_edit_again() {
        let old = base(1 << 20);
        assert_eq!(edit_of(&old, 1.0, 7), edit_of(&old, 1.0, 7));
        assert_ne!(edit_of(&old, 1.0, 7), edit_of(&old, 1.0, 8));
    }

    #[test]
    fn about_half_of_the_pieces_are_inserted() {
        let old = base(1 << 22);
        let grown = edit_of(&old, 1.0, 3).len() - old.len();
        let touched = old.len() / 100;
        assert!(grown > touched / 3 && grown < touched * 2 / 3, "{grown} of {touched}");
    }

    #[test]
    fn no_edit_changes_nothing() {
        assert_eq!(edit_of(&base(10_000), 0.0, 1), base(10_000));
    }

    #[test]
    fn pieces_may_overlap_and_reach_past_the_end() {
        assert!(edit_of(&base(300), 400.0, 5).len() >= 300);
    }

    #[test]
    fn a_base_has_its_length_and_differs_by_seed() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        write_base(&a, BUFFER as u64 + 5, 1).unwrap();
        write_base(&b, BUFFER as u64 + 5, 2).unwrap();
        assert_eq!(a.metadata().unwrap().len(), BUFFER as u64 + 5);
        assert_ne!(std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    }
}
