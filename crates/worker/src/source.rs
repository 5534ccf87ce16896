//! The sender's work: lists directories, opens files, scans and reads them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use deltic_core::recipe::{Chunk, digest_of};
use deltic_core::strategy::LinkModel;
use deltic_core::{DataMap, Digest, Fingerprinter, Key, Span, digest_of_changes, digest_of_data};
use deltic_engine::check::{SameAgain, chunks, small_digest};
use deltic_protocol::known::Known;
use deltic_protocol::limits::LARGE_FILE_BYTES;
use deltic_protocol::message::{NameLine, Payload, TransferKind};
use deltic_protocol::options::Options;
use deltic_protocol::report::{Change, Trouble, TroubleKind};
use deltic_protocol::sender::{
    Body, FileAnswer, FileSeal, FileWork, Listed, Opened, Sealing, Sender, SenderAnswer,
    SenderWork, Sums, ToleratedChanges,
};
use deltic_protocol::work::Handle;
use deltic_protocol::{Hello, Terms};
use deltic_store::{Listing, Snapshot, StoreError, Tree};
use deltic_tree::names::SortedNames;
use deltic_tree::{
    ComparedAttributes, DirDigest, DirDigestKey, DirHasher, Entry, Kind, Meta, RelPath,
};

mod scanning;
mod searching;
mod summing;

use searching::SearchStep;

use super::bases::HeldBase;
use super::digests::{digest_of_all, list};
use super::kept::KeptFacts;
use super::owners::{Accounts, NamedOwners};
use super::packing::{Adapting, Packer};
use super::rest::{is_restless, reopen_if_written};
use super::sparse::{SparseVersion, data_map};
use super::steps::{keeps, perform, read_one};
use super::{Agreed, Buffers, trouble, weight};
use crate::lock::lock;
use crate::moved_sources::{ListedAgain, MovedSources};
use crate::stage::{Stage, reading, within};
use crate::user::User;
use crate::{WorkCost, Worker};

/// Reads a tree for a [`Sender`].
pub struct SourceWorker<T: Tree> {
    tree: T,
    root: ListedRoot,
    called: NamedOwners,
    /// Key of directory digests and the attributes that the digests cover; `None` if the options send no digests.
    tallied: Option<(DirDigestKey, ComparedAttributes)>,
    options: Options,
    /// The present model of the link to the other end, if known.
    link: Mutex<Option<LinkModel>>,
    user: User,
    /// Means to adapt compression to the link.
    adapting: Option<Adapting>,
    /// Set before the first request for a file. Lists and offers may be made earlier, before the other end has
    /// answered.
    agreed: OnceLock<(Agreed, Packer)>,
    /// Fingerprinter of chunks until `agreed` is set.
    guessed: Fingerprinter,
    open: Mutex<HashMap<Handle, Arc<SparseVersion<T::Snapshot>>>>,
    /// Fingerprinters of transfers that another session began, and of files whose blocks have stored sums.
    fingerprinters: Mutex<HashMap<Handle, Fingerprinter>>,
    buffers: Buffers,
    kept: KeptFacts,
    /// Sources that the run removed.
    moved: ListedAgain,
}

/// Parts of the root's list besides its entries.
struct ListedRoot {
    /// Metadata of the root itself, if the root is part of the transfer.
    own: Option<Meta>,
    /// Missing sources, if the receiver wants to know about missing sources.
    missing: Mutex<Vec<RelPath>>,
}

