//! Lists the versions of all files below a directory of a volume, in pages.

use std::cmp::Ordering;
use std::time::Duration;

use deltic_store::{Snapshot, StoreError, check_volume_path};
use deltic_tree::path::printable;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use crate::handles::dir::Use;
use crate::handles::stat::created;
use crate::keep::versions::{LIST, OldVersion, OldVersions, VersionId};
use crate::kernel::errno::At;

/// A file with its old versions.
#[derive(Debug)]
pub struct VersionsOfFile {
    /// Path of the file.
    pub path: RelPath,
    /// The regular file that has this path now, if any.
    pub present: Option<PresentFile>,
    /// The old versions, newest first.
    pub versions: Vec<OldVersion>,
}

impl VersionsOfFile {
    /// Returns the content that the file had at `moment`, in seconds since 1970.
    #[must_use]
    pub fn at(&self, moment: u64) -> ContentAt {
        let nth = version_at(self.versions.iter().map(|old| old.id), moment);
        let old = nth.and_then(|nth| self.versions.get(nth));
        let created = match (old, self.present) {
            (Some(old), _) => old.created(),
            (None, present) => present.and_then(|present| present.created),
        };
        match old {
            _ if is_younger(created, moment) => ContentAt::Nothing,
            Some(old) => ContentAt::Old { id: old.id, bytes: old.snapshot.meta().len },
            None => ContentAt::Present,
        }
    }
}

/// The content that a file had at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentAt {
    /// An old version has the content.
    Old {
        /// The version.
        id: VersionId,
        /// Length of the content in bytes.
        bytes: u64,
    },
    /// The file was not replaced since.
    Present,
    /// The file did not exist yet, by the creation time in the file system.
    Nothing,
}

/// Returns the index of the version that a file had at `moment`: the first one that was replaced later. `None` if no
/// version was replaced later.
fn version_at(versions: impl Iterator<Item = VersionId>, moment: u64) -> Option<usize> {
    let is_later = |(_, id): &(usize, VersionId)| id.replaced_at().as_secs() >= moment;
    // Times are whole seconds; the names of versions are in order within a second too.
    versions.enumerate().filter(is_later).min_by_key(|(_, id)| *id).map(|(nth, _)| nth)
}

/// True if a file with this creation time did not exist at `moment`.
fn is_younger(created: Option<Duration>, moment: u64) -> bool {
    created.is_some_and(|created| created.as_secs() > moment)
}

/// A regular file of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentFile {
    /// Time at which the file was created, since 1970, if the file system records it.
    pub created: Option<Duration>,
}

/// The files that a page of a listing has.
#[derive(Clone, Debug)]
pub struct VersionsPage {
    /// Printed path after which the page begins; empty for the first page.
    pub after: String,
    /// Most files and versions of the page together. The last file brings all of its versions.
    pub limit: usize,
    /// True if files without old versions are listed too.
    pub all_files: bool,
}

/// Bytes of a path that count as much as one version.
const PATH_QUANTUM: usize = 256;

impl VersionsPage {
    /// Returns the order of a printed path, by its components, relative to the end of the page before.
    fn order_of(&self, path: &str) -> Ordering {
        path.split('/').cmp(self.after.split('/'))
    }

    /// True if this page may have `path` or a path below.
    fn may_contain(&self, path: &str) -> bool {
        let is_above = || self.after.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.order_of(path) != Ordering::Less || is_above()
    }
}

impl OldVersions {
    /// Calls `each` with the files below `dir` that have old versions, including deleted files and files in deleted
    /// directories, in the order of the components of their paths. Returns the path after which the next page begins;
    /// `None` at the end of the listing. A page may be empty.
    ///
    /// # Errors
    /// The versions, or the volume, cannot be read.
    pub fn list_below(
        &self,
        dir: &RelPath,
        page: &VersionsPage,
        mut each: impl FnMut(VersionsOfFile),
    ) -> Result<Option<String>, StoreError> {
        let (mut weight, mut left) = (0, vec![dir.clone()]);
        while let Some(path) = left.pop() {
            let shown = printable(path.as_bytes());
            let (names, has_versions) = self.names_below(&path, page.all_files)?;
            let below = names.iter().rev().flat_map(|name| path.join(name));
            left.extend(below.filter(|path| page.may_contain(&printable(path.as_bytes()))));
            if path != *dir && page.order_of(&shown) == Ordering::Greater {
                let versions = if has_versions { self.list(&path)? } else { Vec::new() };
                let present = self.present_file(&path);
                weight += 1 + versions.len() + shown.len() / PATH_QUANTUM;
                if !versions.is_empty() || page.all_files && present.is_some() {
                    each(VersionsOfFile { path, present, versions });
                }
            }
            // The next page begins after a printed path, which two files may share.
            let is_twin = |next: &RelPath| printable(next.as_bytes()) == shown;
            if weight >= page.limit && left.last().is_some_and(|next| !is_twin(next)) {
                return Ok(Some(shown));
            }
        }
        Ok(None)
    }

    /// Returns the names below `path`, in the order of their printed forms, and whether `path` has versions itself.
    fn names_below(
        &self,
        path: &RelPath,
        all_files: bool,
    ) -> Result<(Vec<Name>, bool), StoreError> {
        let in_volume = self.path_in_volume(path).at(LIST, path)?;
        let (mut names, mut has_versions) = (Vec::new(), false);
        let mut add = |name: &[u8]| match VersionId::named(name) {
            Some(_) => has_versions = true,
            None => names.extend(Name::new(name)),
        };
        let present = || self.volume.open_dir(&in_volume, Use::Read);
        let dirs = [
            Some(self.open_all_versions().and_then(|all| all.open_dir(&in_volume, Use::Read))),
            all_files.then(present),
        ];
        for dir in dirs.into_iter().flatten() {
            match dir {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                dir => dir.at(LIST, path)?.for_each_name(&mut add).at(LIST, path)?,
            }
        }
        names.retain(|name| {
            let path = RelPath::root().join(name);
            path.is_ok_and(|path| check_volume_path(LIST, &path).is_ok())
        });
        names.sort_by_cached_key(|name| printable(name.as_bytes()));
        names.dedup();
        Ok((names, has_versions))
    }

