//! A remote system as a source tree.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use std::ops::Range;

use deltic_store::filter::{Linked, Reads, Scopes, Start, read_bounded};
use deltic_store::{Extents, Filter, Listing, Snapshot, StoreError, Tree, is_staging_name};
use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};

use crate::old_versions::{OldCopy, OldVersions};
use crate::read_ahead::{ExtraBytes, ReadAhead};
use crate::shifted;
use crate::sums::ObjectSums;
use crate::system::{ObjectVersion, StorageSystem, SystemEntry};
use crate::{RemoteError, lock};

/// Most listed object versions that are remembered until the object is opened.
const MAX_LISTED: usize = 1 << 16;
/// Most names of a directory that are reported as an error each.
const MAX_NAME_ERRORS: usize = 1000;
/// Most objects with checksums that are remembered until the object is opened.
const MAX_RECENT_SUMS: usize = 64;

/// The source paths of a system as one tree, with rsync's trailing slash: `dir` is an entry of that name, `dir/` is the
/// content of the directory.
#[derive(Clone, Debug)]
pub struct RemoteTree(Arc<TreeInner>);

/// The top level of a tree.
#[derive(Default)]
struct TopLevel {
    found: Vec<(Name, SystemEntry)>,
    errors: Vec<StoreError>,
    /// True if a source directory with a trailing slash is empty.
    has_empty: bool,
}

#[derive(Debug)]
struct TreeInner {
    system: Arc<dyn StorageSystem>,
    roots: Vec<NamedPath>,
    takes: TreeOptions,
    scopes: Scopes,
    /// The source path, by index, that each name at the top level came from.
    top_sources: Mutex<HashMap<Name, usize>>,
    /// Object versions as listed, until the objects are opened.
    listed: Mutex<HashMap<RelPath, ObjectVersion>>,
    /// Checksums of objects that were just compared with an old version, kept until the object is opened.
    recent_sums: Mutex<HashMap<RelPath, (ObjectVersion, ObjectSums)>>,
    /// Old versions of the objects, if the destination is in this process.
    old_versions: OnceLock<Arc<OldVersions>>,
    /// Budget for long range requests, shared by all objects.
    extra: ExtraBytes,
}

/// Entries of a directory, and errors for the names that were left out.
type DirContent = (Vec<(Name, SystemEntry)>, Vec<StoreError>);

/// A source path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedPath {
    /// The path, without a trailing slash.
    path: String,
    /// Name of the entry; `None` if the path stands for the directory's content.
    name: Option<Name>,
}

/// Selection of the entries that a tree lists.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// Include and exclude rules.
    pub rules: Filter,
    /// List directories with everything below them (`-r`).
    pub recursive: bool,
    /// List directories without their content (`-d`).
    pub dirs: bool,
}

/// One version of an object, read by ranges.
#[derive(Debug)]
pub struct RemoteSnapshot {
    tree: RemoteTree,
    at: RelPath,
    path: String,
    object: ObjectVersion,
    meta: Meta,
    sums: OnceLock<ObjectSums>,
    /// Held during a request for the checksums, so that only one request is sent.
    asks: Mutex<()>,
    ahead: ReadAhead,
}

