//! Recipes of large files, as [notes](super::notes) that only who took them understands. The name of one is the
//! device and the number of the inode, in hexadecimal; its key is the version.

use std::path::Path;

use deltic_store::Version;
use deltic_tree::Name;

use super::notes::Notes;
use super::{KEY_BYTES, Moment, file_of, key_of};

/// Recipes of files that came in this run or in one before, by any process of this user.
#[derive(Debug)]
pub struct Recipes(Notes<KEY_BYTES>);

impl Recipes {
    /// Opens those in the directory `dir` of the user's own, which is made if it is not there. `None` where there can be
    /// none: then nothing is known, and nothing is noted.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        Notes::open(dir, DIR_NAME, (MAX_BYTES, 1)).map(Self)
    }

    /// What was noted of this version.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Vec<u8>> {
        self.0.find(&name_of(version)?, &key_of(version))
    }

    /// Notes this, in parts, of the version that a file became when it was put in place, which began at `begun`.
    ///
    /// A change right behind that may leave it the same ctime. But who writes to it gives it another time of modification,
    /// unless that is the present too: then nothing is noted.
    pub fn note(&self, version: &Version, begun: Moment, notes: impl Iterator<Item = Vec<u8>>) {
        if begun.is_past(version.modified)
            && let Some(name) = name_of(version)
        {
            self.0.note(&name, &key_of(version), notes);
        }
    }

    /// Forgets what is known of a version that is there no more.
    pub fn forget(&self, version: &Version) {
        name_of(version).inspect(|name| self.0.forget(name));
    }
}

fn name_of(version: &Version) -> Option<Name> {
    let (device, number) = file_of(version);
    Name::new(format!("{device:x}-{number:x}").as_bytes()).ok()
}

/// Another format has another name: older programs find nothing, and spoil nothing.
const DIR_NAME: &str = "recipes-1";
/// Of all recipes: those of some hundred disk images.
const MAX_BYTES: u64 = 1 << 30;

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
        let mut recipes = Recipes::open(dir.path()).unwrap();
        recipes.0.most = most;
        (dir, recipes)
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
        let one = (Notes::<KEY_BYTES>::HEAD_BYTES + 100) as u64;
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
