//! Files of rules in local directories: below a root, and in the directories above it where rules are looked for there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use deltic_core::{RelPath, See};

use super::place::Place;
use super::snapshot::{LocalSnapshot, file_type};
use crate::StoreError;
use crate::dir::Dir;
use crate::error::At;
use crate::filter::{Reads, read_bounded};

/// A directory above a root, held while its file of rules is read.
#[derive(Debug)]
pub(crate) struct Above(Dir);

impl Above {
    /// Holds the directory at `path`, without a slash at its end; nothing where we may not.
    pub(crate) fn open(path: &[u8]) -> Option<Self> {
        let path = if path.is_empty() { b"/" } else { path };
        Dir::open_root(Path::new(OsStr::from_bytes(path))).ok().map(Self)
    }
}

impl Reads for Above {
    fn read(&self, path: &RelPath) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.read(path)
    }

    fn has(&self, path: &RelPath) -> bool {
        self.0.has(path)
    }
}

impl Reads for Dir {
    fn read(&self, path: &RelPath) -> Result<Option<Vec<u8>>, StoreError> {
        let action = "read rules";
        let place = match Place::of(self, action, path) {
            Err(StoreError::NotFound { .. } | StoreError::NotADir { .. }) => return Ok(None),
            place => place?,
        };
        match place.dir.find(&place.name).at(action, path)? {
            Some(stat) if !file_type(&stat).is_dir() => {
                // A look at the rules is no reading of the file, whatever is asked for of others.
                let see = See { untouched: true, ..See::default() };
                let snapshot = LocalSnapshot::open(&place.dir, &place.name, path, see);
                snapshot.and_then(|snapshot| read_bounded(&snapshot, path)).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn has(&self, path: &RelPath) -> bool {
        let found = Place::of(self, "look at", path).map(|place| place.dir.find(&place.name));
        matches!(found, Ok(Ok(Some(_))))
    }
}
