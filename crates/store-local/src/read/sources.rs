//! The arguments of a sender as one tree.
//!
//! As in rsync, `dir` stands for an entry of that name, and `dir/` for the entries in it. Several arguments share one
//! root. If two arguments have an entry of one name, the entry of the earlier argument is taken, with all entries below
//! it.
//!
//! An argument that keeps its directories (`--relative`) is a path of several names. The directories before the last
//! name are listed with only those entries that arguments name.

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

use super::above::scopes_below;
use super::list::{Look, Part, inode, is_dangling_link};
use super::snapshot::LocalSnapshot;
use crate::attributes::metadata::read_meta_of_root;
use crate::attributes::more::{Reach, read_again};
use crate::handles::dir::{Dir, Trust, Use, Way};
use crate::handles::place::{Place, VersionLookup};
use crate::handles::stat::{file_type, inode_of};
use crate::kernel::errno::store_error;
use crate::kernel::lock;
use crate::kernel::system::System;
use crate::read::follow;
use crate::roots::context::StoreContext;
use crate::roots::named::{NamedDir, full_path};
use deltic_store::filter::{Scopes, Start};
use deltic_store::{Filter, Listing, StoreError, Tree, Version};

pub use arg::{SourceArg, SourceArgs};
use source::{Base, Source, device_of};

/// Options for turning arguments into a tree.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Rules for the names to transfer.
    pub rules: Filter,
    /// True if directories are transferred with all entries below. Otherwise a directory is listed only if its contents
    /// are named (`dir/`).
    pub recursive: bool,
    /// True if named directories are transferred even without contents.
    pub dirs: bool,
    /// True if directories with nothing but directories below are left out.
    pub prune_empty_dirs: bool,
    /// Rules for names that a receiver may delete: a protected directory is not left out for being empty. Extended
    /// attributes that these rules exclude need not be sent.
    pub protects: Filter,
    /// Handling of mount points.
    pub mounts: Mounts,
    /// True if parent directories of arguments are created without the metadata of the source.
    pub plain_implied_dirs: bool,
    /// True if missing arguments are ignored.
    pub ignore_missing: bool,
    /// Symlinks that are replaced by their targets.
    pub follow: Follow,
    /// Trusted owners of symlinks on the way to arguments.
    pub trust: Trust,
    /// State that the sources share with other stores.
    pub context: StoreContext,
    /// Metadata to read.
    pub see: MetaMask,
    /// The destination, existing or not. It is left out of the transfer, wherever found.
    pub destination: Option<PathBuf>,
    /// The destination, if on this machine. An entry there is not removed as a source of the same path.
    pub beside: Option<PathBuf>,
}

impl SourceOptions {
    /// Returns the parameters for examining entries of `dir`, at `path` below `root`.
    fn look_parameters<'a>(&self, root: &'a Dir, dir: &'a Dir, path: &'a RelPath) -> Look<'a> {
        Look { root, dir, path, follow: self.follow, see: self.see }
    }
}

/// The tree of a sender's arguments.
#[derive(Debug)]
pub struct SourceTree {
    args: PackedStrings,
    bases: Vec<Base>,
    /// Index of the base that is sent as a directory on the way to an argument (`dir/./path`).
    dotted: Option<usize>,
    /// Arguments, sorted by the names in the path, and by position for equal paths.
    by_path: Vec<StringSlot>,
    /// The argument for each entry of a directory that several arguments share. Entries of the first argument are not
    /// listed.
    chosen: Mutex<HashMap<RelPath, BTreeMap<StringSlot, Names>>>,
    /// Rules for names that are protected at the receiver.
    protects: Scopes,
    /// Arguments that are no valid paths, with the error.
    refused: Vec<(PathBuf, BadPath)>,
    /// Most names under which one hard link of a file is listed.
    names_of_one: u32,
    options: SourceOptions,
}