    /// Returns the regular file at `path`, if any.
    fn present_file(&self, path: &RelPath) -> Option<PresentFile> {
        let (kind, created) = self.present_entry(path)?;
        (kind == FileType::RegularFile).then_some(PresentFile { created })
    }

    /// Returns the kind of the entry at `path`, and the time of its creation since 1970, if the file system records it.
    fn present_entry(&self, path: &RelPath) -> Option<(FileType, Option<Duration>)> {
        let (above, name) = self.path_in_volume(path).ok()?.split_last()?;
        let dir = self.volume.open_dir(&above, Use::Pass).ok()?;
        let asked = StatxFlags::TYPE | StatxFlags::BTIME;
        let stat = fs::statx(&dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, asked).ok()?;
        Some((FileType::from_raw_mode(stat.stx_mode.into()), created(stat)))
    }
}

/// The entry that a path had at a moment.
#[derive(Debug)]
pub enum PastEntry {
    /// No entry.
    Nothing,
    /// A directory, perhaps an empty one.
    Dir,
    /// A file, which an old version has.
    Old(OldVersion),
    /// The entry that is there now.
    Present,
}

impl OldVersions {
    /// Returns the names that `dir` has now, and the names of deleted entries below which there are old versions, in
    /// the order of their printed forms.
    ///
    /// # Errors
    /// The versions, or the volume, cannot be read.
    pub fn all_names(&self, dir: &RelPath) -> Result<Vec<Name>, StoreError> {
        Ok(self.names_below(dir, true)?.0)
    }

    /// Returns the entry that `path` had at `moment`, in seconds since 1970. An entry is known to be younger only by
    /// the creation time in the file system. A directory that is gone counts as long as a file in it has a version from
    /// then. `looks` is the number of paths that may still be looked at for such files, and gets smaller; without a look
    /// left, a deleted entry counts as a directory.
    ///
    /// # Errors
    /// The versions cannot be read.
    pub fn entry_at(
        &self,
        path: &RelPath,
        moment: u64,
        looks: &mut usize,
    ) -> Result<PastEntry, StoreError> {
        let mut versions = self.list(path)?;
        if let Some(nth) = version_at(versions.iter().map(|old| old.id), moment) {
            let old = versions.swap_remove(nth);
            let is_from_then = !is_younger(old.created(), moment);
            return Ok(if is_from_then { PastEntry::Old(old) } else { PastEntry::Nothing });
        }
        let present = self.present_entry(path).filter(|(_, created)| !is_younger(*created, moment));
        let is_dir = |kind: FileType| kind == FileType::Directory;
        Ok(match present {
            Some((kind, _)) if is_dir(kind) => PastEntry::Dir,
            Some(_) => PastEntry::Present,
            None if self.had_files(path, moment, looks)? => PastEntry::Dir,
            None => PastEntry::Nothing,
        })
    }

    /// True if a file below `dir` has an old version from `moment`.
    fn had_files(&self, dir: &RelPath, moment: u64, looks: &mut usize) -> Result<bool, StoreError> {
        let mut left = vec![dir.clone()];
        while *looks > 0 {
            *looks -= 1;
            let Some(path) = left.pop() else { return Ok(false) };
            let (names, has_versions) = self.names_below(&path, false)?;
            let is_from_then = |old: &OldVersion| {
                let created = old.created().map_or(0, |created| created.as_secs());
                old.id.replaced_at().as_secs() >= moment && created <= moment
            };
            if has_versions && path != *dir && self.list(&path)?.iter().any(is_from_then) {
                return Ok(true);
            }
            left.extend(names.iter().flat_map(|name| path.join(name)));
        }
        Ok(!left.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_had_the_version_that_was_replaced_next() {
        let at = |moment| {
            let versions = [30, 20, 10].map(|secs| VersionId(secs * 1_000_000_000 + 5));
            version_at(versions.into_iter(), moment)
        };
        assert_eq!(
            [5, 10, 11, 20, 25, 30].map(at),
            [Some(2), Some(2), Some(1), Some(1), Some(0), Some(0)]
        );
        assert_eq!(at(31), None);
        let born = |secs| Some(Duration::from_secs(secs));
        assert!(is_younger(born(16), 15) && !is_younger(born(15), 15) && !is_younger(None, 15));
    }

    #[test]
    fn a_page_goes_on_after_the_last_path_by_components() {
        let page = VersionsPage { after: "a/b".into(), limit: 1, all_files: false };
        let later = |path: &str| page.order_of(path) == Ordering::Greater;
        assert!(["a/b/c", "a/c", "a.txt", "b"].into_iter().all(later));
        assert!(!["a", "a/b", "a/a/z", "A"].into_iter().any(later));
        assert!(["a", "a/b", "a/b/c", "b"].into_iter().all(|path| page.may_contain(path)));
        assert!(!["a/a", "A"].into_iter().any(|path| page.may_contain(path)));
        let first = VersionsPage { after: String::new(), ..page };
        assert!(first.may_contain("a") && first.order_of("a") == Ordering::Greater);
    }
}
