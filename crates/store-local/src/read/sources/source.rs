//! A source argument and its directory: examines and lists entries.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use deltic_tree::{Entry, Follow, Meta, MetaMask, Mounts, Name, RelPath};
use rustix::io::Errno;

use super::SourceOptions;
use crate::attributes::metadata::{read_meta_following, read_meta_of, read_meta_of_root};
use crate::handles::dir::{Dir, Trust, Use};
use crate::handles::stat::file_type;
use crate::kernel::errno::{At, io_error, store_error};
use crate::read::follow;
use crate::read::list::{Part, is_dangling_link};
use crate::roots::context::StoreContext;
use crate::roots::named::NamedDir;
use deltic_store::filter::{Judge, Scopes};
use deltic_store::{Listing, StoreError};

/// A directory that the paths of arguments start in.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) path: PathBuf,
    pub(super) dir: Result<Arc<Dir>, Errno>,
    /// Rules of filter files for the names in the directory.
    pub(super) scopes: Scopes,
    pub(super) context: StoreContext,
}

impl Base {
    /// Fails if a symlink of another user is on the way to the directory. The error names the symlink.
    fn check(&self) -> Result<(), StoreError> {
        if self.dir.is_ok() {
            return Ok(());
        }
        let (path, context) = (self.path.clone(), self.context.clone());
        NamedDir { path, trust: Trust::Ours, context }.check_symlinks()
    }
}

/// An argument, and the directory that its path starts in.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) base: &'a Base,
    /// Path below the directory. The root stands for the contents of the directory.
    pub(super) path: RelPath,
    /// True for the contents of a directory, and not the directory itself.
    pub(super) contents: bool,
}

impl<'a> Source<'a> {
    pub(super) fn has_path(&self, path: &RelPath) -> bool {
        let Some((above, name)) = path.split_last() else { return true };
        let held = |dir: &Arc<Dir>| dir.open_dir(&above, Use::Pass);
        self.base.dir.as_ref().is_ok_and(|dir| held(dir).is_ok_and(|dir| dir.stat(&name).is_ok()))
    }

