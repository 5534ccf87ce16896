//! A small tree of files to sync, made from a seed.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::random::Random;

/// Makes `old` and `new` in `dir`: two versions of a tree of small files. Of each hundred files of the new version ten have
/// an insert, two are new, two have another name, and two of the old version are missing.
pub(crate) fn make_trees(dir: &Path) -> Result<()> {
    let mut random = Random::new(SEED);
    for folder in 0..FOLDERS {
        let [old, new] =
            ["old", "new"].map(|version| dir.join(version).join(format!("{folder:02}")));
        fs::create_dir_all(&old)?;
        fs::create_dir_all(&new)?;
        for no in 0..FILES {
            let len = 1000 + random.place(40_000);
            let bytes = random.bytes(len);
            let name = format!("file-{no:03}");
            match no {
                0 => fs::write(new.join(&name), &bytes)?,
                1 => fs::write(old.join(&name), &bytes)?,
                2 => {
                    fs::write(old.join(&name), &bytes)?;
                    fs::write(new.join(format!("moved-{no:03}")), &bytes)?;
                }
                3..8 => {
                    fs::write(old.join(&name), &bytes)?;
                    let at = random.place(len);
                    fs::write(new.join(&name), [&bytes[..at], b"inserted", &bytes[at..]].concat())?;
                }
                _ => {
                    fs::write(old.join(&name), &bytes)?;
                    fs::write(new.join(&name), &bytes)?;
                }
            }
        }
    }
    Ok(())
}

/// Seed of the trees: "trees" in ASCII.
const SEED: u64 = 0x74_7265_6573;
const FOLDERS: usize = 8;
/// Files of a folder.
const FILES: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_versions_differ_in_some_files() {
        let dir = tempfile::tempdir().unwrap();
        make_trees(dir.path()).unwrap();
        let names = |version: &str| {
            let entries = fs::read_dir(dir.path().join(version).join("03")).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        assert_eq!([names("old").len(), names("new").len()], [FILES - 1; 2]);
        let read = |path: &str| fs::read(dir.path().join(path)).unwrap();
        assert_eq!(read("old/00/file-003").len() + 8, read("new/00/file-003").len());
        assert_eq!(read("old/00/file-002"), read("new/00/moved-002"));
    }
}
