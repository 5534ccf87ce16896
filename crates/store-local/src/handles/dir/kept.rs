//! Symlinks that are treated as directories.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use deltic_tree::meta::Inode;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, FileType, ResolveFlags};
use rustix::io::Errno;

use super::{Dir, KeptLinks, Resolution, Trust, Use, Way, open_with_resolve};
use crate::handles::stat::inode_of;
use crate::kernel::lock;

impl Dir {
    /// Returns this handle as a root that may [treat symlinks as directories](Self::keep_link). In named paths, the
    /// root follows symlinks as `trust` allows.
    pub(crate) fn keeping_links(self, trust: Trust) -> Self {
        Self { links: Some(KeptLinks { behind: Mutex::default(), trust }), ..self }
    }

    /// Treats the symlink at `path` as the directory behind it from now on. Returns that directory; `None` if the link
    /// leads to no directory. A link out of the root is an error.
    pub(crate) fn keep_link(&self, path: &RelPath) -> Result<Option<Self>, Errno> {
        let Some(links) = &self.links else { return Ok(None) };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = match self.way {
            Way::Kernel => open_with_resolve(self.fd.as_fd(), path.as_bytes(), Use::Pass, resolve),
            // With other ways to open a path, no link below the root can be kept.
            Way::Walk | Way::Follow | Way::Nowhere => Err(Errno::XDEV),
        };
        match opened {
            Ok(fd) => lock(&links.behind).insert(path.clone(), Arc::new(fd)),
            // The link leads to a file, or nowhere.
            Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(Errno::XDEV) if !self.leads_to_dir(path)? => return Ok(None),
            Err(errno) => return Err(errno),
        };
        self.open_dir(path, Use::Pass).map(Some)
    }

    /// Does the same as [`Self::keep_link`], but fails with `PERM` if another user owns the link, or a link that it
    /// leads through. The superuser's links are allowed.
    pub(crate) fn keep_our_link(&self, path: &RelPath) -> Result<Option<Self>, Errno> {
        let (above, name) = path.split_last().ok_or(Errno::INVAL)?;
        let link = Path::new(OsStr::from_bytes(name.as_bytes()));
        let walked = match self.open_dir(&above, Use::Pass)?.resolve_dir(link, Trust::Ours) {
            Ok(Resolution::To(dir)) => inode_of(&fs::fstat(&dir)?),
            Ok(Resolution::Stranger(_)) => return Err(Errno::PERM),
            // The link leads to a file, or nowhere.
            Err(Errno::NOTDIR | Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let Some(kept) = self.keep_link(path)? else { return Ok(None) };
        if inode_of(&fs::fstat(&kept)?) == walked {
            return Ok(Some(kept));
        }
        // Another link was put there meanwhile.
        self.links.iter().for_each(|links| _ = lock(&links.behind).remove(path));
        Err(Errno::AGAIN)
    }

    /// Opens the directory `path`, which the operator named. From now on, treats each symlink on the way as the
    /// directory behind it.
    pub(crate) fn named_dir(&self, path: &RelPath) -> Result<Self, Errno> {
        let Some(links) = &self.links else { return self.open_dir(path, Use::Pass) };
        let mut at = RelPath::root();
        for name in path.components() {
            let name = Name::new(name).map_err(|_| Errno::INVAL)?;
            let above = self.open_dir(&at, Use::Pass)?;
            at = at.join(&name).map_err(|_| Errno::NAMETOOLONG)?;
            let stat = above.stat(&name)?;
            if FileType::from_raw_mode(stat.st_mode).is_symlink() && !self.keeps_link(&at) {
                match above
                    .resolve_dir(Path::new(OsStr::from_bytes(name.as_bytes())), links.trust)?
                {
                    Resolution::To(behind) => {
                        lock(&links.behind).insert(at.clone(), Arc::new(behind.fd))
                    }
                    Resolution::Stranger(_) => return Err(Errno::LOOP),
                };
            }
        }
        self.open_dir(path, Use::Pass)
    }

    /// True if the symlink at `path` leads to a directory, inside or outside of the root.
    fn leads_to_dir(&self, path: &RelPath) -> Result<bool, Errno> {
        let (above, name) = path.split_last().ok_or(Errno::INVAL)?;
        match self.open_dir(&above, Use::Pass)?.stat_behind(&name) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode).is_dir()),
            Err(_) => Ok(false),
        }
    }

    /// True if the symlink at `path` is treated as a directory.
    pub(crate) fn keeps_link(&self, path: &RelPath) -> bool {
        self.links.as_ref().is_some_and(|links| lock(&links.behind).contains_key(path))
    }

    /// True if a symlink that is treated as a directory leads to the directory `name` of `dir`.
    pub(crate) fn leads_to(&self, dir: &Self, name: &Name) -> bool {
        let Some(links) = self.links.as_ref().filter(|links| !lock(&links.behind).is_empty())
        else {
            return false;
        };
        dir.stat(name).is_ok_and(|stat| links.count_links_to(inode_of(&stat)) > 0)
    }

    /// True if a symlink that is treated as a directory leads to this directory itself.
    pub(crate) fn is_led_to(&self) -> bool {
        let Some(links) = &self.links else { return false };
        fs::fstat(self).is_ok_and(|stat| links.count_links_to(inode_of(&stat)) > 0)
    }

    /// Returns the inode of the directory behind the symlink at `path`, if the symlink is treated as a directory. Also
    /// returns the number of such symlinks to that directory.
    pub(crate) fn behind_link(&self, path: &RelPath) -> Option<(Inode, usize)> {
        let links = self.links.as_ref()?;
        let behind = lock(&links.behind).get(path).map(Arc::clone)?;
        let behind = inode_of(&fs::fstat(&behind).ok()?);
        Some((behind, links.count_links_to(behind)))
    }

    /// True if symlinks below this root may be treated as directories.
    pub(crate) const fn may_keep_links(&self) -> bool {
        self.links.is_some()
    }
}
