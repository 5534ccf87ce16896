//! Calls that only a POSIX tree can implement, with default implementations for all other stores.

use deltic_tree::{Meta, RelPath};

use crate::{Keep, StoreError, Tree};

/// Links, special files and delayed commits. A store without these abilities implements no method. A call that would
/// create an entry then fails with [`StoreError::Unsupported`], which names the type of entry.
pub trait Posix: Tree {
    /// Creates a symlink to `target` at `path`, in one step. Replaces any entry except a directory that is not empty.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] if a directory that is not empty is at `path`.
    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        let _ = (target, meta, keep);
        Err(unsupported("symbolic links", path))
    }

    /// Creates the FIFO, socket or device that `meta` describes at `path`, in one step. Replaces any entry except a
    /// directory that is not empty.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] if a directory that is not empty is at `path`, [`StoreError::Denied`] if this process
    /// may not create devices.
    fn make_special(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        let _ = (meta, keep);
        Err(unsupported("special files", path))
    }

    /// Makes `path` a hard link to an entry that is not a directory, in one step. A store without links may create an
    /// equal entry.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the entry differs from [`Link::is`], [`StoreError::Conflict`] if the entry at
    /// `path` differs from [`Link::seen`]; also if the system cannot create the link.
    fn link(&self, path: &RelPath, link: Link<'_, Self>) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        let _ = link;
        Err(unsupported("hard links", path))
    }

    /// From now on, treats the symlink at `path` as the directory that it leads to. Returns the metadata of that
    /// directory; `None` if the link does not lead to a directory, or the store has no links. Without this call no link
    /// is followed.
    ///
    /// # Errors
    /// If the directory cannot be examined, or the link leads out of the store.
    fn keep_dirlink(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let _ = path;
        Ok(None)
    }

    /// Stages `path` as a hard link to the new version of `leader`, in place of the entry `seen`. Link and version wait
    /// for [`land`](Self::land). Returns false and does nothing if no new version of `leader` waits.
    ///
    /// # Errors
    /// If the system cannot create the link.
    fn stage_hard_link(
        &self,
        path: &RelPath,
        leader: &RelPath,
        seen: Option<&Meta>,
    ) -> Result<bool, StoreError> {
        let _ = (path, leader, seen);
        Ok(false)
    }

    /// Carries out all delayed commits, in order. Returns the paths of failed commits, each with the error. A new
    /// version is discarded without an error if `is_same` is true for the new version and the entry that is now at its
    /// path. A store without delayed commits does nothing.
    fn land(&self, is_same: &dyn Fn(&Meta, &Meta) -> bool) -> Vec<(RelPath, StoreError)> {
        let _ = is_same;
        Vec::new()
    }
}

/// Arguments of [`Posix::link`]: the entry that gets a further name.
#[derive(Debug)]
pub struct Link<'a, S> {
    /// The tree that contains the entry.
    pub from: &'a S,
    /// Path of the entry in that tree.
    pub at: &'a RelPath,
    /// Metadata of the entry, as last seen.
    pub is: &'a Meta,
    /// Metadata of the entry that the new name replaces, if there is one.
    pub seen: Option<&'a Meta>,
}

fn unsupported(what: &'static str, path: &RelPath) -> StoreError {
    StoreError::Unsupported { what, path: path.clone() }
}