impl RemoteTree {
    /// Makes the tree of `paths` in `system`.
    ///
    /// # Errors
    /// [`RemoteError::Address`] for a path that is not UTF-8 or ends in an invalid name.
    pub(crate) fn new(
        system: Arc<dyn StorageSystem>,
        paths: &[Vec<u8>],
        takes: TreeOptions,
    ) -> Result<Self, RemoteError> {
        let roots = paths.iter().map(|path| NamedPath::new(path)).collect::<Result<_, _>>()?;
        let scopes = Scopes::new(takes.rules.clone(), Box::default(), Start::Root);
        let (top_sources, listed, recent_sums) =
            (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(TreeInner {
            system,
            roots,
            takes,
            scopes,
            top_sources,
            listed,
            recent_sums,
            old_versions: OnceLock::new(),
            extra: ExtraBytes::default(),
        })))
    }

    /// Sets the old versions from which reads take bytes instead of fetching them. Only the first call has an effect.
    pub(crate) fn set_old_versions(&self, old_versions: Arc<OldVersions>) {
        self.0.old_versions.get_or_init(|| old_versions);
    }

    /// The name of the source if the only source is an object.
    ///
    /// # Errors
    /// Any error of the look-up.
    pub fn single(&self) -> Result<Option<Name>, RemoteError> {
        let [NamedPath { path, name: Some(name) }] = &self.0.roots[..] else { return Ok(None) };
        let found = self.look_up(path)?;
        Ok(matches!(found, Some(SystemEntry::Object(_))).then(|| name.clone()))
    }

    /// Metadata of the first source directory with a trailing slash, if it exists.
    ///
    /// # Errors
    /// Any error of the look-up.
    pub(crate) fn root(&self) -> Result<Option<Meta>, RemoteError> {
        let Some(root) = self.0.roots.iter().find(|root| root.name.is_none()) else {
            return Ok(None);
        };
        let found = self.look_up(&root.path)?;
        Ok(found.filter(|found| matches!(found, SystemEntry::Dir { .. })).as_ref().map(meta_of))
    }

    /// The path in the system of a path in this tree.
    fn path_of(&self, at: &RelPath) -> Option<String> {
        let mut names = at.components();
        let first = Name::new(names.next()?).ok()?;
        let root = match &self.0.roots[..] {
            [only] => only,
            roots => roots.get(*lock(&self.0.top_sources).get(&first)?)?,
        };
        let text = std::str::from_utf8(at.as_bytes()).ok()?;
        match &root.name {
            Some(name) if *name == first => {
                let below = text.get(first.as_bytes().len()..)?;
                Some(format!("{}{below}", root.path))
            }
            Some(_) => None,
            None => Some(joined(&root.path, text)),
        }
    }

    fn look(&self, at: &RelPath) -> Result<Option<SystemEntry>, RemoteError> {
        let Some(path) = self.path_of(at) else { return Ok(None) };
        self.look_up(&path)
    }

    /// Looks up a path of the system.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] for an object longer than any local file, and errors of the request.
    fn look_up(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        let found = self.0.system.look(path)?;
        found.as_ref().map_or(Ok(()), check_len)?;
        Ok(found)
    }

    /// Lists the top level: all source paths merged. The first source with a name wins.
    fn top(&self) -> Result<TopLevel, StoreError> {
        let mut top = TopLevel::default();
        let mut top_sources = HashMap::new();
        for (at, root) in self.0.roots.iter().enumerate() {
            let found = match &root.name {
                // The directory itself is skipped, if it is there.
                None if !self.0.takes.recursive && !self.0.takes.dirs => {
                    match self.look_up(&root.path) {
                        Ok(Some(_)) => continue,
                        Ok(None) if root.path.is_empty() => continue,
                        Ok(None) => Err(RemoteError::NotFound),
                        Err(error) => Err(error),
                    }
                }
                None => self.list_dir(&root.path),
                Some(name) => match self.look_up(&root.path) {
                    Ok(Some(found)) => Ok((vec![(name.clone(), found)], Vec::new())),
                    Ok(None) => Err(RemoteError::NotFound),
                    Err(error) => Err(error),
                },
            };
            let (found, errors) = found.map_err(|error| self.unusable(&root.path, &error))?;
            top.has_empty |= found.is_empty() && errors.is_empty();
            top.errors.extend(errors);
            for (name, found) in found {
                if top_sources.contains_key(&name) {
                    continue;
                }
                top_sources.insert(name.clone(), at);
                top.found.push((name, found));
            }
        }
        *lock(&self.0.top_sources) = top_sources;
        top.found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(top)
    }

    /// Lists a directory of the system. A name that is invalid for a local file becomes an error.
    fn list_dir(&self, path: &str) -> Result<DirContent, RemoteError> {
        let (mut found, mut errors) = (HashMap::<Name, SystemEntry>::new(), Vec::new());
        let mut more = 0_usize;
        let unusable = |name: &str, why: &str| StoreError::Argument {
            action: "read",
            argument: PathBuf::from(self.0.system.url(&joined(path, name))),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, why.to_owned()),
        };
        let mut refuse = |name: &str, why: &str| match errors.len() {
            0..MAX_NAME_ERRORS => errors.push(unusable(name, why)),
            _ => more += 1,
        };
        self.0.system.list(path, &mut |text, is| match Name::new(text.as_bytes()) {
            Err(bad) => refuse(&text, &bad.to_string()),
            Ok(name) if is_staging_name(name.as_bytes()) => {}
            Ok(_) if is == SystemEntry::Other => refuse(&text, "neither a file nor a directory"),
            Ok(_) if check_len(&is).is_err() => refuse(&text, TOO_LONG),
            Ok(name) => {
                let is_object = matches!(is, SystemEntry::Object(_));
                match found.insert(name.clone(), is) {
                    None => {}
                    // One entry is an object, the other a directory of keys below its name.
                    Some(before) => {
                        let dir = if is_object { before } else { found[&name].clone() };
                        found.insert(name, dir);
                        refuse(&text, "an object with other names below it");
                    }
                }
            }
        })?;
        if more > 0 {
            errors.push(unusable("", &format!("{more} more invalid names")));
        }
        Ok((found.into_iter().collect(), errors))
    }

    fn unusable(&self, path: &str, error: &RemoteError) -> StoreError {
        StoreError::Argument {
            action: "read",
            argument: PathBuf::from(self.0.system.url(path)),
            source: std::io::Error::other(error.to_string()),
        }
    }

    fn open_object(&self, at: &RelPath) -> Result<RemoteSnapshot, RemoteError> {
        let path = self.path_of(at).ok_or(RemoteError::NotFound)?;
        // The comparison by checksum needs the listed version too, so it stays until it is read.
        let listed = lock(&self.0.listed).get(at).cloned();
        let object = match listed {
            Some(object) => object,
            None => match self.look_up(&path)? {
                Some(SystemEntry::Object(object)) => object,
                Some(SystemEntry::Dir { .. } | SystemEntry::Other) => {
                    return Err(RemoteError::Wrong("not a regular file".into()));
                }
                None => return Err(RemoteError::NotFound),
            },
        };
        let TreeInner { system, extra, .. } = &*self.0;
        let ahead = ReadAhead::new(Arc::clone(system), path.clone(), object.clone(), extra.clone());
        let meta = meta_of(&SystemEntry::Object(object.clone()));
        let (tree, at) = (self.clone(), at.clone());
        let (sums, asks) = (OnceLock::new(), Mutex::default());
        Ok(RemoteSnapshot { tree, at, path, object, meta, sums, asks, ahead })
    }

    /// Forgets the listed version of an object. The next open looks the object up again.
    fn forget(&self, at: &RelPath, object: &ObjectVersion) {
        let mut listed = lock(&self.0.listed);
        if listed.get(at) == Some(object) {
            listed.remove(at);
        }
    }

    /// The path in this tree of the entry that arrives at `at`. Both paths differ if the only source is an object that
    /// the destination renames.
    pub(crate) fn source_path(&self, at: &RelPath) -> RelPath {
        let only = match &self.0.roots[..] {
            [NamedPath { name: Some(name), .. }] if at.components().count() == 1 => {
                RelPath::root().join(name).ok()
            }
            _ => None,
        };
        only.unwrap_or_else(|| at.clone())
    }

    /// The checksums of the object that arrives at `at`. `None` if that is not an object.
    pub(crate) fn sums(&self, at: &RelPath) -> Result<Option<ObjectSums>, RemoteError> {
        let at = &self.source_path(at);
        let Some(path) = self.path_of(at) else { return Ok(None) };
        let listed = lock(&self.0.listed).get(at).cloned();
        let found =
            listed.map_or_else(|| self.look(at), |object| Ok(Some(SystemEntry::Object(object))))?;
        let Some(SystemEntry::Object(object)) = found else { return Ok(None) };
        let sums = self.0.system.sums(&path, &object).and_then(|sums| sums.check(object.len));
        let sums = sums.inspect_err(|_| self.forget(at, &object))?;
        let mut told = lock(&self.0.recent_sums);
        if told.len() < MAX_RECENT_SUMS {
            told.insert(at.clone(), (object, sums.clone()));
        }
        Ok(Some(sums))
    }
}

