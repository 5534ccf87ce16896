//! Places that files under way are matched against: nothing takes such a place meanwhile.

use std::collections::{BTreeSet, HashMap};

use deltic_tree::RelPath;

use crate::receiver::ask::Similar;
use crate::work::Handle;

/// Places that are lent, and the files that wait for them.
#[derive(Debug, Default)]
pub(super) struct Lent {
    /// Places, and the number of files that are matched against each.
    places: HashMap<RelPath, usize>,
    /// Files that are complete, but for their places being lent.
    held: BTreeSet<Handle>,
}

impl Lent {
    /// Lends the place of a file of another name.
    pub(super) fn lend(&mut self, similar: &Similar) {
        if similar.kinship.is_some() {
            *self.places.entry(similar.path.clone()).or_default() += 1;
        }
    }

    /// True where a file that is complete must not take its place yet; then it is held.
    pub(super) fn holds(&mut self, handle: Handle, path: &RelPath) -> bool {
        let is_lent = self.places.contains_key(path);
        if is_lent {
            self.held.insert(handle);
        }
        is_lent
    }

    /// Takes a place back; the files that may go on.
    pub(super) fn take_back(&mut self, similar: Option<Similar>) -> BTreeSet<Handle> {
        let Some(Similar { path, kinship: Some(_), .. }) = similar else { return BTreeSet::new() };
        let Some(count) = self.places.get_mut(&path) else { return BTreeSet::new() };
        *count -= 1;
        if *count > 0 {
            return BTreeSet::new();
        }
        self.places.remove(&path);
        std::mem::take(&mut self.held)
    }
}
