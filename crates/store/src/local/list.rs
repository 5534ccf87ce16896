//! Listing one directory.

use deltic_core::{Entry, Name, RelPath, See};
use rustix::io::Errno;

use super::follow::Follow;
use crate::dir::Dir;
use crate::{Filter, Listing, STAGING_NAME, StoreError};

/// What `dir`, open to read and called `path`, holds and `rules` admit, looked at as `see` says.
pub(super) fn list(dir: &Dir, path: &RelPath, how: (&Filter, Follow, See)) -> Listing {
    let mut listing = Listing::default();
    let mut names = Vec::new();
    let whole = dir.for_each_name(|name| names.push(Name::new(name)));
    if let Err(errno) = whole {
        listing.errors.push(StoreError::new("list", path, errno));
    }
    for name in names {
        match name.ok().and_then(|name| Some((path.join(&name).ok()?, name))) {
            Some((_, name)) if name.as_bytes() == STAGING_NAME => {}
            Some((path, name)) => add(&mut listing, dir, (name, path), how),
            None => {
                listing.errors.push(StoreError::BadName { action: "list", path: path.clone() });
            }
        }
    }
    listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listing
}

/// Adds the entry `name` of `dir`, which is called `path`; one that vanished meanwhile is no entry.
fn add(
    listing: &mut Listing,
    dir: &Dir,
    (name, path): (Name, RelPath),
    (rules, follow, see): (&Filter, Follow, See),
) {
    match follow.look(dir, (&name, &path), see) {
        Ok(meta) if rules.admits(&path, meta.is_dir()) => {
            listing.entries.push(Entry { name, meta });
        }
        Ok(_) | Err(Errno::NOENT) => {}
        Err(errno) => listing.errors.push(StoreError::new("look at", &path, errno)),
    }
}
