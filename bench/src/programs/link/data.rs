//! Data that is synced over a link.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use super::super::data::{EditSpec, write_base, write_edited};
use super::super::e2e::restore;
use super::super::run::BenchRig;
use crate::sync::LinkSpec;

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LinkData {
    /// A release of text over the release before.
    Text,
    /// A release of a program over the release before.
    Binary,
    /// Random bytes with 1 % edited.
    Edits,
    /// A new file of random bytes, as of compressed data.
    Noise,
    /// New small files of text.
    Files,
}

impl LinkData {
    pub(super) const ALL: [Self; 5] =
        [Self::Text, Self::Binary, Self::Edits, Self::Noise, Self::Files];
}

impl fmt::Display for LinkData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Edits => "edits",
            Self::Noise => "noise",
            Self::Files => "files",
        })
    }
}

/// Source of a sync, and the version at the destination before.
pub(super) struct LinkCase {
    pub(super) new: PathBuf,
    pub(super) old: Option<PathBuf>,
}

impl LinkCase {
    /// Returns the source of a sync. A slash ends the name of a directory, so that its content is synced.
    pub(super) fn source(&self) -> PathBuf {
        if self.new.is_dir() { self.new.join("") } else { self.new.clone() }
    }

    /// Makes the directory `place` anew, and returns the destination there, with the version before.
    pub(super) fn fresh_destination(&self, place: &Path) -> Result<PathBuf> {
        make_anew(place)?;
        let dest = place.join("dest");
        if let Some(old) = &self.old {
            restore(old, &dest)?;
        }
        Ok(dest)
    }
}

/// Makes `dir` an empty directory.
fn make_anew(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    Ok(fs::create_dir(dir)?)
}

/// Length of the random file with edits, in bytes.
const EDITED_BYTES: u64 = 32 << 20;
/// Time that a link takes for new bytes, as long as the number of bytes is within `NEW_BYTES`.
pub(super) const NEW_TIME: Duration = Duration::from_secs(1);
/// Least and most bytes of new data.
const NEW_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(64 << 20);
/// Length of a small file, in bytes.
const SMALL_BYTES: usize = 4 << 10;
/// Most small files.
const MOST_FILES: usize = 2000;

/// Returns the bytes that `between` carries within `time`.
pub(super) fn new_bytes(between: LinkSpec, time: Duration) -> u64 {
    let carried = between
        .link()
        .map_or(u64::MAX, |link| (link.bits_per_second as f64 / 8.0 * time.as_secs_f64()) as u64);
    carried.clamp(*NEW_BYTES.start(), *NEW_BYTES.end())
}

pub(super) fn edits(rig: &BenchRig) -> Result<LinkCase> {
    let (old, new) = (rig.path("edits-old"), rig.path("edits-new"));
    if !new.exists() {
        write_base(&old, EDITED_BYTES, 1)?;
        write_edited(&old, &new, EditSpec { percent: 1.0, seed: 2 })?;
    }
    Ok(LinkCase { new, old: Some(old) })
}

pub(super) fn noise(rig: &BenchRig, bytes: u64) -> Result<LinkCase> {
    let new = rig.path("noise");
    write_base(&new, bytes, 3)?;
    Ok(LinkCase { new, old: None })
}

/// Writes pieces of `text` as small files, `bytes` in all.
pub(super) fn small_files(rig: &BenchRig, text: &Path, bytes: u64) -> Result<LinkCase> {
    let new = rig.path("files");
    make_anew(&new)?;
    let text = fs::read(text)?;
    let count = (bytes as usize / SMALL_BYTES).min(MOST_FILES);
    for (no, piece) in text.chunks_exact(SMALL_BYTES).take(count).enumerate() {
        fs::write(new.join(format!("{no}.txt")), piece)?;
    }
    Ok(LinkCase { new, old: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_data_fits_the_link() {
        let bytes = |word: &str| new_bytes(word.parse().unwrap(), NEW_TIME);
        assert_eq!(bytes("10Mbit,1ms"), 1_250_000);
        assert_eq!([bytes("1Mbit,1ms"), bytes("none")], [1 << 20, 64 << 20]);
    }
}
