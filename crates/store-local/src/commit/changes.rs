//! Reports changes in a store to a callback (`deltic serve`).

use std::fmt;
use std::sync::Arc;

use deltic_tree::RelPath;

/// Kind of change to a name, as reported by [`Changes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// A new version of a file, or a new entry, has this name.
    Put,
    /// The name is removed.
    Gone,
}

/// A callback for changes of names in a store; empty by default.
///
/// The callback is called once a name is in place or removed. Changes of attributes alone, backups and old versions
/// are not reported. In a store that flushes at the end, a reported change may still be lost in a power cut.
#[derive(Clone, Default)]
pub struct Changes(Option<Hears>);

type Hears = Arc<dyn Fn(&RelPath, Became) + Send + Sync>;

impl Changes {
    /// Reports changes to `hears`. The call is on the thread that makes the change, so `hears` must return soon.
    #[must_use]
    pub fn reporting_to(hears: impl Fn(&RelPath, Became) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hears)))
    }

    /// Returns the callback for a store in the directory `above`. Paths are reported relative to the outer store.
    #[must_use]
    pub fn for_subdirectory(&self, above: RelPath) -> Self {
        let Self(Some(hears)) = self else { return Self::default() };
        if above.is_root() {
            return self.clone();
        }
        let hears = Arc::clone(hears);
        Self::reporting_to(move |path, became| {
            let path = [above.as_bytes(), b"/", path.as_bytes()].concat();
            // A path that is too long is no path of the volume.
            if let Ok(path) = RelPath::parse(path.strip_suffix(b"/").unwrap_or(&path)) {
                hears(&path, became);
            }
        })
    }

    pub(crate) fn report(&self, path: &RelPath, became: Became) {
        if let Self(Some(hears)) = self {
            hears(path, became);
        }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({})", self.0.is_some())
    }
}
