//! State that all parts of a local store share.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use deltic_store::filter::Scopes;
use deltic_store::{StoreError, Version};
use deltic_tree::{Meta, MetaMask, Name, PathMap, RelPath};
use rustix::fs::{self, Stat};
use rustix::io::Errno;
use rustix::process;

use crate::attrs::{Ways, umask};
use crate::backup::{Backup, Listed};
use crate::changes::Changes;
use crate::copy::Copier;
use crate::dir::{Dir, Use};
use crate::finished::Delayed;
use crate::heritage::{Heritage, Heritages};
use crate::inplace::{LeftFiles, UnderWay};
use crate::lock;
use crate::more::{Reach, look_again};
use crate::place::Place;
use crate::quota::{Quota, SpaceLedger};
use crate::remove::Removals;
use crate::snapshot::LocalSnapshot;
use crate::stage::{Stages, Whose};
use crate::stat::{Stamp, file_type, version_of};
use crate::touched::Touched;
use crate::versions::OldVersions;
use crate::writing::Writing;

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

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) old: Kept,
    pub(crate) policy: Policy,
    pub(crate) root: Arc<Dir>,
    pub(crate) root_path: PathBuf,
    pub(crate) scopes: Scopes,
    pub(crate) see: MetaMask,
    pub(crate) stages: Stages,
    /// Staging directories for new files under `--temp-dir`.
    pub(crate) temp: Option<Stages>,
    pub(crate) writing: Writing,
    pub(crate) removals: Removals,
    pub(crate) commits: Commits,
    pub(crate) copier: Copier,
    pub(crate) touched: Touched,
    pub(crate) makes: Makes,
    /// Device and inode of each directory that was looked at under its own name, if symlinks are kept.
    pub(crate) looked_at: Mutex<HashSet<(u64, u64)>>,
}

/// Places where old versions are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) backup: Option<Backup>,
    pub(crate) listed: Listed,
    /// Old versions of the volume, if the store's volume keeps any.
    pub(crate) versions: Option<OldVersions>,
}

/// Limits by the run and the volume.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Space limits of the volume and of the client.
    pub(crate) quotas: Vec<Arc<Quota>>,
    /// Reservations of unfinished files.
    pub(crate) space: Arc<SpaceLedger>,
    pub(crate) one_file_system: bool,
    /// True if no later run resumes unfinished versions.
    pub(crate) one_shot: bool,
    pub(crate) keeps: KeepLinks,
}

/// New versions that do not simply replace old versions.
#[derive(Debug)]
pub(crate) struct Commits {
    /// Versions that wait for [`Posix::land`](deltic_store::Posix::land).
    pub(crate) delayed: Mutex<Delayed>,
    /// Files of several names that were changed in place.
    pub(crate) left: LeftFiles,
    pub(crate) under_way: UnderWay,
    /// Callback for all changes.
    pub(crate) changes: Changes,
}

/// Inputs of new entries, and unfinished directories.
#[derive(Debug)]
pub(crate) struct Makes {
    pub(crate) umask: u32,
    /// User and group of entries that this process creates.
    pub(crate) owner: (u32, u32),
    pub(crate) heritages: Heritages,
    /// Directories without the final mode.
    pub(crate) unfinished: Mutex<PathMap<Unfinished>>,
    /// Mode bits that directories must lack, because ACLs could not be set.
    pub(crate) withheld: Mutex<PathMap<u32>>,
}

impl Makes {
    pub(crate) fn of_process() -> Self {
        Self {
            umask: umask(),
            owner: (process::geteuid().as_raw(), process::getegid().as_raw()),
            heritages: Heritages::default(),
            unfinished: Mutex::default(),
            withheld: Mutex::default(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.policy.one_shot {
            self.stages.tidy();
        }
    }
}

/// A directory without the final mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// Created by this run in a directory that hands metadata down, so the new directory may do so too.
    Heir,
    /// Created by this run.
    Plain,
    /// Opened to the owner by this run; holds the mode before.
    Opened(u32),
}

impl Unfinished {
    /// Returns the mode of a directory that this run did not create.
    pub(crate) const fn old_mode(self) -> Option<u32> {
        match self {
            Self::Heir | Self::Plain => None,
            Self::Opened(mode) => Some(mode),
        }
    }
}

impl Inner {
    /// Returns the version of a file that was just put in place; `None` if the store does not flush, or if
    /// the file system's versions cannot be relied on.
    pub(crate) fn version_written(&self, file: &OwnedFd) -> Option<Version> {
        self.touched.is_durable().then(|| version_of(file, self.touched.system())).flatten()
    }

    /// True if `name` is a mount point that this run leaves alone.
    pub(crate) fn is_mount(&self, dir: &Dir, name: &Name) -> bool {
        self.policy.one_file_system && !self.is_home(dir.stat(name))
    }

    /// True if the directory `name` of `dir` is left alone: a mount point, or a directory that a kept symlink leads
    /// to, whose entries may belong to another path.
    pub(crate) fn is_apart(&self, dir: &Dir, name: &Name) -> bool {
        self.is_mount(dir, name) || self.root.leads_to(dir, name)
    }

