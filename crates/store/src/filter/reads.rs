//! Access to rules files through the store that holds the tree, with a limit on their size.

use deltic_tree::RelPath;

use crate::{Snapshot, StoreError};

/// Treatment of a symlink in the place of a rules file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// Follows the symlink, wherever it leads, if its owner is this user or the superuser.
    Follow,
    /// Ignores the symlink, as if there were no file.
    Ignore,
}

/// A tree from which rules files are read.
pub trait Reads {
    /// Returns the content of the regular file at `path`, `None` if there is no entry, or a directory.
    ///
    /// # Errors
    /// - [`StoreError::ForeignSymlink`] if a symlink that would be followed belongs to another user;
    /// - if an entry cannot be read or is too long. Its exclude rules must not be ignored.
    fn read(&self, path: &RelPath, linked: Linked) -> Result<Option<Vec<u8>>, StoreError>;

    /// True if an entry of any type is at `path`.
    fn has_file(&self, path: &RelPath) -> bool;

    /// Opens the directory at `path` above this tree, `None` if there is no directory or permission is denied. Paths
    /// of this and the following methods are absolute, without a slash at the end.
    fn reader_above(&self, path: &[u8]) -> Option<Box<dyn Reads>> {
        let _ = path;
        None
    }

    /// Converts `path`, an absolute path in a rule of the tree at `base`, to a path of this process. The two paths
    /// differ if the tree is confined to a directory: rules then take that directory for the root of the file system.
    fn path_in_process(&self, base: &[u8], path: &[u8]) -> Vec<u8> {
        let _ = base;
        path.to_vec()
    }

    /// True if rules of the tree at `base` may name rules files at `path`.
    fn may_read(&self, base: &[u8], path: &[u8]) -> bool {
        let _ = (base, path);
        true
    }
}

/// Reads the whole file of `snapshot`, which error messages call `path`.
///
/// # Errors
/// If the file is too long, changes during the read, or cannot be read.
pub fn read_bounded(snapshot: &impl Snapshot, path: &RelPath) -> Result<Vec<u8>, StoreError> {
    let too_long = || StoreError::Rules {
        file: path.to_string(),
        why: format!("more than {MAX_FILE_BYTES} bytes"),
    };
    let len = usize::try_from(snapshot.meta().len).ok().filter(|len| *len <= MAX_FILE_BYTES);
    let mut bytes = vec![0; len.ok_or_else(too_long)?];
    let got = snapshot.read_at(0, &mut bytes)?;
    snapshot.check_unchanged()?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Maximum length of a rules file below a root, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;