impl<T: Tree> Worker<Sender> for SourceWorker<T> {
    fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
        self.tree.full_path(path)
    }

    fn ended(&self) {
        self.kept.flush();
    }

    fn describe(&self, change: &mut Change) {
        self.kept.digests.describe(&self.tree, change, &self.buffers);
    }

    fn terms(&self) -> Option<Terms> {
        self.agreed.get().map(|(agreed, _)| agreed.terms)
    }

    fn set_link(&self, link: LinkModel) {
        *lock(&self.link) = Some(link);
    }

    fn compress(&self, frame: &[u8]) -> Option<Vec<u8>> {
        self.agreed.get()?.1.compress(frame, *lock(&self.link))
    }

    fn cost(&self, work: &SenderWork) -> WorkCost {
        match work {
            SenderWork::File(_) | SenderWork::Digest { .. } => WorkCost::Heavy,
            SenderWork::List { .. }
            | SenderWork::Open { .. }
            | SenderWork::RemoveSource { .. }
            | SenderWork::Ask(_)
            | SenderWork::Close { .. } => WorkCost::Light,
        }
    }

    fn bytes(work: &SenderWork) -> usize {
        weight::of_source(work)
    }

    fn stage(work: &SenderWork) -> Stage {
        match work {
            SenderWork::File(FileWork::Scan { .. } | FileWork::Sum { .. }) => Stage::Scan,
            SenderWork::File(FileWork::Read { .. }) => Stage::Read,
            SenderWork::File(
                FileWork::Mend { .. }
                | FileWork::Search { .. }
                | FileWork::Find { .. }
                | FileWork::Join { .. },
            ) => Stage::Search,
            SenderWork::File(FileWork::Seal { .. } | FileWork::Hash { .. }) => Stage::Sum,
            SenderWork::Digest { .. } => Stage::Sum,
            SenderWork::List { .. }
            | SenderWork::Open { .. }
            | SenderWork::RemoveSource { .. }
            | SenderWork::Ask(_)
            | SenderWork::Close { .. } => Stage::Other,
        }
    }

    fn may_join(work: &SenderWork, next: &SenderWork) -> bool {
        matches!((work, next), (SenderWork::Open { .. }, SenderWork::Open { .. }))
    }

    fn perform_together(&self, works: Vec<SenderWork>) -> Vec<SenderAnswer> {
        let (mut paths, mut openings, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for work in works {
            match work {
                SenderWork::Open { handle, path, how, key, bears, base } => {
                    paths.push(path);
                    openings.push(Opening { handle, how, key, bears, base });
                }
                alone => answers.push(self.perform(alone)),
            }
        }
        // Pieces of work that may join are of the same kind, so one of the two lists is empty.
        let opened = self.tree.open_all(&paths);
        let openings = openings.iter().zip(&paths).zip(opened);
        answers
            .extend(openings.map(|((opening, path), opened)| self.opened(opening, path, opened)));
        answers
    }

    fn perform(&self, work: SenderWork) -> SenderAnswer {
        match work {
            SenderWork::List { dir, tally, rest } => {
                SenderAnswer::Listed(self.list(&dir, tally, rest))
            }
            SenderWork::Open { handle, path, how, key, bears, base } => {
                let opened = self.tree.open(&path);
                self.opened(&Opening { handle, how, key, bears, base }, &path, opened)
            }
            SenderWork::File(work) => SenderAnswer::File(self.read_file(work)),
            SenderWork::Digest { paths } => {
                let digests = self.kept.digests.of(&self.tree, &paths, &self.buffers);
                SenderAnswer::Digested(self.agreed().compared(digests))
            }
            SenderWork::RemoveSource { path, meta } => {
                self.moved.note(&path, &meta);
                let removed = self.tree.remove_source(&path, &meta);
                SenderAnswer::Removed(removed.map_err(|error| match error {
                    StoreError::Changed { path } => {
                        Trouble::at(TroubleKind::Vanished, &path, |path| {
                            format!(
                                "{path} has changed since it was sent: the source is not removed"
                            )
                        })
                    }
                    error => super::to_failed_trouble(&error),
                }))
            }
            SenderWork::Ask(question) => SenderAnswer::Asked(self.user.allows(&question)),
            SenderWork::Close { handle } => {
                lock(&self.open).remove(&handle);
                lock(&self.fingerprinters).remove(&handle);
                self.kept.digests.drop_sending(handle);
                self.kept.bases.drop_sending(handle);
                SenderAnswer::Closed
            }
        }
    }
}

