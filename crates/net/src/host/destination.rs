//! What a receiver writes to, and what it compares with, as stores.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_protocol::options::{self, AlternateUse, Options};
use deltic_store::{Durability, Filter, StoreError};
use deltic_store_local::{
    Backup, KeepLinks, LocalOptions, LocalStore, NamedDir, PartialDir, Quota, Trust, UnderWay,
    Writing, check_path, create_above, create_root,
};
use deltic_tree::rule::{FilterSide, Rule, Rules};
use deltic_tree::{MetaMask, Mounts, RelPath};

use crate::error::SyncError;
use crate::host::place::{exists, inode_of, past_missing, shown, there};

/// A root that is not there, behind those above it that are not either, where they are to be made as well.
pub(crate) fn lacking<'a>(root: &'a Path, options: &Options) -> Vec<&'a Path> {
    let above = root.parent().filter(|_| options.select.mkpath).into_iter();
    let above = above.flat_map(Path::ancestors);
    let missing = above.take_while(|above| *above != Path::new("") && !exists(above));
    let mut lacking: Vec<_> = [root].into_iter().chain(missing).collect();
    lacking.reverse();
    lacking
}

/// Makes what is [lacking], as far as these quotas have room, and puts what was `made` in front of the rest.
pub(crate) fn make(
    lacking: &[&Path],
    options: &Options,
    (quotas, made): (&[Arc<Quota>], &mut Vec<NamedDir>),
) -> Result<(), StoreError> {
    let Some((root, above)) = lacking.split_last() else { return Ok(()) };
    for dir in above.iter().map(|dir| root_of(dir, options)) {
        if create_above(&dir, durability(options), quotas)? {
            made.insert(0, dir);
        }
    }
    // It need not change then, which who is not in its group could not without the loss of setgid.
    let create = if options.modes { create_root } else { create_above };
    let root = root_of(root, options);
    if create(&root, durability(options), quotas)? {
        made.insert(0, root);
    }
    Ok(())
}

/// Options of the store at `root`.
pub(crate) fn local_options(
    root: &Path,
    options: &Options,
    (see, under_way): (MetaMask, &UnderWay),
) -> Result<LocalOptions, SyncError> {
    check_dirs(root, &[], options)?;
    Ok(LocalOptions {
        one_shot: false,
        durability: durability(options),
        rules: Filter::new(&options.rules, FilterSide::Receiver),
        see,
        backup: options.remove.backup.as_ref().map(|kept| backup(root, kept, options)),
        one_file_system: options.select.mounts != Mounts::Enter,
        keep_dirlinks: keep_links(options),
        writing: writing(root, options)?,
        under_way: under_way.clone(),
        ..LocalOptions::default()
    })
}

/// A link that stands for a directory on the way is followed if no other user could have put it there.
pub(crate) const fn keep_links(options: &Options) -> KeepLinks {
    let Options { follow, select, .. } = options;
    match (follow.keep_dirs, select.plain_implied_dirs) {
        (true, _) => KeepLinks::All,
        (false, true) if follow.insecure => KeepLinks::All,
        (false, true) => KeepLinks::Ours,
        (false, false) => KeepLinks::None,
    }
}

/// The place of old versions of what is below `root`.
fn backup(root: &Path, kept: &options::Backup, options: &Options) -> Backup {
    let suffix = kept.suffix.clone();
    let Some(dir) = &kept.dir else {
        return Backup { dir: None, suffix, below: Some(RelPath::root()), above: false };
    };
    let dir = named(root, dir, options);
    let (is_below, above) = (below(root, &dir.path), below(&dir.path, root).is_some());
    // The root itself is no tree of their own.
    let dir = is_below.as_ref().is_none_or(|below| !below.is_root()).then_some(dir);
    Backup { dir, suffix, below: is_below, above }
}

/// Which directory below `root` that is, if it is one, by whatever way one comes to the root.
fn below(root: &Path, dir: &Path) -> Option<RelPath> {
    let (root, dir) = there(root).zip(there(dir))?;
    let inode = inode_of(&root);
    let is_root = |above: &&Path| **above == root || inode.is_some() && inode_of(above) == inode;
    let above = dir.ancestors().find(is_root)?;
    RelPath::parse(dir.strip_prefix(above).ok()?.as_os_str().as_bytes()).ok()
}

