//! Decides how two trees that were equal once become equal again, as a plan of steps.
//!
//! [`reconcile`] compares three trees: the ancestor (both ends, when they were equal last), the end here, and the end
//! there. The function only computes. A caller lists both ends, executes the steps, and notes each success in the
//! ancestor. The laws, which `tests/reconcile.rs` checks:
//!
//! - A content that changed since the ancestor is never replaced and never deleted. If both ends changed a file, the
//!   version here gets another name ([`conflict_name`]), and both contents reach both ends.
//! - A step deletes only what is as in the ancestor. A change is stronger than a deletion.
//! - After all steps, another plan is empty.
//!
//! An entry that is neither a file nor a directory, such as a symlink or a directory that cannot be listed, stays as it
//! is, with everything below. Names that some file systems take for one name are never created beside each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

mod moving;
mod naming;

pub use naming::{ConflictNaming, conflict_name};

use crate::fold::folded_path;
use crate::path::RelPath;
use naming::ConflictNames;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncEnd {
    /// The end that computes the plan.
    Here,
    /// The other end.
    There,
}

impl SyncEnd {
    /// Both ends.
    pub const BOTH: [Self; 2] = [Self::Here, Self::There];

    /// Returns the opposite end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Here => Self::There,
            Self::There => Self::Here,
        }
    }
}

/// A version of a file at one end. Versions of different ends are equal only by `digest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Changes with each change of the file. An end chooses the form: an entity tag, or length and time.
    pub tag: Box<str>,
    /// Length in bytes.
    pub bytes: u64,
    /// Modification time, in a unit of this end.
    pub modified: i64,
    /// Digest of the content, in the same form at both ends, if known.
    pub digest: Option<Box<str>>,
}

/// An entry at one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeNode {
    /// A directory that was listed.
    Dir,
    /// A regular file.
    File(FileVersion),
    /// Anything else. No step concerns this path or a path below.
    Other,
}

/// An entry that was equal at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommonEntry {
    /// A directory.
    Dir,
    /// A file, as each end had the file.
    File {
        /// The version here.
        here: FileVersion,
        /// The version there.
        there: FileVersion,
    },
}

impl CommonEntry {
    fn file(&self, end: SyncEnd) -> Option<&FileVersion> {
        match (self, end) {
            (Self::Dir, _) => None,
            (Self::File { here, .. }, SyncEnd::Here) => Some(here),
            (Self::File { there, .. }, SyncEnd::There) => Some(there),
        }
    }
}

/// The three trees, by paths below the root. The root itself is no entry.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    /// Entries that were equal at both ends last.
    pub ancestor: BTreeMap<RelPath, CommonEntry>,
    /// Entries here.
    pub here: BTreeMap<RelPath, TreeNode>,
    /// Entries there.
    pub there: BTreeMap<RelPath, TreeNode>,
}

impl Trees {
    fn end(&self, end: SyncEnd) -> &BTreeMap<RelPath, TreeNode> {
        match end {
            SyncEnd::Here => &self.here,
            SyncEnd::There => &self.there,
        }
    }

    fn file(&self, end: SyncEnd, path: &RelPath) -> Option<&FileVersion> {
        match self.end(end).get(path) {
            Some(TreeNode::File(file)) => Some(file),
            _ => None,
        }
    }

    fn is_dir(&self, end: SyncEnd, path: &RelPath) -> bool {
        matches!(self.end(end).get(path), Some(TreeNode::Dir))
    }

    fn was_dir(&self, path: &RelPath) -> bool {
        matches!(self.ancestor.get(path), Some(CommonEntry::Dir))
    }
}

