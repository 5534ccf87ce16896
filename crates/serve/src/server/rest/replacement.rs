//! Replaces files. Every new version of a file that does not come by a session passes the same steps:
//!
//! 1. A [`ReplaceTarget`] exists only for a client with the rights.
//! 2. The conditions of the request hold, for a whole new version ([`ReplaceTarget::begin`]) or for a change of the
//!    present version ([`ReplaceTarget::open`]). Then a [`Replacement`] is staged, below directories that exist.
//! 3. [`Replacement::commit`] looks up the present rights of the token, puts the new version in place, and flushes.
//! 4. A [`CommittedFile`] has the entity tag.

mod resumed;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use deltic_store::{Commit, Keep, Rebuild, Replaces, Snapshot, Store, StoreError, Tree, Version};
use deltic_store_local::{LocalRebuild, LocalSnapshot, LocalStore};
use deltic_tree::{Kind, Meta, RelPath, Timestamp};

pub(super) use self::resumed::{ReplacementRecord, ResumedReplacement};
use super::conditions::{
    Present, check_change, check_conditions, commit_problem, has_conditions, names_version, tag,
    tag_of_new,
};
use super::request::{Above, At, no_store};
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::{Right, Volume};
use crate::token::TokenHash;

/// A file that a client has the right to replace.
pub(crate) struct ReplaceTarget {
    server: Arc<Server>,
    token: TokenHash,
    pub(crate) volume: Volume,
    pub(crate) file: RelPath,
    /// Headers with the conditions of the request.
    headers: HeaderMap,
}

impl ReplaceTarget {
    /// Checks the rights of a client. `reveals` is true if the change, or its answer, reveals the present content:
    /// then the client needs the right to read too.
    pub(crate) fn new(
        server: &Arc<Server>,
        known: &Known,
        volume: &str,
        file: RelPath,
        reveals: bool,
    ) -> Result<Self, Problem> {
        let its = server.volume_for(Right::Write, known, volume, &file)?;
        if reveals {
            server.volume_for(Right::Read, known, volume, &file)?;
        }
        let (server, headers) = (Arc::clone(server), HeaderMap::new());
        Ok(Self { server, token: known.token, volume: its, file, headers })
    }

    /// Checks the rights of the client of a request. The request's conditions are checked later. The answer to a
    /// condition with a time reveals the time of the present file.
    pub(super) fn for_request(
        server: &Arc<Server>,
        at: &At,
        reveals: bool,
    ) -> Result<Self, Problem> {
        let reveals = reveals || at.headers.contains_key(header::IF_UNMODIFIED_SINCE);
        let target = Self::new(server, &at.known, &at.volume, at.file()?, reveals)?;
        Ok(Self { headers: at.headers.clone(), ..target })
    }

    /// Checks the rights of a client to replace the version with the entity tag `tag`.
    pub(super) fn if_match(
        server: &Arc<Server>,
        known: &Known,
        volume: &str,
        file: RelPath,
        tag: &str,
    ) -> Result<Self, Problem> {
        let bad = || Problem::new(StatusCode::BAD_REQUEST, "replaces: not an entity tag");
        // `*`, or several tags, would replace a version that the client does not know.
        let opaque = tag.strip_prefix("W/").unwrap_or(tag);
        let opaque = opaque.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        opaque.filter(|tag| !tag.contains('"')).ok_or_else(bad)?;
        let condition = tag.parse().map_err(|_| bad())?;
        let headers = HeaderMap::from_iter([(header::IF_MATCH, condition)]);
        Ok(Self { headers, ..Self::new(server, known, volume, file, false)? })
    }

