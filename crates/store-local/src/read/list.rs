//! Lists one directory.

use deltic_tree::meta::Inode;
use deltic_tree::names::SortedNames;
use deltic_tree::{Entry, Follow, Meta, MetaMask, Name, RelPath, UnsortedNames};
use rustix::fs::{self, FileType};
use rustix::io::Errno;

use crate::attributes::metadata::{read_meta_and_version, read_meta_of};
use crate::attributes::more::{Reach, read_again};
use crate::handles::dir::Dir;
use crate::kernel::errno::store_error;
use crate::kernel::system::System;
use crate::read::follow;
use deltic_store::filter::Judge;
use deltic_store::{Listing, StoreError, Version};

/// The part of a directory to list.
pub(crate) enum Part {
    All,
    /// The first part, if there are very many names.
    First,
    /// The first part, with the versions of files.
    FirstVersions,
    /// A later part: the remaining names, as the part before returned them.
    Next(Box<SortedNames>),
}

impl From<Option<Box<SortedNames>>> for Part {
    fn from(rest: Option<Box<SortedNames>>) -> Self {
        rest.map_or(Self::First, Self::Next)
    }
}

impl Part {
    /// Returns the most names to examine.
    pub(crate) const fn max_names(&self) -> usize {
        if matches!(self, Self::All) { usize::MAX } else { PART_NAMES }
    }
}

/// Progress within a part: names and bytes listed so far.
pub(crate) struct Portion {
    most: usize,
    names: usize,
    /// Bytes of attributes and ACLs, which may be a thousand times as long as names.
    bytes: usize,
}

impl Portion {
    pub(crate) const fn for_part(part: &Part) -> Self {
        Self { most: part.max_names(), names: 0, bytes: 0 }
    }

    /// Returns the number of names to examine next; 0 if the part is full.
    pub(crate) fn next(&self) -> usize {
        let is_full = self.bytes >= PART_BYTES && self.most < usize::MAX;
        if is_full { 0 } else { (self.most - self.names).min(BATCH_NAMES) }
    }

    pub(crate) fn count_examined<'a>(
        &mut self,
        names: usize,
        found: impl Iterator<Item = &'a Entry>,
    ) {
        self.names += names;
        self.bytes += found.map(|entry| entry.meta.extra_metadata_bytes()).sum::<usize>();
    }
}

/// Bytes of attributes and ACLs after which a part ends.
const PART_BYTES: usize = 512 << 10;
/// Names to examine before the bytes are counted again.
const BATCH_NAMES: usize = 4;
/// Greatest number of names in one part.
pub(crate) const PART_NAMES: usize = 8 << 10;

/// A directory that is open for reading, and how to examine its entries.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    /// The directory that `path` starts in.
    pub(crate) root: &'a Dir,
    pub(crate) dir: &'a Dir,
    pub(crate) path: &'a RelPath,
    pub(crate) follow: Follow,
    pub(crate) see: MetaMask,
}

