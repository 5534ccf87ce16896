//! Resolves a destination argument on this machine, and refuses destinations that make no sense.

#![expect(clippy::disallowed_methods, reason = "looks at roots that users name, never below them")]

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use deltic_core::Fingerprint;
use deltic_protocol::Hello;
use deltic_store_local::{NamedDir, StoreContext, Trust};
use deltic_tree::meta::Inode;
use deltic_tree::path::{MAX_PATH_BYTES, printable, shortened};
use deltic_tree::{Follow, Name};
use nix::unistd::User;
use rustix::fs::FileType;

use crate::error::SyncError;

/// The root of a destination, and the new name of the only entry if the argument names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) root: PathBuf,
    pub(crate) rename: Option<Name>,
    /// True if the root does not exist and will be created.
    pub(crate) missing: bool,
}

/// Applies rsync's rules: an existing directory receives the entries. Otherwise a single file is written under the
/// given name, and other entries go to a new directory of that name.
///
/// # Errors
/// [`SyncError::Selection`] if another kind of entry is in the way, [`SyncError::Files`] if the destination
/// cannot be made.
pub(crate) fn resolve(
    path: &Path,
    single: Option<&Name>,
    mkpath: bool,
    context: &StoreContext,
) -> Result<Resolved, SyncError> {
    let root = path.to_path_buf();
    let there = || Resolved { root: root.clone(), rename: None, missing: false };
    if is_dir(path, context) {
        return Ok(there());
    }
    if single.is_some() && !names_dir(path) {
        let name = path.file_name().and_then(|name| Name::new(name.as_bytes()).ok());
        let name = name.ok_or_else(|| unusable_error(path, "not a name for a file", context))?;
        let root = parent(path);
        let missing = mkpath && !exists(&root, context);
        if !is_dir(&root, context) && !missing {
            let hint = if can_create(&root, context) { " (--mkpath creates it)" } else { "" };
            return Err(unusable_error(
                path,
                format!("{}{hint}", missing_parent_reason(&root, context)),
                context,
            ));
        }
        return Ok(Resolved { root, rename: Some(name), missing });
    }
    let refused = if context.stat_path(path).is_ok() || is_below_file(path, context) && !mkpath {
        Some(unusable_error(path, "not a directory", context))
    } else {
        exists(path, context).then(|| creation_error(path, "a symlink to nothing", context))
    };
    if let Some(refused) = refused {
        // Another run may have made the directory meanwhile.
        return if is_dir(path, context) { Ok(there()) } else { Err(refused) };
    }
    if !has_parent(path, context) && !mkpath {
        let why = missing_parent_reason(&parent(path), context);
        let hint = match path.starts_with("~") {
            true => "; the shell leaves a quoted ~ as it is",
            false => "; only the last one is created (--mkpath creates all)",
        };
        let hint = if can_create(&parent(path), context) { hint } else { "" };
        return Err(creation_error(path, format!("{why}{hint}"), context));
    }
    // A directory cannot be made by a path that ends in `/.`.
    let mut made = path.as_os_str().as_bytes();
    while let Some(above) = made.strip_suffix(b"/.") {
        made = &made[..=above.len()];
    }
    Ok(Resolved { root: OsStr::from_bytes(made).into(), rename: None, missing: true })
}

/// Returns `path` as the requesting user knows the path, with unprintable bytes escaped.
pub(crate) fn printable_client_path(path: &Path, context: &StoreContext) -> String {
    printable(context.client_path(path).as_os_str().as_bytes())
}

/// Returns the reason why no entry can be created in `dir`.
fn missing_parent_reason(dir: &Path, context: &StoreContext) -> String {
    let shown = printable_client_path(dir, context);
    let why = if exists(dir, context) { "not a directory" } else { "no such directory" };
    format!("{}: {why}", shortened(&shown))
}

/// True if `dir` can be created: `dir` does not exist, and each existing parent is a directory.
fn can_create(dir: &Path, context: &StoreContext) -> bool {
    !exists(dir, context) && !is_below_file(dir, context)
}

/// True if only a directory can have this path: it ends with `/` or `/.`.
fn names_dir(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_suffix(b".").unwrap_or(bytes).ends_with(b"/")
}

/// Returns the path for a local argument, already expanded by the shell. An empty argument is the current directory.
pub(crate) fn to_local_path(argument: &OsStr) -> PathBuf {
    PathBuf::from(if argument.is_empty() { OsStr::new(".") } else { argument })
}

