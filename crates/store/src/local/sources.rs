//! The arguments of a sender, as one tree.
//!
//! rsync's rule: `dir` stands for an entry of that name, `dir/` for the entries in it. Several arguments share one root;
//! of two entries with one name, that of the earlier argument is taken, with all below it.
//!
//! An argument that keeps its directories (`--relative`) is a path of several names: those before the last are listed with
//! nothing in them but what arguments mean.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use deltic_core::meta::Linked;
use deltic_core::names::Rest;
use deltic_core::path::{BadPath, printable};
use deltic_core::{Entry, Follow, Kind, Meta, Mounts, Name, Names, RelPath, See};
use rustix::io::Errno;

use super::follow;
use super::list::{Part, list, look_at_names, names_for, sift};
use super::more::{Reach, look_again};
use super::place::Place;
use super::remove::remove_unchanged;
use super::snapshot::{LocalSnapshot, Versions, look_at, look_at_root};
use crate::dir::{Dir, Use, Way};
use crate::error::At;
use crate::filter::{Fate, Scopes, Start};
use crate::{Filter, Listing, StoreError, Tree, Version, check_path, lock};

/// One source argument, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceArg {
    /// Where the paths of entries start.
    dir: PathBuf,
    /// What is meant below it; the root for all that is in it.
    path: RelPath,
    /// What is in a directory, and not only the directory itself.
    contents: bool,
}

impl SourceArg {
    /// Reads `arg`: a trailing slash, `.` and `..` stand for what is in a directory.
    ///
    /// # Errors
    /// [`BadPath`] for an empty argument, which is most likely an unset variable, and for names that are too long.
    pub fn new(arg: &OsStr) -> Result<Self, BadPath> {
        let bytes = arg.as_bytes();
        let start = bytes.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
        let (dir, last) = bytes.split_at(start);
        let root = RelPath::root();
        match (dir, last) {
            (b"", b"") => Err(BadPath::Empty),
            (_, b"" | b"." | b"..") => Ok(Self { dir: path_of(bytes), path: root, contents: true }),
            (dir, name) => {
                Name::new(name)?;
                let dir = if dir.is_empty() { b"." } else { dir };
                Ok(Self { dir: path_of(dir), path: RelPath::parse(name)?, contents: false })
            }
        }
    }

    /// Reads `arg` as `--relative` does: all of it is the path, or what follows the first `/./`.
    ///
    /// # Errors
    /// Those of [`SourceArg::new`], and [`BadPath::Dots`] for `..` in the path.
    pub fn relative(arg: &OsStr) -> Result<Self, BadPath> {
        let bytes = arg.as_bytes();
        if let Some(dot) = bytes.windows(3).position(|three| three == b"/./") {
            let dir = if dot == 0 { &b"/"[..] } else { &bytes[..dot] };
            return Self::below(path_of(dir), &bytes[dot + 3..]);
        }
        match bytes {
            b"" => Err(BadPath::Empty),
            [b'/', rest @ ..] => Self::below(path_of(b"/"), rest),
            _ => Self::below(path_of(b"."), bytes),
        }
    }

    /// Reads a line of `--files-from`, whose paths start in `dir`. What would rise above it stays in it.
    ///
    /// # Errors
    /// As [`SourceArg::new`].
    pub fn listed(dir: &OsStr, line: &[u8]) -> Result<Self, BadPath> {
        let mut names: Vec<&[u8]> = Vec::new();
        for name in line.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        let mut path = names.join(&b'/');
        if matches!(line, [.., b'/'] | [.., b'/', b'.'] | b".") {
            path.push(b'/');
        }
        Self::below(path_of(dir.as_bytes()), &path)
    }

    fn below(dir: PathBuf, path: &[u8]) -> Result<Self, BadPath> {
        let contents = matches!(path, b"" | b"." | [.., b'/'] | [.., b'/', b'.']);
        let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let path = RelPath::parse(&names.collect::<Vec<_>>().join(&b'/'))?;
        Ok(Self { dir, path, contents })
    }

    /// The directory that its path starts in, as it was written.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is meant below that directory; the root for all that is in it.
    #[must_use]
    pub const fn path(&self) -> &RelPath {
        &self.path
    }

