//! What is known of large files besides their digests: their recipes, as notes that only who took them understands.
//!
//! A file for each, in a directory of their own beside the table. It is written under another name and then gets its own, so
//! it is whole or not there; its check says so even after a power cut.
//!
//! ```text
//! name    device and number of the inode, in hexadecimal
//! bytes   version (KEY_BYTES), check: the first CHECK_BYTES of BLAKE3 of all others, notes
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use deltic_tree::{Name, RelPath};
use rustix::fs::{self, OFlags};

use crate::copy::read_at;
use crate::copy::write_at;
use crate::dir::{Dir, Use};
use deltic_store::Version;

use super::{KEY_BYTES, Moment, file_of, key_of};

/// Recipes of files that came in this run or in one before, by any process of this user.
#[derive(Debug)]
pub struct Recipes {
    dir: Dir,
    /// Most bytes of all.
    most: u64,
}

impl Recipes {
    /// Opens those in the directory `dir` of the user's own, which is made if it is not there. `None` where there can be
    /// none: then nothing is known, and nothing is noted.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        Some(Self { dir: Dir::make_own(&dir.join(DIR_NAME)).ok()?, most: MAX_BYTES })
    }

    /// What was noted of this version.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Vec<u8>> {
        let file = self.dir.open_own(&name_of(version)?, OFlags::RDONLY).ok()?;
        let len = usize::try_from(fs::fstat(&file).ok()?.st_size).ok()?;
        if !(HEAD_BYTES..=MAX_FILE_BYTES).contains(&len) {
            return None;
        }
        let mut bytes = vec![0; len];
        let got = read_at(file.as_fd(), 0, &mut bytes).ok()?;
        let (head, notes) = bytes.split_at(HEAD_BYTES);
        let mut check = Check::of(version);
        check.take(notes);
        let is_sound = got == len && *head == check.head();
        // They are long: where they are, and not beside.
        bytes.drain(..HEAD_BYTES);
        is_sound.then_some(bytes)
    }

    /// Notes this, in parts, of the version that a file became when it was put in place, which began at `begun`.
    ///
    /// A change right behind that may leave it the same ctime. But who writes to it gives it another time of modification,
    /// unless that is the present too: then nothing is noted.
    pub fn note(&self, version: &Version, begun: Moment, notes: impl Iterator<Item = Vec<u8>>) {
        if begun.is_past(version.modified) {
            // What cannot be noted is not known: the file is read.
            let _ = self.write(version, notes);
        }
    }

    /// Forgets what is known of a version that is there no more.
    pub fn forget(&self, version: &Version) {
        name_of(version).map(|name| self.dir.remove_file(&name));
    }

    fn write(&self, version: &Version, notes: impl Iterator<Item = Vec<u8>>) -> Option<()> {
        let name = name_of(version)?;
        let other = [name.as_bytes(), format!(".{}", std::process::id()).as_bytes()].concat();
        let other = Name::new(&other).ok()?;
        // Of a killed process with our number.
        let _ = self.dir.remove_file(&other);
        let file: OwnedFd = self.dir.create(&other).ok()?;
        let written = self.fill(&file, version, notes).and_then(|()| {
            self.make_room()?;
            self.dir.rename(&other, &self.dir, &name).ok()
        });
        if written.is_none() {
            let _ = self.dir.remove_file(&other);
        }
        written
    }

    /// Writes all of a file, unless it is too long.
    fn fill(
        &self,
        file: &OwnedFd,
        version: &Version,
        notes: impl Iterator<Item = Vec<u8>>,
    ) -> Option<()> {
        let most = self.most.min(MAX_FILE_BYTES as u64);
        let (mut check, mut end) = (Check::of(version), HEAD_BYTES as u64);
        for part in notes {
            let start = end;
            end += part.len() as u64;
            if end > most {
                return None;
            }
            check.take(&part);
            write_at(file.as_fd(), start, &part).ok()?;
        }
        write_at(file.as_fd(), 0, &check.head()).ok()
    }

    /// Removes the oldest until all have room, the one that is being written among them.
    fn make_room(&self) -> Option<()> {
        let mut all = Vec::new();
        let add = |name: &[u8]| all.extend(Name::new(name));
        self.dir.dir(&RelPath::root(), Use::Read).ok()?.for_each_name(add).ok()?;
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

fn name_of(version: &Version) -> Option<Name> {
    let (device, number) = file_of(version);
    Name::new(format!("{device:x}-{number:x}").as_bytes()).ok()
}

/// Takes the check of a file.
struct Check {
    key: [u8; KEY_BYTES],
    hasher: blake3::Hasher,
}

impl Check {
    fn of(version: &Version) -> Self {
        let (key, mut hasher) = (key_of(version), blake3::Hasher::new());
        hasher.update(&key);
        Self { key, hasher }
    }

    fn take(&mut self, notes: &[u8]) {
        self.hasher.update(notes);
    }

    /// What stands before the notes.
    fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..KEY_BYTES].copy_from_slice(&self.key);
        head[KEY_BYTES..].copy_from_slice(&self.hasher.finalize().as_bytes()[..CHECK_BYTES]);
        head
    }
}