impl SourceTree {
    /// Opens the directories of `args`. Errors, also for missing directories, are reported in the root's listing.
    #[must_use]
    pub fn new(args: SourceArgs, options: SourceOptions) -> Self {
        let mut held: HashMap<PathBuf, Arc<Dir>> = HashMap::new();
        let hold = |(path, is_root): (OsString, bool)| {
            let path = PathBuf::from(path);
            let start = if is_root { Start::Root } else { Start::Names };
            let scopes = scopes_below(options.rules.clone(), &path, start);
            let dir = held.get(&path).map_or_else(
                || {
                    let named = NamedDir {
                        path: path.clone(),
                        trust: options.trust,
                        context: options.context.clone(),
                    };
                    named.open().map(|dir| Arc::new(set_to_follow(dir, &options)))
                },
                |dir| Ok(Arc::clone(dir)),
            );
            if let Ok(dir) = &dir {
                held.insert(path.clone(), Arc::clone(dir));
            }
            Base { path, dir, scopes, context: options.context.clone() }
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
        // The path of the destination is unknown here. No pattern matches this path.
        let base = Path::new(OsStr::from_bytes(b"/\0"));
        let protects = scopes_below(options.protects.clone(), base, Start::Root);
        let chosen = Mutex::default();
        let names_of_one = 1;
        let mut sources =
            Self { args, bases, dotted, by_path, chosen, protects, refused, names_of_one, options };
        if sources.options.see.linked && sources.has_overlapping_args() {
            sources.names_of_one = u32::try_from(sources.args.len()).unwrap_or(u32::MAX);
        }
        sources
    }

    fn source_at(&self, at: StringSlot) -> Source<'_> {
        let mut bytes = Reader::new(self.args.get(at));
        let base = bytes.varint().expect("it was written whole");
        let path = RelPath::parse(bytes.rest()).expect("it was one before it was packed");
        let (no, contents) = ((base >> 1) as usize, base & 1 == 1);
        Source { base: &self.bases[no], path, contents }
    }

