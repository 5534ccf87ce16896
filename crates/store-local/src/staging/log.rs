//! The log beside a staged file: notes for the run that resumes the file (docs/decisions/0016).
//!
//! ```text
//! frame    length of the note (4 bytes, little-endian), the first SUM_BYTES of BLAKE3 of the note, the note
//! log      a frame that says which staged file of which boot this is about, then one frame for each note
//! ```
//!
//! Nothing is flushed. The writes of a killed process stay in the page cache, so notes hold as long as the machine
//! runs; the log of an earlier boot is ignored. A torn or damaged frame ends the log.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use deltic_core::Fingerprint;
use deltic_tree::Name;
use deltic_tree::meta::Inode;
use rustix::fs::{self, OFlags, Stat};
use rustix::io::Errno;

use crate::handles::dir::Dir;
use crate::handles::place::STAGED_SUFFIX;
use crate::handles::stat::{file_type, inode_of, name_count};
use crate::kernel::boot::boot;
use crate::kernel::read_write::{read_at, write_at};

/// Notes of a log, in order.
pub(crate) type Notes = Vec<Vec<u8>>;

/// The log of a staged file.
#[derive(Debug)]
pub(crate) enum Log {
    /// No note was written yet.
    Unwritten,
    /// The open log and its length in bytes.
    Open(OwnedFd, u64),
    /// A write failed, so later notes would be unreadable.
    Broken,
}

impl Log {
    /// Adds a note about `staged`, which has the name `name` in `dir`. Writes nothing if this boot of the machine has
    /// no identifier.
    pub(crate) fn append_note(
        &mut self,
        dir: impl FnOnce() -> Result<Arc<Dir>, Errno>,
        staged: &OwnedFd,
        name: &Name,
        note: &[u8],
    ) -> Result<(), Errno> {
        if let Self::Unwritten = self {
            let Some(boot) = boot() else { return Ok(()) };
            let about = first_note(boot, &fs::fstat(staged)?);
            *self = Self::Broken;
            let file = create(&*dir()?, &log_name(name))?;
            write_at(file.as_fd(), 0, &note_frame(&about))?;
            *self = Self::Open(file, frame_len(about.len()));
        }
        let Self::Open(file, end) = self else { return Err(Errno::IO) };
        let next = *end + frame_len(note.len());
        let fits = next <= MAX_LOG_BYTES;
        let written =
            if fits { write_at(file.as_fd(), *end, &note_frame(note)) } else { Err(Errno::FBIG) };
        match written {
            Ok(()) => *end = next,
            Err(_) => *self = Self::Broken,
        }
        written
    }

    /// Opens the log of the staged file `name` of `dir`, to continue the log. Returns the log and its notes. `None`
    /// without a log or without notes, or if the log is not valid for this file and boot.
    pub(crate) fn open_log(
        dir: &Dir,
        staged: &OwnedFd,
        name: &Name,
    ) -> Result<Option<(Self, Notes)>, Errno> {
        let (Some(boot), stat) = (boot(), fs::fstat(staged)?) else { return Ok(None) };
        let file = match dir.open(&log_name(name), OFlags::RDWR) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let log = fs::fstat(&file)?;
        let has_one_name = name_count(log.st_nlink) == 1;
        if !has_one_name || !is_ours(&log) || !is_ours(&stat) || log.st_size as u64 > MAX_LOG_BYTES
        {
            return Ok(None);
        }
        let written_later = stat.st_mtime.max(stat.st_ctime) > log.st_mtime + SLACK_SECS;
        let mut bytes = vec![0; log.st_size as usize];
        let got = read_at(file.as_fd(), 0, &mut bytes)?;
        let (mut notes, end) = parse_notes(&bytes[..got]);
        if written_later || notes.first() != Some(&first_note(boot, &stat)) {
            return Ok(None);
        }
        notes.remove(0);
        // A frame after a torn frame could not be read, so the torn frame is dropped.
        fs::ftruncate(&file, end)?;
        Ok((!notes.is_empty()).then_some((Self::Open(file, end), notes)))
    }
}

