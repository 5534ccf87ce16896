//! The files under way, by number and by the handle of the current attempt.

use std::collections::{BTreeSet, HashMap};
use std::ops::Index;

use deltic_tree::RelPath;

use crate::message::FileNo;
use crate::receiver::ask::SimilarFile;
use crate::work::Handle;

use super::incoming::IncomingFile;

/// The files under way.
#[derive(Debug, Default)]
pub(super) struct FilesUnderWay {
    files: HashMap<FileNo, IncomingFile>,
    /// Files that have not been requested from the sender.
    unasked: BTreeSet<FileNo>,
    /// Handles of attempts that have not ended.
    handles: HashMap<Handle, FileNo>,
    next_handle: u64,
}

impl FilesUnderWay {
    pub(super) fn insert(&mut self, file: FileNo, incoming: IncomingFile) {
        self.files.insert(file, incoming);
        self.unasked.insert(file);
    }

    pub(super) fn get(&self, file: &FileNo) -> Option<&IncomingFile> {
        self.files.get(file)
    }

    pub(super) fn get_mut(&mut self, file: &FileNo) -> Option<&mut IncomingFile> {
        self.files.get_mut(file)
    }

    /// Removes a settled file.
    pub(super) fn remove(&mut self, file: FileNo) -> Option<IncomingFile> {
        let incoming = self.files.remove(&file)?;
        self.unasked.remove(&file);
        self.handles.remove(&incoming.handle);
        Some(incoming)
    }

    /// Begins a new attempt at a file. Returns the new handle and the file.
    pub(super) fn begin_attempt(&mut self, file: FileNo) -> (Handle, &mut IncomingFile) {
        let handle = self.next_handle();
        self.next_handle += 1;
        self.handles.insert(handle, file);
        let incoming = self.files.get_mut(&file).expect("the caller has the file");
        incoming.handle = handle;
        (handle, incoming)
    }

    /// Returns the handle of the next attempt.
    pub(super) const fn next_handle(&self) -> Handle {
        Handle(self.next_handle)
    }

    /// Ends an attempt: later answers to work of the attempt are ignored.
    pub(super) fn end_attempt(&mut self, handle: Handle) {
        self.handles.remove(&handle);
    }

    /// Returns the file of this handle, unless the attempt has ended.
    pub(super) fn by_handle_mut(&mut self, handle: Handle) -> Option<(FileNo, &mut IncomingFile)> {
        let file = *self.handles.get(&handle)?;
        Some((file, self.files.get_mut(&file).expect("handles name files")))
    }

    /// Marks a file as requested from the sender. Returns the file.
    pub(super) fn mark_requested(&mut self, file: FileNo) -> &mut IncomingFile {
        self.unasked.remove(&file);
        self.files.get_mut(&file).expect("the caller has the file")
    }

    /// Returns the lowest number of a file that has not been requested from the sender.
    pub(super) fn first_unrequested(&self) -> Option<FileNo> {
        self.unasked.first().copied()
    }
}

impl Index<&FileNo> for FilesUnderWay {
    type Output = IncomingFile;

    fn index(&self, file: &FileNo) -> &IncomingFile {
        &self.files[file]
    }
}

/// Paths of old files that other files are matched against. A path must not be replaced while it is lent, so complete
/// files wait for their lent paths.
#[derive(Debug, Default)]
pub(super) struct LentPaths {
    /// Lent paths, each with the number of files matched against the path.
    places: HashMap<RelPath, usize>,
    /// Complete files that wait, because other files are still matched against the old files at their paths.
    held: BTreeSet<Handle>,
}

impl LentPaths {
    /// Lends the path of the old file `similar` to a file with another name.
    pub(super) fn lend_path(&mut self, similar: &SimilarFile) {
        if similar.relation.is_some() {
            *self.places.entry(similar.path.clone()).or_default() += 1;
        }
    }

    /// True if `path` is lent, so that the complete file must not be put in place yet. Adds the file to the waiting
    /// files.
    pub(super) fn is_lent(&mut self, handle: Handle, path: &RelPath) -> bool {
        let is_lent = self.places.contains_key(path);
        if is_lent {
            self.held.insert(handle);
        }
        is_lent
    }

    /// Ends the loan of a path. Returns the waiting files that may continue.
    pub(super) fn end_loan(&mut self, similar: Option<SimilarFile>) -> BTreeSet<Handle> {
        let Some(SimilarFile { path, relation: Some(_), .. }) = similar else {
            return BTreeSet::new();
        };
        let Some(count) = self.places.get_mut(&path) else { return BTreeSet::new() };
        *count -= 1;
        if *count > 0 {
            return BTreeSet::new();
        }
        self.places.remove(&path);
        std::mem::take(&mut self.held)
    }
}