    /// Returns all arguments in order.
    fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        self.args.iter().map(|(at, _)| self.source_at(at))
    }

    /// Returns the argument if there is only one; `None` for several.
    fn only_source(&self) -> Option<Source<'_>> {
        if let [only] = *self.by_path { Some(self.source_at(only)) } else { None }
    }

    /// Returns the arguments with this path, in order.
    fn sources_at(&self, path: &RelPath) -> &[StringSlot] {
        self.split_at(path).0
    }

    /// Returns the arguments below `path`, sorted by path.
    fn sources_below(&self, path: &RelPath) -> &[StringSlot] {
        let behind = self.split_at(path).1;
        &behind[..behind.partition_point(|at| is_in(path_in(self.args.get(*at)), path))]
    }

    /// Splits the sorted arguments that do not come before `path` into arguments equal to `path` and arguments after
    /// `path`. The latter begin with the arguments below `path`.
    fn split_at(&self, path: &RelPath) -> (&[StringSlot], &[StringSlot]) {
        let path_at = |at: &StringSlot| path_in(self.args.get(*at));
        let is_before = |at: &StringSlot| names_of(path_at(at)).lt(names_of(path.as_bytes()));
        let from = &self.by_path[self.by_path.partition_point(is_before)..];
        let is_it = |at: &&StringSlot| path_at(at) == path.as_bytes();
        from.split_at(from.iter().take_while(is_it).count())
    }

    /// True if one argument includes another, so that a file may be listed under more names than it has hard links.
    fn has_overlapping_args(&self) -> bool {
        let names = |at: &StringSlot| {
            let source = self.source_at(*at);
            let path = source.base.path.join(OsStr::from_bytes(source.path.as_bytes()));
            path.components().filter(|name| *name != Component::CurDir).collect::<PathBuf>()
        };
        // Sorted by path, arguments of one base that are below another argument directly follow that argument.
        let mut paths = self.by_path.clone();
        if self.bases.len() > 1 {
            paths.sort_by_cached_key(names);
        }
        paths.windows(2).any(|pair| names(&pair[1]).starts_with(names(&pair[0])))
    }

    /// Returns the tree without the directory `destination`, wherever found.
    #[must_use]
    pub fn excluding_destination(mut self, destination: Option<PathBuf>) -> Self {
        self.options.destination = destination;
        self
    }

    /// Returns the tree for a transfer to the directory `destination` on this machine.
    #[must_use]
    pub fn for_destination(mut self, destination: Option<PathBuf>) -> Self {
        self.options.beside = destination;
        self
    }

    /// Returns the index of the base that provides the root's metadata.
    fn index_of_root_metadata(&self) -> Option<usize> {
        self.dotted.filter(|_| !self.options.plain_implied_dirs)
    }

    /// Returns the name of the only existing entry, if the entry is listed without contents: a file, or a directory
    /// that is not entered. If no argument exists, returns the name of the first, so that no directory is created for
    /// it.
    #[must_use]
    pub fn single_name(&self) -> Option<Name> {
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
        let SourceOptions { follow, see, .. } = &self.options;
        let dir = source.base.dir.as_ref().ok()?;
        let meta =
            follow::look_at_followed(dir, &name, &source.path, *follow, see.without_optional())
                .ok()?;
        let is_bare = self.options.dirs && !self.options.recursive && !source.contents;
        (!meta.is_dir() || is_bare).then_some(name)
    }

    /// Returns the inodes of the directories that provide the root's names, and of the file if that is the [only
    /// entry](Self::single_name).
    #[must_use]
    pub fn dir_inodes(&self) -> BTreeSet<Inode> {
        let dirs = self.bases.iter().filter_map(|base| inode(base.dir.as_deref().ok()?).ok());
        let file = self.single_name().and_then(|name| {
            let stat = |base: &Base| base.dir.as_deref().ok()?.stat_behind(&name).ok();
            let stat = self.bases.iter().find_map(stat).filter(|stat| !file_type(stat).is_dir())?;
            Some(Inode { device: stat.st_dev, number: stat.st_ino })
        });
        dirs.chain(file).collect()
    }

    /// Returns the metadata of the root: that of the first argument that stands for a directory's content, or of the
    /// directory on the way to an argument. `None` for an unreadable directory, which provides neither entries nor its
    /// mode.
    #[must_use]
    pub fn root_meta(&self) -> Option<Meta> {
        let base = match self.sources_at(&RelPath::root()).first() {
            Some(at) => {
                let source = self.source_at(*at);
                source.open_start_dir().ok()?;
                source.base
            }
            None => &self.bases[self.index_of_root_metadata()?],
        };
        let Base { dir, scopes, .. } = base;
        let mut own = read_meta_of_root(dir.as_deref().ok()?, self.options.see).ok()?;
        let judge = scopes.judge_by_global_rules(&RelPath::root());
        let at = || Reach::Followed(dir.as_ref().map(|dir| dir.own_path()).unwrap_or_default());
        read_again(at, &mut own, self.options.see, &|name| judge.admits_xattr(name));
        judge.remove_excluded_xattrs(&mut own);
        self.options.protects.remove_excluded_xattrs(&mut own);
        Some(own)
    }

    /// Returns the paths of missing arguments with an existing base directory.
    #[must_use]
    pub fn missing(&self) -> Vec<RelPath> {
        let is_gone = |look| look == Err(Errno::NOENT);
        let missing = |source: &Source<'_>| {
            source.base.dir.is_ok()
                && source.look_at_entry(self.options.follow).is_some_and(is_gone)
        };
        self.sources().filter(missing).map(|source| source.path).collect()
    }

    /// Returns the argument that provides `path`: the first argument that includes the path, or else an argument below
    /// the path.
    fn source_of(&self, action: &'static str, path: &RelPath) -> Result<Source<'_>, StoreError> {
        let not_found = || store_error(action, path, Errno::NOENT);
        if let Some(only) = self.only_source() {
            let is_its = path.starts_with(&only.path) || only.path.starts_with(path);
            return is_its.then_some(only).ok_or_else(not_found);
        }
        if let Some((dir, name)) = path.split_last()
            && let Some(chosen) = lock(&self.chosen).get(&dir)
            && let Some((at, _)) = chosen.iter().find(|(_, names)| names.contains(&name))
        {
            return Ok(self.source_at(*at));
        }
        let candidates = self.candidate_args(path);
        let shows = |at: &&StringSlot| self.source_at(**at).has_path(path);
        let first = match &*candidates {
            [only] => Some(only),
            // The first argument that has the path counts. If every argument lacks the path, the error of the last
            // argument is reported.
            several => several.iter().find(shows).or_else(|| several.last()),
        };
        first.map(|at| self.source_at(*at)).ok_or_else(not_found)
    }

    /// Returns the arguments that may have `path`, in order: the arguments at the path or above, and the first argument
    /// below.
    fn candidate_args(&self, path: &RelPath) -> Vec<StringSlot> {
        let mut all: Vec<StringSlot> =
            self.sources_below(path).first().copied().into_iter().collect();
        let mut above = Some(path.clone());
        while let Some(at) = above {
            all.extend(self.sources_at(&at));
            above = at.split_last().map(|(dir, _)| dir);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the arguments that have the directory `dir` with all contents, in order. Empty if only one argument may
    /// have the directory.
    fn args_with_whole_dir(&self, dir: &RelPath) -> Vec<StringSlot> {
        let shares = |at: &StringSlot| {
            let source = self.source_at(*at);
            let Ok(held) = &source.base.dir else { return false };
            dir.starts_with(&source.path)
                && source.lists_whole_dir(dir, &self.options)
                && held.open_dir(dir, Use::Pass).is_ok()
                && source.device(&self.options).is_none_or(|own| device_of(held, dir) == Some(own))
        };
        if self.only_source().is_some() {
            return Vec::new();
        }
        match self.candidate_args(dir) {
            // A single candidate need not be looked at.
            candidates if candidates.len() < 2 => Vec::new(),
            candidates => candidates.into_iter().filter(shares).collect(),
        }
    }

    fn dir_of(&self, action: &'static str, path: &RelPath) -> Result<&Dir, StoreError> {
        self.source_of(action, path)?.open_held(action, path)
    }

    /// True if there are arguments at or below `dir`.
    fn has_args_below(&self, dir: &RelPath) -> bool {
        !self.sources_below(dir).is_empty()
    }

    /// True if the source at `place` and the destination entry of the same path are one entry, because of symlinks or
    /// mounts.
    fn is_at_destination(&self, place: &Place) -> bool {
        let Some(root) = &self.options.beside else { return false };
        let root = Dir::open_root(root, &self.options.context.shared)
            .map(|root| root.with_resolver(Way::Follow));
        let there =
            root.and_then(|root| root.open_dir(&place.dir_path, Use::Pass)?.stat(&place.name));
        let here = place.dir.stat(&place.name);
        there.is_ok_and(|there| here.is_ok_and(|here| inode_of(&here) == inode_of(&there)))
    }

    /// Returns the place of `path`. Reuses the directory handle of the place `last` if directory and argument are the
    /// same.
    fn place_reusing<'a, 'l>(
        &'a self,
        action: &'static str,
        path: &RelPath,
        last: &'l mut Option<(&'a Dir, Place)>,
    ) -> Result<&'l Place, StoreError> {
        let dir = self.dir_of(action, path)?;
        let place = match last.take() {
            Some((of, place)) if std::ptr::eq(of, dir) => place.next_place(dir, action, path)?,
            _ => Place::parent_of(dir, action, path)?,
        };
        Ok(&last.insert((dir, place)).1)
    }

    fn open_after<'a>(
        &'a self,
        path: &RelPath,
        last: &mut Option<(&'a Dir, Place)>,
    ) -> Result<LocalSnapshot, StoreError> {
        let place = self.place_reusing("open", path, last)?;
        let SourceOptions { follow, see, .. } = self.options;
        if follow::open_follows_link(follow, &place.dir, &place.name, path) {
            LocalSnapshot::open_behind(&place.dir, &place.name, path, see)
        } else {
            LocalSnapshot::open(&place.dir, &place.name, path, see)
        }
    }
}

