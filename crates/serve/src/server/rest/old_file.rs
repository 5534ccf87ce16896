//! An old version of a file as a tree, which a session reads.

use deltic_store::{Listing, Snapshot, StoreError, Tree};
use deltic_store_local::{LocalSnapshot, OldVersions, VersionId};
use deltic_tree::{Entry, Kind, Meta, Name, RelPath};

use super::versions::{kept, version};
use crate::server::problem::Problem;
use crate::server::volume::Volume;

/// A tree with one file, which is an old version.
pub(crate) struct OldFile {
    kept: OldVersions,
    path: RelPath,
    id: VersionId,
    entry: Entry,
}

impl OldFile {
    /// Opens the old version `id` of the file at `path`.
    pub(crate) fn open(volume: &Volume, path: RelPath, id: VersionId) -> Result<Self, Problem> {
        let snapshot = version(volume, &path, id)?;
        let Meta { len, modified, mode, .. } = *snapshot.meta();
        let meta = Meta::without_owner(Kind::File, len, modified, mode);
        let (_, name) = path.split_last().expect("a version is of a file");
        Ok(Self { kept: kept(volume)?, path, id, entry: Entry { name, meta } })
    }

    /// Returns the name of the file.
    pub(crate) const fn name(&self) -> &Name {
        &self.entry.name
    }
}

impl Tree for OldFile {
    type Snapshot = LocalSnapshot;

    fn list(&self, _root: &RelPath) -> Result<Listing, StoreError> {
        Ok(Listing { entries: vec![self.entry.clone()], ..Listing::default() })
    }

    fn open(&self, _file: &RelPath) -> Result<LocalSnapshot, StoreError> {
        self.kept.open(&self.path, self.id)
    }
}