impl<T: Tree> SourceWorker<T> {
    /// Returns the length in bytes of the longest file to offer before the receiver asks. For a longer file, extents
    /// may show the changes, so an offer would be wasted.
    pub fn most_offered(&self) -> u64 {
        let may_tell = self.kept.bases.may_be_kept() && self.tree.tells_extents();
        if may_tell { LARGE_FILE_BYTES } else { u64::MAX }
    }

    /// Starts a worker that reads `tree` for a session in which this end sent the greeting `ours`. `own` has the
    /// metadata of the root, if the root is part of the transfer.
    pub fn new(tree: T, own: Option<Meta>, options: &Options, ours: &Hello) -> Self {
        let tallied = options.tallied_attributes();
        Self {
            tree,
            tallied: tallied.map(|compared| (DirDigestKey::of(&ours.part), compared)),
            root: ListedRoot { own, missing: Mutex::default() },
            called: NamedOwners::new(&options.metadata, Accounts::NONE),
            options: options.clone(),
            link: Mutex::default(),
            user: User::default(),
            adapting: None,
            agreed: OnceLock::new(),
            guessed: ours.early_fingerprinter(),
            open: Mutex::default(),
            fingerprinters: Mutex::default(),
            buffers: Buffers::default(),
            kept: KeptFacts::default(),
            moved: ListedAgain::default(),
        }
    }

    /// Returns this worker with missing sources, which are reported to the receiver.
    pub fn with_missing(mut self, missing: Vec<RelPath>) -> Self {
        self.root.missing = Mutex::new(missing);
        self
    }

    /// Returns this worker with the sources that the run removed before.
    pub fn with_moved(self, moved: Option<MovedSources>) -> Self {
        Self { moved: ListedAgain::new(moved), ..self }
    }

    /// Returns this worker with facts about files from earlier runs.
    pub fn with_kept(self, kept: KeptFacts) -> Self {
        Self { kept, ..self }
    }

    /// Returns this worker with names of users and groups from `accounts`.
    pub fn with_accounts(self, accounts: Accounts) -> Self {
        Self { called: NamedOwners::new(&self.options.metadata, accounts), ..self }
    }

    /// Returns this worker with names of users and groups from another machine.
    pub fn calling(self, users: &[NameLine], groups: &[NameLine]) -> Self {
        Self { called: self.called.knowing(users, groups), ..self }
    }

    /// Returns the tree that is read.
    pub const fn tree(&self) -> &T {
        &self.tree
    }

    /// Returns this worker with `user`, which answers questions.
    pub fn with_user(self, user: User) -> Self {
        Self { user, ..self }
    }

    /// Returns this worker with means to adapt compression to the link. Without, payloads are compressed only on request.
    pub fn with_adapting(self, adapting: Adapting) -> Self {
        Self { adapting: Some(adapting), ..self }
    }

    /// Sets the terms of the session. Later calls have no effect.
    pub fn agree(&self, terms: Terms) {
        self.agreed.get_or_init(|| {
            let packer = Packer::new(&self.options, terms, self.adapting.clone());
            (Agreed::new(terms, &self.options), packer)
        });
    }

    fn agreed(&self) -> &Agreed {
        &self.terms_and_packer().0
    }

    fn packer(&self) -> &Packer {
        &self.terms_and_packer().1
    }

    fn terms_and_packer(&self) -> &(Agreed, Packer) {
        self.agreed.get().expect("no file is wanted before the greeting is over")
    }