/// Whether a plan may delete a large part of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletions {
    /// A plan with many deletions has no steps ([`SyncPlan::guard`]).
    Guarded {
        /// Number of files that earlier plans deleted here and there since the user was asked last: many small plans
        /// delete no more than one plan.
        before: [usize; 2],
    },
    /// The user has agreed.
    Confirmed,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncStep {
    /// Renames the file `from` at `end` to the free name `to`, because `from` is a conflict.
    Aside {
        /// The end at which the file is.
        end: SyncEnd,
        /// The present path.
        from: RelPath,
        /// The free path.
        to: RelPath,
    },
    /// Renames the file `from` at `end` to the free name `to`, if the other end's `to` has the same content. Otherwise
    /// the step fails, and the next plan, which knows both digests, has a transfer of `to` and a deletion of `from`.
    Move {
        /// The end at which the file is renamed.
        end: SyncEnd,
        /// The present path.
        from: RelPath,
        /// The free path.
        to: RelPath,
    },
    /// Deletes the file, or the empty directory, at `end`.
    Delete {
        /// The end at which the entry is deleted.
        end: SyncEnd,
        /// The path.
        path: RelPath,
    },
    /// Makes a directory at `end`.
    MakeDir {
        /// The end without the directory.
        end: SyncEnd,
        /// The path.
        path: RelPath,
    },
    /// Transfers the file to the end `to`, where the file is as in the ancestor, or missing.
    Transfer {
        /// The end that gets the file.
        to: SyncEnd,
        /// The path.
        path: RelPath,
    },
    /// Computes the digest of the file at both ends. Then another plan decides.
    Compare {
        /// The path.
        path: RelPath,
    },
    /// Notes the entry in the ancestor: both ends have the same.
    Adopt {
        /// The path.
        path: RelPath,
    },
    /// Removes the entry from the ancestor: neither end has the entry.
    Forget {
        /// The path.
        path: RelPath,
    },
}

/// A path that stays different until the user acts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathClash {
    /// At `end`, the path would be the same name as `with` on some file systems.
    Folds {
        /// The end that has `with`.
        end: SyncEnd,
        /// The path that is not created.
        path: RelPath,
        /// The path that exists.
        with: RelPath,
    },
    /// At `end`, something other than a file or directory has this path.
    Other {
        /// The end with the entry.
        end: SyncEnd,
        /// The path.
        path: RelPath,
    },
}

/// Deletions that need the user's consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionGuard {
    /// The end at which files would be deleted.
    pub end: SyncEnd,
    /// Number of these files.
    pub files: usize,
    /// Number of files of the ancestor.
    pub of: usize,
}

/// A plan: steps in an order in which each step can succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPlan {
    /// The steps; none with a `guard`.
    pub steps: Vec<SyncStep>,
    /// Paths that stay different.
    pub clashes: Vec<PathClash>,
    /// Set if the plan would delete a large part of an end, and the user has not agreed.
    pub guard: Option<DeletionGuard>,
}

/// Returns the plan that makes both ends equal.
#[must_use]
pub fn reconcile(trees: &Trees, naming: &ConflictNaming, deletions: Deletions) -> SyncPlan {
    let mut planner = Planner::new(trees);
    planner.decide_files();
    planner.decide_dirs();
    planner.set_aside(naming);
    planner.drop_clashes();
    let moves = planner.moves();
    planner.plan(moves, deletions)
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileVerdict {
    Keep,
    Forget,
    Compare,
    Adopt,
    /// The file goes to this end.
    Send(SyncEnd),
    /// The file is deleted at this end.
    Remove(SyncEnd),
    /// Both ends changed the file.
    Conflict,
}

struct Planner<'a> {
    trees: &'a Trees,
    files: BTreeMap<RelPath, FileVerdict>,
    /// Directories that exist after the plan.
    staying: BTreeSet<RelPath>,
    /// Directories that no longer exist after the plan.
    going: BTreeSet<RelPath>,
    asides: Vec<(SyncEnd, RelPath, RelPath)>,
    clashes: Vec<PathClash>,
    /// Directories that are not made, because of a clash.
    unmade: HashSet<(SyncEnd, RelPath)>,
}

impl<'a> Planner<'a> {
    fn new(trees: &'a Trees) -> Self {
        Self {
            trees,
            files: BTreeMap::new(),
            staying: BTreeSet::new(),
            going: BTreeSet::new(),
            asides: Vec::new(),
            clashes: Vec::new(),
            unmade: HashSet::new(),
        }
    }

