//! Opens the receiver's destination and its alternate trees as stores.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_protocol::options::{self, AlternateUse, Options};
use deltic_store::{Durability, Filter, StoreError};
use deltic_store_local::{
    BackupPlace, CommitOptions, KeepLinks, LocalOptions, LocalStore, NamedDir, PartialDir,
    SpaceQuota, StoreContext, Trust, UnderWay, create_parent, create_root,
};
use deltic_tree::rule::{FilterSide, Rule, Rules};
use deltic_tree::{MetaMask, Mounts, RelPath};

use crate::error::SyncError;
use crate::host::place::{
    exists, inode_of, printable_client_path, resolve_symlinks, without_missing_dirs,
};

/// Returns the directories to create for a missing `root`: with `--mkpath` its missing parents, then the root.
pub(crate) fn missing_dirs<'a>(
    root: &'a Path,
    options: &Options,
    context: &StoreContext,
) -> Vec<&'a Path> {
    let above = root.parent().filter(|_| options.select.mkpath).into_iter();
    let above = above.flat_map(Path::ancestors);
    let missing = above.take_while(|above| *above != Path::new("") && !exists(above, context));
    let mut lacking: Vec<_> = [root].into_iter().chain(missing).collect();
    lacking.reverse();
    lacking
}

/// Makes the directories of [`missing_dirs`], if the quotas have room. Inserts new directories at the front of `made`.
pub(crate) fn make_dirs(
    lacking: &[&Path],
    options: &Options,
    context: &StoreContext,
    quotas: &[Arc<SpaceQuota>],
    made: &mut Vec<NamedDir>,
) -> Result<(), StoreError> {
    let Some((root, above)) = lacking.split_last() else { return Ok(()) };
    for dir in above.iter().map(|dir| root_dir(dir, options, context)) {
        if create_parent(&dir, durability(options), quotas)? {
            made.insert(0, dir);
        }
    }
    // With `options.modes`, the mode of the root need not change later. A user outside of the root's group could only
    // change the mode by losing setgid.
    let create = if options.modes { create_root } else { create_parent };
    let root = root_dir(root, options, context);
    if create(&root, durability(options), quotas)? {
        made.insert(0, root);
    }
    Ok(())
}

/// Returns the options of the store at `root`.
pub(crate) fn local_options(
    root: &Path,
    options: &Options,
    context: &StoreContext,
    see: MetaMask,
    under_way: &UnderWay,
) -> Result<LocalOptions, SyncError> {
    check_dirs(root, &[], options, context)?;
    Ok(LocalOptions {
        one_shot: false,
        durability: durability(options),
        rules: Filter::new(&options.rules, FilterSide::Receiver),
        see,
        backup: options
            .remove
            .backup
            .as_ref()
            .map(|kept| backup_place(root, kept, options, context)),
        one_file_system: options.select.mounts != Mounts::Enter,
        keep_dirlinks: keep_links(options),
        writing: commit_options(root, options, context)?,
        under_way: under_way.clone(),
        ..LocalOptions::default()
    })
}

/// Returns the symlinks that a path may pass as directories: all with `--keep-dirlinks`, those of this user and of the
/// superuser with `--no-implied-dirs`, or none.
pub(crate) const fn keep_links(options: &Options) -> KeepLinks {
    let Options { follow, select, .. } = options;
    match (follow.keep_dirs, select.plain_implied_dirs) {
        (true, _) => KeepLinks::All,
        (false, true) if follow.insecure => KeepLinks::All,
        (false, true) => KeepLinks::Ours,
        (false, false) => KeepLinks::None,
    }
}

/// Returns the directory and suffix of backups for files below `root`.
fn backup_place(
    root: &Path,
    kept: &options::Backup,
    options: &Options,
    context: &StoreContext,
) -> BackupPlace {
    let suffix = kept.suffix.clone();
    let drops_unsafe_links = options.follow.safe && options.remove.drops_unsafe_links;
    let Some(dir) = &kept.dir else {
        let below = Some(RelPath::root());
        return BackupPlace { dir: None, suffix, below, mixed: false, drops_unsafe_links };
    };
    let dir = option_dir(root, dir, options, context);
    let is_below = path_below(root, &dir.path, context);
    let mixed = path_below(&dir.path, root, context).is_some();
    // A backup directory that is the root itself counts as none.
    let dir = is_below.as_ref().is_none_or(|below| !below.is_root()).then_some(dir);
    BackupPlace { dir, suffix, below: is_below, mixed, drops_unsafe_links }
}

