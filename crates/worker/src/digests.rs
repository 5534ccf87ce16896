//! Digests of whole files: computed by reading a file, or known from an earlier run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltic_core::Digest;
use deltic_core::recipe::FileDigest;
use deltic_engine::in_order::DigestInOrder;
use deltic_protocol::message::TransferKind;
use deltic_protocol::options::{Options, TrustedSums};
use deltic_protocol::report::{Action, Change, EntryType};
use deltic_protocol::sender::ToleratedChanges;
use deltic_protocol::work::Handle;
use deltic_store::{
    DigestQuery, FactStore, Listing, Moment, NoFacts, SettledVersion, Snapshot, StoreError, Tree,
    Version,
};
use deltic_tree::names::SortedNames;
use deltic_tree::{ComparedAttributes, Entry, RelPath};

use super::Buffers;
use super::rest::{is_restless, reopen_if_written};
use super::steps::digest_of_bytes;
use super::trusted;
use crate::lock::lock;
use crate::old_sums::OldSums;

/// Longest file in bytes that is read only to show its digest; the run waits meanwhile.
const MAX_SHOWN_BYTES: u64 = 64 << 20;

/// Digests of the files of a session, and of earlier sessions.
#[derive(Debug)]
pub(super) struct Digests {
    facts: Arc<dyn FactStore>,
    /// Digests that were noted earlier than this count as unknown.
    max_age: Option<Duration>,
    /// True if contents are compared (`--checksum`): the next run then asks for the digest of each sent file.
    compares: bool,
    /// True if each change is reported with the digest of its file.
    tells: bool,
    /// Files that the sender is sending.
    sending: Mutex<HashMap<Handle, Arc<Sending>>>,
    /// Kind of the stored sums that replace digests (`--trust-sums`). Names made of sums are not kept.
    trusted: Option<TrustedSums>,
    /// Supplies names of contents by sums. Both ends ask for such a name before reading a file.
    by_sums: Option<Arc<dyn OldSums>>,
}

/// Digests that a caller needs from a query: all of them, or as many as are known.
#[derive(Clone, Copy)]
enum Needs {
    All,
    Any,
}

/// The digest of a file that is being sent.
#[derive(Debug)]
struct Sending {
    begun: Moment,
    digest: Mutex<DigestInOrder>,
}

