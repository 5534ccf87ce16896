//! Sources that are not there, and are to go here as well (`--delete-missing-args`).

use std::collections::HashSet;

use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::MAX_NAMES;
use crate::options::Missing as MissingArgs;
use crate::receiver::ask::Work;
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;
use crate::report::{Trouble, TroubleKind};

use super::deleting::Deleting;
use super::removal::NO_LIMIT;

/// The paths of such sources.
#[derive(Debug, Default)]
pub(super) struct Missing {
    paths: Vec<RelPath>,
}

impl Missing {
    /// Takes the paths of sources that are not there.
    pub(super) fn take(&mut self, cx: &Context, paths: Vec<RelPath>) -> Result<(), PeerError> {
        let relative = cx.setting.options.select.relative;
        let expects = |path: &RelPath| {
            let mut names = path.components();
            let name = names.next().and_then(|n| deltic_tree::Name::new(n).ok());
            let expect = cx.setting.expect.as_ref();
            // A source that was asked for has one name here: what is below it was not asked for.
            (relative || names.next().is_none())
                && name.is_some_and(|name| expect.is_none_or(|expect| expect.admits(&name)))
        };
        if cx.setting.options.select.missing != MissingArgs::Delete || !paths.iter().all(expects) {
            return Err(PeerError::Unexpected("a missing name that was not asked for"));
        }
        self.paths.extend(paths);
        if self.paths.len() > MAX_NAMES {
            return Err(PeerError::Limit("missing names"));
        }
        Ok(())
    }

    /// Looks which of them are here.
    pub(super) fn look(&mut self, cx: &mut Context) {
        let paths = std::mem::take(&mut self.paths);
        if !paths.is_empty() {
            let (users, groups) = (Vec::new(), Vec::new());
            let look = Work::Look {
                paths: paths.clone(),
                dirs: HashSet::new(),
                alike: Vec::new(),
                users,
                groups,
            };
            cx.ask(look, TreePending::LookMissing(paths));
        }
    }

    pub(super) fn looked(
        cx: &mut Context,
        deleting: &mut Deleting,
        paths: Vec<RelPath>,
        found: Vec<Result<Option<Meta>, Trouble>>,
    ) {
        for (path, found) in paths.into_iter().zip(found) {
            match found {
                Ok(Some(meta)) if meta.is_dir() => {
                    let all = Work::Count { path: path.clone(), gives_way: false };
                    cx.ask(all, TreePending::CountMissing(path));
                }
                Ok(Some(_)) => deleting.remove(cx, path, 1),
                Ok(None) => {}
                Err(trouble) => cx.trouble(trouble),
            }
        }
    }

    pub(super) fn counted(cx: &mut Context, deleting: &mut Deleting, path: RelPath, names: u64) {
        if names > 1 && !cx.setting.options.clears() {
            let words = |path: &str| {
                format!("cannot delete {path}: directory not empty; --force allows it")
            };
            return cx.trouble(Trouble::at(TroubleKind::Failed, &path, words));
        }
        // Where all may go, what comes into it may as well.
        let most = if names > 1 { NO_LIMIT } else { names };
        deleting.remove(cx, path, most);
    }
}
