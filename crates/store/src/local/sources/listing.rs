//! The tree of all arguments as it is listed: what each brings, put together, and what is left out of that.

use std::collections::HashSet;
use std::path::Path;

use deltic_core::meta::Linked;
use deltic_core::{Entry, Mounts, Name, RelPath};

use super::source::device_of;
use super::{SourceOptions, Sources};
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::filter::Fate;
use crate::local::list::{Part, inode, list, look_at_names, names_for};
use crate::{Listing, StoreError, check_path, lock};

/// Arguments that may have a directory of which each is asked for the names of all.
const FEW_SHARERS: usize = 4;

impl Sources {
    /// Lists a directory that several arguments have, or some lead through: of equal names the first one's counts, but
    /// directories go before what is none, and are one directory.
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
        Ok(Listing { partial: held.is_empty(), ..self.list_held(dir, &held, part) })
    }

    /// The same, of directories of these arguments that are held. All of it at once where arguments lead on, and where
    /// many have it: in a part each would be asked for the names of all.
    fn list_held(&self, dir: &RelPath, held: &[(usize, Dir)], part: Part) -> Listing {
        let (mut all, mut entries) = (Listing::default(), Vec::new());
        let by_parts =
            matches!(part, Part::Next(_)) || held.len() <= FEW_SHARERS && !self.leads_on(dir);
        let mut names: Option<Vec<Name>> = None;
        if by_parts {
            let most = part.most();
            let dirs: Vec<&Dir> = held.iter().map(|(_, held)| held).collect();
            let Some(mut rest) = names_for(&dirs, dir, (&|_| false, part), &mut all) else {
                return all;
            };
            names = Some((&mut rest).take(most).collect());
            all.rest = (rest.len() > 0).then_some(rest);
        }
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
            let (at, fates, how) = ((held, dir), (&mut judge, Fate::Stays), self.options.how());
            let found = match &names {
                Some(names) => look_at_names(at, fates, how, names),
                None => list(at, fates, how, Part::All),
            };
            all.errors.extend(found.errors);
            entries.extend(found.entries.into_iter().map(|entry| (*no, entry)));
        }
        entries.extend(self.list_below(&mut all, dir, &entries));
        all.entries = self.merged(dir, entries);
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
        if let [only] = &*self.args
            && only.arg.path.is_root()
        {
            let failed = |error| Listing { errors: vec![error], ..Listing::default() };
            return only.list_dir(&self.options, part).unwrap_or_else(failed);
        }
        let (mut held, mut errors) = (Vec::new(), Vec::new());
        for (no, source) in self.args.iter().enumerate().filter(|(_, s)| s.arg.path.is_root()) {
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
                if let Some(errno) = source.is_nothing(&self.options) {
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
        let told = |error: &StoreError| !(self.options.ignore_missing && is_missing(error));
        all.errors.extend(missing.into_iter().map(|(_, _, error)| error).filter(told));
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
            let first = self.by_path.get(at.as_bytes()).into_iter();
            let mut named = first.chain(self.again.get(at.as_bytes()).into_iter().flatten());
            if named.any(|no| {
                let source = &self.args[*no];
                source.goes_into(dir, &self.options) && !source.is_left_out(&self.options)
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
        if let Some(destination) = &self.options.destination {
            self.leave_out(destination, listing, dir);
        }
        if mounts == Mounts::LeaveOut {
            listing.retain(|entry| !entry.meta.is_dir() || !self.is_mount(dir, entry));
        }
        if prune_empty_dirs {
            listing.retain(|entry| {
                !entry.meta.is_dir() || dir.join(&entry.name).is_ok_and(|dir| self.has_files(&dir))
            });
        }
    }

    /// Takes out the directory that is written to: it would be copied into itself.
    fn leave_out(&self, destination: &Path, listing: &mut Listing, dir: &RelPath) {
        let Ok(is) = Dir::open_root(destination).and_then(|dir| inode(&dir)) else { return };
        let is_it = |entry: &Entry| {
            let path = entry.meta.is_dir().then(|| dir.join(&entry.name).ok()).flatten()?;
            let dir = self.source_of("look at", &path).ok()?.dir.as_ref().ok()?;
            let there = dir.dir(&path, Use::Pass).and_then(|dir| inode(&dir)).ok()?;
            (there == is).then(|| (path, entry.name.clone()))
        };
        let found: Vec<(RelPath, Name)> = listing.entries.iter().filter_map(is_it).collect();
        listing.retain(|entry| found.iter().all(|(_, name)| entry.name != *name));
        listing.destination = found.into_iter().next().map(|(path, _)| path);
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
            if !sharers.is_empty() || (self.args.len() > 1 && self.leads_on(dir)) {
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

fn is_missing(error: &StoreError) -> bool {
    let StoreError::Argument { source, .. } = error else { return false };
    source.kind() == std::io::ErrorKind::NotFound
}
