//! The arguments of a sender, as one tree.
//!
//! rsync's rule: `dir` stands for an entry of that name, `dir/` for the entries in it. Several arguments share one root;
//! of two entries with one name, that of the earlier argument is taken, with all below it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use deltic_core::path::{BadPath, printable};
use deltic_core::{Entry, Meta, Name, RelPath, See};
use rustix::io::Errno;

use super::list::list;
use super::place::Place;
use super::snapshot::{LocalSnapshot, file_type, look_at, look_at_root};
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::{Filter, Listing, StoreError, Tree, check_path};

/// One source argument, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceArg {
    dir: PathBuf,
    /// The entry of `dir` that is meant; all of them without.
    name: Option<Name>,
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
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        match (dir, last) {
            (b"", b"") => Err(BadPath::Empty),
            (_, b"" | b"." | b"..") => Ok(Self { dir: path(bytes), name: None }),
            (b"", name) => Ok(Self { dir: path(b"."), name: Some(Name::new(name)?) }),
            (dir, name) => Ok(Self { dir: path(dir), name: Some(Name::new(name)?) }),
        }
    }

    /// What the system answered to `action` on it.
    fn error(&self, action: &'static str, errno: Errno) -> StoreError {
        let mut path = self.dir.clone();
        path.extend(self.name.iter().map(|name| OsStr::from_bytes(name.as_bytes())));
        let argument = printable(path.as_os_str().as_bytes());
        StoreError::Argument { action, argument, source: errno.into() }
    }
}

/// What a sender's arguments stand for: a tree to read.
#[derive(Debug)]
pub struct Sources {
    args: Vec<Source>,
    rules: Filter,
    see: See,
}

/// An argument with its directory held. Arguments in one directory share a handle.
#[derive(Debug)]
struct Source {
    arg: SourceArg,
    dir: Result<Arc<Dir>, Errno>,
}

impl Sources {
    /// Holds the directories of `args`. What cannot be held, or is not there, is an error of the root's listing.
    #[must_use]
    pub fn new(args: Vec<SourceArg>, rules: Filter) -> Self {
        let mut held: Vec<(PathBuf, Arc<Dir>)> = Vec::new();
        let hold = |arg: SourceArg| {
            let known = held.iter().rev().find(|(path, _)| *path == arg.dir);
            let dir = known.map_or_else(
                || Dir::open_root(&arg.dir).map(Arc::new),
                |(_, dir)| Ok(Arc::clone(dir)),
            );
            if let (Ok(dir), Some(_)) = (&dir, &arg.name) {
                held.push((arg.dir.clone(), Arc::clone(dir)));
            }
            Source { arg, dir }
        };
        Self { args: args.into_iter().map(hold).collect(), rules, see: See::default() }
    }

    /// The same, looked at as `see` says.
    #[must_use]
    pub fn seeing(self, see: See) -> Self {
        Self { see, ..self }
    }

    /// The name of the only argument, if it is there and no directory.
    #[must_use]
    pub fn single_file(&self) -> Option<Name> {
        let [Source { arg, dir }] = &*self.args else { return None };
        let name = arg.name.as_ref()?;
        let stat = dir.as_ref().ok()?.stat(name).ok()?;
        (!file_type(&stat).is_dir()).then(|| name.clone())
    }

    /// Metadata of the root itself: that of the first argument that stands for what is in a directory, if one does.
    #[must_use]
    pub fn own(&self) -> Option<Meta> {
        let source = self.args.iter().find(|source| source.arg.name.is_none())?;
        look_at_root(source.dir.as_deref().ok()?, self.see).ok()
    }

    /// The held directory in which `path` starts: that of the first argument with its first name.
    fn dir_of(&self, action: &'static str, path: &RelPath) -> Result<&Dir, StoreError> {
        let not_found = || StoreError::new(action, path, Errno::NOENT);
        let first =
            path.components().next().and_then(|name| Name::new(name).ok()).ok_or_else(not_found)?;
        let shows = |source: &&Source| match &source.arg.name {
            Some(name) => *name == first,
            // With a single argument, using the entry tells soon enough.
            None => self.args.len() == 1 || source.shows(&first),
        };
        let source = self.args.iter().find(shows).ok_or_else(not_found)?;
        source.dir.as_deref().map_err(|errno| StoreError::new(action, path, *errno))
    }

    fn list_root(&self) -> Listing {
        let mut all = Listing::default();
        for source in &self.args {
            if let Err(error) = source.list_into(&mut all, (&self.rules, self.see)) {
                all.errors.push(error);
            }
        }
        // A stable sort, so that of equal names the first argument's comes first.
        all.entries.sort_by(|a, b| a.name.cmp(&b.name));
        all.entries.dedup_by(|later, first| later.name == first.name);
        all
    }
}

impl Source {
    fn shows(&self, name: &Name) -> bool {
        self.dir.as_ref().is_ok_and(|dir| dir.stat(name).is_ok())
    }

    fn list_into(&self, all: &mut Listing, (rules, see): (&Filter, See)) -> Result<(), StoreError> {
        let dir = self.dir.as_ref().map_err(|errno| self.arg.error("open", *errno))?;
        let Some(name) = &self.arg.name else {
            let dir = dir.dir(&RelPath::root(), Use::Read);
            let dir = dir.map_err(|errno| self.arg.error("list", errno))?;
            let one = list(&dir, &RelPath::root(), (rules, see));
            all.entries.extend(one.entries);
            all.errors.extend(one.errors);
            return Ok(());
        };
        let in_root = RelPath::parse(name.as_bytes()).expect("a name is a path");
        check_path("list", &in_root)?;
        let meta = look_at(dir, name, see).map_err(|errno| self.arg.error("look at", errno))?;
        if rules.admits(&in_root, meta.is_dir()) {
            all.entries.push(Entry { name: name.clone(), meta });
        }
        Ok(())
    }
}

impl Tree for Sources {
    type Snapshot = LocalSnapshot;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        check_path("list", dir)?;
        if dir.is_root() {
            return Ok(self.list_root());
        }
        let held = self.dir_of("list", dir)?.dir(dir, Use::Read).at("list", dir)?;
        Ok(list(&held, dir, (&self.rules, self.see)))
    }

    fn open(&self, path: &RelPath) -> Result<LocalSnapshot, StoreError> {
        let dir = self.dir_of("open", path)?;
        let place = Place::of(dir, "open", path)?;
        LocalSnapshot::open(&place.dir, &place.name, path, self.see)
    }
}
