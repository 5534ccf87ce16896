//! Listing one directory.

use deltic_core::{Entry, Follow, Name, RelPath, See};
use rustix::io::Errno;

use super::follow;
use crate::dir::Dir;
use crate::filter::{Fate, Judge};
use crate::{Listing, STAGING_NAME, StoreError};

/// What `dir`, open to read and called `path`, holds and `judge` admits, looked at as `how` says.
pub(super) fn list(
    dir: &Dir,
    path: &RelPath,
    (judge, fate): (&mut Judge, Fate),
    how: (Follow, See),
) -> Listing {
    let mut listing = Listing::default();
    let mut names = Vec::new();
    let whole = dir.for_each_name(|name| names.push(Name::new(name)));
    if let Err(errno) = whole {
        listing.errors.push(StoreError::new("list", path, errno));
    }
    for name in names {
        match name.ok().and_then(|name| Some((path.join(&name).ok()?, name))) {
            Some((_, name)) if name.as_bytes() == STAGING_NAME => {}
            Some((path, name)) => match follow::look(dir, (&name, &path), how) {
                Ok(meta) if judge.admits(&name, meta.is_dir(), fate) => {
                    listing.entries.push(Entry { name, meta });
                }
                // One that vanished meanwhile is no entry, and what is left out need not be looked at.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(_) if !judge.admits(&name, false, fate) => {}
                Err(errno) => listing.errors.push(StoreError::new("look at", &path, errno)),
            },
            None => {
                listing.errors.push(StoreError::BadName { action: "list", path: path.clone() });
            }
        }
    }
    listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listing
}
