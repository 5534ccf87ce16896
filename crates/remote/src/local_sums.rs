//! Compares local files with remote objects by checksum.
//!
//! Old local versions become bases that both ends of a session know, and equal contents are recognised without reading
//! the object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use deltic_core::Digest;
use deltic_net::old_sums::OldSums;
use deltic_store::{Extents, Snapshot, StoreError};
use deltic_tree::RelPath;

use crate::evidence::{ComparedBy, Evidence};
use crate::local_file::LocalFile;
use crate::old_versions::OldVersions;
use crate::sums::{ObjectSums, SumAlgorithm, SummedUnit};
use crate::tree::RemoteTree;
use crate::{RemoteError, lock};

/// The receiver's half of the checksum comparison: checksums local files, and shares results with `SystemSums`.
#[derive(Debug, Default)]
pub struct LocalSums {
    tree: OnceLock<RemoteTree>,
    /// Extents of old versions, by the digest that names the version as a base.
    bases: Mutex<HashMap<Digest, Extents>>,
    /// Checksums of objects that one end requested, kept until the other end requests the same checksums.
    pending: Mutex<HashMap<RelPath, Arc<PendingSums>>>,
    old_versions: Arc<OldVersions>,
    evidence: Evidence,
}

/// Checksums of an object: outer `None` until requested, inner `None` if the path is not an object.
type PendingSums = Mutex<Option<Option<ObjectSums>>>;

/// Most objects with checksums that are kept for the other end.
const MAX_PENDING: usize = 1 << 14;

impl LocalSums {
    /// Sets the tree that is sent, and lends old versions to the tree. Requests for checksums go to the first tree.
    pub(crate) fn set_tree(&self, tree: &RemoteTree) {
        tree.set_old_versions(Arc::clone(&self.old_versions));
        self.tree.get_or_init(|| tree.clone());
    }

    /// Old versions that were opened, and counts of the units found in them.
    pub(crate) fn old_versions(&self) -> Arc<OldVersions> {
        Arc::clone(&self.old_versions)
    }

    /// Counts of the comparisons so far.
    pub(crate) fn evidence(&self) -> Evidence {
        self.evidence.clone()
    }

    /// The checksums of the object at `path`. Both ends request the checksums, but the system gets one request.
    fn sums(&self, path: &RelPath) -> Result<Option<ObjectSums>, RemoteError> {
        let Some(tree) = self.tree.get() else { return Ok(None) };
        let path = tree.source_path(path);
        let pending = {
            let mut all = lock(&self.pending);
            match all.remove(&path) {
                Some(pending) => pending,
                None => {
                    let pending = Arc::new(PendingSums::default());
                    if all.len() < MAX_PENDING {
                        all.insert(path.clone(), Arc::clone(&pending));
                    }
                    pending
                }
            }
        };
        let mut sums = lock(&pending);
        if sums.is_none() {
            *sums = Some(tree.sums(&path)?);
        }
        Ok(sums.clone().flatten())
    }

    /// The checksums of the object of `len` bytes at `path`, and the content's name. `None` if the checksums do not
    /// cover the object.
    fn sums_and_name(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<(ObjectSums, Digest)>, StoreError> {
        let sums = self.sums(path).map_err(|error| error.at("compare", path))?;
        Ok(sums.and_then(|sums| sums.content_digest(len).map(|name| (sums, name))))
    }
}

impl OldSums for LocalSums {
    fn base(&self, path: &RelPath, old: &dyn Snapshot) -> Option<Digest> {
        let sums = self.tree.get()?.sums(path).ok()??;
        let extents = LocalFile::new(old).extents(&sums).ok()??;
        // A file that changed meanwhile has other bytes than those checksummed.
        old.check_unchanged().ok()?;
        let base = Digest::from_bytes(*blake3::hash(&extents.encode()).as_bytes());
        lock(&self.bases).insert(base, extents);
        Some(base)
    }

    fn noted(&self, base: &Digest) -> Option<Extents> {
        lock(&self.bases).remove(base)
    }

    fn lend(&self, path: &RelPath, old: Box<dyn Snapshot>) {
        if let Some(tree) = self.tree.get() {
            self.old_versions.lend(tree.source_path(path), old);
        }
    }

    fn content(&self, path: &RelPath, file: &dyn Snapshot) -> Result<Option<Digest>, StoreError> {
        let (mut here, len) = (LocalFile::new(file), file.meta().len);
        let named = self.sums_and_name(path, len)?;
        if let Some((sums, name)) = &named
            && let Some(algorithm) = same_kept_sums(sums, file)?
        {
            self.evidence.note(ComparedBy::Kept(algorithm), len, 0);
            return Ok(Some(*name));
        }
        let compared = match &named {
            Some((sums, _)) => here.compare(sums)?,
            None => None,
        };
        let (Some((_, name)), Some((is_same, algorithm))) = (named, compared) else {
            self.evidence.note(ComparedBy::Bytes, len, len);
            return Ok(None);
        };
        let by = if here.used_stored_sums() {
            ComparedBy::Kept(algorithm)
        } else {
            ComparedBy::Summed(algorithm)
        };
        self.evidence.note(by, len, here.read());
        Ok(Some(if is_same { name } else { different_name(&name) }))
    }
}

/// Compares an object that has the checksums `sums` with `file`, by the checksums that the system of `file` keeps of
/// the same units. Returns `None` if that system keeps no such checksums, or if any checksum differs. Returns the
/// algorithm if all checksums are equal.
fn same_kept_sums(
    sums: &ObjectSums,
    file: &dyn Snapshot,
) -> Result<Option<SumAlgorithm>, StoreError> {
    let is_summed = sums.units.iter().all(|unit| unit.sum.is_some());
    let Some(algorithm) = sums.units.first().and_then(SummedUnit::algorithm).filter(|_| is_summed)
    else {
        return Ok(None);
    };
    let (Some(ours), Some(theirs)) = (sums.extents(file.meta().len), file.extents()?) else {
        return Ok(None);
    };
    Ok((ours == theirs).then_some(algorithm))
}

/// Returns a name that differs from `name`, for a different content.
fn different_name(name: &Digest) -> Digest {
    Digest::from_bytes(name.as_bytes().map(|byte| !byte))
}

/// The sender's half of the checksum comparison, in the end that reads the remote system.
#[derive(Debug)]
pub(crate) struct SystemSums(pub(crate) Arc<LocalSums>);

impl OldSums for SystemSums {
    fn base(&self, _: &RelPath, _: &dyn Snapshot) -> Option<Digest> {
        // The remote system is never a destination.
        None
    }

    fn noted(&self, base: &Digest) -> Option<Extents> {
        self.0.noted(base)
    }

    fn lend(&self, _: &RelPath, _: Box<dyn Snapshot>) {}

    fn content(&self, path: &RelPath, file: &dyn Snapshot) -> Result<Option<Digest>, StoreError> {
        Ok(self.0.sums_and_name(path, file.meta().len)?.map(|(_, name)| name))
    }
}
