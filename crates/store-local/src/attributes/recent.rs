//! Facts about recently used directories. Each thread works in one directory for some time, but threads use different
//! directories.

use std::collections::VecDeque;
use std::sync::Mutex;

use deltic_tree::RelPath;

use crate::kernel::lock;

/// A fact of type `T` for each of a few directories.
#[derive(Debug)]
pub(crate) struct Recent<T>(Mutex<VecDeque<(RelPath, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    pub(crate) fn fact_about(&self, dir: &RelPath) -> Option<T> {
        lock(&self.0).iter().find(|(known, _)| known == dir).map(|(_, of)| of.clone())
    }

    /// Stores the fact about `dir`, in place of the oldest fact if there are many.
    pub(crate) fn store_fact(&self, dir: &RelPath, of: T) {
        let mut all = lock(&self.0);
        all.retain(|(known, _)| known != dir);
        all.truncate(DIRS - 1);
        all.push_front((dir.clone(), of));
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Number of directories; more than the threads that create entries on most machines.
const DIRS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_until_others_came_or_it_is_forgotten() {
        let dir = |no: usize| RelPath::parse(no.to_string().as_bytes()).unwrap();
        let recent = Recent::default();
        (0..=DIRS).for_each(|no| recent.store_fact(&dir(no), no));
        assert_eq!(recent.fact_about(&dir(0)), None);
        assert!((1..=DIRS).all(|no| recent.fact_about(&dir(no)) == Some(no)));
        recent.store_fact(&dir(1), 100);
        assert_eq!((recent.fact_about(&dir(1)), recent.fact_about(&dir(2))), (Some(100), Some(2)));
        recent.clear();
        assert_eq!(recent.fact_about(&dir(1)), None);
    }
}