/// Expands a path argument of the other end as a remote shell would. A relative path and `~` start in the home
/// directory; `~user` is the home directory of `user`, if the user exists.
pub(crate) fn expand(argument: &[u8]) -> PathBuf {
    let literal = to_local_path(OsStr::from_bytes(argument));
    let Some(rest) = argument.strip_prefix(b"~") else { return literal };
    let (user, below) =
        rest.split_at(rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len()));
    let home = if user.is_empty() {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        home.or_else(|| Some(".".into()))
    } else {
        let user = std::str::from_utf8(user).ok().and_then(|user| User::from_name(user).ok()?);
        user.map(|user| user.dir.into_os_string())
    };
    home.map_or(literal, |mut home| {
        home.push(OsStr::from_bytes(below));
        home.into()
    })
}

/// True if a parent of `path` is not a directory.
pub(crate) fn is_below_file(path: &Path, context: &StoreContext) -> bool {
    context.lstat_path(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotADirectory)
}

/// True if an entry exists at `path`.
pub(crate) fn exists(path: &Path, context: &StoreContext) -> bool {
    context.lstat_path(path).is_ok()
}

/// True if `path` leads to a directory.
pub(crate) fn is_dir(path: &Path, context: &StoreContext) -> bool {
    context.stat_path(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// Removes each missing directory that is followed by `..`. The result is the place of the path once the directories
/// are made.
pub(crate) fn without_missing_dirs(path: &Path, context: &StoreContext) -> PathBuf {
    let (mut there, mut missing) = (PathBuf::new(), 0);
    for part in path.components() {
        match part {
            Component::ParentDir if missing > 0 => {
                there.pop();
                missing -= 1;
            }
            part => {
                there.push(part);
                let is_new = matches!(part, Component::Normal(_)) && !exists(&there, context);
                missing += usize::from(missing > 0 || is_new);
            }
        }
    }
    there
}

/// True if the parent of `path` is a directory.
pub(crate) fn has_parent(path: &Path, context: &StoreContext) -> bool {
    is_dir(&parent(path), context)
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Returns the error for a path that cannot be a destination.
pub(crate) fn unusable_error(path: &Path, why: impl Display, context: &StoreContext) -> SyncError {
    SyncError::Selection(destination_message(path, why, context))
}

/// Returns the error for a destination that cannot be made.
pub(crate) fn creation_error(path: &Path, why: impl Display, context: &StoreContext) -> SyncError {
    SyncError::Files(destination_message(path, why, context))
}

/// Returns a message about the destination `path`.
pub(crate) fn destination_message(
    path: &Path,
    why: impl Display,
    context: &StoreContext,
) -> String {
    format!("destination {}: {why}", shortened(&printable_client_path(path, context)))
}

/// Refuses a destination that is too long for a frame.
///
/// # Errors
/// [`SyncError::Files`], if the path is too long.
pub(crate) fn check_len(destination: &OsStr) -> Result<(), SyncError> {
    if destination.len() > MAX_PATH_BYTES {
        return Err(creation_error(
            Path::new(destination),
            "file name too long",
            &StoreContext::default(),
        ));
    }
    Ok(())
}

/// A destination inside a source directory.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    /// The path without symlinks; the destination need not exist.
    pub(crate) destination: PathBuf,
    source: &'a Path,
    /// True if the destination is the source itself.
    is_it: bool,
    context: &'a StoreContext,
}

impl Inside<'_> {
    /// Returns the error that refuses this destination.
    pub(crate) fn refusal_error(&self) -> SyncError {
        let (there, source) = (
            printable_client_path(&self.destination, self.context),
            printable_client_path(self.source, self.context),
        );
        SyncError::Usage(match self.is_it {
            true => format!("the destination {there} is the source {source}"),
            false => format!("the destination {there} lies inside the source {source}"),
        })
    }
}

/// Returns the source directory that contains the destination, since the destination would be copied into itself. A
/// source symlink that is not followed is not a directory.
///
/// # Errors
/// [`SyncError::Usage`] if the destination is one of the sources.
pub(crate) fn source_containing<'a>(
    sources: &'a [PathBuf],
    follow: Follow,
    destination: &Resolved,
    context: &'a StoreContext,
) -> Result<Option<Inside<'a>>, SyncError> {
    let Some(there) = resolve_symlinks(&destination.root, context) else { return Ok(None) };
    let stays = |source: &Path| {
        let is_dir = matches!(source.as_os_str().as_bytes(), [.., b'/'] | [.., b'/', b'.']);
        follow == Follow::Never && !is_dir && source.is_symlink()
    };
    let mut found = None;
    for source in sources.iter().filter(|source| !stays(source)) {
        let Ok(from) = source.canonicalize() else { continue };
        if !from.is_dir() || !there.starts_with(&from) {
            continue;
        }
        let inside = Inside { destination: there.clone(), source, is_it: there == from, context };
        if inside.is_it {
            return Err(inside.refusal_error());
        }
        found = Some(inside);
    }
    Ok(found)
}

