//! Paths of directories that may contain rules files, and of the directories above.

use std::sync::Arc;

use deltic_tree::path::printable;
use deltic_tree::{Name, RelPath};

use super::Reads;
use crate::StoreError;

/// A directory that may contain rules files.
pub(super) struct Place<'a> {
    pub(super) dir: &'a RelPath,
    pub(super) reads: &'a dyn Reads,
    /// Absolute path of the directory.
    pub(super) path: &'a [u8],
}

impl Place<'_> {
    pub(super) fn file(&self, names: &[u8]) -> Result<RelPath, StoreError> {
        let mut path = self.dir.clone();
        for name in names.split(|byte| *byte == b'/') {
            let name = Name::new(name).and_then(|name| path.join(&name));
            path =
                name.map_err(|_| StoreError::BadName { action: "read rules", path: path.clone() })?;
        }
        Ok(path)
    }

    /// Returns the path of the file that the rules file `file` merges as `inner`. The path must be relative to this
    /// directory and lie below the root.
    pub(super) fn merged(&self, file: &RelPath, inner: &[u8]) -> Result<RelPath, StoreError> {
        let outside = || StoreError::Rules {
            file: self.shown(file),
            why: "a merged file is outside of the root".into(),
        };
        let mut names: Vec<&[u8]> = self.dir.components().collect();
        if inner.starts_with(b"/") {
            return Err(outside());
        }
        for name in inner.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop().ok_or_else(outside)?),
                name => names.push(name),
            }
        }
        RelPath::parse(&names.join(&b"/"[..]))
            .ok()
            .filter(|path| !path.is_root())
            .ok_or_else(outside)
    }

    pub(super) fn shown(&self, file: &RelPath) -> String {
        let mut path = self.path[..self.path.len() - self.dir.as_bytes().len()].to_vec();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(file.as_bytes());
        printable(&path)
    }

    pub(super) fn check(&self, file: &RelPath, holds: bool, why: &str) -> Result<(), StoreError> {
        if holds {
            Ok(())
        } else {
            Err(StoreError::Rules { file: self.shown(file), why: why.into() })
        }
    }
}

/// Returns the directory `above`, which is an absolute path or relative to the directory at `path`.
pub(super) fn resolved(reads: &dyn Reads, path: &[u8], above: &[u8]) -> Arc<[u8]> {
    let is_absolute = above.starts_with(b"/");
    let path =
        if is_absolute { reads.path_in_process(path, above) } else { [path, b"/", above].concat() };
    Arc::from(cleaned(&path))
}

/// Returns the directories above `path`, from `from` downwards. Empty if `from` is not above `path`.
pub(super) fn dirs_between<'a>(
    from: &[u8],
    path: &'a [u8],
) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    let (is_above, first) =
        (path.starts_with(from) && path.get(from.len()) == Some(&b'/'), from.len());
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &path[..at]).filter(move |dir| is_above && dir.len() >= first)
}

/// Cleans an absolute path lexically: removes `.`, `..` and a slash at the end.
#[must_use]
pub fn cleaned(path: &[u8]) -> Box<[u8]> {
    let mut clean: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(clean.pop()),
            name => clean.push(name),
        }
    }
    clean.iter().flat_map(|name| [b"/", *name]).collect::<Vec<_>>().concat().into()
}
