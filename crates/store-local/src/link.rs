//! Another name for what this tree has, or a neighbouring one.

use deltic_tree::{ExtraMeta, Meta, MetaMask, RelPath};

use super::backup::Goes;
use super::finished::Expected;
use super::inner::Inner;
use super::more::Reach;
use super::place::Place;
use super::snapshot::{inode_of, look_at};
use super::stage::new_name;
use crate::errno::{At, store_error};
use deltic_store::{Link, StoreError};

/// Gives an entry the name `path` in `store`.
///
/// The link is made in the staging directory and looked at there, so that what takes the place is what was looked at,
/// whatever happens to its first name meanwhile; then it is moved.
pub(super) fn link(
    store: &Inner,
    path: &RelPath,
    link: &Link<'_, Inner>,
) -> Result<(), StoreError> {
    let Link { from, at, is, seen } = *link;
    let place = Place::of(&store.root, LINK, path)?;
    let there = Place::of(&from.root, LINK, at)?;
    let found = place.dir.find(&place.name).at(LINK, path)?;
    let source = there.dir.stat(&there.name).at(LINK, path)?;
    // A rename over another name of the same file does nothing, and leaves both.
    if found.as_ref().is_some_and(|found| inode_of(found) == inode_of(&source)) {
        return Ok(());
    }
    let replaces = seen.map_or(Expected::Nothing, |seen| Expected::Seen(Box::new(seen.clone())));
    replaces.check(&place, store)?;
    let (dir, name) = (store.stages.dir_for(&place)?, new_name(path));
    there.dir.link(&there.name, &dir, &name).at(LINK, path)?;
    let landed = match look_at(&dir, &name, lasting(from.see)) {
        Ok(linked)
            if from.sifted(linked.clone(), || Reach::Name(dir.path_to(&name)))
                == lasting_of(is) =>
        {
            store.back_up(&place, (Goes::Replaced, None), || place.land(&dir, &name).at(LINK, path))
        }
        Ok(_) => Err(StoreError::Changed { path: path.clone() }),
        Err(errno) => Err(store_error(LINK, path, errno)),
    };
    if landed.is_err() {
        // What stays is litter for the sweep.
        let _ = dir.remove_file(&name);
    }
    store.touched.add(&place.dir_path);
    landed
}

/// What stays when a file is read, or gets another name.
fn lasting(see: MetaMask) -> MetaMask {
    MetaMask { accessed: false, linked: false, ..see }
}

/// That part of `meta`.
fn lasting_of(meta: &Meta) -> Meta {
    let more = meta.more.as_deref().cloned().unwrap_or_default();
    Meta { more: ExtraMeta { accessed: None, linked: None, ..more }.boxed(), ..meta.clone() }
}

const LINK: &str = "link";
