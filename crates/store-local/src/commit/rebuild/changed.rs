//! Gathers what changes in a file, and notes it with the new version.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use deltic_core::{ChangeMap, Origins};
use deltic_store::Commit;
use rustix::fs::{self, Stat};

use super::LocalRebuild;
use crate::cache::now;
use crate::handles::place::Place;
use crate::handles::stat::file_type;
use crate::keep::change_notes::{ChangeNote, NotedVersion, compare_short};
use crate::kernel::lock;
use crate::read::snapshot::LocalSnapshot;

/// The change of a file, as far as it is known.
#[derive(Debug)]
pub(super) struct FileChange {
    origins: Mutex<Origins>,
    /// Name of the client that makes the change; `None` if changes are not noted.
    author: Option<Arc<str>>,
}

impl FileChange {
    pub(super) fn by(author: Option<&Arc<str>>) -> Self {
        Self { origins: Mutex::default(), author: author.cloned() }
    }

    pub(super) fn add(&self, span: Range<u64>, old: Option<u64>) {
        if self.author.is_some() {
            lock(&self.origins).add(span, old);
        }
    }
}

impl LocalRebuild {
    /// Sets the name of the client that makes the change, if the store notes changes.
    pub fn set_author(&mut self, author: &str) {
        if let Some(own) = &mut self.change.author {
            *own = author.into();
        }
    }

    /// Notes the change of the file, if changes are noted and the origin of all bytes is known. `old` is the entry that
    /// is replaced.
    pub(super) fn note_change(
        &self,
        commit: &Commit<'_, LocalSnapshot>,
        place: &Place,
        old: Option<&Stat>,
    ) {
        let Some(author) = &self.change.author else { return };
        let Ok(stat) = fs::fstat(&self.staged.file) else { return };
        let Some(map) = self.change_map(place, old) else { return };
        let mut version = NotedVersion::of(&stat);
        if commit.keep.times {
            version.modified = commit.meta.modified;
        }
        let note = ChangeNote { map, at: now().elapsed().as_secs(), author: author.to_string() };
        note.set(self.staged.file.as_fd(), version);
    }

    fn change_map(&self, place: &Place, old: Option<&Stat>) -> Option<ChangeMap> {
        let len = self.len;
        if !old.is_some_and(|old| file_type(old).is_file()) {
            return Some(ChangeMap::of_new_file(len));
        }
        let told = lock(&self.change.origins);
        let is_told = told.has_old();
        let compared = || compare_short(place, self.staged.file.as_fd(), len);
        let short = if is_told { None } else { compared() };
        let spans = short.as_ref().unwrap_or(&told).spans(len)?;
        Some(ChangeMap::of(len, &spans))
    }
}
