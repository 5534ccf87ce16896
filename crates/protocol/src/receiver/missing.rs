//! Sources that are not there, and are to go here as well (`--delete-missing-args`), and directories on the way to sources
//! that are to be left alone (`--no-implied-dirs`).

use std::collections::HashSet;

use deltic_core::{Kind, Meta, RelPath, Timestamp};

use crate::error::PeerError;
use crate::limits::MAX_NAMES;
use crate::options::Missing;
use crate::report::{Change, Item, Trouble, TroubleKind};

use super::{Extra, Place, Receiver, Work};

impl Receiver {
    /// Takes the paths of sources that are not there.
    pub(super) fn missing(&mut self, paths: Vec<RelPath>) -> Result<(), PeerError> {
        self.list.growing()?;
        let relative = self.setting.options.select.relative;
        let expects = |path: &RelPath| {
            let mut names = path.components();
            let name = names.next().and_then(|n| deltic_core::Name::new(n).ok());
            let expect = self.setting.expect.as_ref();
            // A source that was asked for has one name here: what is below it was not asked for.
            (relative || names.next().is_none())
                && name.is_some_and(|name| expect.is_none_or(|expect| expect.admits(&name)))
        };
        if self.setting.options.select.missing != Missing::Delete || !paths.iter().all(expects) {
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
            self.jobs.ask(look, Place::LookMissing(paths));
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
                    let all = Work::Extra { dir: path.clone(), keep: None };
                    self.jobs.ask(all, Place::CountMissing(path));
                }
                Ok(Some(meta)) => self.remove(path, Item::of(&meta.kind), 1),
                Ok(None) => {}
                Err(trouble) => self.trouble(trouble),
            }
        }
    }

    pub(super) fn counted_missing(&mut self, path: RelPath, below: Result<Vec<Extra>, Trouble>) {
        let options = &self.setting.options;
        match below {
            Err(trouble) => self.trouble(trouble),
            Ok(below) if !below.is_empty() && !options.clears() => {
                let message = format!("delete {path}: directory not empty; --force allows it");
                self.trouble(Trouble { kind: TroubleKind::Failed, message });
            }
            Ok(below) => {
                let names = 1 + below.iter().map(|extra| extra.names).sum::<u64>();
                self.remove(path, Item::Dir, names);
            }
        }
    }

    /// Whether what is said of the directory `path` has to wait until it is known whether it is implied only.
    pub(super) fn may_be_implied(&self, path: &RelPath) -> bool {
        self.setting.options.select.plain_implied_dirs
            && !path.is_root()
            && (self.list.is_announced(path) || self.list.is_listing(path))
    }

    /// All of `dir` is listed that ever will be.
    pub(super) fn ended(&mut self, dir: &RelPath, is_implied: bool) {
        if !self.setting.options.select.plain_implied_dirs {
            return;
        }
        let held: Option<Change> = self.held.remove(dir);
        if is_implied {
            self.implied.insert(dir.clone());
        } else if let Some(change) = held {
            self.changed(change);
        }
    }

    /// What implied directories get that were made here: nothing of the sender's.
    pub(super) fn take_implied_dirs(
        &self,
        dirs: &mut Vec<(RelPath, Meta)>,
    ) -> Vec<(RelPath, Meta)> {
        let modified = Timestamp::default();
        let plain = Meta::plain(Kind::Dir, 0, modified, 0o777);
        let (implied, own) =
            std::mem::take(dirs).into_iter().partition(|(dir, _)| self.implied.contains(dir));
        *dirs = own;
        let implied: Vec<(RelPath, Meta)> = implied;
        implied.into_iter().map(|(dir, _)| (dir, plain.clone())).collect()
    }
}
