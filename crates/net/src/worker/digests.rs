//! Digests of whole files: taken by reading them, or known from an earlier run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use deltic_core::Digest;
use deltic_core::recipe::FileDigest;
use deltic_engine::in_order::DigestInOrder;
use deltic_protocol::message::How;
use deltic_protocol::options::{Options, TrustedSums};
use deltic_protocol::report::{Action, Change, EntryType};
use deltic_protocol::sender::Bears;
use deltic_protocol::work::Handle;
use deltic_store::{Listing, Snapshot, StoreError, Tree, Version};
use deltic_store_local::cache::{Moment, RunCache};
use deltic_tree::names::SortedNames;
use deltic_tree::{ComparedAttributes, Entry, RelPath};

use super::Buffers;
use super::rest::{is_restless, rested};
use super::steps::digest_of_bytes;
use super::trusted;
use crate::lock::lock;
use crate::old_sums::OldSums;

/// The longest file that is read for no more than to show its digest: nothing else goes on meanwhile.
const MAX_SHOWN_BYTES: u64 = 64 << 20;

/// Takes digests of files, and keeps those that are known.
#[derive(Debug, Default)]
pub(super) struct Digests {
    dir: Option<PathBuf>,
    max_age: Option<Duration>,
    /// Opened when the first is asked for: most runs ask for none.
    cache: OnceLock<Option<RunCache>>,
    /// Contents are compared, so the digest of what is sent will be asked for.
    compares: bool,
    /// Changes are told with the digests of their files.
    tells: bool,
    /// Files under way at the sender.
    sending: Mutex<HashMap<Handle, Arc<Sending>>>,
    /// Contents are named by sums of this kind, and not by their digests: nothing of that is kept.
    trusted: Option<TrustedSums>,
    /// Knows contents by sums: both ends ask it before they read.
    by_sums: Option<Arc<dyn OldSums>>,
}

/// The digest of a file that is being sent.
#[derive(Debug)]
struct Sending {
    begun: Moment,
    digest: Mutex<DigestInOrder>,
}

/// Lists a directory, or the rest of one; where contents are `compared`, with what tells whose digests are known.
pub(super) fn list<T: Tree>(
    tree: &T,
    dir: &RelPath,
    rest: Option<Box<SortedNames>>,
    compared: Option<ComparedAttributes>,
) -> Result<Listing, StoreError> {
    if rest.is_none() && compared.is_some_and(|compared| compared.contents) {
        tree.list_versions(dir)
    } else {
        tree.list_some(dir, rest)
    }
}

impl Digests {
    /// With what is known in `dir`, if the options let it count.
    pub(super) fn new(dir: Option<PathBuf>, options: &Options) -> Self {
        let max_age = options.compare.max_age_secs.map(Duration::from_secs);
        let trusted = options.compare.trusted.filter(|_| options.checksum);
        let dir = dir.filter(|_| options.compare.cached && trusted.is_none());
        let Options { checksum, tells_digests, .. } = *options;
        let (compares, tells) = (checksum, tells_digests);
        Self { dir, max_age, compares, tells, trusted, ..Self::default() }
    }

    /// The same where contents are compared by sums, as far as there are any.
    pub(super) fn with_sums(self, by_sums: Option<Arc<dyn OldSums>>) -> Self {
        Self { by_sums, ..self }
    }

    /// True if what contents are compared by is not the digest of their bytes.
    fn names_by_sums(&self) -> bool {
        self.by_sums.is_some() || self.trusted.is_some()
    }

    /// True if a sender takes the digest of what it sends whole.
    const fn hashes_sent(&self) -> bool {
        self.compares || self.tells
    }

    /// Begins the digest of a file that is sent, unless it is known already or the next run has no use for it.
    pub(super) fn begin(&self, handle: Handle, how: How, snapshot: &impl Snapshot) {
        let is_taken = match how {
            How::Whole => self.hashes_sent(),
            How::Strategy | How::Stronger => true,
            How::Recipe | How::Tail | How::Changes => false,
        };
        if is_taken && self.is_unknown(snapshot) {
            let sending = Sending { begun: Moment::now(), digest: Mutex::default() };
            lock(&self.sending).insert(handle, Arc::new(sending));
        }
    }

    /// Takes a block of a file that is sent.
    pub(super) fn push(
        &self,
        handle: Handle,
        (start, bytes): (u64, &[u8]),
        snapshot: &impl Snapshot,
    ) -> Result<(), StoreError> {
        if !self.hashes_sent() {
            return Ok(());
        }
        let sending = lock(&self.sending).get(&handle).cloned();
        let read = |start, into: &mut [u8]| snapshot.read_at(start, into);
        sending.map_or(Ok(()), |sending| lock(&sending.digest).push(start, bytes, read))
    }

    /// Notes the digest of a file that was sent and did not change: the one that was `taken`, or that of its blocks.
    pub(super) fn note_sent(
        &self,
        handle: Handle,
        snapshot: &impl Snapshot,
        taken: Option<&Digest>,
    ) {
        let Some(sending) = lock(&self.sending).remove(&handle) else { return };
        let blocks = || lock(&sending.digest).finish(snapshot.meta().len);
        if let Some(digest) = taken.copied().or_else(blocks) {
            self.note(snapshot, sending.begun, &digest);
        }
    }

