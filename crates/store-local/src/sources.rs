//! The arguments of a sender, as one tree.
//!
//! rsync's rule: `dir` stands for an entry of that name, `dir/` for the entries in it. Several arguments share one
//! root; of two entries with one name, that of the earlier argument is taken, with all below it.
//!
//! An argument that keeps its directories (`--relative`) is a path of several names: those before the last are listed
//! with nothing in them but what arguments mean.

mod arg;
mod listing;
mod source;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use deltic_core::packed::StringSlot;
use deltic_core::{PackedStrings, Reader};
use deltic_tree::meta::Inode;
use deltic_tree::names::SortedNames;
use deltic_tree::path::BadPath;
use deltic_tree::{Follow, Meta, MetaMask, Mounts, Name, Names, RelPath};
use rustix::io::Errno;

use super::above::scopes;
use super::follow;
use super::list::{Look, Part, dangles, inode};
use super::more::{Reach, look_again};
use super::named::{NamedDir, full_path};
use super::place::Place;
use super::remove::remove_unchanged;
use super::snapshot::{LocalSnapshot, file_type, inode_of, look_at_root};
use crate::dir::{Dir, Trust, Use, Way};
use crate::errno::store_error;
use crate::lock;
use crate::place::Versions;
use crate::system::System;
use deltic_store::filter::{Scopes, Start};
use deltic_store::{Filter, Listing, StoreError, Tree, Version};

pub use arg::{SourceArg, SourceArgs};
use source::{Base, Source, device_of};

/// How arguments become a tree.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Which names take part.
    pub rules: Filter,
    /// True if directories are taken with all that is below them; else only those whose contents were named are listed.
    pub recursive: bool,
    /// True if directories that are named take part as such, if nothing in them does.
    pub dirs: bool,
    /// True if directories are left out below which there is nothing else.
    pub prune_empty_dirs: bool,
    /// What a receiver may delete, of which directories that it protects are not left out for that. Extended attributes
    /// that it excludes need not be told.
    pub protects: Filter,
    /// What becomes of directories on which another file system is mounted.
    pub mounts: Mounts,
    /// True if directories on the way to arguments are made for what comes in them only.
    pub plain_implied_dirs: bool,
    /// True if arguments that are not there are none.
    pub ignore_missing: bool,
    /// Which symlinks are what they point at.
    pub follow: Follow,
    /// Whose symlinks are followed on the way to arguments.
    pub trust: Trust,
    /// What is looked at of an entry.
    pub see: MetaMask,
    /// A directory that takes no part wherever it is met, whether or not it is there yet: what is written to.
    pub destination: Option<PathBuf>,
    /// Where entries come to be, if that is on this machine: what stands there under its own path is not removed.
    pub beside: Option<PathBuf>,
}

impl SourceOptions {
    /// Looks at entries of `dir`, which is at `path` below `root`.
    fn look<'a>(&self, root: &'a Dir, (dir, path): (&'a Dir, &'a RelPath)) -> Look<'a> {
        Look { root, dir, path, follow: self.follow, see: self.see }
    }
}

/// What a sender's arguments stand for: a tree to read.
#[derive(Debug)]
pub struct Sources {
    args: PackedStrings,
    bases: Vec<Base>,
    /// Which of them is an entry itself, on the way to an argument.
    dotted: Option<usize>,
    /// All arguments, by their paths name by name, those of one path in order.
    by_path: Vec<StringSlot>,
    /// Entries of directories that several arguments have, and that are not of the first of these: which they are of.
    chosen: Mutex<HashMap<RelPath, BTreeMap<StringSlot, Names>>>,
    /// What is protected at a receiver.
    protects: Scopes,
    /// Arguments that are no paths, and why.
    refused: Vec<(PathBuf, BadPath)>,
    /// Under how many names at most one name of a file is listed.
    names_of_one: u32,
    options: SourceOptions,
}