/// Another format has another name: older programs find nothing, and spoil nothing.
const DIR_NAME: &str = "recipes-1";
/// Of all recipes: those of some hundred disk images.
const MAX_BYTES: u64 = 1 << 30;
/// Of one: an index has no more chunks.
const MAX_FILE_BYTES: usize = 64 << 20;
const CHECK_BYTES: usize = 16;
const HEAD_BYTES: usize = KEY_BYTES + CHECK_BYTES;

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests edit the cache from outside"
)]
mod tests {
    use super::*;
    use crate::cache::tests::{others, version};
    use deltic_tree::Timestamp;
    use std::fs;
    use tempfile::TempDir;

    fn recipes(most: u64) -> (TempDir, Recipes) {
        let dir = tempfile::tempdir().unwrap();
        let recipes = Recipes::open(dir.path()).unwrap();
        (dir, Recipes { most, ..recipes })
    }

    /// In parts of some bytes.
    fn note(recipes: &Recipes, version: &Version, begun: Moment, notes: &[u8]) {
        recipes.note(version, begun, notes.chunks(3).map(<[u8]>::to_vec));
    }

    #[test]
    fn what_was_noted_is_found_and_no_other_version_is() {
        let (dir, recipes) = recipes(MAX_BYTES);
        let is = version(7);
        assert_eq!(recipes.find(&is), None);
        note(&recipes, &is, Moment::now(), b"notes");
        let again = Recipes::open(dir.path()).unwrap();
        assert_eq!(again.find(&is).as_deref(), Some(&b"notes"[..]));
        for other in others(is) {
            assert_eq!(recipes.find(&other), None, "{other:?}");
        }
        note(&recipes, &is, Moment::now(), b"others");
        assert_eq!(recipes.find(&is).as_deref(), Some(&b"others"[..]));
        recipes.forget(&is);
        assert_eq!(recipes.find(&is), None);
    }

    #[test]
    fn what_has_the_present_for_its_time_is_not_noted() {
        let (_dir, recipes) = recipes(MAX_BYTES);
        let now = Moment::now();
        let secs = now.0.as_secs() as i64;
        for (modified, noted) in [
            (Timestamp { secs, nanos: now.0.subsec_nanos().max(1) }, false),
            (Timestamp { secs: secs - 1, nanos: 0 }, false),
            (Timestamp { secs: i64::MAX, nanos: 1 }, false),
            (Timestamp { secs: secs - 1, nanos: 1 }, true),
            (Timestamp { secs: secs - 4, nanos: 0 }, true),
        ] {
            let is = Version { modified, ..version(3) };
            note(&recipes, &is, now, b"notes");
            assert_eq!(recipes.find(&is).is_some(), noted, "{modified:?}");
        }
    }

    #[test]
    fn what_is_torn_or_damaged_is_not_known() {
        let (dir, recipes) = recipes(MAX_BYTES);
        note(&recipes, &version(7), Moment::now(), b"notes");
        let path = dir.path().join("recipes-1/1-7");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            for bytes in [&damaged[..], &whole[..at]] {
                fs::write(&path, bytes).unwrap();
                assert_eq!(recipes.find(&version(7)), None, "at {at}");
            }
        }
        fs::write(&path, &whole).unwrap();
        assert!(recipes.find(&version(7)).is_some());
    }

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let one = (HEAD_BYTES + 100) as u64;
        let (dir, recipes) = recipes(3 * one);
        for n in 1..=9 {
            note(&recipes, &version(n), Moment::now(), &[n as u8; 100]);
            // Else the last may be as old as the first.
            let file = fs::File::open(dir.path().join(format!("recipes-1/1-{n:x}"))).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(n)).unwrap();
        }
        let known: Vec<_> = (1..=9).filter(|n| recipes.find(&version(*n)).is_some()).collect();
        assert_eq!(known, [7, 8, 9]);
        note(&recipes, &version(10), Moment::now(), &[0; 1000]);
        assert_eq!(recipes.find(&version(10)), None);
        assert!(recipes.find(&version(9)).is_some(), "nothing goes for what cannot be kept");
    }
}
