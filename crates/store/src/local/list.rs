//! Listing one directory.

use deltic_core::{Entry, Follow, Meta, Name, RelPath, See};
use rustix::io::Errno;

use super::follow;
use super::snapshot::{lasting_device, look_at, look_at_version};
use crate::dir::Dir;
use crate::filter::{Fate, Judge};
use crate::{Listing, STAGING_NAME, StoreError};

/// What `dir`, open to read and called `path`, holds and `judge` admits, looked at as `how` says.
pub(super) fn list(
    dir: &Dir,
    path: &RelPath,
    fates: (&mut Judge, Fate),
    how: (Follow, See),
) -> Listing {
    list_but(dir, path, fates, how, &|_| false)
}

/// The same with the versions of files that are on the device of their directory, as `see` shows them.
pub(super) fn list_versions(
    dir: &Dir,
    path: &RelPath,
    fates: (&mut Judge, Fate),
    see: See,
) -> Listing {
    let device = lasting_device(dir).filter(|_| !see.noted);
    let look = |name: &Name| {
        let (meta, version) = look_at_version(dir, name, see)?;
        let lasts = meta.is_file() && device == Some(version.device());
        Ok((meta, lasts.then_some(version)))
    };
    let (entries, errors) = entries((dir, path), fates, &|_| false, look);
    let (entries, versions) = entries.into_iter().unzip();
    Listing { entries, versions, errors, ..Listing::default() }
}

/// The same but for names that `keep` admits, which are not looked at.
pub(super) fn list_but(
    dir: &Dir,
    path: &RelPath,
    fates: (&mut Judge, Fate),
    how: (Follow, See),
    keep: &dyn Fn(&Name) -> bool,
) -> Listing {
    let look = |name: &Name| Ok((look(dir, (name, path), how)?, ()));
    let (entries, errors) = entries((dir, path), fates, keep, look);
    let entries = entries.into_iter().map(|(entry, ())| entry).collect();
    Listing { entries, errors, ..Listing::default() }
}

/// The entries of `dir` with what `look` tells besides, in order, and what could not be looked at.
fn entries<T>(
    (dir, path): (&Dir, &RelPath),
    (judge, fate): (&mut Judge, Fate),
    keep: &dyn Fn(&Name) -> bool,
    look: impl Fn(&Name) -> Result<(Meta, T), Errno>,
) -> (Vec<(Entry, T)>, Vec<StoreError>) {
    let (mut entries, mut errors, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let whole = dir.for_each_name(|name| names.push(Name::new(name)));
    if let Err(errno) = whole {
        errors.push(StoreError::new("list", path, errno));
    }
    for name in names {
        match name.ok().filter(|name| path.holds(name)) {
            Some(name) if name.as_bytes() == STAGING_NAME || keep(&name) => {}
            Some(name) => match look(&name) {
                Ok((meta, more)) if judge.admits(&name, meta.is_dir(), fate) => {
                    entries.push((Entry { name, meta }, more));
                }
                // One that vanished meanwhile is no entry, and what is left out need not be looked at.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(_) if !judge.admits(&name, false, fate) => {}
                Err(errno) => {
                    let path = path.join(&name).unwrap_or_else(|_| path.clone());
                    errors.push(StoreError::new("look at", &path, errno));
                }
            },
            None => {
                errors.push(StoreError::BadName { action: "list", path: path.clone() });
            }
        }
    }
    entries.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    (entries, errors)
}

/// What `name` of `dir`, which is at `path`, is taken for. Its own path is made only where that matters.
fn look(
    dir: &Dir,
    (name, path): (&Name, &RelPath),
    (follow, see): (Follow, See),
) -> Result<Meta, Errno> {
    match follow {
        Follow::Never => look_at(dir, name, see),
        follow => {
            let path = path.join(name).map_err(|_| Errno::NAMETOOLONG)?;
            follow::look(dir, (name, &path), (follow, see))
        }
    }
}
