//! Sources that are not there, and are to go here as well (`--delete-missing-args`).

use std::collections::HashSet;

use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::MAX_NAMES;
use crate::options::Missing;
use crate::report::{Trouble, TroubleKind};

use super::deleting::NO_LIMIT;
use super::{Place, Receiver, Work};

impl Receiver {
    /// Takes the paths of sources that are not there.
    pub(super) fn missing(&mut self, paths: Vec<RelPath>) -> Result<(), PeerError> {
        self.list.growing()?;
        let relative = self.cx.setting.options.select.relative;
        let expects = |path: &RelPath| {
            let mut names = path.components();
            let name = names.next().and_then(|n| deltic_tree::Name::new(n).ok());
            let expect = self.cx.setting.expect.as_ref();
            // A source that was asked for has one name here: what is below it was not asked for.
            (relative || names.next().is_none())
                && name.is_some_and(|name| expect.is_none_or(|expect| expect.admits(&name)))
        };
        if self.cx.setting.options.select.missing != Missing::Delete || !paths.iter().all(expects) {
            return Err(PeerError::Unexpected("a missing name that was not asked for"));
        }
        self.missing.extend(paths);
        if self.missing.len() > MAX_NAMES {
            return Err(PeerError::Limit("missing names"));
        }
        Ok(())
    }

    /// Looks which of them are here.
    pub(super) fn look_for_missing(&mut self) {
        let paths = std::mem::take(&mut self.missing);
        if !paths.is_empty() {
            let (users, groups) = (Vec::new(), Vec::new());
            let look = Work::Look { paths: paths.clone(), dirs: HashSet::new(), users, groups };
            self.cx.jobs.ask(look, Place::LookMissing(paths));
        }
    }

    pub(super) fn looked_missing(
        &mut self,
        paths: Vec<RelPath>,
        found: Vec<Result<Option<Meta>, Trouble>>,
    ) {
        for (path, found) in paths.into_iter().zip(found) {
            match found {
                Ok(Some(meta)) if meta.is_dir() => {
                    let all = Work::Count { path: path.clone(), gives_way: false };
                    self.cx.jobs.ask(all, Place::CountMissing(path));
                }
                Ok(Some(_)) => self.remove(path, 1),
                Ok(None) => {}
                Err(trouble) => self.cx.trouble(trouble),
            }
        }
    }

    pub(super) fn counted_missing(&mut self, path: RelPath, names: u64) {
        if names > 1 && !self.cx.setting.options.clears() {
            let words = |path: &str| {
                format!("cannot delete {path}: directory not empty; --force allows it")
            };
            return self.cx.trouble(Trouble::at(TroubleKind::Failed, &path, words));
        }
        // Where all may go, what comes into it may as well.
        let most = if names > 1 { NO_LIMIT } else { names };
        self.remove(path, most);
    }
}
