//! Directories on the way to sources, that are to be left alone (`--no-implied-dirs`).

use std::collections::{HashMap, HashSet};

use deltic_tree::{Kind, Meta, RelPath, Timestamp};

use crate::report::Change;

use super::Receiver;

/// Those that are known to be on the way only, and what is to be said of those that may be.
#[derive(Debug, Default)]
pub(super) struct Implied {
    dirs: HashSet<RelPath>,
    held: HashMap<RelPath, Change>,
}

impl Receiver {
    /// Says what changes of a directory, unless it is on the way only; where that is not known yet, later.
    pub(super) fn changed_dir(&mut self, change: Change) {
        if self.may_be_implied(&change.path) {
            self.implied.held.insert(change.path.clone(), change);
        } else if !self.implied.dirs.contains(&change.path) {
            self.cx.changed(change);
        }
    }

    /// Whether what is said of the directory `path` has to wait until it is known whether it is implied only.
    fn may_be_implied(&self, path: &RelPath) -> bool {
        self.cx.setting.options.select.plain_implied_dirs
            && !path.is_root()
            && (self.list.is_announced(path) || self.list.is_listing(path))
    }

    /// All of `dir` is listed that ever will be.
    pub(super) fn ended(&mut self, dir: &RelPath, is_implied: bool) {
        if !self.cx.setting.options.select.plain_implied_dirs {
            return;
        }
        let held: Option<Change> = self.implied.held.remove(dir);
        if is_implied {
            self.implied.dirs.insert(dir.clone());
        } else if let Some(change) = held {
            self.cx.changed(change);
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
            std::mem::take(dirs).into_iter().partition(|(dir, _)| self.implied.dirs.contains(dir));
        *dirs = own;
        let implied: Vec<(RelPath, Meta)> = implied;
        implied.into_iter().map(|(dir, _)| (dir, plain.clone())).collect()
    }
}