    /// Notes the digest of a small file that was read from `begun` on, if what is sent is hashed.
    pub(super) fn note_small(&self, snapshot: &impl Snapshot, begun: Moment, bytes: &[u8]) {
        if self.hashes_sent() && !bytes.is_empty() && self.is_unknown(snapshot) {
            self.note(snapshot, begun, &FileDigest::of(bytes));
        }
    }

    /// Forgets a file that was not sent to its end.
    pub(super) fn drop_sending(&self, handle: Handle) {
        lock(&self.sending).remove(&handle);
    }

    /// Says whether the digest of this version is not known and can be noted.
    fn is_unknown(&self, snapshot: &impl Snapshot) -> bool {
        let version = self.cache().and_then(|_| snapshot.identity());
        version.is_some_and(|version| self.find(version).is_none())
    }

    /// True if digests can be kept.
    pub(super) fn are_kept(&self) -> bool {
        self.cache().is_some()
    }

    fn note(&self, snapshot: &impl Snapshot, begun: Moment, digest: &Digest) {
        if let (Some(cache), Some(version)) = (self.cache(), snapshot.identity()) {
            cache.note(&version, begun, digest);
        }
    }

    /// Notes that of the version which was put in place from `begun` on. It was taken while that was written.
    pub(super) fn note_written(&self, version: &Version, begun: Moment, digest: &Digest) {
        if let Some(cache) = self.cache() {
            cache.note_written(version, begun, digest);
        }
    }

    /// Writes what waits: the session has ended.
    pub(super) fn write(&self) {
        self.cache.get().and_then(Option::as_ref).inspect(|cache| cache.write());
    }

    /// The digest of each of these files, or what it is called by sums; none where one cannot be read, or changed
    /// meanwhile.
    pub(super) fn of<T: Tree>(
        &self,
        tree: &T,
        paths: &[RelPath],
        buffers: &Buffers,
    ) -> Vec<Option<Digest>> {
        if let Some(sums) = &self.by_sums {
            let files = paths.iter().zip(tree.open_all(paths));
            return files
                .map(|(path, file)| {
                    let file = rested(tree, path, file.ok()?).ok()?;
                    self.content(&**sums, (path, &file), buffers).ok()
                })
                .collect();
        }
        let versions = self.cache().map_or_else(Vec::new, |cache| {
            cache.refresh();
            tree.versions(paths)
        });
        let known = versions.iter().map(|version| self.find((*version)?));
        let mut digests: Vec<_> = known.collect();
        digests.resize(paths.len(), None);
        let unknown = (0..paths.len()).filter(|at| digests[*at].is_none()).collect::<Vec<_>>();
        let unknown_paths = unknown.iter().map(|at| paths[*at].clone()).collect::<Vec<_>>();
        for (at, file) in unknown.into_iter().zip(tree.open_all(&unknown_paths)) {
            let sought = versions.get(at).copied().flatten();
            let file = file.and_then(|file| rested(tree, &paths[at], file));
            digests[at] = file.and_then(|file| self.digest(&file, sought, buffers)).ok();
        }
        digests
    }

    /// The name that `sums` gives the content of a file, else its digest.
    fn content(
        &self,
        sums: &dyn OldSums,
        (path, file): (&RelPath, &impl Snapshot),
        buffers: &Buffers,
    ) -> Result<Digest, StoreError> {
        match sums.content(path, file)? {
            Some(content) => {
                let again = || Ok(sums.content(path, file)? == Some(content));
                is_restless(file, Bears::default(), again).map(|_| content)
            }
            // What this end knows of earlier, the other one does not.
            None => self.digest(file, None, buffers),
        }
    }

    /// Says of a change the digest of its file, if that is asked for: one that is known, or with contents compared one
    /// that does not take long.
    pub(super) fn describe<T: Tree>(&self, tree: &T, change: &mut Change, buffers: &Buffers) {
        let came = matches!(change.action, Action::Created | Action::Updated);
        let is_file = change.item == EntryType::File && change.action != Action::Deleted;
        if !self.tells || !is_file || !(came || self.compares) {
            return;
        }
        let paths = std::slice::from_ref(&change.path);
        change.facts.digest = if change.facts.len == 0 {
            Some(FileDigest::of(b""))
        } else if self.compares && !self.names_by_sums() && change.facts.len <= MAX_SHOWN_BYTES {
            self.of(tree, paths, buffers).pop().flatten()
        } else {
            self.cache().and_then(|_| self.find(tree.versions(paths).pop().flatten()?))
        };
    }

    /// The contents that a directory digest needs: none where they are not compared, or those of all entries.
    pub(super) fn compared(
        &self,
        listing: &Listing,
        compared: ComparedAttributes,
    ) -> Option<Vec<Option<Digest>>> {
        if compared.contents { self.known(listing) } else { Some(Vec::new()) }
    }