/// Lists a directory, or the `rest` of a listing. The listing includes file versions if contents are `compared`.
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
    /// Returns the digests in `facts`. If the options trust sums of blocks, no digests are used.
    pub(super) fn new(facts: Arc<dyn FactStore>, options: &Options) -> Self {
        let trusted = options.compare.trusted.filter(|_| options.checksum);
        let facts = if trusted.is_some() { Arc::new(NoFacts) } else { facts };
        Self {
            facts,
            max_age: options.compare.max_age_secs.map(Duration::from_secs),
            compares: options.checksum,
            tells: options.tells_digests,
            sending: Mutex::default(),
            trusted,
            by_sums: None,
        }
    }

    /// Returns these digests, with names by sums from `by_sums` for files that have sums.
    pub(super) fn with_sums(self, by_sums: Option<Arc<dyn OldSums>>) -> Self {
        Self { by_sums, ..self }
    }

    /// True if contents are compared by sums, and not by digests of their bytes.
    fn names_by_sums(&self) -> bool {
        self.by_sums.is_some() || self.trusted.is_some()
    }

    /// True if a sender computes the digest of each file that is sent whole.
    const fn hashes_sent(&self) -> bool {
        self.compares || self.tells
    }

    /// Starts to compute the digest of a file that is sent, unless the digest is known, or the next run will not use
    /// it.
    pub(super) fn begin(&self, handle: Handle, how: TransferKind, snapshot: &impl Snapshot) {
        let is_taken = match how {
            TransferKind::Whole => self.hashes_sent(),
            TransferKind::Strategy | TransferKind::Stronger => true,
            TransferKind::Recipe | TransferKind::Tail | TransferKind::Changes => false,
        };
        if is_taken && self.is_unknown(snapshot) {
            let sending = Sending { begun: self.facts.now(), digest: Mutex::default() };
            lock(&self.sending).insert(handle, Arc::new(sending));
        }
    }

    /// Adds a block of a sent file to the digest of the file.
    pub(super) fn push(
        &self,
        handle: Handle,
        start: u64,
        bytes: &[u8],
        snapshot: &impl Snapshot,
    ) -> Result<(), StoreError> {
        if !self.hashes_sent() {
            return Ok(());
        }
        let sending = lock(&self.sending).get(&handle).cloned();
        let read = |start, into: &mut [u8]| snapshot.read_at(start, into);
        sending.map_or(Ok(()), |sending| lock(&sending.digest).push(start, bytes, read))
    }

    /// Notes the digest of a file that was sent and did not change: `taken` if given, else the digest of the added
    /// blocks.
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

    /// Notes the digest of a small file that was read since `begun`, if digests of sent files are computed.
    pub(super) fn note_small(&self, snapshot: &impl Snapshot, begun: Moment, bytes: &[u8]) {
        if self.hashes_sent() && !bytes.is_empty() && self.is_unknown(snapshot) {
            self.note(snapshot, begun, &FileDigest::of(bytes));
        }
    }

    /// Drops the unfinished digest of a file that was not sent completely.
    pub(super) fn drop_sending(&self, handle: Handle) {
        lock(&self.sending).remove(&handle);
    }

    /// True if the digest of this version is unknown and can be kept.
    fn is_unknown(&self, snapshot: &impl Snapshot) -> bool {
        let version = self.version_of(snapshot);
        version.is_some_and(|version| self.find(version).is_none())
    }

    /// Returns the version of a file, if digests are kept.
    fn version_of(&self, file: &impl Snapshot) -> Option<Version> {
        self.are_kept().then(|| file.identity()).flatten()
    }

    /// True if digests are kept.
    pub(super) fn are_kept(&self) -> bool {
        self.facts.keeps_digests()
    }

    /// Notes the digest of a file that was read since `begun`.
    fn note(&self, snapshot: &impl Snapshot, begun: Moment, digest: &Digest) {
        if let Some(version) = self.version_of(snapshot) {
            self.note_read(version, begun, digest);
        }
    }

    fn note_read(&self, version: Version, begun: Moment, digest: &Digest) {
        if let Some(version) = SettledVersion::after_read(version, begun) {
            self.note_all(&[(version, *digest)]);
        }
    }

    /// Notes digests of versions.
    pub(super) fn note_all(&self, notes: &[(SettledVersion, Digest)]) {
        self.facts.note_digests(notes);
    }

    /// Returns for each path the digest of its file, or a name made of sums. Returns `None` for a file that cannot be
    /// read, or that changed meanwhile.
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
                    let file = reopen_if_written(tree, path, file.ok()?).ok()?;
                    self.content(&**sums, path, &file, buffers).ok()
                })
                .collect();
        }
        let versions = if self.are_kept() { tree.versions(paths) } else { Vec::new() };
        let mut digests = self.find_all(&versions);
        digests.resize(paths.len(), None);
        let unknown = (0..paths.len()).filter(|at| digests[*at].is_none()).collect::<Vec<_>>();
        let unknown_paths = unknown.iter().map(|at| paths[*at].clone()).collect::<Vec<_>>();
        for (at, file) in unknown.into_iter().zip(tree.open_all(&unknown_paths)) {
            let sought = versions.get(at).copied().flatten();
            let file = file.and_then(|file| reopen_if_written(tree, &paths[at], file));
            digests[at] = file.and_then(|file| self.digest(&file, sought, buffers)).ok();
        }
        digests
    }

    /// Returns the name of the file's content that `sums` supplies, else the digest of the file.
    fn content(
        &self,
        sums: &dyn OldSums,
        path: &RelPath,
        file: &impl Snapshot,
        buffers: &Buffers,
    ) -> Result<Digest, StoreError> {
        match sums.content(path, file)? {
            Some(content) => {
                let again = || Ok(sums.content(path, file)? == Some(content));
                is_restless(file, ToleratedChanges::default(), again).map(|_| content)
            }
            // Without sums from a store, the digest is the name.
            None => self.digest(file, None, buffers),
        }
    }

    /// Adds the digest of the file to `change`, if digests are reported and the digest is known. If contents are
    /// compared, a short file is read for its digest.
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
            let version = || tree.versions(paths).pop().flatten();
            self.are_kept().then(version).flatten().and_then(|version| self.find(version))
        };
    }

    /// Returns the content digests that a directory digest covers: one for each entry, or an empty list if contents are
    /// not compared. Returns `None` if a digest is unknown.
    pub(super) fn compared(
        &self,
        listing: &Listing,
        compared: ComparedAttributes,
    ) -> Option<Vec<Option<Digest>>> {
        if compared.contents { self.known(listing) } else { Some(Vec::new()) }
    }

    /// Returns the digest of each entry of a listing with versions; `None` for entries that are empty files, or no
    /// files. Returns `None` as a whole if any digest is unknown.
    fn known(&self, listing: &Listing) -> Option<Vec<Option<Digest>>> {
        let has_content = |entry: &Entry| entry.meta.is_file() && entry.meta.len > 0;
        let mut versions = Vec::with_capacity(listing.entries.len());
        let mut listed = listing.versions.iter().copied();
        for entry in &listing.entries {
            let version = listed.next().flatten();
            if has_content(entry) {
                versions.push(version?);
            }
        }
        let found = self.ask(&versions, Needs::All).into_iter().collect::<Option<Vec<_>>>()?;
        let mut found = found.into_iter();
        let of = |entry: &Entry| has_content(entry).then(|| found.next()).flatten();
        Some(listing.entries.iter().map(of).collect())
    }

    /// Returns the known digests of versions. An item is `None` if the version is missing or its digest is unknown.
    fn find_all(&self, versions: &[Option<Version>]) -> Vec<Option<Digest>> {
        let asked: Vec<_> = versions.iter().flatten().copied().collect();
        let mut found = self.ask(&asked, Needs::Any).into_iter();
        versions.iter().map(|version| version.and_then(|_| found.next().flatten())).collect()
    }

    fn ask(&self, versions: &[Version], needs: Needs) -> Vec<Option<Digest>> {
        let mut found = vec![None; versions.len()];
        self.facts.prefetch(versions);
        self.facts.digests(&self.query(versions, needs), &mut found);
        found
    }

    fn find(&self, version: Version) -> Option<Digest> {
        let mut found = [None];
        self.facts.digests(&self.query(&[version], Needs::Any), &mut found);
        found[0]
    }

    const fn query<'a>(&self, versions: &'a [Version], needs: Needs) -> DigestQuery<'a> {
        DigestQuery { versions, max_age: self.max_age, needs_all: matches!(needs, Needs::All) }
    }

    /// Computes the digest of a file. The digest of the version `sought` was looked up before and not found, so it is
    /// not looked up again.
    fn digest(
        &self,
        file: &impl Snapshot,
        sought: Option<Version>,
        buffers: &Buffers,
    ) -> Result<Digest, StoreError> {
        // `None` if the file is no longer the version that was looked up.
        let sought = sought.filter(|sought| file.has_version(*sought));
        let known = sought.or_else(|| self.version_of(file));
        let unsought = known.filter(|version| Some(*version) != sought);
        if let Some(digest) = unsought.and_then(|version| self.find(version)) {
            return Ok(digest);
        }
        let begun = self.facts.now();
        let take = || match self.trusted {
            Some(by) => trusted::name_of(file, by, buffers),
            None => digest_of_all(file, buffers),
        };
        let digest = take()?;
        match (file.check_settled(), known) {
            (Ok(()), Some(version)) => self.note_read(version, begun, &digest),
            (Ok(()), None) => {}
            (Err(_), _) => {
                is_restless(file, ToleratedChanges::default(), || Ok(take()? == digest))?;
            }
        }
        Ok(digest)
    }
}