/// Returns `dir`, set to follow all symlinks if an option follows any. Otherwise follows only symlinks in paths that
/// arguments name.
fn set_to_follow(dir: Dir, options: &SourceOptions) -> Dir {
    match options.follow {
        Follow::Never => dir.keeping_links(options.trust),
        _ => dir.with_resolver(Way::Follow),
    }
}

/// Returns the path of a packed argument.
fn path_in(bytes: &[u8]) -> &[u8] {
    let mut bytes = Reader::new(bytes);
    bytes.varint().expect("it was written whole");
    bytes.rest()
}

/// Returns the names of a path, for comparing paths. In the order of arguments, paths below a directory directly follow
/// that directory.
fn names_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// True if `path` is `dir`, or below `dir`.
fn is_in(path: &[u8], dir: &RelPath) -> bool {
    let rest = path.strip_prefix(dir.as_bytes());
    dir.is_root() || rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

impl Tree for SourceTree {
    type Snapshot = LocalSnapshot;

    fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
        let base = match path.is_root() {
            true => self.bases.first()?,
            false => self.source_of("read", path).ok()?.base,
        };
        full_path(&base.path, path, &self.options.context.shared.bounds)
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
        let mut versions = VersionLookup::default();
        let version = |path| versions.of(self.place_reusing("look at", path, &mut last).ok()?);
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
        let place =
            self.dir_of("remove", path).and_then(|dir| Place::parent_of(dir, "remove", path));
        let place = match place {
            // The entry led to the argument, so the entry was removed under another name of the list.
            Err(StoreError::NotFound { .. }) => return Ok(()),
            place => place?,
        };
        if self.is_at_destination(&place) {
            let (path, source) =
                (path.clone(), io::Error::other("source and destination are the same entry"));
            return Err(StoreError::Io { action: "remove", path, source });
        }
        let see = self.options.see.without_optional();
        match follow::look_at_followed(&place.dir, &place.name, path, self.options.follow, see) {
            // The symlink's target was removed under its own name.
            Err(errno) if is_dangling_link(&place.dir, &place.name, errno) => Ok(()),
            found => place.remove_unchanged(is, found),
        }
    }
}
