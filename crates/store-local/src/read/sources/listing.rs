//! Lists the merged tree of all arguments. Leaves out entries as the options say.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use deltic_core::packed::StringSlot;
use deltic_tree::meta::HardLink;
use deltic_tree::path::BadPath;
use deltic_tree::{Entry, Mounts, Name, Names, RelPath};

use super::source::device_of;
use super::{SourceOptions, SourceTree, names_of, path_in};
use crate::handles::dir::{Dir, Use};
use crate::kernel::errno::At as _;
use crate::kernel::lock;
use crate::read::list::{Part, Portion, inode, names_to_list, remaining_names};
use deltic_store::filter::Judge;
use deltic_store::{Listing, StoreError};

/// Most arguments that share a directory that is listed in parts. For each part, each argument is asked for all names.
const FEW_SHARERS: usize = 4;

/// Entries with one name that arguments name, or that are parent directories of arguments.
#[derive(Default)]
struct NamedEntries {
    /// The entries, each with its first argument.
    entries: Vec<(StringSlot, Entry)>,
    /// Paths of the arguments that lead only to missing entries, and take no part.
    missing: Vec<(RelPath, StoreError)>,
}

impl SourceTree {
    /// Lists a directory that several arguments share, or that is a parent directory of some arguments. Of several
    /// entries with the same name, the entry of the first argument is listed. But directories take precedence over
    /// other entries, and are merged into one directory.
    fn list_shared(
        &self,
        dir: &RelPath,
        sharers: &[StringSlot],
        part: Part,
    ) -> Result<Listing, StoreError> {
        let hold = |at: &StringSlot| {
            let root = self.source_at(*at).open_held("list", dir)?;
            Ok((*at, root.open_dir(dir, Use::Read).at("list", dir)?))
        };
        let held = sharers.iter().map(hold).collect::<Result<Vec<_>, _>>()?;
        Ok(Listing { partial: held.is_empty(), ..self.list_from_open_dirs(dir, &held, part) })
    }

    /// Lists a directory from the open directories of these arguments. Lists all names at once if arguments lead below
    /// the directory, or if many arguments share it: for each part, each argument would be asked for all names.
    fn list_from_open_dirs(
        &self,
        dir: &RelPath,
        held: &[(StringSlot, Dir)],
        part: Part,
    ) -> Listing {
        let (mut all, mut entries) = (Listing::default(), Vec::new());
        if held.is_empty() {
            entries = self.list_below(&mut all, dir, &[], part);
            all.entries = self.merge_entries(dir, entries);
            return all;
        }
        let by_parts =
            matches!(part, Part::Next(_)) || held.len() <= FEW_SHARERS && !self.has_args_below(dir);
        if by_parts {
            let mut portion = Portion::for_part(&part);
            let dirs: Vec<&Dir> = held.iter().map(|(_, held)| held).collect();
            let Some(mut rest) = names_to_list(&dirs, dir, &|_| false, part, &mut all) else {
                return all;
            };
            let mut judged = self.judges_of(dir, held, &mut all);
            while portion.next() > 0 && rest.len() > 0 {
                let names: Vec<Name> = (&mut rest).take(portion.next()).collect();
                let before = entries.len();
                for (at, held, judge) in &mut judged {
                    let look =
                        self.options.look_parameters(self.start_dir_of(*at, held), held, dir);
                    let found = look.list_names(judge, &names);
                    all.errors.extend(found.errors);
                    entries.extend(found.entries.into_iter().map(|entry| (*at, entry)));
                }
                portion
                    .count_examined(names.len(), entries[before..].iter().map(|(_, entry)| entry));
            }
            all.rest = remaining_names(&dirs, rest);
        } else {
            for (at, held, mut judge) in self.judges_of(dir, held, &mut all) {
                let look = self.options.look_parameters(self.start_dir_of(at, held), held, dir);
                let found = look.list(&mut judge, Part::All);
                all.errors.extend(found.errors);
                entries.extend(found.entries.into_iter().map(|entry| (at, entry)));
            }
        }
        entries.extend(self.list_below(&mut all, dir, &entries, Part::All));
        all.entries = self.merge_entries(dir, entries);
        all
    }