    /// The first name of what it stands for in the transfer; `None` where that is all there is in a directory.
    #[must_use]
    pub fn first_name(&self) -> Option<Name> {
        self.path.components().next().and_then(|name| Name::new(name).ok())
    }

    /// Its last name, as it was written.
    fn own_name(&self) -> Option<Name> {
        let dir = self.dir.file_name().map(OsStr::as_bytes);
        let last = self.path.components().next_back().or(dir)?;
        Name::new(last).ok()
    }

    /// What the system answered to `action` on it.
    fn error(&self, action: &'static str, errno: Errno) -> StoreError {
        let mut path = self.dir.clone();
        path.extend((!self.path.is_root()).then(|| OsStr::from_bytes(self.path.as_bytes())));
        let argument = printable(path.as_os_str().as_bytes());
        StoreError::Argument { action, argument, source: errno.into() }
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

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
    /// Whether arguments that are not there are none.
    pub ignore_missing: bool,
    /// Which symlinks are what they point at.
    pub follow: Follow,
    /// What is looked at of an entry.
    pub see: See,
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

/// An argument with its directory held. Arguments in one directory share a handle.
#[derive(Debug)]
struct Source {
    arg: SourceArg,
    dir: Result<Arc<Dir>, Errno>,
    /// What files of rules say of the names in it.
    scopes: Arc<Scopes>,
    /// The device that it is on, if that matters.
    device: Option<u64>,
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
        let base = args.first().map_or_else(|| Path::new(""), |source| source.arg.dir());
        let protects = Scopes::new(options.protects.clone(), base, Start::Root);
        let overlap = options.see.linked && overlap(&args);
        let names_of_one = if overlap { u32::try_from(args.len()).unwrap_or(u32::MAX) } else { 1 };
        let chosen = Mutex::default();
        Self { args, by_path, again, chosen, protects, names_of_one, options }
    }

    /// The name of the only argument that is there, if it is no directory. Where none is there, the name of the first: nothing
    /// comes, and no directory is made for it.
    #[must_use]
    pub fn single_file(&self) -> Option<Name> {
        let mut there = self.args.iter().filter(|source| !source.is_missing());
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

    /// Metadata of the root itself: that of the first argument that stands for what is in a directory, if one does.
    #[must_use]
    pub fn own(&self) -> Option<Meta> {
        let source = self.args.iter().find(|source| source.arg.path.is_root())?;
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
        let missing = |source: &&Source| source.dir.is_ok() && source.look().is_some_and(is_gone);
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

    /// The arguments that have a directory `dir` of which all takes part, in order.
    fn sharers(&self, dir: &RelPath) -> Vec<usize> {
        let shares = |no: &usize| {
            let Source { arg, dir: held, device, .. } = &self.args[*no];
            let Ok(held) = held else { return false };
            dir.starts_with(&arg.path)
                && held.dir(dir, Use::Pass).is_ok()
                && (device.is_none() || device_of(held, dir) == *device)
        };
        if self.args.len() == 1 {
            return Vec::new();
        }
        match self.candidates(dir) {
            // Nobody to share it with: it need not be looked at.
            candidates if candidates.len() < 2 => candidates,
            candidates => candidates.into_iter().filter(shares).collect(),
        }
    }

    /// Lists a directory that several arguments have, or some lead through: of equal names the first one's counts, but
    /// directories go before what is none, and are one directory. Where arguments lead on, all of it at once.
    fn list_shared(
        &self,
        dir: &RelPath,
        sharers: &[usize],
        part: Part,
    ) -> Result<Listing, StoreError> {
        let hold = |no: &usize| {
            let root = self.args[*no].held("list", dir)?;
            Ok((*no, root.dir(dir, Use::Read).at("list", dir)?))
        };
        let held = sharers.iter().map(hold).collect::<Result<Vec<_>, _>>()?;
        let part = if self.leads_on(dir) { Part::All } else { part };
        Ok(self.list_held(dir, &held, part))
    }

    /// The same, of directories of these arguments that are held.
    fn list_held(&self, dir: &RelPath, held: &[(usize, Dir)], part: Part) -> Listing {
        let (mut all, most) = (Listing::default(), part.most());
        all.partial = held.is_empty();
        let dirs: Vec<&Dir> = held.iter().map(|(_, held)| held).collect();
        let Some(mut rest) = names_for(&dirs, dir, (&|_| false, part), &mut all) else {
            return all;
        };
        let names: Vec<Name> = (&mut rest).take(most).collect();
        let mut entries = Vec::new();
        for (no, held) in held {
            let source = &self.args[*no];
            let judge = source.held("list", dir).and_then(|root| source.scopes.judge(dir, root));
            let mut judge = match judge {
                Ok(judge) => judge,
                Err(error) => {
                    all.errors.push(error);
                    continue;
                }
            };
            let fates = (&mut judge, Fate::Stays);
            let found = look_at_names((held, dir), fates, self.options.how(), &names);
            all.errors.extend(found.errors);
            entries.extend(found.entries.into_iter().map(|entry| (*no, entry)));
        }
        entries.extend(self.list_below(&mut all, dir, &entries));
        all.entries = self.merged(dir, entries);
        all.rest = (rest.len() > 0).then_some(rest);
        all
    }

    /// One entry of each name, in order.
    fn merged(&self, dir: &RelPath, mut entries: Vec<(usize, Entry)>) -> Vec<Entry> {
        let key = |(no, entry): &(usize, Entry)| (entry.name.clone(), !entry.meta.is_dir(), *no);
        entries.sort_by_cached_key(key);
        entries.dedup_by(|(_, later), (_, first)| later.name == first.name);
        let mut chosen = lock(&self.chosen);
        let mut chosen = |name: &Name, no| {
            let dir = chosen.entry(dir.clone()).or_default();
            // In a directory that is listed again it is there already.
            dir.entry(no).or_default().push(name).ok();
        };
        let keep = |(no, entry): (usize, Entry)| {
            // Where the first that has it need not be the one that counts.
            if let Ok(path) = dir.join(&entry.name)
                && self.candidates(&path).first() != Some(&no)
            {
                chosen(&entry.name, no);
            }
            entry
        };
        entries.into_iter().map(keep).collect()
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

    fn list_part(&self, dir: &RelPath, part: Part) -> Result<Listing, StoreError> {
        check_path("list", dir)?;
        let is_root = dir.is_root();
        let mut listing = if is_root { self.list_root(part) } else { self.list_plain(dir, part)? };
        self.thin(&mut listing, dir);
        let sift = |entry: &mut Entry| self.options.protects.sift(&mut entry.meta);
        listing.entries.iter_mut().for_each(sift);
        if self.names_of_one > 1 {
            for Entry { meta, .. } in &mut listing.entries {
                if let Some(Linked::Inode(inode, names)) = meta.linked() {
                    let names = names.saturating_mul(self.names_of_one);
                    meta.set_linked(Some(Linked::Inode(inode, names)));
                }
            }
        }
        Ok(listing)
    }

    fn list_root(&self, part: Part) -> Listing {
        let mut all = Listing::default();
        if let [only] = &*self.args
            && only.arg.path.is_root()
        {
            match only.list_dir(&self.options, part) {
                Ok(listing) => all = listing,
                Err(error) => all.errors.push(error),
            }
            return all;
        }
        if !self.leads_on(&RelPath::root()) {
            return self.list_roots(part);
        }
        let mut entries = Vec::new();
        for (no, source) in self.args.iter().enumerate().filter(|(_, s)| s.arg.path.is_root()) {
            match source.list_dir(&self.options, Part::All) {
                Ok(Listing { entries: found, errors, .. }) => {
                    all.errors.extend(errors);
                    entries.extend(found.into_iter().map(|entry| (no, entry)));
                }
                Err(error) => all.errors.push(error),
            }
        }
        entries.extend(self.list_below(&mut all, &RelPath::root(), &entries));
        all.entries = self.merged(&RelPath::root(), entries);
        all
    }

    /// Lists the root where it is what is in several directories, and nothing else.
    fn list_roots(&self, part: Part) -> Listing {
        let (mut held, mut errors) = (Vec::new(), Vec::new());
        for (no, source) in self.args.iter().enumerate() {
            match source.hold() {
                Ok(dir) => held.push((no, dir)),
                Err(error) => errors.push(error),
            }
        }
        if matches!(part, Part::Next(_)) {
            // They were told with the first part.
            errors.clear();
        }
        let mut all = self.list_held(&RelPath::root(), &held, part);
        all.errors.extend(errors);
        all
    }

    /// The names that arguments below `dir` go through or mean, and the first argument of each; `others` were found there for
    /// arguments that have all of it.
    fn list_below(
        &self,
        all: &mut Listing,
        dir: &RelPath,
        others: &[(usize, Entry)],
    ) -> Vec<(usize, Entry)> {
        let (mut entries, mut last) = (Vec::new(), None);
        // What leads only to what is not there does not take part either.
        let mut missing = Vec::new();
        for (no, name) in self.below(dir) {
            if last == Some(name) {
                continue;
            }
            let again = self.again.get(self.args[no].arg.path.as_bytes());
            for no in std::iter::once(no).chain(again.into_iter().flatten().copied()) {
                let source = &self.args[no];
                if let Some(Err(errno @ (Errno::NOENT | Errno::NOTDIR))) = source.look() {
                    let error = source.arg.error("look at", errno);
                    match source.dir {
                        // As in rsync, only a last name may be missing.
                        Err(_) if self.options.ignore_missing => all.errors.push(error),
                        _ => missing.push((no, name, error)),
                    }
                    continue;
                }
                if source.is_left_out(&self.options) {
                    continue;
                }
                // Those beside it are told of where it is listed; another one of the same path is not beside it.
                let path = &source.arg.path;
                missing.retain(|(no, other, _)| *other != name || self.args[*no].arg.path == *path);
                last = Some(name);
                match source.look_at(dir, name, &self.options) {
                    Ok(Some(entry)) if entry.meta.is_dir() && self.skips(dir, &entry) => {
                        all.skipped.extend(dir.join(&entry.name));
                    }
                    Ok(Some(entry)) => entries.push((no, entry)),
                    Ok(None) => {}
                    Err(error) if self.options.ignore_missing && is_missing(&error) => {}
                    Err(error) => all.errors.push(error),
                }
            }
        }
        if !missing.is_empty() {
            // Those below a directory that is listed in any case are told of there.
            let dirs = others.iter().filter(|(_, entry)| entry.meta.is_dir());
            let dirs: HashSet<&[u8]> = dirs.map(|(_, entry)| entry.name.as_bytes()).collect();
            let is_deeper = |no: &usize| {
                let names = |path: &RelPath| path.components().count();
                names(&self.args[*no].arg.path) > names(dir) + 1
            };
            missing.retain(|(no, name, _)| !is_deeper(no) || !dirs.contains(name));
        }
        if !self.options.ignore_missing {
            all.errors.extend(missing.into_iter().map(|(_, _, error)| error));
        }
        entries
    }

    /// Whether a directory is only named, where directories do not take part.
    fn skips(&self, dir: &RelPath, entry: &Entry) -> bool {
        let takes = self.options.recursive || self.options.dirs;
        !takes && dir.join(&entry.name).is_ok_and(|path| self.below(&path).next().is_none())
    }

    /// Whether all that is in `dir` takes part, and not only what arguments below it name.
    fn takes_contents(&self, dir: &RelPath) -> bool {
        if let ([only], true) = (&*self.args, self.options.recursive) {
            return dir.starts_with(&only.arg.path);
        }
        let mut above = Some(dir.clone());
        while let Some(at) = above {
            let named = self.by_path.get(at.as_bytes()).map(|no| &self.args[*no]);
            if named.is_some_and(|source| {
                let goes_in = self.options.recursive
                    || self.options.dirs && source.arg.contents && at == *dir;
                goes_in && !source.is_left_out(&self.options)
            }) {
                return true;
            }
            above = at.split_last().map(|(dir, _)| dir);
        }
        false
    }

    /// Takes out directories of other file systems, and those with nothing in them, as the options say.
    fn thin(&self, listing: &mut Listing, dir: &RelPath) {
        let SourceOptions { mounts, prune_empty_dirs, .. } = self.options;
        if mounts == Mounts::LeaveOut {
            listing.retain(|entry| !entry.meta.is_dir() || !self.is_mount(dir, entry));
        }
        if prune_empty_dirs {
            listing.retain(|entry| {
                !entry.meta.is_dir() || dir.join(&entry.name).is_ok_and(|dir| self.has_files(&dir))
            });
        }
    }

    fn is_mount(&self, dir: &RelPath, entry: &Entry) -> bool {
        dir.join(&entry.name).is_ok_and(|path| self.is_elsewhere(&path))
    }

    /// Whether the directory `path` is on another device than the argument that it is of.
    fn is_elsewhere(&self, path: &RelPath) -> bool {
        let Ok(source) = self.source_of("look at", path) else { return false };
        let device = source.dir.as_ref().ok().and_then(|dir| device_of(dir, path));
        source.device.is_some() && device.is_some() && device != source.device
    }

    /// Whether there is anything but directories below `dir`, or it or one of these is protected; so it is where that cannot
    /// be said.
    fn has_files(&self, dir: &RelPath) -> bool {
        let mut dirs = vec![(dir.clone(), None)];
        while let Some((dir, rest)) = dirs.pop() {
            if self.is_protected(&dir) {
                return true;
            }
            let Ok(listing) = self.list_plain(&dir, Part::from(rest)) else { return true };
            if !listing.errors.is_empty() || listing.entries.iter().any(|e| !e.meta.is_dir()) {
                return true;
            }
            let below = listing.entries.iter().filter_map(|entry| dir.join(&entry.name).ok());
            let below = below.map(|dir| (dir, None)).collect::<Vec<_>>();
            dirs.extend(listing.rest.map(|rest| (dir, Some(rest))));
            dirs.extend(below);
        }
        false
    }

    /// Whether the rules themselves say that the directory `dir` is not to be deleted at a receiver.
    fn is_protected(&self, dir: &RelPath) -> bool {
        let protects = |(above, name): (RelPath, Name)| {
            !self.protects.top(&above).admits(&name, true, Fate::Stays)
        };
        !self.options.protects.is_empty() && dir.split_last().is_some_and(protects)
    }

    fn list_plain(&self, dir: &RelPath, part: Part) -> Result<Listing, StoreError> {
        let mut all = Listing::default();
        let mounted = self.options.mounts != Mounts::Enter && self.is_elsewhere(dir);
        if self.takes_contents(dir) && !mounted {
            let sharers = self.sharers(dir);
            if sharers.len() > 1 || (self.args.len() > 1 && self.leads_on(dir)) {
                return self.list_shared(dir, &sharers, part);
            }
            return self.source_of("list", dir)?.list(dir, &self.options, part);
        }
        if matches!(part, Part::Next(_)) {
            return Err(StoreError::Changed { path: dir.clone() });
        }
        all.partial = true;
        if !mounted {
            let entries = self.list_below(&mut all, dir, &[]);
            all.entries = self.merged(dir, entries);
        }
        Ok(all)
    }
}

/// The handle `dir`, through which paths lead along symlinks if some are followed.
fn following(dir: Dir, follow: Follow) -> Dir {
    if follow == Follow::Never { dir } else { dir.with_way(Way::Follow) }
}

fn device_of(dir: &Dir, path: &RelPath) -> Option<u64> {
    let stat = match path.split_last() {
        None => rustix::fs::fstat(dir),
        Some((above, name)) => dir.dir(&above, Use::Pass).and_then(|dir| dir.stat(&name)),
    };
    stat.ok().map(|stat| stat.st_dev)
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

fn is_missing(error: &StoreError) -> bool {
    let StoreError::Argument { source, .. } = error else { return false };
    source.kind() == std::io::ErrorKind::NotFound
}

impl Source {
    fn shows(&self, path: &RelPath) -> bool {
        let Some((above, name)) = path.split_last() else { return true };
        let held = |dir: &Arc<Dir>| dir.dir(&above, Use::Pass);
        self.dir.as_ref().is_ok_and(|dir| held(dir).is_ok_and(|dir| dir.stat(&name).is_ok()))
    }

    fn held(&self, action: &'static str, path: &RelPath) -> Result<&Dir, StoreError> {
        self.dir.as_deref().map_err(|errno| StoreError::new(action, path, *errno))
    }

    /// What it is itself, or why not; nothing where it stands for what is in a directory that is held.
    fn look(&self) -> Option<Result<Meta, Errno>> {
        let dir = match &self.dir {
            Ok(dir) => dir,
            Err(errno) => return Some(Err(*errno)),
        };
        let (above, name) = self.arg.path.split_last()?;
        Some(dir.dir(&above, Use::Pass).and_then(|dir| look_at(&dir, &name, See::default())))
    }

    /// Whether nothing is there that it could stand for.
    fn is_missing(&self) -> bool {
        matches!(self.look(), Some(Err(Errno::NOENT | Errno::NOTDIR)))
    }

    /// Whether the rules leave out what it means, whatever directories on the way say: then it leads nowhere.
    fn is_left_out(&self, options: &SourceOptions) -> bool {
        if options.rules.is_empty() {
            return false;
        }
        let (Some((above, name)), Ok(dir)) = (self.arg.path.split_last(), &self.dir) else {
            return false;
        };
        let held = dir.dir(&above, Use::Pass);
        let look = |dir| {
            follow::look(&dir, (&name, &self.arg.path), (options.follow, options.see.plain()))
        };
        held.and_then(look)
            .is_ok_and(|meta| !self.scopes.top(&above).admits(&name, meta.is_dir(), Fate::Stays))
    }

    /// Lists the directory `dir` below its own.
    fn list(
        &self,
        dir: &RelPath,
        options: &SourceOptions,
        part: Part,
    ) -> Result<Listing, StoreError> {
        let root = self.held("list", dir)?;
        let mut judge = self.scopes.judge(dir, root)?;
        let held = root.dir(dir, Use::Read).at("list", dir)?;
        Ok(list((&held, dir), (&mut judge, Fate::Stays), options.how(), part))
    }

    /// Lists what is in its directory.
    fn list_dir(&self, options: &SourceOptions, part: Part) -> Result<Listing, StoreError> {
        let (dir, root) = (self.hold()?, RelPath::root());
        let mut judge = self.scopes.judge(&root, self.held("list", &root)?)?;
        Ok(list((&dir, &root), (&mut judge, Fate::Stays), options.how(), part))
    }

    /// Its directory, open to read.
    fn hold(&self) -> Result<Dir, StoreError> {
        let dir = self.dir.as_ref().map_err(|errno| self.arg.error("open", *errno))?;
        let dir = dir.dir(&RelPath::root(), Use::Read);
        dir.map_err(|errno| self.arg.error("list", errno))
    }

    /// The entry `name` of `at`, which this argument means or goes through; nothing where the rules leave out what it means.
    fn look_at(
        &self,
        at: &RelPath,
        name: &[u8],
        options: &SourceOptions,
    ) -> Result<Option<Entry>, StoreError> {
        let bad_name = |_| StoreError::BadName { action: "list", path: at.clone() };
        let name = Name::new(name).map_err(bad_name)?;
        let path = at.join(&name).map_err(bad_name)?;
        check_path("list", &path)?;
        let dir = self.dir.as_ref().map_err(|errno| self.arg.error("open", *errno))?;
        let unseen = |errno| self.arg.error("look at", errno);
        let held = dir.dir(at, Use::Pass).map_err(unseen)?;
        let mut meta = follow::look(&held, (&name, &path), options.how()).map_err(unseen)?;
        // What an argument goes through is a directory, or there is nothing below it.
        let goes_through = path != self.arg.path || self.arg.contents;
        if goes_through && !meta.is_dir() {
            let errno = if meta.kind == Kind::File { Errno::NOTDIR } else { Errno::LOOP };
            return Err(self.arg.error("look at", errno));
        }
        if path != self.arg.path {
            sift((&held, &name), &mut meta, options.how(), &self.scopes.top(at));
            return Ok(Some(Entry { name, meta }));
        }
        // At the root no directory was entered yet, so none has said anything.
        let mut judge =
            if at.is_root() { self.scopes.top(at) } else { self.scopes.judge(at, &**dir)? };
        let admitted = judge.admits(&name, meta.is_dir(), Fate::Stays);
        sift((&held, &name), &mut meta, options.how(), &judge);
        Ok(admitted.then_some(Entry { name, meta }))
    }
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

    fn open_all(&self, paths: &[RelPath]) -> Vec<Result<LocalSnapshot, StoreError>> {
        let mut last = None;
        paths.iter().map(|path| self.open_after(path, &mut last)).collect()
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