impl Sources {
    /// Holds the directories of `args`. What cannot be held, or is not there, is an error of the root's listing.
    #[must_use]
    pub fn new(args: SourceArgs, options: SourceOptions) -> Self {
        let mut held: HashMap<PathBuf, Arc<Dir>> = HashMap::new();
        let hold = |(path, is_root): (OsString, bool)| {
            let path = PathBuf::from(path);
            let start = if is_root { Start::Root } else { Start::Names };
            let scopes = scopes(options.rules.clone(), &path, start);
            let dir = held.get(&path).map_or_else(
                || {
                    let named = NamedDir { path: path.clone(), trust: options.trust };
                    named.open().map(|dir| Arc::new(following(dir, &options)))
                },
                |dir| Ok(Arc::clone(dir)),
            );
            if let Ok(dir) = &dir {
                held.insert(path.clone(), Arc::clone(dir));
            }
            Base { path, dir, scopes }
        };
        let bases = args.bases.into_iter().map(hold).collect();
        let takes_dirs = options.recursive || options.dirs;
        let dotted = args.dotted.filter(|_| takes_dirs);
        let (args, refused) = (args.packed, args.refused);
        let mut by_path = Vec::with_capacity(args.len());
        by_path.extend(args.iter().map(|(at, _)| at));
        let key = |at: StringSlot| (names_of(path_in(args.get(at))), at);
        by_path.sort_unstable_by(|one, other| {
            let ((one, at), (other, behind)) = (key(*one), key(*other));
            one.cmp(other).then(at.cmp(&behind))
        });
        // Where the destination is, nobody here knows: a path that no pattern spells.
        let base = Path::new(OsStr::from_bytes(b"/\0"));
        let protects = scopes(options.protects.clone(), base, Start::Root);
        let chosen = Mutex::default();
        let names_of_one = 1;
        let mut sources =
            Self { args, bases, dotted, by_path, chosen, protects, refused, names_of_one, options };
        if sources.options.see.linked && sources.overlap() {
            sources.names_of_one = u32::try_from(sources.args.len()).unwrap_or(u32::MAX);
        }
        sources
    }

