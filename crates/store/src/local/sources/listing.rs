//! The tree of all arguments as it is listed: what each brings, put together, and what is left out of that.

use deltic_core::meta::Linked;
use deltic_core::{Entry, Mounts, Name, RelPath};
use rustix::io::Errno;

use super::source::device_of;
use super::{SourceOptions, Sources};
use crate::filter::Fate;
use crate::local::list::Part;
use crate::{Listing, StoreError, check_path, lock};

impl Sources {
    /// Lists a directory that several arguments have: of equal names the first one's counts, but directories go before what
    /// is none, and are one directory.
    fn list_shared(&self, dir: &RelPath, sharers: &[usize]) -> Result<Listing, StoreError> {
        let mut all = Listing::default();
        let mut entries = Vec::new();
        for no in sharers {
            let one = self.args[*no].list(dir, &self.options, Part::All)?;
            let Listing { entries: found, errors, .. } = one;
            all.errors.extend(errors);
            entries.extend(found.into_iter().map(|entry| (*no, entry)));
        }
        all.entries = self.merged(dir, entries);
        Ok(all)
    }

    /// One entry of each name, in order.
    fn merged(&self, dir: &RelPath, mut entries: Vec<(usize, Entry)>) -> Vec<Entry> {
        let key = |(no, entry): &(usize, Entry)| (entry.name.clone(), !entry.meta.is_dir(), *no);
        entries.sort_by_cached_key(key);
        entries.dedup_by(|(_, later), (_, first)| later.name == first.name);
        let mut chosen = lock(&self.chosen);
        let keep = |(no, entry): (usize, Entry)| {
            // Where the first that has it need not be the one that counts.
            if let Ok(path) = dir.join(&entry.name)
                && self.candidates(&path).first() != Some(&no)
            {
                chosen.insert(path, no);
            }
            entry
        };
        entries.into_iter().map(keep).collect()
    }

    pub(super) fn list_part(&self, dir: &RelPath, part: Part) -> Result<Listing, StoreError> {
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
                Ok(listing) => all = listing.unwrap_or_default(),
                Err(error) => all.errors.push(error),
            }
            return all;
        }
        let mut entries = self.list_below(&mut all, &RelPath::root());
        for (no, source) in self.args.iter().enumerate().filter(|(_, s)| s.arg.path.is_root()) {
            match source.list_dir(&self.options, Part::All) {
                Ok(one) => {
                    let Listing { entries: found, errors, .. } = one.unwrap_or_default();
                    all.errors.extend(errors);
                    entries.extend(found.into_iter().map(|entry| (no, entry)));
                }
                Err(error) => all.errors.push(error),
            }
        }
        all.entries = self.merged(&RelPath::root(), entries);
        all
    }

    /// The names that arguments below `dir` go through or mean, and the first argument of each.
    fn list_below(&self, all: &mut Listing, dir: &RelPath) -> Vec<(usize, Entry)> {
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
                    missing.push((no, name, source.arg.error("look at", errno)));
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
            let named = self.by_path.get(at.as_bytes()).map(|no| &self.args[*no].arg);
            if named.is_some_and(|arg| {
                self.options.recursive || self.options.dirs && arg.contents && at == *dir
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
            if sharers.len() > 1 {
                return self.list_shared(dir, &sharers);
            }
            return self.source_of("list", dir)?.list(dir, &self.options, part);
        }
        if matches!(part, Part::Next(_)) {
            return Err(StoreError::Changed { path: dir.clone() });
        }
        all.partial = true;
        if !mounted {
            let entries = self.list_below(&mut all, dir);
            all.entries = self.merged(dir, entries);
        }
        Ok(all)
    }
}

fn is_missing(error: &StoreError) -> bool {
    let StoreError::Argument { source, .. } = error else { return false };
    source.kind() == std::io::ErrorKind::NotFound
}
