//! A condition on the versions that new versions replace (`replaces` of a server's sessions).

use std::fmt;
use std::sync::Arc;

use deltic_store::StoreError;
use deltic_tree::RelPath;

use crate::read::snapshot::LocalSnapshot;

/// The versions of files that may be replaced; all by default.
///
/// A store checks the condition when a new version begins, and again at the commit, which then replaces no other version
/// than the checked one.
#[derive(Clone, Default)]
pub struct Replaceable(Option<Judge>);

type Judge = Arc<dyn Fn(Option<&LocalSnapshot>) -> bool + Send + Sync>;

impl Replaceable {
    /// Only versions for which `judge` is true may be replaced. `None` stands for no file: a new file may be created.
    #[must_use]
    pub fn only(judge: impl Fn(Option<&LocalSnapshot>) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(judge)))
    }

    /// Checks the file at `path`, which `open` opens. Returns the checked version; `None` without a condition and for a
    /// missing file.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the version may not be replaced, or the errors of `open`.
    pub(crate) fn check(
        &self,
        path: &RelPath,
        open: impl FnOnce() -> Result<LocalSnapshot, StoreError>,
    ) -> Result<Option<LocalSnapshot>, StoreError> {
        let Self(Some(judge)) = self else { return Ok(None) };
        let present = match open() {
            Err(StoreError::NotFound { .. }) => None,
            opened => Some(opened?),
        };
        if judge(present.as_ref()) {
            return Ok(present);
        }
        Err(StoreError::Conflict { path: path.clone() })
    }
}

impl fmt::Debug for Replaceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replaceable(all: {})", self.0.is_none())
    }
}