impl NamedPath {
    fn new(path: &[u8]) -> Result<Self, RemoteError> {
        let shown = deltic_tree::path::printable(path);
        let bad = |why: &str| RemoteError::Address(format!("{shown}: {why}"));
        let text = std::str::from_utf8(path).map_err(|_| bad("not UTF-8"))?;
        let text = text.trim_start_matches('/');
        let path = text.trim_end_matches('/').to_owned();
        if matches!(&*path, "" | ".") {
            return Ok(Self { path: String::new(), name: None });
        }
        let name = match text.ends_with('/') {
            true => None,
            false => {
                let name = path.rsplit('/').next().unwrap_or(&path);
                Some(Name::new(name.as_bytes()).map_err(|why| bad(&why.to_string()))?)
            }
        };
        Ok(Self { path, name })
    }
}

impl Tree for RemoteTree {
    type Snapshot = RemoteSnapshot;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        let found = if dir.is_root() {
            let TopLevel { found, errors, has_empty } = self.top()?;
            listing.is_empty_source = has_empty && self.0.takes.recursive;
            listing.errors = errors;
            found
        } else if !self.0.takes.recursive {
            // `-d` lists a directory below the sources without its content.
            Vec::new()
        } else {
            let path = self.path_of(dir).ok_or_else(|| RemoteError::NotFound.at("list", dir))?;
            let (mut found, errors) =
                self.list_dir(&path).map_err(|error| error.at("list", dir))?;
            // A source directory without a trailing slash.
            let is_root = |root: &NamedPath| {
                root.name.as_ref().is_some_and(|name| dir.as_bytes() == name.as_bytes())
            };
            let is_empty = found.is_empty() && errors.is_empty() && self.0.takes.recursive;
            listing.is_empty_source = is_empty && self.0.roots.iter().any(is_root);
            listing.errors = errors;
            found.sort_by(|one, other| one.0.cmp(&other.0));
            found
        };
        let mut judge = self.0.scopes.judge(dir, self)?;
        let mut listed = lock(&self.0.listed);
        for (name, found) in found {
            let is_dir = matches!(found, SystemEntry::Dir { .. });
            if !judge.admits(&name, is_dir) {
                continue;
            }
            let path = match dir.join(&name) {
                Ok(path) => path,
                Err(why) => {
                    let name = deltic_tree::path::printable(name.as_bytes());
                    let path = joined(&self.path_of(dir).unwrap_or_default(), &name.to_string());
                    listing.errors.push(self.unusable(&path, &RemoteError::Wrong(why.to_string())));
                    continue;
                }
            };
            if is_dir && !self.0.takes.recursive && !self.0.takes.dirs {
                listing.skipped.push(path);
                continue;
            }
            let meta = meta_of(&found);
            if let SystemEntry::Object(object) = found
                && listed.len() < MAX_LISTED
            {
                listed.insert(path, object);
            }
            listing.entries.push(Entry { name, meta });
        }
        Ok(listing)
    }

    fn open(&self, path: &RelPath) -> Result<RemoteSnapshot, StoreError> {
        self.open_object(path).map_err(|error| error.at("open", path))
    }
}

