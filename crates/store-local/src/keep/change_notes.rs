//! Notes about the last change of each file of a volume: which bytes were kept, moved or new, when, and by whom.
//!
//! The note of a file is its extended attribute `user.deltic.change`, set before the new version is put in place. So a
//! note follows the file when the file is renamed, stays with an old version (a hard link), and goes with the file. No
//! sync reads, sends or removes the attribute ([`XattrScope`](deltic_tree::meta::XattrScope)). On a file system without
//! such attributes, no change is known.
//!
//! A note has the length and the modification time of the version that it is about. If a program of the server's machine
//! changes the file, the note no longer fits, and counts for nothing.

use std::os::fd::{AsFd, BorrowedFd};

use deltic_core::changes::CHANGE_MAP_BYTES;
use deltic_core::{ChangeMap, Origins};
use deltic_store::{Snapshot, StoreError};
use deltic_tree::{Name, Timestamp};
use rustix::fs::{self, OFlags, Stat, XattrFlags};

use crate::attributes::more::Reach;
use crate::handles::dir::{Dir, proc_path};
use crate::handles::place::Place;
use crate::handles::stat::file_type;
use crate::kernel::read_write::read_at;
use crate::read::snapshot::LocalSnapshot;

/// The last change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeNote {
    /// The bytes that the change kept, moved and added.
    pub map: ChangeMap,
    /// Time of the change, in seconds since 1970.
    pub at: u64,
    /// Name of the client that made the change; empty if unknown.
    pub author: String,
}

/// The version of a file that a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotedVersion {
    pub(crate) len: u64,
    pub(crate) modified: Timestamp,
}

impl NotedVersion {
    pub(crate) fn of(stat: &Stat) -> Self {
        let (secs, nanos) = (stat.st_mtime, stat.st_mtime_nsec as u32);
        Self { len: stat.st_size as u64, modified: Timestamp { secs, nanos } }
    }
}

impl ChangeNote {
    /// Returns the note about the version that `snapshot` holds open; `None` if nothing is known.
    #[must_use]
    pub fn of(snapshot: &LocalSnapshot) -> Option<Self> {
        let stat = fs::fstat(snapshot.as_fd()).ok()?;
        Self::read(&Reach::Followed(proc_path(snapshot.as_fd())), NotedVersion::of(&stat))
    }

    /// Returns the note about the regular file `name` of `dir`.
    pub(crate) fn of_name(dir: &Dir, name: &Name) -> Option<Self> {
        let stat = dir.stat(name).ok().filter(|stat| file_type(stat).is_file())?;
        Self::read(&Reach::Name(dir.path_to(name)), NotedVersion::of(&stat))
    }

    fn read(at: &Reach, version: NotedVersion) -> Option<Self> {
        let mut bytes = [0; HEAD_BYTES + MAX_AUTHOR_BYTES];
        let len = at.get(NAME, &mut bytes).ok()?;
        Self::parse(bytes.get(..len)?, version)
    }

    /// Sets the note of an open file. Without the note the change is unknown, so errors are ignored.
    pub(crate) fn set(&self, file: BorrowedFd<'_>, version: NotedVersion) {
        let _ = fs::fsetxattr(file, NAME, &self.to_bytes(version), XattrFlags::empty());
    }

    fn to_bytes(&self, NotedVersion { len, modified }: NotedVersion) -> Vec<u8> {
        let is_new = self.map == ChangeMap::of_new_file(len);
        let mut bytes = vec![if is_new { NEW_FILE } else { CHANGED }];
        bytes.extend(len.to_le_bytes());
        bytes.extend(modified.secs.to_le_bytes());
        bytes.extend(modified.nanos.to_le_bytes());
        bytes.extend(self.at.to_le_bytes());
        if !is_new {
            bytes.extend(self.map.to_bytes());
        }
        let most = self.author.floor_char_boundary(MAX_AUTHOR_BYTES);
        bytes.extend_from_slice(&self.author.as_bytes()[..most]);
        bytes
    }

    /// Parses the note about `version`. `None` for a note of another format, or about another version.
    fn parse(bytes: &[u8], version: NotedVersion) -> Option<Self> {
        let (format, bytes) = bytes.split_first()?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let (secs, bytes) = bytes.split_first_chunk()?;
        let (nanos, bytes) = bytes.split_first_chunk()?;
        let (at, bytes) = bytes.split_first_chunk()?;
        let modified =
            Timestamp { secs: i64::from_le_bytes(*secs), nanos: u32::from_le_bytes(*nanos) };
        let noted = NotedVersion { len: u64::from_le_bytes(*len), modified };
        let (map, author) = match *format {
            NEW_FILE => (ChangeMap::of_new_file(version.len), bytes),
            CHANGED => {
                let (map, author) = bytes.split_first_chunk::<CHANGE_MAP_BYTES>()?;
                (ChangeMap::from_bytes(map)?, author)
            }
            _ => return None,
        };
        let fits = noted == version && map.sums.total() == Some(version.len);
        let author = String::from_utf8(author.to_vec()).ok()?;
        fits.then(|| Self { map, at: u64::from_le_bytes(*at), author })
    }
}

