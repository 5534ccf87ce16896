//! Changes in a store, told to whoever asks (`deltic serve`).

mod telling;

use std::fmt;
use std::sync::Arc;

use deltic_tree::RelPath;

/// A name's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// A new version of a file, or another entry, is in its place.
    Put,
    /// It is gone.
    Gone,
}

/// Whoever hears which names change in a store; nobody by default.
///
/// It is told once a name is in its place, or gone, and not of attributes alone, nor of backups and old versions. In a
/// store that flushes at the end, what is told may not be safe from a power cut yet.
#[derive(Clone, Default)]
pub struct Changes(Option<Hears>);

type Hears = Arc<dyn Fn(&RelPath, Became) + Send + Sync>;

impl Changes {
    /// Has `hears` be told, on the thread that changes something: it is to be brief.
    #[must_use]
    pub fn to(hears: impl Fn(&RelPath, Became) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hears)))
    }

    /// The same for a store in the directory `above` of the one whose paths are told.
    #[must_use]
    pub fn below(&self, above: RelPath) -> Self {
        let Self(Some(hears)) = self else { return Self::default() };
        if above.is_root() {
            return self.clone();
        }
        let hears = Arc::clone(hears);
        Self::to(move |path, became| {
            let path = [above.as_bytes(), b"/", path.as_bytes()].concat();
            // One that is too long is no path of the volume.
            if let Ok(path) = RelPath::parse(path.strip_suffix(b"/").unwrap_or(&path)) {
                hears(&path, became);
            }
        })
    }

    pub(crate) fn tell(&self, path: &RelPath, became: Became) {
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
