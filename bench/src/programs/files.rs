//! Comparison and generation of file trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// True if two files hold the same bytes.
pub(crate) fn same_content(a: &Path, b: &Path) -> Result<bool> {
    let open = |path: &Path| File::open(path).with_context(|| format!("open {}", path.display()));
    let (a, b) = (open(a)?, open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (BufReader::with_capacity(BUFFER, a), b);
    let (mut left, mut right) = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        let len = a.read(&mut left)?;
        if len == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..len])?;
        if left[..len] != right[..len] {
            return Ok(false);
        }
    }
}

/// A flat tree in memory: the content of each name, and a common modification time.
pub(crate) struct TreeFiles {
    pub(crate) content: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) modified: SystemTime,
}

impl TreeFiles {
    /// Writes the tree to `dir` and removes everything else there.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        for (name, bytes) in &self.content {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            fs::write(&path, bytes)?;
            File::open(&path)?.set_times(FileTimes::new().set_modified(self.modified))?;
        }
        Ok(())
    }

    /// Returns the content of `name`.
    pub(crate) fn get(&self, name: &Path) -> Option<&[u8]> {
        self.content.get(name).map(Vec::as_slice)
    }

    /// Returns the names with a different content or time in `dir`.
    pub(crate) fn differing(&self, dir: &Path) -> Vec<PathBuf> {
        let same = |name: &Path, bytes: &[u8]| {
            let path = dir.join(name);
            let modified = path.metadata().and_then(|meta| meta.modified()).ok();
            modified == Some(self.modified) && fs::read(path).is_ok_and(|found| found == bytes)
        };
        self.content
            .iter()
            .filter(|(name, bytes)| !same(name, bytes))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns the names in `dir` that are neither in this tree nor directories of this tree.
    pub(crate) fn litter(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let known: BTreeSet<&Path> =
            self.content.keys().flat_map(|name| name.ancestors()).collect();
        Ok(names(dir)?.into_iter().filter(|name| !known.contains(name.as_path())).collect())
    }
}

/// Returns all paths below `dir`, relative to `dir`.
pub(crate) fn names(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(at) = open.pop() {
        let listed = dir.join(&at);
        for entry in fs::read_dir(&listed).with_context(|| format!("list {}", listed.display()))? {
            let entry = entry?;
            let name = at.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(name.clone());
            }
            found.push(name);
        }
    }
    Ok(found)
}

const BUFFER: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: &[(&str, &str)]) -> TreeFiles {
        let content =
            names.iter().map(|(name, text)| (name.into(), text.as_bytes().to_vec())).collect();
        TreeFiles { content, modified: SystemTime::UNIX_EPOCH }
    }

    #[test]
    fn a_written_tree_differs_in_nothing_and_holds_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("t");
        let files = tree(&[("a", "1"), ("d/b", "2")]);
        files.write(&at).unwrap();
        assert!(files.differing(&at).is_empty());
        assert!(files.litter(&at).unwrap().is_empty());
    }

    #[test]
    fn litter_and_differences_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("t");
        tree(&[("a", "1"), ("d/b", "2"), (".x/y", "3")]).write(&at).unwrap();
        let files = tree(&[("a", "1"), ("d/b", "9")]);
        assert_eq!(files.differing(&at), [Path::new("d/b")]);
        let mut litter = files.litter(&at).unwrap();
        litter.sort();
        assert_eq!(litter, [Path::new(".x"), Path::new(".x/y")]);
    }

    #[test]
    fn contents_are_compared_to_the_last_byte() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let mut bytes = vec![7; BUFFER + 3];
        fs::write(&a, &bytes).unwrap();
        fs::write(&b, &bytes).unwrap();
        assert!(same_content(&a, &b).unwrap());
        bytes[BUFFER + 2] = 8;
        fs::write(&b, &bytes).unwrap();
        assert!(!same_content(&a, &b).unwrap());
    }
}
