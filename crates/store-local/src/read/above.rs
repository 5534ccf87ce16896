//! Reads rules files from local directories: below a root, and in the directories above the root that rules search.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use deltic_tree::{MetaMask, RelPath};

use super::snapshot::LocalSnapshot;
use crate::handles::dir::{Dir, Resolution, Trust};
use crate::handles::place::Place;
use crate::handles::stat::file_type;
use crate::kernel::errno::At;
use deltic_store::filter::{Linked, Reads, Scopes, Start, cleaned, read_bounded};
use deltic_store::{Filter, StoreError};

/// Returns the scopes of `rules` below the root at `base`, a path that the operator chose.
pub(crate) fn scopes_below(rules: Filter, base: &Path, start: Start) -> Scopes {
    let absolute = || {
        let path = std::path::absolute(base).unwrap_or_else(|_| base.to_path_buf());
        cleaned(path.as_os_str().as_bytes())
    };
    let is_of_use = !rules.is_empty() && !base.as_os_str().is_empty();
    Scopes::new(rules, if is_of_use { absolute() } else { Box::default() }, start)
}

const ACTION: &str = "read rules";
/// Number of attempts to read a file that changes meanwhile.
const READS: usize = 3;

impl Reads for Dir {
    fn read(&self, path: &RelPath, linked: Linked) -> Result<Option<Vec<u8>>, StoreError> {
        // Another process, or this run, may replace or remove the file meanwhile.
        let mut tries = std::iter::repeat_with(|| read(self, path, linked)).take(READS);
        let read = tries.find(|read| !matches!(read, Err(StoreError::Changed { .. })));
        match read {
            Some(Err(StoreError::NotFound { .. } | StoreError::NotADir { .. })) => Ok(None),
            Some(read) => read,
            None => Err(StoreError::Changed { path: path.clone() }),
        }
    }

    fn has_file(&self, path: &RelPath) -> bool {
        let found = Place::parent_of(self, "look at", path)
            .map(|place| place.dir.stat_if_exists(&place.name));
        matches!(found, Ok(Ok(Some(_))))
    }

    fn reader_above(&self, path: &[u8]) -> Option<Box<dyn Reads>> {
        let path = if path.is_empty() { b"/" } else { path };
        Some(Box::new(Self::open_root(Path::new(OsStr::from_bytes(path)), &self.shared()).ok()?))
    }

    fn path_in_process(&self, base: &[u8], path: &[u8]) -> Vec<u8> {
        self.bounds().path_in_process(base, path)
    }

    fn may_read(&self, base: &[u8], path: &[u8]) -> bool {
        self.bounds().may_read(base, path)
    }
}

/// Returns the bytes of the file at `path` below `dir`. `None` if there is no such file.
fn read(dir: &Dir, path: &RelPath, linked: Linked) -> Result<Option<Vec<u8>>, StoreError> {
    let place = Place::parent_of(dir, ACTION, path)?;
    // Reading rules never changes the access time, even if the run changes other access times.
    let see = MetaMask { untouched: true, ..MetaMask::default() };
    let snapshot =
        match place.dir.stat_if_exists(&place.name).at(ACTION, path)?.as_ref().map(file_type) {
            None => return Ok(None),
            Some(kind) if kind.is_dir() => return Ok(None),
            Some(kind) if !kind.is_symlink() => {
                LocalSnapshot::open(&place.dir, &place.name, path, see)?
            }
            Some(_) if linked == Linked::Ignore => return Ok(None),
            Some(_) => {
                let way = Path::new(OsStr::from_bytes(place.name.as_bytes())).to_path_buf();
                let held = Arc::into_inner(place.dir).expect("nobody else holds it");
                match held.resolve(&way, Trust::Ours).at(ACTION, path)? {
                    Resolution::To(end) => LocalSnapshot::open_end(&end, path, see)?,
                    Resolution::Stranger(_) => {
                        return Err(StoreError::ForeignSymlink { link: path.to_string() });
                    }
                }
            }
        };
    read_bounded(&snapshot, path).map(Some)
}