    /// Refuses a new version that is longer than an upload may be.
    pub(crate) fn check_len(&self, len: u64) -> Result<(), Problem> {
        let most = self.server.upload_bytes;
        if len <= most {
            return Ok(());
        }
        let why = format!("more than {most} bytes in one file");
        Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why))
    }

    /// Checks the conditions, makes the directories above the file, and stages a whole new version of `len` bytes.
    /// Blocks on the disk.
    pub(super) fn begin(self, len: u64) -> Result<Replacement, Problem> {
        let store = self.volume.store()?;
        let present = check_conditions(&self.server, &store, &self.file, &self.headers)?;
        let mut above = Above::new(&store);
        above.make_for(&self.file)?;
        let new = store.create(&self.file, len)?;
        let replaced = ReplacedEntry::of(present, &self.headers);
        Ok(Replacement { target: self, store, above, new, replaced })
    }

    /// Opens the present version for a change, and checks the conditions for this version. Blocks on the disk.
    pub(crate) fn open(self, store: LocalStore) -> Result<PresentFile, ReplaceError> {
        let opened = store.open(&self.file);
        let is_known = matches!(opened, Ok(_) | Err(StoreError::NotFound { .. }));
        if is_known && has_conditions(&self.headers) {
            let tagged = opened.as_ref().ok();
            let tagged = tagged.map(|old| (tag(&self.server, old), old.meta().modified));
            let present = tagged.as_ref();
            let present = present.map(|(tag, modified)| Present { tag, modified: *modified });
            check_change(&self.headers, present)?;
        }
        let old = Arc::new(opened?);
        Ok(PresentFile { target: self, store, old })
    }
}

/// The opened present version of a file. The client may change the file, and the conditions hold for this version.
pub(crate) struct PresentFile {
    target: ReplaceTarget,
    pub(crate) store: LocalStore,
    pub(crate) old: Arc<LocalSnapshot>,
}

impl PresentFile {
    /// Stages a new version of `len` bytes, which replaces this version alone.
    pub(crate) fn begin(self, len: u64) -> Result<Replacement, StoreError> {
        let Self { target, store, old } = self;
        let (above, new) = (Above::new(&store), store.create(&target.file, len)?);
        Ok(Replacement { target, store, above, new, replaced: ReplacedEntry::Version(old) })
    }
}

/// A staged new version of a file. Only [`ReplaceTarget::begin`] and [`PresentFile::begin`] make a replacement, after
/// rights and conditions were checked. Dropping the value removes the staged file.
pub(crate) struct Replacement {
    target: ReplaceTarget,
    store: LocalStore,
    above: Above,
    /// The staged file.
    pub(crate) new: LocalRebuild,
    replaced: ReplacedEntry,
}

/// The entry that a replacement expects at its path.
enum ReplacedEntry {
    Nothing,
    /// A file with this length, time and mode.
    Seen(Meta),
    /// The version that the conditions name, or that the new version was made from.
    Version(Arc<LocalSnapshot>),
}

impl ReplacedEntry {
    /// Returns what a request with these conditions replaces, if `present` is the present version.
    fn of(present: Option<LocalSnapshot>, headers: &HeaderMap) -> Self {
        match present {
            None => Self::Nothing,
            Some(version) if names_version(headers) => Self::Version(Arc::new(version)),
            Some(version) => Self::Seen(version.meta().clone()),
        }
    }
}

/// Attributes of a new version.
pub(crate) struct NewAttributes {
    pub(crate) meta: Meta,
    /// The attributes to set.
    pub(crate) keep: Keep,
    /// Modification time to set on the file's directory.
    pub(crate) dir_modified: Option<Timestamp>,
}

impl NewAttributes {
    /// Returns the attributes for a file of `len` bytes that a request made: the present time, and the mode of new
    /// files.
    pub(super) fn usual(len: u64) -> Self {
        let meta = Meta::without_owner(Kind::File, len, Timestamp::default(), 0o666);
        Self { meta, keep: Keep::default(), dir_modified: None }
    }
}

impl Replacement {
    /// Writes bytes of the new version, unless the token was revoked or lost the right meanwhile. Blocks on the disk.
    pub(super) fn add(&self, start: u64, bytes: &[u8]) -> Result<(), Problem> {
        self.target.check_again()?;
        Ok(self.new.write(start, bytes)?)
    }

    /// Prepares to write at most `bytes` of the new version in all: checks the right to write again, and keeps space
    /// reserved for these bytes only. Blocks on the disk.
    pub(super) fn reserve_only(&mut self, bytes: u64) -> Result<(), Problem> {
        self.target.check_again()?;
        Ok(self.new.reserve_only(bytes)?)
    }

