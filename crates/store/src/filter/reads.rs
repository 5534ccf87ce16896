//! How files of rules are read: through whatever holds the tree, and never without a bound.

use deltic_tree::RelPath;

use crate::{Snapshot, StoreError};

/// A symlink in the place of a file of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// It is followed, wherever it leads, if it is ours or the superuser's.
    Follow,
    /// It is no such file.
    Ignore,
}

/// Where files of rules are read.
pub trait Reads {
    /// All of the regular file at `path`; nothing where there is none, or a directory.
    ///
    /// # Errors
    /// - [`StoreError::Stranger`] where a symlink that would be followed is another user's;
    /// - where there is something that cannot be read, or is too long: what it forbids would go unheard.
    fn read(&self, path: &RelPath, linked: Linked) -> Result<Option<Vec<u8>>, StoreError>;

    /// True if anything is at `path`.
    fn has(&self, path: &RelPath) -> bool;

    /// Holds the directory at `path` above this tree; nothing where there is none, or we may not. Paths of it and of the
    /// following calls are from the root of the file system on, without a slash at the end.
    fn above(&self, path: &[u8]) -> Option<Box<dyn Reads>> {
        let _ = path;
        None
    }

    /// The path that a rule of somebody at `base` means by `path`: this process may have been given another root.
    fn rebased(&self, base: &[u8], path: &[u8]) -> Vec<u8> {
        let _ = base;
        path.to_vec()
    }

    /// True if somebody at `base` may read files of rules at `path`.
    fn may_read(&self, base: &[u8], path: &[u8]) -> bool {
        let _ = (base, path);
        true
    }
}

/// All of `snapshot`, which is called `path`.
///
/// # Errors
/// Where it is too long, changes meanwhile or cannot be read.
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

/// Longest file of rules below a root.
const MAX_FILE_BYTES: usize = 1 << 20;
