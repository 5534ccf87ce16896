//! Symlinks that are followed on purpose, at the source (`--copy-links` and its like).
//!
//! Whoever asks for that takes what lies behind links for a part of the sources, wherever it is: with `All` behind every
//! link, with `Dirs` behind every link to a directory, with `Unsafe` behind those whose words lead out. So a link that takes
//! the place of another, or of a directory, while we look, shows nothing that it could not have shown before. The last name of
//! a file is followed only if its own link is one of them.

use deltic_core::links::leaves_root;
use deltic_core::{Follow, Kind, Meta, Name, RelPath, See};
use rustix::io::Errno;

use super::snapshot::{look_at, look_behind};
use crate::dir::Dir;

/// Whether the entry that is `meta` at `path` may be looked behind.
fn looks_behind(follow: Follow, meta: &Meta, path: &RelPath) -> bool {
    match (&meta.kind, follow) {
        (Kind::Symlink(_), Follow::Dirs | Follow::All) => true,
        (Kind::Symlink(target), Follow::Unsafe) => leaves_root(path.as_bytes(), target),
        _ => false,
    }
}

/// What `name` of `dir`, which is at `path`, is taken for, looked at as `see` says.
pub(super) fn look(
    dir: &Dir,
    (name, path): (&Name, &RelPath),
    (follow, see): (Follow, See),
) -> Result<Meta, Errno> {
    let meta = look_at(dir, name, see)?;
    if !looks_behind(follow, &meta, path) {
        return Ok(meta);
    }
    match (look_behind(dir, name, see), follow) {
        (Ok(behind), Follow::Dirs) if !behind.is_dir() => Ok(meta),
        (Err(_), Follow::Dirs) => Ok(meta),
        // It is there, but what it points at is not.
        (Err(Errno::NOENT), _) => Err(Errno::LOOP),
        (behind, _) => behind,
    }
}

/// Whether the file `name` of `dir` is opened through its link.
pub(super) fn opens(follow: Follow, dir: &Dir, name: &Name, path: &RelPath) -> bool {
    matches!(follow, Follow::Unsafe | Follow::All)
        && look_at(dir, name, See::default()).is_ok_and(|meta| looks_behind(follow, &meta, path))
}
