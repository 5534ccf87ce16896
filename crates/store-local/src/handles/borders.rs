//! Borders of a store's tree: other file systems, and directories behind symlinks that are treated as directories.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use deltic_tree::meta::Inode;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, Stat};
use rustix::io::Errno;

use crate::handles::dir::{Dir, Use};
use crate::handles::stat::inode_of;
use crate::kernel::lock;

/// Symlinks that are treated as the directories they lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepLinks {
    /// No symlink.
    #[default]
    None,
    /// Symlinks of this user or the superuser that lead through no other user's symlink.
    Ours,
    /// Every symlink.
    All,
}

/// Determines which entries of a tree a run does not change: mount points under `--one-file-system`, and directories
/// whose entries may also belong to another path, through a symlink that is treated as a directory.
#[derive(Debug)]
pub(crate) struct TreeBorders {
    root: Arc<Dir>,
    one_file_system: bool,
    keeps: KeepLinks,
    /// Inodes of the directories that were seen under their own names. Empty if no symlink is treated as a directory.
    looked_at: Mutex<HashSet<Inode>>,
}

impl TreeBorders {
    pub(crate) fn new(root: Arc<Dir>, one_file_system: bool, keeps: KeepLinks) -> Self {
        Self { root, one_file_system, keeps, looked_at: Mutex::default() }
    }

    /// True if the run stays on the file system of the root.
    pub(crate) const fn one_file_system(&self) -> bool {
        self.one_file_system
    }

    /// Treats the symlink at `path` as the directory behind it from now on, if the owner of the symlink is trusted.
    /// Returns that directory; `None` if the link leads to no directory.
    pub(crate) fn keep_link(&self, path: &RelPath) -> Result<Option<Dir>, Errno> {
        match self.keeps {
            KeepLinks::Ours => self.root.keep_our_link(path),
            KeepLinks::None | KeepLinks::All => self.root.keep_link(path),
        }
    }

    /// Notes that the directory with this state was seen under its own name.
    pub(crate) fn note_seen_dir(&self, dir: &Stat) {
        lock(&self.looked_at).insert(inode_of(dir));
    }

    /// True if `name` is a mount point that this run does not change.
    pub(crate) fn is_mount(&self, dir: &Dir, name: &Name) -> bool {
        self.one_file_system && !self.is_on_root_device(dir.stat(name))
    }

    /// True if this run does not change the directory `name` of `dir`: the directory is a mount point, or a symlink
    /// that is treated as a directory leads to it. In the latter case its entries may belong to the path of the
    /// symlink.
    pub(crate) fn is_excluded_dir(&self, dir: &Dir, name: &Name) -> bool {
        self.is_mount(dir, name) || self.root.leads_to(dir, name)
    }

    /// True if entries of `path` may also have another path, because a symlink is treated as a directory. Such a
    /// symlink leads to `path` or to a directory above. If `path` itself passes through the symlink, this is true only
    /// if another symlink leads there too, or if the directory was seen under its own name.
    pub(crate) fn has_other_path(&self, path: &RelPath) -> bool {
        let mut at = path.clone();
        while let Some((above, name)) = at.split_last() {
            let is_it = |dir: Dir| self.root.leads_to(&dir, &name);
            if let Some((behind, links)) = self.root.behind_link(&at) {
                return links > 1 || lock(&self.looked_at).contains(&behind);
            }
            if self.root.open_dir(&above, Use::Pass).is_ok_and(is_it) {
                return true;
            }
            at = above;
        }
        self.root.is_led_to()
    }

    /// True if the entry is on the file system of the root.
    pub(crate) fn is_on_root_device(&self, stat: Result<Stat, Errno>) -> bool {
        let device = |stat: Stat| stat.st_dev;
        stat.map(device) == fs::fstat(&*self.root).map(device)
    }
}
