//! Listing one directory.

use deltic_core::{Entry, Follow, Meta, Name, RelPath, See};
use rustix::io::Errno;

use super::follow;
use super::snapshot::look_at;
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

/// The same but for names that `keep` admits, which are not looked at.
pub(super) fn list_but(
    dir: &Dir,
    path: &RelPath,
    (judge, fate): (&mut Judge, Fate),
    how: (Follow, See),
    keep: &dyn Fn(&Name) -> bool,
) -> Listing {
    let mut listing = Listing::default();
    let mut names = Vec::new();
    let whole = dir.for_each_name(|name| names.push(Name::new(name)));
    if let Err(errno) = whole {
        listing.errors.push(StoreError::new("list", path, errno));
    }
    for name in names {
        match name.ok().filter(|name| path.holds(name)) {
            Some(name) if name.as_bytes() == STAGING_NAME || keep(&name) => {}
            Some(name) => match look(dir, (&name, path), how) {
                Ok(mut meta) if judge.admits(&name, meta.is_dir(), fate) => {
                    judge.sift(&mut meta);
                    listing.entries.push(Entry { name, meta });
                }
                // One that vanished meanwhile is no entry, and what is left out need not be looked at.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(_) if !judge.admits(&name, false, fate) => {}
                Err(errno) => {
                    let path = path.join(&name).unwrap_or_else(|_| path.clone());
                    listing.errors.push(StoreError::new("look at", &path, errno));
                }
            },
            None => {
                listing.errors.push(StoreError::BadName { action: "list", path: path.clone() });
            }
        }
    }
    listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listing
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