    /// The content of each entry of a listing with its versions, where it is a file that is not empty; `None` unless
    /// all of these are known.
    fn known(&self, listing: &Listing) -> Option<Vec<Option<Digest>>> {
        self.cache().inspect(|cache| cache.refresh());
        let mut versions = listing.versions.iter().copied();
        let mut known = |entry: &Entry| {
            let version = versions.next().flatten();
            let has_content = entry.meta.is_file() && entry.meta.len > 0;
            if has_content { self.find(version?).map(Some) } else { Some(None) }
        };
        listing.entries.iter().map(&mut known).collect()
    }

    fn cache(&self) -> Option<&RunCache> {
        let open = || RunCache::open(self.dir.as_deref()?, self.max_age);
        self.cache.get_or_init(open).as_ref()
    }

    fn find(&self, version: Version) -> Option<Digest> {
        self.cache()?.find(&version)
    }

    /// The digest of a file; it is not known if it is the version that was `sought`.
    fn digest(
        &self,
        file: &impl Snapshot,
        sought: Option<Version>,
        buffers: &Buffers,
    ) -> Result<Digest, StoreError> {
        // What was sought can be relied on.
        let sought = sought.filter(|sought| file.is(*sought));
        let known =
            self.cache().and_then(|cache| Some((cache, sought.or_else(|| file.identity())?)));
        let unsought = known.filter(|(_, version)| Some(*version) != sought);
        if let Some(digest) = unsought.and_then(|(cache, version)| cache.find(&version)) {
            return Ok(digest);
        }
        let begun = Moment::now();
        let take = || match self.trusted {
            Some(by) => trusted::name_of(file, by, buffers),
            None => digest_of_all(file, buffers),
        };
        let digest = take()?;
        match (file.check_settled(), known) {
            (Ok(()), Some((cache, version))) => cache.note(&version, begun, &digest),
            (Ok(()), None) => {}
            (Err(_), _) => {
                is_restless(file, Bears::default(), || Ok(take()? == digest))?;
            }
        }
        Ok(digest)
    }
}

/// Takes the digest of as much of a file as there was when it was opened.
pub(super) fn digest_of_all(file: &impl Snapshot, buffers: &Buffers) -> Result<Digest, StoreError> {
    digest_of_bytes(buffers, file.meta().len, |start, into| file.read_at(start, into))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at trees from outside")]
mod tests {
    use super::*;
    use deltic_store_local::{LocalOptions, LocalStore, SourceArg, SourceArgs};
    use deltic_store_local::{SourceOptions, Sources};
    use std::fs;

    /// Asks the same of a tree in two runs.
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

    /// A directory of known files.
    #[test]
    fn a_listing_is_known_if_all_files_are() {
        let (dir, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        for (name, bytes) in [("dir/a", "one"), ("dir/b", "two"), ("dir/empty", "")] {
            fs::write(at(name), bytes).unwrap();
        }
        std::thread::sleep(Duration::from_millis(120));
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let mut options = Options::default();
        options.compare.cached = true;
        let digests = Digests::new(Some(cache.path().join("deltic")), &options);
        let path = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        let known = || digests.known(&store.list_versions(&path("dir")).unwrap());
        let take = |name| digests.of(&store, &[path(name)], &Buffers::default());
        assert_eq!(known(), None);
        let one = take("dir/a")[0];
        assert_eq!(known(), None, "one of two");
        let two = take("dir/b")[0];
        assert_eq!(known(), Some(vec![one, two, None]));
        let uncached = Digests::new(Some(cache.path().join("deltic")), &Options::default());
        assert_eq!(uncached.known(&store.list_versions(&path("dir")).unwrap()), None);
        fs::write(at("dir/b"), "three").unwrap();
        assert_eq!(known(), None, "it changed");
    }

    /// A receiver gives it names: links to alternates of the same inode. Only a second reading shows that it is at
    /// rest.
    #[test]
    fn a_file_that_gets_names_meanwhile_has_the_digest_that_it_reads_twice() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "content").unwrap();
        let mut args = SourceArgs::default();
        args.push(SourceArg::new(at("a").as_os_str()).unwrap()).unwrap();
        let sources = Sources::new(args, SourceOptions::default());
        let file = sources.open(&RelPath::parse(b"a").unwrap()).unwrap();
        fs::hard_link(at("a"), at("b")).unwrap();
        assert!(file.check_settled().is_err());
        let digest = || Digests::default().digest(&file, None, &Buffers::default());
        assert_eq!(digest().unwrap(), Digest::from_bytes(blake3_of(b"content")));
        let settled = |same| is_restless(&file, Bears::default(), || Ok(same));
        assert!(!settled(true).unwrap() && settled(false).is_err());
        fs::write(at("a"), "something else").unwrap();
        assert!(digest().is_err() && settled(true).is_err());
    }

    fn blake3_of(bytes: &[u8]) -> [u8; 32] {
        *FileDigest::of(bytes).as_bytes()
    }

    #[test]
    fn a_digest_is_that_of_the_bytes_and_kept_only_if_that_is_asked_for() {
        assert_eq!((twice(true), twice(false)), (1, 0));
    }
}