impl Reads for RemoteTree {
    fn read(&self, path: &RelPath, _: Linked) -> Result<Option<Vec<u8>>, StoreError> {
        match self.open(path) {
            Ok(snapshot) => read_bounded(&snapshot, path).map(Some),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn has_file(&self, path: &RelPath) -> bool {
        matches!(self.look(path), Ok(Some(_)))
    }
}

impl RemoteSnapshot {
    fn failed(&self, action: &'static str, error: RemoteError) -> StoreError {
        self.tree.forget(&self.at, &self.object);
        error.at(action, &self.at)
    }

    /// Looks in the old version for the units in `ranges`. Returns the copy to take bytes from, and the number of
    /// bytes.
    fn copy_of_old(&self, ranges: &[Range<u64>], sums: &ObjectSums) -> Option<(OldCopy, u64)> {
        let old_versions = self.tree.0.old_versions.get()?;
        let old = old_versions.take(&self.at)?;
        let mut fetch = |range: Range<u64>, buf: &mut [u8]| {
            self.tree.0.system.read(&self.path, &self.object, range, buf)
        };
        let found = shifted::find(sums, ranges, &*old, &mut fetch);
        let bytes = old_versions.count(&found);
        Some((OldCopy::new(old, found.runs)?, bytes))
    }

    fn load_sums(&self) -> Result<&ObjectSums, StoreError> {
        if let Some(sums) = self.sums.get() {
            return Ok(sums);
        }
        let _asks = lock(&self.asks);
        if let Some(sums) = self.sums.get() {
            return Ok(sums);
        }
        let told =
            lock(&self.tree.0.recent_sums).remove(&self.at).filter(|(of, _)| *of == self.object);
        let sums = match told {
            Some((_, sums)) => Ok(sums),
            None => self.tree.0.system.sums(&self.path, &self.object),
        };
        let sums = sums.and_then(|sums| sums.check(self.object.len));
        let sums = sums.map_err(|error| self.failed("open", error))?;
        Ok(self.sums.get_or_init(|| sums))
    }
}

impl Snapshot for RemoteSnapshot {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        if start < self.object.len && !buf.is_empty() && !self.ahead.is_planned() {
            let sums = self.load_sums()?;
            // Read from the first byte: a checksum may cover all bytes.
            self.ahead.plan(std::slice::from_ref(&(0..self.object.len)), sums, None);
        }
        self.ahead.read(start, buf).map_err(|error| self.failed("read", error))
    }

    fn will_read(&self, ranges: &[Range<u64>]) -> u64 {
        let Ok(sums) = self.load_sums() else { return 0 };
        let (copy, bytes) = self.copy_of_old(ranges, sums).unzip();
        self.ahead.plan(ranges, sums, copy);
        bytes.unwrap_or(0)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        let checked = self.ahead.check();
        let checked = checked.and_then(|()| self.tree.0.system.check(&self.path, &self.object));
        checked.map_err(|error| self.failed("read", error))
    }

    fn extents(&self) -> Result<Option<Extents>, StoreError> {
        Ok(self.load_sums()?.extents(self.object.len))
    }

    fn missing_extents_reason(&self) -> String {
        "the store has no usable checksums of the object; upload in parts with checksums".to_owned()
    }
}

impl Drop for RemoteSnapshot {
    fn drop(&mut self) {
        self.tree.forget(&self.at, &self.object);
        if let Some(old_versions) = self.tree.0.old_versions.get() {
            old_versions.take(&self.at);
        }
    }
}

/// Metadata of an entry. Modes are the defaults of new local files before the umask.
fn meta_of(found: &SystemEntry) -> Meta {
    match found {
        SystemEntry::Dir { modified } => Meta::without_owner(Kind::Dir, 0, *modified, 0o777),
        SystemEntry::Object(object) => {
            Meta::without_owner(Kind::File, object.len, object.modified, 0o666)
        }
        SystemEntry::Other => unreachable!("the listing refuses other entries"),
    }
}

/// Refuses an object longer than any local file.
fn check_len(found: &SystemEntry) -> Result<(), RemoteError> {
    match found {
        SystemEntry::Object(object) if object.len > i64::MAX as u64 => {
            Err(RemoteError::Wrong(TOO_LONG.into()))
        }
        _ => Ok(()),
    }
}

const TOO_LONG: &str = "longer than any file can be";

fn joined(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// Stands for an unknown modification time.
pub(crate) const UNTIMED: Timestamp = Timestamp { secs: 0, nanos: 0 };
