//! Small files that are new here, put in place whole: staged, set and renamed as any other version is, with as few system
//! calls as that takes. A first copy is mostly these.
//!
//! What a [`LocalRebuild`](super::rebuild::LocalRebuild) does besides is for versions that grow for a while: to give the
//! file its length, to look whether the staged one is still ours, to leave it to the next run.

use std::os::fd::AsFd;

use rustix::fs;
use rustix::io::Errno;

use super::attrs::{Attrs, On};
use super::copy::write_at;
use super::place::Place;
use super::stage::{Staged, Whose, discard, staging_path};
use super::store::Inner;
use crate::error::At;
use crate::{Keep, StoreError, Unset, Whole};

/// Puts a file in `place`, where nothing is.
pub(super) fn put_new(
    store: &Inner,
    place: &Place,
    (file, keep): (&Whole<'_>, Keep),
) -> Result<(), StoreError> {
    let heritage = store.heritages.of(place).at("commit", &place.path)?;
    let attrs = Attrs::of_new(file.meta, (keep, store.ways()), None, (store.umask, heritage));
    let staged = store.stages.create_as(place, attrs.birth_mode(store.owner))?;
    let put = fill(store, place, (&staged, file.bytes, &attrs));
    if put.is_err()
        && let Ok(dir) = store.stages.dir(&staged.home)
    {
        // All of it is at hand: nobody will want to go on with a part of it.
        discard(&dir, &staged.name);
    }
    put?.of(&place.path)
}

/// What of its attributes could not be set.
fn fill(
    store: &Inner,
    place: &Place,
    (Staged { file, home, name, .. }, bytes, attrs): (&Staged, &[u8], &Attrs<'_>),
) -> Result<Unset, StoreError> {
    let path = &place.path;
    let born = fs::fstat(file).at("create", path)?;
    if !bytes.is_empty() {
        write_at(file.as_fd(), 0, bytes).at("write", path)?;
    }
    let unset = attrs.set_on_new(On::Open(file.as_fd()), &born);
    if store.touched.is_durable() {
        fs::fsync(file).at("flush", path)?;
    }
    let dir = store.stages.dir(home).at("commit", path)?;
    match place.land_new(&dir, name) {
        Err(Errno::EXIST) => return Err(StoreError::Conflict { path: path.clone() }),
        landed => landed.at("commit", path)?,
    }
    store.touched.add(&place.dir_path);
    if let Ok(staging) = staging_path(home) {
        store.touched.add(&staging);
    }
    store.settle(place, (Whose::Own, home));
    Ok(unset)
}