/// Removes the log of the staged file `name`, if there is one.
pub(crate) fn remove_log(dir: &Dir, name: &Name) {
    // The sweep removes the log if this fails.
    let _ = dir.remove_file(&log_name(name));
}

/// Returns the name of the log of the staged file `name`.
fn log_name(name: &Name) -> Name {
    let stem = name.as_bytes().len() - STAGED_SUFFIX.len();
    Name::new(&[&name.as_bytes()[..stem], LOG_SUFFIX].concat()).expect("a suffix makes no bad name")
}

/// Returns the name of the staged file of `log`.
pub(crate) fn staged_name(log: &Name) -> Option<Name> {
    let stem = log.as_bytes().strip_suffix(LOG_SUFFIX)?;
    Name::new(&[stem, STAGED_SUFFIX].concat()).ok()
}

/// Creates a file. A file of this name belongs to another staged file, and is removed before.
fn create(dir: &Dir, name: &Name) -> Result<OwnedFd, Errno> {
    match dir.create(name) {
        Err(Errno::EXIST) => {
            dir.remove_file(name)?;
            dir.create(name)
        }
        created => created,
    }
}

/// Returns the notes before the first torn or damaged frame, and the offset of that frame.
fn parse_notes(bytes: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let (mut notes, mut rest) = (Vec::new(), bytes);
    while let Some((len, behind)) = rest.split_first_chunk::<LEN_BYTES>() {
        let len = u32::from_le_bytes(*len) as usize;
        let Some((sum, behind)) = behind.split_first_chunk::<SUM_BYTES>() else { break };
        let Some((note, behind)) = behind.split_at_checked(len) else { break };
        if *sum != sum_of(note) {
            break;
        }
        notes.push(note.to_vec());
        rest = behind;
    }
    (notes, (bytes.len() - rest.len()) as u64)
}

fn note_frame(note: &[u8]) -> Vec<u8> {
    [&(note.len() as u32).to_le_bytes()[..], &sum_of(note), note].concat()
}

const fn frame_len(note_len: usize) -> u64 {
    (LEN_BYTES + SUM_BYTES + note_len) as u64
}

fn sum_of(note: &[u8]) -> [u8; SUM_BYTES] {
    *Fingerprint::of(note).as_bytes().first_chunk().expect("a fingerprint is longer")
}

/// Returns the first note of a log, which identifies the boot and the staged file.
fn first_note(boot: &[u8], staged: &Stat) -> Vec<u8> {
    let Inode { device, number } = inode_of(staged);
    let numbers = [device, number, staged.st_size as u64].map(u64::to_le_bytes);
    [MAGIC, numbers.as_flattened(), boot].concat()
}

/// True for a regular file of this user that only this user may write.
fn is_ours(stat: &Stat) -> bool {
    let owner = stat.st_uid == rustix::process::geteuid().as_raw();
    file_type(stat).is_file() && owner && stat.st_mode & 0o022 == 0
}

pub(crate) const LOG_SUFFIX: &[u8] = b".log";
const MAGIC: &[u8] = b"deltic log 1";
const LEN_BYTES: usize = 4;
const SUM_BYTES: usize = 16;
/// Greatest length of a log in bytes. The index of the chunks of a longer log would exceed its memory budget.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// Seconds by which the staged file may be newer than the log, since the last writes have no note yet.
const SLACK_SECS: i64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_up_to_its_first_damage() {
        let told: [&[u8]; 3] = [b"one", b"", b"three of them"];
        let log = told.map(note_frame).concat();
        assert_eq!(parse_notes(&log), (told.map(<[u8]>::to_vec).to_vec(), log.len() as u64));
        let ends = [0, 23, 43, 76];
        assert_eq!(log.len(), ends[3]);
        for at in 0..log.len() {
            let whole = ends.iter().rposition(|end| *end <= at).unwrap();
            let mut damaged = log.clone();
            damaged[at] ^= 0x40;
            for bytes in [&damaged[..], &log[..at]] {
                let (found, end) = parse_notes(bytes);
                assert_eq!((found.len(), end as usize), (whole, ends[whole]), "at {at}");
            }
        }
    }
}
