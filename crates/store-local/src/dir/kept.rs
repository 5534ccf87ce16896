//! Symlinks that are taken for the directories behind them.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use deltic_tree::{Name, RelPath};
use rustix::fs::{self, FileType, ResolveFlags};
use rustix::io::Errno;

use super::{Dir, KeptLinks, Led, Trust, Use, Way, inode, open_so};
use crate::lock;

impl Dir {
    /// The same handle, as a root that may [keep links](Self::keep_link), and those of whom `trust` says on the way to
    /// what is named.
    pub(crate) fn keeping_links(self, trust: Trust) -> Self {
        Self { links: Some(KeptLinks { behind: Mutex::default(), trust }), ..self }
    }

    /// Takes the symlink at `path` for the directory behind it from now on, if there is one. A link that leads out of
    /// the root is an error.
    pub(crate) fn keep_link(&self, path: &RelPath) -> Result<Option<Self>, Errno> {
        let Some(links) = &self.links else { return Ok(None) };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = match self.way {
            Way::Kernel => open_so(self.fd.as_fd(), path.as_bytes(), Use::Pass, resolve),
            // Nothing else keeps it below the root.
            Way::Walk | Way::Follow | Way::Nowhere => Err(Errno::XDEV),
        };
        match opened {
            Ok(fd) => lock(&links.behind).insert(path.clone(), Arc::new(fd)),
            // It leads to something else, or nowhere.
            Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(Errno::XDEV) if !self.leads_to_dir(path)? => return Ok(None),
            Err(errno) => return Err(errno),
        };
        self.dir(path, Use::Pass).map(Some)
    }

    /// The same of a link that is ours or the superuser's, and leads on through no other user's: else it is not
    /// permitted.
    pub(crate) fn keep_our_link(&self, path: &RelPath) -> Result<Option<Self>, Errno> {
        let (above, name) = path.split_last().ok_or(Errno::INVAL)?;
        let link = Path::new(OsStr::from_bytes(name.as_bytes()));
        let walked = match self.dir(&above, Use::Pass)?.led_to(link, Trust::Ours) {
            Ok(Led::To(dir)) => inode(&fs::fstat(&dir)?),
            Ok(Led::Stranger(_)) => return Err(Errno::PERM),
            // It leads to something else, or nowhere.
            Err(Errno::NOTDIR | Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let Some(kept) = self.keep_link(path)? else { return Ok(None) };
        if inode(&fs::fstat(&kept)?) == walked {
            return Ok(Some(kept));
        }
        // Somebody put another one there meanwhile.
        self.links.iter().for_each(|links| _ = lock(&links.behind).remove(path));
        Err(Errno::AGAIN)
    }

    /// The directory `path`. Each symlink on the way, which the operator named, is taken for the directory behind it
    /// from now on.
    pub(crate) fn named_dir(&self, path: &RelPath) -> Result<Self, Errno> {
        let Some(links) = &self.links else { return self.dir(path, Use::Pass) };
        let mut at = RelPath::root();
        for name in path.components() {
            let name = Name::new(name).map_err(|_| Errno::INVAL)?;
            let above = self.dir(&at, Use::Pass)?;
            at = at.join(&name).map_err(|_| Errno::NAMETOOLONG)?;
            let stat = above.stat(&name)?;
            if FileType::from_raw_mode(stat.st_mode).is_symlink() && !self.keeps_link(&at) {
                match above.led_to(Path::new(OsStr::from_bytes(name.as_bytes())), links.trust)? {
                    Led::To(behind) => lock(&links.behind).insert(at.clone(), Arc::new(behind.fd)),
                    Led::Stranger(_) => return Err(Errno::LOOP),
                };
            }
        }
        self.dir(path, Use::Pass)
    }

    /// True if there is a directory behind the symlink at `path`, wherever it leads.
    fn leads_to_dir(&self, path: &RelPath) -> Result<bool, Errno> {
        let (above, name) = path.split_last().ok_or(Errno::INVAL)?;
        match self.dir(&above, Use::Pass)?.stat_behind(&name) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode).is_dir()),
            Err(_) => Ok(false),
        }
    }

    /// True if a symlink at `path` is taken for a directory.
    pub(crate) fn keeps_link(&self, path: &RelPath) -> bool {
        self.links.as_ref().is_some_and(|links| lock(&links.behind).contains_key(path))
    }

    /// True if the directory `name` of `dir` is one that a kept symlink leads to.
    pub(crate) fn leads_to(&self, dir: &Self, name: &Name) -> bool {
        let Some(links) = self.links.as_ref().filter(|links| !lock(&links.behind).is_empty())
        else {
            return false;
        };
        dir.stat(name).is_ok_and(|stat| links.lead_to(inode(&stat)) > 0)
    }

    /// True if a kept symlink leads to this directory itself.
    pub(crate) fn is_led_to(&self) -> bool {
        let Some(links) = &self.links else { return false };
        fs::fstat(self).is_ok_and(|stat| links.lead_to(inode(&stat)) > 0)
    }

    /// Which directory the kept symlink at `path` leads to, by device and number, and how many of them do.
    pub(crate) fn behind_link(&self, path: &RelPath) -> Option<((u64, u64), usize)> {
        let links = self.links.as_ref()?;
        let behind = lock(&links.behind).get(path).map(Arc::clone)?;
        let behind = inode(&fs::fstat(&behind).ok()?);
        Some((behind, links.lead_to(behind)))
    }

    /// True if symlinks can be kept here.
    pub(crate) const fn may_keep_links(&self) -> bool {
        self.links.is_some()
    }
}
