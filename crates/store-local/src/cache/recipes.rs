//! Recipes of large files on disk, each in a file of its own ([notes](super::notes)). The name of the file is the device
//! and the number of the inode, in hexadecimal; the key is the version. The caller decides what the bytes mean.

use std::path::Path;

use deltic_store::{SettledVersion, Version};
use deltic_tree::Name;

use super::notes::Notes;
use super::{KEY_BYTES, file_of, key_of};
use deltic_tree::meta::Inode;

/// Recipes of files that arrived in this run or an earlier run, by any process of this user.
#[derive(Debug)]
pub(super) struct Recipes(Notes<KEY_BYTES>);

impl Recipes {
    /// Opens the recipes in the user's own directory `dir`, which is created if missing. `None` if no recipes can be
    /// kept there.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        Notes::open(dir, DIR_NAME, MAX_BYTES, 1).map(Self)
    }

    /// Returns the recipe of a version.
    pub(super) fn find(&self, version: &Version) -> Option<Vec<u8>> {
        self.0.find(&name_of(version)?, &key_of(version))
    }

    /// Notes the recipe of a version, which comes in parts.
    pub(super) fn note_recipe(
        &self,
        version: &SettledVersion,
        parts: &mut dyn Iterator<Item = Vec<u8>>,
    ) {
        let version = version.version();
        if let Some(name) = name_of(version) {
            self.0.write_note(&name, &key_of(version), parts);
        }
    }

    /// Removes the recipe of a version that was replaced.
    pub(super) fn forget(&self, version: &Version) {
        name_of(version).inspect(|name| self.0.forget(name));
    }
}

fn name_of(version: &Version) -> Option<Name> {
    let Inode { device, number } = file_of(version);
    Name::new(format!("{device:x}-{number:x}").as_bytes()).ok()
}

/// A later format gets another name, so older programs neither find nor damage newer files.
const DIR_NAME: &str = "recipes-1";
/// Most bytes of all recipes: room for some hundred disk images.
const MAX_BYTES: u64 = 1 << 30;

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests edit the cache from outside"
)]
mod tests {
    use super::*;
    use crate::cache::now;
    use crate::cache::tests::{others, version};
    use std::fs;
    use tempfile::TempDir;

    fn recipes(most: u64) -> (TempDir, Recipes) {
        let dir = tempfile::tempdir().unwrap();
        let mut recipes = Recipes::open(dir.path()).unwrap();
        recipes.0.most = most;
        (dir, recipes)
    }

    /// Notes `notes` in parts of three bytes.
    fn note(recipes: &Recipes, version: &Version, notes: &[u8]) {
        let settled = SettledVersion::after_read(*version, now()).unwrap();
        recipes.note_recipe(&settled, &mut notes.chunks(3).map(<[u8]>::to_vec));
    }

    #[test]
    fn what_was_noted_is_found_and_no_other_version_is() {
        let (dir, recipes) = recipes(MAX_BYTES);
        let is = version(7);
        assert_eq!(recipes.find(&is), None);
        note(&recipes, &is, b"notes");
        let again = Recipes::open(dir.path()).unwrap();
        assert_eq!(again.find(&is).as_deref(), Some(&b"notes"[..]));
        for other in others(is) {
            assert_eq!(recipes.find(&other), None, "{other:?}");
        }
        note(&recipes, &is, b"others");
        assert_eq!(recipes.find(&is).as_deref(), Some(&b"others"[..]));
        recipes.forget(&is);
        assert_eq!(recipes.find(&is), None);
    }

    #[test]
    fn what_is_torn_or_damaged_is_not_known() {
        let (dir, recipes) = recipes(MAX_BYTES);
        note(&recipes, &version(7), b"notes");
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
            note(&recipes, &version(n), &[n as u8; 100]);
            // Otherwise the last file may have the same mtime as the first.
            let file = fs::File::open(dir.path().join(format!("recipes-1/1-{n:x}"))).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(n)).unwrap();
        }
        let known: Vec<_> = (1..=9).filter(|n| recipes.find(&version(*n)).is_some()).collect();
        assert_eq!(known, [7, 8, 9]);
        note(&recipes, &version(10), &[0; 1000]);
        assert_eq!(recipes.find(&version(10)), None);
        assert!(recipes.find(&version(9)).is_some(), "nothing goes for what cannot be kept");
    }
}