    /// True if `path` is, or is in, a directory that a kept symlink leads to, and does not pass that link. Also true
    /// if `path` passes the link, but the directory was seen under another name or link as well. Entries there may
    /// belong to the other path.
    pub(crate) fn is_led_to(&self, path: &RelPath) -> bool {
        let mut at = path.clone();
        while let Some((above, name)) = at.split_last() {
            let is_it = |dir: Dir| self.root.leads_to(&dir, &name);
            if let Some((behind, links)) = self.root.behind_link(&at) {
                return links > 1 || lock(&self.looked_at).contains(&behind);
            }
            if self.root.dir(&above, Use::Pass).is_ok_and(is_it) {
                return true;
            }
            at = above;
        }
        self.root.is_led_to()
    }

    /// True if the entry is on the file system of the root.
    pub(crate) fn is_home(&self, stat: Result<Stat, Errno>) -> bool {
        let device = |stat: Stat| stat.st_dev;
        stat.map(device) == fs::fstat(&*self.root).map(device)
    }

    pub(crate) fn stages(&self, whose: Whose) -> &Stages {
        match (&self.temp, whose) {
            (Some(temp), Whose::Temp) => temp,
            _ => &self.stages,
        }
    }

    /// Returns the metadata that the directory of `place` hands down.
    pub(crate) fn heritage(&self, place: &Place) -> Result<Heritage, Errno> {
        let known = lock(&self.makes.unfinished).get(&place.dir_path).copied();
        match known {
            // This directory is new and hands down nothing yet.
            Some(Unfinished::Plain) => Ok(Heritage::default()),
            _ => self.makes.heritages.of(place),
        }
    }

    /// True if new versions get in place in the usual way.
    pub(crate) fn puts_plainly(&self) -> bool {
        self.temp.is_none() && self.writing == Writing::default() && !self.see.fake_super
    }

    /// Returns the staging directories for new files.
    pub(crate) fn growing(&self) -> &Stages {
        self.temp.as_ref().unwrap_or(&self.stages)
    }

    /// True if a file may be changed in place. A file of several names would change under all of them.
    pub(crate) fn may_change(&self, stamp: Stamp) -> bool {
        stamp.has_one_name()
            || !self.writing.names_apart && self.commits.left.of(stamp.inode()).is_some()
    }

    /// Removes the remains of earlier attempts, once the new version is at `place`.
    pub(crate) fn settle(&self, place: &Place, (whose, home): (Whose, &RelPath)) {
        self.stages(whose).clear(&place.path, home);
        // The file may have grown in `--temp-dir` and been copied to the root's staging directory first.
        if let (Some(temp), Whose::Own) = (&self.temp, whose) {
            temp.clear(&place.path, &RelPath::root());
        }
    }

    /// Returns the staged files that earlier attempts left for `place`, in all staging directories.
    pub(crate) fn leftovers(&self, place: &Place) -> Result<Vec<LocalSnapshot>, StoreError> {
        let mut found = self.growing().leftovers(place)?;
        if self.temp.is_some() {
            found.extend(self.stages.leftovers(place)?);
        }
        let shown = self.writing.partial_dir.as_ref().and_then(|dir| dir.snapshot(place));
        // The file in the partial directory is most likely a staged file that was found already.
        found.extend(shown.filter(|shown| found.iter().all(|one| !one.is_same_file(shown))));
        Ok(found)
    }

    /// Returns the metadata that the store looks at, and the rules for attributes to change.
    pub(crate) fn ways(&self) -> Ways<'_> {
        (self.see, self.scopes.filter(), self.root.bounds())
    }

    /// Returns the metadata without the attributes that the rules exclude.
    pub(crate) fn sifted(&self, mut meta: Meta, at: impl FnOnce() -> Reach) -> Meta {
        look_again(at, &mut meta, self.see, &|name| self.scopes.filter().admits_xattr(name));
        self.scopes.filter().sift(&mut meta);
        meta
    }

    /// True if old versions are kept.
    pub(crate) fn keeps_old(&self) -> bool {
        self.old.backup.is_some() || self.old.versions.is_some()
    }

    /// True if the old version at `path`, when removed, is kept in the same directory.
    pub(crate) fn backs_up_beside(&self, path: &RelPath) -> bool {
        self.old.backup.as_ref().is_some_and(Backup::is_beside) && !self.is_backup(path)
    }

    /// True if `path` belongs to a backup.
    pub(crate) fn is_backup(&self, path: &RelPath) -> bool {
        self.old.backup.as_ref().is_some_and(|backup| backup.has(path))
    }

    /// True if `name` is a backup of an earlier run: its original name neither exists in `dir` nor `comes` in this
    /// run.
    pub(crate) fn is_of_before(
        &self,
        dir: &Dir,
        name: &Name,
        comes: &dyn Fn(&Name) -> bool,
    ) -> bool {
        let of = self.old.backup.as_ref().and_then(|backup| backup.stem(name));
        of.is_some_and(|of| !comes(&of) && dir.find(&of) == Ok(None))
            && dir.stat(name).is_ok_and(|stat| !file_type(&stat).is_dir())
    }

    /// True if `name` of `dir` must stay, as a backup or a directory with backups.
    pub(crate) fn protects(&self, dir: &RelPath, name: &Name) -> bool {
        let path = || dir.join(name).ok();
        self.old.backup.as_ref().is_some_and(|old| path().is_some_and(|path| old.protects(&path)))
    }
}
