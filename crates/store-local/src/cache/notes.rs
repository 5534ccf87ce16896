//! Notes in files, one file for each note, in a directory of their own.
//!
//! Each file is written under a temporary name and then renamed, so a note is complete or missing. Its check detects
//! damage even after a power cut.
//!
//! ```text
//! bytes   key, check: the first CHECK_BYTES of BLAKE3 of all others, notes
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use deltic_tree::{Name, RelPath};
use rustix::fs::{self, OFlags};

use crate::handles::dir::{Dir, Use};
use crate::kernel::read_write::{read_at, write_at};

/// Notes of this run or an earlier run, by any process of this user. `N` is the length of a key in bytes.
#[derive(Debug)]
pub(super) struct Notes<const N: usize> {
    dir: Dir,
    /// Most bytes of all notes together.
    pub(super) most: u64,
    /// Number of new notes between two scans that remove old notes. A scan reads the length and age of all notes.
    room_every: u32,
    /// Number of notes that this process has written.
    made: AtomicU32,
}

impl<const N: usize> Notes<N> {
    /// Length of the head before the note's bytes.
    pub(super) const HEAD_BYTES: usize = N + CHECK_BYTES;

    /// Opens the notes in the directory `name` of `dir`. Both directories are the user's own and created if missing.
    /// The notes take at most `most` bytes. `None` if the directory cannot keep notes: then no note is found or
    /// written.
    pub(super) fn open(dir: &Path, name: &str, most: u64, room_every: u32) -> Option<Self> {
        Some(Self {
            dir: Dir::make_own_dir(&dir.join(name)).ok()?,
            most,
            room_every,
            made: AtomicU32::new(0),
        })
    }

    /// Returns the note of this name, if its key and check match.
    pub(super) fn find(&self, name: &Name, key: &[u8; N]) -> Option<Vec<u8>> {
        let file = self.dir.open_own(name, OFlags::RDONLY).ok()?;
        let len = usize::try_from(fs::fstat(&file).ok()?.st_size).ok()?;
        if !(Self::HEAD_BYTES..=MAX_FILE_BYTES).contains(&len) {
            return None;
        }
        let mut bytes = vec![0; len];
        let got = read_at(file.as_fd(), 0, &mut bytes).ok()?;
        let (head, notes) = bytes.split_at(Self::HEAD_BYTES);
        let mut check = Check::of(key);
        check.add_to_checksum(notes);
        let is_sound = got == len && head == check.head_bytes(key);
        // Notes may be long, so the head is removed without another buffer.
        bytes.drain(..Self::HEAD_BYTES);
        is_sound.then_some(bytes)
    }

    /// Removes the note of this name.
    pub(super) fn forget(&self, name: &Name) {
        // A note that cannot be removed still has true bytes.
        let _ = self.dir.remove_file(name);
    }

    /// Writes a note that comes in parts. Failures are ignored: the note is then unknown.
    pub(super) fn write_note(
        &self,
        name: &Name,
        key: &[u8; N],
        notes: impl Iterator<Item = Vec<u8>>,
    ) {
        let _ = self.write_parts(name, key, notes);
    }

    fn write_parts(
        &self,
        name: &Name,
        key: &[u8; N],
        notes: impl Iterator<Item = Vec<u8>>,
    ) -> Option<()> {
        let other = [name.as_bytes(), format!(".{}", std::process::id()).as_bytes()].concat();
        let other = Name::new(&other).ok()?;
        // Left from a killed process that had our process id.
        let _ = self.dir.remove_file(&other);
        let file: OwnedFd = self.dir.create(&other).ok()?;
        let written = self.write_head_and_parts(&file, key, notes).and_then(|()| {
            let made = self.made.fetch_add(1, Ordering::Relaxed);
            if made.is_multiple_of(self.room_every) {
                self.make_room()?;
            }
            self.dir.rename(&other, &self.dir, name).ok()
        });
        if written.is_none() {
            let _ = self.dir.remove_file(&other);
        }
        written
    }

    /// Writes the head and all parts to the file. Fails if the file would be too long.
    fn write_head_and_parts(
        &self,
        file: &OwnedFd,
        key: &[u8; N],
        notes: impl Iterator<Item = Vec<u8>>,
    ) -> Option<()> {
        let most = self.most.min(MAX_FILE_BYTES as u64);
        let (mut check, mut end) = (Check::of(key), Self::HEAD_BYTES as u64);
        for part in notes {
            let start = end;
            end += part.len() as u64;
            if end > most {
                return None;
            }
            check.add_to_checksum(&part);
            write_at(file.as_fd(), start, &part).ok()?;
        }
        write_at(file.as_fd(), 0, &check.head_bytes(key)).ok()
    }

    /// Removes the oldest files until all files fit, with the file that is being written.
    fn make_room(&self) -> Option<()> {
        let mut all = Vec::new();
        let add = |name: &[u8]| all.extend(Name::new(name));
        self.dir.open_dir(&RelPath::root(), Use::Read).ok()?.for_each_name(add).ok()?;
        let known = |name: Name| {
            let stat = self.dir.stat(&name).ok()?;
            Some(((stat.st_mtime, stat.st_mtime_nsec), stat.st_size as u64, name))
        };
        let mut all: Vec<_> = all.into_iter().filter_map(known).collect();
        all.sort_unstable();
        let mut taken: u64 = all.iter().map(|(_, len, _)| len).sum();
        for (_, len, name) in all {
            if taken <= self.most {
                break;
            }
            self.dir.remove_file(&name).ok()?;
            taken -= len;
        }
        Some(())
    }
}

/// Computes the check of a file.
struct Check(blake3::Hasher);

impl Check {
    fn of(key: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(key);
        Self(hasher)
    }

    fn add_to_checksum(&mut self, notes: &[u8]) {
        self.0.update(notes);
    }

    /// The key and the check, which precede the note's bytes.
    fn head_bytes(&self, key: &[u8]) -> Vec<u8> {
        [key, &self.0.finalize().as_bytes()[..CHECK_BYTES]].concat()
    }
}

/// Longest file in bytes: room for the largest index of chunks, and for the largest kept list of sums.
const MAX_FILE_BYTES: usize = 80 << 20;
const CHECK_BYTES: usize = 16;
