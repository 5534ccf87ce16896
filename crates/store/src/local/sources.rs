//! The arguments of a sender, as one tree.
//!
//! rsync's rule: `dir` stands for an entry of that name, `dir/` for the entries in it. Several arguments share one root;
//! of two entries with one name, that of the earlier argument is taken, with all below it.
//!
//! An argument that keeps its directories (`--relative`) is a path of several names: those before the last are listed with
//! nothing in them but what arguments mean.

mod arg;
mod listing;
mod source;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use deltic_core::names::Rest;
use deltic_core::{Follow, Meta, Mounts, Name, Names, RelPath, See};
use rustix::io::Errno;

use super::follow;
use super::list::Part;
use super::more::{Reach, look_again};
use super::place::Place;
use super::remove::remove_unchanged;
use super::snapshot::{LocalSnapshot, Versions, look_at_root};
use crate::dir::{Dir, Use, Way};
use crate::filter::{Scopes, Start};
use crate::{Filter, Listing, StoreError, Tree, Version, lock};

pub use arg::SourceArg;
use source::{Source, device_of};

/// How arguments become a tree.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Which names take part.
    pub rules: Filter,
    /// Whether directories are taken with all that is below them; else only those whose contents were named are listed.
    pub recursive: bool,
    /// Whether directories that are named take part as such, if nothing in them does.
    pub dirs: bool,
    /// Whether directories are left out below which there is nothing else.
    pub prune_empty_dirs: bool,
    /// What a receiver may delete, of which directories that it protects are not left out for that. Extended attributes that it
    /// excludes need not be told.
    pub protects: Filter,
    /// What becomes of directories on which another file system is mounted.
    pub mounts: Mounts,
    /// Whether directories on the way to arguments are made for what comes in them only.
    pub plain_implied_dirs: bool,
    /// Whether arguments that are not there are none.
    pub ignore_missing: bool,
    /// Which symlinks are what they point at.
    pub follow: Follow,
    /// What is looked at of an entry.
    pub see: See,
    /// A directory that takes no part wherever it is met, whether or not it is there yet: what is written to.
    pub destination: Option<PathBuf>,
}

impl SourceOptions {
    fn how(&self) -> (Follow, See) {
        (self.follow, self.see)
    }
}

/// What a sender's arguments stand for: a tree to read.
#[derive(Debug)]
pub struct Sources {
    args: Vec<Source>,
    /// The first argument of each path.
    by_path: BTreeMap<Box<[u8]>, usize>,
    /// Those of the same paths that come later, in order.
    again: HashMap<Box<[u8]>, Vec<usize>>,
    /// Entries of directories that several arguments have, and that are not of the first of these: which they are of.
    chosen: Mutex<HashMap<RelPath, BTreeMap<usize, Names>>>,
    /// What is protected at a receiver.
    protects: Scopes,
    /// Under how many names at most one name of a file is listed.
    names_of_one: u32,
    options: SourceOptions,
}

impl Sources {
    /// Holds the directories of `args`. What cannot be held, or is not there, is an error of the root's listing.
    #[must_use]
    pub fn new(args: Vec<SourceArg>, options: SourceOptions) -> Self {
        let mut held: HashMap<PathBuf, Arc<Dir>> = HashMap::new();
        let mut known: HashMap<(PathBuf, bool), Arc<Scopes>> = HashMap::new();
        let knows_devices = options.mounts != Mounts::Enter;
        let hold = |arg: SourceArg| {
            let is_root = arg.path.is_root();
            let scopes = known.entry((arg.dir.clone(), is_root)).or_insert_with(|| {
                let start = if is_root { Start::Root } else { Start::Names };
                Arc::new(Scopes::new(options.rules.clone(), &arg.dir, start))
            });
            let scopes = Arc::clone(scopes);
            let dir = held.get(&arg.dir).map_or_else(
                || Dir::open_root(&arg.dir).map(|dir| Arc::new(following(dir, options.follow))),
                |dir| Ok(Arc::clone(dir)),
            );
            if let Ok(dir) = &dir {
                held.insert(arg.dir.clone(), Arc::clone(dir));
            }
            let device = dir.as_ref().ok().filter(|_| knows_devices);
            let device = device.and_then(|dir| device_of(dir, &arg.path));
            Source { arg, dir, scopes, device }
        };
        let args: Vec<_> = args.into_iter().map(hold).collect();
        let mut by_path: BTreeMap<Box<[u8]>, usize> = BTreeMap::new();
        let mut again: HashMap<Box<[u8]>, Vec<usize>> = HashMap::new();
        for (no, source) in args.iter().enumerate() {
            let path = source.arg.path.as_bytes();
            if by_path.contains_key(path) {
                again.entry(path.into()).or_default().push(no);
            } else {
                by_path.insert(path.into(), no);
            }
        }
        // Where the destination is, nobody here knows: a path that no pattern spells.
        let base = Path::new(OsStr::from_bytes(b"/\0"));
        let protects = Scopes::new(options.protects.clone(), base, Start::Root);
        let overlap = options.see.linked && overlap(&args);
        let names_of_one = if overlap { u32::try_from(args.len()).unwrap_or(u32::MAX) } else { 1 };
        let chosen = Mutex::default();
        Self { args, by_path, again, chosen, protects, names_of_one, options }
    }