/// Refuses options that name the root itself, by whatever way, where new versions or old ones would be lost; and, of
/// those of the `sources` that are here, one as the place of what is not complete.
///
/// # Errors
/// [`SyncError::Options`], if they do.
pub(crate) fn check_dirs(
    root: &Path,
    sources: &[PathBuf],
    options: &Options,
) -> Result<(), SyncError> {
    let is = |dir: &[u8], other: &Path| {
        let inode = inode_of(&named(root, dir, options).path);
        inode.is_some_and(|inode| inode_of(other) == Some(inode))
    };
    let refuse = |option, dir: &[u8], why| {
        let dir = shown(Path::new(OsStr::from_bytes(dir)));
        Err(SyncError::Options(format!("--{option}={dir} is {why}")))
    };
    let kept = options.remove.backup.as_ref().filter(|kept| kept.suffix.is_empty());
    if let Some(dir) = kept.and_then(|kept| kept.dir.as_deref())
        && is(dir, root)
    {
        let why = "the destination itself: give a --suffix, or another directory";
        return refuse("backup-dir", dir, why);
    }
    let partial = options.writing.partial_dir.as_deref();
    if let Some(dir) = partial.filter(|dir| dir.starts_with(b"/")) {
        if is(dir, root) {
            return refuse("partial-dir", dir, "the destination itself: name another directory");
        }
        if sources.iter().any(|source| is(dir, source)) {
            return refuse("partial-dir", dir, "a source: name another directory");
        }
    }
    Ok(())
}

/// Parses a `--partial-dir` below the directory of each file.
fn partial_beside(dir: &[u8]) -> Result<PartialDir, SyncError> {
    let names = dir.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let below = RelPath::parse(&names.collect::<Vec<_>>().join(&b'/'));
    let below = below.ok().filter(|below| !below.is_root());
    let dir = deltic_tree::path::printable(dir);
    let refuse = |why: &str| SyncError::Selection(format!("--partial-dir={dir}: {why}"));
    let below = below.ok_or_else(|| refuse("neither absolute nor a directory below"))?;
    check_path("use", &below).map_err(|_| refuse("Deltic keeps that name for itself"))?;
    Ok(PartialDir::Beside(below))
}

/// Options of writing for the store below `root`.
fn writing(root: &Path, options: &Options) -> Result<Writing, SyncError> {
    let writing = &options.writing;
    let path = |dir: &[u8]| named(root, dir, options);
    let partial = |dir: &[u8]| match dir.first() {
        // Among files of the tree nobody could tell which of them are parts.
        Some(b'/') => Ok(match path(dir) {
            dir if below(root, &dir.path).is_some() => None,
            dir => Some(PartialDir::Outside(dir)),
        }),
        _ => partial_beside(dir).map(Some),
    };
    Ok(Writing {
        sparse: writing.sparse,
        preallocate: writing.preallocate,
        inplace: writing.inplace,
        // Sources that go must not have had their content written over by others.
        names_apart: writing.inplace && (options.metadata.hard_links || options.remove.sources),
        delay: writing.delay,
        temp_dir: writing.temp_dir.as_deref().map(path),
        partial_dir: writing.partial_dir.as_deref().map(partial).transpose()?.flatten(),
    })
}

/// The directory that an option calls `dir`.
fn named(root: &Path, dir: &[u8], options: &Options) -> NamedDir {
    root_of(&root.join(OsStr::from_bytes(dir)), options)
}

/// The directory `path`, reached through links of whom the options say.
pub(crate) fn root_of(path: &Path, options: &Options) -> NamedDir {
    NamedDir { path: path.to_path_buf(), trust: Trust::new(options.follow.insecure) }
}

fn durability(options: &Options) -> Durability {
    if options.durable { Durability::Run } else { Durability::None }
}

/// Opens the other trees that are compared with, and says which cannot be.
pub(crate) fn open_alternates(
    root: &Path,
    (options, see): (&Options, MetaMask),
) -> (Vec<Option<LocalStore>>, Vec<String>) {
    // All names in them count, but not all attributes.
    let of_xattrs = |rule: &&Rule| matches!(rule, Rule::Pattern(rule) if rule.marks.xattr);
    let list = options.rules.list.iter().filter(of_xattrs).cloned().collect();
    let rules = Filter::new(&Rules { list, ..options.rules }, FilterSide::Receiver);
    let option = match options.compare.alternates.usage {
        AlternateUse::Compare => "--compare-dest",
        AlternateUse::Copy => "--copy-dest",
        AlternateUse::Link => "--link-dest",
    };
    let mut warnings = Vec::new();
    let mut open = |dir: &[u8]| {
        let NamedDir { path, trust } = named(root, dir, options);
        let local = LocalOptions { see, rules: rules.clone(), ..LocalOptions::default() };
        let opened = LocalStore::open_named(&NamedDir { path: past_missing(&path), trust }, local);
        if let Err(error) = &opened {
            let path = shown(&path);
            let why = match error {
                StoreError::NotFound { .. } => "does not exist".into(),
                StoreError::NotADir { .. } => "is not a directory".into(),
                error => error.to_string(),
            };
            warnings.push(format!("{option}: {path}: {why}; the run goes on without it"));
        }
        opened.ok()
    };
    let opened = options.compare.alternates.dirs.iter().map(|dir| open(dir)).collect();
    (opened, warnings)
}
