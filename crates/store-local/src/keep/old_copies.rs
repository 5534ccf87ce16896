//! Places where a store keeps old versions: backups, and the versions of a volume.

use deltic_tree::{Name, RelPath};

use super::backup::{BackupPlace, ListedPaths};
use super::versions::OldVersions;
use crate::handles::dir::Dir;
use crate::handles::stat::file_type;

/// Places where old versions are kept.
#[derive(Debug)]
pub(crate) struct OldCopies {
    pub(crate) backup: Option<BackupPlace>,
    pub(crate) listed: ListedPaths,
    /// Old versions of the volume, if the store's volume keeps any.
    pub(crate) versions: Option<OldVersions>,
}

impl OldCopies {
    /// True if old versions are kept.
    pub(crate) fn keeps_old_versions(&self) -> bool {
        self.backup.is_some() || self.versions.is_some()
    }

    /// True if removing the old version at `path` leaves a backup in the same directory.
    pub(crate) fn backs_up_beside(&self, path: &RelPath) -> bool {
        self.backup.as_ref().is_some_and(BackupPlace::is_beside) && !self.is_backup(path)
    }

    /// True if `path` belongs to a backup.
    pub(crate) fn is_backup(&self, path: &RelPath) -> bool {
        self.backup.as_ref().is_some_and(|backup| backup.may_hold_old(path))
    }

    /// True if `name` is a backup of an earlier run: its original name is not in `dir`, and this run does not create it
    /// (`comes`).
    pub(crate) fn is_earlier_backup(
        &self,
        dir: &Dir,
        name: &Name,
        comes: &dyn Fn(&Name) -> bool,
    ) -> bool {
        let of = self.backup.as_ref().and_then(|backup| backup.backed_up_name(name));
        of.is_some_and(|of| !comes(&of) && dir.stat_if_exists(&of) == Ok(None))
            && dir.stat(name).is_ok_and(|stat| !file_type(&stat).is_dir())
    }

    /// True if `name` of `dir` must stay, because it is a backup or a directory with backups.
    pub(crate) fn protects(&self, dir: &RelPath, name: &Name) -> bool {
        let path = || dir.join(name).ok();
        self.backup.as_ref().is_some_and(|old| path().is_some_and(|path| old.protects(&path)))
    }
}
