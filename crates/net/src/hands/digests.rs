//! Digests of whole files: taken by reading them, or known from an earlier run.

use std::path::PathBuf;
use std::sync::OnceLock;

use deltic_core::{Digest, RelPath};
use deltic_protocol::options::Options;
use deltic_store::cache::Moment;
use deltic_store::{Cache, Snapshot, StoreError, Tree};

use super::Buffers;
use super::strategies::digest_of_bytes;

/// Who takes them, and where those are that are known.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    dir: Option<PathBuf>,
    /// Opened when the first is asked for: most runs ask for none.
    cache: OnceLock<Option<Cache>>,
}

impl Digests {
    /// With what is known in `dir`, if the options let it count.
    pub(crate) fn new(dir: Option<PathBuf>, options: &Options) -> Self {
        Self { dir: dir.filter(|_| options.compare.cached), cache: OnceLock::new() }
    }

    /// Of each of these files; none where one cannot be read, or changed meanwhile.
    pub(super) fn of<T: Tree>(
        &self,
        tree: &T,
        paths: &[RelPath],
        buffers: &Buffers,
    ) -> Vec<Option<Digest>> {
        let digest = |path: &RelPath| self.digest(&tree.open(path)?, buffers);
        paths.iter().map(|path| digest(path).ok()).collect()
    }

    fn digest(&self, file: &impl Snapshot, buffers: &Buffers) -> Result<Digest, StoreError> {
        let cache = self.cache.get_or_init(|| Cache::open(self.dir.as_deref()?)).as_ref();
        let known = cache.and_then(|cache| Some((cache, file.identity()?)));
        if let Some(digest) = known.and_then(|(cache, version)| cache.find(&version)) {
            return Ok(digest);
        }
        let begun = Moment::now();
        // One that grows while it is read is not read for ever.
        let len = file.meta().len;
        let digest = digest_of_bytes(buffers, |start, into| {
            let rest = usize::try_from(len.saturating_sub(start)).unwrap_or(usize::MAX);
            let room = into.len().min(rest);
            file.read_at(start, &mut into[..room])
        })?;
        file.check_unchanged()?;
        if let Some((cache, version)) = known {
            cache.note(&version, begun, &digest);
        }
        Ok(digest)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at trees from outside")]
mod tests {
    use super::*;
    use deltic_store::local::{LocalOptions, LocalStore};
    use std::fs;
    use std::time::Duration;

    /// What is asked of the same tree by two runs.
    fn twice(cached: bool) -> usize {
        let (dir, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bytes = vec![7; 3 << 20];
        fs::write(dir.path().join("a"), &bytes).unwrap();
        std::thread::sleep(Duration::from_millis(120));
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let mut options = Options::default();
        options.compare.cached = cached;
        let paths = ["a", "b"].map(|name| RelPath::parse(name.as_bytes()).unwrap());
        for _ in 0..2 {
            let digests = Digests::new(Some(cache.path().join("deltic")), &options);
            let found = digests.of(&store, &paths, &Buffers::default());
            let digest = Digest::from_bytes(blake3_of(&bytes));
            assert_eq!(found, [Some(digest), None]);
        }
        fs::read_dir(cache.path()).unwrap().count()
    }

    fn blake3_of(bytes: &[u8]) -> [u8; 32] {
        let mut digest = deltic_core::recipe::FileDigest::new();
        digest.push(bytes);
        *digest.finish().as_bytes()
    }

    #[test]
    fn a_digest_is_that_of_the_bytes_and_kept_only_if_that_is_asked_for() {
        assert_eq!((twice(true), twice(false)), (1, 0));
    }
}