/// Returns the digest of a file, up to the length that the file had when it was opened.
pub(super) fn digest_of_all(file: &impl Snapshot, buffers: &Buffers) -> Result<Digest, StoreError> {
    digest_of_bytes(buffers, file.meta().len, |start, into| file.read_at(start, into))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at trees from outside")]
mod tests {
    use super::*;
    use deltic_store_local::cache::LocalFacts;
    use deltic_store_local::{LocalOptions, LocalStore, SourceArg, SourceArgs};
    use deltic_store_local::{SourceOptions, SourceTree};
    use std::fs;
    use std::path::Path;

    use crate::kept::KeptFacts;

    /// Returns the digests of a session with facts in `dir`, if `options` allow their use.
    fn digests_in(dir: &Path, options: &Options) -> Digests {
        KeptFacts::new(Arc::new(LocalFacts::in_dir(dir.join("deltic"))), options, None).digests
    }

    /// Takes the digests of a tree in two runs. Returns the number of cache files.
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
            let digests = digests_in(cache.path(), &options);
            let found = digests.of(&store, &paths, &Buffers::default());
            let digest = Digest::from_bytes(blake3_of(&bytes));
            assert_eq!(found, [Some(digest), None]);
        }
        fs::read_dir(cache.path()).unwrap().count()
    }

    /// A listing is known only if the digests of all files are known.
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
        let digests = digests_in(cache.path(), &options);
        let path = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        let known = || digests.known(&store.list_versions(&path("dir")).unwrap());
        let take = |name| digests.of(&store, &[path(name)], &Buffers::default());
        assert_eq!(known(), None);
        let one = take("dir/a")[0];
        assert_eq!(known(), None, "one of two");
        let two = take("dir/b")[0];
        assert_eq!(known(), Some(vec![one, two, None]));
        let uncached = digests_in(cache.path(), &Options::default());
        assert_eq!(uncached.known(&store.list_versions(&path("dir")).unwrap()), None);
        fs::write(at("dir/b"), "three").unwrap();
        assert_eq!(known(), None, "it changed");
    }

    /// The file gets another hard link, as from a receiver's `--link-dest`. Only a second reading shows that the
    /// content is unchanged.
    #[test]
    fn a_file_that_gets_names_meanwhile_has_the_digest_that_it_reads_twice() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "content").unwrap();
        let mut args = SourceArgs::default();
        args.push(SourceArg::new(at("a").as_os_str()).unwrap()).unwrap();
        let sources = SourceTree::new(args, SourceOptions::default());
        let file = sources.open(&RelPath::parse(b"a").unwrap()).unwrap();
        fs::hard_link(at("a"), at("b")).unwrap();
        assert!(file.check_settled().is_err());
        let digest = || KeptFacts::default().digests.digest(&file, None, &Buffers::default());
        assert_eq!(digest().unwrap(), Digest::from_bytes(blake3_of(b"content")));
        let settled = |same| is_restless(&file, ToleratedChanges::default(), || Ok(same));
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
