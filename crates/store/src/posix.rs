//! What only a POSIX tree can do. Each method has an answer for a store that cannot.

use deltic_tree::{Meta, RelPath};

use crate::{Keep, StoreError, Tree};

/// Links, devices and names that wait. A store that keeps none of them implements no method: each call then fails with
/// [`StoreError::Unsupported`], which names what the store does not keep.
pub trait Posix: Tree {
    /// Puts a symlink to `target` at `path`, in one step, in place of anything but a full directory.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] for a full directory.
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

    /// Puts the FIFO, socket or device that `meta` describes at `path`, in one step, in place of anything but a full
    /// directory.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] for a full directory, [`StoreError::Denied`] where we may not make devices.
    fn make_special(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        let _ = (meta, keep);
        Err(unsupported("special files", path))
    }

    /// Makes `path` another name of an entry that is no directory, in one step. A store without links may make an equal
    /// entry.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where the entry is not what [`Link::is`] says any more, [`StoreError::Conflict`] where
    /// `path` does not hold what [`Link::seen`] says; and where the system cannot link it.
    fn link(&self, path: &RelPath, link: Link<'_, Self>) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        let _ = link;
        Err(unsupported("hard links", path))
    }

    /// Takes a symlink at `path` for the directory that it leads to, from now on, and says what that directory is;
    /// nothing where the link leads to none, or the store keeps no links. Until then no link is followed.
    ///
    /// # Errors
    /// Where the directory cannot be looked at, or the link leads out of the store.
    fn keep_dirlink(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let _ = path;
        Ok(None)
    }

    /// Has `path` wait with the new version that waits at `leader` for [`land`](Self::land): it becomes another name of
    /// that, in place of what is `seen`. False where none waits there; then nothing is done.
    ///
    /// # Errors
    /// Where the system cannot link it.
    fn link_waiting(
        &self,
        path: &RelPath,
        leader: &RelPath,
        seen: Option<&Meta>,
    ) -> Result<bool, StoreError> {
        let _ = (path, leader, seen);
        Ok(false)
    }

    /// Gives every new version its name whose commit waits for this, in the order of their commits. Returns those that
    /// failed. A new version is dropped where `is_same` says, of it and of what is at its path by now, that both are
    /// one. A store that does not let commits wait has nothing to do.
    fn land(&self, is_same: &dyn Fn(&Meta, &Meta) -> bool) -> Vec<(RelPath, StoreError)> {
        let _ = is_same;
        Vec::new()
    }
}

/// An entry that gets another name.
#[derive(Debug)]
pub struct Link<'a, S> {
    /// The tree that it is in.
    pub from: &'a S,
    /// Its path there.
    pub at: &'a RelPath,
    /// The entry, as it was last seen.
    pub is: &'a Meta,
    /// The entry in the place of the new name, if there is one.
    pub seen: Option<&'a Meta>,
}

fn unsupported(what: &'static str, path: &RelPath) -> StoreError {
    StoreError::Unsupported { what, path: path.clone() }
}
