//! State that all parts of a local store share.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use deltic_store::filter::Scopes;
use deltic_store::{Keep, StoreError, Version};
use deltic_tree::{Meta, MetaMask, RelPath};

use crate::attributes::attrs::AttributeRules;
use crate::attributes::more::{Reach, read_again};
use crate::attributes::new_entries::NewEntries;
use crate::bytes::copy::Copier;
use crate::commit::changes::Changes;
use crate::commit::finished::Delayed;
use crate::commit::inplace::{LeftFiles, UnderWay};
use crate::commit::remove::Removals;
use crate::commit::replaceable::Replaceable;
use crate::commit::writing::CommitOptions;
use crate::handles::borders::TreeBorders;
use crate::handles::dir::Dir;
use crate::handles::place::Place;
use crate::handles::stat::{Stamp, version_of};
use crate::handles::touched::Touched;
use crate::keep::old_copies::OldCopies;
use crate::read::snapshot::LocalSnapshot;
use crate::roots::quota::StoreSpace;
use crate::staging::stage::{StageOwner, Stages};

#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) old: OldCopies,
    pub(crate) space: StoreSpace,
    pub(crate) borders: TreeBorders,
    pub(crate) root: Arc<Dir>,
    pub(crate) root_path: PathBuf,
    pub(crate) scopes: Scopes,
    pub(crate) see: MetaMask,
    pub(crate) stages: Stages,
    /// Staging directories for new files under `--temp-dir`.
    pub(crate) temp: Option<Stages>,
    pub(crate) writing: CommitOptions,
    pub(crate) removals: Removals,
    pub(crate) commits: CommitState,
    pub(crate) copier: Copier,
    pub(crate) touched: Touched,
    pub(crate) makes: NewEntries,
}

/// State of commits: versions that wait, files changed in place, and the callback for changes.
#[derive(Debug)]
pub(crate) struct CommitState {
    /// Versions that wait for [`Posix::land`](deltic_store::Posix::land).
    pub(crate) delayed: Mutex<Delayed>,
    /// Files with several hard links that were changed in place.
    pub(crate) left: LeftFiles,
    pub(crate) under_way: UnderWay,
    /// True if no later run will resume unfinished versions.
    pub(crate) one_shot: bool,
    /// Callback for all changes.
    pub(crate) changes: Changes,
    /// Name of the client under which changes of files are noted; `None` if no changes are noted.
    pub(crate) author: Option<Arc<str>>,
    /// Versions of files that may be replaced.
    pub(crate) replaceable: Replaceable,
}

impl Drop for StoreState {
    fn drop(&mut self) {
        if self.commits.one_shot {
            self.stages.remove_empty_dirs();
        }
    }
}

impl StoreState {
    /// Returns the version of a file that was just put in place. `None` if the store does not flush, or the versions of
    /// the file system are not reliable.
    pub(crate) fn version_written(&self, file: &OwnedFd) -> Option<Version> {
        self.touched.is_durable().then(|| version_of(file, self.touched.system())).flatten()
    }

    pub(crate) fn stages_of(&self, whose: StageOwner) -> &Stages {
        match (&self.temp, whose) {
            (Some(temp), StageOwner::Temp) => temp,
            _ => &self.stages,
        }
    }

    /// True if a small new file can be put in place as a whole, without special options.
    pub(crate) fn can_put_whole(&self) -> bool {
        self.temp.is_none() && self.writing == CommitOptions::default() && !self.see.fake_super
    }

    /// Returns the staging directories for new files.
    pub(crate) fn growing_stages(&self) -> &Stages {
        self.temp.as_ref().unwrap_or(&self.stages)
    }

    /// True if a file may be changed in place. A file with several hard links would change under all names.
    pub(crate) fn may_change(&self, stamp: Stamp) -> bool {
        stamp.has_one_name()
            || !self.writing.names_apart && self.commits.left.turn_of(stamp.inode()).is_some()
    }

    /// Removes the remains of earlier attempts, once the new version is at `place`.
    pub(crate) fn remove_remains(&self, place: &Place, whose: StageOwner, home: &RelPath) {
        self.stages_of(whose).remove_leftovers(&place.path, home);
        // The file may have grown in `--temp-dir` and been copied to the root's staging directory first.
        if let (Some(temp), StageOwner::Own) = (&self.temp, whose) {
            temp.remove_leftovers(&place.path, &RelPath::root());
        }
    }

    /// Returns the staged files that earlier attempts left for `place`, in all staging directories.
    pub(crate) fn leftovers(&self, place: &Place) -> Result<Vec<LocalSnapshot>, StoreError> {
        let mut found = self.growing_stages().leftovers(place)?;
        if self.temp.is_some() {
            found.extend(self.stages.leftovers(place)?);
        }
        let shown = self.writing.partial_dir.as_ref().and_then(|dir| dir.open_partial(place));
        // The file in the partial directory is most likely a staged file that was found already.
        found.extend(shown.filter(|shown| found.iter().all(|one| !one.is_same_file(shown))));
        Ok(found)
    }

    /// Returns the metadata that the store reads, and the rules for attributes that may change, for a run that sets
    /// `keep`.
    pub(crate) fn attribute_rules(&self, keep: Keep) -> AttributeRules<'_> {
        let filter = self.scopes.filter();
        AttributeRules { keep, see: self.see, filter, bounds: self.root.bounds() }
    }

    /// Returns the metadata without the attributes that the rules exclude.
    pub(crate) fn without_excluded(&self, mut meta: Meta, at: impl FnOnce() -> Reach) -> Meta {
        read_again(at, &mut meta, self.see, &|name| self.scopes.filter().admits_xattr(name));
        self.scopes.filter().remove_excluded_xattrs(&mut meta);
        meta
    }
}