    /// Puts the new version in place in one step, and flushes, unless the token was revoked or lost the right
    /// meanwhile, or another version is there by now. Blocks on the disk.
    pub(crate) fn commit(self, attributes: NewAttributes) -> Result<CommittedFile, ReplaceError> {
        let Self { target, store, mut above, mut new, replaced } = self;
        new.set_author(&target.check_again()?);
        // Another client may have removed the empty directory.
        above.make_for(&target.file)?;
        let NewAttributes { meta, keep, dir_modified } = attributes;
        let replaces = match &replaced {
            ReplacedEntry::Nothing => Replaces::Nothing,
            ReplacedEntry::Seen(meta) => Replaces::Seen(meta),
            ReplacedEntry::Version(old) => Replaces::Version(&**old),
        };
        let (version, is_whole) = match new.commit(Commit { meta: &meta, keep, replaces }) {
            // The new version is in place.
            Err(StoreError::AttributesNotSet { .. }) => (None, false),
            Err(error) => return Err(target.commit_error(error)),
            Ok(version) => (version, true),
        };
        above.keep();
        let is_whole = set_dir_time(&store, &target.file, dir_modified) && is_whole;
        store.flush()?;
        let is_new = matches!(replaced, ReplacedEntry::Nothing);
        Ok(CommittedFile { target, store, version, is_new, is_whole })
    }
}

impl ReplaceTarget {
    /// Checks the right to write again: settings and tokens may change while an upload lasts. Returns the name of the
    /// token.
    fn check_again(&self) -> Result<String, Problem> {
        let known = self.server.known_begun(self.token)?;
        let volume = self.volume.name.to_string();
        self.server.volume_for(Right::Write, &known, &volume, &self.file)?;
        Ok(known.grant.name)
    }

    /// Returns the error of a failed commit: a failed condition, if the request had conditions.
    fn commit_error(&self, error: StoreError) -> ReplaceError {
        match has_conditions(&self.headers) {
            true => ReplaceError::Refused(commit_problem(&self.headers, error)),
            false => ReplaceError::Store(error),
        }
    }
}

/// Sets the modification time of a file's directory. Returns false if that failed.
fn set_dir_time(store: &LocalStore, file: &RelPath, modified: Option<Timestamp>) -> bool {
    let (Some(modified), Some((dir, _))) = (modified, file.split_last()) else { return true };
    let meta = Meta::without_owner(Kind::Dir, 0, modified, 0o777);
    store.set_meta(&dir, &meta, Keep { times: true, ..Keep::default() }).is_ok()
}

/// A file with a new version in place, flushed.
pub(crate) struct CommittedFile {
    target: ReplaceTarget,
    store: LocalStore,
    /// Identity of the new version, if the file system tells versions apart.
    pub(crate) version: Option<Version>,
    /// True if no file was there.
    is_new: bool,
    /// True if all attributes were set.
    pub(crate) is_whole: bool,
}

impl CommittedFile {
    /// Returns the answer to the request, with the entity tag of the new version.
    pub(super) fn answer(&self) -> Result<Response, Problem> {
        let status = if self.is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
        let response = Response::builder().status(status).header(header::ETAG, self.tag()?);
        Ok(no_store(response.body(Body::empty()).expect("headers are plain text")))
    }

    /// Returns the entity tag of the new version.
    pub(super) fn tag(&self) -> Result<String, StoreError> {
        let Self { target, store, version, .. } = self;
        tag_of_new(&target.server, store, &target.file, version.as_ref())
    }
}

/// Reason why a file was not replaced.
#[derive(Debug)]
pub(crate) enum ReplaceError {
    /// The request is refused with this answer.
    Refused(Problem),
    /// The store failed, or the file has another version by now.
    Store(StoreError),
}

impl From<Problem> for ReplaceError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<StoreError> for ReplaceError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ReplaceError> for Problem {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::Refused(problem) => problem,
            ReplaceError::Store(error) => error.into(),
        }
    }
}