    fn all_paths(&self) -> BTreeSet<&'a RelPath> {
        let Trees { ancestor, here, there } = self.trees;
        ancestor.keys().chain(here.keys()).chain(there.keys()).collect()
    }

    /// True if `path` or a directory above is [`TreeNode::Other`] at an end.
    fn is_blocked(&self, path: &RelPath) -> bool {
        let is_other = |path: &RelPath| {
            SyncEnd::BOTH.iter().any(|end| self.trees.end(*end).get(path) == Some(&TreeNode::Other))
        };
        is_other(path) || above(path).any(|dir| is_other(&dir))
    }

    fn decide_files(&mut self) {
        for path in self.all_paths() {
            if self.is_blocked(path) {
                self.note_other(path);
            } else if let Some(verdict) = verdict(self.trees, path) {
                self.files.insert(path.clone(), verdict);
            }
        }
    }

    /// Tells of an entry that no step can concern, if the other end has something to sync at this path.
    fn note_other(&mut self, path: &RelPath) {
        for end in SyncEnd::BOTH {
            let is_other = self.trees.end(end).get(path) == Some(&TreeNode::Other);
            let is_wanted = matches!(
                self.trees.end(end.other()).get(path),
                Some(TreeNode::Dir | TreeNode::File(_))
            );
            if is_other && (is_wanted || self.trees.ancestor.contains_key(path)) {
                self.clashes.push(PathClash::Other { end, path: path.clone() });
            }
        }
    }

    fn decide_dirs(&mut self) {
        let trees = self.trees;
        for path in self.all_paths() {
            let is_final = match self.files.get(path) {
                Some(verdict) => !matches!(verdict, FileVerdict::Forget | FileVerdict::Remove(_)),
                None => self.is_blocked(path),
            };
            let open: Vec<_> = above(path).filter(|dir| !self.is_blocked(dir)).collect();
            if is_final {
                self.staying.extend(open.iter().cloned());
            }
            let [here, there] = SyncEnd::BOTH.map(|end| trees.is_dir(end, path));
            let was = trees.was_dir(path);
            if !self.is_blocked(path) && ((here && there) || ((here || there) && !was)) {
                self.staying.extend(open);
                self.staying.insert(path.clone());
            }
        }
        let is_known = |path: &&RelPath| {
            trees.was_dir(path) || SyncEnd::BOTH.iter().any(|end| trees.is_dir(*end, path))
        };
        let all = self.all_paths().into_iter().filter(is_known);
        self.going = all
            .filter(|path| !self.staying.contains(*path) && !self.is_blocked(path))
            .cloned()
            .collect();
    }

    /// Finds another name for each file that must give way.
    fn set_aside(&mut self, naming: &ConflictNaming) {
        let mut names = ConflictNames::new(self.all_paths(), naming);
        let found: Vec<_> =
            self.files.iter().map(|(path, verdict)| (path.clone(), *verdict)).collect();
        for (path, verdict) in found {
            let is_dir_too = self.staying.contains(&path);
            let (end, after) = match verdict {
                FileVerdict::Conflict => (SyncEnd::Here, Some(FileVerdict::Send(SyncEnd::Here))),
                FileVerdict::Send(to) if is_dir_too => (to.other(), None),
                _ => continue,
            };
            let aside = names.free(&path, end);
            self.files.insert(aside.clone(), FileVerdict::Send(end.other()));
            match after {
                Some(after) => self.files.insert(path.clone(), after),
                None => self.files.remove(&path),
            };
            self.asides.push((end, path, aside));
        }
    }

    /// Drops each creation beside a name that some file systems take for the same name.
    fn drop_clashes(&mut self) {
        for end in SyncEnd::BOTH {
            let mut taken = self.remaining(end);
            let paths: Vec<_> = self.staying.iter().chain(self.files.keys()).cloned().collect();
            for path in paths.into_iter().collect::<BTreeSet<_>>() {
                let is_made_dir = self.staying.contains(&path);
                let is_sent = self.files.get(&path) == Some(&FileVerdict::Send(end));
                if self.trees.end(end).contains_key(&path) || !(is_made_dir || is_sent) {
                    continue;
                }
                let is_below = above(&path).any(|dir| self.unmade.contains(&(end, dir)));
                match taken.get(&folded_path(&path)).filter(|with| **with != path) {
                    None if !is_below => {
                        taken.insert(folded_path(&path), path.clone());
                        continue;
                    }
                    Some(with) if !is_below => {
                        let with = with.clone();
                        self.clashes.push(PathClash::Folds { end, path: path.clone(), with });
                    }
                    _ => {}
                }
                if is_made_dir {
                    self.unmade.insert((end, path));
                } else {
                    self.files.remove(&path);
                }
            }
        }
    }

    /// True if a step renames the file.
    fn leaves(&self, end: SyncEnd, path: &RelPath) -> bool {
        self.asides.iter().any(|(at, from, _)| *at == end && from == path)
    }

    /// Returns the paths that stay at `end`, by their folded forms.
    fn remaining(&self, end: SyncEnd) -> HashMap<Vec<u8>, RelPath> {
        let goes = |path: &RelPath| {
            self.files.get(path) == Some(&FileVerdict::Remove(end))
                || self.going.contains(path)
                || self.leaves(end, path)
        };
        let stay = self.trees.end(end).keys().filter(|path| !goes(path)).cloned();
        let asides = self.asides.iter().filter(|(at, ..)| *at == end).map(|(.., to)| to.clone());
        stay.chain(asides).map(|path| (folded_path(&path), path)).collect()
    }

    fn plan(self, moves: Vec<(SyncEnd, RelPath, RelPath)>, deletions: Deletions) -> SyncPlan {
        let moved: HashSet<_> =
            moves.iter().flat_map(|(_, from, to)| [from.clone(), to.clone()]).collect();
        let rest: Vec<_> = self.files.iter().filter(|(path, _)| !moved.contains(*path)).collect();
        if let Deletions::Guarded { before } = deletions
            && let Some(guard) = self.guard(&rest, before)
        {
            return SyncPlan { clashes: self.clashes, guard: Some(guard), ..SyncPlan::default() };
        }
        let mut steps: Vec<SyncStep> = Vec::new();
        steps.extend(self.asides.iter().cloned().map(|(end, from, to)| SyncStep::Aside {
            end,
            from,
            to,
        }));
        steps.extend(moves.into_iter().map(|(end, from, to)| SyncStep::Move { end, from, to }));
        steps.extend(self.deletions(&rest));
        for path in &self.staying {
            let lacks = |end: &SyncEnd| {
                !self.trees.is_dir(*end, path) && !self.unmade.contains(&(*end, path.clone()))
            };
            let make = |end| SyncStep::MakeDir { end, path: path.clone() };
            steps.extend(SyncEnd::BOTH.into_iter().filter(lacks).map(make));
            let is_at_both = SyncEnd::BOTH.iter().all(|end| self.trees.is_dir(*end, path));
            if is_at_both && !self.trees.was_dir(path) {
                steps.push(SyncStep::Adopt { path: path.clone() });
            }
        }
        for (path, verdict) in rest {
            let path = path.clone();
            steps.extend(match verdict {
                FileVerdict::Send(to) => Some(SyncStep::Transfer { to: *to, path }),
                FileVerdict::Compare => Some(SyncStep::Compare { path }),
                FileVerdict::Adopt => Some(SyncStep::Adopt { path }),
                // A directory at both ends has taken the place.
                FileVerdict::Forget if self.staying.contains(&path) => None,
                FileVerdict::Forget => Some(SyncStep::Forget { path }),
                FileVerdict::Keep | FileVerdict::Remove(_) | FileVerdict::Conflict => None,
            });
        }
        SyncPlan { steps, clashes: self.clashes, guard: None }
    }

    /// Returns the deletions, those of a directory after those of its entries.
    fn deletions(&self, rest: &[(&RelPath, &FileVerdict)]) -> Vec<SyncStep> {
        let mut steps: BTreeMap<&RelPath, Vec<SyncStep>> = BTreeMap::new();
        for (path, verdict) in rest {
            if let FileVerdict::Remove(end) = verdict {
                let step = SyncStep::Delete { end: *end, path: (*path).clone() };
                steps.entry(path).or_default().push(step);
            }
        }
        for path in &self.going {
            let has = |end: &SyncEnd| self.trees.is_dir(*end, path);
            let mut gone: Vec<_> = SyncEnd::BOTH
                .into_iter()
                .filter(has)
                .map(|end| SyncStep::Delete { end, path: path.clone() })
                .collect();
            if gone.is_empty() {
                gone.push(SyncStep::Forget { path: path.clone() });
            }
            steps.entry(path).or_default().extend(gone);
        }
        steps.into_values().rev().flatten().collect()
    }

    /// Returns the deletions that need the user's consent, if any: all of an end, or most of many files.
    fn guard(
        &self,
        rest: &[(&RelPath, &FileVerdict)],
        before: [usize; 2],
    ) -> Option<DeletionGuard> {
        let is_file = |common: &&CommonEntry| matches!(common, CommonEntry::File { .. });
        let now = self.trees.ancestor.values().filter(is_file).count();
        let counted = |end: SyncEnd| {
            let files =
                rest.iter().filter(|(_, verdict)| **verdict == FileVerdict::Remove(end)).count();
            DeletionGuard { end, files, of: now }
        };
        let is_much = |guard: &DeletionGuard| {
            let earlier = before[guard.end as usize];
            let (files, of) = (guard.files + earlier, guard.of + earlier);
            // A plan that deletes nothing needs no consent, whatever was deleted before.
            guard.files > 0
                && match files == of {
                    true => of >= FEW_FILES,
                    false => files > MANY_FILES && 2 * files > of,
                }
        };
        SyncEnd::BOTH.into_iter().map(counted).find(is_much)
    }
}