    /// The same without this directory, wherever it is met.
    #[must_use]
    pub fn without(mut self, destination: Option<PathBuf>) -> Self {
        self.options.destination = destination;
        self
    }

    /// The name of the only argument that is there, if it is no directory. Where none is there, the name of the first: nothing
    /// comes, and no directory is made for it.
    #[must_use]
    pub fn single_file(&self) -> Option<Name> {
        let mut there = self.args.iter().filter(|source| !source.is_missing(self.options.follow));
        let Some(Source { arg, dir, .. }) = there.next() else {
            return self.args.first().and_then(|source| source.arg.own_name());
        };
        let mut names = arg.path.components();
        let (name, None, None) = (names.next()?, names.next(), there.next()) else { return None };
        let name = Name::new(name).ok()?;
        let how = (self.options.follow, self.options.see.plain());
        let meta = follow::look(dir.as_ref().ok()?, (&name, &arg.path), how).ok()?;
        (!meta.is_dir() && !arg.contents).then_some(name)
    }

    /// Metadata of the root itself: that of the first argument that stands for what is in a directory, if one does. A
    /// directory that nobody may read brings nothing, and not its mode either.
    #[must_use]
    pub fn own(&self) -> Option<Meta> {
        let source = self.args.iter().find(|source| source.arg.path.is_root())?;
        source.hold().ok()?;
        let mut own = look_at_root(source.dir.as_deref().ok()?, self.options.see).ok()?;
        let judge = source.scopes.top(&RelPath::root());
        let at =
            || Reach::Followed(source.dir.as_ref().map(|dir| dir.own_path()).unwrap_or_default());
        look_again(at, &mut own, self.options.see, &|name| judge.admits_xattr(name));
        judge.sift(&mut own);
        self.options.protects.sift(&mut own);
        Some(own)
    }

    /// The paths of arguments that are not there, in directories that are.
    #[must_use]
    pub fn missing(&self) -> Vec<RelPath> {
        let is_gone = |look| look == Err(Errno::NOENT);
        let missing = |source: &&Source| {
            source.dir.is_ok() && source.look(self.options.follow).is_some_and(is_gone)
        };
        self.args.iter().filter(missing).map(|source| source.arg.path.clone()).collect()
    }

    /// The argument that `path` is of: the first that stands for it or for what it is in, or else one below it.
    fn source_of(&self, action: &'static str, path: &RelPath) -> Result<&Source, StoreError> {
        let not_found = || StoreError::new(action, path, Errno::NOENT);
        if let [only] = &*self.args {
            let is_its = path.starts_with(&only.arg.path) || only.arg.path.starts_with(path);
            return is_its.then_some(only).ok_or_else(not_found);
        }
        if let Some((dir, name)) = path.split_last()
            && let Some(chosen) = lock(&self.chosen).get(&dir)
            && let Some((no, _)) = chosen.iter().find(|(_, names)| names.contains(&name))
        {
            return Ok(&self.args[*no]);
        }
        let candidates = self.candidates(path);
        let shows = |no: &&usize| self.args[**no].shows(path);
        let first = match &*candidates {
            [only] => Some(only),
            // Of several the first that has it; if none has, the last one says why.
            several => several.iter().find(shows).or_else(|| several.last()),
        };
        first.map(|no| &self.args[*no]).ok_or_else(not_found)
    }