    fn source(&self, at: StringSlot) -> Source<'_> {
        let mut bytes = Reader::new(self.args.get(at));
        let base = bytes.varint().expect("it was written whole");
        let path = RelPath::parse(bytes.rest()).expect("it was one before it was packed");
        let (no, contents) = ((base >> 1) as usize, base & 1 == 1);
        Source { base: &self.bases[no], path, contents }
    }

    /// All arguments in order.
    fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        self.args.iter().map(|(at, _)| self.source(at))
    }

    /// The only argument, if there is no other.
    fn only(&self) -> Option<Source<'_>> {
        if let [only] = *self.by_path { Some(self.source(only)) } else { None }
    }

    /// The arguments of this path, in order.
    fn at(&self, path: &RelPath) -> &[StringSlot] {
        self.split_at(path).0
    }

    /// Arguments below `path`, by their paths.
    fn below(&self, path: &RelPath) -> &[StringSlot] {
        let behind = self.split_at(path).1;
        &behind[..behind.partition_point(|at| is_in(path_in(self.args.get(*at)), path))]
    }

    /// The arguments of this path, and those behind these, of which the ones below it are the first.
    fn split_at(&self, path: &RelPath) -> (&[StringSlot], &[StringSlot]) {
        let path_at = |at: &StringSlot| path_in(self.args.get(*at));
        let is_before = |at: &StringSlot| names_of(path_at(at)).lt(names_of(path.as_bytes()));
        let from = &self.by_path[self.by_path.partition_point(is_before)..];
        let is_it = |at: &&StringSlot| path_at(at) == path.as_bytes();
        from.split_at(from.iter().take_while(is_it).count())
    }

    /// True if one of them means what is below another, so that a file may be listed under more names than it has.
    fn overlap(&self) -> bool {
        let names = |at: &StringSlot| {
            let source = self.source(*at);
            let path = source.base.path.join(OsStr::from_bytes(source.path.as_bytes()));
            path.components().filter(|name| *name != Component::CurDir).collect::<PathBuf>()
        };
        // Of those that start in one directory, the ones below another follow it.
        let mut paths = self.by_path.clone();
        if self.bases.len() > 1 {
            paths.sort_by_cached_key(names);
        }
        paths.windows(2).any(|pair| names(&pair[1]).starts_with(names(&pair[0])))
    }

    /// The same without this directory, wherever it is met.
    #[must_use]
    pub fn without(mut self, destination: Option<PathBuf>) -> Self {
        self.options.destination = destination;
        self
    }

    /// The same, with entries that come to be in this directory of the same machine.
    #[must_use]
    pub fn beside(mut self, destination: Option<PathBuf>) -> Self {
        self.options.beside = destination;
        self
    }

    /// The directory on the way to an argument whose metadata is that of the root.
    fn carried(&self) -> Option<usize> {
        self.dotted.filter(|_| !self.options.plain_implied_dirs)
    }

    /// The name of the only entry that is there, if nothing is listed in it: a file, say, or a directory that is not
    /// entered. Where none is there, the name of the first argument: nothing comes, and no directory is made for it.
    #[must_use]
    pub fn single(&self) -> Option<Name> {
        if self.dotted.is_some() {
            return None;
        }
        let mut there = self.sources().filter(|source| !source.is_missing(self.options.follow));
        let Some(source) = there.next() else {
            return self.sources().next().and_then(|source| source.own_name());
        };
        let mut names = source.path.components();
        let (name, None, None) = (names.next()?, names.next(), there.next()) else { return None };
        let name = Name::new(name).ok()?;
        let how = (self.options.follow, self.options.see.plain());
        let meta = follow::look(source.base.dir.as_ref().ok()?, (&name, &source.path), how).ok()?;
        let is_bare = self.options.dirs && !self.options.recursive && !source.contents;
        (!meta.is_dir() || is_bare).then_some(name)
    }

    /// The directories whose names those of the root are, each once; and the file, where [one](Self::single) is all.
    #[must_use]
    pub fn places(&self) -> BTreeSet<Inode> {
        let dirs = self.bases.iter().filter_map(|base| inode(base.dir.as_deref().ok()?).ok());
        let file = self.single().and_then(|name| {
            let stat = |base: &Base| base.dir.as_deref().ok()?.stat_behind(&name).ok();
            let stat = self.bases.iter().find_map(stat).filter(|stat| !file_type(stat).is_dir())?;
            Some(Inode { device: stat.st_dev, number: stat.st_ino })
        });
        dirs.chain(file).collect()
    }

    /// Metadata of the root itself: that of the first argument that stands for what is in a directory, if one does, or
    /// of the directory that is on the way to one. A directory that nobody may read brings nothing, and not its mode
    /// either.
    #[must_use]
    pub fn own(&self) -> Option<Meta> {
        let base = match self.at(&RelPath::root()).first() {
            Some(at) => {
                let source = self.source(*at);
                source.hold().ok()?;
                source.base
            }
            None => &self.bases[self.carried()?],
        };
        let Base { dir, scopes, .. } = base;
        let mut own = look_at_root(dir.as_deref().ok()?, self.options.see).ok()?;
        let judge = scopes.top(&RelPath::root());
        let at = || Reach::Followed(dir.as_ref().map(|dir| dir.own_path()).unwrap_or_default());
        look_again(at, &mut own, self.options.see, &|name| judge.admits_xattr(name));
        judge.sift(&mut own);
        self.options.protects.sift(&mut own);
        Some(own)
    }

    /// The paths of arguments that are not there, in directories that are.
    #[must_use]
    pub fn missing(&self) -> Vec<RelPath> {
        let is_gone = |look| look == Err(Errno::NOENT);
        let missing = |source: &Source<'_>| {
            source.base.dir.is_ok() && source.look(self.options.follow).is_some_and(is_gone)
        };
        self.sources().filter(missing).map(|source| source.path).collect()
    }

    /// The argument that `path` is of: the first that stands for it or for what it is in, or else one below it.
    fn source_of(&self, action: &'static str, path: &RelPath) -> Result<Source<'_>, StoreError> {
        let not_found = || store_error(action, path, Errno::NOENT);
        if let Some(only) = self.only() {
            let is_its = path.starts_with(&only.path) || only.path.starts_with(path);
            return is_its.then_some(only).ok_or_else(not_found);
        }
        if let Some((dir, name)) = path.split_last()
            && let Some(chosen) = lock(&self.chosen).get(&dir)
            && let Some((at, _)) = chosen.iter().find(|(_, names)| names.contains(&name))
        {
            return Ok(self.source(*at));
        }
        let candidates = self.candidates(path);
        let shows = |at: &&StringSlot| self.source(**at).shows(path);
        let first = match &*candidates {
            [only] => Some(only),
            // Of several the first that has it; if none has, the last one says why.
            several => several.iter().find(shows).or_else(|| several.last()),
        };
        first.map(|at| self.source(*at)).ok_or_else(not_found)
    }

    /// The arguments that may have `path`, in order: what it is in, or itself, or else the first below it.
    fn candidates(&self, path: &RelPath) -> Vec<StringSlot> {
        let mut all: Vec<StringSlot> = self.below(path).first().copied().into_iter().collect();
        let mut above = Some(path.clone());
        while let Some(at) = above {
            all.extend(self.at(&at));
            above = at.split_last().map(|(dir, _)| dir);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The arguments that have a directory `dir` of which all takes part, in order; none where there is but one that
    /// may.
    fn sharers(&self, dir: &RelPath) -> Vec<StringSlot> {
        let shares = |at: &StringSlot| {
            let source = self.source(*at);
            let Ok(held) = &source.base.dir else { return false };
            dir.starts_with(&source.path)
                && source.goes_into(dir, &self.options)
                && held.dir(dir, Use::Pass).is_ok()
                && source.device(&self.options).is_none_or(|own| device_of(held, dir) == Some(own))
        };
        if self.only().is_some() {
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

    /// True if arguments are, or mean something, below `dir`.
    fn leads_on(&self, dir: &RelPath) -> bool {
        !self.below(dir).is_empty()
    }

    /// True if the source at `place` is what stands at the destination under its path: links and mounts lead both ends
    /// to it.
    fn is_at_destination(&self, place: &Place) -> bool {
        let Some(root) = &self.options.beside else { return false };
        let root = Dir::open_root(root).map(|root| root.with_way(Way::Follow));
        let there = root.and_then(|root| root.dir(&place.dir_path, Use::Pass)?.stat(&place.name));
        let here = place.dir.stat(&place.name);
        there.is_ok_and(|there| here.is_ok_and(|here| inode_of(&here) == inode_of(&there)))
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

/// The handle `dir`, through which paths lead along symlinks if some are followed; else along those that arguments
/// name.
fn following(dir: Dir, options: &SourceOptions) -> Dir {
    match options.follow {
        Follow::Never => dir.keeping_links(options.trust),
        _ => dir.with_way(Way::Follow),
    }
}

/// The path in what is packed of an argument.
fn path_in(bytes: &[u8]) -> &[u8] {
    let mut bytes = Reader::new(bytes);
    bytes.varint().expect("it was written whole");
    bytes.rest()
}

/// The names of a path, by which arguments are in order: what is below a directory follows it.
fn names_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// True if `path` is `dir`, or below it.
fn is_in(path: &[u8], dir: &RelPath) -> bool {
    let rest = path.strip_prefix(dir.as_bytes());
    dir.is_root() || rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

impl Tree for Sources {
    type Snapshot = LocalSnapshot;

    fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
        let base = match path.is_root() {
            true => self.bases.first()?,
            false => self.source_of("read", path).ok()?.base,
        };
        full_path(&base.path, path)
    }

    fn tells_extents(&self) -> bool {
        let mut dirs = self.bases.iter().filter_map(|base| base.dir.as_deref().ok());
        dirs.any(|dir| System::of(dir).is_btrfs())
    }

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_part(dir, Part::All)
    }

    fn list_some(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        self.list_part(dir, rest.into())
    }

    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_part(dir, Part::FirstVersions)
    }

    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        let SourceOptions { follow, see, .. } = self.options;
        if follow != Follow::Never || see.fake_super {
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
        let place = self.dir_of("remove", path).and_then(|dir| Place::of(dir, "remove", path));
        let place = match place {
            // Which argument it is of is told by which has it: none, if it went under another name in the list.
            Err(StoreError::NotFound { .. }) => return Ok(()),
            place => place?,
        };
        if self.is_at_destination(&place) {
            let (path, source) =
                (path.clone(), io::Error::other("it is at the destination itself"));
            return Err(StoreError::Io { action: "remove", path, source });
        }
        let how = (self.options.follow, self.options.see.plain());
        match follow::look(&place.dir, (&place.name, path), how) {
            // What it led to went under its own name.
            Err(errno) if dangles(&place.dir, &place.name, errno) => Ok(()),
            found => remove_unchanged(&place, is, found),
        }
    }
}
