//! Missing sources, which are to be deleted here as well (`--delete-missing-args`).

use std::collections::HashMap;

use deltic_tree::fold::folded_path;
use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::MAX_NAMES;
use crate::options::Missing as MissingArgs;
use crate::receiver::ask::{AlikePaths, LookupWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;
use crate::report::{Trouble, TroubleKind};

use super::deleting::PendingDeletions;
use super::removal::NO_LIMIT;
use super::sections::DirSection;

/// Most listed paths to note for a missing path. A file system that treats a further listed path as the missing path
/// treats one of the noted paths so, too.
const MAX_ALIKE: usize = 16;

/// The paths of missing sources.
#[derive(Debug, Default)]
pub(super) struct MissingSources {
    paths: Vec<RelPath>,
    /// By the [folded form](folded_path) of a missing path: listed paths that some file systems treat as the same
    /// path.
    listed: HashMap<Vec<u8>, Vec<RelPath>>,
}

impl MissingSources {
    /// Takes the paths of missing sources. Errors: `Unexpected` for paths that were not asked for, `Limit` for too
    /// many.
    pub(super) fn receive_missing(
        &mut self,
        cx: &Context,
        paths: Vec<RelPath>,
    ) -> Result<(), PeerError> {
        let relative = cx.setting.options.select.relative;
        let expects = |path: &RelPath| {
            let mut names = path.components();
            let name = names.next().and_then(|n| deltic_tree::Name::new(n).ok());
            let expect = cx.setting.expect.as_ref();
            // A requested source has one name here: names below it were not asked for.
            (relative || names.next().is_none())
                && name.is_some_and(|name| expect.is_none_or(|expect| expect.is_expected(&name)))
        };
        if cx.setting.options.select.missing != MissingArgs::Delete || !paths.iter().all(expects) {
            return Err(PeerError::Unexpected("a missing name that was not requested"));
        }
        for path in &paths {
            self.listed.entry(folded_path(path)).or_default();
        }
        self.paths.extend(paths);
        if self.paths.len() > MAX_NAMES {
            return Err(PeerError::Limit("missing names"));
        }
        Ok(())
    }

    /// Notes listed paths that some file systems treat as the path of a missing source: an entry of a listed path is
    /// not removed. The sender reports missing sources before it lists names.
    pub(super) fn note_listed(&mut self, section: &DirSection) {
        if self.listed.is_empty() {
            return;
        }
        let mut note = |path: RelPath| {
            let noted = self.listed.get_mut(&folded_path(&path));
            let is_new = |noted: &&mut Vec<_>| noted.len() < MAX_ALIKE && !noted.contains(&path);
            if let Some(noted) = noted.filter(is_new) {
                noted.push(path);
            }
        };
        // Parent directories may be unlisted.
        let mut above = Some(section.dir.clone());
        while let Some(dir) = above {
            above = dir.split_last().map(|(above, _)| above);
            note(dir);
        }
        section.entries.iter().filter_map(|e| section.dir.join(&e.name).ok()).for_each(note);
    }

    /// Requests a look-up of the missing sources at this end.
    pub(super) fn request_lookup(&mut self, cx: &mut Context) {
        let Self { paths, listed } = std::mem::take(self);
        if !paths.is_empty() {
            let alike = |missing: &RelPath| {
                let listed = listed.get(&folded_path(missing)).cloned().unwrap_or_default();
                let missing = missing.clone();
                listed
                    .into_iter()
                    .map(move |listed| AlikePaths { missing: missing.clone(), listed })
            };
            let listed = paths.iter().flat_map(alike).collect();
            let look =
                ReceiverWork::Lookup(LookupWork::LookMissing { paths: paths.clone(), listed });
            cx.request_work(look, TreePending::LookMissing(paths));
        }
    }

    /// Removes the missing sources that exist at this end; directories once their names are counted.
    pub(super) fn remove_found(
        cx: &mut Context,
        deleting: &mut PendingDeletions,
        paths: Vec<RelPath>,
        found: Vec<Result<Option<Meta>, Trouble>>,
    ) {
        for (path, found) in paths.into_iter().zip(found) {
            match found {
                Ok(Some(meta)) if meta.is_dir() => {
                    let all = ReceiverWork::Lookup(LookupWork::Count {
                        path: path.clone(),
                        gives_way: false,
                    });
                    cx.request_work(all, TreePending::CountMissing(path));
                }
                Ok(Some(_)) => deleting.remove_path(cx, path, 1),
                Ok(None) => {}
                Err(trouble) => cx.count_failure(trouble),
            }
        }
    }

    pub(super) fn take_name_count(
        cx: &mut Context,
        deleting: &mut PendingDeletions,
        path: RelPath,
        names: u64,
    ) {
        if names > 1 && !cx.setting.options.replaces_full_dirs() {
            let words = |path: &str| {
                format!("cannot delete {path}: directory not empty; --force allows it")
            };
            return cx.count_failure(Trouble::at(TroubleKind::Failed, &path, words));
        }
        // A limit on a directory that may go entirely would only spare names added to it.
        let most = if names > 1 { NO_LIMIT } else { names };
        deleting.remove_path(cx, path, most);
    }
}
