//! What a system elsewhere can do: list, and give facts and ranges of what it keeps.

use std::fmt::Debug;
use std::ops::Range;

use deltic_tree::Timestamp;

use crate::RemoteError;
use crate::sums::ObjectSums;

/// A system of files or objects, which is read. Paths are names joined by slashes, without one at either end; the root
/// is empty. Calls block, on any thread.
pub(crate) trait StorageSystem: Debug + Send + Sync + 'static {
    /// The URL of a path, for people.
    fn url(&self, path: &str) -> String;

    /// What is at a path, if anything is.
    ///
    /// # Errors
    /// Where nobody can say.
    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError>;

    /// Tells `each` the name of everything in the directory at a path, in any order. A name may be none that a file can
    /// have here.
    ///
    /// # Errors
    /// [`RemoteError::NotFound`] where there is no such directory; what was told until then is of no use.
    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError>;

    /// The sums of an object; none where there are none.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] where it is another by now.
    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError>;

    /// Fills `buf` with a range of an object, which is as long, and never empty.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] where it is another by now.
    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError>;

    /// Checks that an object is what it was, where reads do not.
    ///
    /// # Errors
    /// [`RemoteError::Changed`].
    fn check(&self, path: &str, object: &ObjectVersion) -> Result<(), RemoteError> {
        let _ = (path, object);
        Ok(())
    }

    /// Bytes of content and answers that came so far.
    fn received(&self) -> u64;

    /// True if directories have times of their own.
    fn has_dir_times(&self) -> bool {
        false
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SystemEntry {
    /// A directory, or a prefix that stands for one.
    Dir {
        /// When it was changed, if that is known.
        modified: Timestamp,
    },
    /// An object.
    Object(ObjectVersion),
    /// What is neither, and is only listed: it is refused, since a name that is missing would be deleted elsewhere.
    Other,
}

/// A name that stands for one that is no text: no file can have it, so it is refused where it is listed.
pub(crate) fn mark_not_utf8(shown: &str) -> String {
    format!("{shown}\0")
}

/// True if a name stands for one that is no text.
pub(crate) fn is_not_utf8(name: &str) -> bool {
    name.ends_with('\0')
}

/// A version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectVersion {
    /// Length in bytes.
    pub(crate) len: u64,
    /// When it was written.
    pub(crate) modified: Timestamp,
    /// What no other version of it has: an entity tag, a generation.
    pub(crate) token: String,
}

/// Names of one directory at most.
pub(crate) const MAX_NAMES: usize = 1 << 22;
/// Pages without a name that may follow each other.
const MAX_EMPTY: usize = 1000;

/// Watches that the pages of a list come to an end.
#[derive(Debug, Default)]
pub(crate) struct PageGuard {
    names: usize,
    empty: usize,
    last: String,
}

impl PageGuard {
    /// Takes a page of so many names.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] where there are more of them than anybody has.
    pub(crate) fn take(&mut self, names: usize) -> Result<(), RemoteError> {
        self.names += names;
        self.empty = if names == 0 { self.empty + 1 } else { 0 };
        if self.names > MAX_NAMES {
            return Err(RemoteError::Wrong(format!("a directory of more than {MAX_NAMES} names")));
        }
        if self.empty > MAX_EMPTY {
            return Err(Self::endless());
        }
        Ok(())
    }

    /// Takes the last name of a page, which is behind all that came before.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] where it is not.
    pub(crate) fn ascend(&mut self, last: Option<&str>) -> Result<(), RemoteError> {
        let Some(last) = last else { return Ok(()) };
        if !self.last.is_empty() && last <= self.last.as_str() {
            return Err(Self::endless());
        }
        last.clone_into(&mut self.last);
        Ok(())
    }

    /// A server that says the same for ever would keep us here.
    pub(crate) fn endless() -> RemoteError {
        RemoteError::Wrong("a list that does not go on".into())
    }
}

/// A page of a list.
pub(crate) struct PageSummary {
    /// Names in it.
    pub(crate) names: usize,
    /// True if it shows that the directory is there.
    pub(crate) is_there: bool,
    /// The last name, where names ascend.
    pub(crate) last: Option<String>,
    /// Word for the next page, if there is one.
    pub(crate) next: Option<String>,
}

/// Lists the directory at a path, page after page, each by the word of the one before.
///
/// # Errors
/// Those of a page; [`RemoteError::NotFound`] where no page shows that there is such a directory, [`RemoteError::Wrong`]
/// where the list does not end.
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
            Some(_) => return Err(PageGuard::endless()),
            None if is_there => return Ok(()),
            None => return Err(RemoteError::NotFound),
        }
    }
}

/// Beginning of the keys of all that is in the directory at a path.
pub(crate) fn prefix_of(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_to_an_end() {
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