    /// The arguments that may have `path`, in order: what it is in, or itself, or else the first below it.
    fn candidates(&self, path: &RelPath) -> Vec<usize> {
        let mut all: Vec<usize> = self.below(path).next().map(|(no, _)| no).into_iter().collect();
        let mut above = Some(path.clone());
        while let Some(at) = above {
            all.extend(self.by_path.get(at.as_bytes()));
            all.extend(self.again.get(at.as_bytes()).into_iter().flatten());
            above = at.split_last().map(|(dir, _)| dir);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The arguments that have a directory `dir` of which all takes part, in order; none where there is but one that may.
    fn sharers(&self, dir: &RelPath) -> Vec<usize> {
        let shares = |no: &usize| {
            let source = &self.args[*no];
            let Ok(held) = &source.dir else { return false };
            let device = source.device;
            dir.starts_with(&source.arg.path)
                && source.goes_into(dir, &self.options)
                && held.dir(dir, Use::Pass).is_ok()
                && (device.is_none() || device_of(held, dir) == device)
        };
        if self.args.len() == 1 {
            return Vec::new();
        }
        match self.candidates(dir) {
            // Nobody to share it with: it need not be looked at.
            candidates if candidates.len() < 2 => Vec::new(),
            candidates => candidates.into_iter().filter(shares).collect(),
        }
    }

    fn dir_of(&self, action: &'static str, path: &RelPath) -> Result<&Dir, StoreError> {
        self.source_of(action, path)?.held(action, path)
    }

    /// Whether arguments are, or mean something, below `dir`.
    fn leads_on(&self, dir: &RelPath) -> bool {
        self.below(dir).next().is_some()
    }

    /// Arguments below `path`, in order of their paths, and the name in it that each begins with.
    fn below<'a>(&'a self, path: &RelPath) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let mut start = path.as_bytes().to_vec();
        if !path.is_root() {
            start.push(b'/');
        }
        let len = start.len();
        let from = Bound::Included(start.clone().into_boxed_slice());
        let named = self.by_path.range((from, Bound::Unbounded));
        named
            .take_while(move |(path, _)| path.starts_with(&start))
            .filter(move |(path, _)| path.len() > len)
            .map(move |(path, no)| (*no, path[len..].split(|b| *b == b'/').next().unwrap_or(b"")))
    }

    /// The place of `path`; where it is in the directory of the `last` one, and of the same argument, that one's handle
    /// serves again.
    fn place_after<'a, 'l>(
        &'a self,
        action: &'static str,
        path: &RelPath,
        last: &'l mut Option<(&'a Dir, Place)>,
    ) -> Result<&'l Place, StoreError> {
        let dir = self.dir_of(action, path)?;
        let place = match last.take() {
            Some((of, place)) if std::ptr::eq(of, dir) => place.next(dir, action, path)?,
            _ => Place::of(dir, action, path)?,
        };
        Ok(&last.insert((dir, place)).1)
    }

    fn open_after<'a>(
        &'a self,
        path: &RelPath,
        last: &mut Option<(&'a Dir, Place)>,
    ) -> Result<LocalSnapshot, StoreError> {
        let place = self.place_after("open", path, last)?;
        let SourceOptions { follow, see, .. } = self.options;
        if follow::opens(follow, &place.dir, &place.name, path) {
            LocalSnapshot::open_behind(&place.dir, &place.name, path, see)
        } else {
            LocalSnapshot::open(&place.dir, &place.name, path, see)
        }
    }
}

/// The handle `dir`, through which paths lead along symlinks if some are followed.
fn following(dir: Dir, follow: Follow) -> Dir {
    if follow == Follow::Never { dir } else { dir.with_way(Way::Follow) }
}

/// Whether one of them means what is below another, so that a file may be listed under more names than it has.
fn overlap(args: &[Source]) -> bool {
    let path = |source: &Source| -> PathBuf {
        let path = OsStr::from_bytes(source.arg.path.as_bytes());
        let names = source.arg.dir.components().chain(Path::new(path).components());
        names.filter(|name| *name != Component::CurDir).collect()
    };
    let mut paths: Vec<PathBuf> = args.iter().map(path).collect();
    paths.sort();
    paths.windows(2).any(|pair| pair[1].starts_with(&pair[0]))
}

impl Tree for Sources {
    type Snapshot = LocalSnapshot;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_part(dir, Part::All)
    }

    fn list_some(&self, dir: &RelPath, rest: Option<Box<Rest>>) -> Result<Listing, StoreError> {
        self.list_part(dir, rest.into())
    }

    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_part(dir, Part::FirstVersions)
    }

    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        let SourceOptions { follow, see, .. } = self.options;
        if follow != Follow::Never || see.noted {
            return vec![None; paths.len()];
        }
        let mut last = None;
        let mut versions = Versions::default();
        let version = |path| versions.of(self.place_after("look at", path, &mut last).ok()?);
        paths.iter().map(version).collect()
    }

    fn open(&self, path: &RelPath) -> Result<LocalSnapshot, StoreError> {
        self.open_after(path, &mut None)
    }

    fn open_all(
        &self,
        paths: &[RelPath],
    ) -> impl Iterator<Item = Result<LocalSnapshot, StoreError>> {
        let mut last = None;
        paths.iter().map(move |path| self.open_after(path, &mut last))
    }

    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError> {
        let dir = match self.dir_of("remove", path) {
            // Which argument it is of is told by which has it: none, if it went under another name in the list.
            Err(StoreError::NotFound { .. }) => return Ok(()),
            dir => dir?,
        };
        let place = Place::of(dir, "remove", path)?;
        let how = (self.options.follow, self.options.see.plain());
        remove_unchanged(&place, is, follow::look(&place.dir, (&place.name, path), how))
    }
}
