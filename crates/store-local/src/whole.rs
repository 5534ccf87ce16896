//! Small files that are new here, put in place whole: staged, set and renamed as any other version is, with as few
//! system calls as that takes. A first copy is mostly these.
//!
//! What a [`LocalRebuild`](super::rebuild::LocalRebuild) does besides is for versions that grow for a while: to give
//! the file its length, to look whether the staged one is still ours, to leave it to the next run.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs;
use rustix::io::Errno;

use super::attrs::{Attrs, NewMode, On};
use super::copy::write_at;
use super::inner::Inner;
use super::place::{COMMIT, Place};
use super::stage::{Staged, Whose, discard};
use crate::errno::At;
use deltic_store::{Keep, StoreError, Unset, Version, Whole};

/// Puts a file in `place`, where nothing is.
pub(super) fn put_new(
    store: &Inner,
    place: &Place,
    (file, keep): (&Whole<'_>, Keep),
) -> Result<Option<Version>, StoreError> {
    let heritage = store.heritage(place).at(COMMIT, &place.path)?;
    let attrs =
        Attrs::of_new(file.meta, (keep, store.ways()), NewMode::below(heritage, store.makes.umask));
    let what = (file.bytes, &attrs);
    let reserved = store.reserve(&place.path, file.bytes.len() as u64)?;
    if let Some(put) = put_nameless(store, place, what) {
        reserved.keep_if(&put);
        store.tell_if_put(&place.path, &put);
        return put;
    }
    let staged = store.stages.create_as(place, attrs.birth_mode(store.makes.owner))?;
    let put = fill(store, place, &staged.file, what);
    let put = put.and_then(|unset| land(store, place, &staged).map(|()| unset));
    if put.is_err()
        && let Ok(dir) = store.stages.dir(&staged.home)
    {
        // All of it is at hand: nobody will want to go on with a part of it.
        discard(&dir, &staged.name);
    }
    reserved.keep_if(&put);
    store.tell_if_put(&place.path, &put);
    put?.of(&place.path)?;
    Ok(store.version_written(&staged.file))
}

/// The same with a file that gets its first name in its place. `None`, if it must have one before: to be flushed, or
/// because this file system or kernel wants it so.
fn put_nameless(
    store: &Inner,
    place: &Place,
    what: (&[u8], &Attrs<'_>),
) -> Option<Result<Option<Version>, StoreError>> {
    if store.touched.is_durable() {
        return None;
    }
    let (file, home) = store.stages.create_nameless(place, what.1.birth_mode(store.makes.owner))?;
    let unset = match fill(store, place, &file, what) {
        Ok(unset) => unset,
        Err(error) => return Some(Err(error)),
    };
    match place.dir.put(&file, &place.name) {
        Ok(()) => {
            store.settle(place, (Whose::Own, &home));
            Some(unset.of(&place.path).map(|()| None))
        }
        Err(Errno::EXIST) => Some(Err(StoreError::Conflict { path: place.path.clone() })),
        // If it is not that, a rename will say what it is.
        Err(_) => {
            store.stages.need_names();
            None
        }
    }
}

/// Gives a file that was just made its content and all else; what of its attributes could not be set.
fn fill(
    store: &Inner,
    Place { path, .. }: &Place,
    file: &OwnedFd,
    (bytes, attrs): (&[u8], &Attrs<'_>),
) -> Result<Unset, StoreError> {
    let born = fs::fstat(file).at("create", path)?;
    if !bytes.is_empty() {
        write_at(file.as_fd(), 0, bytes).at("write", path)?;
    }
    let unset = attrs.set_on_new(On::Open(file.as_fd()), &born);
    store.touched.flush_file(file).at("flush", path)?;
    Ok(unset)
}

/// Moves it to its place.
fn land(
    store: &Inner,
    place: &Place,
    Staged { home, name, .. }: &Staged,
) -> Result<(), StoreError> {
    let path = &place.path;
    let dir = store.stages.dir(home).at(COMMIT, path)?;
    match dir.rename_new(name, &place.dir, &place.name) {
        Err(Errno::EXIST) => return Err(StoreError::Conflict { path: path.clone() }),
        landed => landed.at(COMMIT, path)?,
    }
    store.touched.add(&place.dir_path);
    if let Ok(staging) = store.stages.path(home) {
        store.touched.add(&staging);
    }
    store.settle(place, (Whose::Own, home));
    Ok(())
}