/// Returns the path of `dir` relative to `root`, if `dir` is the root or below. Symlinks and bind mounts on the way do
/// not matter.
fn path_below(root: &Path, dir: &Path, context: &StoreContext) -> Option<RelPath> {
    let (root, dir) = resolve_symlinks(root, context).zip(resolve_symlinks(dir, context))?;
    let inode = inode_of(&root, context);
    let is_root =
        |above: &&Path| **above == root || inode.is_some() && inode_of(above, context) == inode;
    let above = dir.ancestors().find(is_root)?;
    RelPath::parse(dir.strip_prefix(above).ok()?.as_os_str().as_bytes()).ok()
}

/// Refuses a `--backup-dir` or `--partial-dir` that is the root itself, by any path: versions would be lost. Refuses a
/// `--partial-dir` that is one of the local `sources`.
///
/// # Errors
/// [`SyncError::Options`], for such a directory.
pub(crate) fn check_dirs(
    root: &Path,
    sources: &[PathBuf],
    options: &Options,
    context: &StoreContext,
) -> Result<(), SyncError> {
    let is = |dir: &[u8], other: &Path| {
        let inode = inode_of(&option_dir(root, dir, options, context).path, context);
        inode.is_some_and(|inode| inode_of(other, context) == Some(inode))
    };
    let refuse = |option, dir: &[u8], why| {
        let dir = printable_client_path(Path::new(OsStr::from_bytes(dir)), context);
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

/// Parses a `--partial-dir` that is relative to the directory of each file.
fn partial_beside(dir: &[u8], context: &StoreContext) -> Result<PartialDir, SyncError> {
    let names = dir.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let below = RelPath::parse(&names.collect::<Vec<_>>().join(&b'/'));
    let below = below.ok().filter(|below| !below.is_root());
    let dir = deltic_tree::path::printable(dir);
    let refuse = |why: &str| SyncError::Selection(format!("--partial-dir={dir}: {why}"));
    let below = below.ok_or_else(|| refuse("neither absolute nor a directory below"))?;
    let kept = |_| refuse("Deltic keeps that name for itself");
    context.check_path("use", &below).map_err(kept)?;
    Ok(PartialDir::Beside(below))
}

/// Returns the options of writing for the store below `root`.
fn commit_options(
    root: &Path,
    options: &Options,
    context: &StoreContext,
) -> Result<CommitOptions, SyncError> {
    let writing = &options.writing;
    let path = |dir: &[u8]| option_dir(root, dir, options, context);
    let partial = |dir: &[u8]| match dir.first() {
        // Partial files among the files of the tree would look like any file.
        Some(b'/') => Ok(match path(dir) {
            dir if path_below(root, &dir.path, context).is_some() => None,
            dir => Some(PartialDir::Outside(dir)),
        }),
        _ => partial_beside(dir, context).map(Some),
    };
    Ok(CommitOptions {
        sparse: writing.sparse,
        preallocate: writing.preallocate,
        inplace: writing.inplace,
        // The content of sources to be removed must not be overwritten through another link.
        names_apart: writing.inplace && (options.metadata.hard_links || options.remove.sources),
        delay: writing.delay,
        temp_dir: writing.temp_dir.as_deref().map(path),
        partial_dir: writing.partial_dir.as_deref().map(partial).transpose()?.flatten(),
    })
}

/// Returns the directory that an option names as `dir`.
fn option_dir(root: &Path, dir: &[u8], options: &Options, context: &StoreContext) -> NamedDir {
    root_dir(&root.join(OsStr::from_bytes(dir)), options, context)
}

/// Returns the directory `path`. The options decide which symlinks on the way are followed.
pub(crate) fn root_dir(path: &Path, options: &Options, context: &StoreContext) -> NamedDir {
    let trust = Trust::new(options.follow.insecure);
    NamedDir { path: path.to_path_buf(), trust, context: context.clone() }
}

fn durability(options: &Options) -> Durability {
    if options.durable { Durability::Run } else { Durability::None }
}

/// Opens the alternate trees. Also returns warnings about trees that cannot be opened.
pub(crate) fn open_alternates(
    root: &Path,
    options: &Options,
    context: &StoreContext,
    see: MetaMask,
) -> (Vec<Option<LocalStore>>, Vec<String>) {
    // Rules hide extended attributes in alternate trees, but no names.
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
        let dir = option_dir(root, dir, options, context);
        let path = dir.path.clone();
        let local = LocalOptions { see, rules: rules.clone(), ..LocalOptions::default() };
        let opened = LocalStore::open_named(
            &NamedDir { path: without_missing_dirs(&path, context), ..dir },
            local,
        );
        if let Err(error) = &opened {
            let path = printable_client_path(&path, context);
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
