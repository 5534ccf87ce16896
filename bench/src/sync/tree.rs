//! Trees of files as versions to sync: `--pair` with two directories.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use crate::exit::shown;

/// Returns the regular files below `dir` by relative name, sorted.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = dirs.pop() {
        let path = dir.join(&below);
        for entry in fs::read_dir(&path).with_context(|| format!("list {}", shown(&path)))? {
            let entry = entry?;
            let (name, kind) = (below.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                dirs.push(name);
            } else if kind.is_file() {
                found.push(name);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the length of a file, or of all files below a directory.
pub(super) fn len_of(path: &Path) -> Result<u64> {
    let meta = path.metadata().with_context(|| format!("cannot read {}", shown(path)))?;
    if !meta.is_dir() {
        ensure!(meta.is_file(), "{} is neither a regular file nor a directory", shown(path));
        return Ok(meta.len());
    }
    files(path)?.iter().map(|name| Ok(path.join(name).metadata()?.len())).sum()
}

/// Makes `to` a copy of the files below `from`, with this modification time.
pub(super) fn copy(from: &Path, to: &Path, modified: SystemTime) -> Result<()> {
    remove(to)?;
    fs::create_dir(to).with_context(|| format!("make {}", shown(to)))?;
    for name in files(from)? {
        let copy = to.join(&name);
        copy.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(from.join(&name), &copy).with_context(|| format!("write {}", shown(&copy)))?;
        let file = File::options().write(true).open(&copy)?;
        file.set_times(FileTimes::new().set_modified(modified))?;
        // The next run does not pay for this write.
        file.sync_all()?;
    }
    Ok(())
}

/// Removes a file or a tree, if there is one.
pub(super) fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.with_context(|| format!("remove {}", shown(path)))
}

/// Returns the pairs of files of two trees. Fails unless each file of `new` is in `dest`.
pub(super) fn pairs(new: &Path, dest: &Path) -> Result<Vec<[PathBuf; 2]>> {
    let names = files(new)?;
    let there = files(dest)?;
    let missing = names.iter().find(|name| there.binary_search(name).is_err());
    ensure!(missing.is_none(), "the destination lacks a file of the new version");
    Ok(names.iter().map(|name| [new.join(name), dest.join(name)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_tree_has_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/c"), "12345").unwrap();
        fs::write(from.join("d"), "123").unwrap();
        fs::write(&to, "a file of before").unwrap();
        copy(&from, &to, SystemTime::now()).unwrap();
        assert_eq!(pairs(&from, &to).unwrap().len(), 2);
        assert_eq!((len_of(&from).unwrap(), len_of(&to).unwrap()), (8, 8));
        fs::remove_file(to.join("d")).unwrap();
        assert!(pairs(&from, &to).is_err());
    }
}