/// Compares the new version of `len` bytes with the file at `place`, if both are short: few bytes need no delta, so
/// nothing says which of them were there before.
pub(crate) fn compare_short(place: &Place, new: BorrowedFd<'_>, len: u64) -> Option<Origins> {
    let old = place.dir.open(&place.name, OFlags::RDONLY).ok()?;
    let old_len = fs::fstat(&old).ok().filter(|stat| file_type(stat).is_file())?.st_size as u64;
    if len.max(old_len) > SHORT_BYTES {
        return None;
    }
    let whole = |file: BorrowedFd<'_>, len: u64| {
        let mut bytes = vec![0; len as usize];
        (read_at(file, 0, &mut bytes).ok()? == bytes.len()).then_some(bytes)
    };
    Some(Origins::of_bytes(&whole(old.as_fd(), old_len)?, &whole(new, len)?))
}

/// Compares two versions that are held open, if both are short. `None` if one is longer.
///
/// # Errors
/// A version cannot be read.
pub fn compare_short_versions(
    old: &LocalSnapshot,
    new: &LocalSnapshot,
) -> Result<Option<Origins>, StoreError> {
    if old.meta().len.max(new.meta().len) > SHORT_BYTES {
        return Ok(None);
    }
    let whole = |snapshot: &LocalSnapshot| {
        let mut bytes = vec![0; snapshot.meta().len as usize];
        let got = snapshot.read_at(0, &mut bytes)?;
        bytes.truncate(got);
        Ok(bytes)
    };
    Ok(Some(Origins::of_bytes(&whole(old)?, &whole(new)?)))
}

const NAME: &[u8] = b"user.deltic.change";
/// First byte of a note with a map. Another format gets another number.
const CHANGED: u8 = 1;
/// First byte of a note without a map: all bytes are new. File systems keep so short a note in the inode.
const NEW_FILE: u8 = 2;
/// Most bytes of a note without the author.
const HEAD_BYTES: usize = 1 + 8 + 8 + 4 + 8 + CHANGE_MAP_BYTES;
const MAX_AUTHOR_BYTES: usize = 64;
/// Longest file in bytes that is compared byte by byte.
const SHORT_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_core::{Change, ChangedSpan};

    fn note() -> (ChangeNote, NotedVersion) {
        let version = NotedVersion { len: 700, modified: Timestamp { secs: -3, nanos: 7 } };
        let kept = ChangedSpan { span: 0..500, change: Change::Kept, old: Some(0) };
        let new = ChangedSpan { span: 500..700, change: Change::New, old: None };
        let map = ChangeMap::from_bytes(&ChangeMap::of(700, &[kept, new]).to_bytes()).unwrap();
        (ChangeNote { map, at: 1_764_000_000, author: "laptop ü".into() }, version)
    }

    #[test]
    fn a_note_is_about_one_version_only() {
        let (note, version) = note();
        let new_file = ChangeNote { map: ChangeMap::of_new_file(700), ..note.clone() };
        let later = Timestamp { secs: -3, nanos: 8 };
        for note in [note, new_file] {
            let bytes = note.to_bytes(version);
            assert_eq!(ChangeNote::parse(&bytes, version), Some(note));
            let others =
                [NotedVersion { len: 701, ..version }, NotedVersion { modified: later, ..version }];
            for other in others {
                assert_eq!(ChangeNote::parse(&bytes, other), None);
            }
        }
    }

    #[test]
    fn the_note_of_a_new_file_fits_in_an_inode() {
        let version = note().1;
        let note = ChangeNote { map: ChangeMap::of_new_file(700), at: 1, author: "laptop".into() };
        assert_eq!(note.to_bytes(version).len(), 29 + 6);
    }

    #[test]
    fn a_torn_or_foreign_note_counts_for_nothing() {
        let (note, version) = note();
        let bytes = note.to_bytes(version);
        for len in 0..HEAD_BYTES {
            assert_eq!(ChangeNote::parse(&bytes[..len], version), None);
        }
        for at in [0, 1, 30, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            assert_eq!(ChangeNote::parse(&damaged, version), None, "at {at}");
        }
    }

    #[test]
    fn a_long_author_is_cut_between_letters() {
        let (note, version) = note();
        let note = ChangeNote { author: "ä".repeat(MAX_AUTHOR_BYTES) + "x", ..note };
        let told = ChangeNote::parse(&note.to_bytes(version), version).unwrap();
        assert_eq!(told.author, "ä".repeat(MAX_AUTHOR_BYTES / 2));
    }
}