    /// Performs work on an open file.
    fn read_file(&self, work: FileWork) -> FileAnswer {
        match work {
            FileWork::Scan { handle, spec, segment } => {
                FileAnswer::Scanned(self.scan(handle, &spec, &segment))
            }
            FileWork::Seal { handle, proof, bears } => {
                let sealed = self.digest_if_unchanged(handle, &proof, bears);
                FileAnswer::Sealed(sealed.map_err(|error| trouble(&error)))
            }
            FileWork::Read { handle, spans, sums } => {
                FileAnswer::Read(self.read(handle, &spans, sums))
            }
            FileWork::Mend { handle, gaps } => FileAnswer::Mended(self.mend(handle, &gaps)),
            FileWork::Sum { handle, summing, portion, digest } => {
                FileAnswer::Summed(self.sum(handle, summing, portion, digest))
            }
            FileWork::Hash { handle, strong, spans } => {
                FileAnswer::Hashed(self.hash(handle, strong, &spans))
            }
            FileWork::Search { handle, start, search, digest } => {
                let searcher = search.searcher(Some(self.agreed().key));
                let step = SearchStep { start, searcher, region: None, digest };
                let searched = self.search(handle, step);
                FileAnswer::Searched(searched.map_err(|error| trouble(&error)))
            }
            FileWork::Join { handle, start, searcher, region, digest } => {
                let step = SearchStep { start, searcher, region: Some(region), digest };
                let searched = self.search(handle, step);
                FileAnswer::Searched(searched.map_err(|error| trouble(&error)))
            }
            FileWork::Find { handle, region, blocks } => {
                let found = self.find(handle, region, &blocks);
                FileAnswer::Found(found.map_err(|error| trouble(&error)))
            }
        }
    }

    /// Packs literals for the present link.
    fn packed(&self, bytes: Vec<u8>) -> Payload {
        self.packer().pack(bytes, *lock(&self.link))
    }