/// Resolves all symlinks in `path`. The missing end of `path` is appended to the nearest existing directory.
pub(crate) fn resolve_symlinks(path: &Path, context: &StoreContext) -> Option<PathBuf> {
    let path = without_missing_dirs(&std::path::absolute(path).ok()?, context);
    let above = path.ancestors().find(|above| exists(above, context))?;
    let there = match context.is_confined() {
        // The kernel cannot open a path that begins with the name of a volume.
        true => NamedDir::new(above, Trust::Anyone).in_context(context).real_path().ok()?,
        false => above.canonicalize().ok()?,
    };
    Some(there.components().chain(path.components().skip(above.components().count())).collect())
}

/// Returns the inode that `path` leads to, if there is one.
pub(crate) fn inode_of(path: &Path, context: &StoreContext) -> Option<Inode> {
    let is = context.stat_path(path).ok()?;
    Some(Inode { device: is.st_dev, number: is.st_ino })
}

/// Returns fingerprints of inodes on this machine, under the key in the hello `said`. Empty if this boot of the machine
/// has no identifier.
pub(crate) fn inode_fingerprints(
    said: &Hello,
    inodes: impl IntoIterator<Item = Inode>,
) -> Vec<Fingerprint> {
    let Ok(boot) = std::fs::read("/proc/sys/kernel/random/boot_id") else { return Vec::new() };
    inodes.into_iter().map(|inode| said.place_fingerprint(&boot, inode)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn one_file_may_be_renamed_and_a_tree_may_not() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("new");
        let file = resolve(&missing, Some(&name("a")), false, &StoreContext::default()).unwrap();
        assert_eq!((file.root.as_path(), file.rename), (dir.path(), Some(name("new"))));
        let tree = resolve(&missing, None, false, &StoreContext::default()).unwrap();
        assert_eq!((tree.rename, tree.missing), (None, true));
        let slashed = missing.join("");
        assert!(
            resolve(&slashed, Some(&name("a")), false, &StoreContext::default()).unwrap().missing
        );
        let dotted =
            resolve(&missing.join("."), Some(&name("a")), false, &StoreContext::default()).unwrap();
        assert_eq!((dotted.root, dotted.rename), (missing.join(""), None));
    }

    #[test]
    fn an_existing_directory_is_the_destination_without_a_rename() {
        let dir = tempfile::tempdir().unwrap();
        let there = resolve(dir.path(), Some(&name("a")), false, &StoreContext::default()).unwrap();
        assert_eq!((there.rename, there.missing), (None, false));
    }

    #[test]
    fn a_file_cannot_hold_a_tree_and_only_one_level_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(
            resolve(&file, None, false, &StoreContext::default()),
            Err(SyncError::Selection(_))
        ));
        let deep = dir.path().join("no/such");
        assert!(matches!(
            resolve(&deep, None, false, &StoreContext::default()),
            Err(SyncError::Files(_))
        ));
        assert!(matches!(
            resolve(&deep, Some(&name("a")), false, &StoreContext::default()),
            Err(SyncError::Selection(_))
        ));
    }

    #[test]
    fn a_destination_inside_a_source_is_found_and_the_source_itself_refused() {
        let dir = tempfile::tempdir().unwrap();
        let sources = [dir.path().to_path_buf()];
        let resolved = |path: &Path| resolve(path, None, false, &StoreContext::default()).unwrap();
        let found = |sources: &[PathBuf], follow, destination: &Path| {
            let context = StoreContext::default();
            let found = source_containing(sources, follow, &resolved(destination), &context);
            found.map(|found| found.map(|inside| inside.destination)).map_err(|_| ())
        };
        let (here, backup) = (dir.path().canonicalize().unwrap(), dir.path().join("backup"));
        assert_eq!(found(&sources, Follow::Never, &backup), Ok(Some(here.join("backup"))));
        assert_eq!(found(&sources, Follow::Never, dir.path()), Err(()));
        let other = tempfile::tempdir().unwrap();
        assert_eq!(found(&sources, Follow::Never, other.path()), Ok(None));
        // A symlink is copied as a symlink, unless links are followed or the path ends with a slash.
        let link = [dir.path().join("link")];
        std::os::unix::fs::symlink(".", &link[0]).unwrap();
        assert_eq!(found(&link, Follow::Never, &backup), Ok(None));
        assert!(found(&link, Follow::Dirs, &backup).unwrap().is_some());
        assert!(found(&[link[0].join("")], Follow::Never, &backup).unwrap().is_some());
    }
}
