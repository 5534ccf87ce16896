//! Symlinks that the source follows (`--copy-links` and similar options).
//!
//! With these options, entries behind symlinks are part of the source, wherever they are: `All` follows every link,
//! `Dirs` every link to a directory, `Unsafe` every link whose target leaves the root, and `DirsAndUnsafe` both of the
//! latter. So a link that replaces another link or a directory during a run shows nothing that it could not have shown
//! before. The last name of a file's path is followed only if its own link qualifies.

use std::iter::successors;

use deltic_tree::links::leaves_root;
use deltic_tree::meta::Inode;
use deltic_tree::{Follow, Kind, Meta, MetaMask, Name, RelPath};
use rustix::fs::{AtFlags, fstat, statat};
use rustix::io::Errno;

use crate::attributes::metadata::{read_meta_following, read_meta_of};
use crate::handles::dir::{Dir, Use};
use crate::handles::stat::{file_type, inode_of};

/// Returns the kinds of entries that may take the place of the link at `path` with the metadata `meta`. `None` if the
/// entry is no link, or is transferred as a link.
fn followed_kinds(follow: Follow, meta: &Meta, path: &RelPath) -> Option<Behind> {
    let Kind::Symlink(target) = &meta.kind else { return None };
    let leads_out = || leaves_root(path.as_bytes(), target);
    match follow {
        Follow::All => Some(Behind::All),
        Follow::Unsafe | Follow::DirsAndUnsafe if leads_out() => Some(Behind::All),
        Follow::Dirs | Follow::DirsAndUnsafe => Some(Behind::Dirs),
        Follow::Unsafe | Follow::Never => None,
    }
}

/// Kinds of entries that may take the place of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Dirs,
    All,
}

/// Returns the metadata of the entry that `name` of `dir` stands for, through a link if links are followed. `path` is
/// the path of `name`.
pub(crate) fn look_at_followed(
    dir: &Dir,
    name: &Name,
    path: &RelPath,
    follow: Follow,
    see: MetaMask,
) -> Result<Meta, Errno> {
    let meta = read_meta_of(dir, name, see)?;
    let Some(taken) = followed_kinds(follow, &meta, path) else { return Ok(meta) };
    match (read_meta_following(dir, name, see), taken) {
        (Ok(behind), Behind::Dirs) if !behind.is_dir() => Ok(meta),
        (Err(_), Behind::Dirs) => Ok(meta),
        // The link exists, but its target does not.
        (Err(Errno::NOENT), _) => Err(Errno::LOOP),
        (behind, _) => behind,
    }
}

/// True if opening the file `name` of `dir` follows its link.
pub(crate) fn open_follows_link(follow: Follow, dir: &Dir, name: &Name, path: &RelPath) -> bool {
    // Most runs follow no links, or only links to directories, and need no look.
    !matches!(follow, Follow::Never | Follow::Dirs)
        && read_meta_of(dir, name, MetaMask::default())
            .is_ok_and(|meta| followed_kinds(follow, &meta, path) == Some(Behind::All))
}

/// True if `name` of `dir`, which is at `path` below `root`, is a symlink to a directory that contains the symlink:
/// `dir`, a directory on the path to `dir`, or a directory above the root. A walk that follows such a symlink never
/// ends.
pub(crate) fn leads_back(root: &Dir, dir: &Dir, path: &RelPath, name: &Name) -> bool {
    let is_link = dir.stat(name).is_ok_and(|stat| file_type(&stat).is_symlink());
    is_link
        && dir.stat_behind(name).is_ok_and(|behind| {
            let behind = inode_of(&behind);
            dirs_on_the_way(root, path).chain(dirs_above(root)).any(|is| is == behind)
        })
}

/// Returns the directory `path` below `root`, and each directory on the path.
fn dirs_on_the_way(root: &Dir, path: &RelPath) -> impl Iterator<Item = Inode> {
    let paths = successors(Some(path.clone()), |path| path.split_last().map(|(above, _)| above));
    paths.filter_map(|path| {
        let stat = fstat(root.open_dir(&path, Use::Pass).ok()?).ok()?;
        Some(inode_of(&stat))
    })
}

/// Returns the directories above `root`, up to the root of the system.
fn dirs_above(root: &Dir) -> impl Iterator<Item = Inode> {
    let up = move |times: usize| {
        let stat = statat(root, "../".repeat(times), AtFlags::empty()).ok()?;
        Some((times, inode_of(&stat)))
    };
    let next = move |(times, is): &(usize, Inode)| up(times + 1).filter(|(_, above)| above != is);
    successors(up(1), next).map(|(_, is)| is)
}
