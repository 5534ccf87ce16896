//! What a system elsewhere can do: list, and give facts and ranges of what it keeps.

use std::fmt::Debug;
use std::ops::Range;

use deltic_tree::Timestamp;

use crate::RemoteError;
use crate::sums::Sums;

/// A system of files or objects, which is read. Paths are names joined by slashes, without one at either end; the root
/// is empty. Calls block, on any thread.
pub(crate) trait System: Debug + Send + Sync + 'static {
    /// The URL of a path, for people.
    fn url(&self, path: &str) -> String;

    /// What is at a path, if anything is.
    ///
    /// # Errors
    /// Where nobody can say.
    fn look(&self, path: &str) -> Result<Option<Found>, RemoteError>;

    /// Tells `each` the name of everything in the directory at a path, in any order. A name may be none that a file can
    /// have here.
    ///
    /// # Errors
    /// [`RemoteError::NotFound`] where there is no such directory; what was told until then is of no use.
    fn list(&self, path: &str, each: &mut dyn FnMut(String, Found)) -> Result<(), RemoteError>;

    /// The sums of an object; none where there are none.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] where it is another by now.
    fn sums(&self, path: &str, object: &Object) -> Result<Sums, RemoteError>;

    /// Fills `buf` with a range of an object, which is as long.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] where it is another by now.
    fn read(
        &self,
        path: &str,
        object: &Object,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError>;

    /// Checks that an object is what it was, where reads do not.
    ///
    /// # Errors
    /// [`RemoteError::Changed`].
    fn check(&self, path: &str, object: &Object) -> Result<(), RemoteError> {
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
pub(crate) enum Found {
    /// A directory, or a prefix that stands for one.
    Dir {
        /// When it was changed, if that is known.
        modified: Timestamp,
    },
    /// An object.
    Object(Object),
}

/// A version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    /// Length in bytes.
    pub(crate) len: u64,
    /// When it was written.
    pub(crate) modified: Timestamp,
    /// What no other version of it has: an entity tag, a generation.
    pub(crate) token: String,
}