    /// Lists `dir`, or the `rest` of a directory that is too long for one listing. With `tally`, also computes the
    /// digest of the directory, if the first listing is complete.
    fn list(
        &self,
        dir: &RelPath,
        tally: bool,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listed, Trouble> {
        // A missing command-line argument never existed; a missing directory below has vanished.
        let sort = if dir.is_root() { super::to_failed_trouble } else { trouble };
        let begins = rest.is_none();
        let tallied = self.tallied.filter(|_| tally);
        let listing = list(&self.tree, dir, rest, tallied.map(|(_, compared)| compared));
        let mut listing = listing.map_err(|error| sort(&error))?;
        self.moved.add_to(dir, begins, &mut listing);
        let own = self.root.own.clone().filter(|_| dir.is_root() && begins);
        let skipped = |path| Trouble::skipped_entry(&Kind::Dir, path);
        let destination = listing.destination.iter().map(skipped);
        let destination = destination.map(|trouble| trouble.with_reason("it is the destination"));
        let skipped = listing.skipped.iter().map(skipped);
        let warnings = listing.warnings.iter().map(|text| super::warning(text));
        let troubles = listing.errors.iter().map(sort).chain(skipped).chain(destination);
        let troubles = troubles.chain(warnings).collect();
        let missing = match dir.is_root() {
            true => std::mem::take(&mut *lock(&self.root.missing)),
            false => Vec::new(),
        };
        let whole = begins && listing.rest.is_none();
        let tally = tallied
            .filter(|_| whole)
            .and_then(|(key, compared)| self.tally(&listing, &key, compared));
        let Listing { entries, partial, is_empty_source, rest, .. } = listing;
        let [users, groups] = self.called.owner_names(own.as_ref(), &entries);
        Ok(Listed {
            own,
            tally,
            entries,
            troubles,
            users,
            groups,
            partial,
            is_empty_source,
            missing,
            rest,
        })
    }

    /// Returns the digest of a listed directory. Returns `None` if the digest covers contents and some are unknown.
    fn tally(
        &self,
        listing: &Listing,
        key: &DirDigestKey,
        compared: ComparedAttributes,
    ) -> Option<DirDigest> {
        let contents = self.kept.digests.compared(listing, compared)?;
        let mut contents = contents.iter();
        let mut hasher = DirHasher::new(key, compared);
        for Entry { name, meta } in &listing.entries {
            hasher.add(name.as_bytes(), meta, contents.next().and_then(Option::as_ref));
        }
        Some(hasher.digest())
    }

    fn opened(
        &self,
        opening: &Opening,
        path: &RelPath,
        snapshot: Result<T::Snapshot, StoreError>,
    ) -> SenderAnswer {
        if let Some(key) = &opening.key {
            let names = self.agreed().terms.fingerprinter_with(key);
            lock(&self.fingerprinters).insert(opening.handle, names);
        }
        let snapshot = snapshot.and_then(|snapshot| reopen_if_written(&self.tree, path, snapshot));
        let opened = snapshot.and_then(|snapshot| self.open_or_read_whole(opening, snapshot));
        SenderAnswer::Opened(opened.map_err(|error| trouble(&error)))
    }

    /// Keeps a file open, or reads all of a short file.
    fn open_or_read_whole(
        &self,
        opening: &Opening,
        snapshot: T::Snapshot,
    ) -> Result<Opened, StoreError> {
        let Opening { handle, how, bears, base, .. } = *opening;
        let meta = snapshot.meta().clone();
        if how == TransferKind::Whole
            && meta.len <= u64::from(self.agreed().terms.limits.block_bytes())
        {
            let body = Some(self.body(&snapshot, bears)?);
            return Ok(Opened { meta, body, known: Known::default() });
        }
        let terms = self.terms().filter(|_| how == TransferKind::Strategy);
        let keeps = terms.and_then(|terms| keeps(&self.options.strategy, terms, &snapshot));
        // The digest of a tail is not the digest of a whole version.
        let (changed, reason) = match how {
            TransferKind::Tail => (None, None),
            // Another program is writing, so changes may reach the disk after the extents were read.
            _ if snapshot.may_be_written() => (None, None),
            // The other end knows no bases. Without terms, the other end may not have greeted yet.
            _ if self.terms().is_some_and(|terms| !terms.bases) => (None, None),
            // Stored sums show what changed.
            _ if self.agreed.get().is_some_and(|(agreed, _)| agreed.blocks.is_some()) => {
                (None, None)
            }
            _ => {
                let can_copy = self.terms().is_some_and(|terms| terms.moved);
                let held = base.map(|base| HeldBase { base, can_copy });
                self.kept.bases.find_changes(handle, &snapshot, held)
            }
        };
        let map = if changed.is_none() { self.map(how, &snapshot)? } else { None };
        if changed.is_none() && map.is_none() {
            self.kept.digests.begin(handle, how, &snapshot);
        }
        let known = Known { recipe: None, changed, keeps, map: map.clone(), reason };
        lock(&self.open).insert(handle, Arc::new(SparseVersion::new(snapshot, map, keeps)));
        Ok(Opened { meta, body: None, known })
    }

    /// Returns the data map of a file with large holes, if holes can be sent to the receiver.
    fn map(
        &self,
        how: TransferKind,
        snapshot: &T::Snapshot,
    ) -> Result<Option<DataMap>, StoreError> {
        let may_tell = self.terms().is_some_and(|terms| terms.may_send_holes(&self.options));
        match how {
            TransferKind::Recipe | TransferKind::Whole if may_tell => data_map(snapshot),
            _ => Ok(None),
        }
    }

    /// Reads all of a file that is empty or has one block.
    fn body(&self, snapshot: &T::Snapshot, bears: ToleratedChanges) -> Result<Body, StoreError> {
        let (begun, mut bytes) = (self.kept.now(), vec![0; snapshot.meta().len as usize]);
        // A file that became shorter is not the file that was opened.
        let got = reading(|| snapshot.read_at(0, &mut bytes))?;
        let bears = if got < bytes.len() { ToleratedChanges::default() } else { bears };
        let restless = is_restless(snapshot, bears, || {
            let mut again = vec![0; bytes.len()];
            reading(|| snapshot.read_at(0, &mut again))?;
            Ok(again == bytes)
        })?;
        if !restless {
            self.kept.digests.note_small(snapshot, begun, &bytes);
        }
        let digest = small_digest(&self.agreed().names, &bytes);
        let payload = self.packed(bytes);
        Ok(Body { payload, sealed: FileSeal { digest, restless } })
    }

    /// Returns the digest of the bytes read from a file, after a check that the bytes belong to one version.
    fn digest_if_unchanged(
        &self,
        handle: Handle,
        proof: &Sealing,
        bears: ToleratedChanges,
    ) -> Result<FileSeal, StoreError> {
        let snapshot = self.snapshot(handle);
        let reads_again = || self.reads_again(&snapshot, &self.names(handle), proof);
        let restless = is_restless(&**snapshot, bears, reads_again)?;
        let (digest, taken) = match proof {
            Sealing::Nothing => return Ok(FileSeal { restless, ..FileSeal::UNPROVEN }),
            Sealing::Chunks(chunks) => {
                let digest = digest_of(chunks.iter());
                (snapshot.map().map_or(digest, |map| digest_of_data(&digest, map)), None)
            }
            Sealing::Bytes(digest) => (*digest, Some(digest)),
            Sealing::Changes(base, moved, blocks) => {
                (digest_of_changes(base, snapshot.meta().len, moved, &**blocks), None)
            }
        };
        if !restless {
            self.kept.bases.note_sent(handle, &**snapshot, &digest);
            self.kept.digests.note_sent(handle, &**snapshot, taken);
        }
        Ok(FileSeal { digest, restless })
    }

    /// Reads a file again. True if both readings gave the same bytes.
    fn reads_again(
        &self,
        snapshot: &SparseVersion<T::Snapshot>,
        names: &Fingerprinter,
        proof: &Sealing,
    ) -> Result<bool, StoreError> {
        let chunks = match proof {
            Sealing::Chunks(chunks) => chunks,
            // The unchanged blocks were not read the first time.
            Sealing::Changes(..) | Sealing::Nothing => return Ok(false),
            Sealing::Bytes(digest) => {
                return Ok(digest_of_all(&**snapshot, &self.buffers)? == *digest);
            }
        };
        let task = SameAgain::new(names, Arc::clone(chunks), snapshot.transferred_len());
        let read = read_one(|at, into| snapshot.read_packed(at, into));
        let Ok(is_same) = perform(&self.buffers, Stage::Sum, task, read)?;
        Ok(is_same && snapshot.has_same_holes()?)
    }

    fn snapshot(&self, handle: Handle) -> Arc<SparseVersion<T::Snapshot>> {
        let open = lock(&self.open);
        Arc::clone(open.get(&handle).expect("the machine closes a handle after its last work"))
    }

    fn names(&self, handle: Handle) -> Fingerprinter {
        let named = lock(&self.fingerprinters).get(&handle).cloned();
        let agreed =
            || self.agreed.get().map_or(&self.guessed, |(agreed, _)| &agreed.names).clone();
        named.unwrap_or_else(agreed)
    }

    fn read(
        &self,
        handle: Handle,
        spans: &[Span],
        sums: Sums,
    ) -> Result<(Payload, Vec<Chunk>), Trouble> {
        let snapshot = self.snapshot(handle);
        let mut bytes = vec![0; spans.iter().map(|span| span.len as usize).sum()];
        let mut rest = &mut bytes[..];
        // Adjacent chunks are read in one call.
        for run in spans.chunk_by(|one, next| one.end() == next.start) {
            let len = run.iter().map(|span| span.len as usize).sum();
            let (piece, after) = rest.split_at_mut(len);
            let got = reading(|| snapshot.read_packed(run[0].start, piece));
            let got = got.map_err(|error| trouble(&error))?;
            if got < piece.len() {
                return Err(shrunk(&**snapshot));
            }
            let pushed = self.kept.digests.push(handle, run[0].start, piece, &**snapshot);
            pushed.map_err(|error| trouble(&error))?;
            rest = after;
        }
        let chunks = match sums {
            Sums::Take => within(Stage::Sum, || chunks(&self.names(handle), spans, &bytes)),
            Sums::Known => Vec::new(),
        };
        Ok((self.packed(bytes), chunks))
    }
}

/// Arguments for opening a file, besides its path.
struct Opening {
    handle: Handle,
    how: TransferKind,
    key: Option<Key>,
    bears: ToleratedChanges,
    base: Option<Digest>,
}

fn shrunk(snapshot: &impl Snapshot) -> Trouble {
    match snapshot.check_unchanged() {
        Err(error) => trouble(&error),
        Ok(()) => Trouble::new(TroubleKind::Failed, "a file is shorter than its length says"),
    }
}