impl Look<'_> {
    /// Lists the entries that `judge` admits.
    pub(crate) fn list(self, judge: &mut Judge, part: Part) -> Listing {
        let mut listing = Listing::default();
        let look = self.lookup_of(matches!(part, Part::FirstVersions));
        let (most, mut portion) = (part.max_names(), Portion::for_part(&part));
        let names = names_to_list(&[self.dir], self.path, &|_| false, part, &mut listing);
        let Some(mut rest) = names else { return listing };
        listing.entries.reserve_exact(rest.len().min(most));
        while portion.next() > 0 && rest.len() > 0 {
            let (some, before) = (portion.next(), listing.entries.len());
            self.add_entries(judge, &look, (&mut rest).take(some), &mut listing);
            portion.count_examined(some, listing.entries[before..].iter());
        }
        listing.rest = remaining_names(&[self.dir], rest);
        listing
    }

    /// Lists the first `most` entries that `judge` admits and whose names are after `last` in byte order, with the
    /// versions of files. Other names are not examined.
    pub(crate) fn list_after(self, judge: &mut Judge, last: &[u8], most: usize) -> Listing {
        let mut listing = Listing::default();
        let is_seen = |name: &Name| name.as_bytes() <= last;
        let names = names_to_list(&[self.dir], self.path, &is_seen, Part::First, &mut listing);
        let (Some(mut rest), look) = (names, self.lookup_of(true)) else { return listing };
        while listing.entries.len() < most && rest.len() > 0 {
            let some = most - listing.entries.len();
            self.add_entries(judge, &look, (&mut rest).take(some), &mut listing);
        }
        listing
    }

    /// Returns a function that looks at a name; with `versions` also at the version of a file.
    fn lookup_of(self, versions: bool) -> impl Fn(&Name) -> Result<Looked, Errno> {
        // With followed links or `--fake-super`, a name may stand for another file.
        let is_plain = self.follow == Follow::Never && !self.see.fake_super;
        let device = (is_plain && versions).then(|| System::of(self.dir).device_if_reliable());
        move |name| match device {
            Some(device) => read_meta_and_version(self.dir, name, self.see).map(|(meta, stamp)| {
                let lasts = meta.is_file() && device == Some(stamp.device());
                (meta, Some(lasts.then(|| stamp.version())))
            }),
            None => self.look_at(name),
        }
    }

    /// Lists the first entries that `judge` admits, except the names for which `keep` is true. These names are not
    /// examined.
    pub(crate) fn list_except_kept(
        self,
        judge: &mut Judge,
        keep: &dyn Fn(&Name) -> bool,
    ) -> Listing {
        let mut listing = Listing::default();
        let names = names_to_list(&[self.dir], self.path, keep, Part::First, &mut listing);
        let Some(mut rest) = names else { return listing };
        let look = |name: &Name| self.look_at(name);
        self.add_entries(judge, look, (&mut rest).take(PART_NAMES), &mut listing);
        listing.rest = remaining_names(&[self.dir], rest);
        listing
    }

    /// Lists the entries of these `names` that `judge` admits.
    pub(crate) fn list_names(self, judge: &mut Judge, names: &[Name]) -> Listing {
        let mut listing = Listing::default();
        let look = |name: &Name| self.look_at(name);
        self.add_entries(judge, look, names.iter().cloned(), &mut listing);
        listing
    }

    /// Adds an entry for each of `names` that `look` finds and `judge` admits.
    fn add_entries(
        self,
        judge: &mut Judge,
        look: impl Fn(&Name) -> Result<Looked, Errno>,
        names: impl Iterator<Item = Name>,
        listing: &mut Listing,
    ) {
        for name in names {
            match look(&name) {
                Ok((meta, _)) if !judge.admits(&name, meta.is_dir()) => {}
                Ok((meta, _)) if self.leads_back(&name, &meta) => {
                    listing.errors.push(StoreError::SymlinkLoop { path: self.path_of(&name) });
                }
                Ok((mut meta, version)) => {
                    self.remove_excluded_xattrs(&name, &mut meta, judge);
                    listing.entries.push(Entry { name, meta });
                    listing.versions.extend(version);
                }
                // A name that has vanished is no entry. The error of an excluded name is ignored, whether or not the
                // name is a directory.
                Err(Errno::NOENT) => {}
                Err(_) if [false, true].iter().any(|is_dir| !judge.admits(&name, *is_dir)) => {}
                Err(errno) => {
                    let path = self.path_of(&name);
                    listing.errors.push(match is_dangling_link(self.dir, &name, errno) {
                        true => StoreError::Dangling { action: "look at", path },
                        false => store_error("look at", &path, errno),
                    });
                }
            }
        }
    }

    /// True for a symlink that is followed and leads to a directory that contains the symlink.
    fn leads_back(self, name: &Name, meta: &Meta) -> bool {
        self.follow != Follow::Never
            && meta.is_dir()
            && follow::leads_back(self.root, self.dir, self.path, name)
    }

    /// Returns the path of `name`, or the path of the directory if the path of `name` is too long.
    fn path_of(self, name: &Name) -> RelPath {
        self.path.join(name).unwrap_or_else(|_| self.path.clone())
    }

    /// Removes the extended attributes that `judge` excludes from the metadata of `name`.
    pub(crate) fn remove_excluded_xattrs(self, name: &Name, meta: &mut Meta, judge: &Judge) {
        let is_name = self.follow == Follow::Never || meta.is_symlink();
        let reach = if is_name { Reach::Name } else { Reach::Followed };
        let admits = |name: &[u8]| judge.admits_xattr(name);
        read_again(|| reach(self.dir.path_to(name)), meta, self.see, &admits);
        judge.remove_excluded_xattrs(meta);
    }

    /// Returns the metadata of `name`. The full path is built only if links are followed.
    fn look_at(self, name: &Name) -> Result<Looked, Errno> {
        let meta = match self.follow {
            Follow::Never => read_meta_of(self.dir, name, self.see),
            follow => {
                let path = self.path.join(name).map_err(|_| Errno::NAMETOOLONG)?;
                follow::look_at_followed(self.dir, name, &path, follow, self.see)
            }
        };
        Ok((meta?, None))
    }
}

