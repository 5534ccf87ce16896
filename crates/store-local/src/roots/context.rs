//! State that local stores share.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_store::StoreError;
use deltic_tree::{Name, RelPath};

use crate::handles::dir::{
    PathBounds, QuotaLimits, VolumeDir, kept_volume, leads_out, volume_path,
};
use crate::handles::shared::SharedState;
use crate::roots::quota::{SpaceLedger, SpaceQuota};

/// State that several local stores share: the directories that paths may lead to, the quotas of volumes, and flushes of
/// a file system that are done together. Clones share the state. Two contexts share only the client of the facts
/// service. Paths of the default context may lead anywhere.
///
/// A [`NamedDir`](crate::NamedDir) has a context, which the store that is opened there shares. Stores of different
/// contexts on one directory still exclude each other.
#[derive(Clone, Debug, Default)]
pub struct StoreContext {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) space: Arc<SpaceLedger>,
}

impl StoreContext {
    /// Returns a context that is confined to the directory `path`, which becomes the working directory of the process.
    /// Also returns the real path of the directory.
    ///
    /// # Errors
    /// `path` is no directory that this user may enter.
    pub fn of_dir(path: &Path) -> io::Result<(Self, PathBuf)> {
        let (bounds, path) = PathBounds::of_dir(path)?;
        Ok((Self::confined(bounds), path))
    }

    /// Returns a context that is confined to these volumes: `/NAME/…` is a path in the volume of that name. Counts the
    /// files of volumes with quotas.
    ///
    /// # Errors
    /// A path is no directory that this user may enter.
    pub fn of_volumes(volumes: &[VolumeDir]) -> io::Result<Self> {
        let context = Self::confined(PathBounds::of_volumes(volumes)?);
        let space = Arc::new(SpaceLedger::of(volumes, &context.shared)?);
        Ok(Self { space, ..context })
    }

    fn confined(bounds: PathBounds) -> Self {
        let shared = SharedState { bounds, ..SharedState::default() };
        Self { shared: Arc::new(shared), space: Arc::default() }
    }

    /// Returns the quota of the volume `name`, if the volume has limits.
    #[must_use]
    pub fn volume_quota(&self, name: &Name) -> Option<Arc<SpaceQuota>> {
        self.quota_at(&volume_path(name))
    }

    /// Returns the quota of a token for `part` of the volume `name`. Counts all files in the part, even those of other
    /// users, but not old versions.
    ///
    /// # Errors
    /// The part is no directory, or may not be entered.
    pub fn token_quota(
        &self,
        name: &Name,
        part: &RelPath,
        limits: QuotaLimits,
    ) -> Result<Arc<SpaceQuota>, StoreError> {
        SpaceQuota::of_token(name, part, limits, &self.shared)
    }

    /// Returns the quota of the volume that contains `path`, the root of a store.
    pub(crate) fn quota_at(&self, path: &Path) -> Option<Arc<SpaceQuota>> {
        self.space.quota_at(path, &self.shared.bounds)
    }

    /// Returns a path in the form that clients use. If the first name is that of a [part](crate::part_path), the volume
    /// and the path of the part take its place.
    #[must_use]
    pub fn client_path<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        self.shared.bounds.client_path(path)
    }

    /// True if paths of this context may lead to some directories only.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.shared.bounds.are_confined()
    }

    /// True if `path` leads out of the directories that this context is confined to, as far as the path exists.
    #[must_use]
    pub fn leads_out(&self, path: &Path) -> bool {
        leads_out(path, &self.shared)
    }

    /// True if `path` leads into a volume that keeps old versions.
    #[must_use]
    pub fn keeps_versions(&self, path: &Path) -> bool {
        kept_volume(path, &self.shared).is_ok_and(|volume| volume.is_some())
    }

    /// Refuses paths into private directories of Deltic. In a volume, also refuses other spellings of their names.
    ///
    /// # Errors
    /// [`StoreError::BadName`].
    pub fn check_path(&self, action: &'static str, path: &RelPath) -> Result<(), StoreError> {
        self.shared.bounds.check_path(action, path)
    }
}

impl PartialEq for StoreContext {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && Arc::ptr_eq(&self.space, &other.space)
    }
}

impl Eq for StoreContext {}
