//! The commit of a new version into the existing file (`--inplace`).

use std::os::fd::AsFd;

use deltic_store::{Commit, StoreError};
use deltic_tree::RelPath;
use rustix::fs::{self, Stat};
use rustix::io::Errno;

use super::{Fate, LocalRebuild};
use crate::attributes::attrs::{Attrs, NewMode, On};
use crate::bytes::copy::End;
use crate::commit::finished::Expected;
use crate::commit::inplace::Changing;
use crate::handles::place::{COMMIT, Place};
use crate::handles::stat::Stamp;
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::read::snapshot::LocalSnapshot;

/// A file that is about to be changed in place.
struct InPlace<'a> {
    changing: &'a Changing,
    place: &'a Place,
    /// The present state of the file.
    old: Stat,
    /// Another name of the file, under which this run has changed the file before.
    other: Option<&'a RelPath>,
}

impl LocalRebuild {
    /// Changes a file in place. A file with several hard links may be updated under more than one name: the updates
    /// wait for each other, and the last content stays.
    pub(super) fn change_in_place(
        &self,
        changing: &Changing,
        commit: &Commit<'_, LocalSnapshot>,
        place: &Place,
        expected: &Expected,
    ) -> Result<(), StoreError> {
        if changing.version().has_one_name() {
            let old = expected.check_replaced(place, &self.store)?;
            let old = self.check_version(old, changing.version())?;
            return self.write_staged_bytes(&InPlace { changing, place, old, other: None }, commit);
        }
        let left = self.store.commits.left.turn_of(changing.version().inode());
        let left = left.expect("its turn was there when it began");
        let mut left = lock(&left);
        let now = place.dir.stat_if_exists(&place.name).at(COMMIT, &self.path)?;
        let ours = now.filter(|now| left.version == Some(Stamp::of(now)));
        let (version, old) = match ours {
            // A span that was left in place has the other name's content by now.
            Some(now)
                if Stamp::of(&now) != changing.version() && !changing.is_all_staged(self.len) =>
            {
                return Err(StoreError::Changed { path: self.path.clone() });
            }
            Some(now) => (Stamp::of(&now), Some(now)),
            None => (changing.version(), expected.check_replaced_entry(place, self.store.see)?),
        };
        let other = left.rewritten_as.clone();
        let changed = self.check_version(old, version).and_then(|old| {
            self.write_staged_bytes(
                &InPlace { changing, place, old, other: other.as_ref() },
                commit,
            )
        });
        left.version = fs::fstat(changing.file()).ok().map(|now| Stamp::of(&now));
        let torn_or_done = |error: &StoreError| {
            matches!(error, StoreError::HalfChanged { .. } | StoreError::AttributesNotSet { .. })
        };
        if changed.as_ref().map_or_else(torn_or_done, |()| true) {
            left.rewritten_as.get_or_insert_with(|| self.path.clone());
        }
        changed
    }

    /// Returns the state of the file in place, if the file is of this version.
    fn check_version(&self, old: Option<Stat>, version: Stamp) -> Result<Stat, StoreError> {
        let conflict = || StoreError::Conflict { path: self.path.clone() };
        old.filter(|old| Stamp::of(old).is_same_except_names(version)).ok_or_else(conflict)
    }

    /// Writes the staged bytes into the file to be changed.
    fn write_staged_bytes(
        &self,
        &InPlace { changing, place, old, other }: &InPlace<'_>,
        commit: &Commit<'_, LocalSnapshot>,
    ) -> Result<(), StoreError> {
        let writer = changing.writer(place)?;
        let backup = self.store.back_up_copy(place, changing.file(), &old, other)?;
        let begun = self.store.commits.under_way.begin_change(&self.path);
        // The session has ended, so this error is not reported.
        let _begun = begun.ok_or(Errno::CANCELED).at("change", &self.path)?;
        if self.store.writing.preallocate || !self.store.writing.sparse {
            writer.reserve(self.len, &old).at("allocate", &self.path)?;
        }
        let staged = End { file: self.staged.file.as_fd(), device: self.inode.device };
        let changed =
            writer.write_changes(staged, self.len, &self.store.writing, &self.store.copier);
        let lasts = self.store.touched.is_durable();
        // The new time says that the file is complete, and so must not reach the disk before the content.
        let flush = || if lasts { fs::fdatasync(changing.file()) } else { Ok(()) };
        changed.and_then(|()| flush()).map_err(|errno| {
            self.set_fate(Fate::Worthwhile);
            changing.mark_half_changed();
            StoreError::HalfChanged { path: self.path.clone(), source: errno.into() }
        })?;
        let rules = self.store.attribute_rules(commit.keep);
        let mode =
            NewMode::for_replacement(Some(self.mode_of(place, &old)), self.store.makes.umask);
        let attrs = Attrs::of_new(commit.meta, rules, mode);
        self.store.space.subtract_removed(&old);
        let mut unset = attrs.set(On::Open(changing.file().as_fd()));
        unset.add("backup's", backup);
        if lasts {
            fs::fsync(changing.file()).at("flush", &self.path)?;
        }
        self.stages().discard_in(&self.staged.home, &self.staged.name);
        self.set_fate(Fate::Gone);
        self.store.remove_remains(place, self.staged.whose, &self.staged.home);
        unset.of(&self.path)
    }
}