/// Returns the verdict about the file at `path`; `None` if no end has or had a file there.
fn verdict(trees: &Trees, path: &RelPath) -> Option<FileVerdict> {
    let [here, there] = SyncEnd::BOTH.map(|end| trees.file(end, path));
    let was = trees.ancestor.get(path);
    let is_changed = |end, now: Option<&FileVersion>| {
        let then = was.and_then(|common| common.file(end));
        then.map(|state| &state.tag) != now.map(|state| &state.tag)
    };
    let had_file = was.is_some_and(|common| common.file(SyncEnd::Here).is_some());
    Some(match (is_changed(SyncEnd::Here, here), is_changed(SyncEnd::There, there), here, there) {
        (_, _, None, None) if !had_file => return None,
        (_, _, None, None) => FileVerdict::Forget,
        (false, false, ..) => FileVerdict::Keep,
        (true, false, Some(_), _) | (true, true, Some(_), None) => {
            FileVerdict::Send(SyncEnd::There)
        }
        (false, true, _, Some(_)) | (true, true, None, Some(_)) => FileVerdict::Send(SyncEnd::Here),
        (true, false, None, _) => FileVerdict::Remove(SyncEnd::There),
        (false, true, _, None) => FileVerdict::Remove(SyncEnd::Here),
        (true, true, Some(here), Some(there)) if here.bytes != there.bytes => FileVerdict::Conflict,
        (true, true, Some(here), Some(there)) => match (&here.digest, &there.digest) {
            (Some(one), Some(other)) if one == other => FileVerdict::Adopt,
            (Some(_), Some(_)) => FileVerdict::Conflict,
            _ => FileVerdict::Compare,
        },
    })
}

/// Returns the directories above `path`, below the root, the deepest first.
fn above(path: &RelPath) -> impl Iterator<Item = RelPath> {
    let parent =
        |path: &RelPath| path.split_last().map(|(dir, _)| dir).filter(|dir| !dir.is_root());
    std::iter::successors(parent(path), move |dir| parent(dir))
}

/// Deletion of all files needs no consent below this number.
const FEW_FILES: usize = 3;
/// Deletion of most files needs no consent up to this number.
const MANY_FILES: usize = 20;