    pub(super) fn open_held(
        &self,
        action: &'static str,
        path: &RelPath,
    ) -> Result<&'a Dir, StoreError> {
        self.base.dir.as_deref().map_err(|errno| store_error(action, path, *errno))
    }

    /// Returns the device of the argument, if the options compare devices.
    pub(super) fn device(&self, options: &SourceOptions) -> Option<u64> {
        let matters = options.mounts != Mounts::Enter;
        matters.then(|| device_of(self.base.dir.as_ref().ok()?, &self.path)).flatten()
    }

    /// Returns the argument's last name, as it was written.
    pub(super) fn own_name(&self) -> Option<Name> {
        let dir = self.base.path.file_name().map(OsStr::as_bytes);
        let last = self.path.components().next_back().or(dir)?;
        Name::new(last).ok()
    }

    /// Returns the error of the system for `action` on the argument.
    pub(super) fn error(&self, action: &'static str, errno: Errno) -> StoreError {
        match self.base.check() {
            Err(stranger) if errno == Errno::LOOP => self.error_for(action, &stranger.to_string()),
            _ => self.error_of(action, io_error(errno)),
        }
    }

    /// Returns the error of the system for examining the argument.
    pub(super) fn look_error(&self, errno: Errno, options: &SourceOptions) -> StoreError {
        let follows = options.follow == Follow::All;
        match self.first_symlink().filter(|_| errno == Errno::LOOP && !follows) {
            Some(link) => {
                let why = format!("the symlink {link} in the path is not followed");
                self.error_for("look at", &why)
            }
            None => self.error("look at", errno),
        }
    }

    /// Returns the first symlink on the way to the argument.
    fn first_symlink(&self) -> Option<RelPath> {
        let (dir, mut at) = (self.base.dir.as_ref().ok()?, RelPath::root());
        for name in self.path.components() {
            let (above, name) = (at, Name::new(name).ok()?);
            at = above.join(&name).ok()?;
            let stat = dir.open_dir(&above, Use::Pass).and_then(|above| above.stat(&name)).ok()?;
            if file_type(&stat).is_symlink() && !dir.keeps_link(&at) {
                return (at != self.path || self.contents).then_some(at);
            }
        }
        None
    }

    /// Returns an error that gives the reason why `action` was not done on the argument.
    fn error_for(&self, action: &'static str, why: &str) -> StoreError {
        self.error_of(action, io::Error::other(why))
    }

    fn error_of(&self, action: &'static str, source: io::Error) -> StoreError {
        let mut path = self.base.path.clone();
        path.extend((!self.path.is_root()).then(|| OsStr::from_bytes(self.path.as_bytes())));
        let argument = std::path::absolute(&path).unwrap_or(path);
        let argument = self.base.context.shared.bounds.client_path(&argument).into();
        StoreError::Argument { action, argument, source }
    }

    /// Reads the attributes of the argument's entry; `None` if the argument stands for the contents of an open
    /// directory. As in rsync, a symlink is followed only if all symlinks are.
    pub(super) fn look_at_entry(&self, follow: Follow) -> Option<Result<Meta, Errno>> {
        let dir = match &self.base.dir {
            Ok(dir) => dir,
            Err(errno) => return Some(Err(*errno)),
        };
        let (above, name) = self.path.split_last()?;
        let look = if follow == Follow::All { read_meta_following } else { read_meta_of };
        Some(dir.named_dir(&above).and_then(|dir| look(&dir, &name, MetaMask::default())))
    }

    /// True if the argument's entry does not exist.
    pub(super) fn is_missing(&self, follow: Follow) -> bool {
        matches!(self.look_at_entry(follow), Some(Err(Errno::NOENT | Errno::NOTDIR)))
    }

    /// Returns the error because of which the argument provides no entry; then none of its parent directories is
    /// created either. `None` if the argument provides an entry.
    pub(super) fn missing_reason(&self, options: &SourceOptions) -> Option<Errno> {
        match self.look_at_entry(options.follow)? {
            Err(errno) => Some(errno),
            // A symlink that is followed and leads nowhere.
            Ok(meta) if meta.is_symlink() && options.plain_implied_dirs => {
                let (above, name) = self.path.split_last()?;
                let held = self.base.dir.as_ref().ok()?.open_dir(&above, Use::Pass).ok()?;
                follow::look_at_followed(
                    &held,
                    &name,
                    &self.path,
                    options.follow,
                    MetaMask::default(),
                )
                .err()
            }
            Ok(_) => None,
        }
    }

    /// True if the rules exclude the argument's entry, whatever rules files of directories on the way say. Then the
    /// argument provides no entry.
    pub(super) fn is_left_out(&self, options: &SourceOptions) -> bool {
        if options.rules.is_empty() {
            return false;
        }
        let (Some((above, name)), Ok(dir)) = (self.path.split_last(), &self.base.dir) else {
            return false;
        };
        let held = dir.open_dir(&above, Use::Pass);
        let look = |dir| {
            follow::look_at_followed(
                &dir,
                &name,
                &self.path,
                options.follow,
                options.see.without_optional(),
            )
        };
        held.and_then(look).is_ok_and(|meta| {
            !self.base.scopes.judge_by_global_rules(&above).admits(&name, meta.is_dir())
        })
    }

    /// True if this argument sends all entries of `dir`, and not only entries that other arguments name. `dir` is the
    /// argument's directory, or a directory below.
    pub(super) fn lists_whole_dir(&self, dir: &RelPath, options: &SourceOptions) -> bool {
        // A named symlink stays a symlink, even if another argument leads through the same symlink.
        let is_link =
            !self.contents && self.base.dir.as_ref().is_ok_and(|held| held.keeps_link(&self.path));
        options.recursive && !is_link || options.dirs && self.contents && self.path == *dir
    }

    /// Lists the directory `dir`, a path below the directory that the argument starts in.
    pub(super) fn list(
        &self,
        dir: &RelPath,
        options: &SourceOptions,
        part: Part,
    ) -> Result<Listing, StoreError> {
        let root = self.open_held("list", dir)?;
        let mut judge = self.base.scopes.judge(dir, root)?;
        let held = root.open_dir(dir, Use::Read).at("list", dir)?;
        Ok(options.look_parameters(root, &held, dir).list(&mut judge, part))
    }

    /// Lists the directory that the argument starts in.
    pub(super) fn list_dir(
        &self,
        options: &SourceOptions,
        part: Part,
    ) -> Result<Listing, StoreError> {
        let (dir, root) = (self.open_start_dir()?, RelPath::root());
        let held = self.open_held("list", &root)?;
        let mut judge = self.base.scopes.judge(&root, held)?;
        Ok(options.look_parameters(held, &dir, &root).list(&mut judge, part))
    }

    /// Opens the directory that the argument starts in, to read.
    pub(super) fn open_start_dir(&self) -> Result<Dir, StoreError> {
        let dir = self.base.dir.as_ref().map_err(|errno| self.error("open", *errno))?;
        let dir = dir.open_dir(&RelPath::root(), Use::Read);
        dir.map_err(|errno| self.error("list", errno))
    }

    /// Returns the entry `name` of `at`, which the argument names or leads through. `None` if the rules exclude the
    /// named entry.
    pub(super) fn entry_at(
        &self,
        at: &RelPath,
        name: &Name,
        options: &SourceOptions,
    ) -> Result<Option<Entry>, StoreError> {
        let bad_name = |_| StoreError::BadName { action: "list", path: at.clone() };
        let path = at.join(name).map_err(bad_name)?;
        self.base.context.shared.bounds.check_path("list", &path)?;
        let dir = self.base.dir.as_ref().map_err(|errno| self.error("open", *errno))?;
        let unseen = |errno| self.look_error(errno, options);
        let held = dir.open_dir(at, Use::Pass).map_err(unseen)?;
        let look = options.look_parameters(dir, &held, at);
        let mut meta =
            match follow::look_at_followed(&held, name, &path, options.follow, options.see) {
                Ok(meta) => meta,
                Err(errno) if !is_dangling_link(&held, name, errno) => return Err(unseen(errno)),
                // An excluded symlink may lead nowhere, unless all symlinks are followed.
                Err(_)
                    if path == self.path
                        && options.follow != Follow::All
                        && !self.judge_at(at)?.admits(name, false) =>
                {
                    return Ok(None);
                }
                Err(_) => return Err(self.error_for("look at", "the symlink has no referent")),
            };
        // An argument can only lead through a directory. A slash behind a file has no meaning.
        let goes_through = path != self.path || self.contents && meta.is_symlink();
        if goes_through && meta.is_symlink() {
            let behind = dir.named_dir(&path).map_err(unseen)?;
            meta = read_meta_of_root(&behind, options.see).map_err(unseen)?;
        }
        if goes_through && !meta.is_dir() {
            return Err(unseen(Errno::NOTDIR));
        }
        if path != self.path {
            look.remove_excluded_xattrs(
                name,
                &mut meta,
                &self.base.scopes.judge_by_global_rules(at),
            );
            return Ok(Some(Entry { name: name.clone(), meta }));
        }
        let mut judge = self.judge_at(at)?;
        let admitted = judge.admits(name, meta.is_dir());
        look.remove_excluded_xattrs(name, &mut meta, &judge);
        Ok(admitted.then_some(Entry { name: name.clone(), meta }))
    }

    /// Returns the judge of names in `at`. No directory was entered yet at the root, so no rules file applies.
    fn judge_at(&self, at: &RelPath) -> Result<Judge, StoreError> {
        if at.is_root() {
            return Ok(self.base.scopes.judge_by_global_rules(at));
        }
        self.base.scopes.judge(at, self.open_held("list", at)?)
    }
}

pub(super) fn device_of(dir: &Dir, path: &RelPath) -> Option<u64> {
    let stat = match path.split_last() {
        None => rustix::fs::fstat(dir),
        Some((above, name)) if !dir.keeps_link(path) => {
            dir.open_dir(&above, Use::Pass).and_then(|dir| dir.stat(&name))
        }
        Some(_) => dir.open_dir(path, Use::Pass).and_then(rustix::fs::fstat),
    };
    stat.ok().map(|stat| stat.st_dev)
}