    /// Returns the directory that the paths of an argument start in, which is `held` or above.
    fn start_dir_of<'a>(&'a self, at: StringSlot, held: &'a Dir) -> &'a Dir {
        self.source_at(at).base.dir.as_deref().unwrap_or(held)
    }

    /// Returns the judges of names in `held`. A directory with invalid rules is left out and reported in `all`.
    fn judges_of<'a>(
        &self,
        dir: &RelPath,
        held: &'a [(StringSlot, Dir)],
        all: &mut Listing,
    ) -> Vec<(StringSlot, &'a Dir, Judge)> {
        let judge = |at: &StringSlot| {
            let source = self.source_at(*at);
            source.base.scopes.judge(dir, source.open_held("list", dir)?)
        };
        let mut judged = Vec::with_capacity(held.len());
        for (at, held) in held {
            match judge(at) {
                Ok(judge) => judged.push((*at, held, judge)),
                Err(error) => all.errors.push(error),
            }
        }
        judged
    }

    /// Returns one entry for each name, in order.
    fn merge_entries(&self, dir: &RelPath, mut entries: Vec<(StringSlot, Entry)>) -> Vec<Entry> {
        let key =
            |(at, entry): &(StringSlot, Entry)| (entry.name.clone(), !entry.meta.is_dir(), *at);
        entries.sort_by_cached_key(key);
        entries.dedup_by(|(_, later), (_, first)| later.name == first.name);
        let mut chosen = lock(&self.chosen);
        let mut chosen = |name: &Name, at| {
            let dir = chosen.entry(dir.clone()).or_default();
            // The name is already there if the directory is listed again.
            dir.entry(at).or_default().push(name).ok();
        };
        let keep = |(at, entry): (StringSlot, Entry)| {
            // Notes the argument of the entry, unless it is the first candidate.
            if let Ok(path) = dir.join(&entry.name)
                && self.candidate_args(&path).first() != Some(&at)
            {
                chosen(&entry.name, at);
            }
            entry
        };
        entries.into_iter().map(keep).collect()
    }

    pub(super) fn list_part(&self, dir: &RelPath, part: Part) -> Result<Listing, StoreError> {
        let bounds = &self.options.context.shared.bounds;
        bounds.check_path("list", dir)?;
        let (is_root, is_first) = (dir.is_root(), !matches!(part, Part::Next(_)));
        let mut listing = if is_root { self.list_root(part) } else { self.list_plain(dir, part)? };
        if is_root && is_first {
            let error = |(argument, why): &(PathBuf, BadPath)| StoreError::Argument {
                action: "look at",
                argument: bounds.client_path(argument).into(),
                source: io::Error::other(why.clone()),
            };
            listing.errors.extend(self.refused.iter().map(error));
        }
        self.remove_skipped_dirs(&mut listing, dir);
        listing.warnings.extend(self.options.rules.warnings());
        listing.is_empty_source = is_first && self.has_empty_source(dir, &listing);
        let sift =
            |entry: &mut Entry| self.options.protects.remove_excluded_xattrs(&mut entry.meta);
        listing.entries.iter_mut().for_each(sift);
        if self.names_of_one > 1 {
            for Entry { meta, .. } in &mut listing.entries {
                if let Some(HardLink::Inode(inode, names)) = meta.hard_link() {
                    let names = names.saturating_mul(self.names_of_one);
                    meta.set_hard_link(Some(HardLink::Inode(inode, names)));
                }
            }
        }
        Ok(listing)
    }

    /// True if at least one argument names the directory `dir` and finds it empty. `listed` is the listing of `dir`.
    fn has_empty_source(&self, dir: &RelPath, listed: &Listing) -> bool {
        let named = self.sources_at(dir);
        if named.is_empty() || !self.options.recursive {
            return false;
        }
        let is_empty = |listed: &Listing| listed.entries.is_empty() && listed.rest.is_none();
        let lists_nothing = |at: &StringSlot| {
            let listed = self.source_at(*at).list(dir, &self.options, Part::First);
            listed.is_ok_and(|listed| is_empty(&listed))
        };
        // A directory of one argument was listed already.
        is_empty(listed) || self.candidate_args(dir).len() > 1 && named.iter().any(lists_nothing)
    }

    fn list_root(&self, part: Part) -> Listing {
        if let Some(only) = self.only_source()
            && only.path.is_root()
        {
            let failed = |error| Listing { errors: vec![error], ..Listing::default() };
            return only.list_dir(&self.options, part).unwrap_or_else(failed);
        }
        let (mut held, mut errors) = (Vec::new(), Vec::new());
        for at in self.sources_at(&RelPath::root()) {
            match self.source_at(*at).open_start_dir() {
                Ok(dir) => held.push((*at, dir)),
                Err(error) => errors.push(error),
            }
        }
        if matches!(part, Part::Next(_)) {
            // These errors were reported with the first part.
            errors.clear();
        }
        let mut all = self.list_from_open_dirs(&RelPath::root(), &held, part);
        all.errors.extend(errors);
        // A root that is only on the way to an argument is no source itself, but its attributes are sent.
        all.partial |=
            self.index_of_root_metadata().is_some() && self.sources_at(&RelPath::root()).is_empty();
        all
    }

    /// Returns the names in `dir` that arguments lead through or name, with the first argument of each. `others` are
    /// entries in `dir` from arguments that take all of `dir`.
    fn list_below(
        &self,
        all: &mut Listing,
        dir: &RelPath,
        others: &[(StringSlot, Entry)],
        part: Part,
    ) -> Vec<(StringSlot, Entry)> {
        let start = dir.as_bytes().len() + usize::from(!dir.is_root());
        let name =
            |at: &StringSlot| names_of(&path_in(self.args.get(*at))[start..]).next().unwrap_or(b"");
        let (mut below, mut portion) = (self.sources_below(dir), Portion::for_part(&part));
        if let Part::Next(mut rest) = part {
            // A listing of names read from directories cannot be continued by arguments.
            let Some(next) = rest.next().filter(|_| rest.dirs().is_empty()) else {
                all.errors.push(StoreError::Changed { path: dir.clone() });
                return Vec::new();
            };
            below = &below[below.partition_point(|at| name(at) < next.as_bytes())..];
        }
        // Missing entries below a directory that will be listed are reported by the listing of that directory.
        let dirs = others.iter().filter(|(_, entry)| entry.meta.is_dir());
        let dirs: HashSet<&[u8]> = dirs.map(|(_, entry)| entry.name.as_bytes()).collect();
        let (mut entries, mut missing) = (Vec::new(), Vec::new());
        for args in below.chunk_by(|one, next| name(one) == name(next)) {
            let name = Name::new(name(&args[0])).expect("it is one of a path");
            if portion.next() == 0 {
                // Knowing the next name is enough to continue, since the arguments have all later names.
                let mut next = Names::default();
                next.push(&name).ok();
                all.rest = Some(Box::new(next.into_iter()));
                break;
            }
            let found = self.list_name(all, dir, &name, args);
            portion.count_examined(1, found.entries.iter().map(|(_, entry)| entry));
            entries.extend(found.entries);
            let is_told = |(path, _): &(RelPath, StoreError)| {
                !dirs.contains(name.as_bytes())
                    || path.split_last().is_some_and(|(at, _)| at == *dir)
            };
            missing.extend(found.missing.into_iter().filter(is_told).map(|(_, error)| error));
        }
        all.errors.extend(missing);
        entries
    }

    /// Lists the entry `name` of `dir`, which `args` name or which is a parent directory of `args`. Adds errors and
    /// skipped entries to `all`.
    fn list_name(
        &self,
        all: &mut Listing,
        dir: &RelPath,
        name: &Name,
        args: &[StringSlot],
    ) -> NamedEntries {
        let path = |at: &StringSlot| path_in(self.args.get(*at));
        let NamedEntries { mut entries, mut missing } = NamedEntries::default();
        let mut is_known = false;
        for args in args.chunk_by(|one, next| path(one) == path(next)) {
            for at in args {
                let source = self.source_at(*at);
                if let Some(errno) = source.missing_reason(&self.options) {
                    let error = source.look_error(errno, &self.options);
                    match source.base.dir {
                        // Only a last name may be missing, as in rsync.
                        Err(_) if self.options.ignore_missing => all.errors.push(error),
                        Ok(_) if self.options.ignore_missing && is_missing(&error) => {}
                        _ => missing.push((source.path, error)),
                    }
                    continue;
                }
                if source.is_left_out(&self.options) {
                    continue;
                }
                is_known = true;
                // Other missing arguments are reported when this directory is listed. An argument with the same path is
                // not below the directory.
                missing.retain(|(path, _)| *path == source.path);
                match source.entry_at(dir, name, &self.options) {
                    Ok(Some(entry)) if entry.meta.is_dir() && self.is_skipped_dir(dir, &entry) => {
                        all.skipped.extend(dir.join(&entry.name));
                    }
                    Ok(Some(mut entry)) => {
                        if self.is_implied(dir, &entry) {
                            entry.meta.set_implied();
                        }
                        // Arguments below an entry that is not a directory are missing, and are reported too.
                        is_known = entry.meta.is_dir();
                        entries.push((*at, entry));
                    }
                    Ok(None) => {}
                    Err(error) if self.options.ignore_missing && is_missing(&error) => {}
                    Err(error) => all.errors.push(error),
                }
            }
            if is_known {
                break;
            }
        }
        NamedEntries { entries, missing }
    }

    /// True if the attributes of the directory are to be left alone, because no argument names the directory or takes
    /// all entries of a directory above.
    fn is_implied(&self, dir: &RelPath, entry: &Entry) -> bool {
        let is_named =
            || dir.join(&entry.name).is_ok_and(|path| !self.sources_at(&path).is_empty());
        self.options.plain_implied_dirs
            && entry.meta.is_dir()
            && !is_named()
            && !self.lists_all_entries(dir)
    }

    /// True if an argument names the directory without its contents, and the options skip such directories.
    fn is_skipped_dir(&self, dir: &RelPath, entry: &Entry) -> bool {
        let takes = self.options.recursive || self.options.dirs;
        !takes && dir.join(&entry.name).is_ok_and(|path| self.sources_below(&path).is_empty())
    }

    /// True if all entries of `dir` take part, and not only entries that arguments below `dir` name.
    fn lists_all_entries(&self, dir: &RelPath) -> bool {
        if let (Some(only), true) = (self.only_source(), self.options.recursive) {
            return dir.starts_with(&only.path);
        }
        let takes = |at: &StringSlot| {
            let source = self.source_at(*at);
            source.lists_whole_dir(dir, &self.options) && !source.is_left_out(&self.options)
        };
        let mut above = Some(dir.clone());
        while let Some(at) = above {
            if self.sources_at(&at).iter().any(takes) {
                return true;
            }
            above = at.split_last().map(|(dir, _)| dir);
        }
        false
    }

    /// Removes directories of other file systems, and empty directories, as the options say.
    fn remove_skipped_dirs(&self, listing: &mut Listing, dir: &RelPath) {
        let SourceOptions { mounts, prune_empty_dirs, .. } = self.options;
        if let Some(destination) = &self.options.destination {
            self.remove_destination(destination, listing, dir);
        }
        if mounts == Mounts::LeaveOut {
            listing.retain(|entry| !entry.meta.is_dir() || !self.is_mount(dir, entry));
        }
        if prune_empty_dirs {
            let mut missing = Vec::new();
            listing.retain(|entry| {
                let path = dir.join(&entry.name);
                !entry.meta.is_dir() || path.is_ok_and(|dir| self.has_files(&dir, &mut missing))
            });
            listing.errors.extend(missing);
        }
    }

    /// Removes the destination directory from the listing, since it would be copied into itself.
    fn remove_destination(&self, destination: &Path, listing: &mut Listing, dir: &RelPath) {
        let Ok(is) =
            Dir::open_root(destination, &self.options.context.shared).and_then(|dir| inode(&dir))
        else {
            return;
        };
        let is_it = |entry: &Entry| {
            let path = entry.meta.is_dir().then(|| dir.join(&entry.name).ok()).flatten()?;
            let dir = self.source_of("look at", &path).ok()?.base.dir.as_ref().ok()?;
            let there = dir.open_dir(&path, Use::Pass).and_then(|dir| inode(&dir)).ok()?;
            (there == is).then(|| (path, entry.name.clone()))
        };
        let found: Vec<(RelPath, Name)> = listing.entries.iter().filter_map(is_it).collect();
        listing.retain(|entry| found.iter().all(|(_, name)| entry.name != *name));
        listing.destination = found.into_iter().next().map(|(path, _)| path);
    }

    fn is_mount(&self, dir: &RelPath, entry: &Entry) -> bool {
        dir.join(&entry.name).is_ok_and(|path| self.is_on_other_device(&path))
    }

    /// True if the directory `path` and the argument are on different devices.
    fn is_on_other_device(&self, path: &RelPath) -> bool {
        let Ok(source) = self.source_of("look at", path) else { return false };
        let device = source.base.dir.as_ref().ok().and_then(|dir| device_of(dir, path));
        device.is_some() && source.device(&self.options).is_some_and(|own| device != Some(own))
    }

    /// True if there are files below `dir`, or if `dir` or a directory below is protected; also if this cannot be
    /// determined. If false, missing arguments are added to `missing`, to be reported here.
    fn has_files(&self, dir: &RelPath, missing: &mut Vec<StoreError>) -> bool {
        let told = missing.len();
        let has_files = self.search_files(dir, missing);
        if has_files {
            missing.truncate(told);
        }
        has_files
    }

    fn search_files(&self, dir: &RelPath, missing: &mut Vec<StoreError>) -> bool {
        let mut dirs = vec![(dir.clone(), None)];
        while let Some((dir, rest)) = dirs.pop() {
            if self.is_protected(&dir) {
                return true;
            }
            let Ok(listing) = self.list_plain(&dir, Part::from(rest)) else { return true };
            let is_unknown = listing.errors.iter().any(|error| !is_missing(error));
            if is_unknown || listing.entries.iter().any(|e| !e.meta.is_dir()) {
                return true;
            }
            missing.extend(listing.errors);
            let below = listing.entries.iter().filter_map(|entry| dir.join(&entry.name).ok());
            let below = below.map(|dir| (dir, None)).collect::<Vec<_>>();
            dirs.extend(listing.rest.map(|rest| (dir, Some(rest))));
            dirs.extend(below);
        }
        false
    }

    /// True if the rules protect the directory `dir` from deletion at a receiver.
    fn is_protected(&self, dir: &RelPath) -> bool {
        let protects = |(above, name): (RelPath, Name)| {
            !self.protects.judge_by_global_rules(&above).admits(&name, true)
        };
        !self.options.protects.is_empty() && dir.split_last().is_some_and(protects)
    }

    fn list_plain(&self, dir: &RelPath, part: Part) -> Result<Listing, StoreError> {
        let mut all = Listing::default();
        let mounted = self.options.mounts != Mounts::Enter && self.is_on_other_device(dir);
        if self.lists_all_entries(dir) && !mounted {
            let sharers = self.args_with_whole_dir(dir);
            if !sharers.is_empty() || (self.args.len() > 1 && self.has_args_below(dir)) {
                return self.list_shared(dir, &sharers, part);
            }
            return self.source_of("list", dir)?.list(dir, &self.options, part);
        }
        all.partial = true;
        if !mounted {
            let entries = self.list_below(&mut all, dir, &[], part);
            all.entries = self.merge_entries(dir, entries);
        }
        Ok(all)
    }
}

fn is_missing(error: &StoreError) -> bool {
    let StoreError::Argument { source, .. } = error else { return false };
    source.kind() == std::io::ErrorKind::NotFound
}