/// Metadata of an entry. If versions were requested, also the version of a file, if the versions of its file system are
/// reliable.
type Looked = (Meta, Option<Option<Version>>);

pub(crate) fn inode(dir: &Dir) -> Result<Inode, Errno> {
    fs::fstat(dir).map(|stat| Inode { device: stat.st_dev, number: stat.st_ino })
}

fn inodes(dirs: &[&Dir]) -> Result<Vec<Inode>, Errno> {
    dirs.iter().map(|dir| inode(dir)).collect()
}

/// Returns the names in `dirs`, all of which have the path `path`, that `keep` does not admit; for a next part, the
/// remaining names. `None` if the directories are not the same as in the part before.
pub(crate) fn names_to_list(
    dirs: &[&Dir],
    path: &RelPath,
    keep: &dyn Fn(&Name) -> bool,
    part: Part,
    listing: &mut Listing,
) -> Option<Box<SortedNames>> {
    if let Part::Next(rest) = part {
        if inodes(dirs).is_ok_and(|here| rest.dirs() == here) {
            return Some(rest);
        }
        // With other directories, a missing name would not mean a removed entry.
        listing.errors.push(StoreError::Changed { path: path.clone() });
        return None;
    }
    let mut names = UnsortedNames::default();
    dirs.iter().for_each(|dir| collect_names(dir, path, keep, &mut names, listing));
    Some(Box::new(names.into_sorted()))
}

/// Returns the names of later parts, with the inodes of `dirs`. A later part needs the same directories.
pub(crate) fn remaining_names(dirs: &[&Dir], rest: Box<SortedNames>) -> Option<Box<SortedNames>> {
    if rest.len() == 0 {
        return None;
    }
    Some(match inodes(dirs) {
        Ok(here) => Box::new(rest.with_dirs(here)),
        Err(_) => rest,
    })
}

/// Adds the names in `dir` for which `keep` is false.
fn collect_names(
    dir: &Dir,
    path: &RelPath,
    keep: &dyn Fn(&Name) -> bool,
    names: &mut UnsortedNames,
    listing: &mut Listing,
) {
    let Listing { errors, warnings, .. } = &mut *listing;
    let whole =
        dir.for_each_entry(|name, kind| match Name::new(name).ok().filter(|n| path.can_hold(n)) {
            Some(name) if dir.bounds().is_private(name.as_bytes()) => {
                // A source reports such a name as skipped; a destination leaves it alone.
                if !matches!(kind, FileType::Directory | FileType::Unknown) {
                    let shown =
                        path.join(&name).map_or_else(|_| path.to_string(), |at| at.to_string());
                    warnings
                        .push(format!("{shown}: skipped, since Deltic keeps that name for itself"));
                }
            }
            Some(name) if keep(&name) => {}
            Some(name) => {
                if names.push(name).is_err() {
                    errors.push(store_error("list", path, Errno::OVERFLOW));
                }
            }
            None => errors.push(store_error("list", path, Errno::NAMETOOLONG)),
        });
    if let Err(errno) = whole {
        listing.errors.push(store_error("list", path, errno));
    }
}

/// True if `errno` means that the link `name` has no target. False if it means a loop of links.
pub(crate) fn is_dangling_link(dir: &Dir, name: &Name, errno: Errno) -> bool {
    errno == Errno::LOOP && dir.stat_behind(name).err() == Some(Errno::NOENT)
}
