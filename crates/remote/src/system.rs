//! The trait of a remote system: list names, look up objects and checksums, read ranges.

use std::fmt::Debug;
use std::ops::Range;

use deltic_tree::Timestamp;

use crate::RemoteError;
use crate::sums::ObjectSums;

/// A remote system of files or objects, read-only.
///
/// Paths are names joined by slashes, without a slash at either end. The root is the empty path. Calls block, and may
/// come from any thread.
pub(crate) trait StorageSystem: Debug + Send + Sync + 'static {
    /// The URL of a path, for messages.
    fn url(&self, path: &str) -> String;

    /// Looks up a path. `None` if nothing is there.
    ///
    /// # Errors
    /// Any error of the request.
    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError>;

    /// Lists the directory at `path`: calls `each` with every name and entry, in any order. A name may be invalid
    /// as a local file name.
    ///
    /// # Errors
    /// - [`RemoteError::NotFound`]: there is no such directory.
    /// - Any other error of a request. The list is then incomplete; do not use it.
    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError>;

    /// The stored checksums of an object; empty if the system stores none.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] if the object is another version by now.
    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError>;

    /// Reads `range` of an object into `buf`. The range is not empty and as long as `buf`.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] if the object is another version by now.
    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError>;

    /// Checks that an object is still the version `object`, for systems that do not check the version in a read.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] if the version is another.
    fn check(&self, path: &str, object: &ObjectVersion) -> Result<(), RemoteError> {
        let _ = (path, object);
        Ok(())
    }

    /// Bytes received so far: content and other answers.
    fn received(&self) -> u64;

    /// True if directories have modification times.
    fn has_dir_times(&self) -> bool {
        false
    }
}

/// An entry of a remote system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SystemEntry {
    /// A directory, or a key prefix that stands for a directory.
    Dir {
        /// Modification time; `UNTIMED` if unknown.
        modified: Timestamp,
    },
    /// An object.
    Object(ObjectVersion),
    /// Neither an object nor a directory, such as a link. Such an entry is reported as an error of the list: without
    /// it, `--delete` would remove the file of that name at the destination.
    Other,
}

/// A version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectVersion {
    /// Length in bytes.
    pub(crate) len: u64,
    /// Time of the last write.
    pub(crate) modified: Timestamp,
    /// A token that is unique to this version: an entity tag or a generation.
    pub(crate) token: String,
}

/// Most names in a directory.
pub(crate) const MAX_NAMES: usize = 1 << 22;
/// Most consecutive pages without a name.
const MAX_EMPTY: usize = 1000;

/// Stops a paged list that never ends.
#[derive(Debug, Default)]
pub(crate) struct PageGuard {
    names: usize,
    empty: usize,
    last: String,
}

impl PageGuard {
    /// Counts a page with `names` names.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] past [`MAX_NAMES`] names, or after too many empty pages in a row.
    pub(crate) fn take(&mut self, names: usize) -> Result<(), RemoteError> {
        self.names += names;
        self.empty = if names == 0 { self.empty + 1 } else { 0 };
        if self.names > MAX_NAMES {
            return Err(RemoteError::Wrong(format!(
                "the directory has more than {MAX_NAMES} names; sync parts of it"
            )));
        }
        if self.empty > MAX_EMPTY {
            return Err(Self::no_progress_error());
        }
        Ok(())
    }

    /// Checks that the last name of a page comes after the last names of all pages before.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] if the name does not ascend.
    pub(crate) fn ascend(&mut self, last: Option<&str>) -> Result<(), RemoteError> {
        let Some(last) = last else { return Ok(()) };
        if !self.last.is_empty() && last <= self.last.as_str() {
            return Err(Self::no_progress_error());
        }
        last.clone_into(&mut self.last);
        Ok(())
    }

    /// The error for a list that makes no progress.
    pub(crate) fn no_progress_error() -> RemoteError {
        RemoteError::Wrong("the list makes no progress: the server repeats a page".into())
    }
}

/// Summary of a page of a list.
pub(crate) struct PageSummary {
    /// Number of names in the page.
    pub(crate) names: usize,
    /// True if the page proves that the directory exists.
    pub(crate) is_there: bool,
    /// The last name, in systems with ascending lists.
    pub(crate) last: Option<String>,
    /// Continuation token of the next page, if any.
    pub(crate) next: Option<String>,
}

/// Lists the directory at `path` page by page. Calls `page` with the key prefix and the continuation token of the page
/// before.
///
/// # Errors
/// - Any error of `page`.
/// - [`RemoteError::NotFound`] if no page proves that the directory exists.
/// - [`RemoteError::Wrong`] if the list makes no progress.
pub(crate) fn list_pages(
    path: &str,
    mut page: impl FnMut(&str, Option<&str>) -> Result<PageSummary, RemoteError>,
) -> Result<(), RemoteError> {
    let prefix = prefix_of(path);
    let (mut word, mut is_there, mut pages) = (None, path.is_empty(), PageGuard::default());
    loop {
        let listed = page(&prefix, word.as_deref())?;
        is_there |= listed.is_there;
        pages.take(listed.names)?;
        pages.ascend(listed.last.as_deref())?;
        match listed.next {
            Some(next) if word.as_ref() != Some(&next) => word = Some(next),
            Some(_) => return Err(PageGuard::no_progress_error()),
            None if is_there => return Ok(()),
            None => return Err(RemoteError::NotFound),
        }
    }
}

/// The key prefix of everything below the directory at `path`.
pub(crate) fn prefix_of(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_progress_or_with_too_many_names_is_refused() {
        let mut pages = PageGuard::default();
        pages.ascend(Some("a")).unwrap();
        pages.ascend(None).unwrap();
        pages.ascend(Some("b")).unwrap();
        assert!(pages.ascend(Some("b")).is_err() && pages.ascend(Some("a")).is_err());
        assert!((0..=MAX_EMPTY).any(|_| pages.take(0).is_err()));
        let mut pages = PageGuard::default();
        assert!(pages.take(MAX_NAMES).is_ok() && pages.take(1).is_err());
    }
}
